"""Every kind of page that is written, and the documentation, by the rules of axe-core, in light and
dark.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from sites import PAGES

from nooch.report.site.folder import page_environment

ROOT = Path(__file__).parents[2]
DOCS = ("index", "start", "evaluation", "reference/scores")
KINDS = {
    **{f"report {name}": f"{name}.html" for name in PAGES},
    "an image": "explore.html",
    "answers": "index.html",
    "check": "index.html",
    "check of two models": "index.html",
    "audit": "review.html",
    "leaderboard": "leaderboard.html",
}
"""Kind of page -> its template."""


@pytest.fixture
def violations(browser):
    """Function that gives the rules that a page breaks, with nodes; what is folded is open."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is missing"
    ).Axe()

    def found(address, scheme):
        context = browser.new_context(color_scheme=scheme, bypass_csp=True)
        page = context.new_page()
        page.goto(address)
        page.wait_for_load_state("networkidle")
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        broken = axe.run(page).response["violations"]
        context.close()
        return [f"{rule['id']}: {node['html']}" for rule in broken for node in rule["nodes"]]

    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_breaks_no_rule(violations, page_of, kind, scheme):
    assert violations(page_of[kind], scheme) == []


def test_no_template_is_left_out():
    templates = page_environment()
    pages = {
        name
        for name in templates.list_templates()
        if 'extends "base.html"' in templates.loader.get_source(templates, name)[0]
    }
    assert pages == set(KINDS.values())
    # and no page is written without them
    written = [
        file.name
        for file in (ROOT / "src").rglob("*")
        if file.suffix in {".py", ".html"} and re.search("<html[ >]", file.read_text("utf-8"))
    ]
    assert written == ["base.html"]


def test_the_documentation_breaks_no_rule(violations, tmp_path):
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    build = [sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(tmp_path / "docs")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    for name in DOCS:
        for scheme in ("light", "dark"):
            address = (tmp_path / "docs" / f"{name}.html").as_uri()
            assert violations(address, scheme) == [], (name, scheme)
