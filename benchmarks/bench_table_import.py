"""Growth of the import of a long table with its size: rows of (image, class, area).

    python benchmarks/bench_table_import.py [--rows 2000000] [--factors 1,10] [--part 50000]
    [--processes 2] [--kinds parquet,csv] [--json FILE]

Several parts (``--part-size``) against one part, as typed in a shell, start included. There are ten
rows per image, anywhere in the file. Memory is the peak over all processes, sampled every 20 ms.
Files are removed after use.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from measuring import machine, measured, nooch_command, parser, write_json

from nooch.data.part_files import read_header

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


def figures_of(file: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds and memory of an import with several parts and with one."""
    out = HERE / "data" / "table-import-out"
    columns = "--id id --class class --area area --split 70/10/20"
    words = nooch_command(f"import table {columns} --overwrite", file, out)
    engine = ["--engine", f"local:{options.processes}"]
    ways = {"several parts": ["--part-size", str(options.part), *engine], "one part": []}
    figures: dict[str, Any] = {"file": file.name, "gigabytes": file.stat().st_size / 1e9}
    for way in options.ways.split(","):
        try:
            seconds, memory = measured([*words, *ways[way]])
        except subprocess.CalledProcessError as error:
            figures[way] = {"failed": error.returncode}
            continue
        fingerprint = read_header(out).fingerprint
        figures[way] = {"seconds": seconds, "memory": memory, "fingerprint": fingerprint}
        shutil.rmtree(out)
    shutil.rmtree(out.with_name(f"{out.name}-logs"), ignore_errors=True)
    return figures


def main() -> None:
    """Run and print."""
    choices = {"kinds": "parquet,csv", "ways": "several parts,one part", "factors": "1,10"}
    options = parser(__doc__, rows=2_000_000, part=50_000, processes=2, **choices).parse_args()
    figures = []
    for kind in options.kinds.split(","):
        for factor in map(int, options.factors.split(",")):
            file = table_file(kind, options.rows * factor)
            facts = figures_of(file, options)
            file.unlink()
            figures.append(facts)
            print(f"{file.name}: {facts['gigabytes']:.2f} GB")
            for way in options.ways.split(","):
                if "failed" in facts[way]:
                    print(f"  {way}: failed ({facts[way]['failed']})", flush=True)
                    continue
                seconds, memory = facts[way]["seconds"], facts[way]["memory"]
                print(f"  {way}: {seconds:.1f} s, peak memory {memory}", flush=True)
            if len({facts[way].get("fingerprint") for way in options.ways.split(",")} - {None}) > 1:
                sys.exit("error: the ways give different datasets")
    write_json(options.json, {"machine": machine(), "growth": figures})


if __name__ == "__main__":
    main()
