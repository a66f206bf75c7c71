"""``nooch classes``, ``class-losses`` and ``select-tasks``: one network for all classes, what it
loses, and the tasks that follow.
"""

from __future__ import annotations

from pathlib import Path

import typer

from nooch.cli.option_parsing import (
    DatasetArgument,
    DeviceOption,
    OverwriteOption,
    SettingsOption,
    TaskSelectionOption,
    parse_pairs,
)
from nooch.cli.terminal_output import (
    Format,
    FormatOption,
    console,
    note,
    print_json,
    progress,
    table,
)
from nooch.errors import ParameterError, check_one_of
from nooch.files import SUITE_MARKER, Place, check_output, check_output_file
from nooch.plans import LOSS_SPLIT

__all__ = ["register"]

_SPLIT = typer.Option(LOSS_SPLIT, help="Split of the suite whose losses count.")
_METHOD = typer.Option(
    "erm", help="Of a folder of runs: the method whose jobs count, over all seeds."
)
_SCALE = typer.Option(None, help="logit or probability: what a wide table of predictions holds.")
_SOURCE = typer.Argument(
    ...,
    metavar="PREDICTIONS",
    help=(
        "Predictions for the classes (of nooch classes, or any model), or a folder of nooch bench."
    ),
)
_PAIRS = "cow=sheep,cup=bottle+wine_glass"
_PAPER, _PAPERS = "paper", "nooch"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("classes")(classes_command)
    app.command("class-losses")(losses_command)
    app.command("select-tasks")(select_command)


def classes_command(
    dataset: Place = DatasetArgument,
    pixels: Path = typer.Option(..., "--pixels", help="Folder of nooch pixels."),
    out: Path = typer.Option(..., "--out", help="Folder to write: predictions, network, metrics."),
    backbone: str = typer.Option(
        None, "--backbone", help="Hub id, folder, or config:NAME from scratch."
    ),
    tasks: str = TaskSelectionOption,
    config: Path = typer.Option(
        None, "--config", help="YAML file: optimiser, lr, batch, augment, ..."
    ),
    set_: list[str] = SettingsOption,
    seed: int = typer.Option(0, min=0, help="Of initialisation and order."),
    device: str = DeviceOption,
    overwrite: bool = OverwriteOption,
    format: Format = FormatOption,
) -> None:
    """Train one network with an output for each class (by default as the paper: Adam, 1e-3, batch
    16).
    """
    from nooch.benching.bench_config import read_settings
    from nooch.benching.class_network import CLASSES_MARKER, ClassNetworkOptions, train_classes
    from nooch.caches.pixels import PixelCache
    from nooch.cli.commands.bench import content_of
    from nooch.data import load_dataset
    from nooch.finding.suite_builder import resolve_tasks
    from nooch.models.backbones import choose_device
    from nooch.models.model_sources import DEFAULT
    from nooch.training.network_settings import ALL_CLASSES

    check_output(out, overwrite=overwrite, marker=CLASSES_MARKER)
    settings, device = read_settings(content_of(config, set_), ALL_CLASSES), choose_device(device)
    data = load_dataset(dataset)
    with progress() as update:
        train_classes(
            data,
            PixelCache.load(pixels, data),
            backbone or DEFAULT,
            out,
            options=ClassNetworkOptions(resolve_tasks(data, tasks), settings, seed, device),
            overwrite=overwrite,
            progress=update,
        )
    if format is Format.json:
        print_json({"out": str(out)})
        return
    console().print(
        f"{out}: next: nooch select-tasks SUITE {out}/predictions.parquet",
        style="dim",
        markup=False,
    )


def losses_command(
    suite: Path = typer.Argument(
        ..., metavar="SUITE", help="Suite folder, with sets of all classes."
    ),
    predictions: Path = _SOURCE,
    out: Path = typer.Option(
        None, "--out", help="Folder to write: losses.csv and losses.svg (the paper's Fig. 3)."
    ),
    split: str = _SPLIT,
    method: str = _METHOD,
    scale: str = _SCALE,
    overwrite: bool = OverwriteOption,
    format: Format = FormatOption,
) -> None:
    """Mean loss of each class on all images, positives, negatives, and the hard ones of each."""
    names = ("losses.csv", "losses.svg")
    files = (
        []
        if out is None
        else [check_output_file(out / name, overwrite=overwrite) for name in names]
    )
    from nooch.challenge import load_suite
    from nooch.files import replace_file
    from nooch.report.loss_figures import losses_figure
    from nooch.results.task_selection import losses_by_class

    losses = losses_by_class(
        load_suite(suite), predictions, split=split, method=method, scale=scale
    )
    if files:
        out.mkdir(parents=True, exist_ok=True)
        for file, content in zip(
            files, (losses.write_csv().encode(), losses_figure(losses)), strict=True
        ):
            replace_file(file, content)
    if format is Format.json:
        print_json({"split": split, "losses": losses.to_dicts()})
        return
    for (criterion,), part in losses.partition_by(
        ["criterion"], as_dict=True, maintain_order=True
    ).items():
        columns = [
            "task",
            "all",
            "positive",
            "hard_positive",
            "negative",
            "hard_negative",
            "positives",
            "hard_positives",
        ]
        console().print(
            table(
                f"Mean loss by class, {criterion} ({split})",
                columns,
                [list(row) for row in part.select(columns).rows()],
            )
        )
        for side in ("positive", "negative"):
            both = part.drop_nulls([side, f"hard_{side}"])
            above = int((both[f"hard_{side}"] > both[side]).sum())
            note(
                f"{criterion}: hard {side}s lose more than all {side}s in {above} of {both.height}"
                " classes"
            )


