"""Questions about a suite's images as requests to a model, one for each phrasing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from nooch.challenge import Suite
from nooch.data import Dataset, ImageId
from nooch.errors import InputError, ParameterError, check_one_of
from nooch.questions import (
    TEMPLATE,
    QuestionOptions,
    Questions,
    check_template,
    draw_questions,
    load_questions,
    question_text,
)
from nooch.readers.image_files import ImageIndex

__all__ = ["DESCRIBE", "PRECISIONS", "AskOptions", "AskPlan", "Reply", "Request", "plan_requests"]

DESCRIBE = "Describe this image."
"""AMBER's instruction (Wang et al. 2023)."""

PRECISIONS = ("auto", "float32", "bf16")


@dataclass(frozen=True)
class Request:
    """What a model is asked once.

    Attributes:
        key: ``question_id/prompt``, for captions ``image_id/prompt``; each once.
        image: the image file.
        text: question or instruction.
    """

    key: str
    image: Path
    text: str


@dataclass(frozen=True)
class Reply:
    """What a model replied to a request.

    Attributes:
        key: of the request.
        answer: the model's words; None where only probabilities were read.
        probability: P(yes) / (P(yes) + P(no)) of the first token; None where it is not known.
        mass: P(yes) + P(no); None likewise.
    """

    key: str
    answer: str | None = None
    probability: float | None = None
    mass: float | None = None


@dataclass(frozen=True)
class AskOptions(QuestionOptions):
    """What is asked, and how a model of this machine computes; also the fields of
    ``QuestionOptions``.

    Attributes:
        criteria: names; all of the suite's by default.
        tasks: names; all that have a set by default.
        splits: names; by default ``test``, or the only one.
        questions: file of questions from ``nooch.export``, asked in place of drawn ones.
        prompts: several phrasings in place of ``template``; with ``describe``, instructions.
        describe: ask for a caption of each image, not for yes or no.
        max_tokens: length of a reply; by default 1 token for yes or no (16 where a server is
            asked), 128 for a caption.
        images: folder of images, if not the one that the dataset records.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        precision: ``float32``, ``bf16``, or ``auto``: bf16 on a GPU.
        batch: requests in a batch.
        threads: CPUs of a job, for concurrent jobs; by default as torch chooses.
        overwrite: replace an earlier output.

    Raises:
        ParameterError: a value that is not allowed, or options that exclude each other.
    """

    criteria: Sequence[str] = ()
    tasks: Sequence[str] = ()
    splits: Sequence[str] = ()
    questions: str | Path | None = None
    prompts: Sequence[str] = ()
    describe: bool = False
    max_tokens: int | None = None
    images: str | Path | None = None
    device: str = "auto"
    precision: str = "auto"
    batch: int = 8
    threads: int | None = None
    overwrite: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of("precision", self.precision, PRECISIONS)
        for name in ("batch", "max_tokens"):
            if (getattr(self, name) or 1) < 1:
                allowed = "1 and more"
                raise ParameterError(
                    f"is {getattr(self, name)}", where=f"`{name}`", allowed=allowed
                )
        for prompt in () if self.describe else self.prompts:
            check_template(prompt, "`prompts`")
        if self.template != TEMPLATE and (self.prompts or self.describe):
            problem = f"`template` has no effect with `{'prompts' if self.prompts else 'describe'}`"
            raise ParameterError(problem, remedy="give all phrasings as `prompts`")
        drawing = ("per_set", "balance", "template", "seed", "criteria", "tasks", "splits")
        given = [
            name
            for name in drawing
            if (getattr(self, name) or None) != (getattr(AskOptions, name) or None)
        ]
        if self.questions is not None and given:
            raise ParameterError(
                f"`questions` are given, so `{given[0]}` has no effect",
                remedy="leave one of the two out",
            )

    @property
    def most_tokens(self) -> int:
        """``max_tokens``, or its default."""
        return self.max_tokens or (128 if self.describe else 1)

    @property
    def phrasings(self) -> Sequence[str]:
        """The templates or instructions; none where the file of questions has the texts."""
        if self.describe:
            return self.prompts or (DESCRIBE,)
        return self.prompts or (() if self.questions is not None else (self.template,))


