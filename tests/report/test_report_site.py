"""The report's files: every number on them recomputed from the suite, the dataset and the runs."""

import json
import re
from dataclasses import replace
from importlib import resources

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from oracles import dataset_of
from refusals import fails, refused
from sites import (
    HOSTILE,
    TASKS,
    made_site,
    numbers,
    page_text,
    read_script,
    report_of,
    site_data,
    site_suite,
    tables_of_page,
)

from nooch.base.errors import OutputError
from nooch.criteria import CE
from nooch.data import save_dataset
from nooch.evaluation import CELLS, load_predictions
from nooch.evaluation.metrics.pointwise import losses
from nooch.report import save_scores
from nooch.report.images.thumbnails import SplitImages
from nooch.report.results.collect import score_runs
from nooch.report.results.pairs import paired_results
from nooch.report.results.run_results import read_results
from nooch.report.site.explore_data import criterion_parts, page_cues, script, shown_criteria
from nooch.suites import SUBSETS, save_suite
from nooch.suites.find import find
from nooch.suites.summary import overlaps


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return made_site(tmp_path_factory.mktemp("report"))


def _rows(suite, key, ids):
    return np.array([ids.index(i) for i in suite.set(*key).image_ids.to_list()])


def test_data_are_those_of_the_suite_bit_by_bit(made):
    done, suite, data, _ = made
    fitted = CE(0.05, 0.1).fit(data.select("train"))
    for number, task in enumerate(suite.tasks):
        for split in suite.splits:
            _, content = read_script(done.path / f"data/task-{number}-{split}.js")
            part = data.select(split)
            ids = read_script(done.path / f"data/split-{split}.js")[1]["ids"]
            assert ids == part.images["image_id"].to_list()
            assert numbers(content["labels"]).tolist() == part.labels(task).tolist()
            for cue, packed in content["areas"].items():
                rows, values = part.rows_of(cue)
                assert numbers(packed["rows"]).tolist() == rows.tolist()
                assert numbers(packed["values"]).tobytes() == values.tobytes()
            for criterion in suite.criteria:
                found = content["criteria"][criterion]
                key = criterion, task, split
                if key not in suite.keys:
                    assert "marks" not in found
                    assert found["reason"]
                    continue
                one, at = suite.set(*key), _rows(suite, key, ids)
                assert numbers(found["marks"])[at].tolist() == one.subset.tolist()
                assert (np.delete(numbers(found["marks"]), at) == 255).all()
                if criterion == "gist":
                    assert numbers(found["support"])[at].tobytes() == one.support.tobytes()
                    assert np.isnan(np.delete(numbers(found["support"]), at)).all()
                if criterion == "ce":
                    strengths = {c: fitted.strength(c, task) for c in data.classes if c != task}
                    ordered = sorted(strengths.items(), key=lambda pair: -pair[1])
                    expected = [pair for pair in ordered if pair[1] > 0][:8]
                    assert [(cue["name"], cue["A"]) for cue in found["cues"]] == expected


def test_losses_are_means_over_seeds_of_the_chosen_setting(made):
    done, suite, data, runs = made
    cells = read_results(runs.path, [suite]).cells.filter(pl.col("task") != "average")
    part = data.select("test")
    for number, task in enumerate(suite.tasks[:2]):
        _, content = read_script(done.path / f"data/task-{number}-test.js")
        assert {"ce", "gist"} <= set(content["methods"])
        for criterion, methods in content["methods"].items():
            assert sorted(methods) == ["erm", "gdro", "label-reweight"]
            for method, place in methods.items():
                chosen = cells.filter(criterion=criterion, task=task, method=method)
                (setting,) = chosen["setting"].unique()
                seeds = []
                for name, job in runs.header.jobs.items():
                    if (job.task, job.method, job.setting) != (task, method, setting):
                        continue
                    outputs = runs.predictions(name).filter(split="test")
                    logit = dict(outputs.select("image_id", "logit").rows())
                    values = np.array([logit[i] for i in part.images["image_id"]], dtype=float)
                    seeds.append(losses(part.labels(task), values, "logit"))
                assert len(seeds) == 3
                found = numbers(content["losses"][place])
                assert np.allclose(found, np.mean(seeds, axis=0), rtol=1e-6, atol=0)


