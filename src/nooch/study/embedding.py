"""Captions -> the dataset's embedding, computed once and kept in the dataset folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from nooch.data import Dataset, add_embedding
from nooch.encoders import Encoder, Progress, embed_captions, encoder, load_embedding
from nooch.errors import InputError, OutputError, ParameterError
from nooch.files import Place, is_address

__all__ = ["asked_embedding", "check_captions", "label_of", "with_embedding"]


def with_embedding(
    data: Dataset,
    name: str | None,
    *,
    folder: str | Place | None = None,
    progress: Progress | None = None,
    note: Callable[[str], None] | None = None,
) -> tuple[Dataset, str]:
    """The dataset with an embedding to take the gist from, and that embedding's name.

    Args:
        data: with captions, unless the embedding exists or comes from a file.
        name: an embedding that the dataset has; a file of embeddings (``.npz``, ``.parquet``); or an encoder's name or
            folder. None takes the dataset's only embedding.
        folder: the dataset folder, or its address, where nothing can be kept; a new caption embedding is kept there for the next time, if it can be written,
            and so are its finished parts meanwhile: interrupted work goes on where it was.
        progress: called with how many of how many sentences are done.
        note: called with the reason where a new embedding cannot be kept in the folder; None makes that an error.

    Raises:
        ParameterError: as ``asked_embedding``.
        InputError: no captions, or a file or encoder that gives no vectors of these images.
        OutputError: the disk is full, or the folder cannot be written and there is no ``note``.
    """
    found = asked_embedding(name, data.embeddings)
    if isinstance(found, str):
        return data, found
    if isinstance(found, Path):
        return data.with_embedding(label_of(found), load_embedding(found, data)), label_of(found)
    check_captions(has_captions=data.captions is not None)
    keep = _keep(folder, found.identity)
    values = embed_captions(data, found, progress=progress, keep=keep)
    if folder is not None:
        try:
            add_embedding(folder, found.identity, values)
        except OutputError as error:
            if note is None:
                raise
            note(f"the embedding is not kept: {error.problem}")
    if keep is not None:
        shutil.rmtree(keep, ignore_errors=True)
    return data.with_embedding(found.identity, values), found.identity


def asked_embedding(name: str | None, embeddings: Collection[str]) -> str | Path | Encoder:
    """What ``--encoder`` means for a dataset: one of its embeddings, a file, or an encoder whose embedding it lacks.

    Args:
        name: see ``with_embedding``.
        embeddings: names of those that the dataset has.

    Raises:
        ParameterError: no name where there is not one embedding, or no such encoder.
    """
    if name is None:
        if len(embeddings) == 1:
            return next(iter(embeddings))
        raise ParameterError(
            "the gist criterion needs an encoder of captions",
            allowed=f"an encoder, a folder, or one of the dataset's embeddings: {', '.join(embeddings) or 'none'}",
            remedy="give --encoder, such as all-MiniLM-L6-v2 or lexical",
        )
    if name in embeddings:
        return name
    path = Path(name)
    if path.suffix in (".npz", ".parquet") and path.exists():
        return path
    chosen = encoder(name)
    return chosen.identity if chosen.identity in embeddings else chosen


def label_of(file: Path) -> str:
    """Name of the embedding that a file gives."""
    return f"file-{file.stem}"


def check_captions(*, has_captions: bool) -> None:
    """Raise InputError where a dataset has no captions."""
    if not has_captions:
        raise InputError(
            "the dataset has no captions to take a gist from",
            remedy="import with --captions, or give image embeddings as a file (--encoder FILE.npz)",
        )


def _keep(folder: str | Place | None, identity: str) -> Path | None:
    """Where the parts of an embedding are kept until it is whole; None where the dataset folder cannot be written."""
    if folder is None or is_address(folder) or not os.access(str(folder), os.W_OK):
        return None
    return Path(str(folder)) / f".embedding-{identity}"
