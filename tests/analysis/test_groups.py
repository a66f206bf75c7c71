"""Groups of images: declared once, and the unit of every interval, test and least number."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from refusals import fails, refused
from scipy.sparse import csr_array

import nooch
from nooch.analysis.answer import most_hard
from nooch.analysis.leaderboard import paired_gap
from nooch.base.errors import FormatError, ParameterError
from nooch.base.split_plan import SplitPlan
from nooch.cli.declared import settings_of
from nooch.criteria import Context, FittedContext
from nooch.data import Dataset, load_dataset, save_dataset
from nooch.data.splits import SPLIT_NAMES, apply_split, unit_numbers
from nooch.evaluation import context_run
from nooch.evaluation.bootstrap import BootstrapDraws
from nooch.evaluation.boxes.matched import Detections
from nooch.evaluation.boxes.matching import Boxes
from nooch.evaluation.captions import score_captions
from nooch.evaluation.metrics.proportions import effective_number, student, wilson
from nooch.report.images.sources import Sources
from nooch.suites import load_suite, save_suite

SCENES = 160


def world(copies, split="test"):
    """Scenes, each photographed so often, all alike; one model errs on an eighth, one on a third,
    out of context more often.
    """
    draw = np.random.default_rng(3)
    road, car = draw.random(SCENES) < 0.5, draw.random(SCENES) < 0.5
    areas = np.stack([car * 0.05, road * 0.4, (draw.random(SCENES) < 0.3) * 0.2], axis=1)
    scene = np.repeat(np.arange(SCENES), copies)
    images = pl.DataFrame({
        "image_id": np.arange(len(scene)), "split": "all", "file_name": None,
        "scene": [f"scene {k}" for k in scene],
    }, schema_overrides={"file_name": pl.String})  # fmt: skip
    data = Dataset.build(images, ["car", "road", "sky"], csr_array(areas[scene]))
    wrong = draw.random((2, SCENES)) < np.where(car != road, 0.45, [[0.1], [0.3]])
    outputs = np.where(car ^ wrong, 1, -1) * (1 + draw.random((2, SCENES)))
    runs = [
        nooch.Predictions.from_arrays(values[scene], np.arange(len(scene)), ["car"],
                                      scale="logit", run=f"model {number}")
        for number, values in enumerate(outputs)
    ]  # fmt: skip
    return data, runs


def suite_of(data, group=None):
    return nooch.find(data, {"ce": nooch.CE(cues={"car": ["road"]})}, tasks=["car"], group=group)


def _evaluated(data, runs, group):
    metrics = ["error", "recall", "auc", "nll", "dprime"]
    scores = nooch.evaluate(suite_of(data), runs, metrics=metrics, bootstrap=200, group=group)
    tables = scores.table, scores.differences
    return pl.concat(table.filter(subset="all").select("low", "high") for table in tables)


def _findings(data, runs, group):
    found = nooch.cue_findings(suite_of(data), runs, data=data, group=group).table
    bounds = (("low", "high"), ("rate_low", "rate_high"))
    return pl.concat(found.select(low=low, high=high) for low, high in bounds)


def _slices(data, runs, group):
    found = nooch.find_slices(data, runs, group=group, min_support=20).table
    # conditions, whose order follows their p
    rows = found.filter(run="model 0", side="negative").sort("phi").unique("phi")
    return rows.filter(pl.col("phi") == "NOT present(car) AND present(road)").select("low", "high")


def _validity(data, runs, group):
    table = nooch.validity(suite_of(data), runs, group=group, data=data).table
    return table.filter(pl.col("quality").is_in(["failure", "discrimination", "tenth 1"])).select(
        "low", "high"
    )


def _mentions(data, runs, group, tmp_path):
    files = []
    for run in runs:
        said = ["A car." if value > 0 else "A tree." for value in run.values[0]]
        files.append(tmp_path / f"{run.run}-{len(said)}.csv")
        pl.DataFrame({"image_id": run.image_ids, "caption": said}).write_csv(files[-1])
    scores = score_captions(suite_of(data), files, group=group, bootstrap=200)
    return pl.concat([
        scores.table.filter(pl.col("metric").is_in(["rate", "accuracy"])).select("low", "high"),
        scores.differences.filter(metric="accuracy", subset="all").select("low", "high"),
    ])  # fmt: skip


def _ranked(data, runs, group):
    suite = suite_of(data, group)
    cells = suite.cells(suite.keys)
    first, second = (
        cells.with_columns(yes=(run.values[0] > 0) * 1.0, weight=pl.lit(1.0)) for run in runs
    )
    return pl.DataFrame([paired_gap(first, second)]).select(low="gap_low", high="gap_high")


def _boxes(data, runs, group):
    """Effects on a detector's boxes: of each car one, found where the first model says yes."""
    n, values = len(data), (runs[0].values > 0) * 1.0
    car, yes = np.flatnonzero(data.labels("car")), np.flatnonzero(values[0])
    objects = pl.DataFrame({
        "image_id": car, "class": "car", "left": 0.0, "top": 0.0, "width": 20.0, "height": 20.0,
        "area": 400.0, "crowd": False, "ignore": False,
    })  # fmt: skip
    images = data.images.with_columns(width=100, height=100)
    data = Dataset.build(images, data.classes, data.areas, objects=objects)
    box = Boxes(yes, np.zeros(len(yes), int), np.tile([0.0, 0.0, 20.0, 20.0], (len(yes), 1)))
    run = nooch.Predictions("boxes", pl.Series(np.arange(n)), ("car",), values, "probability",
                            boxes=Detections(box, np.ones(len(yes))))  # fmt: skip
    scores = nooch.evaluate(
        suite_of(data), run, boxes=True, dataset=data, bootstrap=50, group=group
    )
    return scores.box_effects.select("low", "high")


