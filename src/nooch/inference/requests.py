"""Questions about a suite's images as requests to a model, one for each phrasing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import polars as pl

from nooch.base.calls import Count
from nooch.base.errors import ParameterError
from nooch.data import Dataset, ImageId, as_dataset
from nooch.data.readers.image_files import files_of
from nooch.suites import Suite, as_suite
from nooch.suites.questions import (
    QuestionOptions,
    check_template,
    draw_questions,
    load_questions,
    question_text,
)

_DESCRIBE = "Describe this image."
"""AMBER's instruction (Wang et al. 2023)."""
_OF_DRAWN = ("per_set", "template", "seed", "criteria", "tasks", "splits")


@dataclass(frozen=True)
class Request:
    """A question or instruction about an image file; ``key`` is ``question_id/prompt``, for
    captions ``image_id/prompt``; ``range`` is as in ``AskOptions``.
    """

    key: str
    image: Path
    text: str
    range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Reply:
    """A model's reply: its words; at the answer's token P(yes) / (P(yes) + P(no)), and P(yes) +
    P(no). None where that is not known.
    """

    key: str
    answer: str | None = None
    probability: float | None = None
    mass: float | None = None


@dataclass(frozen=True)
class AskOptions(QuestionOptions):
    """Questions to ask, and how a local model computes; also the fields of ``QuestionOptions``.

    Attributes:
        criteria: names; all of the suite's by default, as are ``tasks``.
        tasks: see ``criteria``.
        splits: names; by default ``test``, or the only one.
        questions: file of questions from ``nooch.export``, asked in place of drawn ones.
        prompts: several phrasings in place of ``template``; with ``describe``, instructions.
        describe: ask for a caption of each image, not for yes or no.
        max_tokens: length of a reply; by default 1 token for yes or no (16 where a server is
            asked), 128 for a caption.
        images: folder of images, if not the one that the dataset records.
        range: values that become black and white, of images of more than 8 bits a channel.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        precision: ``float32``, ``bf16``, or ``auto``: bf16 on a GPU.
        batch: requests in a batch.
        threads: of a job, for concurrent jobs; by default as torch chooses.
        overwrite: replace an earlier output.
    """

    criteria: Sequence[str] = ()
    tasks: Sequence[str] = ()
    splits: Sequence[str] = ()
    questions: str | Path | None = None
    prompts: Sequence[str] = ()
    describe: bool = False
    max_tokens: Count | None = None
    images: str | Path | None = None
    range: tuple[float, float] | None = None
    device: str = "auto"
    precision: Annotated[str, ("auto", "float32", "bf16")] = "auto"
    batch: Count = 8
    threads: Count | None = None
    overwrite: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for prompt in () if self.describe else self.prompts:
            check_template(prompt, "`prompts`")
        given = {n for n in _OF_DRAWN if (getattr(self, n) or 0) != (getattr(AskOptions, n) or 0)}
        unused = {"template"} if self.prompts or self.describe else set()
        idle = given if self.questions else given & unused
        if idle:
            problem = f"`{idle.pop()}` has no effect with given questions or prompts"
            raise ParameterError(problem, remedy="leave one of the two out")

    @property
    def most_tokens(self) -> int:
        """``max_tokens``, or its default."""
        return (128 if self.describe else 1) if self.max_tokens is None else self.max_tokens

    @property
    def phrasings(self) -> Sequence[str]:
        """Templates or instructions; none where the file of questions has the texts."""
        usual = () if self.questions else (self.template,)
        return self.prompts or ((_DESCRIBE,) if self.describe else usual)


@dataclass(frozen=True, eq=False)
class AskPlan:
    """Requests: a row for each request with ``key``, the columns of the questions (of captions
    ``image_id, text``) and ``prompt``, the number of the phrasing; and the file of each image.
    """

    frame: pl.DataFrame
    paths: Mapping[ImageId, Path]
    range: tuple[float, float] | None = None

    @property
    def requests(self) -> list[Request]:
        """The requests; those about an image follow each other."""
        rows = self.frame.select("key", "image_id", "text").iter_rows()
        return [
            Request(key, self.paths[image_id], text, self.range) for key, image_id, text in rows
        ]

    @property
    def facts(self) -> dict[str, int]:
        """Numbers of questions, images and requests; bytes of the image files, and of the images of
        all requests as they are sent to a server.
        """
        sizes = {image_id: path.stat().st_size for image_id, path in self.paths.items()}
        sent = sum(4 * math.ceil(sizes[image_id] / 3) for image_id in self.frame["image_id"])
        questions = int((self.frame["prompt"] == 0).sum())
        counts = {"questions": questions, "images": len(self.paths), "requests": len(self.frame)}
        return {**counts, "bytes": sum(sizes.values()), "bytes_sent": sent}


def plan_requests(
    suite: Suite | str | Path, data: Dataset | str | Path | None, options: AskOptions
) -> AskPlan:
    """Requests that ``nooch.ask`` would send; raises as it does, before a model is needed."""
    suite = as_suite(suite)
    data = suite.found_in() if data is None else as_dataset(data)
    if options.questions is None:
        splits = options.splits or suite.splits_to_score()
        keys = suite.select_keys(options.criteria, options.tasks, splits)
        frame = draw_questions(suite, keys, options).frame
    else:
        frame = load_questions(options.questions).frame
    ids = frame["image_id"].unique(maintain_order=True).to_list()
    names = dict(frame.select("image_id", "image").iter_rows()) if "image" in frame.columns else {}
    # absolute, for workers in other folders
    files = (file.absolute() for file in files_of(ids, data, options.images, names))
    paths = dict(zip(ids, files, strict=True))
    if options.describe:
        frame = frame.select("image_id", text=pl.lit("")).unique(maintain_order=True)
    numbered = frame.drop("image", strict=False).with_row_index("row")
    parts = [
        numbered.with_columns(
            _worded(frame, phrasing, options).alias("text"), prompt=pl.lit(number, pl.Int32)
        )
        for number, phrasing in enumerate(options.phrasings or (None,))
    ]
    key = pl.format("{}/{}", "image_id" if options.describe else "question_id", "prompt")
    worded = pl.concat(parts).sort("row", "prompt").drop("row")
    return AskPlan(worded.with_columns(key=key), paths, options.range)


def _worded(frame: pl.DataFrame, phrasing: str | None, options: AskOptions) -> pl.Expr:
    """The text of questions or instructions in other words; None for their own."""
    if phrasing is None:
        return pl.col("text")
    if options.describe:
        return pl.lit(phrasing)
    texts = {task: question_text(phrasing, task) for task in frame["task"].unique()}
    return pl.col("task").replace_strict(texts)
