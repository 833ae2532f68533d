"""The hub as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile

from pydantic import ValidationError

from knowledge_engine.errors import InvalidArgumentError
from knowledge_hub.checking import problems_of
from knowledge_hub.transfer import Record

_HEADER = {"knowledge_hub": 1}
_IN_MEMORY_BYTES = 4_000_000


def exported(records: Iterable[dict[str, object]]) -> Iterator[str]:
    """A header, then a record a line; without line ends."""
    yield json.dumps(_HEADER)
    for one in records:
        yield json.dumps(one, ensure_ascii=False)


@contextmanager
def imported(lines: Iterable[str | bytes]) -> Iterator[Iterator[dict[str, object]]]:
    """Records from lines; blank lines and the header are passed over.

    All lines are read and checked before the first record is given: they may come slowly, and whoever takes the
    records locks the hub meanwhile.

    Raises:
        InvalidArgumentError: Naming the line that is none, and why.
    """
    with SpooledTemporaryFile(_IN_MEMORY_BYTES, mode="w+", encoding="ascii") as kept:
        for record in _records(lines):
            kept.write(f"{json.dumps(record)}\n")
        kept.seek(0)
        yield map(json.loads, kept)


def _records(lines: Iterable[str | bytes]) -> Iterator[dict[str, object]]:
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        value = _parsed(line, number)
        if value is None or (number == 1 and "knowledge_hub" in value):
            if value is not None and value["knowledge_hub"] != _HEADER["knowledge_hub"]:
                raise _wrong(number, "a later version of the hub wrote it", "Install a later version of kpkit-hub.")
            continue
        record: dict[str, object] = value if "entry" in value else {"entry": value}
        try:
            checked = Record.model_validate_json(json.dumps(record))
        except ValidationError as error:
            raise _wrong(number, problems_of(error), "Correct the line.") from error
        entry_id = checked.entry.id
        if entry_id in seen:
            raise _wrong(number, f"line {seen[entry_id]} has the same id", "Leave one of them out.")
        seen[entry_id] = number
        yield record


def _parsed(line: str | bytes, number: int) -> dict[str, object] | None:
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8") if isinstance(line, bytes) else line
        if not text.strip():
            return None
        value = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise _wrong(number, "it is no JSON in UTF-8", "Write one JSON object a line.") from error
    if not isinstance(value, dict):
        raise _wrong(number, "it is no JSON object", "Write one JSON object a line.")
    return value


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _wrong(number: int, problem: str, mend: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"Line {number} is wrong: {problem}", mend=f"{mend} Nothing was imported.")
