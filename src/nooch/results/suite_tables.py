"""Suites -> the paper's tables of challenge sets: counts of hard images, and thresholds of the gist
criterion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from nooch.challenge import SetRecord, Suite
from nooch.errors import UndefinedError, check_one_of, some_of
from nooch.published.published_counts import SET_TABLES, SetTable, paper_rows
from nooch.report.set_count_tables import SetsShown
from nooch.results.run_results import roles_of

__all__ = ["paper_set_tables", "set_tables"]

_PAPER_DECIMALS, _DECIMALS = 2, 3
_TIED = "(tied): images on both sides of the cut have this support, so that ids decided"
_HARD_ONLY = "the suite holds hard images alone: how many positives there are is not known"
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
    """Tables of a suite's sets as the paper's Tables 2, 6 and 7.

    Args:
        suite: the sets.
        names: out of ``SET_TABLES``.
        source: name of the suite, for titles.
        split: of Table 2; Table 6 is of test and Table 7 of valid, as in the paper.
        roles: kind of criterion -> name of the criterion that stands for it, where several are of
            that kind.
        tasks: names; by default all of the suite.
        compare: add the paper's numbers and the differences.

    Returns:
        The tables, one for each criterion of a table; and notes: tasks without a set, tables that
        this suite does not have.

    Raises:
        UndefinedError: the suite has none of the tables.
        ParameterError: an unknown task, or a role that does not fit.
    """
    for task in tasks or ():
        check_one_of("task", task, suite.tasks, owner=source)
    places = pl.DataFrame(list(suite.keys), schema=["criterion", "task", "split"], orient="row")
    called = {role: name for name, role in roles_of(places, [suite], roles or {}).items()}
    tables: list[SetsShown] = []
    notes: list[str] = []
    for name in names:
        spec = SET_TABLES[name]
        of = spec.split if spec.of_thresholds else split
        for kind in spec.criteria:
            rows = _rows(
                suite, spec, called.get(kind, kind), of, suite.tasks if tasks is None else tasks
            )
            notes += _gaps(name, kind, rows)
            notes += [_HARD_ONLY] if suite.header.hard_only and not spec.of_thresholds else []
            if rows["reason"].null_count() == 0:
                continue
            if compare and of != spec.split:
                notes.append(
                    f"{name}: nothing is compared, because the paper's is of split {spec.split}"
                )
            elif compare:
                rows = _beside_paper(rows, spec)
                notes += [_ROUNDED] if spec.of_thresholds else []
            if (
                spec.of_thresholds
                and rows.select(pl.any_horizontal("tied_positive", "tied_negative").any()).item()
            ):
                notes.append(_TIED)
            rows = rows.select(
                pl.lit(source).alias("source"),
                pl.lit(kind).alias("criterion"),
                pl.lit(of).alias("split"),
                pl.all(),
            )
            title = f"Table {spec.number}: {spec.shows}, {kind} ({source}, {of} images)"
            tables.append(
                SetsShown(name, title, spec.columns, rows, _DECIMALS if spec.of_thresholds else 0)
            )
    if not tables:
        raise UndefinedError(
            f"the suite has no sets for {', '.join(names)}", where=source,
            allowed=f"its sets: criteria {', '.join(suite.criteria)}; splits {', '.join(suite.splits)}",
            remedy=f"use a suite that has some ({'; '.join(dict.fromkeys(notes))})",
        )  # fmt: skip
    return tables, list(dict.fromkeys(notes))


def paper_set_tables(names: Sequence[str], tasks: Sequence[str] | None = None) -> list[SetsShown]:
    """The paper's own tables.

    Args:
        names: out of ``SET_TABLES``.
        tasks: some of the paper's; all by default.

    Raises:
        ParameterError: a task that the paper does not have.
    """
    tables = []
    for name in names:
        spec, rows = SET_TABLES[name], paper_rows(name)
        for task in tasks or ():
            check_one_of("task", task, rows["task"].to_list(), owner="the paper")
        if tasks is not None:
            rows = rows.filter(pl.col("task").is_in(list(tasks)))
        criteria = " and ".join(spec.criteria)
        about = {"source": "paper", "criterion": criteria, "split": spec.split}
        rows = rows.select(*(pl.lit(value).alias(key) for key, value in about.items()), pl.all())
        rows = rows.with_columns(reason=pl.lit(None, pl.String))
        title = f"Table {spec.number}: {spec.shows}, {criteria} (the paper's, {spec.split} images)"
        tables.append(
            SetsShown(name, title, spec.columns, rows, _PAPER_DECIMALS if spec.of_thresholds else 0)
        )
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
            values = {column: _value(record, column) for column in spec.columns}
            if suite.header.hard_only and "positives" in values:
                # the set's positives are the hard ones
                values["positives"] = None
            gone = (
                None
                if any(value is not None for value in values.values())
                else "its set has no threshold"
            )
            rows.append(
                {
                    "task": task,
                    **values,
                    **{tie: getattr(record, tie) for tie in ties},
                    "reason": gone,
                }
            )
        else:
            rows.append(
                {"task": task, "reason": reasons.get(task, f"no {criterion} set of split {split}")}
            )
    number = pl.Float64 if spec.of_thresholds else pl.Int64
    schema = {
        "task": pl.String,
        **dict.fromkeys(spec.columns, number),
        **dict.fromkeys(ties, pl.Boolean),
    }
    return pl.DataFrame(rows, schema | {"reason": pl.String})


def _value(record: SetRecord, column: str) -> float | None:
    """A number of a set. Positives without a verdict are positives of the split all the same."""
    if column == "positives":
        return record.positives + record.excluded_positives
    found: float | None = getattr(
        record, column if column.startswith("hard") else f"threshold_{column}"
    )
    return found


def _beside_paper(rows: pl.DataFrame, spec: SetTable) -> pl.DataFrame:
    paper = paper_rows(spec.name).rename({column: f"paper_{column}" for column in spec.columns})
    joined = rows.join(paper, on="task", how="left", maintain_order="left")
    return joined.with_columns(
        (pl.col(column) - pl.col(f"paper_{column}")).alias(f"difference_{column}")
        for column in spec.columns
    )


def _gaps(name: str, kind: str, rows: pl.DataFrame) -> list[str]:
    """Tasks without a set, by reason."""
    missing = rows.drop_nulls("reason").group_by("reason", maintain_order=True).agg("task")
    return [
        f"{name}, {kind}: no numbers for {some_of(tasks)}: {reason}"
        for reason, tasks in missing.rows()
    ]
