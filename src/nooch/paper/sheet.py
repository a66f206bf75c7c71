"""The paper's tables from folders of runs, suites and its own numbers, as one sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from msgspec import Meta

from nooch.base.calls import Progress, Seed, checked, no_progress
from nooch.base.errors import InputError, ParameterError, UndefinedError, check_one_of, some_of
from nooch.base.files import SUITE_MARKER
from nooch.evaluation import AVERAGE
from nooch.evaluation.averages import with_best
from nooch.evaluation.bootstrap import RESAMPLES
from nooch.evaluation.scores import Resamples
from nooch.paper.numbers import (
    PAPER_TABLES,
    SET_TABLES,
    SetTable,
    next_to_paper,
    paper_cells,
    paper_rows,
)
from nooch.report.results.pairs import paired_results
from nooch.report.results.run_results import Results, merge, read_results, roles_of
from nooch.report.tables.method_tables import WORSE, ResultSheet, ResultTable, block_of, legend
from nooch.report.tables.score_tables import SetsShown, tables_of
from nooch.suites import SetRecord, Suite, is_shipped, load_suite
from nooch.suites.suite_folder import with_suite


def table_names(texts: Sequence[str]) -> list[str]:
    """``table3``, ``3``, ``table3,table9`` or ``all`` (all tables of results) as names of tables,
    each once. Raises ParameterError: a table that the paper does not have, or that has neither
    results nor sets.
    """
    names: list[str] = []
    tables_allowed = [*SET_TABLES, *PAPER_TABLES]
    for part in filter(None, (piece.strip() for text in texts for piece in text.split(","))):
        name = f"table{part}" if part.isdigit() else part
        names += (
            PAPER_TABLES
            if part == "all"
            else [check_one_of("table of results", name, tables_allowed)]
        )
    if not names:
        allowed = f"all, or some of {', '.join(tables_allowed)}"
        raise ParameterError("no table is named", where="`like`", allowed=allowed)
    return list(dict.fromkeys(names))


def like(
    results: Results, names: Sequence[str], *, compare: bool = False, by_sight: bool = False
) -> tuple[list[ResultTable], list[str]]:
    """Tables of results as the paper's."""
    cells = with_best(results.cells, by=("sees",) if by_sight else ())
    cells = next_to_paper(cells) if compare else cells
    tables: list[ResultTable] = []
    notes, absent = [*results.notes, *results.averages], []
    for name in names:
        spec = PAPER_TABLES[name]
        blocks = [(p, block_of(cells, p.criterion, p.metric, p.subset)) for p in spec.panels]
        without = [panel.criterion for panel, rows in blocks if rows.is_empty()]
        absent += [f"{name}: no results under {criterion}" for criterion in dict.fromkeys(without)]
        blocks = [(panel, rows) for panel, rows in blocks if rows.height]
        for group in [blocks] if spec.stacked and blocks else [[block] for block in blocks]:
            criteria = ", ".join(dict.fromkeys(panel.criterion for panel, _ in group))
            title = f"Table {spec.number}: {spec.shows}, {criteria} ({results.about})"
            rows = pl.concat([rows for _, rows in group])
            label = "metric" if spec.stacked else None
            tables.append(ResultTable(name, title, label, rows, by_sight))
    absent = list(dict.fromkeys(absent))
    if not tables:
        criteria_known = ", ".join(results.cells["criterion"].unique(maintain_order=True))
        problem = f"no table can be made: {'; '.join(absent)}"
        raise UndefinedError(problem, where=results.about, allowed=f"tables of {criteria_known}")
    if any((table.rows["n_worse"] > 0).any() for table in tables):
        absent.append(
            f"{WORSE}: at least one seed's run is worse than a constant answer on the"
            " validation images, by the method's own objective"
        )
    return tables, notes + absent + _gaps(tables)


