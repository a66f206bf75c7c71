"""Runs, or what nooch collect made of them -> cells of results tables: each method's chosen
setting, over seeds and over tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from nooch.benching.bench_plan import identity_of
from nooch.challenge import Suite
from nooch.data import read_table
from nooch.data.table_schema import Column, Schema, check_columns
from nooch.errors import InputError, ParameterError, check_one_of
from nooch.evaluation import AVERAGE
from nooch.html import html_table
from nooch.published.published_results import PAPER_NAMES, paper_results
from nooch.results.result_cells import (
    CELLS,
    averages_note,
    cells_of,
    in_order,
    missing_note,
    sight,
    with_averages,
    with_setting,
)
from nooch.results.score_collection import collect, worse_note
from nooch.selection import RULES
from nooch.shared_types import Progress, no_progress
from nooch.training.methods import METHODS
from nooch.training.run_records import RUNS_MARKER, RunsFolder

__all__ = ["KINDS", "Results", "merge", "paper_cells", "read_results", "roles_of", "suite_of"]


KINDS = ("ce", "gist", "attribute")
"""Kinds of criteria that the paper's tables are of."""

_TEXT = Column((pl.String,), "text, never null")
_ANY_TEXT = Column((pl.String,), "text, or null", nulls=True)
_COUNT = Column((pl.Int64,), "whole numbers, or null", nulls=True)
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
_TASKS = pl.col("task").filter(pl.col("task") != AVERAGE)
_RUN = ["task", "method", "setting", "seed"]


@dataclass(frozen=True, eq=False)
class Results:
    """What methods score with their chosen settings.

    Attributes:
        cells: a row for each criterion, metric, subset, task and method: ``criterion`` (``ce``,
            ``gist`` or ``attribute`` where it is of that kind, else its name), ``sees``,
            ``setting``, ``n`` images and ``n_positive`` of them, ``mean`` and ``std`` over seeds
            (ddof = 1), ``n_seeds`` of ``seeds`` that were planned, ``n_settings`` of ``settings``
            that have all their seeds, ``n_worse`` seeds whose validation loss is above the best
            constant's (null where that is not known), ``reason`` where mean is null. Task
            ``average`` is the mean over ``n_tasks`` tasks of the criterion, which
            ``averaged_tasks`` names: the same for all metrics and subsets
            (``nooch.evaluation.score_summaries.over_tasks``).
        notes: what a reader should know: what is missing.
        about: what the numbers are of, in words.
        strict: whether averages are over all tasks, and null where a value is undefined for one.
    """

    cells: pl.DataFrame
    notes: Sequence[str]
    about: str
    strict: bool = False

    def _repr_html_(self) -> str:
        shown = self.cells.filter(metric="auc", subset="hard")
        texts = [_in_words(mean, std) for mean, std in shown.select("mean", "std").rows()]
        shown = shown.with_columns(pl.Series("cell", texts, dtype=pl.String))
        wide = shown.pivot(
            on="method", index=["criterion", "task"], values="cell", maintain_order=True
        )
        methods = in_order(wide.columns[2:])
        rows = (
            wide.sort(pl.col("task") != AVERAGE, maintain_order=True)
            .select("criterion", "task", *methods)
            .rows()
        )
        title = f"AUC on hard images, mean (sd over seeds): {self.about}"
        return html_table(
            title,
            ["criterion", "task", *methods],
            rows,
            left=2,
            notes=[*self.notes, *self.averages],
        )

    @property
    def averages(self) -> list[str]:
        """Notes on averages that leave out tasks."""
        return averages_note(self.cells)

    def select(
        self, tasks: Sequence[str] | None = None, methods: Sequence[str] | None = None
    ) -> Results:
        """Some tasks and methods alone; averages are over these tasks.

        Raises:
            ParameterError: a task or method without results.
        """
        if tasks is None and methods is None:
            return self
        kept = self.cells.filter(pl.col("task") != AVERAGE)
        for column, names in (("task", tasks), ("method", methods)):
            known = kept[column].unique(maintain_order=True).to_list()
            for name in names or ():
                check_one_of(column, name, known, owner="the results")
            if names is not None:
                kept = kept.filter(pl.col(column).is_in(list(names)))
        return Results(with_averages(kept, strict=self.strict), self.notes, self.about, self.strict)


