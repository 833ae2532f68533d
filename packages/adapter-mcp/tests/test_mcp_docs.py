"""What the guide to MCP says, is so."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from knowledge_engine.cli.root import knowledge
from knowledge_mcp import plugin, server, stdio
from knowledge_mcp.schemas import NAMES
from knowledge_mcp.uris import uri_of

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
README = (ROOT / "packages" / "adapter-mcp" / "README.md").read_text(encoding="utf-8")


def blocks(language: str, text: str = GUIDE) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def test_every_tool_is_in_the_table_and_no_other() -> None:
    table = GUIDE.partition("| Tool |")[2].partition("\n\n")[0]
    assert tuple(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == NAMES


def test_every_setting_is_in_the_table_with_its_default() -> None:
    infos = {each["name"]: each for each in plugin.knowledge_transport()["settings"]}
    rows = dict(re.findall(r"^\| `(KNOWLEDGE_MCP_\w+)` \| (.*) \|$", GUIDE, re.MULTILINE))
    assert set(rows) == set(infos)
    for name, info in infos.items():
        assert ("default" in info) == ("default" in rows[name])
        assert f"`{info.get('default', '')}`" in rows[name] or "default" not in info


def commands() -> list[list[str]]:
    lines = [line for text in (GUIDE, README) for block in blocks("console", text) for line in block.splitlines()]
    split = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines]
    ours = [
        words if words[0] == "knowledge" else words[words.index("--") + 1 :] for words in split if "http" not in words
    ]
    entries = [entry for text in blocks("json") for found in json.loads(text).values() for entry in found.values()]
    return ours + [[entry["command"], *entry["args"]] for entry in entries]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_commands_of_the_guide_and_of_hosts_are_such_that_there_are(words: list[str]) -> None:
    assert Path(words[0]).name == "knowledge"
    help_words = words[1 : 2 if words[1] == "skill" else 3]
    shown = CliRunner().invoke(knowledge, [*help_words, "--help"])
    assert shown.exit_code == 0
    for word in words:
        if word.startswith("--"):
            assert word in shown.output


def test_the_options_that_the_guide_names_are_such_that_there_are() -> None:
    shown = "".join(CliRunner().invoke(knowledge, [*words, "--help"]).output for words in (["serve", "mcp"], ["skill"]))
    of_others = {"--scope", "--transport", "--header"}
    for option in set(re.findall(r"`(--[a-z-]+)[` ]", GUIDE)) - of_others:
        assert option in shown


def test_limits_and_uris_of_the_guide_are_those_of_the_code() -> None:
    text = " ".join(GUIDE.split())
    assert f"up to {server.MAX_RESOURCE_BYTES // 1_000_000} MB" in text
    assert f"{stdio.MAX_MESSAGE_BYTES // 1_000_000} MB are the most" in text
    assert uri_of("guides/käse.md") in text


def test_the_skill_of_the_guide_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (line,) = [line for block in blocks("console") for line in block.splitlines() if " skill " in line]
    folder = str(tmp_path / "manuals")
    words = [folder if word.startswith(".claude") else word for word in shlex.split(line)[2:]]
    assert CliRunner().invoke(knowledge, words).exit_code == 0
    assert "Manuals of pumps and meters" in (tmp_path / "manuals" / "SKILL.md").read_text(encoding="utf-8")
