"""`knowledge hub`, in processes of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
COMMAND = [str(Path(sys.executable).with_name("knowledge")), "hub"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a command of the hub in the test's folder."""

    def running(*words: str, given: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*COMMAND, *words], cwd=tmp_path, env=environ(), input=given, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
        return done

    return running


def environ() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KNOWLEDGE_")}
    return {**kept, "KNOWLEDGE_HUB_MODEL": "none"}


def saved(run: Run, content: str = "Use pdfplumber, page by page, and join the rows.") -> str:
    done = run("save", "--scenario", "Read a PDF", "--type", "tool", "--json", given=content)
    entry_id: str = json.loads(done.stdout)["id"]
    return entry_id


def test_entries_are_saved_found_rated_and_listed(run: Run) -> None:
    entry = saved(run)
    assert entry in run("search", "pdf").stdout
    assert json.loads(run("search", "pdf", "--json").stdout)["results"][0]["id"] == entry
    run("update", entry, "--helpful", "It worked.", "--score", "5")
    assert f"{entry}  5/5  +1 -0" in run("list", "--type", "tool").stdout
    assert "version 1" in run("history", entry).stdout
    run("update", entry, "--retire")
    assert run("list").stdout == ""
    assert "[retired]" in run("list", "--all").stdout
    run("update", entry, "--restore")
    assert run("search", "boiler").stdout == ""
    run("delete", entry)
    assert run("list").stdout == ""


def test_slimming_shows_its_plan_first(run: Run) -> None:
    one, other = saved(run), saved(run)
    shown = run("slim")
    assert "1 merges for 2 entries" in shown.stdout
    assert "--apply" in shown.stderr
    assert len(run("list").stdout.splitlines()) == 4
    assert "2 entries before, 1 after" in run("slim", "--apply").stdout
    merge = json.loads(run("list", "--all", "--json").stdout)["results"]
    assert {each["status"] for each in merge if each["id"] in (one, other)} == {"active", "superseded"}
    run("slim", "--undo", "1")
    assert len(json.loads(run("list", "--json").stdout)["results"]) == 2


def test_the_hub_goes_out_and_comes_in_again(run: Run, tmp_path: Path) -> None:
    entry = saved(run)
    run("export", "out.jsonl")
    assert run("export").stdout == (tmp_path / "out.jsonl").read_text()
    assert run("import", "out.jsonl").stdout == "0 added, 1 there already\n"
    run("backup", "copy.db")
    run("delete", entry)
    assert run("import", "-", given=(tmp_path / "out.jsonl").read_text()).stdout == "1 added, 0 there already\n"
    (tmp_path / "bad.jsonl").write_text('{"id": "a", "scenario": "s", "content": "c"}\nnothing\n')
    assert "Line 2" in run("import", "bad.jsonl", code=64).stderr
    assert "cannot be read" in run("import", "missing.jsonl", code=1).stderr
    assert "cannot be written" in run("export", "no/folder.jsonl", code=1).stderr


def test_what_is_wrong_is_said(run: Run) -> None:
    assert "knowledge-none" in run("history", "knowledge-none", code=1).stderr
    assert "score" in run("save", "--scenario", "s", "--content", "c", "--score", "9", code=64).stderr
    entry = saved(run)
    assert "KNOWLEDGE_HUB_MODEL" in run("update", entry, "--evolve", "Better.", code=1).stderr
    assert "says nothing" in run("update", entry, code=64).stderr
    assert "KNOWLEDGE_HTTP_TOKENS" in run("serve", "--host", "0.0.0.0", code=1).stderr


def test_the_whole_hub_is_served_on_this_machine_without_a_token(run: Run, tmp_path: Path) -> None:
    entry = saved(run)
    serving = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0"], cwd=tmp_path, env=environ(), stderr=subprocess.PIPE, text=True
    )
    try:
        assert serving.stderr is not None
        url = None
        for line in serving.stderr:
            if url := re.search(r"http://127\.0\.0\.1:\d+", line):
                break
        assert url is not None
        hub = f"{url[0]}/api/knowledge"
        assert httpx2.get(f"{hub}/search", params={"q": "pdf"}).json()["results"][0]["id"] == entry
        assert httpx2.post(hub, json={"scenario": "Boiler", "content": "Turn it off."}).status_code == 201
        hits = httpx2.get(f"{url[0]}/v1/query", params={"q": "boiler"}).json()["hits"]
        assert hits[0]["title"] == "Boiler"
    finally:
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(30) == 0
        assert serving.stderr is not None
        serving.stderr.close()
