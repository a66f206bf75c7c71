"""Files, frames and arrays -> predictions: tables, arrays, detections; the one way to read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import polars as pl

from nooch.base.calls import Progress, no_progress, options_from
from nooch.base.errors import InputError, ParameterError, reason_of, some_of
from nooch.base.limits import BROKEN_JSON
from nooch.data import Dataset, class_name, id_column, read_arrays
from nooch.data.arrays import float_array
from nooch.data.image_names import UNTYPED
from nooch.data.readers.cocostuff import COCOSTUFF, COCOSTUFF_IDS
from nooch.data.table_files import checked_read
from nooch.evaluation.answer_sample import answers_as_predictions
from nooch.evaluation.answers import holds_answers, read_answers
from nooch.evaluation.prediction_format import PredictionFormat
from nooch.evaluation.prediction_tables import (
    TABLES,
    read_prediction_table,
    scale_of,
    table_predictions,
)
from nooch.evaluation.predictions import KnownImages, Predictions, positions
from nooch.suites import Suite

ARRAY_ENDINGS = (".npz", ".npy")
_SCALE_OF = {"logits": "logit", "probabilities": "probability"}
_ARRAYS = (
    "image_ids (n,), tasks (t,), and logits or probabilities: (n, t), or (r, n, t) with runs (r,);"
    " or one array (n, t), with `ids` and `classes`"
)


def array_predictions(path: Path, name: str, how: PredictionFormat) -> list[Predictions]:
    """The runs of a file of arrays; ``ids`` and ``classes`` stand for arrays that it does not
    have.
    """
    arrays: dict[str, Any] = dict(read_arrays(path, _ARRAYS))
    listed, named = how.listed(), how.named()
    given = arrays if listed is None else {**arrays, "image_ids": listed}
    given = given if named is None else {**given, "tasks": [*named.values()]}
    keys = [key for key in _SCALE_OF if key in arrays]
    keys = keys or [key for key in arrays if key not in {"image_ids", "tasks", "runs"}]
    if len(keys) != 1 or not {"image_ids", "tasks"} <= given.keys():
        raise InputError(
            f"holds {some_of(arrays, 8) or 'no named array'}", where=path, allowed=_ARRAYS
        )
    ids = id_column(given["image_ids"], f"{path}, image_ids")
    tasks = [class_name(str(task)) for task in np.atleast_1d(given["tasks"])]
    values = float_array(given[keys[0]]) / (100 if how.percent else 1)
    column = keys[0] if keys[0] in _SCALE_OF else None
    scale, read = scale_of(values, column, how, path, what="array")
    by_run, names = [values], [name]
    if values.ndim == 3:
        by_run, names = list(values), [f"{name}/{i}" for i in range(len(values))]
    runs = [str(run) for run in np.atleast_1d(given.get("runs", names))]
    if len(runs) != len(by_run):
        problem = f"has {len(runs)} runs and {keys[0]} of shape {values.shape}"
        raise InputError(problem, where=path, allowed=_ARRAYS)
    return [
        replace(Predictions.of(of_run, ids, tasks, scale=scale, run=run), read=read)
        for of_run, run in zip(by_run, runs, strict=True)
    ]


_ALLOWED = "COCO results: a list of image_id, category_id, score (0 to 1), and others such as bbox"
_Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Detection(msgspec.Struct, gc=False):
    image_id: _Integer | str
    category_id: _Integer
    score: Annotated[float, msgspec.Meta(ge=0, le=1)]


def detected(path: Path, classes: Sequence[str], how: PredictionFormat) -> pl.DataFrame:
    """``image_id, task, probability`` of the classes that were detected in each image."""
    try:
        content = checked_read(path, path.read_bytes)
        found = msgspec.json.decode(content, type=list[_Detection])
    except BROKEN_JSON as error:
        raise InputError(f"cannot be read: {error}", where=path, allowed=_ALLOWED) from error
    ids = [one.image_id for one in found]
    ids = [*map(str, ids)] if any(isinstance(image_id, str) for image_id in ids) else ids
    things = {COCOSTUFF_IDS[name]: name for name, kind in COCOSTUFF.items() if kind == "thing"}
    names = how.named() or (things if {*things.values()} <= {*classes} else {})
    categories = [one.category_id for one in found]
    unnamed = sorted({*categories} - names.keys())
    # names alone are counted from 0, and ids may start at 1
    if not unnamed and 0 in names and 0 not in categories and not str(how.classes).endswith("json"):
        unnamed = sorted({*categories})
    if unnamed:
        raise InputError(
            f"no class name is known for category ids {some_of(unnamed)}",
            where=path,
            remedy="give `classes`: a COCO file with categories, or NUMBER NAME per line",
        )
    tasks = pl.Series(categories, dtype=pl.Int64).replace_strict(names, return_dtype=pl.String)
    scores = pl.Series([one.score for one in found], dtype=pl.Float64)
    table = pl.DataFrame({"image_id": ids, "task": tasks, "probability": scores})
    return table.group_by("image_id", "task", maintain_order=True).max()


def with_undetected(run: Predictions, images: KnownImages, how: PredictionFormat) -> Predictions:
    """Detections with probability 0 for what was not detected, in ``how.ids`` or else in all images
    of the splits in which anything was detected.
    """
    ids = how.listed()
    if ids is None:
        table = images.table.with_columns(pl.col("image_id").cast(run.image_ids.dtype))
        seen = table.join(pl.DataFrame(run.image_ids), on="image_id")["split"].unique()
        ids = table.filter(pl.col("split").is_in(seen.implode()))["image_id"]
    else:
        ids, _ = images.ids_of(ids, "`ids`")
    ids = ids.cast(run.image_ids.dtype, strict=False)
    at = positions(run.image_ids, ids)
    if (at < 0).any():
        raise InputError(
            f"images were detected in that are not listed:"
            f" {some_of(run.image_ids.filter(pl.Series(at < 0)))}",
            where=f"run {run.run}",
            remedy="give all images as `ids`, or a suite or dataset",
        )
    values = np.zeros((len(run.tasks), len(ids)))
    values[:, at] = np.nan_to_num(run.values)
    about = f"COCO detections, {len(ids) - len(at):,} images without any"
    read = run.read.replace('column "probability"', about)
    return replace(run, image_ids=ids, values=values, read=read)


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
        problem = f"runs occur more than once: {some_of(twice)}"
        raise InputError(
            problem, where="predictions", remedy="give each file a column run, or other names"
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
