"""Laws of writing: what is stored is found at once, byte for byte; what is refused changes nothing."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

from hypothesis import strategies as st
from pydantic import JsonValue

from knowledge_engine.citations import verify_citation
from knowledge_engine.contract.asking import ask, equal_answers, every_source, found
from knowledge_engine.contract.case import ProviderCase
from knowledge_engine.contract.corpora import HURT, PATHS, corpora, documents, hostile_ids, queries
from knowledge_engine.contract.law import law, need, refused, same
from knowledge_engine.errors import (
    ConflictError,
    InvalidArgumentError,
    InvalidIdError,
    KnowledgeError,
    NotFoundError,
    NotSupportedError,
)
from knowledge_engine.frontmatter import update_frontmatter
from knowledge_engine.models import ByteSpan, IngestRequest
from knowledge_engine.service import KnowledgeService

_WRITABLE = ("writable", "corpus")
_INGEST = "IngestingProvider.ingest"
_DELETE = "IngestingProvider.delete_source"
_PATHS = st.sampled_from(PATHS)


def _hash(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _state(provider: Any) -> dict[str, bytes]:
    return {source.id: provider.read_source(source.id).content for source in every_source(provider)}


def _revision(provider: Any) -> str:
    return ask(provider, "valve").index.revision


def _put(provider: Any, id: str, content: bytes, if_match: str | None = None) -> Any:
    return provider.ingest(IngestRequest(id=id, content=content, if_match=if_match))


@law("write", source=_INGEST, needs=_WRITABLE, hint="whether index and store change together, and caches that stay")
def ingest_is_found(case: ProviderCase) -> None:
    """A stored document is found by the next query, and listed; what it said before is not found any more."""
    provider: Any = case.open()
    if case.draw(st.booleans(), "asked before"):
        ask(provider, "valve")
    one = case.draw(_PATHS, "id")
    for word, other in (("zebrafin", "yakmoor"), ("yakmoor", "zebrafin")):
        source = _put(provider, one, f"# Head\n\n{word} stands here".encode())
        # The time is that of the look, which may be a second later.
        kept = provider.get_source(one).model_copy(update={"indexed_at": source.indexed_at})
        same((source.id, kept), (one, source), "what ingest gave, and get_source")
        same((found(provider, word), found(provider, other)), ({one}, set()), f"what {word!r} and {other!r} find")
        need(one in {found.id for found in every_source(provider)}, f"{one!r} is not listed")


@law(
    "write",
    source="IngestRequest.content is stored byte for byte",
    needs=_WRITABLE,
    hint="newline, BOM or encoding changes on the way",
)
def ingest_keeps_bytes(case: ProviderCase) -> None:
    """Stored bytes come back as they were given."""
    provider: Any = case.open()
    one, raw = case.draw(_PATHS, "id"), case.draw(documents(), "content")
    source = _put(provider, one, raw)
    same((source.content_hash, source.bytes), (_hash(raw), len(raw)), "hash and size that ingest gave")
    same(_state(provider), {**case.docs, one: raw}, "what is stored")


@law(
    "write",
    source="all or nothing: one document a id",
    needs=_WRITABLE,
    hint="a second entry for the same id; counters that count writes",
)
def ingest_again_changes_nothing(case: ProviderCase) -> None:
    """Storing the same bytes again changes no answer and no revision."""
    provider: Any = case.open(case.draw(corpora(min_size=1), "documents"))
    one = case.pick(sorted(case.docs), "id")
    query = case.draw(queries(case.docs), "query")
    before = ask(provider, query)
    _put(provider, one, case.docs[one])
    equal_answers(ask(provider, query), before, "after the same bytes again")
    same(_state(provider), dict(case.docs), "what is stored")


@law(
    "write",
    source="IngestRequest: `text` is written with `title` and `metadata` as frontmatter",
    needs=_WRITABLE,
    hint="knowledge_engine.writing.document_bytes; quoting of what YAML would retype",
)
def ingest_text_with_metadata(case: ProviderCase) -> None:
    """Title and metadata of a stored text come back as they were given, its text stands in it, its id is its own."""
    provider: Any = case.open()
    values: st.SearchStrategy[JsonValue] = st.sampled_from(
        ["guide", "yes", "017", "2024-05-01", "a: b", "# x", "", "null", 5, 2.5, True, ["a", "1"], "Ä\n水"]
    )
    metadata = case.draw(st.dictionaries(st.sampled_from(["year", "vendor", "x y"]), values, max_size=3), "metadata")
    title = case.pick(["Valve", "水温", "yes", "a: b", "#1"], "title")
    id = case.draw(st.none() | st.just("made/of text.md"), "id")
    source = provider.ingest(IngestRequest(id=id, title=title, text="zebrafin\n", metadata=metadata))
    same((source.title, source.metadata), (title, {**metadata, "title": title}), "title and metadata")
    same(id or source.id, source.id, "the id")
    same(found(provider, "zebrafin"), {source.id}, "what the text finds")
    need(provider.read_source(source.id).content.endswith(b"zebrafin\n"), "the text does not end the document")


@law(
    "write",
    source="IngestRequest.if_match",
    needs=_WRITABLE,
    hint="the hash is that of the stored bytes; check and write are one step",
)
def if_match_decides(case: ProviderCase) -> None:
    """`if_match` lets a write through exactly when it names the stored bytes ("": none); else nothing changes."""
    provider: Any = case.open(case.draw(corpora(min_size=1, max_size=3), "documents"))
    one = case.pick([*sorted(case.docs), "new.md"], "id")
    stored = case.docs.get(one)
    right = "" if stored is None else _hash(stored)
    wrong = case.pick(
        [match for match in ("", _hash(b"other"), "x", right.upper()) if match != right], "wrong if_match"
    )
    refused(lambda: _put(provider, one, b"zebrafin", wrong), ConflictError, f"ingest with if_match={wrong!r}")
    if stored is not None:
        refused(lambda: provider.delete_source(one, if_match=wrong), ConflictError, f"delete with if_match={wrong!r}")
    same(_state(provider), dict(case.docs), "what is stored after refused changes")
    _put(provider, one, b"zebrafin", right)
    same(found(provider, "zebrafin"), {one}, "what is found after the change")
    provider.delete_source(one, if_match=_hash(b"zebrafin"))
    need(one not in _state(provider), f"{one!r} is there after it was deleted")


@law("write", source=_DELETE, needs=_WRITABLE, hint="postings, facets and caches that still know the document")
def delete_removes(case: ProviderCase) -> None:
    """A deleted document is gone from list, get, read, query and facets; the others stay."""
    docs = {**case.draw(corpora(max_size=3), "documents"), "gone.md": b"---\nkind: onlyhere\n---\nzebrafin valve"}
    provider: Any = case.open(docs)
    case.example["documents"] = docs
    ask(provider, "valve")
    provider.delete_source("gone.md")
    same(_state(provider), {one: raw for one, raw in docs.items() if one != "gone.md"}, "what is stored")
    refused(lambda: provider.get_source("gone.md"), NotFoundError, "get_source of a deleted document")
    refused(lambda: provider.read_source("gone.md"), NotFoundError, "read_source of a deleted document")
    need("gone.md" not in found(provider, "zebrafin valve"), "a query finds the deleted document")
    facets = KnowledgeService(provider).list(facets=True).facets
    need("onlyhere" not in str(facets), f"facets name the deleted document's kind: {facets}")


@law("write", source=_DELETE, needs=_WRITABLE, hint="a mark of deletion that outlives the deletion")
def deleted_can_return(case: ProviderCase) -> None:
    """A document that is stored again after its deletion is as it was."""
    provider: Any = case.open(case.draw(corpora(min_size=1), "documents"))
    query, one = case.draw(queries(case.docs), "query"), case.pick(sorted(case.docs), "id")
    before = ask(provider, query)
    provider.delete_source(one)
    ask(provider, query)
    _put(provider, one, case.docs[one])
    equal_answers(ask(provider, query), before, "after deleting and storing again")


@law("write", source=_DELETE, needs=_WRITABLE, hint="the error for what is not there")
def delete_unknown(case: ProviderCase) -> None:
    """Deleting what is not there is a NotFoundError; a hostile id is refused, and nothing changes."""
    provider: Any = case.open()
    refused(lambda: provider.delete_source("no-such.md"), NotFoundError, "delete_source of an unknown id")
    one = case.draw(hostile_ids(case.docs), "id")
    refused(lambda: provider.delete_source(one), (NotFoundError, InvalidIdError), "delete_source of a hostile id")
    same(_state(provider), dict(case.docs), "what is stored")


@law(
    "write",
    source="IngestRequest: with neither `text` nor `content`, only the metadata changes",
    needs=_WRITABLE,
    hint="knowledge_engine.frontmatter.update_frontmatter; metadata that does not parse is not rewritten",
)
def metadata_update(case: ProviderCase) -> None:
    """New metadata change the frontmatter and no other byte; where it does not parse, the change is refused."""
    raw = case.draw(
        st.one_of(documents(), st.sampled_from([raw for raw in HURT.values() if b"\x00" not in raw])), "raw"
    )
    changes = {"kind": case.pick(["changed", "yes", 5], "kind")}
    provider: Any = case.open({"a.md": raw, "b.md": b"valve"})
    request = IngestRequest(id="a.md", metadata=changes)
    try:
        expected = update_frontmatter(raw, changes)
    except KnowledgeError as error:
        refused(lambda: provider.ingest(request), type(error), "a change of metadata that do not parse")
        expected = raw
    else:
        same(provider.ingest(request).metadata.get("kind"), changes["kind"], "the changed metadata")
    same(_state(provider), {"a.md": expected, "b.md": b"valve"}, "what is stored")
    missing = IngestRequest(id="none.md", metadata=changes)
    refused(lambda: provider.ingest(missing), NotFoundError, "new metadata for an unknown id")


@law(
    "write",
    source="knowledge_engine.writing.document_bytes",
    needs=_WRITABLE,
    hint="the checks of a request before anything is written",
)
def ingest_checks_the_request(case: ProviderCase) -> None:
    """A request for an unknown kind, or with nothing to store, is refused and changes nothing."""
    provider: Any = case.open()
    unknown = IngestRequest(kind="no-such-kind", id="new.md", text="x")
    refused(lambda: provider.ingest(unknown), NotSupportedError, "an unknown kind")
    for request in (IngestRequest(), IngestRequest(id="new.md"), IngestRequest(id="new.md", content=b"x", title="t")):
        refused(partial(provider.ingest, request), InvalidArgumentError, "a request that cannot be stored")
    same(_state(provider), dict(case.docs), "what is stored")


@law(
    "write",
    source=f"{_INGEST}: InvalidIdError",
    needs=_WRITABLE,
    hint="knowledge_engine.fs.check_path, before anything is written",
)
def ingest_refuses_hostile_ids(case: ProviderCase) -> None:
    """An id that cannot be a document's is refused; what is stored does not change, and no other document appears."""
    provider: Any = case.open()
    one = case.pick(
        [
            "../x.md",
            "/x.md",
            "a/../x.md",
            "./x.md",
            "",
            ".",
            "a//x.md",
            "x\x00.md",
            "\ud800.md",
            "a\\x.md",
            "x" * 5000,
            "C:x.md",
            "~/x.md",
            "d/",
        ],
        "id",
    )
    refused(lambda: _put(provider, one, b"zebrafin"), InvalidIdError, f"ingest under {one[:40]!r}")
    same(_state(provider), dict(case.docs), "what is stored")
    same(found(provider, "zebrafin"), set(), "what is found")


