"""Suite, images and a vision-language model -> a file of answers, or of captions."""

from __future__ import annotations

import glob
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from msgspec import Meta

from nooch.base.calls import Count, Progress, Seed, checked, no_progress, tracked
from nooch.base.disk import locked
from nooch.base.errors import ParameterError, check_one_of, some_of
from nooch.base.files import RESUME, check_output_file, replacing, writing
from nooch.base.version import __version__
from nooch.base.work_folder import held, remove_folder, work_folder
from nooch.data import Dataset, parquet_bytes
from nooch.data.readers.image_files import UPRIGHT
from nooch.evaluation.answer_rules import (
    ends_reasoning,
    opens_reasoning,
    read_verdicts,
    template_opens,
)
from nooch.evaluation.answer_words import AskedQuestion
from nooch.inference.requests import Answerer, Asking, AskPlan, Reply, plan_requests
from nooch.models.images import Decoding, dark_notes
from nooch.suites import Suite
from nooch.suites.questions import PER_SET, TEMPLATE

_DOING = "running nooch ask on these questions"


@dataclass(frozen=True, eq=False)
class AskedFile:
    """The rows that were written; what they depend on, which is also the Parquet file's metadata
    ``nooch``; and notes.
    """

    frame: pl.DataFrame
    made: Mapping[str, Any]
    notes: list[str]


@checked
def ask(
    suite: Suite | str | Path,
    answerer: Answerer,
    out: str | Path,
    *,
    data: Dataset | str | Path | None = None,
    per_set: Count | None = PER_SET,
    template: str = TEMPLATE,
    seed: Seed = 0,
    criteria: Sequence[str] = (),
    tasks: Sequence[str] = (),
    splits: Sequence[str] = (),
    questions: str | Path | None = None,
    prompts: Sequence[str] = (),
    describe: bool = False,
    max_tokens: Count | None = None,
    sample: Count | None = None,
    temperature: Annotated[float, Meta(gt=0)] | None = None,
    images: str | Path | None = None,
    range: tuple[float, float] | None = None,
    limit: Count | None = None,
    overwrite: bool = False,
    progress: Progress = no_progress,
) -> AskedFile:
    """Ask a vision-language model about the images of a suite's challenge sets.

    Killed, it keeps the replies of finished parts next to ``out``, and resumes there. Replies that
    other questions, or another model, left there stay, and a note names their folder.

    Args:
        suite: the suite.
        answerer: the model: a ``LocalModel``, an ``Endpoint``, or a ``Batch``.
        out: file to write, ``.parquet``: ``question_id, image_id, task, split, text, label,
            weight``, one column for each criterion, ``prompt, answer, probability, mass``; or
            ``image_id, text, prompt, caption``; and ``reasoning`` where a server sends it apart.
        data: the dataset of the suite; by default the one that it records.
        per_set: images drawn for each task and combination of label and subsets, at least 1;
            all (in Python None) for all of them.
        template: the question, with ``{a}`` for the article and ``{task}``.
        seed: seed of the draw, at least 0; a task's draw depends on no other task.
        criteria: names of criteria; by default all of the suite.
        tasks: names of tasks; by default all of the suite.
        splits: names of splits; by default ``test``, or the only one.
        questions: file of questions from ``nooch.export``, asked in place of drawn ones.
        prompts: several phrasings in place of ``template``; with ``describe``, instructions.
        describe: ask for a caption of each image, not for yes or no.
        max_tokens: longest reply, in tokens; by default 1 token for yes or no (16 where a server is
            asked), 128 for a caption, and on a server 16,384 where these end before the answer;
            in a batch 4,096 for yes or no.
        sample: replies to each question, drawn at random: the share of yes is its probability.
        temperature: temperature of these random replies, above 0; by default 1.
        images: folder of images, if not the one that the dataset records.
        range: for images of more than 8 bits per channel, the values that become black and white.
        limit: number of questions (for captions: of images), evenly spread, for a first try.
        overwrite: replace an earlier output.
        progress: called with what is done, how much of it, and of how much.

    Raises:
        InputError: images that are missing or broken, or a model that answers no questions about
            images, or has no tokens that tell yes from no.
        ParameterError: another ending than ``.parquet``, or names that the suite does not have.
        OutputError: the file exists (and ``overwrite`` is false) or cannot be written.
        NoochError: a server that refuses or fails; the replies so far are kept.
    """
    target = Path(out).absolute()
    check_one_of("ending of a file of answers", target.suffix, (".parquet",))
    check_output_file(target, overwrite=overwrite)
    plan = plan_requests(
        suite, data, per_set=per_set, template=template, seed=seed, criteria=criteria, tasks=tasks,
        splits=splits, questions=questions, prompts=prompts, describe=describe, images=images,
        range=range, limit=limit, sample=sample,
    )  # fmt: skip
    warm = _temperature(sample, temperature)
    requests = plan.requests
    answering = answerer.answering(Asking(requests, describe, max_tokens, warm, overwrite))
    made, replies = dict(answering.made), answering.replies
    if replies is None:
        return AskedFile(plan.frame.drop("key"), made, [])
    made |= {"nooch": __version__, "prompts": list(plan.phrasings), "orientation": UPRIGHT}
    made |= {} if plan.range is None else {"range": list(plan.range)}
    texts = [[request.key, str(request.image), request.text] for request in requests]
    folder = work_folder(target, "asking", [made, texts])
    lock = locked(target.with_name(f".{target.name}.lock"), "writing this file", target)
    with held(folder, _DOING), lock, writing(folder, RESUME):
        # another process may have written it meanwhile
        check_output_file(target, overwrite=overwrite)
        tracked_replies = tracked(replies(folder), len(requests), "asking", progress)
        frame = _joined(plan, tracked_replies, describe=describe)
        with replacing(target) as partial_file:
            partial_file.write_bytes(parquet_bytes(frame, metadata={"nooch": json.dumps(made)}))
        remove_folder(folder)
    told = dark_notes([*plan.paths.values()], Decoding(range=plan.range))
    told += plan.notes if describe else [*plan.notes, *_notes(frame)]
    left = target.parent.glob(f"{glob.escape(f'.{target.name}.asking')}-*")
    if others := sorted(str(other) for other in left if other.is_dir()):
        told.append(
            "replies of earlier runs with other questions or models remain in"
            f" {some_of(others)}: repeat the earlier command with another `out`, or delete them"
        )
    return AskedFile(frame, made, told)


