"""Environments and weights of images for any training loop, as ``nooch train bench`` has them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from nooch.base.calls import checked
from nooch.base.errors import InputError, ParameterError, check_one_of
from nooch.criteria import CE, FittedCE
from nooch.data import Dataset, as_dataset
from nooch.data.table_schema import check_split
from nooch.training.methods import METHODS
from nooch.training.samplers import RandomStreams, Redraw, in_order
from nooch.training.training_data import Environments, known_labels

WEIGHTING = (
    "environment-reweight", "environment-undersample", "label-reweight", "label-undersample",
    "subg", "suby",
)  # fmt: skip
"""The methods whose effect on the expected loss is a weight for each image."""


def environments(
    data: Dataset | str | Path,
    task: str,
    *,
    criterion: CE | FittedCE | None = None,
    attribute: str | None = None,
) -> NDArray[np.uint8]:
    """The environment of each image, uint8 (n_images,), in the dataset's order (section 5).

    0: neither the object nor its context; 1: only the context (hard); 2: only the object (hard);
    3: both. The context is the presence of the task's strongest cue.

    Args:
        data: the dataset, or its folder.
        task: a class.
        criterion: decides the strongest cue; an unfitted one is fitted on the split ``train``; CE
            with its usual parameters by default.
        attribute: a column of the dataset with two values, in place of the cue.

    Raises:
        ParameterError: no such class or attribute, or no split ``train``.
        UndefinedError: the task has no context cue; the task or its cue was not annotated in all
            images of train and valid.

    Examples:
        >>> nooch.training.environments("data", "car")[:5]
        array([1, 2, 0, 1, 3], dtype=uint8)
    """
    data = as_dataset(data)
    check_one_of("class", task, data.classes, owner="the dataset")
    if attribute is None and not isinstance(criterion, FittedCE):
        criterion = (criterion or CE()).fit(data.select(rows=_training_rows(data)))
    fitted = criterion if isinstance(criterion, FittedCE) else None
    return Environments(fitted, attribute).for_task(data, task)


@checked
def sample_weights(
    data: Dataset | str | Path,
    task: str,
    method: str = "environment-undersample",
    *,
    alpha: Annotated[float, Meta(ge=0)] = 1.0,
    criterion: CE | FittedCE | None = None,
    attribute: str | None = None,
) -> pl.DataFrame:
    """Weights of the images of train and valid: ``image_id, split, label`` (Boolean),
    ``environment`` (UInt8, null where the task has none and the method needs none) and ``weight``
    (Float64, on average 1 over the training images; null for groups that training does not have),
    in the dataset's order.

    A group with the frequency w weighs (1 / w)^alpha (Eqs. 2 and 3): to weigh losses by it, and to
    draw images with chances in proportion to it, have the same expected gradient.

    Args:
        data: see ``environments``.
        task: a class.
        method: one of ``WEIGHTING``.
        alpha: 0 for no effect, 1 for groups of equal weight, which ``suby`` and ``subg`` have.
        criterion: criterion of the cues, as for ``environments``.
        attribute: attribute column with two values to use in place of the cue.

    Raises:
        ParameterError: another method, an alpha that is negative or so large that no number is;
            and as ``environments``.
        UndefinedError: a task that was not annotated in all images of train and valid; and as
            ``environments``, where the method needs environments.

    Examples:
        >>> nooch.training.sample_weights("data", "car").columns
        ['image_id', 'split', 'label', 'environment', 'weight']
    """
    data = as_dataset(data)
    kind = METHODS[check_one_of("method", method, WEIGHTING)]
    check_one_of("class", task, data.classes, owner="the dataset")
    train, labels = _training_rows(data), known_labels(data, task)
    basis = None
    if kind.needs_environments:
        basis = environments(data, task, criterion=criterion, attribute=attribute)
    groups = labels.astype(np.uint8) if basis is None else basis
    power = {"alpha": alpha if kind.parameters else 1.0}
    weights = Redraw("groups").expected(groups[train], power, groups)
    defined = np.isin(groups, groups[train])
    frame = data.images.select("image_id", "split").with_columns(
        label=pl.Series(labels),
        environment=pl.lit(None, pl.UInt8) if basis is None else pl.Series(basis),
        weight=pl.Series(np.where(defined, weights.astype(np.float64), np.nan)).fill_nan(None),
    )
    return frame.filter(pl.col("split").is_in(["train", "valid"]))


class EnvironmentSampler:
    """Positions of images for an epoch of training, for ``DataLoader(..., sampler=...)``.

    n draws with replacement, chances in proportion to (1 / w)^alpha, w the frequency of the image's
    environment (Eq. 3), in random order; other ones in each epoch, the same for a seed. It needs no
    torch.

    Args:
        environments: integers from 0 on, (n,), of the training images, or labels.
        alpha: 0 for chances in proportion to frequencies, 1 for environments of equal chance.
        seed: seed of the draws.

    Raises:
        InputError: environments that are not integers from 0 on in one dimension, or none.
        ParameterError: a negative alpha.
    """

    def __init__(self, environments: ArrayLike, *, alpha: float = 1.0, seed: int = 0) -> None:
        groups = np.asarray(environments)
        whole = groups.dtype.kind in "iub" and groups.ndim == 1 and groups.size > 0
        if not whole or groups.min() < 0:
            raise InputError("are not environments", where="`environments`", allowed="0, 1, 2, ...")
        if not 0 <= alpha < np.inf:
            raise ParameterError(f"is {alpha:g}", where="`alpha`", allowed="at least 0")
        self._groups, self._alpha, self._seed = groups.astype(np.int64), alpha, seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, from 0, that the next iteration draws; each iteration adds one."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[int]:
        streams = RandomStreams(self._seed, "environments", self.epoch)
        counts = Redraw("environments").counts(self._groups, {"alpha": self._alpha}, streams)
        rows: list[int] = in_order(counts, self._seed, self.epoch).tolist()
        self.epoch += 1
        return iter(rows)


def _training_rows(data: Dataset) -> NDArray[np.bool_]:
    check_split("train", data.splits)
    return (data.images["split"] == "train").to_numpy()
