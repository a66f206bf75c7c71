"""Does a model err less by context than a baseline, or only say less? Paired, by image."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nooch.base.display import DisplayTable
from nooch.base.errors import ParameterError, check_one_of, some_of
from nooch.base.words import counted
from nooch.evaluation.answer_sample import part_of
from nooch.evaluation.metrics.paired_changes import Change, PairedAnswers, mean_change
from nooch.evaluation.predictions import Predictions
from nooch.suites import CELLS

MOST_STAYS = 1.5
"""Factor within which the interval of a ratio's change must be for the ratio to "stay"."""
PAIR = ["image_id", "task"]
_WRONG, _RIGHT = (0, 1, 0, 1), (1, 0, 1, 0)
_MEANT = {
    "rate_with": (_WRONG, _RIGHT),
    "rate_without": (_WRONG, _RIGHT),
    "ratio": ((0, 1, 0, 0), (1, 0, 1, 1)),
    "recall": (_WRONG, _RIGHT),
    "dprime": (_WRONG, _RIGHT),
    "response_criterion": ((0, 0, 0, 0), (1, 1, 1, 1)),
}
"""Measure -> what unknown answers mean at its two ends, by cell of ``CELLS``; values are of the
first, as rates are.
"""
_TITLES = {
    "rate_with": "absent_% with",
    "rate_without": "without",
    "ratio": "ratio",
    "recall": "recall_%",
    "words": "words",
    "dprime": "d'",
    "response_criterion": "criterion",
}
_SCALE = {"rate_with": 100, "rate_without": 100, "recall": 100}


@dataclass(frozen=True)
class ContextChange:
    """Changes of a run against a baseline, on the answers and images of both.

    Attributes:
        run: its name.
        baseline: the baseline's.
        criterion: what decides where an object is expected.
        changes: of ``rate_with`` and ``rate_without``, the rates of yes to absent objects with
            their context and without; of their ``ratio``, as a factor; of ``recall``, ``dprime``
            and ``response_criterion`` over all answers; of captions also of ``words``, the mean
            number of an image. Unknown answers count as wrong, of the ratio as what makes the
            context matter most; the intervals hold for any meaning of them.
        n_images: how many images it is about.
        equal_length: whether each caption is cut to the words of the shorter one of the pair.
    """

    run: str
    baseline: str
    criterion: str
    changes: Mapping[str, Change]
    n_images: int
    equal_length: bool = False

    @property
    def verdict(self) -> str:
        """``errs less``, ``errs more``, ``says less``, ``says more`` or ``too few to tell``."""
        return self._verdict[0]

    @property
    def sentence(self) -> str:
        """Such as "dpo against base, ce: errs less: the ratio falls from 2.5 to 1.8 [1.5, 2.2]".
        The interval is of the paired change: the baseline's ratio times the interval of the factor.
        """
        how = " at equal length" if self.equal_length else ""
        of = f"{self.run} against {self.baseline}, {self.criterion}{how}"
        return f"{of}: {': '.join(self._verdict)}"

    @property
    def _verdict(self) -> tuple[str, str]:
        """The verdict, and why. The ratio decides, if it changes; else the rate, if the ratio's
        interval is near 1. A ratio that falls as the rate without the context rises: "errs more".
        """
        rate, elsewhere, ratio = (self.changes[n] for n in [*_MEANT][:3])
        few, to, in_brackets = "too few to tell", _from_to(ratio), _bare(_from_to(ratio))
        if ratio.low is None or ratio.high is None:
            # no yes without the context, in the answers or in a meaning of the unknown ones
            both = (_bare(_from_to(one, 100, "%")) for one in (rate, elsewhere))
            return few, "no ratio; rate {} with the context, {} without".format(*both)
        says, moves = ("says less", "falls") if rate.fell else ("says more", "rises")
        stays = ratio.low * MOST_STAYS >= 1 and ratio.high <= MOST_STAYS
        rates = f"rate {_bare(_from_to(rate, 100, '%'))}"
        if rate.fell or rate.rose:
            rates = f"the rate {moves}"
        undecided = few, f"{rates}, ratio {in_brackets}, {counted(self.n_images, 'image')}"
        cases = [
            (
                ratio.fell and elsewhere.rose and not rate.fell,
                ("errs more", f"the rate without the context rises; the ratio falls {to}"),
            ),
            (ratio.fell, ("errs less", f"the ratio falls {to}")),
            (ratio.rose and rate.fell, (says, f"{rates}, the ratio rises ({in_brackets})")),
            (ratio.rose, ("errs more", f"the ratio rises {to}")),
            (stays and rates[:3] == "the", (says, f"{rates}, the ratio stays ({in_brackets})")),
        ]
        return next((verdict for holds, verdict in cases if holds), undecided)

    def as_json(self) -> dict[str, Any]:
        """All fields, verdict and sentence; of each measure ``before, after, change, low, high, n``
        (of the ratio, change and bounds are factors).
        """
        names = ("before", "after", "change", "low", "high", "n")
        changes = {
            name: {part: getattr(of, part) for part in names} for name, of in self.changes.items()
        }
        words = {"verdict": self.verdict, "sentence": self.sentence}
        return vars(self) | words | {"changes": changes}


