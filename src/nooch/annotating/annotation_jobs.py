"""What workers do to annotate: images -> a table of what a model predicts of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from PIL import Image

from nooch.errors import NoochError, some_of
from nooch.import_string import is_named
from nooch.models.annotators import Annotator, ModelChoice, PredictedClasses, custom_annotator
from nooch.models.backbones import Backbone, load_backbone
from nooch.models.devices import memory_limits, reuse_memory
from nooch.models.image_decoding import choose_codec, decode_images
from nooch.models.onnx_segmenters import MODEL_FILE, load_onnx_segmenter
from nooch.models.pixel_batches import batches_of, forward, read_in_order
from nooch.models.segmenters import load_segmenter
from nooch.readers.image_opening import UNREADABLE, opened_image
from nooch.readers.image_rows import batch_file
from nooch.readers.reader_contract import NumberedJob
from nooch.resources import limited_threads, usable_cpus

__all__ = ["AnnotationJob", "loaded_models", "map_values"]

# less than this is not recorded of a model of presence alone
_LEAST = 0.01
_SCHEMA: dict[str, Any] = {
    "width": pl.Int64,
    "height": pl.Int64,
    "column": pl.List(pl.Int64),
    "area": pl.List(pl.Float64),
    "confidence": pl.List(pl.Float64),
    "vector": pl.List(pl.Float32),
    "broken": pl.String,
}
"""Of each image its size, the predicted classes (NaN: unknown area) and its embedding; or why it
cannot be read.
"""


@lru_cache(maxsize=1)
def loaded_models(choice: ModelChoice) -> tuple[Annotator, Backbone | None]:
    """The annotator, and the backbone that embeds: a worker loads them once.

    Raises as ``custom_annotator``, ``load_onnx_segmenter``, ``load_segmenter``, ``load_backbone``.
    """
    if choice.device == "cpu":
        reuse_memory()
    folder = Path(choice.source).expanduser()
    if is_named(choice.source):
        annotator = custom_annotator(choice)
    elif (folder / MODEL_FILE).is_file():
        annotator = load_onnx_segmenter(folder, choice)
    else:
        annotator = load_segmenter(choice)
    if choice.embedder is None:
        return annotator, None
    layout = {"channels_last": True, "bf16": choice.bf16}
    return annotator, load_backbone(choice.embedder, device=choice.device, **layout)


def map_values(n_classes: int) -> tuple[type[np.unsignedinteger[Any]], int]:
    """The type of a label map's pixels, and the value of those without a class."""
    return (np.uint8, 255) if n_classes <= 255 else (np.uint16, 65535)


@dataclass(frozen=True)
class _Decoded:
    """An image in its own size and in those of the models, or why it cannot be read."""

    size: tuple[int, int] = (0, 0)
    pixels: Sequence[NDArray[np.uint8]] = ()
    broken: str | None = None


