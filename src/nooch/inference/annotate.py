"""The reading of images by a model: predictions in batches, thresholds, labels that are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from PIL import Image
from scipy.sparse import csr_array

from nooch.base.calls import Count, Map, Options, Share, StepProgress, is_named
from nooch.base.disk import make_folder, sync_files
from nooch.base.errors import InputError, OutputError, ParameterError, reason_of, some_of
from nooch.base.files import DATASET_MARKER, is_address
from nooch.base.limits import usable_cpus
from nooch.base.split_plan import SplitPlan
from nooch.data import (
    Dataset,
    ImageId,
    as_dataset,
    identifiers,
    load_dataset,
    replaced_columns,
    save_dataset,
)
from nooch.data.coverage import KNOWN, UNKNOWN
from nooch.data.importing.broken_images import BrokenImage, check_broken
from nooch.data.importing.recognition import recognize
from nooch.data.importing.table_roles import Hints, refuse_hints
from nooch.data.objects import of_classes, rescaled
from nooch.data.readers.contract import ImageListing, read
from nooch.data.readers.image_files import UNREADABLE, ImageIndex, opened_image, upright_size
from nooch.data.readers.image_rows import (
    ImageRows,
    ScannedRows,
    entries_of,
    listed_digest,
    write_batch,
)
from nooch.data.readers.jobs import NumberedJob, results_of
from nooch.models.backbones import Backbone, load_backbone
from nooch.models.devices import choose_device, memory_limits, reuse_memory
from nooch.models.images import Decoding, dark_notes, decode_images
from nooch.models.onnx_networks import onnx_file
from nooch.models.output_meaning import Outputs, share_notes
from nooch.models.pixel_batches import batches_of, forward, read_in_order
from nooch.models.segmenters import (
    Annotator,
    ModelChoice,
    custom_annotator,
    load_onnx_segmenter,
    load_segmenter,
)

NO_CLASS = 65535
"""Value of a label map's pixels without a class."""

# less than this is not recorded of a model that gives only presence
_LEAST = 0.01
_SCHEMA: dict[str, Any] = {
    "width": pl.Int64,
    "height": pl.Int64,
    "keys": pl.List(pl.Int64),
    "areas": pl.List(pl.Float64),
    "scored": pl.List(pl.Int64),
    "confidence": pl.List(pl.Float64),
    "vector": pl.List(pl.Float32),
}
"""For each image: size, classes that are present and areas (NaN: unknown), classes that have a
confidence, embedding.
"""


@lru_cache(maxsize=1)
def loaded_models(choice: ModelChoice) -> tuple[Annotator, Backbone | None]:
    """The annotator, and the backbone that embeds: a worker loads them once. Raises as their
    functions do.
    """
    if choice.device == "cpu":
        reuse_memory()
    if is_named(choice.source):
        annotator = custom_annotator(choice)
    elif onnx_file(choice.source) is not None:
        annotator = load_onnx_segmenter(choice)
    else:
        annotator = load_segmenter(choice)
    if choice.embedder is None:
        return annotator, None
    layout = {"channels_last": True, "bf16": choice.bf16}
    return annotator, load_backbone(choice.embedder, device=choice.device, **layout)


