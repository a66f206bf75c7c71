"""Networks that give a logit for each task: trained here, classifiers, models such as CLIP."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nooch.base.calls import imported
from nooch.base.errors import Command, InputError, ParameterError, check_one_of, some_of, unreadable
from nooch.models.detectors import (
    Detect,
    ImageBoxes,
    custom_detector,
    is_onnx_detector,
    load_onnx_detector,
)
from nooch.models.devices import choose_device
from nooch.models.images import Inputs, Preprocessing, black_image, check_size
from nooch.models.onnx_networks import InputOptions, load_onnx, onnx_file
from nooch.models.output_meaning import OutputMeaning, Outputs, described, output_meaning
from nooch.models.saved_networks import NETWORK_MARKER, load_network
from nooch.models.sources import (
    ModelSource,
    complete,
    find_source,
    is_custom,
    preprocessing_of,
    quietly,
)
from nooch.models.task_maps import TaskWords, find_labels, prompts_of
from nooch.models.timm_networks import load_timm, timm_source

if TYPE_CHECKING:
    from torch import Tensor

    from nooch.data import Dataset


@dataclass(frozen=True, eq=False)
class Asked:
    """Request for a model: a hub id or a folder, and the tasks in order.

    ``words``, labels or prompts of tasks, are by default those that their names give, ``size``
    (height and width in pixels) is the model's own; ``device`` is from ``choose_device``;
    ``skip_unmapped`` leaves out tasks of which a classifier has no label; ``backbone`` is a custom
    one that a network was trained on; ``options`` are of a network as ONNX; ``outputs`` and
    ``data`` are as in ``output_meaning``.
    """

    source: str
    tasks: tuple[str, ...]
    words: Mapping[str, TaskWords] | None = None
    size: int | tuple[int, int] | None = None
    device: str = "cpu"
    skip_unmapped: bool = False
    backbone: str | None = None
    options: InputOptions = field(default_factory=InputOptions)
    outputs: str | None = None
    data: Dataset | None = None

    @property
    def folder(self) -> Path:
        """The source as a folder, which need not be there."""
        return Path(self.source).expanduser()

    @cached_property
    def own(self) -> Any:
        """The custom model that the source names. Raises ParameterError."""
        return imported(self.source, f"model {self.source!r}")()

    @cached_property
    def resolved(self) -> ModelSource:
        """The source as a model of transformers. Raises InputError if it is none."""
        return find_source(self.source)


@dataclass(frozen=True, eq=False)
class TaskModel:
    """A network that answers tasks.

    Attributes:
        name: hub id, or the folder's name.
        identity: hash of weights and configuration.
        kind: one of ``nooch.models.task_models.KINDS``.
        tasks: in the order of the logits.
        inputs: how pixels are made ready.
        outputs: float32 (m, 3, height, width) -> logits, float64 (m, n_tasks), on the device.
        meaning: what stands for each task, as text.
        detect: of a detector: images of any sizes -> boxes whose labels are positions in ``tasks``;
            its logits are of the largest scores.
        reading: of a classifier, whether its outputs exclude each other.
    """

    name: str
    identity: str
    kind: str
    tasks: tuple[str, ...]
    inputs: Inputs
    outputs: Callable[[Tensor], Tensor]
    meaning: Mapping[str, Any] = field(default_factory=dict)
    detect: Detect | None = None
    reading: OutputMeaning | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of its input in pixels."""
        return self.inputs.preprocessing.size

    @property
    def device(self) -> str:
        """Device that it computes on."""
        return self.inputs.device

    def logits(self, pixels: NDArray[np.uint8]) -> Tensor:
        """Logits of the tasks: uint8 (m, height, width, 3) -> float64 (m, n_tasks)."""
        return self.outputs(self.inputs.prepare(pixels))


def is_trained(request: Asked) -> bool:
    """True if the source is a folder of ``save_network``."""
    return (request.folder / NETWORK_MARKER).is_file()


