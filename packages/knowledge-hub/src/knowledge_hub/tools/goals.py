"""Goals of an agent: a tree, one of them in focus, each with what is known about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from knowledge_engine.errors import InvalidArgumentError, NotFoundError, ProviderError
from knowledge_hub.entries import Text
from knowledge_hub.tools.results import shown

GoalStatus = Literal["pending", "in_progress", "completed", "abandoned"]
#: The heading under which a tree shows what is known.
KNOWLEDGE_LABEL = "📚 相关知识"
MAX_GOALS, MAX_DEPTH, MAX_DESCRIPTION_CHARS = 500, 20, 4_000
_MARKS: Mapping[str, str] = {"pending": " ", "in_progress": ">", "completed": "x", "abandoned": "-"}


class Goal(BaseModel):
    """Something that an agent wants to reach."""

    model_config = ConfigDict(validate_assignment=True, extra="forbid")

    id: Annotated[Text, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    description: Annotated[Text, Field(min_length=1, max_length=MAX_DESCRIPTION_CHARS)]
    #: The goal that it is a part of.
    parent_id: str | None = None
    status: GoalStatus = "pending"
    #: How it ended, in the agent's words.
    summary: Annotated[Text, Field(max_length=20_000)] = ""
    #: Entries that were found when it came into focus, as a search answers them.
    knowledge: list[dict[str, JsonValue]] = Field(default_factory=list)


class GoalTree(BaseModel):
    """Goals, parents before their parts, and which of them is in focus. Not for several threads at once."""

    model_config = ConfigDict(extra="forbid")

    mission: Annotated[Text, Field(max_length=MAX_DESCRIPTION_CHARS)] = ""
    goals: list[Goal] = Field(default_factory=list, max_length=MAX_GOALS)
    current_id: str | None = None
    #: The number of the goal that was added last; numbers are not used again.
    added: int = Field(default=0, ge=0)

    def find(self, goal_id: str) -> Goal:
        """The goal of that id.

        Raises:
            NotFoundError: Naming those that there are.
        """
        for goal in self.goals:
            if goal.id == goal_id:
                return goal
        known = ", ".join(goal.id for goal in self.goals[:20]) or "none yet"
        raise NotFoundError(f"There is no goal {str(goal_id)[:60]!r}", mend=f"Goals are: {known}.")

    @property
    def current(self) -> Goal | None:
        """The goal in focus."""
        return self.find(self.current_id) if self.current_id is not None else None

    def parts(self, goal_id: str | None) -> list[Goal]:
        """What a goal consists of, in order; of None the goals at the top."""
        return [goal for goal in self.goals if goal.parent_id == goal_id]

    def add(self, description: str, *, parent_id: str | None = None, goal_id: str | None = None) -> Goal:
        """A new goal, the last part of its parent.

        Args:
            goal_id: By default `goal-` and a number.

        Raises:
            NotFoundError: When there is no such parent.
            InvalidArgumentError: When the id is taken, or the tree is full or too deep.
        """
        if parent_id is not None and self._depth(self.find(parent_id)) >= MAX_DEPTH:
            raise InvalidArgumentError(f"Goals are at most {MAX_DEPTH} deep", mend="Add it further up.")
        if len(self.goals) >= MAX_GOALS:
            raise InvalidArgumentError(f"There are {MAX_GOALS} goals", mend="Work on those.")
        taken = {goal.id for goal in self.goals}
        number = self.added + 1
        while goal_id is None and f"goal-{number}" in taken:
            number += 1
        goal_id = f"goal-{number}" if goal_id is None else goal_id
        if goal_id in taken:
            raise InvalidArgumentError(f"There is a goal {goal_id[:60]!r} already", mend="Take another id.")
        try:
            goal = Goal(id=goal_id, description=description, parent_id=parent_id)
        except ValidationError as error:
            raise _wrong(error) from error
        self.goals.append(goal)
        self.added = number
        return goal

    def focus(self, goal_id: str) -> Goal:
        """Puts a goal into focus; what was completed or given up is worked on again.

        Raises:
            NotFoundError: When there is no such goal.
        """
        goal = self.find(goal_id)
        goal.status = "in_progress"
        self.current_id = goal.id
        return goal

    def end(self, goal_id: str, status: Literal["completed", "abandoned"], summary: str = "") -> Goal:
        """Ends a goal; when it was in focus, its parent is then.

        Raises:
            NotFoundError: When there is no such goal.
            InvalidArgumentError: When the summary is too long, or no text.
        """
        goal = self.find(goal_id)
        try:
            goal.summary = summary
        except ValidationError as error:
            raise _wrong(error) from error
        goal.status = status
        if self.current_id == goal.id:
            self.current_id = goal.parent_id
        return goal

    def render(self) -> str:
        """The tree as text for an agent, with what is known of the goal in focus."""
        lines = [f"Mission: {_one_line(self.mission)}"] if self.mission else []
        lines += self._lines(None, 0)
        if (current := self.current) is not None and current.knowledge:
            lines += ["", f"{KNOWLEDGE_LABEL} ({len(current.knowledge)} 条):", shown(current.knowledge)]
        return "\n".join(lines)

    def outline(self) -> GoalTree:
        """A tree of its own without what is known."""
        return self.model_copy(update={"goals": [goal.model_copy(update={"knowledge": []}) for goal in self.goals]})

    def dump(self) -> dict[str, Any]:
        """The tree as JSON."""
        return self.model_dump(mode="json")

    @classmethod
    def load(cls, stored: object) -> GoalTree:
        """A tree from what `dump` gave.

        Raises:
            ProviderError: When it is no tree: ids come twice, or a goal has no parent that stands before it.
        """
        try:
            tree = cls.model_validate(stored)
        except (ValidationError, RecursionError) as error:
            raise _damaged() from error
        seen: dict[str, int] = {}
        for goal in tree.goals:
            depth = 1 if goal.parent_id is None else seen.get(goal.parent_id, MAX_DEPTH) + 1
            if goal.id in seen or depth > MAX_DEPTH + 1 or (goal.parent_id is not None and goal.parent_id not in seen):
                raise _damaged()
            seen[goal.id] = depth
        if tree.current_id is not None and tree.current_id not in seen:
            raise _damaged()
        return tree

    def _depth(self, goal: Goal) -> int:
        depth = 1
        while goal.parent_id is not None:
            goal, depth = self.find(goal.parent_id), depth + 1
        return depth

    def _lines(self, goal_id: str | None, depth: int) -> Iterator[str]:
        for goal in self.parts(goal_id):
            here = "  ← in focus" if goal.id == self.current_id else ""
            ended = f": {_one_line(goal.summary)}" if goal.summary else ""
            mark = _MARKS[goal.status]
            yield f"{'  ' * depth}- [{mark}] {goal.id} {_one_line(goal.description)}{ended}{here}"
            if goal.knowledge and goal.id != self.current_id:
                yield f"{'  ' * depth}    {KNOWLEDGE_LABEL} ({len(goal.knowledge)} 条)"
            yield from self._lines(goal.id, depth + 1)


def _one_line(text: str) -> str:
    # A line break within would let a description draw goals of its own.
    return "".join(char if char.isprintable() else " " for char in " ".join(text.split()))


def _wrong(error: ValidationError) -> InvalidArgumentError:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return InvalidArgumentError(f"`{'.'.join(map(str, first['loc']))}`: {first['msg']}", mend="Correct it.")


def _damaged() -> ProviderError:
    return ProviderError("The stored goals are damaged", mend="Begin a new run, or restore its file.")
