"""A suite -> one yes/no question for each drawn image and task, with sampling weights."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import NamedTuple
from zlib import crc32

import numpy as np
import polars as pl

from nooch.base.errors import FormatError, InputError, ParameterError, UndefinedError, some_of
from nooch.base.words import is_plural, readable, with_article
from nooch.data import Dataset, ImageId, ImageNames, MatchedNames, name_column
from nooch.data.image_names import FILE_COLUMNS
from nooch.data.readers.image_files import ImageIndex, files_of
from nooch.data.table_files import file_records, read_table
from nooch.data.table_schema import Column, Schema, check_columns
from nooch.suites.challenge_set import CELLS, ChallengeSet
from nooch.suites.suite import Suite

_QUESTIONS = {
    "question_id": Column((pl.Int64,), "Int64, each once", wrong=lambda ids: ids.is_duplicated()),
    "image_id": Column((pl.Int64, pl.String), "Int64 or String, never null"),
    "task": Column((pl.String,), "names of tasks"),
    "split": Column((pl.String,), "names of splits"),
    "text": Column((pl.String,), "String, never null"),
    "label": Column((pl.Int8,), "0 or 1", wrong=lambda label: ~label.is_in([0, 1])),
    "weight": Column(
        (pl.Float64,), "at least 1", wrong=lambda weight: ~((weight >= 1) & weight.is_finite())
    ),
}
_SHARE = "available_share"
_OPTIONAL: Schema = {
    "image": Column((pl.String,), "names of files"),
    _SHARE: Column((pl.Float64,), "above 0, at most 1", wrong=lambda x: ~((x > 0) & (x <= 1))),
}
_IMAGE = "image"


@dataclass(frozen=True, eq=False)
class Questions:
    """Yes/no questions about a suite's images.

    Attributes:
        frame: ``question_id`` (Int64), ``image_id, task, split, text``, ``label`` (Int8, 1 = yes),
            ``weight`` (Float64: the images of the challenge sets that a question stands for), one
            column for each criterion (one of ``CELLS``, null if it has no verdict), and
            ``image`` (file name) once files are known; ``available_share`` (Float64, the share of
            the drawn images that have a file) if some are missing.
    """

    frame: pl.DataFrame

    @property
    def criteria(self) -> tuple[str, ...]:
        """Names of the criteria."""
        names = self.frame.columns
        return tuple(name for name in names if name not in {**_QUESTIONS, **_OPTIONAL})

    def __len__(self) -> int:
        return self.frame.height

    def __repr__(self) -> str:
        images, tasks = (self.frame[name].n_unique() for name in ("image_id", "task"))
        return f"Questions({len(self)} on {images} images, {tasks} tasks)"

    def with_images(self, names: dict[ImageId, str]) -> Questions:
        """The same questions with ``image``, the file of each; ``names`` has all image ids."""
        files = pl.col("image_id").replace_strict(names, return_dtype=pl.String)
        return Questions(self.frame.with_columns(files.alias(_IMAGE)))

    def of_images(self, ids: Collection[ImageId]) -> Questions:
        """The questions about these of the drawn images, which stand for all of their stratum."""
        drawn, strata = self.frame, ["split", "task", "label", *self.criteria]
        n_drawn = drawn["image_id"].n_unique()
        drawn = drawn.with_columns(weight=pl.col("weight") * pl.len().over(strata))
        there = drawn.filter(pl.col("image_id").is_in(pl.Series(list(ids), strict=False).implode()))
        if not there.height or there["image_id"].n_unique() == n_drawn:
            return self
        share = there["image_id"].n_unique() / n_drawn
        weight = pl.col("weight") / pl.len().over(strata)
        return Questions(there.with_columns(weight, pl.lit(share).alias(_SHARE)))

    @property
    def notes(self) -> list[str]:
        """A note on drawn images that are not there."""
        if _SHARE not in self.frame.columns:
            return []
        images, share = self.frame["image_id"].n_unique(), self.frame[_SHARE][0]
        part = f"{images:,} of the {round(images / share):,} sampled images have questions"
        return [f"a partial run: {part} ({100 * share:.1f}%), weighted to the challenge sets"]


def load_questions(path: str | Path) -> Questions:
    """Questions that an export wrote as Parquet."""
    remedy = "export the questions again"
    frame = read_table(path)
    questions = Questions(frame)
    subset = Column((pl.String,), f"{', '.join(CELLS)}, or null", nulls=True, among=CELLS)
    schema = {**_QUESTIONS, **dict.fromkeys(questions.criteria, subset)}
    schema |= {name: kind for name, kind in _OPTIONAL.items() if name in frame.columns}
    check_columns(frame, schema, path, remedy)
    if frame.select(pl.struct("image_id", "task", "text").is_duplicated().any()).item():
        raise FormatError(
            "has two questions on one image and task", where=path, allowed="one", remedy=remedy
        )
    return questions


def with_files(
    questions: Questions, suite: Suite, data: Dataset | None, images: str | Path | None
) -> Questions:
    """The questions about images whose files are there, if these are COCO's and some are not, as in
    a folder of only val2014; else all.
    """
    if not suite.is_of_coco or data is not None or images is None:
        return questions
    index, ids = ImageIndex(images), questions.frame["image_id"].unique(maintain_order=True)
    return questions.of_images([image_id for image_id in ids if index.by_id(image_id)])


def image_names(
    ids: Sequence[ImageId],
    data: Dataset | None,
    images: str | Path | None = None,
    *,
    of_coco: bool = False,
) -> dict[ImageId, str]:
    """File name of each image, relative to the folder of images; without one, of COCO's images
    their names of 2017.
    """
    if images is not None:
        files = files_of(ids, data, images)
        return {i: file.relative_to(images).as_posix() for i, file in zip(ids, files, strict=True)}
    if data is None and of_coco:
        return {image_id: f"{image_id:012d}.jpg" for image_id in ids}
    known = {} if data is None else dict(data.images.select("image_id", "file_name").iter_rows())
    names = {image_id: known.get(image_id) for image_id in ids}
    if missing := [image_id for image_id, name in names.items() if name is None]:
        raise InputError(
            f"{len(missing):,} of {len(names):,} images have no known file: {some_of(missing)}",
            allowed="files named as in the dataset or by image id",
            give={"images": ...},
        )
    return {image_id: str(name) for image_id, name in names.items()}


TEMPLATE = "Is there {a} {task} in the image?"
"""POPE's wording (Li et al., EMNLP 2023)."""