def load_trained(request: Asked) -> TaskModel:
    """The network, with the outputs that are asked for."""
    network, header = load_network(request.folder, device=request.device, backbone=request.backbone)
    backbone = network.backbone
    for task in request.tasks:
        check_one_of("task", task, header.outputs, owner=f"the network {request.folder.name}")
    if request.words is not None:
        problem = "its outputs already are the tasks"
        raise ParameterError(problem, where=request.folder, give={"task_map": None})
    if request.size not in {None, backbone.size} and (request.size, request.size) != backbone.size:
        problem = f"was trained on images of {backbone.size[0]} x {backbone.size[1]}"
        raise InputError(problem, where=request.folder, give={"size": None})
    places = [header.outputs.index(task) for task in request.tasks]

    def outputs(batch: Tensor) -> Tensor:
        return network.logits(batch)[:, places].double()

    name, meaning = request.folder.name, dict.fromkeys(request.tasks, "output")
    return TaskModel(name, header.head, "trained", request.tasks, backbone.inputs, outputs, meaning)


def one_class(outputs: Tensor, inside: Sequence[int]) -> Tensor:
    """For a softmax: the classes exclude each other, p = sum of their probabilities.

    log p - log(1 - p) = logsumexp over these - logsumexp over the others, exact near 0 and 1. From
    outputs before the softmax (m, n_classes): float64 (m,).
    """
    import torch

    values = outputs.double()
    mask = torch.zeros(values.shape[1], dtype=torch.bool, device=values.device)
    mask[list(inside)] = True
    return torch.logsumexp(values[:, mask], 1) - torch.logsumexp(values[:, ~mask], 1)


def any_class(outputs: Tensor, inside: Sequence[int]) -> Tensor:
    """For several sigmoids: p = 1 - product of (1 - probability), classes taken as independent.

    With S = sum of softplus(output), 1 - p is exp(-S), so that the logit is S + log(1 - exp(-S)).
    From outputs before the sigmoids (m, n_classes): float64 (m,).
    """
    import torch

    columns = outputs.double()[:, list(inside)]
    if columns.shape[1] == 1:
        return columns[:, 0]
    total = torch.nn.functional.softplus(columns).sum(1)
    return total + torch.log(-torch.expm1(-total))


def is_classifier(request: Asked) -> bool:
    """True if the configuration is of an image classifier."""
    listed = request.resolved.config.get("architectures") or []
    return any(str(name).endswith("ForImageClassification") for name in listed)


def load_classifier(request: Asked) -> TaskModel:
    """A classifier that gives the tasks' logits. Raises InputError: tasks without labels, missing
    weights, a ``problem_type`` of no classification.
    """
    resolved, labels = request.resolved, labels_of(request.resolved)
    own = described(resolved.name, problem_type=resolved.config.get("problem_type"))
    inputs = Inputs(preprocessing_of(resolved, request.size), request.device, channels_last=True)
    from transformers import AutoModelForImageClassification

    def load() -> Callable[[Tensor], Tensor]:
        module = complete(AutoModelForImageClassification, resolved, request.device)
        return lambda batch: module(batch).logits

    return _answering(request, resolved, labels, own, inputs, load, "classifier")


def _answering(
    request: Asked,
    source: ModelSource,
    labels: Sequence[str],
    own: OutputMeaning | None,
    inputs: Inputs,
    load: Callable[[], Callable[[Tensor], Tensor]],
    kind: str,
) -> TaskModel:
    """The model of a network with an output for each label. ``own`` is what it says of its outputs,
    ``load`` gives, once the labels are found, what computes outputs before softmax or sigmoids, (m,
    n_labels), from its input.
    """
    name, words, skip = source.name, request.words, request.skip_unmapped
    inside = find_labels(labels, request.tasks, words, name, skip_unmapped=skip)
    asked: dict[str, Any] = {"outputs": request.outputs, "data": request.data}
    reading = output_meaning(labels, name, own, of_classes=words is None, **asked)
    if reading.exclusive and (whole := [t for t in inside if len(inside[t]) == len(labels)]):
        problem = f"all {len(labels)} labels of {name} stand for {some_of(whole)}"
        raise InputError(problem, where="`task_map`", allowed="some of the labels")
    answer, values = one_class if reading.exclusive else any_class, load()

    def outputs(batch: Tensor) -> Tensor:
        import torch

        of_labels = values(batch)
        if of_labels.ndim != 2 or of_labels.shape[1] != len(labels):
            shape = tuple(of_labels.shape[1:])
            problem = f"returns {shape[0] if len(shape) == 1 else shape} outputs"
            allowed = f"{len(labels)}, one for each label"
            raise InputError(problem, where=name, allowed=allowed)
        if len(labels) > 1 and of_labels.min() >= 0 and (of_labels.sum(1) - 1).abs().max() < _SUM:
            problem = "returns probabilities (they add up to 1) instead of logits"
            remedy = "return the inputs of the softmax, or export it with Softmax as the last"
            raise InputError(problem, where=name, remedy=f"{remedy} operator")
        return torch.stack([answer(of_labels, places) for places in inside.values()], 1)

    meaning = {task: [labels[place] for place in places] for task, places in inside.items()}
    facts = (name, source.identity, kind, tuple(inside), inputs, outputs, meaning)
    return TaskModel(*facts, reading=reading)


