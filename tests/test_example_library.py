"""The example library keeps the rules of the document format that it shows."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pytest
import yaml
from pydantic import JsonValue

from knowledge_engine import validate_library
from knowledge_engine.frontmatter import parse_frontmatter

LIBRARY = Path(__file__).resolve().parents[1] / "examples" / "library"
PATHS = sorted(path.relative_to(LIBRARY).as_posix() for path in LIBRARY.rglob("*") if path.is_file())
KIND_OF_FOLDER = {"devices": "device", "protocols": "protocol", "guides": "guide"}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
MARKDOWN_LINK = re.compile(r"\]\(([^)\s]+)\)")
WIKILINK = re.compile(r"\[\[([^]|#]+)")


class Doc(NamedTuple):
    metadata: dict[str, JsonValue]
    issues: list[str]
    body: str

    @property
    def prose(self) -> str:
        """The body without its fenced blocks."""
        return FENCE.sub("", self.body)

    @property
    def yaml_blocks(self) -> list[str]:
        return [text for language, text in FENCE.findall(self.body) if language == "yaml"]


def load(path: str) -> Doc:
    raw = (LIBRARY / path).read_bytes()
    front = parse_frontmatter(raw, path)
    return Doc(dict(front.metadata), [str(issue) for issue in front.issues], raw[front.body_start :].decode())


every_document = pytest.mark.parametrize("path", PATHS)


def text(doc: Doc, key: str) -> str:
    value = doc.metadata.get(key)
    assert isinstance(value, str), f"{key} is no text: {value!r}"
    return value


def test_library_has_documents_of_every_kind_and_nothing_else() -> None:
    folders = Counter(path.split("/")[0] for path in PATHS)
    assert set(folders) == set(KIND_OF_FOLDER)
    assert len(PATHS) >= 25
    assert all(re.fullmatch(r"[a-z]+/[a-z0-9-]+\.md", path) for path in PATHS)


def test_library_validates_without_an_error_or_a_warning() -> None:
    vocab = {"kind": set(KIND_OF_FOLDER.values()), "verified": {"verified", "field_tested", "unverified"}}
    errors, warnings = validate_library(LIBRARY, vocab=vocab, required_sections=["Overview"])
    assert [str(issue) for issue in (*errors, *warnings)] == []


@every_document
def test_frontmatter_parses_without_an_issue(path: str) -> None:
    assert load(path).issues == []


@every_document
def test_required_keys_are_filled(path: str) -> None:
    doc = load(path)
    assert all(text(doc, key).strip() for key in ("id", "title", "kind", "summary", "protocol", "verified"))
    assert text(doc, "verified") in {"verified", "field_tested", "unverified"}
    for key in ("keywords", "aliases"):
        words = doc.metadata.get(key)
        assert isinstance(words, list)
        assert words
        assert all(isinstance(word, str) for word in words)
    if text(doc, "kind") == "device":
        assert all(text(doc, key).strip() for key in ("vendor", "model", "equipment_type"))
        assert doc.metadata.get("drivers")


@every_document
def test_id_and_kind_agree_with_the_folder(path: str) -> None:
    doc, kind = load(path), KIND_OF_FOLDER[path.split("/")[0]]
    assert text(doc, "kind") == kind
    parts = r"\.[a-z0-9_]+\.[a-z0-9_]+" if kind == "device" else r"\.[a-z0-9_]+"
    assert re.fullmatch(kind + parts, text(doc, "id"))


def test_ids_are_unique() -> None:
    ids = Counter(text(load(path), "id") for path in PATHS)
    assert [name for name, count in ids.items() if count > 1] == []


@every_document
def test_summary_fits_a_list_entry(path: str) -> None:
    assert len(text(load(path), "summary")) <= 250


@every_document
def test_body_has_a_readable_size(path: str) -> None:
    assert 1_500 <= len(load(path).body) <= 12_000


@every_document
def test_body_opens_with_an_overview(path: str) -> None:
    doc = load(path)
    assert doc.body.lstrip().startswith("## Overview\n")
    headings = HEADING.findall(doc.prose)
    assert len(headings) == len(set(headings)) >= 3


@every_document
def test_yaml_blocks_are_mappings(path: str) -> None:
    assert all(isinstance(yaml.safe_load(block), dict) for block in load(path).yaml_blocks)


@pytest.mark.parametrize("path", [path for path in PATHS if path.startswith("devices/")])
def test_device_document_ends_with_a_configuration(path: str) -> None:
    doc = load(path)
    assert doc.body.rstrip().endswith("```")
    config = yaml.safe_load(doc.yaml_blocks[-1])
    assert config["driver"] in doc.metadata["drivers"]  # type: ignore[operator]
    if config["driver"].startswith(("modbus", "s7")):
        assert config["address_base"] in {0, 1}


@every_document
def test_links_lead_to_documents_of_the_library(path: str) -> None:
    doc = load(path)
    relative = [unquote(link.partition("#")[0]) for link in MARKDOWN_LINK.findall(doc.prose)]
    home = (LIBRARY / path).parent
    targets = [(home / link).resolve() for link in relative if not re.match(r"[a-z]+:", link)]
    assert [str(target) for target in targets if not (target.is_file() and target.is_relative_to(LIBRARY))] == []
    ids = {text(load(other), "id") for other in PATHS}
    assert [name for name in WIKILINK.findall(doc.prose) if name not in ids] == []


def test_every_document_can_be_reached_from_another() -> None:
    reached: set[str] = set()
    for path in PATHS:
        for link in MARKDOWN_LINK.findall(load(path).prose):
            target = ((LIBRARY / path).parent / link.partition("#")[0]).resolve()
            if target != (LIBRARY / path).resolve() and target.is_relative_to(LIBRARY):
                reached.add(target.relative_to(LIBRARY).as_posix())
    assert sorted(set(PATHS) - reached) == []


def test_no_paragraph_stands_in_two_documents() -> None:
    paragraphs = Counter(
        paragraph
        for path in PATHS
        for paragraph in {" ".join(part.split()) for part in load(path).prose.split("\n\n")}
        if len(paragraph) > 80
    )
    assert [paragraph for paragraph, count in paragraphs.items() if count > 1] == []


def test_library_speaks_more_than_english() -> None:
    assert {load(path).metadata.get("lang", "en") for path in PATHS} >= {"en", "de", "zh"}
