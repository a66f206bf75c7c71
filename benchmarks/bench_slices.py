"""Chances of ``find_slices`` in simulated datasets: false confirmations, and planted slices found.

Each dataset is of 1,500 images of twelve classes with random areas; half of them have a car, and
bigger cars are missed less. Peer: Fisher's exact test of every single condition on all images of a
side with Bonferroni's correction (SciPy, two-sided, as it is by default), .05 over all.

- null: errors do not depend on any condition; ``false``: any slice is confirmed.
- grouped null: the same with scenes of six images whose errors are alike, and ``group``; the peer
  knows no groups.
- planted: cars are missed .2 more often if one other class is present; ``power``: that slice is
  confirmed. Peers test the same conditions.
- planted, most: .11 more often where a class is present that 70% of the images have.
- size: small cars are missed and stand by one other class; ``false``: a slice of that class is
  confirmed though only the size matters. The peer knows no strata.
- words: null, with captions of 50 words of 3,000, whose frequencies fall as 1 / rank; ``false``.
- words, planted: besides, cars are missed .5 (else .2) of the time where the caption of 100 of 500
  has one more word; every image has a car. ``power``: the slice of that word is confirmed.
- position, position, planted: the same with boxes, 100 of 500 at the edge of the image, for words.

    python benchmarks/bench_slices.py [--datasets 1500] [--images 1500] [--seed 0] [--json FILE]
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from measuring import parser, write_json
from scipy.sparse import csr_array
from scipy.stats import fisher_exact

from nooch.analysis.slices import find_slices
from nooch.criteria.conditions import ImageConditions
from nooch.data import Dataset
from nooch.evaluation.metrics.proportions import wilson

CLASSES = ("car", *(f"class {i:02}" for i in range(11)))
PLANTED = 1
KINDS = ("null", "grouped null", "planted", "planted, most", "size", "words", "words, planted",
         "position", "position, planted")  # fmt: skip
WORDS = np.array([f"word{number}" for number in range(3000)])
LEVEL = 0.05
FEWEST = 10


def made(
    kind: str, n: int, random: np.random.Generator
) -> tuple[Dataset, np.ndarray, pl.DataFrame]:
    """A dataset, where it is wrong about cars, and the answers."""
    shares = np.concatenate([[0.5], np.linspace(0.085, 0.5, len(CLASSES) - 1)])
    if kind == "planted, most":
        shares[PLANTED] = 0.7
    presence = random.random((n, len(CLASSES))) < shares
    areas = np.where(presence, random.uniform(0.01, 0.3, presence.shape), 0)
    car, area = presence[:, 0], areas[:, 0]
    small = car & (area < 0.08)
    if kind == "size":
        near_small = random.random(n) < np.where(small, 0.6, 0.1)
        areas[:, PLANTED] = np.where(near_small, random.uniform(0.01, 0.3, n), 0)
    rate = np.where(car, 0.2, 0.1)
    if kind == "size":
        rate = np.where(small, 0.6, rate)
    if kind.startswith("planted"):
        rate = rate + (0.2 if kind == "planted" else 0.11) * (car & presence[:, PLANTED])
    scene = np.arange(n) // 6
    if kind == "grouped null":
        # conditions and errors both come in scenes
        share = random.beta(0.5, 2.0, scene.max() + 1)[scene]
        rate = np.where(car, share, 0.5 * share)
        alike = random.random((n, len(CLASSES))) < 0.7
        areas = np.where(alike, areas[6 * scene], areas)
        car = areas[:, 0] > 0
    captions = objects = None
    if kind.startswith(("words", "position")):
        car = car | kind.endswith("planted")
        areas[:, 0] = np.where(car, np.maximum(areas[:, 0], 0.01), 0)
        has = random.permutation(n) < n // 5
        rate = np.where(has & kind.endswith("planted"), 0.5, 0.2)
    if kind.startswith("position"):
        side = np.sqrt(areas[:, 0])
        away = random.uniform(0.02, 0.98 - side, (2, n))
        objects = pl.DataFrame({
            "image_id": range(n), "class": "car", "left": np.where(has, 0, away[0]),
            "top": away[1], "width": side, "height": side, "area": side**2, "crowd": False,
            "ignore": False,
        }).filter(car)  # fmt: skip
    if kind.startswith("words"):
        often = 1 / np.arange(1, len(WORDS) + 1)
        texts = WORDS[random.choice(len(WORDS), (n, 50), p=often / often.sum())]
        said = [" ".join(text) + " trailer" * int(it) for text, it in zip(texts, has, strict=True)]
        captions = pl.DataFrame({"image_id": range(n), "caption": said})
    wrong = random.random(n) < rate
    images = pl.DataFrame({"image_id": range(n), "split": "test", "scene": scene})
    data = Dataset.build(
        images if kind == "grouped null" else images.drop("scene"),
        CLASSES,
        csr_array(areas),
        captions,
        objects=objects,
    )
    logit = np.where(car ^ wrong, 1.0, -1.0)
    return data, wrong, pl.DataFrame({"image_id": range(n), "task": "car", "logit": logit})


def fisher(data: Dataset, wrong: np.ndarray) -> list[tuple[str, str]]:
    """(side, condition) that the peer confirms."""
    conditions = ImageConditions(data, data, stop_words=())
    car, tested = data.labels("car"), []
    for side, rows in (("positive", car), ("negative", ~car)):
        for condition in conditions.of_task("car", target=side == "positive"):
            inside, other = condition.holds & rows, rows & ~condition.holds
            if inside.sum() >= FEWEST and other.any() and condition.name != "scene":
                table = [[(w & part).sum() for w in (wrong, ~wrong)] for part in (inside, other)]
                higher = wrong[inside].mean() > wrong[other].mean()
                tested.append(
                    (side, condition.text, fisher_exact(np.array(table)).pvalue if higher else 1.0)
                )
    return [(side, text) for side, text, p in tested if p * len(tested) <= LEVEL]


def counted(kind: str, datasets: int, images: int, seed: int) -> dict[str, Any]:
    """In how many datasets nooch and the peer confirm what counts."""
    hits = np.zeros(2, np.int64)
    name = f"a {CLASSES[PLANTED]}"
    for number in range(datasets):
        random = np.random.default_rng([seed, number])
        data, wrong, answers = made(kind, images, random)
        group = "scene" if kind == "grouped null" else None
        table = find_slices(data, answers, group=group).table.filter("confirmed")
        of_nooch = [*zip(table["side"], table["conditions"].list.join(" and "), strict=True)]
        for column, confirmed in enumerate((of_nooch, fisher(data, wrong))):
            planted = [listed for listed in confirmed if listed == ("positive", f"with {name}")]
            counts = {
                "planted": planted,
                "planted, most": planted,
                "words, planted": [listed for listed in confirmed if "'trailer'" in listed[1]],
                "position, planted": [listed for listed in confirmed if "at the edge" in listed[1]],
                "size": [listed for listed in confirmed if CLASSES[PLANTED] in listed[1]],
            }.get(kind, confirmed)
            hits[column] += bool(counts)
    share = hits / datasets
    low, high = wilson(share, np.full(2, datasets))
    return {"kind": kind, "datasets": datasets, "nooch": [share[0], low[0], high[0]],
            "fisher": [share[1], low[1], high[1]]}  # fmt: skip


def main() -> None:
    """Print a row for each kind of dataset."""
    options = parser(__doc__)
    options.add_argument("--datasets", type=int, default=1500)
    options.add_argument("--images", type=int, default=1500)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--kinds", nargs="+", default=KINDS)
    arguments = options.parse_args()
    print(f"{arguments.datasets:,} datasets of {arguments.images:,} images, seed {arguments.seed}")
    print(f"{'':14}{'nooch':>24}{'Fisher, Bonferroni':>24}")
    rows = []
    for kind in arguments.kinds:
        row = counted(kind, arguments.datasets, arguments.images, arguments.seed)
        rows.append(row)
        cells = [f"{a:.3f} [{b:.3f}, {c:.3f}]" for a, b, c in (row["nooch"], row["fisher"])]
        print(f"{kind:14}{cells[0]:>24}{cells[1]:>24}", flush=True)
    write_json(arguments.json, {"rows": rows})


if __name__ == "__main__":
    main()