def select_command(
    suite: Path = typer.Argument(
        ..., metavar="SUITE", help="Suite folder, with sets of all classes."
    ),
    predictions: Path = _SOURCE,
    out: Path = typer.Option(..., "--out", help="Suite folder to write, of the chosen tasks."),
    criterion: str = typer.Option("ce", help="Criterion whose hard images count."),
    n: int = typer.Option(12, "--n", min=1, help="Tasks to choose."),
    min_hard: int = typer.Option(
        50, "--min-hard", min=0, help="Least hard positives, and hard negatives, of the split."
    ),
    similar: str = typer.Option(
        None,
        help=(
            f"Groups of which only the first in rank is taken, such as {_PAIRS}; nooch for the"
            " paper's groups."
        ),
    ),
    overlap: float = typer.Option(
        None,
        min=0,
        max=1,
        help="Largest overlap of context cues with a task that is taken; of ce alone.",
    ),
    like: str = typer.Option(
        None,
        help=(
            "paper: its rule, which is --split test --criterion ce --n 12 --min-hard 50 --similar"
            " nooch; no other values."
        ),
    ),
    split: str = _SPLIT,
    method: str = _METHOD,
    scale: str = _SCALE,
    overwrite: bool = OverwriteOption,
    format: Format = FormatOption,
) -> None:
    """Choose the tasks where hard images are hardest: the largest NLL(hard) - NLL(all)."""
    from nooch.challenge import load_suite, save_suite
    from nooch.results.task_selection import chosen_suite, losses_by_class
    from nooch.selection import paper_rule

    if like is not None:
        check_one_of("rule", like, [_PAPER])
        given = {
            "criterion": criterion,
            "n": n,
            "min-hard": min_hard,
            "split": split,
            "overlap": overlap,
        }
        _check_like_paper(given | {"similar": similar or _PAPERS})
        similar = _PAPERS
    check_output(out, overwrite=overwrite, marker=SUITE_MARKER)
    whole = load_suite(suite)
    losses = losses_by_class(whole, predictions, split=split, method=method, scale=scale)
    groups = (
        paper_rule(losses["task"].to_list())["similar"] if similar == _PAPERS else _groups(similar)
    )
    chosen, ranking = chosen_suite(
        whole, losses, criterion=criterion, n=n, min_hard=min_hard, similar=groups, overlap=overlap
    )
    save_suite(chosen, out, overwrite=overwrite)
    if format is Format.json:
        print_json({"suite": str(out), "tasks": list(chosen.tasks), "ranking": ranking.to_dicts()})
        return
    columns = ["task", "difference", "hard", "all", "hard_positives", "hard_negatives", "reason"]
    title = f"Tasks by NLL(hard) - NLL(all), {criterion} ({split}); {len(chosen.tasks)} chosen"
    console().print(table(title, columns, [list(row) for row in ranking.select(columns).rows()]))
    console().print(f"{out}: {', '.join(chosen.tasks)}", style="dim", markup=False)


def _check_like_paper(given: dict[str, object]) -> None:
    """Refuse options that say something else than the paper's rule."""
    from nooch.selection import paper_rule

    rule = paper_rule([])
    own = {
        "criterion": rule["criterion"],
        "n": rule["n"],
        "min-hard": rule["min_hard"],
        "split": LOSS_SPLIT,
    }
    own |= {"overlap": None, "similar": _PAPERS}
    if other := [f"--{name} {value}" for name, value in given.items() if value != own[name]]:
        raise ParameterError(
            f"{', '.join(other)} is not the paper's rule",
            where="--like paper",
            allowed=", ".join(
                f"--{name} {value}" for name, value in own.items() if value is not None
            ),
            remedy="leave --like out",
        )


def _groups(text: str | None) -> list[list[str]]:
    """Groups of similar tasks."""
    pairs = parse_pairs(text, "--similar", _PAIRS) if text else {}
    return [[task, *others.split("+")] for task, others in pairs.items()]
