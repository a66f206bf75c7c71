"""The paper's figures of images, Figs. 1, 2, 8, 9 and 15 to 26, as presets of the image sheet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import polars as pl

from nooch.base.errors import ParameterError, UndefinedError
from nooch.report.images.galleries import PanelImages, SheetSource
from nooch.report.images.sheets import SheetLayout, draw_sheet
from nooch.report.images.sources import Sources

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

__all__ = ["SHEETS", "SheetPreset"]

_HARD = ("hard_positive", "hard_negative")


@dataclass(frozen=True)
class SheetPreset:
    """A figure of images.

    Attributes:
        shows: what it shows, in words.
        needs: names of ``NEEDS``.
        tasks: the paper's tasks; others can be given, as many.
        groups: source and tasks -> the images, panel by panel.
        columns: panels side by side; a callable of the number of tasks.
        any_tasks: whether it shows any number of tasks.
    """

    shows: str
    needs: tuple[str, ...]
    tasks: tuple[str, ...]
    groups: Callable[[SheetSource, Sequence[str]], list[PanelImages]]
    columns: Callable[[int], int] = field(default=lambda _n: 2)
    any_tasks: bool = False

    def there(self, of: Sources) -> bool:
        """Whether ``all`` draws it: the suite has its tasks and its dataset, and no other tasks are
        requested.
        """
        if of.tasks is not None or of.suite is None or of.data is None:
            return False
        own = of.data.fingerprint == of.suite.header.dataset.fingerprint
        return own and set(self.tasks) <= set(of.suite.tasks)

    def contents(self, of: Sources) -> tuple[SheetSource, list[PanelImages], SheetLayout]:
        """The source, the images panel by panel, and the layout.

        Raises:
            ParameterError: another number of tasks, unknown tasks, methods without losses.
            UndefinedError: there is no such image.
        """
        tasks = tuple(of.tasks or self.tasks)
        if not self.any_tasks and len(tasks) != len(self.tasks):
            raise ParameterError(
                f"{len(tasks)} tasks are given",
                where=self.shows,
                allowed=f"{len(self.tasks)} of the suite's tasks",
            )
        source = SheetSource(of)
        groups = self.groups(source, tasks)
        if not any(len(group.chosen.rows) for group in groups):
            raise UndefinedError("there is no such image", where=self.shows)
        return source, groups, SheetLayout(self.columns(len(tasks)), 1, 2.2)

    def data(self, of: Sources) -> pl.DataFrame:
        """The images as a table, with the numbers of the caption."""
        source, groups, _ = self.contents(of)
        return source.table(groups)

    def draw(self, of: Sources, dpi: int) -> Drawing:
        """The drawing."""
        source, groups, layout = self.contents(of)
        return draw_sheet(source.panels(groups), layout, dpi=dpi)


def _criterion(source: SheetSource, kind: str) -> str:
    """The suite's first criterion of a kind."""
    for name, record in source.suite.header.criteria.items():
        if record.kind == kind:
            return name
    raise ParameterError(
        f"the suite has no criterion of kind {kind}",
        where="image sheet",
        remedy="find one that has",
    )


def _images(source: SheetSource, task: str, methods: Sequence[str], **wanted: str) -> PanelImages:
    """The first group of a task with these attributes, and the methods whose NLL is shown. Raises
    UndefinedError: there is none, such as for a task without a set of the criterion.
    """
    for chosen in source.groups(task, _criterion(source, "ce"), 1):
        if all(getattr(chosen, name) == value for name, value in wanted.items()):
            return PanelImages(source.view(task), chosen, methods)
    raise UndefinedError(
        f"there is no such group of images: {', '.join(wanted.values())}", where="image sheet"
    )


def _extremes(
    source: SheetSource, tasks: Sequence[str], sides: Sequence[str] = _HARD, **wanted: str
) -> list[PanelImages]:
    """Fig. 1: hard positives above, hard negatives below, a column for each task. Figs. 15 to 25:
    highest losses on hard images, lowest on easy positives (Appendix D.1).
    """
    ce = _criterion(source, "ce")
    first = _methods(source, ce)[:1]
    return [
        _images(source, task, first, **wanted, criterion=ce, subset=side)
        for side in sides
        for task in tasks
    ]


def _contrast(source: SheetSource, tasks: Sequence[str], sides: Sequence[str]) -> list[PanelImages]:
    """Figs. 2 and 9: hard by one criterion, easy by the other, both ways, a side for each task."""
    ce, gist = _criterion(source, "ce"), _criterion(source, "gist")
    both = _methods(source, ce)
    return [
        _images(source, task, both, kind="criteria", criterion=one, better=other, subset=side)
        for task, side in zip(tasks, sides, strict=True)
        for one, other in ((ce, gist), (gist, ce))
    ]


def _gaps(source: SheetSource, tasks: Sequence[str], ahead: int) -> list[PanelImages]:
    """Figs. 8 and 26: where a method is furthest ahead (``ahead`` 0: baseline; 1: other)."""
    ce = _criterion(source, "ce")
    both = _methods(source, ce)
    wanted = {"kind": "gap", "criterion": ce, "better": both[ahead]}
    return [_images(source, tasks[0], both, **wanted, subset=side) for side in _HARD]


def _methods(source: SheetSource, criterion: str) -> list[str]:
    return [name for name in source.sources.pair(criterion) if name is not None]


_SUITE, _OUTPUTS = ("suite", "images"), ("suite", "images", "outputs")
_TWO = (*_OUTPUTS, "two methods")
_TASKS = "car bowl fire_hydrant airplane cow backpack cup surfboard tie sports_ball kite"

SHEETS: Mapping[str, SheetPreset] = MappingProxyType(
    {
        "fig1": SheetPreset(
            "a hard positive and a hard negative of each task",
            _SUITE,
            ("kite", "sports_ball", "surfboard"),
            partial(_extremes, kind="hardest"),
            columns=lambda n: n,
            any_tasks=True,
        ),
        "fig2": SheetPreset(
            "hard positives of one task and hard negatives of another, each hard by one criterion"
            " alone",
            (*_SUITE, "both criteria"),
            ("airplane", "bowl"),
            partial(_contrast, sides=_HARD),
            columns=lambda _n: 4,
        ),
        "fig8": SheetPreset(
            "hard images where the second method is furthest ahead of the first",
            _TWO,
            ("car",),
            partial(_gaps, ahead=1),
        ),
        "fig9": SheetPreset(
            "hard positives by CE alone and by gist alone",
            (*_OUTPUTS, "both criteria"),
            ("cow",),
            partial(_contrast, sides=("hard_positive",)),
        ),
        **{
            f"fig{number}": SheetPreset(
                "a hard positive, a hard negative and an easy positive of"
                f" {task.replace('_', ' ')}",
                _OUTPUTS,
                (task,),
                partial(_extremes, sides=(*_HARD, "easy_positive")),
                columns=lambda _n: 3,
            )
            for number, task in enumerate(_TASKS.split(), 15)
        },
        "fig26": SheetPreset(
            "hard images where the first method is furthest ahead of the second",
            _TWO,
            ("car",),
            partial(_gaps, ahead=0),
        ),
    }
)
"""Name -> sheet, numbered as in the paper with appendices."""
