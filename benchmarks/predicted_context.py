"""Reliability of hard negatives found on predicted areas, and what a better model changes.

    python benchmarks/predicted_context.py PREDICTED TRUE --cues car=road,cow=grass [--figure F.svg]
    [--group PATTERN] [--json FILE]

For each pair of task and cue: precision and recall of hard negatives by beta; the largest level
that precision and recall reach together at one threshold; how far areas must move from the
predicted to the true ones for that level to be .9, as of a model with less noise; and the level of
a logistic regression on the square roots of all predicted areas, cross-validated. With ``--group``,
a column or a pattern of file names, images of a group share a fold. The figure has the curves.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
from measuring import parser, write_json
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold, cross_val_predict

import nooch
from nooch.cli.options import parse_cues
from nooch.data import Dataset
from nooch.data.splits import group_names
from nooch.report.figures.style import canvas, styled, svg

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
BETA, LEVEL = 0.1, 0.9


def curve(areas: Floats, hard: Bools) -> tuple[Floats, Floats]:
    """Precision and recall of ``areas > threshold`` at each threshold."""
    thresholds = np.unique(areas)[:-1]
    n_above = len(areas) - np.searchsorted(np.sort(areas), thresholds, "right")
    right = hard.sum() - np.searchsorted(np.sort(areas[hard]), thresholds, "right")
    return right / n_above, right / hard.sum()


def level(areas: Floats, hard: Bools) -> float:
    """The largest value that precision and recall both reach."""
    return float(np.minimum(*curve(areas, hard)).max())


def needed(areas: Floats, true: Floats, hard: Bools) -> tuple[float, float]:
    """Share of the way to the true areas at which the level is reached, and the correlation there.

    Moving areas so keeps which images are wrong, and makes all errors smaller alike.
    """
    for share in np.arange(0, 1.001, 0.05):
        moved = areas + share * (true - areas)
        if level(moved, hard) >= LEVEL:
            return float(share), float(np.corrcoef(moved, true)[0, 1])
    raise AssertionError("true areas reach every level")


def learned(predicted: Dataset, rows: Bools, large: Bools, own: str, group: str | None) -> Floats:
    """Out-of-fold chance of a large true area, from the areas of all classes but the task's."""
    columns = [c for c, name in enumerate(predicted.classes) if name != own]
    inputs = np.sqrt(predicted.areas[:, columns].toarray())
    model = LogisticRegression(C=100, max_iter=5000)
    groups = np.arange(len(rows))
    if group is not None:
        groups = group_names(predicted.images, group).rank("dense").to_numpy()
    folds = StratifiedGroupKFold(5, shuffle=True, random_state=0)
    chances = cross_val_predict(
        model, inputs, large, groups=groups, cv=folds, method="predict_proba"
    )
    return np.asarray(chances[rows, 1])


def row_of(
    predicted: Dataset,
    true: Dataset,
    pair: tuple[str, str],
    group: str | None,
) -> dict[str, object]:
    """The figures of a task and its cue."""
    task, cue = pair
    rows = ~predicted.labels(task)
    areas, truth = predicted.area(cue)[rows], true.area(cue)
    hard, above = (truth[rows] > BETA) & ~true.labels(task)[rows], areas > BETA
    share, correlation = needed(areas, truth[rows], hard)
    return {
        "task": task, "cue": cue, "hard": int(hard.sum()),
        "precision": float(hard[above].mean()), "recall": float(above[hard].mean()),
        "correlation": float(np.corrcoef(areas, truth[rows])[0, 1]),
        "level": level(areas, hard), "share needed": share, "correlation needed": correlation,
        "level learned": level(learned(predicted, rows, truth > BETA, task, group), hard),
    }  # fmt: skip


@styled
def drawn(curves: dict[str, tuple[Floats, Floats]]) -> bytes:
    """The curves as SVG, with the corner to be reached."""
    figure, (ax,) = canvas(1, 5.2, 3.6)
    for name, (precision, recall) in curves.items():
        ax.plot(recall, precision, label=name, linewidth=1.4)
    ax.plot([LEVEL, LEVEL, 1], [1, LEVEL, LEVEL], color="0.3", linestyle=":", linewidth=1)
    ax.set(xlabel="recall of hard negatives", ylabel="precision", xlim=(0, 1), ylim=(0.3, 1.01))
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return svg(figure)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("predicted", type=Path)
    options.add_argument("true", type=Path)
    options.add_argument("--cues", required=True)
    options.add_argument("--figure", type=Path)
    options.add_argument("--group")
    arguments = options.parse_args()
    cues = parse_cues(arguments.cues)
    predicted, true = (
        nooch.load_dataset(folder) for folder in (arguments.predicted, arguments.true)
    )
    if predicted.image_ids.tolist() != true.image_ids.tolist():
        sys.exit("the two datasets have different images")
    pairs = [(task, cue) for task, listed in cues.items() for cue in listed]
    rows = [row_of(predicted, true, pair, arguments.group) for pair in pairs]
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=200, float_precision=2):
        print(pl.DataFrame(rows))
    if arguments.figure is not None:
        curves = {}
        for task, cue in pairs:
            absent = ~predicted.labels(task)
            hard = (true.area(cue)[absent] > BETA) & ~true.labels(task)[absent]
            curves[f"{task}, {cue}"] = curve(predicted.area(cue)[absent], hard)
        arguments.figure.write_bytes(drawn(curves))
    write_json(arguments.json, {"pairs": rows})


if __name__ == "__main__":
    main()
