"""Splits: the paper's, percentages, groups, files."""

from functools import partial

import numpy as np
import polars as pl
import pytest
from coco_files import write
from hypothesis import given, settings, strategies as st
from oracles import dataset_of
from refusals import fails

from nooch.base.errors import ParameterError
from nooch.base.split_plan import SplitPlan
from nooch.data import Dataset, apply_split, load_dataset, named_splits
from nooch.data.importing.import_dataset import import_dataset, with_split
from nooch.data.readers.contract import read
from nooch.data.readers.table_layouts import Columns, LongTable
from nooch.data.readers.tables import TableReading
from nooch.data.table_schema import check_split

_no_parameter = partial(fails, kind=ParameterError)


def _images(ids, **columns):
    return pl.DataFrame({"image_id": ids, "split": ["all"] * len(ids), **columns})


def _counts(images):
    return dict(images["split"].value_counts().iter_rows())


def _sides(images):
    return dict(images.select("image_id", "split").iter_rows())


# percentages


def test_123287_images_are_divided_as_in_the_paper():
    images = apply_split(_images(range(123287)), SplitPlan("70/10/20"))
    assert _counts(images) == {"train": 86302, "valid": 12328, "test": 24657}


@given(
    st.integers(0, 3000),
    st.sampled_from(["70/10/20", "80/10/10", "50/25/25", "33.3/33.3/33.4", "0/50/50", "100/0/0"]),
)
@settings(max_examples=60, deadline=None)
def test_valid_and_test_are_rounded_down(n, source):
    _, valid, test = (float(share) for share in source.split("/"))
    counts = _counts(apply_split(_images(range(n)), SplitPlan(source)))
    assert counts.get("valid", 0) == int(n * valid / 100 + 1e-9)
    assert counts.get("test", 0) == int(n * test / 100 + 1e-9)
    assert sum(counts.values()) == n


@settings(max_examples=40, deadline=None)
@given(
    st.sets(st.integers(0, 10**9), min_size=1, max_size=60),
    st.integers(0, 2**32),
    st.randoms(use_true_random=False),
)
def test_a_seed_decides_and_the_order_of_input_does_not(ids, seed, rng):
    shuffled = list(ids)
    rng.shuffle(shuffled)
    group = pl.Series([i % 7 for i in shuffled])
    for plan in (SplitPlan("60/20/20", seed), SplitPlan("60/20/20", seed, "group")):
        first = _sides(apply_split(_images(sorted(ids), group=[i % 7 for i in sorted(ids)]), plan))
        assert _sides(apply_split(_images(shuffled, group=group), plan)) == first


@given(
    st.lists(st.sampled_from([None, *"abcdefghij"]), min_size=12, max_size=40), st.integers(1, 9)
)
@settings(deadline=None, max_examples=10)
def test_the_ids_of_one_photograph_are_in_one_split(tmp_path_factory, files, part_size):
    """Of a table in one part and in several, and of a dataset in memory."""
    folder = tmp_path_factory.mktemp("twice")
    rows = pl.DataFrame({"id": range(len(files)), "file": files, "class": "cat"})
    rows.write_csv(folder / "t.csv")
    reading = TableReading(folder / "t.csv", Columns("id", "file"), LongTable("class"))
    plan = SplitPlan("50/25/25", seed=part_size)
    made = [
        load_dataset(import_to(reading, folder / f"{size}", split=plan, part_size=size))
        for size in (None, part_size)
    ]
    made.append(with_split(read(reading), plan))
    for data in made:
        splits = data.images.drop_nulls("file_name").group_by("file_name").agg(pl.col("split"))
        assert all(len({*found}) == 1 for found in splits["split"])
        assert data.fingerprint == made[0].fingerprint
    is_repeated = any(files.count(file) > 1 for file in files if file)
    assert made[0].group == made[1].group == ("file_name" if is_repeated else None)
    assert is_repeated == any("share their file" in n for n in made[0].provenance["notes"])


def import_to(reading, out, **options):
    import_dataset(reading, out, **options)
    return out


def test_seeds_differ_and_text_ids_are_divided_too():
    images = _images([f"{i:03d}_s" for i in range(200)])
    sides = [_sides(apply_split(images, SplitPlan("70/10/20", seed))) for seed in (0, 1)]
    assert sides[0] != sides[1]
    counts = _counts(apply_split(images, SplitPlan("70/10/20")))
    assert counts == {"train": 140, "valid": 20, "test": 40}


def test_the_division_of_seed_0_stays_what_it_was():
    # a new version must not divide a user's images differently
    images = apply_split(_images(range(20)), SplitPlan("70/10/20"))
    assert [i for i, side in _sides(images).items() if side == "test"] == [2, 6, 13, 16]
    assert [i for i, side in _sides(images).items() if side == "valid"] == [4, 19]


