"""Databases made for one test, and the rights of a user who has none."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from knowledge_engine.analysis import Analyzer
from knowledge_sqlite import SqliteKnowledgeAdapter, SqliteSettings

NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may enter."""
    path = Path(tempfile.mkdtemp(prefix="kpkit-"))
    path.chmod(0o755)
    yield path
    for each in (path, *path.rglob("*")):
        if each.is_dir():
            each.chmod(0o755)
    shutil.rmtree(path)


@pytest.fixture
def open_db(folder: Path) -> Iterator[Callable[..., SqliteKnowledgeAdapter]]:
    """Opens `kb.db` in the folder, or what `path` names; closed at the end."""
    opened: list[SqliteKnowledgeAdapter] = []

    def opening(
        path: str | os.PathLike[str] | None = None, *, analyzer: Analyzer | None = None, **settings: Any
    ) -> SqliteKnowledgeAdapter:
        place = os.fspath(folder / "kb.db" if path is None else path)
        opened.append(SqliteKnowledgeAdapter(SqliteSettings(path=place, **settings), analyzer=analyzer))
        return opened[-1]

    yield opening
    for each in opened:
        each.dispose()


@pytest.fixture
def unprivileged() -> Callable[[], AbstractContextManager[None]]:
    """The rights of an ordinary user, who does not own the test's files when root runs the tests."""

    @contextmanager
    def rights() -> Iterator[None]:
        if os.geteuid() != 0:
            yield
            return
        os.seteuid(NOBODY)
        try:
            yield
        finally:
            os.seteuid(0)

    return rights
