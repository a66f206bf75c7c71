"""What workers do for an import in parts: put a part together from scanned rows; give its images their splits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.data import SPLITS, ImageId
from nooch.data.array_files import read_array, write_array
from nooch.data.shard_writing import PartRecord, write_images, write_part
from nooch.data.splits import group_names
from nooch.data.store import file_record
from nooch.files import replace_file
from nooch.plans import SplitPlan
from nooch.readers.reading import ImageListing, Scanned

__all__ = ["PUT_TOGETHER", "SPLIT", "Done", "Part", "Step", "Work", "divided", "groups_of"]


class Done(msgspec.Struct):
    """A part that is written, and what was counted in it; ``unknown`` areas are NaN."""

    record: PartRecord
    counts: dict[str, int]
    image_root: str | None
    attributes: list[str]
    unknown: int


@dataclass(frozen=True)
class Part:
    """Images ``first`` to ``first + count`` in the order of ids; theirs lie in ``low <= id < high``, where None is no end."""

    number: int
    low: ImageId | None
    high: ImageId | None
    first: int
    count: int


@dataclass(frozen=True)
class Work:
    """Everything that workers need; it travels to them with each part.

    Attributes:
        folder: where intermediate files lie.
        scanned: rows of the sources.
        images: folder below which the image files lie, absolute.
        plan: how images are divided.
    """

    folder: Path
    scanned: Scanned
    images: Path | None
    plan: SplitPlan | None

    @property
    def group(self) -> str | None:
        """What names the groups that stay on one side."""
        return None if self.plan is None else self.plan.group

    @property
    def dataset(self) -> Path:
        """The folder of the dataset, until it is finished."""
        return self.folder / "dataset"

    @property
    def listing(self) -> Path:
        """Paths of the image files."""
        return self.folder / "image-files"

    @property
    def listed(self) -> ImageListing | None:
        """The image files."""
        return None if self.images is None else ImageListing(self.images, self.listing)

    @property
    def splits(self) -> Path:
        """Position in SPLITS of every image."""
        return self.folder / "splits.npy"

    def kept(self, part: Part, what: str) -> Path:
        """A file about one part."""
        return self.folder / f"{what}-{part.number:07d}"


def divided(ids: pl.Series, part_size: int) -> list[Part]:
    """Parts of about as many images each, as ``divide`` makes them; their ranges of ids leave none out."""
    edges = np.linspace(0, len(ids), -(-len(ids) // part_size) + 1).astype(np.int64).tolist()
    bounds = [None, *(ids[edge] for edge in edges[1:-1]), None]
    return [
        Part(number, low, high, first, last - first)
        for number, ((low, high), (first, last)) in enumerate(zip(pairwise(bounds), pairwise(edges), strict=True))
    ]


@dataclass(frozen=True)
class Step:
    """What is done with every part, and kept.

    Attributes:
        name: of the files of what came of it.
        doing: for people.
        function: what is done.
    """

    name: str
    doing: str
    function: Callable[[Work, Part], Done]

    def __call__(self, work: Work, part: Part) -> Done:
        """What comes of it for one part, which is not done again if it was before."""
        kept = work.kept(part, self.name)
        if kept.is_file():
            return msgspec.msgpack.decode(kept.read_bytes(), type=Done)
        done = self.function(work, part)
        replace_file(kept, msgspec.msgpack.encode(done))
        return done


def _put_together(work: Work, part: Part) -> Done:
    """Write one part."""
    data, counts = work.scanned.read(part.low, part.high, work.listed)
    if work.group is not None:
        names, member = np.unique(group_names(data.images, work.group), return_inverse=True)
        pl.DataFrame({"group": pl.Series(names, dtype=pl.String)}).write_parquet(work.kept(part, "groups"))
        write_array(work.kept(part, "member").with_suffix(".npy"), member.astype(np.int32))
    elif work.plan is not None:
        images = data.images.with_columns(split=_split_column(work, part))
        data = replace(data, images=images)
    unknown = int(np.isnan(data.areas.data).sum())
    return Done(write_part(data, work.dataset, part.number), counts, data.image_root, list(data.attributes), unknown)


def _split_column(work: Work, part: Part) -> pl.Series:
    codes = read_array(work.splits, mapped=True)[part.first : part.first + part.count]
    return pl.Series("split", SPLITS, dtype=pl.String).gather(codes)


def groups_of(work: Work, parts: Sequence[Part]) -> NDArray[np.int32]:
    """Number of each image's group, in the order of their names."""
    named = (pl.read_parquet(work.kept(part, "groups"), glob=False)["group"] for part in parts)
    names = pl.Series("group", [], dtype=pl.String)
    for some in named:
        names = pl.concat([names, some]).unique()
    ranks = names.sort().to_frame().with_row_index("rank")
    found = []
    for part in parts:
        mine = pl.read_parquet(work.kept(part, "groups"), glob=False).join(ranks, on="group", maintain_order="left")
        member = read_array(work.kept(part, "member").with_suffix(".npy"))
        found.append(mine["rank"].to_numpy().astype(np.int32)[member])
    return np.concatenate(found)


def _split(work: Work, part: Part) -> Done:
    """Write the images of one part anew, with their splits."""
    done = PUT_TOGETHER(work, part)
    name = next(name for name in done.record.files if name.startswith("images/"))
    images = pl.read_parquet(work.dataset / name, glob=False).with_columns(split=_split_column(work, part))
    done.record.files[name] = file_record(write_images(images, work.dataset, part.number))
    done.record.splits = dict(images["split"].value_counts().iter_rows())
    return done


PUT_TOGETHER = Step("part", "putting parts together", _put_together)
SPLIT = Step("split", "splitting parts", _split)
