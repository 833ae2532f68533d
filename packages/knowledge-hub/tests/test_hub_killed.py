"""Processes that are killed in the middle of anything leave a whole hub."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from hub_bench import OpenHub
from knowledge_sqlite import SqliteKnowledgeAdapter, SqliteSettings

#: Says a line when it begins, and then does all that can be done, until it is killed.
BUSY = """
import random, sys
from knowledge_engine.errors import ConflictError, NotFoundError
from knowledge_hub import EntryUpdate, HubSettings, NewEntry, create_hub
hub = create_hub(HubSettings(path=sys.argv[1], routing_model="none", slimming_model="none"), {})
draw, ids = random.Random(int(sys.argv[2])), []
def tried(call, *given):
    try:
        return call(*given)
    except (ConflictError, NotFoundError):
        return None
for turn in range(10_000):
    content = f"word{draw.randrange(90)} word{draw.randrange(90)}"
    ids.append(hub.save(NewEntry(scenario=f"s {draw.randrange(50)}", content=content)).id)
    tried(hub.update, draw.choice(ids), EntryUpdate(add_helpful_case={"turn": turn}))
    hub.search(f"word{draw.randrange(90)}")
    if turn == 3:
        print("busy", flush=True)
    if draw.random() < 0.1:
        hub.apply_slim(hub.plan_slim())
    for one in hub.merges()[:1] if draw.random() < 0.1 else ():
        tried(hub.undo_merge, one.merge_id)
    if draw.random() < 0.05:
        tried(hub.delete, draw.choice(ids))
"""


@pytest.mark.slow
def test_a_hub_is_whole_after_each_kill(open_hub: OpenHub, tmp_path: Path) -> None:
    path, draw = str(tmp_path / "hub.db"), random.Random(3)
    for turn in range(8):
        command = [sys.executable, "-c", BUSY, path]
        running = [
            subprocess.Popen([*command, str(2 * turn + one)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for one in range(2)
        ]
        for each in running:
            assert each.stdout is not None
            assert each.stdout.readline() == "busy\n"
        # Killed after a time that differs, in the middle of whatever it does then.
        with pytest.raises(subprocess.TimeoutExpired):
            running[0].wait(draw.uniform(0.05, 0.6))
        for each in running:
            each.kill()
        for each in running:
            assert each.communicate()[1] == ""
    hub = open_hub()
    hub.search("word1")
    entries = hub.listed(limit=1_000, status=None)
    assert len(entries) == hub.status()["entries"]
    assert hub.provider.list_sources().total == hub.status()["active"]
    for one in entries:
        whole = hub.get(one.id)
        if whole.status == "active":
            assert whole.metrics.helpful == len(whole.eval.helpful_history)
    lines = list(hub.export())
    other = open_hub(path=":memory:")
    other.import_lines(lines)
    assert list(other.export()) == lines
    adapter = SqliteKnowledgeAdapter(SqliteSettings(path=path))
    assert adapter.check() == ()
    adapter.dispose()
