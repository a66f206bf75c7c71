"""Inputs of every export (chosen sets, their dataset and licenses, questions that are drawn), and
how it writes.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from nooch.base import files
from nooch.base.errors import InputError, OutputError, ParameterError, check_one_of, some_of
from nooch.base.files import check_output, sha256_of
from nooch.base.version import __version__
from nooch.base.work_folder import key_of
from nooch.data import Dataset, sealed_header
from nooch.data.table_files import parquet_bytes
from nooch.suites import SUBSETS, ChallengeSet, Suite
from nooch.suites.questions import Draw, Questions, draw_questions, image_names, with_files

if TYPE_CHECKING:
    from nooch.evaluation import Predictions
    from nooch.evaluation.prediction_files import PredictionSource


LICENSES = "LICENSES.txt"

License = dict[str, str]
"""Known ``name`` and ``url``, and ``source``: ``recorded`` (annotations) or ``stated`` (export)."""


def one_line(text: object) -> str:
    """Text without line breaks, control characters and runs of spaces."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())


def all_licenses(recorded: Iterable[Mapping[str, Any]], stated: Sequence[str]) -> list[License]:
    """Recorded licenses, then stated ones, each once."""
    entries = [
        {k: one_line(entry[k]) for k in ("name", "url") if entry.get(k)} for entry in recorded
    ]
    licenses = [{**entry, "source": "recorded"} for entry in entries if entry]
    licenses += [{"name": one_line(text), "source": "stated"} for text in stated]
    return [terms for number, terms in enumerate(licenses) if terms not in licenses[:number]]


def licenses_text(licenses: Sequence[License]) -> str:
    """``LICENSES.txt``."""
    if not licenses:
        return (
            "Licenses of the data: not recorded.\nNeither the annotations nor whoever exported them"
            " named one. Ask their source before you pass them on.\n"
        )
    parts = []
    for source, heading in _HEADINGS.items():
        of_source = [terms for terms in licenses if terms["source"] == source]
        lines = [
            ": ".join(entry[key] for key in ("name", "url") if key in entry) for entry in of_source
        ]
        if lines:
            parts.append("\n".join([heading, *(f"- {line}" for line in lines)]))
    return "\n\n".join(parts) + "\n"


_HEADINGS = {
    "recorded": "Licenses recorded with the data (those from COCO-format files are the images'):",
    "stated": "Licenses stated by whoever made this export:",
}


Key = tuple[str, str, str]
"""(criterion, task, split)."""

HARD_SUBSETS = ("hard_positive", "hard_negative")
_EASY_SIDES = ("easy_positive", "easy_negative")
MARKER = "nooch-export.json"
"""The file that marks a folder as an export of nooch; it is written last."""


@dataclass(frozen=True, eq=False)
class Content:
    """Content to export.

    Attributes:
        suite: the suite.
        keys: (criterion, task, split) of the chosen sets, in the suite's order.
        data: the dataset that the suite was found in, or None if it is not there.
        stated: licenses that the user states, added to those that are recorded.
        found: licenses that are recorded in files which an export reads itself.
    """

    suite: Suite
    keys: tuple[Key, ...]
    data: Dataset | None = None
    stated: tuple[str, ...] = ()
    found: Sequence[Mapping[str, Any]] = ()

    def sets(self) -> Iterator[ChallengeSet]:
        """The chosen sets, one after the other."""
        return (self.suite.set(*key) for key in self.keys)

    @property
    def criteria(self) -> list[str]:
        """Names of the criteria that have a chosen set."""
        return list(dict.fromkeys(criterion for criterion, _, _ in self.keys))

    @property
    def splits(self) -> list[str]:
        """Splits that have a chosen set, in the suite's order."""
        splits_chosen = {split for _, _, split in self.keys}
        return [split for split in self.suite.splits if split in splits_chosen]

    @property
    def licenses(self) -> list[License]:
        """Licenses recorded with the suite, with the dataset, and found, then stated ones."""
        of_data = [] if self.data is None else self.data.provenance.get("licenses") or []
        recorded = [*self.suite.header.dataset.licenses, *of_data, *self.found]
        return all_licenses(recorded, self.stated)

    @property
    def notes(self) -> list[str]:
        """Notes for users of any export of this."""
        unknown = "no license is recorded for this data; `licenses` TEXT states one in the export"
        return [] if self.licenses else [unknown]

    def need_data(self, purpose: str) -> Dataset:
        """The dataset. Raises InputError if it is not there."""
        if self.data is None:
            problem = f"{purpose} needs the dataset, which has moved or changed"
            raise InputError(problem, give={"data": ...})
        return self.data


@dataclass(frozen=True)
class Exported:
    """Result of an export.

    Attributes:
        to: the format; ``out`` is the file, folder or FiftyOne dataset.
        sets: number of challenge sets in it.
        files: names of the files, relative to ``out``.
        licenses: as they were written; empty where none is known.
        notes: what a user should know.
    """

    to: str
    out: str
    sets: int
    files: list[str]
    licenses: list[License]
    notes: list[str] = field(default_factory=list)


