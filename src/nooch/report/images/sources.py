"""What figures are drawn from, and what each of them needs of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import polars as pl

from nooch.base.calls import Progress, no_progress
from nooch.base.errors import ParameterError, UndefinedError, check_one_of, some_of
from nooch.base.split_plan import LOSS_SPLIT
from nooch.data import Dataset
from nooch.evaluation import Predictions, Scores, class_losses, evaluate, load_predictions
from nooch.evaluation.losses import LossSweep, sweep_losses
from nooch.report.figures.levels import LEVELS, PAPER_LEVELS, level_points, points_of_scores
from nooch.report.images.choice import ImageLosses
from nooch.report.results.cells import in_order
from nooch.report.results.pairs import baseline_of, checked_pair, rival_of
from nooch.report.results.run_results import Results, paper_cells, read_results
from nooch.report.results.task_selection import losses_by_class
from nooch.suites import Suite, Sweep
from nooch.suites.sweep import ALPHAS, BETAS, TAUS, sweep_thresholds
from nooch.training.records import RUNS_MARKER, RunsFolder

T = TypeVar("T")

_PAPER = "paper"


@dataclass(frozen=True, eq=False)
class Sources:
    """What figures are drawn from; each needs some of it.

    Attributes:
        suite: challenge sets.
        data: the dataset.
        predictions: as ``nooch.evaluate`` takes them.
        runs: folder of ``nooch bench`` (the suite must be the one that was trained for) or of
            ``nooch collect``.
        paper: the paper's own numbers for Figs. 4 to 7, below those of runs or predictions where
            there are any.
        sweep: of ``nooch.sweep_thresholds``; where it is missing, the dataset is swept.
        split: whose images.
        rule: which hyperparameters of runs; out of ``nooch.training.selection.RULES``.
        roles: kind of criterion -> name of the criterion that it names in results of runs.
        tasks: names; all by default.
        strict: averages over all tasks: a value that is undefined for one of them has none. By
            default such tasks are left out.
        method: of a folder of runs: whose losses Fig. 3 and 13 and 14 show.
        methods: for image sheets: the methods to compare, the baseline first; by default ERM and
            the one with the best average AUC on hard images.
        images: for image sheets: folder of images, where it is not the one that the dataset
            records.
        annotations: for image sheets: the COCO files that the dataset was made from, to shade cues;
            by default those that the dataset records, where they lie near the images.
        alpha: thresholds for sweeps, as are ``beta`` and ``tau``.
        beta: see ``alpha``.
        tau: see ``alpha``.
        embedding: one of the dataset's; the only one by default.
        bootstrap: resamples for the intervals of predictions.
        seed: of the resamples.
        scale: ``logit`` or ``probability``, for wide tables of predictions.
        progress: called with what is being done, and how much of how much is done.
    """

    suite: Suite | None = None
    data: Dataset | None = None
    predictions: Any = None
    runs: str | Path | None = None
    paper: bool = False
    sweep: Sweep | None = None
    split: str = LOSS_SPLIT
    rule: str = "worst-hard"
    roles: Mapping[str, str] = field(default_factory=dict)
    tasks: Sequence[str] | None = None
    strict: bool = False
    method: str = "erm"
    methods: Sequence[str] | None = None
    images: str | Path | None = None
    annotations: Sequence[str | Path] = ()
    alpha: Sequence[float] = ALPHAS
    beta: Sequence[float] = BETAS
    tau: Sequence[float] = TAUS
    embedding: str | None = None
    bootstrap: int = 1000
    seed: int = 0
    scale: str | None = None
    progress: Progress = no_progress

    @property
    def has_images(self) -> bool:
        """Whether there are images of a suite to show."""
        root = None if self.data is None else self.images or self.data.image_root
        return self.suite is not None and root is not None and Path(root).is_dir()

    @property
    def has_outputs(self) -> bool:
        """Whether there are outputs of models."""
        return self.predictions is not None or self.runs is not None

    @property
    def has_scores(self) -> bool:
        """Whether there is something for Figs. 4 to 7."""
        of_predictions = self.suite is not None and self.predictions is not None
        return self.paper or self.runs is not None or of_predictions

    def outputs_of(self, suite: Suite) -> list[Predictions]:
        """Runs of the predictions."""
        return load_predictions(self.predictions, suite, self.data, scale=self.scale)

    @cached_property
    def class_losses(self) -> pl.DataFrame:
        """Losses by class on the suite's sets."""
        suite = _given(self.suite, "suite")
        suite = suite if self.tasks is None else suite.only(self.tasks)
        if self.predictions is None:
            return losses_by_class(suite, self.runs, split=self.split, method=self.method)
        return class_losses(suite, self.outputs_of(suite), split=self.split)

    @cached_property
    def results(self) -> Results | None:
        """Results of the runs."""
        if self.runs is None:
            return None
        results = read_results(
            self.runs,
            [] if self.suite is None else [self.suite],
            rule=self.rule,
            split=self.split,
            roles=self.roles,
            strict=self.strict,
            progress=self.progress,
        )
        return results.select(self.tasks)

    @cached_property
    def scores(self) -> Scores:
        """Scores of the predictions, with bootstrap intervals."""
        suite = _given(self.suite, "suite")
        runs = self.outputs_of(suite)
        # a run of other tasks alone changes nothing; other tasks of runs are ignored
        mine = [run for run in runs if not set(run.tasks).isdisjoint(suite.tasks)]
        return evaluate(
            suite,
            mine or runs,
            split=self.split,
            tasks=self.tasks,
            bootstrap=self.bootstrap,
            seed=self.seed,
            ignore_unknown=True,
            strict=self.strict,
            progress=self.progress,
        )

    @cached_property
    def image_losses(self) -> ImageLosses:
        """Losses of images by method, of runs and of predictions."""
        suite, runs = _given(self.suite, "suite"), []
        if self.runs is not None and (Path(self.runs) / RUNS_MARKER).is_file():
            runs = [(RunsFolder.open(self.runs), _given(self.results, "runs"))]
        return ImageLosses(suite, runs, [] if self.predictions is None else self.outputs_of(suite))

    def pair(self, criterion: str) -> tuple[str | None, str | None]:
        """The method whose losses order images, and the one that is compared with it, or None.

        Raises:
            ParameterError: ``methods`` are not two different ones that have losses of images.
        """
        known = self.image_losses.methods
        pair = checked_pair(self.methods, known)
        return baseline_of(known, pair), rival_of(self.results, criterion, known, pair)

    def levels(self, metric: str) -> pl.DataFrame:
        """Points of Figs. 4 to 7, methods in the paper's order; with the paper, its kind of ECE and
        its subsets.

        Raises:
            UndefinedError: scores that were collected without the metric.
        """
        parts, subsets = [], LEVELS[metric]
        if self.paper:
            metric, subsets = ("ece_paper" if metric == "ece" else metric), PAPER_LEVELS[metric]
        if self.results is not None:
            cells = self.results.cells
            known = cells["metric"].unique(maintain_order=True)
            if metric not in known:
                # collected earlier
                raise UndefinedError(
                    f"the results have no {metric}",
                    allowed=some_of(known),
                    remedy="run nooch collect again",
                )
            parts.append(level_points(cells, metric, subsets=subsets))
        elif self.suite is not None and self.predictions is not None:
            parts.append(points_of_scores(self.scores, metric, subsets=subsets))
        if self.paper:
            published = paper_cells().cells.filter(pl.col("criterion") != "attribute")
            of_paper = level_points(published, metric, _PAPER, subsets)
            shown = parts[0]["criterion"] if parts and parts[0].height else of_paper["criterion"]
            parts.append(of_paper.filter(pl.col("criterion").is_in(shown.implode())))
        points = pl.concat(parts)
        order = {name: place for place, name in enumerate(in_order(points["method"]))}
        place = pl.col("method").replace_strict(order, default=None, return_dtype=pl.Int64)
        return points.sort(place, maintain_order=True)

    @cached_property
    def area_sweep(self) -> Sweep:
        """Counts over alpha and beta."""
        if self.sweep is not None and self.sweep.grid.height:
            return self.sweep
        return self._swept(alpha=self.alpha, beta=self.beta)

    @cached_property
    def tau_sweep(self) -> Sweep:
        """Counts over tau."""
        if self.sweep is not None and self.sweep.tau.height:
            return self.sweep
        return self._swept(tau=self.tau, embedding=self._embedding())

    @cached_property
    def area_losses(self) -> LossSweep:
        """Losses over alpha and beta."""
        return self._losses(alpha=self.alpha, beta=self.beta)

    @cached_property
    def tau_losses(self) -> LossSweep:
        """Losses over tau."""
        return self._losses(tau=self.tau, embedding=self._embedding())

    def _swept(self, **grids: Any) -> Sweep:
        return sweep_thresholds(
            _given(self.data, "dataset"),
            tasks="all" if self.tasks is None else list(self.tasks),
            splits=[self.split],
            **grids,
            **self._shared,
        )

    def _losses(self, **grids: Any) -> LossSweep:
        return sweep_losses(
            _given(self.data, "dataset"),
            self.predictions,
            tasks=self.tasks,
            split=self.split,
            scale=self.scale,
            **grids,
            **self._shared,
        )

    @property
    def _shared(self) -> dict[str, Any]:
        # a dataset with a suite was checked when the suite was found, at its own thresholds
        return {"allow_unannotated": self.suite is not None, "progress": self.progress}

    def _embedding(self) -> str:
        names = list(_given(self.data, "dataset").embeddings)
        if self.embedding is not None or len(names) == 1:
            return check_one_of("embedding", self.embedding or names[0], names, owner="the dataset")
        raise ParameterError(
            f"the dataset has {len(names)} embeddings",
            where="embedding",
            allowed=", ".join(names) or None,
            remedy="name one with `embedding`" if names else "make one with nooch embed",
        )