@law(
    "write",
    source="IndexState.revision",
    needs=_WRITABLE,
    hint="knowledge_engine.cursors.Revision: over ids and hashes only",
)
def revision_follows_content(case: ProviderCase) -> None:
    """The revision changes exactly when an id or a byte does; equal corpora have equal revisions."""
    provider: Any = case.open(case.draw(corpora(min_size=1, max_size=3), "documents"))
    one = case.pick(sorted(case.docs), "id")
    first = _revision(provider)
    _put(provider, one, case.docs[one])
    same(_revision(provider), first, "the revision after the same bytes again")
    _put(provider, one, case.docs[one] + b"x")
    need(_revision(provider) != first, "the revision stays after a byte changed")
    _put(provider, one, case.docs[one])
    _put(provider, "new.md", b"")
    need(_revision(provider) != first, "the revision stays after a document came")
    provider.delete_source("new.md")
    same(_revision(provider), first, "the revision after all was undone")
    same(_revision(case.open(dict(reversed([*case.docs.items()])))), first, "the revision of an equal corpus")
    need(_revision(case.open({})) != first, "an empty corpus has the same revision")


@law(
    "write",
    source=_INGEST,
    needs=_WRITABLE,
    hint="what is done when a corpus is opened and not when a document is ingested",
)
def ingested_is_as_opened(case: ProviderCase) -> None:
    """A corpus that was ingested document by document answers as one that was there when it was opened."""
    opened = case.open()
    query = case.draw(queries(case.docs), "query")
    expected, docs = ask(opened, query, per_source=3), case.docs
    provider: Any = case.open({})
    ask(provider, query)
    for one, raw in case.draw(st.permutations(sorted(docs.items())), "in this order"):
        _put(provider, one, raw)
    equal_answers(ask(provider, query, per_source=3), expected, "ingested, not opened")


