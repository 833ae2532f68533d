"""What the page must not do, and what it does when something is missing: a token, the server, a document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page, expect
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route, Router

from http_bench.servers import running, services
from knowledge_engine.extensions import Extensions, Mount, PagePanel
from knowledge_http import HttpSettings, create_app

STATIC = Path(__file__).parents[2] / "src/knowledge_http/page/static"
ALLOWED = {
    *("p", "h2", "h3", "h4", "h5", "h6", "hr", "pre", "code", "em", "strong", "mark", "ul", "ol", "li", "blockquote"),
    *("div", "table", "thead", "tbody", "tr", "th", "td", "details", "summary"),
}
VIEWS = ["", "#q=overheating", "#doc=00500.md", "#view=graph&doc=00500.md", "#view=index"]


@contextmanager
def serving(docs: dict[str, bytes], extensions: Extensions | None = None, **settings: str) -> Iterator[str]:
    """A server of its own, over documents in memory."""
    environ = {f"KNOWLEDGE_HTTP_{name.upper()}": value for name, value in settings.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("knowledge_http.server.app.collect_extensions", lambda *_, **__: extensions or Extensions())
        app = create_app(
            services(docs=docs), HttpSettings.from_env({**environ, "KNOWLEDGE_HTTP_QUIET": "1"}), environ={}
        )
    with running(app) as url:
        yield url


DOCS = {
    "a.md": b"---\ntitle: Alpha\nkind: note\n---\n# Alpha\n\nThe quagga grazes. See [beta](b.md).\n",
    "b.md": b"# Beta\n\nNo animals.\n",
}


def test_html_in_a_document_is_text(page: Page, url: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{url}/#q=quagga")
    expect(page.locator("#results mark").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    document = page.locator(".document")
    expect(document).to_contain_text("<script>window.hacked = 1</script>")
    expect(document).to_contain_text('<iframe src="//evil.example"></iframe>')
    assert page.locator("main :is(script, img, iframe, style, svg, object, embed)").count() == 0
    hrefs = [link.get_attribute("href") or "" for link in document.locator("a").all()]
    assert [href for href in hrefs if not href.startswith(("#", "http://", "https://"))] == []
    assert page.evaluate("window.hacked") is None
    assert {request for request in asked if not request.startswith(url)} == set()


@given(text=st.text(st.sampled_from("ab*_`[]()#->|!\\<>\"'&:/\n\r\t 129.é漢\u202e\x00"), max_size=120), data=st.data())
@example(text="**a*b** ```\n| a |\n|-|\n", data=None)
def _whatever_is_written(page: Page, text: str, data: st.DataObject | None) -> None:
    start = data.draw(st.integers(0, len(text))) if data else 0
    end = data.draw(st.integers(start, len(text))) if data else len(text)
    found = page.evaluate(
        """async ([text, mark]) => {
            const { render } = await import("./page/markdown.js");
            const element = render(text, { marks: [mark] });
            const names = [...element.querySelectorAll("*")].map((each) => each.localName);
            const marked = [...element.querySelectorAll("mark")].map((each) => each.textContent);
            return { names, marked, all: element.textContent };
        }""",
        [text, [start, end]],
    )
    allowed = (
        "p h2 h3 h4 h5 h6 hr pre code em strong mark ul ol li blockquote div table thead tbody tr th td details summary"
    )
    assert set(found["names"]) <= set(allowed.split())
    at = start
    for piece in found["marked"]:
        at = text.index(piece, at) + len(piece)
    assert at <= end
    # Letters are no markup: none is lost, but what names the language of a fence.
    if "```" not in text:
        assert [each for each in found["all"] if each in "é漢9"] == [each for each in text if each in "é漢9"]


def test_whatever_is_written_becomes_known_elements_and_marks_what_is_cited(page: Page, url: str) -> None:
    page.goto(url)
    _whatever_is_written(page)


SLOW = [
    *("# " * 90_000, "| " * 90_000 + "\n" + " " * 90_000 + "x", "**a " * 40_000, "`" * 90_000, "[" * 90_000),
    *(
        "> " * 90_000,
        "- - " * 40_000 + "x",
        "\n".join(["* a", "1. b"] * 20_000),
        "_" * 90_000,
        "\n".join(["`" * 3] * 20_000),
    ),
    "".join(f"{'`' * (1 + number % 300)} " for number in range(1_000)),
]


@pytest.mark.parametrize("text", SLOW, ids=map(str, range(len(SLOW))))
def test_a_document_made_to_take_long_is_shown(page: Page, text: str) -> None:
    with serving({"a.md": b"# Begin\n\n" + text.encode()[:90_000] + b"\n\nended\n"}) as url:
        page.goto(f"{url}/#doc=a.md")
        expect(page.locator(".document")).to_contain_text("ended")


def test_bytes_that_are_no_text_are_cited_all_the_same(page: Page, url: str) -> None:
    page.goto(url)
    raw = "Größe 漢字 ".encode() + b"\xff\xfe broken " + "😀 end".encode()
    start = raw.index(b"broken")
    shown = page.evaluate(
        """async ([bytes, start, end]) => {
            const { located } = await import("./page/spans.js");
            const { text, at } = located(new Uint8Array(bytes), [start, end]);
            return text.slice(at(start), at(end));
        }""",
        [list(raw), start, len(raw)],
    )
    assert shown == "broken 😀 end"


def test_text_never_becomes_markup_in_the_page(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.locator("#results > li").first).to_be_visible()
    refused = (
        """() => { try { document.body.innerHTML = "<b>x</b>"; return ""; } catch (error) { return error.name; } }"""
    )
    with page.expect_event("console", lambda line: "TrustedHTML" in line.text or "Trusted" in line.text):
        assert page.evaluate(refused) == "TypeError"
    sources = "".join(file.read_text(encoding="utf-8") for file in STATIC.glob("*.js"))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", sources)


def test_the_page_has_no_script_or_style_in_it() -> None:
    text = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=|https?://|//cdn", text)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("fragment", VIEWS)
def test_everyone_can_use_it(browser: Browser, url: str, axe: str, fragment: str, scheme: str) -> None:
    # What looks at the page is not held to the page's own policy.
    with browser.new_context(bypass_csp=True, color_scheme=scheme) as context:  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(f"{url}/{fragment}")
        page.locator("#main").get_by_role("link").first.wait_for()
        page.locator("#main [aria-busy]").wait_for(state="detached")
        page.evaluate(axe)
        found = page.evaluate("async () => (await axe.run()).violations")
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        assert [(each["id"], [node["html"] for node in each["nodes"][:3]]) for each in serious] == []


def test_everyone_can_use_the_dialogs(browser: Browser, axe: str) -> None:
    with serving(DOCS, tokens="s3cret:read") as url, browser.new_context(bypass_csp=True) as context:
        page = context.new_page()
        page.goto(url)
        page.locator("#token").wait_for()
        page.evaluate(axe)
        assert page.evaluate("async () => (await axe.run()).violations.map((each) => each.id)") == []
        page.keyboard.type("s3cret")
        page.keyboard.press("Enter")
        page.locator("#results > li").first.wait_for()
        page.locator("#keys").focus()
        page.keyboard.press("Enter")
        assert page.evaluate("async () => (await axe.run()).violations.map((each) => each.id)") == []


def test_a_token_is_asked_for_and_forgotten(page: Page) -> None:
    with serving(DOCS, tokens="s3cret:read") as url:
        page.goto(f"{url}/#q=quagga")
        expect(page.locator("#token")).to_be_focused()
        page.keyboard.type("wr0ng")
        page.keyboard.press("Enter")
        expect(page.locator("#token-why")).to_contain_text("The token is not known")
        page.keyboard.press("Escape")
        expect(page.locator("#token")).to_be_visible()
        page.locator("#token").focus()
        page.keyboard.type("s3cret")
        page.keyboard.press("Enter")
        expect(page.locator("#results mark").first).to_have_text("quagga")
        assert "s3cret" not in page.url
        assert page.evaluate("JSON.stringify(localStorage) + document.cookie").count("s3cret") == 0
        page.reload()
        expect(page.locator("#results mark").first).to_have_text("quagga")
        page.locator("#forget").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#token-dialog")).to_be_visible()
        assert page.evaluate("JSON.stringify(sessionStorage)") == "{}"


def test_without_the_server_what_was_read_is_still_there(page: Page) -> None:
    with serving(DOCS) as url:
        page.goto(f"{url}/#doc=a.md")
        expect(page.locator(".document")).to_contain_text("quagga")
        page.evaluate("location.hash = '#doc=b.md'")
        expect(page.locator(".document")).to_contain_text("No animals")
        page.context.set_offline(True)
        page.evaluate("location.hash = '#doc=a.md'")
        expect(page.locator(".document")).to_contain_text("quagga")
        expect(page.locator("#status")).to_contain_text("The server is away")
        page.evaluate("location.hash = '#view=search&q=quagga'")
        expect(page.locator("#problem")).to_contain_text("The server cannot be reached")
        page.context.set_offline(False)
        expect(page.locator("#results mark").first).to_have_text("quagga")
        expect(page.locator("#problem")).to_be_empty()


def test_nobody_else_is_asked_for_anything(page: Page, url: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for fragment in VIEWS:
        page.goto(f"{url}/{fragment}")
        expect(page.locator("#status")).not_to_be_empty()
    assert {each for each in asked if not each.startswith(f"{url}/")} == set()


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (b"# A\n\nmore before\n\nThe quagga grazes.\n", "have moved"),
        (b"# A\n\nThe zebra grazes.\n", "not in the document any more"),
    ],
    ids=["moved", "changed"],
)
def test_a_citation_says_what_became_of_its_words(page: Page, now: bytes, said: str) -> None:
    cited = b"The quagga grazes."
    with serving({"a.md": now}) as url:
        page.goto(f"{url}/#doc=a.md&span=5-23&hash={sha256(cited).hexdigest()}")
        expect(page.locator(".verdict")).to_contain_text(said)
        if said == "have moved":
            expect(page.locator("mark.cited").first).to_have_text(cited.decode())


def test_a_long_document_is_shown_around_what_is_cited(page: Page) -> None:
    lines = [f"Line {number} of very many, with ünïcode.\n" for number in range(30_000)]
    text = "".join(lines).encode()
    start = text.index(b"Line 25000 ")
    with serving({"long.md": b"# Long\n\n" + text}) as url:
        start += len(b"# Long\n\n")
        page.goto(f"{url}/#doc=long.md&span={start}-{start + 10}")
        expect(page.locator("mark.cited")).to_have_text("Line 25000")
        assert len(page.locator(".document").text_content() or "") < 120_000
        page.get_by_role("link", name="Earlier").first.focus()
        page.keyboard.press("Enter")
        expect(page.locator(".turning").first).to_contain_text("Bytes")
        expect(page.locator(".document")).not_to_contain_text("Line 25000 ")


def test_of_several_backends_one_can_be_chosen(page: Page) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("knowledge_http.server.app.collect_extensions", lambda *_, **__: Extensions())
        both = services(left=DOCS, right={"r.md": b"# Right\n\nA quagga too.\n"})
        app = create_app(both, HttpSettings(quiet=True), environ={})
    with running(app) as url:
        page.goto(f"{url}/#q=quagga")
        expect(page.locator("#results > li")).to_have_count(2)
        page.locator("#backend").focus()
        page.keyboard.press("r")
        expect(page.locator("#results > li")).to_have_count(1)
        page.locator("#results a").focus()
        page.keyboard.press("Enter")
        expect(page.locator("mark.cited").first).to_be_visible()
        assert "backend=right" in page.url
        page.reload()
        expect(page.locator(".document")).to_contain_text("A quagga too.")


PANEL = """
export async function show(element, { ask }) {
  const said = [];
  try { said.push(`parent ${parent.document.title}`); } catch (error) { said.push("no parent"); }
  try { sessionStorage.length; said.push("storage"); } catch (error) { said.push("no storage"); }
  try { await fetch("/v1/status"); said.push("network"); } catch (error) { said.push("no network"); }
  for (const path of ["../../v1/status", "%2e%2e/%2e%2e/v1/status", "..\\\\..\\\\v1/status", "//127.0.0.1:1/x"]) {
    try { said.push(`${path} ${(await ask(path)).status}`); } catch (error) { said.push("refused"); }
  }
  const answer = await ask("hello?to=you", { method: "POST", body: "{}" });
  said.push(JSON.parse(answer.text).hello);
  const text = document.createElement("p");
  text.textContent = said.join("; ");
  element.append(text);
}
"""


def panels(source: str) -> Extensions:
    def made() -> Router:
        async def module(_: object) -> PlainTextResponse:
            return PlainTextResponse(source, media_type="text/javascript")

        async def hello(request: object) -> JSONResponse:
            return JSONResponse({"hello": f"hello {request.query_params['to']}"})  # type: ignore[attr-defined]

        return Router([Route("/panel.js", module), Route("/hello", hello, methods=["POST"])])

    return Extensions(
        mounts={"/api/things": Mount("/api/things", "read", made)},
        page_panels={
            "things": PagePanel("things", "Things <b>here</b>", "/api/things/panel.js", "read"),
            "secrets": PagePanel("secrets", "Secrets", "/api/things/panel.js", "admin"),
            "lost": PagePanel("lost", "Lost", "/nowhere/panel.js", "read"),
        },
    )


def shown_panel(page: Page, url: str) -> None:
    page.goto(url)
    page.locator("#token").fill("s3cret")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Things <b>here</b>").focus()
    page.keyboard.press("Enter")


def test_a_panel_of_a_plugin_runs_in_a_sandbox_and_asks_only_its_own_application(browser: Browser) -> None:
    with serving(DOCS, panels(PANEL), tokens="s3cret:read") as url, browser.new_context() as context:
        page = context.new_page()
        shown_panel(page, url)
        said = page.frame_locator("iframe").locator("p")
        expect(said).to_contain_text("hello you")
        text = said.text_content() or ""
        assert text.split("; ") == ["no parent", "no storage", "no network", *["refused"] * 4, "hello you"]
        # One whose module no application brings is not offered.
        assert page.get_by_role("link", name="Lost").count() == 0


def test_a_panel_cannot_send_anything_away_by_leading_its_frame_elsewhere(browser: Browser) -> None:
    with serving(DOCS) as elsewhere:
        module = f"export function show() {{ location.href = {json.dumps(elsewhere)} + '/?secret'; }}"
        with serving(DOCS, panels(module), tokens="s3cret:read") as url, browser.new_context() as context:
            page = context.new_page()
            with page.expect_event("console", lambda line: "frame-src" in line.text):
                shown_panel(page, url)
            assert elsewhere not in page.frames[-1].url


def test_a_panel_that_fails_is_told_of_and_harms_nothing_else(page: Page) -> None:
    with serving(DOCS, panels("export function show() { throw new Error('broken'); }"), tokens="s3cret:read") as url:
        shown_panel(page, url)
        expect(page.locator("#problem")).to_contain_text("broken")
        page.keyboard.press("/")
        page.keyboard.type("quagga")
        expect(page.locator("#results mark").first).to_have_text("quagga")
        expect(page.locator("#problem")).to_be_empty()


def fetched(url: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    request = Request(url, method=method, headers={name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urlopen(request) as response:
            return response.status, {k.lower(): v for k, v in response.headers.items()}, response.read()
    except HTTPError as error:
        with error:
            return error.code, {k.lower(): v for k, v in error.headers.items()}, error.read()


@pytest.fixture(scope="module")
def closed() -> Iterator[str]:
    """A server that asks for a token."""
    with serving(DOCS, panels(PANEL), tokens="s3cret:read,b0ss:admin") as url:
        yield url


def test_the_page_is_there_without_a_token_under_a_strict_policy(closed: str) -> None:
    status, headers, body = fetched(f"{closed}/")
    policy = headers["content-security-policy"]
    assert status == 200
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert headers["x-frame-options"] == "DENY"
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert b"<!doctype html>" in body


def test_what_the_browser_has_is_not_sent_again(closed: str) -> None:
    status, headers, body = fetched(f"{closed}/page/app.js")
    assert (status, headers["cache-control"]) == (200, "no-cache")
    assert fetched(f"{closed}/page/app.js", if_none_match=headers["etag"])[0] == 304
    assert fetched(f"{closed}/page/app.js", "HEAD")[::2] == (200, b"")
    assert len(body) == int(headers["content-length"])


def test_the_page_takes_no_other_methods_and_has_no_other_files(closed: str) -> None:
    status, headers, body = fetched(f"{closed}/page/app.js", "POST")
    assert (status, headers["allow"]) == (405, "GET, HEAD")
    assert json.loads(body)["error"]["code"] == "method-not-allowed"
    for path in ("/page/", "/page/routes.py", "/page/..%2f__init__.py", "/page/index.html"):
        assert fetched(closed + path)[0] == 404, path


def test_only_the_frame_of_panels_may_be_framed(closed: str) -> None:
    _, headers, _ = fetched(f"{closed}/page/panel.html")
    assert headers["x-frame-options"] == "SAMEORIGIN"
    assert "sandbox allow-scripts" in headers["content-security-policy"]
    assert "connect-src" not in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert fetched(f"{closed}/page/panel.js")[0] == 404


def test_panels_are_told_of_to_those_who_may_see_them(closed: str) -> None:
    def names(token: str) -> list[str]:
        body = fetched(f"{closed}/page", authorization=f"Bearer {token}")[2]
        return [each["name"] for each in json.loads(body)["panels"]]

    assert fetched(f"{closed}/page")[0] == 401
    assert names("s3cret") == ["things"]
    assert names("b0ss") == ["things", "secrets"]


def test_the_page_has_no_names_to_link_by() -> None:
    from starlette.routing import NoMatchFound

    from knowledge_http.page import page_routes

    with pytest.raises(NoMatchFound):
        page_routes(Extensions())[0].url_path_for("page")
