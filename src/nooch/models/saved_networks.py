"""Trained networks as folders that transformers can read too: safetensors and JSON, no code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import FormatError, ParameterError, unreadable
from nooch.base.files import sha256_of, write_folder
from nooch.data import encode_header, load_header
from nooch.models.backbones import Backbone, load_backbone
from nooch.models.images import IMAGENET, PREPROCESSOR, Preprocessing, read_preprocessing
from nooch.models.networks import Network, NetworkOptions, build_network
from nooch.models.sources import is_custom, silently

if TYPE_CHECKING:
    from torch import Tensor


NETWORK_MARKER = "network.json"
HEAD_FILE = "head.safetensors"
_VERSION = 1
_WEIGHTS = "model.safetensors"
_AGAIN = "save it again with save_network"


def save_head(head: NDArray[np.float32], folder: Path) -> None:
    """Write a head, float32 (d + 1,), or several, (n, d + 1), as ``head.safetensors``.

    The file has ``weight`` (n, d) and ``bias`` (n,), float32; a folder that is missing is made.
    """
    from safetensors.numpy import save_file

    heads = np.atleast_2d(head)
    folder.mkdir(exist_ok=True)
    save_file({"weight": heads[:, :-1].copy(), "bias": heads[:, -1].copy()}, folder / HEAD_FILE)


class NetworkHeader(msgspec.Struct, frozen=True, kw_only=True):
    """``network.json``: a name for each prediction, such as a task, and how many ``auxiliary``
    outputs follow; what was learned (``all``, ``head`` or ``affine``), the SHA-256 of
    ``head.safetensors``, and what the caller stored with it; the name of a custom ``backbone``.
    """

    format: str = "nooch-network"
    version: int = _VERSION
    outputs: list[str]
    auxiliary: int
    train: str
    head: str
    about: dict[str, Any]
    backbone: str | msgspec.UnsetType = msgspec.UNSET


def save_network(
    network: Network,
    folder: str | Path,
    outputs: Sequence[str],
    *,
    about: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> Path:
    """Save a network: the backbone as ``save_pretrained`` does it, ``head.safetensors``,
    ``preprocessor_config.json``, ``network.json`` with a name for each output and ``about``.

    The backbone can be loaded with ``AutoModel.from_pretrained(folder)``, without affine
    parameters; those are in ``head.safetensors``. For a custom one, only the weights are saved.
    """
    from safetensors.torch import save_file, save_model

    if len(outputs) != network.n_outputs:
        allowed = f"{network.n_outputs}, one per output"
        raise ParameterError(f"{len(outputs)} names", where="outputs", allowed=allowed)
    module, custom = network.backbone.module, is_custom(network.backbone.name)
    with write_folder(folder, overwrite=overwrite, marker=NETWORK_MARKER) as partial:
        if custom:
            save_model(module, str(partial / _WEIGHTS))
        else:
            with silently():
                module.save_pretrained(str(partial))
        small = {name: value.cpu().contiguous() for name, value in _small(network).items()}
        save_file(small, partial / HEAD_FILE)
        (partial / PREPROCESSOR).write_bytes(_processor(network.backbone.preprocessing))
        header = NetworkHeader(
            outputs=list(outputs),
            auxiliary=network.head.out_features - network.n_outputs,
            train=network.train,
            head=sha256_of(partial / HEAD_FILE),
            about=dict(about or {}),
            backbone=network.backbone.name if custom else msgspec.UNSET,
        )
        (partial / NETWORK_MARKER).write_bytes(encode_header(header))
    return Path(folder)


def load_network(
    folder: str | Path, *, device: str = "auto", bf16: bool = False, backbone: str | None = None
) -> tuple[Network, NetworkHeader]:
    """A saved network and its header; ``read_outputs`` gives its predictions. A custom ``backbone``
    must be named: the name in the folder is not imported.
    """
    path = Path(folder)
    names = {"name": "network", "make": "save_network", "again": _AGAIN}
    header = load_header(path / NETWORK_MARKER, NetworkHeader, version=_VERSION, **names)
    file = path / HEAD_FILE
    small = _read_head(file, header)
    body = _backbone(path, header, backbone, device=device, bf16=bf16)
    options, n = NetworkOptions(train=header.train), len(header.outputs)
    network = build_network(body, options, n, auxiliary=header.auxiliary, seed=0)
    network_needed = _small(network)
    ours, theirs = ({k: t.shape for k, t in tensors.items()} for tensors in (network_needed, small))
    if ours != theirs:
        problem = "does not fit the backbone in this folder"
        raise FormatError(problem, where=file, remedy=_AGAIN)
    for name, value in small.items():
        network_needed[name].copy_(value)
    network.training(False)
    return network, header


def _backbone(folder: Path, header: NetworkHeader, source: str | None, **layout: Any) -> Backbone:
    """The backbone with the weights and the preprocessing in the folder."""
    if header.backbone is msgspec.UNSET:
        if source is not None:
            raise ParameterError("has its own backbone", where=folder, give={"backbone": None})
        return load_backbone(folder.absolute(), **layout)
    if source is None or not is_custom(source):
        problem = f"needs its custom backbone {header.backbone}: a name in a file is not imported"
        raise ParameterError(problem, where=folder, give={"backbone": header.backbone})
    from safetensors import SafetensorError
    from safetensors.torch import load_model

    own = read_preprocessing(folder) or IMAGENET
    backbone = replace(load_backbone(source, size=own.size, **layout), preprocessing=own)
    try:
        load_model(backbone.module, folder / _WEIGHTS, device=backbone.device)
    except (OSError, SafetensorError, RuntimeError) as error:
        # in all its lines, which name the weights
        problem = f"does not fit the backbone {source}: {error}"
        raise FormatError(problem, where=folder / _WEIGHTS, remedy=_AGAIN) from error
    return backbone


def _small(network: Network) -> dict[str, Tensor]:
    """All but the backbone."""
    moving = network.moving()
    return {name: moving[name] for name in moving if not name.startswith("backbone.")}


def _read_head(file: Path, header: NetworkHeader) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    broken = (OSError, SafetensorError, ValueError, KeyError)
    with unreadable(file, errors=broken, kind=FormatError, remedy=_AGAIN):
        tensors = load(file.read_bytes())
    if sha256_of(file) != header.head:
        raise FormatError("was altered: its hash differs", where=file, remedy=_AGAIN)
    return tensors


def _processor(preprocessing: Preprocessing) -> bytes:
    """``preprocessor_config.json``, as image processors have it."""
    height, width = preprocessing.size
    content = {
        "do_resize": True,
        "size": {"height": height, "width": width},
        "resample": 2,
        "do_center_crop": False,
        "do_rescale": True,
        "rescale_factor": preprocessing.factor,
        "rescale_offset": bool(preprocessing.offset),
        "do_normalize": True,
        "image_mean": list(preprocessing.mean),
        "image_std": list(preprocessing.std),
        "do_flip_channel_order": preprocessing.flip,
    }
    return encode_header(content)
