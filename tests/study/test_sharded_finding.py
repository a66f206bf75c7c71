"""Finding in parts gives the bytes that finding in one piece gives, however a dataset is divided."""

from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracles import collections, dataset_of
from refusals import fails

from nooch.challenge import load_suite, save_suite
from nooch.criteria import CE, FITTED, Attribute, Combination, Gist, Summable, preset
from nooch.criteria.scores import ContextScores
from nooch.data import Dataset, save_dataset
from nooch.data.shard_writing import save_shards
from nooch.data.shards import divide
from nooch.engines import LocalEngine
from nooch.errors import FormatError, InputError, OutputError, ParameterError
from nooch.study import sharded_finding
from nooch.study.finding import find
from nooch.study.sharded_finding import find_in_shards

# ties on purpose: few vectors, among them one without direction and one that is missing
VECTORS = st.sampled_from([(1.0, 0.5, 0.1), (0.3, 0.3, 0.9), (-0.1, 0.7, 0.2), (0.0,) * 3, (float("nan"),) * 3])


@st.composite
def datasets(draw):
    """A random dataset with splits and an embedding, and a number of parts."""
    images, classes, splits = draw(collections(max_images=24, splits=True))
    vectors = np.array([draw(VECTORS) for _ in images])
    ids = draw(st.none() | st.just([f"{number:03d}x" for number in range(len(images))]))
    data = dataset_of(images, classes, splits, ids).with_embedding("e", vectors)
    return data, draw(st.integers(1, len(images)))


def _same(folder: Path, other: Path) -> None:
    assert (folder / "challenge_sets.parquet").read_bytes() == (other / "challenge_sets.parquet").read_bytes()
    one, two = load_suite(folder).header, load_suite(other).header
    assert one == two


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(sample=datasets())
def test_any_division_gives_the_bytes_of_one_piece(sample, tmp_path_factory):
    data, parts = sample
    if not {"train"} < set(data.splits):
        return
    folder = tmp_path_factory.mktemp("sharded")
    criteria = {"ce": CE(0.05, 0.1), "gist": Gist("e"), "cosine": Gist("e", 0.4), "c": Combination("ce & ~cosine")}
    save_suite(find(data, criteria, match="ce", path="d"), folder / "whole")
    save_shards(divide(data, parts), folder / "parts")
    found = find_in_shards(folder / "parts", criteria, folder / "suite", match="ce", path="d")
    _same(folder / "suite", folder / "whole")
    assert found.header.dataset.fingerprint == data.fingerprint
    # nothing is left beside the suite
    assert sorted(path.name for path in folder.iterdir()) == ["parts", "suite", "whole"]


# a row for each built-in criterion
CONFORMING = {
    "ce": CE(0.05, 0.1),
    "gist": Gist("e", 0.4),
    "attribute": Attribute("(camera IS NOT NULL AND unseen(camera)) OR unseen(day) OR NOT unseen(size) AND A = y"),
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

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=15)
    @given(sample=datasets(), draw=st.data())
    def holds(sample, draw):
        data, parts = sample
        if not {"train"} < set(data.splits):
            return
        columns = {n: pl.Series([draw.draw(v) for _ in range(len(data))], dtype=t) for n, (v, t) in COLUMNS.items()}
        images = data.images.with_columns(**columns)
        data = Dataset.build(images, data.classes, data.areas, embeddings=dict(data.embeddings))
        folder = tmp_path_factory.mktemp("sharded")
        save_shards(divide(data, parts), folder / "parts")
        criteria = {kind: criterion, "not": Combination(f"~{kind}")}

        def result(act):
            try:
                act()
            except InputError as error:
                # such as a column that has no value in training
                return error.problem
            return None

        refused = result(lambda: save_suite(find(data, criteria), folder / "whole"))
        assert result(lambda: find_in_shards(folder / "parts", criteria, folder / "suite")) == refused
        if refused is None:
            _same(folder / "suite", folder / "whole")

    holds()


def test_presets_and_combinations_are_fitted_in_parts(tmp_path):
    data, random = _data(), np.random.default_rng(4)
    # a camera trap that training lacks, in some parts only
    cameras = np.where(data.images["split"].to_numpy() == "test", random.integers(0, 9, len(data)), 4)
    images = data.images.with_columns(location_remapped=pl.Series(cameras), place=pl.Series(cameras % 2))
    data = Dataset.build(images, data.classes, data.areas, embeddings=dict(data.embeddings))
    criteria = {
        "trap": Attribute(preset("iwildcam")),
        "birds": Attribute(preset("waterbirds")),
        "ce": CE(0.01),
        "both": Combination("(trap | birds) & ~ce"),
    }
    save_suite(find(data, criteria), tmp_path / "whole")
    save_shards(divide(data, 6), tmp_path / "parts")
    found = find_in_shards(tmp_path / "parts", criteria, tmp_path / "suite", map=LocalEngine(2).map)
    _same(tmp_path / "suite", tmp_path / "whole")
    assert found.header.criteria["trap"].fitted["seen"] == {"location_remapped": [4]}


