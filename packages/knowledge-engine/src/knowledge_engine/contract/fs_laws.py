"""Laws of file ports: what a provider over files stands on."""

from __future__ import annotations

import hashlib
import threading
from functools import partial
from typing import Any

from hypothesis import strategies as st

from knowledge_engine.contract.case import FsCase
from knowledge_engine.contract.corpora import hostile_ids
from knowledge_engine.contract.law import law, need, refused, same, unique
from knowledge_engine.errors import ConflictError, InvalidIdError, NotFoundError
from knowledge_engine.models import ByteSpan, FileInfo
from knowledge_engine.ports import FsPort

_WRITE = ["writable-fs"]


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _stored(fs: Any) -> dict[str, bytes]:
    return {info.path: fs.read(info.path) for info in fs.walk() if not info.problem}


@law("read", source="FsPort.walk", hint="the sort of whole paths: by code point, not folder by folder")
def walk_gives_every_file(case: FsCase) -> None:
    """A walk gives every file once, in ascending order of path, and nothing else."""
    fs = case.open()
    need(isinstance(fs, FsPort), "the object lacks members of FsPort")
    infos = list(fs.walk())
    need(all(isinstance(info, FileInfo) for info in infos), "a walk gives something that is no FileInfo")
    same(
        unique([info.path for info in infos if not info.problem], "the walk"), sorted(case.docs), "the paths of a walk"
    )


@law("read", source="FsPort.walk", hint="prefixes: `d` is not a folder of `d.md` or `de/f.md`")
def walk_below_a_folder(case: FsCase) -> None:
    """A walk below a folder gives the files in it; a folder that does not exist has none."""
    fs = case.open()
    for folder in ("guides", "guides/deep", "guid", "nowhere", "水温"):
        expected = sorted(path for path in case.docs if path.startswith(f"{folder}/"))
        same([info.path for info in fs.walk(folder)], expected, f"the walk below {folder!r}")


@law("read", source="FsPort.stat", hint="that walk and stat take their numbers from one place")
def stat_agrees_with_walk(case: FsCase) -> None:
    """`stat` gives the numbers that the walk gives, and the size is that of the bytes."""
    fs = case.open()
    for info in fs.walk():
        same(fs.stat(info.path), info, f"stat({info.path!r})")
        same(info.size, len(case.docs[info.path]), f"the size of {info.path!r}")


@law("read", source="FsPort.read", hint="text mode, and the end of a span")
def read_gives_the_bytes(case: FsCase) -> None:
    """`read` gives the stored bytes, or those of a span, clipped to the file's end."""
    fs = case.open()
    start, length = case.draw(st.integers(0, 200), "start"), case.draw(st.integers(0, 200), "length")
    for path, data in case.docs.items():
        same(fs.read(path), data, f"the bytes of {path!r}")
        span = ByteSpan(start=start, end=start + length)
        same(fs.read(path, span), data[start : start + length], f"bytes {span} of {path!r}")


@law("read", source="FsPort: paths never leave the root", hint="knowledge_engine.fs.check_path, and links")
def hostile_path(case: FsCase) -> None:
    """A path that leads elsewhere, to a folder or to nothing is refused and gives no bytes."""
    fs = case.open()
    path = case.draw(st.one_of(hostile_ids(case.docs), st.sampled_from(["guides", "none.md"])), "path")
    for call in (fs.stat, fs.read):
        refused(partial(call, path), (NotFoundError, InvalidIdError), f"{call.__name__}({path[:80]!r})")
    for bad in ("", "/a.md", "a/../b.md", "a\x00.md", "a\\b.md"):
        refused(partial(fs.read, bad), InvalidIdError, f"read({bad!r})")


@law(
    "write",
    source="WritableFsPort.write",
    needs=_WRITE,
    hint="the numbers that write returns, and buffers that are not flushed",
)
def write_is_read(case: FsCase) -> None:
    """What was written is read, walked and stated as `write` said; other files stay."""
    fs = case.open()
    path = case.pick([*sorted(case.docs), "new/folder/of.md", "z.md"], "path")
    data = case.draw(st.binary(max_size=50), "data")
    info = fs.write(path, data)
    same((info.path, info.size), (path, len(data)), "path and size that write gave")
    same(fs.stat(path), info, "stat after write")
    same(_stored(fs), {**case.docs, path: data}, "what is stored")