def check_subsets(subsets: Sequence[str]) -> tuple[str, ...]:
    """Names of subsets, each once. Raises ParameterError: an unknown subset, none, or easy images
    with one of their sides.
    """
    names = (*SUBSETS, *_EASY_SIDES)
    for name in subsets:
        check_one_of("subset", name, names)
    if not subsets:
        raise ParameterError("no subset is named", allowed=", ".join(names))
    if "easy" in subsets and set(subsets) & set(_EASY_SIDES):
        allowed = f"easy, or {' and '.join(_EASY_SIDES)}"
        raise ParameterError("easy contains its own sides", where="subsets", allowed=allowed)
    return tuple(dict.fromkeys(subsets))


def need_integers(challenge: ChallengeSet, whose: str) -> None:
    """Raise InputError if image ids are text."""
    if challenge.image_ids.dtype != pl.Int64:
        problem = f"image ids are text, and {whose} are integers"
        raise InputError(problem, give=[{"to": name} for name in ("ids", "csv", "hf")])


Categories = dict[str, tuple[int, str]]
"""Class -> id and name of its category."""


def categories_of(data: Dataset, classes: Sequence[str]) -> tuple[Categories, list[str]]:
    """Categories of classes with the ids and names of the file that the dataset was read from; else
    counted from 1 in the order of all classes of the dataset, with a note.
    """
    kept = {name: data.categories[name] for name in classes if name in data.categories}
    if len({number for number, _ in kept.values()}) == len(classes):
        return kept, []
    numbers = {name: number for number, name in enumerate(data.classes, 1)}
    note = (
        "category ids are counted from 1 in the order of the dataset's classes, since it records"
        " none of its source: detections need these ids"
    )
    return {name: (numbers[name], name.replace("_", " ")) for name in classes}, [note]


def about(content: Content) -> dict[str, Any]:
    """Provenance of an export, JSON-like: suite, dataset, criteria, licenses.

    ``suite.fingerprint`` is BLAKE3 of the suite's records (criteria with statistics, counts,
    thresholds, the dataset's fingerprint), wherever suite and dataset lie.
    """
    header = content.suite.header
    dataset = msgspec.structs.replace(header.dataset, path=None)
    placeless = msgspec.structs.replace(header, dataset=dataset, image_names="")
    # all of them: the chosen ones may combine others, or match their counts
    criteria = {name: msgspec.to_builtins(record) for name, record in header.criteria.items()}
    for record in criteria.values():
        del record["fitted"]
    return {
        "nooch": __version__,
        "suite": {"fingerprint": key_of(placeless, None)},
        "dataset": {
            key: getattr(dataset, key) for key in ("fingerprint", "n_images", "splits", "area")
        },
        "criteria": criteria,
        "licenses": content.licenses,
        "licenses_text": licenses_text(content.licenses),
    }


def table_of(challenge: ChallengeSet) -> pl.DataFrame:
    """A set as ``image_id`` (Int64 or String), ``task`` (String), ``label`` (Int8), ``subset``
    (String), ``support`` (Float64, null if there is none).
    """
    return pl.DataFrame({"image_id": challenge.image_ids}).with_columns(
        task=pl.lit(challenge.task),
        label=pl.Series(challenge.labels).cast(pl.Int8),
        subset=pl.Series(SUBSETS, dtype=pl.String).gather(challenge.subset),
        support=pl.lit(None, pl.Float64) if challenge.support is None else challenge.support,
    )


def runs_of(
    content: Content, predictions: PredictionSource, reading: Mapping[str, Any]
) -> list[Predictions]:
    """The runs of predictions, none by default. Raises InputError for a run of other tasks, and as
    ``nooch.load_predictions``, whose keywords ``reading`` has.
    """
    # bool(DataFrame) raises
    if isinstance(predictions, Sequence) and not len(predictions):
        return []
    # most exports need no predictions
    from nooch.evaluation import read_predictions

    runs = read_predictions(predictions, content.suite, content.data, reading)
    task_names = {task for _, task, _ in content.keys}
    if idle := [run.run for run in runs if not task_names & set(run.tasks)]:
        problem = f"runs predict none of the chosen tasks: {some_of(idle)}"
        raise InputError(problem, allowed=some_of(sorted(task_names)))
    return runs


