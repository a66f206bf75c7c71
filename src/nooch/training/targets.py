"""Targets of networks: labels, objective, weights; checked before training starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import Command, InputError, ParameterError, some_of
from nooch.training.network_settings import TuneSettings
from nooch.training.objectives import Objective


@dataclass(frozen=True, eq=False)
class Target:
    """One network to train.

    Attributes:
        name: how errors call it; different for all networks that train together.
        labels: 0 to 1, float32 (n_images, K), in the dataset's order.
        objective: made for K heads on the device; copied, as its state is the network's own.
        seed: of the head, of random weights, and of what the network draws itself (dropout).
        environments: uint8 (n_images, K), for objectives that need them.
        auxiliary: further labels 0 to 1, float32 (n_images, A), learned by outputs of their own
            with the plain mean loss times ``TuneSettings.auxiliary``; they do not decide when to
            stop, and are not predictions (paper, Appendix A).
        valid_weights: float (n_valid,), factors on the losses of the validation images in their
            order, for the value that decides when to stop; then that is the weighted mean loss, for
            any objective.
    """

    name: str
    labels: NDArray[np.float32]
    objective: Objective
    seed: int = 0
    environments: NDArray[np.uint8] | None = None
    auxiliary: NDArray[np.float32] | None = None
    valid_weights: NDArray[np.floating[Any]] | None = None

    @property
    def n_outputs(self) -> int:
        """K."""
        return int(self.labels.shape[-1])

    @property
    def n_auxiliary(self) -> int:
        """A."""
        return 0 if self.auxiliary is None else int(self.auxiliary.shape[1])


def check_rows(rows: Mapping[str, NDArray[np.intp]], n_images: int) -> None:
    """Raise an InputError unless there are rows of train and valid, all images of the dataset."""
    for split in ("train", "valid"):
        images = np.asarray(rows.get(split, ()))
        if not len(images):
            give = Command("import auto", split="70/10/20")
            raise InputError(f"the split {split} has no images", give=give)
        low, high = images.min(), images.max()
        if low < 0 or high >= n_images:
            allowed = f"0 to {n_images - 1}"
            raise InputError(f"rows of {split} range from {low} to {high}", allowed=allowed)


def check_targets(
    targets: Sequence[Target],
    rows: Mapping[str, NDArray[np.intp]],
    n_images: int,
    settings: TuneSettings,
) -> None:
    """Raise what is wrong with networks to train, before the first of them is made."""
    names = [target.name for target in targets]
    if not names or len(set(names)) != len(names):
        raise ParameterError(f"networks {some_of(names)}", allowed="different names, one at least")
    for target in targets:
        for name, shape, expected in _shapes(target, n_images, len(rows["valid"])):
            if shape != expected:
                problem = f"{name} has shape {shape}"
                raise ParameterError(problem, where=target.name, allowed=f"{expected}")
        _check_labels(target, rows["train"])
        _check_auxiliary(target, settings)
        _check_environments(target)


def _shapes(
    target: Target, n_images: int, n_valid: int
) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Description of a wrong shape: the array, its shape and the expected one."""
    k = target.n_outputs if target.labels.ndim == 2 else 1
    shapes_expected = {
        "labels": (n_images, k),
        "environments": (n_images, k),
        "auxiliary": (n_images, target.n_auxiliary) if target.auxiliary is not None else (),
        "valid_weights": (n_valid,),
    }
    present = [(name, getattr(target, name), shape) for name, shape in shapes_expected.items()]
    shapes = [(name, np.shape(value), shape) for name, value, shape in present if value is not None]
    heads = target.objective.counts.classes.shape[1]
    return [*shapes, ("the objective's heads", (heads,), (k,))]


def _check_labels(target: Target, train: NDArray[np.intp]) -> None:
    for what, values in (("labels", target.labels), ("auxiliary labels", target.auxiliary)):
        if values is None:
            continue
        # NaN fails too
        if not bool(((values >= 0) & (values <= 1)).all()):
            raise InputError(f"{what} are not all 0 to 1", where=target.name, allowed="0 to 1")
        mine = values[train]
        if bool((mine.min(axis=0) == mine.max(axis=0)).all()):
            problem = f"all {len(train)} training images have the same {what}"
            raise InputError(problem, where=target.name, remedy="another split, or another task")


def _check_auxiliary(target: Target, settings: TuneSettings) -> None:
    if (target.n_auxiliary > 0) != (settings.auxiliary > 0):
        problem = f"{target.n_auxiliary} auxiliary outputs have the weight {settings.auxiliary:g}"
        remedy = "give auxiliary labels and a weight above 0 (auxiliary: 0.1), or neither"
        raise ParameterError(problem, where=target.name, remedy=remedy)


def _check_environments(target: Target) -> None:
    if not target.objective.needs_environments:
        return
    if target.environments is None:
        raise ParameterError(f"{target.objective.name} needs environments", where=target.name)
    n, largest = len(target.objective.counts.environments), int(target.environments.max())
    if largest >= n:
        problem = f"environment {largest}, but there are counts of only {n}"
        raise ParameterError(problem, where=target.name, allowed=f"0 to {n - 1}")
