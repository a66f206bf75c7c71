"""``nooch report``: a suite, its images and results as a folder of pages that opens from disk; and
``nooch paper tables``: the paper's tables from runs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from typer import Argument, Option

from nooch.base.errors import ParameterError, check_one_of
from nooch.base.files import check_output_file
from nooch.base.split_plan import LOSS_SPLIT
from nooch.cli import options as shared
from nooch.cli.declared import takes
from nooch.cli.prediction_options import read_predictions, with_reading
from nooch.cli.runner import Output
from nooch.cli.terminal import hint, note, print_results, say, show_progress

_SOURCES = "nooch.report.images.sources:Sources"
_SHOWN = ["methods", "images", "range", "annotations"]


@with_reading
@takes("nooch.report.site.site:write_report")
@takes(_SOURCES, "sources", only=["split", *_SHOWN, "rule", "bootstrap"])
def report_command(
    settings: Any,
    sources: Any,
    reading: Any,
    suite: Path = shared.SuiteArgument,
    out: Path = Option(..., metavar="SITE", help="Folder to write; it must not exist."),
    dataset: str = shared.DatasetOption,
    no_dataset: bool = Option(
        False, "--no-dataset", help="Leave the dataset out: no areas, captions or pictures."
    ),
    runs: list[Path] = Option(
        [], help="Folder of nooch train bench or of nooch train score; repeat for several."
    ),
    predictions: list[Path] = Option(
        [], help="File of predictions of any model, for scores and losses; repeat for several."
    ),
    all_thumbnails: bool = Option(
        False, "--all-thumbnails", help="Pictures of all images of the suite's splits."
    ),
) -> Output:
    """Build an HTML report of a suite and its results. Its pages open from disk."""
    from nooch.analysis.answer import suite_answer
    from nooch.paper.sheet import report_tables
    from nooch.report.images.sources import Sources
    from nooch.report.site.site import write_report
    from nooch.suites import load_suite
    from nooch.suites.summary import suite_with_dataset

    if no_dataset and (dataset is not None or "images" in sources):
        raise ParameterError(
            "with --no-dataset there is no dataset and there are no images",
            allowed="one of the two",
        )
    shown, data = (load_suite(suite), None) if no_dataset else suite_with_dataset(suite, dataset)
    given = Sources(
        suite=shown, data=data, runs=runs,
        predictions=read_predictions(predictions, reading, shown, data),
        progress=show_progress, **sources,
    )  # fmt: skip
    settings |= {"thumbnails": None} if all_thumbnails else {}
    report = write_report(given, out, answer=suite_answer(given), tables=report_tables, **settings)
    note(*report.notes)
    yield {"site": str(report.path), "notes": list(report.notes)}
    say(f"{report.path}: open {report.path / 'index.html'}")


@with_reading
@takes("nooch.paper.figures:save_figures")
@takes(
    _SOURCES,
    "sources",
    leave=["split", "scale", "runs"],
    alpha=shared.grid("alpha", help="fig10, fig12, fig13: as for nooch sweep."),
    beta=shared.grid("beta", help="fig12, fig13: the same for beta."),
    tau=shared.grid("tau", help="fig11, fig14: the same for tau."),
)
def figures_command(
    settings: Any,
    sources: Any,
    reading: Any,
    names: list[str] = Argument(..., metavar="NAME...", help="fig1 to fig26, or all."),
    out: Path = Option(..., help="Folder to write to: NAME.svg, .pdf, .png and .csv."),
    suite: Path = Option(None, help="Suite folder: fig1 to fig9, fig15 to fig26."),
    dataset: str = shared.DatasetOption,
    predictions: list[Path] = Option(
        [], help="Predictions, for all but fig10 to fig12; repeatable."
    ),
    runs: Path = Option(
        None, help="Folder of nooch train bench, or of nooch train score (fig4 to fig7)."
    ),
    sweep: Path = Option(None, help="Folder of nooch sweep: fig10 to fig12."),
    split: str = Option(LOSS_SPLIT, help="Split whose images are taken."),
    criteria: str = Option(None, help="KIND=NAME,...: the criterion that stands for ce or gist."),
) -> Output:
    """Draw the paper's figures. Takes a suite, runs, predictions, a dataset or a sweep."""
    from nooch.data import load_dataset
    from nooch.paper.figures import ALL_FIGURES, SHEETS, save_figures
    from nooch.report.figures.sweeps import load_sweep
    from nooch.report.images.sources import Sources
    from nooch.suites import load_suite

    sets = None if suite is None else load_suite(suite)
    data = None if dataset is None else load_dataset(dataset)
    if sets is not None and data is None and SHEETS.keys() & set(names):
        data = sets.source_dataset()
    given = Sources(
        suite=sets, data=data, runs=runs or (), split=split,
        predictions=read_predictions(predictions, reading, sets, data),
        sweep=None if sweep is None else load_sweep(sweep),
        roles=shared.parse_pairs(criteria, "--criteria", "ce=mine"),
        scale=reading.get("scale"), progress=show_progress,
        **sources,
    )  # fmt: skip
    files = save_figures(names, given, out, **settings)
    drawn = list(dict.fromkeys(file.stem for file in files))
    shows = {name: ALL_FIGURES[name].shows for name in drawn}
    yield {"out": str(out), "figures": shows, "files": [file.name for file in files]}
    if "all" in names and (left := [name for name in ALL_FIGURES if name not in drawn]):
        note(f"left out because their input is not given: {', '.join(left)}")
    for name, text in shows.items():
        say(f"{name}: {text}")
    hint(f"{out}: {', '.join(file.name for file in files)}")


