"""Documents over HTTP: lists, one, its bytes, whatever its id."""

from __future__ import annotations

import gzip
import json
from hashlib import sha256
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from http_bench.clients import DOCS, client
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import SourceContent
from knowledge_http.server.reading import ListRequest
from knowledge_http.server.routing import find

ID = "guides/start.md"
RAW = DOCS[ID]


@pytest.fixture(scope="module")
def docs() -> TestClient:
    return client()


def path(source_id: str) -> str:
    return f"/v1/sources/{quote(source_id, safe='')}"


def test_a_list_has_filters_facets_and_pages(docs: TestClient) -> None:
    everything = docs.get("/v1/sources", params={"facets": "true"}).json()
    assert [each["id"] for each in everything["sources"]] == [ID, "pump.md"]
    assert everything["facets"]["kind"]["values"] == {"device": 1, "guide": 1}
    for conditions in ({"where": "kind=device"}, {"filter": '{"kind": {"in": ["device"]}}'}):
        assert [each["id"] for each in docs.get("/v1/sources", params=conditions).json()["sources"]] == ["pump.md"]
    both = docs.get("/v1/sources", params={"where": ["kind=device", "title=other"]}).json()
    assert both["sources"] == []
    first = docs.get("/v1/sources?limit=1").json()
    second = docs.get("/v1/sources", params={"limit": 1, "cursor": first["next_cursor"]}).json()
    assert ([each["id"] for each in second["sources"]], second["next_cursor"]) == (["pump.md"], None)
    assert docs.get("/v1/sources?query=pump").json()["sources"][0]["id"] == "pump.md"


