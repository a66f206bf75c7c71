"""One find: the sets of a slow and obvious one, however a dataset is divided, in memory or in
files, interrupted or not.
"""

import math
from datetime import date
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
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

from nooch.challenge import SUBSETS, load_suite, save_suite
from nooch.criteria import CE, FITTED, Attribute, Combination, Gist, MarkFitted, Summable, preset
from nooch.criteria.context_scores import ContextScores
from nooch.data import Dataset, divide, load_dataset, open_dataset, save_dataset
from nooch.engines import LocalEngine
from nooch.errors import FormatError, InputError, OutputError, ParameterError
from nooch.finding.measure_files import MeasureFiles
from nooch.finding.suite_builder import find

# ties on purpose: few vectors, among them one without direction and one that is missing
VECTORS = st.sampled_from(
    [(1.0, 0.5, 0.1), (0.3, 0.3, 0.9), (-0.1, 0.7, 0.2), (0.0,) * 3, (float("nan"),) * 3]
)


def elsewhere(function, items):
    """A map that is not the builtin: results then lie in files."""
    return map(function, items)


@st.composite
def datasets(draw):
    """A random collection with splits and vectors, its dataset, and that as 1 to 3 parts, cut
    anywhere.
    """
    images, classes, splits = draw(collections(max_images=24, splits=True))
    vectors = [draw(VECTORS) for _ in images]
    ids = draw(st.none() | st.just([f"{number:03d}x" for number in range(len(images))]))
    data = dataset_of(images, classes, splits, ids).with_embedding("e", np.array(vectors))
    cuts = draw(st.sets(st.integers(1, max(1, len(images) - 1)), max_size=min(2, len(images) - 1)))
    edges = [0, *sorted(cuts), len(images)]
    parts = [data.select(rows=np.arange(a, b)) for a, b in pairwise(edges)]
    return (images, classes, splits, vectors), data, parts


def _same(folder: Path, other: Path) -> None:
    assert (folder / "challenge_sets.parquet").read_bytes() == (
        other / "challenge_sets.parquet"
    ).read_bytes()
    assert (folder / "suite.json").read_bytes() == (other / "suite.json").read_bytes()


def _holds(folder: Path, *names: str) -> None:
    """Nothing but these lies in a folder, hidden files included."""
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)


CRITERIA = {
    "ce": CE(0.05, 0.1),
    "gist": Gist("e"),
    "cosine": Gist("e", 0.4),
    "c": Combination("ce & ~cosine"),
}


def _check_obvious(suite, collection, data):
    """The sets of CRITERIA, by loops over images. A task with a cue right at alpha is left out."""
    images, classes, splits, vectors = collection
    ids = data.image_ids.tolist()
    train = [image for image, split in zip(images, splits, strict=True) if split == "train"]
    for task in classes:
        if any(abs(naive_A(train, cue, task) - 0.05) < 1e-12 for cue in classes if cue != task):
            continue
        cues = naive_cues(train, classes, task, 0.05)
        known = [
            v
            for i, s, v in zip(images, splits, vectors, strict=True)
            if s == "train" and task in i and v[0] == v[0]
        ]
        prototype = [sum(column) / len(known) for column in zip(*known, strict=True)]
        for split in suite.splits:
            rows = [row for row, name in enumerate(splits) if name == split]
            ce = {ids[row]: naive_ce_subset(images[row], cues, task, 0.1) for row in rows}
            there = {name for name in CRITERIA if (name, task, split) in suite.keys}
            assert there == ({"ce"} if cues else set()) | (
                {"cosine"} if any(prototype) else set()
            ) | ({"gist", "c"} if cues and any(prototype) else set())
            found = {name: _subsets(suite.set(name, task, split)) for name in there}
            if cues:
                assert found["ce"] == ce
            if not any(prototype):
                continue
            support = dict(zip(*_supports(suite.set("cosine", task, split)), strict=True))
            expected = {ids[row]: naive_cosine(vectors[row], prototype) for row in rows}
            expected = {i: value for i, value in expected.items() if not math.isnan(value)}
            assert support == pytest.approx(expected, abs=1e-12)
            sides = [
                (ids[row], task in images[row], support.get(ids[row], math.nan)) for row in rows
            ]
            by_tau = {
                i: (
                    ("hard_positive" if y else "hard_negative")
                    if (s < 0.4 if y else s > 0.4)
                    else "easy"
                )
                for i, y, s in sides
                if i in support
            }
            assert found["cosine"] == by_tau
            if cues:
                counts = [list(ce.values()).count(subset) for subset in SUBSETS[:2]]
                assert found["gist"] == naive_matching(sides, *counts)
                # without a vector, only what is easy by CE has a verdict
                both = {
                    i: ce[i] if by_tau.get(i) == "easy" else "easy"
                    for i in ce
                    if i in by_tau or ce[i] == "easy"
                }
                assert found["c"] == both