def _repaired(data, runs, group, tmp_path):
    """A head that says what the second model says, in place of the first."""
    pytest.importorskip("torch")
    scene = pl.col("scene").str.slice(6).cast(pl.Int64)
    split = scene.mod(5).replace_strict([0, 1], ["train", "valid"], default="test")
    data = Dataset.build(data.images.with_columns(split=split), data.classes, data.areas)
    repaired = nooch.repair(
        suite_of(data), np.sign(runs[1].values.T), tmp_path / f"{len(data)}-{group}", group=group,
        dataset=data, predictions=runs[0], methods=["erm"], threshold=0.5, bootstrap=200,
    )  # fmt: skip
    return repaired.changes.filter(metric="error", subset="all").select("low", "high")


WAYS = {"evaluate": _evaluated, "check": _findings, "slices": _slices, "validity": _validity,
        "captions": _mentions, "leaderboard": _ranked, "boxes": _boxes,
        "repair": _repaired}  # fmt: skip


@pytest.mark.parametrize("verb", WAYS)
def test_photographs_of_one_scene_tell_as_much_as_one(verb, tmp_path):
    """Copies of images never narrow an interval where they are a group, and do where they are
    not.
    """
    more = (tmp_path,) if verb in ("captions", "repair") else ()
    single, grouped, apart = (
        WAYS[verb](*world(copies), group, *more).drop_nulls().to_numpy()
        for copies, group in ((1, None), (6, "scene"), (6, None))
    )
    width = [np.diff(bounds, axis=1).ravel() for bounds in (single, grouped, apart)]
    assert len(width[0]) == len(width[1]) > 0
    # resamples of scenes differ a little from those of images
    assert (width[1] > 0.85 * width[0]).all()
    assert np.median(width[1] / width[0]) == pytest.approx(1, abs=0.12)
    assert np.median(width[2]) < 0.6 * np.median(width[0])


