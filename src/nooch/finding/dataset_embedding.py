"""Captions, or a file of vectors -> an embedding of the dataset: part by part, each a job, kept in
the dataset folder.

A part that is done lies beside the dataset's tables under a temporary name until all are; then
``dataset.json`` is rewritten. Interrupted work resumes where it stopped.
"""

from __future__ import annotations

import builtins
import os
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.data import Dataset, embedding_precision, open_dataset
from nooch.data.array_files import read_array, write_array
from nooch.data.dataset_folder import add_embedding_files, file_record, rows_of_parts
from nooch.data.embedding_files import check_embedding_name
from nooch.encoders import (
    Encoder,
    caption_means,
    distinct_captions,
    embed_captions,
    encode_texts,
    encoder,
    load_embedding,
    open_embedding,
)
from nooch.errors import InputError, OutputError, ParameterError
from nooch.files import RESUME, partial_of, writing
from nooch.resources import limited_threads
from nooch.shared_types import Map, StepProgress, no_progress
from nooch.work_folder import held, remove_folder

__all__ = ["asked_embedding", "embed"]


def embed(
    data: Dataset,
    encoder: str | None,
    *,
    precision: str | None = None,
    map: Map = builtins.map,
    threads: int | None = None,
    progress: StepProgress = no_progress,
    note: Callable[[str], None] | None = None,
) -> tuple[Dataset, str]:
    """The dataset with an embedding to take the gist from, and that embedding's name.

    The embedding of a dataset of ``open_dataset`` is kept in its folder. Each part is a job that
    has the captions and vectors of one part in memory; one part is one job in this process. An
    encoder that is fitted on all sentences (``lexical``) has those of all parts in this process:
    its vectors do not depend on how the dataset is divided. Others encode a caption together with
    other captions where it is divided in another way, which may change its last bits.

    Args:
        data: with captions, unless the embedding exists or comes from a file. In memory it is
            embedded at once.
        encoder: an embedding that the dataset has; a file of embeddings (``.npz``, ``.parquet``),
            which is divided like the images; or an encoder's name or folder. None takes the
            dataset's only embedding.
        precision: ``float32`` or ``bf16``, of the encoder, which computes in float32 otherwise; an
            embedding that the dataset has must be of this precision.
        map: where parts are embedded, such as an engine's; all workers must see the folder.
        threads: of a job, so that jobs side by side do not take all CPUs each; by default as
            libraries choose.
        progress: called with how many of how many parts are done, or sentences where there is one
            part.
        note: called with the reason where the folder cannot be written, and the embedding is in
            memory alone; None makes that an error. With it, vectors of a file are not copied into
            the folder of a dataset of one part.

    Raises:
        ParameterError: as ``asked_embedding``.
        InputError: no captions; an encoder that gives no finite vectors; a file that names none of
            the images.
        OutputError: the folder cannot be written and there is no ``note``, or another process is
            embedding there.
    """
    found = asked_embedding(encoder, data.embedding_names, precision)
    if isinstance(found, str):
        return data, found
    if not isinstance(found, Path) and not data.has_captions:
        raise InputError(
            "the dataset has no captions to take a gist from",
            remedy=(
                "import with `captions`, or give image embeddings as a file (`encoder` FILE.npz)"
            ),
        )
    if data.folder is None or (note is not None and isinstance(found, Path) and data.n_parts == 1):
        return _in_memory(data, found, progress)
    try:
        work = _Work(
            encoder or "", found, builtins.map if data.n_parts == 1 else map, threads, progress
        )
        return _in_folder(data, work, resumable=note is None)
    except OutputError as error:
        if note is None:
            raise
        note(f"the embedding is not kept: {error.problem}")
    return _in_memory(data, found, progress)


