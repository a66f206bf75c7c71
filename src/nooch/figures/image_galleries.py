"""Image sheets of challenge sets: which images a sheet shows, and the numbers below them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nooch.challenge import Suite
from nooch.data import Dataset
from nooch.errors import ParameterError, UndefinedError, check_one_of
from nooch.examples.cue_masks import Masks, cue_masks
from nooch.examples.example_choice import Chosen, chosen_examples
from nooch.examples.split_images import SplitImages
from nooch.examples.task_views import TaskView, task_view
from nooch.examples.thumbnails import Wanted
from nooch.figures.figure_sources import Sources
from nooch.figures.image_sheets import Layout, Panel, Tile, draw_sheet
from nooch.files import check_output_file, replace_file
from nooch.readers.image_files import ImageIndex
from nooch.report.figure_style import SHEET_FORMATS, encoded

__all__ = ["Gallery", "Group", "SheetSource", "contact_sheet", "save_gallery"]

NOT_SHADED = (
    "cues are not shaded: name the COCO files that the dataset was made from with `annotations`"
)


@dataclass(frozen=True, eq=False)
class Group:
    """Images of one panel: a task, what was chosen, and the methods whose NLL is shown."""

    view: TaskView
    chosen: Chosen
    methods: Sequence[str] = ()

    def losses(self, row: int) -> dict[str, float]:
        """Method -> NLL of an image, of the methods that have one."""
        known = self.view.losses.get(self.chosen.criterion, {})
        return {
            m: float(known[m][row])
            for m in self.methods
            if m in known and not np.isnan(known[m][row])
        }


class SheetSource:
    """What image sheets are made of: the suite's images of one split, their files, losses and
    masks.

    Args:
        sources: needs the suite and the dataset; runs or predictions give losses.

    Raises:
        ParameterError: no suite or dataset, another dataset than the suite's, an unknown split.
        InputError: no folder of images.
    """

    def __init__(self, sources: Sources) -> None:
        if sources.suite is None or sources.data is None:
            raise ParameterError(
                "an image sheet needs a suite and its dataset", where="image sheet"
            )
        suite, data = sources.suite, sources.data
        if data.fingerprint != suite.header.dataset.fingerprint:
            raise ParameterError(
                "the dataset is not the one that the suite was found in",
                remedy="give the one that it was found in",
            )
        self.suite: Suite = suite
        self.data: Dataset = data
        self.sources = sources
        self.split = check_one_of("split", sources.split, suite.splits, owner="the suite")
        self.images = SplitImages.of(suite, self.split, data)
        self._views: dict[str, TaskView] = {}

    @cached_property
    def index(self) -> ImageIndex:
        """The image files that may be opened."""
        return ImageIndex.of(self.data, self.sources.images, "images")

    def view(self, task: str) -> TaskView:
        """What is known of a task's images."""
        check_one_of("task", task, self.suite.tasks, owner="the suite")
        if task not in self._views:
            self._views[task] = task_view(self.suite, task, self.images, self.sources.image_losses)
        return self._views[task]

    def groups(self, task: str, criterion: str, n: int) -> list[Chosen]:
        """Everything that could be shown of a task, the pair of methods as the sources name it."""
        baseline, rival = self.sources.pair(criterion)
        criteria = [criterion, *(c for c in self.suite.criteria if c != criterion)]
        rivals = {} if rival is None else dict.fromkeys(criteria, rival)
        return chosen_examples(self.view(task), criteria, baseline, rivals, n)

    def table(self, groups: Sequence[Group]) -> pl.DataFrame:
        """What the sheet shows: a row for each image and method; without losses the method is null."""
        rows = []
        ids, names = self.images.ids, self.images.file_names
        for panel, group in enumerate(groups, 1):
            chosen, view = group.chosen, group.view
            support = view.support.get(chosen.criterion)
            for rank, row in enumerate(map(int, chosen.rows), 1):
                about = (
                    panel,
                    chosen.title,
                    chosen.criterion,
                    view.task,
                    self.split,
                    chosen.subset,
                    rank,
                )
                known = None if support is None or np.isnan(support[row]) else float(support[row])
                for method, nll in group.losses(row).items() or [(None, None)]:
                    rows.append((*about, ids[row], names[row], known, method, nll))
        schema: dict[str, Any] = {
            "panel": pl.Int64, "shows": pl.String, "criterion": pl.String, "task": pl.String, "split": pl.String,
            "subset": pl.String, "rank": pl.Int64, "image_id": ids.dtype, "file_name": pl.String, "support": pl.Float64,
            "method": pl.String, "nll": pl.Float64,
        }  # fmt: skip
        return pl.DataFrame(rows, schema=schema, orient="row")

    def panels(self, groups: Sequence[Group]) -> list[Panel]:
        """Panels to draw; image files are looked up, not opened.

        Raises:
            InputError: an image without a file below the folder, annotations of another dataset.
        """
        rows = sorted({int(row) for group in groups for row in group.chosen.rows})
        paths = dict(zip(rows, self._paths(rows), strict=True)) if rows else {}
        masks = self._masks([Wanted(self.split, row, paths[row]) for row in rows])
        return [self._panel(group, paths, masks) for group in groups]

    @cached_property
    def annotations(self) -> list[Path]:
        """Files to shade cues from: those named, else the recorded ones if they are near the
        images.
        """
        if self.sources.annotations:
            return [Path(p) for p in self.sources.annotations]
        root = self.index.root
        names = [
            str(s.get("file"))
            for s in self.data.provenance.get("sources", [])
            if s.get("role") in _ANNOTATED
        ]
        # a name from a file never leads out of these folders
        near = [
            [
                folder / Path(name).name
                for folder in (root / ".." / "annotations", root / "..", root)
            ]
            for name in names
        ]
        found = [next((p for p in places if p.is_file()), None) for places in near]
        return [p for p in found if p is not None]

    def _paths(self, rows: Sequence[int]) -> list[Path]:
        ids, names = self.images.ids, self.images.file_names
        return self.index.all_of([ids[r] for r in rows], [names[r] for r in rows], "images")

    def _masks(self, wanted: Sequence[Wanted]) -> Masks:
        if not self.annotations or not wanted:
            return lambda _split, _row: ()
        return cue_masks(self.suite, self.data, {self.split: self.images}, self.annotations, wanted)

    def _cues(self, task: str) -> list[str]:
        listed = [record.cues.get(task, []) for record in self.suite.header.criteria.values()]
        return list(dict.fromkeys(cue for cues in listed for cue, _ in cues))

    def _panel(self, group: Group, paths: Mapping[int, Path], masks: Masks) -> Panel:
        chosen, view, cues = group.chosen, group.view, self._cues(group.view.task)
        tiles = []
        for row in map(int, chosen.rows):
            support, losses = view.support.get(chosen.criterion), group.losses(row)
            numbers = ", ".join(f"{method} {value:.2f}" for method, value in losses.items())
            if not losses and support is not None and not np.isnan(support[row]):
                numbers = f"support {support[row]:.3g}"
            shaded = [(name, mask) for name, mask in masks(self.split, row) if name in cues]
            tiles.append(Tile(paths[row], [f"image {self.images.ids[row]}", numbers], shaded))
        task = view.task.replace("_", " ")
        by_cue = self.suite.header.criteria[chosen.criterion].kind == "ce"
        return Panel(
            f"{task}: {chosen.title}",
            tiles,
            chosen.empty or _around(task, chosen.subset, cues if by_cue else ()),
        )


