"""The contract over files in a zip archive, which can only be read."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from knowledge_engine import resolve_knowledge_backend
from knowledge_engine.contract import Opened, provider_contract


@contextmanager
def open_zip(docs: Mapping[str, bytes]) -> Iterator[Opened]:
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "docs.zip")
        _pack(archive, docs)
        held = dict(docs)

        def outside(path: str, data: bytes | None) -> None:
            if data is None:
                del held[path]
            else:
                held[path] = data
            _pack(archive, held)

        url = f"files:zip://{archive}"
        with resolve_knowledge_backend(url) as handle, resolve_knowledge_backend(url) as again:
            yield Opened(handle.provider(), again.provider, outside)


def _pack(archive: Path, docs: Mapping[str, bytes]) -> None:
    with tempfile.NamedTemporaryFile(dir=archive.parent, delete=False) as out, zipfile.ZipFile(out, "w") as packed:
        for path, data in docs.items():
            packed.writestr(path, data)
    Path(out.name).replace(archive)


TestZip = provider_contract(open_zip)