def test_overview_has_the_suites_counts_thresholds_cues_and_overlap(made):
    done, suite, _, _ = made
    tables = tables_of_page(done.path / "index.html")
    counts = {row[0]: row[1:] for row in tables["Counts, test"][2:]}
    for task in suite.tasks:
        expected = []
        for criterion in suite.criteria:
            if (criterion, task, "test") in suite.keys:
                record = suite.record(criterion, task, "test")
                hard = record.hard_positives, record.hard_negatives
                # a star marks fewer than 20
                expected += [f"{n}*" if n < 20 else str(n) for n in hard]
            else:
                expected += ["–", "–"]
        assert counts[task][:-2] == expected
    limits = {tuple(row[:2]): row[2:] for row in tables["Thresholds on support (test)"][1:]}
    record = suite.record("gist", "car", "test")
    assert limits["gist", "car"][0].rstrip("*") == f"{record.threshold_positive:.3g}"
    assert limits["gist", "car"][1].rstrip("*") == f"{record.threshold_negative:.3g}"
    cues = [[row[-2], row[-1]] for row in tables["Context cues (ce)"][1:]]
    assert cues == [
        [c, f"{a:.3g}"] for listed in suite.header.criteria["ce"].cues.values() for c, a in listed
    ]
    expected = []
    for o in overlaps(suite):
        counts = map(str, (o["both"], *o["only"]))
        expected.append([o["task"], o["split"], o["side"], " / ".join(o["criteria"]), *counts])
    assert [row[:7] for row in tables["Overlap of criteria"][1:]] == expected
    skipped = f"Without a set: {len(suite.header.skipped)}"
    assert "no class has A(C, lamp) > 0.05" in str(tables[skipped])


def test_results_are_those_of_nooch_results(made):
    done, suite, _, runs = made
    cells = read_results(runs.path, [suite]).cells
    tables = tables_of_page(done.path / "results.html")
    title = next(n for n in tables if n.startswith("Table 3") and "compared" not in n)
    assert "Compared with the paper" in page_text(done, "results")
    head, *rows = tables[title]
    assert rows[-1][0] == "average of 2"
    for row in rows:
        task = row[0].split(" of ")[0]
        for method, text in zip(head[3:], row[3:], strict=True):
            about = {"criterion": "ce", "metric": "auc", "subset": "hard"}
            (cell,) = cells.filter(**about, task=task, method=method).to_dicts()
            assert text.startswith(f"{cell['mean']:.3f} ({cell['std']:.3f})")
    _, points = read_script(done.path / "data/results.js")
    frame = pl.DataFrame(points)
    keys = ["criterion", "metric", "subset", "task", "method"]
    both = frame.join(cells, on=keys, how="left")
    assert both.height == frame.height > 100
    # each hard side is drawn next to the easy one of its label, and averages say over how many
    # tasks they are
    assert set(frame.filter(metric="error")["subset"]) == set(CELLS)
    over = set(both.filter(task="average").select("over", "n_tasks").unique().rows())
    assert ("average of 2", 2) in over
    assert over <= {("average of 2", 2), ("average of 1 of 2", 1), ("average of 0 of 2", 0)}
    assert set(frame.filter(pl.col("task") != "average")["over"]) == {None}
    assert (both["mean"] == both["mean_right"]).all()
    metrics = ["auc", "error", "nll", "ece"]
    options = {"metrics": metrics, "split": "test", "bootstrap": 20, "seed": 0}
    results = read_results(runs.path, [suite])
    for criterion in ("ce", "gist"):
        given = [runs.path], [suite], results, [criterion]
        (again,) = paired_results(*given, baseline="erm", how=options)
        own = frame.filter(pl.col("low").is_not_null(), criterion=criterion)
        same = own.join(again.table, on=[*keys, "low", "high"], how="semi")
        assert same.height == own.height > 50
    assert any("Differences from erm" in name for name in tables)


