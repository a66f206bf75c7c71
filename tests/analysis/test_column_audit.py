"""Columns that tell labels: against loops, on planted truths, and what is refused."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from refusals import fails
from scipy.sparse import csr_array
from sklearn.metrics import roc_auc_score

import nooch
from nooch.analysis import column_audit
from nooch.analysis.column_audit import (
    CLEAN,
    CONFOUNDED,
    INFLATED,
    TOO_FEW,
    AuditedColumn,
    Case,
    drop_of,
    held_out_errors,
    mean_area,
    word_of,
)
from nooch.base.errors import ParameterError
from nooch.data import save_dataset
from nooch.evaluation.bootstrap import BootstrapDraws


def world(n=800, seed=0, size=1, **columns):
    """Images with a sick lung by groups of ``size``, the scanner that mostly goes with it, another
    one that does not, and features that show label and scanner.
    """
    random, patient = np.random.default_rng(seed), np.repeat(np.arange(n // size), size)
    sick = (random.random(n // size) < 0.4)[patient]
    scanner = np.where(random.random(n // size)[patient] < 0.85, sick, ~sick).astype(int)
    features = random.normal(size=(n, 6)).astype(np.float32)
    features[:, 0] += sick
    features[:, 1] += 3 * scanner
    images = pl.DataFrame({
        "image_id": np.arange(n), "split": "all", "scanner": pl.Series(["GE", "Siemens"])[scanner],
        "site": pl.Series(["a", "b", "c"])[random.integers(0, 3, n // size)[patient]],
        "patient": [f"patient {p}" for p in patient], **columns,
    })  # fmt: skip
    areas = csr_array(np.stack([sick * 0.5, (random.random(n) < 0.3) * 0.2], axis=1))
    return nooch.Dataset.build(images, ["sick", "rib"], areas), features


def audited(data, columns, features=None, **more):
    more = {"tasks": ["sick"], "bootstrap": 200} | more
    return nooch.audit_columns(data, columns=columns, features=features, **more)


def row_of(*given, **more):
    return audited(*given, **more).table.row(0, named=True)


@pytest.mark.parametrize("size", [1, 2])
def test_words_of_planted_columns(size):
    data, features = world(1600, size=size)
    group = "patient" if size > 1 else None
    audit = audited(data, ["site", "scanner"], features, group=group)
    assert audit.table.select("column", "word", "n_groups").rows() == [
        ("scanner", INFLATED, 1600 // size), ("site", CLEAN, 1600 // size),
    ]  # fmt: skip
    hidden = np.delete(features, 1, axis=1)
    row = row_of(data, ["scanner"], hidden, group=group)
    assert row["word"] == CONFOUNDED
    assert row["features_low"] < 0.5 < row["label_low"]
    assert row["drop_low"] <= 0 <= row["drop_high"]
    data, features = world(80)
    assert row_of(data, ["site"], features)["word"] == TOO_FEW


def test_a_shuffled_column_is_not_confounded():
    words = []
    for seed in range(40):
        data, _ = world(300, seed)
        order = np.random.default_rng(seed).permutation(300)
        images = data.images.with_columns(pl.col("scanner").gather(order))
        shuffled = nooch.Dataset.build(images, data.classes, data.areas)
        words.append(row_of(shuffled, ["scanner"])["word"])
    assert words.count(CONFOUNDED) <= 2
    assert words.count(INFLATED) == 0


@pytest.mark.parametrize(("label", "p", "drop", "word"), [
    ((0.6, 0.8), 0.001, (0.01, 0.2), INFLATED), ((0.6, 0.8), 0.001, (0.0, 0.2), CONFOUNDED),
    ((0.6, 0.8), 0.001, None, CONFOUNDED), ((0.6, 0.8), 0.02, (0.01, 0.2), TOO_FEW),
    ((0.5, 0.8), 0.001, (0.01, 0.2), TOO_FEW), ((0.51, 0.59), 0.001, (-0.1, 0.02), CONFOUNDED),
    ((0.45, 0.59), 0.5, (-0.1, 0.02), CLEAN), ((0.51, 0.59), 0.5, (-0.1, 0.02), CLEAN),
    ((0.45, 0.6), 0.5, (-0.1, 0.02), TOO_FEW), ((0.45, 0.59), 0.5, (-0.1, 0.03), TOO_FEW),
    ((0.45, 0.59), 0.5, None, TOO_FEW), (None, None, (-0.1, 0.02), TOO_FEW),
    ((0.45, 0.59), 0.5, (0.1, 0.2), TOO_FEW),
])  # fmt: skip
def test_the_first_word_whose_rule_is_met(label, p, drop, word):
    ends = [*(label or (None, None)), *(drop or (None, None))]
    names = ("label_low", "label_high", "drop_low", "drop_high")
    row = {**dict(zip(names, ends, strict=True)), "p_adjusted": p, "label_apparent": 0.59}
    assert word_of(row) == word
    assert word_of(row | {"label_apparent": 0.61}) == (TOO_FEW if word == CLEAN else word)


@pytest.mark.parametrize(("sites", "each", "word", "text"), [
    (10, 60, CLEAN, ", below 0.5 since values have like shares of positives)"),
    (20, 3, TOO_FEW, ", below 0.5 since values are too few times in the data)"),
])  # fmt: skip
def test_an_auc_below_chance_is_named(sites, each, word, text):
    """Of each site as many are sick, or by few patients the other folds tell the opposite."""
    random, m = np.random.default_rng(0), sites * each
    patient = np.repeat(np.arange(m), 10)
    even = np.arange(m) % 2 == 0
    sick = (even if each == 60 else np.arange(m) % 3 <= (np.arange(m) // 3) % 2)[patient]
    images = {"image_id": np.arange(10 * m), "split": "all", "patient": patient,
              "site": np.char.add("s", (np.arange(m) // each).astype(str))[patient]}  # fmt: skip
    features = random.normal(size=(10 * m, 4)).astype(np.float32)
    features[:, 0] += 3 * sick
    data = nooch.Dataset.build(pl.DataFrame(images), ["sick"], csr_array(sick[:, None] * 0.5))
    audit = audited(data, ["site"], features, group="patient")
    row, shares = audit.table.row(0, named=True), np.zeros(10 * m)
    for site in set(images["site"]):
        shares[images["site"] == site] = sick[images["site"] == site].mean()
    assert row["label_apparent"] == pytest.approx(roc_auc_score(sick, shares))
    assert row["label_high"] < 0.5
    assert (row["word"], text in audit.sentences()[0]) == (word, True)
    assert "-0.00" not in str(audit.display)
    assert "[-0," not in audit.sentences()[0]


def _case(random, n=240, groups=60, values=4):
    unit = np.sort(np.r_[np.arange(groups), random.integers(0, groups, n - groups)])
    labels = random.random(n) < 0.4
    code = np.r_[np.arange(values), random.integers(0, values, n - values)]
    return Case(labels, code, unit, grouped=True, seed=3)


@given(st.integers(0, 1000))
def test_label_auc_is_that_of_loops(seed):
    random = np.random.default_rng(seed)
    case = _case(random)
    fold = case.folds(case.labels, np.arange(240))
    rates, area = case.rates(case.code[None], fold)
    total = pairs = 0
    for number in range(5):
        own, rest = fold == number, fold != number
        assert not set(case.unit[own]) & set(case.unit[rest])
        base = case.labels[rest].mean()
        scores = []
        for value in case.code[own]:
            with_it = case.labels[rest & (case.code == value)]
            scores.append((with_it.sum() + base / 2) / (len(with_it) + 0.5))
        assert rates[0][own] + base == pytest.approx(scores)
        n = case.labels[own].sum() * (~case.labels[own]).sum()
        if n:
            total += n * roc_auc_score(case.labels[own], np.round(scores, 12))
            pairs += n
    assert area[0] == pytest.approx(total / pairs)
    weights = np.concatenate([w for _, w in BootstrapDraws(240, 64, 0).weights(slice(None))], 1)
    masks = [fold == number for number in range(5)]
    value, low, high = mean_area([(case.labels, rates[0], masks)], [weights], case.sizes)
    assert value == pytest.approx(area[0])
    assert low < value < high


@given(st.integers(0, 1000), st.booleans())
def test_shuffling_keeps_what_a_group_has_in_common(seed, alike):
    random = np.random.default_rng(seed)
    case = _case(random)
    code = random.integers(0, 4, 60)[case.unit] if alike else case.code
    case = Case(case.labels, code, case.unit, grouped=True, seed=0)
    shuffled = case.shuffled(random)
    if alike:
        assert all(len(set(shuffled[case.unit == unit])) == 1 for unit in range(60))
        first = np.unique(case.unit, return_index=True)[1]
        assert sorted(shuffled[first]) == sorted(code[first])
    else:
        assert sorted(shuffled) == sorted(code)


def test_heads_see_no_image_of_what_they_are_tested_on(monkeypatch):
    random = np.random.default_rng(0)
    case = _case(random, n=400, groups=200)
    features = np.arange(400, dtype=np.float32)[:, None]
    seen = []

    def fit(x, labels, **_):
        rows = x[:, 0].astype(int)
        assert (case.labels[rows] == labels).all()
        seen.append(rows)
        return np.array([0.0, len(seen)], np.float32)

    monkeypatch.setattr(column_audit, "logistic_head", fit)
    wrong, known, half = held_out_errors(features, case, random)
    assert known.all()
    assert (wrong == ~case.labels).all()
    assert len(seen) == 4 * 5
    for value in range(4):
        out, *others = seen[5 * value : 5 * value + 5]
        units = set(case.unit[case.code == value])
        assert not units & set(case.unit[out])
        assert set(case.unit[out]) | units == set(case.unit)
        for number, rows in enumerate(others):
            tested = (case.code == value) & (half == number // 2)
            assert not set(case.unit[tested]) & set(case.unit[rows])
            assert case.labels[rows].sum() == case.labels[out].sum()
            assert len(rows) == len(out)


def test_the_drop_is_the_difference_of_balanced_errors():
    random = np.random.default_rng(1)
    case = _case(random)
    wrong, half = random.random((3, 240)) < [[0.4], [0.2], [0.2]], random.integers(0, 2, 240)
    rates, (drop, low, high) = drop_of(wrong, case, half)
    sides = [[one[case.labels == y].mean() for y in (True, False)] for one in wrong]
    assert rates == pytest.approx(np.mean(sides, axis=1))
    assert drop == pytest.approx(rates[0] - rates[1:].mean())
    assert low < drop < high
    assert drop_of(wrong[[1, 1, 1]], case, half)[1][2] > 0


def test_without_features_only_the_label_is_measured():
    data, features = world()
    row = row_of(data, ["scanner"])
    assert row["word"] == CONFOUNDED
    assert row["features"] is row["drop"] is None
    assert "no features" in row["reason"]
    assert row_of(data, ["site"])["word"] == TOO_FEW
    with_embedding = data.with_embedding("made", features)
    audit = audited(with_embedding, ["scanner"])
    assert audit.table["word"].item() == INFLATED
    assert "embedding made" in " ".join(audit.notes)
    two = with_embedding.with_embedding("other", features[:, 2:])
    assert row_of(two, ["scanner"])["drop"] is None
    assert row_of(two, ["scanner"], "other")["word"] == CONFOUNDED


def test_images_without_features_or_a_value_are_left_out():
    data, features = world(1600)
    features[:300] = np.nan
    row = row_of(data.with_embedding("made", features), ["scanner"])
    assert "300 images without features" in row["reason"]
    assert row["n"] == 1600
    assert row["word"] == INFLATED
    holes = data.images.with_columns(scanner=pl.when(pl.col("image_id") > 99).then("scanner"))
    row = row_of(nooch.Dataset.build(holes, data.classes, data.areas), ["scanner"])
    assert (row["n"], row["values"]) == (1500, 2)


def test_predictions_are_compared_where_the_column_speaks_against_the_label():
    data, features = world(1600)
    asked = np.arange(800, 1600)
    logits = features[asked, 1] - 1.5
    run = nooch.Predictions.from_arrays(logits[:, None], asked, ["sick"], scale="logit")
    audit = audited(data, ["scanner", "site"], features, predictions=run, tasks=None)
    row = audit.table.row(0, named=True)
    sick, siemens = data.labels("sick")[asked], (data.images["scanner"] == "Siemens").to_numpy()
    wrong, against = (logits > 0) != sick, siemens[asked] != sick
    gaps = [wrong[against & s].mean() - wrong[~against & s].mean() for s in (sick, ~sick)]
    assert min(gaps) <= row["model"] <= max(gaps)
    assert row["model_low"] > 0.5
    assert audit.table["model"].null_count() == 1
    fails(lambda: audited(data, ["site"], predictions=[run, run]))


def test_numbers_are_divided_at_quartiles():
    data, _ = world(400)
    quality = np.random.default_rng(0).normal(70 + 20 * data.labels("sick"), 5)
    data, _ = world(400, quality=quality, step=np.where(np.arange(400) < 300, 0, np.arange(400)))
    holes = data.images.with_columns(holes=pl.when(pl.col("image_id") > 9).then("quality"))
    data = nooch.Dataset.build(holes, data.classes, data.areas)
    audit = audited(data, ["quality", "step", "holes"])
    counts = {"quality": (4, 400), "step": (2, 400), "holes": (4, 390)}
    assert {c: rest for c, *rest in audit.table.select("column", "values", "n").rows()} == {
        c: list(rest) for c, rest in counts.items()
    }
    assert audit.table.filter(column="quality")["word"].item() == CONFOUNDED
    assert any("quality has 400 numbers" in note for note in audit.notes)


def test_what_cannot_be_measured_has_a_reason():
    data, features = world(400, size=4, ward=[f"ward {k // 40}" for k in range(400)])
    nested = audited(data, ["scanner"], features, group="ward")
    assert "groups of a label; 20 are needed" in nested.table["reason"].item()
    row = row_of(data, ["ward"], features, group="patient")
    assert row["label"] is not None
    one = world(4000, size=40, room=[f"room {k // 40}" for k in range(4000)])[0]
    assert "each value is in one group" in row_of(one, ["room"], group="patient")["reason"]
    empty = nooch.Dataset.build(
        data.images, data.classes, csr_array(data.areas.shape, dtype=np.float64)
    )
    assert "0 images of a label" in row_of(empty, ["site"], features)["reason"]
    # each scanner has one label, so that no head learns both without it
    sick = data.labels("sick")
    apart = data.images.with_columns(scanner=pl.Series(np.where(sick, "x", "z")))
    row = row_of(nooch.Dataset.build(apart, data.classes, data.areas), ["scanner"], features)
    assert (row["word"], row["drop"]) == (CONFOUNDED, None)
    assert "both labels among the other values" in row["reason"]


def test_rows_are_of_columns_and_classes():
    data, features = world(400)
    audit = audited(data, ["scanner", "site"], features, tasks=None)
    assert set(audit.table.select("column", "task").rows()) == {
        (c, t) for c in ("scanner", "site") for t in ("sick", "rib")
    }
    p = audit.table.sort("p")
    assert p["p_adjusted"][0] == pytest.approx(min(1, 4 * p["p"][0]))
    again = audited(data, ["scanner", "site"], features, tasks=None)
    assert again.table.equals(audit.table)


def test_sentences_say_what_to_do(tmp_path):
    data, features = world(1600)
    audit = audited(data, ["scanner", "site"], features)
    first, second = audit.sentences()
    assert first.startswith("scanner: sick can be read from the scanner alone (AUC 0.8")
    assert "on scanners left out, the model loses 1" in first
    assert "INFLATED. To do: split by scanner" in first
    assert second.endswith(": CLEAN")
    assert "1 INFLATED, 1 CLEAN" in repr(audit)
    audit.save(tmp_path / "audit.json")
    assert json.loads((tmp_path / "audit.json").read_bytes())["sentences"] == [first, second]
    audit.save(tmp_path / "audit.parquet")
    assert pl.read_parquet(tmp_path / "audit.parquet").equals(audit.table)


def test_refusals():
    n = 400
    more = {"one": "x", "image": [f"image {k}" for k in range(n)], "list": [[k] for k in range(n)]}
    sick = world(n)[0].labels("sick")
    data, features = world(n, size=2, **more, label=sick, text=np.where(sick, "Sick", "healthy"))

    def audit(column, **given):
        return lambda: audited(data, [column], **given)

    fails(audit("scaner"), "'scaner' is not a column", "scanner", kind=ParameterError)
    fails(audit("one"), "column one: has 1 value in 400 images", "at least two values")
    fails(audit("image"), "400 values of 400 images", "like an id", "`group`", "`columns`")
    fails(audit("list"), "column list: has the type List")
    # decimal numbers of many values, and columns that are not the context, are divided all the same
    aged = data.images.with_columns(age=pl.Series(np.linspace(20, 90, n)))
    named = nooch.Dataset.build(aged, data.classes, data.areas).with_context(["site"])
    assert AuditedColumn.of(named, named, "age").values == [f"quarter {k}" for k in (1, 2, 3, 4)]
    fails(audit("site", group="site"), "grouped by it", kind=ParameterError)
    same = nooch.Dataset.build(data.images.with_columns(label=data.labels("sick")),
                               data.classes, data.areas)  # fmt: skip
    fails(lambda: audited(same, ["label"]), "it is the label", "`columns`", "`tasks`")
    worded = np.where(data.labels("sick"), "Sick", "healthy")
    same = nooch.Dataset.build(data.images.with_columns(label=pl.Series(worded)),
                               data.classes, data.areas)  # fmt: skip
    fails(lambda: audited(same, ["label"]), "Sick is in exactly the images", "`columns`")
    fails(audit("site", tasks=["sik"]), "sick", kind=ParameterError)
    fails(audit("site", features=features[:9]), "one row per image")
    fails(lambda: audited(data, []), "no column is given", kind=ParameterError)


def test_an_embedding_and_a_file_of_one_name_are_two_readings(tmp_path, monkeypatch):
    data, features = world(100)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made").mkdir()
    data = data.with_embedding("made", features)
    fails(lambda: audited(data, ["site"], "made"), "an embedding of the dataset, and a file",
          kind=ParameterError)  # fmt: skip


def test_the_command_prints_and_writes(tmp_path, run_cli):
    data, features = world(400)
    save_dataset(data.with_embedding("made", features), tmp_path / "data")
    typed, out = f"audit {tmp_path / 'data'} --tasks sick", tmp_path / "columns.csv"
    done = run_cli(f"{typed} --columns scanner,site --out {out}").ok()
    assert "To do: split by scanner (--group scanner)" in " ".join(done.out.split())
    assert pl.read_csv(out)["word"].to_list() == [INFLATED, CLEAN]
    columns = run_cli(f"{typed} --columns scanner --format json").json["columns"]
    assert columns[0]["word"] == INFLATED
    for more, message in (
        ("--columns site --most 3", "--most has no effect on columns"),
        ("--features made", "--features has no effect on labels"),
    ):
        run_cli(f"{typed} {more}").refused(message)
