"""Environments, weights and the sampler against loops over images; the recipes of the docs."""

import re
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from oracles import dataset_of
from refusals import fails, refused

import nooch
from nooch.base.errors import UndefinedError
from nooch.data import Dataset, save_dataset
from nooch.training.weights import WEIGHTING

CUES = nooch.CE(cues={"car": ("road",)})
SPLITS = ("train", "train", "valid", "test")


def _data(kinds):
    """Images by environment, 0 to 3."""
    contents = ({}, {"road": 0.3}, {"car": 0.1}, {"car": 0.1, "road": 0.3})
    splits = [SPLITS[n % 4] for n in range(len(kinds))]
    return dataset_of([contents[kind] for kind in kinds], ["car", "road"], splits)


KINDS = st.lists(st.integers(0, 3), min_size=4, max_size=60)


@given(KINDS, st.sampled_from(WEIGHTING), st.floats(0, 3))
def test_weights_equal_a_loop_over_images(kinds, method, alpha):
    weights = nooch.training.sample_weights(
        _data(kinds), "car", method, alpha=alpha, criterion=CUES
    )
    by_environment = method.startswith("environment") or method == "subg"
    groups = [kind if by_environment else kind // 2 for kind in kinds]
    train = [g for n, g in enumerate(groups) if SPLITS[n % 4] == "train"]
    power = 1.0 if method.startswith("sub") else alpha

    def mass(group):
        return (len(train) / train.count(group)) ** power if group in train else np.nan

    mean = sum(map(mass, train)) / len(train)
    listed = [n for n in range(len(kinds)) if SPLITS[n % 4] != "test"]
    assert weights["image_id"].to_list() == [n + 1 for n in listed]
    defined = [groups[n] in train for n in listed]
    assert weights["weight"].is_not_null().to_list() == defined
    expected = [mass(groups[n]) / mean for n, there in zip(listed, defined, strict=True) if there]
    np.testing.assert_allclose(weights["weight"].drop_nulls(), expected, 1e-5)
    assert weights["label"].to_list() == [kinds[n] >= 2 for n in listed]
    expected = [kinds[n] if by_environment else None for n in listed]
    assert weights["environment"].to_list() == expected
    assert np.isclose(weights.filter(split="train")["weight"].mean(), 1, rtol=1e-5)


@given(KINDS)
def test_environments_are_label_and_presence_of_the_cue(kinds):
    assert nooch.training.environments(_data(kinds), "car", criterion=CUES).tolist() == kinds


def test_the_strongest_cue_is_found_in_training_and_a_column_may_replace_it():
    data = _data([3] * 20 + [0] * 20 + [1, 2] * 4)
    assert (nooch.training.environments(data, "car") == [3] * 20 + [0] * 20 + [1, 2] * 4).all()
    place = pl.DataFrame({"image_id": data.images["image_id"], "place": ["a", "b"] * 24})
    other = nooch.io.with_attributes(data, nooch.io.attribute_table(data, place))
    odd = nooch.training.environments(other, "car", attribute="place") % 2
    assert (odd == np.arange(48) % 2).all()


def test_a_sampler_draws_environments_equally_and_repeats_itself():
    groups = np.array([0] * 900 + [1] * 60 + [3] * 40)
    sampler = nooch.training.EnvironmentSampler(groups, seed=3)
    first, second = list(sampler), list(sampler)
    assert len(first) == len(sampler) == 1000
    assert first != second
    shares = np.bincount(groups[first + second]) / 2000
    np.testing.assert_allclose(shares, [1 / 3, 1 / 3, 0, 1 / 3], atol=0.05)
    sampler.set_epoch(0)
    assert list(sampler) == first == list(nooch.training.EnvironmentSampler(groups, seed=3))
    shares = np.bincount(groups[list(nooch.training.EnvironmentSampler(groups, alpha=0))]) / 1000
    np.testing.assert_allclose(shares, [0.9, 0.06, 0, 0.04], atol=0.03)


@pytest.mark.parametrize("groups", [[], [[0, 1]], [0.5, 1.0], [-1, 0], ["a"]])
def test_what_is_no_environment_is_refused(groups):
    fails(lambda: nooch.training.EnvironmentSampler(groups), "are not environments")


def test_what_is_asked_wrongly_is_refused():
    data = _data([0, 1, 2, 3])
    refused(lambda: nooch.training.sample_weights(data, "car", "gdro"), "'gdro'")
    refused(lambda: nooch.training.sample_weights(data, "cat"), "'cat' is not a class")
    negative = {"alpha": -1.0, "criterion": CUES}
    refused(lambda: nooch.training.sample_weights(data, "car", **negative), "-1")
    refused(lambda: nooch.training.EnvironmentSampler([0], alpha=-1.0), "-1")
    too_large = {"method": "label-reweight", "alpha": 2000.0}
    large = partial(nooch.training.sample_weights, _data([0, 3, 0, 3] * 5), "car", **too_large)
    refused(large, "2000")
    alone, test = (
        dataset_of([{"car": 0.1}, {}], ["car", "road"], [split] * 2) for split in ("train", "test")
    )
    environments = partial(nooch.training.environments, task="car")
    refused(lambda: environments(alone), "no environments", kind=UndefinedError)
    refused(lambda: environments(test), "'train' is not a split")


def test_a_label_must_be_known_in_training():
    """Not annotated is not absent; the labels of test count for nothing."""
    data = _data([0, 1, 2, 3] * 5)
    unknown = np.zeros((20, 2), bool)
    unknown[3, 0] = True
    of_test = Dataset.build(data.images, data.classes, data.areas, unknown=unknown)
    known, weights = (nooch.training.sample_weights(d, "car", "suby") for d in (data, of_test))
    assert weights.equals(known)
    unknown[4, 0] = True
    partly = Dataset.build(data.images, data.classes, data.areas, unknown=unknown)
    for method in ("suby", "label-reweight", "environment-reweight"):
        weigh = partial(nooch.training.sample_weights, partly, "car", method, criterion=CUES)
        refused(weigh, "was not annotated in 1 images", kind=UndefinedError)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_the_command_writes_the_same_weights(tmp_path, run_cli, ending):
    data = _data([0, 1, 2, 3] * 12 + [3, 3, 3, 3])
    save_dataset(data, tmp_path / "ds")
    out = tmp_path / f"w.{ending}"
    ran = run_cli(f"train weights {tmp_path / 'ds'} --task car --cues car=road --out {out}").ok()
    assert "car, environment-undersample" in ran.out
    read = pl.read_parquet(out) if ending == "parquet" else pl.read_csv(out)
    expected = nooch.training.sample_weights(data, "car", criterion=CUES)
    assert read["weight"].to_list() == expected["weight"].to_list()
    assert run_cli(f"train weights {tmp_path / 'ds'} --task car --out {out}").code == 2
    assert (
        run_cli(f"train weights {tmp_path / 'ds'} --task car --out {tmp_path / 'w.txt'}").code == 2
    )


def test_the_recipes_run(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
    pytest.importorskip("lightning", reason="lightning is not installed (nooch[lightning])")
    pytest.importorskip("accelerate", reason="accelerate is not installed (nooch[hf])")
    monkeypatch.chdir(tmp_path)
    data = _data([0, 3] * 40 + [1, 2] * 4 + [1] * 8 + [2] * 8)
    save_dataset(data, tmp_path / "dataset")
    nooch.find(data, {"ce": CUES}, tasks=["car"], out=tmp_path / "suite")
    torch.manual_seed(0)
    torch.save(torch.randn(len(data), 5), "inputs.pt")
    page = Path(__file__).parents[2] / "docs" / "custom-training.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(blocks) == 4
    names = {}
    # frameworks warn of few workers and few steps
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec("\n".join(blocks), names)
    assert torch.isfinite(names["loss"])
    assert names["loss"].requires_grad
    assert names["best"].best_model_score > 0
    assert names["trainer"].state.best_metric > 0
