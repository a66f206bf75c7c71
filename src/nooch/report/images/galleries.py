"""Image sheets of challenge sets: which images a sheet shows, and the numbers below them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nooch.base.calls import Count, checked
from nooch.base.errors import ParameterError, UndefinedError, check_one_of
from nooch.base.files import check_output_file, replace_file
from nooch.data import Dataset
from nooch.data.readers.image_files import (
    UNREADABLE,
    ImageIndex,
    ValueRange,
    is_wide,
    opened_image,
    range_text,
)
from nooch.report.figures.style import SHEET_FORMATS, Dpi, encoded
from nooch.report.images.choice import Chosen, TaskView, chosen_examples, task_view
from nooch.report.images.cue_masks import Masks, cue_masks, recorded_annotations
from nooch.report.images.sheets import SheetLayout, SheetPanel, Tile, draw_sheet
from nooch.report.images.sources import Sources, needed
from nooch.report.images.thumbnails import SplitImages, Wanted
from nooch.suites import Suite

NOT_SHADED = (
    "cues are not shaded: name the COCO files that the dataset was made from with `annotations`"
)


@dataclass(frozen=True, eq=False)
class PanelImages:
    """Images of one panel: a task, the chosen images, and the methods whose NLL is shown."""

    view: TaskView
    chosen: Chosen
    methods: Sequence[str] = ()

    def losses(self, row: int) -> dict[str, float]:
        """Method -> NLL of an image, of the methods that have one."""
        all_losses = self.view.losses.get(self.chosen.criterion, {})
        losses = {
            method: float(all_losses[method][row])
            for method in self.methods
            if method in all_losses
        }
        return {method: loss for method, loss in losses.items() if not np.isnan(loss)}

    def support(self, row: int) -> float | None:
        """Context support of an image, or None."""
        values = self.view.support.get(self.chosen.criterion)
        return None if values is None or np.isnan(values[row]) else float(values[row])


class SheetSource:
    """The suite's images of one split, their files, losses (of runs or predictions) and masks.

    Raises:
        ParameterError: no suite or dataset, another dataset than the suite's, an unknown split.
        InputError: no folder of images.
    """

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.suite: Suite = needed(sources.suite, "a suite", {"suite": ...})
        self.data: Dataset = needed(sources.data, "the suite's dataset", {"data": ...})
        self.suite.require_dataset(self.data)
        self.split = sources.of_split
        self.images = SplitImages.from_split(self.suite, self.split, self.data)
        self._views: dict[str, TaskView] = {}

    @cached_property
    def index(self) -> ImageIndex:
        """The image files that may be opened."""
        return ImageIndex.from_dataset(self.data, self.sources.images, "images")

    def view(self, task: str) -> TaskView:
        """Data of a task's images."""
        check_one_of("task", task, self.suite.tasks, owner="the suite")
        if task not in self._views:
            self._views[task] = task_view(self.suite, task, self.images, self.sources.image_losses)
        return self._views[task]

    def groups(self, task: str, criterion: str, n: int) -> list[Chosen]:
        """Everything that could be shown of a task, the pair of methods as the sources name it."""
        rival = self.sources.rival(criterion)
        criteria = [criterion, *(c for c in self.suite.criteria if c != criterion)]
        rivals = {} if rival is None else dict.fromkeys(criteria, rival)
        return chosen_examples(self.view(task), criteria, self.sources.baseline, rivals, n)

    def methods(self, criterion: str) -> list[str]:
        """The methods whose losses are shown, the baseline first."""
        pair = self.sources.baseline, self.sources.rival(criterion)
        return [method for method in pair if method is not None]

    def table(self, groups: Sequence[PanelImages]) -> pl.DataFrame:
        """A row for each image of the sheet and method; without losses the method is null."""
        rows = []
        ids, names = self.images.ids, self.images.file_names
        for panel, group in enumerate(groups, 1):
            pick = group.chosen
            about = (panel, pick.title, pick.criterion, group.view.task, self.split)
            for rank, row in enumerate(map(int, pick.rows), 1):
                image = (pick.subset, rank, ids[row], names[row], group.support(row))
                for method, nll in group.losses(row).items() or [(None, None)]:
                    rows.append((*about, *image, method, nll))
        schema: dict[str, Any] = dict.fromkeys(_COLUMNS, pl.String)
        schema |= {"panel": pl.Int64, "rank": pl.Int64, "image_id": ids.dtype}
        schema |= {"support": pl.Float64, "nll": pl.Float64}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def panels(self, groups: Sequence[PanelImages]) -> list[SheetPanel]:
        """Panels to draw; image files are looked up, not opened. Raises InputError: an image
        without a file below the folder, annotations of another dataset.
        """
        rows = sorted({int(row) for group in groups for row in group.chosen.rows})
        paths: dict[int, Path] = {}
        masks: Masks | None = None
        if rows:
            ids, names = self.images.ids, self.images.file_names
            files = self.index.all_of([ids[r] for r in rows], [names[r] for r in rows], "images")
            paths = dict(zip(rows, files, strict=True))
        if rows and self.annotations:
            pictures = [Wanted(self.split, row, path) for row, path in paths.items()]
            of_split = {self.split: self.images}
            masks = cue_masks(self.suite, self.data, of_split, self.annotations, pictures)
        shown = self.sources.shown_range([*paths.values()])
        return [self._panel(group, paths, masks, shown) for group in groups]

    @cached_property
    def annotations(self) -> list[Path]:
        """Files to shade cues from: those named, else recorded ones that are near the images."""
        if self.sources.annotations:
            return [Path(p) for p in self.sources.annotations]
        return recorded_annotations(self.data, self.index.root)

    def _panel(
        self,
        group: PanelImages,
        paths: Mapping[int, Path],
        masks: Masks | None,
        shown: ValueRange | None,
    ) -> SheetPanel:
        pick, task = group.chosen, group.view.task
        criteria = self.suite.header.criteria
        listed = [record.cues.get(task, []) for record in criteria.values()]
        cues = list(dict.fromkeys(cue for pairs in listed for cue, _ in pairs))
        tiles = []
        for row in map(int, pick.rows):
            support, losses = group.support(row), group.losses(row)
            numbers = ", ".join(f"{method} {value:.2f}" for method, value in losses.items())
            if not losses and support is not None:
                numbers = f"support {support:.3g}"
            shapes = [] if masks is None else masks(self.split, row)
            shaded = [(name, mask) for name, mask in shapes if name in cues]
            lines = [f"image {self.images.ids[row]}", numbers]
            with suppress(*UNREADABLE), opened_image(paths[row]) as image:
                lines += [range_text(shown)] if shown and is_wide(image) else []
            tiles.append(Tile(paths[row], lines, shaded, shown))
        words = task.replace("_", " ")
        by_cue = criteria[pick.criterion].kind == "ce"
        note = _around(words, pick.subset, cues if by_cue else ())
        note = note if tiles else "There is no such image."
        return SheetPanel(f"{words}: {pick.title}", tiles, note)