@dataclass(frozen=True)
class Need:
    """An input of a figure: whether it is available, its name, and the option that gives it."""

    there: Callable[[Sources], bool]
    what: str
    remedy: str


NEEDS: Mapping[str, Need] = MappingProxyType(
    {
        "suite": Need(lambda s: s.suite is not None, "a suite", "give `suite` SUITE"),
        "easy images": Need(
            lambda s: s.suite is None or not s.suite.header.hard_only,
            "easy images, and the suite holds hard images alone",
            "make the suite with the labels of all images (labels of nooch import-suite published)",
        ),
        "outputs": Need(
            lambda s: s.has_outputs,
            "outputs of a model",
            "give `predictions` FILE, or `runs` RUNS of nooch bench",
        ),
        "predictions": Need(
            lambda s: s.predictions is not None, "outputs of a model", "give `predictions` FILE"
        ),
        "scores": Need(
            lambda s: s.has_scores,
            "scores of methods",
            "give `runs` RUNS `suite` SUITE, or `predictions` FILE `suite` SUITE, or `paper` for"
            " the paper's own numbers",
        ),
        "dataset": Need(lambda s: s.data is not None, "the dataset", "give `dataset` DATASET"),
        "area sweep": Need(
            lambda s: s.data is not None or (s.sweep is not None and s.sweep.grid.height > 0),
            "counts over alpha and beta",
            "give `sweep` SWEEP of nooch sweep-thresholds `alpha` `beta`, or `dataset` DATASET",
        ),
        "tau sweep": Need(
            lambda s: (
                (s.data is not None and bool(s.data.embeddings))
                or (s.sweep is not None and s.sweep.tau.height > 0)
            ),
            "counts over tau",
            "give `sweep` SWEEP of nooch sweep-thresholds `tau`, or `dataset` DATASET with an"
            " embedding (nooch embed)",
        ),
        "embedding": Need(
            lambda s: s.data is None or bool(s.data.embeddings),
            "an embedding of the dataset",
            "make one with nooch embed",
        ),
        "images": Need(
            lambda s: s.has_images,
            "the dataset's images",
            "give `dataset` DATASET, and `images` DIR where the folder that it records is missing",
        ),
        "two methods": Need(
            lambda s: s.suite is not None and s.has_outputs and len(s.image_losses.methods) > 1,
            "losses of two methods",
            "give `runs` RUNS of nooch bench with two methods, or `predictions` of two",
        ),
        "both criteria": Need(
            lambda s: s.suite is not None and {"ce", "gist"} <= _kinds(s.suite),
            "a suite with CE and gist",
            "give `suite` SUITE of nooch find `criterion` ce `criterion` gist",
        ),
    }
)
"""What figures need."""


def _kinds(suite: Suite) -> set[str]:
    return {record.kind for record in suite.header.criteria.values()}


def _given(value: T | None, what: str) -> T:
    """A source that ``check_figures`` has checked."""
    if value is None:
        raise ParameterError(f"the {what} is not there", remedy=f"give `{what}`")
    return value
