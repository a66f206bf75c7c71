"""Files, frames and arrays -> predictions: long or wide tables, archives of arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nooch.data import class_name, id_column, read_arrays, read_table
from nooch.errors import InputError, ParameterError, check_one_of, some_of
from nooch.evaluation.predictions import SCALES, Predictions, check_values, positions

__all__ = ["as_runs", "read_predictions"]

_KEYS = ("run", "method", "seed")
_RESERVED = {"image_id", "task", "label", *_KEYS, *SCALES}
_ARRAYS = (
    "image_ids (n,), tasks (t,), and logits or probabilities: (n, t), or (r, n, t) with runs (r,)"
)
_LONG = f"long: image_id, task, logit or probability, and any of {', '.join(_KEYS)}, label"
_WIDE = "wide: image_id and a column for each task"

PredictionSource = Any
"""A path, a polars or pandas frame, or Predictions; or a sequence or mapping (by run) of these."""


def as_runs(
    source: PredictionSource, tasks: Sequence[str], scale: str | None = None
) -> list[Predictions]:
    """All runs of all sources, each with a unique name.

    Args:
        source: see ``PredictionSource``. A file's runs are named by its column ``run``, else after
            method and seed, else after the file and seed; where names of ``run`` are repeated,
            after all three. A mapping names them: ``KEY``, or ``KEY/RUN`` if there are several.
        tasks: tasks of the suite.
        scale: ``logit`` or ``probability``, needed for wide tables, which do not say.

    Raises:
        InputError: see ``read_predictions``; also two runs of one name.
        ParameterError: an unknown scale, or no predictions at all.
    """
    if scale is not None:
        check_one_of("scale", scale, SCALES)
    named: list[tuple[str | None, Any]]
    if isinstance(source, Mapping):
        named = [(str(name), part) for name, part in source.items()]
    else:
        named = [(None, part) for part in ([source] if _is_one(source) else source)]
    if not named:
        raise ParameterError("no predictions were given", allowed="at least one run")
    stems = [Path(s).stem for _, s in named if isinstance(s, str | Path)]
    runs: list[Predictions] = []
    for name, part in named:
        # files of one name in different folders are distinguished by their folders
        whole = isinstance(part, str | Path) and stems.count(Path(part).stem) > 1
        of_part = read_predictions(part, name or (str(part) if whole else None), tasks, scale)
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


def _is_one(source: PredictionSource) -> bool:
    """Whether this is one source; an array is one (which is refused), though it is iterable."""
    kinds = str | Path | Predictions | pl.LazyFrame
    if isinstance(source, kinds) or not isinstance(source, Iterable):
        return True
    return _is_frame(source) or hasattr(source, "__array__")


def _is_frame(source: Any) -> bool:
    """Whether this is a table of some library: of pandas, or one that speaks Arrow."""
    return hasattr(source, "columns") or hasattr(source, "__arrow_c_stream__")


def _renamed(runs: Sequence[Predictions], name: str) -> list[Predictions]:
    if len(runs) == 1:
        return [replace(runs[0], run=name)]
    return [
        run if run.run.startswith(f"{name}/") else replace(run, run=f"{name}/{run.run}")
        for run in runs
    ]


def read_predictions(
    source: PredictionSource, name: str | None, tasks: Sequence[str], scale: str | None = None
) -> list[Predictions]:
    """The runs of one source.

    Raises:
        InputError: another layout, ids or values missing, the same image twice, values that are not
            finite, probabilities outside [0, 1], a wide table of unknown scale.
    """
    if isinstance(source, Predictions):
        return [source if name is None else replace(source, run=name)]
    if isinstance(source, str | Path):
        path = Path(source)
        name = name or path.stem
        if path.suffix.lower() == ".npz":
            return _from_arrays(path, name)
        return _from_frame(read_table(path), name, tasks, scale, str(path))
    frame = source.collect() if isinstance(source, pl.LazyFrame) else source
    if not _is_frame(frame):
        raise InputError(
            f"a {type(source).__name__} is no predictions",
            allowed="a path, a frame, or nooch.Predictions.of(values, image_ids, tasks, scale=...)"
            " for arrays and tensors",
        )
    return _from_frame(_polars(frame), name or "predictions", tasks, scale, name or "predictions")


def _refused(problem: str, where: object, allowed: str = _LONG) -> InputError:
    return InputError(problem, where=where, allowed=allowed)


def _polars(frame: Any) -> pl.DataFrame:
    """A frame of another library (pandas, or any that speaks Arrow)."""
    if isinstance(frame, pl.DataFrame):
        return frame
    try:
        return pl.DataFrame(frame)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise InputError(
            f"a {type(frame).__name__} cannot be read: {str(error).splitlines()[0]}",
            allowed=f"{_LONG}; or {_WIDE}",
        ) from error


def _from_frame(
    frame: pl.DataFrame, name: str, tasks: Sequence[str], scale: str | None, where: str
) -> list[Predictions]:
    if "image_id" not in frame.columns:
        raise _refused(f"has columns {some_of(frame.columns, 8)}", where, f"{_LONG}; or {_WIDE}")
    scales = [column for column in SCALES if column in frame.columns]
    if len(scales) == 2:
        raise _refused("has both a column logit and a column probability", where, "one of them")
    if not frame.height:
        raise _refused("holds no row", where, "a prediction for every image of the scored split")
    if scales:
        return _from_long(frame, name, tasks, scales[0], where)
    if "task" in frame.columns:
        raise _refused("has a column task, but neither logit nor probability", where)
    return _from_wide(frame, name, scale, where)


def _from_wide(frame: pl.DataFrame, name: str, scale: str | None, where: str) -> list[Predictions]:
    # pandas writes its index as a column without a name
    columns = [c for c in frame.columns if c.strip() and c not in _RESERVED]
    if not columns:
        raise _refused(f"has columns {some_of(frame.columns, 8)}", where, f"{_LONG}; or {_WIDE}")
    if scale is None:
        raise InputError(
            "a wide table does not say whether its values are logits or probabilities",
            where=where,
            remedy="give `scale` logit or `scale` probability",
        )
    if wrong := [c for c in columns if not frame[c].dtype.is_numeric()]:
        shown = some_of(f"{c} ({frame[c].dtype})" for c in wrong)
        raise _refused(f"columns are no numbers: {shown}", where, _WIDE)
    long = frame.unpivot(
        columns,
        index=[c for c in frame.columns if c in _RESERVED],
        variable_name="task",
        value_name=scale,
    )
    return _from_long(long, name, columns, scale, where)


def _from_long(
    frame: pl.DataFrame, name: str, tasks: Sequence[str], scale: str, where: str
) -> list[Predictions]:
    if "task" not in frame.columns:
        if len(tasks) != 1:
            allowed = f"{_LONG} (task may be left out where there is only one)"
            raise _refused("has no column task", where, allowed)
        frame = frame.with_columns(task=pl.lit(tasks[0]))
    frame = _checked(frame, scale, where)
    keys = [key for key in _KEYS if key in frame.columns]
    if not keys:
        return [_one_run(frame, name, None, None, scale, where)]
    parts = frame.partition_by(keys, as_dict=True, maintain_order=True)
    names = [_run_name(dict(zip(keys, values, strict=True)), name) for values in parts]
    if len(set(names)) < len(names):
        names = [_joined(values) or name for values in parts]
    runs = []
    for run, (values, part) in zip(names, parts.items(), strict=True):
        of: dict[str, Any] = dict(zip(keys, values, strict=True))
        runs.append(_one_run(part, run, of.get("method"), of.get("seed"), scale, where))
    return runs


def _run_name(of: Mapping[str, Any], name: str) -> str:
    if of.get("run") is not None:
        return str(of["run"])
    method = of.get("method")
    return _joined([name if method is None else method, of.get("seed")])


def _joined(parts: Iterable[Any]) -> str:
    return "/".join(str(part) for part in parts if part is not None)


def _checked(frame: pl.DataFrame, scale: str, where: str) -> pl.DataFrame:
    """The columns that count, with fixed types and without nulls."""
    kinds: dict[str, Any] = dict.fromkeys(("task", "run", "method"), pl.String)
    kinds |= {scale: pl.Float64, "seed": pl.Int64}
    if not frame[scale].dtype.is_numeric():
        strange = frame[scale].drop_nulls()
        if strange.dtype == pl.String:
            numbers = strange.cast(pl.Float64, strict=False)
            strange = strange.filter(~numbers.is_finite().fill_null(value=False))
        shown = f"such as {strange[0]!r}" if len(strange) else "which are no numbers"
        raise _refused(f"column {scale} holds {strange.dtype}, {shown}", where, "numbers")
    try:
        # integers in a column with empty cells are read as floats
        frame = frame.with_columns(id_column(frame["image_id"], where)).select(
            pl.col(c).cast(kinds[c]) if c in kinds else pl.col(c)
            for c in frame.columns
            if c in _RESERVED
        )
    except pl.exceptions.PolarsError as error:
        problem = f"columns are of the wrong kind: {str(error).splitlines()[0]}"
        raise _refused(problem, where) from error
    for column in ("image_id", "task", scale):
        missing = frame.filter(pl.col(column).is_null())
        if missing.height:
            image, task = missing["image_id"][0], missing["task"][0]
            example = f", such as image {image}, task {task}" if column == scale else ""
            problem = f"{missing.height} {column}s are missing{example}"
            raise _refused(problem, where, "a value in every row")
    if "label" in frame.columns:
        label = frame["label"].cast(pl.Float64, strict=False)
        if not label.is_in([0.0, 1.0]).fill_null(value=False).all():
            raise _refused("column label holds more than 0 and 1", where, "0 and 1 in every row")
        frame = frame.with_columns(label=label.cast(pl.Int8))
    return frame.with_columns(
        task=frame["task"].replace({t: class_name(t) for t in frame["task"].unique()})
    )


def _one_run(
    frame: pl.DataFrame, run: str, method: str | None, seed: int | None, scale: str, where: str
) -> Predictions:
    """Rows of one run as a matrix: every (image, task) at most once."""
    ids, tasks = frame["image_id"].unique().sort(), frame["task"].unique(maintain_order=True)
    place = positions(frame["task"], tasks) * len(ids) + positions(frame["image_id"], ids)
    if len(np.unique(place)) != len(place):
        twice = frame.filter(frame.select("image_id", "task").is_duplicated())
        image, task = twice.select("image_id", "task").row(0)
        raise InputError(
            f"{len(place) - len(np.unique(place))} predictions are repeated, such as image {image},"
            f" task {task}, run {run}",
            where=where,
            allowed="each image and task once in a run",
            remedy="name the runs in a column run, method or seed, if these are several",
        )
    values = np.full((len(tasks), len(ids)), np.nan)
    given = frame[scale].to_numpy()
    labels = None
    if "label" in frame.columns:
        labels = np.full(values.shape, -1, dtype=np.int8)
        labels.reshape(-1)[place] = frame["label"].to_numpy()
    values.reshape(-1)[place] = given
    predictions = Predictions(run, ids, tuple(tasks), values, scale, method, seed, labels)
    if not np.isfinite(given).all() or scale == "probability":
        # places without a prediction are NaN on purpose
        present = np.zeros(values.shape, dtype=bool)
        present.reshape(-1)[place] = True
        check_values(np.where(present, values, 0.0), predictions)
    return predictions


def _from_arrays(path: Path, name: str) -> list[Predictions]:
    arrays = read_arrays(path, _ARRAYS)
    scale_of = {"logits": "logit", "probabilities": "probability"}
    keys = [key for key in scale_of if key in arrays]
    if len(keys) != 1 or not {"image_ids", "tasks"} <= set(arrays):
        raise _refused(f"holds {some_of(arrays, 8) or 'no named array'}", path, _ARRAYS)
    ids = id_column(arrays["image_ids"], f"{path}, image_ids")
    tasks = [class_name(str(task)) for task in np.atleast_1d(arrays["tasks"])]
    values, scale = arrays[keys[0]], scale_of[keys[0]]
    if values.ndim != 3 and "runs" not in arrays:
        return [Predictions.of(values, ids, tasks, scale=scale, run=name)]
    runs = [f"{name}/{i}" for i in range(len(values))]
    runs = [str(run) for run in np.atleast_1d(arrays.get("runs", runs))]
    values = values[None] if values.ndim == 2 and len(runs) == 1 else values
    if values.ndim != 3 or len(runs) != len(values):
        problem = f"has {len(runs)} runs and {keys[0]} of shape {values.shape}"
        raise _refused(problem, path, _ARRAYS)
    return [
        Predictions.of(v, ids, tasks, scale=scale, run=r) for v, r in zip(values, runs, strict=True)
    ]
