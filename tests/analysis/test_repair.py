"""Repair: new heads that never look at test, their files, and verdicts by side and cue."""

import sys
from dataclasses import replace

import msgspec
import numpy as np
import polars as pl
import pytest
from oracles import dataset_of
from refusals import fails
from scipy.sparse import csr_array

import nooch
from nooch.analysis.repair import AFTER, BEFORE, changes_of, verdict_of
from nooch.base.errors import InputError, ParameterError, UndefinedError
from nooch.criteria import FittedContext
from nooch.data import Dataset, save_dataset
from nooch.evaluation import Scores
from nooch.evaluation.metrics.proportions import exact_mcnemar, paired_interval
from nooch.evaluation.rate_words import phi_words
from nooch.models.caches.features import given_features
from nooch.suites import save_suite
from nooch.training.training_data import Environments

pytest.importorskip("torch")
QUICK = {"methods": ["erm", "environment-reweight"], "bootstrap": 100}


def world(n=1800, seed=0):
    """Cars mostly on roads, boats mostly on water; features move with the places the most."""
    random = np.random.default_rng(seed)
    split = random.choice(["train", "valid", "test"], n).tolist()
    things = random.random((n, 2)) < 0.4
    places = random.random((n, 2)) < np.where(things, 0.9, 0.15)
    names = ["car", "boat", "road", "water"]
    present = np.hstack([things, places])
    images = [
        {
            name: 0.1 if name in names[:2] else 0.5
            for name, there in zip(names, row, strict=True)
            if there
        }
        for row in present
    ]
    features = random.normal(size=(n, 8)).astype(np.float32)
    features[:, :4] += present * [1.5, 1.5, 4, 4]
    return dataset_of(images, names, split), features


DATA, FEATURES = world()
SUITE = nooch.find(DATA, {"ce": nooch.CE()}, tasks=["car", "boat"])


@pytest.fixture(scope="module")
def repaired(tmp_path_factory):
    out = tmp_path_factory.mktemp("repair") / "out"
    return nooch.repair(SUITE, FEATURES, out, **QUICK)


def test_a_head_that_leans_on_the_place_is_repaired(repaired):
    assert repaired.table["task"].to_list() == ["car", "boat"]
    worst = repaired.table.select("worst_hard_before", "worst_hard_after").rows()
    assert all(after < before for before, after in worst)


def test_a_condition_takes_the_place_of_a_criterion(repaired, tmp_path):
    """As of a suite that was found by it, which the suite given does not have."""
    phi = "present(road) != y"
    options = {**QUICK, "tasks": ["car"], "methods": ["erm"]}
    by_phi = nooch.repair(SUITE, FEATURES, tmp_path / "a", phi=phi, **options)
    found = nooch.find(DATA, nooch.Attribute(phi), tasks=["car", "boat"])
    other = nooch.repair(found, FEATURES, tmp_path / "b", **options)
    assert by_phi.changes.equals(other.changes)
    assert not by_phi.changes.equals(repaired.changes)
    both = {"phi": phi, "criterion": "ce"}
    fails(lambda: nooch.repair(SUITE, FEATURES, tmp_path / "c", **both), "`criterion` and `phi`",
          kind=ParameterError)  # fmt: skip


PHIS = {
    "word": ("word('fog')", lambda fog, dark, site: fog),
    "property": ("brightness IS NOT NULL AND brightness <= 0.25", lambda fog, dark, site: dark),
    "column": ("site = 'A'", lambda fog, dark, site: site == "A"),
    "all": ("site = 'A' AND NOT word('fog')", lambda fog, dark, site: (site == "A") & ~fog),
}


