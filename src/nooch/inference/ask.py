"""Suite, images and a vision-language model -> a file of answers, or of captions."""

from __future__ import annotations

import builtins
import glob
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from nooch.base.errors import check_one_of, some_of
from nooch.base.files import RESUME, Place, check_output_file, replacing, writing
from nooch.base.shared_types import Map, Progress, no_progress, options_from, tracked
from nooch.base.version import __version__
from nooch.base.work_folder import held, key_of, remove_folder, work_folder
from nooch.data import Dataset
from nooch.data.readers.image_opening import UPRIGHT
from nooch.evaluation.answer_rules import read_verdicts
from nooch.evaluation.answer_text import closes_reasoning, ends_reasoning, opens_reasoning
from nooch.evaluation.answer_words import AskedQuestion
from nooch.inference.endpoint import EndpointOptions, endpoint_replies, request_fields
from nooch.inference.model_answers import model_replies, settled
from nooch.inference.requests import AskOptions, AskPlan, Reply, plan_requests
from nooch.models.image_decoding import Decoding, dark_notes
from nooch.models.vision_language import find_vlm
from nooch.suites import Suite

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

    Killed, it keeps the replies of finished parts next to ``out``, and resumes there. Replies that
    other questions, or another model, left there stay, and a note names their folder.

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
    made |= {"nooch": __version__, "prompts": list(options.phrasings), "orientation": UPRIGHT}
    if options.range is not None:
        made["range"] = list(options.range)
    asked = key_of([[request.key, str(request.image), request.text] for request in requests])
    folder = work_folder(target, "asking", [made, asked])
    writer = target.with_name(f".{target.name}.asking")
    with held(writer, "writing this file"), held(folder, _DOING), writing(folder, RESUME):
        # another process may have written it meanwhile
        check_output_file(target, overwrite=options.overwrite)
        tracked_replies = tracked(replies(folder), len(requests), "asking", progress)
        frame = _joined(plan, tracked_replies, describe=options.describe)
        with replacing(target) as partial_file:
            frame.write_parquet(partial_file, metadata={"nooch": json.dumps(made)})
        remove_folder(folder)
    told = dark_notes([*plan.paths.values()], Decoding(range=options.range))
    told += [] if options.describe else _notes(frame)
    left = target.parent.glob(f"{glob.escape(writer.name)}-*")
    if others := sorted(str(other) for other in left if other.is_dir()):
        told.append(
            f"replies to other questions, or of another model, for this file are kept in"
            f" {some_of(others)}: give that command again, with another `out`, or remove them"
        )
    return AskedFile(frame, made, told)


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
    """How sure the answers are, which were cut off, and how often phrasings disagree."""
    notes, n = [], len(frame)
    texts = frame["answer"].fill_null("").to_list()
    if unsure := int((frame["mass"] < 0.5).sum()):
        notes.append(
            f"in {unsure:,} of {n:,} answers yes and no have less than half of the probability at"
            " the answer: their words count; `max_tokens` 16 gives more of these"
        )
    opened = any(map(closes_reasoning, texts))
    if cut := sum(opens_reasoning(t) or (opened and not ends_reasoning(t)) for t in texts):
        notes.append(
            f"{cut:,} of {n:,} answers are cut off within their reasoning, and unknown: ask again"
            " with more `max_tokens`, such as 4096"
        )
    if (phrasings := frame["prompt"].n_unique()) > 1:
        asked = [AskedQuestion(*of) for of in frame.select("text", "task").iter_rows()]
        words = pl.Series(read_verdicts(texts, asked), dtype=pl.Boolean)
        sure = pl.when(pl.col("mass").fill_null(1.0) >= 0.5).then("probability")
        yes = pl.coalesce(sure > 0.5, words)
        of_questions = frame.with_columns(yes=yes).group_by("question_id")
        kinds = of_questions.agg(pl.col("yes").drop_nulls().n_unique())["yes"]
        split = int((kinds > 1).sum())
        notes.append(
            f"the {phrasings} phrasings disagree on {split:,} of {len(kinds):,} questions"
            f" ({100 * split / len(kinds):.1f} %)"
        )
    if words_alone := frame["probability"].null_count():
        notes.append(f"{words_alone:,} of {n:,} answers have no probability: their words count")
    return notes
