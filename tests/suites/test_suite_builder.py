"""Finding: the sets of a slow, obvious implementation, however data are divided or work stops."""

import math
from datetime import date
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from oracles import (
    collections,
    dataset_of,
    naive_A,
    naive_ce_subset,
    naive_cosine,
    naive_cues,
    naive_matching,
)
from refusals import fails
from same_datasets import found_in_parts, same_suite

from nooch.base.engines import LocalEngine
from nooch.base.errors import FormatError, InputError, OutputError, ParameterError
from nooch.criteria import (
    CE,
    FITTED,
    Attribute,
    Combination,
    Context,
    Gist,
    MarkFitted,
    Summable,
    phi_preset,
)
from nooch.criteria.scores import ContextScores
from nooch.data import Dataset, divide, load_dataset, open_dataset, save_dataset
from nooch.suites import SUBSETS, find as finding, load_suite, save_suite
from nooch.suites.find import find

# ties on purpose: few vectors, among them one without direction and one that is missing
VECTORS = st.sampled_from(
    [(1.0, 0.5, 0.1), (0.3, 0.3, 0.9), (-0.1, 0.7, 0.2), (0.0,) * 3, (float("nan"),) * 3]
)


def elsewhere(function, items):
    """A map that is not the builtin: results then lie in files."""
    return map(function, items)


@st.composite
def datasets(draw):
    """A random collection with splits and vectors, its dataset, and that in 1 to 3 parts."""
    images, classes, splits = draw(collections(max_images=24, splits=True))
    vectors = [draw(VECTORS) for _ in images]
    ids = draw(st.none() | st.just([f"{number:03d}x" for number in range(len(images))]))
    data = dataset_of(images, classes, splits, ids).with_embedding("e", np.array(vectors))
    cuts = draw(st.sets(st.integers(1, max(1, len(images) - 1)), max_size=min(2, len(images) - 1)))
    edges = [0, *sorted(cuts), len(images)]
    parts = [data.select(rows=np.arange(a, b)) for a, b in pairwise(edges)]
    return (images, classes, splits, vectors), data, parts


def _same(folder: Path, other: str = "whole") -> None:
    """``suite`` in the folder has the bytes of another suite there."""
    same_suite(folder / "suite", folder / other)


def _find(folder: Path, criteria, **more):
    """Find in the dataset ``parts`` of a folder, and write to ``suite`` there."""
    return find(open_dataset(folder / "parts"), criteria, out=folder / "suite", **more)


def _prepare(folder: Path, data, criteria=None, n_parts=1, **more):
    """A dataset with ``n_parts``, and the suite that it gives in memory: ``parts``, ``whole``."""
    if criteria is not None:
        save_suite(find(data, criteria, **more), folder / "whole")
    save_dataset(divide(data, n_parts), folder / "parts")


def _holds(folder: Path, *names: str) -> None:
    """Nothing but these lies in a folder, hidden files included."""
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)


CRITERIA = {"ce": CE(0.05, 0.1), "gist": Gist("e"), "cosine": Gist("e", 0.4)}
CRITERIA["c"] = Combination("ce & ~cosine")


