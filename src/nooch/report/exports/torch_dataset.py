"""A challenge set, or a split of a dataset, as a torch Dataset of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image

from nooch.base.errors import MissingExtraError, ParameterError, unreadable
from nooch.data import Dataset, as_dataset
from nooch.data.readers.image_files import UNREADABLE, ImageIndex, rgb_image
from nooch.suites import Suite, as_suite

Item = tuple[Any, ...]

if TYPE_CHECKING:
    from torch.utils.data import Dataset as TorchDataset

    _Base = TorchDataset[Item]
else:
    try:
        from torch.utils.data import Dataset as _Base
    except ModuleNotFoundError:
        # reported when a dataset is requested, so that this module loads without torch
        _Base = object


def torch_dataset(
    suite: Suite | str | Path | None,
    data: Dataset | str | Path,
    *,
    task: str,
    split: str,
    criterion: str | None = None,
    environments: ArrayLike | None = None,
    transform: Callable[[Image.Image], Any] | None = None,
    image_root: str | Path | None = None,
    range: tuple[float, float] | None = None,
) -> TorchDataset[Item]:
    """The images of a challenge set, or of a split of a dataset, for torch.

    Items are ``(image, label, subset, image_id)``: the image as RGB (PIL), or what ``transform``
    makes of it; 0 or 1; the index into ``hard_positive, hard_negative, easy``; an integer or text.
    A DataLoader's default collation needs a transform that gives tensors. The order follows the
    ids. Without ``criterion`` all images of the split are given, such as ``train``, with the subset
    -1. With ``environments``, items have the environment as well.

    Args:
        suite: the suite; it has no use without ``criterion``, and can be None.
        data: the dataset that it was found in, or another that has its images.
        task: with ``split`` and ``criterion``, names one of the suite's sets.
        split: see there.
        criterion: see there.
        environments: integers, one for each image of ``data``, as ``nooch.training.environments``
            gives them.
        transform: image -> anything.
        image_root: folder of images, if it is not the one that the dataset records. Files
            outside it are not opened.
        range: values of black and white of images of more than 8 bits a channel; by default what
            the dataset records.

    Raises:
        MissingExtraError: torch is not installed.
        ParameterError: the suite has no such set, or the dataset no such split; environments of
            other images.
        InputError: no folder of images; images of the set that the dataset does not name, or that
            are not below the folder; images of which the label is unknown.
    """
    data = as_dataset(data)
    if _Base is object:
        raise MissingExtraError("torch", "train", "a torch Dataset")
    if criterion is None:
        part = data.select(split)
        ids, labels = part.images["image_id"].to_list(), part.labels(task)
        subsets = np.full(len(part), -1)
    else:
        # None is refused there
        challenge = as_suite(suite).set(criterion, task, split)  # type: ignore[arg-type]
        ids, labels = challenge.image_ids.to_list(), challenge.labels
        subsets = challenge.subset
    columns = [labels.astype(int).tolist(), subsets.tolist(), ids]
    image_ids = data.images["image_id"]
    if environments is not None:
        given = np.asarray(environments)
        if given.shape != image_ids.shape:
            problem, allowed = (
                f"has shape {given.shape}",
                f"({len(image_ids)},), one for each image",
            )
            raise ParameterError(problem, where="`environments`", allowed=allowed)
        by_id = dict(zip(image_ids, given.tolist(), strict=True))
        columns.append([by_id.get(i) for i in ids])
    names = dict(zip(image_ids, data.images["file_name"], strict=True))
    index = ImageIndex.from_dataset(data, image_root, "image_root")
    paths = index.all_of(ids, [names.get(i) for i in ids], "image_root")
    facts = list(zip(*columns, strict=True))
    return _ItemsOfImages(paths, facts, transform, range or data.value_range)


class _ItemsOfImages(_Base):
    """Opens an image when it is asked for, so that loader processes share the work."""

    def __init__(
        self,
        paths: list[Path],
        facts: Sequence[tuple[Any, ...]],
        transform: Callable[[Image.Image], Any] | None,
        value_range: tuple[float, float] | None,
    ) -> None:
        self._paths, self._facts, self._transform = paths, facts, transform
        self._range = value_range

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, position: int) -> Item:
        path = self._paths[position]
        with unreadable(path, errors=UNREADABLE, problem="cannot be read as an image"):
            image = rgb_image(path, self._range)
        shown = image if self._transform is None else self._transform(image)
        return shown, *self._facts[position]
