"""The report in real Chromium, opened from disk."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import replace
from itertools import product

import numpy as np
import polars as pl
import pytest
from chromium import open_page, settle
from PIL import Image
from planted import planted_data, planted_detector, planted_predictions
from scipy.sparse import csr_array
from sites import CLASSES, HOSTILE, PAGES, made_site, report_of, site_data, site_suite

import nooch
from nooch.criteria import CE, Context, Gist
from nooch.data import Dataset
from nooch.evaluation import Predictions
from nooch.evaluation.explain import explain
from nooch.suites.find import find


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return made_site(tmp_path_factory.mktemp("browser"))


def _count(page, name):
    return int(page.locator(f"[data-count={name}]").inner_text().replace(",", ""))


def _set(page, name, value):
    page.locator(f"#exact-{name}").fill(repr(value))
    settle(page)


def _counts(page):
    return _count(page, "hard_positives"), _count(page, "hard_negatives")


def _hard(suite, criterion, task, split="test"):
    record = suite.record(criterion, task, split)
    return record.hard_positives, record.hard_negatives


def test_pages_open_from_disk(made, page):
    for name, width in product(PAGES, (1280, 390)):
        page.set_viewport_size({"width": width, "height": 844})
        if width == 1280:
            open_page(page, made[0].path, name)
        settle(page)
        assert page.locator("h1").count() == 1
        assert page.locator("nav a").count() == 5
        text = page.locator("main").inner_text()
        assert not re.search(r"\b(null|undefined|NaN|Infinity|object)\b", text), name
        assert page.locator("img:not([alt])").count() == 0
        assert page.locator("svg[role=img]:not([aria-label])").count() == 0
        wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wider <= 0, f"{name} is wider than {width}"


def test_sliders_give_what_find_gives(made, page):
    done, suite, data, _ = made
    exact = [a for listed in suite.header.criteria["ce"].cues.values() for _, a in listed][:2]
    tasks = ["car", "cow"]
    grid = product((0.0, *exact, 0.3), (0.1, 0.30000000000000004, 1.0))
    criteria = {at: {"ce": CE(*at), "gist": Gist("words")} for at in grid}
    suites = {at: find(data, each, tasks=tasks, match="ce") for at, each in criteria.items()}
    for task in tasks:
        open_page(page, done.path, task=task, criterion="ce")
        assert _counts(page) == _hard(suite, "ce", task)
        for (alpha, beta), found in suites.items():
            page.locator("#criterion").select_option("ce")
            page.locator("#exact-alpha").fill(repr(alpha))
            _set(page, "beta", beta)
            if ("ce", task, "test") not in found.keys:
                assert "No set" in page.locator("#counts").inner_text()
                continue
            assert _counts(page) == _hard(found, "ce", task), (alpha, beta)
            page.locator("#criterion").select_option("gist")
            assert _counts(page) == _hard(found, "gist", task), (alpha, beta)


def test_tau_gives_what_find_gives(made, page):
    done, _, data, _ = made
    open_page(page, done.path, task="cow", criterion="gist", split="valid")
    page.locator("input[name=mode][value=tau]").check()
    support = site_suite(data, tau=0.5).set("gist", "cow", "valid").support
    for tau in (-1.0, 0.0, 0.31, float(np.median(support)), float(support.max()), 1.0):
        found = find(data, {"gist": Gist("words", tau)}, tasks=["cow"])
        _set(page, "tau", tau)
        assert _counts(page) == _hard(found, "gist", "cow", "valid"), tau


MARKS = """async ([name, settings, criterion]) => {
  const site = await nooch.load("site"), task = nooch.marks.open(await nooch.load(name));
  const found = nooch.marks.apply(task, site.criteria, criterion, settings);
  return found.reason ? found : { marks: Array.from(found.marks), thresholds: found.thresholds };
}"""


def test_the_very_images_are_those_of_find(made, page):
    done, suite, data, _ = made
    open_page(page, done.path)
    for alpha, beta in [(0.0, 0.25), (0.08, 0.05), (0.5, 0.1)]:
        criteria = {"ce": CE(alpha, beta), "gist": Gist("words")}
        found = find(data, criteria, tasks=suite.tasks, match="ce")
        settings = {"ce": {"alpha": alpha, "beta": beta}, "gist": {"mode": "matched"}, "both": {}}
        for key in product(("ce", "gist"), suite.tasks, ("valid", "test")):
            criterion, task, split = key
            name = f"task-{suite.tasks.index(task)}-{split}"
            got = page.evaluate(MARKS, [name, settings, criterion])
            if key not in found.keys:
                assert got["reason"]
                continue
            one, ids = found.set(*key), data.select(split).images["image_id"].to_list()
            marks = np.array(got["marks"])
            for code, subset in enumerate(("hard_positive", "hard_negative")):
                hard = [i for i, mark in zip(ids, marks, strict=True) if mark == code]
                assert hard == one.ids(subset)
            assert (marks == 255).sum() == sum(one.excluded)
            thresholds = [one.positive.threshold, one.negative.threshold]
            assert got["thresholds"] == pytest.approx(thresholds, rel=1e-12)


WORDS = """async ([name, split]) => {
  const site = await nooch.load("site"), task = nooch.marks.open(await nooch.load(name));
  const about = await nooch.load(`images-${split}-0`), images = await nooch.load(`split-${split}`);
  const mode = (one) => (one.match ? "matched" : "marks");
  const own = (one) => ({ alpha: one.alpha, beta: one.beta, tau: one.tau, mode: mode(one) });
  const settings = Object.fromEntries(site.criteria.map((one) => [one.name, own(one)]));
  return site.criteria.map((one) => {
    const found = nooch.marks.apply(task, site.criteria, one.name, settings);
    const words = (row) =>
      nooch.inWords.verdict(task, one, found, row, settings, about.captions[row], images);
    return Array.from({ length: task.n }, (_, row) => words(row));
  });
}"""


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    """A report with a context criterion, its suite and data."""
    folder = tmp_path_factory.mktemp("explained")
    data = site_data(folder, pictures=False)
    suite = site_suite(data, context=True)
    return report_of(suite, folder / "site", data=data, bootstrap=0), suite, data


@pytest.fixture(scope="module")
def by_columns(tmp_path_factory):
    """The same, whose context is columns of text, numbers and yes and no."""
    folder = tmp_path_factory.mktemp("by-columns")
    data, random = site_data(folder, pictures=False), np.random.default_rng(0)
    n, car = len(data), data.labels("car")
    columns = {"scanner": np.where(random.random(n) < 0.2 + 0.6 * car, "GE", "Siemens"),
               "age": random.integers(20, 90, n), "night": random.random(n) < 0.5}  # fmt: skip
    added = [pl.Series(name, values) for name, values in columns.items()]
    data = replace(data, images=data.images.with_columns(added))
    suite = find(data, {"labels": Context(columns=[*columns])}, tasks=["car", "cow"])
    return report_of(suite, folder / "site", data=data, bootstrap=0), suite, data


@pytest.mark.parametrize("world", ["made", "explained", "by_columns"])
def test_explanations_are_those_of_nooch_explain(world, request, page):
    done, suite, data, *_ = request.getfixturevalue(world)
    open_page(page, done.path)
    ids = data.select("test").images["image_id"].to_list()
    for number, task in enumerate(suite.tasks[:2]):
        got = page.evaluate(WORDS, [f"task-{number}-test", "test"])
        for row, image_id in [*enumerate(ids)][::3]:
            expected = [v["text"] for v in explain(suite, task, image_id, data)["verdicts"]]
            # long captions are cut on the page
            assert [g[row][:300] for g in got] == [e[:300] for e in expected]
            assert ("times the base rate" in expected[-1]) == (world != "made")


@pytest.mark.parametrize("world", ["explained", "by_columns"])
def test_bars_show_what_speaks_for_and_against_a_class(world, request, page):
    done, suite, data = request.getfixturevalue(world)
    one = suite.set("labels", "car", "test")
    row = int(one.support.argmax())
    image = one.image_ids[row]
    fitted = suite.header.criteria["labels"].restored()
    parts = fitted.contributions(data.select(rows=np.array([data.row(image)])), "car")
    open_page(page, done.path, task="car", criterion="labels", image=str(image))
    bars = page.locator("dialog .cue-list li.for, dialog .cue-list li.against")
    shown = [text.split("\n") for text in bars.all_inner_texts()]
    wanted = [p for p in parts if abs(p[2]) > 0.05][:8]
    assert len(wanted) > 1
    own = data.select(rows=np.array([data.row(image)]))
    names = [fitted.words(name, own, present=there) for name, there, _ in wanted]
    assert [text[0].strip() for text in shown] == names
    assert [text[-1].strip() for text in shown] == [f"{value:+.1f}" for *_, value in wanted]


def test_numbers_are_written_as_python_writes_them(made, page):
    open_page(page, made[0].path)
    random = np.random.default_rng(0)
    values = [0.0, 1.0, -2.5, 0.03125, 0.28125, 1 / 3, 999.5, 1000.0, 12345.0]
    values += [1e-5, 0.00012345, 99.95, 0.1, 9.995, *(k / 1024 for k in range(0, 1024, 7))]
    values += (random.normal(size=200) * 10.0 ** random.integers(-7, 7, 200)).tolist()
    for n in (2, 3):
        shown = page.evaluate(f"(values) => values.map((value) => nooch.short(value, {n}))", values)
        assert shown == [f"{v:.{n}g}" for v in values]


RANKED = "(all) => Array.from(nooch.marks.ranked([...all.keys()], (k) => all[k]))"


def test_rows_are_ranked_as_numpy_sorts_them(made, page):
    open_page(page, made[0].path)
    random = np.random.default_rng(0)
    for n in (0, 1, 2, 300, 5000):
        values = random.choice([np.nan, np.inf, -np.inf, -0.0, 0.0, *random.normal(size=40)], n)
        assert page.evaluate(RANKED, values.tolist()) == np.argsort(values, kind="stable").tolist()


def _shown(page):
    return page.locator(".card").evaluate_all(
        "(cards) => cards.sort((a, b) => parseInt(a.id.slice(5)) -"
        " parseInt(b.id.slice(5))).map((card) => card.dataset.id)"
    )


def test_sorting_filters_and_the_link(made, page):
    done, suite, data, _ = made
    open_page(page, done.path, task="cow", criterion="ce", show="hard_negative", sort="support")
    one = suite.set("ce", "cow", "test")
    rows = np.flatnonzero(one.subset == 1)
    ordered = rows[np.argsort(-one.support[rows], kind="stable")]
    expected = [str(one.image_ids[int(row)]) for row in ordered]
    assert _shown(page) == expected[: len(_shown(page))]
    page.locator("#sort").select_option("id")
    assert _shown(page) == sorted(expected, key=int)[: len(_shown(page))]
    page.locator("#sort").select_option("gap")
    assert page.locator("#other-label").is_visible()
    page.locator("#filter").fill(expected[0])
    assert expected[0] in _shown(page)
    page.locator("#filter").fill("plain CAPTION")
    settle(page)
    plain = data.captions.filter(pl.col("caption").str.contains("plain"))
    assert set(map(int, _shown(page))) == {int(i) for i in expected} & set(plain["image_id"])
    page.locator("#filter").fill("")
    page.locator("#drawn").check()
    assert page.locator(".card .no-picture").count() == 0
    _set(page, "beta", 0.2)
    before = _counts(page)
    page.wait_for_function("() => location.hash.includes('ce.beta=0.2')")
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    assert _counts(page) == before
    assert page.locator("#sort").input_value() == "gap"
    assert page.locator("#drawn").is_checked()
    assert page.locator("#task").input_value() == "cow"


def test_the_keyboard_does_everything(made, page):
    open_page(page, made[0].path, task="car", criterion="ce", show="easy", sort="id")
    page.locator("#slide-beta").focus()
    before = _counts(page)
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    settle(page)
    assert float(page.locator("#exact-beta").input_value()) == pytest.approx(0.2)
    assert _counts(page) != before
    page.locator("#subsets [tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("[data-show=hard_positive]").get_attribute("aria-checked") == "true"
    page.locator("#gallery").focus()
    page.keyboard.press("ArrowRight")
    chosen = page.locator(".card[aria-selected=true]").get_attribute("data-id")
    page.keyboard.press("Enter")
    title = page.locator("dialog h2")
    assert title.inner_text() == f"Image {chosen}"
    page.keyboard.press("ArrowRight")
    assert title.inner_text() != f"Image {chosen}"
    shown = title.inner_text().removeprefix("Image ")
    page.wait_for_function("(id) => location.hash.endsWith(`image=${id}`)", arg=shown)
    address = page.url
    page.keyboard.press("Escape")
    assert not page.locator("dialog").is_visible()
    assert page.evaluate("document.activeElement.id") == "gallery"
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("dialog[open]")
    assert title.inner_text() == f"Image {shown}"


def test_hostile_captions_class_and_file_names_are_text(tmp_path, page):
    folder = tmp_path / "images"
    folder.mkdir()
    classes = [f"{name}<img src=x onerror='hacked=1'>\"&\u202e{{{{7*7}}}}" for name in CLASSES]
    data = site_data(folder, classes=classes)
    suite = site_suite(data, tasks=classes[:2])
    report_of(suite, tmp_path / "site", data=data)
    for file in (tmp_path / "site").glob("*.html"):
        open_page(page, tmp_path / "site", file.stem)
        settle(page)
        assert page.locator("main img[src='x']").count() == 0
    image = str(data.select("test").images["image_id"][3])
    open_page(page, tmp_path / "site", task=classes[0], image=image)
    page.wait_for_selector("dialog[open] .captions li")
    words = page.locator("dialog").inner_text()
    assert "<img src=x onerror='hacked=1'>" in words
    assert "\u202e" not in words
    assert 'a"><script>hacked=1<script>.jpg' in words
    texts = " ".join(page.locator(".captions").all_inner_texts())
    known = (HOSTILE.split("\u2028", maxsplit=1)[0], "characters)", "plain caption")
    assert any(text in texts for text in known)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize("left", ["dataset", "everything"])
def test_without_a_dataset_alpha_stays_and_the_page_says_why(tmp_path, page, left):
    data = site_data(tmp_path, pictures=False)
    suite = site_suite(data, tau=0.3 if left == "everything" else None)
    report_of(suite, tmp_path / "site")
    open_page(page, tmp_path / "site", task="car", criterion="ce")
    assert page.locator("#exact-alpha").count() == 0
    assert "cannot be moved" in page.locator("#bounds").inner_text()
    assert "Without the dataset" in page.locator("#missing").inner_text()
    for beta in (0.05, 0.1, 0.3):
        _set(page, "beta", beta)
        found = find(data, {"ce": CE(0.05, beta)}, tasks=["car"])
        assert _counts(page) == _hard(found, "ce", "car")
    page.locator("#task").select_option("lamp")
    settle(page)
    assert "No set" in page.locator("#counts").inner_text()
    page.locator(".card").count()


def _large(n=24657, tasks=6):
    """As many images as COCO's test split."""
    random = np.random.default_rng(0)
    total = n + 4000
    dense = np.where(random.random((total, 30)) < 0.25, random.random((total, 30)).round(3), 0)
    # four classes are large: they are the cues of all tasks
    dense[:, :tasks] *= 0.1
    dense[:, tasks + 4 :] *= 0.3
    splits = ["train"] * 4000 + ["test"] * n
    frame = pl.DataFrame({"image_id": np.arange(total), "split": splits})
    classes = [f"class{i}" for i in range(30)]
    embeddings = {"words": random.normal(size=(total, 8))}
    data = Dataset.build(frame, classes, csr_array(dense), embeddings=embeddings)
    criteria = {"ce": CE(0.05, 0.1), "gist": Gist("words")}
    return data, find(data, criteria, tasks=classes[:tasks], match="ce")


