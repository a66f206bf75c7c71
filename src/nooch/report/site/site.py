"""A suite, and runs and images if there are any -> the report's site."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from nooch.base.calls import Count, checked
from nooch.base.errors import InputError, ParameterError
from nooch.base.files import check_output
from nooch.criteria import FittedCE, FittedGist
from nooch.data import Dataset
from nooch.data.readers.image_files import ImageIndex, ValueRange, range_text
from nooch.evaluation import Predictions, Scores
from nooch.evaluation.judged import JudgedRuns, judge_runs
from nooch.evaluation.thresholds import AnswerThreshold, one_threshold
from nooch.report.answer import Answer
from nooch.report.images.choice import chosen_examples, labels_of, task_view
from nooch.report.images.cue_masks import cue_masks, outlines
from nooch.report.images.drawn_boxes import boxes_of_images
from nooch.report.images.sources import Sources, needed
from nooch.report.images.thumbnails import SplitImages
from nooch.report.site.cards import (
    ExampleGroup,
    answer_groups,
    answer_sections,
    cards_of,
    gallery_rows,
    pictures_of,
)
from nooch.report.site.explore_data import ThresholdLosses, finding_data, fitted_of, swept
from nooch.report.site.folder import PAGES, SITE_MARKER, BoxesOfRuns, Site, write_site
from nooch.report.site.results_page import (
    PredictionScores,
    TablesOf,
    own_tables,
    results_view,
    score_predictions,
    scored_view,
)
from nooch.suites import Suite
from nooch.suites.summary import skipped_tables, suite_tables, summary

T = TypeVar("T")

_SHOWN = ("reader", "sources", "split", "predicted", "labels")
"""Fields of a dataset's provenance on the overview."""
_NO_DATA = (
    "Without the dataset (`data`) areas and captions are not known: alpha cannot be moved, and"
    " cues cannot be shown for single images."
)
_NO_RUNS = "No runs were given (`runs`): there are no losses, results and comparisons of methods."
_COLLECTED = "The results were collected: losses of single images are only in the folder of runs."
_WORDS = "Answers in words have no probabilities: there are no losses of images."
_NO_IMAGES = (
    "No folder of images was given (`images`), and the dataset records none, or one that is not"
    " there: images are shown by id and in words."
)


def lost(absent: int) -> str:
    """A note on images without a file."""
    return f"{absent:,} images that would be shown have no file below the folder of images."


@dataclass(frozen=True)
class Reported:
    """Result of writing: the folder, and notes for the user."""

    path: Path
    notes: Sequence[str]


