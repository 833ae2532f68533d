"""`conformance`: the laws of the contract, tried on a backend."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from knowledge_engine.cli.output import harmless, note, one_line, write, write_json
from knowledge_engine.cli.root import EXIT_ERROR, EXIT_PARTIAL
from knowledge_engine.cli.session import Session, Text, json_option
from knowledge_engine.errors import ConfigurationError, KnowledgeError

if TYPE_CHECKING:
    from knowledge_engine.contract import Failure, Law, Report
    from knowledge_engine.ports import IKnowledgeProvider
    from knowledge_engine.redaction import Secrets
    from knowledge_engine.registry import KnowledgeBackendHandle

_WHERE = {
    "live": "on what is there",
    "scratch": "with --scratch",
    "tests": "in tests, by `parity_contract`",
}


@dataclass
class Outcome:
    """What came of a run."""

    backend: str
    #: What laws were wanted by name; empty: all that there are for the places.
    wanted: tuple[str, ...]
    documents: int = 0
    #: Reports by place.
    reports: dict[str, Report] = field(default_factory=dict)
    total: Report | None = None
    #: Why this says less than it could.
    doubts: list[str] = field(default_factory=list)
    #: Documents that stay in the scratch place.
    left: tuple[str, ...] = ()

    @property
    def report(self) -> Report:
        """Of all places together."""
        assert self.total is not None, "it is set before anything is shown"
        return self.total

    @property
    def level(self) -> str | None:
        """None for a choice of laws, which reaches none."""
        return None if self.wanted else self.report.level

    @property
    def exit_code(self) -> int:
        """0 all hold, 1 one does not, 2 not all could be tried."""
        if self.report.failed or self.left:
            return EXIT_ERROR
        return EXIT_PARTIAL if self.doubts else 0

    @property
    def badge(self) -> str | None:
        """A line of markdown; only who passes everything gets one."""
        if self.exit_code or self.wanted:
            return None
        from importlib.metadata import version

        laws = len(self.report.passed)
        return f"**knowledge-contract {version('kpkit-engine')}: level {self.level}, {laws} laws**"


@click.command()
@click.argument("backend", metavar="[BACKEND]", required=False, type=Text())
@click.option(
    "--scratch",
    metavar="URL",
    type=Text(),
    help="An empty place of the same backend, for all laws. It is written, and emptied again.",
)
@click.option("--law", "laws", metavar="NAME", multiple=True, type=Text(), help="Only this law; repeatable.")
@click.option("--list", "listing", is_flag=True, help="List the laws with their sources, and try none.")
@click.option("--max-examples", type=click.IntRange(1), metavar="N", help="Most examples of each law. Default: 15.")
@click.option("--nightly", is_flag=True, help="Look deeper: 300 examples, others each time.")
@click.option("--badge", is_flag=True, help="Print only a line for a README, if all laws hold.")
@json_option
@click.pass_context
def conformance(
    ctx: click.Context,
    backend: str | None,
    scratch: str | None,
    laws: tuple[str, ...],
    listing: bool,
    max_examples: int | None,
    nightly: bool,
    badge: bool,
) -> None:
    """Try the laws of the contract on BACKEND, a name or URL. Default: $KNOWLEDGE_BACKEND, else files.

    Without --scratch only laws that read are tried, on the documents that are there, and nothing is written. With it
    all laws are tried there on documents made for them: it must be empty, nobody else may use it meanwhile, and no
    document is in it at the end.

    Exit code: 0 all laws hold; 1 a law fails, or the backend does; 2 not all could be tried (there is no document, the
    documents changed meanwhile, or a --law says nothing here); 64 wrong usage, such as a scratch place that is not
    empty.
    """
    session = ctx.find_object(Session) or Session()
    known = _laws()
    if unknown := [name for name in laws if name not in known]:
        raise click.UsageError(f"There is no law {', '.join(unknown)}. --list lists them.", ctx)
    if badge and (laws or listing):
        raise click.UsageError("--badge goes neither with --law nor with --list.", ctx)
    chosen = [law for law in known.values() if not laws or law.name in laws]
    if listing:
        _write_laws(chosen, session)
        ctx.exit(0)
    places = _Places(session, backend, scratch)
    how = {"max_examples": max_examples, "depth": _depth(session, nightly), "progress": _progress(session)}
    try:
        outcome = _tried(places, chosen, laws, how)
    except KnowledgeError as error:
        from knowledge_engine.contract.places import UnfitPlaceError

        if isinstance(error, UnfitPlaceError):
            raise click.UsageError(places.secrets.hide(str(error)), ctx) from None
        raise places.secrets.scrub(error) or KnowledgeError("The backend failed", mend="Check it.") from None
    if session.json:
        write_json(_as_json(outcome, places.secrets))
    elif badge and outcome.badge:
        write(outcome.badge)
    else:
        # A badge goes into a file; why there is none does not.
        _write_outcome(outcome, places.secrets, write if not badge else lambda text: click.echo(text, err=True))
    ctx.exit(outcome.exit_code)


def _laws() -> Mapping[str, Law]:
    try:
        from knowledge_engine.contract import LAWS
    except ModuleNotFoundError as error:
        if error.name != "hypothesis":
            raise
        raise ConfigurationError(
            "Laws are tried by hypothesis, which is not installed", mend="Install kpkit-engine[contract]."
        ) from error
    return LAWS


def _depth(session: Session, nightly: bool) -> Any:
    from knowledge_engine.contract.profiles import PROFILES, profile

    return PROFILES["nightly"] if nightly else profile(session.environ)


def _progress(session: Session) -> Callable[[Law], None]:
    shown = not session.json and bool(sys.stderr) and sys.stderr.isatty()
    return lambda law: note(f"{law.level}: {law.name}") if shown else None


class _Places:
    """The backend and the scratch place, resolved and not yet opened."""

    def __init__(self, session: Session, backend: str | None, scratch: str | None) -> None:
        from knowledge_engine.redaction import Secrets
        from knowledge_engine.settings import EngineSettings

        self._environ = session.environ
        self.backend = backend or session.backend or EngineSettings.from_env(session.environ).backend
        self.scratch = scratch
        handles = [self._handle(name) for name in (self.backend, scratch) if name is not None]
        if len({handle.slug for handle in handles}) > 1:
            raise click.UsageError(f"The scratch place is one of {handles[1].slug}, not of {handles[0].slug}.")
        self.slug = handles[0].slug
        self.secrets = Secrets(value for handle in handles for value in self._secret_values(handle))

    def opening(self, name: str) -> Callable[[], IKnowledgeProvider]:
        """Opens one of them, anew each time."""
        return lambda: self._handle(name).provider()

    def _handle(self, name: str) -> KnowledgeBackendHandle:
        from knowledge_engine.registry import resolve_knowledge_backend

        return resolve_knowledge_backend(name, environ=self._environ)

    def _secret_values(self, handle: KnowledgeBackendHandle) -> Iterator[str]:
        from knowledge_engine.redaction import url_secrets

        for setting in handle.info()["settings"]:
            if setting["secret"]:
                yield self._environ.get(setting["name"], "")
        for name in (self.backend, self.scratch):
            yield from url_secrets(name or "")


def _tried(places: _Places, chosen: list[Law], wanted: tuple[str, ...], how: Mapping[str, Any]) -> Outcome:
    from knowledge_engine.contract.places import Live, Scratch, merged, needs_place

    outcome, names = Outcome(places.slug, wanted), [law.name for law in chosen]
    with _ended_cleanly():
        # Before anything takes long, what cannot be is refused.
        scratch = Scratch(places.opening(places.scratch)) if places.scratch else None
        live = Live(places.opening(places.backend))
        outcome.documents = len(live.docs)
        outcome.reports["live"] = live.try_laws(names, **how)
        if live.changed():
            outcome.doubts.append("The documents changed meanwhile: run it again when nobody writes")
        if scratch is not None:
            outcome.reports["scratch"] = scratch.try_laws(names, **how)
            outcome.left = scratch.left()
        elif not live.docs:
            outcome.doubts.append("There is no document, so that most laws say nothing")
    report = merged(outcome.reports.values())
    skipped = dict(report.skipped)
    for law in chosen:
        if law.name not in {*report.passed, *skipped, *(failure.law for failure in report.failed)}:
            skipped[law.name] = f"is tried {_WHERE[needs_place(law)]}"
    outcome.total = type(report)(report.passed, report.failed, skipped)
    doubtful = [name for name, why in skipped.items() if name in wanted or why.startswith("could not be tried")]
    outcome.doubts += [f"{name}: {skipped[name]}" for name in doubtful]
    return outcome


@contextmanager
def _ended_cleanly() -> Iterator[None]:
    """Being told to end empties the scratch place like Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are not for other threads to handle
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _write_laws(laws: list[Law], session: Session) -> None:
    from knowledge_engine.contract.places import needs_place

    if session.json:
        write_json({"laws": [{**_law_as_json(law), "tried": needs_place(law)} for law in laws]})
        return
    for law in laws:
        write(f"{law.name} ({law.level}, {_WHERE[needs_place(law)]})")
        write(f"  {one_line(law.statement)}")
        write(f"  source: {one_line(law.source)}")


