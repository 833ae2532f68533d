"""Processes that are killed at any moment: the next open is whole, and each document is old or new."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# `path what rounds seed`. It forks a child for each round, which writes until it is killed; then looks at the file.
# The child dies after some steps of SQLite's own machine, or after some time, whatever it is doing.
SCRIPT = """
import json, os, random, signal, sqlite3, sys, time
from pathlib import Path
from knowledge_engine.analysis import Analyzer
from knowledge_engine.models import IngestRequest, Query
from knowledge_sqlite import SqliteKnowledgeAdapter, SqliteSettings

path, what, rounds, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
IDS = [f"{at}.md" for at in range(12)]
rng = random.Random(seed)

def opened(**how):
    return SqliteKnowledgeAdapter(SqliteSettings(path=str(path)), **how)

def text(source_id, version):
    return f"# Doc {source_id}\\n\\n" + f"version{version} of the text of {source_id}. " * 40

def requests(version):
    return [IngestRequest(id=each, content=text(each, version).encode()) for each in IDS]

def ingest(adapter, version):
    for request in requests(version):
        adapter.ingest(request)

def bulk(adapter, version):
    list(adapter.ingest_many(requests(version), batch=4))

def delete(adapter, version):
    bulk(adapter, version)
    for each in IDS[::2]:
        adapter.delete_source(each)
    adapter.erase_source(IDS[1])

def repair(adapter, version):
    while True:
        adapter.repair()

def analyzer(adapter, version):
    adapter.dispose()
    while True:
        for language in ("german", "english"):
            other = opened(analyzer=Analyzer(language))
            other.list_sources()
            other.dispose()

def migration(adapter, version):
    adapter.dispose()
    while True:
        for each in path.parent.glob(path.name + "*"):
            each.unlink()
        bulk(opened(), version)

def work(version):
    adapter = opened()
    globals()[what](adapter, version)

def child(version, steps):
    signal.setitimer(signal.ITIMER_REAL, 5)  # SIGALRM ends a child that nobody kills
    connect = sqlite3.connect
    def dying(*args, **kwargs):
        connection = connect(*args, **kwargs)
        connection.set_progress_handler(lambda: os.kill(os.getpid(), signal.SIGKILL), steps)
        return connection
    if steps:
        sqlite3.connect = dying
    print("begun", flush=True, file=os.fdopen(ready[1], "w"))
    work(version)
    os._exit(0)

bulk(opened(), 0)
began = time.monotonic()
pid = os.fork()
if not pid:
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    work(1)
    os._exit(0)
os.waitpid(pid, 0)
longest = time.monotonic() - began
wrong, killed = [], 0
version = 1
for number in range(rounds):
    version += 1
    steps = int(10 ** rng.uniform(0.5, 5.3)) if number % 2 else 0
    ready = os.pipe()
    pid = os.fork()
    if not pid:
        child(version, steps)
    os.close(ready[1])
    os.read(ready[0], 6)
    os.close(ready[0])
    if not steps:
        time.sleep(rng.uniform(0, longest))
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    killed += os.WIFSIGNALED(status)
    adapter = opened()
    try:
        problems = adapter.check()
        if problems:
            wrong.append(f"round {number}: {problems}")
        there = {}
        for source in adapter.list_sources().sources:
            content = adapter.read_source(source.id).content.decode()
            there[source.id] = content
            if content not in {text(source.id, each) for each in range(version + 1)}:
                wrong.append(f"round {number}: {source.id} is neither old nor new")
        if what not in ("delete", "migration") and sorted(there) != sorted(IDS):
            wrong.append(f"round {number}: documents are lost")
        found = [hit.source_id for hit in adapter.query(Query(query="text", top_k=50)).hits]
        if sorted(found) != sorted(there):
            wrong.append(f"round {number}: what is found is not what is there")
        if number % 4 == 0:
            bulk(adapter, version)
    except Exception as error:
        wrong.append(f"round {number}: {type(error).__name__}: {error}")
    adapter.dispose()
print(json.dumps({"wrong": wrong, "killed": killed}))
"""
KINDS = ["ingest", "bulk", "delete", "migration", "repair", "analyzer"]


def run(path: Path, what: str, rounds: int, seed: int) -> dict[str, Any]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    command = [sys.executable, "-c", SCRIPT, str(path), what, str(rounds), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize("what", KINDS)
def test_after_a_kill_the_file_is_whole_and_each_document_is_old_or_new(folder: Path, what: str) -> None:
    result = run(folder / "kb.db", what, 6, 1)
    assert result["wrong"] == []
    assert result["killed"], "some were killed in time"


@pytest.mark.slow
@pytest.mark.parametrize("what", KINDS)
def test_after_many_kills_the_file_is_whole_each_time(folder: Path, what: str) -> None:
    result = run(folder / "kb.db", what, 40, 100)
    assert result["wrong"] == []
    assert result["killed"] > 10
