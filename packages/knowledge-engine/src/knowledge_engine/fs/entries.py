"""What an fsspec file system tells of a file, as the numbers by which a change shows."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from knowledge_engine.models import FileInfo

# File systems name these as their services do. A time of creation changes where writing makes a new object.
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "timeModified", "created", "creation_time")
_VERSIONS = (
    *("ETag", "etag", "e_tag", "md5", "md5Hash", "content_md5", "crc32c", "checksum", "sha", "sha256"),
    *("VersionId", "version_id", "generation", "ino", "created"),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def file_info(path: str, info: Mapping[str, Any]) -> FileInfo:
    """The entry of a file, or of something else, which is a problem.

    `inode` is a number that stands for all versions, checksums and the like that are told. Where neither these nor a
    time is told, the time is that of this look: then every look finds another file, and reads it again.
    """
    if info.get("type") != "file" or info.get("islink"):
        return FileInfo(path, problem="not-regular")
    times = [found for name in _TIMES if (found := _nanoseconds(info.get(name)))]
    versions = [f"{name}={_text(info[name])}" for name in _VERSIONS if info.get(name) is not None]
    return FileInfo(
        path,
        size=int(info.get("size") or 0),
        mtime_ns=times[0] if times else 0 if versions else time.time_ns(),
        inode=identity(path, *versions) if versions else 0,
    )


def identity(path: str, *versions: object) -> int:
    """A number that stands for these facts about that path; another path has another one."""
    key = "\0".join([path, *map(str, versions)])
    return int.from_bytes(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=7).digest()) + 1


def _text(value: object) -> str:
    """The same for one moment, however it is told."""
    return str(_nanoseconds(value)) if isinstance(value, datetime | float) else str(value)


def _nanoseconds(value: object) -> int:
    """Since 1970; 0 for what is no time."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return 0
    if isinstance(value, datetime):
        known = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (known - _EPOCH) // timedelta(microseconds=1) * 1000
    if isinstance(value, int | float) and 0 < value < 1e11:
        # To the microsecond, as a float holds no more and a datetime neither.
        return round(value * 1e6) * 1000
    return 0
