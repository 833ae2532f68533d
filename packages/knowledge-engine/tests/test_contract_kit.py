"""The kit itself: reports, waivers, profiles, examples, and the laws of file ports that bite."""

from __future__ import annotations

import hashlib
import posixpath
import re
import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from knowledge_engine.contract import (
    FS_LAWS,
    LAWS,
    LEVELS,
    PROFILES,
    BrokenLawError,
    OpenProvider,
    check_law,
    fs_contract,
    parity_contract,
    provider_contract,
    run_contract,
)
from knowledge_engine.contract.case import POWERS
from knowledge_engine.contract.profiles import profile
from knowledge_engine.contract.runner import fs_subject
from knowledge_engine.errors import ConfigurationError, ConflictError, InvalidArgumentError
from knowledge_engine.fs import MemoryFs
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import ByteSpan, Capabilities, FileInfo, Query, QueryResult

pytest_plugins = ["pytester"]
QUICK = PROFILES["default"]._replace(max_examples=3, shrink_s=0.2)


def opener(make: Callable[[Mapping[str, bytes]], Any]) -> OpenProvider:
    @contextmanager
    def opened(docs: Mapping[str, bytes]) -> Iterator[Any]:
        yield make(docs)

    return opened


class OffByOne(MemoryProvider):
    def query(self, query: Query) -> QueryResult:
        result = super().query(query)
        return result.model_copy(
            update={"hits": tuple(hit.model_copy(update={"span": _shifted(hit.span)}) for hit in result.hits)}
        )


def _shifted(span: ByteSpan) -> ByteSpan:
    return ByteSpan(start=span.start + 1, end=span.end + 1)


class Unwritable(MemoryProvider):
    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(writable=False)


# Laws


@pytest.mark.parametrize("law", [*LAWS.values(), *FS_LAWS.values()], ids=lambda law: law.name)
def test_a_law_says_what_it_is_where_it_comes_from_and_what_to_look_at(law: Any) -> None:
    assert law.statement.endswith(".")
    assert law.source
    assert law.hint
    assert law.level in LEVELS
    assert law.needs <= POWERS.keys()


def test_a_broken_law_is_told_with_the_smallest_example() -> None:
    with pytest.raises(BrokenLawError) as caught:
        check_law("citation-is-the-bytes", opener(OffByOne))
    message = str(caught.value)
    assert "law 'citation-is-the-bytes' (citations) is broken: `text` of [1, " in message
    example = dict(line.strip().split(" = ", 1) for line in caught.value.example.splitlines())
    assert example["documents"] == "{'a.md': b'valve'}"
    assert example["query"] == "'valve'"
    assert example["max_chars"] == "None"


def test_an_exception_of_the_provider_is_named_and_kept_as_the_cause() -> None:
    class Crashing(MemoryProvider):
        def read_source(self, source_id: str, span: ByteSpan | None = None) -> Any:
            raise ZeroDivisionError("no divisor")

    with pytest.raises(BrokenLawError, match="ZeroDivisionError: no divisor") as caught:
        check_law("read-exact", opener(Crashing))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_law_that_breaks_only_now_and_then_says_so() -> None:
    class Once(MemoryProvider):
        broken = False

        def list_sources(self, **options: Any) -> Any:
            page = super().list_sources(**options)
            if options["limit"] == 1 and not Once.broken:
                Once.broken = True
                return page.model_copy(update={"total": 99})
            return page

    with pytest.raises(BrokenLawError, match=r"`total` is 99.*not each time") as caught:
        check_law("list-complete", opener(Once))
    assert "documents" in caught.value.example


def test_paging_that_never_ends_or_gives_empty_pages_is_found() -> None:
    class Endless(MemoryProvider):
        empty = False

        def list_sources(self, **options: Any) -> Any:
            options["cursor"] = None
            page = super().list_sources(**options)
            return page.model_copy(update={"next_cursor": "again", "sources": () if self.empty else page.sources})

    class Empty(Endless):
        empty = True

    for make, says in ((Endless, "never ends"), (Empty, "an empty page")):
        with pytest.raises(BrokenLawError, match=says):
            check_law("list-ascending", opener(make), corpus={"a.md": b"valve"})


