"""File access behind `FsPort` and `WritableFsPort`: a folder on disk, or a mapping in memory."""

from knowledge_engine.fs.local import LocalFs
from knowledge_engine.fs.memory import MemoryFs
from knowledge_engine.fs.paths import check_path, is_hidden

__all__ = ["LocalFs", "MemoryFs", "check_path", "is_hidden"]
