"""Citations: cutting text without lying about its bytes, showing why it was found, proving it later."""

from knowledge_engine.citations.cutting import cite, content_hash, cut_text, decode
from knowledge_engine.citations.snippets import make_snippet
from knowledge_engine.citations.verifying import Citation, Cited, SourceReader, verify_citation

__all__ = [
    "Citation",
    "Cited",
    "SourceReader",
    "cite",
    "content_hash",
    "cut_text",
    "decode",
    "make_snippet",
    "verify_citation",
]
