"""Suite, images and a vision-language model -> a file of answers, or of captions."""

from __future__ import annotations

import builtins
import glob
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

import polars as pl
from msgspec import Meta

from nooch.base.calls import Count, Map, Progress, Seed, checked, no_progress, tracked
from nooch.base.disk import locked
from nooch.base.errors import InputError, ParameterError, check_one_of, some_of
from nooch.base.files import RESUME, check_output_file, replacing, writing
from nooch.base.limits import limited_threads
from nooch.base.version import __version__
from nooch.base.work_folder import Steps, held, key_of, remove_folder, work_folder
from nooch.data import Dataset
from nooch.data.readers.image_files import UNREADABLE, UPRIGHT, rgb_image
from nooch.evaluation.answer_rules import (
    ends_reasoning,
    opens_reasoning,
    read_verdicts,
    template_opens,
)
from nooch.evaluation.answer_words import AskedQuestion
from nooch.inference.batch_files import BATCH_TOKENS, BATCH_URL, batch_replies, write_batch
from nooch.inference.endpoint import (
    THINKING_TOKENS,
    YES_NO_TOKENS,
    Endpoint,
    endpoint_replies,
    request_fields,
)
from nooch.inference.requests import CAPTION_TOKENS, AskPlan, Reply, Request, plan_requests
from nooch.models.devices import choose_device, memory_limits
from nooch.models.images import Decoding, dark_notes, refuse_broken
from nooch.models.pixel_batches import read_in_order
from nooch.models.sources import ModelSource, silently
from nooch.models.vision_language import Loading, VisionLanguageModel, find_vlm, load_vlm
from nooch.suites import Suite
from nooch.suites.questions import PER_SET, TEMPLATE

_BATCHES = 8
"""Batches after which replies are kept: what a kill can cost."""


class Computing(NamedTuple):
    """Settings of a local model's replies; see ``nooch.ask``."""

    device: str
    precision: str
    batch: int
    threads: int | None
    most_tokens: int
    describe: bool
    temperature: float | None
    loading: Loading

    @classmethod
    def settled(cls, device: str, precision: str, *others: Any) -> Self:
        """With the device and the precision that ``auto`` means here."""
        if others[-1].device_map and device != "auto":
            problem = "`device` has no effect with `device_map`"
            raise ParameterError(problem, remedy="leave one of the two out")
        device = choose_device(device)
        usual = "float32" if device == "cpu" else "bf16"
        return cls(device, usual if precision == "auto" else precision, *others)


def model_replies(
    requests: Sequence[Request], source: ModelSource, options: Computing, folder: Path, map: Map
) -> Iterator[Reply]:
    """Replies in the order of requests; finished parts are kept in a folder of these requests.
    Raises InputError: images that cannot be read, or a model that cannot reply.
    """
    size = options.batch * _BATCHES
    parts = [requests[start : start + size] for start in range(0, len(requests), size)]
    try:
        for replies in map(partial(_kept, source, options, folder), enumerate(parts)):
            yield from replies
    finally:
        # a model may fill a GPU
        _loaded.cache_clear()


def _kept(
    source: ModelSource, options: Computing, folder: Path, part: tuple[int, Sequence[Request]]
) -> list[Reply]:
    name, answered = f"{part[0]:07d}.msgpack", partial(_answered, source, options, part[1])
    replies: list[Reply] = Steps(folder).get(name, answered, list[Reply])
    return replies


def _answered(source: ModelSource, options: Computing, requests: Sequence[Request]) -> list[Reply]:
    size, replies = options.batch, []
    batches = [requests[start : start + size] for start in range(0, len(requests), size)]
    with limited_threads(options.threads), silently(), memory_limits(size, "asking"):
        warm, bf16 = options.temperature, options.precision == "bf16"
        yes_no = not options.describe and warm is None
        how = (options.device, bf16, yes_no, options.loading)
        model = _loaded(str(source.folder), source.identity, *how)
        # one reader: a tokenizer is not made for several threads
        inputs = read_in_order(partial(_read, model), batches, 1)
        for batch, content in zip(batches, inputs, strict=True):
            seed = int(key_of([r.key for r in batch]), 16) % 2**63
            most = options.most_tokens
            made = model.replies(content, most, yes_no=yes_no, temperature=warm, seed=seed)
            replies += [Reply(r.key, *reply) for r, reply in zip(batch, made, strict=True)]
    return replies


