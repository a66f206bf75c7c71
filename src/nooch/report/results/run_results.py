"""Runs or collected scores -> results: each method's chosen setting, over seeds and over tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import polars as pl

from nooch.base.calls import Progress, no_progress
from nooch.base.display import DisplayTable
from nooch.base.errors import InputError, ParameterError, check_one_of
from nooch.data import read_table
from nooch.data.table_files import checked_read
from nooch.data.table_schema import Column, Schema, check_columns
from nooch.evaluation import AVERAGE
from nooch.report.results.cells import (
    averages_note,
    cells_of,
    in_order,
    missing_note,
    sight,
    with_averages,
    with_setting,
)
from nooch.report.results.collect import score_runs, worse_note
from nooch.report.tables.score_tables import mean_sd
from nooch.suites import Suite
from nooch.training.bench.plan import identity_of
from nooch.training.records import RUNS_MARKER, RunsFolder
from nooch.training.selection import RULES

KINDS = ("ce", "gist", "attribute")
"""Kinds of criteria that the paper's tables are of."""

_TEXT = Column((pl.String,), "text, never null")
_ANY_TEXT = Column((pl.String,), "text, or null", nulls=True)
_COUNT = Column((pl.Int64,), "whole numbers, or null", nulls=True)
_WORSE = "worse_than_constant"
_SCORES: Schema = {
    **dict.fromkeys(("run", "criterion", "task", "split", "subset", "metric"), _TEXT),
    **dict.fromkeys(("method", "cue", "group", "reason"), _ANY_TEXT),
    **dict.fromkeys(("seed", "n", "n_positive"), _COUNT),
    "value": Column((pl.Float64,), "numbers, or null", nulls=True),
}
_CHOSEN: Schema = dict.fromkeys(("rule", "criterion", "task", "method"), _TEXT) | {
    "setting": Column((pl.String, pl.Int64, pl.Float64), "a setting, or null", nulls=True)
}
_PLACE = ["criterion", "task"]
_RUN = ["task", "method", "setting", "seed"]

_Source = tuple[dict[str, pl.DataFrame], dict[str, str], list[str]]
"""Frames of ``cells_of``, what methods are recorded to see, and notes."""


@dataclass(frozen=True, eq=False)
class Results:
    """Scores of methods with their chosen settings.

    Attributes:
        cells: a row for each criterion, metric, subset, task and method: ``criterion`` (``ce``,
            ``gist`` or ``attribute`` if it is of that kind, else its name), ``sees``,
            ``setting``, ``n`` images and ``n_positive`` of them, ``mean`` and ``std`` over seeds
            (ddof = 1), ``n_seeds`` of ``seeds`` that were planned, ``n_settings`` of ``settings``
            that have all their seeds, ``n_worse`` seeds whose validation loss is above the best
            constant's (null where that is not known), ``reason`` where mean is null. Task
            ``average`` is the mean over ``n_tasks`` tasks of the criterion, which
            ``averaged_tasks`` names: the same for all metrics and subsets
            (``nooch.evaluation.averages.over_tasks``).
        notes: what a reader should know: what is missing.
        about: what the numbers are of, in words.
        strict: whether averages are over all tasks, and null where a value is undefined for one.
    """

    cells: pl.DataFrame
    notes: Sequence[str]
    about: str
    strict: bool = False

    def _repr_html_(self) -> str:
        hard = self.cells.filter(metric="auc", subset="hard")
        texts = [mean_sd(*row) for row in hard.select("mean", "std").rows()]
        index = ["criterion", "task"]
        wide = hard.with_columns(cell=pl.Series(texts, dtype=pl.String)).pivot(
            on="method", index=index, values="cell", maintain_order=True
        )
        columns = [*index, *in_order(wide.columns[2:])]
        rows = wide.sort(pl.col("task") != AVERAGE, maintain_order=True).select(columns).rows()
        title = f"AUC on hard images, mean (sd over seeds): {self.about}"
        notes = [*self.notes, *self.averages]
        return DisplayTable(title, columns, rows, left=2, notes=notes).html()

    @property
    def averages(self) -> list[str]:
        """Notes on averages that leave out tasks."""
        return averages_note(self.cells)

    def select(
        self, tasks: Sequence[str] | None = None, methods: Sequence[str] | None = None
    ) -> Self:
        """Only some tasks and methods; averages are over these tasks. Raises ParameterError: a task
        or method without results.
        """
        if tasks is None and methods is None:
            return self
        cells = self.cells.filter(pl.col("task") != AVERAGE)
        for column, names in (("task", tasks), ("method", methods)):
            values = cells[column].unique(maintain_order=True).to_list()
            for name in names or ():
                check_one_of(column, name, values, owner="the results")
            if names is not None:
                cells = cells.filter(pl.col(column).is_in(list(names)))
        return replace(self, cells=with_averages(cells, strict=self.strict))


