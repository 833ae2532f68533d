"""After `refresh` the answers are those of what is on disk, and only what changed was opened."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from knowledge_engine.errors import InvalidIdError, ProviderError
from knowledge_engine.fs import LocalFs, MemoryFs
from knowledge_engine.models import IngestRequest, Query
from knowledge_files import FilesKnowledgeAdapter


@pytest.fixture
def library(folder):
    """Three documents, indexed."""
    folder.put("in.md", "inside valve")
    folder.put("sub/one.md", "one valve")
    folder.put("sub/two.md", "two valve")
    assert folder.found("valve") == ["in.md", "sub/one.md", "sub/two.md"]
    folder.fs.forget()
    return folder


@pytest.mark.usefixtures("settled")
def test_nothing_unchanged_is_opened(library) -> None:
    assert library.adapter.refresh() is False
    assert (library.fs.walks, library.fs.reads) == (["."], [])
    library.put("sub/one.md", "uno valve")
    assert library.adapter.refresh() is True
    assert library.fs.reads == ["sub/one.md"]
    assert library.found("uno") == ["sub/one.md"]


def test_a_file_written_just_before_it_was_read_is_read_again_until_times_can_tell(library) -> None:
    library.put("in.md", "inside valve", age_s=0)
    assert library.adapter.refresh() is False
    library.fs.forget()
    # Nothing about the file says so, but within one tick of the clock it may have been written twice.
    library.adapter.refresh()
    assert "in.md" in library.fs.reads


@pytest.mark.usefixtures("settled")
def test_a_touched_file_is_read_and_not_indexed_again(library, monkeypatch: pytest.MonkeyPatch) -> None:
    library.age("in.md", 60)
    monkeypatch.setattr("knowledge_files.reading.parse_document", None)
    assert library.adapter.refresh() is False
    assert library.fs.reads == ["in.md"]
    library.fs.forget()
    assert library.adapter.refresh() is False
    assert library.fs.reads == []


@pytest.mark.usefixtures("settled")
def test_an_edit_of_the_same_size_and_times_is_seen(library) -> None:
    found = os.stat(library.root / "in.md")
    (library.root / "in.md").write_bytes(b"inside tanks")
    os.utime(library.root / "in.md", ns=(found.st_atime_ns, found.st_mtime_ns))
    assert library.adapter.refresh() is True
    assert library.found("tanks") == ["in.md"]


def test_a_file_replaced_by_an_older_one_is_seen(library) -> None:
    library.put("in.md.tmp", "newword")
    os.utime(library.root / "in.md.tmp", (978_307_200, 978_307_200))
    os.replace(library.root / "in.md.tmp", library.root / "in.md")
    assert library.adapter.refresh() is True
    assert library.found("newword") == ["in.md"]


def test_saving_by_rename_shows_the_new_text_each_time_and_no_temporary_file(library) -> None:
    for word in ("osprey", "heron"):
        library.put("in.md.tmp", f"text {word}")
        library.adapter.refresh()
        assert library.found(word) == []
        os.replace(library.root / "in.md.tmp", library.root / "in.md")
        assert library.adapter.refresh() is True
        assert library.found(word) == ["in.md"]
        assert library.found("inside") == []
        assert library.ids() == ["in.md", "sub/one.md", "sub/two.md"]


def test_moves_and_removals_are_followed(library, tmp_path: Path) -> None:
    def now() -> list[str]:
        assert library.adapter.refresh() is True
        return library.ids()

    os.rename(library.root / "in.md", tmp_path / "in.md")
    assert now() == ["sub/one.md", "sub/two.md"]
    os.rename(tmp_path / "in.md", library.root / "in.md")
    assert now() == ["in.md", "sub/one.md", "sub/two.md"]
    os.rename(library.root / "sub", library.root / "sub2")
    assert now() == ["in.md", "sub2/one.md", "sub2/two.md"]
    assert library.found("two") == ["sub2/two.md"]
    shutil.rmtree(library.root / "sub2")
    assert now() == ["in.md"]
    shutil.rmtree(library.root)
    assert now() == []
    assert library.found("inside") == []
    library.root.mkdir()
    library.put("again.md", "valve")
    assert now() == ["again.md"]
    assert library.found("valve") == ["again.md"]


def test_a_root_that_is_made_later_is_found(tmp_path: Path) -> None:
    adapter = FilesKnowledgeAdapter(LocalFs(tmp_path / "later"), ".")
    assert adapter.list_sources().sources == ()
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "a.md").write_bytes(b"valve")
    assert adapter.refresh() is True
    assert [source.id for source in adapter.list_sources().sources] == ["a.md"]


def test_the_library_keeps_what_it_indexed_until_it_is_told(library) -> None:
    library.put("new.md", "valve")
    assert library.found("valve") == ["in.md", "sub/one.md", "sub/two.md"]
    assert library.fs.walks == []


def test_the_first_refresh_builds(folder) -> None:
    folder.put("a.md", "valve")
    assert folder.adapter.refresh(["a.md"]) is True
    folder.fs.forget()
    assert folder.found("valve") == ["a.md"]
    assert folder.fs.walks == []


def test_only_what_is_named_is_taken_in(library) -> None:
    library.put("in.md", "changed alpha")
    library.put("sub/one.md", "changed beta")
    library.put("sub/deep/three.md", "changed gamma")
    library.put("sub-b.md", "changed delta")
    library.fs.forget()
    assert library.adapter.refresh(["sub/"]) is True
    assert set(library.fs.reads) == {"sub/one.md", "sub/two.md", "sub/deep/three.md"}
    assert sorted(library.found("changed")) == ["sub/deep/three.md", "sub/one.md"]
    assert library.adapter.refresh(["in.md", "sub-b.md"]) is True
    assert sorted(library.found("changed")) == ["in.md", "sub-b.md", "sub/deep/three.md", "sub/one.md"]
    assert library.adapter.refresh(["in.md"]) is False
    assert library.adapter.refresh([]) is False


def test_named_files_that_are_gone_leave_however_often_they_are_named(library) -> None:
    shutil.rmtree(library.root / "sub")
    assert library.adapter.refresh(["sub/one.md", "sub/one.md", "sub", "nowhere.md", "nowhere"]) is True
    assert library.ids() == ["in.md"]
    os.remove(library.root / "in.md")
    assert library.adapter.refresh(["in.md"]) is True
    assert library.ids() == []


def test_a_folder_can_take_a_documents_name_and_the_other_way_about(library) -> None:
    library.put("x.md/inner.md", "valve inner")
    assert library.adapter.refresh(["x.md"]) is True
    assert library.found("inner") == ["x.md/inner.md"]
    shutil.rmtree(library.root / "x.md")
    library.put("x.md", "valve outer")
    assert library.adapter.refresh(["x.md"]) is True
    assert library.ids() == ["in.md", "sub/one.md", "sub/two.md", "x.md"]
    os.remove(library.root / "x.md")
    library.put("x.md/inner.md", "valve inner")
    assert library.adapter.refresh(["x.md"]) is True
    assert library.ids() == ["in.md", "sub/one.md", "sub/two.md", "x.md/inner.md"]


def test_naming_the_folder_or_one_above_it_means_all_of_it(tmp_path: Path) -> None:
    fs = LocalFs(tmp_path)
    adapter = FilesKnowledgeAdapter(fs, "a/b")
    adapter.refresh()
    for number, path in enumerate([".", "a", "a/b", "a/b/"]):
        fs.write(f"a/b/{number}.md", b"valve")
        fs.write(f"a/other/{number}.md", b"valve")
        assert adapter.refresh([path]) is True
        assert adapter.list_sources().total == number + 1
    assert adapter.refresh(["a/other", "elsewhere/x.md"]) is False
    for wrong in ("", "/", "../x", "/etc", "a//b", "a\0b"):
        with pytest.raises(InvalidIdError):
            adapter.refresh([wrong])


def test_the_other_name_of_a_document_stays_no_document(library) -> None:
    os.symlink("in.md", library.root / "alias.md")
    assert library.adapter.refresh(["alias.md"]) is False
    assert library.adapter.refresh() is False
    assert library.ids() == ["in.md", "sub/one.md", "sub/two.md"]
    # A document that becomes another name of one is none any more.
    os.remove(library.root / "sub/one.md")
    os.symlink("two.md", library.root / "sub/one.md")
    assert library.adapter.refresh(["sub/one.md"]) is True
    assert library.ids() == ["in.md", "sub/two.md"]


def test_hard_links_are_documents_of_their_own(library) -> None:
    os.link(library.root / "in.md", library.root / "twin.md")
    assert library.adapter.refresh(["twin.md"]) is True
    assert library.ids() == ["in.md", "sub/one.md", "sub/two.md", "twin.md"]


def test_problems_come_and_go(library) -> None:
    os.symlink("/etc/hostname", library.root / "sub/out.md")
    os.symlink("nowhere.md", library.root / "lost.md")
    assert library.adapter.refresh() is False
    assert library.skipped() == {"lost.md": "dangling-link", "sub/out.md": "symlink-escape"}
    os.remove(library.root / "sub/out.md")
    library.adapter.refresh(["sub/out.md"])
    assert library.skipped() == {"lost.md": "dangling-link"}
    library.adapter.refresh(["sub"])
    assert library.skipped() == {"lost.md": "dangling-link"}
    library.put("nowhere.md", "valve")
    os.symlink("/etc", library.root / "sub/out")
    library.adapter.refresh(["lost.md", "sub"])
    assert library.skipped() == {"sub/out": "symlink-escape"}


def test_documents_become_unusable_and_usable_again(library) -> None:
    good = (library.root / "in.md").read_bytes()
    library.put("in.md", b"\xff\xfe" + "inside".encode("utf-16-le"))
    assert library.adapter.refresh() is True
    assert (library.skipped(), library.found("inside")) == ({"in.md": "encoding-invalid"}, [])
    assert library.adapter.refresh() is False
    library.put("in.md", good)
    assert library.adapter.refresh(["in.md"]) is True
    assert (library.skipped(), library.found("inside")) == ({}, ["in.md"])


def test_a_file_that_could_not_be_read_is_tried_at_each_refresh(hooked: type) -> None:
    fs = hooked(MemoryFs({"a.md": b"valve", "b.md": b"valve pump"}))
    adapter = FilesKnowledgeAdapter(fs, ".")

    def broken(path: str) -> None:
        if path == "b.md":
            raise ProviderError(f"{path!r} cannot be read", mend="Check the disk.")

    fs.before_read = fs.before_stat = broken
    assert [source.id for source in adapter.list_sources().sources] == ["a.md"]
    [skipped] = adapter.health_check().skipped
    assert (skipped.path, skipped.reason) == ("b.md", "unreadable")
    assert adapter.refresh() is False
    fs.before_read = fs.before_stat = lambda _path: None
    assert adapter.refresh() is True
    fs.before_read = fs.before_stat = broken
    assert adapter.refresh(["b.md"]) is True
    assert adapter.query(Query(query="pump")).index.skipped == 1
    fs.before_read = fs.before_stat = lambda _path: None
    assert adapter.refresh() is True
    assert [source.id for source in adapter.list_sources().sources] == ["a.md", "b.md"]


def test_a_file_that_vanishes_between_listing_and_reading_is_no_problem(folder) -> None:
    folder.put("in.md", "inside")
    folder.put("x.md", "inside too")

    def vanish(path: str) -> None:
        (folder.root / "x.md").unlink(missing_ok=True)

    folder.fs.before_read = vanish
    assert folder.ids() == ["in.md"]
    assert folder.skipped() == {}
    folder.put("x.md", "inside again")
    folder.fs.before_read = lambda _path: None
    folder.adapter.refresh()
    folder.put("x.md", "inside anew")
    folder.fs.before_read = vanish
    assert folder.adapter.refresh() is True
    assert (folder.ids(), folder.skipped()) == (["in.md"], {})


def test_a_file_that_grows_between_listing_and_reading_has_the_size_of_what_was_read(folder) -> None:
    folder.put("a.md", "short")
    folder.fs.before_read = lambda _path: folder.put("a.md", "grown longer")
    [source] = folder.adapter.list_sources().sources
    assert source.bytes == len("grown longer") == len(folder.adapter.read_source("a.md").content)


def test_own_writes_count_as_changes_only_once(library) -> None:
    library.adapter.ingest(IngestRequest(id="new.md", text="fresh valve"))
    assert library.adapter.refresh() is True
    assert library.found("fresh") == ["new.md"]
    library.adapter.ingest(IngestRequest(id="new.md", text="fresh valve"))
    assert library.adapter.refresh() is False


def test_equal_folders_have_equal_revisions_whatever_became_of_them_before(library, tmp_path: Path) -> None:
    library.put("z.md", "x")
    library.adapter.refresh()
    os.remove(library.root / "z.md")
    library.put("in.md", "other")
    library.adapter.refresh()
    library.put("in.md", "inside valve")
    library.adapter.refresh()
    shutil.copytree(library.root, tmp_path / "copy")
    copy = FilesKnowledgeAdapter(LocalFs(tmp_path / "copy"), ".")
    assert copy.query(Query(query="x")).index == library.adapter.query(Query(query="x")).index
