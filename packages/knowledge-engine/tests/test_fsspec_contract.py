"""The laws of file ports, tried on file systems behind fsspec."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from fsspec.implementations.memory import MemoryFileSystem

from knowledge_engine.contract import fs_contract
from knowledge_engine.fs import FsspecFs
from knowledge_engine.ports import FsPort, WritableFsPort


def _filled(fs: FsspecFs, files: Mapping[str, bytes]) -> FsspecFs:
    assert isinstance(fs, WritableFsPort)
    for path, data in files.items():
        fs.write(path, data)
    return fs


@contextmanager
def over_memory(files: Mapping[str, bytes]) -> Iterator[FsPort]:
    yield _filled(FsspecFs(MemoryFileSystem(global_store=False, skip_instance_cache=True), "kb"), files)


@contextmanager
def over_a_local_folder(files: Mapping[str, bytes]) -> Iterator[FsPort]:
    with tempfile.TemporaryDirectory() as folder:
        yield _filled(FsspecFs.from_url(f"file://{folder}/docs"), files)


@contextmanager
def over_an_archive(files: Mapping[str, bytes]) -> Iterator[FsPort]:
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(f"{folder}/docs.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for path, data in files.items():
                archive.writestr(path, data)
        yield FsspecFs.from_url(f"zip://{folder}/docs.zip")


TestMemory = fs_contract(over_memory)
TestLocalFolder = fs_contract(over_a_local_folder)
TestArchive = fs_contract(over_an_archive)