def _subsets(challenge):
    return {i: SUBSETS[code] for i, code in zip(challenge.image_ids, challenge.subset, strict=True)}


def _supports(challenge):
    return challenge.image_ids, challenge.support.tolist()


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60
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
    save_suite(suite, folder / "memory")
    save_dataset(parts, folder / "data")
    found = find(
        open_dataset(folder / "data"),
        CRITERIA,
        match="ce",
        path="d",
        out=folder / "suite",
        map=mapping,
    )
    _same(folder / "suite", folder / "memory")
    assert found.header == load_suite(folder / "memory").header
    # nothing is left beside the suite
    _holds(folder, "data", "suite", "memory")


# a row for each built-in criterion
CONFORMING = {
    "ce": CE(0.05, 0.1),
    "gist": Gist("e", 0.4),
    "attribute": Attribute(
        "(camera IS NOT NULL AND unseen(camera)) OR unseen(day) OR NOT unseen(size) AND A = y"
    ),
    "scores": ContextScores("score", 0.5),
}
COLUMNS = {
    "camera": (st.none() | st.sampled_from(["", "forest", "Füße", "z"]), pl.String),
    "day": (st.dates(), pl.Date),
    "size": (st.sampled_from([0.0, -0.0, 1e300, 0.1, -3.5]), pl.Float64),
    "score": (st.none() | st.floats(0, 1), pl.Float64),
}


def test_every_builtin_criterion_is_in_the_table():
    assert set(FITTED) <= set(CONFORMING)


@pytest.mark.parametrize("kind", CONFORMING)
def test_every_builtin_criterion_is_fitted_in_parts(kind, tmp_path_factory):
    criterion = CONFORMING[kind]
    assert isinstance(criterion, Summable)

    @settings(
        suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=15
    )
    @given(sample=datasets(), draw=st.data())
    def holds(sample, draw):
        _, data, parts = sample
        if not {"train"} < set(data.splits):
            return
        columns = {
            n: pl.Series([draw.draw(v) for _ in range(len(data))], dtype=t)
            for n, (v, t) in COLUMNS.items()
        }
        images = data.images.with_columns(**columns)
        data = Dataset.build(images, data.classes, data.areas, embeddings=dict(data.embeddings))
        folder = tmp_path_factory.mktemp("sharded")
        save_dataset(divide(data, len(parts)), folder / "parts")
        criteria = {kind: criterion, "not": Combination(f"~{kind}")}

        def result(act):
            try:
                act()
            except InputError as error:
                # such as a column that has no value in training
                return error.problem
            return None

        refused = result(lambda: save_suite(find(data, criteria), folder / "whole"))
        assert (
            result(
                lambda: find(
                    open_dataset(folder / "parts"), criteria, out=folder / "suite", map=elsewhere
                )
            )
            == refused
        )
        if refused is None:
            _same(folder / "suite", folder / "whole")

    holds()


def test_presets_and_combinations_are_fitted_in_parts(tmp_path):
    data, random = _data(), np.random.default_rng(4)
    # a camera trap that training lacks, in some parts only
    cameras = np.where(
        data.images["split"].to_numpy() == "test", random.integers(0, 9, len(data)), 4
    )
    images = data.images.with_columns(
        location_remapped=pl.Series(cameras), place=pl.Series(cameras % 2)
    )
    data = Dataset.build(images, data.classes, data.areas, embeddings=dict(data.embeddings))
    criteria = {
        "trap": Attribute(preset("iwildcam")),
        "birds": Attribute(preset("waterbirds")),
        "ce": CE(0.01),
        "both": Combination("(trap | birds) & ~ce"),
    }
    save_suite(find(data, criteria), tmp_path / "whole")
    save_dataset(divide(data, 6), tmp_path / "parts")
    found = find(
        open_dataset(tmp_path / "parts"), criteria, out=tmp_path / "suite", map=LocalEngine(2).map
    )
    _same(tmp_path / "suite", tmp_path / "whole")
    assert found.header.criteria["trap"].fitted["seen"] == {"location_remapped": [4]}


