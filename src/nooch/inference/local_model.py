"""A vision-language model that answers on this machine, or where an engine's workers are."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from nooch.base.calls import Count, Map, Options
from nooch.base.errors import InputError, ParameterError
from nooch.base.limits import limited_threads
from nooch.base.work_folder import Steps, key_of
from nooch.data.readers.image_files import UNREADABLE, rgb_image
from nooch.evaluation.answer_rules import opens_reasoning
from nooch.inference.requests import (
    CAPTION_TOKENS,
    YES_NO_TOKENS,
    Answering,
    Asking,
    Reply,
    Request,
)
from nooch.models.devices import choose_device, memory_limits
from nooch.models.images import refuse_broken
from nooch.models.pixel_batches import read_in_order
from nooch.models.sources import ModelSource, silently
from nooch.models.vision_language import Loading, VisionLanguageModel, find_vlm, load_vlm

_BATCHES = 8
"""Batches after which replies are kept: what a kill can cost."""


@dataclass(frozen=True)
class LocalModel(Options):
    """A vision-language model that runs on this machine.

    Attributes:
        model: a hub id ``owner/model``, or a folder with weights as safetensors.
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
        map: where parts are asked, such as an engine's; all workers must see the images and the
            output.

    Raises:
        ParameterError: a setting that is not allowed.
    """

    model: str | Path
    device: str = "auto"
    device_map: Annotated[str, ("auto", "balanced", "sequential")] | None = None
    precision: Annotated[str, ("auto", "float32", "bf16")] = "auto"
    quantize: Annotated[str, ("4bit", "8bit")] | None = None
    trust_remote_code: bool = False
    batch: Count = 8
    threads: Count | None = None
    map: Map = builtins.map

    def answering(self, asking: Asking) -> Answering:
        """Replies of the model; see ``Answerer``."""
        source = find_vlm(str(self.model), trust_remote_code=self.trust_remote_code)
        if self.device_map and self.device != "auto":
            problem = "`device` has no effect with `device_map`"
            raise ParameterError(problem, give=({"device": None}, {"device_map": None}))
        warm, device = asking.temperature, choose_device(self.device)
        usual = CAPTION_TOKENS if asking.describe else YES_NO_TOKENS if warm else 1
        precision = "float32" if device == "cpu" else "bf16"
        options = Computing(
            device,
            precision if self.precision == "auto" else self.precision,
            self.batch,
            self.threads,
            asking.max_tokens or usual,
            asking.describe,
            warm,
            Loading(self.trust_remote_code, self.device_map, self.quantize),
        )
        kept = {name: getattr(options, name) for name in ("precision", "batch", "most_tokens")}
        made = {"model": source.name, "sha256": source.identity, **kept, "temperature": warm or 0}
        made["device"] = device.partition(":")[0]
        made |= {name: value for name, value in options.loading._asdict().items() if value}
        replies = partial(model_replies, asking.requests, source, options, map=self.map)
        return Answering(made, replies)


class Computing(NamedTuple):
    """Settings of a local model's replies; see ``LocalModel``."""

    device: str
    precision: str
    batch: int
    threads: int | None
    most_tokens: int
    describe: bool
    temperature: float | None
    loading: Loading


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
