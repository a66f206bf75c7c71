"""``nooch report``: a suite, its images and results as a folder of pages that opens from disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer import Option

from nooch.base.errors import ParameterError
from nooch.base.files import Place
from nooch.cli import options as shared
from nooch.cli.prediction_options import read_predictions, with_reading
from nooch.cli.terminal import note, print_result, progress

__all__ = ["report_command"]


@with_reading
def report_command(
    suite: Path = shared.SuiteArgument,
    out: Path = Option(..., metavar="SITE", help="Folder to write; it must not exist."),
    dataset: Place = shared.DatasetOption,
    no_dataset: bool = Option(
        False, "--no-dataset", help="Leave the dataset out: no areas, captions or pictures."
    ),
    runs: list[Path] = Option(
        [], help="Folder of nooch bench or of nooch collect; repeat for several."
    ),
    predictions: list[Path] = Option(
        [], help="File of predictions of any model, for scores and losses; repeat for several."
    ),
    methods: str = shared.MethodsOption,
    images: Path = shared.ImagesOption,
    annotations: list[Path] = shared.AnnotationsOption,
    rule: str = shared.RuleOption,
    split: str = Option(None, help="Split of results and examples; test by default."),
    bootstrap: int = shared.BootstrapOption,
    metrics: str = Option(None, help="More metrics of predictions, such as accuracy,f1."),
    threshold: str = shared.ThresholdOption,
    thumbnails: int = Option(
        200, min=0, help="Pictures for each task and split, in addition to the examples."
    ),
    all_thumbnails: bool = Option(
        False, "--all-thumbnails", help="Pictures of all images of the suite's splits."
    ),
    examples: int = Option(8, min=1, help="Images in each group of examples."),
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
    reading: Any = None,
) -> None:
    """Write a site of a suite, its images and results. Its pages open from disk."""
    from nooch.report.site.site import ReportOptions, write_report
    from nooch.suites import load_suite
    from nooch.suites.summary import suite_with_dataset

    if no_dataset and (dataset is not None or images is not None):
        raise ParameterError(
            "with --no-dataset there is no dataset and there are no images",
            allowed="one of the two",
        )
    shown, data = (load_suite(suite), None) if no_dataset else suite_with_dataset(suite, dataset)
    options = ReportOptions(
        runs=runs,
        predictions=read_predictions(predictions, reading, shown, data),
        methods=None if methods is None else shared.split_names(methods),
        images=images,
        annotations=annotations,
        rule=rule,
        split=split,
        bootstrap=bootstrap,
        metrics=shared.split_names(metrics),
        threshold=threshold,
        thumbnails=None if all_thumbnails else thumbnails,
        examples=examples,
    )
    with progress() as update:
        report = write_report(
            shown, out, data=data, options=options, overwrite=overwrite, progress=update
        )
    note(*report.notes)
    facts = {"site": str(report.path), "notes": list(report.notes)}
    print_result(format, facts, f"{report.path}: open {report.path / 'index.html'}")
