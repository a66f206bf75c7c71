"""Questions that a suite lists, as ``nooch-pope`` POPE's: to which of them is each answer?

Files of answers name POPE's questions in many ways: by the ids of one of its three files, of
LLaVA's copy of these or of VLMEvalKit's table; by order; by image and text. Each way that the ids
and the order of a file allow is a reading. The texts of the questions, and the images where answers
name them, decide: each answer must be to the question that it has in that reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, combinations, permutations
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from nooch.base.errors import InputError, some_of
from nooch.suites import Suite
from nooch.suites.questions import TEMPLATE, match_images, match_tasks, question_text

CATEGORIES = ("adversarial", "popular", "random")
"""POPE's three files."""
ALL = "vlmevalkit"
"""The list that has all pairs, each once."""
_PART = 10_000_000
"""The ids of LLaVA's copy of the three files begin at 1, 10,000,001 and 20,000,001."""
_PAIR = ["image_id", "task"]


class Listed(NamedTuple):
    """Listed questions that answers are to.

    Attributes:
        asked: the questions, as ``read_questions`` gives them.
        numbers: position in ``asked`` of each answer's question, Int64; None: by image and task.
    """

    asked: pl.DataFrame
    numbers: pl.Series | None

    @property
    def pairs(self) -> pl.DataFrame:
        """``image_id, task`` of each answer."""
        pairs = self.asked.select(_PAIR)
        return pairs if self.numbers is None else pairs[self.numbers]

    @property
    def note(self) -> str:
        """The lists that questions are of."""
        names = ", ".join(self.asked["category"].str.split(",").explode().unique().sort())
        return f"answers to {len(self.asked):,} of the suite's questions ({names})"

    @property
    def categories(self) -> pl.DataFrame:
        """``image_id, task, category``: names of the lists that ask about a pair, by commas."""
        names = pl.col("category").str.split(",").explode().unique().sort().str.join(",")
        return self.asked.group_by(_PAIR).agg(names)


def listed_questions(raw: pl.DataFrame, suite: Suite, where: object) -> Listed | None:
    """The listed questions that the answers of a file are to; None where the suite lists none, or
    answers name other images and objects.

    ``raw``: as of ``RawAnswers``.

    Raises InputError if no reading fits, for the first answer to another question; or if several
    fit that differ.
    """
    if not suite.question_lists:
        return None
    lists = _questions(suite)
    names = (match_tasks(raw[column], suite) for column in ("task", "question"))
    rows = raw.select("question", "category", task=pl.coalesce(*names))
    if not raw["image"].has_nulls():
        ids = match_images(raw["image"], suite, where, ignore_unknown=True).ids
        rows = rows.with_columns(ids.fill_null(-1))
    fitting: list[tuple[tuple[str, ...], Listed]] = []
    tried: list[tuple[int, tuple[str, ...], Listed, pl.Series]] = []
    for kinds, numbers in _readings(raw, {name: len(frame) for name, frame in lists.items()}):
        found = Listed(pl.concat(lists[kind] for kind in kinds), numbers)
        agree = _agree(rows, found)
        if agree.all() and not any(_alike(found, other) for _, other in fitting):
            fitting.append((kinds, found))
        tried.append((int(agree.sum()), kinds, found, agree))
    if len(fitting) == 1:
        return fitting[0][1]
    if "image_id" in rows.columns:
        return listed_pairs(rows, suite, where)
    cure: Any = {
        "remedy": "{}, the file of questions that the model was asked",
        "give": {"questions": ...},
    }
    if fitting:
        several = some_of((" and ".join(kinds) for kinds, _ in fitting), 4)
        problem = f"{len(raw):,} answers fit several of the suite's lists of questions: {several}"
        raise InputError(problem, where=where, allowed=_sizes(lists), **cure)
    n, kinds, (asked, places), agree = max(tried, key=lambda reading: reading[0])
    row = int(agree.arg_min() or 0)
    at = None if places is None else places[row]
    there = "there is none"
    if at is not None and 0 <= at < len(asked):
        question = asked.row(at, named=True)
        there = f"it is {question['text']!r}, about image {question['image_id']}"
    raise InputError(
        f"answer {row + 1} is to {raw['question'][row]!r}, but in the suite's list"
        f" {' and '.join(kinds)} {there}; {n:,} of {len(raw):,} answers are to theirs",
        where=where, allowed=_sizes(lists), **cure,
    )  # fmt: skip


def _sizes(lists: Mapping[str, pl.DataFrame]) -> str:
    return ", ".join(f"{len(frame):,} of {name}" for name, frame in lists.items())


def _questions(suite: Suite) -> dict[str, pl.DataFrame]:
    """Each list of the suite as ``read_questions`` gives questions."""
    texts = {task: question_text(TEMPLATE, task) for task in suite.tasks}
    lists = suite.question_lists
    of_pair = pl.concat(lists[name].with_columns(category=pl.lit(name)) for name in CATEGORIES)
    of_pair = of_pair.group_by(_PAIR).agg(pl.col("category").sort().str.join(","))

    def questions(name: str, pairs: pl.DataFrame) -> pl.DataFrame:
        category = pl.lit(name.removeprefix("first_")) if name != ALL else pl.col("category")
        pairs = pairs.join(of_pair, on=_PAIR, how="left", maintain_order="left")
        return pairs.select(
            pl.int_range(1, pl.len() + 1).cast(pl.String).alias("question_id"),
            *_PAIR,
            pl.col("task").replace_strict(texts, return_dtype=pl.String).alias("text"),
            category.alias("category"),
            pl.col("label").cast(pl.Int8),
            pl.lit(None, pl.Float64).alias("available_share"),
            pl.lit(1.0).alias("weight"),
        )

    return {name: questions(name, pairs) for name, pairs in lists.items()}


