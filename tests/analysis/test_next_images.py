"""Collect next: images of a pool against an oracle that tries every image, files, refusals."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from oracles import dataset_of
from refusals import fails, refused
from scipy.sparse import csr_array

import nooch
from nooch.base.errors import UndefinedError
from nooch.base.words import counted

NAMES = ["car", "boat", "road", "water"]
CUES = {"car": ["road"], "boat": ["water"]}


def images(n, seed, splits=("all",), first=1):
    """Cars are mostly on roads, boats mostly on water."""
    random = np.random.default_rng(seed)
    things = random.random((n, 2)) < 0.4
    places = random.random((n, 2)) < np.where(things, 0.9, 0.2)
    made = [
        {name: 0.3 for name, there in zip(NAMES, row, strict=True) if there}
        for row in np.hstack([things, places])
    ]
    ids = list(range(first, first + n))
    return dataset_of(made, NAMES, random.choice(list(splits), n).tolist(), ids)


def suite_of(data, criterion=None):
    return nooch.find(data, {"ce": criterion or nooch.CE(cues=CUES)}, tasks=["car", "boat"])


DATA = images(300, 0, ("train", "valid", "test"))
SUITE, POOL = suite_of(DATA), images(200, 1, first=1001)


def hard_sides(data, row):
    """Task -> 0 for a hard positive, 1 for a hard negative."""
    found = {}
    for task, (cue,) in CUES.items():
        there, large = data.area(task)[row] > 0, data.area(cue)[row] > 0.1
        if there != large:
            found[task] = 0 if there else 1
    return found


def effective(counts):
    return {task: 4 / sum(1 / max(c, 0.5) for c in both) for task, both in counts.items()}


def added(counts, sides):
    """The counts with an image."""
    return {t: [c + (sides.get(t) == n) for n, c in enumerate(of)] for t, of in counts.items()}


def growth(counts, sides):
    """Relative growth of the effective numbers by each task's mark alone, summed."""
    now = effective(counts)
    alone = {task: effective(added(counts, {task: side}))[task] for task, side in sides.items()}
    return sum(alone[task] / now[task] - 1 for task in sides)


@given(st.integers(0, 10_000), st.integers(1, 40))
def test_each_image_is_the_best_of_all_that_are_left(seed, budget):
    data, pool = images(60, seed, ("train", "valid")), images(30, seed + 1, first=1001)
    marked = [sides for row in range(30) if (sides := hard_sides(pool, row))]
    if not marked:
        return
    counts = {task: [0, 0] for task in CUES}
    for row in np.flatnonzero((data.images["split"] == "train").to_numpy()):
        counts = added(counts, hard_sides(data, row))
    found = nooch.collect_next(suite_of(data), pool, budget=budget)
    assert found.tasks.select("positives", "negatives").rows() == list(map(tuple, counts.values()))
    assert len(found.table) == found.table["image_id"].n_unique() == min(budget, len(marked))
    assert bool(found.notes) == (len(marked) < budget)
    for image, gain in found.table.select("image_id", "gain").iter_rows():
        sides = hard_sides(pool, pool.row(image))
        best = max(growth(counts, each) for each in marked)
        assert growth(counts, sides) == pytest.approx(best)
        before, counts = effective(counts), added(counts, sides)
        assert gain == pytest.approx(sum(effective(counts).values()) - sum(before.values()))
        marked.remove(sides)
    exact = [4 / (1 / a + 1 / b) if a and b else 0 for a, b in counts.values()]
    assert found.tasks["new_effective"].to_list() == pytest.approx(exact)


def test_what_is_said_of_an_image():
    first = nooch.collect_next(SUITE, POOL, budget=5).table.row(0, named=True)
    sides = hard_sides(POOL, POOL.row(first["image_id"]))
    kinds = ["hard positive", "hard negative"]
    words = {f"{kinds[side]} of {task}" for task, side in sides.items()}
    assert set(first["reason"].split(", ")) == words
    assert f"{first['subset'].replace('_', ' ')} of {first['task']}" in words


def test_near_duplicates_of_any_known_image_and_of_chosen_ones_are_left_out():
    """The best image is in the test split already, the second best twice in the pool."""
    best, second = nooch.collect_next(SUITE, POOL, budget=2).table["image_id"].to_list()
    random = np.random.default_rng(0)
    known, pool = random.normal(size=(len(DATA), 16)), random.normal(size=(len(POOL), 16))
    test = int(np.flatnonzero((DATA.images["split"] == "test").to_numpy())[0])
    pool[POOL.row(best)] = 2 * known[test]
    same = {"features": known, "pool_features": pool}
    found = nooch.collect_next(SUITE, POOL, budget=1, **same)
    assert found.table["image_id"].to_list() == [second]
    assert found.notes == ["1 image left out as near-duplicates"]
    pool[:] = pool[POOL.row(second)]
    assert len(nooch.collect_next(SUITE, POOL, budget=3, **same).table) == 1
    loose = nooch.collect_next(SUITE, POOL, budget=3, similarity=1.0, **same)
    assert len(loose.table) >= 1


