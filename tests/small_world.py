"""A small dataset with an embedding, a suite of it, and a bench that takes a second."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
from oracles import dataset_of

from nooch.criteria import CE
from nooch.data import save_dataset
from nooch.suites import save_suite
from nooch.suites.find import find

CLASSES = ["car", "bowl", "road", "table"]
GRID = """
tasks: [car, bowl]
seeds: [0, 1]
methods:
  erm:
  gdro: {K: [0, 5]}
  environment-undersample: {alpha: 1}
  online-gdro: {eta: 0.1}
  cvar: {p: 0.1}
lr: 1e-2
"""
N_JOBS = 2 * 2 * 6


def small_dataset(n=400):
    """Cars are mostly on roads, bowls mostly on tables."""
    random = np.random.default_rng(3)
    things = random.random((n, 2)) < 0.5
    places = random.random((n, 2)) < np.where(things, 0.8, 0.3)
    present, areas = np.hstack([things, places]), random.random((n, 4)) * [0.1, 0.1, 0.5, 0.5]
    images = [
        {name: float(area) for name, there, area in zip(CLASSES, *rows, strict=True) if there}
        for rows in zip(present, areas, strict=True)
    ]
    data = dataset_of(images, CLASSES, random.choice(["train", "valid", "test"], n).tolist())
    values = present @ random.normal(size=(4, 16)) + random.normal(size=(n, 16))
    return replace(data, embeddings={"made": values.astype(np.float32)})


def make_world(folder, epochs=4, heads=6):
    """``dataset``, ``suite`` and ``bench.yaml`` in a folder."""
    data = small_dataset()
    save_dataset(data, folder / "dataset")
    save_suite(find(data, {"ce": CE(0.001)}, tasks=["car", "bowl"]), folder / "suite")
    more = f"heads: {heads}\nepochs: {epochs}\npatience: {epochs}\n"
    (folder / "bench.yaml").write_text(GRID + more)
    return folder


def bench_command(world, out, more=""):
    """``bench`` of a world into a folder, with further options."""
    data = f"{world / 'dataset'} {world / 'suite'} --embedding made"
    return f"train bench {data} --config {world / 'bench.yaml'} --out {out} {more}"


def contents(folder: Path) -> dict[str, bytes]:
    """Bytes of all files but logs, times, and what a kill leaves of a file; of a file, its own."""
    if folder.is_file():
        return {"": folder.read_bytes()}
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    named = {file.relative_to(folder).as_posix(): file for file in files}
    return {
        name: file.read_bytes()
        for name, file in named.items()
        if "-logs/" not in name
        and file.name != "timings.jsonl"
        and not re.fullmatch(r"\..+\.partial-[0-9a-f]{16}", file.name)
    }
