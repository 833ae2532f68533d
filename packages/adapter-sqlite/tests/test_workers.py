"""Processes that help with an import, and what happens when they do not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_engine.analysis import Analyzer
from knowledge_engine.models import IngestRequest, Query
from knowledge_sqlite import SqliteKnowledgeAdapter, adapter, workers
from knowledge_sqlite.names import PackedText

Open = Callable[..., SqliteKnowledgeAdapter]


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "cores", lambda: 2)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The processes that were started."""
    found: list[Any] = []
    real = subprocess.Popen

    def noted(*args: Any, **options: Any) -> Any:
        found.append(real(*args, **options))
        return found[-1]

    monkeypatch.setattr(workers.subprocess, "Popen", noted)
    return found


def requests(count: int) -> Iterator[IngestRequest]:
    for number in range(count):
        yield IngestRequest(id=f"{number:03}.md", content=f"# N{number}\n\nshared own{number} 水温\n".encode())


def stored(open_db: Open, path: Path, count: int = 60) -> list[str]:
    """What a query over documents says that were stored in batches of five."""
    provider = open_db(path)
    sources = list(provider.ingest_many(requests(count), batch=5))
    assert [source.id for source in sources] == [f"{number:03}.md" for number in range(count)]
    assert {source.status for source in sources} == {"ready"}
    assert provider.check() == ()
    hits = provider.query(Query(query="shared 水温 own57", top_k=100)).hits
    return [hit.model_dump_json() for hit in hits]


