"""`KnowledgeLibrary`: what is loaded, what is left out and said of it, and what agents get."""

from __future__ import annotations

import itertools
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import knowledge_files
from knowledge_engine.agent_tools import AgentTools
from knowledge_engine.contract import provider_contract
from knowledge_engine.errors import ProviderError, TooLargeError
from knowledge_engine.fs import LocalFs, MemoryFs
from knowledge_engine.models import Query
from knowledge_engine.ports import ExplainingProvider, IKnowledgeProvider, IngestingProvider
from knowledge_engine.service import KnowledgeService
from knowledge_files import KnowledgeLibrary

ENTRY_KEYS = [
    "id",
    "kind",
    "title",
    "vendor",
    "model",
    "equipment_type",
    "protocol",
    "drivers",
    "summary",
    "verified",
    "chars",
]


def document(id: str, /, body: str = "## Overview\n\nText.\n", **metadata: str) -> str:
    known = {"id": id, "title": f"Title of {id}", "kind": "device", "summary": "What it says.", **metadata}
    return "---\n" + "".join(f"{key}: {value}\n" for key, value in known.items() if value) + f"---\n{body}"


METER = document(
    "device.acme.em24",
    "## Overview\n\nA meter.\n\n## Registers\n\nVoltage is at 40001.\n",
    title="Energy meter",
    vendor="Acme",
    model="EM-24",
    equipment_type="energy_meter",
    protocol="modbus",
    drivers="[modbus-tcp]",
    summary="Registers of the meter.",
    keywords="[kilowatt hours]",
    aliases='["Em twentyfour"]',
    verified="unverified",
)
S7 = document("protocol.s7", kind="protocol", protocol="s7", title="S7 protocol")


