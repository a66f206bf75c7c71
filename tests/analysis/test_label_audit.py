"""Labels that models, captions and the context contradict: slow ways, and planted errors."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from in_memory import read_label_maps
from planted import planted_detector
from refusals import fails, refused
from scipy.sparse import csr_array
from sites import HOSTILE
from sklearn.linear_model import LogisticRegression

from nooch.analysis.audit import audit, boxes_of, cross_fitted
from nooch.base.errors import OutputError
from nooch.base.files import sha256_of
from nooch.criteria import Attribute
from nooch.data import Dataset, save_dataset
from nooch.evaluation import Predictions
from nooch.evaluation.metrics import auc
from nooch.suites import load_suite
from nooch.suites.find import find

CLASSES = ["car", "road", "cow", "grass"]


def _world(n=300, splits=("all",), classes=CLASSES):
    """Cars on roads and cows on grass: (dataset, suite of all images)."""
    random = np.random.default_rng(1)
    kind = random.integers(0, 2, n)
    chances = [0.7, 0.9, 0.1, 0.1], [0.1, 0.1, 0.7, 0.9]
    here = random.random((n, 4)) < np.where(kind[:, None], *chances)
    images = pl.DataFrame(
        {
            "image_id": np.arange(n) * 3,
            "split": [splits[row % len(splits)] for row in range(n)],
            "own": True,
        }
    )
    data = Dataset.build(images, classes, csr_array(here * 0.3))
    options = {"tasks": [classes[0], classes[2]], "splits": sorted({*splits} - {"train"})}
    return data, find(data, {"own": Attribute("own")}, **options)


@settings(max_examples=30)
@given(st.integers(2, 60), st.integers(0, 999), st.booleans())
def test_cross_fitting_is_the_obvious_one(n, seed, sparse):
    random = np.random.default_rng(seed)
    x, labels = random.normal(size=(n, 2)).round(1), random.random(n) < 0.3
    folds = random.integers(-1, 3, n)
    odds = cross_fitted(csr_array(x) if sparse else x, labels, folds)
    for row in range(n):
        rest = folds != folds[row]
        if folds[row] < 0 or len({*labels[rest]}) < 2:
            assert np.isnan(odds[row])
        else:
            model = LogisticRegression(max_iter=1000).fit(x[rest], labels[rest])
            assert odds[row] == pytest.approx(model.decision_function(x[[row]])[0], abs=1e-3)


@pytest.mark.parametrize("splits", [("all",), ("train", "test")])
def test_the_context_is_of_other_labels_and_other_images(splits):
    data, suite = _world(splits=splits)
    table = audit(suite, data=data).table
    assert table.columns == ["image_id", "task", "label", "score", "context"]
    assert table["score"].is_sorted(descending=True)
    cars = table.filter(task="car").sort("image_id")
    part = data.select(splits[-1])
    present = {name: part.labels(name) for name in CLASSES}
    assert (cars["label"].to_numpy() == present["car"]).all()
    usual = present["road"] & ~present["grass"] & ~present["cow"]
    # evidence against a label: roads speak against "no car"
    against = cars["context"].to_numpy() * np.where(present["car"], -1, 1)
    assert against[usual].min() > 0
    assert against[~present["road"] & present["grass"]].max() < 0
    if splits == ("train", "test"):
        train = data.select("train")
        others = [train.labels(name) for name in CLASSES[1:]]
        model = LogisticRegression().fit(np.stack(others, axis=1), train.labels("car"))
        rows = np.stack([present[name] for name in CLASSES[1:]], axis=1)
        known = cars["context"].to_numpy() * np.where(present["car"], -1, 1)
        # calibrated: a line through the regression's own log odds
        line = np.polyfit(model.decision_function(rows), known, 1)
        assert line[0] > 0.5
        assert np.abs(np.polyval(line, model.decision_function(rows)) - known).max() < 1


def test_a_source_that_is_silent_counts_nothing(tmp_path):
    data, suite = _world()
    ids = data.image_ids.tolist()
    random = np.random.default_rng(0)
    truth = np.stack([data.labels(task) for task in suite.tasks], axis=1)
    values = np.where(truth, 1, -1) + random.normal(size=truth.shape)
    runs = [Predictions.from_arrays(values[:, [0]], ids, ["car"], scale="logit", run="cars")]
    alone = audit(suite, data=data).table
    table = audit(suite, runs, data=data).table
    assert table.filter(task="cow")["cars"].null_count() == len(ids)
    cows = [frame.filter(task="cow").sort("image_id")["score"] for frame in (alone, table)]
    assert (cows[0] - cows[1]).abs().max() < 1e-9
    cars = table.filter(task="car")
    assert cars["cars"].null_count() == 0
    # two runs that agree count hardly more than one
    twice = [
        *runs,
        Predictions.from_arrays(values[:, [0]], ids, ["car"], scale="logit", run="again"),
    ]
    joined = cars.join(audit(suite, twice, data=data).table, on=["image_id", "task"])
    assert (joined["score"] - joined["score_right"]).abs().max() < 0.5


def test_planted_errors_in_photographs(shared_data, tmp_path):
    """Wrong labels of MSRC: captions find them, the context helps, and more sources find more."""
    folder = shared_data / "msrc-v2"
    data = read_label_maps(folder / "labels", classes=folder / "classes.txt", void=[0])
    tasks = ["car", "cow", "sheep", "boat", "aeroplane", "bicycle"]
    random, words, wrong, texts = np.random.default_rng(3), [], set(), {}
    for task in tasks:
        present = data.labels(task)
        lots = zip(data.image_ids, present, random.random(len(data)), strict=True)
        for image, there, lot in lots:
            if lot < (0.15 if there else 0.01):
                wrong.add((image, task))
                words.append({"image_id": image, "task": task, "verdict": "no" if there else "yes"})
            # captions miss a quarter of the objects, and mention a few that are not there
            for model in ("a", "b"):
                said = random.random() < (0.75 if there else 0.02)
                texts.setdefault((model, image), []).extend([f"a {task}"] if said else [])
    pl.DataFrame(words).write_csv(tmp_path / "planted.csv")
    for model in ("a", "b"):
        records = [
            {"image_id": image, "caption": f"Photo of {', '.join(named) or 'nothing'}."}
            for (of, image), named in texts.items()
            if of == model
        ]
        (tmp_path / f"{model}.json").write_text(json.dumps(records))
    with_mark = data.images.with_columns(own=pl.lit(value=True))
    marked = Dataset.build(with_mark, data.classes, data.areas)
    suite = find(marked, {"own": Attribute("own")}, tasks=tasks, overlay=tmp_path / "planted.csv")
    (tmp_path / "words.yaml").write_text("".join(f"{task}: [{task}]\n" for task in tasks))
    captions = [tmp_path / "a.json", tmp_path / "b.json"]
    table = audit(suite, captions=captions, data=marked, synonyms=tmp_path / "words.yaml").table
    pairs = list(table.select("image_id", "task").iter_rows())
    is_wrong = np.array([pair in wrong for pair in pairs])
    found = {name: auc(is_wrong, table[name].to_numpy()) for name in ("score", "context", "a", "b")}
    assert found["score"] > 0.95, found
    assert found["score"] > max(found[name] for name in ("context", "a", "b")) + 0.01, found
    assert is_wrong[:50].mean() > 0.7


class TestFolder:
    def test_as_typed_and_back_as_overlay(self, run_cli, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        data, _ = _world(splits=("train", "test"))
        save_dataset(data, tmp_path / "data")
        run_cli("find data --criterion attribute --phi own --tasks car,cow --out suite").ok()
        rows = data.select("test")
        said = np.where(rows.labels("car"), "Yes", "No")
        answers = {"image_id": rows.image_ids, "task": "car", "answer": said}
        pl.DataFrame(answers).write_csv("answers.csv")
        command = "audit suite --predictions answers.csv --most 5 --out audited --format json"
        done = run_cli(command).ok()
        table = pl.read_parquet("audited/audit.parquet")
        assert table.columns[3:] == ["score", "context", "answers"]
        assert done.json["labels"] == table.head(5).to_dicts()
        first = table.row(0, named=True)
        verdict = {"image_id": first["image_id"], "task": first["task"], "verdict": "ambiguous"}
        pl.DataFrame([verdict]).write_csv("verdicts.csv")
        run_cli("find data --criterion attribute --phi own --overlay verdicts.csv --out again").ok()
        suite = load_suite("again")
        assert suite.header.overlay.files == [sha256_of(tmp_path / "verdicts.csv")]
        assert first["image_id"] not in suite.set("attribute", first["task"], "test").image_ids
        shown = run_cli("audit suite --predictions answers.csv --out audited --overwrite").ok()
        assert "Audit(300 labels; context, answers)" in shown.out
        fails(lambda: audit("suite", out=tmp_path / "audited"), "exists", kind=OutputError)

    def test_names_are_escaped_and_no_other_host_is_asked(self, tmp_path):
        classes = [f"car {HOSTILE}"[:60], "road", "cow", "grass"]
        data, suite = _world(40, classes=classes)
        audit(suite, data=data, out=tmp_path / "out", most=3)
        page = (tmp_path / "out" / "index.html").read_text()
        script = (tmp_path / "out" / "data" / "audit.js").read_text()
        assert "<script>window" not in page
        assert "<" not in script
        assert "http" not in page.replace("http-equiv", "")

    @pytest.mark.parametrize(
        ("options", "part"),
        [
            ({}, "sources of evidence are none"),
            ({"predictions": "label"}, "the sources of evidence are label"),
            ({"predictions": "twice"}, "twice"),
            ({"tasks": ["road"]}, "'road' is not a task of the suite"),
            ({"most": 0}, "`most`: is 0"),
            ({"split": "valid"}, "'valid' is not a split"),
            ({"labels": ["instances.json"]}, "take the place of a suite"),
            ({"overlay": ["pope.json"]}, "`overlay` has no effect without `labels`"),
        ],
    )
    def test_refusals(self, options, part):
        data, suite = _world(20)
        name = options.pop("predictions", None)
        if name is not None:
            zeros = np.zeros((20, 1))
            run = Predictions.from_arrays(zeros, data.image_ids, ["car"], scale="logit", run=name)
            options["predictions"] = [run] * (2 if name == "twice" else 1)
        suite.dataset = None
        act = refused if name is None and options else fails
        act(lambda: audit(suite, **options), part)

    def test_labels_that_are_all_alike(self):
        data = _world(20)[0]
        few = data.select(rows=data.labels("car"))
        marked = find(few, {"own": Attribute("own")}, tasks=["car"])
        fails(lambda: audit(marked, data=few), "all labels are the same")


def test_of_detections_the_page_draws_objects_and_the_best_box_of_each_model(tmp_path):
    data, run, _ = planted_detector()
    criteria = {"road": Attribute("(y = 1) <> present(road)")}
    suite = find(data, criteria, tasks=["car"], splits=["all"])
    unsure = replace(run, run="unsure", boxes=replace(run.boxes, scores=run.boxes.scores / 2))
    table = audit(suite, [run, unsure], data=data, split="all", out=tmp_path / "out").table
    shown = table.head(200).select("image_id", "task", "label")
    for (image, _, label), boxes in zip(
        shown.rows(), boxes_of(shown, [run, unsure], data), strict=True
    ):
        assert len(boxes.found) == data.objects.filter(image_id=image).height
        claimed = run.boxes.boxes.box[run.boxes.boxes.image == image].tolist()
        assert len(boxes.false) == (2 if claimed else 0)
        assert all(box in claimed for box in boxes.false)
        assert (label == 1) == bool(boxes.found)
    assert '"width":400,"height":100' in (tmp_path / "out" / "data" / "audit.js").read_text()


def test_questions_and_annotations_in_place_of_a_suite(tmp_path):
    """The labels of the questions stand; images that no question is about give the context."""
    random = np.random.default_rng(0)
    road = random.random(400) < 0.5
    car = road ^ (random.random(400) < 0.1)
    images = [{"id": i, "file_name": f"{i:012d}.jpg", "width": 9, "height": 9} for i in range(400)]
    boxes = [
        {"id": 2 * i + number, "image_id": i, "category_id": number + 1, "area": 9.0}
        for i in range(400)
        for number, there in enumerate((car[i], road[i]))
        if there
    ]
    classes = [{"id": 1, "name": "car"}, {"id": 2, "name": "road"}]
    document = {"images": images, "categories": classes, "annotations": boxes}
    (tmp_path / "instances.json").write_text(json.dumps(document))
    # the labels of three questions are wrong, which the models and the context know
    wrong = [int(i) for i in np.flatnonzero(car == road)[:3]]
    names = [f"COCO_val2014_{i:012d}.jpg" for i in range(60)]
    said = ["yes" if car[i] else "no" for i in range(60)]
    labels = [{"yes": "no", "no": "yes"}[s] if i in wrong else s for i, s in enumerate(said)]
    text = "Is there a car in the image?"
    questions = [
        {"question_id": i, "image": names[i], "text": text, "label": labels[i]} for i in range(60)
    ]
    (tmp_path / "pope.json").write_text("\n".join(map(json.dumps, questions)))
    answers = [{"question_id": i, "text": said[i]} for i in range(60)]
    (tmp_path / "model.jsonl").write_text("\n".join(map(json.dumps, answers)))
    files = {
        "labels": [tmp_path / "instances.json"],
        "reading": {"questions": tmp_path / "pope.json"},
    }
    table = audit(None, tmp_path / "model.jsonl", **files).table
    assert table.height == 60
    assert table["task"].unique().to_list() == ["car"]
    assert sorted(table.head(3)["image_id"]) == wrong
    # questions without labels: those of the annotations, or of another file
    bare = [{name: one[name] for name in ("question_id", "image", "text")} for one in questions]
    files["reading"] = {"questions": tmp_path / "bare.json"}
    (tmp_path / "bare.json").write_text("\n".join(map(json.dumps, bare)))
    plain = audit(None, tmp_path / "model.jsonl", **files).table
    assert plain.sort("image_id")["label"].to_list() == [int(s == "yes") for s in said]
    again = audit(None, tmp_path / "model.jsonl", overlay=tmp_path / "pope.json", **files).table
    assert again.equals(table)
    (tmp_path / "bare.json").write_text(json.dumps({**bare[0], "text": "Is there a cat here?"}))
    fails(lambda: audit(None, tmp_path / "model.jsonl", **files), "the questions ask about none")
