"""``nooch find``, ``nooch sweep`` and ``nooch tools embed``."""

from __future__ import annotations

import builtins
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Option

from nooch.base.calls import is_named
from nooch.base.errors import ParameterError, check_one_of
from nooch.base.files import SUITE_MARKER, SWEEP_MARKER, absolute, check_output
from nooch.cli import options as shared
from nooch.cli.declared import takes
from nooch.cli.progress_log import logs_of
from nooch.cli.runner import Output
from nooch.cli.terminal import hint, note, print_table, say, show_progress

if TYPE_CHECKING:
    from nooch.criteria import Fitted
    from nooch.criteria.by_name import Makers
    from nooch.data import Dataset
    from nooch.suites import Suite


_CLASSES = {"type": str, "metavar": "vehicle | car=vehicle+truck"}
_CE, _GIST, _ATTRIBUTE = (f"Criterion {name}" for name in ("ce", "gist", "attribute"))


@takes("nooch.suites.find:find", leave=["path"])
@takes(
    "nooch.criteria.ce:CE",
    "ce",
    only=["alpha", "beta", "cues"],
    group=_CE,
    cues={"type": str, "metavar": "car=road,cup=person+dining_table", "parse": shared.parse_cues},
)
@takes("nooch.suites.embed:embed", "vectors", only=["precision"], group=_GIST)
@takes(
    "nooch.criteria.context:Context",
    "context",
    only=["lift", "columns", "exclude", "include"],
    group="Criterion context",
    columns={"flags": ["--context"]},
    lift={"default": None},
    exclude={**_CLASSES, "parse": partial(shared.parse_classes, option="--exclude")},
    include={**_CLASSES, "parse": partial(shared.parse_classes, option="--include")},
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
    settings: Any,
    ce: Any,
    vectors: Any,
    context: Any,
    attribute: Any,
    scores: Any,
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
    preset_columns: str = Option(
        None, help="Columns of the preset, if named differently.",
        rich_help_panel=_ATTRIBUTE,
    ),
    values: Path = Option(
        None, help="File of values for the preset, one per line.", rich_help_panel=_ATTRIBUTE
    ),
    fitted: Path = Option(None, help="Suite whose fitted criteria are used, without a new fit."),
    engine: str = shared.EngineOption,
) -> Output:  # fmt: skip
    """Find the challenge sets of a dataset."""
    check_output(out, overwrite="overwrite" in settings, marker=SUITE_MARKER)
    from nooch import criteria as kinds
    from nooch.base.engines import engine as engine_of
    from nooch.cli.tables import print_suite
    from nooch.criteria.by_name import BY_NAME, criterion_of, parse_criteria
    from nooch.data import ALL, open_dataset
    from nooch.suites import load_suite
    from nooch.suites.find import find, unseen_note, unseen_pairs
    from nooch.suites.search import check_thresholds, recorded_path, resolve_tasks
    from nooch.suites.thresholds import parse_tau

    if tau is not None and "lift" in context:
        raise ParameterError("both are thresholds", where="`lift` and `tau`", allowed="one")
    matched = {"lift": None} if settings.get("match") not in (None, "context") else {}
    makers: Makers = {
        **BY_NAME,
        "ce": partial(kinds.CE, **ce),
        "context": partial(kinds.Context, **matched | context),
        "attribute": lambda: kinds.Attribute(_phi(phi_preset, preset_columns, values, **attribute)),
        "scores": partial(kinds.ContextScores, scores.get("column", "")),
    }
    make = partial(criterion_of, makers=makers)
    criteria = parse_criteria(criterion, partial(_fitted, load_suite(fitted)) if fitted else make)
    presets = {"preset": phi_preset, "preset_columns": preset_columns, "values": values}
    of_phi = [*attribute, *(name for name, value in presets.items() if value is not None)]
    _check_kinds(criterion, {"context": [*context], "attribute": of_phi})
    # absolute, so that workers in other folders find it too
    data: Dataset | str | Path = absolute(dataset)
    if tau is not None:
        taker, thresholds = parse_tau(tau, criteria)
        note(*thresholds.notes)
        # before captions are embedded for nothing
        classes, limits = open_dataset(dataset).classes, kinds.thresholds_of(thresholds.tau)
        tasks = resolve_tasks(classes, settings.get("tasks", "all"))
        check_thresholds({"`tau`": limits}, tasks, classes)
    if context.get("columns") == [ALL]:
        note(*open_dataset(dataset).id_notes)
    logs = None if engine is None else logs_of(out)
    if "gist" in criteria and fitted is None:
        # workers need an embedding that is kept
        refused = note if engine is None else None
        data, name = _embedded(data, encoder, vectors, engine, logs, refused)
        criteria["gist"] = kinds.Gist(name)
    if tau is not None:
        if isinstance(of_columns := criteria[taker], kinds.Context):
            criteria[taker] = of_columns.completed(open_dataset(dataset))
        criteria[taker] = thresholds.given_to(criteria[taker])
    suite = find(
        data, criteria, path=recorded_path(dataset, out), out=out,
        map=builtins.map if engine is None else engine_of(engine, logs).map,
        progress=show_progress, **settings,
    )  # fmt: skip
    opened = open_dataset(dataset)
    if opened.n_parts == 1:
        split = next((name for name in ("test", "valid") if name in opened.splits), "train")
        note(*unseen_note(unseen_pairs(opened, split)))
    yield from print_suite(suite, out, f"show {shlex.quote(str(out))}")


