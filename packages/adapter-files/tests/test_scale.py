"""Large inputs: no crash, no wrong citation."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_engine.citations import content_hash
from knowledge_engine.fs import LocalFs
from knowledge_engine.models import Query
from knowledge_files import FilesKnowledgeAdapter

pytestmark = pytest.mark.slow


def assert_true(adapter: FilesKnowledgeAdapter, root: Path, query: Query) -> list[str]:
    result = adapter.query(query)
    for hit in result.hits:
        data = (root / hit.source_id).read_bytes()[hit.span.start : hit.span.end]
        assert (data.decode(), content_hash(data)) == (hit.text, hit.content_hash)
    return [hit.source_id for hit in result.hits]


def test_a_file_of_a_million_lines_is_searched_and_cited_rightly(tmp_path: Path) -> None:
    lines = [f"line {number} of the log, sensor {number % 97}" for number in range(1_000_000)]
    lines[765_432] = "the needle-word stands here"
    (tmp_path / "log.txt").write_text("\n".join(lines))
    (tmp_path / "log.md").write_text("# Log\n\n" + "\n\n".join(lines[:200_000]))
    adapter = FilesKnowledgeAdapter(LocalFs(tmp_path), ".")
    assert assert_true(adapter, tmp_path, Query(query="needle-word")) == ["log.txt"]
    assert len(assert_true(adapter, tmp_path, Query(query="sensor 42", per_source=50, top_k=50))) == 50


def test_twenty_thousand_files_are_indexed_and_followed(tmp_path: Path) -> None:
    for number in range(20_000):
        file = tmp_path / f"{number % 100}" / f"{number}.md"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"# Document {number}\n\nvalve number{number} and pump{number % 7}\n")
    adapter = FilesKnowledgeAdapter(LocalFs(tmp_path), ".")
    assert assert_true(adapter, tmp_path, Query(query="number12345")) == ["45/12345.md"]
    assert len(assert_true(adapter, tmp_path, Query(query="valve", top_k=300))) == 300
    (tmp_path / "45" / "12345.md").write_text("# Moved on\n\nkingfisher\n")
    (tmp_path / "0" / "0.md").unlink()
    assert adapter.refresh() is True
    assert assert_true(adapter, tmp_path, Query(query="kingfisher")) == ["45/12345.md"]
    assert adapter.list_sources(limit=1).total == 19_999
