"""Pages of a report in real Chromium, opened from disk."""

from __future__ import annotations

import os
import shutil
from urllib.parse import urlencode

CHROMIUM = (
    os.environ.get("NOOCH_CHROMIUM")
    or shutil.which("chromium")
    or shutil.which("chromium-browser")
    or shutil.which("google-chrome")
)
# nothing but the page: no updates, no look-ups of hosts
QUIET = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


def watched_page(browser, said, **options):
    """A page of a new context; ``said`` collects its console, errors and foreign requests."""
    made = browser.new_context(**options).new_page()
    made.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    made.on("pageerror", lambda error: said.append(f"error: {error}"))
    made.on(
        "request",
        lambda request: (
            None if request.url.startswith(("file://", "data:")) else said.append(request.url)
        ),
    )
    return made


# a script that asks for data is gone when they have arrived; a frame draws what follows from them
_SETTLED = """async () => {
  do await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  while ([...document.scripts].some((one) => one.async));
}"""


def settle(page):
    """Wait until a page has the data that it asked for, and has drawn them."""
    page.evaluate(_SETTLED)


def open_page(page, site, name="explore", **where):
    """Open a page of a site, and wait until Explore has drawn its task."""
    # from nothing: a change of the address alone would keep the page
    page.goto("about:blank")
    page.goto(f"file://{site}/{name}.html#{urlencode(where)}")
    if name == "explore":
        page.wait_for_selector("body[data-ready]")
