"""Backbones: networks of transformers that turn pixels into features."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nooch.models.devices import choose_device
from nooch.models.images import Inputs, Preprocessing, black_image
from nooch.models.sources import (
    DEFAULT,
    ModelSource,
    custom_network,
    find_source,
    is_custom,
    placed,
    preprocessing_of,
    pretrained,
    quietly,
    refuse_lacking,
)

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Backbone:
    """A network without a head.

    Attributes:
        name: hub id, folder name, ``config:NAME``, or ``package.module:Name``.
        identity: hash of weights and configuration, or of configuration and seed if random.
        module: the torch module, on the device, in eval mode. Training it changes it in place.
        n_features: numbers in an image's features.
        preprocessing: what its input must be; its ``size`` is the one asked for.
        pooling: where features come from: ``pooler`` (the model's own pooled output, flattened),
            ``cls`` (the first token, where the model has no trained pooler), ``mean`` (over all
            positions, if it pools nothing), ``output`` (the module gives features itself).
        device: ``cpu``, ``cuda`` or ``cuda:1``.
        channels_last: whether input and weights lie in memory with the channels innermost.
        bf16: whether it computes in bfloat16 (autocast); features are float32 in any case.
    """

    name: str
    identity: str
    module: Any
    n_features: int
    preprocessing: Preprocessing
    pooling: str
    device: str
    channels_last: bool = False
    bf16: bool = False

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of its input in pixels."""
        return self.preprocessing.size

    def prepare(self, pixels: NDArray[np.uint8] | Tensor) -> Tensor:
        """Input from pixels: uint8 (m, height, width, 3) -> float32 (m, 3, height, width)."""
        return self.inputs.prepare(pixels)

    def features(self, batch: Tensor) -> Tensor:
        """Features of prepared input: float32 (m, 3, height, width) -> float32 (m, n_features).

        Gradients flow.
        """
        import torch

        kind = torch.device(self.device).type
        with torch.autocast(kind, torch.bfloat16) if self.bf16 else contextlib.nullcontext():
            return _pooled(self.module(batch), self.pooling).float()

    def describe(self) -> dict[str, Any]:
        """Inputs that determine the features (JSON-like)."""
        return {
            "name": self.name,
            "sha256": self.identity,
            "n_features": self.n_features,
            "pooling": self.pooling,
            "preprocessing": asdict(self.preprocessing),
            "device": self.device.partition(":")[0],
            "precision": "bf16" if self.bf16 else "fp32",
            "channels_last": self.channels_last,
            "versions": {name: version(name) for name in ("torch", "transformers")},
        }

    @cached_property
    def inputs(self) -> Inputs:
        """Its preprocessing of pixels."""
        return Inputs(self.preprocessing, self.device, self.channels_last)


def load_backbone(
    source: str | Path = DEFAULT,
    *,
    seed: int = 0,
    size: int | tuple[int, int] | None = None,
    device: str = "auto",
    channels_last: bool = False,
    bf16: bool = False,
) -> Backbone:
    """Load a backbone, or make one with random weights. No code that comes with a model is run.

    Args:
        source: a hub id ``owner/model``; a folder with weights as safetensors; or, for random
            weights, ``config:NAME`` (such as ``config:resnet-50``), ``config:FOLDER`` or
            ``config:FILE.json``. Without weights, pixels are scaled as is usual for ImageNet. Or
            ``package.module:Name``, a function without arguments that returns a ``torch.nn.Module``
            and its ``nooch.models.Preprocessing``; the module gives features (m, d), or what
            transformers does. Text from a file must not be given here: it would be imported.
        seed: seed of random weights.
        size: size of the input in pixels (in Python also height and width); by default the size in
            ``preprocessor_config.json``.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        channels_last: order of input and weights in memory; often faster.
        bf16: compute in bfloat16.

    Raises:
        InputError: no such model, no weights, or no features of images of this size.
        ParameterError: no such device; a function that cannot be imported or returns other things.
        MissingExtraError: torch or transformers is not installed.
    """
    source = str(source)
    if is_custom(source):
        device, name, pooling = choose_device(device), source, None
        module, preprocessing, identity = custom_network(source, seed=seed, size=size)
    else:
        resolved = find_source(source)
        preprocessing, name = preprocessing_of(resolved, size), resolved.name
        device, identity = choose_device(device), resolved.identity
        if resolved.folder is None:
            identity = hashlib.sha256(f"{identity} seed {seed}".encode()).hexdigest()
            module, pooling = _random(resolved, seed), None
        else:
            module, pooling = _pretrained(resolved)
    module = placed(module, device, channels_last=channels_last)
    rest = preprocessing, pooling or "pooler", device, channels_last, bf16
    return _probed(
        Backbone(name, identity, module, 0, *rest), source, is_chosen=pooling is not None
    )


def _random(resolved: ModelSource, seed: int) -> Any:
    """A module with random weights that depend only on configuration and seed."""
    import torch
    from transformers import AutoConfig, AutoModel

    with torch.random.fork_rng(devices=[]), quietly(resolved):
        torch.manual_seed(seed)
        config = AutoConfig.for_model(**resolved.config)
        return AutoModel.from_config(config)  # type: ignore[no-untyped-call]


def _pretrained(resolved: ModelSource) -> tuple[Any, str | None]:
    """The module with its weights, and how to pool where the model has no pooler of its own."""
    from transformers import AutoModel

    module, lacking = pretrained(AutoModel, resolved)
    if hasattr(module, "get_image_features"):
        # of a model of texts and images, such as CLIP: features as it compares them with texts
        module.forward = module.get_image_features
    if lacking and all(name.startswith("pooler.") for name in lacking):
        # classifiers such as ViT's carry no pooler: transformers would give it random weights
        module.pooler = None
        return module, "cls"
    refuse_lacking(resolved, lacking)
    return module, None


def _pooled(output: Any, pooling: str) -> Tensor:
    """Features (m, d) from a model's output."""
    if pooling == "output":
        given: Tensor = output
        return given
    if pooling == "pooler":
        flat: Tensor = output.pooler_output.flatten(1)
        return flat
    states: Tensor = output.last_hidden_state
    if pooling == "cls":
        return states[:, 0]
    return states.flatten(2).mean(2) if states.ndim == 4 else states.mean(1)


def _probed(backbone: Backbone, source: str, *, is_chosen: bool) -> Backbone:
    """With pooling and the number of features, found by running one black image."""
    import torch

    allowed = "models of images with a last_hidden_state, or that give features (m, d)"
    tried = black_image("features", backbone.size, "backbone", where=source, allowed=allowed)
    whole = torch.autocast(torch.device(backbone.device).type, enabled=False)
    with tried as black, whole:
        output = backbone.module(backbone.prepare(black))
        pooled = is_chosen or getattr(output, "pooler_output", None) is not None
        pooling = backbone.pooling if pooled else "mean"
        pooling = "output" if isinstance(output, torch.Tensor) else pooling
        _, n_features = _pooled(output, pooling).shape
    return replace(backbone, n_features=n_features, pooling=pooling)
