"""Object detectors, as ONNX or custom: images -> boxes, labels and scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.special import expit, softmax

from nooch.base.errors import InputError, ParameterError, some_of
from nooch.data.arrays import box_arrays
from nooch.data.box_columns import are_fractions
from nooch.data.objects import overlaps
from nooch.data.readers.cocostuff import THINGS
from nooch.models.images import IMAGENET, black_image
from nooch.models.onnx_networks import InputOptions, declared, load_onnx, onnx_file

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float64]
Outputs = Mapping[str, NDArray[Any]]
T = TypeVar("T")

LEAST = 0.01
"""Boxes with lower scores are left out, as in YOLOX's evaluation."""
OVERLAP = 0.65
"""Overlap of two boxes of a label beyond which only the one with the higher score is left."""
MOST = 100
"""Boxes of a label that are left in an image, as COCO counts them."""
_PADDING = 114
_OF_MASKS = 32
"""Numbers that ultralytics' segmenters give for each box besides a detector's."""
_ROLES = {
    "boxes": {"boxes", "bboxes", "det_boxes", "detection_boxes", "pred_boxes", "dets"},
    "scores": {"scores", "det_scores", "detection_scores"},
    "labels": {"labels", "classes", "class_ids", "det_classes", "detection_classes"},
    "count": {"num_dets", "num_detections", "num", "num_boxes"},
    "logits": {"logits", "pred_logits"},
}
"""Content of an output -> its names."""
LAYOUTS = (
    "YOLOX's or YOLOv5's (1, rows, 5 + labels), ultralytics' (1, 4 + labels, rows), or boxes that"
    " are suppressed (1, n, 6); outputs called boxes, scores and labels (any with num_dets); or"
    " logits and pred_boxes"
)
"""Outputs of detectors that are recognized, for errors."""


_ANSWERS = "for each image {boxes: (n, 4), labels: (n,), scores: (n,)}, in a list"
_USUAL = (640, 640)
"""Size of a custom detector's images where all must have one."""


class ImageBoxes(NamedTuple):
    """The boxes of an image: corners float64 (n, 4) in its pixels, labels int64 (n,), positions in
    the detector's labels, and scores float64 (n,), in [0, 1].
    """

    boxes: Floats
    labels: NDArray[np.int64]
    scores: Floats


Detect = Callable[[Sequence[Pixels]], list[ImageBoxes]]
"""Images of any sizes, uint8 (height, width, 3) each, RGB -> the boxes of each."""


@dataclass(frozen=True, eq=False)
class Detector:
    """A detector that was loaded: name, hash of what determines its boxes, labels, and height and
    width of its input.
    """

    name: str
    identity: str
    labels: list[str]
    size: tuple[int, int]
    detect: Detect


def is_onnx_detector(source: str) -> bool:
    """True for a network as ONNX with outputs of a detector: boxes by their name, three axes, or
    by ultralytics' metadata.
    """
    file = onnx_file(source)
    if file is None or not file.is_file():
        return False
    metadata, outputs = declared(file)
    is_raw = bool(outputs) and next(iter(outputs.values())) == 3
    is_named = "boxes" in _by_role(outputs) or metadata.get("task") in {"detect", "segment"}
    return is_raw or is_named


def _by_role(outputs: Mapping[str, T]) -> dict[str, T]:
    """Outputs by what they contain, a key of ``_ROLES``."""
    of_name = {name: role for role, names in _ROLES.items() for name in names}
    return {of_name[n.lower()]: output for n, output in outputs.items() if n.lower() in of_name}


def load_onnx_detector(source: str, options: InputOptions, device: str) -> Detector:
    """Load a network, see ``load_onnx``, whose outputs have one of ``LAYOUTS``.

    Boxes of a raw output are suppressed by label; a box counts for each label whose score is at
    least ``LEAST``. Unless options or files set it, the input is as in training: YOLOX's is blue,
    green, red from 0 to 255 at the top left; others take red, green, blue from 0 to 1, centered.
    Images keep their aspect and are padded with gray; for logits and pred_boxes they are stretched.

    Raises InputError: outputs that are not recognized, and as ``load_onnx``.
    """
    file = onnx_file(source)
    roles = _by_role(declared(file)[1]) if file is not None and file.is_file() else {}
    usual = None if "boxes" in roles and "count" not in roles else IMAGENET.unnormalized()
    network = load_onnx(source, options, device, usual, () if "boxes" in roles else THINGS)
    inputs, n_labels, name = network.inputs, len(network.labels), network.source.name
    size = inputs.preprocessing.size
    masks = _OF_MASKS if network.metadata.get("task") == "segment" else 0
    with black_image("boxes", size, where=name) as black:
        given = network.every(inputs.prepare(black))
    layout = _layout(given, n_labels, size, masks)
    if layout is None:
        shapes = some_of(f"{key} {value.shape}" for key, value in given.items())
        raise InputError(
            f"has outputs {shapes} and {n_labels} labels, which are not a detector's",
            where=name, allowed=LAYOUTS,
            remedy="{} with a label for each score, or write your own class: package.module:Name",
            give={"classes": ...},
        )  # fmt: skip
    is_usual = inputs.preprocessing == replace(IMAGENET.unnormalized(), size=size)
    if layout.is_yolox and is_usual and options.mean is None and options.std is None:
        inputs = replace(inputs, preprocessing=replace(inputs.preprocessing, factor=1.0, flip=True))

    def detect(images: Sequence[Pixels]) -> list[ImageBoxes]:
        found = []
        for image in images:
            canvas, ratio, start = _placed(image, size, layout)
            outputs = network.every(inputs.prepare(canvas[None]))
            if not all(np.isfinite(value).all() for value in outputs.values()):
                problem = "gives outputs that are not finite"
                raise InputError(problem, where=name, remedy="check its weights")
            boxes, labels, scores = layout.decode(outputs)
            found.append(ImageBoxes((boxes - start) / ratio, labels, scores))
        return found

    return Detector(name, network.source.identity, network.labels, size, detect)


