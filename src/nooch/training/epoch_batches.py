"""Batches of an epoch for networks that train together: order, mixtures, changes of images.

Random changes (paper, Appendix A) are drawn for a whole epoch ahead. What is drawn belongs to the
order of rows, so that networks which share batches see the same images, and a network trained on
its own also sees them. Nothing is drawn from torch: a GPU gets the same numbers as a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import matmul
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from nooch.base.errors import ParameterError
from nooch.models.backbones import Backbone
from nooch.models.pixel_batches import Pixels, parts, read_ahead
from nooch.training.network_settings import TuneSettings
from nooch.training.samplers import in_order

if TYPE_CHECKING:
    from torch import Tensor


_Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ImageChanges:
    """Augmentation of m images.

    Attributes:
        matrices: float32 (m, 2, 3), from places in the new image to places in the old one, both
            from -1 to 1, x before y; None where no image is moved.
        flips: bool (m,), whether left and right change places, before all else; None for no image.
    """

    matrices: NDArray[np.float32] | None
    flips: NDArray[np.bool_] | None


def draw(
    settings: TuneSettings, count: int, aspect: float, random: Generator
) -> ImageChanges | None:
    """Changes of images of an aspect (width / height) by ``settings.augment``; None where empty."""
    if not settings.augment:
        return None
    flips = random.random(count) < 0.5 if "flip" in settings.augment else None
    names = [name for name in settings.augment if name in _MOVES]
    if not names:
        return ImageChanges(None, flips)
    whole = reduce(matmul, (_MOVES[name](settings, count, aspect, random) for name in names))
    return ImageChanges(np.ascontiguousarray(whole[:, :2], dtype=np.float32), flips)


def _affine(settings: TuneSettings, count: int, aspect: float, random: Generator) -> _Matrix:
    """Rotated about the middle, zoomed and shifted."""
    angle = np.deg2rad(random.uniform(-settings.rotation, settings.rotation, count))
    inverse = 1 / random.uniform(1 - settings.zoom, 1 + settings.zoom, count)
    # half a width is 1
    across, down = random.uniform(-2 * settings.shift, 2 * settings.shift, (2, count))
    cosine, sine = np.cos(angle) * inverse, np.sin(angle) * inverse
    return _matrices(count, [[cosine, -sine / aspect, across], [sine * aspect, cosine, down]])


def _crop(settings: TuneSettings, count: int, aspect: float, random: Generator) -> _Matrix:
    """A part of the image, of its shape, enlarged to its size."""
    del aspect
    side = np.sqrt(random.uniform(settings.crop, 1, count))
    across, down = (1 - side) * random.uniform(-1, 1, (2, count))
    nothing = np.zeros(count)
    return _matrices(count, [[side, nothing, across], [nothing, side, down]])


def _matrices(count: int, rows: list[list[NDArray[np.float64]]]) -> _Matrix:
    whole = np.tile(np.eye(3), (count, 1, 1))
    whole[:, :2] = np.array(rows).transpose(2, 0, 1)
    return whole


_MOVES = {"affine": _affine, "crop": _crop}


def augmented(batch: Tensor, matrices: Tensor | None, flips: Tensor | None) -> Tensor:
    """Changed images, in the order in memory of those given.

    ``batch``: float (m, 3, height, width), prepared: what comes from outside the old image is 0,
    the mean color, or black where pixels are not normalized; ``matrices``: float (m, 2, 3), see
    ``ImageChanges``; bilinear; ``flips``: bool (m,), see ``ImageChanges``; exact.
    """
    import torch
    from torch.nn.functional import affine_grid, grid_sample

    if flips is not None:
        batch = torch.where(flips[:, None, None, None], batch.flip(-1), batch)
    if matrices is None:
        return batch
    places = affine_grid(matrices, list(batch.shape), align_corners=False)
    moved = grid_sample(batch, places, align_corners=False)
    last = batch.is_contiguous(memory_format=torch.channels_last)
    return moved.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


# stream of an order's seed; 0 to 3 are used for rows, samplers and mixtures
_CHANGES = 4

RowMixture = tuple[NDArray[np.intp], NDArray[np.floating[Any]]]
Change = Callable[[TuneSettings, int, float, np.random.Generator], ImageChanges | None]


@dataclass(frozen=True)
class BatchHooks:
    """Hooks by which a method changes the batches of a pass; a ``Target`` has what a single network
    learns.

    Attributes:
        order: seed of the order of rows and of random changes of images, a stream of its own.
        rows: epoch from 0 -> positions of training images, int (m,), in the order in which they are
            taken; they may repeat. By default all of them, shuffled as in probe mode.
        mix: epoch -> (partners, shares), int (m,) and float (m,) for the m rows of the epoch:
            pixels and labels become share x own + (1 - share) x the partner's (mixup, LISA). None
            for no mixing.
        augment: (settings, images, aspect, stream) -> changes of images, then of their partners.
    """

    order: int = 0
    rows: Callable[[int], NDArray[np.intp]] | None = None
    mix: Callable[[int], RowMixture] | None = None
    augment: Change = draw


@dataclass(frozen=True, eq=False)
class SharedBatch:
    """Batch that every network of a pass gets in a step.

    Attributes:
        inputs: prepared and changed images, float32 (m, 3, height, width).
        rows: positions of images, int64 (m,).
        partners: images that were mixed in, int64 (m,); or None.
        shares: of the first images in the mixture, float32 (m,).
    """

    inputs: Tensor
    rows: Tensor
    partners: Tensor | None = None
    shares: Tensor | None = None

    def mixed(self, table: Tensor) -> Tensor:
        """Rows of a table (n_images, ...), mixed as the images are."""
        mine = table[self.rows]
        if self.partners is None or self.shares is None:
            return mine
        share = self.shares[:, None]
        return share * mine + (1 - share) * table[self.partners]


@dataclass(frozen=True, eq=False)
class Epochs:
    """Batches of every epoch of a pass of training images, int (n_train,); all backbones prepare
    images alike.
    """

    pixels: Pixels
    train: NDArray[np.intp]
    backbone: Backbone
    settings: TuneSettings
    hooks: BatchHooks

    def batches(self, epoch: int) -> Iterator[SharedBatch]:
        """Batches of an epoch, from 0; an image is read once for each time that it is taken."""
        rows = self._order(epoch)
        mixture = None if self.hooks.mix is None else self._mixture(epoch, len(rows))
        whole = rows if mixture is None else np.stack([rows, mixture[0]])
        changes, device = self._changes(epoch, whole.size), self.backbone.device
        index = on_device(rows, device)
        pair = (None, None) if mixture is None else mixture
        partners, shares = (None if each is None else on_device(each, device) for each in pair)
        places, seen = parts(len(rows), self.settings.batch), 0
        listed = [whole[..., part].reshape(-1) for part in places]
        stream = read_ahead(self.pixels, listed, pin=device != "cpu")
        for part, read in zip(places, stream, strict=True):
            inputs = self.backbone.prepare(read)
            mine = slice(seen, seen + len(read))
            inputs = augmented(inputs, *(None if each is None else each[mine] for each in changes))
            seen += len(read)
            if partners is None or shares is None:
                yield SharedBatch(inputs, index[part])
            else:
                share, (own, other) = shares[part], inputs.chunk(2)
                mixed = share[:, None, None, None] * own + (1 - share)[:, None, None, None] * other
                yield SharedBatch(mixed, index[part], partners[part], share)

    def _order(self, epoch: int) -> NDArray[np.intp]:
        if self.hooks.rows is None:
            return self.train[in_order(len(self.train), self.hooks.order, epoch)]
        rows = np.asarray(self.hooks.rows(epoch))
        _check_drawn(rows, self.train, "rows")
        return rows

    def _mixture(self, epoch: int, count: int) -> RowMixture:
        assert self.hooks.mix is not None  # noqa: S101 - asked before
        partners, shares = self.hooks.mix(epoch)
        _check_drawn(np.asarray(partners), self.train, "partners", count)
        shares = np.asarray(shares, dtype=np.float32)
        if shares.shape != (count,) or not ((shares >= 0) & (shares <= 1)).all():
            allowed = f"{count} numbers from 0 to 1"
            raise ParameterError("mixing shares are not fractions", allowed=allowed)
        return np.asarray(partners), shares

    def _changes(self, epoch: int, count: int) -> tuple[Tensor | None, ...]:
        """Matrices and flips of an epoch's images, on the device."""
        height, width = self.pixels.size
        random = np.random.default_rng([self.hooks.order, _CHANGES, epoch])
        changes = self.hooks.augment(self.settings, count, width / height, random)
        arrays = (None, None) if changes is None else (changes.matrices, changes.flips)
        return tuple(None if a is None else on_device(a, self.backbone.device) for a in arrays)


def _check_drawn(
    rows: NDArray[Any], train: NDArray[np.intp], what: str, count: int | None = None
) -> None:
    n_rows = rows.size if count is None else count
    fits = rows.ndim == 1 and rows.dtype.kind in "iu" and 0 < rows.size == n_rows
    if not fits or not np.isin(rows, train).all():
        raise ParameterError(
            f"{what} of an epoch have shape {rows.shape}, or are not training images",
            allowed=f"positions of training images, integers ({'m' if count is None else count},)",
        )


def on_device(values: NDArray[Any], device: str) -> Tensor:
    """A tensor of an array."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(values)).to(device)
