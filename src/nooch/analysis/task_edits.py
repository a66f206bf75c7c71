"""The images of one task, edited batch by batch in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.analysis.image_edits import blurred, control_patch, hidden, mask_of_size
from nooch.data import Dataset
from nooch.models.image_decoding import Decoding, decode_images
from nooch.suites import Suite

__all__ = ["EDITS", "TaskEdits"]

EDITS = ("hide-object", "hide-cue", "blur-cue", "swap-background")
_OF_OBJECTS = ("hide-object", "swap-background")

Masks = Callable[[int], Sequence[tuple[str, NDArray[np.bool_]]]]


@dataclass(frozen=True, eq=False)
class TaskEdits:
    """Images of a task, each to be edited in one way and, as a control, in another.

    Attributes:
        edit: one of ``EDITS``.
        task: its name; ``cues`` are those of its context.
        images: ``image_id``, ``row`` in the split, and ``path``: those with the object or a cue.
        backgrounds: files of images without the object: those without a cue, those with one.
        masks: row of an image -> masks of classes; see ``nooch.report.images.cue_masks``.
        size: height and width of the network's input.
        decoding: how image files become pixels.
        seed: of the places of control patches, and of backgrounds.
        has_control: number of an image -> whether it has a control; filled while images are read,
            without those that cannot be edited.
    """

    edit: str
    task: str
    cues: Sequence[str]
    images: pl.DataFrame
    backgrounds: tuple[Sequence[str], Sequence[str]]
    masks: Masks
    size: tuple[int, int]
    decoding: Decoding
    seed: int
    has_control: dict[int, bool] = field(default_factory=dict)

    @classmethod
    def of(
        cls, suite: Suite, key: tuple[str, str], data: Dataset, files: pl.DataFrame, **how: Any
    ) -> TaskEdits:
        """Plan the edits of a task and split, ``key``; ``files`` are all images of the split, whose
        dataset is ``data``; ``how`` has the other attributes.
        """
        keys = [of for of in suite.keys if of[1:] == key]
        listed = [record.cues.get(key[0], []) for record in suite.header.criteria.values()]
        cues = list(dict.fromkeys(cue for pairs in listed for cue, _ in pairs))
        own = files.filter(pl.col("image_id").is_in(suite.image_ids(keys).implode()))
        labels = [data.labels(name, unknown=False)[own["row"]] for name in (key[0], *cues)]
        thing, context = labels[0], np.any([np.zeros(len(own), bool), *labels[1:]], axis=0)
        inside = thing if how["edit"] in _OF_OBJECTS else context
        hard = [image for of in keys for image in suite.set(*of).ids("hard_negative")]
        sides = ~thing & ~context, ~thing & context & own["image_id"].is_in(hard).to_numpy()
        without, with_cue = (own["path"].filter(side).to_list() for side in sides)
        possible = how["edit"] != "swap-background" or bool(without and with_cue)
        return cls(
            task=key[0],
            cues=cues,
            images=own.filter(inside & possible),
            backgrounds=(without, with_cue),
            **how,
        )

    def read(self, items: range) -> tuple[NDArray[np.uint8], list[str]]:
        """Items 2 i and 2 i + 1 are image i with its edit and with its control; what cannot be
        edited is unchanged. Returns as ``decode_images``.
        """
        numbers = range(items.start // 2, items.stop // 2)
        paths = self.images["path"][list(numbers)].to_list()
        pixels, broken = decode_images(paths, self.size, self.decoding)
        pixels = pixels.repeat(2, axis=0)
        for number, at in zip(numbers, range(0, len(pixels), 2), strict=True):
            broken += self._edit(number, pixels[at : at + 2])
        return pixels, broken

    def _edit(self, number: int, pair: NDArray[np.uint8]) -> list[str]:
        """Edit an image and its copy in place; return which files cannot be read."""
        row = self.images["row"][number]
        random, nothing = np.random.default_rng([self.seed, row]), np.zeros(self.size, bool)
        found = [(name, mask) for name, mask in self.masks(row) if name in {self.task, *self.cues}]
        masks = {name: mask_of_size(mask, self.size) for name, mask in found}
        thing = masks.get(self.task, nothing)
        context = np.any([nothing, *(masks.get(c, nothing) for c in self.cues)], axis=0) & ~thing
        if self.edit == "swap-background":
            if not thing.any():
                return []
            chosen = [files[int(random.integers(len(files)))] for files in self.backgrounds]
            backgrounds, broken = decode_images(chosen, self.size, self.decoding)
            pair[:] = np.where(thing[:, :, None], pair, backgrounds)
            self.has_control[number] = True
            return broken
        mask = thing if self.edit == "hide-object" else context
        if mask.any() and not mask.all():
            patch = control_patch(mask, ~(thing | context), random)
            change = blurred if self.edit == "blur-cue" else hidden
            pair[0] = change(pair[0], mask)
            if patch is not None:
                pair[1] = change(pair[1], patch)
            self.has_control[number] = patch is not None
        return []
