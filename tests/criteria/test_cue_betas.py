"""Betas of single cues against the rule applied image by image; areas at their very edges."""

import json
import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from oracles import AREAS, dataset_of
from refusals import refused

from nooch.base.errors import FormatError
from nooch.criteria import CE, FittedCE
from nooch.criteria.ce_betas import scaled
from nooch.suites import SUBSETS
from nooch.suites.find import find

CLASSES = ["Y", "A", "B"]
CUES = {"Y": ["A", "B"]}
BETA = st.sampled_from([0.02, 0.05, 0.1, 0.15, 0.3, 0.75, 1.0]) | st.floats(0.001, 1)
IMAGE = st.dictionaries(st.sampled_from(CLASSES), AREAS).map(dict)
IMAGES = st.lists(IMAGE, min_size=1, max_size=12)


def subset(image, betas):
    """The rule with a beta for each cue and side; None between the two."""
    areas = {cue: image.get(cue, 0.0) for cue in betas}
    if "Y" in image:
        if all(areas[c] < betas[c][0] for c in betas):
            return "hard_positive"
        return "easy" if any(areas[c] >= betas[c][1] for c in betas) else None
    if any(areas[c] > betas[c][1] for c in betas):
        return "hard_negative"
    return None if any(areas[c] > betas[c][0] for c in betas) else "easy"


@given(IMAGES, st.tuples(BETA, BETA), BETA | st.tuples(BETA, BETA), BETA)
def test_each_cue_and_side_has_its_own_beta(images, of_a, of_b, beta):
    data = dataset_of(images, CLASSES)
    criterion = CE(beta=beta, cues=CUES, betas={"Y": {"A": of_a, "B": of_b}})
    pair = of_b if isinstance(of_b, tuple) else (of_b, of_b)
    suite = find(data, {"ce": criterion}, tasks=["Y"])
    challenge = suite.set("ce", "Y", "all")
    found = [SUBSETS[code] for code in challenge.subset]
    wanted = [subset(image, {"A": of_a, "B": pair}) for image in images]
    assert found == [one for one in wanted if one is not None]
    kept = [image for image, one in zip(images, wanted, strict=True) if one is not None]
    for bit, (cue, _) in enumerate(suite.header.criteria["ce"].cues["Y"]):
        betas = {cue: {"A": of_a, "B": pair}[cue]}
        alone = [bool(int(bits) >> bit & 1) for bits in challenge.by_cue]
        assert alone == [str(subset(image, betas)).startswith("hard") for image in kept]
    again = FittedCE.from_json(json.loads(json.dumps(criterion.fit(data).to_json())))
    has_verdict = np.array([one is not None for one in wanted])
    assert np.array_equal(again.support(data, "Y")[has_verdict], challenge.support)


@given(st.floats(1e-300, 1), st.floats(1e-3, 1), st.integers(-2, 2))
def test_scaling_keeps_what_is_above_equal_and_below(own, beta, steps):
    area = own
    for _ in range(abs(steps)):
        area = math.nextafter(area, math.inf if steps > 0 else -math.inf)
    (value,) = scaled(np.array([area]), np.array([True]), (own, 1.0), beta)
    assert (value > beta, value < beta) == (area > own, area < own)


def test_the_same_betas_change_nothing_and_are_written_only_where_given():
    data = dataset_of([{"Y": 0.1, "A": 0.07}, {"A": 0.3}], CLASSES)
    plain, same = CE(cues=CUES).fit(data), CE(cues=CUES, betas={"Y": {"A": 0.1}}).fit(data)
    assert plain.support(data, "Y").tobytes() == same.support(data, "Y").tobytes()
    assert set(plain.to_json()) == set(same.to_json()) - {"betas"}
    assert "A covers 7% < 20%" in CE(cues=CUES, betas={"Y": {"A": (0.2, 0.4)}}).fit(data).explain(
        data.select(rows=np.array([0])), "Y"
    )


@pytest.mark.parametrize("beta", [0, -0.1, 1.2, math.nan, (0.1,), (0.1, 0.2, 0.3), (0.1, 0)])
def test_betas_out_of_range_are_refused(beta):
    refused(lambda: CE(betas={"Y": {"A": beta}}), "the beta of A for Y is")


def test_betas_that_cannot_be_used_are_refused():
    refused(lambda: CE(beta=0, betas={"Y": {"A": 0.1}}), "and beta 0")
    data = dataset_of([{"Y": 0.1, "A": 0.3}], CLASSES)
    refused(lambda: CE(betas={"Y": {"B": 0.1}}).fit(data), "'B' is not a cue of Y, but has a beta")
    content = CE(betas={"Y": {"A": 0.1}}).fit(data).to_json()
    with pytest.raises(FormatError, match="not a fitted CE criterion"):
        FittedCE.from_json({**content, "betas": {"Y": {"A": [0.1]}}})
