"""What criteria measure in images, task by task: labels, support or phi, and bits of cues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.criteria import Fitted, MarkFitted, SupportFitted
from nooch.data import Dataset

__all__ = ["TASKS_AT_ONCE", "Measures", "measured", "measures_schema"]

TASKS_AT_ONCE = 32
"""Tasks whose supports are computed at once: of 171 on 24,657 images 6 MiB at a time, not 34."""

_TYPES = {"support": pl.Float64, "by_cue": pl.UInt64, "phi": pl.Boolean}


@dataclass(frozen=True)
class Measures:
    """What criteria measure in some images, for one task.

    Attributes:
        labels: bool (n_images,), False where unknown.
        unknown: images of unknown label, bool (n_images,); None where there is none.
        support: criterion that measures support -> float64 (n_images,), NaN = no notion of context.
        by_cue: those of them with thresholds and cues -> uint64 (n_images,), see ``Mark``.
        phi: criterion that marks directly -> bool (n_images,).

    Criteria under which the task is not defined are in none of them.
    """

    labels: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, bool))
    unknown: NDArray[np.bool_] | None = None
    support: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    by_cue: Mapping[str, NDArray[np.uint64]] = field(default_factory=dict)
    phi: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)

    def to_frame(self, schema: Mapping[str, Any]) -> pl.DataFrame:
        """A row per image, with the columns of ``measures_schema``: null where unknown."""
        labels = pl.Series("label", self.labels)
        if self.unknown is not None:
            labels = labels.set(pl.Series(self.unknown), value=None)
        columns = [
            pl.Series(f"{kind}/{name}", values, _TYPES[kind])
            for kind in _TYPES
            for name, values in getattr(self, kind).items()
        ]
        return pl.concat(
            [pl.DataFrame(schema=schema), pl.DataFrame([labels, *columns])], how="diagonal"
        )

    @classmethod
    def from_frame(cls, frame: pl.DataFrame) -> Self:
        """What ``to_frame`` gave."""
        values: dict[str, dict[str, NDArray[Any]]] = {kind: {} for kind in _TYPES}
        for column in frame.drop("label"):
            kind, _, name = column.name.partition("/")
            if not column.null_count():
                values[kind][name] = column.to_numpy()
        unknown = frame["label"].is_null()
        labels = frame["label"].fill_null(value=False).to_numpy()
        return cls(labels, unknown.to_numpy() if unknown.any() else None, **values)


def measures_schema(fitted: Mapping[str, Fitted]) -> dict[str, Any]:
    """Column -> type of the table of measures: ``label``, and ``support/NAME`` and so on."""
    schema: dict[str, Any] = {"label": pl.Boolean}
    for name, one in fitted.items():
        if isinstance(one, MarkFitted):
            schema[f"phi/{name}"] = _TYPES["phi"]
        elif isinstance(one, SupportFitted):
            kinds = ["support"] if one.thresholds is None else ["support", "by_cue"]
            schema |= {f"{kind}/{name}": _TYPES[kind] for kind in kinds}
    return schema


def measured(
    fitted: Mapping[str, Fitted], images: Dataset, tasks: Sequence[str]
) -> Iterator[Measures]:
    """Measures of images, task after task; of no image for a task that no criterion defines."""
    for start in range(0, len(tasks), TASKS_AT_ONCE):
        block = {
            task: [name for name, one in fitted.items() if one.undefined(task) is None]
            for task in tasks[start : start + TASKS_AT_ONCE]
        }
        supports: dict[str, dict[str, NDArray[np.float64]]] = {task: {} for task in block}
        for name, one in fitted.items():
            wanted = [task for task, names in block.items() if name in names]
            if isinstance(one, SupportFitted) and wanted:
                for task, values in zip(wanted, one.supports(images, wanted).T, strict=True):
                    supports[task][name] = values
        for task, names in block.items():
            support = {name: np.ascontiguousarray(v) for name, v in supports[task].items()}
            yield _measured(fitted, images, task, names, support)


def _measured(
    fitted: Mapping[str, Fitted],
    images: Dataset,
    task: str,
    names: list[str],
    support: dict[str, NDArray[np.float64]],
) -> Measures:
    if not names:
        return Measures()
    labels = images.labels(task, unknown=False)
    by_cue: dict[str, NDArray[np.uint64]] = {}
    phi: dict[str, NDArray[np.bool_]] = {}
    for name in names:
        one = fitted[name]
        if isinstance(one, MarkFitted):
            phi[name] = one.phi(images, task)
        elif isinstance(one, SupportFitted) and one.thresholds is not None:
            bits = one.hard_by_cue(images, task, labels)
            by_cue |= {} if bits is None else {name: bits}
    return Measures(labels, images.unknown_labels(task), support, by_cue, phi)
