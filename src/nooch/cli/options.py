"""Parse option strings; errors name the option."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Any

import typer
from typer import Argument, Option

from nooch.base.errors import NoochError, ParameterError
from nooch.base.files import place


def dataset_place(text: str) -> str:
    """A folder or an address, for arguments that name a dataset; else typer's own error."""
    try:
        return str(place(text))
    except NoochError as error:
        # typer would take a ValueError for one without a message
        raise typer.BadParameter(str(error)) from error


def _names_in_suite(kind: str) -> Callable[[typer.Context, str], list[str]]:
    """Completions of a shell: ``tasks`` or ``criteria`` of the suite that was typed before."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        from nooch.suites import load_suite

        before, comma, _ = incomplete.rpartition(",")
        # an option without its value leaves the arguments unparsed
        suite = ctx.params.get("suite") or next(iter(ctx.args), "")
        try:
            names = getattr(load_suite(suite), kind)
        except NoochError:
            return []
        return [f"{before}{comma}{name}" for name in names]

    return complete


complete_tasks = _names_in_suite("tasks")

DatasetArgument: Any = Argument(
    ...,
    metavar="DATASET",
    help="Dataset folder, or its address such as s3://bucket/data.",
    parser=dataset_place,
)
"""A dataset that is read. An argument of type Path would make ``s3:/bucket`` of ``s3://bucket``."""


_DATASET: dict[str, Any] = {
    "metavar": "DATASET",
    "help": "Dataset folder or address, if it has moved.",
    "parser": dataset_place,
}
DatasetOption: Any = Option(None, **_DATASET)
"""The dataset of a suite."""


SuiteArgument: Any = Argument(
    ..., metavar="SUITE", help="Suite folder; nooch-coco, -words, -pope or -amber."
)
"""A suite that is read: a folder, or the one that comes with the package."""

SuiteOrDatasetArgument: Any = Argument(
    ..., metavar="SUITE", help="Suite folder, nooch-coco, or a dataset folder: all its images."
)

PredictionsArgument: Any = Argument(
    ..., metavar="PREDICTIONS...", help="Files of predictions of one or several models."
)

_OVERWRITE = "Replace that file, or a folder of nooch, kept as .NAME.old."
OverwriteOption: Any = Option(False, "--overwrite", help=_OVERWRITE)
EngineOption: Any = Option(
    None,
    help="Where jobs run: local[:N], ray[:ADDRESS], slurm[:PARTITION]; by default in this process.",
)
ProcessesOption: Any = Option(
    None, min=1, help="Parallel processes or readers; by default one for each CPU."
)
TaskMapOption: Any = Option(
    None, "--map", help="YAML of labels or prompts by task, imagenet, synonyms."
)
SettingsOption: Any = Option(
    [], "--set", help="name=value (YAML), overrides the file; repeat for several."
)
TasksOption: Any = Option(
    None,
    help="Tasks, separated by commas; default: all tasks with data.",
    autocompletion=complete_tasks,
)


class Format(StrEnum):
    """Output format of results."""

    text = "text"
    json = "json"


FormatOption: Any = Option(
    Format.text, "--format", help="text for people, json for programs (only on standard output)."
)


JunitOption: Any = Option(
    None, "--junit", help="JUnit XML file to write: a test case for each condition and task."
)


TauOption: Any = Option(
    None,
    metavar="TAU",
    help=(
        "gist: threshold on the cosine; context: on the log odds; scores: on the value; instead of"
        " --match. A number; or a"
        " table with task, positive, negative (.csv, .parquet, .json); or from:SUITE[:SPLIT], as"
        " recorded there (default: valid)."
    ),
)


def parse_classes(text: str | None, option: str) -> Sequence[str] | dict[str, tuple[str, ...]]:
    """``truck,bus``, for all tasks, or ``car=truck+bus,cup=table``, by task."""
    if text is None or "=" not in text:
        return split_names(text)
    pairs = parse_pairs(text, option, "car=truck+bus,cup=table")
    return {task: tuple(name.strip() for name in names.split("+")) for task, names in pairs.items()}


