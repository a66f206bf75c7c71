"""Captions, or a file of vectors -> an embedding of the dataset, each part a job.

Finished parts are stored in the dataset folder under a temporary name until all are done; then
``dataset.json`` is rewritten. Interrupted work resumes.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.calls import Map, StepProgress, checked, no_progress
from nooch.base.disk import make_folder, remove_ours, sync
from nooch.base.errors import Command, InputError, OutputError, ParameterError
from nooch.base.files import RESUME, link, writing
from nooch.base.limits import limited_threads
from nooch.base.work_folder import Steps, held, remove_folder
from nooch.data import Dataset, as_dataset, embedding_precision, open_dataset
from nooch.data.arrays import check_embedding_name, read_array
from nooch.data.dataset_folder import add_embedding_files, rows_of_parts
from nooch.data.part_files import file_record
from nooch.models import encoders
from nooch.models.encoders import (
    Encoder,
    caption_means,
    distinct_captions,
    embed_captions,
    encode_texts,
    load_embedding,
    open_embedding,
)

_DOING = "embedding these captions"


@checked
def embed(
    data: Dataset | str | Path,
    encoder: str | None,
    *,
    precision: Annotated[str, ("float32", "bf16")] | None = None,
    map: Map = builtins.map,
    threads: int | None = None,
    progress: StepProgress = no_progress,
    note: Callable[[str], None] | None = None,
) -> tuple[Dataset, str]:
    """The dataset with an embedding for the gist criterion, and that embedding's name.

    The embedding of a dataset of ``open_dataset`` is stored in its folder. Each part is a job that
    has the captions and vectors of one part in memory; one part is one job in this process. An
    encoder that is fitted on all sentences (``lexical``) runs on all parts in this process: its
    vectors do not depend on how the dataset is divided. Others encode captions in batches, which
    depend on the division: the last bits may change.

    Args:
        data: with captions, unless the embedding exists or comes from a file.
        encoder: an embedding that the dataset has; a file of embeddings (``.npz``, ``.parquet``),
            which is divided like the images; or an encoder's name or folder. None takes the
            dataset's only embedding.
        precision: ``float32`` (the default) or ``bf16``, in which the encoder computes; bf16 is
            faster where the device has it, and moves a few images. An embedding that the dataset
            has must be of this precision.
        map: where parts are embedded, such as an engine's; all workers must see the folder.
        threads: of a job, for concurrent jobs; by default as the libraries choose.
        progress: called with how many of how many parts are done (of one part, sentences).
        note: called with the reason where the folder cannot be written, and the embedding is only
            in memory; None makes that an error. With it, vectors of a file are not copied into the
            folder of a dataset of one part.

    Raises:
        ParameterError: as ``asked_embedding``.
        InputError: no captions; vectors that are not finite; a file that names none of the images.
        OutputError: the folder cannot be written and there is no ``note``, or another process is
            embedding there.
    """
    data = as_dataset(data)
    source = asked_embedding(encoder, data.embedding_names, precision)
    if isinstance(source, str):
        if isinstance(data.folder, Path):
            _remove_leftovers(_EmbeddingFiles(data, data.folder, source).kept.folder)
        return data, source
    if not isinstance(source, Path) and not data.has_captions:
        raise InputError(
            "the dataset has no captions, which gist needs",
            remedy="import them: {}; or give embeddings of images: {}",
            give=(Command("import coco", captions=...), {"encoder": "FILE.npz"}),
        )
    if data.folder is None or (note is not None and isinstance(source, Path) and data.n_parts == 1):
        return _in_memory(data, source, progress)
    if isinstance(source, Path):
        fill = partial(_divide, source, progress)
    else:
        here = builtins.map if data.n_parts == 1 else map
        fill = partial(_encode, source, encoder or "", here, threads, progress)
    try:
        return _in_folder(data, _label(source), fill, resumable=note is None)
    except OutputError as error:
        if note is None:
            raise
        note(f"the embedding is not stored: {error.problem}")
    return _in_memory(data, source, progress)


def asked_embedding(
    encoder: str | None, embeddings: Collection[str], precision: str | None = None
) -> str | Path | Encoder:
    """The embedding, the file or the encoder that an encoder's name means for a dataset."""
    if encoder is None:
        if len(embeddings) == 1:
            return _checked(next(iter(embeddings)), precision)
        problem = "the gist criterion needs an encoder of captions"
        own = f"one of the dataset's embeddings: {', '.join(embeddings) or 'none'}"
        ways = [{"encoder": name} for name in ("all-MiniLM-L6-v2", "lexical")]
        raise ParameterError(problem, allowed=f"an encoder, a folder, or {own}", give=ways)
    if encoder in embeddings:
        return _checked(encoder, precision)
    path = Path(encoder)
    if path.suffix in (".npz", ".parquet") and path.exists():
        if precision is not None:
            problem = f"precision is {precision}, but embeddings of a file are used unchanged"
            raise ParameterError(problem, where=path, give={"precision": None})
        return path
    made = encoders.encoder(encoder, **({} if precision is None else {"precision": str(precision)}))
    return made.identity if made.identity in embeddings else made


