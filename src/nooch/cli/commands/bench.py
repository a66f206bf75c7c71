"""``nooch train bench``, ``status`` and ``collect``: train a grid of methods, score and select."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from nooch.base.engines import LocalEngine, engine as engine_of
from nooch.base.errors import ParameterError, check_one_of, some_of
from nooch.base.files import check_output_file
from nooch.base.words import counted
from nooch.cli import options as shared
from nooch.cli.declared import takes
from nooch.cli.progress_log import logs_of
from nooch.cli.runner import Output
from nooch.cli.terminal import hint, note, print_results, print_table, show_progress

if TYPE_CHECKING:
    from nooch.training.bench.config import BenchConfig
    from nooch.training.bench.plan import Plan

_TRAINED = ("features", "embedding", "pixels")
"""Inputs of which a bench has exactly one."""


@takes("nooch.training.bench.run:PlanSource", "inputs", only=[*_TRAINED, "backbone"])
def bench_command(
    inputs: Any,
    dataset: str = shared.DatasetArgument,
    suite: Path = shared.SuiteArgument,
    out: Path = Option(..., help="Folder of runs; an interrupted bench resumes."),
    config: Path = Option(None, help="YAML file: tasks, methods, seeds, lr, batch, ..."),
    set_: list[str] = shared.SettingsOption,
    method: list[str] = Option(
        [], help="A custom method, package.module:Name; repeat for several."
    ),
    device: str = Option(
        "auto",
        help="auto, cpu or cuda; with --engine, cuda is a GPU for each job, if there are any.",
    ),
    engine: str = shared.EngineOption,
    dry_run: bool = Option(
        False,
        "--dry-run",
        help="Check everything, list the jobs, estimate the disk space, and stop.",
    ),
) -> Output:
    """Train a grid of methods on the tasks of a suite. Heads on features, or whole networks."""
    from nooch.training.bench.run import PlanSource, bench, planned_for, status, training_device

    if len(inputs.keys() & _TRAINED) != 1:
        raise ParameterError(
            "what is trained?", allowed="--features FOLDER, --embedding NAME, or --pixels FOLDER"
        )
    of_pixels = "pixels" in inputs
    if "backbone" in inputs and not of_pixels:
        problem = "--backbone is for fine-tuning"
        raise ParameterError(problem, give=({"pixels": ...}, {"backbone": None}))
    if not of_pixels and (engine or "").partition(":")[0] == "local":
        # workers get ready meanwhile; the plan of heads itself needs no torch
        LocalEngine.warm("scipy.sparse", "torch")
    device = training_device(device, engine)
    bench_config = _config(config, set_, method, "finetune" if of_pixels else "probe")
    source = PlanSource(dataset, suite, bench_config, tuple(method), **inputs)
    # a login node has no GPU, nor needs one
    plan = source.plan(device if engine is None else "cpu")
    plan = plan if engine is None else planned_for(plan, bench_config.settings, device)
    if dry_run:
        yield from _planned(plan, bench_config)
        return
    places: dict[str, Any] = {}
    if engine is not None:
        workers = engine_of(engine, logs_of(out), gpus=int(device == "cuda"))
        # results on a GPU do not depend on threads, and pixels arrive faster without a limit
        places = {
            "map": workers.map,
            "again": partial(source.absolute().plan_in_worker, device),
            "threads": workers.threads if device == "cpu" else None,
        }
    runs = bench(plan, out, **places, progress=show_progress)
    yield lambda: {"runs": str(out), **status(runs)}
    done = f"{counted(len(plan.jobs), 'job')} done"
    hint(f"{out}: {done}; next: nooch train score {out} {suite} --out SCORES")


@takes(
    "nooch.report.results.collect:score_runs",
    only=["rules", "bootstrap"],
    rules={"flags": ["--rule"]},
)
def score_command(
    settings: Any,
    runs: Path = Argument(..., metavar="RUNS", help="Folder of runs."),
    suite: Path = shared.SuiteArgument,
    out: Path = Option(..., help="Folder to write: scores.parquet and selected.csv."),
    overwrite: bool = shared.OverwriteOption,
) -> Output:
    """Score finished jobs and choose hyperparameters. The choice uses only the validation split."""
    names = ("scores.parquet", "selected.csv")
    files = [check_output_file(out / name, overwrite=overwrite) for name in names]
    from nooch.data import csv_bytes, parquet_bytes
    from nooch.data.table_files import write_files
    from nooch.report.results.collect import score_runs
    from nooch.report.results.run_results import read_results
    from nooch.report.tables.method_tables import auc_tables, shown
    from nooch.suites import load_suite
    from nooch.training.records import RunsFolder
    from nooch.training.selection import RULES

    for rule in settings.get("rules", ()):
        check_one_of("rule", rule, RULES)
    challenge_suite = load_suite(suite)
    scores, selected, notes = score_runs(
        RunsFolder.open(runs), challenge_suite, progress=show_progress, **settings
    )
    write_files({files[0]: parquet_bytes(scores.table), files[1]: csv_bytes(selected)})
    note(*notes)
    yield {"scores": str(files[0]), "selected": selected.to_dicts(), "notes": notes}
    for rule in selected["rule"].unique(maintain_order=True):
        results = read_results(out, [challenge_suite], rule=rule)
        print_results([shown(table) for table in auc_tables(results)])
    hint(f"{out}: scores.parquet, selected.csv")


def content_of(file: Path | None, settings: list[str]) -> dict[str, Any]:
    """Names and values of a YAML file with what the command line sets over it."""
    from nooch.base.yaml_files import read_yaml, yaml_value

    content = {} if file is None else read_yaml(file)
    for text in settings:
        name, sign, value = text.partition("=")
        content[name.strip()] = yaml_value(value, f"--set {name}")
        if not sign:
            raise ParameterError(
                f"{text!r} is not a setting", where="--set", allowed="name=value, such as lr=0.001"
            )
    return content


def _config(file: Path | None, settings: list[str], own: list[str], mode: str) -> BenchConfig:
    """The configuration, with custom methods."""
    from nooch.training.bench.config import read_config
    from nooch.training.methods import PAPER_METHODS, add_method

    for name in own:
        add_method(name)
    content = content_of(file, settings)
    if own:
        # one that the file does not mention is tried with its usual values
        methods = content.get("methods", PAPER_METHODS)
        method_settings = methods if isinstance(methods, dict) else dict.fromkeys(methods)
        content["methods"] = {
            **method_settings,
            **{name: method_settings.get(name) for name in own},
        }
    return read_config(content, mode)


def _planned(plan: Plan, config: BenchConfig) -> Output:
    """Jobs, passes and disk."""
    from nooch.base.work_folder import size_in_words

    jobs, passes = list(plan.jobs.values()), [len(names) for names in plan.header.passes]
    tasks = list(dict.fromkeys(job.task for job in jobs))
    settings = {(job.method, job.setting) for job in jobs}
    yield {
        "jobs": len(jobs),
        "passes": passes,
        "tasks": tasks,
        "settings": len(settings),
        "seeds": list(config.seeds),
        "disk_bytes": plan.disk_bytes,
    }
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
        ["disk", f"{size_in_words(plan.disk_bytes)} of predictions"],
    ]
    print_table("What would be done", ["", ""], rows, left=2)


def status_command(runs: Path = Argument(..., metavar="RUNS", help="Folder of runs.")) -> Output:
    """Show the progress of a bench, by method and by pass."""
    from nooch.training.bench.run import status
    from nooch.training.records import RunsFolder

    facts = status(RunsFolder.open(runs))
    yield facts
    rows = [[method, n["done"], n["jobs"]] for method, n in facts["methods"].items()]
    done = f"{facts['done']:,} of {facts['jobs']:,} jobs done"
    print_table(done, ["method", "done", "jobs"], rows)
    listed = [
        [number, p["jobs"], p["done"], p["epochs"], p["stopped"]]
        for number, p in enumerate(facts["passes"], 1)
    ]
    print_table("Passes", ["pass", "jobs", "done", "epochs", "stopped"], listed)