@pytest.mark.parametrize(("phi", "oracle"), PHIS.values(), ids=PHIS)
def test_words_properties_and_columns_are_conditions_of_every_command(
    phi, oracle, tmp_path, run_cli, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    random, n = np.random.default_rng(5), len(DATA)
    fog, light, site = random.random(n) < 0.4, random.random(n), random.choice(["A", "B"], n)
    ids = DATA.images["image_id"]
    captions = pl.DataFrame({"image_id": ids, "caption": np.where(fog, "Fog, at sea", "sun")})
    images = DATA.images.with_columns(
        brightness=pl.Series(light).set(pl.Series(light > 0.9), None), site=pl.Series(site)
    )
    pools = images.with_columns(image_id=ids + 10_000)
    data = Dataset.build(images, DATA.classes, DATA.areas, captions)
    pool = Dataset.build(pools, DATA.classes, DATA.areas,
                         captions.with_columns(image_id=ids + 10_000))  # fmt: skip
    for name, made in (("data", data), ("pool", pool)):
        save_dataset(made, tmp_path / name)
    np.savez("features.npz", image_ids=ids.to_numpy(), embeddings=FEATURES)
    run_cli("find data --criterion ce --tasks car --out suite").ok()
    run_cli(f'find data --criterion attribute --phi "{phi}" --tasks car --out marked').ok()
    holds, car = oracle(fog, light <= 0.25, site), data.labels("car")
    of = {split: (data.images["split"] == split).to_numpy() for split in ("train", "test")}
    marked = nooch.load_suite("marked").set("attribute", "car", "test")
    sides = {"hard_positive": car & holds, "hard_negative": ~car & holds}
    for side, inside in sides.items():
        assert set(marked.ids(side)) == set(ids.filter(pl.Series(inside & of["test"])))
    done = run_cli(f'repair suite --features features.npz --phi "{phi}" --methods erm --bootstrap'
                   " 50 --out repaired --format json").ok()  # fmt: skip
    assert [row["task"] for row in done.json["tasks"]] == ["car"]
    changes = pl.read_parquet("repaired/changes.parquet").filter(pl.col("cue").is_null())
    counts = dict(changes.filter(metric="error").select("subset", "n").iter_rows())
    for side, inside in sides.items():
        assert counts[side] == (inside & of["test"]).sum()
    text = run_cli(f'collect-next suite --pool pool --phi "{phi}" --budget 25 --out next.csv').ok()
    chosen = pl.read_csv("next.csv")["image_id"] - 10_000
    assert holds[[DATA.row(image) for image in chosen]].all()
    train = int((holds & of["train"]).sum())
    note = f"images {phi_words(phi)}: {train} images in training, 25 added"
    assert note in text.out + text.err


def test_environments_of_labels_without_areas_are_by_the_column_or_phi(tmp_path):
    """As of a table of diagnoses: the strongest cue is a value of a column."""
    random, n = np.random.default_rng(0), 1500
    ill, split = random.random(n) < 0.4, random.choice(["train", "valid", "test"], n)
    ge = random.random(n) < np.where(ill, 0.85, 0.15)
    age = pl.Series(random.integers(20, 90, n)).set(pl.Series(np.arange(n) % 50 == 0), None)
    columns = {"scanner": np.where(ge, "GE", "Siemens"), "age": age}
    images = pl.DataFrame({"image_id": np.arange(n), "split": split, **columns})
    areas = csr_array(np.where(np.stack([ill, ~ill], axis=1), np.nan, 0.0))
    data = Dataset.build(images, ["ill", "well"], areas)
    features = random.normal(size=(n, 8)).astype(np.float32)
    features[:, 0] += ill
    features[:, 1] += 4 * ge
    suite = nooch.find(data, {"context": nooch.Context(columns=["all"])}, tasks=["ill"])
    fitted = suite.header.criteria["context"].restored()
    marked = nooch.Attribute("scanner = 'GE'").fit(data)
    for one in (fitted, marked):
        assert Environments(one).for_task(data, "ill").tolist() == (2 * ill + ge).tolist()
    by_age = nooch.Context(columns=["age"]).fit(data.select("train"), ["ill"])
    older = FittedContext(by_age.criterion, [], {"ill": msgspec.structs.replace(
        by_age.regressions["ill"], cues={by_age.regressions["ill"].context[0]: 4.0})})  # fmt: skip
    fails(lambda: Environments(older).for_task(data, "ill"), "not annotated", kind=UndefinedError)
    found = nooch.repair(suite, features, tmp_path / "out", bootstrap=50)
    row = found.table.row(0, named=True)
    assert row["auc_hard_after"] > row["auc_hard_before"] + 0.1
    assert row["method"] != "erm"


def test_without_a_valid_split_the_dataset_is_divided_first(tmp_path):
    test = (DATA.images["split"] != "valid").to_numpy()
    suite = nooch.find(DATA.select(rows=test), {"ce": nooch.CE()}, tasks=["car"])
    text = fails(lambda: nooch.repair(suite, FEATURES[test], tmp_path / "out"), "'valid'",
                 kind=ParameterError)  # fmt: skip
    assert "nooch import auto" in text
    of_test = nooch.find(DATA, {"ce": nooch.CE()}, tasks=["car"], splits=["test"])
    fails(lambda: nooch.repair(of_test, FEATURES, tmp_path / "out"), "no challenge set of the split"
          " valid", "nooch find", "splits=['valid', 'test']", kind=ParameterError)  # fmt: skip
    by_phi = nooch.repair(of_test, FEATURES, tmp_path / "out", phi="present(road) != y", **QUICK)
    assert by_phi.table["task"].to_list() == ["car"]


def test_files_say_the_same(repaired, tmp_path):
    from safetensors.numpy import load_file

    out = repaired.out
    test = np.flatnonzero((DATA.images["split"] == "test").to_numpy())
    about = msgspec.json.decode((out / "head.json").read_bytes())
    thresholds = {row["task"]: row["threshold"] for row in about["tasks"]}
    assert (list(thresholds), about["n_features"]) == (["car", "boat"], 8)
    arrays = load_file(out / "head.safetensors")
    logits = FEATURES[test] @ arrays["weight"].T + arrays["bias"]
    written = pl.read_parquet(out / "predictions.parquet")
    ids = DATA.images["image_id"].gather(test)
    wide = pl.DataFrame({"image_id": ids}).join(
        written.pivot("task", index="image_id", values="logit"), on="image_id", how="left"
    )
    assert np.allclose(wide.select("car", "boat").to_numpy(), logits, atol=1e-4)
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(out / "head.onnx", providers=["CPUExecutionProvider"])
    (given,) = session.run(None, {"features": FEATURES[test]})
    assert np.allclose(given, logits, atol=1e-4)
    scores = nooch.evaluate(SUITE, out / "predictions.parquet", threshold="worst-side")
    of_car = repaired.changes.filter(task="car", metric="error", subset="hard")
    plain = of_car.filter(pl.col("cue").is_null())
    assert plain["after"].item() == scores.value("error", "hard", task="car")
    assert scores.settings["thresholds"]["after"] == thresholds


def test_test_images_change_neither_head_nor_threshold(repaired, tmp_path):
    test = (DATA.images["split"] == "test").to_numpy()
    order = np.arange(len(DATA))
    order[test] = np.random.default_rng(1).permutation(order[test])
    areas = DATA.areas[order]
    other = replace(DATA, areas=areas)
    features = np.where(test[:, None], FEATURES[::-1] * 3 + 1, FEATURES)
    suite = nooch.find(other, {"ce": nooch.CE()}, tasks=["car", "boat"])
    again = nooch.repair(suite, features, tmp_path / "out", **QUICK)
    assert np.array_equal(again.heads, repaired.heads)
    same = ["task", "method", "setting", "threshold"]
    assert again.table.select(same).equals(repaired.table.select(same))
    assert not again.changes.equals(repaired.changes)


GAIN = "better on hard positives (0.500 to 0.400)"


@pytest.mark.parametrize(
    ("gaps", "verdict", "reason"),
    [
        ({}, "inconclusive", "no error rate changes by more than its interval"),
        ({"hard_positive": -1}, "better", GAIN),
        ({"easy_positive": -1}, "inconclusive", "no error rate changes by more than its interval"),
        ({"easy_negative": 1}, "worse", "worse on easy negatives (0.500 to 0.600)"),
        (
            {"hard_negative": -1, "easy_positive": 1},
            "traded",
            "better on hard negatives (0.500 to 0.400); worse on easy positives (0.500 to 0.600)",
        ),
        (
            {"hard_positive": -1, "road": 1},
            "traded",
            f"{GAIN}; worse on hard negatives of road (0.500 to 0.600)",
        ),
    ],
)
def test_what_got_worse_anywhere_is_not_called_better(gaps, verdict, reason):
    sides = ["hard_positive", "hard_negative", "easy_positive", "easy_negative"]
    places = [(side, None) for side in sides] + [("hard_negative", "road")]
    kinds = {-1: "better", 0: "inconclusive", 1: "worse"}
    rows = []
    for side, cue in places:
        gap = gaps.get(cue or side, 0)
        rows.append(("car", side, cue, "error", 0.5, 0.5 + gap / 10, kinds[gap]))
    rows.append(("car", "hard", None, "auc", 0.7, 0.8, None))
    columns = ["task", "subset", "cue", "metric", "before", "after", "change"]
    found = verdict_of(pl.DataFrame(rows, columns, orient="row"), "car")
    assert (found["verdict"], found["reason"]) == (verdict, reason)
    assert found["worst_hard_before"] == 0.5
    assert (found["auc_hard_before"], found["auc_hard_after"]) == (0.7, 0.8)


def test_changes_are_those_of_a_paired_evaluation(repaired):
    after = pl.read_parquet(repaired.out / "predictions.parquet")
    for change in repaired.changes.drop_nulls("change").iter_rows(named=True):
        assert change["metric"] == "error"
        assert change["n"] >= 20
        gap = change["after"] - change["before"]
        assert change["difference"] == pytest.approx(gap, abs=1e-12)
        beyond = {change["low"] > 0: "worse", change["high"] < 0: "better"}
        sure = change["p"] <= 0.05
        assert change["change"] == (beyond.get(True, "inconclusive") if sure else "inconclusive")
    (verdicts,) = repaired.table.select(pl.col("verdict").unique().implode()).row(0)
    assert set(verdicts) <= {"better", "worse", "traded", "inconclusive"}
    # a model that answers so already gains nothing
    again = nooch.repair(SUITE, FEATURES, repaired.out.parent / "again", predictions=after, **QUICK)
    assert again.table["verdict"].to_list() == ["inconclusive"] * 2
    assert again.notes[0] == "before: after"


def test_a_verdict_needs_the_interval_and_the_exact_test():
    """Of 100 images four and five fewer errors prove nothing, six do; alone, neither suffices."""
    sides = {"hard_positive": 4, "hard_negative": 5, "easy_positive": 6}
    place = {"criterion": "ce", "task": "car", "split": "test", "metric": "error", "n": 100}
    rows, gaps = [], []
    for subset, gain in sides.items():
        for run, value in ((BEFORE, 0.5), (AFTER, 0.5 - gain / 100)):
            rows.append({**place, "subset": subset, "cue": None, "run": run, "value": value})
        down = np.array(gain / 100)
        low, high = (bound.item() for bound in paired_interval(0 * down, down, 100))
        found = {"difference": -gain / 100, "low": low, "high": high, "reason": None}
        p = exact_mcnemar(np.array(0.0), 100 * down).item()
        gaps.append({**place, "subset": subset, "cue": None, **found, "p": p})
    gaps[2:] = [gaps[2], {**gaps[2], "subset": "easy_negative", "p": 0.06}]
    rows += [{**row, "subset": "easy_negative"} for row in rows[4:]]
    scores = Scores(pl.DataFrame(rows, infer_schema_length=None), pl.DataFrame(gaps))
    changes = changes_of(scores)["change"].to_list()
    assert changes == ["inconclusive", "inconclusive", "better", "inconclusive"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """``data``, ``suite`` and ``f.npz`` in the working folder."""
    monkeypatch.chdir(tmp_path)
    save_dataset(DATA, tmp_path / "data")
    save_suite(nooch.find(DATA, {"ce": nooch.CE()}, tasks=["car"]), tmp_path / "suite")
    ids = DATA.images["image_id"].to_numpy()
    np.savez("f.npz", image_ids=ids, embeddings=FEATURES)
    return tmp_path


COMMAND = "repair suite --dataset data --features f.npz --methods erm --bootstrap 20 --out out"


def test_the_command(folder, run_cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    done = run_cli(f"{COMMAND} --format json").ok().json
    assert [(row["task"], row["method"]) for row in done["tasks"]] == [("car", "erm")]
    # the control against itself
    assert done["tasks"][0]["verdict"] == "inconclusive"
    assert "head.onnx was not written" in done["notes"][-1]
    assert not (folder / "out" / "head.onnx").exists()
    run_cli(COMMAND).refused("out: exists", "--overwrite")
    elsewhere = run_cli("repair suite --features f.npz --out o")
    elsewhere.refused("was not found at its recorded path", "--dataset")
    text = run_cli(f"{COMMAND} --overwrite --threshold 0.5").ok()
    assert "1 inconclusive" in text.out
    assert "error rates compared" in text.err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--methods gdro", "'gdro' is not a value of --methods"),
        ("--tasks tie", "tie"),
        ("--criterion gist", "gist"),
        ("--predictions two.csv", "several runs: a, b"),
        ("--predictions test.csv", "no threshold can be chosen on valid"),
        ("--features part.npz", "1 images have missing"),
    ],
)
def test_what_is_refused(folder, run_cli, more, message):
    ids, test = DATA.images["image_id"], DATA.images["split"] == "test"
    rows = pl.DataFrame({"image_id": ids, "task": "car", "logit": FEATURES[:, 0]})
    rows.filter(test).write_csv("test.csv")
    both = pl.concat([rows.with_columns(run=pl.lit(name)) for name in "ab"])
    both.filter(pl.concat([test, test])).write_csv("two.csv")
    np.savez("part.npz", image_ids=ids[1:].to_numpy(), embeddings=FEATURES[1:])
    run_cli(f"{COMMAND} {more}").refused(message)
    assert not (folder / "out").exists()


def test_python_refusals(tmp_path):
    def repaired(features=FEATURES, suite=SUITE, **more):
        return lambda: nooch.repair(suite, features, tmp_path / "out", **more)

    broken = FEATURES.copy()
    broken[3, 2] = np.inf
    fails(repaired(broken), "non-finite", kind=InputError)
    fails(repaired(FEATURES[1:]), "features have shape", kind=InputError)
    fails(repaired(bootstrap=0), "`bootstrap`: is 0", kind=ParameterError)
    # nothing is hard where every cue is everywhere
    none = nooch.find(DATA, nooch.Attribute("image_id < 0"), tasks=["car"])
    fails(repaired(suite=none, **QUICK), "on valid", kind=UndefinedError)


def _features(data, **more):
    named = {f"f{k}": FEATURES[:, k] for k in range(8)}
    return pl.DataFrame({"image_id": data.images["image_id"], **named, **more})


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"label": lambda d: d.labels("car")}, "label (equals the labels of car)"),
        ({"fire": lambda d: d.labels("boat")}, "fire (equals the labels of boat)"),
        ({"Car": lambda d: np.arange(len(d))}, "Car"),
        ({"fold": lambda d: np.arange(len(d)) % 3}, "fold"),
        ({"Unnamed: 0": lambda d: np.arange(len(d))}, "Unnamed: 0"),
        ({"width": lambda d: np.arange(len(d))}, "width (unlike f0)"),
        ({"y": lambda d: np.arange(len(d)), "target": lambda d: np.arange(len(d))}, "y, target"),
    ],
)
def test_columns_that_are_not_features_are_refused(tmp_path, column, words):
    more = {name: np.asarray(values(DATA)).astype(float) for name, values in column.items()}
    file = tmp_path / "f.parquet"
    _features(DATA, **more).write_parquet(file)
    fails(lambda: given_features(file, DATA), f"columns that are not features: {words}", "remove")


