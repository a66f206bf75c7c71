"""``nooch evaluate``: any model's predictions scored on a suite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from nooch.base.errors import ParameterError, check_one_of
from nooch.base.files import check_output_file
from nooch.base.words import counted
from nooch.cli import options as shared
from nooch.cli.declared import takes
from nooch.cli.gate import check_junit, conditions_json, end_if_met
from nooch.cli.prediction_options import read_predictions, with_reading
from nooch.cli.runner import Output
from nooch.cli.terminal import hint, note, print_results, print_text, show_progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nooch.evaluation import Scores


@takes(
    "nooch.evaluation.evaluate:evaluate",
    leave=["attributes", "differences"],
    whole=["averages", "fail_if"],
)
@with_reading
def evaluate_command(
    settings: Any,
    reading: Any,
    suite: Path = shared.SuiteArgument,
    predictions: list[Path] = Argument(
        ..., metavar="PREDICTIONS...", help="Long or wide tables or .npz; several are compared."
    ),
    dataset: str = shared.DatasetOption,
    out: Path = Option(None, help="File of scores: .parquet, .csv, .json, .md or .tex."),
    overwrite: bool = shared.OverwriteOption,
    junit: Path = shared.JunitOption,
) -> Output:
    """Score predictions on a suite: hard against easy. Scores have counts and intervals."""
    _check_out(out, predictions, overwrite=overwrite)
    check_junit(junit, {**settings, "overwrite": overwrite})
    from nooch.cli.tables import MOST
    from nooch.evaluation import evaluate
    from nooch.report import as_json, save_scores
    from nooch.suites import load_suite
    from nooch.suites.summary import suite_with_dataset

    scored, data = load_suite(suite), None
    # a suite knows its lists of questions without its dataset
    lists = {"category"} if scored.question_lists else set()
    by = {*settings.get("by", ())} - lists
    if by or dataset is not None:
        scored, data = suite_with_dataset(suite, dataset)
    if by:
        data = data or scored.require_dataset(None)
    metrics = settings.get("metrics", [])
    of_suite = scored.source_dataset if data is None else data
    runs = read_predictions(predictions, reading, scored, of_suite)
    scores = evaluate(
        scored, runs, attributes=None if data is None else data.images, dataset=data,
        reading=reading, progress=show_progress, **settings,
    )  # fmt: skip
    if out is not None:
        save_scores(scores, out, metrics=metrics, overwrite=overwrite)
    conditions = conditions_json(scores.verdicts, junit)
    note(*scores.notes)
    yield lambda: {**as_json(scores), **conditions}
    _print(scores, metrics, None if settings.get("tasks") else MOST)
    if out is not None:
        hint(f"{out}: {counted(len(scores), 'value')}")
    end_if_met(conditions)


def _check_out(out: Path | None, predictions: list[Path], *, overwrite: bool) -> None:
    if out is None:
        return
    check_output_file(out, overwrite=overwrite)
    if out.absolute() in {read.absolute() for read in predictions}:
        problem = "is a file of predictions"
        raise ParameterError(problem, where=out, remedy="name another file")
    from nooch.report import SCORE_FILES

    check_one_of("ending of a scores file", out.suffix, SCORE_FILES)


def _print(scores: Scores, metrics: Sequence[str], most: int | None) -> None:
    from nooch.report import tables_of

    for line in scores.headlines:
        print_text(f"{line}\n")
    tables = tables_of(scores, metrics, most)
    print_results(tables)
    if cut := dict.fromkeys(text for table in tables for text in table.notes):
        more = "all rows: --out FILE.md, --format json; of some tasks: --tasks"
        hint(f"of more than {most} rows: {'; '.join(cut)} ({more})")
