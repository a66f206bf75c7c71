"""The main workflow on generated scenes, from images to the report, without a download of data.

    python examples/demo.py [--out demo-out] [--images 5000] [--full]

With ``--full`` more scenes, and ERM, environment reweighting and GDRO fine-tuned on all tasks with
three seeds (about an hour on 2 cores).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shlex
import shutil
import sys
import time
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.table import Table

import nooch
from nooch.cli import main as nooch_main

HERE = Path(__file__).parent
TASKS = "car,bowl,boat,fire_hydrant,airplane,cow,backpack,cup,surfboard,tie,sports_ball,kite"
MARKER = "scenes/scenes.json"
COLUMNS = {
    "AUC hard": ("auc", "hard"),
    "AUC easy": ("auc", "easy"),
    "NLL hard pos": ("nll", "hard_positive"),
    "NLL easy pos": ("nll", "easy_positive"),
    "NLL hard neg": ("nll", "hard_negative"),
    "NLL easy neg": ("nll", "easy_negative"),
}


def main() -> None:
    """Run the demo, printing each command as a user would type it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("demo-out"))
    parser.add_argument("--images", type=int)
    parser.add_argument("--full", action="store_true")
    arguments = parser.parse_args()
    out: Path = arguments.out
    if out.exists():
        if not (out / MARKER).is_file():
            sys.exit(
                f"error: {out} exists and is not an earlier demo; give another folder with --out"
            )
        shutil.rmtree(out)
    os.environ.setdefault("COLUMNS", "160")
    started = time.monotonic()
    images = arguments.images or (20_000 if arguments.full else 5_000)
    challenge_sets(out, images)
    heads(out, images)
    fine_tuning(out, full=arguments.full)
    conclusions(out, full=arguments.full)
    compare_figures(figures(out), out, usual=images == 5_000 and not arguments.full)
    print(f"\nDone in {time.monotonic() - started:.0f} s. All outputs are in {out}/:")
    for what, path in {
        "open it in a browser": "site/index.html",
        "examples of the sets": "sheet.jpg",
        "challenge sets": "suite",
        "runs, records, predictions": "runs",
        "scores and chosen settings": "scores",
        "the paper's tables from these runs": "tables.md",
        "loss on hard images against loss on all, of all classes (Fig. 3)": "losses/fig3.svg",
        "the numbers that README.md and docs/bench.md quote": "figures.json",
        "the tasks that the paper's rule selects from all classes": "suite-chosen",
    }.items():
        print(f"  {out / path}: {what}")
    print("Your own data: nooch import --help. The paper's: nooch download coco-stuff --help")


def challenge_sets(out: Path, images: int) -> None:
    """Scenes, dataset, suite."""
    say("Scenes whose context is known, in COCO's format")
    run(f"nooch tools scenes {out}/scenes --images {images} --size 128 --seed 0")
    annotations = f"{out}/scenes/annotations"
    say("Import: things, stuff and captions joined by image, split 70/10/20")
    run(
        f"nooch import coco --things {annotations}/instances_scenes.json"
        f" --stuff {annotations}/stuff_scenes.json --captions {annotations}/captions_scenes.json"
        f" --images {out}/scenes/images --split 70/10/20 --seed 0 {out}/dataset"
    )
    say("Find: images without the usual context, and images with it but without the object")
    run(
        f"nooch find {out}/dataset --criterion ce --criterion gist --encoder minilm --match ce"
        f" --tasks {TASKS} --out {out}/suite"
    )
    suite, data = nooch.load_suite(out / "suite"), nooch.load_dataset(out / "dataset")
    tasks = ["car", "cup", "surfboard", "cow"]
    sources = nooch.paper.Sources(suite=suite, data=data)
    nooch.plot.save_gallery(tasks, sources, out / "sheet.jpg", per_side=2)
    print(f"  {out}/sheet.jpg shows some of them")
    say("Explain: why one image is hard, in words")
    for subset in ("hard_positive", "hard_negative"):
        image = suite.set("ce", "car", "test").ids(subset)[0]
        run(f"nooch explain {out}/suite --task car --image {image}")
    say("Do the criteria find objects that are against context?")
    truth = f"{out}/suite {out}/scenes/truth.parquet"
    run(f"nooch tools scenes-score {truth} --split test --out {out}/truth-scores.csv")


