"""``nooch paper class-network``, ``select-tasks``: one network, and tasks by its losses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer import Argument, Option

from nooch.base.errors import check_one_of, some_of
from nooch.base.files import SUITE_MARKER, check_output
from nooch.base.split_plan import LOSS_SPLIT
from nooch.base.words import counted
from nooch.cli import options as shared
from nooch.cli.declared import takes
from nooch.cli.prediction_options import read_predictions, with_reading
from nooch.cli.runner import Output
from nooch.cli.terminal import hint, note, print_table, show_progress

_SOURCE = Argument(
    ...,
    metavar="PREDICTIONS",
    help=(
        "Predictions for the classes (of nooch paper class-network, or any model), or a folder of"
        " nooch train bench."
    ),
)
_PAIRS = "cow=sheep,cup=bottle+wine_glass"
_PAPERS = "nooch"


@takes("nooch.paper.class_network:train_classes", only=["seed", "overwrite"])
def class_network_command(
    settings: Any,
    dataset: str = shared.DatasetArgument,
    pixels: Path = Option(..., help="Folder of nooch train pixels."),
    out: Path = Option(..., help="Folder to write: predictions, network, metrics."),
    backbone: str = Option(None, help="Hub id, folder, config:NAME, or package.module:Name."),
    tasks: str = Option("all", help="all, nooch (the paper's 12), or classes, by commas."),
    config: Path = Option(None, help="YAML file: optimiser, lr, batch, augment, ..."),
    set_: list[str] = shared.SettingsOption,
    device: str = Option("auto", help="auto, cpu, cuda or cuda:N."),
) -> Output:
    """Train one network with an output for each class. The defaults are the paper's."""
    from nooch.cli.commands.bench import content_of
    from nooch.data import load_dataset
    from nooch.models.caches.pixels import PixelCache
    from nooch.models.devices import choose_device
    from nooch.models.sources import DEFAULT
    from nooch.paper.class_network import ALL_CLASSES, CLASSES_MARKER, train_classes
    from nooch.suites.search import resolve_tasks
    from nooch.training.bench.config import read_settings

    check_output(out, overwrite="overwrite" in settings, marker=CLASSES_MARKER)
    network, device = read_settings(content_of(config, set_), ALL_CLASSES), choose_device(device)
    data = load_dataset(dataset)
    train_classes(
        data, PixelCache.load(pixels, data), backbone or DEFAULT, out,
        tasks=resolve_tasks(data.classes, tasks), settings=network, device=device,
        progress=show_progress, **settings,
    )  # fmt: skip
    left = json.loads((out / CLASSES_MARKER).read_text(encoding="utf-8"))["left_out"]
    if left:
        note(
            f"left out, as a label is unknown in train or valid, or all of train have the same:"
            f" {counted(len(left), 'class')}: {some_of(left)}"
        )
    yield {"out": str(out)}
    hint(f"{out}: next: nooch paper select-tasks SUITE {out}/predictions.parquet")


@takes("nooch.training.selection:select_tasks", only=["criterion", "n", "min_hard"])
@takes("nooch.report.results.collect:losses_by_class", "counted_losses", only=["method"])
@with_reading
def select_tasks_command(
    settings: Any,
    counted_losses: Any,
    reading: Any,
    suite: Path = Argument(..., metavar="SUITE", help="Suite folder, with sets of all classes."),
    predictions: Path = _SOURCE,
    out: Path = Option(..., help="Suite folder to write, of the chosen tasks."),
    similar: str = Option(
        None, help=f"Groups with one task each, such as {_PAIRS}; nooch for the paper's groups."
    ),
    like: str = Option(
        None, help="paper sets --split test --criterion ce --n 12 --min-hard 50 --similar nooch."
    ),
    split: str = Option(None, help="Split of the suite whose losses count; test by default."),
    overwrite: bool = shared.OverwriteOption,
) -> Output:
    """Choose the tasks whose hard images are hardest, by NLL(hard) - NLL(all)."""
    from nooch.report.results.collect import losses_by_class
    from nooch.suites import load_suite, save_suite
    from nooch.training.selection import chosen_suite, paper_rule, uneven_runs

    if like is not None:
        check_one_of("rule", like, ["paper"])
        similar, split = _PAPERS, LOSS_SPLIT
    check_output(out, overwrite=overwrite, marker=SUITE_MARKER)
    whole = load_suite(suite)
    (split,) = whole.splits_to_score(split)
    runs = _runs(predictions, reading, whole)
    losses = losses_by_class(whole, runs, split=split, **counted_losses)
    note(*uneven_runs(losses))
    papers = paper_rule(losses["task"].to_list())
    if similar == _PAPERS:
        groups = papers["similar"]
    else:
        pairs = shared.parse_pairs(similar, "--similar", _PAIRS)
        groups = [[task, *others.split("+")] for task, others in pairs.items()]
    rule = {**settings, "similar": groups} if like is None else papers
    selected, ranking = chosen_suite(whole, losses, **rule)
    save_suite(selected, out, overwrite=overwrite)
    yield {"suite": str(out), "tasks": list(selected.tasks), "ranking": ranking.to_dicts()}
    columns = ["task", "difference", "hard", "all", "hard_positives", "hard_negatives", "reason"]
    description = f"{rule['criterion']} ({split}); {len(selected.tasks)} chosen"
    title = f"Tasks by NLL(hard) - NLL(all), {description}"
    print_table(title, columns, ranking[columns].rows())
    hint(f"{out}: {', '.join(selected.tasks)}")


def _runs(source: Path, reading: Any, suite: Any) -> Any:
    """The runs of a file of predictions, or a folder of runs as it is."""
    from nooch.training.records import RUNS_MARKER

    is_bench = (source / RUNS_MARKER).is_file()
    return source if is_bench else read_predictions([source], reading, suite)