def _checked(name: str, precision: str | None) -> str:
    """The name of an embedding of the dataset; ParameterError if it has another precision."""
    own = embedding_precision(name)
    if precision not in (None, own):
        problem = f"precision is {precision}, but embedding {name} has precision {own}"
        remedy = "name the encoder to embed the captions again"
        raise ParameterError(problem, remedy=remedy, give={"precision": None})
    return name


def _remove_leftovers(keep: Path) -> None:
    """Remove what a process left that was killed after it had listed the embedding."""
    if keep.is_dir():
        with contextlib.suppress(OutputError), held(keep, _DOING):
            remove_folder(keep)


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


def _in_folder(
    data: Dataset, label: str, fill: Callable[[_EmbeddingFiles], None], *, resumable: bool
) -> tuple[Dataset, str]:
    """The dataset, opened again, with an embedding in its folder, whose parts ``fill`` writes.

    If something cannot be written, finished parts stay there only if they are ``resumable``.
    """
    check_embedding_name(label)
    if not isinstance(data.folder, Path) or not os.access(data.folder, os.W_OK):
        problem = "embeddings are stored next to the parts, in a folder that is not writable"
        remedy = "embed a copy of the dataset in a local folder"
        raise OutputError(problem, where=data.folder, remedy=remedy)
    files = _EmbeddingFiles(data, data.folder, label)
    with held(files.kept.folder, _DOING, clear_if_refused=True):
        try:
            with writing(data.folder, RESUME):
                fill(files)
                files.finish()
        except OutputError:
            if not resumable:
                remove_folder(files.kept.folder)
            raise
    return open_dataset(data.folder), label


@dataclass(frozen=True)
class _EmbeddingFiles:
    """The files of an embedding while it is computed.

    Attributes:
        data: the dataset.
        folder: its folder.
        label: name of the embedding.
    """

    data: Dataset
    folder: Path
    label: str

    @property
    def kept(self) -> Steps:
        """All that is finished, until everything is: captions, their vectors, parts."""
        return Steps(self.folder / f".embedding-{self.label}")

    @cached_property
    def rows(self) -> dict[Path, int]:
        """File of each part, relative to the dataset folder -> its number of images."""
        return {
            Path("embeddings", f"{self.label}/{part}.npy" if part else f"{self.label}.npy"): rows
            for part, rows in rows_of_parts(self.folder).items()
        }

    def missing(self) -> list[int]:
        """Parts that are not done."""
        return [n for n, file in enumerate(self.rows) if not self.kept.has(file.name)]

    def write(self, number: int, values: NDArray[Any]) -> None:
        """Store a part."""
        self.kept.put(list(self.rows)[number].name, values)

    def finish(self) -> None:
        """Put the parts in their place and list them, if they fit the images and each other."""
        widths = set()
        for file, rows in self.rows.items():
            shape = self.kept.read(file.name).shape
            widths.add(shape[1:])
            if len(shape) != 2 or shape[0] != rows or len(widths) > 1:
                problem = f"part {file.stem} of embedding {self.label} has shape {shape}"
                remedy = "embed again: the stored parts are removed"
                raise InputError(f"{problem} for {rows} images", remedy=remedy)
        if self.label in self.data.embedding_names:
            # unlisted for a moment, so that it is never listed with the files of another one
            add_embedding_files(self.folder, self.label, {})
        for file in self.rows:
            make_folder((self.folder / file).parent)
            link(self.kept.folder / file.name, self.folder / file)
        # in their place, before they are listed there
        sync((self.folder / file).parent)
        records = {file.as_posix(): file_record(self.folder / file) for file in self.rows}
        add_embedding_files(self.folder, self.label, records)
        remove_ours(self.kept.folder)


