"""Findings, slices and confusions -> what a check answers: a verdict, findings with images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, count
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.analysis.confusions import Confusions, claimed_classes
from nooch.analysis.slices import Slices
from nooch.base.errors import some_of
from nooch.base.words import counted, plural, readable
from nooch.criteria import FittedCE, FittedContext
from nooch.criteria.attribute import Attribute, FittedAttribute
from nooch.criteria.conditions import position_of
from nooch.criteria.phi import identifier
from nooch.data import Dataset
from nooch.data.any_class import OBJECT
from nooch.data.table_schema import OF_ANY_CLASS
from nooch.evaluation import Predictions
from nooch.evaluation.answer_sample import AskedSample
from nooch.evaluation.comparison import RunComparison, change_rates, change_sentence
from nooch.evaluation.detectable import too_few, units_of_cells
from nooch.evaluation.findings import (
    SIDES,
    VERDICTS,
    Findings,
    compare_contexts,
    errors_in,
    errors_of,
    misleading_contexts,
    outcomes_of,
    rates_of,
    sentence,
    size_effect,
    spread,
    unit_of,
)
from nooch.evaluation.judged import JudgedRuns, judge_runs
from nooch.evaluation.predictions import positions, values_of
from nooch.evaluation.rate_words import (
    Rate,
    claims_in,
    compared,
    condition_words,
    error_words,
    false_box_words,
    model_name,
    objects_of,
    percent,
)
from nooch.report.answer import IMAGES, KINDS, LISTED, UNCHANGED, Answer, ErrorFinding, ShownImage
from nooch.report.images.drawn_boxes import drawn_boxes
from nooch.report.images.sources import Sources
from nooch.suites import ChallengeSet, Suite
from nooch.suites.challenge_set import NO_CONTEXT

_USUAL = 2
"""Images of the usual context that are shown with a finding, for comparison."""
_HINTS = 5
_ALSO = 3


@dataclass(frozen=True, eq=False)
class AnswerSources:
    """Sources of findings: the suite, and the runs with the images of the split."""

    suite: Suite
    judged: JudgedRuns

    @cached_property
    def asked(self) -> Suite:
        """The suite of the images that the runs were asked about."""
        keys = [key for key in self.suite.keys if key[2] == self.judged.split]
        return AskedSample.from_runs(self.suite, self.judged.runs, keys).suite

    def with_images(
        self,
        finding: ErrorFinding,
        run: Predictions,
        challenge: ChallengeSet,
        inside: NDArray[np.bool_],
        old: Predictions | None = None,
    ) -> ErrorFinding:
        """The finding with its images: images of a set that are ``inside``, bool (n,); with another
        run those first that changed.
        """
        wrong, task = errors_of(run, challenge), finding.task
        rows = positions(challenge.image_ids, self.judged.part.images["image_id"])
        values = values_of(run, challenge)
        label = bool(challenge.labels[inside].any())
        n_objects, n_missed = np.zeros((2, len(challenge)), np.int64)
        if run.objects is not None:
            objects = outcomes_of(run, challenge, SIDES[0])
            n_objects, n_missed = (
                np.bincount(row, minlength=len(challenge))
                for row in (objects.row, objects.row[objects.wrong])
            )

        def shown(place: int, where: str) -> ShownImage:
            is_wrong = bool(wrong[place])
            row = int(rows[place])
            answer = "neither yes nor no"
            if not np.isnan(values[place]):
                answer = self._class_words(task, yes=label ^ is_wrong, row=row, run=run)
            if label and run.objects is not None:
                answer = f"{n_missed[place]} of {n_objects[place]} missed"
            labeled = self._class_words(task, yes=label, row=row, run=None)
            image = self.image(row, labeled, answer, wrong=is_wrong, where=where)
            return replace(image, boxes=drawn_boxes(run, task, self.judged.part.images, row))

        if old is not None:
            before = errors_of(old, challenge)
            return _with_changed(finding, rows, inside, wrong, before, shown)
        usual = (challenge.labels == label) & ~inside & ~wrong
        return _with_shown(finding, rows, inside, wrong, usual, shown)

    def _class_words(self, task: str, *, yes: bool, row: int, run: Predictions | None) -> str:
        """An image's label (``run`` None) or a run's answer: the class or, where labels exclude
        each other, the one that it is instead, if that is known; of two, it is the other.
        """
        part, others = self.judged.part, list[str]()
        if not yes and self.judged.one_label and run is None:
            others = [part.classes[column] for column in part.areas[[row]].indices]
        elif not yes and self.judged.one_label and run is not None:
            claims = claimed_classes(run, part.images["image_id"][row : row + 1], part.classes)
            claimed = [name for name, said in claims.items() if said[0]]
            others = claimed or [n for n in part.classes if n != task and len(part.classes) == 2]
        return readable(others[0]) if others else f"{'' if yes else 'no '}{readable(task)}"

    def image(
        self, row: int, labeled: str, answered: str, *, wrong: bool, where: str = ""
    ) -> ShownImage:
        """A row of the split's images as it is shown."""
        image_id, file = self.judged.part.images.select("image_id", "file_name").row(row)
        file = file or str(image_id)
        return ShownImage(row, str(image_id), file, labeled, answered, wrong, where)


