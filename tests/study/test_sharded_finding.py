"""Finding in parts gives the bytes that finding in one piece gives, however a dataset is divided."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracles import collections, dataset_of
from refusals import fails

from nooch.challenge import load_suite, save_suite
from nooch.criteria import CE, Attribute, Combination, Gist
from nooch.data import save_dataset
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

    refuses(ParameterError, "own", "partial, merge and finish", "--fitted", criteria={"own": _Own()})
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