def test_types_that_do_not_fit_are_found_in_a_part(tmp_path):
    data = _data(30)
    data = Dataset.build(data.images.with_columns(hour=pl.lit("late")), data.classes, data.areas)
    save_dataset(divide(data, 2), tmp_path / "parts")
    fails(
        lambda: find(
            open_dataset(tmp_path / "parts"), {"a": Attribute("hour > 20")}, out=tmp_path / "suite"
        ),
        "cannot be compared",
        kind=ParameterError,
    )


def _data(n=300):
    random = np.random.default_rng(3)
    classes = ["Y", "A", "B", "C"]
    chances = random.random((n, 4)) < [0.4, 0.5, 0.3, 0.2]
    images = [
        {
            c: float(area)
            for c, area, there in zip(classes, random.random(4) / 3, row, strict=True)
            if there
        }
        for row in chances
    ]
    data = dataset_of(
        images, classes, random.choice(["train", "valid", "test"], n, p=[0.6, 0.2, 0.2]).tolist()
    )
    return data.with_embedding("e", random.normal(size=(n, 7)))


def test_processes_do_not_matter_either(tmp_path):
    data, criteria = _data(), {"ce": CE(0.01, 0.1), "gist": Gist("e")}
    save_suite(find(data, criteria, match="ce"), tmp_path / "whole")
    save_dataset(divide(data, 5), tmp_path / "parts")
    find(
        open_dataset(tmp_path / "parts"),
        criteria,
        out=tmp_path / "suite",
        match="ce",
        map=LocalEngine(2).map,
    )
    _same(tmp_path / "suite", tmp_path / "whole")


def test_criteria_fitted_elsewhere_work_on_parts(tmp_path):
    data = _data()
    data = type(data).build(
        data.images.with_columns(hour=pl.Series(np.arange(len(data)) % 24)),
        data.classes,
        data.areas,
    )
    fitted = {
        "attribute": Attribute("hour > 20").fit(data.select("train"), ["Y"]),
        "ce": CE(0.01).fit(data),
    }
    save_suite(find(data, fitted, tasks=["Y", "A"]), tmp_path / "whole")
    save_dataset(divide(data, 7), tmp_path / "parts")
    find(open_dataset(tmp_path / "parts"), fitted, out=tmp_path / "suite", tasks=["Y", "A"])
    _same(tmp_path / "suite", tmp_path / "whole")


def test_an_interrupted_find_resumes(tmp_path, monkeypatch):
    data, criteria = _data(), {"ce": CE(0.01, 0.1)}
    save_suite(find(data, criteria), tmp_path / "whole")
    save_dataset(divide(data, 4), tmp_path / "parts")
    measured, marked = [], []
    measure, mark = MeasureFiles.measure, MeasureFiles.mark

    def counted_measure(files, number):
        if not list(files.folder.glob(f"*{number}.images.arrow")):
            measured.append(number)
        return measure(files, number)

    def counted_mark(files, task):
        if len(marked) == 2:
            marked.append("stop")
            raise KeyboardInterrupt
        before = len(list(files.folder.glob("marked-*.json")))
        found = mark(files, task)
        if len(list(files.folder.glob("marked-*.json"))) > before:
            marked.append(task)
        return found

    monkeypatch.setattr(MeasureFiles, "measure", counted_measure)
    monkeypatch.setattr(MeasureFiles, "mark", counted_mark)
    with pytest.raises(KeyboardInterrupt):
        find(open_dataset(tmp_path / "parts"), criteria, out=tmp_path / "suite")
    assert not (tmp_path / "suite").exists()
    find(open_dataset(tmp_path / "parts"), criteria, out=tmp_path / "suite")
    assert measured == [0, 1, 2, 3]
    assert marked == ["Y", "A", "stop", "B", "C"]
    _same(tmp_path / "suite", tmp_path / "whole")


