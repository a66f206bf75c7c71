"""``nooch bench`` and ``collect``: a grid of trainings on frozen features, and what came of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nooch.cli.number_words import counted, duration, human_size
from nooch.cli.option_parsing import (
    DatasetArgument,
    EngineOption,
    OverwriteOption,
    SettingsOption,
    SuiteArgument,
    split_names,
)
from nooch.cli.progress_log import logs_of
from nooch.cli.terminal_output import (
    Format,
    FormatOption,
    console,
    note,
    print_json,
    progress,
    table,
)
from nooch.engines import engine as engine_of
from nooch.errors import ParameterError, check_one_of, some_of
from nooch.files import Place, check_output_file

if TYPE_CHECKING:
    from nooch.benching.bench_config import BenchConfig
    from nooch.benching.bench_plan import Plan
    from nooch.benching.epoch_costs import EpochCost

__all__ = ["content_of", "register"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("bench")(bench_command)
    app.command("collect")(collect_command)


def bench_command(
    dataset: Place = DatasetArgument,
    suite: Path = SuiteArgument,
    out: Path = typer.Option(
        ..., "--out", help="Folder of runs; one that was begun so is gone on with."
    ),
    features: Path = typer.Option(
        None, "--features", help="Folder of nooch features: heads are trained on them."
    ),
    embedding: str = typer.Option(
        None, "--embedding", help="An embedding of the dataset, instead of features."
    ),
    pixels: Path = typer.Option(
        None, "--pixels", help="Folder of nooch pixels: whole networks are fine-tuned."
    ),
    backbone: str = typer.Option(
        None, "--backbone", help="With --pixels: hub id, folder, or config:NAME from scratch."
    ),
    config: Path = typer.Option(
        None, "--config", help="YAML file: tasks, methods, seeds, lr, batch, ..."
    ),
    set_: list[str] = SettingsOption,
    method: list[str] = typer.Option(
        [], "--method", help="A method of your own, package.module:Name; repeat."
    ),
    device: str = typer.Option(
        "auto",
        help=(
            "auto, cpu or cuda; with --engine, cuda is a GPU for each job, and auto takes those"
            " that there are."
        ),
    ),
    engine: str = EngineOption,
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Check everything, list jobs, estimate time and disk, and stop."
    ),
    format: Format = FormatOption,
) -> None:
    """Train all methods of a grid: as heads on frozen features, many in one pass, or by fine-tuning
    whole networks.
    """
    from nooch.benching.bench_run import bench, planned_for, status

    if [features, embedding, pixels].count(None) != 2:
        raise ParameterError(
            "what is trained?", allowed="--features FOLDER, --embedding NAME, or --pixels FOLDER"
        )
    if pixels is None and backbone is not None:
        raise ParameterError(
            "--backbone is for fine-tuning", remedy="give --pixels, or leave it out"
        )
    device = _device(device, engine)
    chosen = _config(config, set_, method, "probe" if pixels is None else "finetune")
    sources: dict[str, Any] = {
        "features": features,
        "embedding": embedding,
        "pixels": pixels,
        "backbone": backbone,
    }
    make = partial(
        _plan_elsewhere, method, dataset.absolute(), _whole(suite), chosen, device, sources
    )
    # a login node has no GPU, nor needs one
    here = device if engine is None else "cpu"
    plan = _plan(dataset, suite, chosen, here, **sources)
    plan = plan if engine is None else planned_for(plan, chosen.settings, device)
    if dry_run:
        _print_plan(plan, chosen, device if device == here else None, format)
        return
    places: dict[str, Any] = {}
    if engine is not None:
        made = _engine(engine, device, logs_of(out))
        # a GPU's work does not depend on them, and its pixels come the faster
        places = {
            "map": made.map,
            "again": make,
            "threads": made.threads if device == "cpu" else None,
        }
    with progress() as update:
        runs = bench(plan, out, **places, progress=update)
    if format is Format.json:
        print_json({"runs": str(out), **status(runs)})
        return
    console().print(
        f"{out}: {len(plan.jobs):,} jobs done; next: nooch collect {out} {suite} --out SCORES",
        style="dim",
        markup=False,
    )


def _device(device: str, engine: str | None) -> str:
    """Where jobs are trained: a device of this machine or, with an engine, cpu or cuda, of which
    each job has one.
    """
    from nooch.models.backbones import choose_device
    from nooch.models.pretrained import require_packages

    if engine is None:
        return choose_device(device)
    if device not in {"cpu", "cuda", "auto"}:
        raise ParameterError(
            f"--device {device} with --engine",
            allowed="auto, cpu, or cuda: each job has a GPU to itself",
        )
    require_packages()
    import torch

    built: bool = torch.backends.cuda.is_built()  # type: ignore[no-untyped-call]
    if device == "auto":
        # workers have the same packages; all jobs use the same kind of device: it is in their
        # records
        device = "cuda" if built and engine_of(engine).gpus_there() else "cpu"
    _engine(engine, device)
    return device


def _engine(engine: str, device: str, logs: Path | None = None) -> Any:
    return engine_of(engine, logs, gpus=int(device == "cuda"))


def _whole(suite: Path) -> Path:
    """Where workers in other folders find a suite; the name of one that comes with the package
    stays as it is.
    """
    from nooch.challenge import is_shipped

    return suite if is_shipped(suite) else suite.absolute()


def _plan_elsewhere(
    own: list[str],
    dataset: Place,
    suite: Path,
    config: BenchConfig,
    device: str,
    sources: dict[str, Any],
) -> Plan:
    """The plan in a worker, where methods of one's own are not known yet, and the device must be
    there.
    """
    from nooch.models.backbones import choose_device
    from nooch.training.methods import add_method

    for name in own:
        add_method(name)
    choose_device(device)
    return _plan(dataset, suite, config, device, **_absolute(sources))


def _absolute(sources: dict[str, Any]) -> dict[str, Any]:
    """Paths as workers find them, whatever folder they run in."""
    found = {
        name: value.absolute() if isinstance(value, Path) else value
        for name, value in sources.items()
    }
    if sources["backbone"] is not None:
        # a hub id, a folder, or config: with a name, a folder or a file
        kind, sign, name = str(sources["backbone"]).rpartition(":")
        found["backbone"] = f"{kind}{sign}{Path(name).absolute() if Path(name).exists() else name}"
    return found


def _plan(
    dataset: Place,
    suite: Path,
    config: BenchConfig,
    device: str,
    *,
    features: Path | None,
    embedding: str | None,
    pixels: Path | None,
    backbone: str | None,
) -> Plan:
    """What is asked for, of whichever kind."""
    from nooch.benching.bench_plan import plan_bench, plan_finetune
    from nooch.challenge import load_suite
    from nooch.data import load_dataset
    from nooch.models.model_sources import DEFAULT

    data, found = load_dataset(dataset), load_suite(suite)
    if pixels is not None:
        from nooch.caches.pixels import PixelCache

        cache = PixelCache.load(pixels, data)
        return plan_finetune(data, found, cache, backbone or DEFAULT, config, device=device)
    if features is not None:
        from nooch.caches.features import load_features

        return plan_bench(data, found, load_features(features, data), config, device=device)
    values = data.embeddings[
        check_one_of("embedding", str(embedding), data.embeddings, owner="the dataset")
    ]
    return plan_bench(
        data, found, values, config, features_name=f"embedding {embedding}", device=device
    )


def collect_command(
    runs: Path = typer.Argument(..., metavar="RUNS", help="Folder of runs."),
    suite: Path = SuiteArgument,
    out: Path = typer.Option(
        ..., "--out", help="Folder to write: scores.parquet and selected.csv."
    ),
    rules: str = typer.Option(
        "worst-hard",
        help="worst-hard (the paper's), mean, easy, auc-hard, worst-environment, oracle.",
    ),
    bootstrap: int = typer.Option(0, min=0, help="Resamples for intervals of the scores."),
    overwrite: bool = OverwriteOption,
    format: Format = FormatOption,
) -> None:
    """Score the jobs that are done, and choose each method's hyperparameters on the validation
    split.
    """
    files = [
        check_output_file(out / name, overwrite=overwrite)
        for name in ("scores.parquet", "selected.csv")
    ]
    from nooch.challenge import load_suite
    from nooch.files import replace_file
    from nooch.report import save_scores
    from nooch.results.score_collection import chosen_scores, collect
    from nooch.selection import RULES
    from nooch.training.run_records import RunsFolder

    wanted = split_names(rules)
    for rule in wanted:
        check_one_of("rule", rule, RULES)
    with progress() as update:
        scores, selected, notes = collect(
            RunsFolder.open(runs),
            load_suite(suite),
            rules=wanted,
            bootstrap=bootstrap,
            progress=update,
        )
    save_scores(scores, files[0], overwrite=overwrite)
    replace_file(files[1], selected.write_csv().encode())
    for text in notes:
        note(text)
    if format is Format.json:
        print_json({"scores": str(files[0]), "selected": selected.to_dicts(), "notes": notes})
        return
    for title, columns, rows in chosen_scores(scores, selected):
        console().print(table(title, columns, rows))
    console().print(f"{out}: scores.parquet, selected.csv", style="dim", markup=False)


def content_of(file: Path | None, given: list[str]) -> dict[str, Any]:
    """Names and values of a YAML file with what the command line sets over it."""
    import yaml

    from nooch.yaml_files import read_yaml

    content = {} if file is None else read_yaml(file)
    for text in given:
        name, sign, value = text.partition("=")
        try:
            content[name.strip()] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ParameterError(f"{value!r} is no YAML", where=f"--set {name}") from error
        if not sign:
            raise ParameterError(
                f"{text!r} is no setting", where="--set", allowed="name=value, such as lr=0.001"
            )
    return content


def _config(file: Path | None, given: list[str], own: list[str], mode: str) -> BenchConfig:
    """The configuration, with the user's own methods."""
    from nooch.benching.bench_config import read_config
    from nooch.training.methods import PAPER_METHODS, add_method

    for name in own:
        add_method(name)
    content = content_of(file, given)
    if own:
        # one that the file does not mention is tried with its usual values
        methods = content.get("methods", PAPER_METHODS)
        named = methods if isinstance(methods, dict) else dict.fromkeys(methods)
        content["methods"] = {**named, **{name: named.get(name) for name in own}}
    return read_config(content, mode)


