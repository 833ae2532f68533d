"""Whether a folder of the host can be looked into."""

from __future__ import annotations

import os


def why_unreadable(place: str | os.PathLike[str], name: str) -> str:
    """Why nothing can be read from a folder, and what to do, in a sentence about `name`; empty if it can be read.

    It names no path of the host: that is for whoever gave it.
    """
    try:
        with os.scandir(place):
            return ""
    except FileNotFoundError:
        return f"{name} does not exist: create it, or correct the path."
    except NotADirectoryError:
        return f"{name} is a file, not a folder: name the folder that it is in."
    except OSError as error:
        return f"{name} cannot be read ({error.strerror}): allow it, or correct the path."
