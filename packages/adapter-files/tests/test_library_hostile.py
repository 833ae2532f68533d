"""Whatever a library is asked: it answers at once, in strict JSON, and shortly."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge_engine.fs import MemoryFs
from knowledge_files import KnowledgeLibrary

MOST = 64 * 1024
HUGE = "x" * 10_000_000


def document(at: int) -> bytes:
    body = "".join(f"## Part {part}\n\nText of part {part}.\n\n" for part in range(20))
    head = f"id: device.{at}\ntitle: Device {at}\nkind: device\nsummary: Says what {at} does.\nprotocol: modbus\n"
    return f"---\n{head}---\n{body}".encode()


LIBRARY = KnowledgeLibrary(MemoryFs({f"{at:03}.md": document(at) for at in range(150)}))


def checked(answer: Any) -> dict[str, Any]:
    """The answer, which is strict JSON in UTF-8 and not long."""
    assert type(answer) is dict
    assert len(json.dumps(answer, allow_nan=False, ensure_ascii=False).encode()) <= MOST
    return answer


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [{"and": value}]
    return value


cyclic: list[Any] = []
cyclic.append(cyclic)

HOSTILE: dict[str, Any] = {
    "deep": nested(50_000),
    "cyclic": cyclic,
    "huge text": HUGE,
    "huge list": ["x"] * 1_000_000,
    "huge words": "pump " * 2_000_000,
    "list of huge texts": [HUGE, HUGE],
    "huge number": 10**100_000,
    "nan": math.nan,
    "infinity": math.inf,
    "negative": -1,
    "lone surrogate": "\ud800",
    "pair the wrong way": "\udc00\ud800",
    "nul": "\0",
    "bytes": b"\xff\xfe",
    "object": object(),
    "class": dict,
    "false": False,
    "empty list": [],
    "list of ids": ["device.1", "device.2"],
    "mapping": {"device.1": HUGE},
    "sql": "'; DROP TABLE documents; --",
    "regex": "(a+)+$",
    "format": "{0.__class__}%s%n",
    "path": "../../../../etc/passwd",
    "rtl": "\u202edevice.1",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_values_are_answered(name: str) -> None:
    value = HOSTILE[name]
    calls: list[Callable[[], Any]] = [
        lambda: LIBRARY.list_docs(value),
        lambda: LIBRARY.list_docs(query=value),
        lambda: LIBRARY.list_docs(protocol=value),
        lambda: LIBRARY.list_docs(nowhere=value, query="device"),
        lambda: LIBRARY.list_docs(filter=value),
        lambda: LIBRARY.list_docs(filter={"kind": value}),
        lambda: LIBRARY.list_docs(filter={"kind": {"in": value}}),
        lambda: LIBRARY.list_docs(limit=value),
        lambda: LIBRARY.list_docs(cursor=value),
        lambda: LIBRARY.get_doc(value),
        lambda: LIBRARY.get_doc("device.1", value),
        lambda: LIBRARY.get_doc(doc_id=value, section=value),
        lambda: LIBRARY.tools.query(value),
        lambda: LIBRARY.tools.call("list", value),
        lambda: LIBRARY.tools.call("list", {"query": value, "protocol": value}),
    ]
    for call in calls:
        checked(call())


@pytest.mark.parametrize("name", ["huge text", "huge words", "list of huge texts", "mapping"])
def test_huge_values_are_refused_and_not_looked_for(name: str) -> None:
    value = HOSTILE[name]
    for answer in (
        LIBRARY.list_docs(query=value),
        LIBRARY.list_docs(protocol=value),
        LIBRARY.list_docs(filter={"kind": value}),
        LIBRARY.get_doc(value),
    ):
        assert checked(answer)["code"] in ("too-large", "query-too-long", "invalid-filter", "invalid-argument")
        assert answer["mend"]


def test_hostile_names_of_arguments_are_filters_or_refused() -> None:
    for name in ("self", "args", "kwargs", "", " ", "\ud800", "\0", "__class__", "source_id", "and", "not", "a.b.c"):
        assert checked(LIBRARY.list_docs(**{name: "x"}))["docs"] == []
        assert checked(LIBRARY.get_doc("device.1", **{name: "x"}))["found"] is False or name == "source_id"
    assert checked(LIBRARY.list_docs(**{HUGE: "x"}))["code"] == "invalid-filter"
    assert checked(LIBRARY.list_docs(**{f"key{at}": "any" for at in range(200)}))["code"] == "invalid-argument"
    assert checked(LIBRARY.list_docs(**{f"key{at}": HUGE[:5_000] for at in range(90)}))["docs"] == []


def test_calls_that_fit_no_signature_are_answered() -> None:
    assert checked(LIBRARY.list_docs("device", 1, 2, 3))["code"] == "invalid-argument"
    assert checked(LIBRARY.list_docs("device", query="device"))["code"] == "invalid-argument"
    assert checked(LIBRARY.get_doc())["code"] == "invalid-argument"
    assert checked(LIBRARY.get_doc("device.1", "Part 1", "Part 2"))["code"] == "invalid-argument"
    assert checked(LIBRARY.get_doc("device.1", id="device.2"))["code"] == "invalid-argument"


def test_the_longest_ids_and_sections_that_are_looked_for_are_answered_shortly() -> None:
    for text in ("x" * 20_000, "\u0390" * 20_000, "Device 1 " * 2_000):
        assert checked(LIBRARY.get_doc(text))["found"] is False
        assert checked(LIBRARY.get_doc("device.1", section=text))["found"] is True


def test_the_largest_answers_stay_small() -> None:
    assert checked(LIBRARY.list_docs(limit=200))["count"] == 150
    long = "---\nid: a\ntitle: A\nkind: device\nsummary: S.\n---\n" + "".join(
        f"## Heading {at} {'h' * 100}\n\n{'text ' * 20}\n\n" for at in range(2_000)
    )
    library = KnowledgeLibrary(MemoryFs({"a.md": long.encode()}))
    assert checked(library.get_doc("a"))["truncated"] is True
    assert checked(library.get_doc("a", section="nothing"))["error"]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=20)
    | st.binary(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(st.characters(), max_size=8), VALUES, max_size=4), VALUES, VALUES)
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_every_call_is_answered(filters: dict[str, Any], first: Any, second: Any) -> None:
    assert {"count", "docs", "hint"} <= set(checked(LIBRARY.list_docs(**filters)))
    assert {"count", "docs", "hint"} <= set(checked(LIBRARY.list_docs(first, limit=second)))
    assert "found" in checked(LIBRARY.get_doc(first, second))
    assert "found" in checked(LIBRARY.get_doc(**filters))
