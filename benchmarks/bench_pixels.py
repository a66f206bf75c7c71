"""Building the pixel cache against a plain loop with Pillow: speed, fidelity, rate of batches.

    python benchmarks/bench_pixels.py --images 5760 --json pixels.json

Both are whole processes, run in turns on the same JPEG files with the same number of workers, start
included. The peer opens, converts and resizes with Pillow (bilinear, antialiased) and writes into a
memory map; it neither checks nor hashes nor resumes after a kill. The photographs are COCO's from
``shared/data`` next to the repository, each copied as often as needed; without them, generated ones
of the same size. All files are in memory if there is a folder for that (the disk would be the same
for both). Rate of batches: random ones of 32 by one thread from a cache in memory.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from measuring import Spread, alternate, machine, nooch_command, parser, ratios, write_json
from PIL import Image
from scipy.sparse import csr_array

from nooch.data import Dataset, load_dataset, save_dataset
from nooch.models.caches.pixels import SIZE, PixelCache
from nooch.models.images import decode_images

REAL = Path(__file__).resolve().parents[2] / "shared" / "data" / "coco-real"
CHUNK = 54


def photographs(folder: Path) -> tuple[list[Path], str]:
    """JPEG files and where they come from."""
    if real := sorted(REAL.rglob("*.jpg")):
        return real, "COCO"
    random, files = np.random.default_rng(0), []
    for number in range(64):
        coarse = Image.fromarray(random.integers(0, 255, (60, 80, 3), dtype=np.uint8))
        files.append(folder / f"generated-{number}.jpg")
        coarse.resize((640, 480), Image.Resampling.BICUBIC).save(files[-1], quality=90)
    return files, "generated"


def memory_folder() -> Path | None:
    """A folder in memory, so that the disk is not measured; None for the usual place."""
    folder = Path("/dev/shm")
    return folder if folder.is_dir() and shutil.disk_usage(folder).free > 8e9 else None


def prepare(folder: Path, count: int) -> str:
    """A dataset of ``count`` photographs; where they come from."""
    files, origin = photographs(folder)
    (folder / "images").mkdir()
    names = [f"{i:08d}.jpg" for i in range(count)]
    for i, name in enumerate(names):
        shutil.copyfile(files[i % len(files)], folder / "images" / name)
    frame = pl.DataFrame({"image_id": range(count), "file_name": names})
    data = Dataset.build(frame, ["none"], csr_array((count, 1)), image_root=str(folder / "images"))
    save_dataset(data, folder / "dataset")
    return origin


def plain(folder: Path, out: Path, processes: int) -> None:
    """The peer: Pillow in a pool of processes."""
    names = load_dataset(folder / "dataset").images["file_name"]
    files, file = [str(folder / "images" / name) for name in names], out / "pixels.npy"
    out.mkdir()
    np.lib.format.open_memmap(file, "w+", np.uint8, (len(files), SIZE, SIZE, 3))
    starts = range(0, len(files), CHUNK)
    parts = [(str(file), start, files[start : start + CHUNK]) for start in starts]
    with ProcessPoolExecutor(processes) as pool:
        list(pool.map(plain_part, parts))


def plain_pixels(path: str | Path) -> np.ndarray:
    with Image.open(path) as image:
        small = image.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR)
    return np.asarray(small)


def plain_part(part: tuple[str, int, list[str]]) -> None:
    file, start, paths = part
    array = np.lib.format.open_memmap(file, mode="r+")
    for row, path in enumerate(paths, start):
        array[row] = plain_pixels(path)


def alone(folder: Path, codec: str, count: int = 216, runs: int = 5) -> Spread:
    """Speed-up of decoding and resizing images, in CPU time of one thread."""
    import torch

    torch.set_num_threads(1)
    paths = sorted((folder / "images").iterdir())[:count]
    array = np.empty((CHUNK, SIZE, SIZE, 3), np.uint8)
    slow, fast = [], []
    for number in range(runs + 1):
        times = [time.process_time()]
        for row, path in enumerate(paths):
            array[row % CHUNK] = plain_pixels(path)
        times.append(time.process_time())
        for first in range(0, len(paths), CHUNK):
            decode_images(paths[first : first + CHUNK], (SIZE, SIZE), codec)
        times.append(time.process_time())
        if number:
            slow.append(times[1] - times[0])
            fast.append(times[2] - times[1])
    return ratios(slow, fast)


def feed(cache: PixelCache, batch: int = 32, epochs: int = 4) -> list[float]:
    """Images per second of each epoch after the first."""
    random, rates = np.random.default_rng(0), []
    out = np.empty((batch, *cache.size, 3), np.uint8)
    for _ in range(epochs + 1):
        order, start = random.permutation(len(cache)), time.perf_counter()
        for first in range(0, len(order) - batch + 1, batch):
            cache.batch(order[first : first + batch], out)
        rates.append(len(order) // batch * batch / (time.perf_counter() - start))
    return rates[1:]


def compare(folder: Path, runs: int, processes: int) -> dict[str, Any]:
    """Times of both in turns, differences of their pixels, and the rate of batches."""
    workers = ["--processes", str(processes)]
    nooch = nooch_command("pixels", folder / "dataset", "--out", folder / "nooch", *workers)
    pillow = [sys.executable, __file__, "--plain", str(folder), *workers]
    commands = {"Pillow": pillow, "nooch": nooch}
    clear = {n: [sys.executable, "-c", _CLEAR, str(folder / n.lower())] for n in commands}
    seconds, memory = alternate(commands, runs, clear)
    cache = PixelCache.load(folder / "nooch", load_dataset(folder / "dataset"))
    peer = np.load(folder / "pillow" / "pixels.npy", mmap_mode="r", allow_pickle=False)
    apart = [np.abs(peer[i].astype(np.int16) - cache.array[i]) for i in range(min(len(cache), 512))]
    return {
        "seconds": seconds,
        "memory": memory,
        "ratio": ratios(seconds["Pillow"], seconds["nooch"]),
        "alone": alone(folder, cache.header.made["codec"]),
        "codec": cache.header.made["codec"],
        "mean_difference": float(np.mean([a.mean() for a in apart])),
        "most_difference": int(max(a.max() for a in apart)),
        "fed": Spread.from_values(feed(cache)),
    }


_CLEAR = "import shutil, sys; shutil.rmtree(sys.argv[1], ignore_errors=True)"


def main() -> None:
    command = parser(__doc__, runs=3, processes=2)
    command.add_argument("--images", type=int, default=5760, help="how many; each takes 0.8 MB")
    command.add_argument("--plain", type=Path, help=argparse.SUPPRESS)
    command.add_argument("--folder", type=Path, default=memory_folder(), help="for the files")
    options = command.parse_args()
    if options.plain:
        plain(options.plain, options.plain / "pillow", options.processes)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        origin = prepare(Path(name), options.images)
        times = compare(Path(name), options.runs, options.processes)
    count, workers = options.images, f"{options.processes} processes"
    print(f"{count:,} photographs ({origin}), {SIZE} x {SIZE}, {workers}")
    for who, seconds in times["seconds"].items():
        spread, memory = Spread.from_values(seconds), f"{times['memory'][who].largest_mb:,.0f} MB"
        print(f"{who:<8} {spread} s, {count / spread.median:,.0f} images/s, {memory} per process")
    print(f"built {times['ratio']} times as fast (codec {times['codec']})")
    print(f"decoded and resized {times['alone']} times as fast in one thread's CPU time")
    mean, most = f"{times['mean_difference']:.3f} of 255", times["most_difference"]
    print(f"pixels differ by {mean} on average, by {most} at most")
    print(f"{times['fed']} images/s by one thread, batches of 32")
    write_json(options.json, {"machine": machine(), "images": count, "origin": origin, **times})


if __name__ == "__main__":
    main()