def put(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


def library_of(files: Mapping[str, str | bytes], **options: Any) -> KnowledgeLibrary:
    raw = {path: text if isinstance(text, bytes) else text.encode() for path, text in files.items()}
    library = KnowledgeLibrary(MemoryFs(raw), **options)
    library.load()
    return library


@pytest.fixture
def library(tmp_path: Path) -> KnowledgeLibrary:
    library = KnowledgeLibrary(put(tmp_path, {"devices/em24.md": METER, "s7.markdown": S7}))
    library.load()
    return library


def ids(answer: Mapping[str, Any]) -> list[str]:
    return [entry["id"] for entry in answer["docs"]]


def codes(library: KnowledgeLibrary) -> list[tuple[str, str]]:
    return [(warning.path, warning.code) for warning in library.warnings]


# --- answers -----------------------------------------------------------------------------------------------------


def test_a_list_has_count_docs_and_hint_and_each_document_exactly_the_eleven_keys(library: KnowledgeLibrary) -> None:
    answer = library.list_docs()
    assert {"count", "docs", "hint"} <= set(answer)
    assert [list(entry) for entry in answer["docs"]] == [ENTRY_KEYS, ENTRY_KEYS]
    assert answer["docs"][0] == {
        "id": "device.acme.em24",
        "kind": "device",
        "title": "Energy meter",
        "vendor": "Acme",
        "model": "EM-24",
        "equipment_type": "energy_meter",
        "protocol": "modbus",
        "drivers": ["modbus-tcp"],
        "summary": "Registers of the meter.",
        "verified": "unverified",
        "chars": len(METER) - METER.index("## Overview"),
    }


def test_answers_are_those_of_agent_tools_over_the_same_documents(library: KnowledgeLibrary) -> None:
    tools = AgentTools(KnowledgeService(library.provider))
    assert library.list_docs(query="meter", kind="device") == tools.list(query="meter", kind="device")
    assert (
        library.get_doc("device.acme.em24")
        == tools.get("device.acme.em24")
        == library.tools.get("devices/em24.md") | {"id": "device.acme.em24"}
    )
    assert library.get_doc("nobody") == tools.get("nobody")


@pytest.mark.parametrize(
    "query", ["energy", "acme", "em-24", "device.acme.em24", "registers", "kilowatt", "twentyfour"]
)
def test_a_query_matches_each_field_of_the_catalogue(library: KnowledgeLibrary, query: str) -> None:
    assert ids(library.list_docs(query=query)) == ["device.acme.em24"]


def test_a_query_ranks_by_relevance() -> None:
    library = library_of(
        {
            "a.md": document("a", summary="Mentions pumps once among many other words of no matter."),
            "b.md": document("b", title="Pumps", keywords="[pumps]"),
        }
    )
    assert ids(library.list_docs("pumps")) == ["b", "a"]


def test_typing_errors_are_forgiven_only_where_nothing_matches_and_that_is_said(library: KnowledgeLibrary) -> None:
    answer = library.list_docs(query="enrgy")
    assert ids(answer) == ["device.acme.em24"]
    assert "Nothing matched as written" in answer["hint"]
    assert "as written" not in library.list_docs(query="energy")["hint"]


@pytest.mark.parametrize("value", ["any", "ANY", " Any "])
def test_any_switches_a_filter_off(library: KnowledgeLibrary, value: str) -> None:
    assert ids(library.list_docs(protocol=value, kind="protocol")) == ["protocol.s7"]


def test_a_document_comes_with_exactly_what_agents_know(library: KnowledgeLibrary) -> None:
    answer = library.get_doc("device.acme.em24")
    assert {"found", "id", "title", "metadata", "sections", "content", "truncated"} <= set(answer)
    assert (answer["found"], answer["id"], answer["title"]) == (True, "device.acme.em24", "Energy meter")
    assert answer["metadata"]["drivers"] == ["modbus-tcp"]
    assert answer["sections"] == ["Overview", "Registers"]
    assert answer["content"].startswith("## Overview\n")
    assert answer["truncated"] is False
    assert library.get_doc("device.acme.em24", "Registers")["content"] == "## Registers\n\nVoltage is at 40001.\n"
    assert library.get_doc(id="protocol.s7")["found"] is True


def test_an_unknown_id_is_answered_with_suggestions_and_the_ids_there_are(library: KnowledgeLibrary) -> None:
    answer = library.get_doc("device.acme.em42")
    assert answer["found"] is False
    assert answer["error"]
    assert answer["suggestions"][0] == "device.acme.em24"
    assert answer["available_ids"] == ["device.acme.em24", "protocol.s7"]


def test_ids_and_lists_are_capped_and_the_hint_says_of_how_many() -> None:
    library = library_of({f"{at:03}.md": document(f"doc-{at:03}") for at in range(120)})
    unknown = library.get_doc("nothing-like-it")
    assert len(unknown["available_ids"]) == 50
    assert "50 of 120" in unknown["hint"]
    listed = library.list_docs()
    assert (listed["count"], listed["total"], listed["truncated"]) == (50, 120, True)
    assert "120" in listed["hint"]
    following = library.list_docs(cursor=listed["next_cursor"], limit=200)
    assert ids(listed) + ids(following) == [f"doc-{at:03}" for at in range(120)]


def test_a_long_document_comes_as_its_overview_or_first_section_with_all_headings() -> None:
    filler = "\n\n## Data\n\n" + "Line of text.\n" * 1_300 + "\n### Part\n\nx\n"
    library = library_of(
        {
            "a.md": document("a", "Before.\n\n## First\n\n1\n" + filler + "\n## Overview\n\nShort.\n"),
            "b.md": document("b", "Before.\n\n## First\n\n1\n" + filler),
        }
    )
    answer = library.get_doc("a")
    assert (answer["content"], answer["truncated"]) == ("## Overview\n\nShort.\n", True)
    assert answer["sections"] == ["First", "Data", "Overview"]
    assert [entry["section"] for entry in answer["outline"]] == ["First", "Data", "Part", "Overview"]
    assert library.get_doc("b")["content"] == "## First\n\n1\n\n\n"


def test_an_unknown_section_is_an_error_of_a_document_that_is_found(library: KnowledgeLibrary) -> None:
    answer = library.get_doc("device.acme.em24", section="Wiring")
    assert (answer["found"], answer["content"]) == (True, "")
    assert "Wiring" in answer["error"]
    assert answer["sections"] == ["Overview", "Registers"]


def test_full_text_is_searched_too_and_cited(library: KnowledgeLibrary) -> None:
    answer = library.tools.query("voltage")
    assert [hit["citation"]["source_id"] for hit in answer["hits"]] == ["devices/em24.md"]


# --- what is loaded ----------------------------------------------------------------------------------------------


def test_nothing_is_read_before_it_is_asked_for_and_then_it_is_without_load(tmp_path: Path) -> None:
    library = KnowledgeLibrary(str(tmp_path / "later"))
    assert library.warnings == []
    assert library.provider.health_check().index.documents == 0
    put(tmp_path / "later", {"a.md": document("a")})
    assert ids(library.list_docs()) == ["a"]
    assert library.provider.health_check().index.documents == 1


def test_only_markdown_that_is_not_hidden_is_looked_at(tmp_path: Path) -> None:
    put(tmp_path, {"a.MD": document("a"), "b.txt": "b", ".hidden/c.md": document("c"), ".d.md": document("d")})
    library = KnowledgeLibrary(tmp_path)
    library.load()
    assert ids(library.list_docs()) == ["a"]
    assert library.warnings == []


@pytest.mark.parametrize("key", ["id", "title", "kind", "summary"])
def test_a_document_without_a_required_key_is_left_out_and_named_in_one_line(key: str) -> None:
    library = library_of({"good.md": S7, "sub/bad.md": document("bad", **{key: ""})})
    assert ids(library.list_docs()) == ["protocol.s7"]
    assert library.get_doc("sub/bad.md")["found"] is False
    [line] = [str(warning) for warning in library.warnings]
    assert "\n" not in line
    for part in ("sub/bad.md", key, f"`{key}: ...`"):
        assert part in line


def test_a_document_without_any_frontmatter_is_one_warning_that_names_all_keys() -> None:
    [warning] = library_of({"readme.md": "# Only text\n", "good.md": S7}).warnings
    assert "id, title, kind, summary are required" in str(warning)


def test_of_equal_ids_the_later_path_is_left_out_whoever_came_first() -> None:
    files = {"b.md": document("same", title="B"), "a.md": document("same", title="A"), "c.md": document("same")}
    library = library_of(files)
    assert [entry["title"] for entry in library.list_docs()["docs"]] == ["A"]
    assert library.get_doc("same")["title"] == "A"
    assert codes(library) == [("b.md", "duplicate-id"), ("c.md", "duplicate-id")]
    assert "a.md" in str(library.warnings[0])
    # One that is left out anyway claims no id.
    assert ids(library_of({"a.md": document("same", kind=""), "b.md": document("same")}).list_docs()) == ["same"]


def test_a_value_outside_the_vocabulary_is_warned_of_and_the_document_stays() -> None:
    library = library_of({"a.md": document("a", kind="devise")}, vocab={"kind": {"device", "guide"}})
    assert ids(library.list_docs()) == ["a"]
    [line] = [str(warning) for warning in library.warnings]
    assert line.startswith("a.md:4: ")
    for part in ("kind", "devise", "device, guide"):
        assert part in line


def test_a_vocabulary_that_is_none_is_warned_of_and_hides_no_document() -> None:
    library = library_of({"a.md": document("a")}, vocab={"kind": "device"})
    assert ids(library.list_docs()) == ["a"]
    assert "vocabulary of 'kind'" in str(library.warnings[0])


def test_what_is_wrong_with_text_and_frontmatter_is_warned_of(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "bytes.md": document("bytes").encode() + b"\xff",
            "twice.md": document("twice", body="x").replace("kind:", "vendor: a\nvendor: b\nkind:"),
            "utf16.md": document("utf16").encode("utf-16"),
        },
    )
    (tmp_path / "out.md").symlink_to("/etc/hostname")
    library = KnowledgeLibrary(tmp_path)
    library.load()
    found = dict(codes(library))
    assert found["bytes.md"] == found["utf16.md"] == "encoding-invalid"
    assert found["out.md"] == "symlink-escape"
    assert "twice.md" in found
    assert ids(library.list_docs()) == ["bytes", "twice"]
    assert all(len(str(warning).splitlines()) == 1 and warning.mend for warning in library.warnings)
    health = library.provider.health_check()
    assert {one.path for one in health.skipped} == {"utf16.md", "out.md"}
    assert (health.status, health.index.skipped, list(health.issues)) == ("ok", 2, library.warnings)


