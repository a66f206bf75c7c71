"""All benchmarks, and their figures as ``benchmarks/RESULTS.md``: ``make bench``."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from pathlib import Path

from measuring import machine

HERE = Path(__file__).parent
INTRODUCTION = (
    "Each figure is a ratio taken in one run against a named peer: median (minimum to maximum). Machines are shared and "
    "noisy: the ratios say more than the seconds. `make bench` takes them anew."
)
SCRIPTS = {
    "Import: things and stuff of COCO-Stuff's size": ["bench_import.py"],
    "CE: cues and challenge sets of 171 tasks": ["bench_criteria.py"],
    "Gist: prototypes and challenge sets of 171 tasks": ["bench_gist.py"],
    "Growth: import in parts": ["bench_import_scale.py", "--images", "12500", "--factors", "1,10,80"],
    "Growth: import of a long table in parts": ["bench_table_import.py"],
    "Growth: CE on datasets in parts": ["bench_scale.py", "--factors", "1,10,80"],
    "Engines: tiny jobs": ["bench_engines.py"],
    "Metrics: AUC of many subsets": ["bench_metrics.py"],
    "Sweep: a grid of alpha and beta": ["bench_sweep.py"],
    "Gist: embedding genuine captions": ["bench_embedding.py"],
    "Probe: 384 jobs in one pass": ["bench_probe.py"],
    "Scenes: images a second, and memory": ["bench_scenes.py"],
    "Fine-tuning: networks that share batches": ["bench_finetune.py"],
    "Pixels: the cache built and read": ["bench_pixels.py"],
}


def main() -> None:
    """Run every script and write what it printed."""
    head = ", ".join(f"{name} {value}" for name, value in machine().items())
    parts = [
        "# Benchmarks",
        INTRODUCTION,
        f"{dt.datetime.now(tz=dt.UTC).date()}; {head}",
    ]
    for title, (script, *options) in SCRIPTS.items():
        print(f"== {title}", flush=True)
        done = subprocess.run(
            [sys.executable, str(HERE / script), *options],
            check=False,
            stdout=subprocess.PIPE,
            text=True,
        )
        print(done.stdout)
        if done.returncode:
            sys.exit(f"error: {script} failed")
        parts += [
            f"## {title}",
            f"`python benchmarks/{' '.join([script, *options])}`",
            f"```\n{done.stdout.strip()}\n```",
        ]
    (HERE / "RESULTS.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