def main_criterion(names: Sequence[str]) -> str:
    """The criterion that decides where an object is expected, if none is named."""
    return "context" if "context" in names else names[0]


def check_template(template: str, where: str = "`template`") -> str:
    """The template; ``where`` is what errors call it."""
    allowed = "text with {task}, and {a} where the article belongs, such as " + TEMPLATE
    try:
        fields = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise ParameterError(str(error), where=where, allowed=allowed) from error
    if "task" not in fields or not set(fields) <= {"a", "task"}:
        raise ParameterError(f"{template!r} is not a template", where=where, allowed=allowed)
    return template


def question_text(template: str, task: str) -> str:
    """The question about a class: ``airplane`` takes "an", ``skis`` "are there", grass no
    article.
    """
    if is_plural(task):
        for singular, many in (("is", "are"), ("Is", "Are")):
            template = re.sub(rf"\b{singular} there \{{a\}}", f"{many} there {{a}}", template)
    noun = readable(task)
    article = with_article(task)[: -len(noun)].strip()
    text = template.format(a=article, task=noun)
    return " ".join(text.split()) if not article else text


PER_SET = 50


class Draw(NamedTuple):
    """Selection of questions, and their wording; see ``nooch.ask``."""

    per_set: int | None = PER_SET
    template: str = TEMPLATE
    seed: int = 0


