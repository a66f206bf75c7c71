"""Errors of a real model: nooch check and slices against peers, on photographs, and on noise.

MobileNet answers seven tasks of MSRC v2 (591 photographs, areas from label maps); see
docs/predict.md. All get the same table for each task: presence of every other class, whether it
covers more than a tenth, the quartile of the object's area, and whether the model errs.

- nooch: ``find_slices``; found: confirmed slices.
- sliceline: slices of up to two conditions (alpha .95, the best 5), for misses and for claims.
- fairlearn: ``MetricFrame`` of the error rate by each presence, with quartiles of the area as
  control features, and 95% intervals of 100 resamples. Found: the interval of one group is above
  the other's within a quartile.
- cleanlab: ``Datalab`` with the model's probabilities and the areas as features.

Noise: the same with errors permuted among the images of each task and side, so that everything
found is a false alarm; the mean of 10 (fairlearn: 1). Memory is the peak of a process of its own.

    python benchmarks/bench_checking.py [--python PYTHON_WITH_PEERS] [--json FILE]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from measuring import measured, nooch_command, parser, write_json

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "shared" / "data"
TASKS = "car,cow,boat,aeroplane,bicycle,bird,sheep"
CUES = "car=road,cow=grass,boat=water,aeroplane=sky,bicycle=road,bird=water,sheep=grass"
NOISE = {"nooch": 10, "sliceline": 10, "fairlearn": 1, "cleanlab": 10}
MOST = 12
LEVEL = (0.025, 0.975)


def prepare(folder: Path) -> None:
    """The dataset, predictions, and ``table.csv`` with a row for each task and image."""
    import nooch

    photographs, model = DATA / "msrc-v2", DATA / "backbones" / "mobilenet_v1_0.75_224"
    steps: list[list[Any]] = [
        ["import label-maps", photographs / "labels", "--classes", photographs / "classes.txt",
         "--void", 0, "--images", photographs / "images", folder / "data"],
        ["find", folder / "data", "--tasks", TASKS, "--cues", CUES, "--out", folder / "suite"],
        ["predict", folder / "suite", "--model", model, "--map", "imagenet", "--out",
         folder / "predictions.parquet"],
    ]  # fmt: skip
    for words, *more in steps:
        subprocess.run(nooch_command(words, *more), check=True, stderr=subprocess.DEVNULL)
    write_table(nooch.load_dataset(folder / "data"), folder)


def write_table(data: Any, folder: Path) -> None:
    """Conditions, areas, errors and probabilities of each task and image."""
    import numpy as np
    import polars as pl

    answers = pl.read_parquet(folder / "predictions.parquet")
    frames = []
    for task in TASKS.split(","):
        area, car = data.area(task), data.labels(task)
        size = np.searchsorted(np.quantile(area[car], (0.25, 0.5, 0.75)), area, side="right")
        others = [name for name in data.classes if name != task]
        columns = {f"with {name}": data.labels(name) for name in others}
        columns |= {f"much {name}": data.area(name) > 0.1 for name in others}
        columns |= {f"area {name}": data.area(name) for name in others}
        frame = pl.DataFrame({**columns, "size": np.where(car, size, -1), "label": car})
        logit = data.images.join(answers.filter(task=task), on="image_id", how="left")["logit"]
        frames.append(
            frame.with_columns(
                task=pl.lit(task), probability=1 / (1 + (-logit).exp()), error=(logit > 0) != car
            )
        )
    pl.concat(frames, how="diagonal").write_csv(folder / "table.csv")


def sides(folder: Path, noise: int) -> Iterator[tuple[str, str, Any]]:
    """(task, missed or claimed, table of these images); errors permuted where ``noise`` > 0."""
    import numpy as np
    import pandas as pd

    random = np.random.default_rng(noise)
    for task, rows in pd.read_csv(folder / "table.csv").groupby("task", sort=False):
        table = rows.dropna(axis="columns")
        for side, of_side in (("missed", table.label), ("claimed", ~table.label)):
            part = table[of_side]
            errors = random.permutation(part.error) if noise else part.error
            if errors.any():
                yield str(task), side, part.assign(error=errors)


def sliceline(folder: Path, noise: int) -> list[str]:
    """The best slices, with their errors."""
    from sliceline.slicefinder import Slicefinder

    slices = []
    for task, side, table in sides(folder, noise):
        names = [c for c in table if c.split()[0] in {"with", "much"}]
        names += ["size"] if side == "missed" else []
        finder = Slicefinder(alpha=0.95, k=5, max_l=2, min_sup=10, verbose=False)
        finder.fit(table[names].astype(int).to_numpy(), table.error.astype(int).to_numpy())
        for rule in finder.top_slices_:
            conditions = {n: v for n, v in zip(names, rule, strict=True) if v is not None}
            inside = (table[list(conditions)] == list(conditions.values())).all(axis=1)
            errors = f"{table.error[inside].sum()} of {inside.sum()}"
            slices.append(f"{task}: {conditions} {side} in {errors}")
    return slices


def fairlearn(folder: Path, noise: int) -> list[str]:
    """Presences whose groups have intervals apart, in a quartile of the object's area."""
    from fairlearn.metrics import MetricFrame

    groups = []
    for task, side, table in sides(folder, noise):
        for name in (c for c in table if c.startswith("with ") and set(table[c]) == {True, False}):
            frame = MetricFrame(
                metrics=lambda _, error: error.mean(), y_true=table.error,
                y_pred=table.error.astype(float), sensitive_features=table[[name]],
                control_features=table[["size"]], n_boot=100, ci_quantiles=list(LEVEL),
                random_state=0,
            )  # fmt: skip
            low, high = (part.unstack() for part in frame.by_group_ci)  # noqa: PD010
            for words, worse in ((name, True), (f"without{name[4:]}", False)):
                apart = low[worse] > high[not worse]
                groups += [f"{task}: {side} {words}, quartile {q}" for q in apart[apart].index]
    return groups


