"""Every kind of page that is written, and the documentation, by the rules of axe-core, in light and
dark.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from planted import planted_data, planted_predictions
from sites import PAGES, made_site, report_of, yes_to_all

from nooch.analysis.audit import audit
from nooch.analysis.check import check
from nooch.analysis.leaderboard import leaderboard
from nooch.criteria import CE
from nooch.report.site.folder import page_environment
from nooch.suites.find import find
from nooch.suites.questions import Draw, draw_questions

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


@pytest.fixture(scope="session")
def page_of(tmp_path_factory):
    """Kind -> address of such a page."""
    folder = tmp_path_factory.mktemp("every_page")
    done, suite, data, _ = made_site(folder)
    found = {f"report {name}": done.path / f"{name}.html" for name in PAGES}
    answers = [yes_to_all(suite, ["car", "cow"], "model")]
    report_of(suite, folder / "answers", data=data, predictions=answers, bootstrap=0)
    found["answers"] = folder / "answers" / "index.html"
    planted = planted_data()
    for name, missed in (("old", 0.5), ("new", 0.9)):
        planted_predictions(planted, missed=missed).write_csv(folder / f"{name}.csv")
    given = {"bootstrap": 0, "slices": False}
    one = check(planted, folder / "old.csv", folder / "one", **given)
    files = [folder / "old.csv", folder / "new.csv"]
    two = check(planted, files, folder / "two", baseline="old", **given)
    found |= {"check": one.page, "check of two models": two.page}
    cars = find(planted, CE(), tasks=["car"], splits=["test"])
    audit(cars, [folder / "old.csv"], data=planted, out=folder / "audit")
    found["audit"] = folder / "audit" / "index.html"
    asked = draw_questions(cars, cars.keys, Draw()).frame
    for name, seed in (("first", 0), ("second", 1)):
        said = asked.sample(fraction=1, shuffle=True, seed=seed).with_columns(
            answer=pl.when(pl.col("label") == 1).then(pl.lit("Yes.")).otherwise(pl.lit("No."))
        )
        (folder / "models" / name).mkdir(parents=True)
        (folder / "models" / name / "model.yaml").write_text(f"name: the {name}\nwho: Ada\n")
        said.write_parquet(folder / "models" / name / "answers.parquet")
    leaderboard(folder / "models", suite=cars, baseline="first", out=folder / "board")
    found["leaderboard"] = folder / "board" / "index.html"
    addresses = {kind: file.as_uri() for kind, file in found.items()}
    image = data.select("test").image_ids[0]
    addresses["an image"] = f"{addresses['report explore']}#task=car&criterion=ce&image={image}"
    return addresses


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
