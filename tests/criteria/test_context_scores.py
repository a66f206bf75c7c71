"""The scores criterion: columns of the dataset as support, its checks, JSON and explanations."""

import json
import math
from functools import partial

import numpy as np
import polars as pl
from hypothesis import given, strategies as st
from refusals import fails
from same_datasets import found_in_parts
from scipy.sparse import csr_array

from nooch.base.errors import FormatError, ParameterError
from nooch.criteria.scores import ContextScores
from nooch.data import Dataset
from nooch.suites.find import find

VALUES = st.one_of(st.none(), st.just(math.nan), st.floats(-5, 5))


def dataset(car, bus=None, split="all"):
    n = len(car)
    columns = {"context_car": pl.Series(car, dtype=pl.Float64)}
    columns |= {} if bus is None else {"context_bus": pl.Series(bus, dtype=pl.Float64)}
    presence = csr_array(np.column_stack([np.arange(n) % 2, np.arange(n) % 3 == 0]).astype(float))
    splits = [split] * n if isinstance(split, str) else split
    frame = pl.DataFrame({"image_id": range(n), "split": splits, **columns})
    return Dataset.build(frame, ("car", "bus"), presence)


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=30), st.floats(-5, 5))
def test_hard_images_are_those_of_a_loop(values, tau):
    data = dataset(*zip(*values, strict=True))
    suite = find(data, {"own": ContextScores("context_{task}", tau)})
    for place, task in enumerate(("car", "bus")):
        if ("own", task, "all") not in suite.keys:
            continue
        challenge = suite.set("own", task, "all")
        supports = enumerate(row[place] for row in values)
        known = [(i, v) for i, v in supports if v is not None and not math.isnan(v)]
        present = data.labels(task)
        assert challenge.ids("hard_positive") == [i for i, v in known if present[i] and v < tau]
        assert challenge.ids("hard_negative") == [i for i, v in known if not present[i] and v > tau]
        assert sum(challenge.excluded) == len(values) - len(known)


def test_integers_are_supports_too_and_one_column_may_serve_all_tasks():
    data = dataset([0.0, 1.0])
    images = data.images.with_columns(usual=pl.Series([3, 7], dtype=pl.UInt8))
    data = Dataset.build(images, data.classes, data.areas)
    fitted = ContextScores("usual").fit(data, ["car", "bus"])
    assert fitted.supports(data, ["car", "bus"]).tolist() == [[3, 3], [7, 7]]


def test_counts_can_be_matched_and_parts_give_the_same_bytes(tmp_path):
    random = np.random.default_rng(0)
    split = random.choice(["train", "valid", "test"], 300).tolist()
    car, bus = random.normal(size=300).tolist(), random.normal(size=300).round(1).tolist()
    data, first = dataset(car, bus, split), ContextScores("context_{task}", 0.5)
    criteria = {"first": first, "second": ContextScores("context_bus")}
    found_in_parts(tmp_path, data, criteria, 4, match="first")


def test_the_value_is_explained():
    data = dataset([0.25, None])
    fitted = ContextScores("context_{task}").fit(data, ["car"])
    assert fitted.explain(data.select(rows=np.array([0])), "car") == "context_car is 0.25"
    assert "no notion of context" in fitted.explain(data.select(rows=np.array([1])), "car")


def test_json_gives_it_back():
    for tau in (None, -0.5):
        fitted = ContextScores("context_{task}", tau)
        again = ContextScores.from_json(json.loads(json.dumps(fitted.to_json())))
        assert again == fitted
        assert again.parameters() == {"column": "context_{task}", "tau": tau}
    read = partial(ContextScores.from_json, {"column": 3, "tau": None})
    fails(read, "not a fitted scores criterion", kind=FormatError, helps=False)


def test_what_is_no_column_of_supports_is_refused():
    data, refused = dataset([0.0, 1.0]), partial(fails, kind=ParameterError)
    own = ContextScores("context_{task}")
    refused(lambda: own.fit(data, ["bus"]), "context_bus", "context_car")
    words = Dataset.build(data.images.with_columns(word=pl.lit("a")), data.classes, data.areas)
    refused(lambda: ContextScores("word").fit(words, ["car"]), "column word contains String")
    refused(lambda: ContextScores("context_car", math.nan), "tau is nan")
    endless = dataset([0.0, math.inf])
    fitted = own.fit(endless, ["car"])
    fails(lambda: fitted.support(endless, "car"), "context_car is infinite for images 1")
