from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_engine.fs import MemoryFs
from knowledge_engine.models import DocumentIssue
from knowledge_engine.validation import validate_library

OTHER = """---
id: guide.other
title: The other one
kind: guide
summary: S.
aliases: [Second name]
---
## Overview

Text <a id="mark"></a> and <span class="x" name=deep>.

## Größe & Wasser

Text

### Below it

Text
"""


def document(links: str, id: str = "guide.here") -> str:
    return f"---\nid: {id}\ntitle: Here\nkind: guide\nsummary: S.\n---\n## Start\n\n{links}\n"


def check(links: str, **more: str) -> tuple[DocumentIssue, ...]:
    files = {
        "docs/here.md": document(links),
        "docs/other.md": OTHER,
        "docs/sub/deep.md": document("x", "guide.deep"),
        "img/Pump.png": "",
        "notes.txt": "---\nid: plain.notes\n---\nText",
        "data.yaml": "a: 1",
        **more,
    }
    result = validate_library(MemoryFs({path: text.encode() for path, text in files.items()}))
    assert result.warnings == ()
    return result.errors


@pytest.mark.parametrize(
    "link",
    [
        "[x](other.md)",
        "[x](./other.md)",
        "[x](../docs/other.md)",
        "[x](/docs/other.md)",
        "[x](sub/deep.md)",
        "[x](sub/)",
        "[x](..)",
        "[x](sub)",
        "[x](<other.md> 'title')",
        "[x](%6Fther.md?raw=1)",
        "![x](../img/Pump.png)",
        "[x](../data.yaml#L5)",
        "[x][r]\n\n[r]: other.md",
        "[x](#start)",
        "[x](#)",
        "[x](#top)",
        "[x](other.md#overview)",
        "[x](other.md#gr%C3%B6%C3%9Fe--wasser)",
        "[x](other.md#mark)",
        "[x](other.md#deep)",
        "[x](https://example.com/no.md)",
        "[x](//example.com/no)",
        "[x](mailto:[email protected])",
        "<https://example.com>",
        "`[x](no.md)`",
        "```\n[x](no.md)\n```",
        "[[guide.other]]",
        "[[guide.OTHER]]",
        "[[The other one]]",
        "[[second NAME|shown]]",
        "[[other]]",
        "[[docs/other]]",
        "[[docs/other.md#Größe & Wasser]]",
        "[[guide.other#Größe & Wasser#Below it]]",
        "[[guide.other#below-it]]",
        "[[guide.other#^block]]",
        "[[#Start]]",
        "[[plain.notes]]",
        "![[pump.png]]",
        "![[img/Pump.png]]",
        "[[https://example.com/page]]",
    ],
)
def test_links_that_lead_somewhere_are_no_issue(link: str) -> None:
    assert check(link) == ()


@pytest.mark.parametrize(
    "link",
    [
        "[x](no.md)",
        "[x](docs/other.md)",
        "[x](Other.md)",
        "![x](pump.png)",
        "[x](.hidden.md)",
        "[[No such document]]",
        "[x](#no-such)",
        "[x](#Start here)".replace(" ", "%20"),
        "[x](other.md#no-such)",
        "[x](other.md#The other one)".replace(" ", "-"),
        "[[guide.other#No such]]",
        "[[#No such]]",
    ],
)
def test_links_that_lead_nowhere_are_errors_at_their_lines(link: str) -> None:
    [issue] = check(f"fine [x](other.md)\n\n{link}")
    assert (issue.code, issue.path, issue.line) == ("broken-link", "docs/here.md", 11)
    assert issue.mend


@pytest.mark.parametrize("link", ["[x](../../secret.md)", "[x](../../docs2/a.md#b)", "![x](/../x.png)"])
def test_links_out_of_the_root_are_errors_of_their_own(link: str) -> None:
    [issue] = check(link)
    assert (issue.code, issue.severity, issue.line) == ("link-outside", "error", 9)


def test_a_wiki_link_that_several_documents_answer_to_is_broken_and_names_them() -> None:
    [issue] = check("[[Same]]", **{"a/same.md": document("x", "id.a"), "b/same.md": document("x", "id.b")})
    assert issue.code == "broken-link"
    assert "a/same.md, b/same.md" in issue.message


def test_a_file_of_that_name_elsewhere_is_suggested() -> None:
    [issue] = check("[x](deep.md)")
    assert "docs/sub/deep.md" in issue.mend


def test_a_picture_does_not_make_a_documents_name_ambiguous() -> None:
    assert check("[[other]] ![[other.png]]", **{"img/other.png": ""}) == ()


def test_a_link_to_a_name_that_only_the_disk_knows_leads_somewhere(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(document("[x](alias.md) [y](no.md)"))
    (tmp_path / "b.md").write_text(document("x", "guide.b"))
    (tmp_path / "alias.md").symlink_to("b.md")
    result = validate_library(tmp_path)
    assert [each.message for each in result.errors] == ["The link to 'no.md' leads to nothing in this library"]


def test_a_document_that_vanishes_meanwhile_has_no_headings_any_more() -> None:
    class Vanishing(MemoryFs):
        def read(self, path: str, span: object = None) -> bytes:
            data = super().read(path)
            if path == "b.md":
                self.delete(path)
            return data

    fs = Vanishing({"a.md": document("[x](b.md#start)").encode(), "b.md": document("x", "guide.b").encode()})
    [issue] = validate_library(fs).errors
    assert (issue.code, issue.path) == ("broken-link", "a.md")
