"""Do labels suffice to tell where LLaVA 1.5 sees what is not there? Its answers to POPE's
questions.

    python examples/pope_context.py DATA OUT [--sixth]

DATA has ``coco-stats`` and ``vlm`` (labels of COCO's 80 things, POPE's questions, LLaVA's answers,
and RePOPE's corrected labels of images with even ids). The context criterion is fitted on all other
images (``--sixth``: a sixth of them); POPE's 500 are the test split. Of the absent objects of
RePOPE's questions, each once: how well context support ranks those that got a yes (as it is, and
above the usual log odds of the class, as thresholds by lift are), next to POPE's own choice of
"adversarial" ones, and how many times as often a yes is given among as many of the first.
Intervals resample images. Writes ``pairs.csv``, a row for each question.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.sparse import csr_array

import nooch
from nooch.criteria import FittedContext
from nooch.evaluation.metrics import auc

NAMES = ("support", "lift", "POPE's adversarial")
KINDS = ("adversarial", "popular", "random")


def main() -> None:
    """Print figures with 95% intervals."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sixth", action="store_true")
    arguments = parser.parse_args()
    pairs = absent_pairs(arguments.data, every=6 if arguments.sixth else 1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    pairs.write_csv(arguments.out / "pairs.csv")
    print(f"{pairs.height} absent objects, {pairs['yes'].sum()} get a yes")
    for name, (value, low, high) in figures(pairs).items():
        print(f"{name}: {value:.2f} [{low:.2f}, {high:.2f}]")


def absent_pairs(folder: Path, every: int) -> pl.DataFrame:
    """``image_id, task, support, lift, adversarial, yes`` of the absent objects asked for."""
    vlm = folder / "vlm"
    pope = {kind: vlm / "pope" / f"coco_pope_{kind}.json" for kind in KINDS}
    corrected = [vlm / "repope" / f"coco_repope_{kind}_even_image_ids.json" for kind in KINDS]
    by_kind = {kind: _labels(path) for kind, path in pope.items()}
    images = {image for labels in by_kind.values() for image, _ in labels}
    data = labeled_images(folder, dict.fromkeys(images, "test"), every)
    suite = nooch.find(data, nooch.Context(), splits=["test"], overlay=corrected)
    (run,) = nooch.load_predictions(
        vlm / "answers" / "llava-1.5-7b.jsonl", suite, data,
        questions=vlm / "pope" / "llava_pope_test.jsonl",
    )  # fmt: skip
    fitted = suite.header.criteria["context"].restored()
    assert isinstance(fitted, FittedContext)
    rows: list[dict[str, Any]] = []
    labels = {pair: yes for path in corrected for pair, yes in _labels(path).items()}
    for task in [name for name in suite.tasks if name in run.tasks]:
        challenge = suite.set("context", task, "test")
        assert challenge.support is not None
        support = dict(zip(challenge.image_ids, challenge.support, strict=True))
        said = dict(zip(run.image_ids, run.values[run.tasks.index(task)], strict=True))
        for (image, name), yes in labels.items():
            if name == task and not yes and not np.isnan(said.get(image, np.nan)):
                rare = (image, task) in by_kind["adversarial"]
                row = {"image_id": image, "task": task, "support": support[image]}
                row["lift"] = support[image] - fitted.usual(task)
                rows.append({**row, "adversarial": rare, "yes": bool(said[image] > 0.5)})
    return pl.DataFrame(rows)


def figures(pairs: pl.DataFrame, resamples: int = 1000) -> dict[str, tuple[float, float, float]]:
    """Figures with 95% intervals over resamples of images."""
    random = np.random.default_rng(0)
    groups = [part.to_numpy() for part in _rows_of_images(pairs)]
    drawn = [_figures(pairs)]
    for _ in range(resamples):
        draws = random.integers(0, len(groups), len(groups))
        drawn.append(_figures(pairs[np.concatenate([groups[draw] for draw in draws])]))
    names, values = drawn[0].keys(), np.array([[*draw.values()] for draw in drawn])
    low, high = np.percentile(values[1:], [2.5, 97.5], axis=0)
    return dict(zip(names, zip(values[0], low, high, strict=True), strict=True))


def _figures(pairs: pl.DataFrame) -> dict[str, float]:
    yes, adversarial = pairs["yes"].to_numpy(), pairs["adversarial"].to_numpy()
    figures = {}
    ranks = [pairs["support"].to_numpy(), pairs["lift"].to_numpy(), adversarial.astype(float)]
    for name, values in zip(NAMES, ranks, strict=True):
        first = np.zeros(len(yes), bool)
        first[np.argsort(-values, kind="stable")[: adversarial.sum()]] = True
        figures[f"{name}: AUC for a false yes"] = auc(yes, values)
        figures[f"{name}: times as often a false yes"] = yes[first].mean() / yes[~first].mean()
    for quality in ("AUC for a false yes", "times as often a false yes"):
        own, peer = (figures[f"{name}: {quality}"] for name in NAMES[1:])
        figures[f"gain of lift, {quality}"] = own - peer
    return figures


def _rows_of_images(pairs: pl.DataFrame) -> pl.Series:
    rows = pairs.with_row_index("row").group_by("image_id", maintain_order=True)
    return rows.agg("row")["row"]


def _labels(path: Path) -> dict[tuple[int, str], bool]:
    labels = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        noun = re.search(r"there an? (.+?) in the iman?ge", row["text"])
        image = re.search(r"(\d+)\.jpg", row["image"])
        assert noun
        assert image
        labels[int(image[1]), noun[1].replace(" ", "_")] = row["label"] == "yes"
    return labels


def labeled_images(folder: Path, split: Mapping[int, str], every: int = 1) -> nooch.Dataset:
    """COCO's images with their things; those without a split are for training, one of ``every``."""
    with np.load(
        folder / "coco-stats" / "derived_coco_thing_labels_123287x80.npz", allow_pickle=False
    ) as stats:
        ids, labels = stats["image_ids"], stats["labels"]
        classes = [str(name).replace(" ", "_") for name in stats["category_names"]]
    names = [split.get(int(number), "train") for number in ids]
    columns = {"image_id": ids, "split": names}
    images = pl.DataFrame(columns).with_columns(
        file_name=pl.format("COCO_val2014_{}.jpg", pl.col("image_id").cast(pl.String).str.zfill(12))
    )
    some = (images["split"] != "train").to_numpy() | (np.arange(len(ids)) % every == 0)
    return nooch.Dataset.build(images.filter(some), classes, csr_array(labels[some] * 0.5))


if __name__ == "__main__":
    main()