def _bare(text: str) -> str:
    return text.removeprefix("from ")


def _from_to(change: Change, scale: float = 1, unit: str = "", digits: int = 1) -> str:
    """``from 2.5 to 1.8 [1.5, 2.2]``: the interval of the change, from the value before. With one
    decimal more where these hide that the interval leaves it out, and for rates below 1%.
    """
    before, after = change.before, change.after
    if before is None or after is None:
        known = ["none" if one is None else f"{scale * one:.1f}{unit}" for one in (before, after)]
        return f"from {known[0]} to {known[1]}"
    ends = [
        None if end is None else scale * (before * end if change.none else before + end)
        for end in (change.low, change.high)
    ]
    nearest = ends[1] if change.fell else ends[0] if change.rose else None
    hidden = nearest is not None and f"{nearest:.{digits}f}" == f"{scale * before:.{digits}f}"
    digits += hidden or (scale > 1 and scale * before < 1)
    text = f"from {scale * before:.{digits}f} to {scale * after:.{digits}f}{unit}"
    least = 0.0 if change.none or scale > 1 else -np.inf
    shown = [f"{max(end, least):.{digits}f}" for end in ends if end is not None]
    return f"{text} [{', '.join(shown)}]" if len(shown) > 1 else text


def shared_answers(answers: pl.DataFrame, baseline: pl.DataFrame) -> pl.DataFrame:
    """Rows of ``answers`` that both runs were asked for, with the baseline's columns as
    ``yes_before`` and so on, and the larger weight of both. Frames: as of ``answers_in``.
    """
    names = [name for name in ("yes", "weight", "unknown", "words") if name in baseline.columns]
    other = baseline.select(*PAIR, *(pl.col(name).alias(f"{name}_before") for name in names))
    both = answers.join(other, on=PAIR, maintain_order="left")
    return both.with_columns(weight=pl.max_horizontal("weight", "weight_before"))


def context_changes(
    answers: Mapping[tuple[str, str], pl.DataFrame], baseline: str, *, equal_length: bool = False
) -> list[ContextChange]:
    """Changes of each run against the baseline, of answers about the same images and tasks.

    Args:
        answers: (run, criterion) -> as of ``answers_in``: ``image_id, task, cell, yes, weight``,
            and ``unknown``, ``unit`` where images are in groups, and of captions ``words``.
        baseline: one of the runs; parts of runs are compared with the same part of it.
        equal_length: whether captions were cut to the same number of words.
    """
    found = []
    for (run, criterion), rows in answers.items():
        own = baseline + part_of(run)
        if run == own or (own, criterion) not in answers:
            continue
        both = shared_answers(rows, answers[own, criterion])
        if both.height:
            n, changes = both["image_id"].n_unique(), _changes(both)
            found.append(ContextChange(run, baseline, criterion, changes, n, equal_length))
    return found


