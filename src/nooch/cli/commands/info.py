"""``nooch info``, ``show`` and ``explain``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Exit, Option

from nooch.base.errors import ParameterError
from nooch.base.words import counted
from nooch.cli import options as shared
from nooch.cli.declared import takes
from nooch.cli.prediction_options import read_predictions, with_reading
from nooch.cli.runner import Output
from nooch.cli.terminal import note, print_json, print_table, print_tables, say, with_flags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nooch.evaluation.detectable import Detectable


def info_command(
    dataset: str = shared.DatasetArgument,
    check: bool = Option(
        False,
        "--check",
        help=(
            "Verify the files of the folder, also of a suite, runs, features, pixels or an export."
            " Exit code 1 if one is damaged."
        ),
    ),
    format: shared.Format = shared.FormatOption,
) -> None:
    """Show the contents of a dataset, or verify a folder of nooch."""
    if check:
        _check(dataset, format)
        return
    from nooch.data import embedding_precision, load_dataset
    from nooch.suites.summary import annotation_facts

    data = load_dataset(dataset)
    counts = {name: len(data.rows_of(name)[0]) for name in data.classes}
    facts: dict[str, Any] = {
        "dataset": str(dataset),
        "images": len(data),
        "splits": data.splits,
        "classes": counts,
        "attributes": {name: str(data.images[name].dtype) for name in data.attributes},
        "annotated": annotation_facts(data),
        "captions": 0 if data.captions is None else data.captions.height,
        "objects": None if data.objects is None else data.objects.height,
        "embeddings": {name: list(values.shape) for name, values in data.embeddings.items()},
        "embedding_precision": {name: embedding_precision(name) for name in data.embeddings},
        "areas_known": data.has_areas,
        "image_root": data.image_root,
        "fingerprint": data.fingerprint,
        "provenance": dict(data.provenance),
    }
    if format is shared.Format.json:
        print_json(facts)
        return
    shown = {k: v for k, v in facts.items() if k not in ("classes", "provenance")}
    shown["annotated"] = _annotated(facts["annotated"], len(data))
    shown |= {name: data.provenance.get(name) for name in ("area", "reader")}
    shown["predicted_by"] = data.provenance.get("predicted", {}).get("model")
    shown_facts = {
        name.replace("_", " "): value for name, value in shown.items() if value not in ({}, None)
    }
    rows = [[name, _in_words(value)] for name, value in shown_facts.items()]
    print_table(str(dataset), ["", ""], rows, left=2)
    most = sorted(counts.items(), key=lambda item: -item[1])[:15]
    print_table(f"Classes: {len(counts)}, the most frequent", ["class", "images"], most)


def _in_words(fact: Any) -> str:
    """``train 120, valid 60``, ``5,000 x 384``, ``yes``."""
    if isinstance(fact, dict):
        return ", ".join(f"{name} {_in_words(value)}" for name, value in fact.items())
    if isinstance(fact, list):
        return " x ".join(map(_in_words, fact))
    if isinstance(fact, bool):
        return "yes" if fact else "no"
    return f"{fact:,}" if isinstance(fact, int) else str(fact)


def _annotated(facts: dict[str, Any], n_images: int) -> str:
    """Annotation coverage in words."""
    texts = [f"{kind} in {n} of {n_images} images" for kind, n in facts["images"].items()]
    if facts["unknown_pairs"]:
        verified = f"{facts['verified_pairs']} verified"
        texts.append(f"{facts['unknown_pairs']} (image, class) pairs unknown, {verified}")
    everything = "every class counts as annotated in every image: nothing else is recorded"
    return "; ".join(texts) or everything


def _check(folder: str, format: shared.Format) -> None:
    from nooch.integrity import fsck

    checked = fsck(folder)
    for text in checked.notes:
        note(text)
    if format is shared.Format.json:
        facts = {
            "folder": str(folder),
            "files": sorted(checked.files),
            "is_whole": checked.is_whole,
        }
        print_json({**asdict(checked), **facts})
    else:
        for damage in checked.damaged:
            say(f"{damage.file}: {damage.problem}\n  remedy: {with_flags(damage.remedy)}")
        outcome = (
            "whole" if checked.is_whole else f"damaged: {counted(len(checked.damaged), 'file')}"
        )
        say(f"{folder}: {checked.kind}, {counted(len(checked.files), 'file')} checked, {outcome}")
    if not checked.is_whole:
        raise Exit(1)


@takes(
    "nooch.evaluation.detectable:detectable",
    detect={"default": None, "metavar": "POINTS"},
    rate={"default": None, "show_default": "0.1"},
)
def show_command(
    suite: Path = shared.SuiteArgument,
    tasks: str = Option(
        None,
        help="Tasks, separated by commas; by default the 20 with the most hard images.",
        autocompletion=shared.complete_tasks,
    ),
    everything: bool = Option(False, "--all", help="Show all tasks."),
    *,
    settings: Any,
) -> Output:
    """Show a suite: counts, cues, thresholds, overlap, and how many images a test needs."""
    from nooch.cli.tables import MOST, print_counts
    from nooch.evaluation.findings import SMALLEST
    from nooch.suites import load_suite
    from nooch.suites.summary import overlaps, suite_tables, summary

    if settings and "detect" not in settings:
        raise ParameterError("there is no difference to detect", give={"detect": ...})
    shown, task_names = load_suite(suite), shared.split_names(tasks)
    shown = shown.only(task_names) if task_names else shown

    def found(names: Sequence[str]) -> list[Detectable]:
        from nooch.evaluation.detectable import detectable

        return [detectable(shown.only(names), **settings)] if settings else []

    # refused before anything is printed
    found(shown.tasks[:1])
    yield lambda: summary(shown) | dict(one.content for one in found(shown.tasks))
    most = len(shown.tasks) if everything else MOST
    shown = shown.only(print_counts(shown, task_names, most, SMALLEST))
    differences = [one.display for one in found(shown.tasks)]
    print_tables([*differences, *suite_tables(shown, overlaps(shown))])


@takes("nooch.evaluation.explain:explain", only=["criteria"])
@with_reading
def explain_command(
    settings: Any,
    reading: Any,
    suite: Path = shared.SuiteArgument,
    task: str = Option(..., help="Task of the suite.", autocompletion=shared.complete_tasks),
    image: str = Option(..., help="Image id."),
    predictions: list[Path] = Option(
        [], help="Predictions of a model, to show its answers; repeat for several."
    ),
    dataset: str = shared.DatasetOption,
) -> Output:
    """Explain why an image is hard or easy for a task."""
    from nooch.evaluation.explain import explain
    from nooch.suites.summary import suite_with_dataset

    explained, data = suite_with_dataset(suite, dataset)
    if data is None:
        path = explained.header.dataset.path
        lost = "was not found at its recorded path" if path else "is not named by the suite"
        note(f"the dataset {lost} (give --dataset): only subsets and supports are shown, no cues")
    runs = read_predictions(predictions, reading, explained, data)
    facts = explain(explained, task, image, data, predictions=runs, **settings)
    yield facts
    words = {True: "present", False: "absent", None: "unknown"}
    where = f" ({facts['split']})" if facts["split"] else ""
    say(f"image {facts['image_id']}{where}: {task} is {words[facts['label']]}")
    for verdict in facts["verdicts"]:
        say(f"  {verdict['criterion']}: {verdict['text']}")
    for one in facts.get("findings") or ():
        error = ", an error" if one["wrong"] else ""
        say(f"  in finding {one['number']}{error}: {one['sentence']}")
    if facts.get("findings") == []:
        say("  in none of the check's findings")
    outcomes = {True: "an error", False: "correct", None: "not to be judged"}
    for answer in facts.get("answers", ()):
        text = "no prediction"
        if answer["answer"] is not None:
            answered = f"{words[answer['answer']]} (probability {answer['probability']:.3g})"
            text = f"answers that {task} is {answered}: {outcomes[answer['error']]}"
        say(f"  {answer['run']}: {text}")