def test_criteria_are_recomputed_from_the_arrays(made):
    done, suite, data, _ = made
    _, content = read_script(done.path / "data/criteria.js")
    part = data.select("test")
    # Fig. 10 and 12 at the suite's own values
    grid = pl.DataFrame(content["grid"]).filter(alpha=0.05, beta=0.1, split="test")
    records = [suite.record("ce", task, "test") for task in ("car", "cow")]
    assert grid["hard_positives"].item() == sum(r.hard_positives for r in records)
    assert grid["hard_negatives"].item() == sum(r.hard_negatives for r in records)
    # Figs. 3, 13 and 14 from the losses that travel
    sums = {"positive": np.zeros(2), "negative": np.zeros(2)}
    of_tau = np.zeros(2)
    points = {(p["criterion"], p["task"], p["side"]): p for p in content["points"]}
    for number, task in enumerate(("car", "cow")):
        task_data = read_script(done.path / f"data/task-{number}-test.js")[1]
        labels = part.labels(task)
        for criterion, methods in task_data["methods"].items():
            found = task_data["criteria"][criterion]
            values = numbers(task_data["losses"][methods["erm"]]).astype(float)
            marks = numbers(found["marks"])
            for code, side in enumerate(sums):
                point = points.get((criterion, task, side))
                hard = marks == code
                if not hard.any():
                    assert point is None
                    continue
                whole = (labels == (side == "positive")) & (marks != 255)
                assert point["hard"] == pytest.approx(values[hard].mean(), rel=1e-5)
                assert point["all"] == pytest.approx(values[whole].mean(), rel=1e-5)
                if criterion == "ce":
                    sums[side] += values[hard].sum(), hard.sum()
            if criterion == "gist":
                hard = labels & (numbers(found["support"]) < 0.5)
                of_tau += values[hard].sum(), hard.sum()
    found, taus = content["by_alpha_beta"], content["by_tau"]
    row, column = found["alpha"].index(0.05), found["beta"].index(0.1)
    for side, (total, n) in sums.items():
        assert found[side][row][column] == pytest.approx(total / n, rel=1e-5)
    at = taus["positive"][taus["tau"].index(0.5)]
    assert at == pytest.approx(of_tau[0] / of_tau[1], rel=1e-5)


def test_examples_are_the_extremes(made):
    done, suite, data, _ = made
    section = page_text(done, "examples").split('data-task="0"')[1].split('data-task="1"')[0]
    task_data = read_script(done.path / "data/task-0-test.js")[1]
    ids = read_script(done.path / "data/split-test.js")[1]["ids"]
    marks = numbers(task_data["criteria"]["ce"]["marks"])
    values = numbers(task_data["losses"][task_data["methods"]["ce"]["erm"]])
    part = data.select("test")
    area, labels = part.area("car"), part.labels("car")
    # Appendix D.1: hard positives alone are those of a large target
    larger = area > area[labels].mean()
    assert (larger[(marks == 0) & labels]).any()
    assert not (larger[(marks == 0) & labels]).all()
    assert not (larger[(marks == 2) & labels]).all()
    highest = "with the highest loss (erm)"
    for title, inside, sign in (
        (f"Hard positives {highest}, car larger than on average", (marks == 0) & larger, -1),
        (f"Hard negatives {highest}", marks == 1, -1),
        ("Easy positives with the lowest loss (erm)", (marks == 2) & labels, 1),
    ):
        group = section.split(title)[1].split("</ul>")[0]
        rows = np.flatnonzero(inside)
        expected = [str(ids[r]) for r in rows[np.argsort(sign * values[rows], kind="stable")][:6]]
        assert re.findall(r'card-id">([^<]*)<', group) == expected
    for title in ("where gdro is furthest", "furthest ahead of gdro"):
        assert title in section or title.replace("gdro", "label-reweight") in section
    # a group without an image is not shown, and its kind cannot be chosen
    assert section.count("<h3>") == section.count('<ul class="cards">') > 0
    shown = page_text(done, "examples")
    kinds = re.findall(r'data-kind="(\w+)"', shown)
    assert set(re.findall(r'<option value="([a-z_]+)">', shown)) == set(kinds)
    assert "Hard positives by ce, easy by gist" in section
    shared = set(suite.set("ce", "car", "test").ids("hard_positive"))
    group = section.split("Hard positives by ce, easy by gist")[1]
    group = group.split('<div class="example-group"')[0]
    easy = set(suite.set("gist", "car", "test").ids("easy"))
    assert {int(i) for i in re.findall(r'card-id">([^<]*)<', group)} <= shared & easy