def read_results(
    source: str | Path,
    suites: Sequence[Suite] = (),
    *,
    rule: str = "worst-hard",
    split: str = "test",
    roles: Mapping[str, str] | None = None,
    strict: bool = False,
    progress: Progress = no_progress,
) -> Results:
    """Results of a folder of runs, or of one that ``nooch train score`` wrote.

    Args:
        source: folder with ``runs.json``, or with ``scores.parquet`` and ``selected.csv``.
        suites: for runs: among them the suite that was trained for. For collected scores: the kinds
            of criteria.
        rule: how hyperparameters are chosen: ``worst-hard``, ``mean``, ``easy``, ``auc-hard``,
            ``worst-environment`` or ``oracle``; see ``nooch train score``.
        split: split whose scores are taken.
        roles: kind of criterion -> name of the criterion that stands for it, where several could.
        strict: no average of a value that is undefined for a task; by default such tasks are left
            out, with a note.
        progress: called with what is being done, and how much of how much is done.

    Raises:
        InputError: neither kind of folder, scores that do not belong to the selection, a job of
            other data than the folder's.
        ParameterError: no suite or another one than was trained for, a rule that was not collected.
    """
    source = Path(source)
    check_one_of("rule", rule, RULES)
    if (source / RUNS_MARKER).is_file():
        runs = RunsFolder.open(source)
        suites = [suite_of(runs, suites)]
        frames, sees, notes = _of_runs(runs, suites[0], rule, split, progress)
    elif (source / "scores.parquet").is_file() and (source / "selected.csv").is_file():
        frames, sees, notes = _of_collected(source, split)
    else:
        allowed = (
            f"{RUNS_MARKER} of nooch train bench, or scores.parquet and selected.csv of collect"
        )
        raise InputError("contains no results", where=source, allowed=allowed)
    called = roles_of(frames["places"]["criterion"], suites, roles or {})
    cells = cells_of(**frames, rule=rule, split=split, sees=sees, strict=strict)
    cells = cells.with_columns(pl.col("criterion").replace(called))
    chosen = "on the worse of the two hard sides" if rule == "worst-hard" else f"by {rule}"
    about = f"{source.name}, {split} images; settings chosen {chosen}"
    return Results(cells, [*notes, *missing_note(frames["planned"])], about, strict)


def merge(results: Sequence[Results]) -> Results:
    """Results of several folders, each of other criteria. Raises InputError: two of them have
    results under the same criterion: they would be averaged over tasks together.
    """
    seen: dict[str, str] = {}
    for part in results:
        for criterion in part.cells["criterion"].unique(maintain_order=True):
            if criterion in seen:
                problem = f"{seen[criterion]} and {part.about} both have results under {criterion}"
                raise InputError(problem, remedy="give them one at a time")
            seen[criterion] = part.about
    cells = pl.concat([part.cells for part in results])
    notes = [text for part in results for text in part.notes]
    about = "; ".join(part.about for part in results)
    return Results(cells, notes, about, any(part.strict for part in results))


def suite_of(runs: RunsFolder, suites: Sequence[Suite]) -> Suite:
    """The suite that runs were trained for, out of several. Raises ParameterError: none of them is;
    the message tells whether it is another suite or another version of the dataset.
    """
    for suite in suites:
        if identity_of(suite) == runs.header.data["suite"]:
            return suite
    if not suites:
        problem = "which suite was trained for?"
        raise ParameterError(problem, where=runs.path, give={"suites": ...})
    trained, problems = runs.header.data["dataset"], []
    for suite in suites:
        own = suite.header.dataset.fingerprint
        problems.append(
            "the suite is another one of the same dataset"
            if own == trained
            else "the suite is of another dataset, or another version of it"
            f" ({own}; trained on {trained})"
        )
    allowed = "the suite that was trained for"
    raise ParameterError("; ".join(problems), where=runs.path, allowed=allowed)


