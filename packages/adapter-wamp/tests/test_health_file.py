"""The file that says how a server is."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from pathlib import Path

import pytest

from knowledge_wamp import health as health_module
from knowledge_wamp.health import HealthFile
from wamp_bench.servers import until


def said(path: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads(path.read_text())
    return content


def test_the_file_holds_the_state_since_when_and_what_was_said(tmp_path: Path) -> None:
    path = tmp_path / "health.json"
    file = HealthFile(str(path))
    file.say("connecting", url="ws://host")
    first = said(path)
    assert (first["state"], first["url"], first["pid"]) == ("connecting", "ws://host", os.getpid())
    file.say("connecting", reason="The router cannot be reached")
    second = said(path)
    assert second["since"] == first["since"]
    assert (second["url"], second["reason"]) == ("ws://host", "The router cannot be reached")
    assert str(second["updated"]) >= str(first["updated"])
    assert file.state == {key: value for key, value in second.items() if key != "updated"}


@pytest.mark.parametrize("state", ["ready", "degraded"])
def test_a_reason_is_forgotten_when_it_is_over(tmp_path: Path, state: str) -> None:
    file = HealthFile(str(tmp_path / "health.json"))
    file.say("connecting", reason="The router cannot be reached")
    file.say(state)
    assert "reason" not in said(tmp_path / "health.json")


def test_what_no_file_can_hold_as_it_is_is_written_all_the_same(tmp_path: Path) -> None:
    file = HealthFile(str(tmp_path / "health.json"))
    file.say("connecting", reason="\ud800 \N{SNOWMAN} \0")
    assert said(tmp_path / "health.json")["reason"] == "\ud800 \N{SNOWMAN} \0"


def test_no_reader_ever_sees_half_of_it(tmp_path: Path) -> None:
    path = tmp_path / "health.json"
    file = HealthFile(str(path))
    file.say("ready", registered=["a"] * 5_000)
    sizes: set[int] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            registered = said(path)["registered"]
            assert isinstance(registered, list)
            sizes.add(len(registered))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(300):
        file.say("ready", registered=["a"] * (5_000 if number % 2 else 10))
    done.set()
    reader.join()
    assert sizes <= {10, 5_000}
    assert os.listdir(tmp_path) == ["health.json"]


def test_it_is_written_again_though_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "BEAT_S", 0.001)
    path = tmp_path / "health.json"
    file = HealthFile(str(path))

    async def main() -> None:
        file.say("ready")
        first = said(path)
        beating = asyncio.create_task(file.beat())
        await until(lambda: said(path)["updated"] != first["updated"])
        beating.cancel()
        assert {**said(path), "updated": ""} == {**first, "updated": ""}

    asyncio.run(main())


def test_a_file_that_cannot_be_written_is_told_of_once_and_written_when_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "later"
    file = HealthFile(str(folder / "health.json"))
    for state in ("connecting", "ready"):
        file.say(state)
    assert file.state["state"] == "ready"
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "the health file cannot be written")
    assert vars(record)["reason"] == "No such file or directory"
    folder.mkdir()
    file.say("ready")
    assert said(folder / "health.json")["state"] == "ready"


def test_a_folder_in_its_place_leaves_nothing_beside_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "health.json"
    path.mkdir()
    HealthFile(str(path)).say("ready")
    assert os.listdir(tmp_path) == ["health.json"]
    assert len(caplog.records) == 1


def test_without_a_path_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = HealthFile(None)
    file.say("ready")
    assert file.state["state"] == "ready"
    assert os.listdir(tmp_path) == []
