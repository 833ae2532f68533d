"""Each thing that the page is for, done by keyboard in a browser, on ten thousand documents."""

from __future__ import annotations

import json
import re
from urllib.request import urlopen

import pytest
from playwright.sync_api import Locator, Page, expect

RESULTS = "#results > li"


def opened(page: Page, url: str, fragment: str = "") -> Page:
    """The page, when it has shown what its address says."""
    page.goto(f"{url}/{fragment}")
    expect(page.locator("#status")).not_to_be_empty()
    return page


def search(page: Page, words: str) -> Locator:
    """Types words; the results for them."""
    page.locator("#search").focus()
    page.keyboard.type(words)
    expect(page.locator("#status")).to_contain_text("among")
    expect(page.locator(f"{RESULTS} mark").first).to_be_visible()
    return page.locator(RESULTS)


def to(page: Page, target: Locator, key: str = "Tab", most: int = 60) -> None:
    """Goes on by a key until that has the focus."""
    for _ in range(most):
        if target.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press(key)
    pytest.fail(f"{key} does not lead to {target}")


def answer(url: str, path: str) -> bytes:
    with urlopen(f"{url}{path}") as response:
        return bytes(response.read())


def is_seen(target: Locator) -> bool:
    return bool(target.evaluate(
        "element => { const box = element.getBoundingClientRect();"
        " return box.bottom > 0 && box.top < innerHeight && box.height > 0; }"
    ))  # fmt: skip


def test_all_documents_are_there_before_anything_is_typed_and_more_come_by_a_key(page: Page, url: str) -> None:
    opened(page, url)
    expect(page.locator("#status")).to_contain_text("10,001 documents")
    assert page.locator(RESULTS).count() == 20
    to(page, page.locator("#more"))
    page.keyboard.press("Enter")
    expect(page.locator(RESULTS)).to_have_count(40)
    # Who reads on is where the new ones begin.
    expect(page.locator(RESULTS).nth(20).locator("a.title")).to_be_focused()


def test_passages_come_as_one_types_with_what_matches_marked(page: Page, url: str) -> None:
    opened(page, url)
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("word4321")
    expect(page.locator(f"{RESULTS} mark").first).to_have_text("word4321")
    expect(page.locator(RESULTS).first.locator("a.title")).to_have_text("Document 4321")
    # The letters before the mark are longer in bytes than in characters.
    page.keyboard.press("Control+a")
    page.keyboard.type("marker77")
    expect(page.locator(f"{RESULTS} mark").first).to_have_text("marker77")
    assert set(page.locator(f"{RESULTS} mark").all_text_contents()) == {"marker77"}
    assert "q=marker77" in page.url


def test_words_that_nothing_has_are_answered_by_what_to_do(page: Page, url: str) -> None:
    opened(page, url)
    page.keyboard.type("zzzyxq")
    expect(page.locator("#status")).to_contain_text("Nothing found. Try")
    expect(page.locator(RESULTS)).to_have_count(0)


def test_facets_narrow_by_keyboard_and_stand_in_the_address(page: Page, url: str) -> None:
    opened(page, url)
    search(page, "overheating")
    page.keyboard.press("Escape")
    page.locator("#narrow summary").first.focus()
    guide = page.locator("#facets label", has_text="guide").locator("input")
    to(page, guide)
    page.keyboard.press("Space")
    expect(page.locator("#chosen li")).to_have_count(1)
    expect(guide).to_be_checked()
    expect(guide).to_be_focused()
    report = page.locator("#facets label", has_text="report").locator("input")
    to(page, report)
    page.keyboard.press("Space")
    expect(page.locator("#chosen li")).to_have_count(2)
    # Guides are each fourth, reports too: now both are there, and nothing else.
    titles = page.locator(f"{RESULTS} a.title")
    expect(titles.nth(1)).to_have_text("Document 3")
    expect(titles.nth(0)).to_have_text("Document 1")
    assert {int(each.split()[1]) % 4 for each in titles.all_text_contents()} == {1, 3}
    address = page.url
    to(page, page.locator("#chosen a").first, "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#chosen li")).to_have_count(1)
    opened(page, url, address[address.index("#") :])
    page.reload()
    expect(page.locator("#chosen li")).to_have_count(2)


def test_facets_count_documents(page: Page, url: str) -> None:
    opened(page, url)
    facets = json.loads(answer(url, "/v1/sources?limit=1&facets=true"))["facets"]
    row = page.locator("#facets label", has_text="device")
    expect(row.locator(".count")).to_have_text(f"{facets['kind']['values']['device']:,}")