@checked
def write_report(
    sources: Sources,
    out: str | Path,
    *,
    metrics: Sequence[str] = (),
    threshold: AnswerThreshold = 0.5,
    thumbnails: Annotated[int, Meta(ge=0)] | None = 200,
    examples: Count = 6,
    answer: Answer | None = None,
    scores: Scores | None = None,
    tables: TablesOf = own_tables,
    overwrite: bool = False,
) -> Reported:
    """Write a static site that shows a suite: counts, images, results, criteria, examples.

    Args:
        sources: the suite, and its dataset, runs, predictions and images, if given. Without the
            dataset alpha cannot be moved and there are no captions.
        out: folder to write.
        metrics: metrics of predictions in addition to AUC, error, NLL and ECE, such as
            ``accuracy``.
        threshold: probability above which an answer is positive: a number; a file of task and
            threshold; ``valid`` or ``worst-side``; see ``nooch.evaluate``.
        thumbnails: largest number of pictures for each task and split, in addition to the examples
            (in Python, None for all images).
        examples: number of images in a group of examples.
        answer: of a check: the overview opens with it; ``nooch report`` makes one of its
            predictions or runs.
        scores: of the predictions, where they were scored before.
        tables: results -> the tables of the page of results, tables with published numbers, and
            notes; ``nooch.paper.report_tables`` gives the paper's. By default AUC on hard and on
            easy images.
        overwrite: replace an existing report.

    Raises:
        ParameterError: another dataset than the suite's, an unknown split or method, a number below
            its range.
        InputError: results that do not belong to the suite; a folder of images that is not there.
        OutputError: ``out`` exists (and ``overwrite`` is false) or cannot be written.

    Examples:
        >>> sources = nooch.paper.Sources(suite=nooch.load_suite("suite"))
        >>> nooch.write_report(sources, "site").path.name
        'site'
    """
    suite = needed(sources.suite, "a suite", {"suite": ...})
    data, progress = sources.data, sources.progress
    check_output(out, overwrite=overwrite, marker=SITE_MARKER)
    if data is not None:
        suite.require_dataset(data)
    split, results = sources.of_split, sources.results
    index = image_index(data, sources.images)
    content = _ReportContent(sources, suite, thumbnails, examples, threshold)
    resampling: dict[str, Any] = {"split": split, "bootstrap": sources.bootstrap}
    scoring = {**resampling, "metrics": metrics, "threshold": threshold}
    if scores is None:
        scored = score_predictions(suite, sources.outputs, progress=progress, **scoring)
    else:
        scored = PredictionScores.from_scores([scores], metrics)
    if results is None:
        view = scored_view(scored, suite, **resampling)
    else:
        view = results_view(sources, suite, results, tables)
        view = replace(view, scored=scored.tables, notes=[*view.notes, *scored.notes])
    groups, rows, by_threshold = content.examples()
    sections = answer_sections(scored.scores, suite, split, groups, examples)
    shown = [card.row for section in sections for _, cards in section.sentences for card in cards]
    if answer is not None:
        shown = [*answer.pictured, *shown]
    rows[split] = [*shown, *rows[split]]
    pictures, absent = pictures_of(content.images, index, rows)
    missing = content.missing(index, absent, scored.problems)
    criteria = content.criteria(by_threshold)
    empty = {
        "results": view is None and not scored.problems,
        "criteria": not any(map(criteria.get, ("points", "cues", "tau"))),
        "examples": not groups,
    }
    pages = {name: title for name, title in PAGES.items() if not empty.get(name)}
    shown_range = sources.shown_range([picture.path for picture in pictures])
    if index is not None:
        missing["pictures"] = _about_pictures(thumbnails, shown_range)
    provenance = {} if data is None else data.provenance
    facts = summary(suite)
    overview = {
        **facts,
        "tables": [*skipped_tables(suite), *suite_tables(suite, facts["overlap"])],
        "provenance": {name: provenance[name] for name in _SHOWN if name in provenance},
        "captions": 0 if data is None or data.captions is None else data.captions.height,
        "answers": sections,
        "answer": answer,
    }
    masks = None
    if data is not None and sources.annotations and pictures:
        masks = cue_masks(suite, data, content.images, sources.annotations, pictures)
    elif data is not None and index is not None and answer is not None:
        masks = outlines(suite, data, content.images, index.root, pictures, answer)
    points = {} if view is None else view.points.to_dict(as_series=False)
    charts: dict[str, Any] = {"results": points, "criteria": criteria}
    if answer is not None:
        charts["findings"] = {str(one.number): finding_data(one) for one in answer.numbered}
    site = Site(
        pages,
        suite,
        content.images,
        content.losses_of,
        content.boxes_of,
        sources.image_losses.methods,
        overview,
        view,
        {"split": split, "method": sources.baseline},
        groups,
        charts,
        pictures,
        missing,
        masks,
        shown_range,
    )
    problems = write_site(site, out, overwrite=overwrite, progress=progress)
    notes = dict.fromkeys(text for page in PAGES for text in missing[page])
    return Reported(Path(out), [*notes, *problems])


def _about_pictures(thumbnails: int | None, shown_range: ValueRange | None) -> list[str]:
    """Sentences on the images that have pictures, and on values of wide ones."""
    texts = ["All images have pictures."]
    if thumbnails is not None:
        drawn = f"the examples and up to {thumbnails:,} images of each task and split"
        texts = [f"Pictures of {drawn}; `all_thumbnails` makes all."]
    wide = "Images of more than 8 bits a channel: "
    return texts if shown_range is None else [*texts, f"{wide}{range_text(shown_range)}."]


def image_index(data: Dataset | None, images: str | Path | None) -> ImageIndex | None:
    """The files that may be shown; the folder that the dataset records is used if it exists."""
    if images is not None:
        return ImageIndex(images)
    root = None if data is None else data.image_root
    try:
        return None if root is None else ImageIndex(root, follow=False)
    except InputError:
        return None


