"""The index is built when it is needed, once, in the background, and nothing else waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from knowledge_engine.errors import (
    BusyError,
    ConfigurationError,
    InvalidIdError,
    KnowledgeError,
    NotFoundError,
    ProviderError,
    UnavailableError,
)
from knowledge_engine.fs import MemoryFs
from knowledge_engine.models import IngestRequest, Query
from knowledge_files import FilesKnowledgeAdapter

VALVE = Query(query="valve")
PATIENCE_S = 30


class Gate:
    """Holds up whoever comes until it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, _path: str) -> None:
        self.reached.set()
        assert self.opened.wait(PATIENCE_S)


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        threading.Event().wait(0.001)


@pytest.fixture
def files() -> dict[str, bytes]:
    return {"a.md": b"valve", "b.md": b"valve pump", "c.md": b"tank"}


@pytest.fixture
def fs(files: dict[str, bytes], writable_hooked: type) -> object:
    return writable_hooked(MemoryFs(files))


@contextmanager
def held_build(fs: object, adapter: FilesKnowledgeAdapter) -> Iterator[Gate]:
    """A build that has come to its first file and waits there; it goes on when the block ends."""
    gate = fs.before_read = Gate()
    asked = adapter.query(VALVE.model_copy(update={"wait_s": 0}))
    assert asked.mode_used == "none"
    assert gate.reached.wait(PATIENCE_S)
    fs.before_read = lambda _path: None
    try:
        yield gate
    finally:
        gate.opened.set()


def ids(adapter: FilesKnowledgeAdapter, words: str = "valve") -> list[str]:
    return [hit.source_id for hit in adapter.query(Query(query=words)).hits]


def test_construction_and_single_documents_walk_no_more_than_once(fs) -> None:
    adapter = FilesKnowledgeAdapter(fs, ".")
    assert adapter.id == "files"
    assert adapter.capabilities.writable
    assert adapter.health_check().index.state == "stale"
    assert (fs.walks, fs.stats, fs.reads) == ([], [], [])
    assert adapter.get_source("a.md").title == "a"
    assert adapter.read_source("b.md").content == b"valve pump"
    assert adapter.get_source("c.md").bytes == 4
    assert fs.walks == ["."]
    assert set(fs.reads) == {"a.md", "b.md", "c.md"}
    assert adapter.health_check().index.state == "stale"


def test_twenty_first_callers_share_one_build(fs, files) -> None:
    adapter, everyone = FilesKnowledgeAdapter(fs, "."), threading.Barrier(20)
    fs.before_walk = lambda _path: threading.Event().wait(0.05)

    def ask(_number: int) -> list[str]:
        everyone.wait(PATIENCE_S)
        # A query reads the passages that it cites, so the listing counts more clearly.
        return [source.id for source in adapter.list_sources().sources]

    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(ask, range(20))) == [sorted(files)] * 20
    assert fs.walks == ["."]
    assert sorted(fs.reads) == sorted(files)


def test_a_second_query_reads_only_what_it_cites(fs) -> None:
    adapter = FilesKnowledgeAdapter(fs, ".")
    adapter.query(VALVE)
    fs.forget()
    assert ids(adapter, "tank") == ["c.md"]
    assert (fs.walks, fs.reads) == ([], ["c.md"])


def test_nothing_else_waits_for_a_build(fs) -> None:
    adapter = FilesKnowledgeAdapter(fs, ".")
    with held_build(fs, adapter):
        result = adapter.query(Query(query="valve", wait_s=0))
        assert (result.mode_used, result.index.state, result.hits) == ("none", "building", ())
        assert "wait_s" in result.warnings[0]
        assert adapter.query(Query(query="valve", wait_s=0.01)).mode_used == "none"
        assert adapter.get_source("b.md").bytes == 10
        assert adapter.read_source("a.md").content == b"valve"
        assert adapter.explain("a.md").uri == "files:a.md"
        assert adapter.health_check().index.state == "building"
        with pytest.raises(NotFoundError):
            adapter.get_source("missing.md")
    assert ids(adapter) == ["a.md", "b.md"]
    assert adapter.health_check().index.state == "ready"
    assert adapter.query(VALVE).mode_used == "keyword"


@pytest.mark.parametrize("wait_s", [1e300, 10.0, None])
def test_any_patience_is_enough_for_a_build_that_ends(fs, wait_s: float | None) -> None:
    result = FilesKnowledgeAdapter(fs, ".").query(Query(query="valve", wait_s=wait_s))
    assert [hit.source_id for hit in result.hits] == ["a.md", "b.md"]