class OddFs(MemoryFs):
    """Each file is a trap of its own."""

    def read(self, path: str, span: Any = None) -> bytes:
        if path == "gone.md":
            self.delete(path)
        if path == "huge.md":
            raise TooLargeError("It is huge", mend="Split it.")
        if path == "sick.md":
            raise ProviderError("The disk is sick", mend="Heal it.")
        return super().read(path, span)


def test_files_that_cannot_be_read_hide_no_other_and_one_that_vanished_is_no_matter() -> None:
    names = ("a", "gone", "huge", "sick", "z")
    library = KnowledgeLibrary(OddFs({f"{name}.md": document(name).encode() for name in names}))
    library.load()
    assert ids(library.list_docs()) == ["a", "z"]
    assert codes(library) == [("huge.md", "too-large"), ("sick.md", "provider")]


def test_paths_that_differ_only_in_case_are_both_there_and_warned_of() -> None:
    library = library_of({"a.md": document("one"), "A.md": document("two")})
    assert library.list_docs()["count"] == 2
    assert [code for _, code in codes(library)] == ["id-case-collision"]


# --- folders that are not there ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("docs_dir", "said"),
    [
        ("missing", "does not exist"),
        ("a-file", "is a file"),
        ("", "cannot be a folder"),
        ("nul\0", "cannot be a folder"),
        (None, "docs_dir is a NoneType"),
        (7, "docs_dir is a int"),
    ],
)
def test_a_folder_that_is_none_is_a_warning_and_every_answer_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, docs_dir: Any, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-file").write_text("x")
    library = KnowledgeLibrary(docs_dir)
    library.load()
    [line] = [str(warning) for warning in library.warnings]
    assert said in line
    assert str(tmp_path) not in line
    listed, got = library.list_docs(), library.get_doc("device.acme.em24")
    assert (listed["count"], listed["docs"], got["found"]) == (0, [], False)
    assert said in listed["hint"]
    assert said in got["hint"]
    health = library.provider.health_check()
    assert health.status == "degraded"
    assert said in health.details["unreadable"]