def _check_obvious(suite, collection, data):
    """The sets of CRITERIA, by loops over images. A task with a cue right at alpha is left out."""
    images, classes, splits, vectors = collection
    ids = data.image_ids.tolist()
    train = [image for image, split in zip(images, splits, strict=True) if split == "train"]
    for task in classes:
        if any(abs(naive_A(train, cue, task) - 0.05) < 1e-12 for cue in classes if cue != task):
            continue
        cues = naive_cues(train, classes, task, 0.05)
        rows = zip(images, splits, vectors, strict=True)
        known = [v for i, s, v in rows if s == "train" and task in i and v[0] == v[0]]
        prototype = [sum(column) / len(known) for column in zip(*known, strict=True)]
        for split in suite.splits:
            rows = [row for row, name in enumerate(splits) if name == split]
            ce = {ids[row]: naive_ce_subset(images[row], cues, task, 0.1) for row in rows}
            there = {name for name in CRITERIA if (name, task, split) in suite.keys}
            wanted = {"ce": cues, "cosine": any(prototype)}
            wanted |= dict.fromkeys(("gist", "c"), cues and any(prototype))
            assert there == {name for name, is_there in wanted.items() if is_there}
            found = {name: _subsets(suite.set(name, task, split)) for name in there}
            if cues:
                assert found["ce"] == ce
            if not any(prototype):
                continue
            cosine = suite.set("cosine", task, split)
            support = dict(zip(cosine.image_ids, cosine.support.tolist(), strict=True))
            expected = {ids[row]: naive_cosine(vectors[row], prototype) for row in rows}
            expected = {i: value for i, value in expected.items() if not math.isnan(value)}
            assert support == pytest.approx(expected, abs=1e-12)
            sides = [(ids[r], task in images[r], support.get(ids[r], math.nan)) for r in rows]
            by_tau = dict.fromkeys(support, "easy")
            by_tau |= {i: "hard_positive" for i, y, s in sides if y and s < 0.4}
            by_tau |= {i: "hard_negative" for i, y, s in sides if not y and s > 0.4}
            assert found["cosine"] == by_tau
            if cues:
                counts = [list(ce.values()).count(subset) for subset in SUBSETS[:2]]
                assert found["gist"] == naive_matching(sides, *counts)
                # without a vector, only what is easy by CE has a verdict
                both = {i: "easy" for i in ce if i in by_tau or ce[i] == "easy"}
                assert found["c"] == both | {i: ce[i] for i in ce if by_tau.get(i) == "easy"}


def _subsets(challenge):
    return {i: SUBSETS[code] for i, code in zip(challenge.image_ids, challenge.subset, strict=True)}


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=10
)
@given(sample=datasets(), mapping=st.sampled_from([map, elsewhere]))
def test_the_sets_are_the_obvious_ones_however_a_dataset_is_divided(
    sample, mapping, tmp_path_factory
):
    collection, data, parts = sample
    if not {"train"} < set(data.splits):
        return
    folder = tmp_path_factory.mktemp("finding")
    suite = find(data, CRITERIA, match="ce", path="d")
    _check_obvious(suite, collection, data)
    save_suite(suite, folder / "whole")
    save_dataset(parts, folder / "parts")
    found = _find(folder, CRITERIA, match="ce", path="d", map=mapping)
    _same(folder)
    assert found.header == load_suite(folder / "whole").header
    # nothing else is left
    _holds(folder, "parts", "suite", "whole")


# a row for each built-in criterion
CONFORMING = {
    "ce": CE(0.05, 0.1),
    "context": Context(),
    "gist": Gist("e", 0.4),
    "attribute": Attribute(
        "(camera IS NOT NULL AND unseen(camera)) OR unseen(day) OR NOT unseen(size) AND A = y"
    ),
    "scores": ContextScores("score", 0.5),
}
# columns that they read: values of the images
COLUMNS = {
    "camera": [None, "", "forest", "Füße", "z"],
    "day": [date(2020, month, day) for month in range(1, 13) for day in range(1, 29)],
    "size": [0.0, -0.0, 1e300, 0.1, -3.5],
    "score": [None, *np.random.default_rng(1).random(50).tolist()],
}


def _conforming(kind):
    """Criteria of a row, and the one whose counts it takes if it has no thresholds."""
    given = {kind: CONFORMING[kind]}
    if getattr(FITTED[kind], "thresholds", kind) is not None:
        return given, {}
    return {"ce": CE(0.01), **given}, {"match": "ce"}


def _with_columns(data, drawn):
    """The data with ``COLUMNS``; ``drawn`` of a list of values gives one for each image."""
    images = data.images.with_columns(
        **{name: pl.Series(drawn(values), dtype=_dtype(values)) for name, values in COLUMNS.items()}
    )
    return Dataset.build(images, data.classes, data.areas, embeddings=dict(data.embeddings))


def _dtype(values):
    return pl.Series(values).dtype


def test_every_builtin_criterion_is_in_the_table():
    assert set(FITTED) <= set(CONFORMING)
    assert all(kind.kind == name for name, kind in FITTED.items())


