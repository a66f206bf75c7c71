"""Reader, then split: what every ``nooch import`` does between parsing its arguments and writing the folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from nooch.data import SPLITS, Dataset, apply_split
from nooch.errors import InputError
from nooch.plans import SplitPlan

__all__ = ["split_provenance", "with_split"]


def with_split(data: Dataset, plan: SplitPlan | None) -> Dataset:
    """The dataset with the plan's splits, and the plan in its provenance.

    Raises:
        InputError: percentages that leave a split empty. A file may do so, since a dataset may hold a part of
            the images that the file names; that is noted.
    """
    if plan is None:
        return data
    images = apply_split(data.images, plan)
    counts = dict(images["split"].value_counts().iter_rows())
    provenance = split_provenance(data.provenance, plan, counts)
    return replace(data, images=images.select(pl.col(data.images.columns)), provenance=provenance)


def split_provenance(provenance: Mapping[str, Any], plan: SplitPlan, counts: Mapping[str, int]) -> dict[str, Any]:
    """Provenance with the plan, and a note where it leaves a split empty; ``counts`` are images in each split.

    Raises:
        InputError: percentages that leave a split empty.
    """
    notes = list(provenance.get("notes", []))
    empty = [name for name in SPLITS if not counts.get(name)]
    wanted = [name for name, share in zip(SPLITS, plan.shares or (), strict=False) if share > 0]
    if lost := [name for name in empty if name in wanted]:
        raise InputError(
            f"split {plan.source} of {sum(counts.values())} images leaves {' and '.join(lost)} empty",
            remedy="give more images, or other percentages",
        )
    if empty:
        notes.append(f"no image is in the split {' or '.join(empty)}")
    record = {"source": plan.source, "seed": plan.seed, "group": plan.group, "values": dict(plan.values)}
    return {**provenance, "split": record, "notes": notes}
