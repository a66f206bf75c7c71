"""``nooch report``: a suite, its images and results as a folder of pages that opens from disk."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from typer import Argument, Option

from nooch.base.errors import ParameterError
from nooch.base.split_plan import LOSS_SPLIT
from nooch.cli import options as shared
from nooch.cli.prediction_options import read_predictions, with_reading
from nooch.cli.terminal import hint, note, print_json, print_result, progress, say


@with_reading
def report_command(
    suite: Path = shared.SuiteArgument,
    out: Path = Option(..., metavar="SITE", help="Folder to write; it must not exist."),
    dataset: str = shared.DatasetOption,
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
    from nooch.report.images.sources import Sources
    from nooch.report.site.site import write_report
    from nooch.suites import load_suite
    from nooch.suites.summary import suite_with_dataset

    if no_dataset and (dataset is not None or images is not None):
        raise ParameterError(
            "with --no-dataset there is no dataset and there are no images",
            allowed="one of the two",
        )
    shown, data = (load_suite(suite), None) if no_dataset else suite_with_dataset(suite, dataset)
    with progress() as update:
        sources = Sources(
            suite=shown,
            data=data,
            runs=runs,
            predictions=read_predictions(predictions, reading, shown, data),
            methods=shared.split_names(methods) or None,
            images=images,
            annotations=annotations,
            rule=rule,
            split=split,
            bootstrap=bootstrap,
            progress=update,
        )
        report = write_report(
            sources,
            out,
            metrics=shared.split_names(metrics),
            threshold=threshold,
            thumbnails=None if all_thumbnails else thumbnails,
            examples=examples,
            overwrite=overwrite,
        )
    note(*report.notes)
    facts = {"site": str(report.path), "notes": list(report.notes)}
    print_result(format, facts, f"{report.path}: open {report.path / 'index.html'}")


@with_reading
def figure_command(
    names: list[str] = Argument(..., metavar="NAME...", help="fig1 to fig26, or all."),
    out: Path = Option(..., help="Folder to write to: NAME.svg, .pdf, .png and .csv."),
    suite: Path = Option(None, help="Suite folder: fig1 to fig9, fig15 to fig26."),
    dataset: str = shared.DatasetOption,
    predictions: list[Path] = Option([], help="Predictions: all but fig10 to fig12. Repeatable."),
    runs: Path = Option(None, help="Folder of nooch bench, or of nooch collect (fig4 to fig7)."),
    sweep: Path = Option(None, help="Folder of nooch sweep-thresholds: fig10 to fig12."),
    paper: bool = Option(False, "--paper", help="fig4 to fig7: the paper's numbers, too."),
    split: str = Option(LOSS_SPLIT, help="Split whose images are taken."),
    tasks: str = Option(None, help="Tasks, by commas; by default all, or the paper's (images)."),
    strict: bool = shared.StrictOption,
    methods: str = shared.MethodsOption,
    images: Path = shared.ImagesOption,
    annotations: list[Path] = shared.AnnotationsOption,
    rule: str = shared.RuleOption,
    method: str = Option("erm", help="fig3, of runs: the method whose losses are shown."),
    criteria: str = Option(None, help="KIND=NAME,...: the criterion that stands for ce or gist."),
    alpha: str = Option(None, help="fig10, fig12, fig13: as for nooch sweep-thresholds."),
    beta: str = Option(None, help="fig12, fig13: likewise."),
    tau: str = Option(None, help="fig11, fig14: likewise."),
    embedding: str = Option(None, help="fig11, fig14: embedding; the only one by default."),
    bootstrap: int = shared.BootstrapOption,
    seed: int = shared.ResamplesSeedOption,
    formats: str = Option("svg,pdf,png", help="Formats, separated by commas."),
    dpi: int = shared.DpiOption,
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
    reading: Any = None,
) -> None:
    """Draw the paper's figures. From a suite, runs, predictions, a dataset or a sweep."""
    written = shared.split_names(formats)
    grids = shared.parse_grids(alpha=alpha, beta=beta, tau=tau)
    from nooch.data import load_dataset
    from nooch.report.figures.sweeps import load_sweep
    from nooch.report.images.paper_figures import SHEETS, save_figures
    from nooch.report.images.sources import Sources
    from nooch.suites import load_suite

    with progress() as update:
        sets = None if suite is None else load_suite(suite)
        data = None if dataset is None else load_dataset(dataset)
        if sets is not None and data is None and SHEETS.keys() & set(names):
            data = sets.found_in()
        sources = Sources(
            suite=sets,
            data=data,
            predictions=read_predictions(predictions, reading, sets, data),
            runs=runs or (),
            paper=paper,
            sweep=None if sweep is None else load_sweep(sweep),
            split=split,
            rule=rule,
            roles=shared.parse_pairs(criteria, "--criteria", "ce=mine"),
            tasks=shared.split_names(tasks) or None,
            strict=strict,
            method=method,
            methods=shared.split_names(methods) or None,
            images=images,
            annotations=annotations,
            embedding=embedding,
            bootstrap=bootstrap,
            seed=seed,
            scale=reading.get("scale"),
            progress=update,
            **{name: values for name, values in grids.items() if values},
        )
        files = save_figures(names, sources, out, formats=written, dpi=dpi, overwrite=overwrite)
    _print_figures(files, names, out, format)