def draw_questions(suite: Suite, keys: Sequence[tuple[str, str, str]], options: Draw) -> Questions:
    """Ask each drawn image and task once, regardless of the criteria the image belongs to.

    The strata of a task and split are the combinations of the label and the subset under each
    criterion. ``per_set`` images are drawn from each without replacement, so each question stands
    for ``weight`` = images / drawn images of its stratum, and weighted rates are unbiased for the
    challenge sets.
    """
    check_template(options.template)
    if suite.question_lists and options.per_set == PER_SET:
        # the lists are what is asked, and no set to draw from
        options = options._replace(per_set=None)
    criteria = list(dict.fromkeys(criterion for criterion, _, _ in keys))
    tasks = list(dict.fromkeys(task for _, task, _ in keys))
    parts = []
    for split in dict.fromkeys(split for _, _, split in keys):
        for number, task in enumerate(tasks):
            sets = {c: suite.set(*k) for k in keys for c in k[:1] if k[1:] == (task, split)}
            if not sets:
                continue
            pool = _pool(sets, criteria)
            if suite.question_lists:
                asked = pl.concat(suite.question_lists.values()).filter(task=task)
                pool = pool.join(asked, on="image_id", how="semi")
            if suite.header.hard_only:
                pool = pool.filter(pl.any_horizontal(pl.col(criteria).is_not_null()))
            drawn = _drawn(pool, criteria, options, f"{split}/{task}")
            parts.append(
                drawn.with_columns(
                    task=pl.lit(task),
                    split=pl.lit(split),
                    text=pl.lit(question_text(options.template, task)),
                    place=pl.lit(number),
                )
            )
    frame = pl.concat(parts) if parts else pl.DataFrame()
    if not frame.height:
        raise UndefinedError("the chosen challenge sets contain no image to ask about")
    order = pl.col("split").replace_strict(
        {name: n for n, name in enumerate(suite.splits)}, return_dtype=pl.Int64
    )
    if (sample := suite.sample_weights) is not None:
        # each image of a sample stands for others already
        frame = frame.join(sample.rename({"weight": "images"}), on=["image_id", "task"])
        frame = frame.with_columns(weight=pl.col("weight") * pl.col("images"))
    if options.template == TEMPLATE and suite.prompts:
        frame = pl.concat(
            frame.with_columns(text=_texts(prompt, tasks), phrasing=pl.lit(number))
            for number, prompt in enumerate(suite.prompts)
        )
    else:
        frame = frame.with_columns(phrasing=pl.lit(0))
    frame = frame.sort(order, "image_id", "place", "phrasing").with_columns(
        question_id=pl.int_range(1, pl.len() + 1, dtype=pl.Int64)
    )
    columns = ["question_id", "image_id", "task", "split", "text", "label", "weight"]
    return Questions(frame.select(*columns, *criteria))


def _texts(template: str, tasks: Sequence[str]) -> pl.Expr:
    texts = {task: question_text(template, task) for task in tasks}
    return pl.col("task").replace_strict(texts, return_dtype=pl.String)


def _pool(sets: Mapping[str, ChallengeSet], criteria: Sequence[str]) -> pl.DataFrame:
    """``image_id, label``, and the subset under each criterion, null if it has no verdict."""
    frames = []
    for criterion, challenge in sets.items():
        labels = pl.Series("label", challenge.labels.astype(np.int8))
        cells = challenge.cell_frame.select("image_id", labels, pl.col("cell").alias(criterion))
        frames.append(cells)
    pool = frames[0]
    for frame in frames[1:]:
        pool = pool.join(frame, on=["image_id", "label"], how="full", coalesce=True)
    missing = [pl.lit(None, pl.String).alias(name) for name in criteria if name not in sets]
    return pool.with_columns(*missing).select("image_id", "label", *criteria).sort("image_id")


def _drawn(pool: pl.DataFrame, criteria: Sequence[str], options: Draw, name: str) -> pl.DataFrame:
    """The drawn rows of a task's images in one split, with ``weight``."""
    random = np.random.default_rng([options.seed, crc32(name.encode())])
    rank = pl.Series("rank", random.permutation(pool.height))
    strata = ["label", *criteria]
    pool = pool.with_columns(rank).with_columns(
        size=pl.len().over(strata), rank=pl.col("rank").rank("ordinal").over(strata)
    )
    groups = pool.group_by(strata).agg(pl.col("size").first()).sort(strata)
    take = groups["size"].to_numpy().astype(np.int64)
    if options.per_set is not None:
        take = np.minimum(take, options.per_set)
    groups = groups.select(strata).with_columns(take=pl.Series(take))
    pool = pool.join(groups, on=strata, nulls_equal=True, maintain_order="left")
    drawn = pool.filter(pl.col("rank") <= pl.col("take"))
    return drawn.with_columns(weight=pl.col("size") / pl.col("take")).drop("size", "rank", "take")


