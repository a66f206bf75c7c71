"""The reading of images by a model: predictions in batches, thresholds, labels that are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
from scipy.sparse import csr_array

from nooch.base.errors import InputError, OutputError, ParameterError, check_fraction, some_of
from nooch.base.files import Place
from nooch.base.shared_types import Map, StepProgress
from nooch.base.split_plan import SplitPlan
from nooch.data import Dataset, ImageId, identifiers, load_dataset, save_dataset
from nooch.data.readers.contract import ImageListing
from nooch.data.readers.image_files import ImageIndex
from nooch.data.readers.image_rows import ImageRows, listed_digest, row_ends
from nooch.data.readers.jobs import JobRunner
from nooch.inference.annotation_jobs import NO_CLASS, AnnotationJob, loaded_models
from nooch.inference.task_labels import task_labels, with_labels
from nooch.models.annotators import ModelChoice
from nooch.models.devices import choose_device
from nooch.models.image_decoding import Decoding, dark_notes

__all__ = ["AnnotationReading"]

# images of a job: few enough to lose little, enough for a cluster
_MOST, _JOBS = 512, 256
_MAP_CLASSES = "classes.txt"


@dataclass(frozen=True)
class AnnotationReading:
    """Images and a model that annotates them, for ``nooch.import_dataset``.

    Areas are shares of the pixels of the model's output. An image's id is its name without ending
    where these are unique, else its path; with labels, the id is theirs.

    Attributes:
        images: folder of the image files.
        segmenter: a segmentation model of transformers (hub id or folder); a folder with
            ``model.onnx``, ``labels.txt``, ``preprocessor_config.json``; or ``package.module:Name``
            of a custom model, see ``nooch.PredictedClasses``.
        labels: known labels, which count alone for their classes: a dataset, or files that ``nooch
            import auto`` recognizes. Images without labels are left out.
        tasks: classes of the labels that are taken; by default all.
        merge: name -> classes that it stands for, such as ``{"road": ["road", "sidewalk"]}``.
        min_area: a class is present where its predicted area is above this fraction.
        min_confidence: and its confidence is this at least; by default 0, or 0.5 without areas.
        embedder: a backbone such as CLIP that embeds the images, for the gist criterion.
        maps: folder for a label map of each image, a PNG in its size, and ``classes.txt``.
        skip_broken: leave out, and count, images that cannot be read.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        size: height and width of the model's input in pixels; by default its own.
        batch: images in a batch.
        bf16: compute in bfloat16.
        range: values that become black and white, of images of more than 8 bits a channel.

    Raises:
        ParameterError: an empty batch, a threshold that is no fraction, tasks without labels.
    """

    doing: ClassVar[str] = "annotating images"
    images: str | Path
    segmenter: str
    labels: Dataset | Place | str | None = None
    tasks: Sequence[str] | None = None
    merge: Mapping[str, Sequence[str]] = field(default_factory=dict)
    min_area: float = 0.01
    min_confidence: float | None = None
    embedder: str | None = None
    maps: str | Path | None = None
    skip_broken: bool = False
    device: str = "auto"
    size: int | None = None
    batch: int = 8
    bf16: bool = False
    range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ParameterError(f"batch of {self.batch}", allowed="1 image and more")
        check_fraction("min_area", self.min_area, "`min_area`")
        if not 0 <= (self.min_confidence or 0) <= 1:
            raise ParameterError(f"min_confidence {self.min_confidence}", allowed="0 to 1")
        if self.tasks is not None and self.labels is None:
            raise ParameterError("`tasks` are classes of `labels`", remedy="give `labels`, too")

    def files(self) -> list[tuple[str, Path]]:
        """None beyond the images, which ``dependencies`` has."""
        return []

    def check(self, plan: SplitPlan | None) -> None:
        """Raises InputError and ParameterError for images, labels and models that do not fit."""
        del plan
        if not self.listed.height:
            left = "".join(f"; {text}" for text in self._index.walk.left_notes())
            raise InputError(f"holds no images{left}", where=self.images, allowed="image files")
        maps = Path(self.maps or "")
        listed = maps / _MAP_CLASSES
        ours = listed.is_file() and listed.read_bytes() == self._map_classes
        if self.maps is not None and maps.exists() and not ours:
            allowed = "a new folder, or the one of the run that is resumed"
            raise OutputError("exists already", where=maps, allowed=allowed)
        names = self.listed["file_name"]
        twins = names.filter(names.str.replace(r"\.[^./]*$", "").is_duplicated())
        if self.maps is not None and len(twins):
            problem = f"images that differ in their ending alone share a map: {some_of(twins)}"
            raise InputError(problem, where=self.images, remedy="rename them")

    def dependencies(self) -> list[Any]:
        """The images by name, size and time, the models, labels and options."""
        labels = [] if self._labels is None else [self._labels.fingerprint, *self._labels.classes]
        asked = [self.min_area, self.min_confidence, self.batch, str(self.maps)]
        return [self._predicted, asked, labels, listed_digest(self.listed)]

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
        rest = (self._choice, self.batch, maps, self.skip_broken, Decoding(range=self.range))
        jobs = [AnnotationJob(folder, number, rows, *rest) for number, rows in enumerate(batches)]
        JobRunner(map, progress).run(jobs)
        rows = ImageRows(folder, len(jobs))
        broken = pl.concat(rows.columns("file_name", "broken")).drop_nulls("broken")["file_name"]
        if len(broken) == self.listed.height:
            problem = f"none of {len(broken)} images can be read: {some_of(broken)}"
            raise InputError(problem, where=self.images)
        classes, labels = list(self._annotator.classes), None
        if self._labels is not None:
            labels = folder / "labels"
            classes += [task for task in self._labels.classes if task not in classes]
            save_dataset(self._labels, labels, overwrite=True)
        embedding = self._predicted.get("embedding")
        root, thresholds = str(self._index.root.resolve()), (self.min_area, self.min_confidence)
        sized = all(frame["area"].explode().is_not_nan().all() for frame in rows.columns("area"))
        about = self._about(broken, sized=sized)
        return ScannedAnnotations(root, rows, classes, thresholds, embedding, labels, about)

    @cached_property
    def _choice(self) -> ModelChoice:
        merge = tuple((name, tuple(members)) for name, members in self.merge.items())
        device = choose_device(self.device)
        return ModelChoice(self.segmenter, device, self.size, self.bf16, merge, self.embedder)

    @property
    def _annotator(self) -> Any:
        return loaded_models(self._choice)[0]

    @cached_property
    def _predicted(self) -> dict[str, Any]:
        """What determines the predictions, for the provenance, without what is as by default."""
        annotator, embedder = loaded_models(self._choice)
        asked: dict[str, Any] = {
            "size": self.size,
            "merge": {name: list(members) for name, members in self.merge.items()},
            "min_confidence": self.min_confidence,
            "range": list(self.range or ()),
        }
        if embedder is not None:
            name = embedder.name.rpartition("/")[2]
            precision = "bf16" if embedder.bf16 else "fp32"
            asked["embedding"] = f"image-{name}-{embedder.identity[:12]}-{precision}"
        facts = {"model": annotator.name, **annotator.facts, "min_area": self.min_area}
        return facts | {name: value for name, value in asked.items() if value}

    @cached_property
    def _index(self) -> ImageIndex:
        return ImageIndex(self.images)

    @cached_property
    def _labels(self) -> Dataset | None:
        if self.labels is None:
            return None
        return task_labels(self.labels, self.tasks, self._index, dict(self._files.iter_rows()))

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

    def _about(self, broken: pl.Series, *, sized: bool) -> dict[str, Any]:
        """The provenance; ``sized``: whether all areas are known."""
        notes: list[str] = []
        source = {"role": "images", "files": self.listed.height - len(broken)}
        about: dict[str, Any] = {"reader": "annotate", "area": "predicted" if sized else "unknown"}
        about["sources"] = [{**source, "blake3": listed_digest(self.listed)}]
        about["predicted"] = self._predicted
        if len(broken):
            notes = [f"{len(broken)} images cannot be read and are left out: {some_of(broken)}"]
        notes += self._index.walk.notes()
        notes += dark_notes(self.listed["file"].to_list(), Decoding(range=self.range))
        if self._labels is not None:
            tasks = self._labels.classes
            about["labels"] = {"classes": list(tasks), "fingerprint": self._labels.fingerprint}
            if others := len(self._index.paths) - self.listed.height:
                notes.append(f"{others} images have no labels and are left out")
            if lacking := [task for task in tasks if task not in self._annotator.classes]:
                notes.append(
                    f"no class of the model is called {some_of(lacking, 12)}: where the labels have"
                    f" no area it is 0 (`merge` {lacking[0]}=CLASS names the model's class)"
                )
        return {**about, "notes": notes}


@dataclass(frozen=True)
class ScannedAnnotations:
    """Predictions on disk: a ``Scanned``; ``classes`` are those of the model, then of the labels.

    ``embedding`` is the name of the embedding, ``labels`` the folder of the dataset of labels, or
    None; ``about`` is the provenance.
    """

    root: str
    rows: ImageRows
    classes: list[str]
    thresholds: tuple[float, float | None]
    embedding: str | None
    labels: Path | None
    about: Mapping[str, Any]

    def ids(self) -> pl.Series:
        """Ids of the images that could be read."""
        rows = self.rows.columns("image_id", "broken")
        return pl.concat(_readable(some)["image_id"] for some in rows)

    def read(
        self, low: ImageId | None, high: ImageId | None, images: ImageListing | None
    ) -> tuple[Dataset, dict[str, int]]:
        """The images with ``low <= id < high``; there is nothing to count."""
        del images  # the folder is known
        rows = _readable(self.rows.read(low, high))
        columns, areas, confidences = (
            rows[name].explode().drop_nulls().to_numpy()
            for name in ("column", "area", "confidence")
        )
        least_area, asked = self.thresholds
        # without areas, presence is a probability
        least = np.where(np.isnan(areas), 0.5, 0.0) if asked is None else asked
        present = (confidences >= least) & ~(areas <= least_area)
        ends = row_ends(rows["column"])
        present_ends = np.concatenate([[0], np.cumsum(present)])[ends]
        shape = (rows.height, len(self.classes))
        embeddings = {}
        if self.embedding is not None:
            embeddings[self.embedding] = np.stack([*rows["vector"].to_numpy()])
        data = Dataset.build(
            rows.select("image_id", "file_name", "width", "height"),
            self.classes,
            csr_array((areas[present], columns[present], present_ends), shape=shape),
            embeddings=embeddings,
            image_root=self.root,
            confidences=csr_array((confidences, columns, ends), shape=shape),
        )
        if self.labels is None:
            return data, {}
        labels = load_dataset(self.labels)
        among = labels.images["image_id"].is_in(rows["image_id"].implode())
        return with_labels(data, labels.select(rows=among.to_numpy())), {}

    def provenance(
        self, counts: Mapping[str, int], n_images: int, images: object
    ) -> dict[str, Any]:
        """Where the dataset comes from."""
        del counts, n_images, images
        return dict(self.about)


def _readable(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("broken").is_null())