@pytest.mark.parametrize("kind", CONFORMING)
def test_no_part_is_summed_twice(kind, tmp_path, monkeypatch):
    criterion, random = CONFORMING[kind], np.random.default_rng(0)
    data = _data()
    extra = {
        "camera": random.choice(["", "Füße", "z"], len(data)).tolist(),
        "day": [date(2020, 1, int(day)) for day in random.integers(1, 29, len(data))],
        "size": random.choice([0.0, -0.0, 1e300, 0.1], len(data)).tolist(),
        "score": random.random(len(data)).tolist(),
    }
    images = data.images.with_columns(**{name: pl.Series(values) for name, values in extra.items()})
    data = Dataset.build(images, data.classes, data.areas, embeddings=dict(data.embeddings))
    save_suite(find(data, {"one": criterion}), tmp_path / "whole")
    save_dataset(divide(data, 5), tmp_path / "parts")
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
        find(
            open_dataset(tmp_path / "parts"),
            {"one": criterion},
            out=tmp_path / "suite",
            map=stopped,
        )
    assert len(summed) == 3
    find(open_dataset(tmp_path / "parts"), {"one": criterion}, out=tmp_path / "suite")
    assert len(summed) == len(set(summed)) == 5
    _same(tmp_path / "suite", tmp_path / "whole")
    _holds(tmp_path, "parts", "suite", "whole")


def test_other_words_take_no_sums_of_others(tmp_path):
    data = _data()
    save_dataset(divide(data, 3), tmp_path / "parts")

    def stopped(function, items):
        for item in items:
            # a task: parts are measured
            if not isinstance(item, int):
                raise KeyboardInterrupt
            yield function(item)

    with pytest.raises(KeyboardInterrupt):
        find(
            open_dataset(tmp_path / "parts"),
            {"one": Gist("e", 0.2)},
            out=tmp_path / "suite",
            tasks=["A"],
            map=stopped,
        )
    assert len(list(tmp_path.glob(".suite.*"))) == 2
    save_suite(find(data, {"one": CE(0.01)}), tmp_path / "whole")
    find(open_dataset(tmp_path / "parts"), {"one": CE(0.01)}, out=tmp_path / "suite")
    _same(tmp_path / "suite", tmp_path / "whole")
    # what the first one left is gone as well
    _holds(tmp_path, "parts", "suite", "whole")


def test_a_find_that_does_not_start_leaves_nothing(tmp_path):
    save_dataset(divide(_data(30), 2), tmp_path / "parts")

    def refused(function, items):
        raise ParameterError("no such partition")

    with pytest.raises(ParameterError):
        find(open_dataset(tmp_path / "parts"), {"ce": CE()}, out=tmp_path / "suite", map=refused)
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
    save_dataset(data, tmp_path / "one")
    save_suite(find(data, criteria), tmp_path / "memory")
    for mapping in (map, elsewhere):
        find(
            open_dataset(tmp_path / "one"),
            criteria,
            out=tmp_path / "suite",
            overwrite=True,
            map=mapping,
        )
        _same(tmp_path / "suite", tmp_path / "memory")
    # ... or to be fitted already
    save_dataset(divide(data, 2), tmp_path / "parts")
    fitted = {**criteria, "own": _Own().fit(data.select("train"), [])}
    find(open_dataset(tmp_path / "parts"), fitted, out=tmp_path / "suite", overwrite=True)
    _same(tmp_path / "suite", tmp_path / "memory")


def test_without_a_folder_to_write_a_suite_is_in_memory(tmp_path):
    data = _data(60)
    save_dataset(divide(data, 3), tmp_path / "parts")
    save_suite(find(data, CRITERIA, match="ce"), tmp_path / "whole")
    for source in (open_dataset(tmp_path / "parts"), load_dataset(tmp_path / "parts")):
        suite = find(source, CRITERIA, match="ce")
        save_suite(suite, tmp_path / "suite", overwrite=True)
        _same(tmp_path / "suite", tmp_path / "whole")
        # a dataset in memory needs no file, whatever it was loaded from
        find(source, CRITERIA, match="ce", out=tmp_path / "suite", overwrite=True)
        _same(tmp_path / "suite", tmp_path / "whole")
    _holds(tmp_path, "parts", "suite", "whole")


