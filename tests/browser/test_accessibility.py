"""Pages of a report and of the documentation, by the rules of axe-core, in light and dark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sites import PAGES, made_site

ROOT = Path(__file__).parents[2]
DOCS = ("index", "start", "evaluation", "reference/scores")


@pytest.fixture
def violations(browser):
    """Function that gives the rules that a page breaks, each with a node."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is missing"
    ).Axe()

    def found(file, scheme):
        context = browser.new_context(color_scheme=scheme, bypass_csp=True)
        page = context.new_page()
        page.goto(file.as_uri())
        page.wait_for_load_state("networkidle")
        broken = axe.run(page).response["violations"]
        context.close()
        return [f"{rule['id']}: {node['html']}" for rule in broken for node in rule["nodes"]]

    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_breaks_no_rule(violations, tmp_path, scheme):
    made_site(tmp_path)
    for name in PAGES:
        assert violations(tmp_path / "site" / f"{name}.html", scheme) == [], name


def test_the_documentation_breaks_no_rule(violations, tmp_path):
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    build = [sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(tmp_path / "docs")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    for name in DOCS:
        for scheme in ("light", "dark"):
            assert violations(tmp_path / "docs" / f"{name}.html", scheme) == [], (name, scheme)
