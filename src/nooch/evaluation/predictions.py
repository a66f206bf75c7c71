"""Predictions: one run's outputs for every image and task, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.data import class_name, id_column
from nooch.errors import InputError, some_of
from nooch.metrics import SCALES

__all__ = ["SCALES", "Predictions"]


@dataclass(frozen=True, eq=False)
class Predictions:
    """The outputs of one run.

    Attributes:
        run: its name.
        image_ids: Int64 or String, unique, shape (n,).
        tasks: names, in the order of the rows of ``values``.
        values: float64 (n_tasks, n); NaN where the run says nothing of an image.
        scale: ``logit`` or ``probability``.
        method: name of the training method, or None.
        seed: seed of the training, or None.
        labels: int8 (n_tasks, n), the labels that came with the predictions, -1 where none did; or
            None.
    """

    run: str
    image_ids: pl.Series
    tasks: tuple[str, ...]
    values: NDArray[np.float64]
    scale: str
    method: str | None = None
    seed: int | None = None
    labels: NDArray[np.int8] | None = None

    @classmethod
    def of(
        cls,
        values: Any,
        image_ids: Any,
        tasks: str | Sequence[str],
        *,
        scale: str,
        run: str = "predictions",
        method: str | None = None,
        seed: int | None = None,
    ) -> Predictions:
        """Predictions from arrays: NumPy, a torch tensor on any device, or anything that NumPy
        understands.

        Args:
            values: (n_images, n_tasks), or (n_images,) for one task; finite numbers.
            image_ids: (n_images,), integers or text, each once.
            tasks: names in the order of the columns, or one name.
            scale: ``logit`` or ``probability``.
            run: name of the run.
            method: name of the training method, where it is known.
            seed: seed of the training, where it is known.

        Raises:
            InputError: shapes that do not agree, repeated ids or tasks, NaN or infinite values,
                probabilities outside [0, 1].
        """
        names = tuple(class_name(task) for task in ((tasks,) if isinstance(tasks, str) else tasks))
        matrix = _array(values)
        matrix = matrix[:, None] if matrix.ndim == 1 else matrix
        ids = _ids(image_ids, f"run {run}, image_ids")
        if matrix.shape != (len(ids), len(names)):
            raise InputError(
                f"values have shape {matrix.shape}",
                where=f"run {run}",
                allowed=(
                    f"({len(ids)}, {len(names)}): {len(ids)} image ids and {len(names)} tasks were"
                    " given"
                ),
            )
        made = cls(run, ids, names, np.ascontiguousarray(matrix.T), scale, method, seed)
        check_values(matrix.T, made)
        return made

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise InputError(
                f"scale {self.scale!r} is not known",
                where=f"run {self.run}",
                allowed=", ".join(SCALES),
            )
        for what, column in (
            ("image ids", self.image_ids),
            ("tasks", pl.Series(self.tasks, dtype=pl.String)),
        ):
            if column.n_unique() != len(column):
                twice = column.filter(column.is_duplicated()).unique().sort()
                raise InputError(
                    f"{what} occur more than once: {some_of(twice)}",
                    where=f"run {self.run}",
                    allowed="each once",
                )
            if not len(column):
                raise InputError(
                    f"there are no {what}", where=f"run {self.run}", allowed="at least one"
                )

    def __repr__(self) -> str:
        return (
            f"Predictions({self.run}: {len(self.image_ids)} images, {len(self.tasks)} tasks,"
            f" {self.scale}s)"
        )


def check_values(values: NDArray[np.float64], owner: Predictions) -> None:
    """Raise InputError for the first value that no prediction can have; ``values`` has the shape of
    ``owner.values``.
    """
    wrong = ~np.isfinite(values)
    what, allowed = "NaN or infinite", "finite numbers"
    if not wrong.any() and owner.scale == "probability":
        wrong = (values < 0) | (values > 1)
        what, allowed = "no probability", "0 to 1; logits go into a column logit (or `scale` logit)"
    if wrong.any():
        task, image = np.argwhere(wrong)[0]
        raise InputError(
            f"{int(wrong.sum())} values are {what}, such as {values[task, image]} for image"
            f" {owner.image_ids[int(image)]}, task {owner.tasks[task]}",
            where=f"run {owner.run}",
            allowed=allowed,
        )


def _array(values: Any) -> NDArray[np.float64]:
    """Float64 from anything array-like; tensors are detached and brought to main memory first."""
    for step in ("detach", "cpu"):
        values = getattr(values, step, lambda same=values: same)()
    if str(getattr(values, "dtype", "")) == "torch.bfloat16":
        # NumPy has no such type
        values = values.float()
    try:
        array = np.asarray(values)
        # NumPy would read text as numbers and drop imaginary parts
        if array.dtype.kind in "biufO":
            return array.astype(np.float64)
        problem: object = f"they are {array.dtype}"
    except (TypeError, ValueError) as error:
        problem = error
    raise InputError(f"values are no numbers: {problem}", allowed="an array (n_images, n_tasks)")


def _ids(image_ids: Any, where: str) -> pl.Series:
    if isinstance(image_ids, pl.Series):
        return id_column(image_ids, where)
    for step in ("detach", "cpu"):
        image_ids = getattr(image_ids, step, lambda same=image_ids: same)()
    array = np.asarray(image_ids)
    # frames keep text as objects
    return id_column(np.array(array.tolist()) if array.dtype.kind == "O" else array, where)
