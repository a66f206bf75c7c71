"""``nooch predict``: a network that was trained elsewhere, on the images of a suite."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from typer import Option

from nooch.base.errors import some_of
from nooch.base.words import counted
from nooch.cli import options as shared
from nooch.cli.declared import takes
from nooch.cli.runner import Output
from nooch.cli.terminal import hint, note, say, show_progress


@takes("nooch.inference.predict:predict", leave=["codec"], readers={"flags": ["--processes"]})
@takes("nooch.inference.predict:find_images", "where", only=["images", "splits", "limit"])
@takes("nooch.models.images:Decoding", "decoding")
@takes("nooch.models.task_models:load_task_model", "loading")
def predict_command(
    settings: Any,
    where: Any,
    decoding: Any,
    loading: Any,
    suite: Path = shared.SuiteOrDatasetArgument,
    model: str = Option(
        ...,
        help="Hub id or folder: an image classifier, or a model of texts and images such as CLIP; a"
        " name of timm's; FILE.onnx, also a detector; package.module:Name.",
    ),
    out: Path = Option(..., metavar="PREDICTIONS", help="File to write: .parquet or .csv."),
    task_map: str = shared.TaskMapOption,
    dataset: str = shared.DatasetOption,
    tasks: str = shared.TasksOption,
    dry_run: bool = Option(False, "--dry-run", help="Show labels of each task; predict nothing."),
    overwrite: bool = shared.OverwriteOption,
) -> Output:
    """Predict the tasks of a suite with any classifier or detector. A dataset also works."""
    from nooch.data.table_files import result_files
    from nooch.inference import predict as network_predictions

    result_files(out, "predictions file", (), overwrite=overwrite)
    from nooch.models.images import Decoding, dark_notes
    from nooch.models.task_maps import read_task_map
    from nooch.models.task_models import load_task_model
    from nooch.suites.summary import suite_or_dataset

    challenge_suite, data = suite_or_dataset(suite, dataset)
    decoding = Decoding.resolve(Decoding(**decoding), data)
    shown = challenge_suite or data
    assert shown is not None  # noqa: S101 - one of them is there
    names = network_predictions.tasks_to_predict(shown, shared.split_names(tasks) or None)
    words = None if task_map is None else read_task_map(task_map, names)
    ids, paths = network_predictions.find_images(shown, names, data=data, **where)
    loading["skip_unmapped"] = "skip_unmapped" in loading or tasks is None
    loaded = load_task_model(model, names, words, data=data, **loading)
    if skipped := [task for task in names if task not in loaded.tasks]:
        left = f"{counted(len(skipped), 'task')} that the model or the map has no label for"
        note(f"{left} left out: {some_of(skipped)}")
    meaning = {task: loaded.meaning[task] for task in loaded.tasks}
    if words is not None or dry_run:
        note(*(f"{task}: {_shown(labels)}" for task, labels in meaning.items()))
    contents = f"{counted(len(meaning), 'task')} x {counted(len(ids), 'image')}"
    if dry_run:
        note(*([] if loaded.reading is None else [loaded.reading.text]))
        yield {"tasks": meaning, "images": len(ids)}
        say(f"{contents} would be predicted by {loaded.name}")
        return
    note(*dark_notes(paths, decoding))
    if "limit" in where:
        note(f"{counted(len(ids), 'image')} for a first try; to evaluate, leave --limit out")
    shown_as = partial(show_progress, "predicting")
    predictions = network_predictions.predict(
        loaded, ids, paths, codec=decoding, progress=shown_as, **settings
    )
    network_predictions.save_predictions(predictions, out, overwrite=overwrite)
    notes = network_predictions.answer_notes(loaded, predictions, shown)
    note(*notes)
    found = predictions.boxes
    model_facts = {"name": loaded.name, "kind": loaded.kind, "sha256": loaded.identity}
    model_facts |= {} if loaded.reading is None else {"outputs": loaded.reading.kind}
    yield {
        "predictions": str(out),
        "run": predictions.run,
        "images": len(ids),
        **({} if found is None else {"boxes": len(found.scores)}),
        "tasks": meaning,
        "model": {**model_facts, "size": list(loaded.size)},
        "notes": notes,
    }
    boxes = "" if found is None else f"{counted(len(found.scores), 'box')}: "
    height, width = loaded.size
    say(f"{out}: {boxes}{contents} by {loaded.name} ({loaded.kind}) at {height} x {width}")
    if "limit" not in where:
        more = " --boxes --threshold 0.3" if boxes else ""
        of_dataset = f"check {suite} {out} --out check"
        hint(f"next: nooch {f'evaluate {suite} {out}{more}' if challenge_suite else of_dataset}")


def _shown(meaning: Any) -> str:
    """Labels or prompts that stand for a task, as text."""
    if isinstance(meaning, dict):
        return " against ".join(some_of(side) for side in meaning.values())
    return meaning if isinstance(meaning, str) else some_of(meaning, 8)
