"""Models that say which classes an image shows, and how large they are: segmenters, detectors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import InputError, ParameterError, check_one_of, some_of
from nooch.base.import_string import imported
from nooch.data import class_name
from nooch.data.readers.label_maps import means_void

__all__ = ["Annotator", "ModelChoice", "PredictedClasses", "custom_annotator", "merged_classes"]


@dataclass(frozen=True, eq=False)
class PredictedClasses:
    """What a model says of m images, for each of its n classes.

    Attributes:
        confidences: float (m, n), from 0 to 1: the mean probability over the pixels of a class, or
            the probability that it is present; 0 where the model says nothing.
        areas: float (m, n), fractions of the image; None from a model of presence alone.
        maps: integers (m, height, width), the class of each pixel, n where it has none; or None.
    """

    confidences: NDArray[Any]
    areas: NDArray[Any] | None = None
    maps: NDArray[Any] | None = None


@dataclass(frozen=True)
class ModelChoice:
    """Which model annotates (``source``) and how it computes; ``size``, height and width of its
    input, is by default its own; ``merge`` has pairs of a name and the classes that it stands for;
    ``device`` is from ``choose_device``; ``embedder`` is a backbone that embeds the images.
    """

    source: str
    device: str = "cpu"
    size: int | None = None
    bf16: bool = False
    merge: tuple[tuple[str, tuple[str, ...]], ...] = ()
    embedder: str | None = None


@dataclass(frozen=True, eq=False)
class Annotator:
    """A model that was loaded.

    Attributes:
        name: hub id, folder name, or ``package.module:Name``.
        classes: names, in the order of its predictions.
        predict: pixels, uint8 (m, height, width, 3) -> ``PredictedClasses``.
        size: height and width of its input; None: images come as they are.
        facts: what else determines its predictions, JSON-like: hash of the weights, precision.
    """

    name: str
    classes: tuple[str, ...]
    predict: Callable[[NDArray[np.uint8]], PredictedClasses]
    size: tuple[int, int] | None
    facts: Mapping[str, Any] = field(default_factory=dict)


def custom_annotator(choice: ModelChoice) -> Annotator:
    """A user's own model, named ``package.module:Name``.

    ``Name()`` must give an object with ``classes``, names in order, that is called with pixels,
    uint8 (m, height, width, 3), and returns ``PredictedClasses``. Its ``size``, a height and width
    in pixels, is what images are resized to; where it has none they come as they are, those of one
    size together. What ``describe()`` returns, JSON-like, is recorded.

    Raises:
        ParameterError: it cannot be imported, or has no classes; options that it does not take.
        InputError: when it is called: predictions of another shape, or that are no fractions.
    """
    if choice.bf16 or choice.size is not None or choice.merge:
        problem = "a custom model takes no `bf16`, `size` or `merge`"
        raise ParameterError(problem, allowed="what its own class sets")
    model = imported(choice.source, f"`segmenter` {choice.source!r}")()
    classes = tuple(getattr(model, "classes", ()))
    if not callable(model) or not classes:
        allowed = "an object with `classes` that is called with pixels"
        raise ParameterError("names no classes", where=choice.source, allowed=allowed)

    def predict(pixels: NDArray[np.uint8]) -> PredictedClasses:
        predicted, shape = model(pixels), (len(pixels), len(classes))
        for values in (predicted.confidences, predicted.areas):
            if values is None or (values.shape == shape and ((values >= 0) & (values <= 1)).all()):
                continue
            raise InputError(
                f"gives confidences or areas of shape {values.shape} that are no fractions",
                where=choice.source,
                allowed=f"{shape[0]} images x {shape[1]} classes, values from 0 to 1",
            )
        return PredictedClasses(predicted.confidences, predicted.areas, predicted.maps)

    facts = dict(getattr(model, "describe", dict)())
    return Annotator(choice.source, classes, predict, getattr(model, "size", None), facts)


def merged_classes(
    labels: Sequence[str], choice: ModelChoice, name: str
) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Classes of a segmenter, and the class of each of its labels, int64 (n_labels,).

    Labels of one name are one class, and so are those that ``choice.merge`` puts together. Labels
    that mean no class, such as ``background``, have the number of classes as theirs.

    Raises ParameterError: what is no label, is merged twice, or merged under a name in use.
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
        raise ParameterError(
            f"{some_of(taken)} is a class of {name} already",
            where="`merge`",
            remedy=f"list it, too: {taken[0]}={taken[0]}+...; or choose another name",
        )
    names = [target.get(label, label) for label in labels]
    kept = dict.fromkeys(n for n in names if n != "background" and not means_void(n))
    column = {name: number for number, name in enumerate(kept)}
    return tuple(kept), np.array([column.get(name, len(kept)) for name in names])