@law(
    "write",
    source="verify_citation: ok, moved, changed, gone",
    needs=_WRITABLE,
    hint="which state `read_source` reads: it must be the present one",
)
def citation_after_an_edit(case: ProviderCase) -> None:
    """An old citation is told as moved, changed or gone after the document was."""
    words = case.pick(["zebrafin stands here", "zebrafin 水温\r\nпоток"], "text")
    provider: Any = case.open({"a.md": f"# Head\n\n{words}".encode()})
    hit = ask(provider, "zebrafin").hits[0]
    front = case.pick([b"x", "水\n\n".encode(), b"---\na: 1\n---\n"], "put in front")
    _put(provider, "a.md", front + case.docs["a.md"])
    moved = ByteSpan(start=hit.span.start + len(front), end=hit.span.end + len(front))
    verified = verify_citation(provider, hit)
    same((verified.status, verified.span), ("moved", moved), "after text was put in front")
    _put(provider, "a.md", b"other")
    same(verify_citation(provider, hit).status, "changed", "after other text took its place")
    provider.delete_source("a.md")
    same(verify_citation(provider, hit).status, "gone", "after the document was deleted")


@law(
    "write",
    source="a cursor outlives an index change, and warns",
    needs=_WRITABLE,
    hint="what the cursor remembers, and the revision in it",
)
def cursor_outlives_a_change(case: ProviderCase) -> None:
    """A cursor still goes on after the corpus changed, and the answer warns; a list skips nothing that stayed."""
    docs = {f"{name}.md": b"valve and more" for name in "abcdef"}
    provider: Any = case.open(docs)
    first, listed = ask(provider, "valve", top_k=2), provider.list_sources(limit=2)
    changed = case.pick(["a.md", "c.md", "g.md"], "changed")
    _put(provider, changed, b"valve")
    second = ask(provider, "valve", top_k=2, cursor=first.next_cursor)
    need(second.warnings, "the next page of hits has no warning, and the corpus changed")
    rest = provider.list_sources(limit=10, cursor=listed.next_cursor)
    need(rest.warnings, "the next page of sources has no warning, and the corpus changed")
    expected = [one for one in sorted({*docs, changed}) if one > "b.md"]
    same([source.id for source in rest.sources], expected, "the rest of the list")
