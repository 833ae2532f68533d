"""The YAML block at the head of a document: read without surprises, changed without touching its neighbours."""

from knowledge_engine.frontmatter._read import MAX_BLOCK_BYTES, Frontmatter, body_start, key_lines, parse_frontmatter
from knowledge_engine.frontmatter._scalars import is_text_field
from knowledge_engine.frontmatter._write import compose_document, update_frontmatter

__all__ = [
    "MAX_BLOCK_BYTES",
    "Frontmatter",
    "body_start",
    "compose_document",
    "is_text_field",
    "key_lines",
    "parse_frontmatter",
    "update_frontmatter",
]