def _temperature(sample: int | None, temperature: float | None) -> float | None:
    """The temperature of samples, if there are any. ParameterError if it has no effect."""
    if sample is None and temperature is not None:
        problem = "`temperature` has no effect without `sample`"
        raise ParameterError(problem, give=({"sample": ...}, {"temperature": None}))
    return None if sample is None else temperature or 1.0


def _joined(plan: AskPlan, replies: Iterable[Reply], *, describe: bool) -> pl.DataFrame:
    """Requests and replies; images without a caption are left out."""
    numbers = ("probability", "mass")
    kinds = {f.name: pl.Float64 if f.name in numbers else pl.String for f in fields(Reply)}
    replied = pl.DataFrame([asdict(reply) for reply in replies], kinds)
    thoughts = ["reasoning"] if replied["reasoning"].count() else []
    replied = replied.select("key", "answer", "probability", "mass", *thoughts)
    frame = plan.frame.join(replied, on="key", how="left", maintain_order="left").drop("key")
    if describe:
        sampled = [name for name in frame.columns if name == "sample"]
        columns = ("image_id", "text", "prompt", *sampled, "caption", *thoughts)
        return frame.rename({"answer": "caption"}).select(columns).drop_nulls("caption")
    if "sample" in frame.columns:
        frame = frame.with_columns(_verdicts(frame).cast(pl.Float64).alias("probability"))
        share = pl.col("probability").fill_null(pl.col("probability").mean().over("question_id"))
        frame = frame.with_columns(share, mass=pl.lit(None, pl.Float64))
    return frame


def _verdicts(frame: pl.DataFrame) -> pl.Series:
    """Yes, no or null for the words of each answer."""
    questions = [AskedQuestion(*row) for row in frame.select("text", "task").iter_rows()]
    verdicts = read_verdicts(frame["answer"].fill_null("").to_list(), questions)
    return pl.Series("yes", verdicts, pl.Boolean)


def _notes(frame: pl.DataFrame) -> list[str]:
    """Notes on uncertain and truncated answers, and on disagreement of phrasings."""
    notes, n = [], len(frame)
    texts = frame["answer"].fill_null("").to_list()
    if unsure := int((frame["mass"] < 0.5).sum()):
        notes.append(
            f"yes and no have less than half of the probability in {unsure:,} of {n:,} answers,"
            " so their text is used; for longer texts: `max_tokens` 16"
        )
    opened = template_opens(texts)
    thoughts = frame["reasoning"] if "reasoning" in frame.columns else [None] * n
    cut = sum(
        opens_reasoning(text) or (opened and not ends_reasoning(text)) or bool(thought and not text)
        for text, thought in zip(texts, thoughts, strict=True)
    )
    if cut:
        notes.append(
            f"{cut:,} of {n:,} answers were cut off while reasoning and count as unknown: ask again"
            " with more `max_tokens`, such as 4096"
        )
    samples = frame["sample"].n_unique() if "sample" in frame.columns else 1
    if (phrasings := frame["prompt"].n_unique()) * samples > 1:
        words = _verdicts(frame)
        sure = pl.when(pl.col("mass").fill_null(1.0) >= 0.5).then("probability")
        yes = pl.coalesce(sure > 0.5, words)
        of_questions = frame.with_columns(yes=yes).group_by("question_id")
        kinds = of_questions.agg(pl.col("yes").drop_nulls().n_unique())["yes"]
        split = int((kinds > 1).sum())
        several = f"{phrasings} phrasings" if samples == 1 else f"{phrasings * samples} samples"
        notes.append(
            f"the {several} disagree on {split:,} of {len(kinds):,} questions"
            f" ({100 * split / len(kinds):.1f}%)"
        )
    if words_alone := frame["probability"].null_count():
        missing = f"the model gave no probability for {words_alone:,} of {n:,} answers"
        notes.append(f"{missing}; their text was used")
    return notes