def _print_plan(plan: Plan, config: BenchConfig, device: str | None, format: Format) -> None:
    """Jobs and passes; time, from what is timed now, if the device is here; disk."""
    cost = None if device is None else plan.cost()
    jobs, passes = list(plan.jobs.values()), [len(names) for names in plan.header.passes]
    tasks, epochs = list(dict.fromkeys(job.task for job in jobs)), config.settings.epochs
    settings = {(job.method, job.setting) for job in jobs}
    facts: dict[str, Any] = {
        "jobs": len(jobs),
        "passes": passes,
        "tasks": tasks,
        "settings": len(settings),
        "seeds": list(config.seeds),
        "seconds_per_epoch": None if cost is None else cost.seconds,
        "seconds_per_step": None if cost is None else cost.step_seconds,
        "steps_per_epoch": None if cost is None else cost.steps,
        "measured": None if cost is None else cost.measured,
        "most_epochs": epochs,
        "disk_bytes": plan.disk_bytes,
    }
    if format is Format.json:
        print_json(facts)
        return
    methods = len({method for method, _ in settings})
    product = (
        f"{counted(len(tasks), 'task')} x {counted(len(settings), 'setting')} of"
        f" {counted(methods, 'method')}"
    )
    sizes = [f"{passes.count(size):,} of {counted(size, 'job')}" for size in dict.fromkeys(passes)]
    rows = [
        ["jobs", f"{len(jobs):,}: {product} x {counted(len(config.seeds), 'seed')}"],
        ["tasks", some_of(tasks, 12)],
        ["passes", f"{len(passes):,}: {some_of(sizes, 6)}"],
        *([] if cost is None else _times(cost, config)),
        ["disk", f"{human_size(plan.disk_bytes)} of predictions"],
    ]
    console().print(table("What would be done", ["", ""], rows, left=2))
    note(
        "how long it takes cannot be estimated: the GPUs are not here"
        if cost is None
        else (
            f"timed now on {device}: {cost.measured}; jobs stop early, so the last figure is the"
            " most that it takes"
        )
    )


def _times(cost: EpochCost, config: BenchConfig) -> list[list[Any]]:
    """What an epoch takes, in words."""
    rows = []
    if cost.steps is not None and cost.step_seconds is not None:
        step = f"{duration(cost.step_seconds)} for {counted(config.settings.batch, 'image')}"
        validation = duration((cost.evaluations or 0) * (cost.evaluation_seconds or 0))
        rows += [
            ["a step", step],
            [
                "an epoch of a job",
                (
                    f"{duration(cost.steps * cost.step_seconds)} for {counted(cost.steps, 'step')},"
                    f" {validation} for validation"
                ),
            ],
        ]
    most, epochs = duration(cost.seconds * config.settings.epochs), config.settings.epochs
    return [
        *rows,
        ["an epoch of all jobs", duration(cost.seconds)],
        [f"at most {counted(epochs, 'epoch')}", most],
    ]