def is_onnx(request: Asked) -> bool:
    """True if the source is a network as ONNX."""
    return onnx_file(request.source) is not None


def load_onnx_classifier(request: Asked) -> TaskModel:
    """A network as ONNX, see ``load_onnx``, that gives the tasks' logits.

    Its first output is logits, (m, n_labels), or what its last operator makes of them: a softmax,
    whose logarithm is taken, or sigmoids, whose logit is.
    """
    options = replace(request.options, size=request.size)
    network = load_onnx(request.source, options, request.device)
    source, inputs = network.source, network.inputs
    own = described(source.name, network.ends, source.config.get("problem_type"))

    def values(batch: Tensor) -> Tensor:
        given = network.run(batch).double()
        given = given.reshape(len(given), -1) if {*given.shape[2:]} <= {1} else given
        if network.ends == "Softmax":
            given = given.clamp(min=_TINY).log()
        elif network.ends == "Sigmoid":
            given = given.logit(eps=_TINY)
        return given.to(request.device)

    return _answering(request, source, network.labels, own, inputs, lambda: values, "onnx")


_TINY = 1e-12
"""Probabilities that were rounded to 0 are this far from it."""
_SUM = 1e-4
"""Probabilities of half precision add up to 1 within this."""


def is_detector(request: Asked) -> bool:
    """True if the source is a detector as ONNX, or a custom model without a size."""
    if not is_own(request):
        return is_onnx_detector(request.source)
    return request.size is None and getattr(request.own, "size", None) is None


def load_detector(request: Asked) -> TaskModel:
    """A detector, see ``nooch.models.detectors``, of the labels that stand for tasks."""
    if is_own(request):
        detector = custom_detector(request.source, request.own, _identity(request))
    else:
        options = replace(request.options, size=request.size)
        detector = load_onnx_detector(request.source, options, request.device)
    # with what is not an object, a detector of one label has two classes
    labels, name, skip = [*detector.labels, "background"], detector.name, request.skip_unmapped
    inside = find_labels(labels, request.tasks, request.words, name, skip_unmapped=skip)
    stands = np.array([[n in places for places in inside.values()] for n in range(len(labels))])

    def detect(images: Sequence[NDArray[np.uint8]]) -> list[ImageBoxes]:
        found = []
        for boxes, numbers, scores in detector.detect(images):
            if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(detector.labels):
                problem = f"gives labels from {numbers.min()} to {numbers.max()}"
                raise InputError(problem, where=name, allowed=f"0 to {len(detector.labels) - 1}")
            rows, tasks = np.nonzero(stands[numbers])
            found.append(ImageBoxes(boxes[rows], tasks, scores[rows]))
        return found

    def outputs(batch: Tensor) -> Tensor:
        import torch

        images = [*batch.permute(0, 2, 3, 1).to(torch.uint8).cpu().numpy()]
        largest = np.zeros((len(images), len(inside)))
        for row, (_, tasks, scores) in zip(largest, detect(images), strict=True):
            np.maximum.at(row, tasks, scores)
        return torch.from_numpy(largest).logit(eps=_TINY).to(request.device)

    inputs = Inputs(Preprocessing(detector.size, 1.0, 0.0, (0.0,) * 3, (1.0,) * 3), request.device)
    meaning = {task: [labels[place] for place in places] for task, places in inside.items()}
    tasks = tuple(inside)
    return TaskModel(name, detector.identity, "detector", tasks, inputs, outputs, meaning, detect)


