"""On questions with known answers, the hub finds no less than the SQLite backend does on the same texts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

from hub_bench import OpenHub
from knowledge_engine.models import IngestRequest, Query
from knowledge_hub.entries import NewEntry
from knowledge_sqlite import SqliteKnowledgeAdapter, SqliteSettings

HERE = Path(__file__).resolve().parent
ENTRIES = [json.loads(line) for line in (HERE / "golden_entries.jsonl").read_text().splitlines()]
QUESTIONS = [json.loads(line) for line in (HERE / "golden_questions.jsonl").read_text().splitlines()]
TOP = 5


def ndcg(found: Sequence[str], expected: Sequence[str]) -> float:
    """Of a ranking whose right answers are all as good."""
    gain = sum(1 / math.log2(rank + 2) for rank, one in enumerate(found[:TOP]) if one in expected)
    return gain / sum(1 / math.log2(rank + 2) for rank in range(min(TOP, len(expected))))


def mean(search: Callable[[str], Sequence[str]]) -> float:
    return sum(ndcg(search(each["question"]), each["expected"]) for each in QUESTIONS) / len(QUESTIONS)


def test_the_hub_finds_no_less_than_the_backend_that_it_is_built_on(open_hub: OpenHub, tmp_path: Path) -> None:
    numbers = count()
    hub = open_hub(random_hex=lambda: f"{next(numbers):04x}")  # equally good ones come in the same order in both
    names = {}
    plain = SqliteKnowledgeAdapter(SqliteSettings(path=str(tmp_path / "plain.db")))
    for each in ENTRIES:
        new = NewEntry.model_validate({key: each[key] for key in ("tags_type", "scenario", "content")})
        names[hub.save(new).id] = each["name"]
        plain.ingest(IngestRequest(id=each["name"], text=each["content"], title=each["scenario"]))
    mine = mean(lambda text: [names[one.id] for one in hub.search(text, top_k=TOP).results])
    reference = mean(lambda text: [hit.source_id for hit in plain.query(Query(query=text, top_k=TOP)).hits])
    plain.dispose()
    assert mine >= reference
    assert mine > 0.75