@pytest.mark.parametrize("key", ["kind", "year", "tags"])
def test_choosing_a_value_leaves_as_many_documents_as_it_says(page: Page, url: str, key: str) -> None:
    opened(page, url)
    group = page.locator("#facets > details").filter(has=page.locator("summary", has_text=key))
    box = group.locator("input").nth(1)
    said = group.locator(".count").nth(1).text_content()
    box.focus()
    page.keyboard.press("Space")
    expect(page.locator("#status")).to_contain_text(f"{said} documents.")


def test_letters_typed_while_answers_come_are_not_lost(page: Page, url: str) -> None:
    opened(page, url)
    page.locator("#search").press_sequentially("word4321 rail marker", delay=25)
    expect(page.locator("#status")).to_contain_text("among")
    expect(page.locator("#search")).to_have_value("word4321 rail marker")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("mark.cited").first).to_be_visible()
    page.go_back()
    expect(page.locator("#search")).to_have_value("word4321 rail marker")


def test_a_hit_opens_at_the_cited_bytes(page: Page, url: str) -> None:
    opened(page, url)
    search(page, "word4321 rail")
    page.keyboard.press("ArrowDown")
    expect(page.locator(RESULTS).first.locator("a.title")).to_be_focused()
    page.keyboard.press("Enter")
    mark = page.locator("mark.cited").first
    expect(mark).to_be_focused()
    assert is_seen(mark)
    span = re.search(r"span=(\d+)-(\d+)", page.url)
    assert span
    cited = answer(url, f"/v1/sources/04321.md/content?start={span[1]}&end={span[2]}").decode()
    marked = "".join(page.locator("mark.cited").all_text_contents())
    assert "word4321" in marked
    # What is marked is what is cited, less the marks of markdown.
    assert re.sub(r"\W", "", marked) == re.sub(r"\W", "", cited)
    expect(page.locator(".verdict")).to_have_text("The cited words are still there.")


def test_the_way_back_leads_to_the_hit_that_was_opened(page: Page, url: str) -> None:
    opened(page, url)
    search(page, "overheating")
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    title = page.locator(RESULTS).nth(1).locator("a.title")
    expect(title).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("mark.cited").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(title).to_be_focused()
    expect(page.locator("#search")).to_have_value("overheating")
    page.keyboard.press("Escape")
    expect(page.locator("#search")).to_be_focused()


def test_the_outline_leads_to_sections(page: Page, url: str) -> None:
    opened(page, url, "#doc=long.md")
    page.keyboard.press("o")
    expect(page.locator(".outline summary")).to_be_focused()
    assert page.locator(".outline li").count() == 61
    to(page, page.locator(".outline a", has_text="Part 40"))
    page.keyboard.press("Enter")
    heading = page.locator("#section-part-40")
    expect(heading).to_be_focused()
    assert is_seen(heading)
    assert "at=part-40" in page.url


@pytest.mark.parametrize(
    ("written", "shown"), [("## Two ##", "Two"), ("# C#", "C#"), ("## #", ""), ("# a # b  #", "a # b")]
)
def test_headings_are_shown_without_what_closes_them(page: Page, url: str, written: str, shown: str) -> None:
    opened(page, url)
    found = page.evaluate(
        "async (text) => (await import('./page/markdown.js')).render(text).querySelector('h2, h3').textContent", written
    )
    assert found == shown


def test_links_lead_to_other_documents(page: Page, url: str) -> None:
    opened(page, url, "#doc=00500.md")
    to(page, page.locator(".document a", has_text="the next"))
    page.keyboard.press("Enter")
    expect(page.locator("article > h1")).to_have_text("Document 501")
    to(page, page.locator(".document a", has_text="03510"))
    page.keyboard.press("Enter")
    expect(page.locator("article > h1")).to_have_text("Document 3510")
    page.go_back()
    expect(page.locator("article > h1")).to_have_text("Document 501")


def test_the_graph_is_walked_by_arrow_keys(page: Page, url: str) -> None:
    opened(page, url, "#doc=00500.md")
    page.keyboard.press("g")
    middle = page.locator('.node[data-id="00500.md"]')
    expect(middle).to_be_focused()
    expect(page.locator("#status")).to_contain_text("links between them")
    # Itself, two that it leads to, and four that these do.
    expect(page.locator(".node")).to_have_count(7)
    assert page.locator(".picture line").count() >= 6
    before = page.evaluate("document.activeElement.dataset.id")
    for key in ("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"):
        page.keyboard.press(key)
        if page.evaluate("document.activeElement.dataset.id") != before:
            break
    chosen = page.evaluate("document.activeElement.dataset.id")
    assert chosen != before
    page.keyboard.press("Space")
    expect(page.locator(f'.node.ring-0[data-id="{chosen}"]')).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".about")).to_contain_text(chosen)


def test_the_graph_is_there_as_a_list_too(page: Page, url: str) -> None:
    opened(page, url, "#view=graph&doc=00500.md")
    to(page, page.locator(".graph details summary"))
    page.keyboard.press("Enter")
    expect(page.locator("#edges li", has_text="Document 500 leads to Document 501")).to_be_visible()