@pytest.mark.parametrize("kind", CONFORMING)
def test_every_builtin_criterion_is_fitted_in_parts(kind, tmp_path_factory):
    criterion = CONFORMING[kind]
    # scores are their own fitted criterion: nothing is summed
    assert isinstance(criterion, Summable) == (kind != "scores")

    @settings(
        suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=8
    )
    @given(sample=datasets(), draw=st.data())
    def holds(sample, draw):
        _, data, parts = sample
        if not {"train"} < set(data.splits):
            return
        data = _with_columns(
            data, lambda values: [draw.draw(st.sampled_from(values)) for _ in range(len(data))]
        )
        folder = tmp_path_factory.mktemp("sharded")
        save_dataset(divide(data, len(parts)), folder / "parts")
        criteria, options = _conforming(kind)
        criteria["not"] = Combination(f"~{kind}")

        def result(action):
            try:
                action()
            except InputError as error:
                # such as a column that has no value in training
                return error.problem
            return None

        refused = result(lambda: save_suite(find(data, criteria, **options), folder / "whole"))
        assert result(lambda: _find(folder, criteria, map=elsewhere, **options)) == refused
        if refused is None:
            _same(folder)

    holds()


def test_presets_and_combinations_are_fitted_in_parts(tmp_path):
    data, random = _data(), np.random.default_rng(4)
    # a camera trap that training lacks, in some parts only
    test = data.images["split"].to_numpy() == "test"
    cameras = np.where(test, random.integers(0, 9, len(data)), 4)
    images = data.images.with_columns(location_remapped=cameras, place=cameras % 2)
    data = Dataset.build(images, data.classes, data.areas, embeddings=dict(data.embeddings))
    criteria = {
        "trap": Attribute(phi_preset("iwildcam")),
        "birds": Attribute(phi_preset("waterbirds")),
        "ce": CE(0.01),
        "both": Combination("(trap | birds) & ~ce"),
    }
    _prepare(tmp_path, data, criteria, 6)
    found = _find(tmp_path, criteria, map=LocalEngine(2).map)
    _same(tmp_path)
    assert found.header.criteria["trap"].fitted["seen"] == {"location_remapped": [4]}


def test_types_that_do_not_fit_are_found_in_a_part(tmp_path):
    data = _data(30)
    data = Dataset.build(data.images.with_columns(hour=pl.lit("late")), data.classes, data.areas)
    _prepare(tmp_path, data, n_parts=2)
    criteria = {"a": Attribute("hour > 20")}
    fails(lambda: _find(tmp_path, criteria), "cannot be compared", kind=ParameterError)


def _data(n=300):
    random = np.random.default_rng(3)
    classes = ["Y", "A", "B", "C"]
    chances = random.random((n, 4)) < [0.4, 0.5, 0.3, 0.2]
    areas = [zip(classes, random.random(4) / 3, row, strict=True) for row in chances]
    images = [{c: float(area) for c, area, there in of_image if there} for of_image in areas]
    splits = random.choice(["train", "valid", "test"], n, p=[0.6, 0.2, 0.2]).tolist()
    data = dataset_of(images, classes, splits)
    return data.with_embedding("e", random.normal(size=(n, 7)))


def test_processes_do_not_matter_either(tmp_path):
    criteria = {"ce": CE(0.01, 0.1), "gist": Gist("e")}
    _prepare(tmp_path, _data(), criteria, 5, match="ce")
    _find(tmp_path, criteria, match="ce", map=LocalEngine(2).map)
    _same(tmp_path)


def test_criteria_fitted_elsewhere_work_on_parts(tmp_path):
    data = _data()
    images = data.images.with_columns(hour=pl.Series(np.arange(len(data)) % 24))
    data = Dataset.build(images, data.classes, data.areas)
    hours = Attribute("hour > 20").fit(data.select("train"), ["Y"])
    fitted = {"attribute": hours, "ce": CE(0.01).fit(data)}
    found_in_parts(tmp_path, data, fitted, 7, tasks=["Y", "A"])


def test_an_interrupted_find_resumes(tmp_path, monkeypatch):
    criteria = {"ce": CE(0.01, 0.1)}
    _prepare(tmp_path, _data(), criteria, 4)
    sizes, measured, mark = [], finding._measured, finding.MeasureFiles.mark

    def counted(search, images):
        sizes.append(len(images))
        return measured(search, images)

    def stopped(files, task):
        if task == "B":
            raise KeyboardInterrupt
        return mark(files, task)

    monkeypatch.setattr(finding, "_measured", counted)
    monkeypatch.setattr(finding.MeasureFiles, "mark", stopped)
    with pytest.raises(KeyboardInterrupt):
        _find(tmp_path, criteria)
    assert not (tmp_path / "suite").exists()
    monkeypatch.setattr(finding.MeasureFiles, "mark", mark)
    _find(tmp_path, criteria)
    # no part is measured twice
    assert len(sizes) == 4
    _same(tmp_path)