def test_pages_have_nothing_of_the_data_as_html(made):
    done = made[0]
    for page in done.path.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "hacked" not in re.sub(r"&[#\w]+;", "", text) or "<script>hacked" not in text
        assert "Content-Security-Policy" in text
        assert not re.search(r'(src|href)="(https?:|//)', text)
        assert "style=" not in text
        assert "onclick" not in text
    for file in done.path.glob("data/*.js"):
        text = file.read_text(encoding="utf-8")
        assert "</script" not in text
        assert "\u2028" not in text
    captions = read_script(done.path / "data/images-test-0.js")[1]["captions"]
    assert HOSTILE in captions[0] or HOSTILE in captions[1]
    assert any(text.endswith("(10,000 characters)") for listed in captions for text in listed)


def test_pictures_are_drawn_of_files_below_the_folder_alone(made, tmp_path):
    done, _, data, _ = made
    assert [n for n in done.notes if "no picture of" in n] != []
    assert any("have no file below the folder" in n for n in done.notes)
    there = numbers(read_script(done.path / "data/split-test.js")[1]["pictures"])
    assert there[0] == 2
    assert there[1] == there[2] == 0
    assert there[3] == 1
    assert (done.path / "pictures/test/0/0-large.jpg").is_file()
    secret = tmp_path / "secret"
    secret.mkdir()
    folder = tmp_path / "images"
    folder.mkdir()
    made_of = site_data(secret)
    for file in secret.iterdir():
        (folder / file.name).symlink_to(file)
    suite = site_suite(made_of)
    linked = replace(made_of, image_root=str(folder))
    outside = report_of(suite, tmp_path / "site", data=linked)
    assert not list((tmp_path / "site").glob("pictures/**/*.jpg"))
    assert any("have no file below the folder" in n for n in outside.notes)
    assert data.image_root is not None


