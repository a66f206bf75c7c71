"""A suite, and runs and images where there are any -> the report's site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from nooch.base.calls import Progress, no_progress, options_from
from nooch.base.errors import InputError, ParameterError
from nooch.base.files import Place, check_output
from nooch.criteria import FittedCE, FittedGist
from nooch.data import Dataset
from nooch.data.readers.image_files import ImageIndex
from nooch.evaluation import Predictions
from nooch.evaluation.thresholds import AnswerThreshold
from nooch.report.images.choice import ImageLosses, chosen_examples, labels_of, task_view
from nooch.report.images.cue_masks import Masks, cue_masks
from nooch.report.images.thumbnails import SplitImages, Wanted
from nooch.report.results.pairs import baseline_of, checked_pair, rival_of
from nooch.report.results.run_results import Results, merge, read_results
from nooch.report.site.cards import (
    answer_groups,
    answer_sections,
    cards_of,
    gallery_rows,
    pictures_wanted,
    with_cards,
)
from nooch.report.site.content import ExampleGroup, FindingSection, Site
from nooch.report.site.explore_data import fitted_of
from nooch.report.site.folder import PAGES, SITE_MARKER, write_site
from nooch.report.site.results_page import results_view, score_predictions, scored_view
from nooch.report.site.threshold_losses import ThresholdLosses, swept
from nooch.suites import Suite, as_suite
from nooch.suites.summary import summary
from nooch.training.records import RUNS_MARKER, RunsFolder

T = TypeVar("T")

_NO_DATA = (
    "Without the dataset (`dataset`) areas and captions are not known: alpha cannot be moved, and"
    " cues cannot be shown for single images."
)
_NO_RUNS = "No runs were given (`runs`): there are no losses, results and comparisons of methods."
_NO_TABLES = (
    "No runs were given (`runs`): the paper's tables, its conclusions and what methods may see are"
    " of runs of nooch bench."
)
_COLLECTED = "The results were collected: losses of single images are in the folder of runs alone."
_WORDS = "Answers in words have no probabilities: there are no losses of images."
_ONE_METHOD = "One method alone has losses: largest gaps and suspected label errors need two."
_ONE_CRITERION = (
    "One criterion alone has supports: there is no image that is hard by one and easy by another."
)
_NO_CE = "The suite has no CE criterion with its statistics: there are no Figs. 10, 12 and 13."
_NO_GIST = "The suite has no gist criterion with its statistics: there are no Figs. 11 and 14."
_NO_IMAGES = (
    "No folder of images was given (`images`), and the dataset records none, or one that is not"
    " there: images are shown by id and in words."
)
_NO_CAPTIONS = "The dataset has no captions."


@dataclass(frozen=True)
class Reported:
    """What was written: the folder, and notes for the user."""

    path: Path
    notes: Sequence[str]


@dataclass(frozen=True)
class ReportOptions:
    """What a report shows besides the suite and its dataset.

    Attributes:
        runs: folders of ``nooch bench`` for this suite, or of ``nooch collect``.
        predictions: outputs of other models: their losses image by image, and their scores.
        methods: two methods to compare image by image, the baseline first; by default ERM, and for
            each criterion the method with the best average AUC on hard images.
        images: folder of images; by default the one that the dataset records, where it exists.
            Without a dataset, files are known by the ids in their names.
        annotations: the COCO files that the dataset was made from, or a folder of label maps as
            ``nooch annotate`` writes them, to shade cues in the pictures.
        rule: which hyperparameters; see ``nooch.training.selection.RULES``.
        split: whose results and examples; ``test`` by default, or the only one.
        bootstrap: resamples of the intervals; 0 for none.
        metrics: that the tables of predictions have besides AUC, error, NLL and ECE.
        threshold: of answers of predictions; see ``nooch.EvaluateOptions``.
        thumbnails: pictures for each task and split at most, besides those of the examples; None
            for all images.
        examples: images in a group of examples.
        findings: what the overview begins with.
    """

    runs: Sequence[str | Path] = ()
    predictions: Sequence[Predictions] = ()
    methods: Sequence[str] | None = None
    images: str | Path | None = None
    annotations: Sequence[str | Path] = ()
    rule: str = "worst-hard"
    split: str | None = None
    bootstrap: int = 1000
    metrics: Sequence[str] = ()
    threshold: AnswerThreshold = 0.5
    thumbnails: int | None = 200
    examples: int = 8
    findings: Sequence[FindingSection] = ()

    def __post_init__(self) -> None:
        for name, least in (("bootstrap", 0), ("thumbnails", 0), ("examples", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ParameterError(f"{name} is {value}", allowed=f"{least} and more")


def write_report(
    suite: Suite | str | Path,
    out: str | Path,
    *,
    data: Dataset | Place | str | None = None,
    options: ReportOptions | None = None,
    overwrite: bool = False,
    progress: Progress = no_progress,
    **named: Any,
) -> Reported:
    """Write a static site that shows a suite: counts, images, results, criteria, examples.

    Args:
        suite: the suite.
        out: folder to write.
        data: the dataset that the suite was found in; without it alpha cannot be moved and there
            are no captions.
        options: what is shown besides; its fields can also be given by name (see
            ``ReportOptions``).
        overwrite: replace an existing report.
        progress: called with the step, and how many of how many are done.
        named: fields of ``options``.

    Raises:
        ParameterError: another dataset than the suite's, an unknown split or method, a number below
            its range, an unknown option.
        InputError: results that do not belong to the suite; a folder of images that is not there.
        OutputError: ``out`` exists (and ``overwrite`` is false) or cannot be written.
    """
    suite = as_suite(suite)
    options = options_from(ReportOptions, options, named)
    check_output(out, overwrite=overwrite, marker=SITE_MARKER)
    data = None if data is None else suite.require_dataset(data)
    split = suite.splits_to_score(options.split)[0]
    index = image_index(data, options.images)
    results, losses = _results(suite, options, split, progress)
    content = _ReportContent(suite, data, options, split, results, losses)
    resampling: dict[str, Any] = {"split": split, "bootstrap": options.bootstrap}
    scoring = {**resampling, "metrics": options.metrics, "threshold": options.threshold}
    scored = score_predictions(suite, options.predictions, progress=progress, **scoring)
    if results is None:
        view = scored_view(scored, **resampling)
    else:
        folders = [Path(folder) for folder in options.runs]
        view = results_view(results, suite, folders, progress=progress, **resampling)
        view = replace(view, scored=scored.tables, notes=[*view.notes, *scored.notes])
    groups, rows, by_threshold = content.examples(progress)
    findings = answer_sections(scored.scores, suite, split, groups, options.examples)
    findings += with_cards(options.findings, content.images[split], suite)
    shown = [card.row for one in findings for _, _, cards in one.sentences for card in cards]
    rows[split] = [*shown, *rows[split]]
    wanted, absent = pictures_wanted(content.images, index, rows)
    missing = content.missing(index, absent, scored.problems)
    points = {} if view is None else view.points.to_dict(as_series=False)
    site = Site(
        suite,
        content.images,
        content.losses_of,
        losses.methods,
        {**_overview(suite, data), "findings": findings},
        view,
        {"split": split, "method": content.baseline},
        groups,
        {"results": points, "criteria": content.criteria(by_threshold, progress)},
        wanted,
        {**missing, "pictures": _about_pictures(options.thumbnails, index)},
        content.masks(wanted),
    )
    problems = write_site(site, out, overwrite=overwrite, progress=progress)
    notes = dict.fromkeys(text for texts in missing.values() for text in texts)
    return Reported(Path(out), [*notes, *problems])


def image_index(data: Dataset | None, images: str | Path | None) -> ImageIndex | None:
    """The files that may be shown; the folder that the dataset records is used where it exists."""
    if images is not None:
        return ImageIndex(images)
    root = None if data is None else data.image_root
    try:
        return None if root is None else ImageIndex(root, follow=False)
    except InputError:
        return None


def _results(
    suite: Suite, options: ReportOptions, split: str, progress: Progress
) -> tuple[Results | None, ImageLosses]:
    """Results of all folders together, and the losses of images."""
    of_folders = [
        (
            Path(folder),
            read_results(folder, [suite], rule=options.rule, split=split, progress=progress),
        )
        for folder in options.runs
    ]
    runs = [
        (RunsFolder.open(folder), results)
        for folder, results in of_folders
        if (folder / RUNS_MARKER).is_file()
    ]
    merged = merge([results for _, results in of_folders]) if of_folders else None
    return merged, ImageLosses(suite, runs, options.predictions)


_SHOWN = ("reader", "sources", "split", "predicted", "labels")


def _overview(suite: Suite, data: Dataset | None) -> dict[str, Any]:
    provenance = {} if data is None else data.provenance
    return {
        **summary(suite),
        "provenance": {k: v for k, v in provenance.items() if k in _SHOWN},
        "captions": 0 if data is None or data.captions is None else data.captions.height,
    }


def _about_pictures(thumbnails: int | None, index: ImageIndex | None) -> list[str]:
    if index is None:
        return []
    if thumbnails is None:
        return ["All images have pictures."]
    drawn = f"the examples and for up to {thumbnails:,} images of each task and split"
    return [f"Pictures are there for {drawn}; `all_thumbnails` draws all."]


@dataclass(frozen=True, eq=False)
class _ReportContent:
    """What several pages need, computed once."""

    suite: Suite
    data: Dataset | None
    options: ReportOptions
    split: str
    results: Results | None
    losses: ImageLosses

    @cached_property
    def images(self) -> dict[str, SplitImages]:
        """Split -> its images."""
        return {name: SplitImages.of(self.suite, name, self.data) for name in self.suite.splits}

    @cached_property
    def pair(self) -> tuple[str, str] | None:
        """The two methods that were named, the baseline first."""
        return checked_pair(self.options.methods, self.losses.methods)

    def masks(self, wanted: Sequence[Wanted]) -> Masks | None:
        """Where cues lie in the images with pictures, if annotations were given."""
        if self.data is None or not self.options.annotations or not wanted:
            return None
        return cue_masks(self.suite, self.data, self.images, self.options.annotations, wanted)

    @property
    def baseline(self) -> str | None:
        """The method whose losses order images."""
        return baseline_of(self.losses.methods, self.pair)

    def losses_of(self, task: str, split: str) -> Mapping[str, Mapping[str, tuple[str, Any]]]:
        images = self.images[split]
        return self.losses.of(task, images, labels_of(self.suite, task, images) == 1)

    def examples(
        self, progress: Progress
    ) -> tuple[list[ExampleGroup], dict[str, list[int]], ThresholdLosses | None]:
        """Groups of examples, rows of each split that need pictures, and the baseline's losses on
        hard images of the results' split.
        """
        groups: list[ExampleGroup] = []
        first: dict[str, list[int]] = {split: [] for split in self.images}
        later: dict[str, list[int]] = {split: [] for split in self.images}
        by_threshold = None
        if self.baseline is not None:
            part = self.images[self.split].data
            by_threshold = ThresholdLosses(self.baseline, part, self.ce, self.gist)
        rivals = {
            criterion: rival
            for criterion in self.suite.criteria
            if (rival := rival_of(self.results, criterion, self.losses.methods, self.pair))
        }
        n, thumbnails = self.options.examples, self.options.thumbnails
        for done, task in enumerate(self.suite.tasks, 1):
            for split, images in self.images.items():
                view = task_view(self.suite, task, images, self.losses)
                later[split] += (
                    range(len(images)) if thumbnails is None else gallery_rows(view, thumbnails)
                )
                if split == self.split:
                    if by_threshold is not None:
                        by_threshold.add(view)
                    said = answer_groups(view, images, self.options.predictions, n)
                    first[split] += [card.row for group in said for card in group.cards]
                    chosen = chosen_examples(view, self.suite.criteria, self.baseline, rivals, n)
                    groups += [*said, *cards_of(view, images, chosen)]
                    first[split] += [int(row) for group in chosen for row in group.rows]
            progress("choosing examples, tasks", done, len(self.suite.tasks))
        return groups, {split: first[split] + later[split] for split in first}, by_threshold

    def criteria(self, losses: ThresholdLosses | None, progress: Progress) -> dict[str, Any]:
        """Data of the page Criteria."""
        progress("sweeping thresholds", 0, 1)
        embedding = None if self.gist is None else self.gist[1].criterion.embedding
        content: dict[str, Any] = {}
        if self.data is not None:
            content |= swept(self.suite, self.data, embedding)
        if losses is not None:
            content |= losses.content()
        progress("sweeping thresholds", 1, 1)
        return {**content, "method": self.baseline, "split": self.split}

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
        data, results, methods = self.data, self.results, self.losses.methods
        no_runs = results is None and not self.options.predictions
        kinds = [record.kind for record in self.suite.header.criteria.values()]
        embedding = "" if self.gist is None else self.gist[1].criterion.embedding
        unknown = self.gist is not None and data is not None and embedding not in data.embeddings
        no_embedding = f"The dataset has no embedding {embedding}: there are no Figs. 11 and 14."
        lost = f"{absent:,} images that would be shown have no file below the folder of images."
        notes = {
            _NO_DATA: (data is None, "index explore criteria"),
            _NO_RUNS: (no_runs, "index explore results criteria examples"),
            _NO_TABLES: (results is None and not no_runs, "results"),
            _COLLECTED: (results is not None and not methods, "explore criteria examples"),
            _WORDS: (results is None and not no_runs and not methods, "explore criteria"),
            _NO_IMAGES: (index is None, "index explore examples"),
            lost: (index is not None and absent > 0, "index explore examples"),
            _NO_CAPTIONS: (data is not None and data.captions is None, "index explore"),
            _ONE_METHOD: (len(methods) == 1, "examples"),
            _ONE_CRITERION: (kinds.count("ce") + kinds.count("gist") == 1, "examples"),
            _NO_CE: (self.ce is None, "criteria"),
            _NO_GIST: (self.gist is None, "criteria"),
            no_embedding: (unknown, "criteria"),
        }
        missing = {
            page: [
                note for note, (holds, pages) in notes.items() if holds and page in pages.split()
            ]
            for page in PAGES
        }
        missing["results"] += problems
        missing["examples"] += [
            f"{record.criterion}: {record.task} has no hard image in {self.split}."
            for record in self.suite.header.sets
            if record.split == self.split and not record.hard_positives + record.hard_negatives
        ]
        return missing