def is_timm(request: Asked) -> bool:
    """True if the configuration is of a model of timm."""
    return timm_source(request.source) is not None


def load_timm_classifier(request: Asked) -> TaskModel:
    """A classifier of timm, see ``load_timm``, that gives the tasks' logits."""
    options = replace(request.options, size=request.size)
    module, source, labels, prepared = load_timm(request.source, options, request.device)
    inputs = Inputs(prepared, request.device, channels_last=True)
    own = None
    if not request.folder.is_dir():
        own = OutputMeaning("exclusive", "timm's own classifiers are trained with a softmax")
    return _answering(request, source, labels, own, inputs, lambda: module, "timm")


def is_own(request: Asked) -> bool:
    """True if the source is ``package.module:Name``."""
    return is_custom(request.source)


def load_own(request: Asked) -> TaskModel:
    """A user's own model, named ``package.module:Name``, that gives the tasks' logits.

    ``Name()`` must give an object with ``classes``, names in order, that is called with images,
    uint8 (m, height, width, 3), and returns logits (m, n_classes), an array or tensor. ``size`` is
    what images are resized to, in pixels or (height, width); ``multi_label`` tells whether an image
    may have several of the classes.
    """
    import torch

    model = request.own
    labels, size = list(getattr(model, "classes", ())), request.size or getattr(model, "size", None)
    if not callable(model) or not labels or size is None:
        problem = "cannot be called with images, or lacks the attribute classes or size"
        allowed = "a callable of images with attributes classes and size"
        raise ParameterError(problem, where=request.source, allowed=allowed)
    plain = Preprocessing(check_size(size), 1.0, 0.0, (0.0,) * 3, (1.0,) * 3)

    def values(batch: Tensor) -> Tensor:
        images = batch.permute(0, 2, 3, 1).to(torch.uint8).cpu().numpy()
        return torch.as_tensor(model(images)).double().to(request.device)

    several, own = getattr(model, "multi_label", None), None
    if several is not None:
        kind = "independent" if several else "exclusive"
        own = OutputMeaning(kind, f"its multi_label is {several}", firm=True)
    source = ModelSource(request.source, None, {}, _identity(request))
    inputs = Inputs(plain, request.device)
    return _answering(request, source, labels, own, inputs, lambda: values, "custom")


def _identity(request: Asked) -> str:
    """Hash of a custom model's file, classes and what it describes."""
    classes, described = getattr(request.own, "classes", ()), getattr(request.own, "describe", dict)
    facts = json.dumps([request.source, list(classes), dict(described())])
    file = Path(getattr(sys.modules[request.source.partition(":")[0]], "__file__", None) or "")
    content = file.read_bytes() if file.is_file() else b""
    return hashlib.sha256(facts.encode() + content).hexdigest()


def labels_of(resolved: ModelSource) -> list[str]:
    """Labels in the order of the outputs. Raises InputError for an ``id2label`` that has not one
    for each.
    """
    config, name = resolved.config, resolved.name
    broken, problem = (TypeError, ValueError), "id2label cannot be read"
    with unreadable(name, "numbers and labels", broken, problem=problem):
        labels = dict(config.get("id2label") or {})
        numbered = {int(number): str(label) for number, label in labels.items()}
    if sorted(numbered) != list(range(len(numbered))) or not numbered:
        raise InputError(
            f"id2label of its config.json has {len(numbered)} labels that are not numbered from 0",
            where=name,
            allowed="a label for each output",
            remedy="write id2label into config.json: it gives the outputs their meaning",
        )
    return [numbered[number] for number in range(len(numbered))]


# models that were trained on texts of one length, filled up with padding
_ONE_LENGTH = frozenset({"siglip"})
_VOCABULARIES = (
    *("tokenizer.json", "vocab.json", "vocab.txt"),
    *("spiece.model", "sentencepiece.bpe.model"),
)
_NEEDED = ("get_text_features", "get_image_features", "logit_scale")


def is_zero_shot(request: Asked) -> bool:
    """True if the configuration has a tower for texts and one for images."""
    return {"text_config", "vision_config"} <= request.resolved.config.keys()


