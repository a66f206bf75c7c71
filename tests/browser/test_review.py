"""The page of an audit in real Chromium: keys, what is kept, and the file that find takes."""

from __future__ import annotations

import polars as pl
import pytest
from PIL import Image
from scipy.sparse import csr_array
from sites import HOSTILE

from nooch.analysis.audit import audit
from nooch.criteria import Attribute
from nooch.data import Dataset
from nooch.suites.find import find
from nooch.suites.label_overlay import read_label_overlay


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """(folder, table, dataset) of an audit of 30 labels, four of them on the page."""
    folder = tmp_path_factory.mktemp("review")
    names = [f"{number}.png" for number in range(30)]
    for name in names:
        Image.new("RGB", (400, 200), "green").save(folder / name)
    ids = [f'im "{number}", {HOSTILE}' for number in range(30)]
    frame = pl.DataFrame({"image_id": ids, "file_name": names, "split": "all", "own": True})
    here = [[row % 3 > 0, row % 2 > 0] for row in range(30)]
    data = Dataset.build(frame, ["hot_dog", HOSTILE], csr_array(pl.Series(here).to_list()) * 0.2)
    suite = find(data, {"own": Attribute("own")}, tasks=["hot_dog"])
    done = audit(suite, data=data, images=folder, out=folder / "out", most=4)
    return folder / "out", done.table, data


def _open(page, folder):
    page.goto(f"file://{folder}/index.html")
    page.wait_for_selector("#pair h2")


def _done(page):
    return page.locator("#done").inner_text()


def test_a_person_reviews_with_keys_and_exports(audited, page, tmp_path):
    folder, table, data = audited
    _open(page, folder)
    assert page.locator("#pair h2").inner_text() == "hot dog?"
    assert _done(page) == "1 of 4, 0 judged"
    assert page.locator("#pair img").evaluate("image => image.naturalWidth") == 400
    # keys typed as a name are no verdicts
    page.locator("#reviewer").type('any "one", yes')
    page.locator("#reviewer").blur()
    assert _done(page) == "1 of 4, 0 judged"
    page.keyboard.press("n")
    page.keyboard.press("a")
    assert _done(page) == "3 of 4, 2 judged"
    page.keyboard.press("b")
    assert page.locator("[aria-pressed=true]").inner_text() == "ambiguous (a)"
    page.get_by_role("button", name="yes (y)").click()
    # what was said is still there, and can be changed
    _open(page, folder)
    assert _done(page) == "1 of 4, 2 judged"
    assert page.locator("[aria-pressed=true]").inner_text() == "no (n)"
    page.keyboard.press("s")
    page.keyboard.press("s")
    page.keyboard.press("a")
    with page.expect_download() as download:
        page.locator("#export").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    verdicts = pl.read_csv(file)
    assert verdicts.columns == ["image_id", "task", "verdict", "reviewer", "time"]
    assert verdicts["reviewer"].to_list() == ['any "one", yes'] * 2 + [""]
    overlay = read_label_overlay(file, data).frame.select("image_id", "verdict")
    expected = zip(table.head(3)["image_id"], [False, True, None], strict=True)
    assert dict(overlay.iter_rows()) == dict(expected)


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_window(audited, page, width):
    _open(page, audited[0])
    page.set_viewport_size({"width": width, "height": 844})
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.locator("h1").count() == 1
    assert page.locator("img:not([alt])").count() == 0
