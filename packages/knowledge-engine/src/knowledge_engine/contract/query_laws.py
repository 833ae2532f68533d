"""Laws of asking: what is found, what is not, and in which order."""

from __future__ import annotations

import math
import unicodedata

from hypothesis import strategies as st

from knowledge_engine.analysis import Analyzer
from knowledge_engine.contract.asking import ask, equal_answers, every_hit, found, places, texts
from knowledge_engine.contract.case import ProviderCase
from knowledge_engine.contract.corpora import ABSENT, RARE, WORDS, corpora, queries, sample, spellings, words_of
from knowledge_engine.contract.law import law, need, refused, same
from knowledge_engine.errors import QueryTooLongError
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import MAX_QUERY_CHARS, Hit, Query
from knowledge_engine.ranking import sort_key

_QUERY = "IKnowledgeProvider.query"
_ANALYSIS = "one analysis for every backend: knowledge_engine.analysis"


@law("read", source=_QUERY, hint="a query whose terms are none: it must not become one for everything")
def query_without_words(case: ProviderCase) -> None:
    """A query that holds no searchable word gives no hits."""
    provider = case.open()
    text = case.pick(["", " ", "\n\t", "???", '"', "*", "()", "--", "。", "\u200b", "¿!?", "%", "\x00"], "query")
    result = ask(provider, text)
    same((result.hits, result.next_cursor, result.truncated), ((), None, False), "hits, next_cursor, truncated")


@law(
    "read",
    source="matching documents always score above 0",
    hint="tokens of index and query; passages that are left out",
)
def query_finds_every_word(case: ProviderCase) -> None:
    """A word that stands in a document's body finds that document, in any script, in any place."""
    provider = case.open()
    docs = texts(sample(case.docs))
    words = {(one, word) for one, raw in docs.items() for word in words_of(one, raw)}
    chosen = case.draw(st.lists(st.sampled_from(sorted(words)), max_size=6), "words") if words else []
    for one, word in chosen:
        need(one in found(provider, word), f"{word!r} stands in {one!r} and does not find it")


@law("read", source="any word of a query may match", hint="whether several words are joined by AND or by OR")
def query_matches_any_word(case: ProviderCase) -> None:
    """A query of several words finds what each of them finds."""
    provider = case.open()
    words = case.draw(st.lists(queries(case.docs, 1), min_size=2, max_size=4), "words")
    together = found(provider, " ".join([*words, ABSENT[0]]))
    for word in words:
        # Function words count only where nothing else is asked.
        if not _is_function_word(word):
            missing = found(provider, word) - together
            need(not missing, f"{word!r} alone finds {sorted(missing)}, with other words it does not")


def _is_function_word(word: str) -> bool:
    terms = Analyzer().query_terms
    return terms(f"{word} {ABSENT[0]}") == terms(ABSENT[0])


@law(
    "read",
    source="match NFC, casefold, ignore invisible characters",
    needs=["corpus"],
    hint="that index and query fold a word in the same way",
)
def query_finds_other_spellings(case: ProviderCase) -> None:
    """A word is found however it is written: composed or not, in capitals, with invisible characters."""
    word = case.pick([word for word in WORDS if len(word) > 1], "word")
    written, asked = (case.pick(spellings(word), name) for name in ("written", "asked"))
    provider = case.open({"a.md": f"before {written} after".encode(), "b.md": b"other"})
    need("a.md" in found(provider, asked), f"{asked!r} does not find {written!r}")


@law("read", source=_ANALYSIS, needs=["corpus"], hint="scripts without spaces: single characters are terms, too")
def query_finds_single_characters(case: ProviderCase) -> None:
    """In scripts written without spaces a single character finds the text that it stands in."""
    text = case.pick(["水温センサを確認する", "밸브를 연다", "阀门控制", "ポンプ"], "text")
    char = case.pick([one for one in text if unicodedata.category(one) == "Lo"], "character")
    provider = case.open({"a.md": f"# x\n\n{text}\n".encode(), "b.md": b"other"})
    same(found(provider, char), {"a.md"}, f"what {char!r} finds")


_PARTS = {
    "S7-1200": ["S7-1200", "s7", "1200"],
    "modbus_tcp": ["modbus_tcp", "MODBUS", "tcp"],
    "readHTTPStatus": ["readHTTPStatus", "readhttpstatus", "read", "HTTP", "status"],
    "C++": ["C++", "c++"],
    ".NET": [".NET", ".net", "net"],
    "10.0.0.1": ["10.0.0.1"],
    "O'Brien": ["O'Brien", "o\u2019brien", "Brien"],
}


