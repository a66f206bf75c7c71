"""Sources of networks: hub id, folder, configuration or function, checked without torch; no code
of a folder is run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from blake3 import blake3

from nooch.base.calls import imported, is_named
from nooch.base.errors import (
    InputError,
    MissingExtraError,
    ParameterError,
    as_input_error,
    some_of,
    unreadable,
)
from nooch.base.files import sha256_once
from nooch.models.images import (
    IMAGENET,
    PREPROCESSOR,
    Preprocessing,
    check_preprocessing,
    check_size,
    read_preprocessing,
)

WEIGHTS = ".safetensors"
_TEXTS = ("*.json", "*.txt", "*.model")

DEFAULT = "microsoft/resnet-50"
SCRATCH = "config:"
"""Prefix of a configuration that is trained from scratch."""

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

_INDEX = "model.safetensors.index.json"
_CODE = frozenset({".pt", ".pth", ".ts", ".jit", ".torchscript", ".ckpt", ".pkl", ".bin"})
"""Endings of files that can run code when they are loaded."""

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
        folder: of weights and configuration; None if there are no weights to load.
        config: the configuration.
        identity: hash of what determines it, without the seed of random weights.
    """

    name: str
    folder: Path | None
    config: dict[str, Any]
    identity: str


def find_source(source: str, *, code: bool = False) -> ModelSource:
    """Find a backbone and make sure that it can be loaded without running code of others. Raises
    InputError: no such source; no weights, or none that are safetensors.

    With ``code``, the model's own code may be run: it is fetched, and part of the identity.
    """
    if source.startswith(SCRATCH):
        return _from_configuration(source)
    folder = Path(source).expanduser()
    if not folder.is_dir():
        if folder.suffix.lower() in _CODE:
            raise InputError(
                "is TorchScript or a pickle: code that runs when it is loaded, so it is not loaded",
                where=source,
                allowed=_ALLOWED,
                remedy="export it to ONNX: torch.onnx.export(model.eval(), torch.zeros(1, 3, 224,"
                " 224), 'model.onnx'); or write a class that loads it, package.module:Name",
            )
        if source.startswith((".", "/", "~")) or source.count("/") != 1 or folder.exists():
            raise InputError("is not a backbone", where=source, allowed=_ALLOWED)
        more = ["*.jinja", "*.py"] if code else ["*.jinja"]
        folder = fetched(source, "backbone", "train", _ALLOWED, more)
    config = _read_config(folder / "config.json")
    _check_weights(folder)
    name = folder.resolve().name if Path(source).expanduser().is_dir() else source
    return ModelSource(name, folder, config, contents_hash(folder, code=code))


def is_word(source: str) -> bool:
    """True if a source is a name without folders that no file has: no path, hub id or code."""
    path = Path(source).expanduser()
    return not (set("/\\:") & {*source} or path.exists() or path.suffix.lower() in _CODE)


def is_custom(source: str) -> bool:
    """True if a source is ``package.module:Name``. One from a file must not be loaded."""
    return is_named(source) and not source.startswith(SCRATCH)


def custom_network(
    source: str, *, seed: int = 0, size: int | tuple[int, int] | None = None
) -> tuple[Any, Preprocessing, str]:
    """The module, its preprocessing with the size that is asked for, and its identity.

    ``Name()`` must return ``(torch.nn.Module, Preprocessing)``. The module takes float32 (m, 3,
    height, width). Random weights follow the seed. The identity is a hash of the weights and of the
    file that ``Name`` is in.
    """
    import torch

    make = imported(source, f"network {source!r}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = make() if callable(make) else make
    module, preprocessing = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(module, torch.nn.Module) or not isinstance(preprocessing, Preprocessing):
        problem = f"returns {type(module).__name__} and {type(preprocessing).__name__}"
        allowed = "a function that returns (torch.nn.Module, nooch.models.Preprocessing)"
        raise ParameterError(problem, where=source, allowed=allowed)
    check_preprocessing(preprocessing, source)
    digest = blake3()
    if file := getattr(sys.modules[source.partition(":")[0]], "__file__", None):
        digest.update(Path(file).read_bytes())
    for name, value in module.state_dict().items():
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        flat = value.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().tobytes())
    prepared = preprocessing if size is None else replace(preprocessing, size=check_size(size))
    return module, prepared, digest.hexdigest()


def _from_configuration(source: str) -> ModelSource:
    name = source.removeprefix(SCRATCH)
    path = Path(name).expanduser()
    if name in CONFIGURATIONS:
        config = dict(CONFIGURATIONS[name])
    elif path.exists():
        config = _read_config(path / "config.json" if path.is_dir() else path)
        name = path.resolve().name
    else:
        raise InputError("is not a configuration", where=source, allowed=_ALLOWED)
    identity = blake3(json.dumps(config, sort_keys=True).encode()).hexdigest()
    return ModelSource(f"{SCRATCH}{name}", None, config, identity)


def _read_config(file: Path) -> dict[str, Any]:
    config = read_json(file, "backbone", _ALLOWED)
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        allowed = "a configuration of transformers"
        raise InputError("names no model_type", where=file, allowed=allowed)
    return config


def _check_weights(folder: Path) -> None:
    stored = sorted(f.name for f in folder.glob(f"*{WEIGHTS}"))
    index, files = folder / _INDEX, stored[:1]
    if index.is_file():
        broken = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
        with unreadable(index, "an index of weights", broken):
            files = sorted(set(map(str, json.loads(index.read_bytes())["weight_map"].values())))
    if not files:
        raise InputError(
            f"contains no weights as {WEIGHTS}",
            where=folder,
            allowed="weights as .safetensors; pickled ones can run code and are not loaded",
            remedy="save the model again with model.save_pretrained(folder), or train from"
            f" scratch: {SCRATCH}{folder}",
        )
    if missing := [name for name in files if name not in stored]:
        problem = f"lacks weights that {_INDEX} names: {some_of(missing)}"
        raise InputError(problem, where=folder, remedy="copy them here")