@dataclass(frozen=True, eq=False)
class _ReportContent:
    """Data that several pages need, computed once."""

    sources: Sources
    suite: Suite
    thumbnails: int | None
    n: int
    threshold: AnswerThreshold

    @cached_property
    def images(self) -> dict[str, SplitImages]:
        """Split -> its images."""
        data = self.sources.data
        return {name: SplitImages.from_split(self.suite, name, data) for name in self.suite.splits}

    @cached_property
    def detected(self) -> list[Predictions]:
        """The runs with boxes, matched to the dataset's objects, a baseline last."""
        data, split = self.sources.data, self.sources.of_split
        given = self.sources.predictions
        with_boxes = any(run.boxes is not None for run in self.sources.outputs)
        if data is None or not with_boxes or data.objects is None:
            return []
        if not isinstance(given, JudgedRuns):
            try:
                limit: float | None = one_threshold(self.threshold)
            except ParameterError:
                # a file, or a rule for answers
                limit = None
            usual = None if limit == 0.5 else limit
            given = judge_runs(self.sources.outputs, data, split, threshold=usual)
        runs = [run for run in given.runs if run.objects and run.boxes]
        return sorted(runs, key=lambda run: run.run == given.baseline)

    def boxes_of(self, task: str, split: str, rows: Container[int]) -> BoxesOfRuns:
        """Boxes over the images of rows of the split of the predictions."""
        part = self.images[split].data
        if part is None or split != self.sources.of_split:
            return {}
        return {run.run: boxes_of_images(run, task, part.images, rows) for run in self.detected}

    def losses_of(self, task: str, split: str) -> Mapping[str, Mapping[str, tuple[str, Any]]]:
        images = self.images[split]
        return self.sources.image_losses.for_task(
            task, images, labels_of(self.suite, task, images) == 1
        )

    def examples(self) -> tuple[list[ExampleGroup], dict[str, list[int]], ThresholdLosses | None]:
        """Groups of examples, rows of each split that need pictures, and the baseline's losses on
        hard images of the results' split.
        """
        sources, baseline = self.sources, self.sources.baseline
        groups: list[ExampleGroup] = []
        first: dict[str, list[int]] = {split: [] for split in self.images}
        later: dict[str, list[int]] = {split: [] for split in self.images}
        by_threshold = None
        if baseline is not None:
            part = self.images[sources.of_split].data
            by_threshold = ThresholdLosses(baseline, part, self.ce, self.gist)
        rivals = {
            criterion: rival
            for criterion in self.suite.criteria
            if (rival := sources.rival(criterion))
        }
        n, thumbnails = self.n, self.thumbnails
        detected = next(iter(self.detected), None)
        for done, task in enumerate(self.suite.tasks, 1):
            for split, images in self.images.items():
                view = task_view(self.suite, task, images, sources.image_losses)
                later[split] += (
                    range(len(images)) if thumbnails is None else gallery_rows(view, thumbnails)
                )
                if split == sources.of_split:
                    if by_threshold is not None:
                        by_threshold.add(view)
                    said = answer_groups(view, images, sources.outputs, n)
                    first[split] += [card.row for group in said for card in group.cards]
                    picks = chosen_examples(view, self.suite.criteria, baseline, rivals, n)
                    shown = [*said, *cards_of(view, images, picks, detected)]
                    groups += [group for group in shown if group.cards]
                    first[split] += [int(row) for group in picks for row in group.rows]
            sources.progress("choosing examples, tasks", done, len(self.suite.tasks))
        return groups, {split: first[split] + later[split] for split in first}, by_threshold

    def criteria(self, losses: ThresholdLosses | None) -> dict[str, Any]:
        """Data of the page Criteria."""
        data, progress = self.sources.data, self.sources.progress
        progress("sweeping thresholds", 0, 1)
        embedding = None if self.gist is None else self.gist[1].criterion.embedding
        content: dict[str, Any] = {}
        if self.ce is not None:
            # marked in the charts
            content |= {name: getattr(self.ce[1].criterion, name) for name in ("alpha", "beta")}
        if data is not None:
            content |= swept(self.suite, data, embedding)
        if losses is not None:
            content |= losses.content()
        progress("sweeping thresholds", 1, 1)
        return {**content, "method": self.sources.baseline, "split": self.sources.of_split}

    @cached_property
    def ce(self) -> tuple[str, FittedCE] | None:
        """The suite's first CE criterion with its statistics."""
        return self._first(FittedCE)

    @cached_property
    def gist(self) -> tuple[str, FittedGist] | None:
        """The suite's first gist criterion with its statistics."""
        return self._first(FittedGist)

    def _first(self, kind: type[T]) -> tuple[str, T] | None:
        every = ((name, fitted_of(self.suite, name, kind)) for name in self.suite.criteria)
        return next(((name, fitted) for name, fitted in every if fitted is not None), None)

    def missing(
        self, index: ImageIndex | None, absent: int, problems: Sequence[str]
    ) -> dict[str, list[str]]:
        """Page -> what is missing on it, and why."""
        data, results = self.sources.data, self.sources.results
        methods = self.sources.image_losses.methods
        no_runs = results is None and not self.sources.outputs
        notes = {
            _NO_DATA: (data is None, "index explore"),
            _NO_RUNS: (no_runs, "index explore"),
            _COLLECTED: (results is not None and not methods, "explore"),
            _WORDS: (results is None and not no_runs and not methods, "explore"),
            _NO_IMAGES: (index is None, "index explore examples"),
            lost(absent): (index is not None and absent > 0, "index explore examples"),
        }
        missing = {
            page: [
                note for note, (holds, pages) in notes.items() if holds and page in pages.split()
            ]
            for page in PAGES
        }
        missing["results"] += problems
        return missing
