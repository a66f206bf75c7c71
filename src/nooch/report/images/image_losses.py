"""Runs and predictions -> the loss of each image under each method, for the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.evaluation import AVERAGE, Predictions
from nooch.evaluation.metrics.pointwise import losses
from nooch.report.images.split_images import SplitImages
from nooch.report.results.cells import in_order
from nooch.report.results.run_results import Results, roles_of
from nooch.suites import Suite
from nooch.training.records import RunsFolder

__all__ = ["ImageLosses", "MethodOutputs"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MethodOutputs:
    """A method's outputs for one task: a frame ``image_id, value`` for each seed.

    Attributes:
        key: distinguishes two settings of a method.
        frames: one for each seed; values are on ``scale``.
        scale: ``logit`` or ``probability``.
    """

    key: str
    frames: Sequence[pl.DataFrame]
    scale: str = "logit"

    def losses(self, images: SplitImages, labels: NDArray[np.bool_]) -> Floats:
        """Mean over seeds of the NLL (natural logarithm) of each image, float64 (n,); NaN where a
        seed has no output.
        """
        ids = pl.DataFrame({"image_id": images.ids})
        of_seeds = []
        for frame in self.frames:
            values = ids.join(frame, on="image_id", how="left", maintain_order="left")["value"]
            values = values.cast(pl.Float64).fill_null(np.nan)
            of_seeds.append(losses(labels, values.to_numpy(), self.scale))
        return np.asarray(np.mean(of_seeds, axis=0), dtype=np.float64)


class ImageLosses:
    """Losses of images by criterion, task and method, each method with the setting that was chosen
    under the criterion.

    Args:
        suite: the suite.
        runs: folders of runs of the suite, each with its results.
        predictions: outputs of other models; seeds of a method count as one, and they are the same
            under all criteria. Words alone have no losses.
    """

    def __init__(
        self,
        suite: Suite,
        runs: Sequence[tuple[RunsFolder, Results]],
        predictions: Sequence[Predictions] = (),
    ) -> None:
        self._criteria = suite.criteria
        self._predictions = [run for run in predictions if not run.in_words]
        self._chosen: dict[tuple[str, str], dict[str, tuple[RunsFolder, str]]] = {}
        self._jobs: dict[tuple[Path, str, str, str], list[str]] = {}
        listed = [key[0] for key in suite.keys]
        names = {role: name for name, role in roles_of(listed, [suite], {}).items()}
        keys = ["criterion", "task", "method", "setting"]
        for folder, results in runs:
            for name in folder.done():
                job = folder.header.jobs[name]
                key = folder.path, job.task, job.method, job.setting
                self._jobs.setdefault(key, []).append(name)
            of_tasks = results.cells.filter(pl.col("task") != AVERAGE).drop_nulls("setting")
            settings = of_tasks.select(keys).unique(maintain_order=True)
            for role, task, method, setting in settings.rows():
                of_set = self._chosen.setdefault((names.get(role, role), task), {})
                of_set[method] = folder, setting

    @property
    def methods(self) -> list[str]:
        """All methods with losses of some image."""
        names = [method for chosen in self._chosen.values() for method in chosen]
        return in_order([*names, *(run.method or run.run for run in self._predictions)])

    def of(
        self, task: str, images: SplitImages, labels: NDArray[np.bool_]
    ) -> dict[str, dict[str, tuple[str, Floats]]]:
        """Criterion -> method -> (key, NLL of each image of a split, float64 (n,)); equal keys mean
        equal losses.
        """
        known: dict[str, Floats] = {}
        by_criterion: dict[str, dict[str, tuple[str, Floats]]] = {}
        for criterion in self._criteria:
            for method, outputs in self._outputs(criterion, task).items():
                if outputs.frames and outputs.key not in known:
                    known[outputs.key] = outputs.losses(images, labels)
                if outputs.frames and not np.isnan(known[outputs.key]).all():
                    of_methods = by_criterion.setdefault(criterion, {})
                    of_methods[method] = outputs.key, known[outputs.key]
        return by_criterion

    def _outputs(self, criterion: str, task: str) -> dict[str, MethodOutputs]:
        """Method -> its outputs, predictions before runs."""
        outputs: dict[str, MethodOutputs] = {}
        for method, (folder, setting) in self._chosen.get((criterion, task), {}).items():
            names = self._jobs.get((folder.path, task, method, setting), [])
            frames = [
                folder.predictions(name).select("image_id", value="logit")
                for name in names
                if not folder.read_job(name).diverged
            ]
            outputs[method] = MethodOutputs(f"{folder.path}/{method}/{setting}", frames)
        of_methods: dict[str, list[Predictions]] = {}
        for run in self._predictions:
            if task in run.tasks:
                of_methods.setdefault(run.method or run.run, []).append(run)
        for method, runs in of_methods.items():
            frames = [
                pl.DataFrame({"image_id": r.image_ids, "value": r.values[r.tasks.index(task)]})
                for r in runs
            ]
            outputs[method] = MethodOutputs(method, frames, runs[0].scale)
        return {method: outputs[method] for method in in_order(outputs)}
