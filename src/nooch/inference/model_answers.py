"""Requests answered by a vision-language model of this machine, or of an engine's workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from nooch.base.errors import InputError
from nooch.base.resources import limited_threads
from nooch.base.shared_types import Map
from nooch.base.work_folder import stored
from nooch.data.readers.image_opening import UNREADABLE, rgb_image
from nooch.evaluation.answer_text import opens_reasoning
from nooch.inference.requests import AskOptions, Reply, Request
from nooch.models.devices import choose_device, memory_limits
from nooch.models.image_decoding import refuse_broken
from nooch.models.model_sources import ModelSource
from nooch.models.pixel_batches import read_in_order
from nooch.models.pretrained import silently
from nooch.models.vision_language import VisionLanguageModel, find_vlm, load_vlm

__all__ = ["model_replies", "settled"]

_BATCHES = 8
"""Batches after which replies are kept: what a kill can cost."""


def settled(options: AskOptions) -> AskOptions:
    """The options with the device and the precision that ``auto`` means here."""
    device = choose_device(options.device)
    usual = "float32" if device == "cpu" else "bf16"
    precision = usual if options.precision == "auto" else options.precision
    return replace(options, device=device, precision=precision)


def model_replies(
    requests: Sequence[Request], found: ModelSource, options: AskOptions, folder: Path, map: Map
) -> Iterator[Reply]:
    """Replies in the order of requests; finished parts are kept in a folder of these requests.
    Raises InputError: images that cannot be read, or a model that cannot reply.
    """
    size = options.batch * _BATCHES
    parts = [requests[start : start + size] for start in range(0, len(requests), size)]
    try:
        for replies in map(partial(_kept, found, options, folder), enumerate(parts)):
            yield from replies
    finally:
        # a model may fill a GPU
        _loaded.cache_clear()


def _kept(
    found: ModelSource, options: AskOptions, folder: Path, part: tuple[int, Sequence[Request]]
) -> list[Reply]:
    file = folder / f"{part[0]:07d}.msgpack"
    return stored(file, list[Reply], lambda: _answered(found, options, part[1]))


def _answered(found: ModelSource, options: AskOptions, requests: Sequence[Request]) -> list[Reply]:
    size, replies = options.batch, []
    batches = [requests[at : at + size] for at in range(0, len(requests), size)]
    with limited_threads(options.threads), silently(), memory_limits(size, "asking"):
        yes_no, bf16 = not options.describe, options.precision == "bf16"
        model = _loaded(str(found.folder), found.identity, options.device, bf16, yes_no)
        # one reader: a tokenizer is not made for several threads
        inputs = read_in_order(partial(_read, model), batches, 1)
        for batch, content in zip(batches, inputs, strict=True):
            made = model.replies(content, options.most_tokens, yes_no=yes_no)
            replies += [Reply(r.key, *reply) for r, reply in zip(batch, made, strict=True)]
    return replies


@lru_cache(maxsize=1)
def _loaded(
    folder: str, identity: str, device: str, bf16: bool, yes_no: bool
) -> VisionLanguageModel:
    """The model: a process loads it once, not for every part."""
    found = find_vlm(folder)
    if found.identity != identity:
        problem = f"the model has hash {found.identity} here, and {identity} where the work started"
        raise InputError(problem, where=folder, allowed="the same model on all machines")
    model = load_vlm(found, device, bf16=bf16, yes_no=yes_no)
    if opens_reasoning(model.prompt("Is it dark?")):
        raise InputError(
            "the chat template opens a block of reasoning: the next token is not the answer's",
            where=folder,
            allowed="a model whose template leaves reasoning out",
            remedy="serve it with vLLM, say, and ask it there: `endpoint`, and `max_tokens` that"
            " reach the end of its reasoning, such as 4096",
        )
    return model


def _read(model: VisionLanguageModel, requests: Sequence[Request]) -> Any:
    """What a model is given. Raises InputError where an image cannot be read."""
    images, broken = {}, []
    for path, value_range in dict.fromkeys((r.image, r.range) for r in requests):
        try:
            images[path] = rgb_image(path, value_range)
        except UNREADABLE as error:
            broken.append(f"{path}: {error}")
    refuse_broken(broken)
    return model.inputs([images[r.image] for r in requests], [r.text for r in requests])
