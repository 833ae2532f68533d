"""Sizes that people really have: slow, so `make test` leaves them out."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from knowledge_engine import Query
from knowledge_files import FilesKnowledgeAdapter, LocalFs

pytestmark = pytest.mark.slow


def knowledge(*arguments: str) -> dict[str, object]:
    command = [str(Path(sys.executable).with_name("knowledge")), *arguments, "--json"]
    answer = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert isinstance(answer, dict)
    return answer


def assert_cited(root: Path, answer: dict[str, object]) -> int:
    hits = answer["hits"]
    assert isinstance(hits, list)
    for hit in hits:
        data = (root / hit["source_id"]).read_bytes()[hit["span"]["start"] : hit["span"]["end"]]
        assert data.decode() == hit["text"]
        assert hashlib.sha256(data).hexdigest() == hit["content_hash"]
    return len(hits)


def test_two_hundred_thousand_files_are_found_and_cited(tmp_path: Path) -> None:
    for folder in range(200):
        inside = tmp_path / f"{folder:03}"
        inside.mkdir()
        for number in range(1000):
            text = f"# Note {number}\n\nPump {folder * 1000 + number:06} in hall {folder} of line k{number % 97}.\n"
            (inside / f"{number:03}.md").write_text(text)
    answer = knowledge("query", "pump 123456", "--backend", f"files:{tmp_path}")
    assert assert_cited(tmp_path, answer) == 10
    assert answer["hits"][0]["source_id"] == "123/456.md"  # type: ignore[index]
    assert answer["index"]["documents"] == 200_000  # type: ignore[index]


def test_a_file_of_a_million_lines_is_found_and_cited(tmp_path: Path) -> None:
    with (tmp_path / "log.txt").open("w") as out:
        for number in range(1_000_000):
            out.write(f"line {number} says tick{number:07} at station {number % 31}\n")
    answer = knowledge("query", "tick0765432", "--backend", f"files:{tmp_path}", "--per-source", "5")
    assert assert_cited(tmp_path, answer) == 1
    assert "tick0765432" in answer["hits"][0]["text"]  # type: ignore[index]


def test_files_that_change_all_the_time_are_never_cited_wrongly(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.md").write_text(f"# Start {number}\n\nheron zero\n")
    adapter = FilesKnowledgeAdapter(LocalFs(tmp_path), ".")
    versions: dict[str, set[bytes]] = {path.name: {path.read_bytes()} for path in tmp_path.iterdir()}
    stop = threading.Event()

    def rewrite() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            path = tmp_path / f"{turn % 20}.md"
            data = b"# Turn %d\n\n%sheron in place\n" % (turn, b"filler " * (turn % 7))
            versions[path.name].add(data)
            path.write_bytes(data)

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        for _ in range(300):
            for hit in adapter.query(Query(query="heron", top_k=20)).hits:
                data = hit.text.encode()
                assert hashlib.sha256(data).hexdigest() == hit.content_hash
                place = slice(hit.span.start, hit.span.end)
                # A rewrite in place may be seen half done; what is cited was really read there.
                assert any(known[place] == data for known in versions[hit.source_id]) or data in known_prefixes(
                    versions[hit.source_id], place
                )
    finally:
        stop.set()
        writer.join()


def known_prefixes(versions: set[bytes], place: slice) -> set[bytes]:
    return {known[:cut][place] for known in versions for cut in range(len(known) + 1)}