SWITCH = """(task) => new Promise((done) => {
  const from = performance.now(), select = document.getElementById("task");
  const ready = () =>
    document.body.dataset.ready.startsWith(`${task} `) && done(performance.now() - from);
  new MutationObserver(ready).observe(document.body, { attributeFilter: ["data-ready"] });
  select.value = task;
  select.dispatchEvent(new Event("change"));
})"""
SLIDE = """() => new Promise((done) => {
  const slide = document.getElementById("slide-beta"), from = performance.now();
  const finish = () => requestAnimationFrame(() => done(performance.now() - from));
  slide.value = "0.4";
  slide.dispatchEvent(new Event("input"));
  requestAnimationFrame(finish);
})"""


def test_tasks_of_24657_images_switch_at_once(tmp_path, page, capsys):
    data, suite = _large()
    part, random = data.select("test"), np.random.default_rng(1)
    runs = []
    for number in range(3):
        about = {"scale": "logit", "run": f"model {number}"}
        values = random.normal(size=(len(part), len(suite.tasks)))
        runs.append(Predictions.from_arrays(values, part.image_ids, suite.tasks, **about))
    # the pages are what is tested, and a thousand resamples take minutes
    report_of(suite, tmp_path / "site", data=data, predictions=runs, bootstrap=5)
    start = time.perf_counter()
    open_page(page, tmp_path / "site", task="class0", criterion="ce")
    first = time.perf_counter() - start
    spans, slides = [], []
    for number in range(1, 6):
        page.locator("#reset").click()
        spans.append(page.evaluate(SWITCH, f"class{number}"))
        assert _counts(page) == _hard(suite, "ce", f"class{number}")
        slides.append(page.evaluate(SLIDE))
    switch, slide = (f"{min(values):.0f} to {max(values):.0f} ms" for values in (spans, slides))
    said = f"first view {first * 1000:.0f} ms, switch {switch}, slider {slide}"
    with capsys.disabled():
        sys.stdout.write(f"\n24,657 images: {said}\n")