_NOUN = (
    r"(?i)\b(?:(?:is|are) there|can you see|does this image contain) (?:an? |any )?"
    r"(.+?)(?: in (?:the|this) iman?ge\b|\?)"
)
"""POPE's wording, which has "imange" after "an", and the others of ``nooch-words``."""


_ASKED = {
    "image": (*FILE_COLUMNS, "image_id", "img_id"),
    "text": ("text", "question", "query"),
    "question_id": ("question_id", "id", "index"),
    "category": ("category",),
    "label": ("label", "answer", "gt_answer", "gt"),
}
"""Fields of others' files of questions, the first of them that is there."""
_LABELS = {"yes": 1, "no": 0, "true": 1, "false": 0}


def question_frame(questions: Questions) -> pl.DataFrame:
    """Questions of a table of nooch, as ``read_questions`` gives them."""
    frame = questions.frame
    if _SHARE not in frame.columns:
        frame = frame.with_columns(pl.lit(None, pl.Float64).alias(_SHARE))
    frame = frame.select("question_id", "image_id", "task", "text", "weight", "label", _SHARE)
    return frame.with_columns(
        pl.col("question_id").cast(pl.String), category=pl.lit(None, pl.String)
    )


def read_questions(
    path: str | Path, about: Suite | Dataset, *, ignore_unknown: bool = False
) -> tuple[pl.DataFrame, str]:
    """Questions of a file: ``questions.parquet`` (or its folder), or POPE's and LLaVA's JSON with
    ``image`` and ``text``, whose images and objects are looked up in the suite or dataset.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "questions.parquet"
    if path.suffix.lower() == ".parquet":
        return question_frame(load_questions(path)), ""
    records = file_records(path)
    named = {key: next((n for n in names if n in (records or [{}])[0]), key)
             for key, names in _ASKED.items()}  # fmt: skip
    rows = []
    for number, record in enumerate(records, 1):
        image, text = (record.get(named[key]) for key in ("image", "text"))
        if type(image) not in {str, int} or not isinstance(text, str):
            raise InputError(
                f"record {number} has no image and text",
                where=path,
                allowed="question_id, image, text in every record, as POPE's files have them",
            )
        others = [record.get(named[key]) for key in ("question_id", "category", "label")]
        others[0] = number if others[0] is None else others[0]
        rows.append([text, *(None if other is None else str(other) for other in others)])
    names = ["text", "question_id", "category", "label"]
    frame = pl.DataFrame(rows, dict.fromkeys(names, pl.String), orient="row")
    frame = frame.with_columns(name_column([r[named["image"]] for r in records], path))
    label = pl.col("label").str.to_lowercase()
    matched = match_images(frame["image"], about, path, ignore_unknown=ignore_unknown)
    questions = frame.select(
        "question_id",
        matched.ids,
        match_tasks(frame["text"], about),
        "text",
        "category",
        label.replace_strict(_LABELS, default=None, return_dtype=pl.Int8),
        pl.lit(None, pl.Float64).alias(_SHARE),
        weight=pl.lit(1.0),
    )
    return questions, matched.note


def match_images(
    names: pl.Series, about: Suite | Dataset, where: object, *, ignore_unknown: bool = False
) -> MatchedNames:
    """The images that names mean, see ``ImageNames.match``; null for those that are not there."""
    if isinstance(about, Dataset):
        return ImageNames.from_images(about.images).match(names, where, strict=not ignore_unknown)
    return about.match_names(names, where, strict=not ignore_unknown)


def match_tasks(texts: pl.Series, about: Suite | Dataset) -> pl.Series:
    """Column ``task``: the task (of a dataset, the class) that each text names, or null. A text is
    the name, as words or as it is, in any case, or a question in POPE's wording.
    """
    tasks = about.classes if isinstance(about, Dataset) else about.tasks
    by_words = {readable(task).lower(): task for task in tasks}
    by_words |= {task.lower(): task for task in tasks}
    names = pl.select(pl.coalesce(texts.str.extract(_NOUN), texts).str.to_lowercase()).to_series()
    return names.replace_strict(by_words, default=None, return_dtype=pl.String).alias("task")