@dataclass(frozen=True, eq=False)
class AskPlan:
    """What is asked.

    Attributes:
        frame: one row for each request, in order: ``key``; the columns of the questions, or
            ``image_id``; ``text`` as it is asked; and ``prompt`` (Int32), the number of the
            phrasing.
        paths: image id -> file.
        criteria: names of the criteria, which are columns of the questions.
        hard_only: whether no question is about an easy image, for the suite holds none.
    """

    frame: pl.DataFrame
    paths: Mapping[ImageId, Path]
    criteria: tuple[str, ...] = ()
    hard_only: bool = False

    @property
    def requests(self) -> list[Request]:
        """The requests, those about an image one after the other."""
        rows = self.frame.select("key", "image_id", "text").iter_rows()
        return [Request(key, self.paths[image_id], text) for key, image_id, text in rows]

    @property
    def facts(self) -> dict[str, int]:
        """Numbers of questions, images and requests, and bytes of the image files."""
        return {
            "questions": self.frame.filter(pl.col("prompt") == 0).height,
            "images": len(self.paths),
            "requests": self.frame.height,
            "bytes": sum(path.stat().st_size for path in self.paths.values()),
        }


def plan_requests(suite: Suite, data: Dataset | None, options: AskOptions) -> AskPlan:
    """The requests that options ask for.

    Args:
        suite: the suite.
        data: its dataset, for names and folder of the images, or None where it is not there.
        options: which questions, in which words.

    Raises:
        ParameterError: a criterion, task or split that the suite does not have.
        InputError: images that are missing, or a file of questions that cannot be read.
        UndefinedError: no question can be asked.
    """
    if options.questions is None:
        splits = options.splits or suite.splits_to_score()
        keys = suite.select_keys(options.criteria, options.tasks, splits)
        questions = draw_questions(suite, keys, options)
    else:
        questions = load_questions(options.questions)
    paths = _image_files(questions, data, options.images)
    if options.describe:
        images = questions.frame.select("image_id").unique(maintain_order=True)
        number, criteria = pl.col("image_id"), tuple[str, ...]()
        worded = [images.with_columns(text=pl.lit(prompt)) for prompt in options.phrasings]
    else:
        frame = questions.frame.drop("image", strict=False)
        number, criteria = pl.col("question_id"), questions.criteria
        worded = [_in_words(frame, prompt) for prompt in options.phrasings] or [frame]
    rows = [
        frame.with_columns(prompt=pl.lit(n, pl.Int32), key=pl.format("{}/{}", number, pl.lit(n)))
        for n, frame in enumerate(worded)
    ]
    order = pl.int_range(pl.len()).over("prompt")
    frame = pl.concat(rows).with_columns(order.alias("_order")).sort("_order", "prompt")
    return AskPlan(frame.drop("_order"), paths, criteria, suite.header.hard_only)


def _in_words(frame: pl.DataFrame, prompt: str) -> pl.DataFrame:
    """The questions with their text in the words of a template."""
    tasks = frame["task"].unique(maintain_order=True).to_list()
    texts = [question_text(prompt, task) for task in tasks]
    return frame.with_columns(text=pl.col("task").replace_strict(tasks, texts))


def _image_files(
    questions: Questions, data: Dataset | None, images: str | Path | None
) -> dict[ImageId, Path]:
    """The image files, called as the dataset or the questions say, or by image ids."""
    root = images or (None if data is None else data.image_root)
    if root is None:
        raise InputError(
            "where are the images?",
            allowed="a folder, or a dataset that records its own",
            remedy="give the folder of images as `images`",
        )
    known: dict[ImageId, str | None] = {}
    if data is not None:
        known |= data.images.select("image_id", "file_name").iter_rows()
    if "image" in questions.frame.columns:
        known |= questions.frame.select("image_id", "image").iter_rows()
    index = ImageIndex(root)
    ids = questions.frame["image_id"].unique(maintain_order=True).to_list()
    names = [index.by_file_name(known.get(i) or "") or index.by_id(i) for i in ids]
    return dict(zip(ids, index.all_of(ids, names, "`images`"), strict=True))