def _changes(both: pl.DataFrame) -> dict[str, Change]:
    """The changes of all measures, for any meaning of unknown answers."""
    unit = both["unit" if "unit" in both.columns else "image_id"].to_numpy()
    weight = both["weight"].to_numpy()
    cell = both["cell"].replace_strict(list(CELLS), range(4), return_dtype=pl.Int64).to_numpy()

    def read(before: Sequence[int], after: Sequence[int]) -> PairedAnswers:
        yes = [
            np.where(
                both[f"unknown{end}"].to_numpy(),
                np.array(meant, np.float64)[cell],
                both[f"yes{end}"].cast(pl.Float64).fill_null(0.0).to_numpy(),
            )
            for meant, end in ((before, "_before"), (after, ""))
        ]
        return PairedAnswers(np.stack(yes), weight, unit)

    is_unknown = bool(both["unknown"].any() or both["unknown_before"].any())
    changes = {}
    for name, (first, second) in _MEANT.items():
        value = _measure(name, read(first, first), cell)
        ends = [value]
        if is_unknown:
            ends += [_measure(name, read(*p), cell) for p in ((first, second), (second, first))]
        low, high = (
            None if None in bounds else float(choose(np.array(bounds, np.float64)))
            for choose, bounds in (
                (np.min, [end.low for end in ends]),
                (np.max, [end.high for end in ends]),
            )
        )
        if name == "response_criterion" and is_unknown:
            value = _measure(name, read(_WRONG, _WRONG), cell)
        changes[name] = replace(value, low=low, high=high)
    if {"words", "words_before"} <= {*both.columns}:
        images = both.select("words_before", "words", "image_id", pl.Series("unit", unit))
        images = images.unique("image_id", maintain_order=True).drop_nulls()
        columns = (images[column].to_numpy() for column in ("words_before", "words", "unit"))
        changes["words"] = mean_change(*columns)
    return changes


def _measure(name: str, answers: PairedAnswers, cell: Any) -> Change:
    hard, easy = cell == 1, cell == 3
    if name == "ratio":
        return answers.of(hard | easy).ratio(hard[hard | easy])
    if name in {"dprime", "response_criterion"}:
        return answers.sensitivity(cell % 2 == 0)[name != "dprime"]
    rows = {"rate_with": hard, "rate_without": easy, "recall": cell % 2 == 0}[name]
    return answers.of(rows).share()


def baseline_of(
    baseline: str | Path | None, runs: Mapping[str, Sequence[str | Path]], owner: str
) -> str | None:
    """The run that a baseline names; None if it is another file, which is to be read.

    Args:
        baseline: a run's name, another name of it, or its file; None: the first run.
        runs: name -> its other names and files.
        owner: what the runs are of, for errors.
    """
    if baseline is None:
        return next(iter(runs))
    given, path = str(baseline), Path(baseline).absolute()
    if given in runs:
        return given
    fit = [name for name, others in runs.items() if {given, path} & {*others}]
    if len(fit) > 1:
        problem = f"{given!r} is {some_of(fit)}"
        raise ParameterError(problem, where="`baseline`", allowed="one run")
    if fit or path.is_file():
        return fit[0] if fit else None
    return check_one_of("run", given, runs, owner=owner, remedy="name a run, or the file of a run")


def with_baseline(
    runs: list[Predictions], baseline: str | Path, read: Callable[[Path], list[Predictions]]
) -> tuple[list[Predictions], str]:
    """The runs, and the name of the baseline; of a file with another run, this is added."""
    names: dict[str, Sequence[str]] = {run.run: () for run in runs}
    name = baseline_of(baseline, names, "the predictions")
    if name is not None:
        return runs, name
    path = Path(str(baseline))
    found = read(path)
    if len(found) > 1:
        problem = f"has several runs: {some_of([run.run for run in found])}"
        raise ParameterError(problem, where=f"`baseline` {path}", allowed="a file with one run")
    same = next((run for run in runs if run.run == found[0].run), None)
    if same is None:
        return [*found, *runs], found[0].run
    # a run is compared with a file of the same answers; among several it is one of them
    if len(runs) > 1 and np.array_equal(same.values, found[0].values, equal_nan=True):
        return runs, same.run
    return [replace(found[0], run=str(path)), *runs], str(path)


def changes_tables(changes: Sequence[ContextChange]) -> list[DisplayTable]:
    """A table for each baseline, criterion and kind of length: from, to, and the interval that the
    change leads to.
    """
    tables = []
    for key in dict.fromkeys((c.baseline, c.criterion, c.equal_length) for c in changes):
        mine = [c for c in changes if (c.baseline, c.criterion, c.equal_length) == key]
        names = [name for name in _TITLES if any(name in c.changes for c in mine)]
        rows = [
            [c.run, c.n_images, *(_shown(c.changes.get(name), name) for name in names), c.verdict]
            for c in mine
        ]
        how = ", captions cut to the shorter of the pair" if key[2] else ""
        title = f"Changes from {key[0]} on {key[1]}{how}"
        columns = ["run", "n", *(_TITLES[name] for name in names), "verdict"]
        tables.append(DisplayTable(title, columns, rows))
    return tables


def _shown(change: Change | None, name: str) -> str | None:
    if change is None or change.change is None:
        return None
    of_z = name in {"dprime", "response_criterion"}
    return _bare(_from_to(change, _SCALE.get(name, 1), digits=1 + of_z))