def _in_words(mean: float | None, std: float | None) -> str | None:
    if mean is None:
        return None
    return f"{mean:.3f}" + ("" if std is None else f" ({std:.3f})")


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
    """Results of a folder of runs, or of one that ``nooch collect`` wrote.

    Args:
        source: folder with ``runs.json``, or with ``scores.parquet`` and ``selected.csv``.
        suites: for runs: one of them is the suite that was trained for. For collected scores: they
            tell the kinds of criteria.
        rule: which hyperparameters; out of ``nooch.selection.RULES``.
        split: whose scores.
        roles: kind of criterion -> name of the criterion that stands for it, where that is not
            plain.
        strict: averages over all tasks, null where a value is undefined for one of them.
        progress: called with what is being done, and how much of how much is done.

    Raises:
        InputError: neither kind of folder, scores that do not belong to the selection, a job of
            other data than the folder's.
        ParameterError: no suite or another one than was trained for, a rule that was not collected.
    """
    source = Path(source)
    choice = _Choice(check_one_of("rule", rule, RULES), split, roles or {}, strict)
    if (source / RUNS_MARKER).is_file():
        return _of_runs(RunsFolder.open(source), suites, choice, progress)
    if (source / "scores.parquet").is_file() and (source / "selected.csv").is_file():
        return _of_collected(source, suites, choice)
    raise InputError(
        "holds no results",
        where=source,
        allowed=(
            f"a folder of nooch bench ({RUNS_MARKER}), or of nooch collect (scores.parquet and"
            " selected.csv)"
        ),
    )


def paper_cells() -> Results:
    """The paper's own numbers (Tables 5 and 9 to 18) in the same form."""
    sees = {name: sight(METHODS[name].sees) for name in PAPER_NAMES.values()}
    frame = paper_results().with_columns(
        pl.col("method").replace_strict(sees).alias("sees"),
        *(
            pl.lit(None, CELLS[name]).alias(name)
            for name in (
                "setting",
                "n",
                "n_positive",
                "n_settings",
                "settings",
                "n_worse",
                "reason",
            )
        ),
        # its averages are over all its tasks
        *(
            pl.when(pl.col("task") == AVERAGE).then(of.over("criterion")).alias(name)
            for name, of in (
                ("n_tasks", _TASKS.n_unique().cast(pl.Int64)),
                ("averaged_tasks", _TASKS.unique(maintain_order=True).str.join(", ")),
            )
        ),
        # of Table 5 the paper does not say how many
        *(
            pl.when(pl.col("table") != 5).then(pl.lit(3, pl.Int64)).alias(name)
            for name in ("n_seeds", "seeds")
        ),
    )
    return Results(frame.select(list(CELLS)), [], "the paper's tables")


def merge(results: Sequence[Results]) -> Results:
    """Results of several folders, each of other criteria.

    Raises:
        InputError: two of them have results under the same criterion: they would be averaged over
            tasks together.
    """
    seen: dict[str, str] = {}
    for one in results:
        for criterion in one.cells["criterion"].unique(maintain_order=True):
            if criterion in seen:
                raise InputError(
                    f"{seen[criterion]} and {one.about} both have results under {criterion}",
                    allowed="each criterion from one folder",
                    remedy="give them one at a time",
                )
            seen[criterion] = one.about
    cells = pl.concat([one.cells for one in results])
    notes, about = (
        [text for one in results for text in one.notes],
        "; ".join(one.about for one in results),
    )
    return Results(cells, notes, about, any(one.strict for one in results))


def suite_of(runs: RunsFolder, suites: Iterable[Suite]) -> Suite:
    """The suite that runs were trained for, out of several.

    Raises:
        ParameterError: none of them is; the message says whether it is another suite or another
            version of the dataset.
    """
    given = list(suites)
    for suite in given:
        if identity_of(suite) == runs.header.data["suite"]:
            return suite
    if not given:
        raise ParameterError(
            "which suite was trained for?", where=runs.path, remedy="give `suite` SUITE"
        )
    trained = runs.header.data["dataset"]
    problems = [
        (
            "the suite is another one of the same dataset"
            if suite.header.dataset.fingerprint == trained
            else (
                "the suite is of another dataset, or another version of it"
                f" ({suite.header.dataset.fingerprint}; trained on {trained})"
            )
        )
        for suite in given
    ]
    raise ParameterError(
        "; ".join(problems), where=runs.path, allowed="the suite that was trained for"
    )


@dataclass(frozen=True)
class _Choice:
    """Whose numbers results are, and how they are averaged; see ``read_results``."""

    rule: str
    split: str
    roles: Mapping[str, str]
    strict: bool

    def results(
        self,
        frames: Mapping[str, pl.DataFrame],
        sees: Mapping[str, str],
        suites: Sequence[Suite],
        name: str,
        notes: Sequence[str],
    ) -> Results:
        """Cells of ``table, selected, planned, places``, criteria called as they are in tables."""
        cells = cells_of(**frames, rule=self.rule, split=self.split, sees=sees, strict=self.strict)
        cells = _renamed(cells, roles_of(frames["places"], suites, self.roles))
        about = f"{name}, {self.split} images, settings chosen by {self.rule}"
        return Results(cells, [*notes, *missing_note(frames["planned"])], about, self.strict)