def test_the_same_list_is_asked_for_by_a_body(docs: TestClient) -> None:
    asked = {"query": None, "filter": {"kind": "device"}, "limit": 5, "facets": True}
    answer = docs.post("/v1/list", json=asked).json()
    assert (answer["total"], list(answer["facets"])) == (
        1,
        docs.get("/v1/sources?facets=true").json() and list(answer["facets"]),
    )
    assert [each["id"] for each in answer["sources"]] == ["pump.md"]
    assert ListRequest.model_validate({"facets": True}).facets


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("limit=0", 400, "invalid-argument"),
        ("limit=x", 400, "invalid-argument"),
        ("limit=1&limit=2", 400, "invalid-argument"),
        ("limit=9" + "9" * 2000, 400, "invalid-argument"),
        ("nothing=1", 400, "invalid-argument"),
        ("facets=yes", 400, "invalid-argument"),
        ("filter=[]", 400, "invalid-filter"),
        ("filter={", 400, "invalid-filter"),
        ("filter=" + "[" * 2000, 400, "invalid-filter"),
        ('filter={"kind":{"like":1}}', 400, "invalid-filter"),
        ("where==", 400, "invalid-filter"),
        ("cursor=forged", 409, "invalid-cursor"),
        ("query=%FF", 400, "invalid-argument"),
        ("backend=other", 404, "unknown-backend"),
        ("query=" + "x" * 10_001, 400, "query-too-long"),
        ("&".join(["where=a"] * 21), 400, "invalid-argument"),
        ("&".join(["a=b"] * 101), 400, "invalid-argument"),
    ],
)
def test_a_wrong_parameter_is_an_error_and_never_a_wider_list(
    docs: TestClient, query: str, status: int, code: str
) -> None:
    answer = docs.get(f"/v1/sources?{query}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert set(answer.json()["error"]) == {"code", "message", "mend", "id"}


def test_a_document_comes_with_outline_and_links_by_each_of_its_names(docs: TestClient) -> None:
    found = docs.get(path(ID))
    assert [entry["title"] for entry in found.json()["outline"]] == ["First steps", "Next"]
    assert found.json()["links"][0]["source_id"] == "pump.md"
    assert found.headers["etag"] == f'"{sha256(RAW).hexdigest()}"'
    for name in ("/v1/sources/guides/start.md", "/v1/sources/guides%2fstart.md", "/v1/sources/start"):
        assert docs.get(name).json() == found.json()
    assert docs.get("/v1/sources/start?exact=true").status_code == 404
    bare = docs.get(f"{path(ID)}?detail=false&exact=true").json()
    assert (bare["source"], bare["outline"], bare["links"]) == (found.json()["source"], [], [])


def test_the_bytes_come_as_they_are_stored(docs: TestClient) -> None:
    answer = docs.get(f"{path(ID)}/content")
    assert answer.content == RAW
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    assert answer.headers["knowledge-source-id"] == ID
    assert answer.headers["knowledge-span"] == f"0-{len(RAW)}/{len(RAW)}"
    assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert answer.headers["x-content-type-options"] == "nosniff"


@given(st.integers(0, 200), st.none() | st.integers(0, 200), st.sampled_from([False, True]))
def test_a_range_is_those_bytes_or_416(start: int, last: int | None, suffix: bool) -> None:
    docs = client()
    header = f"bytes=-{start}" if suffix else f"bytes={start}-{'' if last is None else last}"
    answer = docs.get(f"{path(ID)}/content", headers={"Range": header})
    if suffix:
        expected = RAW[-start:] if start else b""
    elif last is not None and last < start:  # no range at all
        assert (answer.status_code, answer.content) == (200, RAW)
        return
    else:
        expected = RAW[start:] if last is None else RAW[start : last + 1]
    if not expected:
        assert (answer.status_code, answer.headers["content-range"]) == (416, f"bytes */{len(RAW)}")
        return
    assert (answer.status_code, answer.content) == (206, expected)
    first = RAW.index(expected) if suffix else start
    assert answer.headers["content-range"] == f"bytes {first}-{first + len(expected) - 1}/{len(RAW)}"
    assert answer.headers["etag"] == f'"{sha256(RAW).hexdigest()}"'


def test_several_ranges_are_answered_by_the_whole(docs: TestClient) -> None:
    assert docs.get(f"{path(ID)}/content", headers={"Range": "bytes=0-1,4-5"}).content == RAW


def test_what_is_known_already_is_not_sent_again(docs: TestClient) -> None:
    tag = docs.get(f"{path(ID)}/content").headers["etag"]
    for header in (tag, f'"other", {tag}', f"W/{tag}", "*"):
        answer = docs.get(f"{path(ID)}/content", headers={"If-None-Match": header})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)
    assert docs.get(f"{path(ID)}/content", headers={"If-None-Match": '"other"'}).status_code == 200


def test_a_range_of_another_version_is_answered_by_the_whole(docs: TestClient) -> None:
    tag = docs.get(f"{path(ID)}/content").headers["etag"]
    ranged = {"Range": "bytes=0-3"}
    assert docs.get(f"{path(ID)}/content", headers={**ranged, "If-Range": tag}).status_code == 206
    assert docs.get(f"{path(ID)}/content", headers={**ranged, "If-Range": '"old"'}).content == RAW
    assert docs.get(f"{path(ID)}/content", headers={**ranged, "If-Range": f"W/{tag}"}).content == RAW


def test_a_citation_is_a_link(docs: TestClient) -> None:
    hit = docs.get("/v1/query?q=valve").json()["hits"][0]
    start, end = hit["span"]["start"], hit["span"]["end"]
    link = f"{path(hit['source_id'])}/content?start={start}&end={end}"
    answer = docs.get(link)
    assert (answer.status_code, answer.text) == (200, hit["text"])
    assert sha256(answer.content).hexdigest() == hit["content_hash"]
    assert answer.headers["knowledge-span"].startswith(f"{start}-{end}/")
    assert docs.get(link, headers={"If-None-Match": answer.headers["etag"]}).status_code == 304
    assert docs.get(f"{path(ID)}/content?start=5&end=2").content == b""
    assert docs.get(f"{path(ID)}/content?start=999999").content == b""