@dataclass(frozen=True)
class AnnotationJob(NumberedJob):
    """Predict the images ``listed``: ``image_id``, ``file_name`` and ``file``, the path. The result
    is the names of those that cannot be read, with reasons, whether all areas are known, and in how
    many images each class is present; other attributes are as in ``AnnotationReading``.
    """

    name: ClassVar[str] = "annotated"
    result_type: ClassVar[Any] = tuple[list[tuple[str, str]], bool, list[int]]
    listed: pl.DataFrame
    choice: ModelChoice
    batch: int
    maps: Path | None
    decoding: Decoding
    thresholds: tuple[float, float | None]

    def make(self) -> tuple[list[tuple[str, str]], bool, list[int]]:
        """Predict the images."""
        # once, before threads ask for them
        annotator, _ = loaded_models(self.choice)
        batches, rows = batches_of(range(self.listed.height), self.batch), list[dict[str, Any]]()
        decoded = read_in_order(self._decoded, batches, usable_cpus())
        for batch, images in zip(batches, decoded, strict=True):
            with memory_limits(self.batch, "annotating"):
                rows += self._predicted(batch.start, images)
        is_read = pl.Series(["broken" not in row for row in rows], dtype=pl.Boolean)
        listed = self.listed.drop("file")
        table = pl.DataFrame([row for row in rows if "broken" not in row], schema=_SCHEMA)
        write_batch(listed.filter(is_read).hstack(table), self.folder, self.number)
        sized = all(row.get("sized", True) for row in rows)
        reasons = [row["broken"] for row in rows if "broken" in row]
        present = np.concatenate([[], *table["keys"].to_list()]).astype(np.int64)
        counts = np.bincount(present, minlength=len(annotator.classes)).tolist()
        return [*zip(listed.filter(~is_read)["file_name"], reasons, strict=True)], sized, counts

    def _decoded(self, rows: range) -> list[tuple[dict[str, Any], list[NDArray[np.uint8]]]]:
        """For each image its size and its pixels for each model, or why it cannot be read."""
        sizes = [model.size for model in loaded_models(self.choice) if model is not None]
        images = list[tuple[dict[str, Any], list[NDArray[np.uint8]]]]()
        for file in self.listed["file"][rows.start : rows.stop]:
            try:
                with opened_image(Path(file)) as image:
                    own = upright_size(image)[::-1]
            except UNREADABLE as error:
                images.append(({"broken": reason_of(error)}, []))
                continue
            made = [decode_images([file], size or own, self.decoding) for size in sizes]
            reasons = [reason for _, broken in made for reason in broken]
            reason = reasons[0].removeprefix(f"{file}: ") if reasons else ""
            row = {"broken": reason} if reasons else {"height": own[0], "width": own[1]}
            images.append((row, [pixels for pixels, _ in made]))
        return images

    def _predicted(
        self, first: int, images: list[tuple[dict[str, Any], list[NDArray[np.uint8]]]]
    ) -> list[dict[str, Any]]:
        """Rows of ``_SCHEMA``; images of one size are predicted together."""
        annotator, embedder = loaded_models(self.choice)
        least_area, least_confidence = self.thresholds
        of_shape: dict[tuple[int, ...], list[int]] = {}
        for place, (row, pixels) in enumerate(images):
            if "broken" not in row:
                of_shape.setdefault(pixels[0].shape, []).append(place)
        for places in of_shape.values():
            pictures = [images[place] for place in places]
            predicted = annotator.predict(np.concatenate([pixels[0] for _, pixels in pictures]))
            confidences, areas = predicted.confidences, predicted.areas
            areas = np.full(confidences.shape, np.nan) if areas is None else areas
            for (row, _), confidence, area in zip(pictures, confidences, areas, strict=True):
                kept = np.flatnonzero((area > 0) | (confidence >= _LEAST))
                scores, shares = confidence[kept].astype(float), area[kept].astype(float)
                # without areas, presence is a probability
                least = (
                    np.where(np.isnan(shares), 0.5, 0.0)
                    if least_confidence is None
                    else least_confidence
                )
                present = (scores >= least) & ~(shares <= least_area)
                row["keys"], row["areas"] = kept[present].tolist(), shares[present].tolist()
                row["scored"], row["confidence"] = kept.tolist(), scores.tolist()
                row["sized"] = not np.isnan(shares).any()
            if self.maps is not None and predicted.maps is not None:
                files = []
                for place, map_of_classes in zip(places, predicted.maps, strict=True):
                    image = self.maps / self.listed["file_name"][first + place]
                    values = np.where(
                        map_of_classes < len(annotator.classes), map_of_classes, NO_CLASS
                    )
                    files.append(image.with_suffix(".png"))
                    _save_map(files[-1], values, images[place][0])
                # before the images count as done
                sync_files([*files, *{file.parent for file in files}])
            if embedder is not None:
                both = np.concatenate([pixels[1] for _, pixels in pictures])
                features = lambda part: embedder.features(embedder.prepare(part))  # noqa: E731
                for (row, _), vector in zip(
                    pictures, forward(features, both, embedder.device), strict=True
                ):
                    row["vector"] = vector.tolist()
        return [row for row, _ in images]