def test_features_of_a_file_say_what_was_read(tmp_path):
    notes = []
    _features(DATA).write_parquet(tmp_path / "f.parquet")
    assert np.array_equal(given_features(tmp_path / "f.parquet", DATA, None, notes), FEATURES)
    assert notes == ["8 features: f0 to f7"]
    names = [f"im{i}.jpg" for i in range(len(DATA))]
    images = DATA.images.with_columns(file_name=pl.Series(names))
    named = nooch.Dataset.build(images, DATA.classes, DATA.areas)
    frame = _features(DATA).drop("image_id").with_columns(filename=pl.Series(names))
    frame.reverse().write_parquet(tmp_path / "f.parquet")
    assert np.array_equal(given_features(tmp_path / "f.parquet", named), FEATURES)


@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_arrays_of_features_take_ids(tmp_path, ending):
    file, order = tmp_path / f"f.{ending}", np.random.default_rng(0).permutation(len(DATA))
    np.save(file, FEATURES[order]) if ending == "npy" else np.savez(file, x=FEATURES[order])
    ids = DATA.images["image_id"].gather(order)
    (tmp_path / "ids.txt").write_text("\n".join(map(str, ids)))
    for given in (ids, ids.to_list(), str(tmp_path / "ids.txt")):
        assert np.array_equal(given_features(file, DATA, given), FEATURES)
    if ending == "npy":
        out = tmp_path / "out"
        fails(
            lambda: nooch.repair(SUITE, file, out), "the image of each row", "reading={'ids': ...}"
        )
    fails(lambda: given_features(file, DATA, ids[1:]), "for 1799 images")
