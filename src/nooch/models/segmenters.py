"""Segmenters of transformers, semantic, panoptic or universal, and as ONNX -> areas of classes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nooch.base.calls import imported
from nooch.base.errors import (
    InputError,
    ParameterError,
    check_one_of,
    some_of,
)
from nooch.data import class_name
from nooch.data.table_schema import means_void
from nooch.models.images import Inputs, black_image
from nooch.models.onnx_networks import InputOptions, load_onnx
from nooch.models.output_meaning import OutputMeaning, described, output_meaning
from nooch.models.pixel_batches import chunks
from nooch.models.sources import ModelSource, complete, find_source, preprocessing_of
from nooch.models.task_models import labels_of, tokenizer_of

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class PredictedClasses:
    """A model's output for m images and each of its n classes.

    Attributes:
        confidences: float (m, n), from 0 to 1: the mean probability over the pixels of a class, or
            the probability that it is present; 0 where the model gives none.
        areas: float (m, n), fractions of the image; None from a model that gives only presence.
        maps: integers (m, height, width), the class of each pixel, n if it has none; or None.
    """

    confidences: NDArray[Any]
    areas: NDArray[Any] | None = None
    maps: NDArray[Any] | None = None


@dataclass(frozen=True)
class ModelChoice:
    """The annotating model (``source``) and its computation; ``size``, height and width of its
    input, is by default its own; ``merge`` has pairs of a name and the classes that it stands for;
    ``device`` is from ``choose_device``; ``embedder`` is a backbone that embeds the images.
    ``mean``, ``std`` and ``classes`` are as in ``InputOptions``, ``outputs`` as in
    ``output_meaning``.
    """

    source: str
    device: str = "cpu"
    size: int | None = None
    bf16: bool = False
    merge: tuple[tuple[str, tuple[str, ...]], ...] = ()
    embedder: str | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    classes: str | Path | None = None
    outputs: str | None = None

    @property
    def options(self) -> InputOptions:
        """The requested input and outputs of a network as ONNX."""
        return InputOptions(self.size, self.mean, self.std, self.classes)


@dataclass(frozen=True, eq=False)
class Annotator:
    """A model that was loaded.

    Attributes:
        name: hub id, folder name, or ``package.module:Name``.
        classes: names, in the order of its predictions.
        predict: pixels, uint8 (m, height, width, 3) -> ``PredictedClasses``.
        size: height and width of its input; None: images come as they are.
        facts: what else determines its predictions, JSON-like: hash of the weights, precision.
        reading: of a network, whether labels exclude each other in a pixel.
    """

    name: str
    classes: tuple[str, ...]
    predict: Callable[[NDArray[np.uint8]], PredictedClasses]
    size: tuple[int, int] | None
    facts: Mapping[str, Any] = field(default_factory=dict)
    reading: OutputMeaning | None = None


def custom_annotator(choice: ModelChoice) -> Annotator:
    """A user's own model, named ``package.module:Name``.

    ``Name()`` must give an object with ``classes``, names in order, that is called with pixels,
    uint8 (m, height, width, 3), and returns ``PredictedClasses``. Its ``size``, a height and width
    in pixels, is what images are resized to; if it has none they come as they are, batched by size.
    What ``describe()`` returns, JSON-like, is recorded.
    """
    choice.options.refuse(choice.source)
    if choice.bf16 or choice.size is not None or choice.merge or choice.outputs is not None:
        names = ("bf16", "size", "merge", "outputs")
        problem = (
            f"a custom model has no {', '.join(names[:-1])} or {names[-1]}: its class sets them"
        )
        raise ParameterError(problem, give={n: None for n in names if getattr(choice, n)})
    model = imported(choice.source, f"`segmenter` {choice.source!r}")()
    classes = tuple(getattr(model, "classes", ()))
    if not callable(model) or not classes:
        allowed = "a callable of pixels with an attribute classes"
        raise ParameterError("names no classes", where=choice.source, allowed=allowed)

    def predict(pixels: NDArray[np.uint8]) -> PredictedClasses:
        predicted, shape = model(pixels), (len(pixels), len(classes))
        for values in (predicted.confidences, predicted.areas):
            if values is None or (values.shape == shape and ((values >= 0) & (values <= 1)).all()):
                continue
            problem = f"its confidences or areas have shape {values.shape}, or are not fractions"
            allowed = f"{shape[0]} images x {shape[1]} classes, values from 0 to 1"
            raise InputError(problem, where=choice.source, allowed=allowed)
        return PredictedClasses(predicted.confidences, predicted.areas, predicted.maps)

    facts = dict(getattr(model, "describe", dict)())
    return Annotator(choice.source, classes, predict, getattr(model, "size", None), facts)


def _is_no_class(label: str) -> bool:
    """True of a label of pixels without a class, such as ``background``."""
    return label == "background" or means_void(label)


def merged_classes(
    labels: Sequence[str], choice: ModelChoice, name: str
) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Classes of a segmenter, and the class of each of its labels, int64 (n_labels,).

    Labels of one name are one class, and so are those that ``choice.merge`` puts together. Labels
    that mean no class, such as ``background``, have the number of classes as theirs.

    Raises ParameterError: what is not a label, is merged twice, or merged under a name in use.
    """
    labels = [class_name(label, name) for label in labels]
    target: dict[str, str] = {}
    for to, members in choice.merge:
        for member in members:
            check_one_of("class", member, set(labels), owner=name)
            if target.setdefault(member, to) != to:
                problem, allowed = f"class {member} is merged twice", "each class once"
                raise ParameterError(problem, where="`merge`", allowed=allowed)
    if taken := sorted(set(target.values()) & set(labels) - set(target)):
        problem = f"{name} already has a class {some_of(taken)}"
        remedy = f"also list it: {taken[0]}={taken[0]}+...; or choose another name"
        raise ParameterError(problem, where="`merge`", remedy=remedy)
    names = [target.get(label, label) for label in labels]
    kept = dict.fromkeys(n for n in names if not _is_no_class(n))
    column = {name: number for number, name in enumerate(kept)}
    return tuple(kept), np.array([column.get(name, len(kept)) for name in names])


