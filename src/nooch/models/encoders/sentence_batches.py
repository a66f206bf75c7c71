"""Sentences as batches of equal token length: nothing is padded, so no work is spent on padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray


@dataclass(frozen=True)
class Tokens:
    """Token ids of many sentences in one flat array, about 60 bytes for a caption.

    Attributes:
        flat: int32, all ids one after the other.
        lengths: int64 (n_sentences,), number of ids of each.
    """

    flat: NDArray[np.int32]
    lengths: NDArray[np.int64]

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each sentence begins in ``flat``, shape (n_sentences,)."""
        return np.cumsum(self.lengths) - self.lengths

    def matrix(self, members: NDArray[np.intp], starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ids of sentences that all have the same length: int64 (n_members, length)."""
        span = np.arange(self.lengths[members[0]])
        return self.flat[starts[members][:, None] + span].astype(np.int64)


def distinct(sentences: Sequence[str]) -> tuple[list[str], NDArray[np.intp]]:
    """The distinct sentences in ascending order, and for each sentence its position among them."""
    column = pl.DataFrame({"text": pl.Series(list(sentences), dtype=pl.String)})
    texts = column.select(pl.col("text").unique().sort()).with_columns(code=pl.int_range(pl.len()))
    codes = column.join(texts, on="text", maintain_order="left")["code"]
    return texts["text"].to_list(), codes.to_numpy().astype(np.intp)


def tokenize(
    tokenizer: Any, texts: Sequence[str], max_length: int | None, chunk: int = 8192
) -> Tokens:
    """Ids of the texts, cut at ``max_length`` tokens (the model's special tokens counted).

    A fast tokenizer works on a chunk in parallel; the chunks keep its Python lists small.
    """
    flat, lengths = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
    for start in range(0, len(texts), chunk):
        ids = tokenizer(
            list(texts[start : start + chunk]),
            truncation=True,
            max_length=max_length,
            return_attention_mask=False,
            return_token_type_ids=False,
        )["input_ids"]
        lengths.append(np.fromiter(map(len, ids), np.int64, len(ids)))
        flat.append(np.fromiter(chain.from_iterable(ids), np.int32, int(lengths[-1].sum())))
    return Tokens(np.concatenate(flat), np.concatenate(lengths))


def equal_lengths(lengths: NDArray[np.int64], budget: int) -> Iterator[NDArray[np.intp]]:
    """Positions of sentences in batches of one length: at most ``budget`` tokens or a sentence."""
    order = np.argsort(lengths, kind="stable")
    _, firsts = np.unique(lengths[order], return_index=True)
    for group in np.split(order, firsts[1:]):
        if len(group):
            step = max(1, budget // max(1, int(lengths[group[0]])))
            yield from (group[i : i + step] for i in range(0, len(group), step))