def test_a_section_is_read_by_its_title_and_bytes_count_within_it(docs: TestClient) -> None:
    section = docs.get(f"{path(ID)}/content?section=Next")
    assert section.text == "## Next\n\nSee [pump](../pump.md).\n"
    part = docs.get(f"{path(ID)}/content?section=next&start=3&end=7")
    assert part.text == "Next"
    start = RAW.index(b"## Next")
    assert part.headers["knowledge-span"] == f"{start + 3}-{start + 7}/{len(RAW)}"
    assert docs.get(f"{path(ID)}/content?section=Next", headers={"Range": "bytes=3-6"}).text == "Next"
    assert docs.get(f"{path(ID)}/content?section=Next&start=900").content == b""
    missing = docs.get(f"{path(ID)}/content?section=Nowhere")
    assert (missing.status_code, "Next" in missing.json()["error"]["mend"]) == (404, True)


def test_where_a_document_comes_from_is_told(docs: TestClient) -> None:
    found = docs.get(f"{path(ID)}/provenance").json()
    assert (found["source_id"], found["content_hash"]) == (ID, sha256(RAW).hexdigest())
    assert docs.get("/v1/sources/missing.md/provenance").status_code == 404


def test_changes_are_told_since_a_revision(docs: TestClient) -> None:
    first = docs.get("/v1/changes").json()
    assert (first["reset"], first["added"]) == (True, [ID, "pump.md"])
    again = docs.get("/v1/changes", params={"since": first["revision"]}).json()
    assert (again["reset"], again["added"]) == (False, [])


STRANGE = {
    "温度-Größe.md": b"one", "a b+c&d=e?f#g%41.md": b"two", "content/content.md": b"three",
    "deep/er/than/that.md": b"four",
    "x/content": b"five", "provenance": b"six", "👩‍👩‍👧.md": b"seven", "[id].md": b"eight", "a;b,c.md": b"nine",
}  # fmt: skip


@pytest.mark.parametrize("source_id", STRANGE)
def test_any_id_is_found_and_read(source_id: str) -> None:
    docs = client(docs=STRANGE)
    assert docs.get(path(source_id)).json()["source"]["id"] == source_id
    assert docs.get(f"{path(source_id)}/content").content == STRANGE[source_id]


def test_another_spelling_of_the_same_letters_is_found() -> None:
    docs = client(docs={"Größe.md": b"x"})
    assert docs.get("/v1/sources/Gro%CC%88%C3%9Fe.md").json()["source"]["id"] == "Größe.md"


@pytest.mark.parametrize(
    "raw",
    [
        "../outside",
        "..%2Foutside.md",
        "%2e%2e%2foutside%2fsecret.md",
        "%252e%252e/outside/secret.md",
        "..%c0%afoutside.md",
        "/etc/passwd",
        "%2Fetc%2Fpasswd",
        "%2F%2Fetc",
        "~%2F.ssh%2Fid",
        "C:%5CWindows%5Cwin.ini",
        "..%5Coutside.md",
        "%00",
        "a%00.md",
        "%FF%FE",
        "%",
        "%zz",
        "%EF%BC%8E%EF%BC%8E/outside.md",
        "..%E2%88%95outside",
        "a" * 3000,
        "%ED%A0%80",
        "file:%2F%2F%2Fetc%2Fpasswd",
        "",
    ],
)
def test_no_path_leads_out(raw: str) -> None:
    docs = client()
    for suffix in ("", "/content", "/provenance"):
        answer = docs.get(f"http://127.0.0.1/v1/sources/{raw}{suffix}")
        assert answer.status_code in (400, 404)
        assert set(answer.json()) == {"error"}


@given(st.text(min_size=1, max_size=30), st.sampled_from(["", "/content", "/provenance"]))
def test_an_encoded_id_is_never_taken_apart(source_id: str, part: str) -> None:
    found = find(f"/v1/sources/{quote(source_id, safe='')}{part}".encode())
    assert found.template == f"/v1/sources/{{id}}{part}"
    assert found.raw_id == quote(source_id, safe="").encode()


