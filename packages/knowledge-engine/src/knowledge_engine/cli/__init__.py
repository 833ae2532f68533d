"""The command `knowledge`. Importing it loads click and little else; each command is imported when it runs."""

from knowledge_engine.cli.root import knowledge, main
from knowledge_engine.cli.session import Session, common_options

__all__ = ["Session", "common_options", "knowledge", "main"]