def _law_as_json(law: Law) -> dict[str, Any]:
    return {
        "law": law.name,
        "level": law.level,
        "statement": one_line(law.statement),
        "source": law.source,
        "hint": law.hint,
        "needs": sorted(law.needs),
    }


def _failures(outcome: Outcome) -> Iterator[tuple[str, Failure]]:
    for place, report in outcome.reports.items():
        for failure in report.failed:
            yield place, failure


def _as_json(outcome: Outcome, secrets: Secrets) -> dict[str, Any]:
    report, known = outcome.report, _laws()
    failed = [
        {
            "law": failure.law,
            "level": failure.level,
            "place": place,
            "statement": one_line(known[failure.law].statement),
            "problem": _encodable(secrets.hide(failure.problem)),
            "source": failure.source,
            "hint": failure.hint,
            "example": _encodable(secrets.hide(failure.example)),
        }
        for place, failure in _failures(outcome)
    ]
    return {
        "backend": outcome.backend,
        "ok": outcome.exit_code == 0,
        "level": outcome.level,
        "documents": outcome.documents,
        "passed": list(report.passed),
        "failed": failed,
        "skipped": dict(report.skipped),
        "doubts": outcome.doubts,
        "left_in_scratch": [_encodable(one) for one in outcome.left],
        "badge": outcome.badge,
    }


