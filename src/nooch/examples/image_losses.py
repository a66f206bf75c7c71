"""Runs and predictions -> the loss of each image under each method, for the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.challenge import Suite
from nooch.evaluation import AVERAGE, Predictions
from nooch.examples.split_images import SplitImages
from nooch.metrics.pointwise import losses
from nooch.results.result_cells import in_order
from nooch.results.run_results import Results, roles_of
from nooch.training.run_records import RunsFolder

__all__ = ["ImageLosses", "LossSource"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LossSource:
    """Where a method's outputs for one task come from: a frame ``image_id, value`` for each seed.

    Attributes:
        key: tells two settings of a method apart.
        frames: one for each seed; values are on ``scale``.
        scale: ``logit`` or ``probability``.
    """

    key: str
    frames: Sequence[pl.DataFrame]
    scale: str = "logit"

    def losses(self, images: SplitImages, labels: NDArray[np.bool_]) -> Floats:
        """Mean over seeds of the NLL (natural logarithm) of each image, float64 (n,); NaN where a
        seed says nothing.
        """
        found = [losses(labels, _aligned(frame, images), self.scale) for frame in self.frames]
        return np.asarray(np.mean(found, axis=0), dtype=np.float64)


def _aligned(frame: pl.DataFrame, images: SplitImages) -> Floats:
    own = pl.DataFrame({"image_id": images.ids})
    values = own.join(frame, on="image_id", how="left", maintain_order="left")["value"]
    return values.cast(pl.Float64).fill_null(np.nan).to_numpy()


class ImageLosses:
    """Losses of images by criterion, task and method, each method with the setting that was chosen
    under the criterion.

    Args:
        runs: folders of runs of the suite, each with its results.
        predictions: outputs of other models; seeds of a method count as one, and they are the same
            under all criteria.
        suite: the suite.
    """

    def __init__(
        self,
        suite: Suite,
        runs: Sequence[tuple[RunsFolder, Results]],
        predictions: Sequence[Predictions] = (),
    ) -> None:
        self._chosen: dict[tuple[str, str], dict[str, tuple[RunsFolder, str]]] = {}
        self._predictions = predictions
        self._jobs: dict[tuple[str, str, str, str], list[str]] = {}
        names = [key[0] for key in suite.keys]
        self._criteria = suite.criteria
        for folder, results in runs:
            roles = {role: name for name, role in roles_of(names, [suite], {}).items()}
            self._note_jobs(folder)
            for criterion, task, method, setting in _settings(results):
                place = roles.get(criterion, criterion), task
                self._chosen.setdefault(place, {})[method] = folder, setting

    def _note_jobs(self, folder: RunsFolder) -> None:
        for name in folder.done():
            job = folder.header.jobs[name]
            self._jobs.setdefault((str(folder.path), job.task, job.method, job.setting), []).append(
                name
            )

    @property
    def methods(self) -> list[str]:
        """All methods with losses of some image."""
        names = [method for chosen in self._chosen.values() for method in chosen]
        return in_order([*names, *(_method(run) for run in self._predictions)])

    def sources(self, criterion: str, task: str) -> dict[str, LossSource]:
        """Method -> where its outputs come from."""
        found = {
            method: self._of_jobs(folder, task, method, setting)
            for method, (folder, setting) in self._chosen.get((criterion, task), {}).items()
        }
        own: dict[str, list[Predictions]] = {}
        for run in self._predictions:
            if task in run.tasks:
                own.setdefault(_method(run), []).append(run)
        found |= {
            method: LossSource(method, [_frame(r, task) for r in runs], runs[0].scale)
            for method, runs in own.items()
        }
        return {method: found[method] for method in in_order(found)}

    def _of_jobs(self, folder: RunsFolder, task: str, method: str, setting: str) -> LossSource:
        names = self._jobs.get((str(folder.path), task, method, setting), [])
        kept = [name for name in names if not folder.read_job(name).diverged]
        frames = [folder.predictions(name).select("image_id", value="logit") for name in kept]
        return LossSource(f"{folder.path}/{method}/{setting}", frames)

    def of(
        self, task: str, images: SplitImages, labels: NDArray[np.bool_]
    ) -> dict[str, dict[str, tuple[str, Floats]]]:
        """Criterion -> method -> (key, NLL of each image of a split, float64 (n,)); equal keys mean
        equal losses.
        """
        cached: dict[str, Floats] = {}
        found: dict[str, dict[str, tuple[str, Floats]]] = {}
        for criterion in self._criteria:
            for method, source in self.sources(criterion, task).items():
                if source.frames and source.key not in cached:
                    cached[source.key] = source.losses(images, labels)
                if source.frames and not np.isnan(cached[source.key]).all():
                    found.setdefault(criterion, {})[method] = source.key, cached[source.key]
        return found


def _settings(results: Results) -> list[tuple[str, str, str, str]]:
    rows = results.cells.filter((pl.col("task") != AVERAGE) & pl.col("setting").is_not_null())
    return rows.select("criterion", "task", "method", "setting").unique(maintain_order=True).rows()


def _method(run: Predictions) -> str:
    return run.method or run.run


def _frame(run: Predictions, task: str) -> pl.DataFrame:
    return pl.DataFrame({"image_id": run.image_ids, "value": run.values[run.tasks.index(task)]})
