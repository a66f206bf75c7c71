"""Requests answered by a vision-language model of this machine, or of an engine's workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from nooch.asking.asked_requests import AskOptions, Reply, Request
from nooch.errors import InputError
from nooch.models.backbones import choose_device
from nooch.models.device_memory import memory_limits
from nooch.models.image_decoding import refuse_broken, rgb_image
from nooch.models.pixel_batches import read_in_order
from nooch.models.pretrained import silently
from nooch.models.vision_language import VisionLanguageModel, find_vlm, load_vlm
from nooch.readers.image_opening import UNREADABLE
from nooch.resources import limited_threads
from nooch.shared_types import Map, StepProgress
from nooch.work_folder import stored

__all__ = ["LocalModel", "model_replies"]

_BATCHES = 8
"""Batches after which replies are kept: what a kill can cost."""


@dataclass(frozen=True)
class LocalModel:
    """A model that was found, and how it replies.

    Attributes:
        source: hub id or folder; ``name`` is the hub id or the folder's name.
        identity: hash of weights and configuration.
        device: from ``choose_device``.
        bf16: whether it computes in bfloat16, else in float32.
        batch: requests in a batch.
        most_tokens: length of a reply.
        describe: whether it gives captions, not yes or no.
        threads: of a job, for concurrent jobs; None as torch chooses.
    """

    source: str
    name: str
    identity: str
    device: str
    bf16: bool
    batch: int
    most_tokens: int
    describe: bool
    threads: int | None = None

    @classmethod
    def of(cls, source: str, options: AskOptions) -> LocalModel:
        """The model of a source. Raises InputError: no such model, or one of another type."""
        found, device = find_vlm(source), choose_device(options.device)
        bf16 = options.precision == "bf16" or (options.precision == "auto" and device != "cpu")
        asked = options.batch, options.most_tokens, options.describe, options.threads
        return cls(source, found.name, found.identity, device, bf16, *asked)

    def describe_run(self) -> dict[str, Any]:
        """What determines the replies, JSON-like."""
        from importlib.metadata import version

        return {
            "model": self.name,
            "sha256": self.identity,
            "device": self.device.partition(":")[0],
            "precision": "bf16" if self.bf16 else "float32",
            "batch": self.batch,
            "max_tokens": self.most_tokens,
            "versions": {name: version(name) for name in ("torch", "transformers")},
        }


def model_replies(
    requests: Sequence[Request], local: LocalModel, folder: Path, map: Map, progress: StepProgress
) -> Iterator[Reply]:
    """Replies in the order of requests; parts that are done are kept in a folder.

    Args:
        requests: those about an image one after the other.
        local: the model.
        folder: for finished parts; it belongs to these requests and this model.
        map: where parts are answered.
        progress: called with (requests done, requests).

    Raises:
        InputError: images that cannot be read, or a model that cannot reply.
        NoochError: out of memory; a smaller batch is suggested.
    """
    size, done = local.batch * _BATCHES, 0
    parts = [requests[start : start + size] for start in range(0, len(requests), size)]
    progress(0, len(requests))
    for replies in map(partial(_kept_part, local, folder), enumerate(parts)):
        yield from replies
        done += len(replies)
        progress(done, len(requests))


def _kept_part(local: LocalModel, folder: Path, part: tuple[int, Sequence[Request]]) -> list[Reply]:
    number, requests = part
    file = folder / f"{number:07d}.msgpack"
    return stored(file, list[Reply], lambda: _answered(local, requests))


def _answered(local: LocalModel, requests: Sequence[Request]) -> list[Reply]:
    batches = [requests[at : at + local.batch] for at in range(0, len(requests), local.batch)]
    replies = []
    with limited_threads(local.threads), silently(), memory_limits(local.batch, "asking"):
        model = _loaded(local)
        # one reader: a tokenizer is not made for several threads
        inputs = read_in_order(partial(_read, model), batches, 1)
        for batch, content in zip(batches, inputs, strict=True):
            made = model.replies(content, most_tokens=local.most_tokens, yes_no=not local.describe)
            replies += [
                Reply(request.key, reply.words, reply.probability, reply.mass)
                for request, reply in zip(batch, made, strict=True)
            ]
    return replies


@lru_cache(maxsize=1)
def _loaded(local: LocalModel) -> VisionLanguageModel:
    """The model: a process loads it once, not for every part."""
    found = find_vlm(local.source)
    if found.identity != local.identity:
        raise InputError(
            f"the model has hash {found.identity} here, and {local.identity} where the work began",
            where=local.source,
            allowed="the same model on all machines",
        )
    model = load_vlm(found, local.device, bf16=local.bf16)
    if not local.describe:
        # an error at once where there are none
        _ = model.yes_no_tokens
    return model


def _read(model: VisionLanguageModel, requests: Sequence[Request]) -> Any:
    """What a model is given. Raises InputError where an image cannot be read."""
    images, broken = {}, []
    for path in dict.fromkeys(request.image for request in requests):
        try:
            images[path] = rgb_image(path.read_bytes())
        except UNREADABLE as error:
            broken.append(f"{path}: {error}")
    refuse_broken(broken)
    return model.inputs([images[r.image] for r in requests], [r.text for r in requests])
