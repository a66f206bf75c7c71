"""A folder of models' answers and captions -> one page that ranks the models, and its tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from nooch.analysis.ranked_models import (
    PAIR,
    ModelReading,
    RankedModel,
    asked_questions,
    find_baseline,
    mentioned,
    read_models,
    read_runs,
    refused,
    said_of,
)
from nooch.base.calls import Progress, Share, checked, no_progress, tracked
from nooch.base.display import DisplayTable, TabularResult
from nooch.base.errors import ParameterError, check_one_of, some_of
from nooch.base.files import check_output, write_folder
from nooch.base.version import __version__
from nooch.base.words import counted
from nooch.data import Dataset, csv_bytes
from nooch.evaluation.answer_sample import answers_in, without_suspects
from nooch.evaluation.bootstrap import RESAMPLES
from nooch.evaluation.captions import ModelCaptions, equally_long
from nooch.evaluation.context_changes import (
    ContextChange,
    changes_tables,
    context_changes,
    shared_answers,
)
from nooch.evaluation.context_rates import answer_rates
from nooch.evaluation.evaluate import evaluate
from nooch.evaluation.metrics.paired_changes import PairedAnswers
from nooch.evaluation.metrics.proportions import SIGNIFICANT, holm
from nooch.evaluation.metrics.subset_metrics import value_of
from nooch.evaluation.predictions import Predictions
from nooch.evaluation.scores import WORSE, ConditionVerdict, parse_condition
from nooch.evaluation.vocabulary import load_vocabulary
from nooch.report.exports.benchmark import check_benchmark, results_yaml, task_id
from nooch.report.exports.contract import safe_name
from nooch.report.site.folder import page_environment, write_assets
from nooch.suites import CELLS, Suite, as_suite, is_shipped
from nooch.suites.questions import main_criterion

_ABOUT, _MOST_BYTES = "model.yaml", 1 << 16
_MARKER = "leaderboard.json"
_ORDER = ("hard_negative", "easy_negative", "easy_positive", "hard_positive")
_MACRO = "macro_recall"
_SURE = "_without_suspects"
_NULLABLE: dict[str, Any] = dict.fromkeys((f"{cell}{_SURE}" for cell in _ORDER[:2]), pl.Float64)
_NULLABLE |= {"gap": pl.Float64, "n_both": pl.Int64}


@dataclass(frozen=True, eq=False, repr=False)
class Leaderboard(TabularResult):
    """Models by how often they say yes to absent objects where these are expected.

    Attributes:
        table: a row for each model, the lowest rate first: the fields of its ``model.yaml``,
            ``folder, file, sha256``; the rates of yes to absent objects where the context suggests
            them (``hard_negative``) and elsewhere (``easy_negative``), and to present objects
            where it suggests them (``easy_positive``) and elsewhere (``hard_positive``), with
            ``_low`` and ``_high``, the first two also ``_without_suspects`` (None for a suite whose
            labels were not audited); ``macro_recall``, the mean over tasks of the rate on present
            objects; ``false_ratio`` and ``recall_ratio`` (where expected over
            elsewhere); ``dprime`` and ``response_criterion`` over all questions. What has no
            answer, or one that is neither yes nor no, counts as wrong in all of these; intervals
            hold for any meaning of it. Of the questions on each of the four, by weight:
            ``_coverage``, the share with an answer, ``_unknown``, the share without one that is
            yes or no, and their number ``_n``; ``coverage`` is the least of the four, ``unknown``
            the largest, ``n`` the number of all, about ``n_images``. Against the model in the row
            above: ``gap`` of the first rate, ``gap_low, gap_high``, ``n_both`` questions, and ``p``
            (McNemar's, corrected over all pairs of models by Holm). ``rank`` is 1 and one more for
            each model whose first rate is lower with p up to .05: tied models share it.
        settings: suite, criterion, splits, and what was read (JSON-like).
        changes: what each model changes against the baseline, if there is one.
        verdicts: on the conditions of ``fail_if``.
        notes: what the conditions are judged on, if there are any.
    """

    table: pl.DataFrame
    settings: Mapping[str, Any]
    changes: Sequence[ContextChange] = ()
    verdicts: Sequence[ConditionVerdict] = ()
    notes: Sequence[str] = ()

    @property
    def display(self) -> DisplayTable:
        """A row for each model."""
        columns = ["model", "yes to absent, expected", "elsewhere", "ratio", "recall, expected",
                   "elsewhere", "macro recall", "d'", "unknown", "coverage",
                   "to the model above"]  # fmt: skip
        rows = [
            [f"{row['rank']}. {row['name']}, n {row['n']:,}",
             *(interval_text(row, cell) for cell in _ORDER[:2]), row["false_ratio"],
             *(interval_text(row, cell) for cell in (*_ORDER[2:], _MACRO)), row["dprime"],
             share_text(row["unknown"]), share_text(row["coverage"]), gap_text(row)]
            for row in self.table.iter_rows(named=True)
        ]  # fmt: skip
        title = f"Leaderboard({counted(len(self.table), 'model')}, {self.settings['criterion']})"
        return DisplayTable(title, columns, rows, left=1)

    @property
    def sentence(self) -> str:
        """The model that comes first, those tied with it, and whether it only says less."""
        first, *others = self.table.to_dicts()
        tied = [row["name"] for row in others if row["rank"] == 1]
        text = f"Least often: {first['name']} ({share_text(first[_ORDER[0]])})"
        text += (
            f"; tied with it: {'; '.join(tied)}" if tied else ", tied with none" if others else ""
        )
        most = max((first, *others), key=lambda row: row[_MACRO] or 0)
        recall = f"Its macro recall is {share_text(first[_MACRO])}"
        of_most = f"; the highest is {share_text(most[_MACRO])} ({most['name']})"
        return f"{text}. {recall}{of_most if most is not first else ''}."

    def as_json(self) -> dict[str, Any]:
        """Settings, models and changes as JSON-like values."""
        changes = [change.as_json() for change in self.changes]
        content = {"settings": dict(self.settings), "models": self.table.to_dicts()}
        return content | ({"changes": changes} if changes else {})


def share_text(share: float | None) -> str:
    """In percent."""
    return "–" if share is None else f"{100 * share:.1f}%"


def interval_text(row: Mapping[str, Any], cell: str) -> str:
    """A rate with its interval, in percent."""
    low, high = row[f"{cell}_low"], row[f"{cell}_high"]
    ends = "" if low is None or high is None else f" [{100 * low:.1f}, {100 * high:.1f}]"
    return share_text(row[cell]) + ends


def gap_text(row: Mapping[str, Any]) -> str:
    """The difference to the model above in points, and whether the two are tied."""
    if row["n_both"] is None:
        return ""
    if row["gap"] is None:
        return "no question in common"
    ends = f"[{100 * row['gap_low']:+.1f}, {100 * row['gap_high']:+.1f}]"
    apart = "" if row["p"] <= SIGNIFICANT else ", tied"
    return f"{100 * row['gap']:+.1f} {ends} of {row['n_both']:,}{apart}"


@checked
def leaderboard(
    folder: str | Path,
    *,
    suite: Suite | str | Path,
    out: str | Path | None = None,
    criterion: str | None = None,
    split: str | Sequence[str] | None = None,
    answers: str | None = None,
    questions: str | Path | None = None,
    baseline: str | Path | None = None,
    fail_if: Sequence[str] = (),
    least_coverage: Share = 0.95,
    synonyms: str | Path | None = None,
    data: Dataset | str | Path | None = None,
    group: str | None = None,
    benchmark: str | None = None,
    overwrite: bool = False,
    progress: Progress = no_progress,
) -> Leaderboard:
    """Rank models by their answers, or captions, on a suite, and write one page that opens from
    disk.

    A model is a folder with ``model.yaml`` (``name``, and ``revision, date, prompt, who``, ``kind``
    answers, captions or mentions, ``sha256`` of the other file, and where this is from: ``source,
    commit, license, source_sha256``) and one file of answers or captions. Files
    are refused that are given twice, answer too few questions, others, or one twice, have other
    weights than the questions, or name neither questions nor images, so that their order cannot
    be checked.

    Args:
        folder: folder with one folder per model; hidden folders and single files are ignored.
        suite: suite that the models were asked about.
        out: folder to write: ``index.html``, ``leaderboard.csv`` and ``leaderboard.json``.
        criterion: criterion of the suite that decides where an object is expected; by default
            ``context``, or else the first.
        split: one or several splits; by default ``test``, or the only one.
        answers: column of the models' words, where several could have them, such as ``prediction``
            next to the true ``answer``.
        questions: file of the questions that all models were asked, as ``nooch.export`` writes it,
            or a list of the suite (of ``nooch-pope`` ``adversarial``, ``popular`` or ``random``);
            by default the questions that ``nooch ask`` draws by default.
        baseline: model that the others are compared with, or its folder or file: does each err
            less by context, or only say less? Conditions judge it only where they name it.
        fail_if: conditions on the answers, as for ``nooch.evaluate``; a model's name is its folder.
        least_coverage: share of the questions (for captions: of the images) that must have an
            answer, for each of the four rates.
        synonyms: words by which captions mention a task: ``coco``, ``names`` (only the task's
            name), or a YAML file; by default ``coco``, and ``names`` for ``nooch-amber``.
        data: the dataset of the suite, or its folder, for ``group``; by default the suite's.
        group: column, or pattern of file names, of images that count as one in intervals and tests,
            such as ``scene``; by default the suite's.
        benchmark: dataset of the Hub that ``nooch.export`` wrote with images, ``OWNER/NAME`` or
            ``OWNER/NAME@REVISION``: also writes ``.eval_results/``, a file for the repository of
            each model that answers questions.
        overwrite: replace an earlier page.
        progress: called with what is being done, and how many of how many models are done.

    Raises:
        InputError: a folder without models, or a file that is refused, with the reason.
        ParameterError: an unknown criterion.
        OutputError: ``out`` exists (and ``overwrite`` is false) or cannot be written.
    """
    named = str(suite) if isinstance(suite, str | Path) and is_shipped(suite) else ""
    suite = as_suite(suite, group, data)
    if out is not None:
        check_output(out, overwrite=overwrite, marker=_MARKER)
    suite.require_easy("a leaderboard")
    usual = main_criterion(suite.criteria)
    criterion = check_one_of("criterion", criterion or usual, suite.criteria, owner="the suite")
    splits = suite.splits_to_score(split)
    keys = suite.select_keys([criterion], splits=splits)
    entries = read_models(Path(folder))
    if benchmark is not None:
        task = task_id(criterion, splits, _ORDER[0])
        check_benchmark(benchmark, task, questions, suite.question_lists, out)
    asked = asked_questions(suite, splits, questions)
    base = None if baseline is None else find_baseline(baseline, entries)
    read = ModelReading(
        suite, asked, load_vocabulary(synonyms or suite.words, suite.tasks), answers
    )
    runs, captions = read_runs(entries, read, progress)
    cells = suite.cells(keys)
    rows, counted_as, of_models = [], {}, dict[tuple[str, str], pl.DataFrame]()
    for entry, run in tracked([*zip(entries, runs, strict=True)], len(runs), "scoring", progress):
        answered = answers_in(said_of(run), cells)
        row = _row(entry, answered, least_coverage, suite)
        of_models[entry.folder, criterion] = answered
        wrong = pl.col("cell").str.ends_with("negative")
        yes = pl.when("unknown").then(wrong).otherwise("yes").cast(pl.Float64)
        counted_as[entry.folder] = answered.with_columns(yes=yes)
        rows.append(row | _sensitivity(counted_as[entry.folder]))
    order = ("hard_negative", "unknown", "folder")
    rows.sort(key=lambda row: (row["hard_negative"] is None, *map(row.get, order)))
    _compare(rows, counted_as)
    table = pl.DataFrame(rows, schema_overrides=_NULLABLE)
    settings = {
        "nooch": __version__, "criterion": criterion, "splits": list(splits),
        "tasks": len({key[1] for key in keys}), "dataset": suite.header.dataset.fingerprint,
        "questions": len(asked.drop_nulls(PAIR)), "least_coverage": least_coverage,
    } | {k: v for k, v in (("group", suite.header.group), ("suite", named)) if v}  # fmt: skip
    changes = []
    if base is not None:
        settings["baseline"] = base
        for key, answered in [*of_models.items()]:
            of_models |= without_suspects(key, answered, suite)
        changes = context_changes(of_models, base)
        changes += _of_equal_length(captions, base, read, keys)
    board = Leaderboard(
        table, settings, changes, *_judged(runs, captions, suite, keys, fail_if, base, progress)
    )
    if out is not None:
        with write_folder(out, overwrite=overwrite, marker=_MARKER) as written:
            _write(board, suite, written)
            if benchmark is not None:
                _write_results(board, benchmark, written)
    return board


def _judged(
    runs: Sequence[Predictions],
    captions: Collection[str],
    suite: Suite,
    keys: Sequence[tuple[str, str, str]],
    fail_if: Sequence[str],
    baseline: str | None,
    progress: Progress,
) -> tuple[list[ConditionVerdict], list[str]]:
    """Verdicts on conditions, of the sets that are ranked, and notes on them."""
    criteria, _, splits = (list(dict.fromkeys(part)) for part in zip(*keys, strict=True))
    needed, texts = _models_needed([run.run for run in runs], captions, fail_if, baseline)
    verdicts, notes = list[ConditionVerdict](), dict.fromkeys(texts)
    for of_captions in (False, True):
        part = [run for run in runs if (run.run in captions) == of_captions]
        own = {run.run for run in part}
        # a baseline by itself is not judged
        texts = [t for t, of in needed.items() if of <= own and (of or own != {baseline})]
        if part and texts:
            scores = evaluate(
                suite, part, split=splits, criteria=criteria, metrics=["error"], fail_if=texts,
                bootstrap=RESAMPLES, baseline=baseline if baseline in own else None,
                reading={"ignore_unknown": True}, progress=progress,
            )  # fmt: skip
            verdicts += scores.verdicts
            notes |= dict.fromkeys(scores.notes)
    return verdicts, [*notes]


def _models_needed(
    names: Sequence[str], captions: Collection[str], fail_if: Sequence[str], baseline: str | None
) -> tuple[dict[str, set[str]], list[str]]:
    """Condition -> the models that it names, all with answers or all with captions, which are about
    other images (else ParameterError); notes on models of the other kind.
    """
    needed, notes = dict[str, set[str]](), []
    for condition in (parse_condition(text).of_runs(names, baseline) for text in fail_if):
        of_worse = baseline if condition.metric == WORSE.metric else None
        named = (condition.run, condition.against, of_worse)
        of = needed[condition.text] = {name for name in named if name is not None}
        if len({name in captions for name in of}) > 1:
            raise ParameterError(
                "compares answers with captions, which are about other images",
                where=f"`fail_if` {condition.text}", allowed="models of one kind",
            )  # fmt: skip
        others = [name for name in names if of and (name in captions) != (of <= {*captions})]
        if others and condition.run is None:
            notes.append(f"{condition.text}: not judged, as of another kind: {some_of(others)}")
    return needed, notes


def _of_equal_length(
    captions: Mapping[str, ModelCaptions],
    base: str,
    read: ModelReading,
    keys: Sequence[tuple[str, str, str]],
) -> list[ContextChange]:
    """Changes of captions if each is cut to the shorter one of a model and the baseline."""
    changes, cells = [], read.suite.cells(keys)
    for name in captions if base in captions else ():
        if name != base:
            pair = equally_long([captions[base], captions[name]])
            said = {}
            for model, run in zip((base, name), pair, strict=True):
                rows = answers_in(said_of(mentioned(run, read)), cells)
                said[model, keys[0][0]] = rows
                said |= without_suspects((model, keys[0][0]), rows, read.suite)
            changes += context_changes(said, base, equal_length=True)
    return changes


def _row(entry: RankedModel, answers: pl.DataFrame, least: float, suite: Suite) -> dict[str, Any]:
    """The row of a model without its sensitivity and comparison. Raises InputError for too few
    answers in one of the cells.
    """
    if not len(answers):
        problem = "has no answer about the images of the challenge sets"
        raise refused(entry, problem, give=({"criterion": ...}, {"split": ...}))
    row: dict[str, Any] = {"rank": 0, "n": len(answers)}
    row |= {"n_images": answers["image_id"].n_unique(), **msgspec.structs.asdict(entry.card)}
    row |= {"folder": entry.folder, "file": entry.file.name, "sha256": entry.sha256}
    rates = answer_rates(answers, bootstrap=0)
    missing = pl.col("missing").fill_null(0.0) if "missing" in answers.columns else pl.lit(0.0)
    weight = pl.col("weight")
    shares = answers.group_by("cell").agg((weight * (1 - missing)).sum() / weight.sum())
    coverage, n = dict(shares.rows()), dict(answers.group_by("cell").len().rows())
    places = {**{cell: ("rate", cell) for cell in _ORDER}, _MACRO: (_MACRO, "positive")}
    for name, place in places.items():
        estimate = rates.estimates[place]
        row |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
    for cell in _ORDER:
        row |= {f"{cell}_coverage": coverage.get(cell), f"{cell}_unknown": rates.unknown.get(cell)}
        row[f"{cell}_n"] = n.get(cell, 0)
        if coverage.get(cell, 1) < least:
            which = cell.replace("_", " ")
            problem = f"answers {100 * coverage[cell]:.1f}% of the questions on {which}s"
            there = answers.filter(missing < 1)
            lists = [
                name
                for name, pairs in suite.question_lists.items()
                if len(pairs.join(there, on=PAIR, how="semi")) >= least * len(pairs)
            ]
            raise refused(entry, problem, f"answer at least {100 * least:g}% (`least_coverage`)",
                           give=[{"questions": name} for name in lists])  # fmt: skip
    sure = (
        answers[:0] if suite.suspects is None else answers.join(suite.suspects, on=PAIR, how="anti")
    )
    without = answer_rates(sure, bootstrap=0).estimates if len(sure) else {}
    for cell in _ORDER[:2]:
        row[f"{cell}{_SURE}"] = without["rate", cell].value if without else None
    row["false_ratio"] = rates.estimates["ratio", "negative"].value
    recall_ratio = rates.estimates["ratio", "positive"].value
    row["recall_ratio"] = 1 / recall_ratio if recall_ratio else None
    row |= {"unknown": max(rates.unknown.values()), "coverage": min(coverage.values())}
    return row | dict.fromkeys(("gap", "gap_low", "gap_high", "n_both", "p"))


def _sensitivity(answered: pl.DataFrame) -> dict[str, float | None]:
    """Sensitivity d' and the response criterion of all answers; None without one of the sides."""
    sums: dict[str, Any] = {}
    for side, said in (("positive", "hit"), ("negative", "false")):
        of_side = answered.filter(pl.col("cell").str.ends_with(side))
        yes = (of_side["yes"] * of_side["weight"]).sum()
        totals = {side: of_side["weight"].sum(), said: yes, f"n_{side}": len(of_side)}
        sums |= {name: np.array(float(total)) for name, total in totals.items()}
    values = {name: float(value_of(name, sums)) for name in ("dprime", "response_criterion")}
    return {name: None if np.isnan(value) else value for name, value in values.items()}


def _compare(rows: Sequence[dict[str, Any]], answers: Mapping[str, pl.DataFrame]) -> None:
    """Rank the rows, the lowest rate first: compare all pairs, with p-values corrected by Holm, and
    show each row's difference to the one above.
    """
    gaps = {
        pair: paired_gap(answers[rows[pair[1]]["folder"]], answers[rows[pair[0]]["folder"]])
        for pair in combinations(range(len(rows)), 2)
    }
    tested = [gap for gap in gaps.values() if gap["p"] is not None]
    for gap, p in zip(tested, holm(np.array([gap["p"] for gap in tested])), strict=True):
        gap["p"] = float(p)
    for number, row in enumerate(rows):
        above = [gaps[better, number] for better in range(number)]
        row.update(above[-1] if above else {})
        worse = [gap["p"] is not None and gap["p"] <= SIGNIFICANT for gap in above]
        row["rank"] = 1 + sum(worse)


def paired_gap(answers: pl.DataFrame, others: pl.DataFrame) -> dict[str, Any]:
    """The difference of two rates of yes to absent objects where these are expected, on what both
    were asked: ``gap, gap_low, gap_high, n_both, p``.

    Weights and answers about one image, or one group in column ``unit``, are counted by the
    ``effective_number`` of questions.
    """
    both = shared_answers(answers.filter(pl.col("cell") == CELLS[1]), others)
    yes = both.select("yes_before", "yes").to_numpy().T
    unit = both["unit" if "unit" in both.columns else "image_id"].to_numpy()
    share = PairedAnswers(yes, both["weight"].to_numpy(), unit).share()
    gap = {"gap": share.change, "gap_low": share.low, "gap_high": share.high}
    return gap | {"n_both": share.n, "p": share.p}


def _write_results(board: Leaderboard, benchmark: str, folder: Path) -> None:
    """The files of models that answer questions, as a benchmark's tasks ask them. Raises
    ParameterError if all wrote captions.
    """
    answering = board.table.filter(kind="answers")
    if not len(answering):
        raise ParameterError("a benchmark asks questions, and all models wrote captions",
                             where="`benchmark`", give={"benchmark": None})  # fmt: skip
    (folder / ".eval_results").mkdir()
    for row in answering.iter_rows(named=True):
        file = folder / ".eval_results" / f"{safe_name(row['folder'])}.yaml"
        file.write_text(results_yaml(row, board.settings, benchmark), encoding="utf-8")


def _write(board: Leaderboard, suite: Suite, folder: Path) -> None:
    (folder / "leaderboard.csv").write_bytes(csv_bytes(board.table))
    rows = board.table.to_dicts()
    content = board.as_json()
    (folder / _MARKER).write_bytes(msgspec.json.format(msgspec.json.encode(content)))
    write_assets(folder / "assets")
    texts = [
        {
            "cells": [interval_text(row, cell) for cell in _ORDER],
            "macro": interval_text(row, _MACRO),
            "gap": gap_text(row),
            "tied": row["p"] is not None and row["p"] > SIGNIFICANT,
        }
        for row in rows
    ]
    environment = page_environment()
    page = environment.get_template("leaderboard.html").render(
        page="index", pages={"index": "Leaderboard"}, suite=suite, settings=board.settings,
        sentence=board.sentence,
        models=[*zip(rows, texts, strict=True)], order=_ORDER, changes=board.changes,
        tables=changes_tables(board.changes),
        most=max((row[f"{cell}_high"] or 0 for row in rows for cell in _ORDER[:2]), default=0) or 1,
    )  # fmt: skip
    (folder / "index.html").write_text(page, encoding="utf-8")
