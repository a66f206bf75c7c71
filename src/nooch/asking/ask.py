"""Suite, images and a vision-language model -> a file of answers, or of captions."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from nooch.answers import RULES
from nooch.asking.asked_requests import AskOptions, AskPlan, Reply, plan_requests
from nooch.asking.chat_completions import completion_fields
from nooch.asking.endpoint_answers import EndpointOptions, endpoint_replies
from nooch.asking.model_answers import LocalModel, model_replies
from nooch.challenge import Suite, as_suite
from nooch.data import Dataset, as_dataset
from nooch.errors import check_one_of
from nooch.files import RESUME, Place, check_output_file, replacing, writing
from nooch.options import options_from
from nooch.shared_types import Map, Progress, no_progress
from nooch.version import __version__
from nooch.work_folder import held, key_of, remove_folder, remove_leftovers, work_folder

__all__ = ["ANSWER_FILES", "AskedFile", "ask", "ask_plan"]

ANSWER_FILES = (".parquet",)
_DOING = "asking these questions"
_LOW = 0.5
"""Share of the probability that yes and no should have together."""


@dataclass(frozen=True, eq=False)
class AskedFile:
    """Answers, or captions, as they were written.

    Attributes:
        out: the file.
        frame: its rows.
        made: what they depend on: model, precision, prompts, version of nooch; it is the Parquet
            file's metadata ``nooch``, too.
        notes: what a user should know.
    """

    out: Path
    frame: pl.DataFrame
    made: Mapping[str, Any]
    notes: list[str] = field(default_factory=list)


def ask_plan(
    suite: Suite | str | Path,
    *,
    options: AskOptions | None = None,
    data: Dataset | Place | str | None = None,
    **named: Any,
) -> AskPlan:
    """What ``ask`` would ask, without asking; the parameters are those of ``ask``."""
    suite, options = as_suite(suite), options_from(AskOptions, options, named)
    return plan_requests(suite, suite.found_in() if data is None else as_dataset(data), options)


def ask(
    suite: Suite | str | Path,
    out: str | Path,
    *,
    model: str | Path,
    endpoint: str | EndpointOptions | None = None,
    options: AskOptions | None = None,
    data: Dataset | Place | str | None = None,
    map: Map = builtins.map,
    progress: Progress = no_progress,
    **named: Any,
) -> AskedFile:
    """Ask a vision-language model about the images of a suite's challenge sets.

    Interrupted or killed, it keeps the replies so far next to ``out``, and resumes there.

    Args:
        suite: the suite.
        out: file to write, ``.parquet``: ``question_id, image_id, task, split, text, label,
            weight``, one column for each criterion, ``prompt, answer, probability, mass``; or
            ``image_id, text, prompt, caption``.
        model: a hub id ``owner/model``, or a folder with weights as safetensors. No code that
            comes with a model is run. With ``endpoint``, its name there.
        endpoint: address of a server of OpenAI's protocol that has the model, or its options; the
            images are sent there. By default the model runs on this machine.
        options: which questions are asked, in which words, and how the model computes.
        data: the dataset of the suite; by default the one that it records.
        map: where parts are asked, such as an engine's; all workers must see images and ``out``.
        progress: called with what is done, how much of it, and of how much.
        named: single options by name, such as ``per_set=10``.

    Raises:
        InputError: images that are missing or broken, or a model that answers no questions about
            images, or has no tokens that tell yes from no.
        ParameterError: another ending than ``.parquet``, or names that the suite does not have.
        OutputError: the file exists (and ``overwrite`` is false) or cannot be written.
        NoochError: a server that refuses or fails; the replies so far are kept.
    """
    options = options_from(AskOptions, options, named)
    target = Path(out).absolute()
    check_one_of("ending of a file of answers", target.suffix, ANSWER_FILES)
    check_output_file(target, overwrite=options.overwrite)
    plan = ask_plan(suite, options=options, data=data)
    report = partial(progress, "asking")
    replies: Callable[[Path], Iterable[Reply]]
    if endpoint is None:
        local = LocalModel.of(str(model), options)
        made = local.describe_run()
        replies = partial(model_replies, plan.requests, local, map=map, progress=report)
    else:
        server = EndpointOptions(endpoint) if isinstance(endpoint, str) else endpoint
        fields = completion_fields(str(model), options)
        made = {**fields, "endpoint": server.url, "max_side": server.max_side}
        replies = partial(endpoint_replies, plan.requests, fields, server, progress=report)
    made = {"nooch": __version__, **made, "prompts": list(options.phrasings)}
    folder = work_folder(target, "asking", {**made, "requests": _hash(plan)})
    with held(folder, _DOING), writing(folder, RESUME):
        frame = _joined(plan, replies(folder), describe=options.describe)
        with replacing(target) as partial_file:
            frame.write_parquet(partial_file, metadata={"nooch": json.dumps(made)})
        remove_folder(folder)
    remove_leftovers(target, "asking", _DOING)
    return AskedFile(Path(out), frame, made, _notes(plan, frame))


def _hash(plan: AskPlan) -> str:
    """Of everything that is asked: keys, files and texts."""
    return key_of([[r.key, str(r.image), r.text] for r in plan.requests])


def _joined(plan: AskPlan, replies: Iterable[Reply], *, describe: bool) -> pl.DataFrame:
    """What was asked, and what was replied; images without a caption are left out."""
    rows = [(r.key, r.answer, r.probability, r.mass) for r in replies]
    floats = dict.fromkeys(("probability", "mass"), pl.Float64)
    schema = {"key": pl.String, "answer": pl.String, **floats}
    table = pl.DataFrame(rows, schema, orient="row")
    frame = plan.frame.join(table, on="key", how="left", maintain_order="left").drop("key")
    if not describe:
        last = ["prompt", *table.columns[1:]]
        return frame.select(pl.exclude(last), *last)
    frame = frame.drop_nulls("answer").rename({"answer": "caption"})
    return frame.select("image_id", "text", "prompt", "caption")


def _notes(plan: AskPlan, frame: pl.DataFrame) -> list[str]:
    """What a user should know: which questions there were, and how sure the answers are."""
    notes = []
    if plan.hard_only:
        notes.append("the suite holds hard images alone, so no question is about an easy one")
    if "mass" not in frame.columns:
        return notes
    unsure = frame.filter(pl.col("mass") < _LOW).height
    if unsure:
        notes.append(
            f"in {unsure:,} of {frame.height:,} answers yes and no have less than half of the"
            " probability: the model would rather say something else"
        )
    if (phrasings := frame["prompt"].n_unique()) > 1:
        split = _disagreements(frame)
        asked = frame["question_id"].n_unique()
        notes.append(
            f"the {phrasings} phrasings disagree on {split:,} of {asked:,} questions"
            f" ({100 * split / asked:.1f} %)"
        )
    return notes


def _disagreements(frame: pl.DataFrame) -> int:
    """Questions with answers of both kinds, as far as answers are yes or no."""
    word = pl.col("answer").map_elements(RULES["word"], pl.Boolean)
    yes = pl.coalesce(pl.col("probability") > 0.5, word)
    kinds = frame.group_by("question_id").agg(yes=yes.drop_nulls().n_unique())
    return kinds.filter(pl.col("yes") > 1).height
