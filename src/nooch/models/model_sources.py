"""Sources of networks: hub id, folder, configuration or function, checked without torch."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from blake3 import blake3

from nooch.base.errors import InputError, MissingExtraError, ParameterError, some_of
from nooch.base.import_string import imported, is_named
from nooch.models.encoders.folders import contents_hash
from nooch.models.image_decoding import check_size
from nooch.models.preprocessing import Preprocessing, check_preprocessing

__all__ = [
    "CONFIGURATIONS", "DEFAULT", "SCRATCH", "ModelSource", "custom_network", "find_source",
    "is_custom",
]  # fmt: skip

DEFAULT = "microsoft/resnet-50"
SCRATCH = "config:"
"""What stands before a configuration that is trained from scratch."""

_BOTTLENECK: dict[str, Any] = {"model_type": "resnet", "layer_type": "bottleneck"}
_BASIC = {**_BOTTLENECK, "layer_type": "basic", "hidden_sizes": [64, 128, 256, 512]}
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "resnet-18": {**_BASIC, "depths": [2, 2, 2, 2]},
    "resnet-34": {**_BASIC, "depths": [3, 4, 6, 3]},
    "resnet-50": {**_BOTTLENECK, "depths": [3, 4, 6, 3]},
    "resnet-101": {**_BOTTLENECK, "depths": [3, 4, 23, 3]},
    "resnet-152": {**_BOTTLENECK, "depths": [3, 8, 36, 3]},
}
"""Configurations by name, as transformers takes them."""

_WEIGHTS = ".safetensors"
_INDEX = "model.safetensors.index.json"
_ALLOWED = (
    "a hub id owner/model; a folder with config.json, preprocessor_config.json and weights as"
    f" .safetensors; for training from scratch {SCRATCH}NAME ({', '.join(CONFIGURATIONS)}),"
    f" {SCRATCH}FOLDER or {SCRATCH}FILE.json; a custom package.module:Name"
)


@dataclass(frozen=True)
class ModelSource:
    """A backbone that was found.

    Attributes:
        name: the hub id, the folder's name, or ``config:NAME``.
        folder: of weights and configuration; None where there are no weights to load.
        config: the configuration.
        identity: hash of what determines it, without the seed of random weights.
    """

    name: str
    folder: Path | None
    config: dict[str, Any]
    identity: str


def find_source(source: str) -> ModelSource:
    """Find a backbone and make sure that it can be loaded without running code of others. Raises
    InputError: no such source; no weights, or none that are safetensors.
    """
    if source.startswith(SCRATCH):
        return _from_configuration(source)
    folder = Path(source).expanduser()
    if not folder.is_dir():
        if source.startswith((".", "/", "~")) or source.count("/") != 1 or folder.exists():
            raise InputError("is no backbone", where=source, allowed=_ALLOWED)
        folder = _download(source)
    config = _read_config(folder / "config.json")
    _check_weights(folder)
    name = folder.resolve().name if Path(source).expanduser().is_dir() else source
    return ModelSource(name, folder, config, contents_hash(folder))


def is_custom(source: str) -> bool:
    """Whether a source is ``package.module:Name``. One from a file must not be loaded."""
    return is_named(source) and not source.startswith(SCRATCH)


def custom_network(
    source: str, *, seed: int = 0, size: int | tuple[int, int] | None = None
) -> tuple[Any, Preprocessing, str]:
    """The module, its preprocessing with the size that is asked for, and its identity.

    ``Name()`` must return ``(torch.nn.Module, Preprocessing)``. The module takes float32 (m, 3,
    height, width). Random weights follow the seed. The identity is a hash of the weights and of the
    file that ``Name`` is in.

    Raises:
        ParameterError: it cannot be imported, or does not return these two; a size out of range.
        InputError: a preprocessing that cannot be used.
    """
    import torch

    make = imported(source, f"network {source!r}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = make() if callable(make) else make
    module, preprocessing = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(module, torch.nn.Module) or not isinstance(preprocessing, Preprocessing):
        problem = f"returns {type(module).__name__} and {type(preprocessing).__name__}"
        allowed = "a function that returns (torch.nn.Module, nooch.Preprocessing)"
        raise ParameterError(problem, where=source, allowed=allowed)
    check_preprocessing(preprocessing, source)
    digest = blake3()
    if file := getattr(sys.modules[source.partition(":")[0]], "__file__", None):
        digest.update(Path(file).read_bytes())
    for name, value in module.state_dict().items():
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        flat = value.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().tobytes())
    chosen = preprocessing if size is None else replace(preprocessing, size=check_size(size))
    return module, chosen, digest.hexdigest()


def _from_configuration(source: str) -> ModelSource:
    name = source.removeprefix(SCRATCH)
    path = Path(name).expanduser()
    if name in CONFIGURATIONS:
        config = dict(CONFIGURATIONS[name])
    elif path.exists():
        config = _read_config(path / "config.json" if path.is_dir() else path)
        name = path.resolve().name
    else:
        raise InputError("is no configuration", where=source, allowed=_ALLOWED)
    identity = blake3(json.dumps(config, sort_keys=True).encode()).hexdigest()
    return ModelSource(f"{SCRATCH}{name}", None, config, identity)


def _read_config(file: Path) -> dict[str, Any]:
    try:
        config = json.loads(file.read_bytes())
    except FileNotFoundError as error:
        problem = "no such file, so this is no backbone"
        raise InputError(problem, where=file, allowed=_ALLOWED) from error
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot be read: {error}", where=file, allowed="JSON") from error
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        allowed = "a configuration of transformers"
        raise InputError("names no model_type", where=file, allowed=allowed)
    return config


def _check_weights(folder: Path) -> None:
    stored = sorted(f.name for f in folder.glob(f"*{_WEIGHTS}"))
    named = _shards(folder / _INDEX) if (folder / _INDEX).is_file() else stored[:1]
    if not named:
        raise InputError(
            f"holds no weights as {_WEIGHTS}",
            where=folder,
            allowed="weights as .safetensors; pickled ones can run code and are not loaded",
            remedy="save the model again with model.save_pretrained(folder), or train from"
            f" scratch: {SCRATCH}{folder}",
        )
    if missing := [name for name in named if name not in stored]:
        problem = f"lacks weights that {_INDEX} names: {some_of(missing)}"
        raise InputError(problem, where=folder, remedy="copy them here")


def _shards(index: Path) -> list[str]:
    try:
        return sorted({str(name) for name in json.loads(index.read_bytes())["weight_map"].values()})
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        problem = f"cannot be read: {error}"
        raise InputError(problem, where=index, allowed="an index of weights") from error


def _download(repository: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise MissingExtraError("huggingface_hub", "train", f"backbone {repository}") from error
    patterns = ["*.json", "*.txt", "*.model", "*.jinja", f"*{_WEIGHTS}"]
    try:
        return Path(snapshot_download(repository, allow_patterns=patterns))
    # the hub raises errors of several packages, and all mean that it gave no model
    except Exception as error:
        raise InputError(
            f"backbone {repository!r} is not in the local cache and cannot be fetched:"
            f" {type(error).__name__}",
            allowed=_ALLOWED,
            remedy="give the path of a folder that holds the model, or go online once",
        ) from error