def test_what_is_written_and_deleted_during_a_build_is_taken_in(fs) -> None:
    adapter = FilesKnowledgeAdapter(fs, ".")
    with held_build(fs, adapter):
        adapter.ingest(IngestRequest(id="new.md", text="valve valve valve"))
        adapter.ingest(IngestRequest(id="a.md", text="nothing of the kind"))
        adapter.delete_source("b.md")
        assert adapter.get_source("new.md").bytes == 17
    assert ids(adapter) == ["new.md"]
    assert [source.id for source in adapter.list_sources().sources] == ["a.md", "c.md", "new.md"]


def test_a_build_that_was_told_to_forget_begins_again(fs) -> None:
    adapter = FilesKnowledgeAdapter(fs, ".")
    with held_build(fs, adapter):
        fs.inner.write("d.md", b"valve")  # after the walk, so that only a second one sees it
        adapter.invalidate()
    assert ids(adapter) == ["a.md", "d.md", "b.md"]
    assert fs.walks == [".", "."]


def test_what_was_told_to_forget_at_the_last_file_is_not_kept(fs) -> None:
    adapter = FilesKnowledgeAdapter(fs, ".")

    def forget(path: str) -> None:
        if path == "c.md":
            fs.before_read = lambda _path: None
            fs.inner.write("d.md", b"valve")
            adapter.invalidate()

    fs.before_read = forget
    assert [source.id for source in adapter.list_sources().sources] == ["a.md", "b.md", "c.md", "d.md"]


def test_forgetting_builds_anew_and_only_when_asked(fs) -> None:
    adapter = FilesKnowledgeAdapter(fs, ".")
    adapter.query(VALVE)
    fs.inner.write("d.md", b"valve")
    fs.forget()
    adapter.invalidate()
    assert fs.walks == []
    assert ids(adapter) == ["a.md", "d.md", "b.md"]


@pytest.mark.parametrize("failure", [ProviderError("The disk is gone", mend="Plug it in."), ZeroDivisionError("odd")])
def test_a_failed_build_is_told_to_all_who_wait_and_tried_again_by_the_next(fs, failure: Exception) -> None:
    adapter, gate = FilesKnowledgeAdapter(fs, "."), Gate()

    def fail(path: str) -> None:
        gate(path)
        raise failure

    fs.before_walk = fail
    with ThreadPoolExecutor(5) as pool:
        waiting = [pool.submit(adapter.query, VALVE) for _ in range(5)]
        assert gate.reached.wait(PATIENCE_S)
        until(lambda: sum(one.running() for one in waiting) == 5)
        gate.opened.set()
        for one in waiting:
            with pytest.raises(ProviderError) as caught:
                one.result(PATIENCE_S)
            assert caught.value is failure or caught.value.__cause__ is failure
    fs.before_walk = lambda _path: None
    assert ids(adapter) == ["a.md", "b.md"]