@law(
    "write",
    source="FileInfo: any difference counts",
    needs=_WRITE,
    hint="times too coarse to tell two writes apart: add another number",
)
def write_changes_the_identity(case: FsCase) -> None:
    """Each write of other bytes changes the file's numbers, also when the size stays."""
    fs = case.open({"a.md": b"one"})
    seen = [fs.stat("a.md"), *(fs.write("a.md", data) for data in (b"two", b"six", b"one"))]
    same(len(set(seen)), len(seen), "how many different FileInfos four versions have")


@law(
    "write",
    source="WritableFsPort: if_match",
    needs=_WRITE,
    hint="the hash of the present bytes; check and write are one step",
)
def if_match_guards(case: FsCase) -> None:
    """`if_match` lets a change through exactly when it names the present bytes ("": none); else nothing changes."""
    fs = case.open({"a.md": b"one", "b.md": b"two"})
    path, data = case.pick([("a.md", b"one"), ("new.md", None)], "file")
    right = "" if data is None else _hash(data)
    for wrong in {"", _hash(b"other"), "x"} - {right}:
        refused(partial(fs.write, path, b"lost", if_match=wrong), ConflictError, f"write, if_match={wrong!r}")
        if data is not None:
            refused(partial(fs.delete, path, if_match=wrong), ConflictError, f"delete, if_match={wrong!r}")
    same(_stored(fs), {"a.md": b"one", "b.md": b"two"}, "what is stored after refused changes")
    fs.write(path, b"new", if_match=right)
    same(fs.read(path), b"new", "what was written")
    fs.delete(path, if_match=_hash(b"new"))
    need(path not in _stored(fs), f"{path!r} is there after it was deleted")


@law("write", source="WritableFsPort.delete", needs=_WRITE, hint="the error for what is not there")
def delete_takes_one_file(case: FsCase) -> None:
    """A deleted file is gone from walk, stat and read, and others stay; what is not there is a NotFoundError."""
    fs = case.open({**case.draw(st.just({"keep.md": b"x"}), "files"), "d/gone.md": b"y"})
    fs.delete("d/gone.md")
    same(_stored(fs), {"keep.md": b"x"}, "what is stored")
    for call in (fs.stat, fs.read, fs.delete):
        refused(partial(call, "d/gone.md"), NotFoundError, f"{call.__name__} of a deleted file")
    refused(lambda: fs.delete("d"), (NotFoundError, InvalidIdError), "delete of a folder")


@law(
    "write",
    source="WritableFsPort.write: InvalidIdError",
    needs=_WRITE,
    hint="knowledge_engine.fs.check_path and is_hidden, before anything is written",
)
def write_refuses_what_no_walk_gives(case: FsCase) -> None:
    """A path that leaves the root, is hidden, or lies below a file is refused; nothing changes."""
    fs = case.open({"a.md": b"one", "d/e.md": b"two"})
    path = case.pick(
        [
            "../x.md",
            "/x.md",
            "",
            ".",
            "a//x.md",
            "./x.md",
            "x\x00.md",
            "\ud800",
            "x" * 300,
            ".git/x.md",
            ".x.md",
            "a.md/x.md",
            "d",
        ],
        "path",
    )
    refused(lambda: fs.write(path, b"bad"), InvalidIdError, f"write({path[:40]!r})")
    same(_stored(fs), {"a.md": b"one", "d/e.md": b"two"}, "what is stored")


@law(
    "durability",
    source="WritableFsPort: if_match",
    needs=_WRITE,
    hint="whether nothing can come between check and write",
    share=0.3,
)
def one_writer_wins(case: FsCase) -> None:
    """Of several threads that write with one `if_match`, exactly one succeeds; readers see whole versions."""
    fs = case.open({"a.md": b"start"})
    contents = [b"%d" % number * 50_000 for number in range(case.draw(st.integers(2, 5), "writers"))]
    won, torn, barrier = list[bytes](), list[bytes](), threading.Barrier(len(contents))

    def write(data: bytes) -> None:
        barrier.wait()
        try:
            fs.write("a.md", data, if_match=_hash(b"start"))
            won.append(data)
        except ConflictError:
            read = fs.read("a.md")
            torn.extend([] if read in (b"start", *contents) else [read[:20]])

    threads = [threading.Thread(target=write, args=(data,), daemon=True) for data in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    same((len(won), torn), (1, []), "the writers that succeeded, and torn reads")
    same(fs.read("a.md"), won[0], "what is stored")