def test_without_a_document_the_graph_is_of_what_the_filters_leave(page: Page, url: str) -> None:
    opened(page, url, "#view=graph")
    expect(page.locator(".node")).to_have_count(40)
    expect(page.locator(".picture line").first).to_be_attached()


def test_what_is_not_indexed_is_shown_with_the_reason(page: Page, url: str) -> None:
    status = json.loads(answer(url, "/v1/status"))
    opened(page, url)
    page.keyboard.press("Escape")
    page.locator("#narrow summary").first.focus()
    page.keyboard.press("i")
    expect(page.locator(".numbers")).to_contain_text("10,001")
    expect(page.locator("#main")).to_be_focused()
    row = page.locator("tr", has_text="outside.md")
    assert row.first.locator("td").first.text_content() == status["skipped"][0]["reason"]
    broken = page.locator("#remarks tr", has_text="broken.md").first
    expect(broken).to_contain_text(next(each["mend"] for each in status["issues"] if each["path"] == "broken.md"))


def test_all_that_is_indexed_can_be_paged_through(page: Page, url: str) -> None:
    opened(page, url, "#view=index")
    rows = page.get_by_role("region", name="Documents that are indexed").locator("tbody tr")
    expect(rows).to_have_count(100)
    page.locator("#more-documents").focus()
    page.keyboard.press("Enter")
    expect(rows).to_have_count(200)
    to(page, rows.nth(150).get_by_role("link"), "Shift+Tab", 200)
    page.keyboard.press("Enter")
    expect(page.locator("article > h1")).to_have_text("Document 150")


def test_remarks_are_chosen_by_severity(page: Page, url: str) -> None:
    opened(page, url, "#view=index")
    choice = page.locator("#severity")
    to(page, choice)
    all_of_them = page.locator("#remarks tbody tr").count()
    page.keyboard.press("e")
    expect(page.locator("#remarks tbody tr.info")).to_have_count(0)
    assert 0 < page.locator("#remarks tbody tr").count() < all_of_them


def test_light_and_dark_follow_the_system_until_one_is_chosen(page: Page, url: str) -> None:
    def back() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    page.emulate_media(color_scheme="light")
    opened(page, url)
    light = back()
    page.emulate_media(color_scheme="dark")
    dark = back()
    assert light != dark
    to(page, page.locator("#theme"))
    page.keyboard.press("Enter")
    expect(page.locator("#theme")).to_have_text("Theme: light")
    assert back() == light
    page.reload()
    expect(page.locator("#theme")).to_have_text("Theme: light")
    assert back() == light
    to(page, page.locator("#theme"))
    page.keyboard.press("Space")
    page.emulate_media(color_scheme="light")
    assert back() == dark


@pytest.mark.parametrize(
    "fragment", ["", "#q=overheating", "#doc=00500.md", "#doc=long.md", "#view=graph&doc=00500.md", "#view=index"]
)
def test_nothing_is_wider_than_320_pixels(page: Page, url: str, fragment: str) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    opened(page, url, fragment)
    page.locator("#main").get_by_role("link").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    for part in page.locator("article, #results, .picture, .numbers").all():
        assert part.evaluate("element => element.getBoundingClientRect().width") >= 280
    assert float(page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)")) >= 16


def test_the_keys_are_told_and_can_be_turned_off(page: Page, url: str) -> None:
    opened(page, url, "#doc=00500.md")
    page.keyboard.press("?")
    expect(page.locator("#keys-dialog")).to_be_visible()
    to(page, page.locator("#keys-on"))
    page.keyboard.press("Space")
    page.keyboard.press("Escape")
    expect(page.locator("#keys-dialog")).not_to_be_visible()
    page.keyboard.press("i")
    page.keyboard.press("/")
    expect(page.locator("article > h1")).to_have_text("Document 500")
    expect(page.locator("#search")).not_to_be_focused()


def test_the_first_stop_leads_past_the_header(page: Page, url: str) -> None:
    opened(page, url, "#doc=00500.md")
    to(page, page.locator("#skip"), "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    assert "doc=00500.md" in page.url


def test_an_address_that_says_nonsense_shows_the_search(page: Page, url: str) -> None:
    opened(page, url, "#view=constructor&span=9-3&filter=%7B&filter=[1,2]&doc=%00")
    expect(page.locator(RESULTS)).to_have_count(20)


def test_a_document_that_is_not_there_says_so(page: Page, url: str) -> None:
    opened_at = f"{url}/#doc=none.md&span=0-5&hash={'0' * 64}"
    page.goto(opened_at)
    expect(page.locator("main h1")).to_have_text("No such document")
    expect(page.locator("main h1")).to_be_focused()