def test_a_machine_without_threads_says_so_and_does_not_hang(fs, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = FilesKnowledgeAdapter(fs, ".")

    def refuse(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(BusyError):
            adapter.query(VALVE)
    assert ids(adapter) == ["a.md", "b.md"]


def test_a_disposed_adapter_answers_nothing_more(fs) -> None:
    adapter = FilesKnowledgeAdapter(fs, ".")
    adapter.query(VALVE)
    adapter.dispose()
    adapter.dispose()
    calls: list[Callable[[], object]] = [
        lambda: adapter.query(VALVE),
        adapter.list_sources,
        lambda: adapter.get_source("a.md"),
        lambda: adapter.read_source("a.md"),
        lambda: adapter.explain("a.md"),
        adapter.refresh,
        adapter.invalidate,
        lambda: adapter.ingest(IngestRequest(id="a.md", text="x")),
        lambda: adapter.delete_source("a.md"),
    ]
    for call in calls:
        with pytest.raises(UnavailableError):
            call()
    assert adapter.health_check().status == "down"
    assert fs.inner.read("a.md") == b"valve"


def test_disposal_ends_a_build_and_the_waiting_for_it(fs) -> None:
    adapter = FilesKnowledgeAdapter(fs, ".")
    with ThreadPoolExecutor(1) as pool:
        with held_build(fs, adapter):
            waiting = pool.submit(adapter.list_sources)
            until(waiting.running)
            adapter.dispose()
        with pytest.raises(UnavailableError):
            waiting.result(PATIENCE_S)
    assert fs.reads == ["a.md"]


def test_own_writes_are_found_even_while_others_take_them_in(fs) -> None:
    """Between taking note of a write and having indexed it, a query has to wait, not to answer without it."""
    adapter, gate = FilesKnowledgeAdapter(fs, "."), Gate()
    adapter.query(VALVE)
    adapter.ingest(IngestRequest(id="new.md", text="tank tank"))
    fs.before_read = lambda path: gate(path) if path == "new.md" else None
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ids, adapter, "tank")
        assert gate.reached.wait(PATIENCE_S)
        second = pool.submit(ids, adapter, "tank")
        # Who cannot wait is told that the answer is not up to date.
        hurried = adapter.query(Query(query="tank", wait_s=0))
        assert (hurried.index.state, [hit.source_id for hit in hurried.hits]) == ("stale", ["c.md"])
        assert not second.done()
        gate.opened.set()
        assert first.result(PATIENCE_S) == second.result(PATIENCE_S) == ["new.md", "c.md"]
    assert adapter.query(VALVE).index.state == "ready"


def test_a_document_written_again_while_it_is_taken_in_is_found_as_written_last(fs) -> None:
    adapter, gate = FilesKnowledgeAdapter(fs, "."), Gate()
    adapter.query(VALVE)
    adapter.ingest(IngestRequest(id="new.md", text="first"))
    read = fs.inner.read

    def read_and_wait(path: str, span: object = None) -> bytes:
        data = read(path, span)
        if not gate.opened.is_set():
            gate(path)
        return data

    fs.inner.read = read_and_wait
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(adapter.list_sources)
        assert gate.reached.wait(PATIENCE_S)
        adapter.ingest(IngestRequest(id="new.md", text="second"))
        gate.opened.set()
        first.result(PATIENCE_S)
    assert ids(adapter, "second") == ["new.md"]


def test_what_a_walk_has_seen_is_not_read_once_more_because_we_wrote_it(fs) -> None:
    adapter = FilesKnowledgeAdapter(fs, ".")
    adapter.ingest(IngestRequest(id="d.md", text="tank"))
    adapter.list_sources()
    assert fs.reads.count("d.md") == 1
    adapter.ingest(IngestRequest(id="d.md", text="tank and more"))
    fs.forget()
    adapter.refresh()
    adapter.list_sources()
    assert fs.reads == ["d.md"]


def test_forgetting_while_changes_are_taken_in_loses_none(fs) -> None:
    adapter, gate = FilesKnowledgeAdapter(fs, "."), Gate()
    adapter.query(VALVE)
    fs.inner.write("a.md", b"tank")
    fs.inner.write("b.md", b"tank")
    fs.before_read = gate
    with ThreadPoolExecutor(1) as pool:
        refreshed = pool.submit(adapter.refresh)
        assert gate.reached.wait(PATIENCE_S)
        fs.before_read = lambda _path: None
        adapter.invalidate()
        adapter.ingest(IngestRequest(id="c.md", text="valve"))
        gate.opened.set()
        assert refreshed.result(PATIENCE_S)
    assert ids(adapter) == ["c.md"]
    assert ids(adapter, "tank") == ["a.md", "b.md"]


def test_many_threads_asking_writing_and_refreshing_agree_in_the_end(fs) -> None:
    adapter = FilesKnowledgeAdapter(fs, ".")

    def work(number: int) -> None:
        for turn in range(8):
            path = f"{number}/{turn}.md"
            adapter.ingest(IngestRequest(id=path, text=f"valve word{number}x{turn}"))
            assert ids(adapter, f"word{number}x{turn}") == [path]
            if turn % 3 == 0:
                adapter.delete_source(path)
                assert ids(adapter, f"word{number}x{turn}") == []
            (adapter.refresh, adapter.invalidate, adapter.health_check)[turn % 3]()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    expected = {"a.md", "b.md", "c.md"} | {f"{n}/{t}.md" for n in range(8) for t in range(8) if t % 3}
    assert {source.id for source in adapter.list_sources(limit=1000).sources} == expected
    again = FilesKnowledgeAdapter(fs.inner, ".")
    query = Query(query="valve", top_k=100)
    assert [(hit.source_id, hit.score) for hit in adapter.query(query).hits] == [
        (hit.source_id, hit.score) for hit in again.query(query).hits
    ]


def test_wrong_arguments_are_told_before_anything_is_built(fs) -> None:
    with pytest.raises(InvalidIdError):
        FilesKnowledgeAdapter(fs, "../elsewhere")
    with pytest.raises(ConfigurationError, match="okapi"):
        FilesKnowledgeAdapter(fs, ranking="bm42")  # type: ignore[arg-type]
    adapter = FilesKnowledgeAdapter(fs, ".")
    for query in (Query(query="x" * 10_001), Query(query="x", filter={"a": {"b": 1}}), Query(query="x", cursor="?")):
        with pytest.raises(KnowledgeError):
            adapter.query(query)
    assert fs.walks == []
