"""Inputs of figures and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from nooch.base.calls import Options, Progress, Seed, no_progress
from nooch.base.errors import Command, Give, ParameterError, check_one_of, giving
from nooch.base.split_plan import LOSS_SPLIT
from nooch.data import Dataset
from nooch.data.readers.image_files import ValueRange, check_range, display_range
from nooch.evaluation import Predictions, Scores, class_losses, evaluate, load_predictions
from nooch.evaluation.bootstrap import RESAMPLES
from nooch.evaluation.judged import JudgedRuns
from nooch.evaluation.losses import sweep_losses
from nooch.evaluation.scores import Resamples
from nooch.report.images.choice import ImageLosses
from nooch.report.results.collect import losses_by_class
from nooch.report.results.pairs import baseline_of, checked_pair, rival_of
from nooch.report.results.run_results import Results, merge, read_results
from nooch.suites import Suite
from nooch.suites.sweep import ALPHAS, BETAS, TAUS, Sweep, sweep_thresholds
from nooch.training.records import RUNS_MARKER, RunsFolder

T = TypeVar("T")


class MissingSourceError(ParameterError):
    """Something that a figure is drawn from is not given; ``all`` leaves the figure out."""


def needed(value: T | None, what: str, *give: Give) -> T:
    """A source that is given."""
    if value is None:
        raise MissingSourceError(f"needs {what}", give=give)
    return value


_GRIDS = {"alpha": "0:0.1:5", "beta": "0:0.5:6", "tau": "0:1:6"}
"""Examples of thresholds to sweep over."""


@dataclass(frozen=True, eq=False)
class Sources(Options):
    """Inputs of figures and reports; each needs some of them.

    Attributes:
        suite: challenge sets.
        data: the dataset.
        predictions: as ``nooch.evaluate`` takes them.
        runs: folders of ``nooch train bench`` (the suite must be the one that was trained for) or
            of ``nooch train score``, or one.
        paper: the paper's own numbers for Figs. 4 to 7, below the numbers of runs or predictions,
            if any.
        sweep: of ``nooch.sweep_thresholds``; if it is missing, the dataset is swept.
        split: split of the images and results; of a suite ``test`` by default, or the only one.
        rule: how hyperparameters of runs are chosen; see ``nooch train score``.
        roles: kind of criterion -> name of the criterion that it names in results of runs.
        tasks: names, of figures; by default all, or the paper's.
        strict: no average of a value that is undefined for a task; by default such tasks are left
            out.
        method: method of a folder of runs whose losses Fig. 3, 13 and 14 show.
        methods: two methods to compare image by image, the baseline first; by default ERM and the
            one with the best average AUC on hard images.
        images: folder of images, if it is not the one that the dataset records. Without a
            dataset, files are known by the ids in their names.
        range: for images of more than 8 bits per channel, the values that become black and white;
            by default the dataset's, else percentiles of a sample, which are written below the
            pictures.
        annotations: the COCO files that the dataset was made from, or a folder of label maps as
            ``nooch annotate`` writes them, to shade cues; by default image sheets use the recorded
            ones if they are near the images.
        alpha: thresholds for sweeps, as are ``beta`` and ``tau``.
        beta: see ``alpha``.
        tau: see ``alpha``.
        embedding: Figs. 11 and 14: an embedding of the dataset; the only one by default.
        bootstrap: resamples for intervals; 0 for none.
        seed: seed of the resamples.
        scale: ``logit`` or ``probability``, for wide tables of predictions.
        progress: called with what is being done, and how much of how much is done.
    """

    suite: Suite | None = None
    data: Dataset | None = None
    predictions: Any = None
    runs: str | Path | Sequence[str | Path] = ()
    paper: bool = False
    sweep: Sweep | None = None
    split: str | None = None
    rule: str = "worst-hard"
    roles: Mapping[str, str] = field(default_factory=dict)
    tasks: Sequence[str] | None = None
    strict: bool = False
    method: str = "erm"
    methods: Sequence[str] | None = None
    images: str | Path | None = None
    range: tuple[float, float] | None = None
    annotations: Sequence[str | Path] = ()
    alpha: Sequence[float] = ALPHAS
    beta: Sequence[float] = BETAS
    tau: Sequence[float] = TAUS
    embedding: str | None = None
    bootstrap: Resamples = RESAMPLES
    seed: Seed = 0
    scale: str | None = None
    progress: Progress = no_progress

    def shown_range(self, paths: Sequence[str | Path]) -> ValueRange | None:
        """Values of black and white of these files' pictures; None: none is wide."""
        check_range(self.range)
        recorded = None if self.data is None else self.data.value_range
        return self.range or recorded or display_range(paths)

    @cached_property
    def of_split(self) -> str:
        """The split whose images are shown."""
        if self.suite is None:
            return self.split or LOSS_SPLIT
        return self.suite.splits_to_score(self.split)[0]

    @cached_property
    def folders(self) -> list[Path]:
        """Folders of runs."""
        return [Path(p) for p in ([self.runs] if isinstance(self.runs, str | Path) else self.runs)]

    @cached_property
    def outputs(self) -> list[Predictions]:
        """Runs of the predictions, if any are given."""
        given = self._predictions
        if given is None:
            return []
        if isinstance(given, JudgedRuns):
            return given.outputs
        return load_predictions(given, self._suite, self.data, scale=self.scale)

    @property
    def _predictions(self) -> Any:
        # a frame has no truth value
        empty = isinstance(self.predictions, Sequence) and not self.predictions
        return None if empty else self.predictions

    @property
    def _suite(self) -> Suite:
        return needed(self.suite, "a suite", {"suite": ...})

    @cached_property
    def class_losses(self) -> pl.DataFrame:
        """Losses by class on the suite's sets."""
        suite = self._suite
        if suite.header.hard_only:
            remedy = "make the suite with labels of all images (nooch.paper.published_suite)"
            problem = "needs easy images, and the suite contains only hard images"
            raise MissingSourceError(problem, remedy=remedy)
        suite = suite if self.tasks is None else suite.only(self.tasks)
        if self.outputs:
            return class_losses(suite, self.outputs, split=self.of_split)
        if len(self.folders) != 1:
            give = ({"predictions": ...}, {"runs": ...})
            raise MissingSourceError("needs outputs of a model or one folder of runs", give=give)
        return losses_by_class(suite, self.folders[0], split=self.of_split, method=self.method)

    @cached_property
    def _of_folders(self) -> list[Results]:
        """Results of each folder of runs."""
        about: dict[str, Any] = {"rule": self.rule, "split": self.of_split, "roles": self.roles}
        about |= {"strict": self.strict, "progress": self.progress}
        suites = [] if self.suite is None else [self.suite]
        with giving("", {"suites": "suite"}):
            read = [read_results(folder, suites, **about) for folder in self.folders]
        return [results.select(self.tasks) for results in read]

    @cached_property
    def results(self) -> Results | None:
        """Results of all runs together."""
        return merge(self._of_folders) if self.folders else None

    @cached_property
    def scores(self) -> Scores:
        """Scores of the predictions, with bootstrap intervals."""
        suite, runs = self._suite, self.outputs
        # a run of only other tasks changes nothing; other tasks of runs are ignored
        mine = [run for run in runs if not set(run.tasks).isdisjoint(suite.tasks)]
        return evaluate(
            suite,
            mine or runs,
            split=self.of_split,
            tasks=self.tasks,
            bootstrap=self.bootstrap,
            seed=self.seed,
            reading={"ignore_unknown": True},
            strict=self.strict,
            progress=self.progress,
        )

    @cached_property
    def image_losses(self) -> ImageLosses:
        """Losses of images by method, of runs and of predictions."""
        runs = [
            (RunsFolder.open(folder), results)
            for folder, results in zip(self.folders, self._of_folders, strict=True)
            if (folder / RUNS_MARKER).is_file()
        ]
        return ImageLosses(self._suite, runs, self.outputs)

    @property
    def _pair(self) -> tuple[str, str] | None:
        return checked_pair(self.methods, self.image_losses.methods)

    @property
    def baseline(self) -> str | None:
        """The method whose losses order images. Raises ParameterError: ``methods`` are not two
        different ones that have losses of images.
        """
        return baseline_of(self.image_losses.methods, self._pair)

    def rival(self, criterion: str) -> str | None:
        """The method that is compared with the baseline; errors as there."""
        return rival_of(self.results, criterion, self.image_losses.methods, self._pair)

    @cached_property
    def area_sweep(self) -> Sweep:
        """Counts over alpha and beta."""
        if self.sweep is not None and self.sweep.grid.height:
            return self.sweep
        return self._swept("alpha", "beta")

    @cached_property
    def tau_sweep(self) -> Sweep:
        """Counts over tau."""
        if self.sweep is not None and self.sweep.tau.height:
            return self.sweep
        return self._swept("tau")

    @cached_property
    def area_losses(self) -> Sweep:
        """Losses over alpha and beta."""
        return self._losses(alpha=self.alpha, beta=self.beta)

    @cached_property
    def tau_losses(self) -> Sweep:
        """Losses over tau."""
        return self._losses(tau=self.tau, embedding=self._embedding)

    @property
    def _data(self) -> Dataset:
        return needed(self.data, "the dataset", {"data": ...})

    def _swept(self, *names: str) -> Sweep:
        what = f"counts over {' and '.join(names)}"
        if self.data is None:
            encoder = {"encoder": ...} if "tau" in names else {}
            make = Command("sweep", **{name: _GRIDS[name] for name in names}, **encoder)
            then = () if self.sweep is not None else ({"sweep": ...},)
            remedy = "{}, then {}; or {}" if then else "{}; or {}"
            give = (make, *then, {"data": ...})
            raise MissingSourceError(f"needs {what}", remedy=remedy, give=give)
        data = self.data
        grids: dict[str, Any] = {name: getattr(self, name) for name in names}
        if "tau" in names:
            grids["embedding"] = self._embedding
        return sweep_thresholds(
            data,
            tasks="all" if self.tasks is None else list(self.tasks),
            splits=[self.of_split],
            **grids,
            **self._shared,
        )

    def _losses(self, **grids: Any) -> Sweep:
        return sweep_losses(
            self._data,
            needed(self._predictions, "outputs of a model", {"predictions": ...}),
            tasks=self.tasks,
            split=self.of_split,
            scale=self.scale,
            **grids,
            **self._shared,
        )

    @property
    def _shared(self) -> dict[str, Any]:
        # a dataset with a suite was checked when the suite was found, at its own thresholds
        return {"allow_unannotated": self.suite is not None, "progress": self.progress}

    @property
    def _embedding(self) -> str:
        names = list(self._data.embeddings)
        if not names:
            problem = "needs an embedding of the dataset"
            raise MissingSourceError(problem, give=Command("tools embed"))
        if self.embedding is not None or len(names) == 1:
            return check_one_of("embedding", self.embedding or names[0], names, owner="the dataset")
        problem = f"the dataset has {len(names)} embeddings"
        raise ParameterError(problem, where="`embedding`", allowed=", ".join(names))
