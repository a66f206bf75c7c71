"""Growth of the import of a long table with size: rows of (image, class, area), of 1 and 10 times
as many images.

    python benchmarks/bench_table_import.py [--rows 2000000] [--factors 1,10] [--part 50000]
    [--processes 2] [--kinds parquet,csv] [--json FILE]

In parts (``--part-size``) against in one part, as typed in a shell, start included. There are ten
rows an image, anywhere in the file. Memory is the peak over all processes, looked at every 20 ms.
Files are removed after use.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from measuring import Memory, machine, watch, write_json

from nooch.data.dataset_folder import read_header

HERE = Path(__file__).parent
BLOCK = 1_000_000


def table_file(kind: str, rows: int) -> Path:
    """A table of so many rows, written in blocks."""
    folder = HERE / "data"
    folder.mkdir(exist_ok=True)
    path = folder / f"long-{rows}.{kind}"
    parts = [folder / f"long-{rows}-{begin}.parquet" for begin in range(0, rows, BLOCK)]
    for number, part in enumerate(parts):
        _block(rows // 10, min(BLOCK, rows - number * BLOCK), number).write_parquet(part)
    scan = pl.scan_parquet(parts, glob=False)
    scan.sink_parquet(path) if kind == "parquet" else scan.sink_csv(path)
    for part in parts:
        part.unlink()
    return path


def _block(images: int, rows: int, seed: int) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    ids = random.integers(0, images, rows)
    classes = pl.Series([f"class {i}" for i in range(171)])
    return pl.DataFrame(
        {
            "id": ids,
            "class": classes.gather(random.integers(0, 171, rows)),
            "area": random.random(rows) / 20,
            "place": pl.Series(["sea", "land", "city"]).gather(ids % 3),
            "weight": (ids % 1000) / 8,
        }
    )


def measured(command: list[str]) -> tuple[float, Memory]:
    """Seconds and peak memory of a command."""
    started = time.perf_counter()
    memory = watch(command)
    return time.perf_counter() - started, memory


def figures_of(file: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds and memory of an import in parts and in one."""
    out = HERE / "data" / "table-import-out"
    words = [
        sys.executable,
        "-m",
        "nooch",
        "import",
        "table",
        str(file),
        str(out),
        "--id",
        "id",
        "--class",
        "class",
    ]
    words += ["--area", "area", "--split", "70/10/20", "--overwrite"]
    ways = {
        "in parts": ["--part-size", str(options.part), "--engine", f"local:{options.processes}"],
        "in one part": [],
    }
    found: dict[str, Any] = {"file": file.name, "gigabytes": file.stat().st_size / 1e9}
    for way in options.ways.split(","):
        try:
            seconds, memory = measured([*words, *ways[way]])
        except subprocess.CalledProcessError as error:
            found[way] = {"failed": error.returncode}
            continue
        found[way] = {
            "seconds": seconds,
            "memory": memory,
            "fingerprint": read_header(out).fingerprint,
        }
        shutil.rmtree(out)
    shutil.rmtree(out.with_name(f"{out.name}-logs"), ignore_errors=True)
    return found


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--factors", default="1,10")
    parser.add_argument("--part", type=int, default=50_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--kinds", default="parquet,csv")
    parser.add_argument("--ways", default="in parts,in one part")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = []
    for kind in options.kinds.split(","):
        for factor in map(int, options.factors.split(",")):
            file = table_file(kind, options.rows * factor)
            found = figures_of(file, options)
            file.unlink()
            figures.append(found)
            print(f"{file.name}: {found['gigabytes']:.2f} GB")
            for way in options.ways.split(","):
                if "failed" in found[way]:
                    print(f"  {way}: failed ({found[way]['failed']})", flush=True)
                    continue
                memory = found[way]["memory"]
                print(
                    f"  {way}: {found[way]['seconds']:.1f} s, peak memory {memory.total_mb:,.0f} MB"
                    f" of all processes, {memory.largest_mb:,.0f} MB of the largest",
                    flush=True,
                )
            if len({found[way].get("fingerprint") for way in options.ways.split(",")} - {None}) > 1:
                sys.exit("error: the ways give different datasets")
    write_json(options.json, {"machine": machine(), "growth": figures})


if __name__ == "__main__":
    main()
