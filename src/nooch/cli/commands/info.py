"""``nooch info``, ``show``, ``explain`` and ``verify``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nooch.cli.option_parsing import DatasetArgument, DatasetOption, SuiteArgument
from nooch.cli.terminal_output import Format, FormatOption, console, note, print_json, table
from nooch.files import Place

if TYPE_CHECKING:
    from nooch.published import SetAgreement

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("info")(info_command)
    app.command("show")(show_command)
    app.command("explain")(explain_command)
    app.command("verify")(verify_command)


def info_command(dataset: Place = DatasetArgument, format: Format = FormatOption) -> None:
    """What a dataset holds."""
    from nooch.data import embedding_precision, load_dataset
    from nooch.finding.suite_summary import annotation_facts

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
        "embeddings": {name: list(values.shape) for name, values in data.embeddings.items()},
        "embedding_precision": {name: embedding_precision(name) for name in data.embeddings},
        "areas_known": data.has_areas,
        "image_root": data.image_root,
        "fingerprint": data.fingerprint,
        "provenance": dict(data.provenance),
    }
    if format is Format.json:
        print_json(facts)
        return
    shown = {k: v for k, v in facts.items() if k not in ("classes", "provenance")}
    shown["annotated"] = _annotated(facts["annotated"], len(data))
    rows = [[key.replace("_", " "), str(value)] for key, value in shown.items()]
    rows += [
        ["area", str(data.provenance.get("area"))],
        ["reader", str(data.provenance.get("reader"))],
    ]
    console().print(table(str(dataset), ["", ""], rows, left=2))
    most = sorted(counts.items(), key=lambda item: -item[1])[:15]
    console().print(
        table(
            f"Classes: {len(counts)}, the most frequent",
            ["class", "images"],
            [list(m) for m in most],
        )
    )


def _annotated(facts: dict[str, Any], n_images: int) -> str:
    """What was annotated, in words."""
    texts = [f"{kind} in {n} of {n_images} images" for kind, n in facts["images"].items()]
    if facts["unknown_pairs"]:
        texts.append(
            f"{facts['unknown_pairs']} (image, class) pairs unknown, {facts['verified_pairs']}"
            " verified"
        )
    return (
        "; ".join(texts)
        or "every class counts as annotated in every image: nothing else is recorded"
    )


def show_command(
    suite: Path = SuiteArgument,
    format: Format = FormatOption,
) -> None:
    """Counts, cues, thresholds, and the overlap of criteria."""
    from nooch.challenge import load_suite
    from nooch.cli.terminal_tables import (
        print_counts,
        print_cues,
        print_left_out,
        print_overlap,
        print_thresholds,
    )
    from nooch.finding.suite_summary import overlaps, summary

    found = load_suite(suite)
    if format is Format.json:
        print_json(summary(found))
        return
    print_counts(found)
    print_cues(found)
    print_left_out(found)
    print_thresholds(found)
    print_overlap(overlaps(found))


def explain_command(
    suite: Path = SuiteArgument,
    task: str = typer.Option(..., "--task", help="Task."),
    image: str = typer.Option(..., "--image", help="Image id."),
    dataset: Place = DatasetOption,
    format: Format = FormatOption,
) -> None:
    """Why an image is hard for a task, or is not."""
    from nooch.challenge import load_suite
    from nooch.data import load_dataset
    from nooch.finding.suite_summary import explain, recorded_dataset

    found = load_suite(suite)
    data = load_dataset(dataset) if dataset is not None else recorded_dataset(found, suite)
    if data is None:
        lost = "is not where it was" if found.header.dataset.path else "is not named by the suite"
        note(
            f"the dataset {lost} (give --dataset): only subsets and supports are told, not the cues"
            " behind them"
        )
    facts = explain(found, task, image, data)
    if format is Format.json:
        print_json(facts)
        return
    label = {True: "present", False: "absent", None: "unknown"}[facts["label"]]
    where = f" ({facts['split']})" if facts["split"] else ""
    console().print(f"image {facts['image_id']}{where}: {task} is {label}", markup=False)
    for verdict in facts["verdicts"]:
        console().print(f"  {verdict['criterion']}: {verdict['text']}", markup=False)


def verify_command(
    suite: Path = SuiteArgument,
    published: Path = typer.Argument(
        ..., metavar="PUBLISHED_DIR", help="Folder of the authors' .npy files."
    ),
    format: Format = FormatOption,
) -> None:
    """Compare a suite with the published challenge sets, on the images that both can know."""
    from nooch.challenge import load_suite
    from nooch.published import read_published, verify

    found = load_suite(suite)
    verdicts = verify(found, read_published(published))
    if format is Format.json:
        print_json([asdict(verdict) for verdict in verdicts])
        return
    columns = [
        "criterion",
        "task",
        "split",
        "side",
        "published",
        "covered",
        "found",
        "both",
        "Jaccard",
        "only published",
        "only found",
    ]
    console().print(
        table("Against the published sets", columns, [_row(v) for v in verdicts], left=4)
    )
    if any(v.mislabelled for v in verdicts):
        wrong = sum(v.mislabelled for v in verdicts)
        note(
            f"{wrong} published ids have the other label in this dataset (--format json says where)"
        )


def _row(v: SetAgreement) -> list[Any]:
    counts = [
        v.published,
        v.covered,
        v.found,
        v.both,
        v.jaccard,
        len(v.only_published),
        len(v.only_found),
    ]
    return [v.criterion, v.task, v.split, v.side, *counts]
