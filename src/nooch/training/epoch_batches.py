"""Batches of an epoch for networks that train together: order, mixtures, changes of images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nooch.errors import ParameterError
from nooch.models.backbones import Backbone
from nooch.models.pixel_batches import Pixels, parts, read_ahead
from nooch.training.augmentation import Drawn, augmented, draw
from nooch.training.network_settings import TuneSettings

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Batch", "BatchHooks", "Epochs", "Mixture", "on_device"]

# streams of an order's seed; 0 to 2 are the rows' and the samplers' of probe mode
_ROWS, _CHANGES = 0, 4

Mixture = tuple[NDArray[np.intp], NDArray[np.floating[Any]]]
Change = Callable[[TuneSettings, int, float, np.random.Generator], Drawn | None]


@dataclass(frozen=True)
class BatchHooks:
    """Where a method changes the batches of a pass; a ``Target`` has what a single network learns.

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
    mix: Callable[[int], Mixture] | None = None
    augment: Change = draw


@dataclass(frozen=True, eq=False)
class Batch:
    """What every network of a pass gets in a step.

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
    """Batches of every epoch of a pass.

    Attributes:
        pixels: of all images.
        train: positions of training images, int (n_train,).
        backbone: one of those that train; all prepare images as it does.
        settings: size of batches, kinds of changes.
        hooks: rows, mixtures, changes.
    """

    pixels: Pixels
    train: NDArray[np.intp]
    backbone: Backbone
    settings: TuneSettings
    hooks: BatchHooks

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Batches of an epoch, from 0; an image is read once for each time that it is taken."""
        rows = self._order(epoch)
        mixture = None if self.hooks.mix is None else self._mixture(epoch, len(rows))
        whole = rows if mixture is None else np.stack([rows, mixture[0]])
        drawn = self._drawn(epoch, whole.size)
        at = on_device(rows, self.backbone.device)
        partners, shares = (
            (None, None)
            if mixture is None
            else (on_device(part, self.backbone.device) for part in mixture)
        )
        places, seen = parts(len(rows), self.settings.batch), 0
        listed = [whole[..., part].reshape(-1) for part in places]
        for part, read in zip(
            places, read_ahead(self.pixels, listed, pin=self.backbone.device != "cpu"), strict=True
        ):
            inputs = self.backbone.prepare(read)
            if drawn is not None:
                mine = slice(seen, seen + len(read))
                inputs = augmented(
                    inputs, *(None if changes is None else changes[mine] for changes in drawn)
                )
            seen += len(read)
            if partners is None or shares is None:
                yield Batch(inputs, at[part])
            else:
                share, (own, other) = shares[part], inputs.chunk(2)
                mixed = share[:, None, None, None] * own + (1 - share)[:, None, None, None] * other
                yield Batch(mixed, at[part], partners[part], share)

    def _order(self, epoch: int) -> NDArray[np.intp]:
        train = self.train
        if self.hooks.rows is None:
            return train[
                np.random.default_rng([self.hooks.order, _ROWS, epoch]).permutation(len(train))
            ]
        rows = np.asarray(self.hooks.rows(epoch))
        _check_drawn(rows, train, "rows")
        return rows

    def _mixture(self, epoch: int, count: int) -> Mixture:
        assert self.hooks.mix is not None  # noqa: S101 - asked before
        partners, shares = self.hooks.mix(epoch)
        _check_drawn(np.asarray(partners), self.train, "partners", count)
        shares = np.asarray(shares, dtype=np.float32)
        if shares.shape != (count,) or not ((shares >= 0) & (shares <= 1)).all():
            raise ParameterError(
                "shares of a mixture are not 0 to 1", allowed=f"{count} numbers from 0 to 1"
            )
        return np.asarray(partners), shares

    def _drawn(self, epoch: int, count: int) -> tuple[Tensor | None, Tensor | None] | None:
        height, width = self.pixels.size
        random = np.random.default_rng([self.hooks.order, _CHANGES, epoch])
        found = self.hooks.augment(self.settings, count, width / height, random)
        if found is None:
            return None
        matrices, flips = (
            None if each is None else on_device(each, self.backbone.device)
            for each in (found.matrices, found.flips)
        )
        return matrices, flips


def _check_drawn(
    rows: NDArray[Any], train: NDArray[np.intp], what: str, count: int | None = None
) -> None:
    fits = (
        rows.ndim == 1
        and rows.dtype.kind in "iu"
        and len(rows)
        and (count is None or len(rows) == count)
    )
    if not fits or not np.isin(rows, train).all():
        raise ParameterError(
            f"{what} of an epoch have shape {rows.shape}, or are no training images",
            allowed=f"positions of training images, integers ({'m' if count is None else count},)",
        )


def on_device(values: NDArray[Any], device: str) -> Tensor:
    """A tensor of an array."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(values)).to(device)
