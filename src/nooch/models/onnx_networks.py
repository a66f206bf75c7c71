"""Networks as ONNX: a file or its folder, with input, labels and meaning of outputs from options,
files next to it, or its metadata.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from nooch.base.errors import (
    InputError,
    MissingExtraError,
    ParameterError,
    as_input_error,
    no_such,
    unreadable,
)
from nooch.base.files import sha256_once
from nooch.base.limits import BROKEN_JSON
from nooch.base.text_encoding import text_lines
from nooch.models.images import (
    IMAGENET,
    PREPROCESSOR,
    Inputs,
    Preprocessing,
    check_preprocessing,
    check_size,
    read_preprocessing,
)
from nooch.models.sources import WEIGHTS, ModelSource, read_json

if TYPE_CHECKING:
    from torch import Tensor

MODEL_FILE = "model.onnx"
LABELS_FILE = "labels.txt"
CONFIG_FILE = "config.json"
_ENDING = ".onnx"
_A = TypeVar("_A")
_B = TypeVar("_B")
_FLOATS = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
_SIZES = Annotated[list[int], Meta(min_length=1, max_length=2)]
_NAMES = dict[int, Any] | list[Any]
_PASSED = frozenset({
    "Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Resize",
    "Upsample", "Clip", "QuantizeLinear", "DequantizeLinear",
})  # fmt: skip
"""Operators after the last one that gives outputs their meaning."""


@dataclass(frozen=True)
class InputOptions:
    """Requested input and outputs of a network; None: as its files have it. ``mean`` and
    ``std`` are of pixels from 0 to 1, ``classes`` a file of labels.
    """

    size: int | tuple[int, int] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    classes: str | Path | None = None

    def refuse(self, where: str, *names: str) -> None:
        """Raise ParameterError for options that a source other than ONNX does not take."""
        for name in names or ("mean", "std", "classes"):
            if getattr(self, name) is not None:
                problem = f"`{name}` is for networks as ONNX"
                raise ParameterError(problem, where=where, give={name: None})


@dataclass(frozen=True, eq=False)
class OnnxNetwork:
    """A network that was loaded.

    Attributes:
        source: its name, folder, ``config.json`` and hash.
        labels: of its outputs, in order.
        inputs: how pixels are made ready.
        ends: operator that makes its first output: ``Softmax``, ``LogSoftmax``, ``Sigmoid``, or
            another.
        metadata: texts that the file has, by name.
        run: float32 (m, 3, height, width) -> its first output, a tensor in main memory.
        every: the same -> all outputs by name.
    """

    source: ModelSource
    labels: list[str]
    inputs: Inputs
    ends: str
    metadata: Mapping[str, str]
    run: Callable[[Tensor], Tensor]
    every: Callable[[Tensor], dict[str, NDArray[Any]]]


def onnx_file(source: str) -> Path | None:
    """The file of a source: itself, or ``model.onnx`` of a folder without weights of another form;
    None if it is something else.
    """
    path = Path(source).expanduser()
    if path.suffix.lower() == _ENDING and not path.is_dir():
        return path
    file = path / MODEL_FILE
    return file if file.is_file() and not any(path.glob(f"*{WEIGHTS}")) else None


def load_onnx(
    source: str,
    options: InputOptions,
    device: str,
    usual: Preprocessing | None = None,
    labels: Sequence[str] = (),
) -> OnnxNetwork:
    """Load a network with one input, float32 or float16 (n, 3, height, width) or (n, height, width,
    3). Size, mean, std and labels come from ``options``, else ``preprocessor_config.json``,
    ``labels.txt`` and ``config.json`` next to it, else of its metadata (ultralytics'), else they
    are the ``usual`` mean and std, and ``labels``.

    Raises InputError: it cannot be loaded, its input or labels are unknown. MissingExtraError:
    onnxruntime is not installed.
    """
    file = onnx_file(source)
    if file is None or not file.is_file():
        raise no_such(source, "file", allowed="a network as .onnx")
    folder, whole = file.parent, file.name == MODEL_FILE and Path(source).expanduser().is_dir()
    session = _session(file, device)
    names = [output.name for output in session.get_outputs()]
    metadata = dict(session.get_modelmeta().custom_metadata_map)
    first, *others = session.get_inputs()
    if others or first.type not in _FLOATS or len(first.shape) != 4:
        problem = f"takes {first.name} {first.type} {first.shape} and {len(others)} other inputs"
        allowed = "one input, float (n, 3, height, width)"
        raise InputError(problem, where=file, allowed=allowed)
    last = first.shape[3] == 3 and first.shape[1] != 3
    fixed = first.shape[1:3] if last else first.shape[2:]
    config = folder / CONFIG_FILE
    facts = read_json(config, "configuration", "JSON") if config.is_file() else {}
    facts = facts if isinstance(facts, dict) else {}
    prepared, named = _both(
        partial(_preprocessing, file, options, metadata, fixed, usual),
        partial(labels_of_outputs, file, options, metadata, facts, labels),
    )
    ends, weights = _graph(file)
    identity = _identity(folder) if whole else _hash_of_files(file, weights)
    if not whole or any(
        value is not None for value in (options.mean, options.std, options.classes)
    ):
        text = f"{identity} {prepared} {named}"
        identity = hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()

    def every(batch: Tensor) -> dict[str, NDArray[Any]]:
        images = batch.cpu().numpy().astype(_FLOATS[first.type])
        images = images.transpose(0, 2, 3, 1) if last else images
        # a network may be exported for one image at a time
        parts = images[:, None] if first.shape[0] == 1 else [images]
        given = zip(*(session.run(None, {first.name: part}) for part in parts), strict=True)
        outputs = [np.concatenate([np.atleast_1d(part) for part in output]) for output in given]
        return dict(zip(names, outputs, strict=True))

    def run(batch: Tensor) -> Tensor:
        import torch

        return torch.from_numpy(every(batch)[names[0]])

    name = folder.resolve().name if whole else file.stem
    found = ModelSource(name, folder, facts, identity)
    return OnnxNetwork(found, named, Inputs(prepared, device), ends, metadata, run, every)


def _both(first: Callable[[], _A], second: Callable[[], _B]) -> tuple[_A, _B]:
    """Results of two functions; of two about one file that fail, one error names both problems."""
    try:
        found = first()
    except InputError as error:
        try:
            second()
        except InputError as other:
            if other.where == error.where:
                raise error.changed(
                    problem=f"{error.problem}; {other.problem}",
                    remedy=f"{error.remedy}; {other.remedy}",
                    give=(*error.give, *other.give),
                ) from None
        raise
    return found, second()


def _preprocessing(
    file: Path,
    options: InputOptions,
    metadata: Mapping[str, str],
    shape: Sequence[Any],
    usual: Preprocessing | None,
) -> Preprocessing:
    """The input: options, else the configuration, else the metadata; ``shape`` is height and width
    that the network declares, numbers or names.
    """
    recorded = read_preprocessing(file.parent)
    if recorded is None and metadata.get("author") == "Ultralytics":
        recorded = IMAGENET.unnormalized()
        if size := _literal(file, metadata, "imgsz", _SIZES):
            recorded = replace(recorded, size=check_size((size[0], size[-1])))
    fixed = shape[0], shape[1]
    unsized = options.size is None and not all(isinstance(edge, int) for edge in fixed)
    if recorded is None and usual is None and (options.mean is None or options.std is None):
        raise InputError(
            f"has no {PREPROCESSOR} next to it, so its input is unknown",
            where=file,
            remedy=f"{{}} for pixels from 0 to 1 (these are ImageNet's), or write them into"
            f" {PREPROCESSOR}",
            give=({"size": ...} if unsized else {})
            | {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)},
        )
    if recorded is None:
        if unsized:
            remedy = f"{{}} in pixels, or write it into {PREPROCESSOR}"
            raise InputError(
                "takes images of any size", where=file, remedy=remedy, give={"size": ...}
            )
        recorded = usual or IMAGENET
        recorded = replace(recorded, size=fixed) if options.size is None else recorded
    if options.mean is not None or options.std is not None:
        plain = recorded.unnormalized()
        as_usual = replace(plain, mean=recorded.mean, std=recorded.std, flip=recorded.flip)
        as_usual = replace(as_usual, mean=options.mean or recorded.mean)
        recorded = replace(as_usual, std=options.std or recorded.std)
    if options.size is not None:
        recorded = replace(recorded, size=check_size(options.size))
    check_preprocessing(recorded, file)
    return recorded


def labels_of_outputs(
    file: Path,
    options: InputOptions,
    metadata: Mapping[str, str],
    config: Mapping[str, Any],
    usual: Sequence[str] = (),
) -> list[str]:
    """Labels in the order of the outputs: options, else ``labels.txt``, ``id2label`` of the
    configuration, ``names`` of the metadata, or the ``usual`` ones. Raises InputError: there are
    none, or not one each.
    """
    given = None if options.classes is None else Path(options.classes).expanduser()
    nearby = file.parent / LABELS_FILE
    allowed = "a text file with the label of each output, one per line"
    listed: Any = None
    if given is not None and given.suffix.lower() == ".json":
        listed = read_json(given, "file of labels", "JSON")
        listed = listed.get("id2label", listed) if isinstance(listed, dict) else listed
    elif given is not None or nearby.is_file():
        lines = text_lines(given or nearby, allowed=allowed)
        listed = [line.strip() for line in lines if line.strip()]
    elif config.get("id2label"):
        listed = config["id2label"]
    elif "names" in metadata:
        listed = _literal(file, metadata, "names", _NAMES)
    if listed is None and usual:
        listed = list(usual)
    if listed is None:
        problem = f"has no {LABELS_FILE} next to it, so its outputs have no names"
        raise InputError(problem, where=file, remedy=f"{{}}, {allowed}", give={"classes": ...})
    broken, problem = (TypeError, ValueError, AttributeError), "labels cannot be read"
    with unreadable(given or file, allowed, broken, problem=problem):
        named = (
            {int(number): str(label) for number, label in listed.items()}
            if isinstance(listed, dict)
            else dict(enumerate(map(str, listed)))
        )
    if not named or sorted(named) != list(range(len(named))):
        problem = f"has {len(named)} labels that are not numbered from 0"
        raise InputError(problem, where=given or file, allowed="a label for each output")
    return [named[number] for number in range(len(named))]


def _literal(file: Path, metadata: Mapping[str, str], name: str, kind: Any) -> Any:
    """A value of the metadata that is written as in Python; None if it is not there."""
    errors = (ValueError, SyntaxError, TypeError, MemoryError, *BROKEN_JSON)
    with unreadable(file, f"metadata {name} as ultralytics writes it", errors):
        value = ast.literal_eval(metadata.get(name, "None"))
        return None if value is None else msgspec.convert(value, kind)


def declared(file: Path) -> tuple[dict[str, str], dict[str, int]]:
    """Metadata of a network, and its outputs with their numbers of axes."""
    model = _loaded(file)
    outputs = {o.name: len(o.type.tensor_type.shape.dim) for o in model.graph.output}
    return {entry.key: entry.value for entry in model.metadata_props}, outputs


def _loaded(file: Path) -> Any:
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError("onnx", "onnx", "a network as ONNX") from error
    with as_input_error("cannot be loaded", where=file, allowed="a network as ONNX"):
        return onnx.load(str(file), load_external_data=False)


def _graph(file: Path) -> tuple[str, list[str]]:
    """Operator that makes the first output, and the files of weights that the graph names."""
    model = _loaded(file)
    if model.functions:
        from onnx.inliner import inline_local_functions

        model = inline_local_functions(model)
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output}
    name, kind = graph.output[0].name, ""
    for _ in range(len(graph.node)):
        if name not in makers:
            break
        # as the runtime calls one of 8 bits
        kind = makers[name].op_type.removeprefix("QLinear")
        if kind not in _PASSED:
            break
        name = makers[name].input[0]
    places = {
        entry.value
        for tensor in graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return kind, sorted(places)


def _hash_of_files(file: Path, weights: Sequence[str]) -> str:
    """SHA-256 of a file, and of files of weights in its folder."""
    lines = [sha256_once(file)]
    lines += [f"{name} {sha256_once(file.parent / name)}" for name in weights]
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()


def _identity(folder: Path) -> str:
    """SHA-256 over names and hashes of all files of a folder: a network may keep its weights in
    files of any name, which runtimes find.
    """
    files = (file for file in folder.rglob("*") if file.is_file() and file.name[0] != ".")
    lines = sorted(f"{file.relative_to(folder).as_posix()} {sha256_once(file)}" for file in files)
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()


def _session(model: Path, device: str) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("onnxruntime", "onnx", "a network as ONNX") from error
    import torch

    options = onnxruntime.SessionOptions()
    # its log would write names out of the file to the terminal as they are; errors are raised
    options.log_severity_level = 4
    options.intra_op_num_threads = torch.get_num_threads()
    kind, _, number = device.partition(":")
    provider = "CPUExecutionProvider" if kind == "cpu" else "CUDAExecutionProvider"
    if provider not in onnxruntime.get_available_providers():
        problem = f"onnxruntime cannot use {device} here"
        remedy = "install onnxruntime-gpu instead of onnxruntime"
        raise ParameterError(problem, where="`device`", remedy=remedy, give={"device": "cpu"})
    where = {} if kind == "cpu" else {"device_id": int(number or 0)}
    with as_input_error("cannot be loaded", where=model, allowed="a network as ONNX"):
        return onnxruntime.InferenceSession(str(model), options, providers=[(provider, where)])
