"""``nooch tools scenes`` and ``nooch tools scenes-score``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer import Argument, Option

from nooch.base.errors import ParameterError
from nooch.base.files import check_output
from nooch.base.words import counted
from nooch.cli import options as shared
from nooch.cli.declared import takes
from nooch.cli.prediction_options import read_predictions, with_reading
from nooch.cli.runner import Output
from nooch.cli.terminal import hint, note, print_table, print_text, say, show_progress


@takes("nooch.scenes.generator:ScenesPlan")
def scenes_command(
    settings: Any,
    out: Path = Argument(None, metavar="OUT", help="Folder to write; it must not exist."),
    config: Path = Option(
        None, help="YAML file of another world; --print-config prints the default one."
    ),
    print_config: bool = Option(False, "--print-config", help="Print the default world and stop."),
    processes: int = shared.ProcessesOption,
    overwrite: bool = shared.OverwriteOption,
) -> Output:
    """Generate synthetic scenes with known context. Writes COCO-format annotations and JPEGs."""
    from nooch.scenes.generator import SCENES_MARKER, ScenesPlan, generate
    from nooch.scenes.world import default_text, load_world

    if print_config:
        print_text(default_text())
        return
    if out is None:
        raise ParameterError(
            "no folder was given",
            allowed="nooch tools scenes OUT, or nooch tools scenes --print-config",
        )
    check_output(out, overwrite=overwrite, marker=SCENES_MARKER)
    plan = ScenesPlan(**settings, world=load_world(config))
    from nooch.base.engines import LocalEngine

    LocalEngine.warm("nooch.scenes")
    workers = LocalEngine(processes)
    generate(plan, out, overwrite=overwrite, map=workers.map, progress=show_progress)
    yield {"scenes": str(out), **plan.settings()}
    tasks, strength = counted(len(plan.world.tasks), "task"), f"{plan.context_strength:g}"
    images = f"{counted(plan.images, 'image')} of {plan.size} x {plan.size}"
    say(f"{out}: {images}, {tasks}, context strength {strength}")
    files = " ".join(f"--{role} {out}/annotations/{kind}_scenes.json" for role, kind in _ROLES)
    hint(f"next: nooch import coco {files} --images {out}/images --split 70/10/20 DATASET")


_ROLES = (("things", "instances"), ("stuff", "stuff"), ("captions", "captions"))


@takes("nooch.paper.truth_scores:find_score")
def scenes_score_command(
    settings: Any,
    suite: Path = Argument(..., metavar="SUITE", help="Suite folder found in generated scenes."),
    truth: Path = Argument(..., metavar="TRUTH", help="truth.parquet of these scenes."),
    out: Path = Option(
        None,
        help="File of scores: .parquet, .csv or .json; other thresholds go to NAME-thresholds.",
    ),
    overwrite: bool = shared.OverwriteOption,
) -> Output:
    """Score challenge sets against the truth of scenes, by precision, recall and AUC."""
    from nooch.paper import truth_scores

    if out is not None:
        truth_scores.check_truth_output(out, overwrite=overwrite)
    scores = truth_scores.find_score(suite, truth_scores.load_truth(truth), **settings)
    note(*scores.notes)
    if out is not None:
        truth_scores.save_truth_scores(scores, out, overwrite=overwrite)
    yield scores.as_json()
    for (name, part), rows in scores.table.group_by("criterion", "split", maintain_order=True):
        shown = rows.drop("criterion", "split", "reason").rows()
        print_table(f"Against the truth: {name} ({part})", rows.columns[2:-1], shown, left=2)
    if out is not None:
        hint(f"{out}: {counted(scores.table.height, 'row')}")


@with_reading
def waterbirds_command(
    reading: Any,
    suite: Path = Argument(
        ..., metavar="SUITE", help="Suite folder, found with --preset waterbirds."
    ),
    predictions: list[Path] = Argument(
        ..., metavar="PREDICTIONS...", help="Predictions as for nooch evaluate."
    ),
    dataset: str = shared.DatasetOption,
    split: str = Option("test", help="Split to score."),
) -> Output:
    """Score predictions as in the paper's Table 5: worst group, AUC-hard, averages."""
    from nooch.data.table_schema import check_split
    from nooch.paper.waterbirds import QUANTITIES, score_waterbirds, waterbirds_table
    from nooch.suites.summary import suite_with_dataset

    scored, data = suite_with_dataset(suite, dataset)
    check_split(split, scored.splits, "the suite")
    data = data or scored.require_dataset(None)
    scores = score_waterbirds(
        scored, read_predictions(predictions, reading, scored, data), data, split=split
    )
    quantities = waterbirds_table(scores)
    yield quantities.to_dicts()
    note(*scores.notes)
    names = ["run", "criterion"] if quantities["criterion"].n_unique() > 1 else ["run"]
    labels = [" ".join(row) for row in quantities.select(names).iter_rows()]
    print_table("", ["", *labels], [[name, *quantities[name].to_list()] for name in QUANTITIES])
