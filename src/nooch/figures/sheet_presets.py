"""The paper's figures of images, Figs. 1, 2, 8, 9 and 15 to 26, as presets of the image sheet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import polars as pl

from nooch.errors import ParameterError, UndefinedError
from nooch.examples.example_choice import Chosen
from nooch.figures.figure_sources import Sources
from nooch.figures.image_galleries import Group, SheetSource
from nooch.figures.image_sheets import Layout, draw_sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

__all__ = ["SHEETS", "Sheet"]


@dataclass(frozen=True)
class Sheet:
    """A figure of images.

    Attributes:
        shows: what it shows, in words.
        needs: names of ``NEEDS``.
        tasks: the paper's tasks; ``--tasks`` gives others, as many.
        groups: source and tasks -> what is shown, panel by panel.
        columns: panels side by side; a callable of the number of tasks.
        any_tasks: whether it shows any number of tasks.
    """

    shows: str
    needs: tuple[str, ...]
    tasks: tuple[str, ...]
    groups: Callable[[SheetSource, Sequence[str]], list[Group]]
    columns: Callable[[int], int] = field(default=lambda _n: 2)
    any_tasks: bool = False

    def there(self, of: Sources) -> bool:
        """Whether ``all`` draws it: the suite has its tasks, and no others are asked for."""
        return of.tasks is None and of.suite is not None and set(self.tasks) <= set(of.suite.tasks)

    def made(self, of: Sources) -> tuple[SheetSource, list[Group], Layout]:
        """What is shown, and how it is laid out.

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
        return source, groups, Layout(self.columns(len(tasks)), 1, 2.2)

    def data(self, of: Sources) -> pl.DataFrame:
        """What is shown as a table, with the numbers of the caption."""
        source, groups, _ = self.made(of)
        return source.table(groups)

    def draw(self, of: Sources, dpi: int) -> Drawing:
        """The drawing."""
        source, groups, layout = self.made(of)
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


def _first(found: Sequence[Chosen], **wanted: str) -> Chosen:
    """The group with these attributes; a task without a set of the criterion has none."""
    for one in found:
        if all(getattr(one, name) == value for name, value in wanted.items()):
            return one
    raise UndefinedError(
        f"there is no such group of images: {', '.join(wanted.values())}", where="image sheet"
    )


def _hardest(source: SheetSource, tasks: Sequence[str]) -> list[Group]:
    """Fig. 1: hard positives above, hard negatives below, a column for each task."""
    ce = _criterion(source, "ce")
    found = []
    for side in ("hard_positive", "hard_negative"):
        for task in tasks:
            chosen = _first(source.groups(task, ce, 1), kind="hardest", criterion=ce, subset=side)
            found.append(Group(source.view(task), chosen, _methods(source, ce)[:1]))
    return found


def _contrast(source: SheetSource, tasks: Sequence[str], sides: Sequence[str]) -> list[Group]:
    """Figs. 2 and 9: hard by one criterion and easy by the other, both ways, a side for each task."""
    ce, gist = _criterion(source, "ce"), _criterion(source, "gist")
    found = []
    for task, side in zip(tasks, sides, strict=True):
        for one, other in ((ce, gist), (gist, ce)):
            chosen = _first(
                source.groups(task, ce, 1),
                kind="criteria",
                criterion=one,
                better=other,
                subset=side,
            )
            found.append(Group(source.view(task), chosen, _methods(source, ce)))
    return found


def _gaps(source: SheetSource, tasks: Sequence[str], ahead: int) -> list[Group]:
    """Figs. 8 and 26: where a method is furthest ahead; ``ahead`` 0 is the baseline, 1 the other."""
    ce = _criterion(source, "ce")
    methods = _methods(source, ce)
    found = source.groups(tasks[0], ce, 1)
    return [
        Group(
            source.view(tasks[0]),
            _first(found, kind="gap", criterion=ce, better=methods[ahead], subset=side),
            methods,
        )
        for side in ("hard_positive", "hard_negative")
    ]


def _extremes(source: SheetSource, tasks: Sequence[str]) -> list[Group]:
    """Figs. 15 to 25: highest losses on hard images, lowest on easy positives (Appendix D.1)."""
    ce = _criterion(source, "ce")
    found = source.groups(tasks[0], ce, 1)
    return [
        Group(
            source.view(tasks[0]),
            _first(found, criterion=ce, subset=side),
            _methods(source, ce)[:1],
        )
        for side in ("hard_positive", "hard_negative", "easy_positive")
    ]


def _methods(source: SheetSource, criterion: str) -> list[str]:
    return [name for name in source.sources.pair(criterion) if name is not None]


_SUITE, _OUTPUTS = ("suite", "images"), ("suite", "images", "outputs")
_TWO = (*_OUTPUTS, "two methods")
_OF_TASKS = (
    "car", "bowl", "fire_hydrant", "airplane", "cow", "backpack", "cup", "surfboard", "tie", "sports_ball", "kite",
)  # fmt: skip

SHEETS: Mapping[str, Sheet] = MappingProxyType(
    {
        "fig1": Sheet(
            "a hard positive and a hard negative of each task",
            _SUITE,
            ("kite", "sports_ball", "surfboard"),
            _hardest,
            columns=lambda n: n,
            any_tasks=True,
        ),
        "fig2": Sheet(
            "hard positives of one task and hard negatives of another, each hard by one criterion"
            " alone",
            (*_SUITE, "both criteria"),
            ("airplane", "bowl"),
            partial(_contrast, sides=("hard_positive", "hard_negative")),
            columns=lambda _n: 4,
        ),
        "fig8": Sheet(
            "hard images where the second method is furthest ahead of the first",
            _TWO,
            ("car",),
            partial(_gaps, ahead=1),
        ),
        "fig9": Sheet(
            "hard positives by CE alone and by gist alone",
            (*_OUTPUTS, "both criteria"),
            ("cow",),
            partial(_contrast, sides=("hard_positive",)),
        ),
        **{
            f"fig{number}": Sheet(
                "a hard positive, a hard negative and an easy positive of"
                f" {task.replace('_', ' ')}",
                _OUTPUTS,
                (task,),
                _extremes,
                columns=lambda _n: 3,
            )
            for number, task in enumerate(_OF_TASKS, 15)
        },
        "fig26": Sheet(
            "hard images where the first method is furthest ahead of the second",
            _TWO,
            ("car",),
            partial(_gaps, ahead=0),
        ),
    }
)
"""Name -> sheet, numbered as in the paper with appendices."""