class _Layout(NamedTuple):
    """Outputs -> boxes in pixels of the input, and how images are fitted into it."""

    decode: Callable[[Outputs], ImageBoxes]
    is_yolox: bool = False
    is_stretched: bool = False


def _placed(image: Pixels, size: tuple[int, int], layout: _Layout) -> tuple[Pixels, Floats, Floats]:
    """An image in the input, and factor and offset of its boxes there, float64 (4,)."""
    own = image.shape[:2]
    ratio = min(size[0] / own[0], size[1] / own[1])
    tall, wide = size if layout.is_stretched else [max(1, round(side * ratio)) for side in own]
    # as ultralytics rounds half a pixel
    top, left = (round((size[i] - part) / 2 - 0.1) for i, part in enumerate((tall, wide)))
    top, left = (0, 0) if layout.is_yolox else (top, left)
    canvas = np.full((*size, 3), _PADDING, np.uint8)
    small = Image.fromarray(image).resize((wide, tall), Image.Resampling.BILINEAR)
    canvas[top : top + tall, left : left + wide] = np.asarray(small)
    factors = (size[1] / own[1], size[0] / own[0]) if layout.is_stretched else (ratio, ratio)
    return canvas, np.array([*factors, *factors]), np.array([left, top, left, top], np.float64)


def _layout(given: Outputs, n_labels: int, size: tuple[int, int], masks: int) -> _Layout | None:
    """The layout of outputs that a network gave; None if they are not recognized."""
    roles, first = _by_role(given), next(iter(given.values()))
    if "boxes" in roles:
        if "logits" in roles:
            return _Layout(partial(_of_queries, n_labels, size), is_stretched=True)
        is_whole = "labels" in roles and ("scores" in roles or roles["boxes"].shape[-1] == 5)
        return _Layout(partial(_of_names, size)) if is_whole else None
    decode: Callable[[Outputs], ImageBoxes] | None = None
    is_yolox, grid = False, _grid(size)
    rows, columns = (n - masks for n in first.shape[1:]) if first.ndim == 3 else (0, 0)
    if columns == 5 + n_labels and rows + masks in {len(grid), 3 * len(grid)}:
        is_yolox = rows + masks == len(grid)
        decode = partial(_of_objectness, n_labels, grid if is_yolox else None)
    elif columns == 6:
        decode = _of_rows
    elif 4 + n_labels in {rows, columns}:
        decode = partial(_of_scores, n_labels, rows == 4 + n_labels)
    return None if decode is None else _Layout(decode, is_yolox)


def _grid(size: tuple[int, int]) -> NDArray[np.int64]:
    """Column, row and stride of each cell, int64 (n, 3): strides 8, 16 and 32 in turn."""
    parts = []
    for stride in (8, 16, 32):
        row, column = np.mgrid[: size[0] // stride, : size[1] // stride]
        parts.append(np.stack([column, row, np.full_like(row, stride)], -1).reshape(-1, 3))
    return np.concatenate(parts)


def _first(given: Outputs) -> Floats:
    return np.asarray(next(iter(given.values()))[0], np.float64)


def _of_objectness(n_labels: int, grid: NDArray[np.int64] | None, given: Outputs) -> ImageBoxes:
    """Centers and sides, objectness, score of each label; of cells of a grid, unless decoded."""
    values = _first(given)
    center, sides = values[:, :2], values[:, 2:4]
    # offsets in cells are small, pixels are not
    if grid is not None and np.abs(center).max() < grid[:, :2].max():
        center, sides = (center + grid[:, :2]) * grid[:, 2:], np.exp(sides) * grid[:, 2:]
    return suppressed(_best(center, sides, values[:, 4:5] * values[:, 5 : 5 + n_labels]))


def _of_scores(n_labels: int, is_turned: bool, given: Outputs) -> ImageBoxes:
    """Centers and sides, score of each label."""
    values = _first(given).T if is_turned else _first(given)
    return suppressed(_best(values[:, :2], values[:, 2:4], values[:, 4 : 4 + n_labels]))


def _best(center: Floats, sides: Floats, scores: Floats) -> ImageBoxes:
    rows, labels = np.nonzero(scores >= LEAST)
    boxes = np.hstack([center - sides / 2, center + sides / 2])[rows]
    return ImageBoxes(boxes, labels, scores[rows, labels])


def suppressed(found: ImageBoxes, overlap: float = OVERLAP, most: int = MOST) -> ImageBoxes:
    """Boxes without those that overlap, by more, one of the same label that is left and has a
    higher score; by label, the highest scores first, and at most the first few.
    """
    boxes, labels, scores = found
    sides, no_crowd = np.hstack([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]]), np.zeros(1, bool)
    kept = list[np.int64]()
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        rows = rows[np.argsort(-scores[rows], kind="stable")]
        end = len(kept) + most
        while len(rows) and len(kept) < end:
            kept.append(rows[0])
            first, rows = sides[rows[:1]], rows[1:]
            rows = rows[overlaps(first, sides[rows], no_crowd) <= overlap]
    return ImageBoxes(boxes[kept], labels[kept], scores[kept]) if kept else found