def cleanlab(folder: Path, noise: int) -> list[str]:
    """Kinds of issues with the number of images; 0 is not an issue."""
    import numpy as np
    import pandas as pd
    from cleanlab import Datalab

    issues = []
    for task, rows in pd.read_csv(folder / "table.csv").groupby("task", sort=False):
        table = rows.dropna(axis="columns")
        p = table.probability.to_numpy()
        if noise:
            p = np.random.default_rng(noise).permutation(p)
        lab = Datalab({"label": table.label.astype(int).tolist()}, label_name="label", verbosity=0)
        areas = table[[c for c in table if c.startswith("area ")]].to_numpy()
        kinds: dict[str, Any] = {"label": {}, "underperforming_group": {}}
        lab.find_issues(pred_probs=np.column_stack([1 - p, p]), features=areas, issue_types=kinds)
        summary = lab.get_issue_summary()[["issue_type", "num_issues"]].to_numpy()
        issues += [f"{task}: {kind} issue of {n} images" for kind, n in summary if n]
    return issues


def nooch(folder: Path, noise: int) -> list[str]:
    """The confirmed slices."""
    import numpy as np
    import polars as pl

    import nooch as package
    from nooch.analysis.slices import find_slices

    data = package.load_dataset(folder / "data")
    answers = pl.read_parquet(folder / "predictions.parquet")
    if noise:
        random = np.random.default_rng(noise)
        frames = []
        for task in TASKS.split(","):
            own = answers.filter(task=task).sort("image_id")
            label, logit = data.labels(task), own["logit"].to_numpy().copy()
            for side in (label, ~label):
                logit[side] = random.permutation(logit[side])
            frames.append(own.with_columns(logit=logit))
        answers = pl.concat(frames)
    slices = find_slices(data, answers, tasks=TASKS.split(","))
    rows = zip(slices.sentences(len(slices)), slices.table["confirmed"], strict=True)
    return [text for text, confirmed in rows if confirmed]


FOUND: dict[str, Callable[[Path, int], list[str]]] = {
    "nooch": nooch, "sliceline": sliceline, "fairlearn": fairlearn, "cleanlab": cleanlab,
}  # fmt: skip


def run(tool: str, folder: Path, python: str) -> dict[str, Any]:
    """Findings of a tool on the table and on noise, seconds and peak MB of a process of its own."""
    file = folder / f"{tool}.json"
    command = [python, __file__, "--tool", tool, "--folder", str(folder), "--noise"]
    seconds, memory = measured([*command, "0"])
    real = json.loads(file.read_text())
    subprocess.run([*command, str(NOISE[tool])], check=True, stderr=subprocess.DEVNULL)
    alarms = json.loads(file.read_text())
    return {"found": real, "alarms": alarms, "seconds": seconds, "mb": memory.total_mb}


def main() -> None:
    """Measure each tool, and print."""
    options = parser(__doc__, python=sys.executable, tool="", folder="", noise=0)
    arguments = options.parse_args()
    if arguments.tool:
        find, folder = FOUND[arguments.tool], Path(arguments.folder)
        noise = range(1, arguments.noise + 1)
        findings: Any = find(folder, 0)
        if arguments.noise:
            findings = sum(len(find(folder, seed)) for seed in noise) / arguments.noise
        (folder / f"{arguments.tool}.json").write_text(json.dumps(findings))
        return
    if not (DATA / "msrc-v2").is_dir():
        print(f"skipped: {DATA / 'msrc-v2'} is not there")
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(arguments.folder or place)
        if not (folder / "table.csv").is_file():
            prepare(folder)
        pythons = dict.fromkeys(FOUND, arguments.python) | {"nooch": sys.executable}
        figures = {tool: run(tool, folder, python) for tool, python in pythons.items()}
    for tool, figure in figures.items():
        numbers = f"{len(figure['found'])} found, {figure['alarms']:.1f} in noise"
        print(f"{tool}: {numbers}; {figure['seconds']:.1f} s, peak {figure['mb']:,.0f} MB")
        print(*(f"  {text}" for text in figure["found"][:MOST]), sep="\n")
    write_json(arguments.json, figures)


if __name__ == "__main__":
    main()