def _readings(
    raw: pl.DataFrame, sizes: Mapping[str, int]
) -> Iterator[tuple[tuple[str, ...], pl.Series]]:
    """Lists one after the other, and the position of each answer's question in them."""
    order = pl.int_range(len(raw), eager=True)
    ids, positions = raw["question_id"].cast(pl.Int64, strict=False), raw["position"]
    has_ids, part = not ids.has_nulls(), _parts(raw["category"], ids)
    places = pl.DataFrame({"part": part}).select(pl.int_range(pl.len()).over("part")).to_series()
    within = (ids - 1) % _PART if has_ids else places
    yield (ALL,), ids if has_ids else order
    sequences: list[tuple[str, ...]] = [(ALL,)]
    for n in (1, 2, 3):
        sequences += permutations([name for name in sizes if name != ALL], n)
    for names in sequences:
        own = [sizes[name] for name in names]
        if len(names) == part.n_unique() and names != (ALL,):
            starts = pl.Series([0, *accumulate(own)], dtype=pl.Int64)[part]
            # what is beyond a list is in none
            yield names, (starts + within).set(within >= pl.Series(own)[part], None)
        # each list has an answer
        if not positions.has_nulls() and (positions >= sum(own[:-1])).any():
            yield names, positions
        if sum(own) == len(raw):
            yield names, order


def _parts(category: pl.Series, ids: pl.Series) -> pl.Series:
    """Number of the file's part that each answer is in, UInt32: by category; else a part begins
    where ids begin again, or go on to LLaVA's next ten million.
    """
    if not category.has_nulls() and not category.str.contains(",").any():
        numbers = {name: n for n, name in enumerate(category.unique(maintain_order=True))}
        return category.replace_strict(numbers, return_dtype=pl.UInt32)
    part = (ids - 1) // _PART
    starts = (ids <= ids.shift()) | (part != part.shift())
    return starts.fill_null(value=False).cum_sum().cast(pl.UInt32)


def _agree(rows: pl.DataFrame, found: Listed) -> pl.Series:
    """True where an answer is to the question that it has in a reading, by all that it names."""
    asked = found.asked.select("image_id", "task", "category").rename(lambda name: f"{name} asked")
    at = pl.Series("at", found.numbers).cast(pl.Int64)
    pairs = rows.hstack([at]).join(
        asked.with_columns(at=pl.int_range(pl.len())), on="at", how="left", maintain_order="left"
    )
    noun = pl.col("task asked").str.replace_all("_", " ")
    named = pl.col("question").str.to_lowercase().str.contains(noun, literal=True)
    same = [
        pl.col("task asked").is_not_null(),
        pl.coalesce(pl.col("task") == pl.col("task asked"), named, True),
    ]
    of = pl.col("category").str.to_lowercase()
    same.append(~of.is_in(CATEGORIES) | (of == pl.col("category asked")))
    if "image_id" in rows.columns:
        same.append(pl.col("image_id") == pl.col("image_id asked"))
    return pairs.select(
        pl.all_horizontal(pl.coalesce(one, pl.lit(value=True)) for one in same)
    ).to_series()


def _alike(found: Listed, other: Listed) -> bool:
    """True if answers are to the same questions of the same files in two readings."""
    files = (set(one.asked["category"].unique()) for one in (found, other))
    return len({*map(frozenset, files)}) == 1 and found.pairs.equals(other.pairs)


def listed_pairs(pairs: pl.DataFrame, suite: Suite, where: object = None) -> Listed | None:
    """The fewest of POPE's files that ask about all ``image_id, task``; None where they do not.

    Raises InputError if several are as few and there is a ``where``; without, gives None.
    """
    if not suite.question_lists:
        return None
    lists, pairs = _questions(suite), pairs.select(_PAIR).drop_nulls()
    fit: list[tuple[tuple[str, ...], pl.DataFrame]] = []
    for names in (names for n in (1, 2, 3) for names in combinations(CATEGORIES, n)):
        asked = pl.concat(lists[name] for name in names)
        fewest = not fit or len(fit[0][0]) == len(names)
        if fewest and pairs.height and not pairs.join(asked, on=_PAIR, how="anti").height:
            fit.append((names, asked))
    if len(fit) > 1 and where is not None:
        problem = (
            f"all answers belong to questions of {some_of(' and '.join(names) for names, _ in fit)}"
        )
        remedy = "{}, the file of questions that the model was asked"
        raise InputError(problem, where=where, remedy=remedy, give={"questions": ...})
    if len(fit) != 1:
        return None
    # a pair that several files ask about may have one answer
    every = Listed(fit[0][1], None)
    once = every.asked.drop("category").unique(_PAIR, keep="first", maintain_order=True)
    return Listed(once.join(every.categories, on=_PAIR, maintain_order="left"), None)


def parts_of_one(sources: Sequence[tuple[str | None, Any]]) -> dict[Path, str]:
    """Files of one model's answers to POPE's files -> the category of each: if there are several
    sources without names, whose paths differ only in the name of a category; else none.
    """
    paths = [Path(p) for name, p in sources if name is None and isinstance(p, str | Path)]
    named = {path: _CATEGORY.findall(str(path)) for path in paths}
    of_one = {path: found[-1].lower() for path, found in named.items() if found}
    is_one = len(of_one) > 1 and len({without_category(str(path)) for path in of_one}) == 1
    differ = len({*of_one.values()}) == len(of_one) == len(sources)
    return of_one if is_one and differ else {}


def without_category(name: str) -> str:
    """A name without the name of a category and what joins it: llava_random.json, llava.json."""
    return _CATEGORY.sub("", name)


_CATEGORY = re.compile(rf"(?i)[-_. ]?({'|'.join(CATEGORIES)})")
