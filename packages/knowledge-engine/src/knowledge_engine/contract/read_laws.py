"""Laws of listing and reading: what is there, under which id, byte for byte."""

from __future__ import annotations

import hashlib
import json
import tempfile
from functools import partial
from pathlib import Path

from hypothesis import strategies as st
from pydantic import JsonValue

from knowledge_engine.citations import content_hash
from knowledge_engine.contract.asking import ask, every_source, texts
from knowledge_engine.contract.case import ProviderCase
from knowledge_engine.contract.corpora import HURT, ODD, corpora, hostile_ids, sample
from knowledge_engine.contract.law import law, need, refused, same, shown, unique
from knowledge_engine.errors import (
    InvalidArgumentError,
    InvalidCursorError,
    InvalidIdError,
    NotFoundError,
    UnavailableError,
)
from knowledge_engine.models import (
    ByteSpan,
    Capabilities,
    Health,
    Mode,
    Query,
    QueryResult,
    Source,
    SourceContent,
    SourcePage,
)
from knowledge_engine.passages import parse_document
from knowledge_engine.ports import IKnowledgeProvider

_LISTING = "IKnowledgeProvider.list_sources"


@law("read", source="IKnowledgeProvider", hint="the signatures of the port, and the models in knowledge_engine.models")
def protocol_shape(case: ProviderCase) -> None:
    """The provider has the port's shape, and its answers are the models."""
    provider = case.open()
    need(isinstance(provider, IKnowledgeProvider), "the object lacks members of IKnowledgeProvider")
    name: object = provider.id
    need(isinstance(name, str) and name, f"`id` is {name!r}, not a name")
    same(provider.id, provider.id, "`id`, asked twice,")
    need(isinstance(provider.capabilities, Capabilities), "`capabilities` is no Capabilities")
    same(provider.capabilities, provider.capabilities, "`capabilities`, asked twice,")
    answers = [
        (provider.list_sources(), SourcePage),
        (provider.query(Query(query="valve")), QueryResult),
        (provider.health_check(), Health),
    ]
    for one in sample(texts(case.docs), 1):
        answers += [(provider.get_source(one), Source), (provider.read_source(one), SourceContent)]
    for answer, kind in answers:
        need(isinstance(answer, kind), f"the answer {shown(answer, 200)} is no {kind.__name__}")
        json.dumps(answer.model_dump(mode="json", exclude={"content"}), allow_nan=False).encode()


@law("read", source="Capabilities", hint="what `capabilities` returns, and which `mode_used` answers give")
def capabilities_true(case: ProviderCase) -> None:
    """Flags are true both ways: modes and citations work exactly when theirs is set; no passage is over the limit."""
    provider = case.open()
    flags = provider.capabilities
    modes: tuple[tuple[Mode, bool], ...] = (("vector", flags.vector_search), ("hybrid", flags.hybrid_search))
    for mode, has in modes:
        result = provider.query(Query(query="valve", mode=mode))
        need(
            (result.mode_used == mode) is has, f"`{mode}_search` is {has}, and a query of it says {result.mode_used!r}"
        )
    hits = ask(provider, "valve pump", top_k=100, per_source=10).hits
    cited = [(case.docs[hit.source_id][hit.span.start : hit.span.end], hit.content_hash) for hit in hits]
    proved = cited and all(content_hash(data) == claimed for data, claimed in cited)
    need(flags.citations or not proved, "`citations` is False, and every citation can be proved")
    for hit in hits:
        size, most = hit.span.end - hit.span.start, flags.max_chunk_bytes
        need(most is None or size <= most, f"a passage has {size} bytes, `max_chunk_bytes` is {most}")


@law("read", source=_LISTING, hint="the sort of ids: by code point, not by locale, case or time")
def list_ascending(case: ProviderCase) -> None:
    """Sources come in ascending order of id, each once."""
    ids = [source.id for source in every_source(case.open())]
    same(ids, sorted(unique(ids, "the list of ids")), "the order of ids")


@law("read", source=_LISTING, hint="which documents the backend takes in, and how `total` is counted")
def list_complete(case: ProviderCase) -> None:
    """Every document is listed under its id, nothing else is, and `total` counts them."""
    provider = case.open()
    same([source.id for source in every_source(provider)], sorted(case.docs), "the list of ids")
    same(provider.list_sources(limit=1).total, len(case.docs), "`total`")


@law("read", source=_LISTING, hint="where the next page begins: after the last id, not at an offset")
def list_pages(case: ProviderCase) -> None:
    """Pages hold at most `limit` sources and together are the whole list."""
    provider = case.open()
    limit = case.draw(st.integers(1, 4), "limit")
    page = provider.list_sources(limit=limit)
    need(len(page.sources) <= limit, f"a page of at most {limit} has {len(page.sources)} sources")
    same(page.next_cursor is not None, page.total > limit, "whether the first page has a next_cursor")
    whole = [source.id for source in every_source(provider)]
    same([source.id for source in every_source(provider, limit)], whole, "the list by pages")


