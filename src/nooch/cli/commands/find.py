"""``nooch find`` and ``nooch embed``."""

from __future__ import annotations

import builtins
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Option

from nooch.base.calls import Progress
from nooch.base.errors import ParameterError
from nooch.base.files import SUITE_MARKER, absolute, check_output
from nooch.cli import options as shared
from nooch.cli.progress_log import logs_of
from nooch.cli.terminal import note, progress, say

if TYPE_CHECKING:
    from nooch.data import Dataset


def find_command(
    dataset: str = shared.DatasetArgument,
    out: Path = Option(..., help="Suite folder to write; it must not exist."),
    criterion: list[str] = Option(
        ["ce"],
        help=(
            "ce, context, gist, attribute, scores, a combination ('ce & gist'), or"
            " package.module:Name."
        ),
    ),
    alpha: float = Option(0.05, help="ce: a cue's mean area beyond the class's own, a fraction."),
    beta: float = Option(0.1, help="ce: the area of cues that tells present from absent context."),
    cues: str = Option(None, help="ce: given cues, such as car=road,cup=person+dining_table."),
    encoder: str = shared.EncoderOption,
    precision: shared.Precision = shared.PrecisionOption,
    tau: str = shared.TauOption,
    lift: float = Option(
        None,
        help="context: hard negatives have more than this many times the usual odds; 3 by default.",
    ),
    source: str = Option(
        "labels", "--from", help="context: from the other labels, or from attribute columns."
    ),
    exclude: str = Option(
        None, help="context: classes that are none, such as vehicle, or car=vehicle+truck."
    ),
    include: str = Option(None, help="context: classes that are, though they imply the task's."),
    match: str = Option(
        None,
        help="Criterion whose counts of hard images the others match, or from:SUITE[:CRITERION].",
    ),
    phi: str = Option(None, help="attribute: true out of context, such as 'place != y'."),
    phi_preset: str = Option(
        None, "--preset", help="attribute: waterbirds, iwildcam, fmow, imagenet-a or breeds."
    ),
    columns: str = Option(None, help="attribute: columns of the preset, if named differently."),
    values: Path = Option(None, help="attribute: file of values for the preset, one per line."),
    scores: str = Option(None, help="scores: column of supports; {task} is the task's name."),
    tasks: str = shared.TaskSelectionOption,
    splits: str = Option(
        None, "--split", help="Splits to find in; by default valid and test, or all."
    ),
    calibration: Path = Option(
        None, help="ce: file of nooch calibrate, whose cues and betas are used."
    ),
    fitted: Path = Option(None, help="Suite whose fitted criteria are used, without a new fit."),
    allow_unannotated: bool = shared.AllowUnannotatedOption,
    stability: int = Option(0, min=0, help="ce: resamples for how sure cues are, such as 200."),
    overlay: list[Path] = shared.OverlayOption,
    engine: str = shared.EngineOption,
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
) -> None:
    """Find the challenge sets of a dataset."""
    check_output(out, overwrite=overwrite, marker=SUITE_MARKER)
    from nooch.base.engines import engine as engine_of
    from nooch.cli.criterion_options import CriterionOptions, needed_names, parse_tau, preset_text
    from nooch.cli.tables import print_found
    from nooch.criteria import Combination, Context
    from nooch.suites import load_suite
    from nooch.suites.find import find
    from nooch.suites.search import FindOptions, recorded_path

    base, combined = needed_names(criterion)
    thresholds = parse_tau(tau, base)
    expression = phi or preset_text(phi_preset, columns, values)
    known = None if fitted is None else load_suite(fitted)
    options = CriterionOptions(
        alpha, beta, shared.parse_cues(cues), thresholds, expression, scores, known
    )
    if "context" in base:
        if lift is not None and tau is not None:
            raise ParameterError("both are thresholds", where="--lift and --tau", allowed="one")
        matched = lift is None and (tau is not None or match not in (None, "context"))
        options.context = Context(
            None if matched else 3.0 if lift is None else lift,
            source=source,
            exclude=shared.parse_classes(exclude, "--exclude"),
            include=shared.parse_classes(include, "--include"),
        )
    of_context = {"--lift": lift, "--exclude": exclude, "--include": include}
    if "context" not in base and (idle := [flag for flag, value in of_context.items() if value]):
        problem = "has no effect without the context criterion"
        raise ParameterError(problem, where=", ".join(idle), remedy="give --criterion context")
    if calibration is not None:
        options.calibrate(calibration, dataset, base)
    note(*getattr(thresholds, "notes", ()))
    # absolute, so that workers in other folders find it too
    data: Dataset | str | Path = absolute(dataset)
    if tau is not None:
        options.check_tau(dataset, tasks)
    logs = None if engine is None else logs_of(out)
    with progress() as update:
        if "gist" in base and fitted is None:
            # workers need an embedding that is kept
            refused = note if engine is None else None
            data, options.embedding = _embedded(
                data, encoder, precision, update, engine, logs, refused
            )
        criteria = {n: options.make(n) for n in base} | {n: Combination(n) for n in combined}
        chosen, path = shared.split_names(splits) or None, recorded_path(dataset, out)
        suite = find(
            data,
            criteria,
            options=FindOptions(tasks, match, chosen, path, allow_unannotated, stability, overlay),
            out=out,
            overwrite=overwrite,
            map=builtins.map if engine is None else engine_of(engine, logs).map,
            progress=update,
        )
    print_found(suite, out, format, f"show {shlex.quote(str(out))}")


def embed_command(
    dataset: str = shared.DatasetArgument,
    encoder: str = Option(..., help="Encoder name or folder, or a file of embeddings."),
    precision: shared.Precision = shared.PrecisionOption,
    engine: str = shared.EngineOption,
) -> None:
    """Embed a dataset's captions, for the gist criterion. The embedding stays in its folder."""
    data = absolute(dataset)
    logs = logs_of(data) if engine is not None and isinstance(data, Path) else None
    with progress() as update:
        _, name = _embedded(data, encoder, precision, update, engine, logs)
    say(f"{dataset}: embedding {name}")


def _embedded(
    data: Dataset | str | Path,
    encoder: str | None,
    precision: str | None,
    update: Progress,
    engine: str | None,
    logs: Path | None,
    refused: Callable[[str], None] | None = None,
) -> tuple[Dataset, str]:
    """The dataset with the embedding asked for, and its name; parts are embedded by the engine.

    ``refused`` is called where the folder cannot be written; None makes that an error.
    """
    from nooch.base.engines import engine as engine_of
    from nooch.data import as_dataset
    from nooch.suites.embed import asked_embedding, embed

    opened, places = as_dataset(data), dict[str, Any]()
    asked = asked_embedding(encoder, opened.embedding_names, precision)
    if engine is not None and not isinstance(asked, str | Path):
        # a GPU serves one job at a time
        workers = engine_of(engine, logs, gpus=int(getattr(asked, "on_gpu", False)))
        places = {"map": workers.map, "threads": workers.threads}
    shown = partial(update, "embedding captions")
    return embed(opened, encoder, precision=precision, **places, progress=shown, note=refused)
