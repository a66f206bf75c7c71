"""What workers do to annotate: images -> a table of what a model predicts of each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from PIL import Image

from nooch.base.disk import make_folder, sync_files
from nooch.base.errors import NoochError, some_of
from nooch.base.import_string import is_named
from nooch.base.resources import usable_cpus
from nooch.base.words import counted
from nooch.data.readers.contract import NumberedJob
from nooch.data.readers.image_opening import UNREADABLE, opened_image, upright_size
from nooch.data.readers.image_rows import write_batch
from nooch.models.annotators import Annotator, ModelChoice, custom_annotator
from nooch.models.backbones import Backbone, load_backbone
from nooch.models.devices import memory_limits, reuse_memory
from nooch.models.image_decoding import Decoding, decode_images
from nooch.models.pixel_batches import batches_of, forward, read_in_order
from nooch.models.segmenters import MODEL_FILE, load_onnx_segmenter, load_segmenter

__all__ = ["NO_CLASS", "AnnotationJob", "loaded_models"]

NO_CLASS = 65535
"""Value of a label map's pixels without a class."""

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
"""Of each image: size, predicted classes (NaN: unknown area), embedding; or why it is not read."""


@lru_cache(maxsize=1)
def loaded_models(choice: ModelChoice) -> tuple[Annotator, Backbone | None]:
    """The annotator, and the backbone that embeds: a worker loads them once. Raises as their
    functions do.
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


@dataclass(frozen=True)
class AnnotationJob(NumberedJob):
    """Predict the images ``listed``: ``image_id``, ``file_name`` and ``file``, the path. The result
    is their number; other attributes are those of ``AnnotationReading``.
    """

    name: ClassVar[str] = "annotated"
    result_type: ClassVar[type] = int
    listed: pl.DataFrame
    choice: ModelChoice
    batch: int
    maps: Path | None
    skip_broken: bool
    decoding: Decoding

    def make(self) -> int:
        """Predict the images. Raises NoochError, which keeps the work of other jobs, where some
        cannot be read.
        """
        # once, before threads ask for them
        loaded_models(self.choice)
        batches, rows = batches_of(range(self.listed.height), self.batch), list[dict[str, Any]]()
        decoded = read_in_order(self._decoded, batches, usable_cpus())
        for batch, images in zip(batches, decoded, strict=True):
            with memory_limits(self.batch, "annotating"):
                rows += self._predicted(batch.start, images)
        broken = [row["broken"] for row in rows if "broken" in row]
        if broken and not self.skip_broken:
            problem = f"{counted(len(broken), 'image')} cannot be read: {some_of(broken)}"
            remedy = "fix them, or leave such images out (`skip_broken`); finished work is kept"
            raise NoochError(problem, remedy=remedy)
        table = self.listed.drop("file").hstack(pl.DataFrame(rows, schema=_SCHEMA))
        write_batch(table, self.folder, self.number)
        return table.height

    def _decoded(self, rows: range) -> list[tuple[dict[str, Any], list[NDArray[np.uint8]]]]:
        """Of each image its size and its pixels for each model, or why it cannot be read."""
        sizes = [model.size for model in loaded_models(self.choice) if model is not None]
        images = list[tuple[dict[str, Any], list[NDArray[np.uint8]]]]()
        for file in self.listed["file"][rows.start : rows.stop]:
            try:
                with opened_image(Path(file)) as image:
                    own = upright_size(image)[::-1]
            except UNREADABLE as error:
                images.append(({"broken": f"{file}: {error}"}, []))
                continue
            made = [decode_images([file], size or own, self.decoding) for size in sizes]
            reasons = [reason for _, broken in made for reason in broken]
            row = {"broken": reasons[0]} if reasons else {"height": own[0], "width": own[1]}
            images.append((row, [pixels for pixels, _ in made]))
        return images

    def _predicted(
        self, first: int, images: list[tuple[dict[str, Any], list[NDArray[np.uint8]]]]
    ) -> list[dict[str, Any]]:
        """Rows of ``_SCHEMA``; images of one size are predicted together."""
        annotator, embedder = loaded_models(self.choice)
        of_shape: dict[tuple[int, ...], list[int]] = {}
        for place, (row, pixels) in enumerate(images):
            if "broken" not in row:
                of_shape.setdefault(pixels[0].shape, []).append(place)
        for places in of_shape.values():
            chosen = [images[place] for place in places]
            predicted = annotator.predict(np.concatenate([pixels[0] for _, pixels in chosen]))
            confidences, areas = predicted.confidences, predicted.areas
            areas = np.full(confidences.shape, np.nan) if areas is None else areas
            for (row, _), confidence, area in zip(chosen, confidences, areas, strict=True):
                kept = np.flatnonzero((area > 0) | (confidence >= _LEAST))
                row["column"], row["area"] = kept.tolist(), area[kept].tolist()
                row["confidence"] = confidence[kept].tolist()
            if self.maps is not None and predicted.maps is not None:
                files = []
                for place, found in zip(places, predicted.maps, strict=True):
                    image = self.maps / self.listed["file_name"][first + place]
                    values = np.where(found < len(annotator.classes), found, NO_CLASS)
                    files.append(image.with_suffix(".png"))
                    _save_map(files[-1], values, images[place][0])
                # before the images count as done
                sync_files([*files, *{file.parent for file in files}])
            if embedder is not None:
                both = np.concatenate([pixels[1] for _, pixels in chosen])
                features = lambda part: embedder.features(embedder.prepare(part))  # noqa: E731
                for (row, _), vector in zip(
                    chosen, forward(features, both, embedder.device), strict=True
                ):
                    row["vector"] = vector.tolist()
        return [row for row, _ in images]


def _save_map(file: Path, values: NDArray[np.integer[Any]], size: dict[str, int]) -> None:
    """A label map of 16 bits in the size of its image."""
    make_folder(file.parent)
    small = Image.fromarray(values.astype(np.uint16))
    small.resize((size["width"], size["height"]), Image.Resampling.NEAREST).save(file)
