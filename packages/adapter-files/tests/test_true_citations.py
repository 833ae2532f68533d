"""What is cited stands on disk, whatever happened since it was indexed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_engine.citations import content_hash, decode, verify_citation
from knowledge_engine.errors import ProviderError
from knowledge_engine.fs import MemoryFs
from knowledge_engine.models import FileInfo, Hit, Query, QueryResult
from knowledge_files import FilesKnowledgeAdapter

PASSAGES = "# One\n\nvalve first\n\n# Two\n\nvalve second\n\n# Three\n\npump third\n"


def assert_true(result: QueryResult, root: Path) -> None:
    for hit in result.hits:
        data = (root / hit.source_id).read_bytes()[hit.span.start : hit.span.end]
        assert (decode(data), content_hash(data)) == (hit.text, hit.content_hash)
        for mark in (*hit.snippet.highlights, hit.snippet.span):
            assert hit.span.start <= mark.start < mark.end <= hit.span.end


def ask(folder, words: str = "valve", **more: object) -> QueryResult:
    result = folder.adapter.query(Query(query=words, **more))
    assert_true(result, folder.root)
    return result


def cited(hit: Hit) -> tuple[str, str]:
    return hit.source_id, hit.text


def test_a_changed_file_is_read_again_though_nobody_asked(folder) -> None:
    folder.put("a.md", PASSAGES)
    folder.put("b.md", "valve elsewhere")
    ask(folder)
    folder.put("a.md", "A new first line.\n\n" + PASSAGES, age_s=0)
    result = ask(folder, per_source=5)
    assert [hit.source_id for hit in result.hits].count("a.md") == 2
    assert result.warnings == ()
    folder.put("a.md", "nothing of the kind")
    result = ask(folder)
    assert [hit.source_id for hit in result.hits] == ["b.md"]


@pytest.mark.usefixtures("settled")
def test_an_unchanged_file_is_read_only_where_it_is_cited(folder) -> None:
    folder.put("a.md", PASSAGES)
    ask(folder)
    folder.fs.before_read = lambda _path: None
    read: list[object] = []
    inner = folder.fs.inner.read
    folder.fs.inner.read = lambda path, span=None: read.append(span) or inner(path, span)
    [hit] = ask(folder, "first").hits
    assert read == [hit.span]


@pytest.mark.usefixtures("settled")
def test_an_edit_of_the_same_size_is_not_cited_as_the_old_text(folder) -> None:
    folder.put("a.md", "the valve opens")
    ask(folder)
    folder.put("a.md", "the valve close", age_s=0)
    assert [hit.text for hit in ask(folder).hits] == ["the valve close"]
    # Changed between the look at the file and the reading of its bytes.
    edits = iter(["the valve turns", "the valve turns"])
    folder.fs.before_read = lambda _path: (text := next(edits, None)) and folder.put("a.md", text, age_s=0)
    assert [hit.text for hit in ask(folder).hits] == ["the valve turns"]
    # What stands there now is no answer, though its bytes could be cited.
    folder.put("a.md", "something else!", age_s=0)
    assert ask(folder).hits == ()
    folder.put("a.md", "the valve again")
    folder.adapter.refresh()
    edits = iter(["something else!"])
    folder.fs.before_read = lambda _path: (text := next(edits, None)) and folder.put("a.md", text, age_s=0)
    assert ask(folder).hits == ()


class CoarseFs(MemoryFs):
    """A port over a disk whose clock is ahead and stands still: no time tells that a file was written again."""

    now = time.time_ns() + 3600 * 10**9

    def stat(self, path: str) -> FileInfo:
        return super().stat(path)._replace(mtime_ns=self.now, ctime_ns=self.now, inode=1)

    def walk(self, path: str = ".") -> Iterator[FileInfo]:
        return (self.stat(info.path) for info in super().walk(path))


def test_where_times_cannot_tell_the_bytes_do() -> None:
    fs = CoarseFs({"a.md": b"valve"})
    adapter = FilesKnowledgeAdapter(fs, ".")
    assert [hit.text for hit in adapter.query(Query(query="valve")).hits] == ["valve"]
    fs.write("a.md", b"pumps")
    assert adapter.query(Query(query="valve")).hits == ()
    fs.write("a.md", b"tanks")
    assert adapter.refresh() is True
    assert [hit.text for hit in adapter.query(Query(query="tanks")).hits] == ["tanks"]


def test_a_file_that_changes_at_each_look_is_left_out_with_a_warning(folder) -> None:
    folder.put("a.md", "valve valve valve")
    folder.put("b.md", "valve elsewhere")
    ask(folder)
    count = iter(range(10**6))
    folder.fs.before_read = lambda path: path == "a.md" and folder.put(path, f"valve {next(count)}", age_s=0)
    result = folder.adapter.query(Query(query="valve"))
    assert [cited(hit) for hit in result.hits] == [("b.md", "valve elsewhere")]
    assert result.warnings == ("a.md keeps changing or is gone: its hit is left out.",)


def test_a_deleted_file_is_dropped_with_a_warning_and_others_take_its_place(folder) -> None:
    folder.put("a.md", "valve valve # One\n\n# Two\n\nvalve")
    folder.put("b.md", "valve elsewhere")
    ask(folder)
    os.remove(folder.root / "a.md")
    result = ask(folder, top_k=1, per_source=3)
    assert [hit.source_id for hit in result.hits] == ["b.md"]
    assert result.warnings == ("a.md is gone: its hits are left out.",)
    assert ask(folder).warnings == ()
    assert result.index.documents == 1


def test_a_file_that_may_not_be_read_any_more_is_dropped_with_a_warning(folder) -> None:
    folder.put("a.md", "valve secret")
    folder.put("b.md", "valve elsewhere")
    ask(folder)

    def denied(path: str) -> None:
        if path == "a.md":
            raise ProviderError(f"{path!r} may not be read", mend="Give the right to.")

    folder.fs.before_read = folder.fs.before_stat = denied
    result = ask(folder)
    assert [hit.source_id for hit in result.hits] == ["b.md"]
    assert [warning.split()[0] for warning in result.warnings] == ["a.md"]
    assert folder.skipped() == {"a.md": "unreadable"}


def test_a_file_replaced_by_a_link_out_of_the_root_is_not_cited(folder, tmp_path: Path) -> None:
    folder.put("a.md", "valve inside")
    ask(folder)
    (tmp_path / "secret.md").write_bytes(b"valve TOPSECRET")
    os.remove(folder.root / "a.md")
    os.symlink(tmp_path / "secret.md", folder.root / "a.md")
    result = folder.adapter.query(Query(query="valve"))
    assert result.hits == ()
    assert "TOPSECRET" not in result.model_dump_json()


def test_a_cursor_goes_on_after_a_change_and_says_so(folder) -> None:
    for number in range(6):
        folder.put(f"{number}.md", f"valve {number}")
    first = ask(folder, top_k=2)
    folder.put("9.md", "valve 9")
    folder.adapter.refresh()
    second = ask(folder, top_k=2, cursor=first.next_cursor)
    assert any("changed since" in warning for warning in second.warnings)
    last = first.hits[-1]
    assert [(-hit.score, hit.source_id) > (-last.score, last.source_id) for hit in second.hits] == [True, True]


def test_reading_a_part_clips_it_to_what_is_there(folder) -> None:
    folder.put("a.md", "0123456789")
    whole = folder.adapter.read_source("a.md")
    assert (whole.content, whole.total_bytes, whole.span.end) == (b"0123456789", 10, 10)
    for start, end, expected in [(2, 5, b"234"), (8, 99, b"89"), (50, 60, b""), (3, 3, b"")]:
        part = folder.adapter.read_source("a.md", type(whole.span)(start=start, end=end))
        assert (part.content, part.total_bytes) == (expected, 10)
        assert part.content_hash == content_hash(expected)
        assert part.span.end - part.span.start == len(expected)


EDITS = st.lists(
    st.tuples(
        st.sampled_from(["a.md", "b.md", "c.md"]),
        st.one_of(
            st.none(),
            st.lists(st.sampled_from(["valve", "pump", "# H", "水泵", "\n\n", "é", "\xad"]), max_size=8).map(" ".join),
        ),
    ),
    max_size=6,
)


@settings(max_examples=150, deadline=None)
@given(EDITS, EDITS, st.sampled_from([None, 12]))
def test_no_citation_is_ever_wrong(before: list, after: list, max_chars: int | None) -> None:
    fs = MemoryFs()

    def edit(edits: list) -> None:
        for path, text in edits:
            if text is not None:
                fs.write(path, text.encode())
            elif any(info.path == path for info in fs.walk()):
                fs.delete(path)

    edit(before)
    adapter = FilesKnowledgeAdapter(fs, ".")
    query = Query(query="valve pump 水泵", per_source=3, max_chars=max_chars)
    adapter.query(query)
    edit(after)
    for hit in adapter.query(query).hits:
        data = fs.read(hit.source_id)[hit.span.start : hit.span.end]
        assert (decode(data), content_hash(data)) == (hit.text, hit.content_hash)
        assert verify_citation(adapter, hit).status == "ok"
