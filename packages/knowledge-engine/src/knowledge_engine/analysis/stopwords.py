"""Function words: in nearly every text, and so of no use in a query. Closed word classes only.

Left in on purpose: what also means something in technical text (on, off, up, down, in, out, no, not, can, will).
"""

from __future__ import annotations

_LISTS = {
    "english": """
        a an the this that these those and or but if then than as at by for from of to with into onto is are was were
        be been being am do does did has have had having it its he him his she her hers they them their theirs we us
        our ours you your yours i me my mine who whom whose which what when where why how there here such so too very
        could should would may might must shall also any some each about
    """,
    "german": """
        der die das den dem des ein eine einen einem einer eines und oder aber wenn dann als wie bei von vom zu zum
        zur mit für ist sind war waren sein wird werden wurde wurden hat haben hatte hatten er sie es wir ihr ich du
        mich dich sich uns euch mein dein sein ihre ihrer ihren dieser diese dieses diesem diesen jener jene welche
        welcher welches was wer wo wann warum auch so sehr da dass daß durch im am
    """,
    "french": """
        le la les l un une des du de d et ou mais si que qui quoi dont où ce cet cette ces il elle ils elles nous vous
        je tu on me te se son sa ses leur leurs mon ma mes ton ta tes notre nos votre vos est sont était étaient être
        été ai as a ont avait avaient avoir au aux à en dans par pour avec sur comme plus quel quelle quels quelles
    """,
    "spanish": """
        el la los las un una unos unas y e o u pero si que qué quien quién cual cuál como cómo cuando cuándo donde dónde
        de del a al en por para con es son era eran ser sido está están estaba ha han había yo tú él ella ellos ellas
        nosotros me te se le les lo su sus mi mis tu tus nuestro nuestra este esta estos estas ese esa eso esos esas
    """,
    "italian": """
        il lo la i gli le l un uno una e ed o ma se che chi cui come quando dove perché di del della dello dei degli
        delle a al alla ai alle da dal dalla in nel nella con per su sul sulla è sono era erano essere stato ha hanno
        aveva io tu lui lei noi voi loro mi ti si ci vi suo sua suoi sue mio mia questo questa questi queste quello
    """,
    "portuguese": """
        o a os as um uma uns umas e ou mas se que quem qual como quando onde de do da dos das em no na nos nas por pelo
        pela para com é são era eram ser foi foram está estão há tem têm eu tu ele ela eles elas nós me te lhe seu sua
        seus suas meu minha este esta estes estas esse essa isso aquele aquela
    """,
    "dutch": """
        de het een en of maar als dan die dat deze dit wie wat waar wanneer waarom hoe van naar met voor bij te tot door
        is zijn was waren wordt worden werd werden heeft hebben had hadden ik jij je hij zij ze wij we u mij hem haar
        ons hun mijn jouw er ook zo om aan
    """,
    "swedish": """
        en ett den det de och eller men om att som vem vad var när varför hur av till från med för är var vara varit har
        hade jag du han hon vi ni dem mig dig sig oss min din sin sitt sina denna detta dessa så
    """,
    "danish": """
        en et den det de og eller men hvis at som hvem hvad hvor hvornår hvorfor hvordan af til fra med for er var være
        været har havde jeg du han hun vi dem mig dig sig os min din sin sit sine denne dette disse så
    """,
    "norwegian": """
        en et ei den det de og eller men hvis at som hvem hva hvor når hvorfor hvordan av til fra med for er var være
        vært har hadde jeg du han hun vi dem meg deg seg oss min din sin sitt sine denne dette disse så
    """,
    "russian": """
        и или но а если то что чтобы как кто где когда почему в во на с со к ко у о об от до из за по для при это этот
        эта эти тот та те был была было были быть есть я ты он она оно мы вы они его её ее их мой твой наш ваш свой
        который которая которые же ли бы
    """,
    "finnish": """
        ja tai mutta jos että kuin niin joka jotka mikä mitä kuka missä milloin miksi miten on ovat oli olivat olla
        ollut minä sinä hän me te he se ne tämä tuo nämä nuo sen sitä hänen
    """,
}

#: Folded words a language; a language without a list drops none (rare words decide by their weight anyway).
STOP_WORDS: dict[str, frozenset[str]] = {
    language: frozenset(word.casefold() for word in words.split()) for language, words in _LISTS.items()
}