@law("read", source="RULES of input at the edge", hint="the check of `limit`")
def list_limit_checked(case: ProviderCase) -> None:
    """A limit below 1 is an InvalidArgumentError."""
    provider = case.open()
    for limit in (0, -1):
        refused(partial(provider.list_sources, limit=limit), InvalidArgumentError, f"limit={limit}")


FORGED = ("", "x", "AAAA", "e30", "W10", "bnVsbA", "1", "-1", "é", "' OR 1=1", "A" * 20_000, "W1tdLFtdLFtdXQ")


@law("read", source=_LISTING, hint="what a cursor holds, and that it is checked against the request")
def list_cursor_checked(case: ProviderCase) -> None:
    """A cursor that the method did not make, or made for another request, is an InvalidCursorError."""
    provider = case.open()
    cursor = case.pick(FORGED, "cursor")
    refused(lambda: provider.list_sources(cursor=cursor), InvalidCursorError, "a forged cursor")
    own = provider.list_sources(limit=1).next_cursor
    if own is not None:
        refused(lambda: provider.list_sources(cursor=own[:-4]), InvalidCursorError, "a cut cursor")
        other: dict[str, JsonValue] = {"kind": {"exists": True}}
        refused(
            lambda: provider.list_sources(cursor=own, filter=other), InvalidCursorError, "a cursor of another request"
        )


@law("read", source="IKnowledgeProvider.get_source", hint="that both are made by one function")
def get_agrees_with_list(case: ProviderCase) -> None:
    """`get_source` gives what the list gives, field for field."""
    provider = case.open()
    for source in every_source(provider)[:50]:
        got = provider.get_source(source.id)
        for field in Source.model_fields:
            same(getattr(got, field), getattr(source, field), f"`{field}` of get_source({source.id!r})")


@law("read", source="Source", hint="size, hash and status of what is stored")
def source_facts(case: ProviderCase) -> None:
    """A source states the size and SHA-256 of its bytes, has a title, and is ready."""
    provider = case.open()
    for one, raw in sample(texts(case.docs)).items():
        source = provider.get_source(one)
        same((source.id, source.bytes), (one, len(raw)), "id and size of a source")
        same(source.content_hash, hashlib.sha256(raw).hexdigest(), f"`content_hash` of {one!r}")
        same((source.status, source.error), ("ready", None), f"status and error of {one!r}")
        need(source.title.strip(), f"{one!r} has no title")


@law("read", source="Source.metadata", hint="that knowledge_engine.frontmatter reads it, and nothing retypes it later")
def metadata_is_the_documents_own(case: ProviderCase) -> None:
    """Metadata are what the document's frontmatter says, in the types that it says them."""
    provider = case.open()
    for one, raw in sample(texts(case.docs)).items():
        # As text: 1, 1.0 and True are equal in Python.
        expected = json.dumps(parse_document(one, raw).metadata, sort_keys=True)
        same(json.dumps(provider.get_source(one).metadata, sort_keys=True), expected, f"metadata of {one!r}")


@law("read", source="IKnowledgeProvider.read_source", hint="any decoding, newline or BOM handling on the way")
def read_exact(case: ProviderCase) -> None:
    """`read_source` gives the stored bytes, with their size and hash."""
    provider = case.open()
    for one, raw in sample(texts(case.docs)).items():
        content = provider.read_source(one)
        same(content.content, raw, f"the bytes of {one!r}")
        same((content.source_id, content.total_bytes), (one, len(raw)), "id and size of what was read")
        same(content.span, ByteSpan(start=0, end=len(raw)), "the span of what was read")
        same(content.content_hash, hashlib.sha256(raw).hexdigest(), "the hash of what was read")


@law("read", source="IKnowledgeProvider.read_source", hint="off-by-one errors, and characters taken for bytes")
def read_spans(case: ProviderCase) -> None:
    """A span gives exactly its bytes, clipped to the source's end."""
    provider = case.open()
    start, length = case.draw(st.integers(0, 200), "start"), case.draw(st.integers(0, 200), "length")
    for one, raw in sample(texts(case.docs), 5).items():
        for begin, end in ((start, start + length), (len(raw), len(raw) + 5), (len(raw) + 5, len(raw) + 9)):
            content = provider.read_source(one, ByteSpan(start=begin, end=end))
            same(content.content, raw[begin:end], f"bytes [{begin}, {end}) of {one!r}")
            clipped = ByteSpan(start=min(begin, len(raw)), end=min(end, len(raw)))
            same((content.span, content.total_bytes), (clipped, len(raw)), "span and size of what was read")
            same(content.content_hash, hashlib.sha256(raw[begin:end]).hexdigest(), "the hash of what was read")