@with_reading
@takes("nooch.report.images.galleries:save_gallery", per_side={"flags": ["--n"]})
@takes(_SOURCES, "sources", only=["split", *_SHOWN])
def gallery_command(
    settings: Any,
    sources: Any,
    reading: Any,
    suite: Path = shared.SuiteArgument,
    task: list[str] = Option(
        ..., help="Task to show; repeat for several.", autocompletion=shared.complete_tasks
    ),
    dataset: str = shared.DatasetOption,
    runs: Path = Option(None, help="Folder of nooch train bench: the highest losses are shown."),
    predictions: list[Path] = Option(
        [], help="Predictions of any model; the highest losses are shown. Repeatable."
    ),
    out: Path = Option(None, help="File: .png, .pdf, .svg or .jpg; gallery-TASK.png by default."),
) -> Output:
    """Draw a task's hard images, with their cues shaded."""
    from nooch.report.figures.style import SHEET_FORMATS
    from nooch.report.images.galleries import save_gallery
    from nooch.report.images.sources import Sources
    from nooch.suites.summary import suite_with_dataset

    # names of tasks come from files: nothing of them leads out of this folder
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", "-".join(task))[:80]
    path = out or Path(f"gallery-{name}.png")
    # before anything is read or drawn
    check_output_file(path, overwrite="overwrite" in settings)
    check_one_of("ending of an image sheet", path.suffix.lower().removeprefix("."), SHEET_FORMATS)
    sets, data = suite_with_dataset(suite, dataset)
    data = data or sets.require_dataset(None)
    given = Sources(
        suite=sets, data=data, runs=runs or (),
        predictions=read_predictions(predictions, reading, sets, data), **sources,
    )  # fmt: skip
    gallery = save_gallery(task, given, path, **settings)
    note(*gallery.notes)
    yield {"out": str(gallery.path), "images": gallery.table.to_dicts()}
    say(str(gallery.path))


_PAPER = "paper"


@takes("nooch.paper.sheet:paper_sheet")
@takes(
    "nooch.report.results.run_results:read_results", "reading", leave=["roles"],
    group="Which results",
)  # fmt: skip
def tables_command(
    settings: Any,
    reading: Any,
    sources: list[str] = Argument(
        ...,
        metavar="SOURCE...",
        help=(
            "Folders of nooch train bench (with --suite) or of nooch train score; suites (tables 2,"
            " 6 and 7); paper for the paper's own numbers."
        ),
    ),
    like: list[str] = Option(
        ["table3"],
        help="table2 to 7 and 9 to 18, separated by commas; or all, which is 3 to 5 and 9 to 18.",
    ),
    suite: list[Path] = Option(
        [], help="Suite that the runs were trained for; repeat for several SOURCEs, in any order."
    ),
    criteria: str = Option(
        None, help="KIND=NAME,...: which criterion stands for ce, gist or attribute."
    ),
    compare: str = Option(None, help="paper: put the published number next to each."),
    out: list[Path] = Option(
        [], help="File: .md, .tex, .csv, .parquet or .json; repeat for several."
    ),
    overwrite: bool = shared.OverwriteOption,
) -> Output:
    """Print results of runs as the paper's tables. Shows mean (sd) over seeds, task averages."""
    from nooch.paper.sheet import paper_sheet, table_names
    from nooch.report.tables.method_tables import check_result_files, save_results
    from nooch.suites import load_suite

    names = table_names(like)
    if compare is not None:
        check_one_of("comparison", compare, [_PAPER])
    roles = shared.parse_pairs(criteria, "--criteria", "ce=mine")
    check_result_files(out, overwrite=overwrite, differences="paired" in settings)
    sheet = paper_sheet(
        sources, names, {str(path): load_suite(path) for path in suite},
        compare=compare is not None, reading={**reading, "roles": roles}, progress=show_progress,
        **settings,
    )  # fmt: skip
    written = save_results(sheet, out, overwrite=overwrite)
    yield sheet.json
    print_results(sheet.shown())
    note(*sheet.notes)
    if written:
        hint(", ".join(map(str, written)))
