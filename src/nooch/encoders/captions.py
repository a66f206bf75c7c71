"""From a dataset's captions to one vector for each image."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.data import Dataset
from nooch.encoders.base import Encoder, Progress
from nooch.errors import InputError, UndefinedError

__all__ = ["embed_captions"]

_PART = 16384
"""Distinct captions that are kept together: about half a minute's work on two cores."""

# columns that are summed at once: a float64 copy of every vector would double or triple the memory
_BLOCK = 32


def embed_captions(
    data: Dataset, encoder: Encoder, progress: Progress | None = None, keep: Path | None = None
) -> NDArray[np.float32]:
    """Mean embedding of every image's captions, as the encoder gives them (not normalised again).

    Each distinct text is encoded once; a caption that an image has twice counts twice.

    Args:
        data: needs captions.
        encoder: see ``nooch.encoders.encoder``.
        progress: called with (distinct captions done, distinct captions).
        keep: folder where finished parts are kept, so that interrupted work goes on where it was. It is the caller's
            to remove when the result is safe.

    Returns:
        Shape (n_images, d), summed in float64. An image without captions has a row of NaN.

    Raises:
        UndefinedError: the dataset has no captions.
        InputError: the encoder does not give one finite vector for each sentence.
    """
    captions = data.captions
    if captions is None or not captions.height:
        raise UndefinedError(
            "the dataset has no captions, so nothing can be embedded",
            remedy="give the caption files at import (--captions), or an embedding of your own",
        )
    texts = captions.select(pl.col("caption").unique().sort()).with_columns(code=pl.int_range(pl.len()))
    images = data.images.select("image_id", row=pl.int_range(pl.len()))
    placed = captions.join(images, on="image_id").join(texts, on="caption")
    vectors = _encoded(encoder, texts["caption"].to_list(), progress or (lambda _done, _total: None), keep)
    return _means(vectors, placed["row"].to_numpy(), placed["code"].to_numpy(), len(data))


def _encoded(encoder: Encoder, texts: list[str], progress: Progress, keep: Path | None) -> NDArray[np.float32]:
    if not getattr(encoder, "in_parts", False):
        return _checked(encoder, texts, progress)
    parts = []
    # always in the same parts, kept or not: batches, and with them the last bits, are then the same
    for start in range(0, len(texts), _PART):

        def report(done: int, _total: int, start: int = start) -> None:
            progress(start + done, len(texts))

        parts.append(_part(encoder, texts[start : start + _PART], report, keep))
        progress(start + len(parts[-1]), len(texts))
    return np.concatenate(parts)


def _part(encoder: Encoder, texts: list[str], progress: Progress, keep: Path | None) -> NDArray[np.float32]:
    if keep is None:
        return _checked(encoder, texts, progress)
    name = hashlib.sha256("\0".join([encoder.identity, *texts]).encode()).hexdigest()
    file = keep / f"{name[:32]}.npy"
    if file.is_file():
        done: NDArray[np.float32] = np.load(file, allow_pickle=False)
        return done
    vectors = _checked(encoder, texts, progress)
    keep.mkdir(parents=True, exist_ok=True)
    # a part that is being written has another name: a kill leaves no half of one
    partial = file.with_suffix(".partial")
    with partial.open("wb") as opened:
        np.save(opened, vectors, allow_pickle=False)
    partial.replace(file)
    return vectors


def _checked(encoder: Encoder, texts: list[str], progress: Progress) -> NDArray[np.float32]:
    vectors = encoder.encode(texts, progress)
    if vectors.shape != (len(texts), *vectors.shape[-1:]):
        raise InputError(
            f"encoder {encoder.identity} gave shape {vectors.shape} for {len(texts)} sentences",
            allowed=f"({len(texts)}, d)",
        )
    if not np.isfinite(vectors).all():
        raise InputError(f"encoder {encoder.identity} gave values that are not finite", allowed="finite numbers")
    return vectors


def _means(vectors: NDArray[np.float32], rows: NDArray[Any], codes: NDArray[Any], n_images: int) -> NDArray[np.float32]:
    """Mean of the vectors ``codes[i]`` over the captions i of each row; NaN where a row has none."""
    counts = np.bincount(rows, minlength=n_images).astype(np.float64)[:, None]
    counts[counts == 0] = np.nan
    # entries of an image are added up in the order of the texts, so the order of the captions is of no effect
    members = csr_array((np.ones(len(rows)), (rows, codes)), shape=(n_images, len(vectors)))
    means = np.empty((n_images, vectors.shape[1]), dtype=np.float32)
    for start in range(0, vectors.shape[1], _BLOCK):
        part = slice(start, start + _BLOCK)
        means[:, part] = (members @ vectors[:, part].astype(np.float64)) / counts
    return means
