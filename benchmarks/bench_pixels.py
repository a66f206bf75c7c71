"""How much faster the pixel cache is built than by a plain loop with Pillow, how faithfully, and
how fast it feeds batches.

    python benchmarks/bench_pixels.py --images 5760 --json pixels.json

Both are whole processes, run in turns on the same JPEG files with the same number of workers, start
included. The peer opens, converts and resizes with Pillow (bilinear, antialiased) and writes into a
memory map; it neither checks nor hashes nor can go on after a kill. The photographs are COCO's from
``shared/data`` beside the repository, each copied as often as needed; without them, generated ones
of the same size. All files lie in memory where there is a folder for that (the disk would be the
same for both). Feeding: random batches of 32 by one thread from a cache that memory holds.
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
from measuring import Spread, alternate, machine, ratios, write_json
from PIL import Image
from scipy.sparse import csr_array

from nooch.caches.pixels import SIZE, PixelCache
from nooch.data import Dataset, load_dataset, save_dataset
from nooch.models.image_decoding import decode_images

REAL = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "coco-real"
CHUNK = 54


def photographs(folder: Path) -> tuple[list[Path], str]:
    """JPEG files and where they come from."""
    if found := sorted(REAL.rglob("*.jpg")):
        return found, "COCO"
    random, made = np.random.default_rng(0), []
    for number in range(64):
        coarse = Image.fromarray(random.integers(0, 255, (60, 80, 3), dtype=np.uint8))
        made.append(folder / f"generated-{number}.jpg")
        coarse.resize((640, 480), Image.Resampling.BICUBIC).save(made[-1], quality=90)
    return made, "generated"


def memory_folder() -> Path | None:
    """A folder in memory, so that the disk is not what is measured; None takes the usual place."""
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
    files = [
        str(folder / "images" / name)
        for name in load_dataset(folder / "dataset").images["file_name"]
    ]
    out.mkdir()
    np.lib.format.open_memmap(
        out / "pixels.npy", mode="w+", dtype=np.uint8, shape=(len(files), SIZE, SIZE, 3)
    )
    parts = [
        (str(out / "pixels.npy"), start, files[start : start + CHUNK])
        for start in range(0, len(files), CHUNK)
    ]
    with ProcessPoolExecutor(processes) as pool:
        list(pool.map(plain_part, parts))


def plain_part(part: tuple[str, int, list[str]]) -> None:
    file, start, paths = part
    array = np.lib.format.open_memmap(file, mode="r+")
    for row, path in enumerate(paths, start):
        with Image.open(path) as image:
            array[row] = np.asarray(
                image.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR)
            )


def alone(folder: Path, codec: str, count: int = 216, runs: int = 5) -> Spread:
    """How many times as fast images are decoded and resized, in CPU time of one thread."""
    import torch

    torch.set_num_threads(1)
    paths = sorted((folder / "images").iterdir())[:count]
    array = np.empty((CHUNK, SIZE, SIZE, 3), np.uint8)
    slow, fast = [], []
    for number in range(runs + 1):
        times = [time.process_time()]
        for row, path in enumerate(paths):
            with Image.open(path) as image:
                small = image.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR)
            array[row % CHUNK] = np.asarray(small)
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
    """Times of both in turns, what lies between their pixels, and the rate of feeding."""
    plain_command = [
        sys.executable,
        __file__,
        "--plain",
        str(folder),
        "--processes",
        str(processes),
    ]
    nooch = [
        sys.executable,
        "-m",
        "nooch",
        "pixels",
        str(folder / "dataset"),
        "--out",
        str(folder / "nooch"),
    ]
    commands = {"Pillow": plain_command, "nooch": [*nooch, "--processes", str(processes)]}
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
        "fed": Spread.of(feed(cache)),
    }


_CLEAR = "import shutil, sys; shutil.rmtree(sys.argv[1], ignore_errors=True)"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=5760, help="how many; each takes 0.8 MB")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--plain", type=Path, help=argparse.SUPPRESS)
    parser.add_argument(
        "--folder", type=Path, default=memory_folder(), help="where the files lie meanwhile"
    )
    parser.add_argument("--json", type=Path, help="write the numbers here")
    options = parser.parse_args()
    if options.plain:
        plain(options.plain, options.plain / "pillow", options.processes)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        origin = prepare(Path(name), options.images)
        found = compare(Path(name), options.runs, options.processes)
    print(
        f"{options.images:,} photographs ({origin}), {SIZE} x {SIZE}, {options.processes} processes"
    )
    for who, seconds in found["seconds"].items():
        spread, memory = Spread.of(seconds), found["memory"][who]
        print(
            f"{who:<8} {spread} s, {options.images / spread.median:,.0f} images/s,"
            f" {memory.largest_mb:,.0f} MB a process"
        )
    print(f"built {found['ratio']} times as fast (codec {found['codec']})")
    print(f"decoded and resized {found['alone']} times as fast in one thread's processor time")
    print(
        f"pixels differ by {found['mean_difference']:.3f} of 255 on average, by"
        f" {found['most_difference']} at most"
    )
    print(f"fed {found['fed']} images/s by one thread, batches of 32")
    write_json(
        options.json, {"machine": machine(), "images": options.images, "origin": origin, **found}
    )


if __name__ == "__main__":
    main()