def report_tables(results: Results) -> tuple[list[ResultTable], list[ResultTable], list[str]]:
    """The paper's tables of results, those with the paper's numbers next to each, and notes.

    For the page of results: ``nooch.write_report(sources, out, tables=nooch.paper.report_tables)``.
    """
    criteria = set(results.cells["criterion"])
    names = [
        name
        for name, table in PAPER_TABLES.items()
        if criteria & {panel.criterion for panel in table.panels}
    ]
    try:
        plain, notes = like(results, names)
    except UndefinedError as error:
        return [], [], [*results.notes, str(error)]
    compared, more = like(results, names, compare=True)
    complete = [t for t in compared if t.rows["paper_mean"].null_count() < t.rows.height]
    return plain, complete, list(dict.fromkeys([*notes, *more]))


def _gaps(tables: Sequence[ResultTable]) -> list[str]:
    """Why cells have no value: a note for each table and reason."""
    notes = []
    key = ["criterion", "metric", "subset", "method"]
    for table in tables:
        empty = table.rows.filter(pl.col("mean").is_null())
        unaveraged = empty.filter(task=AVERAGE).select(key)
        groups = empty.filter(pl.col("task") != AVERAGE).group_by(
            "criterion", "reason", maintain_order=True
        )
        for (criterion, reason), rows in groups:
            of_tasks = rows.group_by("task", maintain_order=True).agg("method").rows()
            places = some_of(f"{task} ({', '.join(methods)})" for task, methods in of_tasks)
            text = "averages leave these tasks out"
            if rows.join(unaveraged, on=key, how="semi").height:
                text = "no average over tasks there"
            notes.append(f"{table.name}, {criterion}: no value for {places}: {reason}; {text}")
    return list(dict.fromkeys(notes))


_PAPER_DECIMALS, _DECIMALS = 2, 3
_TIED = "(tied): images on both sides of the cut have this support; their ids decided"
_HARD_ONLY = "the suite contains only hard images, so the number of positives is unknown"
_ROUNDED = "the paper gives thresholds to two decimals, for its own caption embeddings"


def set_tables(
    suite: Suite,
    names: Sequence[str],
    source: str,
    *,
    split: str = "test",
    roles: Mapping[str, str] | None = None,
    tasks: Sequence[str] | None = None,
    compare: bool = False,
) -> tuple[list[SetsShown], list[str]]:
    """Tables of a suite's sets as the paper's Tables 2, 6 and 7."""
    for task in tasks or ():
        check_one_of("task", task, suite.tasks, owner=source)
    task_names = suite.tasks if tasks is None else tasks
    called = roles_of((key[0] for key in suite.keys), [suite], roles or {})
    criteria = {role: name for name, role in called.items()}
    tables: list[SetsShown] = []
    notes: list[str] = []
    for name in names:
        spec = SET_TABLES[name]
        table_split = spec.split if spec.of_thresholds else split
        for kind in spec.criteria:
            rows = _rows(suite, spec, criteria.get(kind, kind), table_split, task_names)
            gaps = rows.drop_nulls("reason").group_by("reason", maintain_order=True).agg("task")
            head = f"{name}, {kind}: no numbers for"
            notes += [f"{head} {some_of(of_tasks)}: {reason}" for reason, of_tasks in gaps.rows()]
            notes += [_HARD_ONLY] if suite.header.hard_only and not spec.of_thresholds else []
            if rows["reason"].null_count() == 0:
                continue
            if compare:
                rows, note = _compared(rows, spec, table_split)
                notes += note
            if spec.of_thresholds and (rows["tied_positive"] | rows["tied_negative"]).any():
                notes.append(_TIED)
            place = {"source": source, "criterion": kind, "split": table_split}
            tables.append(_shown(spec, rows, place, source, _DECIMALS))
    if not tables:
        sets = f"criteria {', '.join(suite.criteria)}; splits {', '.join(suite.splits)}"
        problem = f"the suite has no sets for {', '.join(names)}: {'; '.join(dict.fromkeys(notes))}"
        raise UndefinedError(problem, where=source, allowed=f"its sets: {sets}")
    return tables, list(dict.fromkeys(notes))


def _shown(
    spec: SetTable, rows: pl.DataFrame, place: Mapping[str, str], whose: str, decimals: int
) -> SetsShown:
    """A table with its title; ``place`` are source, criterion and split."""
    rows = rows.select(*(pl.lit(value).alias(key) for key, value in place.items()), pl.all())
    images = f"{place['criterion']} ({whose}, {place['split']} images)"
    title = f"Table {spec.number}: {spec.shows}, {images}"
    return SetsShown(spec.name, title, spec.columns, rows, decimals if spec.of_thresholds else 0)


