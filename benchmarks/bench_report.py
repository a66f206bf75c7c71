"""A report of 123,287 images and 171 tasks: seconds, memory, MB, and what each click costs.

    python benchmarks/bench_report.py [--images 123287] [--runs 1] [--json FILE]

Images, areas and predictions are generated, in one split; there are no picture files. The report is
a separate process, start and reading of predictions included, without resamples. Clicks are made in
headless Chromium (``NOOCH_CHROMIUM``): for each the median of milliseconds that the page's thread
computed, and of those until the second frame after it, which depend on what else the machine does.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl
from bench_scale import part_of
from measuring import machine, measured, nooch_command, parser, write_json

import nooch
from nooch.data import save_dataset

CLICK = """async ([selector, value]) => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const item = document.querySelector(selector), from = performance.now();
  if (value === null) item.click();
  else {
    item.value = value;
    item.dispatchEvent(new Event(item.tagName === "SELECT" ? "change" : "input"));
  }
  const ready = () => selector !== "#task" || document.body.dataset.ready.startsWith(`${value} `);
  do await frame(); while (!ready());
  await frame();
  return performance.now() - from;
}"""
CLICKS: dict[str, Sequence[tuple[str, str | None]]] = {
    "beta": [("#slide-beta", value) for value in ("0.3", "0.2", "0.5", "0.1")],
    "alpha": [("#slide-alpha", value) for value in ("0.02", "0.08", "0.03", "0.05")],
    "subset": [(f"[data-show={name}]", None) for name in ("hard_negative", "easy")] * 2,
    "sort": [("#sort", value) for value in ("id", "support", "loss")] * 2,
    "beta among easy images": [("#slide-beta", value) for value in ("0.3", "0.2", "0.5", "0.1")],
    "find an id": [("#filter", text) for text in ("1", "12", "123", "")],
}


def make(folder: Path, images: int, runs: int) -> list[str]:
    """Write a dataset, a suite and predictions; the command that reports them."""
    drawn = part_of(0, images)
    frame = drawn.images.with_columns(split=pl.lit("all"))
    data = nooch.Dataset.build(frame, drawn.classes, drawn.areas)
    save_dataset(data, folder / "data")
    nooch.find(nooch.load_dataset(folder / "data"), {"ce": nooch.CE(0.05, 0.1)}, out=folder / "s")
    random, words = np.random.default_rng(2), []
    for run in range(runs):
        logits = random.normal(size=(images, len(data.classes))).astype(np.float32)
        columns = {name: logits[:, place] for place, name in enumerate(data.classes)}
        file = folder / f"run{run}.parquet"
        pl.DataFrame({"image_id": frame["image_id"], **columns}).write_parquet(file)
        words += ["--predictions", str(file)]
    words += ["--scale", "logit"] if runs else []
    words += ["--dataset", str(folder / "data"), "--out", str(folder / "site")]
    return nooch_command("report --bootstrap 0", folder / "s", *words)


def clicks(site: Path, tasks: list[str]) -> dict[str, tuple[float, float]]:
    """Kind of click -> median milliseconds computed, and until it is drawn; tasks have sets."""
    from playwright.sync_api import sync_playwright

    browser_path = os.environ.get("NOOCH_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page()
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})

        def computed() -> float:
            metrics = session.send("Performance.getMetrics")["metrics"]
            return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))

        page.goto(f"file://{site}/explore.html")
        page.wait_for_selector("body[data-ready]")
        milliseconds = {}
        clicks: dict[str, Sequence[tuple[str, str | None]]] = {
            "another task": [("#task", t) for t in tasks]
        }
        for name, steps in (clicks | CLICKS).items():
            times = []
            for step in steps:
                before = computed()
                drawn = page.evaluate(CLICK, list(step))
                times.append((1000 * (computed() - before), drawn))
            milliseconds[name] = median(t[0] for t in times), median(t[1] for t in times)
        browser.close()
    return milliseconds


def main() -> None:
    """Run and print."""
    arguments = parser(__doc__, images=123_287, runs=1).parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seconds, memory = measured(make(folder, arguments.images, arguments.runs))
        files = [file for file in (folder / "site").rglob("*") if file.is_file()]
        size = sum(file.stat().st_size for file in files) / 1e6
        print(f"{arguments.images:,} images, 171 tasks, {arguments.runs} runs: {seconds:.1f} s")
        print(f"peak memory {memory}; {len(files):,} files, {size:,.0f} MB")
        facts: dict[str, Any] = clicks(
            folder / "site", [task for _, task, _ in nooch.load_suite(folder / "s").keys][1:7]
        )
    for kind, (computed, drawn) in facts.items():
        print(f"{kind}: {computed:.0f} ms computed, drawn after {drawn:.0f} ms")
    figures = {"seconds": seconds, "memory": memory, "mb": size, "clicks": facts}
    write_json(arguments.json, {"machine": machine(), **figures})


if __name__ == "__main__":
    main()