def test_an_empty_folder_is_a_warning_too(tmp_path: Path) -> None:
    library = KnowledgeLibrary(tmp_path)
    library.load()
    assert codes(library) == [(".", "no-documents")]
    assert library.list_docs()["hint"] == "The library has no documents."


def test_a_library_whose_documents_are_all_left_out_says_so_to_agents() -> None:
    assert "All 2 files were left out" in library_of({"a.md": "x", "b.md": "y"}).list_docs()["hint"]


def test_an_unforeseen_failure_of_a_file_port_ends_no_app_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(MemoryFs):
        def walk(self, path: str = ".") -> Iterator[Any]:
            raise RuntimeError("SECRET")

    library = KnowledgeLibrary(Broken({}))
    with caplog.at_level(logging.ERROR):
        library.load()
    [line] = [str(warning) for warning in library.warnings]
    assert "SECRET" not in line
    assert "Look for" in line
    assert len(caplog.records) == 1
    assert library.list_docs()["count"] == 0


# --- changes -----------------------------------------------------------------------------------------------------


def test_what_changes_or_vanishes_on_disk_is_answered_as_loaded_until_the_next_load(tmp_path: Path) -> None:
    put(tmp_path, {"a.md": document("a", "Old.\n"), "b.md": document("b")})
    library = KnowledgeLibrary(tmp_path)
    library.load()
    assert ids(library.list_docs()) == ["a", "b"]
    put(tmp_path, {"a.md": document("a", "New text.\n"), "c.md": document("c")})
    (tmp_path / "b.md").unlink()
    assert library.get_doc("a")["content"] == "Old.\n"
    assert library.get_doc("b")["found"] is True
    tools, provider = library.tools, library.provider
    library.load()
    assert library.get_doc("a")["content"] == tools.get("a")["content"] == "New text.\n"
    assert library.get_doc("b")["found"] is False
    assert ids(tools.list()) == ["a", "c"]
    assert tools.list()["docs"][0]["chars"] == len("New text.\n")
    assert (library.tools, library.provider) == (tools, provider)