def paper_set_tables(names: Sequence[str], tasks: Sequence[str] | None = None) -> list[SetsShown]:
    """The paper's own tables, by default of all its tasks. Raises ParameterError for another."""
    tables = []
    for name in names:
        spec, rows = SET_TABLES[name], paper_rows(name)
        for task in tasks or ():
            check_one_of("task", task, rows["task"].to_list(), owner="the paper")
        if tasks is not None:
            rows = rows.filter(pl.col("task").is_in(list(tasks)))
        rows = rows.with_columns(reason=pl.lit(None, pl.String))
        criteria = " and ".join(spec.criteria)
        place = {"source": "paper", "criterion": criteria, "split": spec.split}
        tables.append(_shown(spec, rows, place, "the paper's", _PAPER_DECIMALS))
    return tables


def _rows(
    suite: Suite, spec: SetTable, criterion: str, split: str, tasks: Sequence[str]
) -> pl.DataFrame:
    reasons = {s.task: s.reason for s in suite.header.skipped if s.criterion == criterion}
    ties = ["tied_positive", "tied_negative"] if spec.of_thresholds else []
    rows: list[dict[str, object]] = []
    for task in tasks:
        if (criterion, task, split) in suite.keys:
            record = suite.record(criterion, task, split)
            row: dict[str, object] = {column: _value(record, column) for column in spec.columns}
            if suite.header.hard_only and "positives" in row:
                # the set's positives are the hard ones
                row["positives"] = None
            if set(row.values()) == {None}:
                row["reason"] = "its set has no threshold"
            rows.append({"task": task, **row, **{tie: getattr(record, tie) for tie in ties}})
        else:
            reason = reasons.get(task, f"no {criterion} set of split {split}")
            rows.append({"task": task, "reason": reason})
    number = pl.Float64 if spec.of_thresholds else pl.Int64
    schema = {"task": pl.String, **dict.fromkeys(spec.columns, number)}
    return pl.DataFrame(rows, schema | dict.fromkeys(ties, pl.Boolean) | {"reason": pl.String})


def _value(record: SetRecord, column: str) -> float | None:
    """A number of a set. Positives without a verdict are positives of the split all the same."""
    if column == "positives":
        return record.positives + record.excluded_positives
    value: float | None = getattr(
        record, column if column.startswith("hard") else f"threshold_{column}"
    )
    return value


def _compared(rows: pl.DataFrame, spec: SetTable, split: str) -> tuple[pl.DataFrame, list[str]]:
    """Rows with the paper's numbers and the differences, and notes."""
    if split != spec.split:
        why = f"because the paper uses split {spec.split}"
        return rows, [f"{spec.name}: not compared, {why}"]
    paper = paper_rows(spec.name).rename({column: f"paper_{column}" for column in spec.columns})
    joined = rows.join(paper, on="task", how="left", maintain_order="left").with_columns(
        (pl.col(column) - pl.col(f"paper_{column}")).alias(f"difference_{column}")
        for column in spec.columns
    )
    return joined, [_ROUNDED] if spec.of_thresholds else []


PAPER = "paper"
"""The source that is the paper's own numbers."""


def read_sources(
    sources: Sequence[str],
    suites: Sequence[Suite] = (),
    *,
    reading: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
) -> Results:
    """Results of several folders of ``nooch train bench`` or ``nooch train score``, or of
    ``paper``, under different criteria.

    ``suites``: those that were trained for; ``reading``: keywords of ``nooch.paper.read_results``.
    """
    read = [
        paper_cells()
        if source == PAPER
        else read_results(source, suites, **reading or {}, progress=progress)
        for source in sources
    ]
    return merge(read)


