"""File access behind `FsPort` and `WritableFsPort`: a folder on disk, a mapping in memory, or what fsspec reaches."""

from knowledge_engine.fs.fsspec_fs import FsspecFs
from knowledge_engine.fs.local import LocalFs
from knowledge_engine.fs.memory import MemoryFs
from knowledge_engine.fs.paths import can_be_path, check_path, is_hidden

__all__ = ["FsspecFs", "LocalFs", "MemoryFs", "can_be_path", "check_path", "is_hidden"]
