"""The notebook in ``examples``, executed, and what it displays in Chromium."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "check.ipynb"
WIDE = """() => [...document.querySelectorAll("table")].map((table) => table.parentElement)
  .filter((box) => box.scrollWidth > box.clientWidth)
  .map((box) => getComputedStyle(box).overflowX)"""


@pytest.fixture(scope="module")
def displayed(tmp_path_factory):
    """HTML that each cell displays, in order; a cell that fails is an error."""
    for name in ("nbclient", "ipykernel"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    copy = shutil.copy(NOTEBOOK, tmp_path_factory.mktemp("notebook"))
    # in a process of its own: nbclient leaves its event loop open
    run = [sys.executable, "-c", "from nbclient.cli import main; main()", "--inplace", copy]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    book = json.loads(Path(copy).read_text("utf-8"))
    outputs = [out for cell in book["cells"] for out in cell.get("outputs", [])]
    assert [out for out in outputs if out["output_type"] == "stream"] == []
    return ["".join(out["data"]["text/html"]) for out in outputs]


def test_every_result_is_displayed(displayed):
    data, checked, findings, slices, scores, challenge, table = displayed
    assert "Dataset(1,500 images" in data
    assert "road detector claims cars in images with a road but no car" in checked
    assert checked.count("data:image/jpeg;base64,") == 6
    titles = ["Findings(", "Slices(", "Scores(", "ChallengeSet(ce, car, test: 600 images)"]
    for title, html in zip(titles, [findings, slices, scores, challenge], strict=True):
        assert f"<bdi>{title}" in html
    assert "by_cue" in table


@pytest.mark.parametrize(
    "colors", ["background: #fff; color: #000", "background: #111; color: #eee"]
)
def test_pictures_load_and_wide_tables_scroll(displayed, page, colors):
    page.set_viewport_size({"width": 700, "height": 900})
    page.set_content(f'<!doctype html><body style="{colors}">{"".join(displayed)}')
    assert page.evaluate("[...document.images].map((one) => one.naturalWidth > 0)") == [True] * 6
    assert page.evaluate("document.documentElement.scrollWidth") == 700
    wide = page.evaluate(WIDE)
    assert wide
    assert set(wide) == {"auto"}
    # texts take the color of the notebook
    own = (
        "[...document.querySelectorAll(':not(a) > bdi')].map((one) => getComputedStyle(one).color)"
    )
    (color,) = {*page.evaluate(own)}
    assert color == page.evaluate("getComputedStyle(document.body).color")