def _divide(path: Path, progress: StepProgress, files: _EmbeddingFiles) -> None:
    """Write the vectors of a file, for each part the vectors of its images."""
    file, done = open_embedding(path), 0
    for number in range(files.data.n_parts):
        part = files.data.part(number, reads=())
        rows = file.rows_of(part)
        done += int((rows >= 0).sum())
        files.write(number, file.placed(rows, len(part)))
        progress(number + 1, files.data.n_parts)
    if not done:
        raise file.stranger(part)


def _encode(
    model: Encoder,
    name: str,
    map: Map,
    threads: int | None,
    progress: StepProgress,
    files: _EmbeddingFiles,
) -> None:
    """Write the vectors of every part's captions."""
    n_parts, missing = files.data.n_parts, files.missing()
    together = n_parts > 1 and not getattr(model, "in_parts", False)
    if together:
        _all_vectors(files, lambda: model)
    # the device that this machine chooses: what other machines have must not change the vectors
    options = tuple(getattr(model, "chosen", {}).items())
    remote = map is not builtins.map
    load = partial(_loaded_encoder, name, options) if remote else (lambda: model)
    of_parts, of_sentences = (no_progress, progress) if n_parts == 1 else (progress, None)
    embed_part = partial(_embed_part, files, load, together, threads, of_sentences)
    of_parts(n_parts - len(missing), n_parts)
    for done, _ in enumerate(map(embed_part, missing), n_parts - len(missing) + 1):
        of_parts(done, n_parts)
    empty = files.missing()
    if len(empty) == n_parts:
        # an error, since there is none
        _captions(files.data)
    for number in empty:
        # only now the length of vectors is known
        width = read_array(next(files.kept.folder.glob("*.npy")), mapped=True).shape[1]
        files.write(number, np.full((list(files.rows.values())[number], width), np.nan, np.float32))


def _embed_part(
    files: _EmbeddingFiles,
    load: Callable[[], Encoder],
    together: bool,
    threads: int | None,
    progress: StepProgress | None,
    number: int,
) -> None:
    """Embed one part and store it, unless it has no caption."""
    part = files.data.part(number, reads=("captions",))
    if part.captions is None or not part.captions.height:
        return
    with limited_threads(threads):
        if together:
            files.write(number, caption_means(part, *_all_vectors(files, load)))
            return
        model = load()
        if (own := model.identity) != files.label:
            raise InputError(
                f"the encoder is {own} here, but {files.label} where the work started",
                allowed="the same model on all machines",
            )
        blocks = files.kept.folder / f"blocks-{number:07d}"
        blocks.mkdir(exist_ok=True)
        files.write(number, embed_captions(part, model, progress, Steps(blocks)))
        shutil.rmtree(blocks, ignore_errors=True)


@lru_cache(maxsize=1)
def _loaded_encoder(name: str, options: tuple[tuple[str, Any], ...]) -> Encoder:
    """The encoder of a name: a worker loads a model once, not for every part."""
    return encoders.encoder(name, **dict(options))


def _all_vectors(
    files: _EmbeddingFiles, load: Callable[[], Encoder]
) -> tuple[pl.Series, NDArray[np.float32]]:
    """The captions of all parts and their vectors (n, d), encoded once, by one process."""
    texts = files.kept.get("captions.arrow", lambda: [_captions(files.data).to_frame("caption")])
    captions = texts[0]["caption"]
    encode = lambda: encode_texts(load(), captions.to_list())  # noqa: E731
    return captions, files.kept.get("captions.npy", encode)


def _captions(data: Dataset) -> pl.Series:
    """The different captions of all parts. Raises UndefinedError without any."""
    return distinct_captions(
        data.part(number, reads=("captions",)) for number in range(data.n_parts)
    )