def parse_pairs(text: str | None, option: str, example: str) -> dict[str, str]:
    """``a=b,c=d`` as a dictionary."""
    pairs: dict[str, str] = {}
    for part in split_names(text):
        key, sign, value = part.partition("=")
        if not sign or not key.strip() or not value.strip() or key.strip() in pairs:
            raise ParameterError(
                f"{part!r} is not a pair",
                where=option,
                allowed=f"pairs such as {example}, each key once",
            )
        pairs[key.strip()] = value.strip()
    return pairs


def parse_cues(text: str | None) -> dict[str, tuple[str, ...]]:
    """``car=road,cup=person+dining_table`` as task -> cues."""
    pairs = parse_pairs(text, "--cues", "car=road,cup=person+dining_table")
    return {task: tuple(cue.strip() for cue in cues.split("+")) for task, cues in pairs.items()}


def parse_per_set(text: str) -> int | None:
    """A number, or ``all`` as None."""
    try:
        return None if text == "all" else int(text)
    except ValueError as error:
        allowed = "at least 1, or all"
        raise ParameterError(f"is {text!r}", where="--per-set", allowed=allowed) from error


def parse_range(text: str | None) -> tuple[float, float] | None:
    """``0,4095`` as two numbers; None if there is no text."""
    if text is None:
        return None
    try:
        low, high = map(float, text.split(","))
    except ValueError as error:
        allowed = "two numbers, LOW,HIGH, such as 0,4095"
        raise ParameterError(f"is {text!r}", where="--range", allowed=allowed) from error
    return low, high


def parse_grid(text: str | None, option: str) -> list[float]:
    """``0:0.2:20`` (from, to, how many) or ``0.05,0.1`` as numbers; none if there is no text."""
    if text is None:
        return []
    try:
        if ":" not in text:
            return [float(part) for part in split_names(text)]
        start, stop, count = text.split(":")
        return _steps(float(start), float(stop), int(count) - 1)
    except ValueError as error:
        raise ParameterError(
            f"{text!r} is not a grid",
            where=option,
            allowed="from:to:how many, such as 0:0.2:20, or numbers such as 0.05,0.1",
        ) from error


def grid(name: str, **words: Any) -> dict[str, Any]:
    """A setting that is typed as ``parse_grid`` reads it."""
    parse = partial(parse_grid, option=f"--{name}")
    return {"type": str, "metavar": "FROM:TO:COUNT | A,B", "parse": parse, **words}


def _steps(start: float, stop: float, steps: int) -> list[float]:
    """Numbers at equal distances; the last one is exactly ``stop``."""
    if steps < 1:
        raise ValueError("a range has two ends")
    return [start + i * (stop - start) / steps for i in range(steps)] + [stop]


def split_names(text: str | None) -> list[str]:
    """``a, b`` as a list without empty entries."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]


WORDS: dict[str, dict[str, Any]] = {
    "averages": {"flags": ["--average"]},
    "criteria": {"flags": ["--criterion"], "autocompletion": _names_in_suite("criteria")},
    "criterion": {"autocompletion": _names_in_suite("criteria")},
    "data": {"name": "dataset", "type": str, **_DATASET},
    "dataset": {"type": str, **_DATASET},
    "mean": {"type": str, "metavar": "R,G,B", "parse": partial(parse_grid, option="--mean")},
    "overwrite": {"help": _OVERWRITE},
    "range": {"type": str, "metavar": "LOW,HIGH", "parse": parse_range},
    "splits": {"flags": ["--split"]},
    "std": {"type": str, "metavar": "R,G,B", "parse": partial(parse_grid, option="--std")},
    "tasks": {"autocompletion": complete_tasks},
    "threshold": {"type": str},
}
"""Settings that are typed in another way than their name and annotation imply."""