def test_new_cursors_without_end_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(MemoryProvider):
        pages = 0

        def list_sources(self, **options: Any) -> Any:
            options["cursor"] = None
            self.pages += 1
            return super().list_sources(**options).model_copy(update={"next_cursor": str(self.pages)})

    monkeypatch.setattr("knowledge_engine.contract.asking._MAX_PAGES", 20)
    with pytest.raises(BrokenLawError, match="20 pages and no end"):
        check_law("list-ascending", opener(Endless), corpus={"a.md": b"valve"})


def test_a_backend_that_also_searches_by_meaning_is_asked_by_words() -> None:
    modes = set()

    class Meaning(MemoryProvider):
        @property
        def capabilities(self) -> Capabilities:
            return Capabilities(vector_search=True)

        def query(self, query: Query) -> QueryResult:
            modes.add(query.mode)
            return super().query(query)

    check_law("query-finds-nothing-else", opener(Meaning), depth=QUICK)
    assert modes == {"keyword"}
    with pytest.raises(BrokenLawError, match="`vector_search` is True"):
        check_law("capabilities-true", opener(Meaning), depth=QUICK)


def test_a_corpus_may_hold_what_is_no_text() -> None:
    corpus = {"a.md": b"valve", "b.md": "valve".encode("utf-16")}
    report = run_contract(opener(MemoryProvider), corpus=corpus, levels=["read", "filters", "citations"], depth=QUICK)
    assert report.ok, report.failed


# Reports


def test_the_reference_reaches_the_last_level_that_it_can_show() -> None:
    told: list[str] = []
    report = run_contract(opener(MemoryProvider), depth=QUICK, progress=lambda law: told.append(law.name))
    assert report.ok
    assert report.level == "durability"
    assert tuple(told) == report.passed
    assert "RefreshableProvider" in report.skipped["refresh-changes-nothing"]
    assert {LAWS[name].level for name in report.passed} == set(LEVELS) - {"parity"}


def test_a_report_names_what_is_broken_and_stops_below_its_level() -> None:
    report = run_contract(
        opener(OffByOne), laws=["list-complete", "filter-strict", "citation-is-the-bytes"], depth=QUICK
    )
    assert (report.ok, report.level) == (False, "filters")
    (failure,) = report.failed
    law = LAWS["citation-is-the-bytes"]
    assert (failure.law, failure.level, failure.source, failure.hint) == (law.name, law.level, law.source, law.hint)
    assert "valve" in failure.example


def test_only_laws_of_the_levels_asked_for_are_checked() -> None:
    report = run_contract(opener(MemoryProvider), levels=["filters"], depth=QUICK)
    assert {LAWS[name].level for name in report.passed} == {"filters"}
    assert run_contract(opener(MemoryProvider), levels=["parity"], depth=QUICK).level == "none"
    with_reference = run_contract(
        opener(MemoryProvider), levels=["parity"], depth=QUICK, reference=opener(MemoryProvider)
    )
    assert with_reference.level == "parity"


def test_a_fixed_corpus_leaves_out_laws_that_bring_their_own() -> None:
    corpus = {"a.md": b"valve"}
    report = run_contract(opener(lambda _docs: Unwritable(corpus)), corpus=corpus, depth=QUICK)
    assert {name for name, why in report.skipped.items() if "any documents" in why} >= {
        "filter-types",
        "if-match-decides",
    }
    # It claims to be read only, and can be written.
    assert [failure.law for failure in report.failed] == ["writable-flag-true"]