@checked
def paper_sheet(
    sources: Sequence[str],
    names: Sequence[str],
    suites: Mapping[str, Suite],
    *,
    tasks: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    compare: bool = False,
    by_sight: bool = False,
    paired: str | None = None,
    bootstrap: Annotated[Resamples, Meta(ge=1)] = RESAMPLES,
    seed: Seed = 0,
    reading: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
) -> ResultSheet:
    """The paper's tables of these names.

    Args:
        sources: folders of runs or of scores, suites, or ``paper``.
        names: of tables, such as ``table3``.
        suites: folder -> suite that was trained for.
        tasks: names of tasks, over which averages are taken; by default all.
        methods: names of methods; by default all.
        compare: put the paper's numbers next to each.
        by_sight: group methods by the information that they use; the best of each group is marked.
        paired: paired bootstrap against this method, or ``all`` for every pair.
        bootstrap: resamples of ``paired``.
        seed: seed of the resamples.
        reading: keywords of ``nooch.paper.read_results``.
        progress: called with what is being done, and how much of how much is done.
    """
    reading = reading or {}
    of_results = [name for name in names if name not in SET_TABLES]
    of_sets = [name for name in names if name in SET_TABLES]
    choice = {name: reading[name] for name in ("split", "roles") if name in reading}
    sets, notes = _tables_of_sets(
        sources, of_sets, suites, {"tasks": tasks, "compare": compare, **choice}
    )
    if not of_results:
        if paired or methods or by_sight:
            given = {"paired": paired, "methods": methods, "by_sight": by_sight}
            raise ParameterError(
                f"{', '.join(names)} do not compare methods",
                give={name: None for name, value in given.items() if value},
            )
        return ResultSheet([], notes, sets=sets)
    runs = [source for source in sources if not _is_suite(source)]
    if not runs:
        allowed = "a folder of nooch train bench or nooch train score, or paper"
        problem = f"there are no runs for {', '.join(of_results)}"
        raise ParameterError(problem, where="SOURCE", allowed=allowed)
    trained = list(suites.values())
    read = read_sources(runs, trained, reading=reading, progress=progress).select(tasks, methods)
    tables, more = like(read, of_results, compare=compare, by_sight=by_sight)
    notes += more
    differences, shown = None, []
    if paired is not None:
        cells = pl.concat([table.rows for table in tables])
        metrics = cells["metric"].unique(maintain_order=True).to_list()
        how = {name: reading[name] for name in ("split", "strict") if name in reading}
        pairs = paired_results(
            runs,
            trained,
            read,
            cells["criterion"].unique(maintain_order=True).to_list(),
            baseline=paired,
            roles=reading.get("roles"),
            how={
                "metrics": metrics, "bootstrap": bootstrap, "seed": seed, "progress": progress,
                **how,
            },
        )  # fmt: skip
        differences = pl.concat([scores.differences for scores in pairs]) if pairs else None
        shown = [table for scores in pairs for table in tables_of(scores, metrics)]
    return ResultSheet(tables, [legend(by_sight=by_sight), *notes], differences, shown, sets)


def _is_suite(source: str) -> bool:
    """True if a source is a suite: a folder, or one that comes with the package."""
    return is_shipped(source) or (with_suite(source) / SUITE_MARKER).is_file()


def _tables_of_sets(
    sources: Sequence[str],
    names: Sequence[str],
    trained: Mapping[str, Suite],
    choice: Mapping[str, Any],
) -> tuple[list[SetsShown], list[str]]:
    """Tables of suites that are sources, of those trained for, or the paper's; and notes.

    ``choice``: keywords of ``set_tables``.
    """
    if not names:
        return [], []
    for source in sources:
        if source != PAPER and not _is_suite(source) and not Path(source).is_dir():
            allowed = "a suite, a folder of runs or of scores, or paper"
            raise InputError("no such folder", where=source, allowed=allowed)
    suites = {source: load_suite(source) for source in sources if _is_suite(source)}
    suites |= trained
    if not suites and PAPER not in sources:
        problem = f"there is no suite for {', '.join(names)}"
        raise ParameterError(problem, remedy="name one as a source", give={"suite": ...})
    tables: list[SetsShown] = []
    notes: list[str] = []
    for folder, suite in suites.items():
        more, remarks = set_tables(suite, names, Path(folder).name, **choice)
        tables += more
        notes += remarks
    if PAPER in sources:
        tables += paper_set_tables(names, choice["tasks"])
    return tables, list(dict.fromkeys(notes))