def fetched(
    repository: str, what: str, extra: str, allowed: str, more: Sequence[str] = (), **options: Any
) -> Path:
    """The folder of a hub id, from the local cache or the hub, without pickled weights.

    ``what`` it is, its ``extra`` and what is ``allowed`` are for errors; ``more`` are patterns of
    further files, and ``options`` go to ``snapshot_download``.
    """
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise MissingExtraError("huggingface_hub", extra, f"{what} {repository}") from error
    try:
        patterns = [*_TEXTS, f"*{WEIGHTS}", *more]
        return Path(snapshot_download(repository, allow_patterns=patterns, **options))
    # the hub raises errors of several packages, and all mean that it gave no model
    except Exception as error:
        raise InputError(
            f"{what} {repository!r} is not in the local cache and cannot be fetched:"
            f" {type(error).__name__}",
            allowed=allowed,
            remedy="give the path of a folder that contains the model, or go online once",
        ) from error


def read_json(file: Path, what: str, allowed: str) -> Any:
    """Content of a JSON file. Raises InputError if it cannot be read, or is missing: its folder is
    then not a ``what``, and ``allowed`` describes what is.
    """
    if not file.exists():
        raise InputError(f"no such file, so this is not a {what}", where=file, allowed=allowed)
    with unreadable(file, "JSON"):
        return json.loads(file.read_bytes())


def contents_hash(folder: Path, *, code: bool = False) -> str:
    """SHA-256 of weights and configuration, in hexadecimal: they determine the vectors; with
    ``code``, also of Python files.
    """
    kinds = {WEIGHTS, ".json", ".jinja"} | ({".py"} if code else set())
    files = sorted(f for f in folder.rglob("*") if f.suffix in kinds and f.is_file())
    names = (f"{f.relative_to(folder).as_posix()} {sha256_once(f)}\n" for f in files)
    return hashlib.sha256("".join(names).encode()).hexdigest()


def preprocessing_of(
    resolved: ModelSource, size: int | tuple[int, int] | None = None
) -> Preprocessing:
    """Preprocessing of a network, with the requested size."""
    recorded = IMAGENET if resolved.folder is None else read_preprocessing(resolved.folder)
    if recorded is None:
        problem = f"has no {PREPROCESSOR}, so its input is unknown"
        remedy = f"copy the {PREPROCESSOR} of the model that it was trained from"
        raise InputError(problem, where=resolved.folder, remedy=remedy)
    return recorded if size is None else replace(recorded, size=check_size(size))


def pretrained(auto: Any, resolved: ModelSource, **options: Any) -> tuple[Any, list[str]]:
    """A module of a class such as ``AutoModel`` with its weights, and the names of missing weights,
    which transformers initialized; ``options`` go to its ``from_pretrained``. Raises InputError:
    the folder has nothing that this class can load.
    """
    with quietly(resolved):
        module, info = auto.from_pretrained(
            str(resolved.folder),
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
            **{"trust_remote_code": False, **options},
        )
    lacking = (key for key in info["missing_keys"] if not key.endswith("num_batches_tracked"))
    return module, sorted(lacking)


def complete(auto: Any, resolved: ModelSource, device: str) -> Any:
    """A module on a device; raises InputError as ``pretrained`` or ``refuse_lacking``."""
    module, lacking = pretrained(auto, resolved)
    refuse_lacking(resolved, lacking)
    return placed(module, device)


def placed(module: Any, device: str, *, channels_last: bool = True) -> Any:
    """A module on a device, in eval mode.

    Weights that were saved in half precision are computed with in float32: exact, and the same on
    every device. With the channels innermost in memory most devices convolve faster.
    """
    import torch

    layout = torch.channels_last if channels_last else torch.contiguous_format
    return module.float().to(device=device, memory_format=layout).eval()


def refuse_lacking(resolved: ModelSource, lacking: list[str]) -> None:
    """Raise an InputError if weights are missing."""
    if lacking:
        raise InputError(
            f"lacks {len(lacking)} weights of the model in its config.json, such as {lacking[0]}",
            where=resolved.folder,
            remedy="save the whole model again: model.save_pretrained(folder)",
        )


@contextlib.contextmanager
def naming_packages(purpose: str, extra: str, *packages: str) -> Iterator[None]:
    """Turn an error for want of one of these packages into one that names it.

    Raises MissingExtraError: an error names one that is not installed. InputError: after any error,
    one is installed and cannot be imported (transformers does not tell which).
    """
    try:
        yield
    except Exception as error:
        for package in packages:
            if find_spec(package) is None:
                if package in str(error).lower():
                    raise MissingExtraError(package, extra, purpose) from error
                continue
            remedy = f"install the {package} made for this torch, or remove it if it is not used"
            with as_input_error(f"{package} is installed and does not load", remedy=remedy):
                import_module(package)
        raise


@contextlib.contextmanager
def quietly(resolved: ModelSource) -> Iterator[None]:
    """Without progress bars and reports; errors of transformers as one that names the model."""
    where = resolved.folder or resolved.name
    allowed = "an image model that transformers itself has (no code from the folder is run)"
    with as_input_error("cannot be loaded", where=where, allowed=allowed), silently():
        yield


@contextlib.contextmanager
def silently() -> Iterator[None]:
    """Without the progress bars and reports of transformers."""
    from transformers.utils import logging

    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
