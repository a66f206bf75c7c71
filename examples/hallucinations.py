"""Why do models see what is not there? The tables and figures of docs/hallucinations.md.

    python examples/hallucinations.py DATA OUT

DATA has ``coco-stats`` and ``vlm`` (labels of COCO's 80 things, captions and answers of models,
POPE's questions, RePOPE's corrected labels). Writes ``tables.md`` and two figures. Captions are
scored as ``nooch captions --split valid,test`` does, with the words of ``paper_words.yaml``; of the
context criterion as many images are hard as of ce, and it is fitted on the training split. The
curve asks about 80 things, with the words of ``coco`` and a sixth of the training images.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from pope_context import absent_pairs, labeled_images

import nooch
from nooch.analysis.leaderboard import paired_gap
from nooch.evaluation.captions import (
    ModelCaptions,
    equally_long,
    mentions,
    read_captions,
    score_captions,
    whole_sentences,
)
from nooch.evaluation.context_rates import context_rates
from nooch.evaluation.metrics.proportions import wilson_of_groups
from nooch.evaluation.vocabulary import COCO, load_vocabulary
from nooch.report.figures.style import BLUE, ORANGE, canvas, styled, svg

WORDS = Path(__file__).parent / "paper_words.yaml"
SPLITS = ["valid", "test"]
MODELS = {"instructblip": "InstructBLIP", "llava": "LLaVA", "minigpt-4": "MiniGPT-4"}
ANSWERS = "LLaVA 1.5, answers"
CRITERIA, THINGS = ("ce", "gist", "context"), "80 things"
PAIR = ["image_id", "task"]
KINDS = ("with its context", "without")
BOUNDS = ("value", "low", "high")
TENTHS = 10


def main() -> None:
    """Write the tables and figures."""
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
    suite = nooch.load_suite("nooch-coco")
    split = {i: key[2] for key in suite.keys if key[2] in SPLITS for i in suite.image_ids([key])}
    data = labeled_images(folder, split)
    context = nooch.find(
        data, {"context": nooch.Context(lift=None)}, tasks="nooch", match="from:nooch-coco:ce"
    )
    files = sorted((folder / "vlm" / "captions").glob("*.json"))
    captions = [of_sets(run, split) for run in read_captions(files, suite)]
    cut = equally_long(captions)
    cells = pl.concat([cells_of(suite), cells_of(context)])
    said = mentioned(captions, WORDS, suite.tasks)
    assert suite.suspects is not None
    every = pl.concat([said, answers(folder, suite)])
    both = every, every.join(suite.suspects, on=PAIR, how="anti")
    rates, surer = (rates_by_context(rows, cells) for rows in both)
    scored = score_captions(
        suite, files, split=SPLITS, criteria=["ce"], synonyms=WORDS, bootstrap=0
    ).table.filter(task="pooled", subset="all")
    all_things = nooch.find(
        labeled_images(folder, split, every=6), {THINGS: nooch.Context()}, splits=SPLITS
    )
    whole, shorter = (mentioned(runs, COCO, all_things.tasks) for runs in (captions, cut))
    of_answers = tenths_of_answers(absent_pairs(folder, every=6))
    tenths = pl.concat([by_tenth(whole, all_things), of_answers])
    of_things = cells_of(all_things)
    tables = [
        sizes_table(rates, surer),
        rates_table(rates, surer),
        tenths_table(tenths),
        lengths_table(scored, *(rates_by_context(one, of_things) for one in (whole, shorter))),
        pairs_table(said, whole, shorter, pl.concat([cells, of_things])),
    ]
    return {
        "tables.md": "\n".join(tables).encode(),
        "hallucination-rates.svg": draw_rates(rates, surer),
        "hallucination-curve.svg": draw_tenths(tenths),
    }


def named(run: str) -> str:
    """The model and the number of its instruction."""
    number, model = run.removeprefix("Instruction").split("_")
    return f"{MODELS[model]}, {number}"


def of_sets(run: ModelCaptions, images: Iterable[int]) -> ModelCaptions:
    """Captions of these images, without sentences that were cut off."""
    captions = run.captions.filter(pl.col("image_id").is_in([*images]))
    texts = [whole_sentences(text) for text in captions["caption"]]
    return ModelCaptions(named(run.run), captions.with_columns(caption=pl.Series(texts)))


def cells_of(suite: nooch.Suite) -> pl.DataFrame:
    """``image_id, task, cell, criterion`` of all sets."""
    keys = suite.select_keys(splits=SPLITS)
    return pl.concat(
        suite.set(*key).cell_frame.with_columns(criterion=pl.lit(key[0])) for key in keys
    )


def mentioned(
    runs: Sequence[ModelCaptions], words: str | Path, tasks: Sequence[str]
) -> pl.DataFrame:
    """``run, image_id, task, yes, weight``: whether captions mention the tasks."""
    vocabulary, found = load_vocabulary(words), []
    for run in runs:
        said = mentions(run, vocabulary, tasks).said
        assert said is not None
        run_name, yes = pl.lit(run.run).alias("run"), pl.col("value").alias("yes")
        found.append(said.drop_nulls("value").select(run_name, *PAIR, yes, "weight"))
    return pl.concat(found)


def answers(folder: Path, suite: nooch.Suite) -> pl.DataFrame:
    """The same of LLaVA 1.5's answers to POPE's questions."""
    vlm = folder / "vlm"
    file, asked = vlm / "answers" / "llava-1.5-7b.jsonl", vlm / "pope" / "llava_pope_test.jsonl"
    (run,) = nooch.load_predictions(file, suite, questions=asked)
    assert run.said is not None
    yes = (pl.col("value") > 0.5).fill_null(value=False).cast(pl.Float64)
    return run.said.select(pl.lit(ANSWERS).alias("run"), *PAIR, yes.alias("yes"), "weight")


def rates_by_context(said: pl.DataFrame, cells: pl.DataFrame) -> pl.DataFrame:
    """``run, criterion, measure, subset, value, low, high, n`` of absent objects."""
    found = []
    for (run, criterion), rows in said.join(cells, on=PAIR).group_by(
        "run", "criterion", maintain_order=True
    ):
        frame = context_rates(rows).frame().filter(pl.col("subset").str.ends_with("negative"))
        found.append(frame.with_columns(run=pl.lit(run), criterion=pl.lit(criterion)))
    return pl.concat(found)


def by_tenth(said: pl.DataFrame, suite: nooch.Suite) -> pl.DataFrame:
    """``run, tenth, value, low, high, n``: how often absent things are mentioned, by the tenth of
    the images without the thing in which it is expected least (1) to most (10).
    """
    seen = said.select("image_id").unique()
    supports = [challenge_supports(suite, key).join(seen, on="image_id") for key in suite.keys]
    absent = pl.concat(supports).filter(~pl.col("label"))
    rank = pl.col("support").rank("ordinal").over("task") - 1
    absent = absent.sort("task", "image_id").with_columns(
        tenth=1 + rank * TENTHS // pl.len().over("task")
    )
    return tenths_of(said.join(absent, on=PAIR))


def challenge_supports(suite: nooch.Suite, key: tuple[str, str, str]) -> pl.DataFrame:
    """``image_id, task, label, support`` of a set."""
    challenge = suite.set(*key)
    columns = {"image_id": challenge.image_ids, "label": challenge.labels}
    frame = pl.DataFrame({**columns, "support": challenge.support})
    return frame.with_columns(task=pl.lit(challenge.task))


def tenths_of_answers(pairs: pl.DataFrame) -> pl.DataFrame:
    """The same of answers about absent things by corrected labels: tenths of all questions."""
    rank = pl.col("lift").rank("ordinal") - 1
    pairs = pairs.sort(PAIR).with_columns(tenth=1 + rank * TENTHS // pl.len())
    return tenths_of(pairs.with_columns(run=pl.lit(ANSWERS), yes=pl.col("yes").cast(pl.Float64)))


def tenths_of(rows: pl.DataFrame) -> pl.DataFrame:
    found = []
    for (run, tenth), part in rows.sort("run", "tenth").group_by(
        "run", "tenth", maintain_order=True
    ):
        yes = part["yes"].to_numpy() > 0.5
        low, high = wilson_of_groups(yes, part["image_id"].to_numpy())
        row = {"run": run, "tenth": tenth, "value": float(yes.mean()), "low": low, "high": high}
        found.append({**row, "n": len(yes), "yes": int(yes.sum())})
    return pl.DataFrame(found)


def lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    every = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in every).replace(" --- ", "---")


def interval(row: Mapping[str, Any], digits: int, scale: float = 1) -> str:
    """A value with its interval."""
    value, low, high = (
        "–" if row[name] is None else f"{row[name] * scale:.{digits}f}" for name in BOUNDS
    )
    return f"{value} [{low}, {high}]"


MEASURES = [("rate", "hard_negative"), ("rate", "easy_negative")]
MEASURES += [("ratio", "negative"), ("odds_ratio", "negative")]


def chosen(rates: pl.DataFrame, run: str, criterion: str) -> list[dict[str, Any]]:
    """The rates with and without the context, their ratio and odds ratio."""
    of_run = rates.filter(run=run, criterion=criterion)
    return [of_run.filter(measure=m, subset=s).row(0, named=True) for m, s in MEASURES]


def sizes_table(rates: pl.DataFrame, surer: pl.DataFrame) -> str:
    """Numbers of absent objects that captions, and answers, are about; and of suspect ones."""
    rows = []
    for criterion in CRITERIA:
        cells = []
        for run in ("LLaVA, 1", ANSWERS):
            pairs = zip(*(chosen(one, run, criterion)[:2] for one in (rates, surer)), strict=True)
            cells += [f"{one['n']:,} ({one['n'] - other['n']:,})" for one, other in pairs]
        rows.append([criterion, *cells])
    return lines(
        ["criterion", *(f"{kind}{of}" for of in ("", ", answers") for kind in KINDS)], rows
    )


def rates_table(rates: pl.DataFrame, surer: pl.DataFrame) -> str:
    rows = []
    for criterion in CRITERIA:
        for run in rates["run"].unique(maintain_order=True):
            hard, easy, ratio, odds = chosen(rates, run, criterion)
            digits = 1 if run == ANSWERS else 2
            cells = [interval(rate, digits, 100) for rate in (hard, easy)]
            cells += [interval(one, 1) for one in (ratio, odds)]
            rate, _, ratio, _ = chosen(surer, run, criterion)
            rows.append([run, criterion, *cells, interval(rate, digits, 100), interval(ratio, 1)])
    names = ["model", "criterion", *KINDS, "ratio", "odds ratio"]
    return lines([*names, f"{KINDS[0]}, no suspects", "ratio, no suspects"], rows)


def pairs_table(
    said: pl.DataFrame, whole: pl.DataFrame, shorter: pl.DataFrame, cells: pl.DataFrame
) -> str:
    """Differences of models with the same instruction, and of instructions of the same model."""
    runs = said["run"].unique(maintain_order=True)
    pairs = [(a, b) for a, b in combinations(runs, 2) if set(a.split(", ")) & set(b.split(", "))]
    columns = [[gap(said, cells, criterion, pair) for pair in pairs] for criterion in CRITERIA]
    columns += [[gap(one, cells, THINGS, pair) for pair in pairs] for one in (whole, shorter)]
    names = [" − ".join(pair) for pair in pairs]
    title = ["captions", *CRITERIA, THINGS, f"{THINGS}, equal"]
    return lines(title, [*zip(names, *map(holm, columns), strict=True)])


def gap(
    said: pl.DataFrame, cells: pl.DataFrame, criterion: str, pair: tuple[str, str]
) -> dict[str, Any]:
    """The difference on images in which the context suggests the absent object."""
    rows = said.join(cells.filter(criterion=criterion), on=PAIR)
    return paired_gap(*(rows.filter(run=run) for run in pair))


def holm(gaps: Sequence[Mapping[str, Any]]) -> list[str]:
    """Differences in points; in brackets if they are not separable (Holm's correction)."""
    adjusted, texts = 0.0, [""] * len(gaps)
    for left, place in enumerate(np.argsort([one["p"] for one in gaps], kind="stable")):
        one = gaps[place]
        adjusted = max(adjusted, one["p"] * (len(gaps) - left))
        ends = f"[{100 * one['gap_low']:+.1f}, {100 * one['gap_high']:+.1f}]"
        apart = "" if adjusted <= 0.05 else " n.s."
        texts[place] = f"{100 * one['gap']:+.1f} {ends}{apart}"
    return texts


def lengths_table(scored: pl.DataFrame, whole: pl.DataFrame, shorter: pl.DataFrame) -> str:
    rows = []
    for (name,), part in scored.group_by("run"):
        run = named(str(name))
        value = dict(part.select("metric", "value").iter_rows())
        cells = [run, f"{value['words']:.1f}"]
        cells += [f"{value[name]:.3f}"[1:] for name in ("mentions_i", "mentions_i_equal")]
        hard, easy, ratio, _ = chosen(shorter, run, THINGS)
        cells += [interval(chosen(whole, run, THINGS)[2], 1), interval(ratio, 1)]
        cells += [interval(rate, 2, 100) for rate in (hard, easy)]
        rows.append((value["words"], cells))
    names = ["captions", "words", "mentions_i", "mentions_i, equal", "ratio", "ratio, equal"]
    names += [f"{kind}, equal" for kind in KINDS]
    return lines(names, [row for _, row in sorted(rows)])


def tenths_table(tenths: pl.DataFrame) -> str:
    rows = []
    for run, part in tenths.group_by("run", maintain_order=True):
        least = part.filter(pl.col("tenth") <= TENTHS // 2)
        lower = sum(least["yes"]) / sum(least["n"])
        top = part.filter(tenth=TENTHS).row(0, named=True)
        digits = 1 if run[0] == ANSWERS else 2
        share = 100 * top["yes"] / part["yes"].sum()
        cells = [interval(top, digits, 100), f"{100 * lower:.{digits}f}", f"{share:.0f}%"]
        rows.append([str(run[0]), *cells, f"{part['yes'].sum():,}", f"{part['n'].sum():,}"])
    names = ["model", "tenth 10", "tenths 1 to 5", "false yes in tenth 10", "false yes", "asked"]
    return lines(names, rows)


@styled
def draw_rates(rates: pl.DataFrame, surer: pl.DataFrame) -> bytes:
    """With its context, with it and no suspects, and without, by criterion."""
    figure, panels = canvas(len(CRITERIA), 3.2, 3.6, share=True)
    runs = [*rates["run"].unique(maintain_order=True)][::-1]
    for axes, criterion in zip(panels, CRITERIA, strict=True):
        for place, run in enumerate(runs):
            hard, easy, *_ = chosen(rates, run, criterion)
            shown = [(hard, KINDS[0], ORANGE, ORANGE, 0.22), (easy, KINDS[1], BLUE, BLUE, -0.22)]
            sure = chosen(surer, run, criterion)[0]
            shown.insert(1, (sure, f"{KINDS[0]}, without suspects", ORANGE, "white", 0))
            for one, label, color, fill, shift in shown:
                axes.plot([100 * one["low"], 100 * one["high"]], [place + shift] * 2, color=color)
                axes.plot(
                    100 * one["value"], place + shift, "o", markersize=5, color=color,
                    markerfacecolor=fill, label="" if place else label,
                )  # fmt: skip
        axes.set(title=criterion, xscale="log", xlabel="% of absent objects")
        axes.set_yticks(range(len(runs)), runs)
        axes.set_xticks([0.01, 0.1, 1, 10], ["0.01", "0.1", "1", "10"])
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return svg(figure)


@styled
def draw_tenths(tenths: pl.DataFrame) -> bytes:
    """False yes by tenth of context support, a panel for each model."""
    models = pl.col("run").str.replace(", .*", "")
    figure, panels = canvas(len(MODELS) + 1, 2.7, 3.0)
    shown = tenths.with_columns(model=models).group_by("model", maintain_order=True)
    for axes, ((model,), of_model) in zip(panels, shown, strict=True):
        for (run,), part in of_model.group_by("run", maintain_order=True):
            color = ORANGE if str(run).endswith("2") else BLUE
            at, (shares, low, high) = part["tenth"], (100 * part[k] for k in BOUNDS)
            axes.plot(at, shares, marker="o", markersize=3, color=color, label=run)
            axes.vlines(at, low, high, color=color, alpha=0.4)
        axes.set(title=model, xlabel="tenth by context support", ylim=0, xticks=[1, 4, 7, 10])
        axes.legend(loc="upper left")
    panels[0].set_ylabel("% of absent objects")
    return svg(figure)


if __name__ == "__main__":
    main()