@lru_cache(maxsize=1)
def _loaded(
    folder: str, identity: str, device: str, bf16: bool, yes_no: bool, loading: Loading
) -> VisionLanguageModel:
    """The model: a process loads it once, not for every part."""
    vlm = find_vlm(folder, trust_remote_code=loading.trust_remote_code)
    if vlm.identity != identity:
        problem = f"the model has hash {vlm.identity} here, and {identity} where the work started"
        raise InputError(problem, where=folder, allowed="the same model on all machines")
    model = load_vlm(vlm, device, bf16=bf16, yes_no=yes_no, loading=loading)
    if opens_reasoning(model.prompt("Is it dark?")):
        problem = "the chat template opens a block of reasoning: the next token is not an answer"
        remedy = "serve it and ask it there: `endpoint`, and `max_tokens` such as 4096"
        raise InputError(problem, where=folder, remedy=remedy)
    return model


def _read(model: VisionLanguageModel, requests: Sequence[Request]) -> Any:
    """Inputs of a model. Raises InputError if an image cannot be read."""
    images, broken = {}, []
    for path, value_range in dict.fromkeys((r.image, r.range) for r in requests):
        try:
            images[path] = rgb_image(path, value_range)
        except UNREADABLE as error:
            broken.append(f"{path}: {error}")
    refuse_broken(broken)
    return model.inputs([images[r.image] for r in requests], [r.text for r in requests])


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
    out: str | Path,
    *,
    model: str | Path,
    endpoint: str | Endpoint | None = None,
    to_batch: str | Path | None = None,
    from_batch: Sequence[str | Path] = (),
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
    device: str = "auto",
    device_map: Annotated[str, ("auto", "balanced", "sequential")] | None = None,
    precision: Annotated[str, ("auto", "float32", "bf16")] = "auto",
    quantize: Annotated[str, ("4bit", "8bit")] | None = None,
    trust_remote_code: bool = False,
    batch: Count = 8,
    threads: Count | None = None,
    overwrite: bool = False,
    map: Map = builtins.map,
    progress: Progress = no_progress,
) -> AskedFile:
    """Ask a vision-language model about the images of a suite's challenge sets.

    Killed, it keeps the replies of finished parts next to ``out``, and resumes there. Replies that
    other questions, or another model, left there stay, and a note names their folder.

    Args:
        suite: the suite.
        out: file to write, ``.parquet``: ``question_id, image_id, task, split, text, label,
            weight``, one column for each criterion, ``prompt, answer, probability, mass``; or
            ``image_id, text, prompt, caption``; and ``reasoning`` where a server sends it apart.
        model: a hub id ``owner/model``, or a folder with weights as safetensors. With
            ``endpoint``, its name there.
        endpoint: address of a server of OpenAI's protocol that has the model (in Python also an
            ``Endpoint``); the images are sent there. By default the model runs on this machine.
        to_batch: write the requests here, ``.jsonl``, in the format of OpenAI's batches, and ask
            nothing; files of at most 50,000 requests and 200 MB. With results of an earlier
            batch, only requests that have no reply there.
        from_batch: files of results of such a batch, in place of a server; all other options must
            be as they were.
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
        temperature: of these draws, above 0; by default 1.
        images: folder of images, if not the one that the dataset records.
        range: two values that become black and white, of images of more than 8 bits a channel.
        limit: this many of the questions (of captions: images), evenly spread, for a first try.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        device_map: spread the layers of a large model over all GPUs and the memory of this machine,
            with accelerate: ``auto``, ``balanced`` or ``sequential``.
        precision: ``float32``, ``bf16``, or ``auto``: bf16 on a GPU.
        quantize: load the weights as ``4bit`` or ``8bit``, with bitsandbytes. Weights that are
            quantized already (bitsandbytes, AWQ, GPTQ) need only the package of their method.
        trust_remote_code: run Python code that comes with the model, which can do anything on this
            machine. Without it, none is run.
        batch: requests in a batch, at least 1.
        threads: CPU threads of a job, for concurrent jobs; by default as torch chooses.
        overwrite: replace an earlier output.
        map: where parts are asked, such as an engine's; all workers must see images and ``out``.
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
    results = [Path(file).absolute() for file in from_batch]
    if in_batch := to_batch is not None or bool(results):
        endpoint = endpoint or BATCH_URL
    replies: Callable[[Path], Iterable[Reply]]
    if endpoint is None:
        source = find_vlm(str(model), trust_remote_code=trust_remote_code)
        loading = Loading(trust_remote_code, device_map, quantize)
        usual = CAPTION_TOKENS if describe else YES_NO_TOKENS if warm else 1
        most = (max_tokens or usual, describe, warm)
        options = Computing.settled(device, precision, batch, threads, *most, loading)
        kept = {name: getattr(options, name) for name in ("precision", "batch", "most_tokens")}
        made = {"model": source.name, "sha256": source.identity, **kept, "temperature": warm or 0}
        made["device"] = options.device.partition(":")[0]
        made |= {name: value for name, value in loading._asdict().items() if value}
        replies = partial(model_replies, requests, source, options, map=map)
    else:
        server = Endpoint(endpoint) if isinstance(endpoint, str) else endpoint
        how = {"describe": describe, "temperature": warm}
        sent, more = _sent(str(model), server, max_tokens, how, in_batch=in_batch)
        made = {**sent, "endpoint": "batch" if in_batch else server.url}
        made |= {"max_side": server.max_side, "more_tokens": more}
        if to_batch is not None:
            asked = (requests, sent, server, Path(to_batch), results)
            made["files"] = write_batch(*asked, overwrite=overwrite)
            return AskedFile(plan.frame.drop("key"), made, [])
        replies = (
            (lambda _: batch_replies(requests, sent, server, results))
            if in_batch
            else partial(
                endpoint_replies, requests, sent, server, more_tokens=more, describe=describe
            )
        )
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
            frame.write_parquet(partial_file, metadata={"nooch": json.dumps(made)})
        remove_folder(folder)
    told = dark_notes([*plan.paths.values()], Decoding(range=plan.range))
    told += plan.notes if describe else [*plan.notes, *_notes(frame)]
    left = target.parent.glob(f"{glob.escape(f'.{target.name}.asking')}-*")
    if others := sorted(str(other) for other in left if other.is_dir()):
        told.append(
            f"replies to other questions, or of another model, for this file are kept in"
            f" {some_of(others)}: give that command again, with another `out`, or remove them"
        )
    return AskedFile(frame, made, told)


def _temperature(sample: int | None, temperature: float | None) -> float | None:
    """The temperature of samples, if there are any. ParameterError if it has no effect."""
    if sample is None and temperature is not None:
        problem, remedy = "`temperature` has no effect without `sample`", "give both, or none"
        raise ParameterError(problem, remedy=remedy)
    return None if sample is None else temperature or 1.0


def _sent(
    model: str, server: Endpoint, max_tokens: int | None, how: Mapping[str, Any], *, in_batch: bool
) -> tuple[dict[str, Any], int | None]:
    """Fields of each request, and the length with which one is sent again; see ``nooch.ask``."""
    extra, usual = server.extra_fields, BATCH_TOKENS if in_batch and not how["describe"] else None
    given = max_tokens or {"max_tokens", "max_completion_tokens"} & extra.keys()
    more = None if given or in_batch else THINKING_TOKENS
    settings = {**how, "logprobs": server.logprobs, "extra": extra}
    return request_fields(model, max_tokens or usual, **settings), more


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
            f"in {unsure:,} of {n:,} answers yes and no have less than half of the probability at"
            " the answer: their words count; `max_tokens` 16 gives more of these"
        )
    opened = template_opens(texts)
    thoughts = frame["reasoning"] if "reasoning" in frame.columns else [None] * n
    cut = sum(
        opens_reasoning(text) or (opened and not ends_reasoning(text)) or bool(thought and not text)
        for text, thought in zip(texts, thoughts, strict=True)
    )
    if cut:
        notes.append(
            f"{cut:,} of {n:,} answers are cut off within their reasoning, and unknown: ask again"
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
        notes.append(f"{words_alone:,} of {n:,} answers have no probability: their words count")
    return notes
