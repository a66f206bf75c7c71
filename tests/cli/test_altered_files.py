"""Files that somebody altered, with hashes that match: an error that names the file, or a result.

``NOOCH_TEST_ALTERATIONS=500`` tries more of them.
"""

import contextlib
import os
import random
import shutil

import numpy as np
import polars as pl
import pytest
from altered_files import alterations, seal
from commands import completed
from scipy.sparse import csr_array
from small_world import GRID, small_dataset

from nooch.data import Dataset, divide, load_dataset, save_dataset
from nooch.models.caches.array_store import making, write_block
from nooch.models.caches.features import FEATURES
from nooch.suites import load_suite

MOST = int(os.environ.get("NOOCH_TEST_ALTERATIONS", "12"))
N = 120
FIND = "--alpha 0.001 --tasks car --out out"
GIST = "--criterion gist --encoder lexical --tau 0.5 --cues car=road --tasks car --out out"
BENCH = "bench ds suite --config bench.yaml --out out"
COMMANDS = {
    "ds": [
        "info ds --format json", f"find ds {FIND}", f"find ds {GIST}", f"{BENCH} --embedding made",
        "explain suite --task car --image 5", "weights ds --task car --alpha 0.001 --out out.csv",
        "report suite --out out", "add-attributes ds weather.csv out",
    ],
    "parts": ["info parts", f"find parts {FIND}", f"find parts {GIST}"],
    "suite": [
        "show suite", "evaluate suite p.parquet", "export suite out --to ids",
        "explain suite --task car --image 5", "report suite --predictions p.parquet --out out",
        "collect runs suite --out out", "find ds --fitted suite --tasks car --out out",
        f"{BENCH} --embedding made", "slices suite p.parquet", "verify suite suite",
    ],
    "runs": [
        "status runs", "collect runs suite --out out", "results runs --suite suite",
        "report suite --runs runs --out out",
    ],
    "features": [f"{BENCH} --features features"],
    "scores": ["results scores", "statements scores"],
    "p.parquet": [
        "evaluate suite p.parquet --bootstrap 20", "audit suite --predictions p.parquet --out out",
    ],
    "p.csv": ["evaluate suite p.csv", "report suite --predictions p.csv --out out"],
    "p.jsonl": ["evaluate suite p.jsonl"],
    "p.npz": ["evaluate suite p.npz"],
    "answers.jsonl": ["evaluate suite answers.jsonl"],
    "captions.jsonl": [
        "captions suite captions.jsonl", "audit suite --captions captions.jsonl --out out",
    ],
    "words.yaml": ["captions suite captions.jsonl --synonyms words.yaml"],
    "bench.yaml": [f"{BENCH} --embedding made --dry-run"],
    "calibration.json": ["find predicted --calibration calibration.json --tasks car --out out"],
    "weather.csv": ["add-attributes ds weather.csv out"],
    "vectors.npz": ["embed ds --encoder vectors.npz"],
}  # fmt: skip
"""A file or folder -> commands that read it."""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Everything that ``COMMANDS`` names, intact."""
    folder = tmp_path_factory.mktemp("world")
    made = small_dataset(N)
    ids, draw = made.images["image_id"], np.random.default_rng(0)
    images = made.images.with_columns(file_name=pl.format("{}.png", "image_id"), weather=ids % 3)
    captions = pl.DataFrame({"image_id": ids, "caption": [f"word{n % 7} by a car" for n in ids]})
    more = {"kinds": {"car": "thing"}, "embeddings": dict(made.embeddings)}
    unknown = csr_array(([1.0], ([3], [0])), shape=(N, 4))
    data = Dataset.build(
        images.with_columns(annotated_things=True), made.classes, made.areas, captions,
        unknown=unknown, **more,
    )  # fmt: skip
    save_dataset(data, folder / "ds")
    save_dataset(divide(data, 2), folder / "parts")
    predicted = {"predicted": {"model": "m"}}
    images = Dataset.build(images, made.classes, made.areas, provenance=predicted)
    save_dataset(images, folder / "predicted")
    (folder / "bench.yaml").write_text(f"{GRID}heads: 6\nepochs: 2\n")
    captions.write_ndjson(folder / "captions.jsonl")
    (folder / "words.yaml").write_text("car: [car, cars]\nbowl: [bowl]\n")
    pl.DataFrame({"image_id": ids, "rain": 1.5, "fog": "a"}).write_csv(folder / "weather.csv")
    vectors = {"image_ids": ids.to_numpy(), "embeddings": draw.normal(size=(N, 4))}
    np.savez(folder / "vectors.npz", **vectors)
    return folder


@pytest.fixture(scope="module")
def complete(world):
    """The world, and what commands make of it."""
    find = "find ds --criterion ce --criterion gist --encoder lexical --match ce --alpha 0.001"
    calibrate = "calibrate predicted ds --tasks car --cues car=road --alpha 0.001"
    with contextlib.chdir(world):
        completed(
            f"{find} --tasks car,bowl --split train,valid,test --out suite",
            "embed parts --encoder lexical",
            "bench ds suite --embedding made --config bench.yaml --out runs",
            "collect runs suite --out scores",
            f"{calibrate} --out calibration.json",
        )
    _predictions(world)
    _features(world / "features", load_dataset(world / "ds"))
    return world


def _predictions(folder):
    suite, draw = load_suite(folder / "suite"), np.random.default_rng(0)
    ids = suite.set("ce", "car", "test").image_ids
    wide = {task: draw.normal(size=len(ids)) for task in ("car", "bowl")}
    logits = pl.DataFrame({"image_id": ids, **wide}).unpivot(
        index="image_id", variable_name="task", value_name="logit"
    )
    logits.write_parquet(folder / "p.parquet")
    logits.write_csv(folder / "p.csv")
    logits.write_ndjson(folder / "p.jsonl")
    values = np.stack([*wide.values()], axis=1)
    np.savez(folder / "p.npz", image_ids=ids.to_numpy(), tasks=np.array([*wide]), logits=values)
    says = pl.when(pl.col("logit") > 0).then(pl.lit("Yes")).otherwise(pl.lit("no, none"))
    logits.select("image_id", "task", answer=says).write_ndjson(folder / "answers.jsonl")


def _features(folder, data):
    with making(
        folder, FEATURES, data, {"backbone": {"name": "x"}}, shape=(N, 8), dtype="float32", block=50
    ) as unfinished:
        for number in list(unfinished.todo):
            rows = range(N)[unfinished.rows(number)]
            block = np.random.default_rng(number).normal(size=(len(rows), 8)).astype(np.float32)
            at = unfinished.offset_of(number)
            unfinished.record(number, write_block(unfinished.array, at, block))


def _files(place):
    """The files to alter: of runs those of the first job alone."""
    if place.is_file():
        return [place]
    first = next(iter(sorted(place.glob("jobs/*"))), place)
    others = {file for job in place.glob("jobs/*") if job != first for file in job.iterdir()}
    endings = {".parquet", ".csv", ".json", ".npy"}
    return [f for f in sorted(place.rglob("*")) if f.suffix in endings and f not in others]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", COMMANDS)
def test_altered_files_are_refused_in_one_line_or_read(target, complete, run_cli, tmp_path):
    shutil.copytree(complete, tmp_path, dirs_exist_ok=True)
    intact, place, draw = complete / target, tmp_path / target, random.Random(target)
    cases = [(file, *case) for file in _files(place) for case in alterations(file)]
    for file, name, content in draw.sample(cases, min(MOST, len(cases))):
        command = draw.choice(COMMANDS[target])
        if place.is_dir():
            shutil.rmtree(place)
            shutil.copytree(intact, place)
        file.write_bytes(content() if callable(content) else content)
        if place.is_dir():
            seal(place, file)
        ran = run_cli(command, cwd=tmp_path)
        what = f"{file.name}, {name}: {command}: {ran.err}"
        assert ran.code in {0, 1, 2}, what
        if ran.code == 2:
            assert "Usage:" in ran.err or ran.err.count("error: ") == 1, what
        assert "\x1b" not in ran.out + ran.err, what
        for made in [*tmp_path.glob("out*"), *tmp_path.glob(".out*")]:
            shutil.rmtree(made) if made.is_dir() else made.unlink()