@pytest.mark.parametrize("kind", [kind for kind in CONFORMING if kind != "scores"])
def test_no_part_is_summed_twice(kind, tmp_path, monkeypatch):
    criterion, random = CONFORMING[kind], np.random.default_rng(0)
    data = _data()
    data = _with_columns(
        data, lambda values: [values[i] for i in random.integers(0, len(values), len(data))]
    )
    criteria, options = _conforming(kind)
    _prepare(tmp_path, data, criteria, 5, **options)
    summed, add = [], type(criterion).partial

    def counted(self, shard, tasks):
        summed.append(shard.images["image_id"][0])
        return add(self, shard, tasks)

    def stopped(function, items):
        for item in items:
            if item == 3:
                raise KeyboardInterrupt
            yield function(item)

    monkeypatch.setattr(type(criterion), "partial", counted)
    with pytest.raises(KeyboardInterrupt):
        _find(tmp_path, criteria, map=stopped, **options)
    assert len(summed) == 3
    _find(tmp_path, criteria, **options)
    assert len(summed) == len(set(summed)) == 5
    _same(tmp_path)
    _holds(tmp_path, "parts", "suite", "whole")


def test_other_words_take_no_sums_of_others(tmp_path):
    _prepare(tmp_path, _data(), {"one": CE(0.01)}, 3)

    def stopped(function, items):
        for item in items:
            # a task: parts are measured
            if not isinstance(item, int):
                raise KeyboardInterrupt
            yield function(item)

    with pytest.raises(KeyboardInterrupt):
        _find(tmp_path, {"one": Gist("e", 0.2)}, tasks=["A"], map=stopped)
    assert len(list(tmp_path.glob(".suite.*"))) == 2
    _find(tmp_path, {"one": CE(0.01)})
    _same(tmp_path)
    # what the first one left is gone as well
    _holds(tmp_path, "parts", "suite", "whole")


def test_a_find_that_does_not_start_leaves_nothing(tmp_path):
    _prepare(tmp_path, _data(30), n_parts=2)

    def refused(function, items):
        raise ParameterError("no such partition")

    with pytest.raises(ParameterError):
        _find(tmp_path, {"ce": CE()}, map=refused)
    _holds(tmp_path, "parts")


class _FittedOwn(MarkFitted):
    kind = "own"

    def __init__(self, trained_on):
        self.trained_on = trained_on

    def parameters(self):
        return {}

    def undefined(self, _task):
        return None

    def phi(self, data, _task):
        return data.image_ids % 2 == self.trained_on % 2

    def explain(self, _image, _task):
        return "odd or even"

    def to_json(self):
        return {"trained_on": self.trained_on}

    @classmethod
    def from_json(cls, content):
        return cls(**content)


class _Own:
    """A custom criterion that cannot be added up."""

    kind = "own"

    def fit(self, train, _tasks):
        assert set(train.images["split"]) == {"train"}
        return _FittedOwn(len(train))


def test_a_criterion_that_is_only_fitted_needs_a_dataset_of_one_part(tmp_path):
    data, criteria = _data(30), {"own": _Own(), "not": Combination("~own")}
    _prepare(tmp_path, data, criteria)
    for mapping in (map, elsewhere):
        _find(tmp_path, criteria, overwrite=True, map=mapping)
        _same(tmp_path)
    # ... or to be fitted already
    save_dataset(divide(data, 2), tmp_path / "parts", overwrite=True)
    fitted = {**criteria, "own": _Own().fit(data.select("train"), [])}
    _find(tmp_path, fitted, overwrite=True)
    _same(tmp_path)


def test_without_a_folder_to_write_a_suite_is_in_memory(tmp_path):
    _prepare(tmp_path, _data(60), CRITERIA, 3, match="ce")
    for source in (open_dataset(tmp_path / "parts"), load_dataset(tmp_path / "parts")):
        suite = find(source, CRITERIA, match="ce")
        save_suite(suite, tmp_path / "suite", overwrite=True)
        _same(tmp_path)
        # a dataset in memory needs no file, whatever it was loaded from
        find(source, CRITERIA, match="ce", out=tmp_path / "suite", overwrite=True)
        _same(tmp_path)
    _holds(tmp_path, "parts", "suite", "whole", ".suite.old")


