"""Frozen features: one pass of a backbone over all images, stored for training heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.calls import Count, StepProgress, checked, no_progress
from nooch.base.errors import Command, InputError, ParameterError, some_of
from nooch.base.limits import usable_cpus
from nooch.data import Dataset
from nooch.data.arrays import float_array
from nooch.data.readers.image_files import image_paths
from nooch.models.backbones import Backbone
from nooch.models.caches.array_store import ArrayKind, MappedRows, Unfinished, making, write_block
from nooch.models.caches.pixels import PixelCache
from nooch.models.devices import memory_limits, reuse_memory
from nooch.models.encoders import check_features, open_embedding
from nooch.models.images import Decoding, dark_notes, decode_images, refuse_broken
from nooch.models.pixel_batches import batches_of, forward, read_in_order

if TYPE_CHECKING:
    from torch import Tensor


FEATURES = ArrayKind("features", 1, Command("train features", backbone=...))
BATCH = 32
"""Images in a batch."""

BLOCK_IMAGES = 512
"""Images after which features are recorded as done: what a kill can cost."""


class Features(MappedRows):
    """Features of a dataset's images: float32 or float16 (n_images, n_features).

    ``batch(rows)`` copies the features of some images, ``matrix()`` gives all in the dataset's
    order.
    """

    def __getitem__(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        return self.batch(rows)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of images, and of features."""
        return len(self), self.n_features

    @property
    def n_features(self) -> int:
        """Numbers for each image."""
        return self.header.shape[1]


def load_features(folder: str | Path, data: Dataset, *, verify: bool = True) -> Features:
    """Open the features of a dataset, or of a larger one with the same ids and file names.

    Args:
        folder: from ``extract_features``.
        data: the dataset; rows are looked up by its image ids.
        verify: compare the hash of every block, which reads all features once.

    Raises:
        FormatError: no features, of a newer version, incomplete or altered.
        InputError: images of the dataset that have no features here.
    """
    return Features.load_as(folder, data, FEATURES, verify=verify)


def given_features(
    source: Any, data: Dataset, ids: Any = None, notes: list[str] | None = None
) -> Features | NDArray[Any]:
    """Features of all images: of ``extract_features`` or its folder, of a file of vectors by image
    (see ``load_embedding``), or an array (n_images, d) in the order of the images.

    ``ids``: see ``open_embedding``; ``notes`` gets what was read of a file.
    """
    from_file = isinstance(source, str | Path)
    if isinstance(source, Features) or (from_file and Path(source).is_dir()):
        return load_features(source, data) if from_file else source
    values = _of_file(Path(source), data, ids, notes) if from_file else float_array(source)
    if values.ndim != 2 or len(values) != len(data):
        problem = f"features have shape {values.shape}"
        raise InputError(problem, allowed=f"({len(data)}, d), one row per image")
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        broken = data.images["image_id"].filter(pl.Series(~finite))
        problem = f"{len(broken)} images have missing or non-finite features: {some_of(broken)}"
        raise InputError(problem, allowed="finite numbers for every image")
    return values


def _of_file(path: Path, data: Dataset, ids: Any, notes: list[str] | None) -> NDArray[Any]:
    """The vectors of a file in the order of the images; NaN where it has none."""
    file = open_embedding(path, ids)
    rows = file.rows_of(data)
    if not (rows >= 0).any():
        raise file.stranger(data)
    check_features(file, data)
    if notes is not None:
        notes.append(file.read)
    return file.placed(rows, len(data))


@dataclass(frozen=True)
class _PixelReader:
    """Pixels of some rows, from a cache or from image files."""

    pixels: PixelCache | None
    paths: Sequence[Path]
    size: tuple[int, int]
    how: Decoding

    def __call__(self, rows: range) -> tuple[NDArray[np.uint8], list[str]]:
        if self.pixels is not None:
            return self.pixels.batch(np.arange(rows.start, rows.stop)), []
        return decode_images([self.paths[row] for row in rows], self.size, self.how)

    def describe(self) -> dict[str, Any]:
        if self.pixels is not None:
            return {"cache": self.pixels.identity, **self.pixels.header.made}
        notes = dark_notes(self.paths, self.how)
        made = {"size": list(self.size), **self.how.describe()}
        return made | ({"notes": notes} if notes else {})


