"""``nooch import-suite``: published challenge sets -> a suite folder."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from nooch.base.files import SUITE_MARKER, check_output
from nooch.cli import options as shared
from nooch.cli.terminal import note

__all__ = ["app"]

app = shared.command_group("import-suite", "Import challenge sets as a suite folder.")


@app.command("published")
def published(
    folder: Path = Argument(
        ..., metavar="PUBLISHED_DIR", help="Folder of the authors' .npy files."
    ),
    labels: list[Path] = Option(
        [],
        help=(
            "Dataset folder, .npz with image_ids, labels and category_names, or instances_*.json,"
            " as often as there are files. Without labels the suite holds hard images alone."
        ),
    ),
    out: Path = Option(..., help="Suite folder to write; it must not exist."),
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
) -> None:
    """The authors' challenge sets as a suite. The benchmark itself comes as nooch-coco."""
    check_output(out, overwrite=overwrite, marker=SUITE_MARKER)
    from nooch.cli.tables import print_found
    from nooch.suites import save_suite
    from nooch.suites.published_sets import read_published
    from nooch.suites.sets_as_suite import published_suite, read_labels, unlabeled

    sets, known = read_published(folder), read_labels(labels) if labels else None
    suite = published_suite(sets, known)
    save_suite(suite, out, overwrite=overwrite)
    without = unlabeled(sets, known) if known is not None else {}
    for split in suite.splits:
        if without.get(split):
            note(
                f"{without[split]:,} of {len(sets.splits[split]):,} images of split {split} have"
                " no labels: those that are not hard are left out (add --labels, as"
                " instances_train2017.json and instances_val2017.json)"
            )
    print_found(suite, out, format, f"evaluate {out} PREDICTIONS")