def asked_embedding(
    name: str | None, embeddings: Collection[str], precision: str | None = None
) -> str | Path | Encoder:
    """What an encoder's name means for a dataset: one of its embeddings, a file, or an encoder
    whose embedding it lacks.

    Args:
        name: ``encoder`` of ``embed``; ``precision`` likewise.
        embeddings: names of those that the dataset has.
        precision: see ``embed``.

    Raises:
        ParameterError: no name where there is not one embedding, no such encoder, an embedding of
            another precision, or a precision of a file or of an encoder that has none.
    """
    if name is None:
        if len(embeddings) == 1:
            return _checked(next(iter(embeddings)), precision)
        raise ParameterError(
            "the gist criterion needs an encoder of captions",
            allowed=(
                "an encoder, a folder, or one of the dataset's embeddings:"
                f" {', '.join(embeddings) or 'none'}"
            ),
            remedy="give `encoder`, such as all-MiniLM-L6-v2 or lexical",
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
    """The name of an embedding that the dataset has; ParameterError where it is not of the
    precision asked for.
    """
    found = embedding_precision(name)
    if precision not in (None, found):
        raise ParameterError(
            f"precision is {precision}, but the dataset's embedding {name} has precision {found}",
            remedy=(
                "name the encoder, so that the captions are embedded in that precision, or leave"
                " the precision out"
            ),
        )
    return name


def _label(source: Path | Encoder) -> str:
    """Name of the embedding that a file or an encoder gives."""
    return f"file-{source.stem}" if isinstance(source, Path) else source.identity


def _in_memory(
    data: Dataset, source: Path | Encoder, progress: StepProgress
) -> tuple[Dataset, str]:
    data, label = data.in_memory(), _label(source)
    values = (
        load_embedding(source, data)
        if isinstance(source, Path)
        else embed_captions(data, source, progress)
    )
    return data.with_embedding(label, values), label


@dataclass(frozen=True)
class _Work:
    """What is embedded, where, and who is told: see ``embed``."""

    name: str
    source: Path | Encoder
    map: Map
    threads: int | None
    progress: StepProgress


def _in_folder(data: Dataset, work: _Work, *, resumable: bool) -> tuple[Dataset, str]:
    """The dataset, opened again, with an embedding that is kept in its folder.

    Where something cannot be written, parts that are done stay there if they are ``resumable``.
    """
    label = check_embedding_name(_label(work.source))
    if not isinstance(data.folder, Path) or not os.access(data.folder, os.W_OK):
        raise OutputError(
            "embeddings are kept beside the parts, and nothing can be written there",
            where=data.folder,
            remedy="embed a copy of the dataset in a folder of this machine",
        )
    job = _Job(data, data.folder, label)
    with held(job.keep, "embedding these captions", clear_if_refused=True):
        try:
            with writing(data.folder, RESUME):
                job.take_back()
                if isinstance(work.source, Path):
                    _divide(job, work.source, work.progress)
                else:
                    _encode(job, work.source, work)
                job.finish()
        except OutputError:
            if not resumable:
                remove_folder(job.keep)
            raise
    return open_dataset(data.folder), label


@dataclass(frozen=True)
class _Job:
    """One embedding of a dataset while it is made.

    Attributes:
        data: the dataset.
        folder: its folder.
        label: name of the embedding.
    """

    data: Dataset
    folder: Path
    label: str

    @property
    def keep(self) -> Path:
        """Where all that is not finished lies."""
        return self.folder / f".embedding-{self.label}"

    @cached_property
    def rows(self) -> dict[Path, int]:
        """File of each part, from the dataset folder on -> its number of images."""
        place = Path("embeddings")
        return {
            place / (f"{self.label}/{part}.npy" if part else f"{self.label}.npy"): rows
            for part, rows in rows_of_parts(self.folder).items()
        }

    def done(self, file: Path) -> Path:
        """Where a part lies when it is done, until all are."""
        return self.keep / "parts" / file.name

    def missing(self) -> list[int]:
        """Parts that are not done."""
        return [number for number, file in enumerate(self.rows) if not self.done(file).is_file()]

    def take_back(self) -> None:
        """Finished parts that were put in their place, but not listed yet when the process was
        killed.
        """
        (self.keep / "parts").mkdir(exist_ok=True)
        for file in () if self.label in self.data.embedding_names else self.rows:
            if (self.folder / file).is_file() and not self.done(file).is_file():
                (self.folder / file).replace(self.done(file))

    def write(self, number: int, values: NDArray[Any]) -> None:
        """Keep a part: a file that is there is whole."""
        file = self.done(list(self.rows)[number])
        partial = self.keep / partial_of(file).name
        write_array(partial, values)
        partial.replace(file)

    def finish(self) -> None:
        """Put the parts in their place and list them, once all of them fit the images and each
        other.
        """
        widths = set()
        for file, rows in self.rows.items():
            shape = read_array(self.done(file), mapped=True).shape
            widths.add(shape[1:])
            if len(shape) != 2 or shape[0] != rows or len(widths) > 1:
                raise InputError(
                    f"part {file.stem} of embedding {self.label} has shape {shape} for {rows}"
                    " images, unlike other parts",
                    remedy="embed again: what was kept is removed",
                )
        if self.label in self.data.embedding_names:
            # never listed with the files of another: it is none of the dataset's for a moment
            add_embedding_files(self.folder, self.label, {})
        for file in self.rows:
            (self.folder / file).parent.mkdir(parents=True, exist_ok=True)
            self.done(file).replace(self.folder / file)
        records = {file.as_posix(): file_record(self.folder / file) for file in self.rows}
        add_embedding_files(self.folder, self.label, records)
        shutil.rmtree(self.keep, ignore_errors=True)


def _divide(job: _Job, path: Path, progress: StepProgress) -> None:
    """The vectors of a file, for each part those of its images."""
    file, known = open_embedding(path), 0
    for number in range(job.data.n_parts):
        part = job.data.part(number, reads=())
        rows = file.rows_of(part)
        known += int((rows >= 0).sum())
        job.write(number, file.placed(rows, len(part)))
        progress(number + 1, job.data.n_parts)
    if not known:
        raise file.stranger(part)


def _encode(job: _Job, chosen: Encoder, work: _Work) -> None:
    """The vectors of every part's captions."""
    n_parts, wanted = job.data.n_parts, job.missing()
    together = n_parts > 1 and not getattr(chosen, "in_parts", False)
    texts = _encoded_together(job, chosen) if together else None
    # the device that this machine chooses: what other machines have must not change the vectors
    options = tuple(getattr(chosen, "chosen", {}).items())
    made = (lambda: chosen) if work.map is builtins.map else partial(_made, work.name, options)
    of_parts, of_sentences = (no_progress, work.progress) if n_parts == 1 else (work.progress, None)
    embed_part = partial(_embed_part, job, made, texts, work.threads, of_sentences)
    of_parts(n_parts - len(wanted), n_parts)
    for done, _ in enumerate(work.map(embed_part, wanted), n_parts - len(wanted) + 1):
        of_parts(done, n_parts)
    empty = job.missing()
    if len(empty) == n_parts:
        # an error, since there is none
        _captions(job.data)
    for number in empty:
        # only now it is known how long vectors are
        width = read_array(next((job.keep / "parts").iterdir()), mapped=True).shape[1]
        job.write(number, np.full((list(job.rows.values())[number], width), np.nan, np.float32))


def _embed_part(
    job: _Job,
    made: Callable[[], Encoder],
    texts: Path | None,
    threads: int | None,
    progress: StepProgress | None,
    number: int,
) -> None:
    """Embed one part and keep it, unless it has no caption."""
    part = job.data.part(number, reads=("captions",))
    if part.captions is None or not part.captions.height:
        return
    with limited_threads(threads):
        blocks = job.keep / f"blocks-{number:07d}"
        if texts is None:
            values = embed_captions(part, _same(made(), job.label), progress, blocks)
        else:
            captions = pl.read_parquet(texts, glob=False)["caption"]
            values = caption_means(
                part, captions, read_array(texts.with_suffix(".npy"), mapped=True)
            )
        job.write(number, values)
        shutil.rmtree(blocks, ignore_errors=True)


@lru_cache(maxsize=1)
def _made(name: str, options: tuple[tuple[str, Any], ...]) -> Encoder:
    """The encoder of a name: a worker loads a model once, not for every part."""
    return encoder(name, **dict(options))


def _same(chosen: Encoder, label: str) -> Encoder:
    if chosen.identity != label:
        raise InputError(
            f"the encoder is {chosen.identity} here, and {label} where the work began",
            allowed="the same model on all machines",
        )
    return chosen


def _encoded_together(job: _Job, chosen: Encoder) -> Path:
    """A table of all captions; beside it their vectors, from an encoder that is fitted on all."""
    table = job.keep / "captions.parquet"
    file = table.with_suffix(".npy")
    if not file.is_file():
        texts = _captions(job.data)
        texts.to_frame("caption").write_parquet(table)
        partial = file.with_suffix(".partial")
        write_array(partial, encode_texts(chosen, texts.to_list()))
        partial.replace(file)
    return table


def _captions(data: Dataset) -> pl.Series:
    """The different captions of all parts. Raises UndefinedError where there is none."""
    return distinct_captions(
        data.part(number, reads=("captions",)) for number in range(data.n_parts)
    )