def load_zero_shot(request: Asked) -> TaskModel:
    """A model of texts and images that gives the tasks' logits.

    The similarity of an image and a prompt is their cosine times the model's own scale. A task's
    logit is logsumexp over its positive prompts less logsumexp over its negative ones: p is the
    softmax's share of the positive prompts.
    """
    resolved, prompts = request.resolved, prompts_of(request.tasks, request.words)
    inputs = Inputs(preprocessing_of(resolved, request.size), request.device, channels_last=True)
    from transformers import AutoModel

    module = complete(AutoModel, resolved, request.device)
    if not all(hasattr(module, name) for name in _NEEDED):
        kind = resolved.config["model_type"]
        problem = f"a model of type {kind} does not compare texts and images by cosine"
        allowed = "CLIP, SigLIP, ALIGN-like models with a logit_scale"
        raise InputError(problem, where=resolved.name, allowed=allowed)
    every = (text for sides in prompts.values() for side in sides for text in side)
    texts = list(dict.fromkeys(every))
    towards = _embedded(module, resolved, texts, request.device)
    columns = {
        task: [[texts.index(text) for text in side] for side in sides]
        for task, sides in prompts.items()
    }

    def outputs(batch: Tensor) -> Tensor:
        import torch

        images = _unit(module.get_image_features(pixel_values=batch))
        similar = (images @ towards.T).double() * module.logit_scale.double().exp()
        sums = [
            [torch.logsumexp(similar[:, c], 1) for c in columns[task]] for task in request.tasks
        ]
        return torch.stack([positive - negative for positive, negative in sums], 1)

    meaning = {task: {"positive": list(p), "negative": list(n)} for task, (p, n) in prompts.items()}
    return TaskModel(
        resolved.name, resolved.identity, "zero-shot", request.tasks, inputs, outputs, meaning
    )


def _embedded(module: Any, resolved: ModelSource, texts: Sequence[str], device: str) -> Tensor:
    """Embeddings of length 1, float32 (n_texts, d)."""
    import torch

    tokenizer = tokenizer_of(resolved)
    config = module.config.text_config
    ids = tokenizer(list(texts))["input_ids"]
    most = int(config.max_position_embeddings)
    if long := [text for text, numbers in zip(texts, ids, strict=True) if len(numbers) > most]:
        problem = f"prompts have more than {most} tokens: {some_of(long)}"
        raise InputError(problem, where="`task_map`", allowed="shorter prompts")
    if len(set(map(tuple, ids))) < len(texts) or max(map(max, ids)) >= config.vocab_size:
        problem = "the tokenizer gives two prompts the same tokens, or belongs to another model"
        allowed = "the model's own tokenizer, and prompts of words in its vocabulary"
        raise InputError(problem, where=resolved.folder, allowed=allowed)
    fixed = resolved.config["model_type"] in _ONE_LENGTH
    padding = {"padding": "max_length", "max_length": most} if fixed else {"padding": True}
    tokens = tokenizer(list(texts), return_tensors="pt", **padding).to(device)
    with torch.inference_mode():
        return _unit(module.get_text_features(**tokens))


def tokenizer_of(resolved: ModelSource) -> Any:
    """The tokenizer in a model's folder. Raises InputError if there is none."""
    from transformers import AutoTokenizer

    # without its vocabulary transformers makes a tokenizer that knows no word
    if resolved.folder is None or not any(
        (resolved.folder / name).is_file() for name in _VOCABULARIES
    ):
        problem = f"contains no tokenizer: none of {', '.join(_VOCABULARIES)}"
        remedy = "save it in the model's folder: tokenizer.save_pretrained(folder)"
        raise InputError(problem, where=resolved.folder or resolved.name, remedy=remedy)
    safe = {"local_files_only": True, "trust_remote_code": False}
    with quietly(resolved):
        return AutoTokenizer.from_pretrained(str(resolved.folder), **safe)


def _unit(features: Any) -> Tensor:
    """Features at length 1; newer versions of transformers give them inside an output."""
    import torch

    values: Tensor = getattr(features, "pooler_output", features)
    return torch.nn.functional.normalize(values.float(), dim=1)


@dataclass(frozen=True)
class ModelKind:
    """A kind of model: whether a source is of this kind, and how it is loaded."""

    fits: Callable[[Asked], bool]
    load: Callable[[Asked], TaskModel]