@pytest.mark.parametrize(
    ("left", "said"),
    [
        ("dataset", "Without the dataset"),
        ("runs", "No runs were given"),
        ("images", "No folder of images"),
    ],
)
def test_missing_inputs_are_reported_and_the_rest_shown(left, said, tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    data = site_data(folder, pictures=left != "images")
    suite = site_suite(data)
    done = report_of(suite, tmp_path / "site", data=None if left == "dataset" else data)
    assert said in page_text(done)
    assert any(said in note for note in done.notes)
    assert tables_of_page(tmp_path / "site" / "index.html")["Counts, test"][2][0] == "car"
    task = read_script(tmp_path / "site/data/task-0-test.js")[1]
    assert ("cues" in task["criteria"]["ce"]) == (left != "dataset")
    if left == "dataset":
        one = suite.set("ce", "car", "test")
        assert numbers(task["criteria"]["ce"]["support"]).tobytes() == one.support.tobytes()


def test_a_task_without_hard_images_is_said(bare, tmp_path):
    data = bare[0]
    suite = site_suite(data, beta=1.0, tau=-1.0)
    assert suite.record("ce", "car", "test").hard_negatives == 0
    only = suite.record("gist", "car", "test")
    assert only.hard_positives == 0
    done = report_of(suite, tmp_path / "site", data=data)
    text = page_text(done, "examples")
    assert text.count("<h3>") == text.count('<ul class="cards">') > 0
    done = report_of(site_suite(data, beta=0.0, tau=None), tmp_path / "other", data=data)
    assert done.path.is_dir()


def test_thresholds_by_task_travel_with_each_task(tmp_path):
    data = site_data(tmp_path)
    tau = {task: (0.4, 0.1 * number) for number, task in enumerate(TASKS)}
    suite = site_suite(data, tau=tau)
    by_name = {one["name"]: one for one in shown_criteria(suite, data)}
    # the page has a slider for one threshold alone; the suite's own are in each task's marks
    assert by_name["gist"]["tau"] is None
    assert by_name["gist"]["match"] is None
    task = next(task for task in TASKS if ("gist", task, "test") in suite.keys)
    parts, _ = criterion_parts(suite, task, SplitImages.from_split(suite, "test", data), {})
    assert parts["gist"]["thresholds"] == list(tau[task])


def test_predictions_give_losses_without_runs(bare, report):
    data, suite = bare
    part = data.select("test")
    values = np.linspace(-2, 2, len(part))
    frame = pl.DataFrame({"image_id": part.images["image_id"], "task": "car", "logit": values})
    runs = load_predictions(frame, suite)
    done = report(runs)
    content = read_script(done.path / "data/task-0-test.js")[1]
    (place,) = content["methods"]["ce"].values()
    expected = losses(part.labels("car"), values, "logit")
    assert np.allclose(numbers(content["losses"][place]), expected, rtol=1e-6)
    assert read_script(done.path / "data/task-1-test.js")[1]["methods"] == {}


def test_collected_scores_give_tables_and_say_what_they_lack(made, tmp_path):
    _, suite, data, runs = made
    scores, selected, _ = score_runs(runs, suite)
    (tmp_path / "scores").mkdir()
    save_scores(scores, tmp_path / "scores/scores.parquet")
    selected.write_csv(tmp_path / "scores/selected.csv")
    done = report_of(suite, tmp_path / "site", data=data, runs=[tmp_path / "scores"])
    why = "collected scores have no predictions to resample"
    assert f"one standard deviation over seeds ({why})" in page_text(done, "results")
    # without tables that are handed in
    titles = {name.split(" (")[0] for name in tables_of_page(done.path / "results.html")}
    assert {f"AUC on {subset} images, ce" for subset in ("hard", "easy")} <= titles
    assert "Compared with the paper" not in page_text(done, "results")
    missing = "losses of single images are only in the folder of runs"
    assert any(missing in note for note in done.notes)
    points = pl.DataFrame(read_script(tmp_path / "site/data/results.js")[1])
    gaps = points["high"] - points["mean"] - points["std"]
    assert gaps.drop_nulls().abs().max() <= 1e-12


def test_what_cannot_be_used_is_refused_before_anything_is_written(made, tmp_path):
    done, suite, data, runs = made
    other = site_data(tmp_path, pictures=False, seed=5)
    out = tmp_path / "new"
    refused(lambda: report_of(suite, out, data=other), "the suite was found in another dataset")
    refused(lambda: report_of(suite, out, split="nowhere"), "nowhere")
    refused(lambda: report_of(suite, out, bootstrap=-1), "`bootstrap`: is -1")
    refused(lambda: report_of(suite, out, thumbnails=-1), "`thumbnails`: is -1")
    refused(lambda: report_of(suite, out, examples=0), "`examples`: is 0")
    no = {"data": data, "images": tmp_path / "no"}
    fails(lambda: report_of(suite, out, **no), "no such folder", helps=False)
    fails(lambda: report_of(suite, out, runs=[tmp_path]), "contains no results")
    wide = site_suite(data, beta=0.2)
    refused(lambda: report_of(wide, out, data=data, runs=[runs.path]), "another one")
    fails(lambda: report_of(suite, done.path, data=data), "exists already", kind=OutputError)
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine.txt").write_text("mine")
    fails(lambda: report_of(suite, full, overwrite=True), "report.json", kind=OutputError)
    assert not out.exists()


def test_command(run_cli, made, tmp_path):
    _, suite, data, runs = made
    save_dataset(data, tmp_path / "data")
    save_suite(suite, tmp_path / "suite")
    command = (
        f"report {tmp_path}/suite --dataset {tmp_path}/data --runs {runs.path}"
        f" --out {tmp_path}/site --bootstrap 0 --thumbnails 2 --examples 2"
    )
    assert "index.html" in run_cli(command).ok().out
    assert (tmp_path / "site/report.json").is_file()
    assert "site" in run_cli(f"{command} --overwrite --all-thumbnails --format json").ok().json
    assert len(list((tmp_path / "site").glob("pictures/test/0/*.jpg"))) > 60
    run_cli(f"{command} --no-dataset").refused("with --no-dataset there is no dataset")


def test_cues_that_travel_and_their_bound():
    names = [f"c{i}" for i in range(14)]
    images = [{"c0": 0.01, **{f"c{i}": 0.01 + 0.02 * i for i in range(1, 14)}}] * 3
    fitted = CE(0.25).fit(dataset_of(images, names))
    found = page_cues(fitted, "c0")
    assert found.names == tuple(f"c{i}" for i in range(13, 5, -1))
    assert found.bound == fitted.strength("c5", "c0")
    many = CE(0.05).fit(dataset_of(images, names))
    # the suite's own alpha takes more than eight
    assert found.names != page_cues(many, "c0").names == many.cues("c0")
    by_hand = CE(0.05, cues={"c0": ("c2",)}).fit(dataset_of(images, names))
    assert page_cues(by_hand, "c0").fixed is not None


@given(st.recursive(st.text(), lambda inner: st.lists(inner, max_size=3)))
def test_scripts_cannot_be_ended_by_data(content):
    text = script("x", content).decode()
    assert not set("<>&\u2028\u2029") & set(text)
    inside = text.removeprefix("nooch.put.apply(null, ").removesuffix(");\n")
    assert json.loads(inside) == ["x", content]


def _asset(name):
    return (resources.files("nooch.report.site") / "assets" / name).read_text(encoding="utf-8")


def test_subset_codes_are_those_that_the_page_knows():
    assert SUBSETS == ("hard_positive", "hard_negative", "easy")
    codes = "HARD_POSITIVE = 0, HARD_NEGATIVE = 1, EASY = 2, NONE = 255"
    assert codes in _asset("marks.js")


def _luminance(color):
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_has_enough_contrast(scheme):
    """WCAG 2.1, level AA: 4.5 : 1 for text."""
    block = re.findall(r":root \{(.*?)\}", _asset("style.css"), re.DOTALL)[scheme]
    colors = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
    pairs = [
        (ink, back)
        for ink in ("ink", "soft", "positive-ink", "negative-ink", "easy-ink", "good")
        for back in ("card", "back")
    ]
    pairs += [(f"{kind}-ink", f"{kind}-back") for kind in ("positive", "negative", "easy")]
    pairs += [("soft", f"{kind}-back") for kind in ("positive", "negative", "easy")]
    pairs += [("accent-ink", "accent"), ("ink", "warn-back"), ("ink", "easy-back")]
    for ink, back in pairs:
        light, dark = sorted((_luminance(colors[ink]), _luminance(colors[back])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, back)


def test_examples_of_many_tasks_are_on_several_pages(tmp_path):
    random = np.random.default_rng(0)
    classes = ["road", *(f"class{i}" for i in range(30))]
    some = ([c for c in classes[1:] if random.random() < 0.5] for _ in range(30))
    images = [{"road": 0.3, **dict.fromkeys(names, 0.01)} for names in some]
    data = dataset_of(images, classes, [("train", "test")[i % 2] for i in range(30)])
    suite = find(data, {"ce": CE(0.05, 0.1)}, tasks=classes[1:])
    done = report_of(suite, tmp_path / "site", data=data)
    pages = {p.name: p.read_text(encoding="utf-8") for p in done.path.glob("examples*.html")}
    assert sorted(pages) == ["examples-2.html", "examples.html"]
    shown = {name: re.findall(r'data-task="(\d+)"', text) for name, text in pages.items()}
    assert shown["examples.html"] + shown["examples-2.html"] == [str(i) for i in range(30)]
    for text in pages.values():
        assert 'href="examples-2.html"' in text
        assert '<option value="29" data-page="examples-2.html">class29</option>' in text
        parts = text.split('class="example-task"')[1:]
        assert all('class="example-group"' in part for part in parts)