def _check_kinds(criterion: Sequence[str], options: Mapping[str, Sequence[str]]) -> None:
    """Raise ParameterError for options of a kind of criterion, by kind, that is not asked for."""
    kinds = {word for text in criterion for word in re.findall(r"\w+", text)}
    for kind, names in options.items():
        if names and kind not in kinds:
            problem = f"has no effect without the {kind} criterion"
            where = ", ".join(f"`{name}`" for name in names)
            raise ParameterError(problem, where=where, give={"criterion": kind})


def _phi(
    preset: str | None, columns: str | None, values: Path | None, phi: str | None = None
) -> str:
    """The condition that was typed, or the one of a preset."""
    if (phi is None) == (preset is None):
        problem = "the attribute criterion is one condition, such as 'place != y'"
        value = ... if phi is None else None
        raise ParameterError(problem, give=({"phi": value}, {"phi_preset": value}))
    from nooch.base.text_encoding import text_lines
    from nooch.criteria import phi_preset

    listed = [line.strip() for line in text_lines(values) if line.strip()] if values else []
    return phi or phi_preset(str(preset), shared.split_names(columns), listed)


def _fitted(suite: Suite, name: str) -> Fitted:
    """A criterion of a suite with its statistics. Raises ParameterError without any."""
    from nooch.criteria.by_name import custom_fitted

    record = suite.header.criteria[
        check_one_of("criterion", name, suite.criteria, owner="`fitted`")
    ]
    if is_named(name):
        return custom_fitted(name, record.fitted)
    if (restored := record.restored()) is None:
        raise ParameterError(
            f"{name} of the suite was not fitted: its sets were imported",
            where="`fitted`",
            allowed="a suite of nooch find",
        )
    return restored


@takes("nooch.suites.embed:embed", only=["precision"])
def embed_command(
    settings: Any,
    dataset: str = shared.DatasetArgument,
    encoder: str = Option(..., help="Encoder name or folder, or a file of embeddings."),
    engine: str = shared.EngineOption,
) -> Output:
    """Embed a dataset's captions, for the gist criterion. Stored in the dataset folder."""
    data = absolute(dataset)
    logs = logs_of(data) if engine is not None and isinstance(data, Path) else None
    _, name = _embedded(data, encoder, settings, engine, logs)
    yield {"embedding": name}
    say(f"{dataset}: embedding {name}")


def _embedded(
    data: Dataset | str | Path,
    encoder: str | None,
    settings: Mapping[str, Any],
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
    shown = partial(show_progress, "embedding captions")
    return embed(opened, encoder, **settings, **places, progress=shown, note=refused)


_MOST_ROWS = 30


_GRIDS = ("alpha", "beta", "tau", "lift")


@takes(
    "nooch.suites.sweep:sweep_thresholds",
    leave=["embedding"],
    alpha=shared.grid("alpha"),
    beta=shared.grid("beta"),
    tau=shared.grid("tau"),
    lift=shared.grid("lift"),
)
@takes("nooch.suites.embed:embed", "vectors", only=["precision"])
def sweep_command(
    settings: Any,
    vectors: Any,
    dataset: str = shared.DatasetArgument,
    out: Path = Option(..., help="Folder to write; it must not exist."),
    encoder: str = Option(
        None, help="gist: encoder, an embedding of the dataset, or a file of embeddings."
    ),
    overwrite: bool = shared.OverwriteOption,
) -> Output:  # fmt: skip
    """Count cues and hard images over alpha, beta, tau, lift. Also finds where sides are equal."""
    check_output(out, overwrite=overwrite, marker=SWEEP_MARKER)
    grids = {name: settings.pop(name, []) for name in _GRIDS}
    if encoder is not None and not grids["tau"]:
        problem, give = "an encoder is for the gist criterion", {"tau": "0:1:6"}
        raise ParameterError(problem, where="--encoder", give=give)
    import polars as pl

    from nooch.data import open_dataset
    from nooch.report.figures.sweeps import save_sweep
    from nooch.suites.embed import embed
    from nooch.suites.sweep import POOLED, grid_of, sweep_thresholds

    for name, values in grids.items():
        # before captions are embedded for nothing
        grid_of(name, values)

    data, embedding = open_dataset(dataset), None
    if grids["tau"]:
        shown = partial(show_progress, "embedding captions")
        data, embedding = embed(data, encoder, **vectors, progress=shown, note=note)
    sweep = sweep_thresholds(
        data.in_memory(), **grids, embedding=embedding, progress=show_progress, **settings
    )
    splits_counted = pl.concat([sweep.grid["split"], sweep.tau["split"], sweep.lift["split"]])
    about = {
        "dataset": data.fingerprint,
        **grids,
        "embedding": embedding,
        "tasks": settings.get("tasks", "all"),
        "splits": splits_counted.unique(maintain_order=True).to_list(),
    }
    save_sweep(sweep, out, about, overwrite=overwrite)
    yield {"sweep": str(out), **about, "equal": sweep.equal.to_dicts()}
    rows = sweep.equal.rows()
    if len(rows) > _MOST_ROWS:
        rows = [row for row in rows if row[0] == POOLED]
        hint(f"each task on its own: {out}/equal.parquet")
    if rows:
        columns = ["task", "split", "alpha", "beta", "P(hard | 1)", "P(hard | 0)", "imbalance"]
        print_table("Where both sides are hard equally often", columns, rows, left=2)
    elif grids["alpha"]:
        note("no point of the grid has hard images on both sides")
    hint(f"{out}: {', '.join(sorted(f.name for f in out.iterdir()))}")