@law("read", source=_ANALYSIS, needs=["corpus"], hint="identifiers: whole and in parts, for index and query alike")
def query_finds_identifiers(case: ProviderCase) -> None:
    """An identifier is found whole and by its parts."""
    name = case.pick(_PARTS, "identifier")
    provider = case.open({"a.md": f"uses {name}, mostly".encode(), "b.md": b"other"})
    for part in _PARTS[name]:
        same(found(provider, part), {"a.md"}, f"what {part!r} finds")


@law("read", source="never a silently wider result", hint="fuzzy matches, prefixes and stale entries of the index")
def query_finds_nothing_else(case: ProviderCase) -> None:
    """A word that stands in no document finds none."""
    provider = case.open()
    absent = case.pick(ABSENT, "word")
    if not any(absent in (one + raw.decode("utf-8", "ignore")).casefold() for one, raw in sample(case.docs).items()):
        same(found(provider, absent), set(), f"what {absent!r} finds")


@law(
    "read",
    source="Hit.score; matching documents always score above 0",
    hint="the idf: its smoothed form is never negative",
)
def scores_positive(case: ProviderCase) -> None:
    """Scores are finite and above 0."""
    provider, query = case.crowd()
    for hit in every_hit(provider, query, per_source=5):
        need(math.isfinite(hit.score) and hit.score > 0, f"the score of {hit.chunk_id!r} is {hit.score!r}")


@law("read", source=_QUERY, hint="knowledge_engine.ranking.sort_key, and sorts that compare rounded scores")
def order_of_hits(case: ProviderCase) -> None:
    """Hits come by score, descending; equal scores by source id, then by start byte."""
    docs = case.corpus
    if docs is None:
        # Equal documents under different ids: ties.
        raw = case.draw(st.sampled_from([b"valve", b"# A\n\nvalve\n\n# B\n\nvalve\n"]), "text")
        docs = dict.fromkeys(("b.md", "a.md", "guides/a.md", "B.md", "ä.md"), raw)
        docs |= case.draw(corpora(max_size=3), "others")
    provider = case.open(docs)
    hits = every_hit(provider, case.draw(st.one_of(st.just("valve"), queries(case.docs)), "query"), per_source=5)
    keys = [sort_key(hit.score, hit.source_id, hit.span.start) for hit in hits]
    same(keys, sorted(keys), "the order of (-score, id, start)")
    need(len(set(keys)) == len(keys), "a passage comes twice")


@law("read", source="deterministic order", hint="sets and dictionaries whose order decides, and caches")
def answers_repeat(case: ProviderCase) -> None:
    """The same question gets the same answer, again and from another opening of the same documents."""
    provider = case.open()
    query = case.draw(queries(case.docs), "query")
    first = ask(provider, query, per_source=3)
    equal_answers(ask(provider, query, per_source=3), first, "asked again")
    if case.corpus is None:
        other = case.open(dict(reversed([*case.docs.items()])))
        equal_answers(ask(other, query, per_source=3), first, "opened again")


@law("read", source="Query.top_k", hint="whether `top_k` only cuts the ranking, or changes it")
def top_k_cuts(case: ProviderCase) -> None:
    """The first k hits are the beginning of all hits."""
    provider, query = case.crowd()
    k = case.draw(st.integers(1, 4), "top_k")
    whole = every_hit(provider, query, per_source=2)
    same(places(ask(provider, query, per_source=2, top_k=k).hits), places(whole[:k]), f"the first {k} hits")


@law(
    "read",
    source="Query.per_source: one hit a source unless the caller asks for more",
    hint="where hits of one source are counted",
)
def per_source_counts(case: ProviderCase) -> None:
    """At most `per_source` hits of one source, its best ones; 1 by default."""
    provider, query = case.crowd()
    most = case.draw(st.integers(1, 3), "per_source")
    everything = every_hit(provider, query, per_source=1000)
    for hits, n in ((every_hit(provider, query), 1), (every_hit(provider, query, per_source=most), most)):
        kept = [place for at, place in enumerate(places(everything)) if _before(everything, at) < n]
        same(places(hits), kept, f"hits with per_source={n}")


def _before(hits: list[Hit], at: int) -> int:
    return sum(hit.source_id == hits[at].source_id for hit in hits[:at])


