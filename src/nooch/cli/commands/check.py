"""``nooch check``, ``slices``, ``audit`` and ``validity``: where a model, label or set errs."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import typer

from nooch.base.errors import ParameterError
from nooch.cli import options as shared
from nooch.cli.commands.import_data import hints_of, with_hints
from nooch.cli.declared import settings_of, takes
from nooch.cli.gate import check_junit, conditions_json, end_if_met
from nooch.cli.prediction_options import read_predictions, with_reading
from nooch.cli.runner import Output
from nooch.cli.terminal import hint, note, print_results, say, show_progress, with_flags

if TYPE_CHECKING:
    from nooch.analysis.check import Checked


@takes("nooch.analysis.check:check", leave=["stability"], whole=["fail_if"])
@with_reading
@with_hints("follow_links", "attributes", "context")
def check_command(
    settings: Any,
    reading: Any,
    hints: Any,
    dataset: str = typer.Argument(
        ...,
        metavar="DATASET",
        parser=shared.dataset_place,
        help="Dataset folder or address, or annotations, which are imported.",
    ),
    predictions: list[Path] = shared.PredictionsArgument,
    out: Path = typer.Option(..., "--out", help="Folder to write; it must not exist."),
    junit: Path = shared.JunitOption,
) -> Output:
    """Check where a model errs because of the context. Writes one page of findings and images."""
    check_junit(junit, settings)
    from nooch.analysis.check import check

    checked = check(
        dataset, predictions, out, reading=reading, hints=hints_of(hints) if hints else None,
        progress=show_progress, **settings,
    )  # fmt: skip
    conditions = conditions_json(checked.scores.verdicts, junit)
    yield {
        "page": str(checked.page),
        "verdict": checked.answer.verdict,
        "notes": list(checked.notes),
        **checked.numbered_json,
        "findings": checked.findings.table.to_dicts(),
        "slices": [] if checked.slices is None else checked.slices.table.to_dicts(),
        **checked.comparison_json,
        **conditions,
    }
    _print(checked)
    end_if_met(conditions)


def _print(checked: Checked) -> None:
    note(*checked.notes)
    title, *lines = checked.answer.text().splitlines()
    say(title, "bold")
    for line in lines:
        say(line)
    print_results([checked.errors] if checked.errors else [])
    hint(f"page: {checked.page}")


@takes("nooch.analysis.slices:find_slices")
@with_reading
def slices_command(
    settings: Any,
    reading: Any,
    suite: Path = shared.SuiteOrDatasetArgument,
    predictions: list[Path] = shared.PredictionsArgument,
    dataset: str = shared.DatasetOption,
    out: Path = typer.Option(None, "--out", help="File of slices: .parquet, .csv or .json."),
    overwrite: bool = shared.OverwriteOption,
) -> Output:
    """Search slices of images on which a model errs. The familywise error rate is 5%."""
    from nooch.analysis.slices import find_slices
    from nooch.data.table_files import result_files
    from nooch.evaluation import run_notes
    from nooch.suites import load_suite
    from nooch.suites.summary import suite_or_dataset

    if out is not None:
        result_files(out, "slices file", overwrite=overwrite)
    challenge_suite, data = suite_or_dataset(suite, dataset)
    data = data or load_suite(suite).require_dataset(None)
    runs = read_predictions(predictions, reading, challenge_suite, data)
    note(*run_notes(runs))
    if challenge_suite is not None:
        (split,) = challenge_suite.splits_to_score(settings.get("split"))
        settings = {"tasks": challenge_suite.tasks, **settings, "split": split}
    slices = find_slices(data, runs, progress=show_progress, **settings)
    if out is not None:
        slices.save(out, overwrite=overwrite)
    yield {"settings": dict(slices.settings), "slices": slices.table.to_dicts()}
    for sentence, phi in zip(slices.sentences(len(slices)), slices.table["phi"], strict=True):
        say(sentence)
        hint(f"  --phi {quote(phi)}")
    for sentence in slices.to_collect:
        say(sentence)
    note(*slices.settings["notes"], f"slices: {slices.counts}")


@takes("nooch.analysis.audit:audit", labels={"type": list[Path]})
@takes(
    "nooch.analysis.column_audit:audit_columns",
    "of_columns",
    only=["columns", "features", "bootstrap", "seed"],
    group="Columns",
    features={"type": str},
    bootstrap={"default": None},
    seed={"default": None},
)
@with_reading
def audit_command(
    settings: Any,
    of_columns: Any,
    reading: Any,
    files: list[Path] = typer.Argument(
        ...,
        metavar="SUITE [PREDICTIONS...]",
        help="Suite and predictions; with --labels, only predictions or answers; with --columns,"
        " a dataset or suite, and predictions.",
    ),
    predictions: list[Path] = typer.Option(
        [], "--predictions", help="Predictions or answers; repeat for several models."
    ),
    out: Path = typer.Option(
        None, help="Folder to write, with a page; with --columns a file: .parquet, .csv or .json."
    ),
) -> Output:
    """Rank labels that disagree with the models and the context; or audit columns (--columns)."""
    from nooch.analysis.audit import MOST, audit

    if of_columns:
        yield from _audit_columns(files[0], [*files[1:], *predictions], out, settings, of_columns,
                                  reading)  # fmt: skip
        return
    suite = None if settings.get("labels") else files[0]
    predictions = [*files[0 if suite is None else 1 :], *predictions]
    result = audit(
        suite, predictions or None, out=out, reading=reading, progress=show_progress, **settings
    )
    note(*result.notes)
    yield {"labels": result.table.head(settings.get("most", MOST)).to_dicts()}
    print_results([result.display])
    if out is not None:
        hint(f"page: {out / 'index.html'}")


def _audit_columns(
    place: Path, predictions: list[Path], out: Path | None, settings: Any, of_columns: Any,
    reading: Any,
) -> Output:  # fmt: skip
    """``nooch audit --columns``."""
    from nooch.analysis.column_audit import audit_columns
    from nooch.data.table_files import result_files
    from nooch.suites import load_suite
    from nooch.suites.summary import suite_or_dataset

    overwrite, given = settings.pop("overwrite", False), settings.pop("data", None)
    if "columns" not in of_columns:
        raise ParameterError(f"`{next(iter(of_columns))}` has no effect on labels",
                             give=(dict.fromkeys(of_columns), {"columns": ...}))  # fmt: skip
    usual, shared_names = settings_of("nooch.analysis.audit:audit"), {"split", "tasks", "group"}
    of_labels = [n for n, v in settings.items() if n not in shared_names and v != usual[n].default]
    if of_labels:
        raise ParameterError(f"`{of_labels[0]}` has no effect on columns",
                             give=(dict.fromkeys(of_labels), {"columns": None}))  # fmt: skip
    if out is not None:
        result_files(out, "column audit", overwrite=overwrite)
    suite, data = suite_or_dataset(place, given)
    if data is None:
        data = load_suite(place).require_dataset(None)
    runs = read_predictions(predictions, reading, suite, data) or None
    result = audit_columns(
        data, runs, reading=reading, progress=show_progress, **of_columns,
        **{name: value for name, value in settings.items() if name in shared_names},
    )  # fmt: skip
    if out is not None:
        result.save(out, overwrite=overwrite)
    note(*result.notes)
    yield result.as_json()
    print_results([result.display])
    for sentence in result.sentences():
        say(with_flags(sentence))


@takes("nooch.analysis.validity:validity")
@with_reading
def validity_command(
    settings: Any,
    reading: Any,
    suite: Path = shared.SuiteArgument,
    predictions: list[Path] = typer.Argument(
        None, metavar="[PREDICTIONS...]", help="Files of predictions or answers of several models."
    ),
    out: Path = typer.Option(None, "--out", help="File to write: .parquet, .csv or .json."),
    dataset: str = shared.DatasetOption,
    overwrite: bool = shared.OverwriteOption,
) -> Output:
    """Test whether challenge sets are hard for models. Uses the errors of several models."""
    from nooch.analysis.validity import validity
    from nooch.data.table_files import result_files
    from nooch.suites.summary import suite_with_dataset

    if out is not None:
        result_files(out, "validity file", overwrite=overwrite)
    challenge_suite, data = suite_with_dataset(suite, dataset)
    runs = read_predictions(predictions or [], reading, challenge_suite, data)
    result = validity(
        challenge_suite, runs, data=data, reading=reading, progress=show_progress, **settings
    )
    if out is not None:
        result.save(out, overwrite=overwrite)
    yield result.as_json()
    note(*result.notes)
    for sentence in result.sentences():
        say(sentence)
