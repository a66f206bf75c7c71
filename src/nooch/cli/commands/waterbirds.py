"""``nooch waterbirds ...``: compose the images of Waterbirds, and score predictions as the paper's
Table 5 does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from nooch.cli.option_parsing import DatasetOption, OverwriteOption, ProcessesOption
from nooch.cli.terminal_output import (
    Format,
    FormatOption,
    console,
    note,
    print_json,
    progress,
    table,
)
from nooch.engines import LocalEngine
from nooch.errors import ParameterError, check_one_of
from nooch.files import Place, check_output

__all__ = ["app"]

app = typer.Typer(
    help="Waterbirds: compose its images, score as Table 5.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("make")
def make_command(
    out: Path = typer.Argument(
        ..., metavar="OUT", help="Folder to write: metadata.csv and images."
    ),
    cub: Path = typer.Option(
        ...,
        "--cub",
        help="CUB-200-2011: images.txt, train_test_split.txt, images/, segmentations/.",
    ),
    places: Path = typer.Option(
        ...,
        "--places",
        help="Places: data_large/o/ocean, l/lake/natural, b/bamboo_forest, f/forest/broadleaf.",
    ),
    confounder: float = typer.Option(
        None, help="Share of training birds on their own kind of background. [0.95]"
    ),
    seed: int = typer.Option(None, help="Seed of all draws. [0]"),
    species: str = typer.Option(
        None,
        help=(
            "released: water birds as in the data that everybody uses; corrected: without three"
            " land birds. [released]"
        ),
    ),
    segmentations: Path = typer.Option(
        None, "--segmentations", help="Folder of masks, where it is not CUB/segmentations."
    ),
    metadata: Path = typer.Option(
        None,
        "--metadata",
        help="A metadata.csv that says which bird goes where, instead of a draw.",
    ),
    quality: int = typer.Option(95, help="Quality of the JPEG files, 1 to 95."),
    processes: int = ProcessesOption,
    overwrite: bool = OverwriteOption,
    format: Format = FormatOption,
) -> None:
    """Put CUB's birds, cut out along their masks, on backgrounds of Places."""
    given: dict[str, Any] = {
        n: v
        for n, v in (("confounder", confounder), ("seed", seed), ("species", species))
        if v is not None
    }
    if metadata is not None and given:
        raise ParameterError(
            f"--metadata leaves nothing to draw, so --{next(iter(given))} has no meaning",
            remedy="leave it out",
        )
    from nooch.waterbirds.waterbirds_images import MARKER, Recipe, make_waterbirds

    check_output(out, overwrite=overwrite, marker=MARKER)
    recipe = Recipe(**given)
    with progress() as update:
        made = make_waterbirds(
            cub,
            places,
            out,
            recipe,
            segmentations=segmentations,
            metadata=metadata,
            quality=quality,
            map=LocalEngine(processes).map,
            overwrite=overwrite,
            progress=lambda done, total: update("composing images", done, total),
        )
    groups = made.group_by("split", "y", "place").len("images").sort("split", "y", "place")
    if format is Format.json:
        print_json({"waterbirds": str(out), "images": made.height, "groups": groups.to_dicts()})
        return
    console().print(
        table("", ["split", "y", "place", "images"], [list(row) for row in groups.rows()], left=3)
    )
    console().print(f"{out}: {made.height:,} images", markup=False)
    console().print(f"next: nooch import waterbirds {out} DATASET", style="dim", markup=False)


@app.command("score")
def score_command(
    suite: Path = typer.Argument(
        ..., metavar="SUITE", help="Suite folder, found with --preset waterbirds."
    ),
    predictions: list[Path] = typer.Argument(
        ..., metavar="PREDICTIONS...", help="As for nooch evaluate."
    ),
    dataset: Place = DatasetOption,
    split: str = typer.Option("test", help="Split to score."),
    format: Format = FormatOption,
) -> None:
    """Worst-group error and NLL and AUC-hard as in Table 5, the worst of all four groups, and
    averages by their weighting.
    """
    from nooch.challenge import load_suite
    from nooch.data import load_dataset
    from nooch.finding.suite_summary import recorded_dataset
    from nooch.waterbirds.waterbirds_dataset import QUANTITIES, score_waterbirds, waterbirds_table

    found = load_suite(suite)
    check_one_of("split", split, found.splits, owner="the suite")
    data = load_dataset(dataset) if dataset is not None else recorded_dataset(found, suite)
    if data is None:
        raise ParameterError("the dataset is not where it was", remedy="give --dataset")
    scores = score_waterbirds(found, predictions, data, split=split)
    made = waterbirds_table(scores)
    if format is Format.json:
        print_json(made.to_dicts())
        return
    for text in scores.notes:
        note(text)
    several = made["criterion"].n_unique() > 1
    labels = [
        " ".join(row) for row in made.select("run", *(["criterion"] if several else [])).iter_rows()
    ]
    rows: list[list[Any]] = [[name, *made[name].to_list()] for name in QUANTITIES]
    console().print(table("", ["", *labels], rows))
