"""The port behind the hub: where entries are kept and how they are found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from knowledge_engine.ports import IKnowledgeProvider
from knowledge_hub.entries import CaseKind, Entry, Kind, Merge, Merged, Status, Tags, Version


class Stamp(NamedTuple):
    """When something was done, by whom, and why."""

    #: `2026-03-05 12:00:00`, UTC.
    at: str
    who: str
    why: str


class Once(NamedTuple):
    """A key under which a caller asks for something, and a digest of what; asked again, it is not done again."""

    key: str
    asked: str


class Said(NamedTuple):
    """What an entry is to say from now on."""

    scenario: str
    content: str
    tags: Tags
    urls: tuple[str, ...]


class Overview(NamedTuple):
    """As much of an active entry as routing looks at."""

    id: str
    kinds: tuple[str, ...]
    #: Its first characters.
    scenario: str
    quality: float
    updated_at: str


class Ranked(NamedTuple):
    """An active entry that holds words of a question."""

    id: str
    #: Higher is better.
    relevance: float


class Rating(NamedTuple):
    """A rating, and when it was given."""

    score: int
    at: str
    who: str


class EntryStore(Protocol):
    """Entries with their feedback and versions. Each method is one transaction; any thread and process may call.

    Counts are exact, however many count at once. Methods that name an entry raise NotFoundError where there is none,
    and all may raise BusyError, ReadOnlyError and StorageFullError, having changed nothing.
    """

    @property
    def provider(self) -> IKnowledgeProvider:
        """Active entries as documents: what is searched."""
        ...

    def add(self, entry: Entry, stamp: Stamp, once: Once | None = None) -> Entry:
        """Keeps a new entry; where that was done under the same key, what was kept then.

        Raises:
            ConflictError: When there is an entry of that id, or the key stands for something else.
        """
        ...

    def get(self, entry_id: str) -> Entry:
        """An entry with its histories."""
        ...

    def some(self, ids: Sequence[str]) -> dict[str, Entry]:
        """Those of some entries that there are, without histories."""
        ...

    def listed(self, limit: int, kinds: Sequence[Kind], status: Status | None, after: str) -> tuple[Entry, ...]:
        """Without histories, the newest first, behind the one of the id `after` ("" for the first)."""
        ...

    def counted(
        self,
        entry_id: str,
        cases: Sequence[tuple[CaseKind, str]],
        score: int | None,
        stamp: Stamp,
        once: Once | None = None,
    ) -> None:
        """Adds feedback (JSON) and rates anew, unless that was done before under the same key.

        Raises:
            ConflictError: When the key stands for something else.
        """
        ...

    def was_done(self, once: Once) -> bool:
        """Whether something was done under that key.

        Raises:
            ConflictError: When the key stands for something else.
        """
        ...

    def rewritten(
        self,
        entry_id: str,
        version: int,
        said: Said,
        stamp: Stamp,
        *,
        content_of: int = 0,
        once: Once | None = None,
    ) -> Entry:
        """Lets an entry say something else; what it said becomes a version. Counts begin anew.

        Args:
            version: The one that it has now.
            content_of: The version whose content it gets back, with the counts of that; 0 for a new content.

        Raises:
            ConflictError: When it has another version by now.
        """
        ...

    def retired(self, entry_id: str, stamp: Stamp, *, back: bool = False) -> Entry:
        """Takes an entry out of searches, or back in; counts stay. It becomes a version.

        Raises:
            ConflictError: When it is not active, or to come `back`, not retired.
        """
        ...

    def versions(self, entry_id: str) -> tuple[Version, ...]:
        """All that it said, the present last, without diffs."""
        ...

    def ratings(self, entry_id: str) -> tuple[Rating, ...]:
        """Its ratings, the present last."""
        ...

    def deleted(self, entry_id: str, stamp: Stamp) -> None:
        """Removes an entry with all that is known of it. Those that it stood for are active again."""
        ...

    def ranked(self, words: str, kinds: Sequence[Kind], at_once: int) -> Iterator[Ranked]:
        """Active entries that hold words of a text, the best first; read `at_once` at a time, as far as asked."""
        ...

    def overviews(self, kinds: Sequence[Kind]) -> Iterator[Overview]:
        """All active entries, in order of id."""
        ...

    def size(self) -> tuple[int, int]:
        """How many entries there are, and how many of them are active."""
        ...

    def texts(self, at_once: int = 1_000) -> Iterator[Entry]:
        """All active entries without histories, in order of id; few at a time are in memory."""
        ...

    def merged(self, merge: Merge, versions: dict[str, int], stamp: Stamp) -> Merged:
        """Applies a merge: what the others hold goes to the one that is kept, which stands for them.

        Args:
            versions: Of each entry, the version that was looked at.

        Raises:
            ConflictError: When one of them has changed.
        """
        ...

    def unmerged(self, merge_id: int, stamp: Stamp) -> Entry:
        """Undoes a merge: the kept entry says what it said, and the others are active again.

        Raises:
            ConflictError: When it was undone, or the kept entry says something else by now.
        """
        ...

    def merges(self) -> tuple[Merged, ...]:
        """The merges that were applied, the latest first."""
        ...

    def dump(self) -> Iterator[dict[str, object]]:
        """Each entry with its versions, cases and ratings, in order of id."""
        ...

    def load(self, records: Iterable[dict[str, object]], stamp: Stamp) -> tuple[int, int]:
        """Adds what `dump` gave, all or nothing: how many were added, and how many were there just so.

        Raises:
            ConflictError: When there is another entry of an id.
        """
        ...

    def backup(self, path: str) -> None:
        """Copies everything into a file while others read and write."""
        ...

    def close(self) -> None:
        """Lets go of the file."""
        ...
