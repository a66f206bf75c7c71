"""Corrected labels in find and evaluate: the sets of a dataset that had these labels."""

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from oracles import collections, dataset_of

from nooch.base.files import sha256_of
from nooch.criteria import CE, Attribute, Combination, Gist
from nooch.data import divide, open_dataset, save_dataset
from nooch.evaluation import Predictions, evaluate
from nooch.suites import as_suite
from nooch.suites.find import find

WORDS = {True: "yes", False: "no", None: "ambiguous"}
CRITERIA = {
    "ce": CE(0.05, 0.1),
    "gist": Gist("e", 0.4),
    "matched": Gist("e"),
    "mark": Attribute("day < 4"),
    "both": Combination("ce & gist"),
}


@st.composite
def worlds(draw):
    """Images, classes, splits, and verdicts on Y for some images that are not in train."""
    images, classes, splits = draw(collections(max_images=20, splits=True))
    rows = [row for row, split in enumerate(splits) if split != "train"]
    said = {row: draw(st.sampled_from(list(WORDS))) for row in rows if draw(st.booleans())}
    images += [{"Y": 0.1, "A": 0.3}, {"A": 0.3}, {"Y": 0.2}]
    splits += ["train", "test", "test"]
    return images, classes, splits, said, draw(st.integers(0, 99))


def _world(images, classes, splits, seed):
    random = np.random.default_rng(seed)
    data = dataset_of(images, classes, splits)
    table = data.images.with_columns(day=pl.Series(random.integers(0, 7, len(images))))
    vectors = random.normal(size=(len(images), 3)) + 1
    return type(data).build(table, classes, data.areas, embeddings={"e": vectors})


def _write(verdicts, path):
    rows = [(row + 1, "Y", WORDS[verdict]) for row, verdict in verdicts.items()]
    schema = {"image_id": pl.Int64, "task": pl.String, "verdict": pl.String}
    pl.DataFrame(rows, schema, orient="row").write_csv(path)
    return path


