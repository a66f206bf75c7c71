"""``nooch audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer import Option

from nooch.cli import option_parsing as shared
from nooch.cli.prediction_options import with_reading
from nooch.cli.terminal_output import hint, print_json, print_text, progress
from nooch.files import Place

__all__ = ["audit_command"]


@with_reading
def audit_command(
    suite: Path = shared.SuiteArgument,
    predictions: list[Path] = Option(
        [], "--predictions", "--answers", help="Predictions or answers; repeat for several models."
    ),
    captions: list[Path] = Option([], help="File of captions; repeat for several models."),
    out: Path = Option(..., help="Folder to write; it must not exist."),
    dataset: Place = shared.DatasetOption,
    split: str = Option(None, help="Splits to audit, separated by commas; test by default."),
    tasks: str = shared.TasksOption,
    synonyms: str = Option("coco", help="coco (its 80 things), or a YAML file of words by task."),
    most: int = Option(200, min=1, help="Labels on the page at most."),
    images: Path = shared.ImagesOption,
    seed: int = Option(0, min=0, help="Seed of the division of the images into fifths."),
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
    reading: Any = None,
) -> None:
    """Rank labels that models and the context contradict. With a page to review them."""
    from nooch.auditing import AuditOptions, audit

    options = AuditOptions(
        split=shared.split_names(split) or None, tasks=shared.split_names(tasks) or None,
        synonyms=synonyms, most=most, images=images, seed=seed, **vars(reading),
    )  # fmt: skip
    with progress() as update:
        result = audit(
            suite, predictions, captions=captions, data=dataset, out=out, overwrite=overwrite,
            options=options, progress=update,
        )  # fmt: skip
    page = out / "index.html"
    if format is shared.Format.json:
        rows = result.table.head(most).to_dicts()
        print_json({"page": str(page), "notes": list(result.notes), "labels": rows})
        return
    print_text(f"{result!r}\n")
    hint(f"page: {page}")
