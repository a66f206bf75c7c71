"""Captions -> the dataset's embedding, computed once and kept in the dataset folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from nooch.data import Dataset, add_embedding
from nooch.encoders import Progress, embed_captions, encoder, load_embedding
from nooch.errors import InputError, OutputError, ParameterError

__all__ = ["with_embedding"]


def with_embedding(
    data: Dataset,
    name: str | None,
    *,
    folder: str | Path | None = None,
    progress: Progress | None = None,
    note: Callable[[str], None] = lambda _text: None,
) -> tuple[Dataset, str]:
    """The dataset with an embedding to take the gist from, and that embedding's name.

    Args:
        data: with captions, unless the embedding exists or comes from a file.
        name: an embedding that the dataset has; a file of embeddings (``.npz``, ``.parquet``); or an encoder's name or
            folder. None takes the dataset's only embedding.
        folder: the dataset folder; a new caption embedding is kept there for the next time, if it can be written,
            and so are its finished parts meanwhile: interrupted work goes on where it was.
        progress: called with how many of how many sentences are done.
        note: told when the embedding could not be kept.
    """
    if name is None:
        if len(data.embeddings) == 1:
            return data, next(iter(data.embeddings))
        raise ParameterError(
            "the gist criterion needs an encoder of captions",
            allowed=f"an encoder, a folder, or one of the dataset's embeddings: {', '.join(data.embeddings) or 'none'}",
            remedy="give --encoder, such as all-MiniLM-L6-v2 or lexical",
        )
    if name in data.embeddings:
        return data, name
    path = Path(name)
    if path.suffix in (".npz", ".parquet") and path.exists():
        label = f"file-{path.stem}"
        return data.with_embedding(label, load_embedding(path, data)), label
    chosen = encoder(name)
    if chosen.identity in data.embeddings:
        return data, chosen.identity
    if data.captions is None:
        raise InputError(
            "the dataset has no captions to take a gist from",
            remedy="import with --captions, or give image embeddings as a file (--encoder FILE.npz)",
        )
    keep = _keep(folder, chosen.identity)
    values = embed_captions(data, chosen, progress=progress, keep=keep)
    if folder is not None:
        try:
            add_embedding(folder, chosen.identity, values)
        except OutputError as error:
            note(f"the embedding is not kept: {error.problem}")
    if keep is not None:
        shutil.rmtree(keep, ignore_errors=True)
    return data.with_embedding(chosen.identity, values), chosen.identity


def _keep(folder: str | Path | None, identity: str) -> Path | None:
    """Where the parts of an embedding are kept until it is whole; None where the dataset folder cannot be written."""
    if folder is None or not os.access(folder, os.W_OK):
        return None
    return Path(folder) / f".embedding-{identity}"