_COLUMNS = (
    "panel", "shows", "criterion", "task", "split", "subset", "rank", "image_id", "file_name",
    "support", "method", "nll",
)  # fmt: skip


def _around(task: str, subset: str, cues: Sequence[str]) -> str:
    """Caption of a side."""
    around = " or ".join(cue.replace("_", " ").removesuffix("-other") for cue in cues)
    if subset == "hard_positive" and around:
        return f"{task} without {around}"
    return f"{around} without {task}" if subset == "hard_negative" and around else ""


@dataclass(frozen=True, eq=False)
class Gallery:
    """A written sheet: its file, its images (see ``SheetSource.table``), and notes."""

    path: Path
    table: pl.DataFrame
    notes: Sequence[str] = ()


@checked
def save_gallery(
    tasks: Sequence[str],
    sources: Sources,
    out: str | Path,
    *,
    criterion: str | None = None,
    per_side: Count = 4,
    dpi: Dpi = 200,
    overwrite: bool = False,
) -> Gallery:
    """Write one picture: of each task hard positives on the left, hard negatives on the right.

    They are ordered by the loss of the baseline if there are runs or predictions, else by
    support. Context cues are shaded where annotations are available.

    Args:
        tasks: which to show, from the top down.
        sources: the suite, the dataset, images, annotations, and runs or predictions.
        out: file to write, ending in .png, .pdf, .svg or .jpg.
        criterion: criterion of the challenge sets; by default the suite's first.
        per_side: images of each side.
        dpi: resolution of a PNG file, in dots per inch.
        overwrite: replace a file that exists.

    Raises:
        ParameterError: no such set, no task, another ending, numbers out of range, too many pixels.
        InputError: image files that are missing or cannot be read.
        UndefinedError: no task has a hard image.
        OutputError: the file exists or cannot be written.
    """
    path = check_output_file(out, overwrite=overwrite)
    ending = path.suffix.lower().removeprefix(".")
    check_one_of("ending of an image sheet", ending, SHEET_FORMATS)
    if not tasks:
        raise ParameterError("an image sheet of nothing", allowed="at least one task")
    source = SheetSource(sources)
    suite = source.suite
    name = suite.criteria[0] if criterion is None else criterion
    check_one_of("criterion", name, suite.criteria, owner="the suite")
    groups = []
    for task in tasks:
        suite.record(name, check_one_of("task", task, suite.tasks, owner="the suite"), source.split)
        groups += [
            PanelImages(source.view(task), picked, source.methods(name))
            for picked in source.groups(task, name, per_side)
            if picked.kind == "hardest" and picked.criterion == name
        ]
    if not any(len(group.chosen.rows) for group in groups):
        none = f"none of these tasks has a hard image under {name} on {source.split}"
        raise UndefinedError(f"{none}: {', '.join(tasks)}")
    panels = source.panels(groups)
    layout = SheetLayout(2, max(len(panel.tiles) for panel in panels))
    sheet = draw_sheet(panels, layout, dpi=dpi)
    replace_file(path, encoded(sheet, ending, dpi=dpi))
    return Gallery(path, source.table(groups), [] if source.annotations else [NOT_SHADED])
