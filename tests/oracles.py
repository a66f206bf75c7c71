"""Slow and obvious versions of what nooch computes, in the paper's words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

import hypothesis.strategies as st
import numpy as np
import polars as pl
from scipy.sparse import coo_array
from scipy.special import expit, logit

from nooch.data import Dataset

SUBSETS = ("hard_positive", "hard_negative", "easy")
Image = Mapping[str, float]  # class -> area of what is present

# the thresholds themselves are among the areas, so that strict and not strict differ
AREAS = st.sampled_from([0.0, 0.02, 0.05, 0.1, 0.15, 0.3, 0.75]) | st.floats(0, 1.25).map(
    lambda x: round(x, 3)
)


def dataset_of(
    images: Sequence[Image], classes: Sequence[str], splits: Sequence[str] | None = None, ids=None
) -> Dataset:
    """A Dataset from plain dictionaries."""
    ids = list(range(1, len(images) + 1)) if ids is None else ids
    frame = pl.DataFrame({"image_id": ids, "split": list(splits or ["all"] * len(images))})
    entries = [(row, *pair) for row, image in enumerate(images) for pair in image.items()]
    rows, columns = [row for row, _, _ in entries], [classes.index(name) for _, name, _ in entries]
    areas = np.array([area for _, _, area in entries], float)
    matrix = coo_array((areas, (rows, columns)), shape=(len(images), len(classes)))
    return Dataset.build(frame, classes, matrix.tocsr())


@st.composite
def collections(draw, max_images: int = 14, max_classes: int = 5, splits: bool = False):
    """Random (images, classes, splits): classes Y, A, B, ..., any area, some images empty."""
    classes = ["Y", "A", "B", "C", "D"][: draw(st.integers(2, max_classes))]
    n = draw(st.integers(1, max_images))
    image = st.dictionaries(st.sampled_from(classes), AREAS, max_size=len(classes))
    images = [draw(image) for _ in range(n)]
    split = st.sampled_from(["train", "valid", "test"])
    return images, classes, [draw(split) for _ in range(n)] if splits else None


@dataclass(frozen=True)
class Coverage:
    """Annotated ``kinds`` per image, and single pairs: class -> whether it is known there."""

    kinds: Mapping[str, str]
    annotated: Sequence[AbstractSet[str]]
    stated: Sequence[Mapping[str, bool]]

    def unknown(self, number: int, name: str) -> bool:
        """Whether it is unknown how much of a class is in an image."""
        if name in self.stated[number]:
            return not self.stated[number][name]
        return name in self.kinds and self.kinds[name] not in self.annotated[number]

    def applied(self, data: Dataset, classes: Sequence[str]) -> Dataset:
        """The dataset with this coverage; rows in the order of the collection."""
        frame = data.images.with_columns(
            annotated_things=pl.Series(["thing" in kinds for kinds in self.annotated]),
            annotated_stuff=pl.Series(["stuff" in kinds for kinds in self.annotated]),
        )
        stated = [[pairs.get(name) for name in classes] for pairs in self.stated]
        unknown = np.array([[known is False for known in row] for row in stated])
        verified = np.array([[known is True for known in row] for row in stated])
        more = {"kinds": self.kinds, "unknown": unknown, "verified": verified}
        return Dataset.build(frame, classes, data.areas, **more)


@st.composite
def coverages(draw, classes: Sequence[str], n: int):
    """Random coverage of n images."""
    kinds = draw(st.dictionaries(st.sampled_from(classes), st.sampled_from(["thing", "stuff"])))
    annotated = [draw(st.sets(st.sampled_from(["thing", "stuff"]))) for _ in range(n)]
    pairs = st.dictionaries(st.sampled_from(classes), st.booleans(), max_size=2)
    stated = [draw(pairs) for _ in range(n)]
    return Coverage(kinds, annotated, stated)


def naive_known_A(
    images: Sequence[Image], coverage: Coverage, rows: Iterable[int], cue: str, task: str
) -> float:
    """A(C, Y) over the images among ``rows`` where both classes were annotated."""
    known = [i for i in rows if not coverage.unknown(i, cue) and not coverage.unknown(i, task)]
    return naive_A([images[i] for i in known], cue, task)


def naive_known_subset(
    image: Image, unknown: AbstractSet[str], cues: Iterable[str], task: str, beta: float
) -> str:
    """Where not all is annotated: ``unlabeled`` without a label, ``excluded`` for unknown cues."""
    if task in unknown and task not in image:
        return "unlabeled"
    if any(cue in unknown for cue in cues):
        return "excluded"
    return naive_ce_subset(image, cues, task, beta)


def naive_A(images: Iterable[Image], cue: str, task: str) -> float:
    """A(C, Y) = E[area(C) - area(Y) | y = 1] (section 3.2.1)."""
    differences = [image.get(cue, 0.0) - image[task] for image in images if task in image]
    return sum(differences) / len(differences) if differences else math.nan


def naive_cues(
    images: Sequence[Image], classes: Sequence[str], task: str, alpha: float
) -> set[str]:
    """Every class with A above alpha."""
    return {c for c in classes if c != task and naive_A(images, c, task) > alpha}


def naive_ce_subset(image: Image, cues: Iterable[str], task: str, beta: float) -> str:
    """The noisy-or rule, as the paper says it."""
    areas = [image.get(cue, 0.0) for cue in cues]
    if task in image:
        return "hard_positive" if all(area < beta for area in areas) else "easy"
    return "hard_negative" if any(area > beta for area in areas) else "easy"


def naive_matching(
    rows: Sequence[tuple[int, bool, float]], n_positive: int, n_negative: int
) -> dict[int, str]:
    """(id, label, support) -> subset of each id with known support: the n most unusual per side."""
    known = [row for row in rows if not math.isnan(row[2])]
    positives = sorted((support, image_id) for image_id, label, support in known if label)
    negatives = sorted((-support, image_id) for image_id, label, support in known if not label)
    subsets = {image_id: "easy" for image_id, _, _ in known}
    subsets |= {image_id: "hard_positive" for _, image_id in positives[:n_positive]}
    subsets |= {image_id: "hard_negative" for _, image_id in negatives[:n_negative]}
    return subsets


def suite_rows(suite):
    """(id, criterion, task, split, label, subset, support) of every image of every set."""
    for key in suite.keys:
        one = suite.set(*key)
        supports = [None] * len(one) if one.support is None else one.support.tolist()
        columns = one.image_ids.to_list(), one.labels.tolist(), one.subset.tolist(), supports
        for image_id, label, code, support in zip(*columns, strict=True):
            yield image_id, *key, int(label), SUBSETS[code], support


def naive_cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """Cosine of two vectors; NaN where one has no direction."""
    norm = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / norm if norm else math.nan


def naive_ece(
    confidence: np.ndarray, right: np.ndarray, weights: np.ndarray | None = None, bins: int = 15
) -> float:
    """Loops over bins, from the definition."""
    w = np.ones(len(right)) if weights is None else weights
    bounds, total = np.linspace(0, 1, bins + 1), 0.0
    for low, high in pairwise(bounds):
        inside = (confidence >= low) & ((confidence < high) | (high == 1) & (confidence == 1))
        total += abs((w[inside] * right[inside]).sum() - (w[inside] * confidence[inside]).sum())
    return total / w.sum()


def naive_metric(
    name: str,
    labels: np.ndarray,
    logits: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    images: float | None = None,
    threshold: float = 0.5,
    size: float | None = None,
) -> float:
    """Any metric, from its definition; NaN where it is undefined.

    ``images`` is the weight of the whole set, of which these images are a subset, and ``size`` the
    number of images that weights of another sum stand for.
    """
    w = np.ones(len(labels)) if weights is None else weights
    said, positive, negative = logits > logit(threshold), w[labels].sum(), w[~labels].sum()
    signal = ("dprime", "response_criterion")
    both = ("auc", "auprc", "precision", "f1", "balanced_accuracy", *signal)
    needs = {"recall": positive, "fpr": negative, **dict.fromkeys(both, min(positive, negative))}
    weight, hit, false = w.sum(), w[said & labels].sum(), w[said & ~labels].sum()
    if not needs.get(name, weight) or (name == "precision" and not hit + false):
        return math.nan
    p, top = expit(logits), np.maximum(expit(logits), expit(-logits))
    right, margin = (logits > 0) == labels, np.where(labels, logits, -logits)
    values: dict[str, Callable[[], float]] = {
        "auc": lambda: naive_auc(labels, logits, w),
        "auprc": lambda: naive_auprc(labels, logits, w),
        "error": lambda: w[said != labels].sum() / weight,
        "nll": lambda: w @ np.logaddexp(0, -margin) / weight,
        "ece": lambda: naive_ece(p, labels, w),
        "ece_top": lambda: naive_ece(top, right, w),
        "ece_paper": lambda: naive_ece(top, right, w) * weight / (images or weight),
        "accuracy": lambda: w[said == labels].sum() / weight,
        "balanced_accuracy": lambda: (hit / positive + 1 - false / negative) / 2,
        "precision": lambda: hit / (hit + false),
        "recall": lambda: hit / positive,
        "fpr": lambda: false / negative,
        "f1": lambda: 2 * hit / (hit + false + positive),
        "brier": lambda: w @ (p - labels) ** 2 / weight,
        "yes_rate": lambda: w[said].sum() / weight,
    }
    if name in signal:
        unit = (size or weight) / weight
        hits, claims = (
            NormalDist().inv_cdf((part * unit + 0.5) / (side * unit + 1))
            for part, side in ((hit, positive), (false, negative))
        )
        return hits - claims if name == "dprime" else -(hits + claims) / 2
    return float(values[name]())


def naive_auc(labels: np.ndarray, logits: np.ndarray, w: np.ndarray) -> float:
    """The chance that a positive outscores a negative, ties 1/2, over all pairs."""
    gap = np.sign(logits[labels][:, None] - logits[~labels])
    return w[labels] @ ((gap + 1) / 2) @ w[~labels] / (w[labels].sum() * w[~labels].sum())


def naive_auprc(labels: np.ndarray, logits: np.ndarray, w: np.ndarray) -> float:
    """The mean over positives of the precision at their score."""
    total = 0.0
    for row in np.flatnonzero(labels & (w > 0)):
        above = logits >= logits[row]
        total += w[row] * w[above & labels].sum() / w[above].sum()
    return total / w[labels].sum()


def naive_regression(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Intercept and weights of the logistic regression with |w|^2 / 2, image by image."""
    x = np.concatenate([np.ones((len(x), 1)), x], axis=1)
    penalty = np.diag([0.0, *np.ones(x.shape[1] - 1)])
    w = np.zeros(x.shape[1])

    def loss(w: np.ndarray) -> float:
        return np.logaddexp(0, np.where(y, -1, 1) * (x @ w)).sum() + w @ penalty @ w / 2

    for _ in range(100):
        p = expit(x @ w)
        step = np.linalg.solve(
            x.T @ (x * (p * (1 - p))[:, None]) + penalty, x.T @ (p - y) + penalty @ w
        )
        while loss(w - step) > loss(w) + 1e-9:
            step /= 2
        w = w - step
    return w