def test_cues_alone_are_those_of_the_suite(made, page):
    done, suite, _, _ = made
    for task in ("car", "cow"):
        open_page(page, done.path, task=task, criterion="ce", method="gdro", sort="loss")
        one, cues = suite.set("ce", task, "test"), suite.header.criteria["ce"].cues[task]
        rows = page.locator("#cues tbody tr").evaluate_all(
            "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.firstChild.textContent))"
        )
        for bit, ((cue, strength), row) in enumerate(zip(cues, rows, strict=True)):
            alone = (one.by_cue >> np.uint64(bit) & np.uint64(1)).astype(bool)
            counts = [str((alone & side).sum()) for side in (one.labels, ~one.labels)]
            assert row == [cue, f"{strength:.3g}", *counts]
        words = page.locator("#cue-panel").inner_text()
        assert "NLL of gdro" in words
        assert "null" not in words


def test_images_without_a_prediction_have_no_loss(tmp_path, page):
    data = site_data(tmp_path, pictures=False)
    suite = site_suite(data)
    part = data.select("test")
    some = part.image_ids[: len(part) // 2]
    run = Predictions.from_arrays(
        np.linspace(-3, 3, len(some)), some, "car", scale="logit", run="mine"
    )
    report_of(suite, tmp_path / "site", data=data, predictions=[run], bootstrap=0)
    open_page(page, tmp_path / "site", task="car", criterion="ce", show="easy", sort="loss")
    assert "lowest loss first" in page.locator("#gallery-note").inner_text()
    _set(page, "beta", 0.3)
    assert "NaN" not in page.locator("main").inner_text()
    page.locator("#split").select_option("valid")
    settle(page)
    assert "there is no loss to sort by here" in page.locator("#gallery-note").inner_text()


def test_images_of_a_finding_are_saved_and_shown_by_its_number(page, tmp_path):
    data = planted_data()
    checked = nooch.check(data, planted_predictions(data), tmp_path / "c", bootstrap=0)
    open_page(page, checked.page.parent, "index")
    (row,) = checked.numbered.to_dicts()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export these images").click()
    assert saved.value.suggested_filename == "finding-1.txt"
    listed = [*map(str, row["wrong"] + row["right"])]
    assert saved.value.path().read_text().splitlines() == listed
    page.locator("#finding-1 a").first.click()
    settle(page)
    page.locator("#finding p:not(:empty)").wait_for()
    assert page.locator("#finding p").inner_text().startswith(f"1. {row['sentence']}: ")


def test_boxes_of_the_run_of_a_finding_are_over_its_images(page, tmp_path):
    """Of objects as many as there are, the missed ones dashed, and boxes of no object."""
    data, new, _ = planted_detector()
    (tmp_path / "images").mkdir()
    names = [f"{number:04}.png" for number in range(len(data))]
    for name in names:
        Image.new("RGB", (40, 10), "gray").save(tmp_path / "images" / name)
    images = data.images.with_columns(file_name=pl.Series(names))
    data = Dataset.build(images, data.classes, data.areas, objects=data.objects)
    boxes = replace(new.boxes, scores=new.boxes.scores * 0.1)
    old = replace(new, run="1", boxes=boxes, values=new.values * 0.1)
    checked = nooch.check(
        data, [old, new], tmp_path / "c", baseline="1", criterion=["ce"], bootstrap=0,
        slices=False, images=tmp_path / "images", threshold=0.5,
    )  # fmt: skip
    first = next(one for one in checked.answer.numbered if one.kind == "better")
    shown = next(one.boxes for one in first.shown)
    row = first.shown[0].row
    place = f"#task=car&finding={first.number}&image={row}"
    page.goto((checked.page.parent / "explore.html").as_uri() + place)
    settle(page)
    for place in (f'.gallery [data-id="{row}"]', "#viewer .stage"):
        drawing = page.locator(f"{place} svg.boxes")
        assert drawing.get_attribute("viewBox") == "0 0 400 100"
        for kind in ("found", "missed", "false"):
            drawn = drawing.locator(f"rect.{kind}")
            corners = [[float(one.get_attribute(side)) for side in ("x", "y", "width", "height")]
                       for one in drawn.all()]  # fmt: skip
            assert corners == [pytest.approx(box) for box in getattr(shown, kind)]
    assert f"detector: {shown.words}" in page.locator("#viewer").inner_text()