def test_answers_are_compressed_only_for_those_who_ask() -> None:
    docs = client(docs={f"{number:03}.md": b"# Title\n\nwords" for number in range(50)})
    plain = docs.get("/v1/sources", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    with docs.stream("GET", "/v1/sources", headers={"Accept-Encoding": "gzip"}) as packed:
        data = b"".join(packed.iter_raw())
        assert (packed.headers["content-encoding"], packed.headers["content-length"]) == ("gzip", str(len(data)))
    assert json.loads(gzip.decompress(data)) == plain.json()
    assert len(data) < len(plain.content) / 4
    assert "accept-encoding" in packed.headers["vary"]


def test_the_bytes_of_a_document_are_never_compressed() -> None:
    docs = client(docs={"long.md": b"word " * 5000})
    assert (
        "content-encoding" not in docs.get("/v1/sources/long.md/content", headers={"Accept-Encoding": "gzip"}).headers
    )


def test_head_is_get_without_a_body(docs: TestClient) -> None:
    for where in ("/v1/sources", path(ID), f"{path(ID)}/content"):
        got, head = docs.get(where), docs.head(where)
        assert (head.status_code, head.content) == (200, b"")
        ignored = {"x-request-id"}
        assert {k: v for k, v in head.headers.items() if k not in ignored} == {
            k: v for k, v in got.headers.items() if k not in ignored
        }


def test_methods_that_are_not_there_are_refused_with_those_that_are(docs: TestClient) -> None:
    for method, where, allowed in (
        ("DELETE", "/v1/query", "POST, GET, HEAD, OPTIONS"), ("TRACE", "/v1/sources", "GET, POST, HEAD, OPTIONS"),
        ("PATCH", path(ID), "GET, PUT, DELETE, HEAD, OPTIONS"), ("BREW", "/healthz", "GET, HEAD, OPTIONS"),
    ):  # fmt: skip
        answer = docs.request(method, where)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
        assert answer.json()["error"]["code"] == "method-not-allowed"
    options = docs.options("/v1/sources")
    assert (options.status_code, options.headers["allow"]) == (204, "GET, POST, HEAD, OPTIONS")


@pytest.mark.parametrize(
    "where", ["/nope", "/v1", "/v1/", "/v1/other", "/V1/sources", "//v1/sources", "/v1/sources2", "/docs"]
)
def test_where_nothing_is_an_error_says_so(docs: TestClient, where: str) -> None:
    answer = docs.get(f"http://127.0.0.1{where}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not-found")


class Changing(MemoryProvider):
    """Its document is another one each time that it is looked at."""

    looks = 0

    def get_source(self, source_id: str):  # type: ignore[no-untyped-def]
        self.looks += 1
        return super().get_source(source_id).model_copy(update={"content_hash": f"{self.looks:064x}"})


def test_parts_of_a_document_that_changes_all_the_while_are_not_mixed() -> None:
    docs = client(docs=Changing({"a.md": b"0123456789"}))
    answer = docs.get("/v1/sources/a.md/content", headers={"Range": "bytes=2-3"})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert docs.get("/v1/sources/a.md/content").content == b"0123456789"


class Nameless(MemoryProvider):
    """It does not know what its documents' bytes hash to."""

    def get_source(self, source_id: str):  # type: ignore[no-untyped-def]
        return super().get_source(source_id).model_copy(update={"content_hash": None})

    def read_source(self, source_id: str, span=None) -> SourceContent:  # type: ignore[no-untyped-def]
        return super().read_source(source_id, span)


def test_without_a_hash_from_the_backend_a_part_has_no_version() -> None:
    docs = client(docs=Nameless({"a.md": b"0123456789"}))
    part = docs.get("/v1/sources/a.md/content", headers={"Range": "bytes=2-3"})
    assert (part.status_code, part.content, "etag" in part.headers) == (206, b"23", False)
    assert "etag" not in docs.get("/v1/sources/a.md?detail=false").headers
    assert docs.get("/v1/sources/a.md/content").headers["etag"] == f'"{sha256(b"0123456789").hexdigest()}"'