def _save_map(file: Path, values: NDArray[np.integer[Any]], size: dict[str, int]) -> None:
    """A label map of 16 bits in the size of its image."""
    make_folder(file.parent)
    small = Image.fromarray(values.astype(np.uint16))
    small.resize((size["width"], size["height"]), Image.Resampling.NEAREST).save(file)


def task_labels(
    source: Dataset | str | Path,
    tasks: Sequence[str] | None,
    index: ImageIndex,
    ids: Mapping[ImageId, str],
    hints: Hints | None = None,
) -> Dataset:
    """Labels of some classes, by default of all, for the images that are there; file names become
    the names in the index. Images are found by file name, else by id; ``ids`` are of the files.
    """
    local = isinstance(source, str | Path) and not is_address(source)
    if local and not (Path(str(source)) / DATASET_MARKER).is_file():
        data = read(recognize(str(source), hints).reading)
    else:
        refuse_hints(hints, "labels")
        data = as_dataset(source).in_memory()
    columns = np.array([data.column(task) for task in tasks or data.classes])
    pairs = data.images.select("image_id", "file_name").iter_rows()
    files = [
        index.by_file_name(str(name or own)) or ids.get(own) or index.by_id(own)
        for own, name in pairs
    ]
    names = pl.Series("file_name", files, dtype=pl.String)
    if names.null_count() == len(names):
        problem = f"none of its images, such as {data.image_ids[0]}, is below {index.root}"
        allowed = "the images' file names, or their names without ending as ids"
        raise InputError(problem, where="`labels`", allowed=allowed)
    classes = [data.classes[column] for column in columns]
    labels_dataset = replace(
        data,
        images=data.images.with_columns(names),
        classes=tuple(classes),
        areas=csr_array(data.areas[:, columns]),
        kinds={name: kind for name, kind in data.kinds.items() if name in classes},
        exceptions=None if data.exceptions is None else csr_array(data.exceptions[:, columns]),
        confidences=None if data.confidences is None else csr_array(data.confidences[:, columns]),
        objects=None if data.objects is None else of_classes(data.objects, classes),
    )
    return labels_dataset.select(rows=names.is_not_null().to_numpy())


def with_labels(predicted: Dataset, labels: Dataset) -> Dataset:
    """The dataset with the labels of the same images, which take precedence for their classes, all
    of which it has. A labeled class has the area that the labels give, else the predicted one, else
    0.
    """
    places = np.array([predicted.column(name) for name in labels.classes])
    shape = predicted.areas.shape
    stated = labels.areas.tocoo()
    nearest = np.zeros(0)
    if len(stated.row):
        nearest = np.asarray(predicted.areas[stated.row, places[stated.col]]).ravel()
    if not predicted.has_areas:
        nearest[nearest == 0] = np.nan
    areas = labels.areas.copy()
    areas.data = np.where(np.isnan(areas.data), nearest, areas.data)
    confidences, pairs = predicted.confidences, dict[str, Any]()
    if confidences is not None and labels.confidences is not None:
        confidences = replaced_columns(confidences, labels.confidences, places)
    if labels.exceptions is not None:
        exceptions = labels.exceptions.tocoo()
        for name, value in (("unknown", UNKNOWN), ("verified", KNOWN)):
            entries = (exceptions.row, places[exceptions.col])
            pairs[name] = csr_array((exceptions.data == value, entries), shape=shape)
    images = labels.images.with_columns(predicted.images.select("width", "height"))
    if labels.objects is not None:
        # boxes are in pixels of the images that a model was given
        pairs["objects"] = rescaled(labels.objects, labels.images, images)
    return Dataset.build(
        images,
        predicted.classes,
        replaced_columns(predicted.areas, areas, places),
        labels.captions,
        embeddings={**labels.embeddings, **predicted.embeddings},
        image_root=predicted.image_root,
        kinds=dict(labels.kinds),
        confidences=confidences,
        **pairs,
    )


