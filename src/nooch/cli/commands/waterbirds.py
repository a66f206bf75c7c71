"""``nooch waterbirds ...``: compose the images of Waterbirds, and score predictions as the paper's
Table 5 does.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from typer import Argument, Option

from nooch.cli import option_parsing as shared
from nooch.cli.prediction_options import read_predictions, with_reading
from nooch.cli.terminal_output import hint, note, print_json, print_table, progress, say
from nooch.engines import LocalEngine
from nooch.english import counted
from nooch.errors import ParameterError, check_one_of
from nooch.files import Place, check_output

__all__ = ["app"]

app = shared.command_group("waterbirds", "Make the images of Waterbirds; score as in Table 5.")


@app.command("make")
def make_command(
    out: Path = Argument(..., metavar="OUT", help="Folder to write: metadata.csv and images."),
    cub: Path = Option(
        ..., help="CUB-200-2011: images.txt, train_test_split.txt, images/, segmentations/."
    ),
    places: Path = Option(
        ..., help="Places: data_large/o/ocean, l/lake/natural, b/bamboo_forest, f/forest/broadleaf."
    ),
    confounder: float = Option(
        0.95, help="Share of training birds on their own kind of background."
    ),
    seed: int = Option(0, help="Seed of all draws."),
    species: str = Option(
        "released",
        help="released: water birds as in the usual data; corrected: without three land birds.",
    ),
    segmentations: Path = Option(None, help="Folder of masks, where it is not CUB/segmentations."),
    metadata: Path = Option(
        None, help="A metadata.csv that says which bird goes where, instead of a draw."
    ),
    quality: int = Option(95, help="Quality of the JPEG files, 1 to 95."),
    processes: int = shared.ProcessesOption,
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
) -> None:
    """Put the birds of CUB on backgrounds of Places. The birds are cut out along their masks."""
    from nooch.waterbirds.waterbirds_images import MARKER, Recipe, make_waterbirds

    recipe, usual = Recipe(confounder, seed=seed, species=species), Recipe()
    for name in ("confounder", "seed", "species"):
        if metadata is not None and getattr(recipe, name) != getattr(usual, name):
            problem = f"--metadata leaves nothing to draw, so --{name} has no meaning"
            raise ParameterError(problem, remedy="leave it out")
    check_output(out, overwrite=overwrite, marker=MARKER)
    with progress() as update:
        birds = make_waterbirds(
            cub,
            places,
            out,
            recipe,
            segmentations=segmentations,
            metadata=metadata,
            quality=quality,
            map=LocalEngine(processes).map,
            overwrite=overwrite,
            progress=partial(update, "composing images"),
        )
    groups = birds.group_by("split", "y", "place").len("images").sort("split", "y", "place")
    if format is shared.Format.json:
        print_json({"waterbirds": str(out), "images": birds.height, "groups": groups.to_dicts()})
        return
    print_table("", groups.columns, groups.rows(), left=3)
    say(f"{out}: {counted(birds.height, 'image')}")
    hint(f"next: nooch import waterbirds {out} DATASET")


@app.command("score")
@with_reading
def score_command(
    suite: Path = Argument(
        ..., metavar="SUITE", help="Suite folder, found with --preset waterbirds."
    ),
    predictions: list[Path] = Argument(
        ..., metavar="PREDICTIONS...", help="As for nooch evaluate."
    ),
    dataset: Place = shared.DatasetOption,
    split: str = Option("test", help="Split to score."),
    format: shared.Format = shared.FormatOption,
    reading: Any = None,
) -> None:
    """Score predictions as in the paper's Table 5. Worst group, AUC-hard, averages."""
    from nooch.finding.suite_summary import suite_with_dataset
    from nooch.waterbirds.waterbirds_dataset import QUANTITIES, score_waterbirds, waterbirds_table

    scored, data = suite_with_dataset(suite, dataset)
    check_one_of("split", split, scored.splits, owner="the suite")
    if data is None:
        raise ParameterError("the dataset is not where it was", remedy="give --dataset")
    scores = score_waterbirds(
        scored, read_predictions(predictions, reading, scored, data), data, split=split
    )
    quantities = waterbirds_table(scores)
    if format is shared.Format.json:
        print_json(quantities.to_dicts())
        return
    note(*scores.notes)
    names = ["run", "criterion"] if quantities["criterion"].n_unique() > 1 else ["run"]
    labels = [" ".join(row) for row in quantities.select(names).iter_rows()]
    print_table("", ["", *labels], [[name, *quantities[name].to_list()] for name in QUANTITIES])