@dataclass(frozen=True)
class AnnotationJob(NumberedJob):
    """Predict some images; the result is their number.

    Attributes:
        listed: ``image_id``, ``file_name``, and ``file``, the path.
        choice: the models.
        batch: images in a batch.
        maps: folder for label maps, or None.
        skip_broken: leave out images that cannot be read.
        threads: of this job, for concurrent jobs.
    """

    name: ClassVar[str] = "annotated"
    result_type: ClassVar[type] = int
    listed: pl.DataFrame
    choice: ModelChoice
    batch: int
    maps: Path | None
    skip_broken: bool
    threads: int | None

    def make(self) -> int:
        """Predict the images. Raises NoochError, which keeps the work of other jobs, where some
        cannot be read.
        """
        batches = batches_of(range(self.listed.height), self.batch)
        rows: list[dict[str, Any]] = []
        with limited_threads(self.threads):
            decoded = read_in_order(self._decoded, batches, self.threads or usable_cpus())
            for batch, images in zip(batches, decoded, strict=True):
                with memory_limits(self.batch, "annotating"):
                    rows += self._predicted(batch, images)
        files = self.listed["file"]
        broken = [f"{f}: {r['broken']}" for f, r in zip(files, rows, strict=True) if "broken" in r]
        if broken and not self.skip_broken:
            problem = f"{len(broken)} of {len(rows)} images cannot be read: {some_of(broken)}"
            remedy = "fix them, or leave such images out (`skip_broken`); finished work is kept"
            raise NoochError(problem, remedy=remedy)
        table = self.listed.drop("file").hstack(pl.DataFrame(rows, schema=_SCHEMA))
        table.write_parquet(batch_file(self.folder, self.number))
        return table.height

    def _decoded(self, batch: range) -> list[_Decoded]:
        sizes = [model.size for model in loaded_models(self.choice) if model is not None]
        codec = choose_codec()
        images = []
        for file in self.listed["file"][batch.start : batch.stop]:
            try:
                with opened_image(Path(file)) as image:
                    own = image.height, image.width
            except UNREADABLE as error:
                images.append(_Decoded(broken=str(error)))
                continue
            made = [decode_images([file], size or own, codec) for size in sizes]
            broken = [reason.removeprefix(f"{file}: ") for _, reasons in made for reason in reasons]
            pixels = [values for values, _ in made]
            images.append(_Decoded(broken=broken[0]) if broken else _Decoded(own, pixels))
        return images

    def _predicted(self, batch: range, images: list[_Decoded]) -> list[dict[str, Any]]:
        """Rows of ``_SCHEMA``; images of one size are predicted together."""
        annotator, embedder = loaded_models(self.choice)
        rows: list[dict[str, Any]] = [{"broken": image.broken} for image in images]
        of_shape: dict[tuple[int, ...], list[int]] = {}
        for place, image in enumerate(images):
            if image.broken is None:
                of_shape.setdefault(image.pixels[0].shape, []).append(place)
        for places in of_shape.values():
            predicted = annotator.predict(np.concatenate([images[p].pixels[0] for p in places]))
            for place, row in zip(places, _rows(predicted), strict=True):
                rows[place] = row
                row["height"], row["width"] = images[place].size
            if self.maps is not None and predicted.maps is not None:
                for place, values in zip(places, predicted.maps, strict=True):
                    name = self.listed["file_name"][batch[place]]
                    n_classes = len(annotator.classes)
                    _save_map(self.maps / name, values, n_classes, images[place].size)
            if embedder is not None:
                pixels = np.concatenate([images[place].pixels[1] for place in places])
                vectors = forward(
                    lambda p: embedder.features(embedder.prepare(p)), pixels, embedder.device
                )
                for place, vector in zip(places, vectors, strict=True):
                    rows[place]["vector"] = vector.tolist()
        return rows


def _rows(predicted: PredictedClasses) -> list[dict[str, Any]]:
    """What is recorded of each image: its classes with a pixel, or that are a little likely."""
    confidences, areas = predicted.confidences, predicted.areas
    kept = confidences >= _LEAST
    if areas is None:
        areas = np.full(confidences.shape, np.nan)
    kept |= areas > 0
    columns = [np.flatnonzero(row) for row in kept]
    return [
        {"column": c.tolist(), "area": area[c].tolist(), "confidence": confidence[c].tolist()}
        for c, area, confidence in zip(columns, areas, confidences, strict=True)
    ]


def _save_map(
    image: Path, places: NDArray[np.integer[Any]], n_classes: int, size: tuple[int, int]
) -> None:
    """The label map of an image, a PNG in its size."""
    kind, void = map_values(n_classes)
    values = np.where(places < n_classes, places, void).astype(kind)
    image.parent.mkdir(parents=True, exist_ok=True)
    whole = Image.fromarray(values).resize(size[::-1], Image.Resampling.NEAREST)
    whole.save(image.with_suffix(".png"))