# images of a job: few enough to lose little, enough for a cluster
_MOST, _JOBS = 512, 256
_MAP_CLASSES = "classes.txt"


@dataclass(frozen=True)
class AnnotationReading(Options):
    """Images and a model that annotates them, for ``nooch.import_dataset``.

    Areas are shares of the pixels of the model's output. An image's id is its name without ending
    where these are unique, else its path; with labels, the id is theirs.

    Attributes:
        images: folder of the image files.
        segmenter: a segmentation model of transformers (hub id or folder); a network as ``.onnx``
            or its folder; or ``package.module:Name`` of a custom model, see
            ``nooch.models.PredictedClasses``.
        labels: known labels, which take precedence for their classes: a dataset, or files that
            ``nooch import auto`` recognizes. Images without labels are left out.
        hints: what the files of ``labels`` leave open, such as the column of labels.
        tasks: classes of the labels that are taken; by default all.
        merge: name -> classes that it stands for, such as ``{"road": ["road", "sidewalk"]}``.
        min_area: a class is present where its predicted area is above this fraction.
        min_confidence: least confidence of a class that is present; by default 0, or 0.5 without
            areas.
        embedder: a backbone such as CLIP that embeds the images, for the gist criterion.
        maps: folder for a label map of each image, a PNG in its size, and ``classes.txt``.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        size: height and width of the model's input in pixels; by default its own.
        mean: mean of each channel of an ONNX network's input, of pixels from 0 to 1.
        std: standard deviation of each channel of an ONNX network's input, of pixels from 0 to 1.
        classes: file with the label of each output of an ONNX network, one per line, or JSON.
        outputs: ``independent``, a sigmoid each, or ``exclusive``, a softmax in each pixel; of an
            ONNX network that does not tell.
        batch: images in a batch.
        bf16: compute in bfloat16.
        range: for images of more than 8 bits per channel, the values that become black and white.

    Raises:
        ParameterError: an empty batch, a threshold that is not a fraction, tasks without labels.
    """

    doing: ClassVar[str] = "annotating images"
    images: str | Path
    segmenter: str
    labels: Dataset | Path | str | None = None
    hints: Hints | None = None
    tasks: Sequence[str] | None = None
    merge: Mapping[str, Sequence[str]] = field(default_factory=dict)
    min_area: Share = 0.01
    min_confidence: Share | None = None
    embedder: str | None = None
    maps: str | Path | None = None
    device: str = "auto"
    size: int | None = None
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    classes: str | Path | None = None
    outputs: Outputs | None = None
    batch: Count = 8
    bf16: bool = False
    range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labels is None and (self.tasks is not None or self.hints is not None):
            what = "options of tables need" if self.tasks is None else "`tasks` needs"
            raise ParameterError(f"{what} `labels`", give={"labels": ...})

    def files(self) -> list[tuple[str, Path]]:
        """None beyond the images, which ``dependencies`` has."""
        return []

    def check(self, plan: SplitPlan | None) -> None:
        """Raises InputError and ParameterError for images, labels and models that do not fit."""
        del plan
        if not self.listed.height:
            left = "".join(f"; {text}" for text in self._index.walk.left_notes())
            raise InputError(f"contains no images{left}", where=self.images, allowed="image files")
        maps = Path(self.maps or "")
        listed = maps / _MAP_CLASSES
        ours = listed.is_file() and listed.read_bytes() == self._map_classes
        if self.maps is not None and maps.exists() and not ours:
            allowed = "a new folder, or the folder of the run to resume"
            raise OutputError("exists already", where=maps, allowed=allowed)
        names = self.listed["file_name"]
        twins = names.filter(names.str.replace(r"\.[^./]*$", "").is_duplicated())
        if self.maps is not None and len(twins):
            problem = f"images that differ only in their ending share a map: {some_of(twins)}"
            raise InputError(problem, where=self.images, remedy="rename them")

    def dependencies(self) -> list[Any]:
        """The images by name, size and time, the models, labels and options."""
        labels = [] if self._labels is None else [self._labels.fingerprint, *self._labels.classes]
        settings = [self.min_area, self.min_confidence, self.batch, str(self.maps)]
        return [self._predicted, settings, labels, listed_digest(self.listed)]

    def scan(
        self, folder: Path, map: Map, progress: StepProgress, part_size: int | None = None
    ) -> ScannedAnnotations:
        """Predict all images, in batches that do not depend on parts."""
        del part_size
        maps = None if self.maps is None else Path(self.maps)
        if maps is not None:
            maps.mkdir(parents=True, exist_ok=True)
            (maps / _MAP_CLASSES).write_bytes(self._map_classes)
        step = min(_MOST, -(-self.listed.height // _JOBS))
        batches = self.listed.iter_slices(-(-step // self.batch) * self.batch)
        rest = (self._choice, self.batch, maps, Decoding(range=self.range))
        thresholds = self.min_area, self.min_confidence
        jobs = [
            AnnotationJob(folder, number, rows, *rest, thresholds)
            for number, rows in enumerate(batches)
        ]
        results = results_of(jobs, map, progress)
        broken = [BrokenImage(*image) for images, _, _ in results for image in images]
        check_broken(broken, self.listed.height, self.images, "leave-out", kept=False)
        classes, labels = list(self._annotator.classes), None
        if self._labels is not None:
            labels = folder / "labels"
            classes += [task for task in self._labels.classes if task not in classes]
            save_dataset(self._labels, labels, overwrite=True)
        return ScannedAnnotations(
            ImageRows(folder, len(jobs)),
            dict(enumerate(classes)),
            self._about(
                [image for images, _, _ in results for image, _ in images],
                sized=all(sized for _, sized, _ in results),
                present=np.sum([counts for _, _, counts in results], axis=0).tolist(),
            ),
            self.images,
            root=self._index.root.resolve(),
            broken=broken,
            embedding=self._predicted.get("embedding"),
            labels=labels,
        )

    @cached_property
    def _choice(self) -> ModelChoice:
        merge = tuple((name, tuple(members)) for name, members in self.merge.items())
        device = choose_device(self.device)
        mean, std = (None if of is None else tuple(of) for of in (self.mean, self.std))
        rest = (self.bf16, merge, self.embedder, mean, std, self.classes, self.outputs)
        return ModelChoice(self.segmenter, device, self.size, *rest)

    @property
    def _annotator(self) -> Any:
        return loaded_models(self._choice)[0]

    @cached_property
    def _predicted(self) -> dict[str, Any]:
        """Settings that determine the predictions, for the provenance, without defaults."""
        annotator, embedder = loaded_models(self._choice)
        settings: dict[str, Any] = {
            "size": self.size,
            "merge": {name: list(members) for name, members in self.merge.items()},
            "min_confidence": self.min_confidence,
            "range": list(self.range or ()),
        }
        if embedder is not None:
            name = embedder.name.rpartition("/")[2]
            precision = "bf16" if embedder.bf16 else "fp32"
            settings["embedding"] = f"image-{name}-{embedder.identity[:12]}-{precision}"
        facts = {"model": annotator.name, **annotator.facts, "min_area": self.min_area}
        return facts | {name: value for name, value in settings.items() if value}

    @cached_property
    def _index(self) -> ImageIndex:
        return ImageIndex(self.images)

    @cached_property
    def _labels(self) -> Dataset | None:
        if self.labels is None:
            return None
        ids = dict(self._files.iter_rows())
        return task_labels(self.labels, self.tasks, self._index, ids, self.hints)

    @cached_property
    def _files(self) -> pl.DataFrame:
        """All images: ``image_id``, ``file_name``."""
        names = sorted(self._index.paths)
        ids = identifiers([name.rsplit("/", 1)[-1].rsplit(".", 1)[0] for name in names])
        ids = ids if ids.n_unique() == len(ids) else pl.Series("image_id", names, pl.String)
        return pl.DataFrame([ids, pl.Series("file_name", names, pl.String)])

    @cached_property
    def listed(self) -> pl.DataFrame:
        """The images to annotate: ``image_id``, ``file_name``, ``file``, sorted by id."""
        images = self._files if self._labels is None else self._labels.images
        listed = images.select("image_id", "file_name")
        root = pl.lit(f"{self._index.root.absolute()}/")
        return listed.with_columns(file=root + pl.col("file_name")).sort("image_id")

    @property
    def _map_classes(self) -> bytes:
        classes = enumerate(self._annotator.classes)
        lines = [f"# {NO_CLASS} no class", *(f"{number} {name}" for number, name in classes)]
        return "\n".join([*lines, ""]).encode()

    def _about(self, broken: Sequence[str], *, sized: bool, present: list[int]) -> dict[str, Any]:
        """The provenance, without ``broken`` images, files; ``sized``: whether all areas are known;
        ``present``: in how many images each class of the model is.
        """
        source = {"role": "images", "files": self.listed.height - len(broken)}
        about: dict[str, Any] = {"reader": "annotate", "area": "predicted" if sized else "unknown"}
        about["sources"] = [{**source, "blake3": listed_digest(self.listed)}]
        about["predicted"] = self._predicted
        about |= {} if self.range is None else {"range": list(self.range)}
        notes = self._index.walk.notes()
        notes += dark_notes(self.listed["file"].to_list(), Decoding(range=self.range))
        if (reading := self._annotator.reading) is not None:
            positives = {} if self._labels is None else _positives(self._labels, broken)
            n, names = self.listed.height - len(broken), self._annotator.classes
            counts = zip(names, present, strict=True)
            notes += share_notes(reading, {c: (n, yes, positives.get(c)) for c, yes in counts})
        if self._labels is not None:
            tasks = self._labels.classes
            about["labels"] = {"classes": list(tasks), "fingerprint": self._labels.fingerprint}
            if others := len(self._index.paths) - self.listed.height:
                notes.append(f"{others} images have no labels and are left out")
            if lacking := [task for task in tasks if task not in self._annotator.classes]:
                notes.append(
                    f"the model has no class {some_of(lacking, 12)}: where the labels have"
                    f" no area, it is 0 (`merge` {lacking[0]}=CLASS names the model's class)"
                )
        return {**about, "notes": notes}


def _positives(labels: Dataset, broken: Sequence[str]) -> dict[str, int]:
    """Images with each class that is known in all of them, without ``broken`` files."""
    data = labels.select(rows=~labels.images["file_name"].is_in(broken).to_numpy())
    known = [name for name in data.classes if data.unknown_labels(name) is None]
    return {name: int(data.labels(name).sum()) for name in known}


@dataclass(frozen=True)
class ScannedAnnotations(ScannedRows):
    """Predictions on disk; the model's classes come first, then the labels'.

    ``embedding`` is the name of the embedding, ``labels`` the folder of the dataset of labels, or
    None.
    """

    embedding: str | None = None
    labels: Path | None = None

    def read(
        self, low: ImageId | None, high: ImageId | None, images: ImageListing | None
    ) -> tuple[Dataset, dict[str, int]]:
        """The images with ``low <= id < high``, with their labels, and counts."""
        data, counts = super().read(low, high, images)
        if self.labels is None:
            return data, counts
        labels = load_dataset(self.labels)
        among = labels.images["image_id"].is_in(data.images["image_id"].implode())
        return with_labels(data, labels.select(rows=among.to_numpy())), counts

    def content(self, rows: pl.DataFrame, images: pl.DataFrame) -> dict[str, Any]:
        """Also confidences and embeddings."""
        entry_rows, columns, values = entries_of(rows, "confidence", "scored")
        shape = rows.height, len(self.classes)
        content = {
            **super().content(rows, images),
            "confidences": csr_array((values, (entry_rows, columns)), shape),
        }
        if self.embedding is not None:
            content["embeddings"] = {self.embedding: np.stack([*rows["vector"].to_numpy()])}
        return content
