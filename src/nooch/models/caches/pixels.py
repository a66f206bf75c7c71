"""The pixel cache: every image of a dataset decoded and resized once, for all trainings."""

from __future__ import annotations

import builtins
import multiprocessing
from functools import partial
from pathlib import Path
from typing import Any

from nooch.base.calls import Map, StepProgress, no_progress
from nooch.base.errors import Command
from nooch.data import Dataset
from nooch.data.readers.image_files import image_paths
from nooch.models.caches.array_store import ArrayKind, MappedRows, Unfinished, making, write_block
from nooch.models.images import (
    Decoding,
    check_size,
    dark_notes,
    decode_images,
    refuse_broken,
    use_one_thread,
)

PIXELS = ArrayKind("pixels", 1, Command("train pixels"))
SIZE = 321
"""Height and width in pixels, the paper's."""

BLOCK_BYTES = 1 << 24
"""Bytes in a block: lost at most per process if it is killed, and kept in memory."""


class PixelCache(MappedRows):
    """Pixels of a dataset's images: uint8 (n_images, height, width, 3), RGB.

    ``batch(rows)`` copies the pixels of some images. Where the cache fits memory, the operating
    system keeps it there after the first reading; if it does not, each batch is read from disk,
    about 300 KB for each image of 321 x 321.
    """

    @classmethod
    def load(cls, folder: str | Path, data: Dataset, *, verify: bool = True) -> PixelCache:
        """Open the cache of a dataset, or of a larger one with the same ids and file names.

        Args:
            folder: from ``build_pixels``.
            data: the dataset; the cache's rows are looked up by its image ids.
            verify: compare the hash of every block, which reads the whole cache once (about 4 GB/s
                per CPU from memory). Sizes, shapes and images are compared in any case.

        Raises:
            FormatError: no cache, of a newer version, incomplete or altered.
            InputError: images of the dataset that the cache does not have.
        """
        return cls.load_as(folder, data, PIXELS, verify=verify)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels."""
        return self.header.shape[1], self.header.shape[2]


def build_pixels(
    data: Dataset,
    folder: str | Path,
    *,
    size: int | tuple[int, int] = SIZE,
    images: str | Path | None = None,
    codec: str | Decoding = "auto",
    map: Map = builtins.map,
    overwrite: bool = False,
    progress: StepProgress = no_progress,
) -> PixelCache:
    """Decode and resize every image of a dataset once, and keep the pixels in a folder.

    Interrupted or killed, it keeps the blocks that are done (in ``.FOLDER.building``) and resumes
    there the next time. The bytes depend on images, size and packages, not on processes.

    Args:
        data: needs file names.
        folder: folder to write; it needs n_images x height x width x 3 bytes.
        size: pixels (in Python also height and width); the aspect is not kept.
        images: folder of images, if it is not the one that the dataset records.
        codec: ``fast``, ``pil`` or ``auto``, or a ``nooch.models.images.Decoding``.
        map: where the blocks are done, such as an engine's.
        overwrite: replace a cache that exists.
        progress: called with (images done, images).

    Raises:
        InputError: images that are missing (looked for before any is decoded) or unreadable.
        OutputError: the folder exists, cannot be written, or the disk is too small.
    """
    height, width = check_size(size)
    decoding = Decoding.resolve(codec, data)
    paths = image_paths(data, images)
    made: dict[str, Any] = {"size": [height, width], "filter": "bilinear, antialiased"}
    made |= decoding.describe()
    if notes := dark_notes(paths, decoding):
        made["notes"] = notes
    shape, block = (len(data), height, width, 3), max(1, BLOCK_BYTES // (height * width * 3))
    with making(
        folder, PIXELS, data, made, shape=shape, dtype="uint8", block=block, overwrite=overwrite
    ) as unfinished:
        _fill(unfinished, paths, decoding, map, progress)
    return PixelCache.load(folder, data, verify=False)


def _fill(
    unfinished: Unfinished, paths: list[Path], how: Decoding, map: Map, progress: StepProgress
) -> None:
    _, height, width, _ = unfinished.shape
    decode = partial(_decode_block, unfinished.array, (height, width), how)
    todo = list(unfinished.todo)
    blocks = [(unfinished.offset_of(n), [str(p) for p in paths[unfinished.rows(n)]]) for n in todo]
    done, broken = len(paths) - sum(len(files) for _, files in blocks), []
    progress(done, len(paths))
    for number, (_, files), (digest, failed) in zip(todo, blocks, map(decode, blocks), strict=True):
        if not failed:
            unfinished.record(number, digest)
        broken += failed
        done += len(files)
        progress(done, len(paths))
    refuse_broken(broken, f"; run again to resume from {unfinished.array.parent}")


def _decode_block(
    array: Path, size: tuple[int, int], how: Decoding, block: tuple[int, list[str]]
) -> tuple[str, list[str]]:
    """Write images at an offset; the block's hash, and the images that could not be read."""
    if how.codec == "fast" and multiprocessing.parent_process() is not None:
        use_one_thread()
    offset, files = block
    pixels, broken = decode_images(files, size, how)
    return write_block(array, offset, pixels), broken
