"""The SQLite backend against plain FTS5, in one run: import, size, memory, queries, and a document put in.

    python benchmarks/sqlite.py FOLDER [--rounds 3] [--documents N]     FOLDER holds markdown files, in any depth
    python benchmarks/sqlite.py --crowd                                 four processes writing while four read

Plain FTS5 is a table of id and text with the tokenizer unicode61 in Python's own sqlite3, filled in one transaction,
and asked with all words of the query joined by OR, ten best by rank. Both read the files, store the text, and run with
a write-ahead log and synchronous NORMAL. Each measurement is a process of its own, the two by turns; figures are
medians of the rounds, ratios those of ours to plain FTS5 within a round. Queries are 2 to 6 words cut from titles and
from bodies by turns, the same for both; ours answers them in full, with snippets and citations.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measuring import WORDS, files, machine, parts, percentile, questions

# What is ours is imported where it is used: a process that measures plain FTS5 has only that in memory.
if TYPE_CHECKING:
    from knowledge_engine.models import IngestRequest
    from knowledge_sqlite import SqliteKnowledgeAdapter


def opened(path: str, **settings: Any) -> SqliteKnowledgeAdapter:
    from knowledge_sqlite import SqliteKnowledgeAdapter, SqliteSettings

    return SqliteKnowledgeAdapter(SqliteSettings(path=path, **settings))


def request(source_id: str, content: bytes) -> IngestRequest:
    from knowledge_engine.models import IngestRequest

    return IngestRequest(id=source_id, content=content)


def ask(adapter: SqliteKnowledgeAdapter, words: str) -> object:
    from knowledge_engine.models import Query

    return adapter.query(Query(query=words))


UPSERTS, CROWD, WRITES = 300, 4, 1_000


def queries(paths: Sequence[Path]) -> list[str]:
    """Words of a title and words of a body, by turns."""
    return questions([parts(path.read_bytes().decode("utf-8", "replace")) for path in paths])


# One measurement each, in a process of its own


def plain_open(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def plain_import(path: str, paths: Sequence[Path]) -> dict[str, float]:
    start = time.perf_counter()
    connection = plain_open(path)
    connection.execute(
        "CREATE VIRTUAL TABLE t USING fts5(id UNINDEXED, body, tokenize='unicode61 remove_diacritics 0')"
    )
    connection.execute("BEGIN")
    for one in paths:
        connection.execute("INSERT INTO t VALUES (?, ?)", (str(one), one.read_bytes().decode("utf-8", "replace")))
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return {"import s": time.perf_counter() - start}


def ours_import(path: str, paths: Sequence[Path]) -> dict[str, float]:
    start = time.perf_counter()
    adapter = opened(path)
    requests = (request(str(one).lstrip("/"), one.read_bytes()) for one in paths)
    failed = [source for source in adapter.ingest_many(requests) if source.status == "failed"]
    assert not failed, failed[:3]
    adapter.dispose()
    return {"import s": time.perf_counter() - start}


def asked(call: Callable[[str], object]) -> dict[str, float]:
    """Twice: the first time the process is new, the second it has seen these words."""
    wanted = json.loads(os.environ["BENCH_QUERIES"])
    found = dict[str, float]()
    for name in ("first", "again"):
        took = []
        for each in wanted:
            start = time.perf_counter()
            call(each)
            took.append((time.perf_counter() - start) * 1000)
        found |= {f"query p50 ms, {name}": statistics.median(took), f"query p99 ms, {name}": percentile(took, 99)}
    return found


def plain_query(path: str, _: Sequence[Path]) -> dict[str, float]:
    connection = plain_open(path)

    def matching(text: str) -> object:
        expression = " OR ".join(f'"{word}"' for word in WORDS.findall(text))
        return connection.execute(
            "SELECT id, rank FROM t WHERE t MATCH ? ORDER BY rank LIMIT 10", (expression,)
        ).fetchall()

    return asked(matching)


def ours_query(path: str, _: Sequence[Path]) -> dict[str, float]:
    adapter = opened(path)
    return asked(lambda text: ask(adapter, text))


def put_in(put: Callable[[int, bytes], object], paths: Sequence[Path]) -> dict[str, float]:
    """New documents, one transaction each; the second half when the process has seen as many."""
    took = []
    for number, one in enumerate(paths[:: max(1, len(paths) // UPSERTS)][:UPSERTS]):
        raw = one.read_bytes()
        start = time.perf_counter()
        put(number, raw)
        took.append((time.perf_counter() - start) * 1000)
    return {"upsert p50 ms": statistics.median(took[len(took) // 2 :])}


def plain_upsert(path: str, paths: Sequence[Path]) -> dict[str, float]:
    connection = plain_open(path)

    def put(number: int, raw: bytes) -> None:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t VALUES (?, ?)", (f"new-{number}", raw.decode("utf-8", "replace")))
        connection.execute("COMMIT")

    return put_in(put, paths)


def ours_upsert(path: str, paths: Sequence[Path]) -> dict[str, float]:
    adapter = opened(path)
    return put_in(lambda number, raw: adapter.ingest(request(f"new-{number}.md", raw)), paths)


TASKS = {
    f"{name}-{task}": call
    for name, calls in {
        "plain": (plain_import, plain_query, plain_upsert),
        "ours": (ours_import, ours_query, ours_upsert),
    }.items()
    for task, call in zip(("import", "query", "upsert"), calls, strict=True)
}


def measured(task: str, path: str, arguments: argparse.Namespace, wanted: Sequence[str]) -> dict[str, float]:
    """What a process of its own finds."""
    command = [sys.executable, __file__, str(arguments.folder), "--documents", str(arguments.documents)]
    done = subprocess.run(
        [*command, "--task", task, "--path", path],
        env={**os.environ, "BENCH_QUERIES": json.dumps(wanted)},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def run_task(task: str, path: str, paths: Sequence[Path]) -> dict[str, float]:
    found = TASKS[task](path, paths)
    kind = task.rpartition("-")[2]
    found[f"{kind} memory MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return found | ({f"{kind} memory MB, largest process beside it": children} if children else {})


def compare(arguments: argparse.Namespace) -> None:
    paths = files(arguments.folder, arguments.documents)
    text = sum(one.stat().st_size for one in paths)
    wanted = queries(paths)
    print(f"{len(paths)} documents, {text / 1e6:.0f} MB, {machine()}, SQLite {sqlite3.sqlite_version}")
    rounds = list[tuple[dict[str, float], dict[str, float]]]()
    for _ in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as folder:
            both = list[dict[str, float]]()
            for name in ("plain", "ours"):
                path = f"{folder}/{name}.db"
                found = measured(f"{name}-import", path, arguments, wanted)
                found["file / text"] = os.path.getsize(path) / text
                both.append(found)
            for task in ("query", "upsert"):
                for name, found in zip(("plain", "ours"), both, strict=True):
                    found |= measured(f"{name}-{task}", f"{folder}/{name}.db", arguments, wanted)
            rounds.append((both[0], both[1]))
    report(rounds)


def report(rounds: Sequence[tuple[dict[str, float], dict[str, float]]]) -> None:
    print(f"{'':44}{'plain FTS5':>12}{'ours':>12}{'ratio':>8}")
    for key in rounds[0][1]:
        ours = statistics.median(each[1][key] for each in rounds)
        if key not in rounds[0][0]:
            print(f"{key:44}{'':12}{ours:12.2f}")
            continue
        plain = statistics.median(each[0][key] for each in rounds)
        ratio = statistics.median(each[1][key] / each[0][key] for each in rounds)
        print(f"{key:44}{plain:12.2f}{ours:12.2f}{ratio:8.2f}")


# Four who write and four who read


def crowd_reader(path: str) -> None:
    """Asks until its input ends; tells how long each question took."""
    adapter = opened(path, busy_timeout_s=60)
    ask(adapter, "valve")
    print("ready", flush=True)
    took = list[float]()
    for line in sys.stdin:
        start = time.perf_counter()
        ask(adapter, line)
        took.append((time.perf_counter() - start) * 1000)
        print("done", flush=True)
    print(json.dumps(took), flush=True)


def crowd_writer(path: str, number: int) -> None:
    adapter = opened(path, busy_timeout_s=60)
    print("ready", flush=True)
    sys.stdin.readline()
    for at in range(WRITES):
        adapter.ingest(request(f"new/{number}/{at}.md", document(10_000 * number + at)))
    print(json.dumps([]), flush=True)


def document(number: int) -> bytes:
    draw = random.Random(number)
    words = [f"word{int(2_000 * draw.random() ** 2)}" for _ in range(200)]
    return f"# Valve {number}\n\n{' '.join(words[:100])}\n\n## Use\n\n{' '.join(words[100:])}\n".encode()


def started(role: str, path: str, number: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, __file__, "--task", role, "--path", path, "--number", str(number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def reads(path: str, busy: Callable[[int], bool]) -> list[float]:
    """Times of four readers, who ask one question after another while `busy` says so, given how many were asked."""
    readers = [started("crowd-reader", path, number) for number in range(CROWD)]
    draw, asked = random.Random(3), 0
    while busy(asked):
        for each in readers:
            assert each.stdin is not None
            each.stdin.write(f"word{draw.randrange(2_000)} word{draw.randrange(2_000)} use\n")
            each.stdin.flush()
        for each in readers:
            assert each.stdout is not None
            each.stdout.readline()
        asked += 1
    return [took for each in readers for took in json.loads(each.communicate()[0])]


def crowd() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/kb.db"
        adapter = opened(path)
        stored = 5_000
        for _ in adapter.ingest_many(requests(stored)):
            pass
        idle = reads(path, lambda asked: asked < 500)
        writers = [started("crowd-writer", path, number) for number in range(1, CROWD + 1)]
        start = time.perf_counter()
        for each in writers:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        busy = reads(path, lambda _: any(each.poll() is None for each in writers))
        took = time.perf_counter() - start
        assert all(each.communicate()[0] == "[]\n" for each in writers), "a writer failed"
        total = adapter.list_sources().total
        assert total == stored + CROWD * WRITES, f"{total} documents"
        assert adapter.check() == ()
        print(f"{CROWD} processes wrote {WRITES} documents each in {took:.1f} s; none lost, nobody was told of a lock")
        for name, times in (("idle", idle), ("while they wrote", busy)):
            p50, p99 = statistics.median(times), percentile(times, 99)
            print(f"{CROWD} readers, {name}: {len(times)} queries, p50 {p50:.1f} ms, p99 {p99:.1f} ms")
        print(f"p99 ratio {percentile(busy, 99) / percentile(idle, 99):.2f}")


def requests(count: int) -> Iterator[IngestRequest]:
    return (request(f"old/{number}.md", document(number)) for number in range(count))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--documents", type=int, default=1_000_000, help="how many of the files")
    parser.add_argument("--crowd", action="store_true")
    for hidden in ("--task", "--path", "--number"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    arguments: Any = parser.parse_args()
    if arguments.task == "crowd-reader":
        crowd_reader(arguments.path)
    elif arguments.task == "crowd-writer":
        crowd_writer(arguments.path, int(arguments.number))
    elif arguments.task:
        paths = files(arguments.folder, arguments.documents)
        print(json.dumps(run_task(arguments.task, arguments.path, paths)))
    elif arguments.crowd:
        crowd()
    elif arguments.folder is None:
        parser.error("name the FOLDER of markdown files, or --crowd")
    else:
        compare(arguments)


if __name__ == "__main__":
    main()
