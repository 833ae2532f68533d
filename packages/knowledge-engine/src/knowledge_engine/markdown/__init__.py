"""Markdown as far as citing needs it: sections with byte spans, slugs, links. A scanner over bytes, not a renderer.

Sections are those of CommonMark: headings in code, HTML blocks, block quotes and list items do not count.
Titles are plain text: comments and tags go; code, emphasis and links leave their words; entities are decoded.
"""

from knowledge_engine.markdown._links import Link, find_links
from knowledge_engine.markdown._sections import (
    Outline,
    Section,
    heading_path,
    scan,
    section_slugs,
    split_sections,
)

__all__ = [
    "Link",
    "Outline",
    "Section",
    "find_links",
    "heading_path",
    "scan",
    "section_slugs",
    "split_sections",
]