@law("read", source="Query.min_score", hint="whether the bound itself is let through")
def min_score_bounds(case: ProviderCase) -> None:
    """`min_score` leaves out exactly the hits below it."""
    provider, query = case.crowd()
    hits = every_hit(provider, query)
    if hits:
        bound = case.pick(sorted({hit.score for hit in hits}), "min_score")
        kept = [hit for hit in hits if hit.score >= bound]
        same(places(every_hit(provider, query, min_score=bound)), places(kept), f"hits with min_score={bound}")


_SIGNS = (
    '"{}', '"{}"', "({}", "{})", "{}*", "{} AND " + ABSENT[0], "NOT {}", "{} NEAR", "title:{}", "-{}", "+{}", "{}'; --",
    "{}^2", "/{}/", "{} OR", "[{}]", "\\{}", "{}\x00", "%{}%", "{{{}}}", "{} ; DROP TABLE x", "<b>{}</b>", "{}~", "{}?",
)  # fmt: skip


@law(
    "read",
    source="user text is never query language",
    hint="escaping; better, pass terms and not text to the engine below",
)
def query_is_no_language(case: ProviderCase) -> None:
    """Quotes, operators, wildcards and brackets around a word do not keep it from being found, and raise nothing."""
    provider = case.open()
    docs = texts(sample(case.docs))
    plain = sorted({(one, word) for one, raw in docs.items() for word in words_of(one, raw) if word.isalpha()})
    if plain:
        one, word = case.pick(plain, "word")
        text = case.pick(_SIGNS, "signs").format(word)
        said = found(provider, text)
        need(one in said or _is_function_word(word), f"{text!r} does not find {one!r}, where {word!r} stands")


@law("read", source="models.MAX_QUERY_CHARS", hint="the check of the query's length, in characters")
def query_too_long(case: ProviderCase) -> None:
    """A query over the limit is a QueryTooLongError; one at the limit is a query."""
    provider = case.open()
    char = case.pick(["x", " ", "水", "x ", "🔧"], "character")
    long = (char * MAX_QUERY_CHARS)[:MAX_QUERY_CHARS]
    provider.query(Query(query=long))
    refused(lambda: provider.query(Query(query=long + "x")), QueryTooLongError, "a query over the limit")


@law("read", source="Hit", hint="from which state of the source the hit's fields are taken")
def hit_names_its_source(case: ProviderCase) -> None:
    """A hit's title and metadata are its source's, its chunk has one name, and it is marked as untrusted."""
    provider, query = case.crowd()
    names: dict[str, int] = {}
    for hit in every_hit(provider, query, per_source=5):
        source = provider.get_source(hit.source_id)
        same((hit.title, hit.metadata), (source.title, source.metadata), f"title and metadata of {hit.chunk_id!r}")
        same(hit.untrusted, True, "`untrusted`")
        need(hit.chunk_id, "a hit has no chunk_id")
        names[hit.chunk_id] = names.get(hit.chunk_id, 0) + 1
    same(max(names.values(), default=1), 1, "how often a chunk_id comes")


@law(
    "read",
    source="knowledge_engine.ranking: the formula",
    needs=["reference-ranking"],
    hint="passages, term frequencies and field weights, against knowledge_engine.memory",
)
def reference_ranking(case: ProviderCase) -> None:
    """Hits, spans, texts, snippets and scores are those of the reference, bit for bit."""
    provider = case.open()
    query = Query(query=case.draw(queries(case.docs), "query"), per_source=case.draw(st.integers(1, 3), "per_source"))
    expected, actual = MemoryProvider(case.docs).query(query).hits, provider.query(query).hits
    same(places(actual), places(expected), "the hits")
    for mine, theirs in zip(actual, expected, strict=True):
        for field in ("score", "span", "text", "content_hash", "snippet", "heading_path", "title", "chunk_id"):
            same(getattr(mine, field), getattr(theirs, field), f"`{field}` of {theirs.chunk_id!r}")


@law(
    "read",
    source="Frontmatter text is not searched, except title, aliases, keywords, summary",
    needs=["corpus"],
    hint="what of the frontmatter goes into the index",
)
def catalogue_fields_are_searched(case: ProviderCase) -> None:
    """Title, aliases, keywords and summary are searched; other frontmatter is not."""
    field = case.pick(["title", "aliases", "keywords", "summary", "vendor"], "field")
    word = case.pick(RARE, "word")
    provider = case.open({"a.md": f"---\n{field}: {word}\n---\ntext".encode(), "b.md": b"text"})
    same(found(provider, word), set() if field == "vendor" else {"a.md"}, f"what {word!r} in {field!r} finds")
