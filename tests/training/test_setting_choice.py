"""Selection against a loop over settings and seeds."""

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given, settings as examples
from refusals import fails

from nooch.base.errors import InputError, ParameterError
from nooch.training.selection import RULES, select

SUBSETS = ("all", "easy", "hard", "hard_positive", "hard_negative")
LOSSES = st.none() | st.sampled_from([0.1, 0.5, 0.5, 2.0]) | st.floats(0, 3)


_NAMES = ("run", "criterion", "task", "split", "subset", "cue", "group", "metric")
SCORES = dict.fromkeys(_NAMES, pl.String) | {"value": pl.Float64}
_NAMES = ("run", "task", "method", "setting", "seed", "sees", "environment")
SETTINGS = dict.fromkeys(_NAMES, pl.String) | {"seed": pl.Int64, "environment": pl.Float64}


@st.composite
def results(draw):
    """Scores of two methods, three settings, two seeds, on one task, with nulls here and there."""
    scores, settings = [], []
    for method, names in {"gdro": ["K=5", "K=30", "K=60"], "erm": [""]}.items():
        for setting in names:
            for seed in (0, 1):
                run = "/".join([method, *([setting] if setting else []), str(seed)])
                environment = draw(st.none() | st.floats(0, 3))
                settings.append((run, "car", method, setting, seed, "nothing", environment))
                for split in ("valid", "test"):
                    for subset in SUBSETS:
                        metrics = ("auc", "nll") if subset == "hard" else ("nll",)
                        scores += [
                            (run, "ce", "car", split, subset, None, None, m, draw(LOSSES))
                            for m in metrics
                        ]
    tables = (scores, SCORES), (settings, SETTINGS)
    return tuple(pl.DataFrame(rows, schema, orient="row") for rows, schema in tables)


def mean(values):
    return None if None in values else sum(values) / len(values)


def naive(scores, settings, rule):
    """Method -> (setting, value) of the smallest value, the earlier setting where two are equal."""
    split = "test" if rule == "oracle" else "valid"
    found = {}
    for method, setting in settings.select("method", "setting").unique(maintain_order=True).rows():
        runs = settings.filter(method=method, setting=setting)

        def of(metric, subset, names=tuple(runs["run"])):
            rows = scores.filter(split=split, subset=subset, metric=metric)
            return mean([rows.filter(run=name)["value"][0] for name in names])

        sides = [of("nll", "hard_positive"), of("nll", "hard_negative")]
        auc = of("auc", "hard")
        value = {
            "worst-hard": None if None in sides else max(sides),
            "oracle": None if None in sides else max(sides),
            "mean": of("nll", "all"),
            "easy": of("nll", "easy"),
            "auc-hard": None if auc is None else -auc,
            "worst-environment": mean(runs["environment"].to_list()),
        }[rule]
        if value is not None and (method not in found or value < found[method][1]):
            found[method] = setting, value
    return found


@pytest.mark.parametrize("rule", RULES)
@given(results())
@examples(max_examples=15)
def test_the_chosen_setting_has_the_smallest_mean(rule, case):
    scores, settings = case
    chosen = select(scores, settings, [rule])
    expected = naive(scores, settings, rule)
    found = dict(chosen.select("method", "value").rows())
    assert found == pytest.approx({method: value for method, (_, value) in expected.items()})
    for method, setting, value in chosen.select("method", "setting", "value").rows():
        # sums in another order may tell two equal means apart
        wanted, least = expected[method]
        assert setting == wanted or value == pytest.approx(least, abs=1e-12)
    assert set(chosen["n_settings"]) <= {1, 3}
    assert set(chosen["n_seeds"]) <= {2}


def test_rules_and_splits_that_are_not_there():
    scores = pl.DataFrame(schema=SCORES)
    row = ("a", "car", "erm", "", 0, "nothing", None)
    settings = pl.DataFrame([row], SETTINGS, orient="row")
    fails(lambda: select(scores, settings, ["best"]), "best", "worst-hard", kind=ParameterError)
    fails(lambda: select(scores, settings), "no split valid", kind=InputError)