def _of_runs(runs: RunsFolder, suite: Suite, rule: str, split: str, progress: Progress) -> _Source:
    splits = [name for name in ("valid", "test") if name in suite.splits]
    check_one_of("split", split, splits, owner="runs")
    records = [runs.read_job(name) for name in runs.done()]
    done, scored = {r.id for r in records}, {r.id for r in records if not r.diverged}
    sees = {record.job.method: sight(record.sees) for record in records}
    # with worst-hard as well: a rule that is undefined for all runs is left out
    rules = list(dict.fromkeys((rule, "worst-hard")))
    scores, selected, notes = score_runs(
        runs, suite, rules=rules, chosen_on=split, progress=progress
    )
    jobs = runs.header.jobs.items()
    schema = {**dict.fromkeys(_RUN, pl.String), "seed": pl.Int64, "name": pl.String}
    rows = [(job.task, job.method, job.setting, job.seed, name) for name, job in jobs]
    planned = pl.DataFrame(rows, schema=schema, orient="row").select(
        *_RUN, done=pl.col("name").is_in(done), scored=pl.col("name").is_in(scored)
    )
    tasks = set(planned["task"])
    places = pl.DataFrame(
        [(c, t) for c, t, s in suite.keys if s == split and t in tasks],
        schema=dict.fromkeys(_PLACE, pl.String),
        orient="row",
    )
    frames = {"table": scores.table, "selected": selected, "planned": planned, "places": places}
    return frames, sees, notes


def _of_collected(source: Path, split: str) -> _Source:
    table, selected = (
        check_columns(
            read_table(source / name), schema, source / name, "collect again: nooch train score"
        )
        for name, schema in (("scores.parquet", _SCORES), ("selected.csv", _CHOSEN))
    )
    check_one_of("split", split, table["split"].unique().to_list(), owner="the scores")
    setting = pl.col("setting").cast(pl.String).fill_null("")
    selected = checked_read(
        source / "selected.csv",
        lambda: selected.with_columns(setting, pl.col(_WORSE).cast(pl.Int64)),
    )
    plain = with_setting(table).filter(pl.col("task") != AVERAGE)
    grid = plain.select("method", "setting", "seed").unique(maintain_order=True)
    tasks = plain.select("task").unique(maintain_order=True)
    scored = plain.select(_RUN).unique().with_columns(done=pl.lit(value=True))
    planned = tasks.join(grid, how="cross").join(scored, on=_RUN, how="left", maintain_order="left")
    planned = planned.with_columns(pl.col("done").fill_null(value=False))
    planned = planned.with_columns(scored="done")
    places = plain.filter(split=split).select(_PLACE).unique(maintain_order=True)
    frames = {"table": table, "selected": selected, "planned": planned, "places": places}
    of_runs = plain.select(*_RUN, _WORSE).unique(maintain_order=True)
    return frames, {}, worse_note(of_runs.select("method", "setting", _WORSE).rows())


def _kind_of(name: str, suites: Sequence[Suite]) -> str:
    """Kind of a criterion, where a suite tells it, else its name."""
    kinds = {suite.header.criteria[name].kind for suite in suites if name in suite.header.criteria}
    return kinds.pop() if len(kinds) == 1 else name


def roles_of(
    criteria: Iterable[str], suites: Sequence[Suite], given: Mapping[str, str]
) -> dict[str, str]:
    """Name of each criterion -> what it is called in tables: its kind, if only one criterion is of
    that kind; ``given``: kind -> name of the criterion that stands for it. Raises ParameterError
    for an unknown kind or criterion.
    """
    names = list(dict.fromkeys(criteria))
    for kind, name in given.items():
        check_one_of("kind of criterion", kind, KINDS)
        check_one_of("criterion", name, names, owner="the results")
    roles = {name: kind for kind, name in given.items()}
    for kind in set(KINDS) - set(given):
        of_kind = [name for name in names if name not in roles and _kind_of(name, suites) == kind]
        # a criterion named after its kind sorts before others of that kind
        candidates = [kind] if kind in of_kind else of_kind
        if len(candidates) == 1:
            roles[candidates[0]] = kind
    return {name: roles.get(name, name) for name in names}