_SEMANTIC = "ForSemanticSegmentation"
# the second is MaskFormer's, the third DETR's
_UNIVERSAL = ("ForUniversalSegmentation", "ForInstanceSegmentation", "ForSegmentation")
"""Suffixes of the names of architectures."""


def load_segmenter(choice: ModelChoice) -> Annotator:
    """Load a hub id or folder of transformers; no code that comes with it is run.

    Probabilities are the softmax of a semantic model, of one label the sigmoid; a universal one's
    are its masks' probabilities, summed by class and divided by their sum over classes where that
    is above 1. A pixel has the class that ``post_process_semantic_segmentation`` of transformers
    gives it.
    """
    choice.options.refuse(choice.source)
    resolved = find_source(choice.source)
    head = str((resolved.config.get("architectures") or [""])[0])
    if not head.endswith((_SEMANTIC, *_UNIVERSAL)):
        raise InputError(
            f"a model of type {resolved.config['model_type']} does not segment images",
            where=resolved.name,
            allowed="a semantic, panoptic or universal segmentation model of transformers, such as"
            " SegFormer, Mask2Former or OneFormer; a .onnx file or its folder; package.module:Name",
        )
    inputs = Inputs(preprocessing_of(resolved, choice.size), choice.device, channels_last=True)
    from transformers import AutoModelForSemanticSegmentation, AutoModelForUniversalSegmentation

    of_pixels = head.endswith(_SEMANTIC)
    auto = AutoModelForSemanticSegmentation if of_pixels else AutoModelForUniversalSegmentation
    labels = labels_of(resolved)
    own = None
    if len(labels) > 1 or not of_pixels:
        own = OutputMeaning("exclusive", f"{head} labels each pixel once", firm=True)
    reading = output_meaning(labels, resolved.name, own, outputs=choice.outputs)
    module = complete(auto, resolved, choice.device)
    more = _task_inputs(module, resolved, choice.device)

    def probabilities(batch: Tensor) -> Tensor:
        import torch

        precision = torch.autocast(batch.device.type, torch.bfloat16)
        with precision if choice.bf16 else contextlib.nullcontext():
            outputs = module(batch, **{k: v.expand(len(batch), -1) for k, v in more.items()})
        if not of_pixels:
            return _of_masks(outputs)
        values: Tensor = outputs.logits.float()
        return values.softmax(1) if reading.exclusive else values.sigmoid()

    facts = {"precision": "bf16" if choice.bf16 else "fp32"}
    if resolved.folder is not None and resolved.folder.parent.name == "snapshots":
        facts["revision"] = resolved.folder.name
    return _segmenter(resolved, labels, choice, inputs, probabilities, reading, **facts)


def _segmenter(
    source: ModelSource,
    labels: list[str],
    choice: ModelChoice,
    inputs: Inputs,
    probabilities: Callable[[Tensor], Tensor],
    reading: OutputMeaning,
    **facts: Any,
) -> Annotator:
    """The annotator of a network, after it has taken a black image. ``probabilities`` are of
    labels, (m, n_labels, any height, any width), for its input, float32 (m, 3, height, width).

    Raises InputError: a network that fails, or gives something else.
    """
    name = source.name
    classes, places = merged_classes(labels, choice, name)

    def predict(pixels: NDArray[np.uint8]) -> PredictedClasses:
        import torch

        parts = []
        with torch.inference_mode():
            for chunk in chunks(pixels, choice.device):
                values = probabilities(inputs.prepare(chunk))
                if values.ndim != 4 or values.shape[1] != len(places):
                    allowed = f"images x {len(places)} labels x height x width"
                    problem = f"returns outputs of shape {tuple(values.shape)}"
                    raise InputError(problem, where=name, allowed=allowed)
                if not torch.isfinite(values).all():
                    problem = "returns probabilities that are not finite"
                    give = {"bf16": None} if choice.bf16 else ()
                    raise InputError(problem, where=name, remedy="check its weights", give=give)
                parts.append(assigned(values, places, len(classes)))
        return PredictedClasses(*map(np.concatenate, zip(*parts, strict=True)))

    size = inputs.preprocessing.size
    assigned = _assigned if reading.exclusive else _overlapping
    with black_image("segmentation", size, where=name) as black:
        predict(black)
    facts = {"sha256": source.identity, **facts, "outputs": reading.kind}
    return Annotator(name, classes, predict, size, facts, reading)