def test_what_is_not_read_is_not_loaded(tmp_path):
    save_dataset(_data(60), tmp_path / "data")
    (tmp_path / "data" / "embeddings" / "e.npy").write_bytes(b"altered")
    data = open_dataset(tmp_path / "data")
    find(data, {"ce": CE(0.01)}, out=tmp_path / "suite")
    fails(
        lambda: find(data, {"gist": Gist("e", 0.1)}),
        "e.npy is missing or has another size",
        kind=FormatError,
    )


def test_an_engine_needs_folders(tmp_path):
    data = _data(30)
    save_dataset(data, tmp_path / "data")
    fails(
        lambda: find(data, {"ce": CE()}, out=tmp_path / "suite", map=elsewhere),
        "a dataset in memory",
        kind=ParameterError,
    )
    fails(
        lambda: find(open_dataset(tmp_path / "data"), {"ce": CE()}, map=elsewhere),
        "no folder to write the suite to",
        "leave out `map`",
        kind=ParameterError,
    )
    _holds(tmp_path, "data")


def test_what_cannot_be_done_is_refused_before_any_work(tmp_path):
    data = _data(30)
    save_dataset(divide(data, 2), tmp_path / "parts")

    def refuses(kind, *words, criteria=None, **more):
        fails(
            lambda: find(
                open_dataset(tmp_path / "parts"),
                criteria or {"ce": CE()},
                out=tmp_path / "suite",
                **more,
            ),
            *words,
            kind=kind,
        )
        assert not (tmp_path / "suite").exists()

    refuses(
        ParameterError,
        "own",
        "partial, merge and finish",
        "three methods",
        "`fitted`",
        criteria={"own": _Own()},
    )
    refuses(ParameterError, "gist has no thresholds", criteria={"gist": Gist("e")})
    refuses(ParameterError, "'Z' is no class", tasks=["Z"])
    refuses(ParameterError, "'all' is no split", splits=["all"])
    refuses(ParameterError, "'f' is no embedding", criteria={"gist": Gist("f", 0.1)})
    (tmp_path / "suite").mkdir()
    fails(
        lambda: find(open_dataset(tmp_path / "parts"), {"ce": CE()}, out=tmp_path / "suite"),
        "exists already",
        kind=OutputError,
    )


def test_two_finds_of_one_suite_do_not_run_at_once(tmp_path):
    save_dataset(divide(_data(30), 2), tmp_path / "parts")

    def second(function, items):
        fails(
            lambda: find(open_dataset(tmp_path / "parts"), {"ce": CE()}, out=tmp_path / "suite"),
            "another process is finding this suite",
            kind=OutputError,
        )
        return map(function, items)

    calls = []

    def mapping(function, items):
        calls.append(1)
        # the first map is that of sums, before anything is held
        return second(function, items) if len(calls) == 2 else map(function, items)

    find(open_dataset(tmp_path / "parts"), {"ce": CE()}, out=tmp_path / "suite", map=mapping)
    assert len(calls) == 3


def test_training_images_are_needed_unless_cues_are_given(tmp_path):
    data = dataset_of([{"Y": 0.1, "A": 0.3}, {"A": 0.2}], ["Y", "A"], ["valid", "test"])
    save_dataset(divide(data, 2), tmp_path / "parts")
    fails(
        lambda: find(open_dataset(tmp_path / "parts"), {"ce": CE()}, out=tmp_path / "suite"),
        "the split train is empty",
        kind=InputError,
    )
    criteria = {"ce": CE(cues={"Y": ["A"]})}
    find(open_dataset(tmp_path / "parts"), criteria, out=tmp_path / "suite", tasks=["Y"])
    save_suite(find(data, criteria, tasks=["Y"]), tmp_path / "whole")
    _same(tmp_path / "suite", tmp_path / "whole")


def test_an_altered_part_is_refused(tmp_path):
    save_dataset(divide(_data(30), 3), tmp_path / "parts")
    file = tmp_path / "parts" / "areas" / "part-0000001.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    fails(
        lambda: find(open_dataset(tmp_path / "parts"), {"ce": CE()}, out=tmp_path / "suite"),
        "part-0000001.parquet was altered",
        kind=FormatError,
    )