@pytest.mark.parametrize("group", ["scene", None])
def test_no_image_is_judged_by_its_own_group(group, tmp_path):
    """What a scene shows does not change its own support and evidence, though copies of it do."""
    data, runs = world(6)
    other = (data.images["scene"] == "scene 5").to_numpy()
    areas = data.areas.toarray()
    areas[other, 0] = np.where(areas[other, 0] > 0, 0, 0.05)
    changed = Dataset.build(data.images, data.classes, csr_array(areas))
    nooch.save_dataset(changed, tmp_path / "data")
    support, evidence = [], []
    for each in (data, changed):
        suite = nooch.find(each, ["context"], tasks=["car"], group=group)
        table = nooch.audit(suite, runs, data=each).table.sort("image_id")
        evidence.append(table["model 0"].to_numpy()[other] * np.where(table["label"], 1, -1)[other])
        fitted = suite.header.criteria["context"].fitted
        again = FittedContext.from_json(fitted)
        # the fit records by what its folds are, however a dataset is grouped later
        support.append(
            [
                again.support(each, "car")[other],
                context_run(each.grouped(group), ["car"], ["all"]).values[0, other],
            ]
        )
        assert np.allclose(*support[-1], atol=1e-9)
    same = [np.allclose(*support, atol=1e-9), np.allclose(evidence[0], evidence[1], atol=1e-9)]
    assert same == [group is not None] * 2


