"""Files, frames and arrays -> predictions: tables, arrays, detections; the one way to read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from nooch.base.errors import InputError, ParameterError, reason_of, some_of
from nooch.base.shared_types import Progress, no_progress, options_from
from nooch.data import Dataset
from nooch.data.image_names import UNTYPED
from nooch.evaluation.answer_files import holds_answers
from nooch.evaluation.answer_sample import answers_as_predictions
from nooch.evaluation.answer_table import read_answers
from nooch.evaluation.detections import detected, with_undetected
from nooch.evaluation.known_images import KnownImages
from nooch.evaluation.prediction_arrays import ARRAY_ENDINGS, array_predictions
from nooch.evaluation.prediction_format import PredictionFormat
from nooch.evaluation.prediction_tables import TABLES, read_prediction_table, table_predictions
from nooch.evaluation.predictions import Predictions
from nooch.suites import Suite

__all__ = ["described", "load_predictions", "run_notes"]

PredictionSource = Any
"""A path, a polars or pandas frame, or Predictions; or a sequence or mapping (by run) of these."""


def load_predictions(
    source: PredictionSource,
    suite: Suite | None = None,
    data: Dataset | Callable[[], Dataset | None] | None = None,
    *,
    tasks: Sequence[str] | None = None,
    options: PredictionFormat | None = None,
    progress: Progress = no_progress,
    **named: Any,
) -> list[Predictions]:
    """All runs of all sources, each with a unique name.

    Args:
        source: see ``PredictionSource``; a file may also hold answers in words, see
            ``read_answers``. A file's runs are named by its column ``run``, else after
            method and seed, else after the file and seed; where names of ``run`` are repeated,
            after all three. A mapping names them: ``KEY``, or ``KEY/RUN`` if there are several.
        suite: what the predictions are for.
        data: the dataset that the suite was found in: images can have their file names, and those
            that are not in the suite are allowed; or what gives it, called for such images alone.
        tasks: of a table without a column for them; by default the suite's, or the dataset's.
        options: what the files leave open.
        progress: called with what is being done, and how many of how many sources are read.
        named: fields of ``PredictionFormat``, such as ``scale``.

    Raises:
        InputError: another layout, ids or values missing, the same image twice, values that are not
            finite, probabilities outside [0, 1], an unknown scale, unknown images, two runs of one
            name.
        ParameterError: an unknown option, or no predictions at all.
    """
    images, how = KnownImages(suite, data), options_from(PredictionFormat, options, named)
    tasks = tasks or (images.classes if suite is None else suite.tasks)
    ignore = how.ignore_unknown or (suite is not None and suite.header.hard_only)
    sources: list[tuple[str | None, Any]]
    if isinstance(source, Mapping):
        sources = [(str(name), part) for name, part in source.items()]
    elif isinstance(source, str) or hasattr(source, "__arrow_c_stream__"):
        sources = [(None, source)]
    elif isinstance(source, Sequence | Iterator | ValuesView):
        sources = [(None, part) for part in source]
    else:
        # an array, too, is one, which is refused
        sources = [(None, source)]
    if not sources:
        raise ParameterError("no predictions were given", allowed="at least one run")
    stems = [Path(s).stem for _, s in sources if isinstance(s, str | Path)]
    runs: list[Predictions] = []
    for done, (name, part) in enumerate(sources):
        progress("reading predictions", done, len(sources))
        # files of one name in different folders are distinguished by their folders
        whole = isinstance(part, str | Path) and stems.count(Path(part).stem) > 1
        label = name or (str(part) if whole else None)
        if isinstance(part, str | Path) and holds_answers(part):
            about = suite or images.data
            if about is None:
                raise InputError(
                    "holds answers, which need the suite that they are about", where=part
                )
            said = read_answers(
                part,
                about,
                questions=how.questions,
                rule=how.rule,
                language=how.language,
                run=label,
                ignore_unknown=ignore,
            )
            of_part = [answers_as_predictions(said, how.unknown)]
        else:
            of_part = _read(part, label, tasks, images, how)
            typed = not (isinstance(part, str | Path) and Path(part).suffix.lower() in UNTYPED)
            of_part = [images.match(run, ignore_unknown=ignore, typed=typed) for run in of_part]
            if isinstance(part, str | Path) and Path(part).suffix.lower() == ".json":
                of_part = [with_undetected(run, images, how) for run in of_part]
        runs += of_part if name is None else _renamed(of_part, name)
    counts = Counter(run.run for run in runs)
    if twice := sorted(run for run, count in counts.items() if count > 1):
        raise InputError(
            f"runs occur more than once: {some_of(twice)}",
            where="predictions",
            allowed="each run once, in one file",
            remedy="give each file a column run, or other names",
        )
    return runs


def described(runs: Sequence[Predictions]) -> str:
    """What was read, in one line: runs, images, and what was recognized in the files."""
    ids = [run.image_ids for run in runs]
    n = pl.concat(column.cast(pl.String) for column in ids).n_unique()
    facts = [f"{len(runs):,} runs"] if len(runs) > 1 else []
    facts += [f"{n:,} images", *dict.fromkeys(run.read for run in runs if run.read)]
    return f"Predictions: {', '.join(facts)}"


def run_notes(runs: Sequence[Predictions]) -> list[str]:
    """What a reader of scores of these runs should know, a line each."""
    return [f"{run.run}: {text}" for run in runs for text in run.notes]


def _renamed(runs: Sequence[Predictions], name: str) -> list[Predictions]:
    if len(runs) == 1:
        return [replace(runs[0], run=name)]
    return [
        run if run.run.startswith(f"{name}/") else replace(run, run=f"{name}/{run.run}")
        for run in runs
    ]


def _read(
    source: Any, name: str | None, tasks: Sequence[str], images: KnownImages, how: PredictionFormat
) -> list[Predictions]:
    """The runs of one source."""
    if isinstance(source, Predictions):
        return [source if name is None else replace(source, run=name)]
    if isinstance(source, str | Path):
        path = Path(source)
        name, ending = name or path.stem, path.suffix.lower()
        if ending in ARRAY_ENDINGS:
            return array_predictions(path, name, how)
        if ending == ".json":
            source = detected(path, images.classes, how)
            frame = source.filter(pl.col("task").is_in(list(tasks or source["task"])))
        else:
            frame = read_prediction_table(path, how)
        return table_predictions(frame, name, tasks, how, str(path))
    name = name or "predictions"
    return table_predictions(_polars(source), name, tasks, how, name)


def _polars(source: Any) -> pl.DataFrame:
    """A frame, also of another library: pandas, or any that speaks Arrow."""
    if isinstance(source, pl.LazyFrame):
        return source.collect()
    if not hasattr(source, "columns") and not hasattr(source, "__arrow_c_stream__"):
        raise InputError(
            f"a {type(source).__name__} is no predictions",
            allowed="a path, a frame, or nooch.Predictions.of(values, image_ids, tasks, scale=...)"
            " for arrays and tensors",
        )
    try:
        return pl.DataFrame(source)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise InputError(
            f"a {type(source).__name__} cannot be read: {reason_of(error)}",
            allowed=TABLES,
        ) from error
