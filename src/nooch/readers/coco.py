"""COCO-format annotations -> Dataset: things and stuff joined by image, captions, pixel maps for stuff.

This module is light on purpose: parsing starts in worker processes before polars and scipy are imported here.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nooch.errors import ParameterError
from nooch.readers.coco_json import ParsedFile, do_job
from nooch.shared_types import Map

if TYPE_CHECKING:
    from nooch.data import Dataset

__all__ = ["read_coco"]

Paths = Sequence[str | Path]


def read_coco(
    things: Paths = (),
    stuff: Paths = (),
    captions: Paths = (),
    *,
    stuff_maps: str | Path | None = None,
    stuff_map_values: str = "cocostuff",
    images: str | Path | None = None,
    map: Map = builtins.map,
) -> Dataset:
    """Merge COCO-format files into one Dataset without splits.

    Areas are the sums of the annotations' ``area`` (crowds too) over height x width; a mask is decoded only
    where ``area`` is missing. Category 183 ``other`` is no class. Images without annotations stay.

    Args:
        things: ``instances_*.json`` files of different images, such as train2017 and val2017.
        stuff: ``stuff_*.json`` files, joined to the things by image id.
        captions: ``captions_*.json`` files; captions of images that no other file lists are left out and counted.
        stuff_maps: folder of pixel maps (one PNG for each image) to count the stuff in, instead of ``stuff``.
        stuff_map_values: ``cocostuff`` (value = category id - 1, 255 unlabelled) or ``pixelmaps`` (value = category id).
        images: folder below which the image files lie.
        map: where files are parsed; an engine's map parses them in parallel processes.

    Raises:
        InputError: see ``nooch.readers.coco_json``; also images that two things files share, sizes or category
            names that disagree between files, and unsafe file names.
    """
    if not things and not stuff:
        raise ParameterError("no annotation file was given", allowed="--things, --stuff, or both")
    if stuff and stuff_maps:
        raise ParameterError("--stuff and --stuff-maps exclude each other: each gives the areas of stuff")
    jobs = [
        (role, Path(p)) for role, paths in (("things", things), ("stuff", stuff), ("captions", captions)) for p in paths
    ]
    results = map(do_job, [*jobs, *(("source", path) for _, path in jobs)])
    from nooch.readers.coco_merge import merge

    done = list(results)
    parsed = [(role, file) for (role, _), file in zip(jobs, done, strict=False) if isinstance(file, ParsedFile)]
    sources = [{"role": role, **found} for (role, _), found in zip(jobs, done[len(jobs) :], strict=True)]
    return merge(parsed, sources, stuff_maps=stuff_maps, stuff_map_values=stuff_map_values, images=images, map=map)
