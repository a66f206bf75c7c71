"""``nooch find`` and ``nooch tools embed``."""

from __future__ import annotations

import builtins
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Option

from nooch.base.calls import Progress
from nooch.base.errors import ParameterError
from nooch.base.files import SUITE_MARKER, absolute, check_output
from nooch.cli import options as shared
from nooch.cli.declared import takes
from nooch.cli.progress_log import logs_of
from nooch.cli.terminal import note, progress, say, show_progress

if TYPE_CHECKING:
    from nooch.data import Dataset


_CE, _GIST, _ATTRIBUTE = (f"Criterion {name}" for name in ("ce", "gist", "attribute"))


@takes("nooch.suites.find:find", leave=["path"])
@takes(
    "nooch.criteria.ce:CE",
    "ce",
    only=["alpha", "beta", "cues"],
    group=_CE,
    cues={"type": str, "metavar": "car=road,cup=person+dining_table"},
)
@takes("nooch.suites.embed:embed", "vectors", only=["precision"], group=_GIST)
@takes(
    "nooch.criteria.context:Context",
    "context",
    only=["lift", "source", "exclude", "include"],
    group="Criterion context",
    source={"flags": ["--from"]},
    lift={"default": None},
    exclude={"type": str, "metavar": "vehicle | car=vehicle+truck"},
    include={"type": str, "metavar": "vehicle | car=vehicle+truck"},
)
@takes("nooch.criteria.attribute:Attribute", "attribute", group=_ATTRIBUTE)
@takes(
    "nooch.criteria.scores:ContextScores",
    "scores",
    only=["column"],
    group="Criterion scores",
    column={"flags": ["--scores"]},
)
def find_command(
    dataset: str = shared.DatasetArgument,
    criterion: list[str] = Option(
        ["ce"],
        help=(
            "ce, context, gist, attribute, scores, a combination ('ce & gist'), or"
            " package.module:Name."
        ),
    ),
    out: Path = Option(..., help="Suite folder to write; it must not exist."),
    tau: str = shared.TauOption,
    encoder: str = Option(
        None, help="Encoder name or folder, an embedding of the dataset, or a file of embeddings.",
        rich_help_panel=_GIST,
    ),
    phi_preset: str = Option(
        None, "--preset", help="waterbirds, iwildcam, fmow, imagenet-a or breeds.",
        rich_help_panel=_ATTRIBUTE,
    ),
    columns: str = Option(
        None, help="Columns of the preset, if named differently.", rich_help_panel=_ATTRIBUTE
    ),
    values: Path = Option(
        None, help="File of values for the preset, one per line.", rich_help_panel=_ATTRIBUTE
    ),
    fitted: Path = Option(None, help="Suite whose fitted criteria are used, without a new fit."),
    engine: str = shared.EngineOption,
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
    *,
    settings: Any,
    ce: Any,
    vectors: Any,
    context: Any,
    attribute: Any,
    scores: Any,
) -> None:  # fmt: skip
    """Find the challenge sets of a dataset."""
    check_output(out, overwrite=overwrite, marker=SUITE_MARKER)
    from nooch.base.engines import engine as engine_of
    from nooch.cli.tables import print_suite
    from nooch.criteria import Combination
    from nooch.criteria.presences import COLUMNS
    from nooch.data import open_dataset
    from nooch.suites import load_suite
    from nooch.suites.criterion_options import (
        CriterionOptions,
        needed_names,
        parse_tau,
        preset_text,
    )
    from nooch.suites.find import find
    from nooch.suites.search import recorded_path

    base, combined = needed_names(criterion)
    thresholds = parse_tau(tau, base)
    options = CriterionOptions(
        ce | {"cues": shared.parse_cues(ce.get("cues"))}, thresholds,
        attribute.get("phi") or preset_text(phi_preset, shared.split_names(columns), values),
        scores.get("column"), None if fitted is None else load_suite(fitted),
    )  # fmt: skip
    for name in context.keys() & {"exclude", "include"}:
        context[name] = shared.parse_classes(context[name], f"--{name}")
    if "context" in base:
        options.set_context(context, matched=settings.get("match") not in (None, "context"))
    elif idle := [f"--{name}" for name in context if name != "source"]:
        problem = "has no effect without the context criterion"
        raise ParameterError(problem, where=", ".join(idle), give={"criterion": "context"})
    note(*getattr(thresholds, "notes", ()))
    if context.get("source") == COLUMNS:
        note(*open_dataset(dataset).id_notes)
    # absolute, so that workers in other folders find it too
    data: Dataset | str | Path = absolute(dataset)
    if tau is not None:
        options.check_tau(dataset, settings.get("tasks", "all"))
    logs = None if engine is None else logs_of(out)
    with progress() as update:
        if "gist" in base and fitted is None:
            # workers need an embedding that is kept
            refused = note if engine is None else None
            data, options.embedding = _embedded(
                data, encoder, vectors, update, engine, logs, refused
            )
        criteria = {n: options.make(n) for n in base} | {n: Combination(n) for n in combined}
        suite = find(
            data, criteria, path=recorded_path(dataset, out), out=out, overwrite=overwrite,
            map=builtins.map if engine is None else engine_of(engine, logs).map,
            progress=update, **settings,
        )  # fmt: skip
    print_suite(suite, out, format, f"show {shlex.quote(str(out))}")


@takes("nooch.suites.embed:embed", only=["precision"])
def embed_command(
    dataset: str = shared.DatasetArgument,
    encoder: str = Option(..., help="Encoder name or folder, or a file of embeddings."),
    engine: str = shared.EngineOption,
    *,
    settings: Any,
) -> None:
    """Embed a dataset's captions, for the gist criterion. The embedding stays in its folder."""
    data = absolute(dataset)
    logs = logs_of(data) if engine is not None and isinstance(data, Path) else None
    _, name = _embedded(data, encoder, settings, show_progress, engine, logs)
    say(f"{dataset}: embedding {name}")


def _embedded(
    data: Dataset | str | Path,
    encoder: str | None,
    settings: Mapping[str, Any],
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
    embedding = asked_embedding(encoder, opened.embedding_names, settings.get("precision"))
    if engine is not None and not isinstance(embedding, str | Path):
        # a GPU serves one job at a time
        workers = engine_of(engine, logs, gpus=int(getattr(embedding, "on_gpu", False)))
        places = {"map": workers.map, "threads": workers.threads}
    shown = partial(update, "embedding captions")
    return embed(opened, encoder, **settings, **places, progress=shown, note=refused)
