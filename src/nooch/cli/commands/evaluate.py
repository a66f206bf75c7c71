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
from nooch.cli.declared import takes
from nooch.cli.prediction_options import read_predictions, with_reading
from nooch.cli.terminal import hint, note, print_json, print_shown, print_text, progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nooch.evaluation import ConditionVerdict, Scores


@takes(
    "nooch.evaluation.evaluate:evaluate",
    leave=["attributes", "differences", "dataset"],
    whole=["averages", "fail_if"],
)
@with_reading
def evaluate_command(
    suite: Path = shared.SuiteArgument,
    predictions: list[Path] = Argument(
        ..., metavar="PREDICTIONS...", help="Long or wide tables or .npz; several are compared."
    ),
    dataset: str = shared.DatasetOption,
    out: Path = Option(None, help="File of scores: .parquet, .csv, .json, .md or .tex."),
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
    *,
    settings: Any,
    reading: Any,
) -> None:
    """Score predictions on a suite: hard against easy. With counts and intervals."""
    _check_out(out, predictions, overwrite=overwrite)
    from nooch.cli.tables import MOST
    from nooch.evaluation import evaluate
    from nooch.report import save_scores
    from nooch.suites import load_suite
    from nooch.suites.summary import suite_with_dataset

    scored, data, by = load_suite(suite), None, settings.get("by")
    if by or dataset is not None:
        scored, data = suite_with_dataset(suite, dataset)
    if by and data is None:
        raise ParameterError(
            "--by needs the dataset, which was not found at its recorded path",
            remedy="give --dataset",
        )
    metrics = settings.get("metrics", [])
    dataset_known = scored.found_in if data is None else data
    runs = read_predictions(predictions, reading, scored, dataset_known)
    fail_if = settings.pop("fail_if", [])
    settings["fail_if"] = [text for text in fail_if if text != "worse"]
    worse: list[str] = []
    if "worse" in fail_if:
        from nooch.analysis.answer import worse_contexts
        from nooch.analysis.findings import cue_findings

        name, *_ = scored.splits_to_score(settings.get("split"))
        tasks = settings.get("tasks")
        with progress() as update:
            found = cue_findings(scored, runs, data=data, split=name, tasks=tasks, progress=update)
        worse = worse_contexts(found)
    with progress() as update:
        scores = evaluate(
            scored, runs, attributes=None if data is None else data.images, dataset=data,
            reading=reading, progress=update, **settings,
        )  # fmt: skip
    if out is not None:
        save_scores(scores, out, metrics=metrics, overwrite=overwrite)
    _print(scores, metrics, format, None if settings.get("tasks") else MOST)
    note(*(f"failed: {text}" for text in worse))
    if out is not None and format is shared.Format.text:
        hint(f"{out}: {counted(len(scores), 'value')}")
    if worse or any(verdict.fired for verdict in scores.verdicts):
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


def _print(scores: Scores, metrics: Sequence[str], format: shared.Format, most: int | None) -> None:
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
    tables = tables_of(scores, metrics, most)
    print_shown(tables)
    if cut := dict.fromkeys(text for table in tables for text in table.notes):
        more = "all rows: --out FILE.md, --format json; of some tasks: --tasks"
        hint(f"of more than {most} rows: {'; '.join(cut)} ({more})")
    for verdict in failed:
        where = ", ".join(_place(verdict).values())
        note(f"failed: {verdict.condition.text}: {where}: {verdict.reason}")
    if verdicts and not failed:
        note(f"none of {len(verdicts)} values fires --fail-if")


def _place(verdict: ConditionVerdict) -> dict[str, str]:
    return {name: getattr(verdict, name) for name in ("run", "criterion", "task", "split")}
