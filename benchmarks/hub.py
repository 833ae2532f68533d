"""The hub against the SQLite backend and bare SQLite, in one run.

    python benchmarks/hub.py [--entries 100000] [--processes 8] [--feedbacks 500]

Entries are drawn at random, as words of which few are in nearly all. Search without a model is compared with the SQLite
backend's query over the same file; saving and feedback with a bare insert and commit of the same text into a table with
a key; slimming with making the MinHash digests of the same entries. All with a write-ahead log and synchronous NORMAL.
"""

from __future__ import annotations

import argparse
import random
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from knowledge_engine.models import Query
from knowledge_hub import EntryUpdate, HubService, HubSettings, NewEntry, create_hub
from knowledge_hub.similarity import digest_of, shingles
from knowledge_sqlite import SqliteKnowledgeAdapter, SqliteSettings

VOCABULARY, QUERIES, WRITES = 20_000, 200, 500


def words(draw: random.Random, count: int) -> str:
    return " ".join(f"w{int(VOCABULARY * draw.random() ** 3)}" for _ in range(count))


def timed(call: Callable[[Any], object], given: Sequence[Any]) -> tuple[float, float]:
    """Median and 99th percentile, in ms."""
    took = []
    for each in given:
        start = time.perf_counter()
        call(each)
        took.append((time.perf_counter() - start) * 1000)
    return statistics.median(took), statistics.quantiles(took, n=100)[98]


def opened(path: str) -> HubService:
    return create_hub(HubSettings(path=path, routing_model="none", slimming_model="none", busy_timeout_s=120), {})


def fill(hub: HubService, entries: int, draw: random.Random) -> list[str]:
    start = time.perf_counter()
    ids = [
        hub.save(NewEntry(scenario=words(draw, 12), content=words(draw, 80), tags_type=("tool",))).id
        for _ in range(entries)
    ]
    saved = time.perf_counter()
    hub.search("w1")
    print(f"{entries} saved in {saved - start:.1f} s; put into the index in {time.perf_counter() - saved:.1f} s")
    return ids


def searches(hub: HubService, path: str, draw: random.Random) -> None:
    adapter = SqliteKnowledgeAdapter(SqliteSettings(path=path))
    asked = [words(draw, draw.randint(2, 6)) for _ in range(QUERIES)]
    rounds = []
    for _ in range(3):
        plain = timed(lambda text: adapter.query(Query(query=text)), asked)
        ours = timed(hub.search, asked)
        rounds.append((plain, ours))
    adapter.dispose()
    for place, name in enumerate(("p50", "p99")):
        plain_ms, ours_ms = (statistics.median(each[which][place] for each in rounds) for which in (0, 1))
        print(f"search {name}: SQLite backend {plain_ms:.2f} ms, hub {ours_ms:.2f} ms, {ours_ms / plain_ms:.2f}x")


def writes(hub: HubService, folder: str, ids: Sequence[str], draw: random.Random) -> None:
    connection = sqlite3.connect(f"{folder}/bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("CREATE TABLE t(id TEXT PRIMARY KEY, scenario TEXT, content TEXT)")
    new = [NewEntry(scenario=words(draw, 12), content=words(draw, 80)) for _ in range(WRITES)]

    def bare(number: int) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "INSERT INTO t VALUES (?, ?, ?)", (f"knowledge-{number}", new[number].scenario, new[number].content)
        )
        connection.execute("COMMIT")

    plain, _ = timed(bare, range(WRITES))
    saved, _ = timed(hub.save, new)
    case = EntryUpdate(add_helpful_case={"case_id": "1", "result": "fine"})
    rated, _ = timed(lambda one: hub.update(one, case), ids[:WRITES])
    print(f"bare insert + commit {plain * 1000:.0f} µs")
    print(f"save {saved * 1000:.0f} µs, {saved / plain:.1f}x; feedback {rated * 1000:.0f} µs, {rated / plain:.1f}x")


COUNTING = """
import sys
from knowledge_hub import EntryUpdate, HubSettings, create_hub
path, count, *ids = sys.argv[1:]
hub = create_hub(HubSettings(path=path, routing_model="none", slimming_model="none", busy_timeout_s=300), {})
for number in range(int(count)):
    hub.update(ids[number % len(ids)], EntryUpdate(add_helpful_case={"case_id": str(number)}))
"""


def counting(hub: HubService, path: str, ids: Sequence[str], processes: int, feedbacks: int) -> None:
    before = sum(hub.get(one).metrics.helpful for one in ids)
    start = time.perf_counter()
    command = [sys.executable, "-c", COUNTING, path, str(feedbacks), *ids]
    running = [subprocess.Popen(command) for _ in range(processes)]
    assert [each.wait() for each in running] == [0] * processes
    counted = sum(hub.get(one).metrics.helpful for one in ids) - before
    took = time.perf_counter() - start
    exact = "exact" if counted == processes * feedbacks else f"WRONG: {counted}"
    print(f"{processes} processes x {feedbacks} feedbacks on {len(ids)} entries: {took:.1f} s, {exact}")


def slimming(hub: HubService) -> None:
    start = time.perf_counter()
    plan = hub.plan_slim()
    planned = time.perf_counter() - start
    start = time.perf_counter()
    for entry in hub.entries():
        digest_of(shingles(entry))
    hashed = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"slimming planned in {planned:.1f} s, MinHash alone {hashed:.1f} s, {planned / hashed:.2f}x;"
        f" {len(plan.merges)} merges, peak memory {peak:.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--feedbacks", type=int, default=500)
    arguments = parser.parse_args()
    draw = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/hub.db"
        hub = opened(path)
        ids = fill(hub, arguments.entries, draw)
        searches(hub, path, draw)
        slimming(hub)
        writes(hub, folder, ids, draw)
        counting(hub, path, ids[-10:], arguments.processes, arguments.feedbacks)
        hub.close()


if __name__ == "__main__":
    main()