def _of_rows(given: Outputs) -> ImageBoxes:
    """Corners, score and label."""
    values = _first(given)
    values = values[values[:, 4] >= LEAST]
    return ImageBoxes(values[:, :4], values[:, 5].astype(np.int64), values[:, 4])


def _of_names(size: tuple[int, int], given: Outputs) -> ImageBoxes:
    """Corners in pixels or fractions of the input, scores and labels, each with an axis for the
    image or without; as many as the count, if there is one.
    """
    roles = _by_role(given)
    boxes = roles["boxes"].reshape(-1, roles["boxes"].shape[-1]).astype(np.float64)
    scores = roles["scores"].reshape(-1).astype(np.float64) if "scores" in roles else boxes[:, 4]
    labels, count = roles["labels"], roles.get("count")
    boxes, labels = boxes[:, :4], labels.reshape(-1).astype(np.int64)
    if are_fractions(boxes):
        boxes = boxes * np.tile(size[::-1], 2)
    kept = np.flatnonzero(scores[: None if count is None else int(count.flat[0])] >= LEAST)
    return ImageBoxes(boxes[kept], labels[kept], scores[kept])


def _of_queries(n_labels: int, size: tuple[int, int], given: Outputs) -> ImageBoxes:
    """Logits of each query, with a last one for none (softmax) or without (sigmoids), and centers
    and sides in fractions.
    """
    roles = _by_role(given)
    logits, boxes = (roles[role][0].astype(np.float64) for role in ("logits", "boxes"))
    scores = softmax(logits, 1)[:, :n_labels] if logits.shape[1] > n_labels else expit(logits)
    boxes = boxes * np.tile(size[::-1], 2)
    return _best(boxes[:, :2], boxes[:, 2:], scores)


def custom_detector(source: str, model: Any, identity: str) -> Detector:
    """A user's own detector, named ``package.module:Name``.

    It has ``classes``, names in order or number -> name, and is called with a list of images, uint8
    (height, width, 3) each; it returns for each one ``{"boxes": corners in pixels (n, 4), "labels":
    numbers or names (n,), "scores": (n,)}``, as torchvision and transformers do. Raises
    ParameterError if it does not.
    """
    classes = getattr(model, "classes", None)
    named = classes if isinstance(classes, Mapping) else dict(enumerate(classes or ()))
    if not callable(model) or not named:
        problem = "cannot be called with images, or lacks the attribute classes or size"
        allowed = "a callable of images with an attribute classes; a classifier has size too"
        raise ParameterError(problem, where=source, allowed=allowed)
    labels = [str(label) for label in named.values()]
    places = {key: place for place, key in enumerate(named)} | {
        label: place for place, label in enumerate(labels)
    }

    def detect(images: Sequence[Pixels]) -> list[ImageBoxes]:
        answers = model(list(images))
        if not isinstance(answers, list | tuple) or len(answers) != len(images):
            problem = f"returns a {type(answers).__name__} for {len(images)} images"
            raise InputError(problem, where=source, allowed=_ANSWERS)
        found = []
        for answer in answers:
            if not isinstance(answer, Mapping) or not {"boxes", "labels", "scores"} <= {*answer}:
                problem = f"returns a {type(answer).__name__} for an image"
                raise InputError(problem, where=source, allowed=_ANSWERS)
            members = (answer["boxes"], answer["labels"], answer["scores"])
            given, scores, boxes = box_arrays(*members, source)
            if unknown := sorted({*given} - {*places}):
                problem = f"returns labels without names: {some_of(unknown)}"
                raise InputError(problem, where=source, allowed=f"`classes`: {some_of(labels)}")
            numbers = np.array([places[label] for label in given], np.int64)
            found.append(ImageBoxes(boxes, numbers, scores))
        return found

    return Detector(source, identity, labels, _USUAL, detect)