def _with_shown(
    finding: ErrorFinding,
    rows: NDArray[np.intp],
    inside: NDArray[np.bool_],
    wrong: NDArray[np.bool_],
    usual: NDArray[np.bool_],
    shown: Callable[[int, str], ShownImage],
) -> ErrorFinding:
    """With rows, errors first, and some images spread over all: errors, one without an error, and
    right answers in the ``usual`` context.
    """
    bad, good, other = (np.flatnonzero(mask) for mask in (inside & wrong, inside & ~wrong, usual))
    where = [rate.where for rate in finding.rates] or [""] * 2
    n_other = min(len(other), _USUAL)
    n_good = min(len(good), max(1, IMAGES - n_other - len(bad)))
    chosen = [(place, 0) for place in spread(bad, IMAGES - n_other - n_good)]
    chosen += [(place, 0) for place in spread(good, n_good)]
    chosen += [(place, 1) for place in spread(other, n_other)]
    return replace(
        finding,
        rows=rows[np.concatenate([bad, good])],
        n_wrong=len(bad),
        shown=[shown(int(place), where[context]) for place, context in chosen],
    )


def _with_changed(
    finding: ErrorFinding,
    rows: NDArray[np.intp],
    inside: NDArray[np.bool_],
    wrong: NDArray[np.bool_],
    before: NDArray[np.bool_],
    shown: Callable[[int, str], ShownImage],
) -> ErrorFinding:
    """With rows, errors first, those that changed (wrong ``before``: in the baseline) before the
    others; and some images that changed, in the order of what the finding is.
    """
    broken, fixed = inside & wrong & ~before, inside & before & ~wrong
    groups = [(broken, "right before"), (fixed, "wrong before")]
    groups = groups if finding.kind == "worse" else groups[::-1]
    few = min(int(groups[1][0].sum()), IMAGES // 3)
    chosen = [
        (place, name)
        for (mask, name), most in zip(groups, (IMAGES - few, few), strict=True)
        for place in spread(np.flatnonzero(mask), most)
    ]
    parts = (broken, inside & wrong & before, fixed, inside & ~wrong & ~before)
    order = np.concatenate([np.flatnonzero(mask) for mask in parts])
    return replace(
        finding, rows=rows[order], n_wrong=int((inside & wrong).sum()),
        shown=[shown(int(place), name) for place, name in chosen],
    )  # fmt: skip


def _inside(
    row: Mapping[str, Any], sources: AnswerSources
) -> tuple[ChallengeSet, NDArray[np.bool_]]:
    """The set of a row of findings, and which of its images it is about, bool (n,)."""
    key = row["criterion"], row["task"], sources.judged.split
    challenge = sources.asked.set(*key)
    inside = dict(misleading_contexts(sources.suite, challenge))[row["cue"]]
    return challenge, inside & (challenge.labels == (row["side"] == SIDES[0]))


def _phi(row: Mapping[str, Any], suite: Suite) -> str | None:
    """The images of a row of findings by a cue or a condition as ``nooch.Attribute`` takes them."""
    fitted = suite.header.criteria[row["criterion"]].restored()
    missed, task = row["side"] == SIDES[0], identifier(row["task"])
    own = [] if row["task"] in OF_ANY_CLASS else [f"{'' if missed else 'NOT '}present({task})"]
    if row["criterion"] == NO_CONTEXT:
        return own[0] if own else None
    if isinstance(fitted, FittedAttribute):
        return " AND ".join([*own, f"({fitted.criterion.phi})"])
    if row["cue"] is None or not isinstance(fitted, FittedCE | FittedContext):
        return None
    cue = identifier(row["cue"])
    if isinstance(fitted, FittedCE):
        where = f"area({cue}) {'<' if missed else '>'} {fitted.criterion.beta!r}"
    else:
        where = f"{'NOT ' if missed else ''}present({cue})"
    return " AND ".join([*own, where])


def _of_context(
    row: Mapping[str, Any], *more: Mapping[str, Any], sources: AnswerSources
) -> ErrorFinding:
    task, cue, run = row["task"], row["cue"], sources.judged.run(row["run"])
    challenge, inside = _inside(row, sources)
    also = [sentence(other) for other in more[:_ALSO]]
    classes = [task] if cue is None else [cue, task]
    finding = ErrorFinding(
        "context", task, row["run"], row["side"], errors_in(row), sentence(row), size_effect(row),
        row["low"], rates_of(row), classes, also=also, phi=_phi(row, sources.suite),
    )  # fmt: skip
    finding = sources.with_images(finding, run, challenge, inside)
    return finding if cue is not None else _with_drivers(finding, row, sources)


_SAMPLED = 50
"""Images of a finding whose context is looked at one by one."""


def _with_drivers(
    finding: ErrorFinding, row: Mapping[str, Any], sources: AnswerSources
) -> ErrorFinding:
    """A finding of a criterion as a whole with what made each shown image's context unusual (or
    usual), and how often that is so, where the criterion is a regression on context.
    """
    fitted = sources.suite.header.criteria[row["criterion"]].restored()
    finding = replace(finding, composite=True)
    if not isinstance(fitted, FittedContext):
        return finding
    part, sign = sources.judged.part, -1 if row["side"] == SIDES[0] else 1

    def drivers(at: int, sign: int) -> list[str]:
        image = part.select(rows=np.array([at]))
        return [text for text, _ in fitted.because(image, row["task"], sign)]

    sampled = spread(finding.rows, _SAMPLED)
    counts = Counter(chain(*(drivers(int(at), sign) for at in sampled)))
    most = [f"{text} ({percent(n / len(sampled))})" for text, n in counts.most_common(3)]
    mostly = f"mostly {', '.join(most)}" if most else ""
    misleading = finding.rates[0].where
    return replace(
        finding,
        detail="; ".join(filter(None, [finding.detail, mostly])),
        shown=[
            replace(one, context=drivers(one.row, sign if one.where == misleading else -sign))
            for one in finding.shown
        ],
    )


def change_findings(comparison: RunComparison, sources: AnswerSources) -> list[ErrorFinding]:
    """Rows of a comparison, in its order; with their images those that are not unchanged."""
    findings = list[ErrorFinding]()
    for row in comparison.table.iter_rows(named=True):
        kind, task = row["verdict"], row["task"]
        near = max(row["low"], -row["high"])
        classes = [task] if row["cue"] is None else [row["cue"], task]
        what = "object" if row["of_boxes"] and row["side"] == SIDES[0] else "image"
        changed = f"{counted(row['n_broken'], what)} broken, {row['n_fixed']:,} fixed"
        one = ErrorFinding(
            kind, task, row["run"], row["side"], errors_in(row), change_sentence(row), changed,
            near, change_rates(row), classes, phi=_phi(row, sources.suite),
        )  # fmt: skip
        if kind != UNCHANGED:
            challenge, inside = _inside(row, sources)
            run, old = (sources.judged.run(row[name]) for name in ("run", "baseline"))
            one = sources.with_images(one, run, challenge, inside, old)
        findings.append(one)
    return findings


def slice_findings(
    slices: Slices, named: set[tuple[str, str]], sources: AnswerSources
) -> tuple[list[ErrorFinding], list[str]]:
    """Slices that are confirmed, of context and of the object, and sentences on the first others.

    ``named``: (task, class) that findings by context are about; what slices say of them again is
    left out, and of the others the first slice is taken.
    """
    findings, hints = list[ErrorFinding](), list[str]()
    for row in slices.table.iter_rows(named=True):
        about = {(row["task"], name) for name in row["about"]}
        full = len(findings) == 2 * LISTED if row["confirmed"] else len(hints) == _HINTS
        if about & named or full or row["rate_rest"] is None:
            continue
        named |= about
        finding = _of_slice(row, sources)
        if row["confirmed"]:
            findings.append(finding)
        else:
            of = plural(row["task"]) if row["of_boxes"] and row["side"] == SIDES[0] else "images"
            hints.append(f"{finding.sentence}; {row['n']:,} {of}")
    return findings, hints


def slice_errors(row: Mapping[str, Any]) -> tuple[str, tuple[Rate, Rate]]:
    """The errors of a row of slices in words, and the rates that are compared."""
    missed, where = row["side"] == "positive", condition_words(row["conditions"])
    if not missed:
        what = claims_in(row, where)
    else:
        # "the smallest half of cars"
        what = where[6:] if where.startswith("among ") else f"{objects_of(row)} {where}"
    of = unit_of(row)
    inside = Rate(where, row["rate"], row["n"], row["rate_low"], row["rate_high"], of=of)
    elsewhere = Rate("elsewhere", row["rate_rest"], of=of)
    return error_words(row["run"], row["side"], what), (inside, elsewhere)


def _of_slice(row: Mapping[str, Any], sources: AnswerSources) -> ErrorFinding:
    task, (errors, rates) = row["task"], slice_errors(row)
    points = row["effect"] if row["by_size"] else None
    of_object = {task, position_of(task)} & {*row["about"]}
    finding = ErrorFinding(
        "object" if of_object else "context", task, row["run"], row["side"], errors,
        compared(errors, rates, points, task), size_effect(row) or false_box_words(row),
        row["low"], rates,
        [*dict.fromkeys([*(n for n in row["about"] if n in sources.judged.part.classes), task])],
        phi=row["phi"],
    )  # fmt: skip
    if not row["confirmed"]:
        return finding
    labeled, everything = sources.judged.labeled(task)
    inside = FittedAttribute(Attribute(row["phi"])).phi(labeled, task)
    return sources.with_images(finding, sources.judged.run(row["run"]), everything, inside)


def confusion_findings(confusions: Confusions, sources: AnswerSources) -> list[ErrorFinding]:
    """The most frequent confusions, each pair of classes once."""
    part, pairs = sources.judged.part, dict[frozenset[str], ErrorFinding]()
    for row, words in zip(
        confusions.table.iter_rows(named=True), confusions.sentences(len(confusions)), strict=True
    ):
        task, answer = row["task"], row["answer"]
        if len(pairs) == LISTED or frozenset((task, answer)) in pairs:
            continue
        claimed = claimed_classes(sources.judged.run(row["run"]), part.images["image_id"], [answer])
        wrong = claimed[answer] & part.labels(task, unknown=False)
        wrong &= ~part.labels(answer, unknown=False)
        title, _, rest = words.partition("; ")
        finding = ErrorFinding(
            "confusion", task, row["run"], SIDES[0], title, title, rest, row["low"],
            outlined=[task],
        )  # fmt: skip
        shown = partial(_confused, sources, readable(task), readable(answer))
        usual = np.zeros_like(wrong)
        pairs[frozenset((task, answer))] = _with_shown(
            finding, np.arange(len(part)), wrong, wrong, usual, shown
        )
    return list(pairs.values())


def _confused(
    sources: AnswerSources, labeled: str, answered: str, place: int, where: str
) -> ShownImage:
    return sources.image(place, labeled, answered, wrong=True, where=where)


def verdict(findings: Sequence[ErrorFinding], table: pl.DataFrame, sources: AnswerSources) -> str:
    """The first finding; without one of context or confusions, what was compared."""
    first = next((one for one in findings if one.kind != "object"), None)
    if first is not None:
        return first.sentence
    who = some_of([model_name(run.run) for run in sources.judged.without_baseline.runs])
    if not table.height:
        text = f"there is no context in which to compare the errors of {who}"
    elif (table["verdict"] == VERDICTS[3]).all():
        few = too_few(sources.suite)
        text = f"there are too few images out of context to judge {who}: {few}"
    else:
        text = f"no context is shown to make {who} err more often"
    text = text[0].upper() + text[1:]
    return f"{text}; {_continued(findings[0].sentence)}" if findings else text


def _continued(text: str) -> str:
    """A sentence after a semicolon."""
    return f"the{text[3:]}" if text.startswith("The model ") else text


def left_out(
    predicted: Sequence[str],
    asked: Sequence[str],
    found: Suite,
    kept: Suite,
    table: pl.DataFrame,
    min_hard: int,
    *,
    searched: bool,
) -> list[tuple[str, list[str]]]:
    """Classes ``asked`` for about which nothing is concluded from their context, by reason;
    ``searched``: groups of their images are listed where they stand out.
    """
    still = "; slices were still searched" if searched else ""
    reasons: dict[str, list[str]] = {}

    def add(reason: str, task: str, more: str = "") -> None:
        reasons.setdefault(reason, []).append(readable(task) + more)

    hard, what = most_hard(found), found.unit_name
    compared_tasks = table.filter(pl.col("verdict") != VERDICTS[3])["task"].to_list()
    for task in predicted:
        records = [record for record in found.header.sets if record.task == task]
        most = hard.get(task, 0)
        if not records and task not in kept.tasks:
            add("no other class goes with it closely enough to be its context", task)
        elif task not in kept.tasks:
            few = f" ({too_few(found, task)})" if most else ""
            add(f"fewer than {min_hard} {what} are out of context{still}"
                if most else f"no image is out of context{still}", task, few)  # fmt: skip
        elif table.height and task not in compared_tasks:
            few = f" ({too_few(found, task)})"
            add(f"too few {what} with or without its context to tell", task, few)
    for task in asked:
        if task not in predicted and OBJECT not in predicted:
            add("no predictions", task)
    return list(reasons.items())


def most_hard(suite: Suite) -> dict[str, int]:
    """Task -> the most hard images of a side, or groups of them, in any of its sets."""
    hard = dict.fromkeys(suite.tasks, 0)
    for key in suite.keys:
        hard[key[1]] = max(hard[key[1]], *units_of_cells(suite, key)[:2])
    return hard


def answer_of(
    sources: AnswerSources,
    findings: Findings,
    slices: Slices | None,
    confusions: Confusions | None,
    comparison: RunComparison | None = None,
) -> Answer:
    """The verdict and the findings, of each kind the worst first by the lower end of its interval,
    criteria as a whole last, and what stands out without being beyond chance.
    """
    every = [_of_context(*rows, sources=sources) for rows in findings.pairs[:LISTED]]
    hints = list[str]()
    if slices is not None:
        named = {(one.task, cls) for one in every for cls in one.outlined if cls != one.task}
        of_slices, hints = slice_findings(slices, named, sources)
        every += of_slices
    if confusions is not None:
        every += confusion_findings(confusions, sources)
    every = _told_once(every, sources.judged.part)
    every.sort(key=lambda one: ([*KINDS].index(one.kind), one.composite, -one.low))
    title = verdict(every, findings.table, sources)
    if comparison is not None:
        title = "; ".join(comparison.sentences)
        every = [*change_findings(comparison, sources), *every]
    numbers = count(1)
    every = [one if one.kind == UNCHANGED else replace(one, number=next(numbers)) for one in every]
    return Answer(title, sources.judged.split, every, hints, baseline=sources.judged.baseline)


def _told_once(findings: Sequence[ErrorFinding], part: Dataset) -> list[ErrorFinding]:
    """The findings, of several with the same images only the plainer one of the rarer class: missed
    images of one of two classes are claims of the other.
    """

    def images(one: ErrorFinding) -> tuple[Any, ...]:
        return one.kind, one.run, one.n_wrong, one.rows.tobytes()

    first = dict[tuple[Any, ...], ErrorFinding]()
    for one in sorted(findings, key=lambda one: (one.composite, len(part.rows_of(one.task)[0]))):
        first.setdefault(images(one), one)
    return [
        one
        for one in findings
        if one is (kept := first[images(one)]) or (one.task == kept.task and not one.composite)
    ]


def suite_answer(sources: Sources) -> Answer | None:
    """Findings by the contexts of a suite, which a report opens with: of its predictions, or else
    of the baseline of its runs. None without either, without the dataset or without easy images.
    """
    suite, data, split = sources.suite, sources.data, sources.of_split
    if suite is None or data is None or suite.header.hard_only:
        return None
    given: Any = sources.outputs
    if not given and sources.baseline is not None:
        given = sources.image_losses.outputs_of(sources.baseline, suite.tasks)
    judged = judge_runs(given, data, split, suite=suite) if len(given) else None
    runs = [run for run in judged.runs if set(run.tasks) & set(suite.tasks)] if judged else []
    if judged is None or not runs:
        return None
    judged = replace(judged, runs=runs)
    keys = [(name, task, split) for task in suite.tasks for name in suite.criteria]
    findings = compare_contexts(suite, judged, keys, sources.progress)
    return answer_of(AnswerSources(suite, judged), findings, None, None)