@law("read", source="IKnowledgeProvider.get_source", hint="the error raised for an id that is fine and not there")
def unknown_id(case: ProviderCase) -> None:
    """An id that no document has is a NotFoundError."""
    provider = case.open()
    for one in ("no-such-document.md", "guides/none.md", "guides"):
        if one not in case.docs:
            refused(partial(provider.get_source, one), NotFoundError, f"get_source({one!r})")
            refused(partial(provider.read_source, one), NotFoundError, f"read_source({one!r})")


@law(
    "read",
    source="IKnowledgeProvider.get_source; ids never become paths unchecked",
    hint="knowledge_engine.fs.check_path",
)
def hostile_id(case: ProviderCase) -> None:
    """An id that leads elsewhere is refused, gives no bytes, and no error names a folder of the host."""
    provider = case.open()
    folders = [folder for folder in (str(Path.cwd()), tempfile.gettempdir(), str(Path.home())) if len(folder) > 1]
    for one in case.draw(st.lists(hostile_ids(case.docs), min_size=1, max_size=15), "ids"):
        for call in (provider.get_source, provider.read_source):
            what = f"{call.__name__}({shown(one, 80)})"
            said = str(refused(partial(call, one), (NotFoundError, InvalidIdError), what))
            leaks = [folder for folder in folders if folder in said and folder not in one]
            need(not leaks, f"{what}: the error names the folder {leaks}: {said}")


@law(
    "read",
    source="one bad document never stops or hides the others",
    needs=["corpus"],
    hint="what is caught around one document, and `health_check().issues` and `.skipped`",
)
def bad_document_hides_none(case: ProviderCase) -> None:
    """A hurt document is named in issues or skipped with its path; all others are listed, found and read."""
    hurt = case.pick(HURT, "what is hurt")
    docs = case.draw(corpora(max_size=2), "good documents")
    provider = case.open({**docs, "good.md": b"frosk stands here", "hurt/one.md": HURT[hurt]})
    case.example["documents"] = dict(case.docs)
    need("good.md" in {hit.source_id for hit in ask(provider, "frosk", top_k=50).hits}, "good.md is not found")
    listed = {source.id: source.status for source in every_source(provider)}
    need(set(docs) | {"good.md"} <= set(listed), f"only {sorted(listed)} are listed")
    health = provider.health_check()
    named = {issue.path for issue in health.issues} | {skipped.path for skipped in health.skipped}
    need("hurt/one.md" in named, f"neither issues nor skipped name the document; they name {sorted(named)}")
    if "hurt/one.md" in listed:
        same(provider.read_source("hurt/one.md").content, HURT[hurt], "the bytes of the hurt document")


@law(
    "read",
    source="bounded work: odd input ends without exceptions",
    needs=["corpus"],
    hint="documents without text or with one huge line",
)
def odd_documents(case: ProviderCase) -> None:
    """Empty, huge, bare and never-ending documents are documents like others."""
    docs = {f"odd-{number}.md": raw for number, raw in enumerate(ODD)}
    provider = case.open(dict(case.draw(st.permutations(sorted(docs.items())), "documents")))
    ask(provider, "x")
    same({source.id for source in every_source(provider)}, set(docs), "the list of ids")
    for one, raw in docs.items():
        same(provider.read_source(one).content, raw, f"the bytes of {one!r}")


@law("read", source="IKnowledgeProvider.health_check", hint="what health_check asks, and `index` in it and in answers")
def health_agrees(case: ProviderCase) -> None:
    """Health is told before and after the index is built, and then agrees with answers about documents."""
    provider = case.open()
    need(isinstance(provider.health_check(), Health), "health_check gave no Health before a query")
    index = ask(provider, "valve").index
    health = provider.health_check()
    need(health.status in ("ok", "degraded"), f"the status is {health.status!r}: {health.message}")
    same(health.index, index, "`index` in health")
    ready = sum(source.status == "ready" for source in every_source(provider))
    same((index.state, index.documents), ("ready", ready), "state and documents of the index")
    need(index.skipped or not health.skipped, "health names skipped documents, and the index counts none")


@law("read", source="IKnowledgeProvider.dispose", hint="the flag that `dispose` sets, and who looks at it")
def dispose_ends(case: ProviderCase) -> None:
    """After `dispose`, which may come twice, calls raise UnavailableError and health says down."""
    provider = case.open()
    if case.draw(st.booleans(), "asked before"):
        ask(provider, "valve")
    provider.dispose()
    provider.dispose()
    calls = {
        "list_sources": lambda: provider.list_sources(),
        "get_source": lambda: provider.get_source("a.md"),
        "read_source": lambda: provider.read_source("a.md"),
        "query": lambda: provider.query(Query(query="valve")),
    }
    for name, call in calls.items():
        refused(call, UnavailableError, f"{name} after dispose")
    same(provider.health_check().status, "down", "the status after dispose")
