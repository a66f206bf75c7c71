"""``nooch find`` and ``nooch embed``."""

from __future__ import annotations

import builtins
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nooch.cli.option_parsing import (
    AllowUnannotatedOption,
    DatasetArgument,
    EngineOption,
    OverwriteOption,
    Precision,
    PrecisionOption,
    TaskSelectionOption,
    recorded_path,
    split_names,
)
from nooch.cli.progress_log import logs_of, watched
from nooch.cli.terminal_output import Format, FormatOption, console, note, print_json
from nooch.files import SUITE_MARKER, Place, check_output
from nooch.shared_types import Progress

if TYPE_CHECKING:
    from nooch.challenge import Suite
    from nooch.data import Dataset

__all__ = ["embedded", "register"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("find")(find_command)
    app.command("embed")(embed_command)


def find_command(
    dataset: Place = DatasetArgument,
    out: Path = typer.Option(..., "--out", help="Suite folder to write; it must not exist."),
    criterion: list[str] = typer.Option(
        ["ce"],
        "--criterion",
        help=(
            "ce, gist, attribute, scores, a combination such as 'ce & gist', or your own"
            " package.module:Name."
        ),
    ),
    alpha: float = typer.Option(
        0.05, help="ce: a cue's mean area beyond the class's own, a fraction of the image."
    ),
    beta: float = typer.Option(
        0.1, help="ce: the area of cues that tells present from absent context."
    ),
    cues: str = typer.Option(
        None, help="ce: cues given by hand, such as car=road,cup=person+dining_table."
    ),
    encoder: str = typer.Option(
        None,
        help="gist: encoder name or folder, an embedding of the dataset, or a file of embeddings.",
    ),
    precision: Precision = PrecisionOption,
    tau: str = typer.Option(
        None,
        metavar="TAU",
        help=(
            "gist: threshold on the cosine; scores: on the value; instead of --match. A number; or"
            " a table with task, positive, negative (.csv, .parquet, .json); or from:SUITE[:SPLIT],"
            " as recorded there (default: valid)."
        ),
    ),
    match: str = typer.Option(None, help="Criterion whose counts of hard images the others match."),
    phi: str = typer.Option(
        None, help="attribute: expression that is true out of context, such as 'place != y'."
    ),
    phi_preset: str = typer.Option(
        None,
        "--preset",
        help="attribute: waterbirds, iwildcam, fmow, imagenet-a or breeds (the paper's Table 1).",
    ),
    columns: str = typer.Option(
        None, help="attribute: columns of the preset, where yours have other names."
    ),
    values: Path = typer.Option(
        None, help="attribute: file of values for the preset, one in each line."
    ),
    scores: str = typer.Option(
        None,
        help=(
            "scores: attribute column of supports, larger = a more usual context; {task} in it is"
            " the task's name."
        ),
    ),
    tasks: str = TaskSelectionOption,
    splits: str = typer.Option(None, help="Splits to find in; by default valid and test, or all."),
    fitted: Path = typer.Option(
        None, help="Suite whose fitted criteria are used instead of fitting anew."
    ),
    allow_unannotated: bool = AllowUnannotatedOption,
    engine: str = EngineOption,
    overwrite: bool = OverwriteOption,
    format: Format = FormatOption,
) -> None:
    """Find the challenge sets of a dataset."""
    check_output(out, overwrite=overwrite, marker=SUITE_MARKER)
    from nooch.cli.criterion_options import Options, needed_names, parse_tau, preset_text
    from nooch.criteria import Combination
    from nooch.data import open_dataset
    from nooch.engines import engine as engine_of
    from nooch.finding.suite_builder import FindOptions, find, resolve_tasks

    base, combined = needed_names(criterion)
    thresholds = parse_tau(tau, base)
    options = Options(
        alpha,
        beta,
        cues,
        thresholds,
        phi or preset_text(phi_preset, columns, values),
        scores,
        fitted,
    )
    for text in getattr(thresholds, "notes", ()):
        note(text)
    # absolute, so that workers in other folders find it too
    data = open_dataset(dataset.absolute())
    options.check_tau(resolve_tasks(data, tasks), data.classes)
    logs = None if engine is None else logs_of(out)
    with watched(logs) as update:
        if "gist" in base and fitted is None:
            # workers need an embedding that is kept
            data, options.embedding = embedded(
                data, encoder, precision, update, engine, logs, optional=engine is None
            )
        suite = find(
            data,
            {n: options.make(n) for n in base} | {text: Combination(text) for text in combined},
            options=FindOptions(
                tasks,
                match,
                split_names(splits) or None,
                recorded_path(dataset, out),
                allow_unannotated,
            ),
            out=out,
            overwrite=overwrite,
            map=builtins.map if engine is None else engine_of(engine, logs).map,
            progress=update,
        )
    _tell(suite, out, format)


def _tell(suite: Suite, out: Path, format: Format) -> None:
    from nooch.cli.terminal_tables import print_counts
    from nooch.finding.suite_summary import summary

    if format is Format.json:
        print_json({"suite": str(out), **summary(suite, with_overlap=False)})
        return
    print_counts(suite)
    following = (
        f"{out}: {len(suite.header.sets)} challenge sets; next: nooch show {shlex.quote(str(out))}"
    )
    console().print(following, style="dim", markup=False)


def embed_command(
    dataset: Place = DatasetArgument,
    encoder: str = typer.Option(..., help="Encoder name or folder, or a file of embeddings."),
    precision: Precision = PrecisionOption,
    engine: str = EngineOption,
) -> None:
    """Embed a dataset's captions and keep the embedding in its folder."""
    from nooch.data import open_dataset

    data = open_dataset(dataset.absolute())
    logs = logs_of(dataset) if engine is not None and isinstance(dataset, Path) else None
    with watched(logs) as update:
        _, name = embedded(data, encoder, precision, update, engine, logs)
    console().print(f"{dataset}: embedding {name}", markup=False)


def embedded(
    data: Dataset,
    encoder: str | None,
    precision: str | None,
    update: Progress,
    engine: str | None = None,
    logs: Path | None = None,
    *,
    optional: bool = False,
) -> tuple[Dataset, str]:
    """The dataset with the embedding that was asked for, kept in its folder, and the embedding's
    name.

    Args:
        data: of ``open_dataset``.
        encoder: as for ``nooch.embed``.
        precision: as for ``nooch.embed``.
        update: progress.
        engine: where parts are embedded.
        logs: of the engine.
        optional: a note, not an error, where the folder cannot be written.
    """
    from nooch.engines import engine as engine_of
    from nooch.finding.dataset_embedding import asked_embedding, embed

    places: dict[str, Any] = {}
    asked = asked_embedding(encoder, data.embedding_names, precision)
    if engine is not None and not isinstance(asked, str | Path):
        # a GPU serves one job at a time
        made = engine_of(engine, logs, gpus=int(getattr(asked, "on_gpu", False)))
        places = {"map": made.map, "threads": made.threads}
    return embed(
        data,
        encoder,
        precision=precision,
        **places,
        progress=lambda done, total: update("embedding captions", done, total),
        note=note if optional else None,
    )
