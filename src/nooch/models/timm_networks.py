"""Classifiers of timm: a name of timm's, or a folder or hub id with timm's ``config.json``."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from nooch.base.errors import InputError, MissingExtraError, as_input_error, unreadable
from nooch.base.limits import BROKEN_JSON
from nooch.models.images import Preprocessing, check_preprocessing, check_size
from nooch.models.onnx_networks import CONFIG_FILE, InputOptions, labels_of_outputs
from nooch.models.sources import WEIGHTS, ModelSource, contents_hash, fetched, is_word, placed

_ALLOWED = (
    "a name of timm's, such as resnet50 or timm/resnet50.a1_in1k; a hub id owner/model; a folder"
    " with config.json and weights as .safetensors; FILE.onnx; package.module:Name"
)
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
    label_names: list[str] | dict[str, str] | None = None
    label_descriptions: dict[str, str] | None = None
    model_args: dict[str, Any] = {}


def timm_source(source: str) -> tuple[str, Path] | None:
    """Name and folder of a source, fetched if it is a name or hub id of timm's; None if it is of
    another kind. A folder comes before a name. Raises InputError: no such name, or one that cannot
    be fetched.
    """
    folder = Path(source).expanduser()
    if not folder.is_dir():
        hub_id = _hub_id(source)
        return None if hub_id is None else (hub_id, fetched(hub_id, "model", "timm", _ALLOWED))
    file = folder / CONFIG_FILE
    if not file.is_file():
        if source in _names():
            problem = f"is a folder without {CONFIG_FILE}, and also a name of timm's"
            remedy = f"write {_HUB}{source} for timm's model, or ./{source} for the folder"
            raise InputError(problem, where=source, remedy=remedy)
        return None
    with unreadable(file, "JSON", (*BROKEN_JSON, OSError)):
        content = msgspec.json.decode(file.read_bytes())
    is_timm = isinstance(content, Mapping) and "architecture" in content
    is_timm = is_timm and "model_type" not in content
    return (folder.resolve().name, folder) if is_timm else None


def _names() -> list[str]:
    """Names of architectures and of their weights in the timm that is installed, if one is."""
    try:
        import timm
    except ImportError:
        return []
    return [*timm.list_models(), *timm.list_pretrained()]


def _hub_id(source: str) -> str | None:
    """The hub id of ``resnet50.a1_in1k``, and of ``resnet50``, whose weights timm chooses, with or
    without ``timm/``; None for a source of another kind.
    """
    name = source.removeprefix(_HUB)
    if "/" in name or (name == source and not is_word(source)):
        return None
    names = _names()
    if name in names:
        import timm

        # what has no weights on the hub has no id
        return timm.get_pretrained_cfg(name).hf_hub_id or f"{_HUB}{name}"
    if name != source and (not names or name.partition(".")[0] in names):
        # the hub may have weights that the installed timm does not list
        return source
    if not names:
        problem = "is not a folder, and timm, whose models have such names, is not installed"
        remedy = "correct the path, or install timm: pip install 'nooch[timm]'"
        raise InputError(problem, where=source, allowed=_ALLOWED, remedy=remedy)
    near = get_close_matches(name, names, 3)
    meant = f"did you mean {' or '.join(near)}?" if near else None
    problem = "is neither a folder nor a name of timm's"
    raise InputError(problem, where=source, allowed=_ALLOWED, remedy=meant)


def _labels(config: TimmConfig, *, from_hub: bool) -> list[str] | dict[str, str] | None:
    """Labels that a configuration has in words, else ImageNet's for a model of the hub, by their
    number, as timm has them.
    """
    names, words = config.label_names, config.label_descriptions or {}
    if isinstance(names, dict):
        return {number: words.get(name, name) for number, name in names.items()}
    if names is not None or not from_hub:
        return names and [words.get(name, name) for name in names]
    try:
        from timm.data import ImageNetInfo, infer_imagenet_subset
    except ImportError:
        return None
    subset = infer_imagenet_subset({"num_classes": config.num_classes})
    return None if subset is None else list(ImageNetInfo(subset).label_descriptions())


def load_timm(
    source: str, options: InputOptions, device: str
) -> tuple[Any, ModelSource, list[str], Preprocessing]:
    """The module, where it comes from, the labels of its outputs and its input; no code of the
    folder is run. Raises InputError: a configuration or weights that do not fit.
    MissingExtraError: timm is not installed.
    """
    found = timm_source(source)
    if found is None:
        raise InputError("is not a model of timm", where=source, allowed=_ALLOWED)
    name, folder = found
    file = folder / CONFIG_FILE
    with unreadable(file, "a configuration of timm", (*BROKEN_JSON, OSError)):
        config = msgspec.json.decode(file.read_bytes(), type=TimmConfig)
    cfg = config.pretrained_cfg
    size = options.size or cfg.input_size[1:]
    prepared = Preprocessing(check_size(size), mean=cfg.mean, std=cfg.std)
    check_preprocessing(prepared, file)
    known = _labels(config, from_hub=not Path(source).expanduser().is_dir())
    labels = labels_of_outputs(file, options, {}, {"id2label": known})
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
    allowed = "an architecture of the installed timm, and weights for it"
    with as_input_error("cannot be loaded", where=folder, allowed=allowed):
        module = timm.create_model(config.architecture, **{**config.model_args, **fixed})
        module.load_state_dict(load_file(weights), strict=True)
    made = ModelSource(name, folder, {}, contents_hash(folder))
    return placed(module, device), made, labels, prepared