def _of_runs(
    runs: RunsFolder, suites: Sequence[Suite], choice: _Choice, progress: Progress
) -> Results:
    suite, rule, split = suite_of(runs, suites), choice.rule, choice.split
    check_one_of(
        "split", split, [name for name in ("valid", "test") if name in suite.splits], owner="runs"
    )
    done, sees = set(runs.done()), {}
    for name in done:
        record = runs.read_job(name)
        if (record.id, record.data) != (name, runs.header.data):
            raise InputError(
                "was trained on other data than the folder says",
                where=runs.path / "jobs" / name,
                remedy="delete the job's folder; nooch bench makes it again",
            )
        sees[record.job.method] = sight(record.sees)
    # worst-hard beside the rule: a rule that is undefined for all runs is left out
    scores, selected, notes = collect(
        runs, suite, rules=list(dict.fromkeys((rule, "worst-hard"))), progress=progress
    )
    planned = pl.DataFrame(
        [
            (job.task, job.method, job.setting, job.seed, name in done)
            for name, job in runs.header.jobs.items()
        ],
        schema={
            "task": pl.String,
            "method": pl.String,
            "setting": pl.String,
            "seed": pl.Int64,
            "done": pl.Boolean,
        },
        orient="row",
    )
    tasks = set(planned["task"])
    places = pl.DataFrame(
        [(c, t) for c, t, s in suite.keys if s == split and t in tasks],
        schema=dict.fromkeys(_PLACE, pl.String),
        orient="row",
    )
    frames = {"table": scores.table, "selected": selected, "planned": planned, "places": places}
    return choice.results(frames, sees, [suite], runs.path.name, notes)


def _of_collected(source: Path, suites: Sequence[Suite], choice: _Choice) -> Results:
    split = choice.split
    table, selected = (
        check_columns(
            read_table(source / name), schema, source / name, "collect again: nooch collect"
        )
        for name, schema in (("scores.parquet", _SCORES), ("selected.csv", _CHOSEN))
    )
    check_one_of("split", split, table["split"].unique().to_list(), owner="the scores")
    selected = selected.with_columns(pl.col("setting").cast(pl.String).fill_null(""))
    # null where it was collected before it was recorded, and in CSV without a type then
    worse = (
        pl.col("worse_than_constant") if "worse_than_constant" in selected.columns else pl.lit(None)
    )
    selected = selected.with_columns(worse_than_constant=worse.cast(pl.Int64))
    plain = with_setting(table).filter(pl.col("task") != AVERAGE)
    grid = plain.select("method", "setting", "seed").unique(maintain_order=True)
    tasks = plain.select("task").unique(maintain_order=True)
    there = plain.select(_RUN).unique().with_columns(done=pl.lit(value=True))
    planned = tasks.join(grid, how="cross").join(there, on=_RUN, how="left", maintain_order="left")
    planned = planned.with_columns(pl.col("done").fill_null(value=False))
    places = plain.filter(split=split).select(_PLACE).unique(maintain_order=True)
    frames = {"table": table, "selected": selected, "planned": planned, "places": places}
    # not in scores that were collected before it was recorded
    marked = "worse_than_constant" in plain.columns
    of_runs = (
        plain.select(*_RUN, "worse_than_constant").unique(maintain_order=True).rows()
        if marked
        else []
    )
    notes = worse_note(row[1:3] + row[4:] for row in of_runs)
    return choice.results(frames, {}, suites, source.name, notes)


def _renamed(cells: pl.DataFrame, roles: Mapping[str, str]) -> pl.DataFrame:
    return cells.with_columns(pl.col("criterion").replace(dict(roles)))


def _kind_of(name: str, suites: Sequence[Suite]) -> str:
    """Kind of a criterion, where a suite tells it, else its name."""
    kinds = {suite.header.criteria[name].kind for suite in suites if name in suite.header.criteria}
    return kinds.pop() if len(kinds) == 1 else name


def roles_of(
    places: pl.DataFrame, suites: Sequence[Suite], given: Mapping[str, str]
) -> dict[str, str]:
    """Name of each criterion -> what it is called in tables: its kind, where one criterion alone is
    of that kind.
    """
    names = places["criterion"].unique(maintain_order=True).to_list()
    for kind, name in given.items():
        check_one_of("kind of criterion", kind, KINDS)
        check_one_of("criterion", name, names, owner="the results")
    roles = {name: kind for kind, name in given.items()}
    for kind in set(KINDS) - set(given):
        of_kind = [name for name in names if name not in roles and _kind_of(name, suites) == kind]
        # one that is called as its kind comes before others of it
        chosen = [kind] if kind in of_kind else of_kind
        if len(chosen) == 1:
            roles[chosen[0]] = kind
    return {name: roles.get(name, name) for name in names}
