"""A suite, and runs and images where there are any -> the report's site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nooch.challenge import Suite
from nooch.criteria import FittedCE, FittedGist, fitted_from_json
from nooch.data import Dataset
from nooch.errors import InputError, ParameterError, check_one_of
from nooch.evaluation import Predictions
from nooch.examples.cue_masks import cue_masks
from nooch.examples.example_choice import chosen_examples
from nooch.examples.image_losses import ImageLosses
from nooch.examples.split_images import SplitImages
from nooch.examples.task_views import TaskView, labels_of, task_view
from nooch.files import check_output
from nooch.finding.suite_summary import summary
from nooch.readers.image_files import ImageIndex
from nooch.results.compared_methods import baseline_of, checked_pair, rival_of
from nooch.results.run_results import Results, merge, read_results
from nooch.shared_types import Progress, no_progress
from nooch.site.criterion_data import fitted_ce
from nooch.site.example_cards import cards_of, gallery_rows, pictures_wanted
from nooch.site.predictions_page import PredictionScores, score_predictions, scored_view
from nooch.site.results_page import ResultsView, results_view
from nooch.site.site_content import Group, Site
from nooch.site.site_folder import SITE_MARKER, write_site
from nooch.site.threshold_losses import loss_points, losses_by_support, losses_by_thresholds, swept
from nooch.training.run_records import RUNS_MARKER, RunsFolder

__all__ = ["Reported", "write_report"]


_NO_DATA = (
    "Without the dataset (`dataset`) areas and captions are not known: alpha cannot be moved, and"
    " cues cannot be told image by image."
)
_NO_RUNS = "No runs were given (`runs`): there are no losses, results and comparisons of methods."
_NO_TABLES = (
    "No runs were given (`runs`): the paper's tables, its conclusions and what methods may see are"
    " of runs of nooch bench."
)
_ONE_METHOD = "One method alone has losses: largest gaps and suspected label errors need two."
_ONE_CRITERION = (
    "One criterion alone has supports: there is no image that is hard by one and easy by another."
)
_NO_CE = "The suite has no CE criterion with its statistics: there are no Figs. 10, 12 and 13."
_NO_GIST = "The suite has no gist criterion with its statistics: there are no Figs. 11 and 14."
_NO_EMBEDDING = "The dataset has no embedding {}: there are no Figs. 11 and 14."
_NO_IMAGES = (
    "No folder of images was given (`images`), and the dataset records none: images are shown by id"
    " and in words."
)
_NO_CAPTIONS = "The dataset has no captions."


@dataclass(frozen=True)
class Reported:
    """What was written: the folder, and what a person should know."""

    path: Path
    notes: Sequence[str]


def write_report(
    suite: Suite,
    out: str | Path,
    *,
    data: Dataset | None = None,
    runs: Sequence[str | Path] = (),
    predictions: Sequence[Predictions] = (),
    methods: Sequence[str] | None = None,
    images: str | Path | None = None,
    annotations: Sequence[str | Path] = (),
    rule: str = "worst-hard",
    split: str | None = None,
    bootstrap: int = 1000,
    thumbnails: int | None = 200,
    examples: int = 8,
    overwrite: bool = False,
    progress: Progress = no_progress,
) -> Reported:
    """Write a static site that shows a suite: counts, images, results, criteria, examples.

    Args:
        suite: the suite.
        out: folder to write.
        data: the dataset that the suite was found in; without it alpha cannot be moved and there
            are no captions.
        runs: folders of ``nooch bench`` for this suite, or of ``nooch collect``.
        predictions: outputs of other models: their losses image by image, and their scores.
        methods: two methods to compare image by image, the baseline first; by default ERM, and for
            each criterion the method with the best average AUC on hard images.
        images: folder of images; by default the one that the dataset records, where it is there.
        annotations: the COCO files that the dataset was made from, to shade cues in the pictures.
        rule: which hyperparameters; see ``nooch.selection.RULES``.
        split: whose results and examples; ``test``, or the first there is.
        bootstrap: resamples of the intervals; 0 for none.
        thumbnails: pictures for each task and split at most, beside those of the examples; None for
            all images.
        examples: images in a group of examples.
        overwrite: replace a report that is there.
        progress: called with what is being done, and how many of how many are done.

    Raises:
        ParameterError: another dataset than the suite's, an unknown split or method, a number below
            its range.
        InputError: results that do not belong to the suite; a folder of images that is not there.
        OutputError: ``out`` exists (and ``overwrite`` is false) or cannot be written.
    """
    check_output(out, overwrite=overwrite, marker=SITE_MARKER)
    split = _checked(suite, data, split, bootstrap, thumbnails, examples)
    index = _index(data, images)
    results, folders = _results(suite, runs, rule, split, progress)
    work = _Work(suite, data, results, ImageLosses(suite, folders, predictions), split, methods)
    scored = score_predictions(
        suite, predictions, split=split, bootstrap=bootstrap, progress=progress
    )
    if results is None:
        view = scored_view(scored, split=split, bootstrap=bootstrap)
    else:
        sources = [Path(r) for r in runs]
        view = results_view(
            results, suite, sources, split=split, bootstrap=bootstrap, progress=progress
        )
        view = replace(view, scored=scored.tables)
    groups, rows, views = work.examples(examples, thumbnails, progress)
    wanted, absent = pictures_wanted(work.images, index, rows)
    missing = work.missing(index, absent if index is not None else 0, scored)
    site = Site(
        suite,
        work.images,
        work.losses_of,
        work.losses.methods,
        _overview(suite, data),
        view,
        {"split": split, "method": work.baseline},
        groups,
        {"results": _points(view), "criteria": work.criteria(views, progress)},
        wanted,
        {**missing, "pictures": _about_pictures(thumbnails, index)},
        (
            cue_masks(suite, data, work.images, annotations, wanted)
            if annotations and data is not None and wanted
            else None
        ),
    )
    notes = write_site(site, out, overwrite=overwrite, progress=progress)
    return Reported(
        Path(out), [*dict.fromkeys(text for texts in missing.values() for text in texts), *notes]
    )


def _checked(
    suite: Suite,
    data: Dataset | None,
    split: str | None,
    bootstrap: int,
    thumbnails: int | None,
    examples: int,
) -> str:
    if data is not None and data.fingerprint != suite.header.dataset.fingerprint:
        raise ParameterError(
            "the dataset is not the one that the suite was found in",
            remedy="give the one that it was found in, or none",
        )
    for name, value, least in (
        ("bootstrap", bootstrap, 0),
        ("thumbnails", thumbnails, 0),
        ("examples", examples, 1),
    ):
        if value is not None and value < least:
            raise ParameterError(f"{name} is {value}", allowed=f"{least} and more")
    if split is None:
        return "test" if "test" in suite.splits else suite.splits[0]
    return check_one_of("split", split, suite.splits, owner="the suite")


def _index(data: Dataset | None, images: str | Path | None) -> ImageIndex | None:
    """The files that may be shown; the folder that the dataset records counts only where it is
    there.
    """
    if images is not None:
        if data is None:
            raise ParameterError(
                "images need the dataset, which has their file names", remedy="give `dataset` too"
            )
        return ImageIndex(images)
    root = None if data is None else data.image_root
    try:
        return None if root is None else ImageIndex(root)
    except InputError:
        return None


def _results(
    suite: Suite, runs: Sequence[str | Path], rule: str, split: str, progress: Progress
) -> tuple[Results | None, list[tuple[RunsFolder, Results]]]:
    found = [
        read_results(source, [suite], rule=rule, split=split, progress=progress) for source in runs
    ]
    folders = [
        (RunsFolder.open(source), one)
        for source, one in zip(runs, found, strict=True)
        if (Path(source) / RUNS_MARKER).is_file()
    ]
    return (merge(found) if found else None), folders


def _overview(suite: Suite, data: Dataset | None) -> dict[str, Any]:
    about = summary(suite)
    about["provenance"] = (
        {}
        if data is None
        else {k: v for k, v in data.provenance.items() if k in {"reader", "sources", "split"}}
    )
    about["captions"] = 0 if data is None or data.captions is None else data.captions.height
    return about


def _points(view: ResultsView | None) -> dict[str, list[Any]]:
    return (
        {} if view is None else {name: view.points[name].to_list() for name in view.points.columns}
    )


def _about_pictures(thumbnails: int | None, index: ImageIndex | None) -> list[str]:
    if index is None:
        return []
    if thumbnails is None:
        return ["All images have pictures."]
    return [
        (
            f"Pictures are there for the examples and for up to {thumbnails:,} images of each task and"
            " split; `all_thumbnails` draws all."
        )
    ]


class _Work:
    """What several pages need, computed once."""

    def __init__(
        self,
        suite: Suite,
        data: Dataset | None,
        results: Results | None,
        losses: ImageLosses,
        split: str,
        pair: Sequence[str] | None,
    ) -> None:
        self.suite, self.data, self.results, self.losses, self.split = (
            suite,
            data,
            results,
            losses,
            split,
        )
        self.images = {name: SplitImages.of(suite, name, data) for name in suite.splits}
        self.pair = checked_pair(pair, losses.methods)
        self.baseline = baseline_of(losses.methods, self.pair)

    def losses_of(self, task: str, split: str) -> Mapping[str, Mapping[str, tuple[str, Any]]]:
        images = self.images[split]
        return self.losses.of(task, images, labels_of(self.suite, task, images) == 1)

    def examples(
        self, n: int, thumbnails: int | None, progress: Progress
    ) -> tuple[list[Group], dict[str, list[int]], list[TaskView]]:
        """Groups of examples, rows of each split that need pictures, and the views of the tasks in
        the results' split.
        """
        groups: list[Group] = []
        first: dict[str, list[int]] = {split: [] for split in self.images}
        later: dict[str, list[int]] = {split: [] for split in self.images}
        views = []
        rivals = {
            c: rival_of(self.results, c, self.losses.methods, self.pair)
            for c in self.suite.criteria
        }
        known = {criterion: rival for criterion, rival in rivals.items() if rival is not None}
        for done, task in enumerate(self.suite.tasks, 1):
            for split, images in self.images.items():
                view = task_view(self.suite, task, images, self.losses)
                later[split] += (
                    range(len(images)) if thumbnails is None else gallery_rows(view, thumbnails)
                )
                if split == self.split:
                    views.append(view)
                if split == self.split:
                    chosen = chosen_examples(view, self.suite.criteria, self.baseline, known, n)
                    groups += cards_of(view, images, chosen)
                    first[split] += [int(row) for one in chosen for row in one.rows]
            progress("choosing examples, tasks", done, len(self.suite.tasks))
        return groups, {split: first[split] + later[split] for split in first}, views

    def criteria(self, views: Sequence[TaskView], progress: Progress) -> dict[str, Any]:
        """Data of the page Criteria."""
        progress("sweeping thresholds", 0, 1)
        gist = self._gist()
        embedding = None if gist is None else gist[1].criterion.embedding
        found: dict[str, Any] = {} if self.data is None else swept(self.suite, self.data, embedding)
        part = self.images[self.split].data
        if self.baseline is not None:
            found["points"] = loss_points(views, self.baseline)
            ce = self._ce()
            if ce is not None and part is not None and part.has_areas:
                found["by_alpha_beta"] = losses_by_thresholds(
                    ce[1], part, views, ce[0], self.baseline
                )
            if gist is not None:
                supports = {v.task: v.support[gist[0]] for v in views if gist[0] in v.support}
                found["by_tau"] = losses_by_support(supports, views, gist[0], self.baseline)
        progress("sweeping thresholds", 1, 1)
        return {**found, "method": self.baseline, "split": self.split}

    def _ce(self) -> tuple[str, FittedCE] | None:
        for name in self.suite.criteria:
            if (fitted := fitted_ce(self.suite, name)) is not None:
                return name, fitted
        return None

    def _gist(self) -> tuple[str, FittedGist] | None:
        for name, record in self.suite.header.criteria.items():
            if record.kind == "gist" and record.fitted is not None:
                fitted = fitted_from_json(record.kind, record.fitted)
                if isinstance(fitted, FittedGist):
                    return name, fitted
        return None

    def missing(
        self, index: ImageIndex | None, absent: int, scored: PredictionScores
    ) -> dict[str, list[str]]:
        """Page -> what is not there, and why."""
        runs = [] if self.losses.methods or self.results is not None else [_NO_RUNS]
        tables = [_NO_TABLES] if not runs and self.results is None else []
        data = [] if self.data is not None else [_NO_DATA]
        images = [] if index is not None else [_NO_IMAGES]
        if absent:
            images.append(
                f"{absent:,} images that would be shown have no file below the folder of images."
            )
        captions = [_NO_CAPTIONS] if self.data is not None and self.data.captions is None else []
        tabled = self.results is not None and not self.losses.methods
        only = (
            ["The results were collected: losses of single images are in the folder of runs alone."]
            if tabled
            else []
        )
        pairs = [_ONE_METHOD] if len(self.losses.methods) == 1 else []
        supports = [n for n, r in self.suite.header.criteria.items() if r.kind in {"ce", "gist"}]
        pairs += [_ONE_CRITERION] if len(supports) == 1 else []
        hard = [f"{c}: {t} has no hard image in {self.split}." for c, t in self._without_hard()]
        return {
            "index": [*data, *runs, *images, *captions], "explore": [*data, *runs, *only, *images, *captions],
            "results": [*runs, *tables, *scored.problems],
            "criteria": [*data, *runs, *only, *self._without_figures()], "examples": [*runs, *only, *images, *pairs, *hard],
        }  # fmt: skip

    def _without_figures(self) -> list[str]:
        gist = self._gist()
        found = [] if self._ce() is not None else [_NO_CE]
        if gist is None:
            return [*found, _NO_GIST]
        name = gist[1].criterion.embedding
        return (
            [*found, _NO_EMBEDDING.format(name)]
            if self.data is not None and name not in self.data.embeddings
            else found
        )

    def _without_hard(self) -> list[tuple[str, str]]:
        records = [r for r in self.suite.header.sets if r.split == self.split]
        return [(r.criterion, r.task) for r in records if not r.hard_positives + r.hard_negatives]