def _rows(suite):
    """Criterion, split -> subset of each image, by id."""
    tables = ((key, suite.set(*key).table) for key in suite.keys)
    return {key[::2]: dict(t.select("image_id", "subset").iter_rows()) for key, t in tables}


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=5
)
@given(world=worlds(), parts=st.sampled_from([1, 3]))
def test_sets_are_those_of_a_dataset_with_these_labels(world, parts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("overlay")
    images, classes, splits, verdicts, seed = world
    options = {"tasks": ["Y"], "match": "ce", "splits": sorted({*splits} - {"train"})}
    options["allow_unannotated"] = True
    file = _write(verdicts, folder / "v.csv")
    data = _world(images, classes, splits, seed)
    edited = [dict(image) for image in images]
    for row, verdict in verdicts.items():
        if verdict is False:
            edited[row].pop("Y", None)
        elif verdict:
            edited[row].setdefault("Y", 0.0)
    expected = _rows(find(_world(edited, classes, splits, seed), CRITERIA, **options))
    save_dataset(divide(data, parts), folder / "data")
    opened = open_dataset(folder / "data")
    found = find(opened, CRITERIA, overlay=file, out=folder / "suite", **options)
    ambiguous = {row + 1 for row, verdict in verdicts.items() if verdict is None}
    rows = _rows(found)
    assert rows.keys() == expected.keys()
    for key, subsets in expected.items():
        # counts to match are those without ambiguous images
        if key[0] != "matched" or not ambiguous:
            assert rows[key] == {i: s for i, s in subsets.items() if i not in ambiguous}, key
    assert as_suite(folder / "suite").header.overlay.files == [sha256_of(file)]
    # the same from the suite alone, but for combinations
    plain = find(data, CRITERIA, **options)
    assert plain.header.overlay is None
    scored = _corrected_counts(plain, file)
    for (criterion, split), subsets in rows.items():
        if criterion in {"ce", "gist", "mark"}:
            counts = [list(subsets.values()).count(s) for s in ("hard_positive", "hard_negative")]
            assert scored.get((criterion, split), [0, 0]) == counts, criterion


def _corrected_counts(suite, file):
    """Criterion, split -> hard positives and negatives that evaluate scores with the overlay."""
    ids = sorted({i for key in suite.keys for i in suite.set(*key).image_ids})
    run = Predictions.from_arrays(np.zeros((len(ids), 1)), ids, ["Y"], scale="logit", run="m")
    table = evaluate(suite, run, overlay=file, split=suite.splits).table
    rows = table.filter(run="m, corrected", metric="error").filter(pl.col("cue").is_null())
    return {
        key: [part.filter(subset=f"hard_{side}")["n"].item() for side in ("positive", "negative")]
        for key, part in rows.group_by("criterion", "split")
    }


def test_before_and_after_are_next_to_each_other(tmp_path):
    images = [{"Y": 0.1, "A": 0.3}] * 6 + [{"A": 0.3}] * 6 + [{"Y": 0.05}] * 6 + [{}] * 6
    splits = ["train", "test"] * 12
    data = _world(images, ["Y", "A"], splits, 1)
    suite = find(data, CRITERIA["ce"], tasks=["Y"])
    hard = suite.set("ce", "Y", "test").ids("hard_negative")
    file = _write({hard[0] - 1: True, hard[1] - 1: None}, tmp_path / "v.csv")
    ids = suite.set("ce", "Y", "test").image_ids
    values = np.random.default_rng(0).normal(size=(len(ids), 1))
    runs = [
        Predictions.from_arrays(values, ids, ["Y"], scale="logit", run=name) for name in ("a", "b")
    ]
    condition = "error@hard_negative[ce,Y]>1"
    scores = evaluate(suite, runs, overlay=[file], bootstrap=20, baseline="b", fail_if=[condition])
    names = ["a", "b", "a, corrected", "b, corrected"]
    assert scores.table["run"].unique(maintain_order=True).to_list() == names
    assert scores.differences["baseline"].unique(maintain_order=True).to_list() == names[1::2]
    # the baseline is only compared with
    assert [verdict.run for verdict in scores.verdicts] == names[2:3]
    n = {name: scores.table.filter(run=name, metric="auc") for name in names}
    sizes = {name: dict(rows.select("subset", "n").iter_rows()) for name, rows in n.items()}
    assert sizes["a"]["hard_negative"] == sizes["a, corrected"]["hard_negative"] + 2
    assert sizes["a"]["easy_positive"] == sizes["a, corrected"]["easy_positive"] - 1
    assert any("1 label corrected, 1 image left out" in note for note in scores.notes)


@pytest.mark.parametrize(
    "command", ["evaluate suite p.csv --scale probability", "find data --out other"]
)
def test_as_typed(command, tmp_path, run_cli, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images = [{"Y": 0.1, "A": 0.3}, {"A": 0.3}, {"Y": 0.05}, {}] * 4
    data = _world(images, ["Y", "A"], ["train"] * 8 + ["test"] * 8, 1)
    save_dataset(data, tmp_path / "data")
    find(data, CRITERIA["ce"], tasks=["Y"], out=tmp_path / "suite")
    pl.DataFrame({"image_id": data.image_ids[8:], "Y": 0.5}).write_csv(tmp_path / "p.csv")
    verdicts = [{"image_id": 10, "task": "Y", "verdict": v, "reviewer": v} for v in ("yes", "no")]
    pl.DataFrame(verdicts).write_csv(tmp_path / "v.csv")
    done = run_cli(f"{command} --overlay v.csv --overlay v.csv").ok()
    assert "reviewers differ on 1 verdict: 10 (Y)" in done.err
    (tmp_path / "v.csv").write_text("image_id,task,verdict\n10,Y,maybe\n")
    run_cli(f"{command} --overlay v.csv --overwrite").refused("record 1 is not a verdict", "v.csv")
