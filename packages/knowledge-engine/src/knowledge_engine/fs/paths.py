"""What a path below the root may look like, and which paths are never documents."""

from __future__ import annotations

import os
import re
import sys

from knowledge_engine.errors import InvalidIdError

#: False under an ASCII or Latin-1 locale, where Python reads file names in that encoding.
NAMES_ARE_UTF8 = sys.getfilesystemencoding() == "utf-8"

MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 4096

#: Folders of dependencies and of version control that do not begin with a dot. `vendor`, `build` or `target` are
#: not among them: people keep documents in folders of those names.
HIDDEN_NAMES = frozenset(
    {"node_modules", "bower_components", "__pycache__", "site-packages", "venv", "CVS", "_darcs", "__MACOSX"}
)

_MEND = "Give the path of a document below the root, such as 'guides/start.md'."
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_DRIVE = re.compile("[A-Za-z]:")


def check_path(path: str) -> str:
    """`path` itself, if it is a path that a document can have.

    Only the text is looked at, so the answer is the same whether or not something lies there. Nothing is normalised:
    look-alike dots and slashes are ordinary characters, and NFC and NFD name different documents.

    Raises:
        InvalidIdError: For a path that is empty, absolute, or has an empty, `.` or `..` component, a backslash, a
            control character, a lone surrogate, a drive letter or `~` in front, or is too long.
    """
    problem = path_problem(path)
    if problem:
        shown = printable(path if len(path) <= 120 else path[:117] + "...")
        raise InvalidIdError(f"'{shown}' {problem}", mend=_MEND)
    return path


def path_problem(path: str) -> str:
    """What is wrong with a path, as the rest of a sentence; empty when nothing is."""
    parts = path.split("/")
    if not path or not all(parts):
        return "is empty, absolute or has an empty component"
    if "." in parts or ".." in parts:
        return "has a '.' or '..' component"
    if "\\" in path or _CONTROL.search(path):
        return "has a backslash or a control character"
    if path.startswith("~") or _DRIVE.match(path):
        return "begins with '~' or a drive letter"
    if _SURROGATE.search(path):
        return "is not text that UTF-8 can hold"
    if len(path.encode()) > MAX_PATH_BYTES or any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        return "is too long"
    return ""


def is_hidden(path: str) -> bool:
    """Whether a component begins with a dot or is one of `HIDDEN_NAMES`: such a path is never a document."""
    return any(part.startswith(".") or part in HIDDEN_NAMES for part in path.split("/"))


def printable(name: str) -> str:
    r"""A name from the disk for people to read: what is not text shows as `\xNN`."""
    text = name.encode("utf-8", "surrogateescape") if _escaped(name) else name.encode("utf-8", "backslashreplace")
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text.decode("utf-8", "backslashreplace"))


def _escaped(name: str) -> bool:
    """Whether each surrogate stands for a byte that the file system gave."""
    return all("\udc80" <= found <= "\udcff" for found in _SURROGATE.findall(name))


def above(path: str) -> list[str]:
    """The folders above a path, outermost first.

    >>> above("a/b/c.md")
    ['a', 'a/b']
    """
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def full_path(root: str, path: str) -> str:
    """Where `path` (or `.`) lies on disk, for the operating system."""
    return native(root if path == "." else os.path.join(root, path))  # noqa: PTH118 - a Path costs 10x


def can_be_path(name: str) -> bool:
    """Whether the operating system can be asked for it: not empty, no NUL, nothing that no bytes stand for."""
    try:
        return b"\0" not in name.encode("utf-8", "surrogateescape") and bool(name)
    except UnicodeEncodeError:  # half of a surrogate pair
        return False


def native(name: str) -> str:
    """A name for the operating system. Ours are UTF-8, whatever the locale would make of them."""
    return name if NAMES_ARE_UTF8 else os.fsdecode(name.encode("utf-8", "surrogateescape"))


def as_text(name: str) -> str:
    """A name from the operating system as text; bytes that are not UTF-8 come as surrogates."""
    return name if NAMES_ARE_UTF8 else os.fsencode(name).decode("utf-8", "surrogateescape")
