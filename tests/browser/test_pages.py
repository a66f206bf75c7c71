"""Pages as people use them: on a phone, copied, without scripts, with changes that stay whole."""

from __future__ import annotations

import re
from html import unescape

import pytest
from sites import MARKUP


@pytest.mark.parametrize(("width", "seen"), [(390, 3), (1280, 14)])
def test_a_leaderboard_keeps_recall_in_view(page, page_of, width, seen):
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(page_of["leaderboard"])
    heads = page.locator("#board thead th")
    inside = "(all) => all.map((one) => one.getBoundingClientRect().right <= innerWidth)"
    texts = heads.all_inner_texts()
    assert [text for text in texts[:3] if "recall" in text] == ["macro recall"]
    assert heads.evaluate_all(inside)[:seen] == [True] * seen


def test_a_finding_is_copied_as_markdown_that_shows_it(page, page_of):
    markdown = pytest.importorskip("markdown_it").MarkdownIt().enable("table")
    page.goto(page_of["check of two models"])
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    button = page.locator("[data-markdown]").first
    sentence = page.locator(".finding h3").first.inner_text()
    button.click()
    page.wait_for_function("'copied' in window")
    text = page.evaluate("window.copied")
    shown = markdown.render(text)
    words = unescape(re.sub("<[^>]*>", "", shown))
    assert MARKUP in words
    assert sentence.split(". ", 1)[-1].replace("\u00a0\u2192\u00a0", " -> ") in words
    assert not re.search("<(em|a|del|i|img)[ >]", shown)
    assert shown.count("<li>") == len(text.splitlines())
    # in a cell of a table, too, where a bare pipe would end it
    first = text.splitlines()[0].removeprefix("- ")
    table = markdown.render(f"| finding | more |\n|---|---|\n| {first} | end |\n")
    assert re.findall("<td>(.*?)</td>", table)[1] == "end"


def test_a_change_of_a_rate_stays_on_one_line(page, page_of):
    page.goto(page_of["check of two models"])
    text = page.locator("main").inner_text()
    assert re.search(r"\d%\u00a0\u2192\u00a0\d", text)
    assert "% -> " not in text


def test_pages_without_scripts(browser, page_of):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(page_of["check"])
    assert "misses cars" in page.locator("h1").inner_text()
    assert page.locator(".rate-pair svg").first.bounding_box()["width"] > 50
    assert not page.locator(".copy-ids").first.is_visible()
    for kind in ("explore", "results", "criteria"):
        page.goto(page_of[f"report {kind}"])
        assert "JavaScript" in page.locator("noscript").inner_text()
    page.goto(page_of["report examples"])
    assert not page.locator("#pick").is_visible()
    page.locator(".example-group img").first.scroll_into_view_if_needed()
    page.wait_for_load_state("networkidle")
    assert page.locator(".example-group img").first.bounding_box()["height"] > 50
    context.close()
