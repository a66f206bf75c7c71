"""How many pairs of models does nooch-words tell apart, next to POPE's adversarial questions?

    python examples/words_power.py DATA

DATA has ``vlm`` (six files of captions of 614 images of valid and test; a mention is a yes) and
``coco-stats`` (labels of COCO's 80 things). For the pairs of nooch-words on these images, and for
the same positives with as many negatives on the same images drawn POPE's adversarial way (absent
things that occur most often with what is there): the share of the 15 pairs of models whose d'
differs, by 95% intervals of the difference over resampled images.
"""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import norm

import nooch
from nooch.evaluation.captions import mentions, read_captions
from nooch.evaluation.vocabulary import COCO, load_vocabulary

PAIR = ["image_id", "task"]


def adversarial(absent: pl.DataFrame, folder: Path) -> pl.DataFrame:
    """As many absent things of each image as ``absent`` has, those that occur most often with the
    things that are there.
    """
    name = "derived_coco_thing_labels_123287x80.npz"
    with np.load(folder / "coco-stats" / name, allow_pickle=False) as stats:
        ids, labels = stats["image_ids"], stats["labels"].astype(np.float32)
        tasks = [str(one).replace(" ", "_") for one in stats["category_names"]]
    together, row = labels.T @ labels, {int(number): i for i, number in enumerate(ids)}
    rows = []
    for image_id, n in absent.group_by("image_id").len().sort("image_id").iter_rows():
        present = labels[row[image_id]] > 0
        often = np.where(present, -1.0, together[present].sum(axis=0))
        rows += [(image_id, tasks[task]) for task in np.argsort(-often, kind="stable")[:n]]
    return pl.DataFrame(rows, {"image_id": pl.Int64, "task": pl.String}, orient="row")


def share_told_apart(
    pairs: pl.DataFrame, said: dict[str, pl.DataFrame], resamples: int = 1000
) -> tuple[float, dict[str, float]]:
    """The share of pairs of models whose d' differs, and the d' of each, by ``label``."""
    images, image = np.unique(pairs["image_id"].to_numpy(), return_inverse=True)
    label = pairs["label"].to_numpy()
    draws = np.random.default_rng(0).multinomial(
        len(images), np.full(len(images), 1 / len(images)), resamples
    )
    weights = np.concatenate([np.ones((1, len(images))), draws])
    values = {}
    for model, frame in said.items():
        yes = pairs.join(frame, on=PAIR, how="left", maintain_order="left")["yes"].to_numpy() > 0.5
        values[model] = z_rate(weights, image, yes, label) - z_rate(weights, image, yes, ~label)
    gaps = [values[one] - values[other] for one, other in combinations(values, 2)]
    ends = [np.percentile(gap[1:], [2.5, 97.5]) for gap in gaps]
    apart = np.mean([not low <= 0 <= high for low, high in ends])
    return float(apart), {model: float(value[0]) for model, value in values.items()}


def z_rate(
    weights: NDArray[np.float64], image: NDArray[np.int64], yes: NDArray[np.bool_],
    side: NDArray[np.bool_],
) -> NDArray[np.float64]:  # fmt: skip
    """Z of the rate of yes on a side, with 0.5 more yes and 1 more in all (Hautus 1995)."""
    counts = [np.bincount(image, some, minlength=weights.shape[1]) for some in (side & yes, side)]
    hits, n = (weights @ count for count in counts)
    return np.asarray(norm.ppf((hits + 0.5) / (n + 1)))


def report(folder: Path) -> dict[str, tuple[int, float, dict[str, float]]]:
    """Name of the questions -> their number, the share of models told apart, each model's d'."""
    suite, words = nooch.load_suite("nooch-words"), load_vocabulary(COCO)
    files = sorted((folder / "vlm" / "captions").glob("*.json"))
    runs = read_captions(files, nooch.load_suite("nooch-coco"))
    said = {}
    for run in runs:
        frame = mentions(run, words, suite.tasks).said
        assert frame is not None
        said[run.run] = frame.select(*PAIR, yes="value")
    captioned = next(iter(said.values()))["image_id"].unique()
    pairs = suite.pairs.filter(pl.col("image_id").is_in(captioned.implode()))  # type: ignore[union-attr]
    pairs = pairs.select(*PAIR, "label")
    absent = adversarial(pairs.filter(~pl.col("label")), folder).with_columns(label=False)
    peer = pl.concat([pairs.filter("label"), absent])
    return {
        name: (len(some), *share_told_apart(some, said))
        for name, some in (("nooch-words", pairs), ("POPE's adversarial", peer))
    }


if __name__ == "__main__":
    for title, (n, apart, dprime) in report(Path(sys.argv[1])).items():
        listed = ", ".join(f"{model} {value:.2f}" for model, value in dprime.items())
        print(f"{title}: {n} pairs, {100 * apart:.0f}% of pairs of models differ; d': {listed}")