def heads(out: Path, images: int) -> None:
    """A small network for all classes, and the paper's methods on its features in one pass."""
    say("One small network for all classes, from scratch: its loss on hard images")
    run(f"nooch train pixels {out}/dataset --size 64 --out {out}/pixels")
    run(
        f"nooch paper class-network {out}/dataset --pixels {out}/pixels --backbone"
        f" config:{HERE}/small_network.json --set epochs=8 --set batch=32 --set channels_last=true"
        f" --out {out}/classes"
    )
    run(
        f"nooch evaluate {out}/suite {out}/classes/predictions.parquet --ignore-unknown --criterion"
        f" ce --bootstrap 200 --out {out}/network.parquet"
    )
    select_tasks(out, images)
    say("The paper's nine methods with the values of Table 8, as heads on that network's features")
    run(
        f"nooch train features {out}/dataset --backbone {out}/classes/network --pixels {out}/pixels"
        f" --size 64 --out {out}/features"
    )
    run(f"nooch train bench {out}/dataset {out}/suite --features {out}/features --out {out}/runs")
    quietly(f"nooch train score {out}/runs {out}/suite --out {out}/scores")


def select_tasks(out: Path, images: int) -> None:
    """Losses of all classes, and tasks by the paper's rule, with a bound for fewer images."""
    least = max(images // 600, 1)
    say(
        "Which classes make a benchmark? Those with the highest loss on hard images. The paper asks"
        f" for 50 hard positives and 50 hard negatives among 24,657 test images; here {least} and"
        f" {least} among {images // 5:,}"
    )
    run(
        f"nooch find {out}/dataset --criterion ce --criterion gist --encoder minilm --match ce"
        f" --out {out}/suite-all",
        shown=False,
    )
    network = f"{out}/suite-all {out}/classes/predictions.parquet"
    predictions = f"--predictions {out}/classes/predictions.parquet"
    run(
        f"nooch paper figures fig3 --suite {out}/suite-all {predictions}"
        f" --formats svg --out {out}/losses",
        shown=False,
    )
    run(
        f"nooch paper select-tasks {network} --min-hard {least} --similar nooch"
        f" --out {out}/suite-chosen"
    )


def fine_tuning(out: Path, *, full: bool) -> None:
    """Whole networks, side by side on the same batches."""
    say("Fine-tuning whole networks")
    tasks, seeds, epochs, methods = "[cow]", "[0]", 2, "{erm: , gdro: {K: 5}}"
    if full:
        tasks, seeds, epochs = f"[{TASKS}]", "[0, 1, 2]", 8
        methods = "{erm: , environment-reweight: {alpha: [1, 2]}, gdro: {K: [5, 30]}}"
    run(
        f"nooch train bench {out}/dataset {out}/suite --pixels {out}/pixels --backbone"
        f" {out}/classes/network --set lr=0.003 --set epochs={epochs} --set channels_last=true"
        f" --set networks=3 --set 'tasks={tasks}' --set 'seeds={seeds}' --set"
        f" 'methods={methods}' --out {out}/tuned"
    )
    quietly(f"nooch train score {out}/tuned {out}/suite --out {out}/tuned-scores")


def conclusions(out: Path, *, full: bool) -> None:
    """The paper's tables, the report, and a summary."""
    say("The paper's tables, from these runs")
    run(
        f"nooch paper tables {out}/runs --suite {out}/suite --like table2,table6,table7,all --out"
        f" {out}/tables.md",
        shown=False,
    )
    say("The report, a static site")
    inputs = f"{out}/suite --dataset {out}/dataset --runs {out}/runs"
    run(f"nooch report {inputs} --bootstrap 200 --out {out}/site")
    say("Hard and easy images: the mean over tasks, settings chosen on the validation split")
    print_summary("Heads on frozen features", out / "scores", out / "suite")
    tuned = "Fine-tuned" if full else "Fine-tuned, cow"
    print_summary(tuned, out / "tuned-scores", out / "suite")


def print_summary(name: str, scores: Path, suite: Path) -> None:
    """A row for each method and criterion."""
    results = nooch.paper.read_results(scores, [nooch.load_suite(suite)])
    for text in results.averages:
        print(text)
    cells = results.cells.filter(pl.col("task") == "average")
    table = Table("method", "criterion", *COLUMNS, title=name, title_justify="left")
    for criterion in ("ce", "gist"):
        for method in cells["method"].unique(maintain_order=True):
            mine = cells.filter(method=method, criterion=criterion)
            shown = []
            for metric, subset in COLUMNS.values():
                means = mine.filter(metric=metric, subset=subset)["mean"].drop_nulls()
                shown.append(f"{means[0]:.3f}" if len(means) else "–")
            table.add_row(method, criterion, *shown)
    Console(width=126).print(table)


def figures(out: Path) -> dict[str, float | int]:
    """The numbers that the documentation quotes: errors of the network in percent, and jobs."""
    results: dict[str, float | int] = {}
    errors = pl.read_parquet(out / "network.parquet").filter(
        (pl.col("metric") == "error") & (pl.col("criterion") == "ce"),
        pl.col("value").is_not_null()
        & (pl.col("criterion") == "ce")
        & pl.col("value").is_not_null(),
    )
    for subset in ("hard_positive", "easy_positive", "hard_negative", "easy_negative"):
        rows = errors.filter(pl.col("subset") == subset)
        mean = float(rows.filter(pl.col("task") == "average")["value"][0])
        tasks = rows.filter(pl.col("task").is_in(TASKS.split(",")), pl.col("cue").is_null())
        results[f"error_{subset}_task_mean"] = round(100 * mean, 2)
        values, counts = tasks["value"].to_numpy(), tasks["n"].to_numpy()
        results[f"error_{subset}_images"] = round(100 * float(values @ counts / counts.sum()), 2)
        results[f"n_{subset}"] = int(counts.sum())
    records = [json.loads(file.read_bytes()) for file in (out / "runs/jobs").glob("*/config.json")]
    marked = [record for record in records if record["own"] > record["constant_own"]]
    return {**results, "jobs": len(records), "jobs_worse_than_constant": len(marked)}


def compare_figures(values: dict[str, float | int], out: Path, *, usual: bool) -> None:
    """Write the figures, and report if they differ from the documentation."""
    (out / "figures.json").write_text(json.dumps(values, indent=1) + "\n")
    recorded = json.loads((HERE / "demo_figures.json").read_text())
    other = {name: value for name, value in values.items() if value != recorded.get(name)}
    if usual and other:
        print(f"\nOther than in the documentation (another machine?): {other}")


_steps = iter(range(1, 100))


def say(title: str) -> None:
    """The title of a step."""
    print(f"\n{next(_steps)}. {title}", flush=True)


def run(command: str, *, shown: bool = True, lines: int | None = None) -> None:
    """Print a command and run it in this process, which imports everything once; stop if it fails.

    Its output is printed whole, not at all, or so many ``lines`` of it.
    """
    print(f"$ {command}", flush=True)
    sys.argv, text = shlex.split(command), io.StringIO()
    with contextlib.redirect_stdout(sys.stdout if shown and lines is None else text):
        try:
            nooch_main()
        except SystemExit as stop:
            if stop.code:
                raise
    if lines is not None:
        print("\n".join(text.getvalue().splitlines()[:lines]))


def quietly(command: str) -> None:
    """Run a command whose tables are printed later."""
    run(command, shown=False)


if __name__ == "__main__":
    main()