def test_the_note_names_columns_like_ids(tmp_path, run_cli):
    data, runs = world(6)
    place = pl.Series("place", ["sea", "land"] * (len(data) // 2))
    columns = pl.format("photo {}", "image_id").alias("photo"), place
    data = Dataset.build(data.images.with_columns(*columns), data.classes, data.areas)
    data = data.grouped("scene")
    nooch.save_dataset(data, tmp_path / "data")
    note = "no context, since its values are like ids: photo"
    assert note in nooch.find_slices(data, runs[:1]).settings["notes"]
    checked = nooch.check(data, runs[:1], tmp_path / "page", bootstrap=0, slices=False)
    assert note in checked.notes
    words = f"find {tmp_path / 'data'} --criterion context --context all --tasks car"
    assert note in run_cli(f"{words} --out {tmp_path / 'suite'}").ok().err


def test_least_numbers_count_groups():
    """Six times as many photographs are no more than the scenes."""
    data, runs = world(6)
    n = 6 * 60
    few = data.select(rows=np.arange(n))
    runs = [replace(run, image_ids=run.image_ids[:n], values=run.values[:, :n]) for run in runs]
    found = nooch.cue_findings(suite_of(few, "scene"), runs, data=few).table
    assert (found["n_misleading"] > 60).all()
    assert found["verdict"].unique().to_list() == ["too few images to tell"]
    scores = nooch.evaluate(suite_of(few, "scene"), runs, metrics=["auc"], bootstrap=50)
    assert "images are in groups by scene, which count as one each" in scores.notes
    hard = scores.table.filter(subset="hard", metric="auc")
    assert (hard["n"] > 100).all()
    assert (hard["n_groups"] < 40).all()
    assert hard["low"].null_count() == 2
    assert most_hard(suite_of(few, "scene"))["car"] < 30 < most_hard(suite_of(few))["car"]


def test_a_suite_is_scored_by_itself(tmp_path):
    data, runs = world(6)
    made = suite_of(data, "scene")
    folder = save_suite(made, tmp_path / "suite")
    kept = load_suite(folder)
    assert json.loads((folder / "suite.json").read_text())["version"] == 2
    ids = made.image_ids()
    assert (kept.units(ids) == made.units(ids)).all()
    assert len(np.unique(kept.units(ids))) == SCENES
    tables = [nooch.evaluate(suite, runs, bootstrap=50).table for suite in (made, kept)]
    assert tables[0].equals(tables[1])
    fails(lambda: nooch.evaluate(folder, runs, group="place"), "dataset of the suite is needed",
          kind=ParameterError)  # fmt: skip
    fails(lambda: made.grouped("plac"), "'plac' is not a column", kind=ParameterError)
    plain = save_suite(suite_of(data), tmp_path / "plain")
    for suite, unit in ((kept, "groups by scene"), (load_suite(plain), "images")):
        sources = Sources(suite=suite, predictions=runs, bootstrap=20)
        page = nooch.write_report(sources, tmp_path / "site", overwrite=True).path / "results.html"
        assert f"of 20 resamples of {unit};" in page.read_text("utf-8")
    assert json.loads((plain / "suite.json").read_text())["version"] == 1
    assert load_suite(plain).units(ids) is None
    assert not (plain / "groups.parquet").exists()
    (folder / "groups.parquet").write_bytes((plain / "challenge_sets.parquet").read_bytes())
    fails(lambda: load_suite(folder), "groups.parquet was altered", kind=FormatError)


def test_a_dataset_declares_its_groups_once(tmp_path, run_cli):
    data, runs = world(6)
    assert data.group is data.groups is None
    assert suite_of(data.grouped("scene")).header.group == "scene"
    images = data.images.with_columns(label=pl.lit("car")).select("image_id", "scene", "label")
    images.write_csv(tmp_path / "table.csv")
    table = f"import table {tmp_path / 'table.csv'} --id image_id --label label"
    run_cli(f"{table} {tmp_path / 'kept'} --group scene").ok()
    kept = load_dataset(tmp_path / "kept")
    assert kept.group == "scene"
    assert kept.splits == {"all": len(data)}
    assert (unit_numbers(kept.groups) == unit_numbers(data.images["scene"])).all()
    assert "not a column" in run_cli(f"{table} {tmp_path / 'x'} --group plac").err
    split = tmp_path / "split"
    run_cli(f"{table} {split} --group scene --split 60/20/20").ok()
    assert load_dataset(split).group == "scene"
    assert not runs[0].notes


def test_group_columns_and_ids_are_no_context():
    n = 120
    columns = {
        "scene": [f"s{k // 6}" for k in range(n)], "photo": [f"p{k}" for k in range(n)],
        "number": np.arange(n), "year": 1980 + np.arange(n) % 30, "speed": np.linspace(0, 1, n),
        "place": [("land", "sea")[k % 2] for k in range(n)],
    }  # fmt: skip
    images = pl.DataFrame({"image_id": np.arange(n), **columns})
    data = Dataset.build(images, ["car"], csr_array(np.ones((n, 1))))
    assert data.context_columns == ("scene", "year", "speed", "place")
    assert data.grouped("scene").context_columns == ("year", "speed", "place")
    asked = Context(columns=["all"]).completed(data.grouped("scene")).columns
    numbers = {"year": ("<=1987.0", ">=2002.0", "="), "speed": ("<=0.25", ">=0.75", "=")}
    assert asked == {**numbers, "place": ("=land", "=sea", "=")}
    only_ids = Dataset.build(
        images.select("image_id", "photo"), ["car"], csr_array(np.ones((n, 1)))
    )
    refused(lambda: Context(columns=["all"]).completed(only_ids), "no attribute column but photo")


def test_named_columns_are_the_context(tmp_path):
    n = 120
    columns = {
        "scene": [f"s{k // 6}" for k in range(n)], "photo": [f"p{k}" for k in range(n)],
        "place": [("land", "sea")[k % 2] for k in range(n)], "one": ["x"] * n,
        "hour": np.arange(n) % 4,
    }  # fmt: skip
    images = pl.DataFrame({"image_id": np.arange(n), **columns})
    data = Dataset.build(images, ["car"], csr_array(np.ones((n, 1))))
    named = data.with_context(["hour", "place"])
    assert named.context_columns == ("hour", "place")
    assert named.fingerprint == data.fingerprint
    assert named.attributes == data.attributes
    assert named.select(rows=np.arange(3)).context_columns == ("hour", "place")
    assert data.with_context(()).context_columns == data.context_columns
    # a group that is declared later is still none
    assert data.with_context(["scene", "place"]).grouped("scene").context_columns == ("place",)
    save_dataset(named, tmp_path / "kept")
    assert load_dataset(tmp_path / "kept").context_columns == ("hour", "place")
    for name, words in {
        "scene": "has the groups of images", "photo": "120 values for 120 images, like ids",
        "one": "one value", "car": "is a class, not a column", "plac": "did you mean place",
    }.items():  # fmt: skip
        error = refused(lambda name=name: data.grouped("scene").with_context(["hour", name]), words)
        assert name == "plac" or "pass context=['hour']" in error


def test_an_image_without_a_group_is_one_of_its_own():
    names = pl.Series(["b", None, "a", "b", None])
    numbers = unit_numbers(names)
    assert numbers.tolist() == [1, 2, 0, 1, 3]
    images = pl.DataFrame({"image_id": np.arange(400), "split": ["all"] * 400}).with_columns(
        camera=pl.when(pl.col("image_id") < 40).then(pl.lit("c"))
    )
    sides = apply_split(images, SplitPlan("50/25/25", group="camera"))["split"]
    assert sides.head(40).n_unique() == 1
    assert sides.tail(360).value_counts().height == len(set(SPLIT_NAMES.values()))


def test_groups_are_drawn_whole():
    units = np.repeat(np.arange(30), np.arange(1, 31))
    (_, drawn), *_ = BootstrapDraws(len(units), 8, 0, units).weights(slice(None))
    assert (drawn == drawn[np.searchsorted(units, units)]).all()
    assert (drawn[np.searchsorted(units, np.arange(30))].sum(axis=0) == 30).all()


def test_the_effective_number_is_the_plain_jackknifes():
    draw = np.random.default_rng(0)
    units = np.repeat(np.arange(24), draw.integers(1, 9, 24))
    values = draw.random(len(units)) < draw.beta(1, 1, 24)[units]
    without = np.array([values[units != unit].mean() for unit in range(24)])
    variance = 23 / 24 * ((without - without.mean()) ** 2).sum()
    sizes, share = np.bincount(units), values.mean()
    expected = share * (1 - share) / variance * (1.959964 / student(sizes)) ** 2
    assert effective_number(values, units) == pytest.approx(expected, rel=1e-6)
    assert effective_number(values, np.arange(len(values))) == len(values)
    assert effective_number(values & False, units) == sizes.sum() ** 2 / (sizes**2).sum()
    low, high = wilson(np.array(0.5), np.array(effective_number(np.arange(6) % 2, np.zeros(6))))
    assert low < 0.02
    assert high > 0.98


VERBS = {
    "nooch.analysis.check:check", "nooch.evaluation.evaluate:evaluate", "nooch.suites.find:find",
    "nooch.analysis.slices:find_slices", "nooch.analysis.validity:validity",
    "nooch.analysis.repair:repair", "nooch.analysis.intervene:intervene",
    "nooch.evaluation.captions:score_captions", "nooch.analysis.leaderboard:leaderboard",
    "nooch.analysis.audit:audit",
}  # fmt: skip


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_takes_the_same_groups(verb):
    setting = settings_of(verb)["group"]
    assert setting.default is None
    assert setting.help.startswith("Column, or pattern of file names, of images that count as one")
    assert "by default the " in setting.help


def test_the_command_takes_the_datasets_place(tmp_path, run_cli):
    """A dataset that was moved is named, and its groups are too."""
    data, runs = world(6)
    nooch.save_dataset(data, tmp_path / "moved")
    nooch.find(tmp_path / "moved", ["ce"], tasks=["car"], out=tmp_path / "suite")
    (tmp_path / "moved").rename(tmp_path / "data")
    answers = pl.DataFrame({"image_id": runs[0].image_ids, "car": runs[0].values[0]})
    answers.write_csv(tmp_path / "model.csv")
    said = [{"image_id": k, "caption": "A car."} for k in range(len(data))]
    pl.DataFrame(said).write_csv(tmp_path / "said.csv")
    answers = tmp_path / "models" / "one"
    answers.mkdir(parents=True)
    pl.DataFrame(said).write_csv(answers / "said.csv")
    (answers / "model.yaml").write_text("name: one\nkind: captions\n")
    suite = tmp_path / "suite"
    for words in (
        f"evaluate {suite} {tmp_path / 'model.csv'} --scale logit",
        f"captions {suite} {tmp_path / 'said.csv'}",
        f"leaderboard {answers.parent} --suite {suite} --out {tmp_path / 'page'}",
    ):
        by_scene = f"{words} --group scene --format json"
        assert "was not found" in run_cli(by_scene).err
        done = run_cli(f"{by_scene} --dataset {tmp_path / 'data'}").ok()
        assert "in groups by scene" in done.out or '"group": "scene"' in done.out
