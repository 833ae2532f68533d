"""Checking laws without a test framework: one at a time, or all of them for a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import strategies as st
from hypothesis.control import current_build_context
from hypothesis.errors import Flaky, HypothesisException

from knowledge_engine.contract import (
    citation_laws,
    durability_laws,
    filter_laws,
    fs_laws,
    model_laws,
    parity_laws,
    power_laws,
    query_laws,
    read_laws,
    write_laws,
)
from knowledge_engine.contract.case import (
    POWERS,
    FsCase,
    OpenFs,
    OpenProvider,
    ProviderCase,
    fs_powers,
    provider_powers,
)
from knowledge_engine.contract.law import LEVELS, BrokenLawError, Law, Level, laws_in
from knowledge_engine.contract.profiles import Profile, profile, searching
from knowledge_engine.errors import InvalidArgumentError

#: The laws of providers, by name, in order of level. Those of level `parity` need a reference.
LAWS: Mapping[str, Law] = laws_in(
    read_laws, query_laws, filter_laws, citation_laws, write_laws, power_laws, model_laws, durability_laws, parity_laws
)
#: The laws of file ports.
FS_LAWS: Mapping[str, Law] = laws_in(fs_laws)


@dataclass(frozen=True)
class Failure:
    """A law that was broken."""

    law: str
    level: Level
    problem: str
    example: str
    source: str
    hint: str


@dataclass(frozen=True)
class Report:
    """What became of the laws."""

    passed: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()
    #: Laws that say nothing about this backend, with what it lacks.
    skipped: Mapping[str, str] = field(default_factory=dict)
    #: Laws that are broken as announced, with the reason.
    waived: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether no law was broken."""
        return not self.failed

    @property
    def level(self) -> Level | Literal["none"]:
        """The last level that laws were passed of, with none broken up to it."""
        broken = {failure.level for failure in self.failed}
        reached: Level | Literal["none"] = "none"
        passed = {LAWS[name].level for name in self.passed}
        for level in LEVELS:
            if level in broken:
                break
            reached = level if level in passed else reached
        return reached


@dataclass(frozen=True)
class Subject:
    """Something that laws are checked on: how to open it, and what is known of it."""

    new_case: Callable[[st.DataObject], Any]
    find_powers: Callable[[], frozenset[str]]
    max_examples: int | None = None
    depth: Profile | None = None

    def lacks(self, law: Law, powers: frozenset[str]) -> str:
        """What the law needs and the backend has not; empty if it applies."""
        return "; ".join(f"needs {POWERS[need]}" for need in sorted(law.needs - powers))

    def check(self, law: Law) -> None:
        """Raises BrokenLawError, with the smallest example, if the law does not hold."""
        chosen = self.depth or profile()
        wanted = chosen.max_examples if self.max_examples is None else self.max_examples
        last: list[BrokenLawError] = []
        until: list[float] = []
        cut_short: list[bool] = []

        def run(data: st.DataObject) -> None:
            # Hypothesis would shrink for minutes; the last call tells the example that it settles on.
            if until and time.monotonic() > until[0] and not current_build_context().is_final:
                cut_short.append(True)
                return
            with self.new_case(data) as case:
                try:
                    law.check(case)
                except HypothesisException:
                    raise
                except Exception as error:
                    problem = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
                    broken = BrokenLawError(law, problem, case.told())
                    last[:] = [broken]
                    until[:] = until or [time.monotonic() + chosen.shrink_s]
                    raise broken from error

        test = searching(law.name, run, max(1, round(wanted * law.share)), random=not chosen.derandomize)
        try:
            test()
        except Flaky as error:
            if not last:
                raise
            # Where the search for a smaller example was ended, hypothesis cannot tell that from chance.
            doubt = "" if cut_short else " (not each time)"
            raise BrokenLawError(law, last[0].problem + doubt, last[0].example) from error