@checked
def extract_features(
    data: Dataset,
    backbone: Backbone,
    folder: str | Path,
    *,
    pixels: PixelCache | None = None,
    images: str | Path | None = None,
    codec: str | Decoding = "auto",
    batch: Count = BATCH,
    half: bool = False,
    readers: Count | None = None,
    overwrite: bool = False,
    progress: StepProgress = no_progress,
) -> Features:
    """One pass over all images in eval mode, kept in a folder.

    Interrupted or killed, it keeps the parts that are done (in ``.FOLDER.building``) and resumes
    with the same batches: on a CPU the same batch size and threads give the same bytes.

    Args:
        data: the dataset.
        backbone: from ``load_backbone``; its ``size`` is the size of the pixels.
        folder: folder to write.
        pixels: the dataset's pixel cache; without it, images are decoded only for this pass.
        images: folder of images, instead of the recorded one; has no effect with ``pixels``.
        codec: decoder of images: ``fast``, ``pil`` or ``auto``, or a
            ``nooch.models.images.Decoding``.
        batch: images in a batch.
        half: save the features as float16, half the size; they are computed in full precision.
        readers: threads that read and decode; by default one per CPU.
        overwrite: replace features that exist.
        progress: called with (images done, images).

    Raises:
        InputError: images that are missing or cannot be read; features that are not finite.
        OutputError: the folder exists, cannot be written, or the disk is too small.
        ParameterError: an empty batch, or pixels of another size than the backbone's.
        NoochError: memory ran out; a smaller batch is suggested.
    """
    reader = _reader(data, backbone, pixels, images, codec)
    made = {"backbone": backbone.describe(), "pixels": reader.describe(), "batch": batch}
    dtype = "float16" if half else "float32"
    shape, block = (len(data), backbone.n_features), max(1, BLOCK_IMAGES // batch) * batch
    if backbone.device == "cpu":
        reuse_memory()
    with making(
        folder, FEATURES, data, made, shape=shape, dtype=dtype, block=block, overwrite=overwrite
    ) as unfinished:
        _fill(unfinished, backbone, reader, batch, readers or usable_cpus(), progress)
    return load_features(folder, data, verify=False)


def _reader(
    data: Dataset,
    backbone: Backbone,
    pixels: PixelCache | None,
    images: str | Path | None,
    codec: str | Decoding,
) -> _PixelReader:
    how = Decoding.resolve(codec, data)
    if pixels is None:
        return _PixelReader(None, image_paths(data, images), backbone.size, how)
    if pixels.size != backbone.size or len(pixels) != len(data):
        given, expected = (
            f"{size[0]} x {size[1]} of {n} images"
            for size, n in ((pixels.size, len(pixels)), (backbone.size, len(data)))
        )
        allowed = f"{expected}, as the backbone and the dataset need"
        raise ParameterError(f"pixels of {given}", where=pixels.folder, allowed=allowed)
    return _PixelReader(pixels, [], pixels.size, how)


def _fill(
    unfinished: Unfinished,
    backbone: Backbone,
    reader: _PixelReader,
    batch: int,
    readers: int,
    progress: StepProgress,
) -> None:
    total = unfinished.shape[0]
    blocks = {number: range(total)[unfinished.rows(number)] for number in unfinished.todo}
    done = total - sum(map(len, blocks.values()))
    progress(done, total)
    batches = {number: batches_of(rows, batch) for number, rows in blocks.items()}
    stream = read_in_order(reader, list(chain.from_iterable(batches.values())), readers)
    backbone.module.eval()

    def features_of(images: NDArray[np.uint8]) -> Tensor:
        return backbone.features(backbone.prepare(images))

    for number, rows in blocks.items():
        part = np.empty((len(rows), *unfinished.shape[1:]), np.float32)
        for members in batches[number]:
            pixels, broken = next(stream)
            refuse_broken(broken, "; run again to resume")
            with memory_limits(batch, "extracting features"):
                features = forward(features_of, pixels, backbone.device)
            part[members.start - rows.start : members.stop - rows.start] = features
            done += len(members)
            progress(done, total)
        values = _checked(part, unfinished.dtype, rows, backbone)
        digest = write_block(unfinished.array, unfinished.offset_of(number), values)
        unfinished.record(number, digest)


def _checked(
    part: NDArray[np.float32], dtype: np.dtype[Any], rows: range, backbone: Backbone
) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        values = part.astype(dtype)
    unusable = np.flatnonzero(~np.isfinite(values).all(axis=1)) + rows.start
    if len(unusable):
        which = f"{len(unusable)} images overflow {dtype} or are NaN: rows {some_of(unusable)}"
        remedy = "compute and store float32, or use another backbone"
        raise InputError(f"features of {which}", where=backbone.name, remedy=remedy)
    return values
