"""Suite, images and a vision-language model -> a file of answers, or of captions."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from nooch.answers import RULES
from nooch.asking.asked_requests import AskOptions, AskPlan, Reply, plan_requests
from nooch.asking.endpoint_answers import EndpointOptions, endpoint_replies, request_fields
from nooch.asking.model_answers import model_replies, settled
from nooch.challenge import Suite
from nooch.data import Dataset
from nooch.errors import check_one_of
from nooch.files import RESUME, Place, check_output_file, replacing, writing
from nooch.models.vision_language import find_vlm
from nooch.shared_types import Map, Progress, no_progress, options_from, tracked
from nooch.version import __version__
from nooch.work_folder import held, key_of, remove_folder, remove_leftovers, work_folder

__all__ = ["AskedFile", "ask"]

_DOING = "asking these questions"


@dataclass(frozen=True, eq=False)
class AskedFile:
    """The rows that were written; what they depend on, which is the Parquet file's metadata
    ``nooch``, too; and notes.
    """

    frame: pl.DataFrame
    made: Mapping[str, Any]
    notes: list[str]


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

    Killed, it keeps the replies of finished parts next to ``out``, and resumes there.

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
    options, target = options_from(AskOptions, options, named), Path(out).absolute()
    check_one_of("ending of a file of answers", target.suffix, (".parquet",))
    check_output_file(target, overwrite=options.overwrite)
    plan = plan_requests(suite, data, options)
    requests = plan.requests
    replies: Callable[[Path], Iterable[Reply]]
    if endpoint is None:
        found, options = find_vlm(str(model)), settled(options)
        kept = {name: getattr(options, name) for name in ("precision", "batch", "most_tokens")}
        made = {"model": found.name, "sha256": found.identity, **kept}
        made["device"] = options.device.partition(":")[0]
        replies = partial(model_replies, requests, found, options, map=map)
    else:
        server = EndpointOptions(endpoint) if isinstance(endpoint, str) else endpoint
        fields = request_fields(str(model), options)
        made = {**fields, "endpoint": server.url, "max_side": server.max_side}
        replies = partial(endpoint_replies, requests, fields, server)
    made |= {"nooch": __version__, "prompts": list(options.phrasings)}
    asked = key_of([[request.key, str(request.image), request.text] for request in requests])
    folder = work_folder(target, "asking", [made, asked])
    with held(folder, _DOING), writing(folder, RESUME):
        tracked_replies = tracked(replies(folder), len(requests), "asking", progress)
        frame = _joined(plan, tracked_replies, describe=options.describe)
        with replacing(target) as partial_file:
            frame.write_parquet(partial_file, metadata={"nooch": json.dumps(made)})
        remove_folder(folder)
    remove_leftovers(target, "asking", _DOING)
    return AskedFile(frame, made, [] if options.describe else _notes(frame))


def _joined(plan: AskPlan, replies: Iterable[Reply], *, describe: bool) -> pl.DataFrame:
    """What was asked, and what was replied; images without a caption are left out."""
    rows = [(reply.key, reply.answer, reply.probability, reply.mass) for reply in replies]
    kinds = {"key": pl.String, "answer": pl.String, "probability": pl.Float64, "mass": pl.Float64}
    replied = pl.DataFrame(rows, kinds, orient="row")
    frame = plan.frame.join(replied, on="key", how="left", maintain_order="left").drop("key")
    if describe:
        return frame.select("image_id", "text", "prompt", caption="answer").drop_nulls("caption")
    return frame


def _notes(frame: pl.DataFrame) -> list[str]:
    """How sure the answers are, and how often phrasings disagree."""
    notes, unsure = [], int((frame["mass"] < 0.5).sum())
    if unsure:
        notes.append(
            f"in {unsure:,} of {len(frame):,} answers yes and no have less than half of the"
            " probability: the model would rather say something else"
        )
    if (phrasings := frame["prompt"].n_unique()) > 1:
        word = pl.col("answer").map_elements(RULES["word"], pl.Boolean)
        yes = pl.coalesce(pl.col("probability") > 0.5, word)
        kinds = frame.group_by("question_id").agg(yes.drop_nulls().n_unique().alias("yes"))["yes"]
        split = int((kinds > 1).sum())
        notes.append(
            f"the {phrasings} phrasings disagree on {split:,} of {len(kinds):,} questions"
            f" ({100 * split / len(kinds):.1f} %)"
        )
    if words := frame["probability"].null_count():
        notes.append(
            f"{words:,} of {len(frame):,} answers have no probability, so that nooch evaluate reads"
            " the words of all"
        )
    return notes