def test_no_plan_changes_nothing():
    images = _images([1, 2])
    assert apply_split(images, None) is images
    data = dataset_of([{}, {}], ["Y"])
    assert with_split(data, None) is data


# groups


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=80), st.integers(0, 1000))
def test_a_group_stays_on_one_side(groups, seed):
    plan = SplitPlan("70/10/20", seed, "scene")
    images = apply_split(_images(range(len(groups)), scene=groups), plan)
    assert images.select("scene", "split").unique().height == len(set(groups))
    counts = _counts(images)
    # whole groups never overfill a side
    assert counts.get("valid", 0) <= len(groups) * 0.1 + 1e-9
    assert counts.get("test", 0) <= len(groups) * 0.2 + 1e-9


def test_many_small_groups_come_near_to_the_percentages():
    images = _images(range(3000), scene=[i // 3 for i in range(3000)])
    images = apply_split(images, SplitPlan("70/10/20", 0, "scene"))
    assert _counts(images) == {"train": 2100, "valid": 300, "test": 600}


@pytest.mark.parametrize(
    ("pattern", "groups"),
    [(r"^(\d+)_", 10), (r"^\d+", 10), (r"_(\d)_s", 3), ("s", 1), (r"(?:x|(\d+)_)", 10)],
)
def test_a_pattern_on_the_file_name_groups(pattern, groups):
    names = [f"{scene}_{shot}_s.jpg" for scene in range(10, 20) for shot in range(3)]
    images = apply_split(_images(range(30), file_name=names), SplitPlan("60/20/20", 1, pattern))
    sides = {}
    for name, side in zip(names, images["split"], strict=True):
        key = {r"_(\d)_s": name[3], "s": "s"}.get(pattern, name[:2])
        sides.setdefault(key, set()).add(side)
    assert len(sides) == groups
    assert all(len(side) == 1 for side in sides.values())


def test_an_image_without_a_file_name_is_grouped_by_its_id():
    images = _images(["a_1", "a_2", "b_1"], file_name=[None, None, "b_1.jpg"])
    split = apply_split(images, SplitPlan("50/25/25", 0, "^([ab])"))
    assert split["split"][0] == split["split"][1]


def test_groups_that_are_no_column_and_no_pattern():
    images = _images([1, 2], file_name=["a1", "b"])
    split = partial(apply_split, images)
    words = "'(a'", "neither a column nor", "columns: image_id"
    _no_parameter(lambda: split(SplitPlan("70/10/20", 0, "(a")), *words)
    for pattern in ("a", "(a)?"):
        words = "matches no part of b", "a column (image_id, split, file_name)"
        plan = SplitPlan("70/10/20", 0, pattern)
        _no_parameter(lambda p=plan: split(p), f"`group` {pattern!r}", *words)


# plans


PERCENTAGES = ["70/10", "70/10/20/0", "a/b/c", "-10/60/50", "70 / 10 / 20"]


@pytest.mark.parametrize("source", [*PERCENTAGES, "missing.csv", "", "x" * 5000])
def test_sources_that_are_neither(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _no_parameter(lambda: SplitPlan(source), "is neither a file nor percentages", "70/10/20")


@pytest.mark.parametrize("source", ["70/10/10", "70/20/20", "0/0/0", "33.3/33.3/33.3"])
def test_percentages_that_do_not_add_up(source):
    _no_parameter(lambda: SplitPlan(source), f"split {source} adds up to", "add up to 100")


def test_other_arguments_of_a_plan(tmp_path):
    path = write(tmp_path / "s.csv", "image_id,split\n1,train\n")
    words = "a group needs a split by percentages"
    _no_parameter(lambda: SplitPlan(str(path), group="place"), words)
    _no_parameter(lambda: SplitPlan("70/10/20", seed=-1), "`seed`: is -1", "at least 0")
    assert SplitPlan("70.0/10/20").shares == (70.0, 10.0, 20.0)
    assert SplitPlan(str(path)).shares is None


# files


def _npz(folder, **arrays):
    np.savez(folder / "s.npz", **arrays)
    return SplitPlan(str(folder / "s.npz"))


def test_an_npz(tmp_path):
    arrays = {"train_ids": [3, 1], "valid_ids": [], "test_ids": np.array([2, 99], np.int32)}
    plan = _npz(tmp_path, **arrays, other=np.eye(2))
    images = apply_split(_images([1, 2, 3], place=["x", "y", "z"]), plan)
    assert _sides(images) == {1: "train", 2: "test", 3: "train"}
    assert images["place"].to_list() == ["x", "y", "z"]
    # of text, or whole floats
    plan = _npz(tmp_path, train_ids=np.array(["a", "b"]), test_ids=np.array(["c"]), valid_ids=[])
    sides = _sides(apply_split(_images(["a", "b", "c"]), plan))
    assert sides == {"a": "train", "b": "train", "c": "test"}
    plan = _npz(tmp_path, train_ids=[1.0, 2.0], test_ids=["3"])
    assert _sides(apply_split(_images([1, 2, 3]), plan)) == {1: "train", 2: "train", 3: "test"}


NAMES = "train_ids, valid_ids, test_ids"
NPZ = {
    "two dimensions": (
        {"train_ids": [[1, 2]]}, "train_ids", "contains int64 of shape (1, 2)", "one dimension"
    ),
    "bytes": ({"train_ids": np.array([b"1"])}, "s.npz, train_ids", "contains |S1"),
    "fractions": ({"test_ids": [1.5]}, "s.npz, test_ids", "or too large: 1.5"),
    "NaN": ({"test_ids": [np.nan]}, "s.npz, test_ids", "or too large: nan"),
    "infinity": ({"test_ids": [np.inf]}, "s.npz, test_ids", "or too large: inf"),
    "objects": ({"train_ids": np.array([1, "a"], object)}, "cannot be read", NAMES),
    "other names": ({"train": [1], "val": [2]}, "contains train, val", NAMES),
    "no array": ({}, "contains no named array"),
    "an image in two splits": (
        {"train_ids": [1, 2], "test_ids": [2]}, "images are in two splits: 2", "each image in one"
    ),
    "an image that is left out": ({"train_ids": [1]}, "leaves out 1 of 2 images: 2", "70/10/20"),
}  # fmt: skip


@pytest.mark.parametrize("case", NPZ)
def test_an_npz_that_is_refused(tmp_path, case):
    arrays, *parts = NPZ[case]
    plan = _npz(tmp_path, **arrays)
    fails(lambda: apply_split(_images([1, 2]), plan), "s.npz", *parts, helps=False)


def test_an_npz_that_is_damaged(tmp_path):
    plan = _npz(tmp_path, train_ids=np.arange(100))
    content = (tmp_path / "s.npz").read_bytes()
    half, altered = content[: len(content) // 2], content[:90] + b"zzzz" + content[94:]
    for damaged in (b"", b"hello", content[:40], half, altered):
        (tmp_path / "s.npz").write_bytes(damaged)
        fails(lambda: apply_split(_images([1]), plan), "s.npz", "cannot be read")
    np.save(tmp_path / "s.npy", np.arange(3))
    (tmp_path / "s.npy").replace(tmp_path / "s.npz")
    fails(lambda: apply_split(_images([1]), plan), "s.npz", "contains no named array")


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "jsonl"])
def test_a_table_with_names_of_any_spelling(tmp_path, kind):
    text = "train Training TRN val Valid validation dev test Testing tst"
    table = pl.DataFrame({"image_id": range(10), "split": text.split(), "more": "x"})
    path = tmp_path / f"s.{kind}"
    write = {"parquet": table.write_parquet, "jsonl": table.write_ndjson}.get(kind, table.write_csv)
    write(path, **({"separator": "\t"} if kind == "tsv" else {}))
    images = apply_split(_images(range(10)), SplitPlan(str(path)))
    assert images["split"].to_list() == ["train"] * 3 + ["valid"] * 4 + ["test"] * 3


def test_tables_whose_values_are_explained_and_text_ids(tmp_path):
    path = write(tmp_path / "s.csv", "image_id,split\n000000000001,0\n2,1\n3,2\n4,2\n4,2\n77,0\n")
    plan = SplitPlan(str(path), values={"0": "train", "1": "valid", "2": "test"})
    sides = _sides(apply_split(_images([1, 2, 3, 4]), plan))
    assert sides == {1: "train", 2: "valid", 3: "test", 4: "test"}
    # a value that means no split is refused
    plan = SplitPlan(str(write(path, "image_id,split\n1,0\n2,0\n")), values={"0": "night"})
    words = "night is not a split", "train, valid, test"
    _no_parameter(lambda: apply_split(_images([1, 2]), plan), *words)
    plan = SplitPlan(str(write(path, "image_id,split\n10_1_s,train\n7,test\n")))
    sides = _sides(apply_split(_images(["10_1_s", "7"]), plan))
    assert sides == {"10_1_s": "train", "7": "test"}


@pytest.mark.parametrize(
    ("split", "splits", "owner", "words"),
    [
        (
            "test",
            ["train"],
            "the dataset",
            "pass split='train'; or nooch import auto with split='60/20/20' first",
        ),
        (
            None,
            ["train"],
            "the dataset",
            "pass split='train'; or nooch import auto with split='60/20/20' first",
        ),
        (
            "train",
            ["valid", "test"],
            "the dataset",
            "pass split='valid' or pass split='test'; or nooch import auto with",
        ),
        (
            "valid",
            ["test"],
            "the suite",
            "pass split='test'; or nooch find with splits='valid' first",
        ),
        ("night", ["test"], "the suite", "remedy: pass split='test'"),
        ("tset", ["train", "test"], "the dataset", "remedy: did you mean test?"),
        ("test", [], "the dataset", "nooch import auto with split"),
    ],
)
def test_a_split_that_is_not_there_says_which_are_and_how_to_get_it(split, splits, owner, words):
    assert all(check_split(name, splits, owner) == name for name in splits)
    said = f"'{split}' is not a split of {owner}"
    said = said if split else f"{owner} has neither a test nor a valid split"
    _no_parameter(lambda: check_split(split, splits, owner), said, *splits, words)


HEAD = "image_id,split"
TABLES = {
    # rows separated by spaces
    "other columns": ("id,split 1,train", "has columns id, split", "image_id and split"),
    "unknown names": (
        f"{HEAD} 1,day 2,night", "split values day, night are not known", "pass values={"
    ),
    "no name": (f"{HEAD} 1,train 2,", "column split is blank in some rows"),
    "an image in two splits": (f"{HEAD} 1,train 2,test 1,test", "images are in two splits: 1"),
    "an image that is left out": (f"{HEAD} 1,train", "leaves out 1 of 2 images: 2", "70/10/20"),
    "ids of another kind": (f"{HEAD} x,train y,test", "leaves out 2 of 2 images"),
    "ids with fractions": (f"{HEAD} 1,train 1.5,test", "not whole numbers, or too large: 1.5"),
    "ids of 1e300": (f"{HEAD} 1,train 2,test 1e300,test", "or too large: 1e+300"),
    "infinite ids": (f"{HEAD} 1,train 2,test inf,test", "or too large: inf"),
    "no row": (HEAD, "leaves out 2 of 2 images"),
    "an empty file": ("", "cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLES)
def test_a_table_that_is_refused(tmp_path, case):
    text, *words = TABLES[case]
    path = write(tmp_path / "s.csv", text and text.replace(" ", "\n") + "\n")
    plan = SplitPlan(str(path))
    fails(lambda: apply_split(_images([1, 2]), plan), "s.csv", *words, helps=False)


def test_named_splits_of_numbers_and_booleans():
    values = {"true": "test", "false": "train"}
    assert named_splits(pl.Series([True, False]), values).to_list() == ["test", "train"]
    values = {"0": "train", "1": "valid"}
    assert named_splits(pl.Series([0, 1]), values).to_list() == ["train", "valid"]


def test_the_published_split(shared_data):
    with np.load(shared_data / "nooch-published" / "cocostuff_split_image_ids.npz") as arrays:
        ids = np.concatenate([arrays[f"{name}_ids"] for name in ("train", "valid", "test")])
        test = arrays["test_ids"]
    plan = SplitPlan(str(shared_data / "nooch-published" / "cocostuff_split_image_ids.npz"))
    images = apply_split(_images(np.sort(ids)), plan)
    assert _counts(images) == {"train": 86302, "valid": 12328, "test": 24657}
    assert images.filter(pl.col("split") == "test")["image_id"].to_list() == sorted(test.tolist())


# into a dataset


def test_a_plan_is_kept_in_the_provenance():
    data = with_split(dataset_of([{"Y": 0.5}] * 10, ["Y"]), SplitPlan("70/10/20", 3))
    assert data.splits == {"train": 7, "valid": 1, "test": 2}
    plan = {"source": "70/10/20", "seed": 3, "group": None, "values": {}}
    assert data.provenance["split"] == plan
    assert isinstance(data, Dataset)
    assert data.images.columns == ["image_id", "file_name", "width", "height", "split"]


def test_percentages_that_leave_a_split_empty_are_refused_and_files_are_noted(tmp_path):
    data = dataset_of([{}] * 4, ["Y"])
    words = "70/10/20 leaves valid and test empty: there are only 4 images", "other percentages"
    fails(lambda: with_split(data, SplitPlan("70/10/20")), *words)
    notes = with_split(data, SplitPlan("50/0/50")).provenance["notes"]
    assert notes == ["no image is in the split valid"]
    path = write(tmp_path / "s.csv", "image_id,split\n1,train\n2,train\n3,train\n4,train\n")
    split = with_split(data, SplitPlan(str(path)))
    assert split.splits == {"train": 4}
    assert split.provenance["notes"] == ["no image is in the split valid or test"]
