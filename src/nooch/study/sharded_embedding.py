"""Captions of a dataset in parts -> its embedding, part by part, each a job of its own, kept in the dataset folder.

A part that is done lies beside the dataset's tables under a temporary name until all are; then ``dataset.json`` is
rewritten. Interrupted work goes on where it was.
"""

from __future__ import annotations

import builtins
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.data import add_embedding
from nooch.data.array_files import read_array, write_array
from nooch.data.embedding_files import check_embedding_name
from nooch.data.shards import ShardedDataset, open_shards
from nooch.data.store import add_embedding_files, file_record, rows_of_parts
from nooch.encoders import (
    Encoder,
    caption_means,
    distinct_captions,
    embed_captions,
    encode_texts,
    encoder,
    open_embedding,
)
from nooch.errors import InputError, OutputError, UndefinedError
from nooch.files import Place, partial_of, writing
from nooch.machine import limited_threads
from nooch.shared_types import Map, StepProgress, no_progress
from nooch.study.embedding import asked_embedding, check_captions, label_of, with_embedding
from nooch.study.holding import held

__all__ = ["embed_in_shards"]


def embed_in_shards(
    dataset: str | Place | ShardedDataset,
    name: str | None,
    *,
    precision: str | None = None,
    map: Map = builtins.map,
    threads: int | None = None,
    progress: StepProgress = no_progress,
) -> tuple[ShardedDataset, str]:
    """The dataset with an embedding to take the gist from, kept in its folder, and that embedding's name.

    Each part is a job that has the captions and vectors of one part in memory. An encoder that is fitted on all sentences
    (``lexical``) has those of all parts in this process; the vectors are those of the dataset in one piece, bit by bit. With
    others a caption is encoded together with other captions than in one piece, which may change its last bits.

    Args:
        dataset: its folder, in one piece or in parts, which all workers see and this process may write.
        name: as for ``with_embedding``; the vectors of a file are divided like the images.
        precision: as for ``with_embedding``.
        map: where the work is done, such as an engine's.
        threads: of a job, so that jobs side by side do not take all processors each; by default as libraries choose.
        progress: called with how many parts are done, or sentences in a dataset in one piece.

    Raises:
        ParameterError: as ``with_embedding``.
        InputError: no captions; an encoder that gives no finite vectors; a file that names none of the images.
        OutputError: the folder cannot be written, or another process is embedding there.
    """
    data = dataset if isinstance(dataset, ShardedDataset) else open_shards(dataset)
    found = asked_embedding(name, data.embeddings, precision)
    if isinstance(found, str):
        return data, found
    label = check_embedding_name(label_of(found) if isinstance(found, Path) else found.identity)
    folder = _writable(data)
    if not data.in_parts:
        with limited_threads(threads):
            whole, _ = with_embedding(data.load(0), name, precision=precision, folder=folder, progress=progress)
        if isinstance(found, Path):
            add_embedding(folder, label, whole.embeddings[label])
        return open_shards(folder), label
    if not isinstance(found, Path):
        check_captions(has_captions="captions" in data.parts[0])
    job = _Job(data, folder, label)
    with held(job.keep, "embedding these captions"), writing(folder, _GO_ON):
        job.take_back()
        try:
            if isinstance(found, Path):
                _divide(job, found, progress)
            else:
                _encode(job, name or "", found, map, threads, progress)
            job.finish()
        except (InputError, UndefinedError):
            # parts that are done are of no use to the file or the captions that come instead
            shutil.rmtree(job.keep, ignore_errors=True)
            raise
    return open_shards(folder), label


_GO_ON = "mend that and give the same command again: parts that are done are kept"


def _writable(data: ShardedDataset) -> Path:
    if isinstance(data.folder, Path) and os.access(data.folder, os.W_OK):
        return data.folder
    raise OutputError(
        "embeddings are kept beside the parts, and nothing can be written there",
        where=data.folder,
        remedy="embed a copy of the dataset in a folder of this machine",
    )


