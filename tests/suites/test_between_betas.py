"""Images between a cue's two betas are neither hard nor easy, and are counted."""

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from oracles import dataset_of

import nooch

CLASSES = ["cow", "grass", "field"]
AREA = st.sampled_from([0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3])
BETA = st.sampled_from([0.05, 0.1, 0.2, 0.25])


def obvious(label, areas, betas):
    """The verdict of one image, cue by cue."""
    below = all(area < first for area, (first, _) in zip(areas, betas, strict=True))
    above = any(area > second for area, (_, second) in zip(areas, betas, strict=True))
    if label:
        usual = any(area >= second for area, (_, second) in zip(areas, betas, strict=True))
        return "hard_positive" if below else "easy" if usual else None
    usual = all(area <= first for area, (first, _) in zip(areas, betas, strict=True))
    return "hard_negative" if above else "easy" if usual else None


def made(rows):
    images = [({"cow": 0.5} if y else {}) | {"grass": a, "field": b} for y, a, b in rows]
    return dataset_of(images, CLASSES)


@given(
    st.lists(st.tuples(st.booleans(), AREA, AREA), min_size=1, max_size=12),
    st.tuples(BETA, BETA), st.tuples(BETA, BETA),
)  # fmt: skip
def test_verdicts_are_those_of_a_loop(rows, grass, field):
    cues = {"cow": ["grass", "field"]}
    criterion = nooch.CE(cues=cues, betas={"cow": {"grass": grass, "field": field}})
    suite = nooch.find(made(rows), criterion, tasks=["cow"])
    challenge, record = suite.set("ce", "cow", "all"), suite.record("ce", "cow", "all")
    verdicts = [obvious(label, areas, (grass, field)) for label, *areas in rows]
    table = challenge.rows
    assert table["subset"].to_list() == verdicts
    assert table["support"].null_count() == 0
    none = [row[0] for row, verdict in zip(rows, verdicts, strict=True) if verdict is None]
    between = record.between_positives, record.between_negatives
    assert between == (sum(none), len(none) - sum(none))
    assert (record.excluded_positives, record.excluded_negatives) == between
    assert challenge.table["subset"].to_list() == [v for v in verdicts if v is not None]


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A dataset folder of 120 images, and the suite of betas .1 and .3 next to it."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    rows = [(i % 3 == 0, float(a), 0.0) for i, a in enumerate(random.uniform(0, 0.6, 120))]
    nooch.save_dataset(made(rows), tmp_path / "data")
    criterion = nooch.CE(cues={"cow": ["grass"]}, betas={"cow": {"grass": (0.1, 0.3)}})
    suite = nooch.find("data", criterion, tasks=["cow"])
    nooch.save_suite(suite, tmp_path / "suite")
    return rows, suite


def test_suites_keep_support_and_counts(world):
    rows, found = world
    suite = nooch.load_suite("suite")
    one, again = (s.set("ce", "cow", "all") for s in (found, suite))
    assert one.rows.equals(again.rows)
    assert one.counts == again.counts
    kept = sum(not 0.1 < area < 0.3 for _, area, _ in rows)
    assert 0 < kept == len(again) == 120 - len(again.between)
    assert f"{120 - kept} of them neither hard nor easy" in str(again)
    # what compares, scores and samples suites sees images with a verdict alone
    same = nooch.verify(suite, found, bootstrap=0).filter(task="cow", metric="jaccard")
    assert same["value"].to_list() == [1.0] * 4
    assert same["images"].to_list() == [kept] * 4


def test_scores_are_of_images_with_a_verdict(world):
    rows, suite = world
    answers = pl.DataFrame({"image_id": range(1, 121), "task": "cow", "logit": [1.5] * 120})
    scores = nooch.evaluate("suite", answers, reading={"ignore_unknown": True})
    chosen = [label for label, area, _ in rows if not 0.1 < area < 0.3]
    assert scores.value("error", "all") == pytest.approx(1 - np.mean(chosen))
    assert suite.record("ce", "cow", "all").positives == sum(chosen)


def test_commands_count_them(world, run_cli):
    rows, _ = world
    n = sum(0.1 < area < 0.3 for _, area, _ in rows)
    shown = run_cli("show suite").ok().out
    assert "between two betas" in shown
    number = nooch.load_suite("suite").set("ce", "cow", "all").between["image_id"][0]
    explained = run_cli(f"explain suite --image {number} --task cow").ok().out
    assert "neither hard nor easy: context support" in " ".join(explained.split())
    run_cli("report suite --out site").ok()
    run_cli("export suite npy --to npy").ok()
    exported = np.concatenate([np.load(file) for file in Path("npy").rglob("*.npy")])
    between = nooch.load_suite("suite").set("ce", "cow", "all").between["image_id"]
    assert len(exported) > 20
    assert not {*exported.tolist()} & {*between}
    found = run_cli("find data --tasks cow --cues cow=grass --out plain").ok()
    assert "between two betas" not in found.out
    assert nooch.load_suite("plain").record("ce", "cow", "all").excluded_positives == 0
    assert n > 10
