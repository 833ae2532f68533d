"""Line numbers of a file."""

from __future__ import annotations


class LineCounter:
    """1-based lines of byte offsets, asked for in ascending order; lines end at LF, CRLF or CR."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._has_carriages = b"\r" in raw
        self._offset = 0
        self._line = 1

    def at(self, offset: int) -> int:
        """The line of that byte."""
        raw, before = self._raw, self._offset
        self._line += raw.count(b"\n", before, offset)
        if self._has_carriages:
            # A pair that is cut in two by the offset counts with the half that is behind it.
            pairs = raw.count(b"\r\n", before, offset) + (raw[before - 1 : before + 1] == b"\r\n" and offset > before)
            self._line += raw.count(b"\r", before, offset) - pairs
        self._offset = offset
        return self._line