def test_waived_laws_count_neither_as_passed_nor_as_failed_until_they_hold() -> None:
    waived = {"citation-is-the-bytes": "known", "list-complete": "known"}
    report = run_contract(opener(OffByOne), laws=waived, waived=waived, depth=QUICK)
    assert report.waived == {"citation-is-the-bytes": "known"}
    (failure,) = report.failed
    assert (failure.law, failure.problem) == ("list-complete", "it holds, and is waived (known)")
    assert report.passed == ()


@pytest.mark.parametrize(
    "call",
    [
        lambda: check_law("no-such-law", opener(MemoryProvider)),
        lambda: run_contract(opener(MemoryProvider), laws=["no-such-law"]),
        lambda: run_contract(opener(MemoryProvider), waived={"no-such-law": "x"}),
        lambda: provider_contract(opener(MemoryProvider), waived={"no-such-law": "x"}),
        lambda: provider_contract(opener(MemoryProvider), waived={"parity-of-state": "x"}),
        lambda: parity_contract(opener(MemoryProvider), opener(MemoryProvider), waived={"list-complete": "x"}),
        lambda: fs_contract(opener(MemoryFs), waived={"list-complete": "x"}),
    ],
)
def test_an_unknown_law_is_an_error_that_lists_the_known_ones(call: Callable[[], Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"There is no law .* Known are: "):
        call()


# Test classes


def test_waivers_are_strict_xfails(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        textwrap.dedent("""
        from contextlib import contextmanager
        from knowledge_engine.contract import provider_contract
        from knowledge_engine.memory import MemoryProvider

        class Broken(MemoryProvider):
            def get_source(self, source_id):
                return super().get_source(source_id).model_copy(update={"title": ""})

        @contextmanager
        def open_broken(docs):
            yield Broken(docs)

        waived = {"source-facts": "titles are to come", "list-complete": "a mistake"}
        TestBroken = provider_contract(open_broken, max_examples=2, waived=waived)
        """)
    )
    result = pytester.runpytest_subprocess(
        "-k", "source_facts or list_complete or list_ascending or supersede or refresh"
    )
    result.assert_outcomes(xfailed=1, failed=1, passed=2, skipped=2)
    result.stdout.fnmatch_lines(["*test_list_complete*", "*XPASS(strict)*a mistake*"])


def test_two_adapters_can_have_the_contract_in_one_module() -> None:
    one, other = (provider_contract(opener(MemoryProvider), max_examples=1) for _ in range(2))
    for suite in (one, other):
        suite().test_list_complete()  # type: ignore[attr-defined]


# Profiles


def test_the_profile_comes_from_the_environment() -> None:
    assert profile({}) == PROFILES["default"]
    nightly = profile({"KNOWLEDGE_CONTRACT_PROFILE": "nightly"})
    assert nightly.max_examples > PROFILES["default"].max_examples
    assert not nightly.derandomize
    with pytest.raises(ConfigurationError, match=r"KNOWLEDGE_CONTRACT_PROFILE is 'fast'.*default, nightly"):
        profile({"KNOWLEDGE_CONTRACT_PROFILE": "fast"})


def test_the_default_profile_tries_the_same_examples_each_time_and_the_nightly_others() -> None:
    def seen(depth: Any) -> list[Any]:
        corpora: list[Any] = []

        def make(docs: Mapping[str, bytes]) -> MemoryProvider:
            corpora.append(dict(docs))
            return MemoryProvider(docs)

        check_law("list-ascending", opener(make), depth=depth)
        return corpora

    assert seen(QUICK) == seen(QUICK)
    nightly = PROFILES["nightly"]._replace(max_examples=15)
    assert seen(nightly) != seen(nightly)


# File ports


def fs(**members: Any) -> Any:
    return type("BrokenFs", (MemoryFs,), members)


def _late(self: Any, path: str, data: bytes, *, if_match: str | None = None) -> FileInfo:
    if if_match and if_match != hashlib.sha256(self.read(path)).hexdigest():
        raise ConflictError("Another version", mend="Read it again.")
    threading.Event().wait(0.02)
    return MemoryFs.write(self, path, data)


def _everywhere(self: Any, path: str, data: bytes, *, if_match: str | None = None) -> FileInfo:
    return MemoryFs.write(self, posixpath.normpath(path).strip("./"), data, if_match=if_match)


FS_BREAKAGES: dict[str, tuple[str, Any]] = {
    "walk-gives-every-file": ("the paths of a walk", fs(walk=lambda s, p=".": reversed(list(MemoryFs.walk(s, p))))),
    "walk-below-a-folder": (
        "the walk below",
        fs(walk=lambda s, p=".": (one for one in MemoryFs.walk(s) if p == "." or one.path.startswith(p))),
    ),
    "stat-agrees-with-walk": ("stat(", fs(stat=lambda s, p: MemoryFs.stat(s, p)._replace(mtime_ns=0))),
    "read-gives-the-bytes": ("bytes ", fs(read=lambda s, p, span=None: MemoryFs.read(s, p, span and _shifted(span)))),
    "hostile-path": ("did not raise", fs(stat=lambda s, p: MemoryFs.stat(s, posixpath.normpath(p)))),
    "write-is-read": ("what is stored", fs(read=lambda s, p, span=None: MemoryFs.read(s, p, span)[:1])),
    "write-changes-the-identity": (
        "how many different",
        fs(
            write=lambda s, p, d, if_match=None: MemoryFs.write(s, p, d, if_match=if_match)._replace(
                mtime_ns=0, ctime_ns=0, inode=0
            ),
        ),
    ),
    "if-match-guards": (
        "if_match=''",
        fs(write=lambda s, p, d, if_match=None: MemoryFs.write(s, p, d, if_match=if_match or None)),
    ),
    "delete-takes-one-file": (
        "did not raise NotFoundError",
        fs(delete=lambda s, p, if_match=None: s._files.pop(p, None)),
    ),
    "write-refuses-what-no-walk-gives": ("write(", fs(write=_everywhere)),
    "one-writer-wins": ("the writers that succeeded", fs(write=_late)),
}


@pytest.mark.parametrize("name", FS_LAWS)
def test_a_file_port_that_differs_in_one_behaviour_breaks_the_law_on_it(name: str) -> None:
    says, make = FS_BREAKAGES[name]
    subject = replace(fs_subject(opener(make)), depth=PROFILES["default"]._replace(shrink_s=0.2))
    with pytest.raises(BrokenLawError) as caught:
        subject.check(FS_LAWS[name])
    assert says in caught.value.problem


def test_the_documentation_tells_each_law_as_it_is() -> None:
    text = Path(__file__).parents[3].joinpath("docs", "adapters.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^- `([a-z-]+)`: (.*)$", text, re.MULTILINE))
    assert told == {(law.name, law.statement) for law in (*LAWS.values(), *FS_LAWS.values())}


def test_a_flag_that_hides_a_power_is_untrue() -> None:
    class Modest(MemoryProvider):
        @property
        def capabilities(self) -> Capabilities:
            return super().capabilities.model_copy(update={"citations": False})

    with pytest.raises(BrokenLawError, match="`citations` is False"):
        check_law("capabilities-true", opener(Modest), depth=QUICK)


def test_a_query_that_always_fails_is_reported_and_ends_no_run() -> None:
    class Broken(MemoryProvider):
        def query(self, query: Query) -> QueryResult:
            raise KeyError(query.query)

    report = run_contract(opener(Broken), laws=["list-ascending"], depth=QUICK)
    assert "list-ascending" in report.passed
    report = run_contract(opener(Broken), laws=["capabilities-true"], depth=QUICK)
    assert [failure.law for failure in report.failed] == ["capabilities-true"]
    assert "KeyError" in report.failed[0].problem
    assert "not each time" not in report.failed[0].problem