KINDS: dict[str, ModelKind] = {
    # before the others: its folder is one of transformers too
    "trained": ModelKind(is_trained, load_trained),
    "detector": ModelKind(is_detector, load_detector),
    "custom": ModelKind(is_own, load_own),
    "onnx": ModelKind(is_onnx, load_onnx_classifier),
    "timm": ModelKind(is_timm, load_timm_classifier),
    "classifier": ModelKind(is_classifier, load_classifier),
    "zero-shot": ModelKind(is_zero_shot, load_zero_shot),
}
"""Name -> kind; the first that fits is taken."""


def load_task_model(
    source: str | Path,
    tasks: Sequence[str],
    words: Mapping[str, TaskWords] | None = None,
    *,
    size: int | tuple[int, int] | None = None,
    device: str = "auto",
    skip_unmapped: bool = False,
    backbone: str | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    classes: str | Path | None = None,
    outputs: Outputs | None = None,
    data: Dataset | None = None,
) -> TaskModel:
    """Load a trained network that gives a logit for each task; no code in a file is run.

    Args:
        source: a hub id ``owner/model``, or a folder with weights as safetensors: an image
            classifier, a model of texts and images, or a network that nooch trained and kept; a
            network as ``.onnx`` or its folder, also a detector; a classifier of timm (``resnet50``,
            ``timm/NAME`` or folder; a folder comes first); or ``package.module:Name`` of a custom
            model, see ``nooch.models.task_models.load_own`` and ``nooch.models.detectors``.
        tasks: names of tasks.
        words: labels (classifier) or prompts (texts and images) of the tasks, from
            ``read_task_map``; by default those that the tasks' names give.
        size: size of the input in pixels (in Python also height and width); by default the size in
            ``preprocessor_config.json``.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        skip_unmapped: leave out tasks without words or label, as long as some task has them.
        backbone: custom backbone, ``package.module:Name``, that a network was trained on.
        mean: mean of each channel of an ONNX network's input, of pixels from 0 to 1.
        std: standard deviation of each channel of an ONNX network's input, of pixels from 0 to 1.
        classes: file with the label of each output of a network of ONNX or timm, one per line, or
            JSON.
        outputs: ``independent``, a sigmoid each, or ``exclusive``, a softmax; of a classifier that
            does not tell.
        data: dataset whose labels decide that too: exclusive if each image has one.

    Raises:
        InputError: no such model, one that cannot answer the tasks, or takes no such images; or it
            is unknown whether outputs exclude each other.
        ParameterError: no such device or size; a `backbone` of another model; ``outputs`` of a
            model that tells.
        MissingExtraError: torch or transformers is not installed.
    """
    if skip_unmapped and words is not None:
        tasks = [task for task in tasks if task in words] or tasks
    device = choose_device(device)
    means, deviations = (None if of is None else tuple(of) for of in (mean, std))
    options = InputOptions(None, means, deviations, classes)
    rest = (size, device, skip_unmapped, backbone, options, outputs, data)
    request = Asked(str(source), tuple(tasks), words, *rest)
    if backbone is not None and not is_trained(request):
        problem, allowed = "`backbone` is for networks that nooch trained", "their folder"
        raise ParameterError(problem, where=request.source, allowed=allowed)
    if not is_onnx(request):
        options.refuse(request.source, "mean", "std")
    kind = next((kind for kind in KINDS.values() if kind.fits(request)), None)
    if classes is not None and not is_onnx(request) and kind is not KINDS["timm"]:
        options.refuse(request.source, "classes")
    if kind is not None:
        model = kind.load(request)
        if outputs is not None and model.reading is None:
            problem = f"`outputs` has no effect on a model of kind {model.kind}"
            raise ParameterError(problem, where=model.name, give={"outputs": None})
        with black_image("answers", model.size, where=model.name) as black:
            shape = tuple(model.logits(black).shape)
        if shape != (1, len(model.tasks)):
            allowed = f"(1, {len(model.tasks)})"
            raise InputError(f"returns outputs of shape {shape}", where=model.name, allowed=allowed)
        return model
    problem = f"a model of type {request.resolved.config['model_type']} has no outputs for tasks"
    steps = Command("train features", backbone=request.resolved.name), Command("train bench")
    remedy = "train heads on its features: {}, then {}"
    raise InputError(problem, where=request.resolved.name, remedy=remedy, give=steps)