def _print_figures(files: list[Path], names: list[str], out: Path, format: shared.Format) -> None:
    from nooch.report.images.paper_figures import ALL_FIGURES

    drawn = list(dict.fromkeys(file.stem for file in files))
    shows = {name: ALL_FIGURES[name].shows for name in drawn}
    if format is shared.Format.json:
        print_json({"out": str(out), "figures": shows, "files": [file.name for file in files]})
        return
    if "all" in names and (left := [name for name in ALL_FIGURES if name not in drawn]):
        note(f"left out because their input is not given: {', '.join(left)}")
    for name, text in shows.items():
        say(f"{name}: {text}")
    hint(f"{out}: {', '.join(file.name for file in files)}")


@with_reading
def gallery_command(
    suite: Path = shared.SuiteArgument,
    task: list[str] = Option(
        ..., help="Task to show; repeat for several.", autocompletion=shared.complete_tasks
    ),
    dataset: str = shared.DatasetOption,
    split: str = Option(None, help="Split whose images are shown; test by default."),
    criterion: str = Option(
        None, help="Criterion whose sets are shown; the suite's first by default."
    ),
    n: int = Option(4, min=1, help="Images of each side."),
    runs: Path = Option(None, help="Folder of nooch bench: the highest losses are shown."),
    predictions: list[Path] = Option([], help="Predictions of any model, likewise. Repeatable."),
    methods: str = shared.MethodsOption,
    images: Path = shared.ImagesOption,
    annotations: list[Path] = shared.AnnotationsOption,
    out: Path = Option(None, help="File: .png, .pdf, .svg or .jpg; gallery-TASK.png by default."),
    dpi: int = shared.DpiOption,
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
    reading: Any = None,
) -> None:
    """Draw a task's hard images, with their cues shaded."""
    from nooch.report.images.galleries import save_gallery
    from nooch.report.images.sources import Sources
    from nooch.suites.summary import suite_with_dataset

    sets, data = suite_with_dataset(suite, dataset)
    if data is None:
        raise ParameterError(
            "the dataset is not where it was", where=str(suite), remedy="give --dataset DATASET"
        )
    sources = Sources(
        suite=sets,
        data=data,
        runs=runs or (),
        predictions=read_predictions(predictions, reading, sets, data),
        split=split,
        methods=shared.split_names(methods) or None,
        images=images,
        annotations=annotations,
    )
    # names of tasks come from files: nothing of them leads out of this folder
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", "-".join(task))[:80]
    gallery = save_gallery(
        task,
        sources,
        out or Path(f"gallery-{name}.png"),
        criterion=criterion,
        per_side=n,
        dpi=dpi,
        overwrite=overwrite,
    )
    note(*gallery.notes)
    print_result(
        format, {"out": str(gallery.path), "images": gallery.table.to_dicts()}, str(gallery.path)
    )
