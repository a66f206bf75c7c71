"""A dataset and predictions -> challenge sets, scores, findings, slices and a page, in one call."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import polars as pl
from msgspec import Meta
from scipy.special import logit

from nooch.analysis.answer import AnswerSources, answer_of, left_out, most_hard
from nooch.analysis.confusions import Confusions, find_confusions
from nooch.analysis.slices import Slices, judged_slices
from nooch.base.calls import Count, Progress, Seed, Share, checked, no_progress
from nooch.base.display import DisplayTable
from nooch.base.errors import Command, InputError, check_idle, check_one_of, giving, some_of
from nooch.base.files import DATASET_MARKER, is_address, write_folder
from nooch.criteria import CE, Attribute, Context, Gist
from nooch.criteria.context_fit import no_context
from nooch.data import Dataset, load_dataset, parquet_bytes
from nooch.data.any_class import OBJECT
from nooch.data.dataset import no_dataset
from nooch.data.importing.attributes import measured
from nooch.data.importing.broken_images import LIST
from nooch.data.importing.import_dataset import import_dataset
from nooch.data.importing.recognition import recognize
from nooch.data.importing.table_roles import HINTS, Hints, refuse_hints
from nooch.data.table_files import as_polars
from nooch.evaluation import Predictions, Scores, context_run, described, evaluate, run_notes
from nooch.evaluation.bootstrap import RESAMPLES
from nooch.evaluation.boxes.matched import IOU
from nooch.evaluation.captions import captioned
from nooch.evaluation.comparison import RunComparison, compare_runs
from nooch.evaluation.detectable import too_few
from nooch.evaluation.findings import (
    SIDES,
    SMALLEST,
    Findings,
    checked_split,
    compare_contexts,
    judged_contexts,
    outcomes_of,
)
from nooch.evaluation.judged import BoxThreshold, JudgedRuns, judge_runs, known_labels
from nooch.evaluation.metrics import METRIC_NAMES
from nooch.evaluation.numbered import CHECK_MARKER, COLUMNS, NUMBERED
from nooch.evaluation.predictions import predicted_tasks, task_notes
from nooch.evaluation.rate_words import percent
from nooch.evaluation.scores import (
    CONTEXT,
    WORSE,
    Condition,
    ConditionVerdict,
    Resamples,
    parse_condition,
)
from nooch.report import save_scores
from nooch.report.answer import Answer, notebook_html
from nooch.report.images.sources import Sources
from nooch.report.site.site import write_report
from nooch.suites import Suite, save_suite
from nooch.suites.challenge_set import NO_CONTEXT
from nooch.suites.find import UNSEEN_PAIRS, all_easy, find, unseen_note, unseen_pairs

_SMALLEST = 1e-300


def largest_answers(
    runs: Sequence[Predictions], decision: str | None, *, exclusive: bool
) -> Sequence[Predictions]:
    """Runs with ``largest_answer`` if that is the decision, or if labels exclude each other and
    outputs are of several classes; else, and if they are answers in words, as they are.
    """
    whole = [len(run.tasks) > 1 and run.weights is None and run.boxes is None for run in runs]
    able = [several and not run.in_words for several, run in zip(whole, runs, strict=True)]
    if decision == "argmax" and not all(whole):
        problem = "argmax needs outputs, and of at least two classes"
        raise InputError(problem, where="predictions", allowed="outputs of at least two classes")
    takes_largest = decision == "argmax" or (decision is None and exclusive)
    if not (takes_largest and any(able)):
        return runs
    return [
        largest_answer(run) if is_able else run for is_able, run in zip(able, runs, strict=True)
    ]


def largest_answer(run: Predictions) -> Predictions:
    """The run with log odds of each class against the best of the others.

    They are above 0 only for the class with the largest output, so that an error is an error of the
    answer, not of one class by itself. Images without an output for some class have none.
    """
    values = run.values if run.scale == "logit" else np.log(np.maximum(run.values, _SMALLEST))
    ordered = np.sort(values, axis=0)
    best, second = ordered[-1], ordered[-2]
    margins = values - np.where(values == best, second, best)
    return replace(run, values=margins.astype(np.float64), scale="logit")


BASELINES = ("baseline: constant", "baseline: prior", "baseline: context only")


def baseline_runs(data: Dataset, tasks: Sequence[str], split: str) -> list[Predictions]:
    """Answers of models that do not look at the object.

    The constant gives every image the probability 1/2, the prior the task's share of positives in
    training. The context is a logistic regression on the presence of the other classes, or on the
    columns that are the context, see ``nooch.Context``; labels that exclude each other have none.
    An image of which a label is
    unknown gets the prior. Without training images, only the constant is there.
    """
    part = data.select(split)
    ids = part.images["image_id"]
    flat = np.ones((len(tasks), len(ids)))
    constant = Predictions(BASELINES[0], ids, tuple(tasks), flat / 2, "probability")
    if data.fitting_split not in data.splits:
        return [constant]
    train = data.select(data.fitting_split)
    prior = np.array([train.labels(t, unknown=False)[known_labels(train, t)].mean() for t in tasks])
    made = [
        constant,
        Predictions(BASELINES[1], ids, tuple(tasks), flat * prior[:, None], "probability"),
    ]
    try:
        context = context_run(data, tasks, [split], BASELINES[2])
    except InputError:
        # labels without information about each other
        return made
    usual = logit(prior[[tasks.index(task) for task in context.tasks]])
    values = np.where(np.isnan(context.values), usual[:, None], context.values)
    return [*made, replace(context, values=values)]


PAGE = "report/index.html"
_DECISIONS = ("argmax", "threshold")
_CONTEXT = (
    "for findings by context import more labels per image, add columns such as the place (nooch"
    " tools add-attributes), or predict areas (nooch annotate)"
)
_NO_AREAS = (
    "areas are unknown, so the context is the presence of other classes, and object size is not"
    " considered"
)
_ANY_CLASS = "counts are of any class: slices are searched; criteria need boxes with classes"
_MOST_ERRORS = 12
_MANY_TASKS = 20


@dataclass(frozen=True, eq=False, repr=False)
class Checked:
    """Result of a check, and the files it wrote.

    Attributes:
        suite: the challenge sets.
        scores: of the runs and of the baselines.
        findings: errors in the misleading and in the usual context.
        confusions: which classes are taken for which; None where images have several.
        slices: other groups of images with more errors; None if they were not searched.
        answer: what the page, ``findings.md``, notebooks and the terminal show: the verdict, the
            worst findings with images, what was left out, how many objects each model misses and
            claims (``errors``), and the choices that were made (``notes``).
        out: the folder, with ``suite``, ``scores.parquet``, ``findings.md``, ``.parquet`` and
            ``.json``, ``numbered_findings.parquet``, ``slices.parquet``, ``report``, and
            ``dataset`` where annotations were imported.
        comparison: errors in misleading contexts against the baseline's, if one is named.
        never_together: classes that images of the split show together and training images never,
            though chance would give some, with the errors there; see
            ``nooch.analysis.check.UNSEEN``.
        ids: of the images of the split, ascending.
    """

    suite: Suite
    scores: Scores
    findings: Findings
    confusions: Confusions | None
    slices: Slices | None
    answer: Answer
    out: Path
    comparison: RunComparison | None = None
    never_together: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=UNSEEN))
    ids: pl.Series = field(default_factory=lambda: pl.Series("image_id", [], pl.Int64))

    @property
    def errors(self) -> DisplayTable | None:
        """Numbers of objects that each model misses, and claims."""
        return self.answer.errors

    @property
    def notes(self) -> Sequence[str]:
        """The choices that were made."""
        return self.answer.notes

    @property
    def comparison_json(self) -> dict[str, Any]:
        """``comparison``: the rows of a comparison with a baseline; ``never_together``; if there
        are any.
        """
        rows = {} if self.comparison is None else {"comparison": self.comparison.table.to_dicts()}
        unseen = self.never_together.to_dicts()
        return rows | ({"never_together": unseen} if unseen else {})

    @property
    def numbered(self) -> pl.DataFrame:
        """The findings by number, with the ids of their images: a row each, with the columns of
        ``numbered_findings.parquet``.
        """
        rows = [
            one.facts | {"split": self.answer.split, "wrong": ids.head(n), "right": ids.slice(n)}
            for one in self.answer.numbered
            for ids, n in [(self.ids[one.rows], one.n_wrong)]
        ]
        kinds = {name: column.types[0] for name, column in COLUMNS.items()}
        kinds |= dict.fromkeys(("wrong", "right"), pl.List(self.ids.dtype))
        return pl.DataFrame(rows, schema=kinds)

    @property
    def numbered_json(self) -> dict[str, Any]:
        """``numbered``: the findings by number, without their images."""
        return {"numbered": [one.facts for one in self.answer.numbered]}

    @property
    def page(self) -> Path:
        """The page to open."""
        return self.out / PAGE

    def __repr__(self) -> str:
        return "\n\n".join([self.answer.text(), f"page: {self.page}"])

    def _repr_html_(self) -> str:
        return notebook_html(self.answer, self.page)


@checked
def check(
    dataset: Dataset | str | Path,
    predictions: Any,
    out: str | Path,
    *,
    tasks: Sequence[str] | None = None,
    split: str | None = None,
    criterion: Sequence[str] | None = None,
    phi: str | None = None,
    decision: Annotated[str, _DECISIONS] | None = None,
    alpha: Share = 0.05,
    beta: Share = 0.1,
    min_hard: Count = SMALLEST,
    bootstrap: Resamples | None = None,
    stability: Annotated[int, Meta(ge=0)] = 200,
    baseline: str | Path | None = None,
    baselines: bool = True,
    slices: bool = True,
    captions: Sequence[str | Path] = (),
    image_properties: bool = False,
    images: str | Path | None = None,
    range: tuple[float, float] | None = None,
    group: str | None = None,
    context: Sequence[str] = (),
    seed: Seed = 0,
    fail_if: Sequence[str] = (),
    threshold: BoxThreshold | None = None,
    iou: Annotated[float, Meta(gt=0, le=1)] = IOU,
    reading: Mapping[str, Any] | None = None,
    hints: Hints | None = None,
    overwrite: bool = False,
    progress: Progress = no_progress,
) -> Checked:
    """Check where a model errs because of the context.

    Finds the challenge sets of the criteria that the dataset allows for the tasks that have
    predictions, scores all runs and three baselines, compares errors in the misleading with those
    in the usual context, searches slices, and writes everything with a page that opens from disk.

    Args:
        dataset: a dataset, its folder or address; or annotations of a known format, or a frame of
            them (in Python: of polars, pandas or Arrow), which are imported into ``out``.
        predictions: predictions of one or several runs; see ``nooch.evaluate``.
        out: folder to write.
        tasks: names of tasks; by default all that have predictions.
        split: ``test`` if there is one, else ``valid``, else all images.
        criterion: ``ce``, ``context`` or ``gist``, or several; by default ``context`` if its
            columns are named, else every criterion that the dataset has the data for: areas,
            several labels per image, embedded captions.
        phi: condition on images as a further criterion, such as ``word('trailer')`` or a slice's;
            see ``nooch.Attribute``.
        decision: ``threshold``: a class is claimed where its output is above 0 (probability 0.5);
            ``argmax``: the class with the largest output is the answer. By default argmax where
            labels exclude each other.
        alpha: CE criterion: a class is a cue of an object if, on average over images of the object,
            it covers this fraction of the image more than the object does.
        beta: CE criterion: fraction of the image beyond which a cue is present.
        min_hard: hard images (or groups) that a task needs on one side to be checked.
        bootstrap: resamples of the scores' intervals; 0 for none. By default 1,000, and 200 for
            more than 20 tasks, which a note mentions.
        stability: resamples for the uncertainty of each context cue; 0 for none.
        baseline: run to compare the others with on the same images in misleading contexts (without
            any context, on all images), or its file: everything opens with what got worse and
            better. Conditions judge it only where they name it.
        baselines: score a constant, the prior and only the context.
        slices: search slices.
        captions: files of captions, as for ``nooch captions``, or a column of text, whose words
            slices are searched by; by default the dataset's own.
        image_properties: measure brightness, contrast, sharpness, saturation, entropy, aspect,
            megapixels and JPEG quality of the images; slices are searched by their quartiles.
        images: folder of images for the page, where the dataset records none.
        range: values that become black and white in pictures and properties, of images of more than
            8 bits a channel; by default what the dataset records, else in pictures
            percentiles of a sample.
        group: column, or pattern of file names, of images that count as one in intervals and tests,
            such as ``scene``; by default the dataset's.
        context: attribute columns to use as context, such as ``scanner,site``, or ``all``; by
            default the other labels, or, where labels exclude each other, every column but the
            group and those like ids.
        seed: seed of the resamples.
        fail_if: ``worse`` for a task on which a run is worse than the ``baseline``, ``context`` for
            any finding of errors by context, or conditions on the scores, such as
            ``auc@hard[ce,car]<0.9`` or ``new error@hard > old``; see ``nooch.evaluate``.
        threshold: score above which a detected box counts, in [0, 1]; or ``f1``: for each class the
            score with the largest F1 on the split valid. By default ``f1`` if valid has detections
            and is not the split that is checked, else 0.5. If the dataset has objects, every object
            that no box finds is an error.
        iou: the least overlap (intersection over union) of a box and the object it finds.
        reading: how files of predictions are read: keywords of ``nooch.load_predictions``.
        hints: where ``dataset`` is annotations, what their format leaves open, such as the column
            of labels or the void values of label maps.
        overwrite: replace an earlier check.
        progress: called with what is being done, and how many of how many are done.

    Raises:
        InputError: no task has enough hard images; see also ``nooch.find`` and ``nooch.evaluate``.
        ParameterError: an unknown option, task or split.
        OutputError: ``out`` exists (and ``overwrite`` is false) or cannot be written.

    Examples:
        >>> checked = nooch.check("data", "model.csv", "checked", bootstrap=0)
        >>> checked.findings.table.select("cue", "side", "n_misleading", "verdict").rows()
        [('road', 'positive', 78, 'worse'), ('road', 'negative', 101, 'worse')]
        >>> checked.page.name
        'index.html'
    """
    with write_folder(out, overwrite=overwrite, marker=CHECK_MARKER) as folder:
        data, recorded, notes = _opened(
            dataset, folder, Path(out), images, range, hints, (group, context), progress
        )
        data = data.grouped(group).with_context(context)
        split = checked_split(data, split)
        judged = judge_runs(
            predictions, data, split, tasks=tasks, reading=reading, threshold=threshold, iou=iou,
            recall=True, baseline=baseline,
        )  # fmt: skip
        # with classes for counts of any class
        described_data = captioned(data := judged.data or data, captions)
        if image_properties:
            described_data, missing = measured(described_data, split, images, progress, range)
            notes += missing
        runs = judged.runs
        names = [run.run for run in runs]
        conditions = [parse_condition(c).of_runs(names, judged.baseline) for c in fail_if]
        notes += [described(runs), *run_notes(runs), *judged.notes]
        predicted = predicted_tasks(runs, data.classes, tasks, owner="the dataset", kind="class")
        # classes without predictions are listed as left out
        notes += task_notes(runs, data.classes, "dataset", tasks, all_needed=tasks is not None)
        if OBJECT in predicted:
            idle = {"criterion": criterion, "decision": decision}
            check_idle(idle, " on counts of any class", where="predictions")
        criteria, reasons = _criteria(
            data, criterion, CE(alpha=alpha, beta=beta), phi, any_class=OBJECT in predicted,
            alone=baseline is None and not _has_conditions(described_data),
        )  # fmt: skip
        notes += reasons + data.id_notes
        answers = largest_answers(runs, decision, exclusive=judged.one_label)
        if answers is not runs:
            notes.append("the answer is the class with the largest output (`decision`)")
            judged, runs = replace(judged, runs=answers), answers
        new = judged.without_baseline
        whole = find(
            data,
            criteria,
            tasks=predicted,
            splits=[split],
            path=recorded,
            match=next(iter(criteria)) if "gist" in criteria else None,
            stability=stability,
            progress=progress,
        )
        suite, chosen_tasks = _with_enough(whole, split, min_hard, len(predicted))
        confusions = find_confusions(judged.part, new.runs, predicted) if judged.one_label else None
        if bootstrap is None:
            many = len(suite.tasks) > _MANY_TASKS
            bootstrap = 200 if many else RESAMPLES
            notes += ["intervals use 200 resamples (more than 20 tasks)"] if many else []
        plain = (
            baseline_runs(suite.with_tasks(data), suite.tasks, split)
            if baselines and OBJECT not in predicted
            else []
        )
        scores = evaluate(
            suite, replace(judged, runs=[*runs, *plain]), split=split, bootstrap=bootstrap,
            seed=seed, fail_if=[c.text for c in conditions if c.metric in METRIC_NAMES],
            baseline=judged.baseline, progress=progress,
        )  # fmt: skip
        # the baselines are there to be compared with, not to be judged
        shown = scores.of_runs(names)
        findings, comparison, whole_sets = _compared(suite, judged, split, conditions, progress)
        notes += comparison.notes if comparison is not None else []
        shown = replace(shown, verdicts=[*shown.verdicts, *whole_sets])
        scores = replace(scores, verdicts=shown.verdicts)
        judged, new = (replace(one, data=described_data) for one in (judged, new))
        where = judged_slices(new, predicted, progress=progress) if slices else None
        unseen = never_together(new, predicted)
        notes = [*notes, chosen_tasks, *_near_alpha(suite), *unseen_note(unseen)]
        answer = answer_of(AnswerSources(suite, judged), findings, where, confusions, comparison)
        answer = replace(
            answer,
            errors=_errors(judged, predicted),
            left_out=left_out(
                predicted, tasks or data.classes, whole, suite, findings.table, min_hard,
                searched=slices,
            ),
            notes=notes,
            settings={
                "split": split, "criteria": ", ".join(suite.criteria), "alpha": alpha,
                "beta": beta, "hard images needed on a side": min_hard,
                "resamples": bootstrap, "seed": seed,
            },
        )  # fmt: skip
        result = Checked(
            suite, scores, findings, confusions, where, answer, Path(out), comparison, unseen,
            judged.part.images["image_id"],
        )  # fmt: skip
        sources = Sources(
            suite=suite, data=data, predictions=judged, images=images, range=range,
            bootstrap=bootstrap, progress=progress,
        )  # fmt: skip
        _write(result, folder, sources, shown)
    return result


def _opened(
    dataset: Dataset | str | Path,
    folder: Path,
    out: Path,
    images: str | Path | None,
    value_range: tuple[float, float] | None,
    hints: Hints | None,
    facts: tuple[str | None, Sequence[str]],
    progress: Progress,
) -> tuple[Dataset, str | None, list[str]]:
    """The dataset, its path for the suite to record, and a note if it was imported; ``facts`` are
    its group and context.
    """
    group, context = facts
    of_table = replace(hints or Hints(), group=group, context=context)
    if isinstance(dataset, Dataset):
        data, place = dataset, None
    elif not isinstance(dataset, str | Path):
        if as_polars(dataset, "the dataset", "columns of one type each") is None:
            raise no_dataset("dataset", dataset)
        target = folder / "dataset"
        made = import_dataset(
            dataset, target, hints=of_table, images=images, group=group, context=context,
            progress=progress,
        )  # fmt: skip
        return load_dataset(target), "../dataset", [made.header.provenance["notes"][0]]
    elif is_address(dataset) or not (path := Path(str(dataset)).absolute()).exists():
        data, place = load_dataset(dataset), str(dataset)
    elif (path / DATASET_MARKER).is_file():
        # from where the suite is going to be
        data, place = load_dataset(path), os.path.relpath(path, out.absolute() / "suite")
    else:
        with giving("hints", HINTS):
            recognized = recognize(path, of_table, images)
            given = images or recognized.images
            import_dataset(
                recognized.reading, folder / "dataset", images=given, group=group,
                context=context, range=value_range, progress=progress,
            )  # fmt: skip
        data = load_dataset(folder / "dataset")
        left_out = [note for note in data.provenance["notes"] if LIST in note]
        return data, "../dataset", [f"imported {recognized.kind}: {recognized.why}", *left_out]
    refuse_hints(hints, "dataset")
    return data, place, []


def _has_conditions(data: Dataset) -> bool:
    """True unless there is only one class, without size, position, columns or words."""
    several = len(data.classes) > 1 or data.has_areas
    return several or bool(data.context_columns) or data.has_captions


def _criteria(
    data: Dataset, names: Sequence[str] | None, ce: CE, phi: str | None, *,
    any_class: bool, alone: bool,
) -> tuple[dict[str, Any], list[str]]:  # fmt: skip
    """The criteria asked for, or those that the dataset allows, with ``phi``; and notes on what
    they leave out; ``any_class``: predictions are counts, which have no context; ``alone``: nothing
    else is compared.
    """
    made: dict[str, Any]
    made, notes = all_easy(data), [_ANY_CLASS]
    if not any_class:
        made, notes = _of_labels(data, names, ce, alone=alone and phi is None)
    if phi is not None:
        made = {name: one for name, one in made.items() if name != NO_CONTEXT}
        made[Attribute.kind] = Attribute(phi)
    if ce != CE() and CE.kind not in made:
        notes.append("`alpha` and `beta` have no effect without the criterion ce")
    return made, notes


def _of_labels(
    data: Dataset, names: Sequence[str] | None, ce: CE, *, alone: bool
) -> tuple[dict[str, Any], list[str]]:
    """As ``_criteria``, for classes."""
    made: dict[str, Any] = {"ce": ce, "context": Context(columns=data.context), "gist": Gist()}
    for name in names or ():
        check_one_of("criterion", name, made, owner="a check")
    chosen = ["context"] if data.context and names is None else names
    notes = [f"the context is {some_of(data.context)}"] if data.context else []
    needs_labels = not data.context and (chosen is None or "context" in chosen)
    error, columns = no_context(data) if needs_labels else None, data.context_columns
    if error is not None and columns:
        made["context"] = Context(columns=columns)
        notes = [f"{error.problem}; the context is {some_of(columns)}"]
    elif error is not None:
        del made["context"]
        error = error.changed(remedy=_CONTEXT, give=())
        if chosen is not None:
            raise error
    if chosen is not None:
        return {name: made[name] for name in made if name in chosen}, notes
    one_class = len(data.classes) == 1
    if one_class or not data.has_areas:
        del made["ce"]
        notes = [*([] if one_class else [_NO_AREAS]), *notes]
    if len(several := data.embedding_names) != 1:
        del made["gist"]
        notes += [f"no gist: the dataset has the embeddings {some_of(several)}"] if several else []
    if error is not None and not made:
        if alone:
            raise error
        # scores, confusions and slices are left
        return all_easy(data), [f"{error.problem}; {_CONTEXT}"]
    return made, notes


def _with_enough(suite: Suite, split: str, min_hard: int, n_tasks: int) -> tuple[Suite, str]:
    """The suite of the tasks with enough hard images on a side, and what was chosen."""
    hard, what = most_hard(suite), suite.unit_name
    if NO_CONTEXT in suite.criteria:
        return suite, f"split {split}"
    kept = [task for task, count in hard.items() if count >= min_hard]
    if not kept:
        largest = max(hard.values(), default=0)
        raise InputError(
            f"no class has {min_hard} {what} out of context (the most: {too_few(suite)})",
            remedy="{}; more images also help",
            give=([{"min_hard": largest}] if largest else [])
            + [Command("find", criterion="context", lift=1)],
        )
    count = f"{len(kept)} of {n_tasks} tasks"
    note = f"split {split}: {count} have at least {min_hard} {what} out of context"
    return suite.only(kept), note


def _compared(
    suite: Suite,
    judged: JudgedRuns,
    split: str,
    conditions: Sequence[Condition],
    progress: Progress,
) -> tuple[Findings, RunComparison | None, list[ConditionVerdict]]:
    """Errors by context, changes from the baseline, and the conditions on these."""
    runs, comparison = judged.without_baseline, None
    names = [run.run for run in runs.runs]
    findings = Findings.from_rows([], {"split": split, "tasks": suite.tasks, "runs": names})
    keys = [(name, task, split) for task in suite.tasks for name in suite.criteria]
    if NO_CONTEXT not in suite.criteria:
        findings = compare_contexts(suite, runs, keys, progress)
    if judged.baseline is not None:
        comparison = compare_runs(suite, judged, keys, judged.baseline, progress)
    verdicts = judged_contexts([findings], runs.runs) if CONTEXT in conditions else []
    if comparison is not None and WORSE in conditions:
        verdicts += comparison.judged()
    return findings, comparison, verdicts


def _errors(judged: JudgedRuns, tasks: Sequence[str]) -> DisplayTable:
    """Numbers of objects that each model misses (without boxes: of images with one), and of images
    without one in which it claims one.
    """
    rows = []
    for task in tasks:
        _, everything = judged.labeled(task)
        for run in (run for run in judged.runs if task in run.tasks):
            weights, total, texts = judged.weights(run, everything), 0.0, list[str]()
            for side in SIDES:
                outcomes = outcomes_of(run, everything, side)
                wrong, weight = outcomes.wrong, outcomes.weights(weights)
                rate = float(wrong @ weight / (weight.sum() or 1.0))
                more = "" if weights is None else f" ({percent(rate)} by weight)"
                texts.append(f"{int(wrong.sum()):,} of {len(wrong):,}{more}")
                total += rate
            rows.append((total, [task, run.run, *texts]))
    rows.sort(key=lambda row: -row[0])
    title = f"Errors, {min(_MOST_ERRORS, len(rows))} of {len(rows):,}: the largest rates"
    columns = ["task", "model", "missed", "claimed"]
    return DisplayTable(title, columns, [texts for _, texts in rows[:_MOST_ERRORS]], left=2)


def _near_alpha(suite: Suite) -> list[str]:
    """A note on cues that depend on a few training images, if there are any."""
    near = [
        f"{cue.cue} of {task} ({cue.share:.0%} of resamples)"
        for record in suite.header.criteria.values()
        for task, listed in (record.stability or {}).items()
        for cue in listed
        if cue.near_alpha
    ]
    return [f"cues near alpha: {some_of(near, 12)}"] if near else []


def _write(checked: Checked, folder: Path, sources: Sources, shown: Scores) -> None:
    save_suite(checked.suite, folder / "suite")
    save_scores(checked.scores, folder / "scores.parquet")
    if checked.slices is not None:
        (folder / "slices.parquet").write_bytes(parquet_bytes(checked.slices.table))
    write_report(sources, folder / "report", answer=checked.answer, scores=shown)
    if checked.confusions is not None:
        (folder / "confusions.parquet").write_bytes(parquet_bytes(checked.confusions.table))
    markdown = checked.answer.markdown(str(checked.page))
    (folder / "findings.md").write_text(markdown, encoding="utf-8")
    (folder / "findings.parquet").write_bytes(parquet_bytes(checked.findings.table))
    (folder / NUMBERED).write_bytes(parquet_bytes(checked.numbered))
    content = {
        "verdict": checked.answer.verdict,
        "settings": dict(checked.findings.settings),
        "notes": list(checked.notes),
        **checked.numbered_json,
        "findings": checked.findings.table.to_dicts(),
        **checked.comparison_json,
    }
    (folder / CHECK_MARKER).write_bytes(msgspec.json.format(msgspec.json.encode(content)))


UNSEEN: dict[str, Any] = {
    "run": pl.String, **UNSEEN_PAIRS, "n": pl.Int64, "missed": pl.Int64, "rate": pl.Float64,
    "n_elsewhere": pl.Int64, "rate_elsewhere": pl.Float64,
}  # fmt: skip
"""Columns of ``never_together``. ``n_test``: images of the split with both classes;
``expected_train``: training images with both, if classes were independent; of ``n`` objects
(without boxes: images) of the task in the former, ``missed`` are missed; ``rate`` of these
and ``rate_elsewhere`` of the others count each image by its weight.
"""


def never_together(judged: JudgedRuns, tasks: Sequence[str]) -> pl.DataFrame:
    """``unseen_pairs`` of the runs' split, a row for each run and task with predictions; see
    ``UNSEEN``.
    """
    assert judged.data is not None  # noqa: S101 - without a dataset nobody asks
    rows = []
    for pair in unseen_pairs(judged.data, judged.split).iter_rows(named=True):
        task, other = pair["task"], pair["other"]
        if task not in tasks:
            continue
        part, everything = judged.labeled(task)
        both = part.labels(other, unknown=False)
        for run in (run for run in judged.runs if task in run.tasks):
            outcomes = outcomes_of(run, everything, SIDES[0])
            inside, wrong = both[outcomes.row], outcomes.wrong
            weight = outcomes.weights(judged.weights(run, everything))
            rate, elsewhere = (
                float(wrong[of] @ weight[of] / weight[of].sum()) if weight[of].any() else None
                for of in (inside, ~inside)
            )
            rows.append({
                "run": run.run, **pair, "n": int(inside.sum()), "missed": int(wrong[inside].sum()),
                "rate": rate, "n_elsewhere": int((~inside).sum()), "rate_elsewhere": elsewhere,
            })  # fmt: skip
    return pl.DataFrame(rows, schema=UNSEEN)
