"""The poster next to the page of a check: what it shows, with any names, and when there is none."""

import io
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from PIL import Image, ImageDraw
from planted import planted_data, planted_predictions
from sites import HOSTILE, LONG

import nooch
from nooch.data import Dataset
from nooch.evaluation.rate_words import Rate
from nooch.report.answer import Answer, ErrorFinding, ShownImage
from nooch.report.images.drawn_boxes import DrawnBoxes
from nooch.report.images.poster import POSTER, SIZE, draw_poster

ORANGE, WHITE = (213, 94, 0), (255, 255, 255)


def _answer(name="car", rates=(0.6, 0.1), n=6):
    where = f"without a {name}", f"with a {name}"
    words = f"The model misses {name} without a {name} 6 times as often"
    shown = [
        ShownImage(i, str(i), f"{i}.jpg", name, f"no {name}", wrong=i < n - 2, where=where[i > 3])
        for i in range(n)
    ]
    low_high = zip(where, rates, strict=True)
    bars = [Rate(text, value, 100, value, value) for text, value in low_high]
    given = "context", name, "m", "positive", "The model misses", words, "", 0.1, bars
    return Answer(words, "test", [ErrorFinding(*given, shown=shown, number=1)])


def _pictures(folder, answer):
    files = []
    for image in answer.findings[0].shown:
        shape = [(60, 90), (90, 60), (10, 400), (400, 10), (1, 1), (640, 640)][image.row % 6]
        file = folder / f"{image.row}.png"
        Image.fromarray(np.full((*shape, 3), 100, np.uint8)).save(file)
        files.append((image, file))
    return files


def _drawn(content):
    with Image.open(io.BytesIO(content)) as image:
        assert (image.size, image.format) == (SIZE, "PNG")
        return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize(
    "name",
    [
        "car",
        "pickup truck with an extended cab " * 4,
        "машина",
        "سيارة",
        "x" * 900,
        HOSTILE,
        LONG,
        "",
    ],
    ids=["short", "long", "Cyrillic", "Arabic", "one word", "hostile", "very long", "empty"],
)
@pytest.mark.parametrize("n", [0, 1, 6])
def test_nothing_leaves_the_poster_and_bytes_are_equal(name, n, tmp_path):
    answer = _answer(name, n=n)
    pictures = _pictures(tmp_path, answer)
    content, note = draw_poster(answer, pictures)
    assert (content, note) == draw_poster(answer, pictures)
    if content is None:
        # no font of this computer has them
        assert name == HOSTILE
        assert note.startswith("no poster.png: no font")
        return
    pixels = _drawn(content)
    edges = pixels[:30], pixels[-30:], pixels[:, :30], pixels[:, -30:]
    assert all((edge == 255).all() for edge in edges)
    # each picture once: gray of its own
    assert bool((pixels == 100).all(axis=2).any()) == (n > 0)


@pytest.mark.parametrize("rates", [(0.0, 0.0), (0.25, 0.5), (1.0, 0.75)])
def test_bars_are_as_long_as_the_rates(rates):
    pixels = _drawn(draw_poster(_answer(rates=rates), [])[0])
    tracks = (pixels == (230, 233, 236)).all(axis=2) | (pixels == ORANGE).all(axis=2)
    tracks |= (pixels == (140, 149, 159)).all(axis=2)
    long = [row for row in range(SIZE[1]) if tracks[row].sum() > 390]
    for color, value in zip((ORANGE, (140, 149, 159)), rates, strict=True):
        reach = max((pixels[row] == color).all(axis=1).sum() for row in long)
        assert abs(reach - 400 * value) <= 1


def test_a_finding_of_which_there_is_none_and_names_without_a_font():
    assert draw_poster(Answer("nothing", "test", []), []) == (None, "")
    content, note = draw_poster(_answer("🦊が"), [])
    assert content is None
    assert note.startswith("no poster.png: no font")


def test_a_check_writes_it_with_the_pictures_that_can_be_read(tmp_path):
    data = planted_data(800)
    files = pl.format("{}.png", "image_id").alias("file_name")
    data = Dataset.build(data.images.with_columns(files), data.classes, data.areas)
    (tmp_path / "photos").mkdir()
    for image in data.images["file_name"]:
        Image.new("RGB", (64, 48), (100, 100, 100)).save(tmp_path / "photos" / image)
    said = planted_predictions(data)
    made = {}
    for name, folder in {"a": "photos", "b": "photos", "none": None}.items():
        images = folder and tmp_path / folder
        given = {"bootstrap": 0, "stability": 0, "slices": False, "images": images}
        checked = nooch.check(data, said, tmp_path / name, **given)
        made[name] = (checked.page.parent / POSTER).read_bytes()
    assert made["a"] == made["b"]
    assert (_drawn(made["a"]) == 100).all(axis=2).sum() > 6 * 100 * 80
    assert not (_drawn(made["none"]) == 100).all(axis=2).any()
    # a model that errs everywhere alike has no finding
    same = planted_predictions(data, missed=0.1, claimed=0.1)
    checked = nooch.check(data, same, tmp_path / "same", bootstrap=0, stability=0, slices=False)
    assert not checked.answer.numbered
    assert not (checked.page.parent / POSTER).exists()


def test_boxes_are_over_the_pictures(tmp_path):
    """Found objects and false boxes are whole lines, missed objects are dashed to six tenths."""
    boxes = DrawnBoxes(600, 400, [(0, 0, 200, 200)], [(200, 0, 200, 200)], [(400, 0, 200, 200)])
    sheet = Image.new("RGB", (400, 300))
    boxes.draw(ImageDraw.Draw(sheet), 50, 20, 0.5)
    pixels = np.asarray(sheet)
    assert not pixels[:19].any()
    assert not pixels[:, :48].any()
    assert not pixels[30:110, [100, 200, 300]].any()
    for y in (20, 120):
        line = pixels[y]
        assert (line[52:148] == (0, 158, 115)).all()
        assert (line[152:248] == ORANGE).all(axis=1).mean() == pytest.approx(0.65, abs=0.06)
        assert (line[252:348] == ORANGE).all()
    answer = _answer(n=3)
    (finding,) = answer.findings
    shown = [replace(image, boxes=boxes) for image in finding.shown]
    drawn = replace(answer, findings=[replace(finding, shown=shown)])
    posters = [_drawn(draw_poster(one, _pictures(tmp_path, one))[0]) for one in (answer, drawn)]
    green = [(pixels[330:] == (0, 158, 115)).all(axis=2).any() for pixels in posters]
    assert green == [False, True]
