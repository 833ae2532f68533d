"""Distributions made for one test: a metadata folder and a real module on a path of their own."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

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