_ANNOTATED = ("things", "stuff", "instances")


def _around(task: str, subset: str, cues: Sequence[str]) -> str:
    """What a side shows, in words."""
    around = " or ".join(cue.replace("_", " ").removesuffix("-other") for cue in cues)
    words = {
        "hard_positive": f"{task} without {around}",
        "hard_negative": f"{around} without {task}",
    }
    return words.get(subset, "") if around else ""


@dataclass(frozen=True, eq=False)
class Gallery:
    """A sheet that was written: its file, what it shows (see ``SheetSource.table``), and notes."""

    path: Path
    table: pl.DataFrame
    notes: Sequence[str] = ()


def save_gallery(
    tasks: Sequence[str],
    sources: Sources,
    out: str | Path,
    *,
    criterion: str | None = None,
    per_side: int = 4,
    layout: Callable[[int], Layout] = lambda per_row: Layout(2, per_row),
    dpi: int = 200,
    overwrite: bool = False,
) -> Gallery:
    """Write one picture: of each task hard positives on the left, hard negatives on the right.

    They are ordered by the loss of the baseline where there are runs or predictions, else by
    support. Context cues are shaded where annotations are there.

    Args:
        tasks: which to show, from the top down.
        sources: the suite, the dataset, images, annotations, and runs or predictions.
        out: file to write, ending in .png, .pdf, .svg or .jpg.
        criterion: whose sets; the suite's first by default.
        per_side: images of each side.
        layout: images of the fullest panel, ``per_side`` at most -> the sheet's layout.
        dpi: pixels for an inch.
        overwrite: replace a file that exists.

    Raises:
        ParameterError: no such set, no task, another ending, numbers out of range, too many pixels.
        InputError: image files that are missing or cannot be read.
        UndefinedError: no task has a hard image.
        OutputError: the file exists or cannot be written.
    """
    path = check_output_file(out, overwrite=overwrite)
    ending = check_one_of(
        "ending of an image sheet", path.suffix.lower().removeprefix("."), SHEET_FORMATS
    )
    if not tasks or per_side < 1:
        raise ParameterError(
            "an image sheet of nothing",
            where="image sheet",
            allowed="at least one task and one image",
        )
    source = SheetSource(sources)
    criteria = source.suite.criteria
    name = (
        criteria[0]
        if criterion is None
        else check_one_of("criterion", criterion, criteria, owner="the suite")
    )
    groups = []
    for task in tasks:
        source.suite.record(
            name, check_one_of("task", task, source.suite.tasks, owner="the suite"), source.split
        )
        methods = [m for m in sources.pair(name) if m is not None]
        found = source.groups(task, name, per_side)
        hardest = [one for one in found if one.kind == "hardest" and one.criterion == name]
        groups += [Group(source.view(task), one, methods) for one in hardest]
    if not any(len(group.chosen.rows) for group in groups):
        raise UndefinedError(
            f"none of these tasks has a hard image under {name} on {source.split}:"
            f" {', '.join(tasks)}"
        )
    panels = source.panels(groups)
    most = max(len(panel.tiles) for panel in panels)
    content = encoded(draw_sheet(panels, layout(most), dpi=dpi), ending, dpi=dpi)
    replace_file(path, content)
    return Gallery(path, source.table(groups), [] if source.annotations else [NOT_SHADED])


def contact_sheet(
    suite: Suite,
    data: Dataset,
    tasks: Sequence[str],
    out: str | Path,
    *,
    images: str | Path | None = None,
    criterion: str = "ce",
    split: str = "test",
    per_row: int = 8,
    rows: int = 1,
    cell: int = 112,
    overwrite: bool = False,
) -> Path:
    """``save_gallery`` in pixels: rows of ``per_row`` images of ``cell`` pixels, half of them
    positives.
    """
    if per_row < 2 or rows < 1:
        raise ParameterError(
            "an image sheet of nothing",
            where="image sheet",
            allowed="2 images in a row and 1 row at least",
        )
    dpi, half = 100, per_row // 2
    made = save_gallery(
        tasks,
        Sources(suite=suite, data=data, images=images, split=split),
        out,
        criterion=criterion,
        per_side=half * rows,
        layout=lambda _n: Layout(2, half, cell / dpi),
        dpi=dpi,
        overwrite=overwrite,
    )
    return made.path
