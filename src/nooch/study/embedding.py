"""Captions -> the dataset's embedding, computed once and kept in the dataset folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from nooch.data import Dataset, add_embedding, embedding_precision
from nooch.encoders import Encoder, embed_captions, encoder, load_embedding
from nooch.errors import InputError, OutputError, ParameterError
from nooch.files import Place, is_address
from nooch.shared_types import StepProgress

__all__ = ["asked_embedding", "check_captions", "label_of", "with_embedding"]


def with_embedding(
    data: Dataset,
    name: str | None,
    *,
    precision: str | None = None,
    folder: str | Place | None = None,
    progress: StepProgress | None = None,
    note: Callable[[str], None] | None = None,
) -> tuple[Dataset, str]:
    """The dataset with an embedding to take the gist from, and that embedding's name.

    Args:
        data: with captions, unless the embedding exists or comes from a file.
        name: an embedding that the dataset has; a file of embeddings (``.npz``, ``.parquet``); or an encoder's name or
            folder. None takes the dataset's only embedding.
        precision: ``float32`` or ``bf16``, of the encoder, which computes in float32 otherwise; an embedding that the
            dataset has must be of this precision.
        folder: the dataset folder, or its address, where nothing can be kept; a new caption embedding is kept there for the next time, if it can be written,
            and so are its finished parts meanwhile: interrupted work goes on where it was.
        progress: called with how many of how many sentences are done.
        note: called with the reason where a new embedding cannot be kept in the folder; None makes that an error.

    Raises:
        ParameterError: as ``asked_embedding``.
        InputError: no captions, or a file or encoder that gives no vectors of these images.
        OutputError: the disk is full, or the folder cannot be written and there is no ``note``.
    """
    found = asked_embedding(name, data.embeddings, precision)
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


def asked_embedding(
    name: str | None, embeddings: Collection[str], precision: str | None = None
) -> str | Path | Encoder:
    """What an encoder's name means for a dataset: one of its embeddings, a file, or an encoder whose embedding it lacks.

    Args:
        name: see ``with_embedding``; ``precision`` likewise.
        embeddings: names of those that the dataset has.
        precision: see ``with_embedding``.

    Raises:
        ParameterError: no name where there is not one embedding, no such encoder, an embedding of another precision, or a
            precision of a file or of an encoder that has none.
    """
    if name is None:
        if len(embeddings) == 1:
            return _checked(next(iter(embeddings)), precision)
        raise ParameterError(
            "the gist criterion needs an encoder of captions",
            allowed=f"an encoder, a folder, or one of the dataset's embeddings: {', '.join(embeddings) or 'none'}",
            remedy="give --encoder, such as all-MiniLM-L6-v2 or lexical",
        )
    if name in embeddings:
        return _checked(name, precision)
    path = Path(name)
    if path.suffix in (".npz", ".parquet") and path.exists():
        if precision is not None:
            raise ParameterError(
                f"precision is {precision}, but a file's embeddings are taken as they are",
                where=path,
                remedy="leave the precision out",
            )
        return path
    chosen = encoder(name, **({} if precision is None else {"precision": str(precision)}))
    return chosen.identity if chosen.identity in embeddings else chosen


def _checked(name: str, precision: str | None) -> str:
    """The name of an embedding that the dataset has; ParameterError where it is not of the precision asked for."""
    found = embedding_precision(name)
    if precision not in (None, found):
        raise ParameterError(
            f"precision is {precision}, but the dataset's embedding {name} has precision {found}",
            remedy="name the encoder, so that the captions are embedded in that precision, or leave the precision out",
        )
    return name


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
