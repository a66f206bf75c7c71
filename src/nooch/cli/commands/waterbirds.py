"""``nooch waterbirds score``: predictions scored as the paper's Table 5 does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer import Argument, Option

from nooch.base.errors import ParameterError, check_one_of
from nooch.base.files import Place
from nooch.cli import options as shared
from nooch.cli.prediction_options import read_predictions, with_reading
from nooch.cli.terminal import note, print_json, print_table

__all__ = ["app"]

app = shared.command_group("waterbirds", "Waterbirds: predictions scored as in Table 5.")


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
    from nooch.data.readers.waterbirds import QUANTITIES, score_waterbirds, waterbirds_table
    from nooch.suites.summary import suite_with_dataset

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
