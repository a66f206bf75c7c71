"""Classifiers of timm: a folder or hub id whose ``config.json`` names timm's architecture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from nooch.base.errors import InputError, MissingExtraError, as_input_error, unreadable
from nooch.base.limits import BROKEN_JSON
from nooch.models.images import Preprocessing, check_preprocessing, check_size
from nooch.models.onnx_networks import CONFIG_FILE, InputOptions, labels_of_outputs
from nooch.models.sources import WEIGHTS, ModelSource, contents_hash, fetched, placed

_ALLOWED = "a hub id timm/NAME, or a folder with config.json and model.safetensors of timm"
_WEIGHTS = f"model{WEIGHTS}"
_HUB = "timm/"


class _Cfg(msgspec.Struct):
    input_size: tuple[int, int, int] = (3, 224, 224)
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)


class TimmConfig(msgspec.Struct):
    """The parts of timm's ``config.json`` that are used."""

    architecture: str
    num_classes: int
    pretrained_cfg: _Cfg
    label_names: list[str] | None = None
    model_args: dict[str, Any] = {}


def timm_folder(source: str) -> Path | None:
    """The folder of a source, fetched if it is a hub id of timm's; None if it is of another kind.
    Raises InputError: a hub id that cannot be fetched.
    """
    folder = Path(source).expanduser()
    if not folder.is_dir() and source.startswith(_HUB) and source.count("/") == 1:
        return fetched(source, "model", "timm", _ALLOWED)
    file = folder / CONFIG_FILE
    if not file.is_file():
        return None
    with unreadable(file, "JSON", (*BROKEN_JSON, OSError)):
        content = msgspec.json.decode(file.read_bytes())
    is_timm = isinstance(content, Mapping) and "architecture" in content
    return folder if is_timm and "model_type" not in content else None


def load_timm(
    source: str, options: InputOptions, device: str
) -> tuple[Any, ModelSource, list[str], Preprocessing]:
    """The module, where it comes from, the labels of its outputs and its input; no code of the
    folder is run. Raises InputError: a configuration or weights that do not fit.
    MissingExtraError: timm is not installed.
    """
    folder = timm_folder(source)
    if folder is None:
        raise InputError("is not a model of timm", where=source, allowed=_ALLOWED)
    file = folder / CONFIG_FILE
    with unreadable(file, "a configuration of timm", (*BROKEN_JSON, OSError)):
        config = msgspec.json.decode(file.read_bytes(), type=TimmConfig)
    cfg = config.pretrained_cfg
    size = options.size or cfg.input_size[1:]
    prepared = Preprocessing(check_size(size), mean=cfg.mean, std=cfg.std)
    check_preprocessing(prepared, file)
    labels = labels_of_outputs(file, options, {}, {"id2label": config.label_names})
    weights = folder / _WEIGHTS
    if not weights.is_file():
        allowed = "weights as .safetensors; pickled ones can run code and are not loaded"
        raise InputError(f"contains no {_WEIGHTS}", where=folder, allowed=allowed)
    try:
        import timm
        from safetensors.torch import load_file
    except ImportError as error:
        raise MissingExtraError("timm", "timm", f"the model {source}") from error
    if set(":/\\") & {*config.architecture}:
        problem = f"names the architecture {config.architecture!r}"
        raise InputError(problem, where=file, allowed="a name of timm's, such as resnet50")
    # what could name other files, and load them, is left out
    fixed = {"pretrained": False, "checkpoint_path": "", "num_classes": config.num_classes}
    fixed |= {"pretrained_cfg": None, "pretrained_cfg_overlay": None}
    allowed = "an architecture that the installed timm has, and its weights"
    with as_input_error("cannot be loaded", where=folder, allowed=allowed):
        module = timm.create_model(config.architecture, **{**config.model_args, **fixed})
        module.load_state_dict(load_file(weights), strict=True)
    name = folder.resolve().name if Path(source).expanduser().is_dir() else source
    found = ModelSource(name, folder, {}, contents_hash(folder))
    return placed(module, device), found, labels, prepared
