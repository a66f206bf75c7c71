"""Text of options -> values, with errors that quote the option."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer

from nooch.errors import NoochError, ParameterError
from nooch.files import Place, place

__all__ = [
    "AllowUnannotatedOption",
    "AnnotationsOption",
    "BatchOption",
    "BootstrapOption",
    "CodecOption",
    "CriterionOption",
    "DatasetArgument",
    "DatasetOption",
    "DeviceOption",
    "DpiOption",
    "EngineOption",
    "ImagesOption",
    "MethodsOption",
    "OverwriteOption",
    "Precision",
    "PrecisionOption",
    "ProcessesOption",
    "ResamplesSeedOption",
    "RuleOption",
    "ScaleOption",
    "SettingsOption",
    "SplitsOption",
    "StrictOption",
    "SuiteArgument",
    "TaskSelectionOption",
    "TasksOption",
    "dataset_place",
    "parse_cues",
    "parse_grid",
    "parse_pairs",
    "recorded_path",
    "split_names",
]


def dataset_place(text: str) -> Place:
    """A folder or an address, for arguments that name a dataset; typer's own error where it is
    neither.
    """
    try:
        return place(text)
    except NoochError as error:
        # typer would take a ValueError for one without a message
        raise typer.BadParameter(str(error)) from error


DatasetArgument: Any = typer.Argument(
    ...,
    metavar="DATASET",
    help="Dataset folder, or its address such as s3://bucket/data.",
    parser=dataset_place,
)
"""A dataset that is read. An argument of type Path would make ``s3:/bucket`` of ``s3://bucket``."""


DatasetOption: Any = typer.Option(
    None,
    "--dataset",
    metavar="DATASET",
    help="Dataset folder or address, where it is no longer where it was.",
    parser=dataset_place,
)
"""The dataset of a suite."""


SuiteArgument: Any = typer.Argument(..., metavar="SUITE", help="Suite folder, or nooch-coco.")
"""A suite that is read: a folder, or the one that comes with the package."""

ImagesOption: Any = typer.Option(
    None, "--images", help="Folder of images, where it is not the one that the dataset records."
)
AnnotationsOption: Any = typer.Option(
    [],
    "--annotations",
    help="COCO file that the dataset was made from, to shade cues; repeat for several.",
)
MethodsOption: Any = typer.Option(
    None,
    "--methods",
    metavar="A,B",
    help="Two methods to compare image by image: by default ERM and the best on hard.",
)
StrictOption: Any = typer.Option(
    False,
    "--strict",
    help=(
        "No average of a value that is undefined for a task; else such tasks are left out, and it"
        " says so."
    ),
)
OverwriteOption: Any = typer.Option(
    False, "--overwrite", help="Replace an earlier output; nothing else is replaced."
)
EngineOption: Any = typer.Option(
    None,
    "--engine",
    help=(
        "Where jobs run: local[:N], ray[:ADDRESS] or slurm[:PARTITION]; by default in this process."
    ),
)
ProcessesOption: Any = typer.Option(
    None, "--processes", min=1, help="Parallel processes or readers; by default one for each CPU."
)
DeviceOption: Any = typer.Option("auto", "--device", help="auto, cpu, cuda or cuda:N.")
BatchOption: Any = typer.Option(32, "--batch", min=1, help="Images in a batch.")
CodecOption: Any = typer.Option(
    "auto",
    "--codec",
    help=(
        "How images are decoded: fast (pip install 'nooch[pixels]'), pil, or auto: fast where it is"
        " there."
    ),
)
SettingsOption: Any = typer.Option(
    [], "--set", help="name=value (YAML), over the file; repeat for several."
)
TaskSelectionOption: Any = typer.Option(
    "all", "--tasks", help="all, nooch (the paper's 12), or classes separated by commas."
)
TasksOption: Any = typer.Option(
    None, "--tasks", help="Tasks, separated by commas; by default all that there is data for."
)
SplitsOption: Any = typer.Option(
    None, "--splits", help="Splits, separated by commas; by default all of the suite."
)
CriterionOption: Any = typer.Option(
    [], "--criterion", help="Criterion of the suite; by default all. Repeat for several."
)
RuleOption: Any = typer.Option(
    "worst-hard", "--rule", help="Which hyperparameters of runs: as for nooch collect."
)
ScaleOption: Any = typer.Option(
    None, "--scale", help="logit or probability: what a wide table of predictions holds."
)
BootstrapOption: Any = typer.Option(
    1000, "--bootstrap", min=0, help="Resamples for intervals; 0 for none."
)
ResamplesSeedOption: Any = typer.Option(0, "--seed", min=0, help="Seed of the resamples.")
DpiOption: Any = typer.Option(200, "--dpi", min=10, max=2400, help="Pixels for an inch, of PNG.")
AllowUnannotatedOption: Any = typer.Option(
    False,
    "--allow-unannotated",
    help=(
        "Continue also where more than half of a task's training positives or of a split's images"
        " were not annotated."
    ),
)


class Precision(StrEnum):
    """What a sentence encoder computes in."""

    float32 = "float32"
    bf16 = "bf16"


PrecisionOption: Any = typer.Option(
    None,
    "--precision",
    help=(
        "gist: what the encoder computes in, float32 by default; bf16 is faster where the device"
        " has it, and moves a few images."
    ),
)
"""The precision of captions' embeddings, for all commands that may make them."""


def recorded_path(dataset: Place, out: Path) -> str:
    """How a suite in ``out`` names its dataset: the way there, or the address."""
    return (
        os.path.relpath(dataset.resolve(), out.resolve())
        if isinstance(dataset, Path)
        else str(dataset)
    )


def parse_pairs(text: str | None, option: str, example: str) -> dict[str, str]:
    """``a=b,c=d`` as a dictionary."""
    pairs: dict[str, str] = {}
    for part in split_names(text):
        key, sign, value = part.partition("=")
        if not sign or not key.strip() or not value.strip() or key.strip() in pairs:
            raise ParameterError(
                f"{part!r} is no pair",
                where=option,
                allowed=f"pairs such as {example}, each key once",
            )
        pairs[key.strip()] = value.strip()
    return pairs


def parse_cues(text: str | None) -> dict[str, tuple[str, ...]]:
    """``car=road,cup=person+dining_table`` as task -> cues."""
    pairs = parse_pairs(text, "--cues", "car=road,cup=person+dining_table")
    return {task: tuple(cue.strip() for cue in cues.split("+")) for task, cues in pairs.items()}


def parse_grid(text: str | None, option: str) -> list[float]:
    """``0:0.2:20`` (from, to, how many) or ``0.05,0.1`` as numbers; none where there is no text."""
    if text is None:
        return []
    try:
        if ":" not in text:
            return [float(part) for part in split_names(text)]
        start, stop, count = text.split(":")
        return _steps(float(start), float(stop), int(count) - 1)
    except ValueError as error:
        raise ParameterError(
            f"{text!r} is no grid",
            where=option,
            allowed="from:to:how many, such as 0:0.2:20, or numbers such as 0.05,0.1",
        ) from error


def _steps(start: float, stop: float, steps: int) -> list[float]:
    """Numbers at equal distances; the last one is as it was written, whatever the steps add up to."""
    if steps < 1:
        raise ValueError("a range has two ends")
    return [start + i * (stop - start) / steps for i in range(steps)] + [stop]


def split_names(text: str | None) -> list[str]:
    """``a, b`` as a list without empty entries."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]
