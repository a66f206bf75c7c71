"""Where things are on the pages of a report, measured in real Chromium, on the longest names that
occur.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from chromium import open_page, settle
from made_runs import made_runs
from sites import PAGES, report_of, site_data, site_suite, yes_to_all

from nooch.evaluation import Predictions

PHONE = {"width": 390, "height": 844}
# a width is looked at in one scheme, or in two with other pages
VIEWS = {
    "runs": {390: "light", 800: "dark", 900: "light", 1000: "dark", 1400: "light", 1600: "dark"},
    "alone": {390: "dark", 800: "light", 1400: "dark"},
}
RUN = "resnet50_supervised_imagenet1k_v2_finetuned_321px_environment-undersample_seed0_best"
# lamp has no context: it stands first, so that Explore has to look for a task with a set
CLASSES = ["baseball_glove", "sports_ball", "fire_hydrant", "structural-other", "person"]
CLASSES += ["playingfield", "ground-other"]
TASKS = ["fire_hydrant", "baseball_glove", "sports_ball"]
SETTINGS = {
    "erm": [()],
    "environment-undersample": [(("alpha", 1.0),)],
    "environment-reweight": [(("alpha", 0.5),)],
}


def _predictions(suite):
    random = np.random.default_rng(3)
    ids = suite.set(suite.criteria[0], TASKS[1], "test").image_ids
    return Predictions.from_arrays(
        random.normal(size=(len(ids), 2)), ids, TASKS[1:], scale="logit", run=RUN
    )


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """A report with runs and predictions, and one with predictions and answers alone; names are
    long.
    """
    folder = tmp_path_factory.mktemp("layout")
    (folder / "images").mkdir()
    data = site_data(folder / "images", classes=CLASSES)
    suite = site_suite(data, tasks=TASKS)
    runs = made_runs(folder / "runs", suite, tasks=TASKS[1:], settings=SETTINGS)
    predictions = [_predictions(suite)]
    options = {"data": data, "predictions": predictions, "bootstrap": 20}
    report_of(suite, folder / "runs-site", runs=[runs.path], **options)
    options["predictions"] = [*predictions, yes_to_all(suite, TASKS[1:], RUN)]
    report_of(suite, folder / "alone-site", **options)
    return {"runs": folder / "runs-site", "alone": folder / "alone-site"}


MEASURE = (Path(__file__).parent / "layout.js").read_text(encoding="utf-8")


# what is far below is laid out only when it is seen
OPEN = """() => {
  document.querySelectorAll("details").forEach((one) => { one.open = true; });
  const tasks = document.querySelectorAll(".example-task");
  tasks.forEach((one) => { one.style.contentVisibility = "visible"; });
}"""


@pytest.mark.parametrize("kind", VIEWS)
def test_nothing_overlaps_and_nothing_is_cut_off(sites, page, kind):
    found = []
    for name, (width, scheme) in product(PAGES, VIEWS[kind].items()):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        # charts are drawn for the width that they find
        opened = page.url.startswith(f"file://{sites[kind]}/{name}")
        if name in {"explore", "results"} or not opened:
            open_page(page, sites[kind], name, **({"task": TASKS[1]} if name == "explore" else {}))
            page.evaluate(OPEN)
        settle(page)
        found += [f"{name}, {width} px: {problem}" for problem in page.evaluate(MEASURE)]
    assert not found, "\n".join(found)


def test_explore_opens_on_a_task_with_a_set(sites, page, tmp_path):
    open_page(page, sites["runs"])
    assert page.locator("#task").input_value() == TASKS[1]
    assert "No set" not in page.locator("#counts").inner_text()
    open_page(page, sites["runs"], task=TASKS[0])
    assert "No set" in page.locator("#counts").inner_text()
    # what the address names stays, and the rest follows it: the first task has a set by gist alone
    suite = site_suite(site_data(tmp_path, classes=CLASSES, pictures=False), tasks=TASKS, tau=0.3)
    report_of(suite, tmp_path / "site")
    open_page(page, tmp_path / "site", task=TASKS[0], split="valid")
    assert page.locator("#criterion").input_value() == "gist"
    assert page.locator("#split").input_value() == "valid"
    open_page(page, tmp_path / "site", task=TASKS[0], criterion="ce")
    assert "No set" in page.locator("#counts").inner_text()


def test_names_stay_while_a_table_scrolls(sites, page):
    page.set_viewport_size(PHONE)
    open_page(page, sites["runs"], "index")
    box = page.locator("table.counts").first.locator("..")
    box.evaluate("(box) => { box.scrollLeft = 1000; }")
    assert box.evaluate("(box) => box.scrollLeft") > 0
    where = "(e) => e.getBoundingClientRect().left"
    for part in ("tbody th", "thead th"):
        assert box.locator(part).first.evaluate(where) == pytest.approx(box.evaluate(where), abs=2)


def test_charts_have_the_full_names_of_methods(sites, page):
    page.set_viewport_size(PHONE)
    open_page(page, sites["runs"], "results")
    page.wait_for_selector("#figures svg")
    svg = page.locator("#figures svg").first
    texts = "".join(svg.locator(".row-name").all_text_contents())
    assert texts == "".join(SETTINGS)