def test_types_that_do_not_fit_are_found_in_a_part(tmp_path):
    data = _data(30)
    data = Dataset.build(data.images.with_columns(hour=pl.lit("late")), data.classes, data.areas)
    save_shards(divide(data, 2), tmp_path / "parts")
    fails(
        lambda: find_in_shards(tmp_path / "parts", {"a": Attribute("hour > 20")}, tmp_path / "suite"),
        "cannot be compared",
        kind=ParameterError,
    )


def _data(n=300):
    random = np.random.default_rng(3)
    classes = ["Y", "A", "B", "C"]
    chances = random.random((n, 4)) < [0.4, 0.5, 0.3, 0.2]
    images = [
        {c: float(area) for c, area, there in zip(classes, random.random(4) / 3, row, strict=True) if there}
        for row in chances
    ]
    data = dataset_of(images, classes, random.choice(["train", "valid", "test"], n, p=[0.6, 0.2, 0.2]).tolist())
    return data.with_embedding("e", random.normal(size=(n, 7)))


def test_processes_do_not_matter_either(tmp_path):
    data, criteria = _data(), {"ce": CE(0.01, 0.1), "gist": Gist("e")}
    save_suite(find(data, criteria, match="ce"), tmp_path / "whole")
    save_shards(divide(data, 5), tmp_path / "parts")
    find_in_shards(tmp_path / "parts", criteria, tmp_path / "suite", match="ce", map=LocalEngine(2).map)
    _same(tmp_path / "suite", tmp_path / "whole")


def test_criteria_fitted_elsewhere_and_phi_work_on_parts(tmp_path):
    data = _data()
    data = type(data).build(
        data.images.with_columns(hour=pl.Series(np.arange(len(data)) % 24)), data.classes, data.areas
    )
    fitted = {"attribute": Attribute("hour > 20").fit(data.select("train"), ["Y"]), "ce": CE(0.01).fit(data)}
    save_suite(find(data, fitted, tasks=["Y", "A"]), tmp_path / "whole")
    save_shards(divide(data, 7), tmp_path / "parts")
    find_in_shards(tmp_path / "parts", fitted, tmp_path / "suite", tasks=["Y", "A"])
    _same(tmp_path / "suite", tmp_path / "whole")
    # a folder in one piece is one part
    save_dataset(data, tmp_path / "piece")
    find_in_shards(tmp_path / "piece", fitted, tmp_path / "again", tasks=["Y", "A"])
    _same(tmp_path / "again", tmp_path / "whole")


