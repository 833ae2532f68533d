"""Several processes and threads at one file: nothing is lost, and nobody is told of a lock."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from knowledge_engine.errors import BusyError
from knowledge_engine.models import IngestRequest, Query
from knowledge_sqlite import SqliteKnowledgeAdapter

Open = Callable[..., SqliteKnowledgeAdapter]

# A process: `path role number count`. It tells what went wrong, if anything did.
WORKER = """
import json, sys
from knowledge_engine.models import IngestRequest, Query
from knowledge_sqlite import SqliteKnowledgeAdapter, SqliteSettings

path, role, number, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
adapter = SqliteKnowledgeAdapter(SqliteSettings(path=path, busy_timeout_s=60))
print("ready", flush=True)
sys.stdin.readline()
wrong = []
request = lambda at: IngestRequest(id=f"{number}/{at}.md", content=f"# Doc\\n\\nw{number}x{at} shared".encode())
try:
    if role == "one":
        for at in range(count):
            adapter.ingest(request(at))
            if [hit.source_id for hit in adapter.query(Query(query=f"w{number}x{at}")).hits] != [f"{number}/{at}.md"]:
                wrong.append(f"{number}/{at} is not found by who stored it")
    elif role == "many":
        wrong += [s.error for s in adapter.ingest_many(map(request, range(count)), batch=20) if s.status == "failed"]
    else:
        last = 0
        for _ in range(count):
            result = adapter.query(Query(query="shared", top_k=20))
            if result.index.documents < last:
                wrong.append("documents were there, and then not")
            last = result.index.documents
            for hit in result.hits:
                if not adapter.read_source(hit.source_id).content.endswith(b"shared"):
                    wrong.append("a hit cannot be read")
except Exception as error:
    wrong.append(f"{type(error).__name__}: {error}")
adapter.dispose()
print(json.dumps(wrong))
"""


def crowd(path: Path, roles: list[tuple[str, int]]) -> list[str]:
    """Runs a process for each role and its count, all at once; what went wrong in any."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(path), role, str(number), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number, (role, count) in enumerate(roles)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [each for process in processes for each in json.loads(process.communicate()[0])]


def counted(open_db: Open, expected: int) -> None:
    adapter = open_db()
    assert adapter.list_sources().total == expected
    assert adapter.check() == ()


def test_four_processes_write_and_others_read_and_nothing_is_lost(folder: Path, open_db: Open) -> None:
    roles = [("one", 125), ("one", 125), ("many", 250), ("many", 250), ("read", 40), ("read", 40)]
    assert crowd(folder / "kb.db", roles) == []
    counted(open_db, 750)


@pytest.mark.slow
def test_four_processes_write_a_thousand_each_and_four_read_and_nothing_is_lost(folder: Path, open_db: Open) -> None:
    roles = [("one", 1000), ("one", 1000), ("many", 1000), ("many", 1000), *[("read", 300)] * 4]
    assert crowd(folder / "kb.db", roles) == []
    counted(open_db, 4000)


def test_threads_share_a_provider(open_db: Open) -> None:
    adapter = open_db()
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for at in range(25):
                adapter.ingest(IngestRequest(id=f"{number}/{at}.md", content=f"w{number}x{at} shared".encode()))
                assert adapter.query(Query(query=f"w{number}x{at}")).hits
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    counted(open_db, 150)


@pytest.fixture
def locked(open_db: Open, folder: Path) -> sqlite3.Connection:
    """Someone else's connection, in the middle of a write."""
    adapter = open_db()
    adapter.ingest(IngestRequest(id="a.md", content=b"impeller"))
    other = sqlite3.connect(folder / "kb.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    return other


def test_a_lock_longer_than_the_busy_timeout_is_told_as_busy_and_readers_do_not_wait(
    locked: sqlite3.Connection, open_db: Open
) -> None:
    adapter = open_db(busy_timeout_s=0.05)
    with pytest.raises(BusyError) as caught:
        adapter.ingest(IngestRequest(id="b.md", content=b"x"))
    assert (caught.value.code, caught.value.retryable) == ("busy", True)
    with pytest.raises(BusyError):
        list(adapter.ingest_many([IngestRequest(id="b.md", content=b"x")]))
    assert [hit.source_id for hit in adapter.query(Query(query="impeller")).hits] == ["a.md"]
    assert adapter.health_check().status == "ok"
    locked.execute("ROLLBACK")
    locked.close()
    adapter.ingest(IngestRequest(id="b.md", content=b"x"))
    counted(open_db, 2)


def test_a_lock_shorter_than_the_busy_timeout_is_waited_for(locked: sqlite3.Connection, open_db: Open) -> None:
    adapter = open_db(busy_timeout_s=60)
    done = threading.Event()

    def write() -> None:
        adapter.ingest(IngestRequest(id="b.md", content=b"x"))
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    assert not done.wait(0.2), "nobody writes while another one does"
    locked.execute("COMMIT")
    thread.join()
    assert done.is_set()
    locked.close()
    counted(open_db, 2)


def test_a_reader_sees_one_state_whatever_is_written_meanwhile(open_db: Open) -> None:
    adapter, other = open_db(), open_db()
    adapter.ingest(IngestRequest(id="a.md", content=b"one"))
    with adapter._database.reading() as connection:
        before = connection.execute("SELECT revision, documents FROM state").fetchone()
        other.ingest(IngestRequest(id="b.md", content=b"two"))
        assert connection.execute("SELECT revision, documents FROM state").fetchone() == before
        assert connection.execute("SELECT count(*) FROM documents").fetchone() == (1,)
    assert adapter.health_check().index.documents == 2


def test_processes_that_make_one_file_at_once_all_have_it(folder: Path, open_db: Open) -> None:
    for number in range(3):
        path = folder / f"{number}.db"
        assert crowd(path, [("one", 2)] * 4) == []
        adapter = open_db(path)
        assert adapter.list_sources().total == 8
        assert adapter.check() == ()