def test_what_is_not_read_is_not_loaded(tmp_path):
    save_dataset(_data(60), tmp_path / "data")
    (tmp_path / "data" / "embeddings" / "e.npy").write_bytes(b"altered")
    data = open_dataset(tmp_path / "data")
    find(data, {"ce": CE(0.01)}, out=tmp_path / "suite")
    gist = {"gist": Gist("e", 0.1)}
    fails(lambda: find(data, gist), "e.npy is missing, or its size differs", kind=FormatError)


def test_an_engine_needs_folders(tmp_path):
    data, criteria = _data(30), {"ce": CE()}
    save_dataset(data, tmp_path / "data")
    where = {"out": tmp_path / "suite", "map": elsewhere}
    fails(lambda: find(data, criteria, **where), "a dataset in a folder", kind=ParameterError)
    parts = open_dataset(tmp_path / "data")
    words = ("a folder for the suite", "leave out map")
    fails(lambda: find(parts, criteria, map=elsewhere), *words, kind=ParameterError)
    _holds(tmp_path, "data")


@pytest.mark.parametrize(
    ("criterion", "options", "words"),
    [
        (_Own(), {}, ["own", "partial, merge and finish", "three methods", "`fitted`"]),
        (Gist("e"), {}, ["own has no thresholds"]),
        (CE(), {"tasks": ["Z"]}, ["'Z' is not a class"]),
        (CE(), {"splits": ["all"]}, ["'all' is not a split"]),
        (Gist("f", 0.1), {}, ["'f' is not an embedding"]),
        (CE(), {"match": "own"}, ["`match` own has no effect", "without thresholds", "leave out"]),
        (Gist("e", 0.1), {"match": "own"}, ["`match` own has no effect"]),
        (CE().fit(_data(30).select("train")), {"match": "own"}, ["`match` own has no effect"]),
        (CE(), {"task": "Y"}, ["'task' is not a keyword of find", "did you mean tasks?"]),
    ],
)
def test_what_cannot_be_done_is_refused_before_any_work(tmp_path, criterion, options, words):
    _prepare(tmp_path, _data(30), n_parts=2)
    fails(lambda: _find(tmp_path, {"own": criterion}, **options), *words, kind=ParameterError)
    assert not (tmp_path / "suite").exists()


def test_a_folder_that_exists_is_refused(tmp_path):
    _prepare(tmp_path, _data(30), n_parts=2)
    (tmp_path / "suite").mkdir()
    fails(lambda: _find(tmp_path, {"ce": CE()}), "exists already", kind=OutputError)


def test_two_finds_of_one_suite_do_not_run_at_once(tmp_path):
    _prepare(tmp_path, _data(30), n_parts=2)
    calls, words = [], "another process is running nooch find for this suite"

    def mapping(function, items):
        calls.append(1)
        # the first map is that of sums, before anything is held
        if len(calls) == 2:
            fails(lambda: _find(tmp_path, {"ce": CE()}), words, kind=OutputError)
        return map(function, items)

    _find(tmp_path, {"ce": CE()}, map=mapping)
    assert len(calls) == 3


def test_training_images_are_needed_unless_cues_are_given(tmp_path):
    data = dataset_of([{"Y": 0.1, "A": 0.3}, {"A": 0.2}], ["Y", "A"], ["valid", "test"])
    criteria = {"ce": CE(cues={"Y": ["A"]})}
    _prepare(tmp_path, data, criteria, 2, tasks=["Y"])
    fails(lambda: _find(tmp_path, {"ce": CE()}), "the split train is empty", kind=InputError)
    _find(tmp_path, criteria, tasks=["Y"])
    _same(tmp_path)


def test_an_altered_part_is_refused(tmp_path):
    _prepare(tmp_path, _data(30), n_parts=3)
    file = tmp_path / "parts" / "areas" / "part-0000001.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    words = "part-0000001.parquet was altered"
    fails(lambda: _find(tmp_path, {"ce": CE()}), words, kind=FormatError)
