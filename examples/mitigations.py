"""Does a mitigation mitigate? The tables and the figure of docs/mitigations.md.

    python examples/mitigations.py DATA OUT

DATA has files that others published: ``coco-stats`` (labels of COCO's 80 things), ``captions``
(which images are of val2014), and ``answers`` (OPERA's captions, POPE answers and AMBER captions of
LLaVA 1.5 and two fine-tunings, the list of POPE's labels that COCO does not have). Writes
``tables.md`` and ``mitigations.svg``. No model, image or GPU is needed.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from scipy.sparse import csr_array

import nooch
from nooch.evaluation.captions import score_captions
from nooch.evaluation.context_changes import ContextChange, changes_tables
from nooch.evaluation.scores import Scores
from nooch.report.figures.style import BLUE, ORANGE, canvas, styled, svg

MODELS = {"llava-1.5": "LLaVA 1.5", "minigpt4": "MiniGPT-4", "shikra": "Shikra"}
DECODINGS = {"greedy": "greedy", "beam5": "beam search", "ours": "OPERA"}
TUNED = {
    "llava15_base_7b": "LLaVA 1.5 7B",
    "llava15_base_13b": "LLaVA 1.5 13B",
    "direct_paper_hsa_b32_e1": "7B, DPO 1",
    "api_verified_margin_hsa_b32_e1": "7B, DPO 2",
}
KINDS = {"coco": "captions of COCO", "pope": "POPE, adversarial", "amber": "captions of AMBER"}
PLACES = [("rate", "hard_negative"), ("rate", "easy_negative"), ("ratio", "negative")]
SURE, CONTEXT = ", without suspects", "context"


def main() -> None:
    """Write the tables and the figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, content in report(arguments.data).items():
        (arguments.out / name).write_bytes(content)


def report(folder: Path) -> dict[str, bytes]:
    """File name -> content."""
    scored = list(scores(folder))
    changes = [change for _, of in scored for change in of.changes if change.criterion == CONTEXT]
    tables = [rows_table(scored), changes_table(changes), cut_table(changes), *labels(folder)]
    return {
        "tables.md": "\n".join(tables).encode(),
        "mitigations.svg": draw(scored),
    }


def scores(folder: Path) -> Iterator[tuple[str, Scores]]:
    """Kind, and the scores of runs with their baseline."""
    files, tuned = folder / "answers" / "opera-captions", folder / "answers" / "mitigation-answers"
    coco = nooch.find(val2014(folder), nooch.Context())
    for model in MODELS:
        of_model = [files / f"{model}.{decoding}.jsonl" for decoding in DECODINGS]
        yield "coco", score_captions(coco, of_model, bootstrap=0)
    answers = [tuned / f"{run}.pope_adv.jsonl" for run in TUNED]
    yield "pope", nooch.evaluate("nooch-pope", answers, metrics=["error"])
    captions = [tuned / f"{run}.amber.jsonl" for run in TUNED if run != "llava15_base_13b"]
    amber = nooch.load_suite("nooch-amber")
    yield "amber", score_captions(amber, captions, bootstrap=0)


def val2014(folder: Path) -> nooch.Dataset:
    """Labels of 80 things in the images of val2014 that other files name, and that have a thing."""
    with np.load(folder / "coco-stats" / "derived_coco_thing_labels_123287x80.npz") as stats:
        ids, labels = stats["image_ids"], stats["labels"]
        classes = [str(name).replace(" ", "_") for name in stats["category_names"]]
    with (folder / "captions" / "coco_30k.csv").open(encoding="utf-8") as file:
        known = {int(row["image_id"]) for row in csv.DictReader(file)}
    images = json.loads((folder / "captions" / "captions_val2017.json").read_text("utf-8"))
    known |= {image["id"] for image in images["images"]}
    for path in opera_files(folder):
        lines = path.read_text("utf-8").splitlines()
        known |= {json.loads(line)["image_id"] for line in lines}
    rows = np.isin(ids, [*known]) & labels.any(axis=1)
    return nooch.Dataset.build(
        pl.DataFrame({"image_id": ids[rows]}), classes, csr_array(labels[rows] * 0.5)
    )


def opera_files(folder: Path) -> list[Path]:
    """OPERA's captions: of each model by each decoding."""
    return sorted((folder / "answers" / "opera-captions").glob("*.jsonl"))


def named(run: str) -> str:
    """The model, and its decoding or tuning."""
    run, ending = run.removesuffix(SURE), SURE if run.endswith(SURE) else ""
    model, _, decoding = run.rpartition(".")
    if decoding in DECODINGS:
        return f"{MODELS[model]}, {DECODINGS[decoding]}"
    return TUNED[model] + ending


