"""``nooch evaluate``: any model's predictions scored on a suite."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from nooch.cli.option_parsing import (
    CriterionOption,
    DatasetOption,
    OverwriteOption,
    ResamplesSeedOption,
    ScaleOption,
    StrictOption,
    SuiteArgument,
    TasksOption,
    split_names,
)
from nooch.cli.terminal_output import console, note, print_json, progress, table
from nooch.errors import ParameterError, check_one_of
from nooch.files import Place, check_output_file

if TYPE_CHECKING:
    import polars as pl

    from nooch.challenge import Suite
    from nooch.evaluation import ConditionVerdict, Scores

__all__ = ["register"]

_WIDE = 1000


class ScoreFormat(StrEnum):
    """How scores are printed."""

    text = "text"
    json = "json"
    markdown = "markdown"
    latex = "latex"
    csv = "csv"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("evaluate")(evaluate_command)


def evaluate_command(
    suite: Path = SuiteArgument,
    predictions: list[Path] = typer.Argument(
        ...,
        metavar="PREDICTIONS...",
        help="Long or wide tables (CSV, Parquet) or .npz; several are compared.",
    ),
    split: str = typer.Option(None, help="Splits to score, separated by commas; test by default."),
    out: Path = typer.Option(
        None, "--out", help="File of scores: .parquet, .csv, .json, .md or .tex."
    ),
    bootstrap: int = typer.Option(
        0,
        min=0,
        help=(
            "Resamples for 95 % intervals; 1000 is usual. Without, the error alone has one:"
            " Wilson's."
        ),
    ),
    seed: int = ResamplesSeedOption,
    fail_if: list[str] = typer.Option(
        [],
        "--fail-if",
        help='Exit code 1 if this holds or is undefined anywhere, such as "auc@hard[ce,car]<0.85".',
    ),
    junit: Path = typer.Option(None, "--junit", help="JUnit XML of --fail-if."),
    scale: str = ScaleOption,
    criterion: list[str] = CriterionOption,
    tasks: str = TasksOption,
    metrics: str = typer.Option(
        None, help="Metrics to take and show; by default all are taken, AUC and NLL shown."
    ),
    average: list[str] = typer.Option(
        [],
        "--average",
        help=(
            "Average over hard and easy under uniform, a split's shares, or"
            " NAME:hard_positive=0.1,..."
        ),
    ),
    by: str = typer.Option(
        None, help="Attribute columns of the dataset by whose values scores are given too."
    ),
    dataset: Place = DatasetOption,
    baseline: str = typer.Option(
        None, help="Run that the others are compared with; the first by default."
    ),
    ignore_unknown: bool = typer.Option(
        False, "--ignore-unknown", help="Leave out images and tasks that the suite does not have."
    ),
    strict: bool = StrictOption,
    threads: int = typer.Option(
        None, min=1, help="Tasks scored at once; by default all processors with --bootstrap."
    ),
    overwrite: bool = OverwriteOption,
    format: ScoreFormat = typer.Option(
        ScoreFormat.text, "--format", help="How scores are printed."
    ),
) -> None:
    """Score predictions on a suite: hard against easy, with counts, intervals and differences
    between runs.
    """
    for path in (out, junit):
        if path is not None:
            check_output_file(path, overwrite=overwrite)
    _check_junit(junit, out, fail_if)
    from nooch.challenge import load_suite
    from nooch.evaluation import EvaluateOptions, check_names, evaluate, judge, parse_condition
    from nooch.metrics import METRICS
    from nooch.report import SCORE_FILES, junit_xml, save_scores, write_file

    if out is not None:
        check_one_of("ending of a scores file", out.suffix, SCORE_FILES)
    conditions = [parse_condition(text) for text in fail_if]
    found = load_suite(suite)
    for condition in conditions:
        check_names(condition, found)
    wanted = list(dict.fromkeys(split_names(metrics)))
    with progress() as update:
        scores = evaluate(
            found,
            predictions,
            options=EvaluateOptions(
                split=list(dict.fromkeys(split_names(split))) or None,
                criteria=criterion or None,
                tasks=split_names(tasks) or None,
                metrics=wanted or METRICS,
                bootstrap=bootstrap,
                seed=seed,
                baseline=baseline,
                averages=average,
                by=split_names(by),
                attributes=_attributes(found, suite, dataset) if by else None,
                scale=scale,
                ignore_unknown=ignore_unknown,
                strict=strict,
                threads=threads,
            ),
            progress=update,
        )
    verdicts = judge(scores, conditions, found)
    shown = wanted or ("auc", "nll")
    if out is not None:
        save_scores(scores, out, metrics=shown, overwrite=overwrite)
    if junit is not None:
        write_file(junit, junit_xml(verdicts))
    _print(scores, verdicts, shown, format)
    if out is not None and format is ScoreFormat.text:
        console().print(f"{out}: {len(scores):,} values", style="dim", markup=False)
    if any(verdict.fired for verdict in verdicts):
        raise typer.Exit(1)


def _check_junit(junit: Path | None, out: Path | None, fail_if: list[str]) -> None:
    if junit is None:
        return
    if not fail_if:
        raise ParameterError(
            "there is no condition to report", where="--junit", remedy="give --fail-if"
        )
    if out is not None and junit.absolute() == out.absolute():
        raise ParameterError("is the file of --out", where="--junit", remedy="name another file")


def _attributes(found: Suite, suite: Path, dataset: Place | None) -> pl.DataFrame:
    """Attributes of the dataset's images."""
    from nooch.data import load_dataset
    from nooch.finding.suite_summary import recorded_dataset

    data = load_dataset(dataset) if dataset is not None else recorded_dataset(found, suite)
    if data is None:
        raise ParameterError(
            "--by needs the dataset, which is not where it was", remedy="give --dataset"
        )
    return data.images


def _print(
    scores: Scores,
    verdicts: list[ConditionVerdict],
    metrics: list[str] | tuple[str, ...],
    format: ScoreFormat,
) -> None:
    from nooch.report import as_json, latex, markdown, printable, tables_of

    for text in scores.notes:
        note(printable(text))
    failed = [verdict for verdict in verdicts if verdict.fired]
    if format is ScoreFormat.json:
        listed = [
            {"condition": v.condition.text, **_place(v), "value": v.value, "reason": v.reason}
            for v in failed
        ]
        print_json({**as_json(scores), "conditions": len(verdicts), "failed": listed})
        return
    if format is ScoreFormat.csv:
        print(scores.table.write_csv(), end="")  # noqa: T201 - what was asked for goes to standard output
    elif format is ScoreFormat.text:
        screen = console()
        if not screen.is_terminal:
            # nothing is cut or folded in a file
            screen.width = _WIDE
        for shown in tables_of(scores, metrics):
            screen.print(
                table(
                    shown.title,
                    list(shown.columns),
                    [list(row) for row in shown.rows],
                    left=shown.left,
                )
            )
    else:
        write = markdown if format is ScoreFormat.markdown else latex
        print(write(tables_of(scores, metrics)), end="")  # noqa: T201 - what was asked for goes to standard output
    for verdict in failed:
        where = ", ".join(_place(verdict).values())
        note(printable(f"failed: {verdict.condition.text}: {where}: {verdict.reason}"))
    if verdicts and not failed:
        note(f"none of {len(verdicts)} values fires --fail-if")


def _place(verdict: ConditionVerdict) -> dict[str, str]:
    return {
        "run": verdict.run,
        "criterion": verdict.criterion,
        "task": verdict.task,
        "split": verdict.split,
    }
