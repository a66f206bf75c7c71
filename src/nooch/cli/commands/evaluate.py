"""``nooch evaluate``: any model's predictions scored on a suite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer import Argument, Option

from nooch.base.errors import ParameterError, check_one_of
from nooch.base.files import check_output_file
from nooch.base.words import counted
from nooch.cli import options as shared
from nooch.cli.prediction_options import read_predictions, with_reading
from nooch.cli.terminal import hint, note, print_json, print_shown, print_text, progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nooch.evaluation import ConditionVerdict, Scores


@with_reading
def evaluate_command(
    suite: Path = shared.SuiteArgument,
    predictions: list[Path] = Argument(
        ..., metavar="PREDICTIONS...", help="Long or wide tables or .npz; several are compared."
    ),
    split: str = Option(None, help="Splits to score, separated by commas; test by default."),
    out: Path = Option(None, help="File of scores: .parquet, .csv, .json, .md or .tex."),
    bootstrap: int = Option(0, min=0, help="Resamples for 95 % intervals, such as 1000."),
    seed: int = shared.ResamplesSeedOption,
    fail_if: list[str] = Option(
        [], help='Exit code 1 if it holds or is undefined, such as "auc@hard[ce,car]<0.85".'
    ),
    criterion: list[str] = shared.CriterionOption,
    tasks: str = shared.TasksOption,
    metrics: str = Option(
        None, help="Metrics, such as auc,accuracy,f1; by default AUC and NLL are shown."
    ),
    threshold: str = shared.ThresholdOption,
    average: list[str] = Option([], help="uniform, a split, or NAME:hard_positive=0.1,..."),
    by: str = Option(None, help="Attribute columns of the dataset; scores for each value, too."),
    dataset: str = shared.DatasetOption,
    baseline: str = shared.BaselineOption,
    overlay: list[Path] = shared.OverlayOption,
    strict: bool = shared.StrictOption,
    min_hard: int = Option(
        0, "--min-hard", min=0, help="Averages leave out tasks with fewer hard images on a side."
    ),
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
    reading: Any = None,
) -> None:
    """Score predictions on a suite: hard against easy. With counts and intervals."""
    _check_out(out, predictions, overwrite=overwrite)
    from nooch.evaluation import EvaluateOptions, evaluate
    from nooch.evaluation.metrics import METRICS
    from nooch.report import save_scores
    from nooch.suites import load_suite
    from nooch.suites.summary import suite_with_dataset

    scored, data = load_suite(suite), None
    if by or dataset is not None:
        scored, data = suite_with_dataset(suite, dataset)
    if by and data is None:
        raise ParameterError(
            "--by needs the dataset, which is not where it was", remedy="give --dataset"
        )
    wanted = list(dict.fromkeys(shared.split_names(metrics)))
    options = EvaluateOptions(
        split=list(dict.fromkeys(shared.split_names(split))) or None,
        criteria=criterion or None,
        tasks=shared.split_names(tasks) or None,
        metrics=wanted or METRICS,
        threshold=threshold,
        fail_if=fail_if,
        bootstrap=bootstrap,
        seed=seed,
        baseline=baseline,
        averages=average,
        by=shared.split_names(by),
        attributes=None if data is None else data.images,
        overlay=overlay,
        strict=strict,
        min_hard=min_hard,
        ignore_unknown=reading.get("ignore_unknown", False),
    )
    known = scored.found_in if data is None else data
    runs = read_predictions(predictions, reading, scored, known)
    with progress() as update:
        scores = evaluate(scored, runs, options=options, progress=update)
    if out is not None:
        save_scores(scores, out, metrics=wanted, overwrite=overwrite)
    _print(scores, wanted, format)
    if out is not None and format is shared.Format.text:
        hint(f"{out}: {counted(len(scores), 'value')}")
    if any(verdict.fired for verdict in scores.verdicts):
        raise typer.Exit(1)


def _check_out(out: Path | None, predictions: list[Path], *, overwrite: bool) -> None:
    if out is None:
        return
    check_output_file(out, overwrite=overwrite)
    if out.absolute() in {read.absolute() for read in predictions}:
        problem = "is a file of predictions"
        raise ParameterError(problem, where=out, remedy="name another file")
    from nooch.report import SCORE_FILES

    check_one_of("ending of a scores file", out.suffix, SCORE_FILES)


def _print(scores: Scores, metrics: Sequence[str], format: shared.Format) -> None:
    from nooch.report import as_json, tables_of

    verdicts = scores.verdicts
    failed = [verdict for verdict in verdicts if verdict.fired]
    if format is shared.Format.json:
        note(*scores.notes)
        listed = [
            {"condition": v.condition.text, **_place(v), "value": v.value, "reason": v.reason}
            for v in failed
        ]
        print_json({**as_json(scores), "conditions": len(verdicts), "failed": listed})
        return
    for line in scores.headlines:
        print_text(f"{line}\n")
    note(*scores.notes)
    print_shown(tables_of(scores, metrics))
    for verdict in failed:
        where = ", ".join(_place(verdict).values())
        note(f"failed: {verdict.condition.text}: {where}: {verdict.reason}")
    if verdicts and not failed:
        note(f"none of {len(verdicts)} values fires --fail-if")


def _place(verdict: ConditionVerdict) -> dict[str, str]:
    return {name: getattr(verdict, name) for name in ("run", "criterion", "task", "split")}