def test_the_version_changes_with_each_load_and_only_then(library: KnowledgeLibrary) -> None:
    assert KnowledgeLibrary(MemoryFs({})).version() is None
    first = library.version()
    library.list_docs()
    assert library.version() is first
    library.load()
    assert library.version() is not first


def test_warnings_are_those_of_the_last_load_and_the_callers_own(tmp_path: Path) -> None:
    library = KnowledgeLibrary(put(tmp_path, {"a.md": document("a"), "bad.md": "x"}))
    library.load()
    library.warnings.clear()
    assert len(library.warnings) == 1
    (tmp_path / "bad.md").unlink()
    library.load()
    assert library.warnings == []


def test_a_folder_that_is_taken_away_leaves_what_was_loaded_and_a_warning(tmp_path: Path) -> None:
    root = put(tmp_path / "docs", {"a.md": document("a")})
    library = KnowledgeLibrary(root)
    library.load()
    root.rename(tmp_path / "elsewhere")
    library.load()
    assert ids(library.list_docs()) == ["a"]
    assert "does not exist" in str(library.warnings[0])
    (tmp_path / "elsewhere").rename(root)
    library.load()
    assert library.warnings == []
    assert library.provider.health_check().status == "ok"


def test_readers_meet_whole_libraries_while_another_thread_loads() -> None:
    fs = MemoryFs({f"{at}.md": document(f"old-{at}").encode() for at in range(30)})
    library = KnowledgeLibrary(fs)
    library.load()
    done, seen = threading.Event(), list[set[str]]()

    def read() -> None:
        while not done.is_set():
            seen.append({one.partition("-")[0] for one in ids(library.list_docs())})
            assert library.get_doc("0.md")["found"] is True

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for name in ("new", "old", "new"):
        for at in range(30):
            fs.write(f"{at}.md", document(f"{name}-{at}").encode())
        library.load()
    done.set()
    for reader in readers:
        reader.join()
    assert ids(library.list_docs())[0] == "new-0"
    assert all(names <= {"old", "new"} and names for names in seen)


