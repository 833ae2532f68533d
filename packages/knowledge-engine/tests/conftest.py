"""Distributions made for one test: a metadata folder and a real module on a path of their own."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

InstallPlugin = Callable[..., Path]


@pytest.fixture
def install_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InstallPlugin]:
    """Installs a distribution with one plugin module; returns the folder that it is installed to.

    Later ones come after earlier ones on the path. The modules are forgotten when the test ends.
    """
    before = set(sys.modules)

    def install(
        module: str = "",
        source: str = "",
        *,
        distribution: str = "test-plugin",
        group: str = "knowledge_engine.providers",
        name: str = "test",
        entry_points: str | bytes | None = None,
        metadata: str | bytes | None = None,
    ) -> Path:
        site = tmp_path / f"site-{len(list(tmp_path.glob('site-*')))}"
        folder = site / f"{distribution.replace('-', '_')}-1.2.dist-info"
        folder.mkdir(parents=True)
        if metadata is None:
            metadata = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n"
        if metadata:
            (folder / "METADATA").write_bytes(metadata if isinstance(metadata, bytes) else metadata.encode())
        text = f"[{group}]\n{name} = {module}\n" if entry_points is None else entry_points
        (folder / "entry_points.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
        if module:
            (site / f"{module}.py").write_text(textwrap.dedent(source))
        monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
        return site

    yield install
    for added in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[added], "__file__", "")):
            del sys.modules[added]


# A folder held in memory, written back when it changes.
SHELF = """
    from pathlib import Path
    from knowledge_engine.hookspecs import hookimpl

    @hookimpl
    def knowledge_backend():
        root = {"name": "KNOWLEDGE_SHELF_ROOT", "description": "the folder", "required": True, "in_url": True}
        return {"name": "Shelf", "url_schemes": ["shelf"], "settings": [root]}

    @hookimpl
    def knowledge_open(url, environ):
        from knowledge_engine.memory import MemoryProvider

        class Shelf(MemoryProvider):
            def __init__(self, root):
                self.root = Path(root)
                files = sorted(path for path in self.root.rglob("*") if path.is_file())
                docs = {path.relative_to(self.root).as_posix(): path.read_bytes() for path in files}
                super().__init__(docs, id="shelf")

            def ingest(self, request):
                source = super().ingest(request)
                path = self.root / source.id
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self.read_source(source.id).content)
                return source

            def delete_source(self, source_id, *, if_match=None):
                super().delete_source(source_id, if_match=if_match)
                (self.root / source_id).unlink()

        return Shelf(url.partition(":")[2] if url else environ["KNOWLEDGE_SHELF_ROOT"])
"""


class Shelf(NamedTuple):
    """A backend `shelf`, and the folder that it serves."""

    root: Path
    site: Path

    @property
    def url(self) -> str:
        return f"shelf:{self.root}"

    def put(self, path: str, data: bytes | str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data.encode() if isinstance(data, str) else data)


@pytest.fixture
def shelf(tmp_path: Path, install_plugin: InstallPlugin) -> Shelf:
    """An installed backend over an empty folder."""
    root = tmp_path / "docs"
    root.mkdir()
    return Shelf(root, install_plugin("shelf_plugin", SHELF, distribution="shelf-backend", name="shelf"))
