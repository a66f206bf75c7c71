"""Questions about a suite's images as requests to a model, one for each phrasing."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import polars as pl

from nooch.base.errors import ParameterError
from nooch.base.limits import spread
from nooch.data import Dataset, ImageId, as_dataset
from nooch.data.readers.image_files import files_of
from nooch.suites import Suite, as_suite
from nooch.suites.questions import (
    Draw,
    check_template,
    draw_questions,
    load_questions,
    question_text,
    with_files,
)

_DESCRIBE = "Describe this image."
"""AMBER's instruction (Wang et al. 2023)."""
CAPTION_TOKENS = 128
"""The length of a caption, by default."""
YES_NO_TOKENS = 16
"""Length of a yes or no, by default, where words count."""


@dataclass(frozen=True)
class Request:
    """A question or instruction about an image file; ``key`` is ``question_id/prompt``, for
    captions ``image_id/prompt``, of samples also ``/sample``; ``range`` is as in ``nooch.ask``.
    """

    key: str
    image: Path
    text: str
    range: tuple[float, float] | None = None
    sample: int | None = None


@dataclass(frozen=True)
class Reply:
    """A model's reply: its words; at the answer's token P(yes) / (P(yes) + P(no)), and P(yes) +
    P(no); its reasoning, where a server sends it apart. None where that is not known.
    """

    key: str
    answer: str | None = None
    probability: float | None = None
    mass: float | None = None
    reasoning: str | None = None


class Asking(NamedTuple):
    """Requests and the form of their replies: captions if ``describe``, else yes or no; the longest
    in tokens; a temperature of samples; and whether an earlier output is replaced.
    """

    requests: Sequence[Request]
    describe: bool = False
    max_tokens: int | None = None
    temperature: float | None = None
    overwrite: bool = False


class Answering(NamedTuple):
    """Facts that the replies depend on, and a function of a folder of intermediate files that gives
    the replies; None if only requests were written.
    """

    made: Mapping[str, Any]
    replies: Callable[[Path], Iterable[Reply]] | None


class Answerer(Protocol):
    """A model that is asked: frozen settings and one method."""

    def answering(self, asking: Asking) -> Answering:
        """The replies to these requests. Raises InputError or ParameterError: it cannot be."""


@dataclass(frozen=True, eq=False)
class AskPlan:
    """Requests: a row for each request with ``key``, the columns of the questions (of captions
    ``image_id, text``), ``prompt``, the number of the phrasing, and ``sample`` if any; the file of
    each image; and the templates or instructions, none where a file of questions has the texts.
    """

    frame: pl.DataFrame
    paths: Mapping[ImageId, Path]
    phrasings: Sequence[str]
    range: tuple[float, float] | None = None
    notes: Sequence[str] = ()

    @property
    def requests(self) -> list[Request]:
        """The requests; those about an image follow each other."""
        sampled = ["sample"] if "sample" in self.frame.columns else []
        rows = self.frame.select("key", "image_id", "text", *sampled).iter_rows()
        return [
            Request(key, self.paths[image_id], text, self.range, *sample)
            for key, image_id, text, *sample in rows
        ]

    @property
    def facts(self) -> dict[str, int]:
        """Numbers of questions, images and requests; bytes of the image files, and of the images of
        all requests as they are sent to a server.
        """
        sizes = {image_id: path.stat().st_size for image_id, path in self.paths.items()}
        sent = sum(4 * math.ceil(sizes[image_id] / 3) for image_id in self.frame["image_id"])
        own = {"question_id", "image_id"} & {*self.frame.columns}
        questions = self.frame.n_unique(max(own))
        counts = {"questions": questions, "images": len(self.paths), "requests": len(self.frame)}
        return {**counts, "bytes": sum(sizes.values()), "bytes_sent": sent}


def plan_requests(
    suite: Suite | str | Path,
    data: Dataset | str | Path | None,
    *,
    per_set: int | None,
    template: str,
    seed: int,
    criteria: Sequence[str],
    tasks: Sequence[str],
    splits: Sequence[str],
    questions: str | Path | None,
    prompts: Sequence[str],
    describe: bool,
    images: str | Path | None,
    range: tuple[float, float] | None,
    limit: int | None,
    sample: int | None,
) -> AskPlan:
    """Requests that ``nooch.ask`` would send; raises as it does, before a model is needed."""
    draw, usual = Draw(per_set, template, seed), Draw()
    given = [name for name in Draw._fields if getattr(draw, name) != getattr(usual, name)]
    choices = {"criteria": criteria, "tasks": tasks, "splits": splits}
    given += [name for name, value in choices.items() if value]
    rewords = bool(prompts or describe)
    idle = given if questions else [name for name in given if rewords and name == "template"]
    if idle:
        problem = f"`{idle[0]}` has no effect with given questions or prompts"
        raise ParameterError(problem, give={idle[0]: None})
    for prompt in () if describe else prompts:
        check_template(prompt, "`prompts`")
    own = () if questions else (check_template(template),)
    suite = as_suite(suite)
    # a suite's own wordings are texts of its questions
    own = () if suite.prompts and template == usual.template else own
    phrasings = prompts or ((_DESCRIBE,) if describe else own)
    data = suite.source_dataset() if data is None else as_dataset(data)
    value_range = range or (data.value_range if data else None)
    if questions is None:
        keys = suite.select_keys(criteria, tasks, splits or suite.splits_to_score())
        drawn = with_files(draw_questions(suite, keys, draw), suite, data, images)
        frame, notes = drawn.frame, drawn.notes
    else:
        given_ones = load_questions(questions)
        frame, notes = given_ones.frame, given_ones.notes
    if describe or prompts:
        once = ["image_id"] if describe else ["image_id", "task"]
        frame = frame.unique(once, keep="first", maintain_order=True)
    frame = frame[spread(len(frame), limit)]
    ids = frame["image_id"].unique(maintain_order=True).to_list()
    names = dict(frame.select("image_id", "image").iter_rows()) if "image" in frame.columns else {}
    # absolute, for workers in other folders
    files = (file.absolute() for file in files_of(ids, data, images, names))
    paths = dict(zip(ids, files, strict=True))
    if describe:
        frame = frame.select("image_id", text=pl.lit(""))
    numbered = frame.drop("image", strict=False).with_row_index("row")
    parts = [
        numbered.with_columns(
            _worded(frame, phrasing, describe=describe).alias("text"),
            prompt=pl.lit(number, pl.Int32),
        )
        for number, phrasing in enumerate(phrasings or (None,))
    ]
    key = pl.format("{}/{}", "image_id" if describe else "question_id", "prompt")
    worded = pl.concat(parts).sort("row", "prompt").drop("row")
    if sample is not None:
        numbers = pl.DataFrame({"sample": [*builtins.range(sample)]}, {"sample": pl.Int32})
        worded, key = worded.join(numbers, how="cross"), pl.format("{}/{}", key, "sample")
    return AskPlan(worded.with_columns(key=key), paths, phrasings, value_range, notes)


def _worded(frame: pl.DataFrame, phrasing: str | None, *, describe: bool) -> pl.Expr:
    """The text of questions or instructions in other words; None for their own."""
    if phrasing is None:
        return pl.col("text")
    if describe:
        return pl.lit(phrasing)
    texts = {task: question_text(phrasing, task) for task in frame["task"].unique()}
    return pl.col("task").replace_strict(texts)