def rows_of(scored: Sequence[tuple[str, Scores]]) -> Iterator[tuple[str, str, Scores]]:
    """Kind, run and scores, a row for each file."""
    for kind, of in scored:
        yield from ((kind, run, of) for run, c in of.contexts if c == CONTEXT and SURE not in run)


def cell(estimate: object, scale: float = 1) -> str:
    """A value with its interval."""
    ends = (getattr(estimate, name) for name in ("value", "low", "high"))
    value, low, high = (f"{scale * end:.1f}" for end in ends)
    return f"{value} [{low}, {high}]"


def rows_table(scored: Sequence[tuple[str, Scores]]) -> str:
    """A row for each file: rates, ratio, recall; the ratio without suspect labels."""
    lines = [
        "| | model | n | with its context | without | ratio | macro recall | without suspects |"
    ]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for kind, run, of in rows_of(scored):
        rates = of.contexts[run, CONTEXT].estimates
        sure = of.contexts.get((run + SURE, CONTEXT))
        cells = [cell(rates[place], 100 if place[0] == "rate" else 1) for place in PLACES]
        n = f"{rates[PLACES[2]].n:,}"
        macro = f"{100 * (rates['macro_recall', 'positive'].value or 0):.1f}"
        without = cell(sure.estimates[PLACES[2]]) if sure and kind == "amber" else ""
        lines.append(f"| {' | '.join([KINDS[kind], named(run), n, *cells, macro, without])} |")
    return "\n".join([*lines, ""])


def changes_table(changes: Sequence[ContextChange]) -> str:
    """Changes of each run against its baseline, of whole captions."""
    return _table([change for change in changes if not change.equal_length])


def cut_table(changes: Sequence[ContextChange]) -> str:
    """The same of captions cut to the shorter one of the pair."""
    return _table([change for change in changes if change.equal_length])


def _table(changes: Sequence[ContextChange]) -> str:
    lines: list[str] = []
    for shown in changes_tables(changes):
        if not lines:
            lines = [f"| {' | '.join(['model', *shown.columns[1:-1], 'verdict'])} |"]
            lines.append(f"|{'---|' * len(shown.columns)}")
        for name, n, *cells in shown.rows:
            # answers have no length
            texts = cells if "words" in shown.columns else [*cells[:4], "", *cells[4:]]
            lines.append(f"| {' | '.join([named(name), f'{n:,}', *map(str, texts)])} |")
    return "\n".join([*lines, ""])


def labels(folder: Path) -> list[str]:
    """POPE's present things that COCO's labels do not have, by thing, and RePOPE's totals."""
    path = folder / "answers" / "pope-labels" / "pope_yes_without_coco_annotation.csv"
    table = pl.read_csv(path)
    totals = dict(table.group_by("repope_label").len().rows())
    image = pl.col("image").str.extract(r"(\d+)\.jpg").cast(pl.Int64)
    listed = table.select("object", image).sort("object", "image")
    lines = ["| thing | images of val2014 |", "|---|---|"]
    for (thing,), part in listed.group_by("object", maintain_order=True):
        lines.append(f"| {thing} | {', '.join(map(str, part['image']))} |")
    no, ambiguous, yes = (totals.get(key, 0) for key in ("no", "removed as ambiguous", "yes"))
    heads = ["| labels | no | ambiguous | yes |", "|---|---|---|---|"]
    return [
        "\n".join([*heads, f"| {table.height} | {no} | {ambiguous} | {yes} |", ""]),
        "\n".join([*lines, ""]),
    ]


@styled
def draw(scored: Sequence[tuple[str, Scores]]) -> bytes:
    """The ratio of each file with its interval; mitigations and baselines in two colors."""
    figure, panels = canvas(len(KINDS), 3.2, 3.4)
    for axes, kind in zip(panels, KINDS, strict=True):
        runs = [(run, of) for k, run, of in rows_of(scored) if k == kind][::-1]
        for place, (run, of) in enumerate(runs):
            one = of.contexts[run, CONTEXT].estimates["ratio", "negative"]
            is_base = run == of.settings["baseline"]
            color = BLUE if is_base else ORANGE
            axes.plot([one.low or 0, one.high or 0], [place] * 2, color=color)
            axes.plot(one.value or 0, place, "o", markersize=5, color=color)
        axes.set(title=KINDS[kind], xlim=0, xlabel="times as often with the context")
        axes.set_yticks(range(len(runs)), [named(run) for run, _ in runs])
    return svg(figure)


if __name__ == "__main__":
    main()
