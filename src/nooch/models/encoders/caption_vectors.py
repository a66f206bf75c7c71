"""The contract of an encoder, and from a dataset's captions to one vector for each image."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.base.calls import StepProgress, no_progress
from nooch.base.errors import Command, InputError, UndefinedError
from nooch.base.work_folder import Steps, key_of
from nooch.data import Dataset

_PART = 16384
"""Distinct captions stored together: about half a minute's work on two cores."""

# columns that are summed at once: float64 copies of all would double or triple the memory
_BLOCK = 32


class Encoder(Protocol):
    """Frozen parameters of a map from sentences to vectors.

    An optional property ``on_gpu`` is true if it computes on a GPU: on an engine each job then has
    its own. Where options depend on the machine, ``chosen`` gives those for workers.
    """

    @property
    def identity(self) -> str:
        """Name of a stored embedding (letters, digits, ``.``, ``_``, ``-``): names what matters."""
        ...

    @property
    def in_parts(self) -> bool:
        """True if some sentences can be encoded without the others: the encoder is not fitted."""
        ...

    def encode(
        self, sentences: Sequence[str], progress: StepProgress | None = None
    ) -> NDArray[np.float32]:
        """One vector for each sentence, in their order: float32 (n, d), finite.

        The same sentences give the same vectors, in any order and any number of times.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Description of the encoder, JSON-like, for the provenance of a dataset."""
        ...


def distinct(sentences: Sequence[str]) -> tuple[list[str], NDArray[np.intp]]:
    """The distinct sentences in ascending order, and for each sentence its position among them."""
    column = pl.DataFrame({"text": pl.Series(list(sentences), dtype=pl.String)})
    texts = column.select(pl.col("text").unique().sort()).with_columns(code=pl.int_range(pl.len()))
    codes = column.join(texts, on="text", maintain_order="left")["code"]
    return texts["text"].to_list(), codes.to_numpy().astype(np.intp)


def embed_captions(
    data: Dataset, encoder: Encoder, progress: StepProgress | None = None, keep: Steps | None = None
) -> NDArray[np.float32]:
    """Mean embedding of every image's captions, as the encoder gives them (not normalized again).

    Each distinct text is encoded once; a caption that an image has twice counts twice.

    Returns shape (n_images, d), summed in float64. An image without captions has a row of NaN.
    """
    texts = distinct_captions([data])
    return caption_means(data, texts, encode_texts(encoder, texts.to_list(), progress, keep))


def distinct_captions(parts: Iterable[Dataset]) -> pl.Series:
    """The distinct captions of datasets, ascending. Raises UndefinedError if there is none."""
    texts = pl.Series("caption", [], pl.String)
    for part in parts:
        if part.captions is not None:
            texts = pl.concat([texts, part.captions["caption"].unique()]).unique()
    if not len(texts):
        raise UndefinedError(
            "the dataset has no captions, so nothing can be embedded",
            remedy="import them: {}; or give embeddings of images: {}",
            give=(Command("import coco", captions=...), {"encoder": "FILE.npz"}),
        )
    return texts.sort()


def caption_means(
    data: Dataset, texts: pl.Series, vectors: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Mean vector of every image's captions, shape (n_images, d); NaN without captions.

    ``vectors``: float32 (n_texts, d).
    """
    empty = pl.DataFrame({"image_id": [], "caption": []})
    captions = empty if data.captions is None else data.captions
    own = captions.select(pl.col("caption").unique().sort())
    if own.height < len(texts):
        # not the embeddings of other datasets
        codes = texts.to_frame("caption").with_row_index("code").join(own, on="caption")["code"]
        vectors = vectors[codes.to_numpy()]
    images = data.images.select("image_id", row=pl.int_range(pl.len()))
    placed = captions.join(images, on="image_id").join(own.with_row_index("code"), on="caption")
    return _means(vectors, placed["row"].to_numpy(), placed["code"].to_numpy(), len(data))


def encode_texts(
    encoder: Encoder,
    texts: list[str],
    progress: StepProgress | None = None,
    keep: Steps | None = None,
) -> NDArray[np.float32]:
    """Vectors of distinct texts in ascending order, float32 (n, d); see ``embed_captions``."""
    progress = progress or no_progress
    if not getattr(encoder, "in_parts", False):
        return _checked(encoder, texts, progress)
    parts = []
    # always the same parts, stored or not: then batches, and thus the last bits, are the same
    for start in range(0, len(texts), _PART):

        def report(done: int, _total: int, start: int = start) -> None:
            progress(start + done, len(texts))

        parts.append(_part(encoder, texts[start : start + _PART], report, keep))
        progress(start + len(parts[-1]), len(texts))
    return np.concatenate(parts)


def _part(
    encoder: Encoder, texts: list[str], progress: StepProgress, keep: Steps | None
) -> NDArray[np.float32]:
    if keep is None:
        return _checked(encoder, texts, progress)
    name = f"{key_of([encoder.identity, *texts], 32)}.npy"
    vectors: NDArray[np.float32] = keep.get(name, lambda: _checked(encoder, texts, progress))
    return vectors


def _checked(encoder: Encoder, texts: list[str], progress: StepProgress) -> NDArray[np.float32]:
    vectors = encoder.encode(texts, progress)
    if vectors.shape != (len(texts), *vectors.shape[-1:]):
        raise InputError(
            f"encoder {encoder.identity} gave shape {vectors.shape} for {len(texts)} sentences",
            allowed=f"({len(texts)}, d)",
        )
    if not np.isfinite(vectors).all():
        problem = f"encoder {encoder.identity} gave values that are not finite"
        raise InputError(problem, allowed="finite numbers")
    return vectors


def _means(
    vectors: NDArray[np.float32], rows: NDArray[Any], codes: NDArray[Any], n_images: int
) -> NDArray[np.float32]:
    """Mean of the vectors ``codes[i]`` over the captions i of each row; NaN for none."""
    counts = np.bincount(rows, minlength=n_images).astype(np.float64)[:, None]
    counts[counts == 0] = np.nan
    # summed in the order of the texts, so that the order of an image's captions has no effect
    members = csr_array((np.ones(len(rows)), (rows, codes)), shape=(n_images, len(vectors)))
    means = np.empty((n_images, vectors.shape[1]), dtype=np.float32)
    for start in range(0, vectors.shape[1], _BLOCK):
        part = slice(start, start + _BLOCK)
        means[:, part] = (members @ vectors[:, part].astype(np.float64)) / counts
    return means