def _overlapping(
    probabilities: Tensor, places: NDArray[np.int64], n_classes: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """As ``_assigned``, where a pixel has each class of which some label is above 1/2; in maps the
    most probable one.
    """
    import torch

    members = [np.flatnonzero(places == number).tolist() for number in range(n_classes)]
    of_classes = torch.stack([probabilities[:, at].double().amax(1) for at in members], 1)
    inside = of_classes > 0.5
    means = (of_classes * inside).sum((2, 3)) / inside.sum((2, 3)).clamp(min=1)
    best, maps = of_classes.max(1)
    maps = maps.where(best > 0.5, n_classes)
    return means.cpu().numpy(), inside.double().mean((2, 3)).cpu().numpy(), maps.cpu().numpy()


def _assigned(
    probabilities: Tensor, places: NDArray[np.int64], n_classes: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Confidences, areas and maps of pixels that belong to their most probable label's class."""
    import torch

    best, label = probabilities.max(1)
    maps = torch.from_numpy(places).to(label.device)[label]
    shape = (len(maps), n_classes + 1)
    flat = (maps + torch.arange(len(maps), device=maps.device).view(-1, 1, 1) * shape[1]).flatten()
    most = shape[0] * shape[1]
    counts = torch.bincount(flat, minlength=most).view(shape)[:, :n_classes]
    sums = torch.bincount(flat, best.double().flatten(), most).view(shape)[:, :n_classes]
    means = (sums / counts.clamp(min=1)).clamp(max=1)
    areas = counts.double() / maps[0].numel()
    return means.cpu().numpy(), areas.cpu().numpy(), maps.cpu().numpy()


def _of_masks(outputs: Any) -> Tensor:
    """Probabilities of labels from queries, each with a mask and a label, the last being none."""
    import torch

    has_masks = hasattr(outputs, "class_queries_logits")
    classes = outputs.class_queries_logits if has_masks else outputs.logits
    masks = outputs.masks_queries_logits if has_masks else outputs.pred_masks
    classes, masks = classes.float().softmax(-1)[..., :-1], masks.float().sigmoid()
    sums = torch.einsum("mqc,mqhw->mchw", classes, masks)
    return sums / sums.sum(1, keepdim=True).clamp(min=1)


def _task_inputs(module: Any, resolved: ModelSource, device: str) -> dict[str, Tensor]:
    """OneFormer's instruction as tokens; nothing for other models."""
    if resolved.config["model_type"] != "oneformer":
        return {}
    length = {"padding": "max_length", "max_length": int(module.config.task_seq_len)}
    tokens = tokenizer_of(resolved)("the task is semantic", return_tensors="pt", **length)
    # as OneFormer's processor does it
    return {"task_inputs": (tokens["input_ids"] * tokens["attention_mask"]).to(device)}


def load_onnx_segmenter(choice: ModelChoice) -> Annotator:
    """Load a network as ONNX, see ``load_onnx``, whose first output is logits, the softmax of them
    or sigmoids, (n, n_labels, any height, any width). One with a label such as ``background``, for
    pixels of no other, has labels that exclude each other.
    """
    if choice.bf16:
        problem = "an ONNX network computes in the precision that it was exported in"
        raise ParameterError(problem, give={"bf16": None})
    network = load_onnx(choice.source, choice.options, choice.device)
    name, own = network.source.name, described(network.source.name, network.ends)
    if own is None and (rest := [label for label in network.labels if _is_no_class(label)]):
        own = OutputMeaning("exclusive", f"one label is {rest[0]}")
    reading = output_meaning(network.labels, name, own, outputs=choice.outputs)

    def probabilities(batch: Tensor) -> Tensor:
        values = network.run(batch).float()
        if values.ndim != 4 or network.ends in {"Softmax", "Sigmoid"}:
            return values
        return values.softmax(1) if reading.exclusive else values.sigmoid()

    facts = {"onnxruntime": version("onnxruntime")}
    return _segmenter(
        network.source, network.labels, choice, network.inputs, probabilities, reading, **facts
    )
