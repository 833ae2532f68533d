"""The answers of both file systems to what cannot be done, in the same words."""

from __future__ import annotations

from knowledge_engine.errors import ConflictError, InvalidIdError, NotFoundError
from knowledge_engine.fs.paths import is_hidden


def not_found(path: str) -> NotFoundError:
    """The one answer for all that is not there, or may not be known to be there."""
    return NotFoundError(f"There is no document {path!r}", mend="List the documents to see what there is.")


def in_the_way(path: str) -> InvalidIdError:
    """What to raise where a file would have to be a folder, or the other way about."""
    return InvalidIdError(
        f"{path!r} cannot be a document: something else has that name, or a name above it",
        mend="Choose another name.",
    )


def refuse_hidden(path: str) -> None:
    """Raises InvalidIdError for what a walk would never give back."""
    if is_hidden(path):
        raise InvalidIdError(
            f"{path!r} is in a hidden, version control or dependency folder",
            mend="Choose a name in which no part begins with a dot.",
        )


def check_match(path: str, if_match: str | None, present: str | None) -> None:
    """Raises ConflictError unless `present` (SHA-256 of the stored bytes; None: no file) is what `if_match` expects."""
    if if_match is not None and if_match != (present or ""):
        raise conflict(path, if_match, present)


def conflict(path: str, if_match: str, present: str | None) -> ConflictError:
    """What to raise when there is another version than the one named, or one where none was expected."""
    state = "already exists" if not if_match else "is not there any more" if present is None else "has changed"
    return ConflictError(f"{path!r} {state}", mend="Read it again, then repeat the change on what is there now.")