def test_images_that_the_dataset_has_are_left_out():
    """Those with the same id and file name; an id alone says nothing about another collection."""
    pool = images(200, 1, first=201)
    named = [replace(data, images=data.images.with_columns(file_name=pl.lit("a.jpg")))
             for data in (DATA, pool)]  # fmt: skip
    found = nooch.collect_next(suite_of(named[0]), named[1], budget=200)
    assert found.table["image_id"].min() > 300
    assert (
        "100 images left out, because the suite's dataset has them (same id and file name)"
    ) in found.notes
    assert nooch.collect_next(SUITE, pool).table["image_id"].min() <= 300
    same = named[1].select(rows=np.arange(100))
    said = "100 images left out", "give them other ids or file names"
    refused(lambda: nooch.collect_next(suite_of(named[0]), same), *said, kind=UndefinedError)


def test_a_criterion_of_marks(tmp_path):
    def marked(data):
        night = pl.Series("night", np.arange(len(data)) % 3 == 0)
        return replace(data, images=data.images.with_columns(night))

    suite = suite_of(marked(DATA), nooch.Attribute("night"))
    table = nooch.collect_next(suite, marked(POOL), budget=9).table
    rows = [POOL.row(image) for image in table["image_id"]]
    assert all(row % 3 == 0 for row in rows)


@pytest.mark.parametrize(
    ("phi", "words"),
    [
        ("NOT present(car) AND present(road)", "without a car and with a road"),
        ("present(car) AND area(road) < 0.1", "with a car and road on less than 10%"),
    ],
)
def test_a_condition_takes_the_place_of_a_criterion(phi, words):
    """As of a suite that was found by it, which the suite given does not have."""
    found = nooch.collect_next(SUITE, POOL, phi=phi, tasks=["car"], budget=9)
    other = nooch.find(DATA, nooch.Attribute(phi), tasks=["car"])
    assert found.table.equals(nooch.collect_next(other, POOL, budget=9).table)
    missed, train = phi.startswith("present"), (DATA.images["split"] == "train").to_numpy()
    car, road = (DATA.labels(name)[train] for name in ("car", "road"))
    n = int((car & ~road if missed else road & ~car).sum())
    assert found.notes == [f"images {words}: {counted(n, 'image')} in training, 9 added"]


@pytest.mark.parametrize("name", ["next.csv", "next.parquet"])
def test_command(run_cli, tmp_path, name):
    nooch.save_dataset(DATA, tmp_path / "data")
    nooch.save_dataset(POOL, tmp_path / "pool")
    suite = tmp_path / "suite"
    find = {"criteria": {"ce": nooch.CE(cues=CUES)}, "tasks": ["car", "boat"]}
    nooch.find(tmp_path / "data", out=suite, **find)
    out = tmp_path / name
    command = f"collect-next {suite} --pool {tmp_path / 'pool'} --budget 20"
    shown = run_cli(f"{command} --out {out}").ok()
    assert "20 images" in shown.out + shown.err
    run_cli(f"{command} --out {out}").refused("exists")
    run_cli(f"{command} --out {tmp_path / 'next.txt'}").refused(".parquet")
    read = pl.read_csv if name.endswith("csv") else pl.read_parquet
    columns = ["image_id", "file_name", "task", "subset", "reason", "gain"]
    assert read(out).columns == columns
    expected = nooch.collect_next(SUITE, POOL, budget=20).table
    assert read(out)["image_id"].to_list() == expected["image_id"].to_list()


REFUSED = {
    "budget": ({"budget": 0}, "at least 1"),
    "similarity": ({"similarity": 1.5}, "above 0"),
    "one kind": ({"features": np.zeros((300, 2))}, "or neither"),
    "task": ({"tasks": ["bus"]}, "bus"),
    "criterion": ({"criterion": "gist"}, "gist"),
    "two conditions": ({"criterion": "ce", "phi": "present(road)"}, "`criterion` and `phi`"),
    "phi": ({"phi": "present(bus)"}, "bus"),
}


@pytest.mark.parametrize(("options", "part"), REFUSED.values(), ids=REFUSED)
def test_options_are_refused(options, part):
    refused(lambda: nooch.collect_next(SUITE, POOL, **options), part)


def test_an_array_without_names_is_refused_with_what_can_be_given(tmp_path):
    np.save(file := tmp_path / "f.npy", np.zeros((300, 2)))
    given = {"features": file, "pool_features": np.zeros((200, 2))}
    text = fails(lambda: nooch.collect_next(SUITE, POOL, **given), "the image of each row", ".npz")
    assert "remedy:" not in text


