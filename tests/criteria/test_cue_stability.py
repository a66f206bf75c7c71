"""Stability of cues: against resampled data sets fitted one by one, whole and by part."""

import numpy as np
import polars as pl
import pytest
from oracles import dataset_of
from planted import planted_data
from refusals import fails

from nooch.base.errors import ParameterError
from nooch.criteria import CE
from nooch.criteria.cue_stability import _draws, cue_stability
from nooch.data import Dataset, divide


def test_resamples_are_those_of_fits_on_resampled_images():
    data = planted_data(300)
    fitted = CE(alpha=0.2).fit(data)
    found = cue_stability(fitted, [data], ["car", "tree"], resamples=40, seed=3)
    draws = _draws(0, len(data), 40, 3).astype(int)
    for task in ("car", "tree"):
        strengths = []
        for resample in draws.T:
            rows = np.repeat(np.arange(len(data)), resample)
            areas = data.areas[rows].toarray()
            own = data.classes.index(task)
            positive = areas[:, own] > 0
            strengths.append((areas[positive] - areas[positive][:, [own]]).mean(axis=0))
        strengths = np.array(strengths)
        for one in found[task]:
            column = strengths[:, data.classes.index(one.cue)]
            assert one.share == (column > 0.2).mean()
            assert (one.low, one.high) == pytest.approx(tuple(np.quantile(column, [0.025, 0.975])))
            assert one.strength == fitted.strength(one.cue, task)
        listed = {one.cue for one in found[task]}
        for name in set(data.classes) - listed - {task}:
            assert not (strengths[:, data.classes.index(name)] > 0.2).any()


def test_images_in_which_a_cue_was_not_annotated_do_not_count():
    data = planted_data(300)
    annotated = np.arange(len(data)) % 3 > 0
    partly = Dataset.build(
        data.images.with_columns(annotated_stuff=pl.Series(annotated)), data.classes, data.areas,
        kinds={"road": "stuff", "car": "thing", "tree": "thing"},
    )  # fmt: skip
    found = cue_stability(CE(cues={"car": ["road"]}).fit(partly), [partly], ["car"], resamples=20)
    known = data.select(rows=annotated)
    draws = _draws(0, len(data), 20, 0)[annotated & data.labels("car")]
    gaps = (known.area("road") - known.area("car"))[known.labels("car")]
    expected = (draws * gaps[:, None]).sum(axis=0) / draws.sum(axis=0)
    road = next(one for one in found["car"] if one.cue == "road")
    assert (road.low, road.high) == pytest.approx(tuple(np.quantile(expected, [0.025, 0.975])))


def test_parts_do_not_matter():
    data = planted_data(300)
    fitted = CE().fit(data)
    whole = cue_stability(fitted, [data], ["car"], resamples=50)
    parts = cue_stability(fitted, divide(data, 3), ["car"], resamples=50)
    assert [one.cue for one in whole["car"]] == [one.cue for one in parts["car"]]
    for one, other in zip(whole["car"], parts["car"], strict=True):
        assert (one.share, one.strength) == (other.share, other.strength)
        assert (one.low, one.high) == pytest.approx((other.low, other.high))


def test_a_cue_at_alpha_is_one_in_half_of_the_resamples():
    """One image with much road, 99 with a little: the draws of one image decide."""
    images = [{"car": 0.1, "road": 0.9}] + [{"car": 0.1, "road": 0.15}] * 99
    data = dataset_of(images, ["car", "road"], ["train"] * 100)
    strength = CE().fit(data).strength("road", "car")
    (road,) = cue_stability(CE(alpha=strength - 1e-6).fit(data), [data], ["car"])["car"]
    assert 0.4 < road.share < 0.9
    assert road.near_alpha
    assert road.low < strength < road.high
    (sure,) = cue_stability(CE(alpha=0.01).fit(data), [data], ["car"])["car"]
    assert sure.share == 1
    assert not sure.near_alpha


def test_few_resamples_are_refused():
    fitted = CE().fit(planted_data(60))
    fails(lambda: cue_stability(fitted, [], ["car"], resamples=19), "resamples is 19",
          kind=ParameterError)  # fmt: skip
