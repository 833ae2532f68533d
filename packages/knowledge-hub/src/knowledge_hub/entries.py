"""What the hub keeps: entries, the feedback on them, and what became of them."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, JsonValue, field_validator

from knowledge_engine.models import Value

Kind = Literal["tool", "usecase", "definition", "plan", "strategy"]
Status = Literal["active", "superseded", "retired"]
CaseKind = Literal["helpful", "harmful"]

KINDS: tuple[Kind, ...] = get_args(Kind)
MAX_SCENARIO_CHARS, MAX_CONTENT_CHARS = 4_000, 200_000
MAX_URLS, MAX_URL_CHARS, MAX_NAME_CHARS = 100, 4_000, 200
MAX_CASE_CHARS, MAX_FEEDBACK_CHARS = 20_000, 20_000
MAX_BATCH, MAX_TOP_K, MAX_LIST = 1_000, 100, 1_000
#: What routes send of a scenario to a model.
ROUTED_CHARS = 100

_SURROGATE = re.compile("[\ud800-\udfff]")


def _storable(text: str) -> str:
    if _SURROGATE.search(text):
        raise ValueError("holds half of a surrogate pair; send whole characters")
    return text


def _telling(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty; say something")
    return text


def _storable_json(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise ValueError("holds a number that JSON has not") from error
    if len(text) > MAX_CASE_CHARS:
        raise ValueError(f"is longer than {MAX_CASE_CHARS} characters of JSON; say less")
    _storable(text)
    return value


def _once(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(values))


Text = Annotated[str, AfterValidator(_storable)]
Scenario = Annotated[Text, Field(max_length=MAX_SCENARIO_CHARS), AfterValidator(_telling)]
Content = Annotated[Text, Field(max_length=MAX_CONTENT_CHARS), AfterValidator(_telling)]
Name = Annotated[Text, Field(max_length=MAX_NAME_CHARS)]
EntryId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")]
Time = Annotated[Text, Field(max_length=40)]
Url = Annotated[Text, Field(max_length=MAX_URL_CHARS)]
Score = Annotated[int, Field(ge=1, le=5, strict=True)]
Count = Annotated[int, Field(ge=0, le=1 << 53)]
VersionNumber = Annotated[int, Field(ge=1, le=1 << 53)]
#: `case_id`, `scenario`, `result`, and whatever else an agent wants to tell.
Case = Annotated[dict[str, JsonValue], AfterValidator(_storable_json)]
Kinds = Annotated[tuple[Kind, ...], AfterValidator(_once)]
Urls = Annotated[tuple[Url, ...], Field(max_length=MAX_URLS), AfterValidator(_once)]


class Tags(Value):
    """What an entry is about."""

    type: Kinds = ()


class EntrySource(Value):
    """Where an entry comes from."""

    urls: Urls = ()
    #: As the agent calls itself.
    agent_id: Name = ""
    #: ISO 8601, UTC.
    timestamp: Time = ""
    #: The agent that the token stands for with which it was saved; empty without one.
    token_agent: Name = ""


class Eval(Value):
    """The feedback on the present content. Histories are of all contents, the latest last."""

    score: Score = 3
    helpful: Count = 0
    harmful: Count = 0
    helpful_history: tuple[dict[str, JsonValue], ...] = ()
    harmful_history: tuple[dict[str, JsonValue], ...] = ()

    @property
    def quality(self) -> float:
        """By how much an entry is worth to be shown."""
        return quality_score(self.score, self.helpful, self.harmful)


class Metrics(Value):
    """All feedback that an entry ever got."""

    helpful: Count = 0
    harmful: Count = 0


class Entry(Value):
    """One piece of knowledge."""

    id: EntryId
    message_id: Name = ""
    tags: Tags = Tags()
    scenario: Scenario
    content: Content
    source: EntrySource = EntrySource()
    eval: Eval = Eval()
    metrics: Metrics = Metrics()
    #: `2026-03-05 12:00:00`, UTC.
    created_at: Time = ""
    updated_at: Time = ""
    #: 1 for what was saved; one more with each change of what it says.
    version: VersionNumber = 1
    status: Status = "active"
    #: The entry that stands for this one.
    superseded_by: Name = ""


class NewEntry(Value):
    """What an agent saves."""

    scenario: Scenario
    content: Content
    tags_type: Kinds = ()
    urls: Urls = ()
    agent_id: Name = "research_agent"
    score: Score = 3
    message_id: Name = ""


class EntryUpdate(Value):
    """What an agent says of an entry: any of these."""

    add_helpful_case: Case | None = None
    add_harmful_case: Case | None = None
    update_score: Score | None = None
    #: How the content should be better; a model writes it anew.
    evolve_feedback: Annotated[Text, Field(max_length=MAX_FEEDBACK_CHARS)] | None = None

    @field_validator("evolve_feedback")
    @classmethod
    def _said(cls, text: str | None) -> str | None:
        return text if text and text.strip() else None


class Feedback(Value):
    """Whether an entry did what it promised."""

    knowledge_id: Annotated[Text, Field(max_length=MAX_NAME_CHARS)]
    is_effective: bool
    #: How the content should be better; a model writes it anew.
    feedback: Annotated[Text, Field(max_length=MAX_FEEDBACK_CHARS)] | None = None


class Version(Value):
    """What an entry said at one time, and how that came to be."""

    version: VersionNumber
    #: `2026-03-05 12:00:00`, UTC.
    at: str
    who: str
    #: `saved`, `evolved`, `reverted`, `merged`, `unmerged`, `retired`, `restored`, `imported`, and what was said of it.
    why: str
    scenario: str
    content: str
    tags: Tags
    urls: tuple[str, ...] = ()
    status: Status = "active"
    superseded_by: str = ""
    #: The version whose content it has: itself, unless it was reverted to.
    content_of: VersionNumber
    #: Unified, against the version before; empty for the first.
    diff: str = ""


class Found(Value):
    """An entry that a search found."""

    id: str
    scenario: str
    content: str
    tags: Tags
    score: int
    quality_score: float
    metrics: Metrics


class SearchAnswer(Value):
    """What a search found."""

    results: tuple[Found, ...]
    count: int
    #: What chose the candidates: a language model, or the words.
    router: Literal["model", "lexical"]
    #: Ids that the model named and that do not exist or were not offered.
    invented: int = 0
    #: Why the model did not choose, or entries that were not indexed yet.
    warnings: tuple[str, ...] = ()


class BatchFailure(Value):
    """What could not be done with one entry; its feedback counts all the same."""

    id: str
    code: str
    message: str


class BatchAnswer(Value):
    """What became of many feedbacks."""

    #: How many were counted.
    updated: int
    #: Ids that were rewritten.
    evolved: tuple[str, ...] = ()
    #: Ids that there are not.
    unknown: tuple[str, ...] = ()
    failed: tuple[BatchFailure, ...] = ()


class Merge(Value):
    """Entries that say the same, and what would stand for them."""

    #: Of the entry that is kept and gets what the others hold.
    keep: str
    #: Entries that it stands for from then on.
    merged: tuple[str, ...]
    scenario: str
    content: str
    tags: Tags
    #: The least similarity between the kept entry and one of the others, 0 to 1.
    similarity: float
    #: `rule` or the name of the model.
    by: str


class SlimPlan(Value):
    """What slimming would do."""

    entries: int
    merges: tuple[Merge, ...]
    #: Groups that were left alone, and why: a model that invented ids or lost some, say.
    dropped: tuple[str, ...] = ()
    #: Of each entry in it, the version that was looked at.
    versions: dict[str, int] = Field(default_factory=dict)
    #: Names the state that was looked at: a plan is applied to that one.
    plan_id: str = ""


class Merged(Value):
    """A merge that was applied."""

    merge_id: int
    keep: str
    merged: tuple[str, ...]
    at: str
    who: str
    undone: bool = False


class SlimAnswer(Value):
    """What slimming did."""

    before: int
    after: int
    applied: tuple[Merged, ...]
    #: Merges that were not applied, and why: an entry had changed, say.
    skipped: tuple[str, ...] = ()


class ImportAnswer(Value):
    """What became of the lines of an import."""

    added: int
    #: Entries that were there already, just as they came.
    same: int


def quality_score(score: int, helpful: int, harmful: int) -> float:
    """What stands against each other: the rating, and the feedback on the present content.

    >>> quality_score(3, 2, 1)
    3.0
    """
    return score + helpful - 2.0 * harmful
