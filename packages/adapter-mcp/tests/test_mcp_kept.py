"""Results that are given again."""

from __future__ import annotations

import pytest
from mcp_types import CallToolResult, TextContent

from knowledge_engine.errors import UnavailableError
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import Query, QueryResult
from knowledge_mcp import kept
from knowledge_mcp.kept import KeptResults, call_key
from mcp_bench.serving import inside, run, services


def result(text: str = "x", *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=is_error)


class Corpus:
    """Documents with a version that a test changes."""

    def __init__(self) -> None:
        self.version = "1"
        self.looks = 0

    def __call__(self) -> str:
        self.looks += 1
        return self.version


def fail() -> CallToolResult:
    raise AssertionError("it was made again")


def test_a_result_is_given_again_while_nothing_changes() -> None:
    corpus = Corpus()
    held = KeptResults(corpus, recent_s=1)
    one = held.result("k", result)
    assert held.result("k", fail) is one
    assert held.recent("k") is one
    assert held.recent("other") is None
    corpus.version = "2"
    assert held.result("k", result) is not one


def test_what_is_not_known_to_be_the_same_is_made_again() -> None:
    corpus = Corpus()
    held = KeptResults(corpus, recent_s=1)
    assert held.result(None, result) is not held.result(None, result)
    assert corpus.looks == 0
    assert held.recent(None) is None
    corpus.version = ""
    assert held.result("k", result) is not held.result("k", result)
    assert held.recent("k") is None


def test_an_error_is_not_kept_nor_what_changed_while_it_was_made() -> None:
    corpus = Corpus()
    held = KeptResults(corpus, recent_s=1)
    wrong = held.result("k", lambda: result(is_error=True))
    assert held.result("k", result) is not wrong

    def changing() -> CallToolResult:
        corpus.version += "!"
        return result()

    held.result("c", changing)
    assert held.result("c", result) is not None
    assert held.recent("c") is not None


def test_after_a_write_nothing_is_recent_and_without_leave_nothing_ever_is() -> None:
    held = KeptResults(Corpus(), recent_s=1)
    one = held.result("k", result)
    held.forget()
    assert held.recent("k") is None
    assert held.result("k", fail) is one
    strict = KeptResults(Corpus(), recent_s=0)
    strict.result("k", result)
    assert strict.recent("k") is None


def test_it_keeps_so_many_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MAX_RESULTS", 3)
    monkeypatch.setattr(kept, "MAX_CHARS", 80)
    held = KeptResults(Corpus(), recent_s=1)
    for key in "abcd":
        held.result(key, result)
    assert [key for key in "abcd" if held.recent(key)] == ["b", "c", "d"]
    held.recent("b")
    held.result("e", result)
    assert [key for key in "bcde" if held.recent(key)] == ["b", "d", "e"]
    held.result("huge", lambda: result("x" * 11))
    assert held.recent("huge") is None
    monkeypatch.setattr(kept, "MAX_CHARS", 8)
    monkeypatch.setattr(kept, "MAX_RESULTS", 100)
    for number in range(20):
        held.result(str(number), result)
    assert held._chars == len(held._kept) == 8


def test_calls_are_told_apart_by_their_arguments() -> None:
    assert call_key("get", {"a": 1, "b": 2}) == call_key("get", {"b": 2, "a": 1})
    assert (
        len({call_key(*each) for each in (("get", {"a": 1}), ("get", {"a": "1"}), ("list", {"a": 1}), ("get", None))})
        == 4
    )
    deep: list[object] = []
    deep.append(deep)
    assert call_key("get", {"a": deep}) is None
    assert call_key("get", {"a": object()}) is None
    assert call_key("get", {"a": "x" * 3_000}) is None


def test_what_was_stored_is_in_the_next_answer_though_the_one_before_was_kept() -> None:
    from knowledge_engine.memory import MemoryProvider
    from knowledge_engine.service import KnowledgeService

    service = KnowledgeService(MemoryProvider({}), refresh_before_answer=True, fresh_for_s=60)

    async def main() -> None:
        async with inside({"docs": service}, allow_write=True) as client:
            for number in range(3):
                for _ in range(2):
                    answer = await client.call_tool("query", {"query": "water"})
                    assert answer.structured_content["count"] == number
                await client.call_tool("ingest", {"id": f"{number}.md", "text": "water"})

    run(main)


def test_equal_calls_of_two_libraries_are_not_mixed_up() -> None:
    async def main() -> None:
        for text, count in ((b"water", 1), (b"salt", 0)):
            async with inside(services(docs={"a.md": text})) as client:
                answer = await client.call_tool("query", {"query": "water"})
                assert answer.structured_content["count"] == count

    run(main)


class Resting(MemoryProvider):
    """Does not answer questions until it is told to."""

    rests = True

    def query(self, query: Query) -> QueryResult:
        if self.rests:
            raise UnavailableError("It rests", mend="Wait.")
        return super().query(query)


def test_an_answer_that_lacks_a_backend_is_not_given_again_when_that_is_back() -> None:
    resting = Resting({"b.md": b"# B\n\nvalve"})
    made = services(a={"a.md": b"# A\n\nvalve"}, b=resting)

    async def main() -> None:
        async with inside(made) as client:
            for count in (1, 2):
                answer = (await client.call_tool("query", {"query": "valve"})).structured_content
                assert answer is not None
                assert (answer["count"], bool(answer["warnings"])) == (count, count == 1)
                resting.rests = False

    run(main)