def provider_subject(
    open_provider: OpenProvider,
    *,
    corpus: Mapping[str, bytes] | None = None,
    max_examples: int | None = None,
    reference_ranking: bool | None = None,
    reference: OpenProvider | None = None,
    depth: Profile | None = None,
) -> Subject:
    """A provider as a subject; `reference` opens what parity is measured against."""
    return Subject(
        lambda data: ProviderCase(open_provider, data, corpus, reference),
        lambda: provider_powers(open_provider, corpus, reference_ranking),
        max_examples,
        depth,
    )


def fs_subject(open_fs: OpenFs, *, max_examples: int | None = None) -> Subject:
    """A file port as a subject."""
    return Subject(lambda data: FsCase(open_fs, data), lambda: fs_powers(open_fs), max_examples)


def chosen_laws(known: Mapping[str, Law], names: Iterable[str]) -> list[Law]:
    """The laws of these names.

    Raises:
        InvalidArgumentError: For a name that is none; it lists the known ones.
    """
    wanted = list(names)
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        raise InvalidArgumentError(f"There is no law {', '.join(unknown)}", mend=f"Known are: {', '.join(known)}.")
    return [known[name] for name in wanted]


def check_law(
    name: str,
    open_provider: OpenProvider,
    *,
    corpus: Mapping[str, bytes] | None = None,
    max_examples: int | None = None,
    reference: OpenProvider | None = None,
    depth: Profile | None = None,
) -> None:
    """Checks one law, whatever it needs; see `provider_contract` for the arguments.

    Args:
        reference: Opens what laws of parity compare with.
        depth: How deep to look; by default what the environment says.

    Raises:
        BrokenLawError: With law, cause, source, hint and the smallest example.
        InvalidArgumentError: For a name that is no law's.
    """
    (law,) = chosen_laws(LAWS, [name])
    subject = provider_subject(
        open_provider, corpus=corpus, max_examples=max_examples, reference=reference, depth=depth
    )
    subject.check(law)


def run_contract(
    open_provider: OpenProvider,
    *,
    corpus: Mapping[str, bytes] | None = None,
    laws: Iterable[str] | None = None,
    levels: Collection[Level] = LEVELS,
    max_examples: int | None = None,
    waived: Mapping[str, str] | None = None,
    reference_ranking: bool | None = None,
    reference: OpenProvider | None = None,
    depth: Profile | None = None,
    progress: Callable[[Law], None] = lambda _law: None,
) -> Report:
    """Checks laws and reports; see `provider_contract` for the other arguments.

    Args:
        laws: Names; by default all.
        levels: Laws of other levels are left out. Those of `parity` are, without a `reference`.
        depth: How deep to look; by default what the environment says.
        progress: Told of each law before it is checked.

    Raises:
        InvalidArgumentError: For a name that is no law's.
    """
    excused = dict(waived or {})
    chosen_laws(LAWS, excused)
    subject = provider_subject(
        open_provider,
        corpus=corpus,
        max_examples=max_examples,
        reference_ranking=reference_ranking,
        reference=reference,
        depth=depth,
    )
    powers = subject.find_powers()
    passed, failed = list[str](), list[Failure]()
    skipped, waivers = dict[str, str](), dict[str, str]()
    for law in chosen_laws(LAWS, LAWS if laws is None else laws):
        if law.level not in levels or (law.level == "parity" and reference is None):
            continue
        if lacks := subject.lacks(law, powers):
            skipped[law.name] = lacks
            continue
        progress(law)
        failure = _failure(subject, law)
        if law.name in excused:
            if failure is None:
                problem = f"it holds, and is waived ({excused[law.name]})"
                failed.append(Failure(law.name, law.level, problem, "", law.source, "Remove the waiver."))
            else:
                waivers[law.name] = excused[law.name]
        elif failure is None:
            passed.append(law.name)
        else:
            failed.append(failure)
    return Report(tuple(passed), tuple(failed), skipped, waivers)


def _failure(subject: Subject, law: Law) -> Failure | None:
    try:
        subject.check(law)
    except BrokenLawError as broken:
        return Failure(law.name, law.level, broken.problem, broken.example, law.source, law.hint)
    return None