def test_other_refusals():
    refused(lambda: nooch.collect_next(SUITE, DATA), "the pool is the dataset")
    stranger = replace(POOL, classes=("car", "ship", "road", "water"))
    refused(lambda: nooch.collect_next(SUITE, stranger), "boat", "the pool")
    wide = {"features": np.zeros((300, 2)), "pool_features": np.zeros((200, 3))}
    fails(lambda: nooch.collect_next(SUITE, POOL, **wide), "2 and 3 columns")
    short = {"features": np.zeros((300, 2)), "pool_features": np.zeros((199, 2))}
    fails(lambda: nooch.collect_next(SUITE, POOL, **short), "(199, 2)", "(200, d)")
    missing = {"features": np.zeros((300, 2)), "pool_features": np.full((200, 2), np.nan)}
    fails(lambda: nooch.collect_next(SUITE, POOL, **missing), "200 images have missing")
    empty = POOL.select(rows=np.array([not hard_sides(POOL, row) for row in range(len(POOL))]))
    fails(
        lambda: nooch.collect_next(SUITE, empty), "the pool has no new image", kind=UndefinedError
    )
    gone = nooch.find(DATA, {"a & b": "a & b", "a": nooch.CE(cues=CUES), "b": nooch.CE(cues=CUES)})
    options = {"criterion": "a & b"}
    fails(lambda: nooch.collect_next(gone, POOL, **options), "statistics", kind=UndefinedError)
    bare = images(50, 3, ("all",))
    refused(lambda: nooch.collect_next(suite_of(bare), POOL), "train")


def test_detections_take_the_place_of_annotations(run_cli, tmp_path):
    """Boxes of half the areas with certain scores choose what annotations choose."""
    whole = pl.Series("width", [100] * len(POOL))
    sized = POOL.images.with_columns(whole, whole.alias("height"))
    bare = nooch.Dataset.build(sized, ["other"], csr_array((len(POOL), 1)))
    areas = POOL.areas.tocoo()
    rows = [
        {"image_id": int(POOL.images["image_id"][int(row)]), "category": POOL.classes[label],
         "score": 0.9, "left": 0.0, "top": 0.0, "width": 100.0, "height": 100.0 * float(area)}
        for row, label, area in zip(areas.row, areas.col, areas.data, strict=True)
    ]  # fmt: skip
    low = [row | {"score": 0.2, "category": "road"} for row in rows]
    pl.DataFrame(rows + low).write_csv(tmp_path / "detections.csv")
    expected = nooch.collect_next(SUITE, POOL, dataset=DATA, budget=20)
    found = nooch.collect_next(
        SUITE, bare, dataset=DATA, budget=20, detections=tmp_path / "detections.csv"
    )
    assert found.table.drop("file_name").equals(expected.table.drop("file_name"))
    loose = nooch.collect_next(
        SUITE, bare, dataset=DATA, budget=20, detections=tmp_path / "detections.csv", threshold=0.1
    )
    assert not loose.table["image_id"].equals(expected.table["image_id"])
    nooch.data.save_dataset(DATA, tmp_path / "data")
    nooch.data.save_dataset(bare, tmp_path / "pool")
    nooch.suites.save_suite(SUITE, tmp_path / "suite")
    files = f"{tmp_path / 'suite'} --dataset {tmp_path / 'data'} --pool {tmp_path / 'pool'}"
    out = tmp_path / "next.csv"
    run_cli(
        f"collect-next {files} --detections {tmp_path / 'detections.csv'} --budget 20 --out {out}"
    ).ok()
    assert pl.read_csv(out)["image_id"].to_list() == expected.table["image_id"].to_list()
    # numbers of classes, of images without any annotation
    bare = nooch.Dataset.build(sized, [], csr_array((len(POOL), 0)))
    nooch.data.save_dataset(bare, tmp_path / "pool", overwrite=True)
    coco = [
        {"image_id": row["image_id"], "category_id": POOL.classes.index(row["category"]) + 1,
         "score": row["score"], "bbox": [row[side] for side in ("left", "top", "width", "height")]}
        for row in rows
    ]  # fmt: skip
    (tmp_path / "numbers.json").write_text(json.dumps(coco))
    (tmp_path / "names.txt").write_text("\n".join(POOL.classes))
    call = f"collect-next {files} --detections {tmp_path / 'numbers.json'} --budget 20 --out {out}"
    run_cli(f"{call} --overwrite").refused("no class names", "--classes CLASSES")
    names = f"--classes {tmp_path / 'names.txt'} --first-class 1"
    run_cli(f"{call} --overwrite {names}").ok()
    assert pl.read_csv(out)["image_id"].to_list() == expected.table["image_id"].to_list()
