"""A browser, and a server with ten thousand documents that these tests make."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from http_bench.servers import running, services
from knowledge_engine.extensions import Extensions
from knowledge_files import FilesSettings, create_files_adapter
from knowledge_http import HttpSettings, create_app

DOCUMENTS = 10_000
#: Of the machine, not of playwright: what people use.
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
)
_AXE = Path(__file__).parents[4] / ".node-page/node_modules/axe-core/axe.min.js"
_KINDS = ("device", "guide", "note", "report")

HOSTILE = """---
title: "<img src=x onerror=alert(1)> Hostile"
kind: note
---
# Hostile <b>words</b>

quagga <script>window.hacked = 1</script> <img src=x onerror="window.hacked = 1">
[run](javascript:window.hacked=1) [data](data:text/html,<script>1</script>) <iframe src="//evil.example"></iframe>

![picture](https://evil.example/x.png) <style>body{display:none}</style>

- <svg onload="window.hacked=1">
"""

LONG = "# Long\n\n" + "".join(
    f"## Part {number}\n\n" + f"Filler for part {number} goes on. " * 12 + "\n\n" for number in range(60)
)


def document(number: int) -> str:
    """A document with frontmatter, sections, and links to two others."""
    kind = _KINDS[number % len(_KINDS)]
    return (
        f"---\ntitle: Document {number}\nkind: {kind}\nyear: {2015 + number % 10}\ntags: [t{number % 7}, all]\n---\n"
        f"# Document {number}\n\nAbout unit {number}, a {kind}. See [the next]({(number + 1) % DOCUMENTS:05}.md) "
        f"and [[{(number * 7 + 3) % DOCUMENTS:05}]].\n\n"
        f"## Wiring\n\nConnect word{number} to the rail. Größe and 日本語 stand before marker{number % 100} here.\n\n"
        f"## Faults\n\n| Code | Means |\n|---|---|\n| E{number} | overheating |\n"
    )


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documents, among them some that cannot be indexed."""
    root = tmp_path_factory.mktemp("documents")
    for number in range(DOCUMENTS - 2):
        (root / f"{number:05}.md").write_text(document(number), encoding="utf-8")
    (root / "hostile.md").write_text(HOSTILE, encoding="utf-8")
    (root / "long.md").write_text(LONG, encoding="utf-8")
    (root / "broken.md").write_bytes(b"---\ntitle: [\n---\n# Broken\n\nIts frontmatter does not parse.\n")
    (root / "outside.md").symlink_to("/etc/hostname")
    return root


@pytest.fixture(scope="session")
def url(folder: Path) -> Iterator[str]:
    """A server over them."""
    with ExitStack() as stack:
        adapter = create_files_adapter(FilesSettings(root=str(folder), path="."))
        stack.callback(adapter.dispose)
        found = services(docs=adapter)
        found["docs"].list(limit=1, facets=True)
        # Not what is installed here: these tests bring panels of their own.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("knowledge_http.server.app.collect_extensions", lambda *_, **__: Extensions())
            app = create_app(found, HttpSettings(quiet=True), environ={})
        yield stack.enter_context(running(app))


def _browser_path() -> str:
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if found is None:
        why = "there is no Chromium on this machine: install the package chromium"
        (pytest.fail if os.environ.get("PAGE_TESTS") == "required" else pytest.skip)(why)
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium. Of a module: while it is there, the thread has a loop, and other tests bring their own."""
    path = _browser_path()
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=_FLAGS.split())
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of its own, in which nothing may go wrong unseen, and which may ask nobody else."""
    expect.set_options(timeout=8_000)
    with browser.new_context(locale="en-GB", viewport={"width": 1200, "height": 800}) as context:
        context.set_default_timeout(8_000)
        opened = context.new_page()
        errors: list[str] = []
        opened.on("pageerror", lambda error: errors.append(str(error)))
        opened.on("dialog", lambda dialog: (errors.append(dialog.message), dialog.dismiss()))
        opened.on("console", lambda line: errors.append(line.text) if "Content Security Policy" in line.text else None)
        yield opened
        assert errors == []


@pytest.fixture(scope="session")
def axe() -> str:
    """The program that looks whether everyone can use a page."""
    if not _AXE.exists():
        why = "axe-core is not here: `make outside` fetches it"
        (pytest.fail if os.environ.get("PAGE_TESTS") == "required" else pytest.skip)(why)
    return _AXE.read_text(encoding="utf-8")