def test_what_processes_make_ready_is_what_one_makes_ready(
    open_db: Open, folder: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_others = stored(open_db, folder / "with.db")
    assert len(started) == 2
    monkeypatch.setattr(adapter, "cores", lambda: 1)
    assert stored(open_db, folder / "alone.db") == with_others
    assert len(started) == 2
    assert len(with_others) == 60


def test_a_few_documents_start_no_process(open_db: Open, folder: Path, started: list[Any]) -> None:
    stored(open_db, folder / "kb.db", 10)
    assert started == []


def test_processes_end_with_the_import_however_it_ends(open_db: Open, started: list[Any]) -> None:
    provider = open_db()
    storing = provider.ingest_many(requests(60), batch=5)
    for _ in range(30):
        next(storing)
    assert [each.poll() for each in started] == [None, None]
    storing.close()  # type: ignore[attr-defined]
    assert None not in [each.poll() for each in started]
    assert provider.list_sources().total % 5 == 0

    def broken() -> Iterator[IngestRequest]:
        yield from requests(40)
        raise LookupError("the source of them broke")

    with pytest.raises(LookupError):
        list(provider.ingest_many(broken(), batch=5))
    assert None not in [each.poll() for each in started]
    assert provider.check() == ()


def test_a_process_that_is_killed_costs_no_document(open_db: Open, folder: Path, started: list[Any]) -> None:
    provider = open_db()
    storing = provider.ingest_many(requests(60), batch=5)
    sources = [next(storing) for _ in range(25)]
    for each in started:
        os.kill(each.pid, signal.SIGKILL)
        each.wait()
    sources += storing
    assert [source.id for source in sources] == [f"{number:03}.md" for number in range(60)]
    assert {source.status for source in sources} == {"ready"}
    assert provider.check() == ()


def test_where_no_process_can_be_started_everything_is_done_here(
    open_db: Open, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError("no processes here")

    with monkeypatch.context() as patch:
        patch.setattr(workers.subprocess, "Popen", refused)
        alone = stored(open_db, folder / "refused.db")
    for number, none in enumerate(("", None, "nul\0", "/")):
        monkeypatch.setattr(sys, "executable", none)
        assert stored(open_db, folder / f"none{number}.db") == alone


@pytest.mark.parametrize(
    "program",
    [
        "exit 0",
        "echo I am not Python; exec cat",
        "exec sleep 60",
        "exec yes",
        # Greets, and cannot go on.
        f"printf '{workers._GREETING.decode().strip()}\\n'; exit 1",
        f'exec {sys.executable} -S "$@" 2>/dev/null',
    ],
)
def test_a_host_whose_executable_is_no_python_of_ours_stores_everything_itself(
    open_db: Open, folder: Path, monkeypatch: pytest.MonkeyPatch, started: list[Any], program: str
) -> None:
    host = folder / "host"
    host.write_text(f"#!/bin/sh\n{program}\n", encoding="utf-8")
    host.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(host))
    monkeypatch.setattr(workers, "_GREETING_S", 0.5)
    assert len(stored(open_db, folder / "kb.db")) == 60
    assert started
    assert None not in [each.poll() for each in started]


def test_modules_of_the_current_folder_are_not_run(
    open_db: Open, folder: Path, monkeypatch: pytest.MonkeyPatch, started: list[Any]
) -> None:
    for name in ("pickle", "json", "selectors", "knowledge_sqlite", "sitecustomize"):
        (folder / f"{name}.py").write_text(f"open({str(folder / 'ran')!r}, 'w')", encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    stored(open_db, folder / "kb.db")
    assert len(started) == 2
    assert not (folder / "ran").exists()


def test_an_import_ends_at_once_though_a_process_was_forked_off_meanwhile(
    open_db: Open, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_END_S", 600.0)
    with closing(open_db().ingest_many(requests(60), batch=5)) as storing:  # type: ignore[type-var]
        for _ in range(30):
            next(storing)
        forked = subprocess.Popen(["sleep", "600"], pass_fds=[each.stdin.fileno() for each in started])
        try:
            assert len(list(storing)) == 30
            assert [each.returncode for each in started[:2]] == [0, 0]
        finally:
            forked.kill()
            forked.wait()


@pytest.mark.parametrize("count", [0, 1])
def test_processes_can_be_forbidden(open_db: Open, folder: Path, started: list[Any], count: int) -> None:
    provider = open_db(workers=count)
    assert len(list(provider.ingest_many(requests(60), batch=5))) == 60
    assert started == []
    assert len(list(open_db(folder / "more.db", workers=3).ingest_many(requests(60), batch=5))) == 60
    assert len(started) == 3


def test_others_may_write_between_the_batches(open_db: Open) -> None:
    provider, other = open_db(), open_db()

    def mixed() -> Iterator[IngestRequest]:
        for number, request in enumerate(requests(80)):
            if number % 10 == 0:  # takes terms out that were known, and gives them other numbers
                other.ingest(IngestRequest(id="other.md", content=f"own{number + 5} only{number}".encode()))
                other.delete_source("other.md")
            yield request

    assert {source.status for source in provider.ingest_many(mixed(), batch=5)} == {"ready"}
    assert provider.check() == ()
    for number in range(80):
        assert [hit.source_id for hit in other.query(Query(query=f"own{number}")).hits] == [f"{number:03}.md"]


def test_what_a_process_prints_disturbs_nobody(tmp_path: Path) -> None:
    noisy = "import sys; sys.stdout.write('noise'); print('more', flush=True)"
    (tmp_path / "sitecustomize.py").write_text(noisy, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PRINTS],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.endswith("stored 60\n")


PRINTS = """
from knowledge_sqlite import SqliteKnowledgeAdapter, SqliteSettings, adapter
from knowledge_engine.models import IngestRequest
adapter.cores = lambda: 2
provider = SqliteKnowledgeAdapter(SqliteSettings(path=":memory:"))
requests = (IngestRequest(id=f"{n}.md", content=b"valve %d" % n) for n in range(60))
print("stored", sum(source.status == "ready" for source in provider.ingest_many(requests, batch=5)))
"""


def test_the_analyzer_of_the_processes_is_that_of_the_database(open_db: Open) -> None:
    provider = open_db(analyzer=Analyzer("german"))
    many = (IngestRequest(id=f"{number:03}.md", content=b"Pumpen laufen") for number in range(60))
    assert {source.status for source in provider.ingest_many(many, batch=5)} == {"ready"}
    assert len(provider.query(Query(query="Pumpe", top_k=100)).hits) == 60
    assert provider.check() == ()


def test_no_more_processes_than_there_are_processors() -> None:
    assert 1 <= workers.cores() <= (os.cpu_count() or 1)


@given(st.lists(st.text(st.characters(codec="utf-8"))))
def test_packed_text_is_a_list_of_text(texts: list[str]) -> None:
    packed = PackedText()
    packed.extend(texts[:2])
    packed.extend(texts[2:])
    assert list(packed) == texts
    assert packed[1:3] == texts[1:3]
    assert len(packed) == len(texts)
    with pytest.raises(IndexError):
        packed[len(texts)]
