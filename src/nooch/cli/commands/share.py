"""``nooch export``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from typer import Argument, Option

from nooch.base.words import counted
from nooch.cli import options as shared
from nooch.cli.declared import takes
from nooch.cli.prediction_options import read_predictions, with_reading
from nooch.cli.runner import Output
from nooch.cli.terminal import note, say, show_progress


@takes(
    "nooch.report.exports.export:export",
    leave=["to"],
    per_set={"type": str},
    licenses={"flags": ["--license"]},
    whole=["licenses"],
    images={"type": Path},
    predictions={"type": list[Path]},
)
@with_reading
def export_command(
    settings: Any,
    reading: Any,
    suite: Path = shared.SuiteArgument,
    out: str = Argument(
        ..., metavar="OUT", help="File (ids, images), folder, or FiftyOne dataset."
    ),
    to: str = Option(
        "ids",
        help="ids, coco, coco-slices, csv, hf, fiftyone, pope, images, lmms-eval, vlmevalkit, or"
        " package.module:name.",
    ),
    dataset: str = shared.DatasetOption,
) -> Output:  # fmt: skip
    """Write challenge sets in another tool's format. Also writes the licenses of the data."""
    from nooch.report.exports.export import export
    from nooch.suites.summary import suite_with_dataset

    exported, data = suite_with_dataset(suite, dataset)
    settings["per_set"] = shared.parse_per_set(settings["per_set"])
    predictions = settings.pop("predictions", None)
    if predictions:
        settings["predictions"] = read_predictions(predictions, reading, exported, data)
    show_progress(f"writing as {to}", 0, 1)
    done = export(exported, to, out, data=data, **settings)
    note(*done.notes)
    yield asdict(done)
    files = f", {counted(len(done.files), 'file')}" if len(done.files) > 1 else ""
    listed = ", ".join(terms.get("name") or terms["url"] for terms in done.licenses)
    contents = f"{counted(done.sets, 'challenge set')} as {to}{files}"
    say(f"{out}: {contents}; licenses: {listed or 'not recorded'}")