def write_file(
    content: Content,
    to: str,
    out: str | Path,
    make: Callable[[], tuple[bytes, list[str]]],
    *,
    head: bytes,
    kind: str,
    overwrite: bool,
) -> Exported:
    """Write an export that is one file: what ``make`` gives behind ``head``, and its notes. Raises
    OutputError: the file exists (and ``overwrite`` is false, or it does not begin with ``head``, as
    files of this ``kind`` do) or cannot be written.
    """
    path = files.local_path(out).absolute()
    if not (overwrite and path.exists()):
        check_output(path)
    elif not _begins(path, head):
        problem = f"exists and is not a {kind}, so it is not replaced"
        raise OutputError(problem, where=path, remedy="choose another path")
    text, notes = make()
    with files.writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    files.replace_file(path, head + text)
    notes = [*notes, *content.notes]
    return Exported(to, str(out), len(content.keys), [path.name], content.licenses, notes)


def _begins(path: Path, head: bytes) -> bool:
    """False also for a folder, or a file that may not be read."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(len(head)) == head
    return False


def write_export(
    content: Content,
    to: str,
    out: str | Path,
    fill: Callable[[Path], list[str]],
    *,
    overwrite: bool,
) -> Exported:
    """Write an export's folder atomically: what ``fill`` writes into the folder that it is given,
    ``LICENSES.txt`` and a record. ``fill`` returns notes. Raises OutputError: the folder exists
    (and ``overwrite`` is false, or no export wrote it) or cannot be written.
    """
    with files.write_folder(out, overwrite=overwrite, marker=MARKER) as partial:
        notes = fill(partial)
        (partial / LICENSES).write_text(licenses_text(content.licenses), encoding="utf-8")
        written = [file for file in sorted(partial.rglob("*")) if file.is_file()]
        paths = {file.relative_to(partial).as_posix(): file for file in written}
        record = {
            "format": "nooch-export",
            "version": 1,
            "to": to,
            **about(content),
            "sets": [msgspec.to_builtins(content.suite.record(*key)) for key in content.keys],
            "files": {
                name: {"sha256": sha256_of(file), "bytes": file.stat().st_size}
                for name, file in paths.items()
            },
        }
        (partial / MARKER).write_bytes(sealed_header(record))
    names, notes = [*paths, MARKER], [*notes, *content.notes]
    return Exported(to, str(out), len(content.keys), names, content.licenses, notes)


def written(frames: Iterable[pl.DataFrame], path: Path) -> Iterator[pl.DataFrame]:
    """Write frames to a Parquet file, a row group each, and yield each one that was written."""
    # only one export needs it
    import pyarrow.parquet as pq

    writer: pq.ParquetWriter | None = None
    try:
        for frame in frames:
            table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
            writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
            writer.write_table(table, row_group_size=max(1, table.num_rows))
            yield frame
    finally:
        if writer is not None:
            writer.close()


def safe_name(name: str) -> str:
    """A name that is safe in paths and addresses: letters, digits, ``_``, ``-``, ``=`` and ``.``
    inside stay as they are.

    Every other byte becomes ``+`` and two hexadecimal digits, so that ``ce & gist`` is
    ``ce+20+26+20gist``: percent-encoding with another sign.
    """
    return re.sub(
        r"^\.|[^A-Za-z0-9_.=-]", lambda match: "".join(f"+{b:02X}" for b in match[0].encode()), name
    )


class Names:
    """File names that were given, so that two things never share one, not even where case is
    ignored.
    """

    def __init__(self) -> None:
        self._owner: dict[str, str] = {}

    def take(self, file: str, owner: str) -> str:
        """The file name, for ``owner``. Raises ParameterError if another owner has it."""
        other = self._owner.setdefault(file.casefold(), owner)
        if other != owner:
            problem = f"{other} and {owner} would both be written to {file}"
            ways = ({"criteria": ...}, {"tasks": ...})
            raise ParameterError(problem, remedy="choose one: {} or {}", give=ways)
        return file


ANSWER = pl.when(pl.col("label") == 1).then(pl.lit("yes")).otherwise(pl.lit("no"))
"""Expected answer to a question, in words."""


def asked(content: Content, options: Draw | None, images: str | Path | None) -> Questions:
    """The questions about the chosen sets, with the file name of each image."""
    drawn = draw_questions(content.suite, content.keys, options or Draw())
    drawn = with_files(drawn, content.suite, content.data, images)
    ids = drawn.frame["image_id"].unique(maintain_order=True).to_list()
    of_coco = content.suite.is_of_coco
    return drawn.with_images(image_names(ids, content.data, images, of_coco=of_coco))


def write_questions(content: Content, table: Questions, folder: Path) -> list[str]:
    """Write ``questions.parquet`` into an export's folder; returns notes for the user."""
    (folder / "questions.parquet").write_bytes(parquet_bytes(table.frame))
    labels, images = table.frame["label"], table.frame["image_id"].n_unique()
    yes = int(labels.sum())
    notes = [f"{len(table):,} questions on {images:,} images: {yes:,} yes, {len(table) - yes:,} no"]
    notes += table.notes
    if content.suite.header.hard_only:
        notes.append("the suite contains only hard images, so no question is about an easy one")
    return notes
