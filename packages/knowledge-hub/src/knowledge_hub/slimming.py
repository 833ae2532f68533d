"""Fewer entries that say the same: near duplicates are found, merges proposed, and applied one by one."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from knowledge_engine.errors import ConflictError, KnowledgeError, NotFoundError
from knowledge_engine.ports import LanguageModel
from knowledge_hub.entries import Entry, Merge, Merged, SlimAnswer, SlimPlan, Tags
from knowledge_hub.prompts import MERGING, MergedSet, MergedSets, merging_prompt
from knowledge_hub.similarity import ALIKE, Bands, Groups, shingles, similarity
from knowledge_hub.store import EntryStore, Stamp

RULE = "rule"
#: Groups that are larger are proposed in parts.
_MAX_GROUP = 12
#: The most of a group that goes to a model, in characters.
_MAX_PROMPT_CHARS = 60_000
#: Of so many entries, the latest, others with the same words are looked up: by so many words, so many others, that are
#: that good beside the entry itself.
_LOOKED_UP, _LOOKED_UP_WORDS, _NEAREST, _NEARLY = 200, 40, 3, 0.6


def make_plan(store: EntryStore, model: LanguageModel | None, *, timeout_s: float) -> SlimPlan:
    """What slimming would do: reads each entry once, and those that look alike once more."""
    ids, groups = _alike(store, by_words=model is not None)
    merges, dropped = list[Merge](), list[str]()
    seen = dict[str, int]()
    for group in groups:
        some = store.some([ids[number] for number in group])
        entries = [one for number in group if (one := some.get(ids[number])) and one.status == "active"]
        seen |= {one.id: one.version for one in entries}
        if model is None:
            merges += _by_rule(entries)
            continue
        parts = _parts(entries)
        shown = {one.id for part in parts for one in part}
        if alone := [one.id for one in entries if one.id not in shown]:
            dropped.append(f"{', '.join(alone)}: too long to be shown to the model beside others")
        for part in parts:
            found, problem = _by_model(part, model, timeout_s)
            merges += found
            dropped += [problem] if problem else []
    plan = SlimPlan(entries=len(ids), merges=tuple(merges), dropped=tuple(dropped))
    named = {one for merge in merges for one in (merge.keep, *merge.merged)}
    versions = {one: version for one, version in seen.items() if one in named}
    return plan.model_copy(update={"versions": versions, "plan_id": _plan_id(plan, versions)})


def _alike(store: EntryStore, *, by_words: bool) -> tuple[list[str], list[list[int]]]:
    """All ids, and groups of places in them: entries that are near duplicates of one in their group.

    Args:
        by_words: Whether what only has the same words is looked for too. A model can tell whether it says the same, the
            rule cannot.
    """
    ids, bands, groups = list[str](), Bands(), Groups()
    alike = set[int]()
    # Exact shares need the shingles of both: of those that meet again and again, a few are kept.
    kept = _Recent(store, ids)
    for entry in store.texts():
        bands.add(len(ids), shingles(entry))
        ids.append(entry.id)
    for earlier, later in bands.near():
        if similarity(kept.of(later), kept.of(earlier)) >= ALIKE:
            groups.join(later, earlier)
            alike |= {later, earlier}
    if by_words:
        places = {one: number for number, one in enumerate(ids)}
        for one, other in _same_words(store):
            if one in places and other in places:  # neither was saved just now
                groups.join(places[one], places[other])
                alike |= {places[one], places[other]}
    return ids, list(groups.of(alike))


def _same_words(store: EntryStore) -> Iterator[tuple[str, str]]:
    """Of the latest entries, those that BM25 finds nearly as good an answer to their words as they are themselves."""
    for entry in store.listed(_LOOKED_UP, (), "active", ""):
        words = " ".join(f"{entry.scenario}\n{entry.content}".split()[:_LOOKED_UP_WORDS])
        found = list(islice(store.ranked(words, (), _NEAREST + 1), _NEAREST + 1))
        own = next((one.relevance for one in found if one.id == entry.id), None)
        if own is not None:
            yield from ((entry.id, one.id) for one in found if one.id != entry.id and one.relevance >= _NEARLY * own)


class _Recent:
    """Shingles of the entries that were needed lately; others are read again."""

    def __init__(self, store: EntryStore, ids: Sequence[str], most: int = 2_000) -> None:
        self._store, self._ids, self._most = store, ids, most
        self._found: dict[int, array[int]] = {}

    def add(self, number: int, found: frozenset[int]) -> None:
        if len(self._found) >= self._most:
            del self._found[next(iter(self._found))]
        self._found[number] = array("I", found)

    def of(self, number: int) -> frozenset[int]:
        """Those of an entry; none if it was deleted meanwhile."""
        if number in self._found:
            return frozenset(self._found[number])
        entry = self._store.some([self._ids[number]]).get(self._ids[number])
        found = shingles(entry) if entry else frozenset[int]()
        self.add(number, found)
        return found


# Proposals


def _by_rule(entries: Sequence[Entry]) -> list[Merge]:
    """The best entry stands for those that are near duplicates of itself; the rest is looked at in turn."""
    left = sorted(entries, key=lambda one: (-one.eval.quality, -len(one.content), one.created_at, one.id))
    texts = {one.id: shingles(one) for one in left}
    telling = {one.id: _telling(one) for one in left}
    merges = []
    while left:
        best, *others = left
        same, apart = list[Entry](), list[Entry]()
        for one in others:
            # Where near duplicates differ in numbers or negations, what they say differs.
            agrees = telling[best.id] == telling[one.id] and similarity(texts[best.id], texts[one.id]) >= ALIKE
            (same if agrees else apart).append(one)
        left = apart
        if same:
            least = min(similarity(texts[best.id], texts[one.id]) for one in same)
            merges.append(_merge(best, same, best.scenario, best.content, least, RULE))
    return merges


def _telling(entry: Entry) -> frozenset[str]:
    """Its numbers, names with digits, and negations."""
    words = f"{entry.scenario}\n{entry.content}".casefold().split()
    stripped = (word.strip(".,;:!?()[]{}\"'`*_") for word in words)
    return frozenset(word for word in stripped if word in _NEGATIONS or any(char.isdigit() for char in word))


_NEGATIONS = frozenset(
    (
        *("not", "no", "never", "cannot", "can't", "don't", "doesn't", "won't", "isn't", "without", "except", "unless"),
        *("disable", "disabled", "off", "false", "deny", "denied", "nicht", "kein", "keine", "ohne", "nie", "non"),
        *("pas", "jamais", "sin", "nunca", "不", "没", "没有", "无", "非", "勿"),
    )
)


def _merge(
    kept: Entry, others: Sequence[Entry], scenario: str, content: str, least: float, by: str, types: Sequence[str] = ()
) -> Merge:
    everyone = (kept, *others)
    kinds = types or tuple(kind for one in everyone for kind in one.tags.type)
    return Merge(
        keep=kept.id,
        merged=tuple(one.id for one in others),
        scenario=scenario,
        content=content,
        tags=Tags.model_validate({"type": tuple(kinds)}),
        similarity=round(least, 4),
        by=by,
    )


def _parts(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Parts of a group that a prompt has room for."""
    parts: list[list[Entry]] = [[]]
    size = 0
    for one in entries:
        length = len(one.scenario) + len(one.content)
        if parts[-1] and (len(parts[-1]) == _MAX_GROUP or size + length > _MAX_PROMPT_CHARS):
            parts.append([])
            size = 0
        parts[-1].append(one)
        size += length
    return [part for part in parts if len(part) > 1]