def test_threads_that_come_first_together_load_once() -> None:
    class Counting(MemoryFs):
        walks = 0

        def walk(self, path: str = ".") -> Iterator[Any]:
            self.walks += 1
            return super().walk(path)

    fs = Counting({"a.md": document("a").encode()})
    library, ready, counts = KnowledgeLibrary(fs), threading.Barrier(4), list[int]()

    def first() -> None:
        ready.wait()
        counts.append(library.list_docs()["count"])

    threads = [threading.Thread(target=first) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (counts, fs.walks) == ([1, 1, 1, 1], 1)


# --- as a backend ------------------------------------------------------------------------------------------------

CORPUS = {
    "devices/em24.md": METER.encode(),
    "s7.md": S7.encode(),
    "long.md": document("long", "## One\n\n" + "Words of a valve that leaks.\n" * 200 + "\n## Two\n\nEnd.\n").encode(),
}


@contextmanager
def opened(_: Mapping[str, bytes]) -> Iterator[IKnowledgeProvider]:
    provider = KnowledgeLibrary(MemoryFs(CORPUS)).provider
    yield provider
    provider.dispose()


TestContract = provider_contract(opened, corpus=CORPUS)


def test_a_library_is_a_backend_that_explains_and_is_not_written(library: KnowledgeLibrary) -> None:
    provider = library.provider
    assert isinstance(provider, IKnowledgeProvider)
    assert isinstance(provider, ExplainingProvider)
    assert not isinstance(provider, IngestingProvider)
    assert provider.id == "library"
    source = provider.get_source("devices/em24.md")
    assert (source.origin, source.uri) == ("file", "devices/em24.md")
    assert provider.explain("devices/em24.md") is not None
    assert provider.query(Query(query="voltage")).hits[0].source_id == "devices/em24.md"


def test_a_disposed_library_answers_that_it_is(library: KnowledgeLibrary) -> None:
    library.provider.dispose()
    assert library.list_docs()["code"] == library.get_doc("protocol.s7")["code"] == "unavailable"
    assert library.provider.health_check().status == "down"


# --- without numpy -----------------------------------------------------------------------------------------------

WITHOUT_NUMPY = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "numpy":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
"""


def without_numpy(code: str, *arguments: object) -> Any:
    command = [sys.executable, "-c", WITHOUT_NUMPY + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_library_needs_no_numpy(tmp_path: Path) -> None:
    put(tmp_path, {"a.md": METER})
    code = """
import json
from knowledge_files import KnowledgeLibrary
library = KnowledgeLibrary(sys.argv[1])
library.load()
print(json.dumps([library.list_docs(query="meter")["count"], library.get_doc("device.acme.em24")["found"],
                  library.tools.query("voltage")["count"], library.warnings]))
"""
    assert without_numpy(code, tmp_path) == [1, True, 1, []]


def test_searching_files_without_numpy_says_what_to_install(tmp_path: Path) -> None:
    code = """
import json
from knowledge_engine import resolve_knowledge_backend
from knowledge_engine.errors import ConfigurationError
said = []
handle = resolve_knowledge_backend(f"files:{sys.argv[1]}")
handle.info()
def by_name():
    from knowledge_files import FilesKnowledgeAdapter
def alone():
    from knowledge_files import create_standalone_files_adapter
for attempt in (handle.provider, by_name, alone):
    try:
        attempt()
    except ConfigurationError as error:
        said.append(error.mend)
print(json.dumps(said))
"""
    assert without_numpy(code, tmp_path) == ["pip install 'kpkit-files[search]'"] * 3


def test_another_import_that_fails_is_not_taken_for_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "knowledge_files.bm25", None)
    monkeypatch.delattr(knowledge_files, "bm25", raising=False)
    with pytest.raises(ImportError, match="bm25"):
        knowledge_files.tokenize  # noqa: B018


def test_the_local_folder_of_a_port_is_a_library_too(tmp_path: Path) -> None:
    library = KnowledgeLibrary(LocalFs(put(tmp_path, {"a.md": document("a"), "b.md": document("b")}), exclude=["b.md"]))
    assert ids(library.list_docs()) == ["a"]


def test_fifty_pages_follow_each_other_without_a_gap() -> None:
    library = library_of({f"{at:05}.md": document(f"doc-{at:05}") for at in range(2_500)})
    cursor, seen = None, list[str]()
    for _ in itertools.count():
        answer = library.list_docs(cursor=cursor)
        seen += ids(answer)
        if (cursor := answer["next_cursor"]) is None:
            break
    assert seen == [f"doc-{at:05}" for at in range(2_500)]


def test_an_endless_id_and_a_huge_file_are_left_out_and_named() -> None:
    huge = document("guide.huge", "## Use\n\n" + "x" * (1 << 20))
    library = library_of({"a.md": document("x" * 201), "b.md": document("x" * 200), "c.md": huge})
    assert [entry["id"] for entry in library.list_docs()["docs"]] == ["x" * 200]  # type: ignore[index, union-attr, call-overload]
    assert [(one.path, one.code, one.line) for one in library.warnings if one.severity == "error"] == [
        ("a.md", "invalid-id", 2),
        ("c.md", "body-too-long", 0),
    ]