@dataclass(frozen=True)
class _Job:
    """One embedding of a dataset in parts while it is made."""

    data: ShardedDataset
    folder: Path
    label: str

    @property
    def keep(self) -> Path:
        """Where all that is not finished lies."""
        return self.folder / f".embedding-{self.label}"

    @property
    def done(self) -> Path:
        """Where parts that are done lie."""
        return self.keep / "parts"

    def file(self, number: int) -> Path:
        """What is made of a part: named as its images, so that parts stay together."""
        return self.done / f"{Path(self.data.parts[number]['images']).stem}.npy"

    def take_back(self) -> None:
        """Finished parts that were put in their place, but not listed yet when the process was killed."""
        place = self.folder / "embeddings" / self.label
        if self.label not in self.data.embeddings and place.is_dir() and not self.done.exists():
            place.rename(self.done)
        self.done.mkdir(exist_ok=True)

    def write(self, number: int, values: NDArray[Any]) -> None:
        """Keep a part: a file that is there is whole."""
        file = self.file(number)
        partial = self.keep / partial_of(file).name
        write_array(partial, values)
        partial.replace(file)

    def finish(self) -> None:
        """Put the parts in their place and list them, once all of them fit the images and each other."""
        widths, records = set(), {}
        for part, rows in rows_of_parts(self.folder).items():
            file = self.done / f"{part}.npy"
            shape = read_array(file, mapped=True).shape
            widths.add(shape[1:])
            if len(shape) != 2 or shape[0] != rows or len(widths) > 1:
                raise InputError(
                    f"part {part} of embedding {self.label} has shape {shape} for {rows} images, unlike other parts",
                    remedy="embed again: what was kept is removed",
                )
            records[f"embeddings/{self.label}/{part}.npy"] = file_record(file)
        if self.label in self.data.embeddings:
            # never listed with the files of another: it is none of the dataset's for a moment
            add_embedding_files(self.folder, self.label, {})
        place = self.folder / "embeddings" / self.label
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(exist_ok=True)
        self.done.rename(place)
        add_embedding_files(self.folder, self.label, records)
        shutil.rmtree(self.keep, ignore_errors=True)


def _divide(job: _Job, path: Path, progress: StepProgress) -> None:
    """The vectors of a file, for each part those of its images."""
    file, known = open_embedding(path), 0
    for number in range(len(job.data)):
        part = job.data.load(number, reads=())
        rows = file.rows_of(part)
        known += int((rows >= 0).sum())
        job.write(number, file.placed(rows, len(part)))
        progress(number + 1, len(job.data))
    if not known:
        raise file.stranger(job.data.load(0, reads=()))


def _encode(job: _Job, name: str, chosen: Encoder, map: Map, threads: int | None, progress: StepProgress) -> None:
    texts = None if getattr(chosen, "in_parts", False) else _encoded_together(job, chosen)
    wanted = [number for number in range(len(job.data)) if not job.file(number).is_file()]
    before, empty = len(job.data) - len(wanted), []
    progress(before, len(job.data))
    # the device that this machine chooses: what other machines have must not change the vectors
    made = partial(_made, name, tuple(getattr(chosen, "chosen", {}).items()))
    work = partial(_embed_part, job, made, texts, threads)
    for done, (number, width) in enumerate(zip(wanted, map(work, wanted), strict=True), before + 1):
        if width is None:
            empty.append(number)
        progress(done, len(job.data))
    widths = {read_array(file, mapped=True).shape[1] for file in job.done.glob("*.npy")}
    if not widths:
        _texts(job)
    for number in empty:
        # only now it is known how long vectors are
        rows = len(job.data.load(number, reads=()))
        job.write(number, np.full((rows, max(widths)), np.nan, np.float32))


def _embed_part(
    job: _Job, made: Callable[[], Encoder], texts: Path | None, threads: int | None, number: int
) -> int | None:
    """Embed one part and keep it; None where it has no caption."""
    part = job.data.load(number, reads=("captions",))
    if part.captions is None or not part.captions.height:
        return None
    with limited_threads(threads):
        blocks = job.keep / f"blocks-{number:07d}"
        if texts is None:
            values = embed_captions(part, _checked(made(), job.label), keep=blocks)
        else:
            captions = pl.read_parquet(texts, glob=False)["caption"]
            vectors = read_array(texts.with_suffix(".npy"), mapped=True)
            values = caption_means(part, captions, vectors)
        job.write(number, values)
        shutil.rmtree(blocks, ignore_errors=True)
    return int(values.shape[1])


@lru_cache(maxsize=1)
def _made(name: str, options: tuple[tuple[str, Any], ...]) -> Encoder:
    """The encoder of a name: a worker loads a model once, not for every part."""
    return encoder(name, **dict(options))


def _checked(chosen: Encoder, label: str) -> Encoder:
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
        texts = _texts(job)
        texts.to_frame("caption").write_parquet(table)
        partial = file.with_suffix(".partial")
        write_array(partial, encode_texts(chosen, texts.to_list()))
        partial.replace(file)
    return table


def _texts(job: _Job) -> pl.Series:
    """The different captions of all parts."""
    return distinct_captions(job.data.load(number, reads=("captions",)) for number in range(len(job.data)))