def _by_model(entries: Sequence[Entry], model: LanguageModel, timeout_s: float) -> tuple[list[Merge], str]:
    """What a model proposes for a group, and why something of it was dropped, if anything was."""
    named = ", ".join(one.id for one in entries)
    try:
        answer = model.ask(merging_prompt(entries), MergedSets, instructions=MERGING, timeout_s=timeout_s)
    except KnowledgeError as error:
        return [], f"{named}: the model proposed nothing ({error.code})"
    by_id = {one.id: one for one in entries}
    merges, problems, used = list[Merge](), list[str](), set[str]()
    for one in answer.sets:
        if problem := _problem(one, by_id, used):
            problems.append(problem)
            continue
        used |= set(one.ids)
        members = sorted((by_id[each] for each in one.ids), key=lambda each: (-each.eval.quality, each.created_at))
        texts = [shingles(each) for each in members]
        least = min(similarity(texts[0], text) for text in texts[1:])
        merges.append(_merge(members[0], members[1:], one.scenario, one.content, least, model.name, one.types))
    return merges, f"{named}: {'; '.join(problems)}" if problems else ""


def _problem(proposed: MergedSet, known: Collection[str], used: Collection[str]) -> str:
    if any(one not in known for one in proposed.ids):
        return "the model named ids that are not in the group"
    if len(set(proposed.ids)) != len(proposed.ids) or any(one in used for one in proposed.ids):
        return "the model used an id twice"
    if len(proposed.ids) < 2:
        return "the model merged one entry with nothing"
    if not proposed.scenario.strip() or not proposed.content.strip():
        return "the model wrote nothing"
    return ""


# Applying


def _plan_id(plan: SlimPlan, versions: dict[str, int]) -> str:
    merges = "\n".join(one.model_dump_json() for one in plan.merges)
    return hashlib.sha256(f"{merges}\n{sorted(versions.items())}".encode()).hexdigest()[:16]


def apply_plan(store: EntryStore, plan: SlimPlan, stamp: Stamp, chosen: Collection[str] | None) -> SlimAnswer:
    """Applies a plan, each merge in a transaction of its own."""
    _, before = store.size()
    applied, skipped = list[Merged](), list[str]()
    for merge in plan.merges:
        if chosen is not None and merge.keep not in chosen:
            continue
        why = f"merged: {', '.join(merge.merged)} into it, by {merge.by}"
        try:
            applied.append(store.merged(merge, plan.versions, stamp._replace(why=why)))
        except (ConflictError, NotFoundError) as error:
            skipped.append(f"{merge.keep}: {error.problem}")
    _, after = store.size()
    return SlimAnswer(before=before, after=after, applied=tuple(applied), skipped=tuple(skipped))
