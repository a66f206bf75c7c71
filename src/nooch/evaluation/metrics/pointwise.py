"""Values of single images: probabilities, answers, losses; the mean loss."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, logit

from nooch.base.errors import ParameterError, UndefinedError, check_one_of

Floats = NDArray[np.float64]

SCALES = ("logit", "probability")
_EPS = np.finfo(np.float64).eps


def constant_nll(n_positive: int, n: int) -> float:
    """NLL of the best constant answer: the entropy (natural) of the share of positives."""
    if not n:
        raise UndefinedError("a mean over no image", allowed="at least one image")
    return float(entr([n_positive / n, 1 - n_positive / n]).sum())


def nll(labels: NDArray[np.bool_], values: Floats, *, scale: str = "logit") -> float:
    """Mean negative log-likelihood, natural logarithm.

    ``labels``: bool (n,); ``values``: float64 (n,), logits, or probabilities of being positive.
    """
    if not len(labels):
        raise UndefinedError("a mean over no image", allowed="at least one image")
    return float(losses(labels, values, scale).sum() / len(labels))


def losses(labels: NDArray[np.bool_], values: Floats, scale: str) -> Floats:
    """Negative log-likelihood of each image, float64 (n,), at least 0."""
    if check_one_of("scale", scale, SCALES) == "probability":
        bounded = np.clip(values, _EPS, 1 - _EPS)
        return np.asarray(-np.log(np.where(labels, bounded, 1 - bounded)))
    # log(1 + exp(-m)) for the margin m, without overflow
    margin = np.where(labels, values, -values)
    return np.asarray(np.log1p(np.exp(-np.abs(margin))) + np.maximum(-margin, 0))


def said_positive(values: Floats, scale: str, threshold: float = 0.5) -> NDArray[np.bool_]:
    """Mask of images whose probability is above the threshold (by default, the logit above 0), bool
    (n,).
    """
    is_probability = check_one_of("scale", scale, SCALES) == "probability"
    return np.asarray(values > (threshold if is_probability else logit(threshold)))


def are_wrong(
    labels: NDArray[np.bool_], values: Floats, scale: str, threshold: float = 0.5
) -> NDArray[np.bool_]:
    """Mask of images whose answer is not the label, bool (n,). NaN, an answer that is missing or
    neither yes nor no, is always wrong: leaving it out must not help.
    """
    return np.asarray((said_positive(values, scale, threshold) != labels) | np.isnan(values))


def worst_case(
    wrong: NDArray[np.bool_], unknown: NDArray[np.bool_], condition: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Errors as the largest difference of rates, with - without a condition, has them, bool (n,):
    what is ``unknown``, and counted in ``wrong``, is an error with the condition and right without,
    so that leaving out answers never makes the difference smaller.
    """
    return np.asarray(wrong & ~(unknown & ~condition))


def probabilities(values: Floats, scale: str) -> Floats:
    """Probabilities of being positive, float64 (n,)."""
    if check_one_of("scale", scale, SCALES) == "probability":
        if len(values) and not (values.min() >= 0 and values.max() <= 1):
            raise ParameterError(
                "a probability lies outside [0, 1]", allowed="0 to 1, or scale='logit'"
            )
        return values
    # 1 / (1 + exp(-z)) without overflow
    small = np.exp(-np.abs(values))
    return np.asarray(np.where(values < 0, small, 1.0) / (1 + small))