def _encodable(text: str) -> str:
    """Without lone surrogates, which hostile ids hold."""
    return text.encode("utf-8", "backslashreplace").decode()


def _write_outcome(outcome: Outcome, secrets: Secrets, out: Callable[[str], None]) -> None:
    report = outcome.report
    for place, failure in _failures(outcome):
        _write_failure(place, failure, secrets, out)
    counted = f"{len(report.passed)} laws hold, {len({each.law for each in report.failed})} fail"
    out(f"{outcome.backend}: {f'level {outcome.level}, ' if outcome.level else ''}{counted}")
    reasons: dict[str, list[str]] = {}
    for name, why in report.skipped.items():
        reasons.setdefault(why, []).append(name)
    for why, names in reasons.items():
        out(one_line(f"not tried: {', '.join(names) if len(names) < 4 else f'{len(names)} laws'}: {why}"))
    for doubt in outcome.doubts:
        note(f"warning: {doubt}.")
    if outcome.left:
        note(f"warning: {len(outcome.left)} documents could not be removed from the scratch place.")


def _write_failure(place: str, failure: Failure, secrets: Secrets, out: Callable[[str], None]) -> None:
    law = _laws()[failure.law]
    out(f"FAILS {failure.law} ({failure.level}, {_WHERE[place]})")
    out(f"  the law: {one_line(law.statement)}")
    out(f"  but: {one_line(secrets.hide(failure.problem))}")
    out(f"  source: {one_line(failure.source)}")
    out(f"  look at: {one_line(failure.hint)}")
    out("  smallest example:")
    for line in harmless(secrets.hide(failure.example)).splitlines():
        out(f"    {line}")
    out("")
