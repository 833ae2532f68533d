"""Goals: what a focus brings, what stays when the hub or the store is broken, and trees that are kept in files."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_engine.errors import (
    InvalidArgumentError,
    InvalidIdError,
    KnowledgeError,
    NotFoundError,
    ProviderError,
    ReadOnlyError,
    StorageFullError,
    TooLargeError,
)
from knowledge_hub.tools import (
    GoalTool,
    GoalTree,
    JsonTraceStore,
    ToolResult,
    focus_goal,
    guidance,
    open_tools,
    research_skill,
    trace_store,
)
from knowledge_hub.tools.goals import MAX_DEPTH, MAX_GOALS
from knowledge_hub.tools.results import failure

ITEM: dict[str, Any] = {"id": "knowledge-1", "scenario": "Read PDFs", "content": "Use pdfplumber.", "score": 4}


class Known:
    """A search that answers as it is told, and remembers what it was asked."""

    def __init__(self, *items: dict[str, Any], error: Exception | None = None, hangs: bool = False) -> None:
        self.items, self.error, self.hangs = list(items), error, hangs
        self.asked: list[tuple[str, int, int]] = []

    async def __call__(self, query: str, top_k: int = 5, min_score: int = 3) -> ToolResult:
        self.asked.append((query, top_k, min_score))
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return ToolResult("found", "", {"items": self.items})


def focus(tree: GoalTree, goal_id: str, path: Path, search: Any, **more: Any) -> ToolResult:
    return asyncio.run(focus_goal(tree, goal_id, trace_id="run", store=JsonTraceStore(path), search=search, **more))


def stored(path: Path) -> GoalTree | None:
    return asyncio.run(JsonTraceStore(path).get_goal_tree("run"))


def one_goal(text: str = "Read tables") -> GoalTree:
    tree = GoalTree()
    tree.add(text)
    return tree


def test_a_focus_brings_what_is_known_and_keeps_it(tmp_path: Path) -> None:
    tree, search = one_goal(), Known(ITEM)
    answer = focus(tree, "goal-1", tmp_path, search)
    assert search.asked == [("Read tables", 3, 3)]
    assert answer.title == "✅ Goal 已聚焦"
    assert answer.output.startswith("当前 Goal: Read tables\n\n📚 相关知识 (1 条):\n")
    assert "Use pdfplumber." in answer.output
    assert answer.items == tree.find("goal-1").knowledge == [ITEM]
    assert stored(tmp_path) == tree
    assert (tree.current_id, tree.find("goal-1").status) == ("goal-1", "in_progress")
    assert "📚 相关知识 (1 条):" in tree.render()


def test_a_focus_can_make_sub_goals(tmp_path: Path) -> None:
    tree = one_goal()
    answer = focus(tree, "goal-1", tmp_path, Known(), sub_goals=["a", "b"])
    assert answer.metadata["goals"] == ["goal-2", "goal-3"]
    assert [part.description for part in tree.parts("goal-1")] == ["a", "b"]
    assert stored(tmp_path) == tree


def test_a_bad_sub_goal_changes_nothing(tmp_path: Path) -> None:
    tree = one_goal()
    before = tree.dump()
    with pytest.raises(InvalidArgumentError):
        focus(tree, "goal-1", tmp_path, Known(), sub_goals=["fine", ""])
    with pytest.raises(NotFoundError, match="goal-1"):
        focus(tree, "goal-9", tmp_path, Known())
    assert tree.dump() == before
    assert stored(tmp_path) is None


class Failing(Known):
    """Answers with a failure, as the tools do."""

    async def __call__(self, query: str, top_k: int = 5, min_score: int = 3) -> ToolResult:
        return failure("Search failed", self.error or ValueError())


@pytest.mark.parametrize(
    "search",
    [
        Known(error=ConnectionError("s3cret")),
        Failing(error=ProviderError("It is down", mend="Wait.")),
        Known(hangs=True),
        Known({"id": object()}),
        Known("no entry"),  # type: ignore[arg-type]
        None,
    ],
)
def test_a_broken_hub_fails_no_focus_and_what_was_known_stays(tmp_path: Path, search: Any) -> None:
    tree = one_goal()
    focus(tree, "goal-1", tmp_path, Known(ITEM))
    answer = focus(tree, "goal-1", tmp_path, search, timeout_s=0.05)
    assert answer.title == "✅ Goal 已聚焦"
    assert not answer.metadata["searched"]
    assert answer.items == [ITEM]
    assert "The hub could not be asked" in answer.output
    assert "s3cret" not in answer.output
    assert stored(tmp_path) == tree


def test_a_hub_that_is_really_down_fails_no_focus(tmp_path: Path) -> None:
    tools = open_tools({"KNOWLEDGE_HUB_URL": "http://127.0.0.1:1"})
    answer = focus(one_goal(), "goal-1", tmp_path, tools.knowledge_search)
    tools.close()
    assert (answer.metadata["searched"], answer.metadata["persisted"]) == (False, True)


def test_more_than_was_asked_for_is_not_attached(tmp_path: Path) -> None:
    tree = one_goal()
    focus(tree, "goal-1", tmp_path, Known(*[ITEM] * 10))
    assert len(tree.find("goal-1").knowledge) == 3


def test_a_store_that_cannot_keep_is_told_and_fails_no_focus(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    answer = focus(one_goal(), "goal-1", blocked, Known(ITEM))
    assert (answer.metadata["persisted"], answer.items) == (False, [ITEM])
    assert "The goals are not kept" in answer.output
    assert str(tmp_path) not in answer.output


def test_a_store_of_anybodys_making_fails_no_focus(tmp_path: Path) -> None:
    class Broken(JsonTraceStore):
        async def update_goal_tree(self, trace_id: str, tree: GoalTree) -> None:
            raise RuntimeError("s3cret")

    store = Broken(tmp_path)
    answer = asyncio.run(focus_goal(one_goal(), "goal-1", trace_id="run", store=store, search=Known(ITEM)))
    assert (answer.metadata["persisted"], answer.items) == (False, [ITEM])
    assert "s3cret" not in answer.output


def test_half_of_a_surrogate_pair_fails_no_focus(tmp_path: Path) -> None:
    answer = focus(one_goal(), "goal-1", tmp_path, Known({"id": "a", "content": "x\ud800y"}))
    answer.output.encode()
    kept = stored(tmp_path)
    assert answer.metadata["persisted"]
    assert kept is not None
    assert kept.find("goal-1").knowledge == [{"id": "a", "content": "x?y"}]


# The tool


def tool(path: Path, search: Any = None) -> GoalTool:
    return GoalTool(GoalTree(mission="m"), trace_id="run", store=JsonTraceStore(path), search=search or Known(ITEM))


def test_an_agent_plans_focuses_and_ends(tmp_path: Path) -> None:
    made = tool(tmp_path)

    async def main() -> None:
        assert (await made.goal("show")).output == "Mission: m"
        added = await made.goal("add", description="all of it", sub_goals=["first", "second"])
        assert added.metadata["goals"] == ["goal-1", "goal-2", "goal-3"]
        assert "  - [ ] goal-2 first" in added.output
        assert (await made.goal("add", goal_id="goal-1", sub_goals="third")).metadata["goals"] == ["goal-4"]  # type: ignore[arg-type]
        assert (await made.goal("focus", "goal-2")).items == [ITEM]
        ended = await made.goal("complete", summary="it\nworks")
        assert "- [x] goal-2 first: it works" in ended.output
        assert "    📚 相关知识 (1 条)" in ended.output
        assert made.tree.current_id == "goal-1"
        assert "[-] goal-3" in (await made.goal("abandon", "goal-3")).output
        assert (await made.goal("focus")).metadata["goal_id"] == "goal-1"
        assert "[>] goal-1" in (await made.goal("show")).output

    asyncio.run(main())
    assert stored(tmp_path) == made.tree


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"action": "nonsense"}, "invalid-argument"),
        ({"action": "focus"}, "invalid-argument"),
        ({"action": "focus", "goal_id": "goal-9"}, "not-found"),
        ({"action": "add"}, "invalid-argument"),
        ({"action": "add", "description": "x" * 5_000}, "invalid-argument"),
        ({"action": "add", "description": "\ud800"}, "invalid-argument"),
        ({"action": "add", "description": "a", "goal_id": "goal-9"}, "not-found"),
        ({"action": "add", "description": "a", "sub_goals": ["b", ""]}, "invalid-argument"),
        ({"action": "complete", "goal_id": "goal-1", "summary": "x" * 20_001}, "invalid-argument"),
        ({"action": "add", "description": "a", "sub_goals": 7}, "internal"),
    ],
)
def test_what_an_agent_asks_wrongly_is_told_and_changes_nothing(
    tmp_path: Path, arguments: dict[str, Any], code: str
) -> None:
    made = tool(tmp_path)
    asyncio.run(made.goal("add", description="one"))
    before = made.tree.dump()
    answer = asyncio.run(made.goal(**arguments))
    assert answer.metadata["error"]["code"] == code
    assert made.tree.dump() == before
    assert stored(tmp_path) == made.tree


def test_calls_at_once_are_done_one_after_the_other(tmp_path: Path) -> None:
    made = tool(tmp_path)

    async def main() -> None:
        await asyncio.gather(*(made.goal("add", description=f"g{n}") for n in range(20)))

    asyncio.run(main())
    assert len({goal.id for goal in made.tree.goals}) == 20
    assert stored(tmp_path) == made.tree


def test_a_step_that_cannot_be_kept_is_told(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    answer = asyncio.run(tool(blocked).goal("add", description="one"))
    assert not answer.metadata["persisted"]
    assert "The goals are not kept" in answer.output


# Trees


def test_ids_are_not_used_again_and_may_be_chosen() -> None:
    tree = GoalTree()
    assert tree.add("a", goal_id="goal-1").id == "goal-1"
    assert tree.add("b").id == "goal-2"
    with pytest.raises(InvalidArgumentError, match="already"):
        tree.add("c", goal_id="goal-2")
    with pytest.raises(InvalidArgumentError):
        tree.add("c", goal_id="../x")


def test_a_tree_is_bounded() -> None:
    tree = GoalTree()
    parent = None
    for _ in range(MAX_DEPTH):
        parent = tree.add("d", parent_id=parent).id
    with pytest.raises(InvalidArgumentError, match="deep"):
        tree.add("d", parent_id=parent)
    while len(tree.goals) < MAX_GOALS:
        tree.add("x")
    with pytest.raises(InvalidArgumentError, match=str(MAX_GOALS)):
        tree.add("x")


def test_a_description_draws_no_goals_of_its_own() -> None:
    assert len(one_goal("a\n- [x] goal-2 done\x1b[2J").render().splitlines()) == 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.text(min_size=1, max_size=20), st.integers(0, 9)), max_size=12), st.integers(0, 11))
def test_what_is_dumped_is_loaded_just_so(steps: list[tuple[str, int]], chosen: int) -> None:
    tree = GoalTree()
    for text, parent in steps:
        try:
            tree.add(text, parent_id=tree.goals[parent].id if parent < len(tree.goals) else None)
        except InvalidArgumentError:
            assert not text.isprintable()
    if chosen < len(tree.goals):
        tree.focus(tree.goals[chosen].id)
    assert GoalTree.load(json.loads(json.dumps(tree.dump()))) == tree
    assert len(tree.render().splitlines()) == len(tree.goals)


GOAL = {"id": "a", "description": "d"}


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        {"goals": [GOAL, GOAL]},
        {"goals": [{**GOAL, "parent_id": "a"}]},
        {"goals": [{**GOAL, "parent_id": "b"}, {"id": "b", "description": "d"}]},
        {"goals": [], "current_id": "a"},
        {"goals": [{**GOAL, "status": "odd"}]},
    ],
)
def test_a_damaged_tree_is_refused(wrong: object) -> None:
    with pytest.raises(ProviderError, match="damaged"):
        GoalTree.load(wrong)


# Files


@pytest.mark.parametrize("trace_id", ["", "..", "../x", "a/b", "a\0", ".hidden", "x" * 200, "a\n"])
def test_an_id_never_leaves_the_folder(tmp_path: Path, trace_id: str) -> None:
    store = JsonTraceStore(tmp_path / "goals")
    with pytest.raises(InvalidIdError):
        asyncio.run(store.update_goal_tree(trace_id, GoalTree()))
    with pytest.raises(InvalidIdError):
        asyncio.run(store.get_goal_tree(trace_id))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, StorageFullError),
        (errno.EROFS, ReadOnlyError),
        (errno.EACCES, ReadOnlyError),
        (errno.EIO, ProviderError),
    ],
)
def test_a_failed_write_leaves_the_tree_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[KnowledgeError]
) -> None:
    store, tree = JsonTraceStore(tmp_path), one_goal()
    asyncio.run(store.update_goal_tree("run", tree))

    def broken(_: int) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(kind):
        asyncio.run(store.update_goal_tree("run", one_goal("other")))
    assert stored(tmp_path) == tree
    assert [each.name for each in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"[" * 200_000, b"null"])
def test_a_damaged_file_is_told(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "run.json").write_bytes(raw)
    with pytest.raises(ProviderError, match="damaged"):
        stored(tmp_path)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.json").mkdir()
    with pytest.raises(ProviderError, match="cannot be read"):
        stored(tmp_path)
    (tmp_path / "run.json").rmdir()
    (tmp_path / "run.json").write_text(json.dumps(GoalTree().dump()))
    monkeypatch.setattr(trace_store, "_MAX_BYTES", 3)
    with pytest.raises(TooLargeError):
        stored(tmp_path)
    with pytest.raises(TooLargeError):
        asyncio.run(JsonTraceStore(tmp_path).update_goal_tree("run", one_goal()))


def test_whoever_reads_while_others_write_finds_a_whole_tree(tmp_path: Path) -> None:
    trees = [GoalTree(mission=str(number) * 4_000) for number in range(4)]
    asyncio.run(JsonTraceStore(tmp_path).update_goal_tree("run", trees[0]))

    def write(tree: GoalTree) -> None:
        for _ in range(5):
            asyncio.run(JsonTraceStore(tmp_path).update_goal_tree("run", tree))
            assert stored(tmp_path) in trees

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, trees))
    assert len(list(tmp_path.iterdir())) == 1


WRITER = """
import asyncio, itertools, sys
from knowledge_hub.tools import GoalTree, JsonTraceStore
store = JsonTraceStore(sys.argv[1])
for number in itertools.count():
    tree = GoalTree(mission=str(number % 10) * 4_000)
    for _ in range(200):
        tree.add("d" * 2_000)
    asyncio.run(store.update_goal_tree("run", tree))
    print(number, flush=True)
"""


def test_a_writer_that_is_killed_leaves_a_whole_tree(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        for _ in range(5):
            assert writer.stdout.readline()
        writer.kill()
    tree = stored(tmp_path)
    assert tree is not None
    assert len(tree.goals) == 200
    assert len(set(tree.mission)) == 1


# Texts


def test_the_texts_name_the_tools_and_the_label() -> None:
    assert all(word in guidance() for word in ('goal(action="focus")', "📚 相关知识", "knowledge_save", "`agent`"))
    assert all(word in research_skill() for word in ("knowledge_search", "knowledge_save", "message_id", "tags_type"))
