"""One Chromium for all browser tests; they are skipped where there is none."""

from __future__ import annotations

import pytest
from chromium import CHROMIUM, QUIET, watched_page


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no chromium is found; NOOCH_CHROMIUM can name one")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield opened
        opened.close()


@pytest.fixture
def page(browser):
    """A page that fails its test where the console says anything, or another host is asked."""
    said = []
    made = watched_page(browser, said, viewport={"width": 1280, "height": 900})
    yield made
    assert not made.evaluate("'hacked' in window")
    made.context.close()
    assert said == []