def test_an_interrupted_find_goes_on_where_it_was(tmp_path, monkeypatch):
    data, criteria = _data(), {"ce": CE(0.01, 0.1)}
    save_suite(find(data, criteria), tmp_path / "whole")
    save_shards(divide(data, 4), tmp_path / "parts")
    measured, marked = [], []
    measure, gather = sharded_finding.measure_shard, sharded_finding.gather_task

    def counted_measure(work, shard):
        if not work.shard_file(shard, "images").is_file():
            measured.append(shard)
        return measure(work, shard)

    def counted_gather(work, item):
        if len(marked) == 2:
            marked.append("stop")
            raise KeyboardInterrupt
        if not work.marked_file(*item).with_suffix(".json").is_file():
            marked.append(item[1])
        return gather(work, item)

    monkeypatch.setattr(sharded_finding, "measure_shard", counted_measure)
    monkeypatch.setattr(sharded_finding, "gather_task", counted_gather)
    with pytest.raises(KeyboardInterrupt):
        find_in_shards(tmp_path / "parts", criteria, tmp_path / "suite")
    assert not (tmp_path / "suite").exists()
    find_in_shards(tmp_path / "parts", criteria, tmp_path / "suite")
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
    save_shards(divide(data, 5), tmp_path / "parts")
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
        find_in_shards(tmp_path / "parts", {"one": criterion}, tmp_path / "suite", map=stopped)
    assert len(summed) == 3
    find_in_shards(tmp_path / "parts", {"one": criterion}, tmp_path / "suite")
    assert len(summed) == len(set(summed)) == 5
    _same(tmp_path / "suite", tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts", "suite", "whole"]


def test_other_words_take_no_sums_of_others(tmp_path):
    data = _data()
    save_shards(divide(data, 3), tmp_path / "parts")

    def stopped(function, items):
        for item in items:
            if not isinstance(item, int):
                raise KeyboardInterrupt
            yield function(item)

    with pytest.raises(KeyboardInterrupt):
        find_in_shards(tmp_path / "parts", {"one": Gist("e", 0.2)}, tmp_path / "suite", tasks=["A"], map=stopped)
    assert len(list(tmp_path.glob(".suite.*"))) == 2
    save_suite(find(data, {"one": CE(0.01)}), tmp_path / "whole")
    find_in_shards(tmp_path / "parts", {"one": CE(0.01)}, tmp_path / "suite")
    _same(tmp_path / "suite", tmp_path / "whole")
    # what the first one left is gone as well
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts", "suite", "whole"]


def test_a_find_that_does_not_begin_leaves_nothing(tmp_path):
    save_shards(divide(_data(30), 2), tmp_path / "parts")

    def refused(function, items):
        raise ParameterError("no such partition")

    with pytest.raises(ParameterError):
        find_in_shards(tmp_path / "parts", {"ce": CE()}, tmp_path / "suite", map=refused)
    assert [path.name for path in tmp_path.iterdir()] == ["parts"]


class _Own:
    kind = "own"

    def fit(self, *_):
        raise AssertionError


def test_what_cannot_be_done_is_refused_before_any_work(tmp_path):
    data = _data(30)
    save_shards(divide(data, 2), tmp_path / "parts")

    def refuses(kind, *words, criteria=None, **more):
        fails(
            lambda: find_in_shards(tmp_path / "parts", criteria or {"ce": CE()}, tmp_path / "suite", **more),
            *words,
            kind=kind,
        )
        assert not (tmp_path / "suite").exists()

    refuses(ParameterError, "own", "partial, merge and finish", "three methods", "--fitted", criteria={"own": _Own()})
    refuses(ParameterError, "gist has no thresholds", criteria={"gist": Gist("e")})
    refuses(ParameterError, "'Z' is no class", tasks=["Z"])
    refuses(ParameterError, "'all' is no split", splits=["all"])
    refuses(ParameterError, "'f' is no embedding", criteria={"gist": Gist("f", 0.1)})
    (tmp_path / "suite").mkdir()
    fails(
        lambda: find_in_shards(tmp_path / "parts", {"ce": CE()}, tmp_path / "suite"), "exists already", kind=OutputError
    )


def test_two_finds_of_one_suite_do_not_run_at_once(tmp_path):
    save_shards(divide(_data(30), 2), tmp_path / "parts")

    def second(function, items):
        fails(
            lambda: find_in_shards(tmp_path / "parts", {"ce": CE()}, tmp_path / "suite"),
            "another process is finding this suite",
            kind=OutputError,
        )
        return map(function, items)

    calls = []

    def mapping(function, items):
        calls.append(1)
        # the first map is that of sums, before anything is held
        return second(function, items) if len(calls) == 2 else map(function, items)

    find_in_shards(tmp_path / "parts", {"ce": CE()}, tmp_path / "suite", map=mapping)
    assert len(calls) == 3


def test_training_images_are_needed_unless_cues_are_given(tmp_path):
    data = dataset_of([{"Y": 0.1, "A": 0.3}, {"A": 0.2}], ["Y", "A"], ["valid", "test"])
    save_shards(divide(data, 2), tmp_path / "parts")
    fails(
        lambda: find_in_shards(tmp_path / "parts", {"ce": CE()}, tmp_path / "suite"),
        "the split train is empty",
        kind=InputError,
    )
    criteria = {"ce": CE(cues={"Y": ["A"]})}
    find_in_shards(tmp_path / "parts", criteria, tmp_path / "suite", tasks=["Y"])
    save_suite(find(data, criteria, tasks=["Y"]), tmp_path / "whole")
    _same(tmp_path / "suite", tmp_path / "whole")


def test_an_altered_part_is_refused(tmp_path):
    save_shards(divide(_data(30), 3), tmp_path / "parts")
    file = tmp_path / "parts" / "areas" / "part-0000001.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    fails(
        lambda: find_in_shards(tmp_path / "parts", {"ce": CE()}, tmp_path / "suite"),
        "part-0000001.parquet was altered",
        kind=FormatError,
    )
