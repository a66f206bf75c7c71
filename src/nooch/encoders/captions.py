"""From a dataset's captions to one vector for each image."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.data import Dataset
from nooch.encoders.base import Encoder, Progress
from nooch.errors import InputError, UndefinedError

__all__ = ["embed_captions"]

# columns that are summed at once: a float64 copy of every vector would double or triple the memory
_BLOCK = 32


def embed_captions(data: Dataset, encoder: Encoder, progress: Progress | None = None) -> NDArray[np.float32]:
    """Mean embedding of every image's captions, as the encoder gives them (not normalised again).

    Each distinct text is encoded once; a caption that an image has twice counts twice.

    Args:
        data: needs captions.
        encoder: see ``nooch.encoders.encoder``.
        progress: called with (distinct captions done, distinct captions).

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
    vectors = _encoded(encoder, texts["caption"].to_list(), progress)
    return _means(vectors, placed["row"].to_numpy(), placed["code"].to_numpy(), len(data))


def _encoded(encoder: Encoder, texts: list[str], progress: Progress | None) -> NDArray[np.float32]:
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
