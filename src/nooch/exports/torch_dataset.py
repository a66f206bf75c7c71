"""A challenge set as a torch Dataset of images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from nooch.challenge import ChallengeSet, Suite, as_suite
from nooch.data import Dataset, ImageId, as_dataset
from nooch.errors import InputError, MissingExtraError
from nooch.files import Place
from nooch.readers.image_files import ImageIndex
from nooch.readers.image_opening import UNREADABLE, opened_image

Item = tuple[Any, int, int, ImageId]

if TYPE_CHECKING:
    from torch.utils.data import Dataset as TorchDataset

    _Base = TorchDataset[Item]
else:
    try:
        from torch.utils.data import Dataset as _Base
    except ModuleNotFoundError:
        # reported when a dataset is requested, so that this module loads without torch
        _Base = object

__all__ = ["torch_dataset"]


def torch_dataset(
    suite: Suite | str | Path,
    data: Dataset | Place | str,
    *,
    task: str,
    split: str,
    criterion: str,
    transform: Callable[[Image.Image], Any] | None = None,
    image_root: str | Path | None = None,
) -> TorchDataset[Item]:
    """The images of a challenge set for torch.

    Items are ``(image, label, subset, image_id)`` in the order of ids: the image as RGB (PIL), or
    what ``transform`` makes of it; 0 or 1; the index into ``hard_positive, hard_negative, easy``;
    an integer or text. A DataLoader's default collation needs a transform that gives tensors.

    Args:
        suite: the suite.
        data: the dataset that it was found in, or another that has its images.
        task: with ``split`` and ``criterion``, names one of the suite's sets.
        split: see there.
        criterion: see there.
        transform: image -> anything.
        image_root: folder of images, where it is not the one that the dataset records. Files
            outside it are not opened.

    Raises:
        MissingExtraError: torch is not installed.
        ParameterError: the suite has no such set.
        InputError: no folder of images; images of the set that the dataset does not name, or that
            are not below the folder.
    """
    suite = as_suite(suite)
    data = as_dataset(data)
    if _Base is object:
        raise MissingExtraError("torch", "train", "a torch Dataset")
    challenge = suite.set(criterion, task, split)
    names = dict(zip(data.images["image_id"], data.images["file_name"], strict=True))
    ids = challenge.image_ids.to_list()
    index = ImageIndex.of(data, image_root, "image_root")
    paths = index.all_of(ids, [names.get(i) for i in ids], "image_root")
    return _ChallengeImages(paths, challenge, transform)


class _ChallengeImages(_Base):
    """Opens an image when it is asked for, so that loader processes share the work."""

    def __init__(
        self,
        paths: list[Path],
        challenge: ChallengeSet,
        transform: Callable[[Image.Image], Any] | None,
    ) -> None:
        self._paths, self._transform = paths, transform
        self._labels = challenge.labels.astype(int).tolist()
        self._subsets = challenge.subset.tolist()
        self._ids = challenge.image_ids.to_list()

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, position: int) -> Item:
        try:
            with opened_image(self._paths[position]) as opened:
                image = opened.convert("RGB")
        except UNREADABLE as error:
            raise InputError(
                f"cannot be read as an image: {error}", where=self._paths[position]
            ) from error
        shown = image if self._transform is None else self._transform(image)
        return shown, self._labels[position], self._subsets[position], self._ids[position]
