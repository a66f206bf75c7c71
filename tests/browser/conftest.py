"""One Chromium for all browser tests, which are skipped where there is none, and a page of each
kind.
"""

from __future__ import annotations

import polars as pl
import pytest
from chromium import CHROMIUM, QUIET, watched_page
from planted import planted_data, planted_predictions
from sites import MARKUP, PAGES, made_site, report_of, yes_to_all

from nooch.analysis.audit import audit
from nooch.analysis.check import check
from nooch.analysis.leaderboard import leaderboard
from nooch.criteria import CE
from nooch.data import Dataset
from nooch.suites.find import find
from nooch.suites.questions import Draw, draw_questions


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
    planted = Dataset.build(planted.images, ["car", MARKUP, "tree"], planted.areas)
    for name, missed in (("old", 0.5), ("new", 0.9)):
        planted_predictions(planted_data(), missed=missed).write_csv(folder / f"{name}.csv")
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
