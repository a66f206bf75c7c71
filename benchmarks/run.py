"""All benchmarks, and their figures as ``benchmarks/RESULTS.md``: ``make bench``."""

from __future__ import annotations

import argparse
import datetime as dt
import subprocess
import sys
from pathlib import Path

from measuring import machine

HERE = Path(__file__).parent
INTRODUCTION = (
    "Each figure is a ratio measured in one run against a named peer: median (minimum to maximum)."
    "\nMachines are shared and noisy: ratios are more reliable than seconds. `make bench` measures"
    "\nthem again."
)
SCRIPTS = {
    "Import: things and stuff of COCO-Stuff's size": "bench_import.py",
    "CE: cues and challenge sets of 171 tasks": "bench_criteria.py",
    "Gist: prototypes and challenge sets of 171 tasks": "bench_gist.py",
    "Context: regressions of 171 tasks": "bench_context.py",
    "Context: regressions of 80 things": "bench_context.py --data things",
    "Context: regressions on 16 columns": "bench_context.py --data columns",
    "Growth: import with several parts": "bench_import_scale.py --images 12500 --factors 1,10,80",
    "Growth: import of a long table with several parts": "bench_table_import.py",
    "Growth: CE on datasets with several parts": "bench_scale.py --factors 1,10,80",
    "Report: 123,287 images, 171 tasks": "bench_report.py",
    "Engines: tiny jobs": "bench_engines.py",
    "Metrics: AUC of many subsets": "bench_metrics.py",
    "Load: evaluate with 100 runs": "bench_load.py",
    "Sweep: a grid of alpha and beta": "bench_sweep.py",
    "Gist: embedding genuine captions": "bench_embedding.py",
    "Gist: embedding genuine captions in bfloat16": "bench_embedding.py --precision bf16",
    "Gist: bfloat16 against float32": "bench_precision.py",
    "Probe: 384 jobs in one pass": "bench_probe.py",
    "Scenes: images per second, and memory": "bench_scenes.py",
    "Fine-tuning: networks that share batches": "bench_finetune.py",
    "Pixels: the cache built and read": "bench_pixels.py",
    "Checking: slices of a real model against peers": "bench_checking.py",
    "Checking: chances of slices": "bench_slices.py",
    "Load: a bench folder of 50,000 jobs": "bench_jobs.py",
    "Commands: 123,287 images, 171 tasks": "bench_commands.py",
}


def main() -> None:
    """Run the scripts, write what each prints when it is done, and keep the other sections."""
    parser = argparse.ArgumentParser(description=__doc__)
    titles = list(SCRIPTS)
    parser.add_argument("--only", nargs="+", default=titles, choices=titles, metavar="TITLE")
    only = parser.parse_args().only
    path = HERE / "RESULTS.md"
    sections = _sections(path.read_text(encoding="utf-8")) if path.is_file() else {}
    date = dt.datetime.now(tz=dt.UTC).date()
    for title in only:
        script, *options = SCRIPTS[title].split()
        print(f"== {title}", flush=True)
        command = [sys.executable, str(HERE / script), *options]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
        print(done.stdout)
        if done.returncode:
            sys.exit(f"error: {script} failed")
        typed = f"`python benchmarks/{SCRIPTS[title]}`"
        sections[title] = f"{typed}, {date}\n\n```\n{done.stdout.strip()}\n```"
        head = ", ".join(f"{name} {value}" for name, value in machine().items())
        # sections of scripts that run elsewhere, such as gpu.py, follow
        names = [name for name in {**SCRIPTS, **sections} if name in sections]
        listed = [f"## {name}\n\n{sections[name]}" for name in names]
        text = "\n\n".join(["# Benchmarks", INTRODUCTION, head, *listed])
        path.write_text(f"{text}\n", encoding="utf-8")


def _sections(text: str) -> dict[str, str]:
    """Title -> content, of an earlier file."""
    parts = [part.partition("\n") for part in text.split("\n## ")[1:]]
    return {title: content.strip() for title, _, content in parts}


if __name__ == "__main__":
    main()
