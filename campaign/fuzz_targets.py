"""Targets of fuzzing: every reader, language and folder, each as a function of an input's bytes."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mode
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pyarrow.parquet as pq
from coco_files import STUFF, document, image
from made_runs import made_runs
from PIL import Image
from scored import logits, small_data, small_suite, wide

import nooch
from nooch.base.files import sha256_of
from nooch.base.split_plan import SplitPlan
from nooch.base.yaml_files import yaml_value
from nooch.base.zips import unpack
from nooch.criteria.contract import read_thresholds
from nooch.data import apply_split
from nooch.data.arrays import read_array
from nooch.data.importing.recognition import recognize
from nooch.data.part_files import file_record
from nooch.data.readers.contract import read
from nooch.data.readers.image_files import opened_image
from nooch.evaluation.answers import read_answers
from nooch.evaluation.captions import read_captions
from nooch.evaluation.scores import parse_condition
from nooch.evaluation.vocabulary import load_vocabulary
from nooch.models.task_maps import read_task_map
from nooch.paper.published_sets import read_labels, read_published
from nooch.suites.label_overlay import read_label_overlay
from nooch.suites.questions import read_questions
from nooch.training.bench.config import read_config
from nooch.training.records import RunsFolder

__all__ = ["Target", "Uninteresting", "make_targets"]


OTHERS = (Exception, pl.exceptions.PanicException)
"""Exceptions of making a file; panics of polars are not exceptions."""


class Uninteresting(Exception):  # noqa: N818 - no fault
    """An input that gives no file to read."""


@dataclass(frozen=True)
class Target:
    """A reader: valid inputs to start from, and what reads one.

    With ``is_json`` inputs are JSON, for any kind of file, and stay JSON.
    """

    seeds: tuple[bytes, ...]
    read: Callable[[bytes], object]
    is_json: bool = False


def table_of(data: bytes, like: pl.DataFrame | None = None) -> pl.DataFrame:
    """A table in JSON: column -> values, or -> their ``kind`` and ``values``.

    Columns without a kind have the type of the column of that name in ``like``.
    """
    kinds = {} if like is None else like.schema
    try:
        frame = {}
        for name, values in json.loads(data).items():
            typed = isinstance(values, dict)
            series = pl.Series(name, values["values"] if typed else values, strict=False)
            if typed and values["kind"] == "Struct":
                series = pl.DataFrame({"a": series}).to_struct(name)
            elif typed and values["kind"] != "Object":
                series = series.cast(getattr(pl, values["kind"]), strict=False)
            elif name in kinds:
                series = series.cast(kinds[name], strict=False)
            frame[name] = series
        # of one length after insertions or removals
        n = mode(map(len, frame.values()))
        return pl.DataFrame(
            [s.head(n).extend_constant(None, n - len(s.head(n))) for s in frame.values()]
        )
    except OTHERS as error:
        raise Uninteresting from error


def _written(frame: pl.DataFrame, path: Path) -> Path:
    """A Parquet file; a suite's has a row group for each criterion and task."""
    keys = ["criterion", "task"]
    # in memory: where polars refuses a table, a thread of it may still empty the file afterwards
    content = io.BytesIO()
    try:
        if path.name != "challenge_sets.parquet" or not {*keys} <= {*frame.columns}:
            frame.write_parquet(content)
        else:
            groups = frame.partition_by(keys, maintain_order=True)
            with pq.ParquetWriter(content, frame.to_arrow().schema) as writer:
                for group in groups:
                    writer.write_table(group.to_arrow(), row_group_size=max(1, len(group)))
    except OTHERS as error:
        raise Uninteresting from error
    path.write_bytes(content.getvalue())
    return path


def as_json(frame: pl.DataFrame) -> bytes:
    """The seed of a table."""
    return json.dumps(frame.to_dict(as_series=False)).encode()


def make_targets(folder: Path) -> dict[str, Target]:
    """All targets by name; what they need is made in the folder where they write."""
    data = small_data()
    names = data.images["image_id"].cast(pl.String) + ".jpg"
    captions = pl.DataFrame({"image_id": data.images["image_id"], "caption": "a red car"})
    images = data.images.with_columns(file_name=names)
    full = nooch.Dataset.build(images, data.classes, data.areas, captions)
    full = replace(full, embeddings={"made": np.ones((len(full), 2), np.float32)})
    nooch.save_dataset(full, folder / "dataset")
    suite = small_suite(full, str(folder / "dataset"))
    predicted = logits(suite)
    targets = {**_texts(folder, suite, predicted), **_tables(folder, suite, predicted)}
    targets |= _annotations(folder) | _folders(folder, suite) | _languages(data)
    return dict(sorted(targets.items()))


def _file(folder: Path, name: str, read: Callable[[Path], object], *seeds: str | bytes) -> Target:
    """A reader of one file of this name."""
    path = folder / name

    def run(content: bytes) -> None:
        path.write_bytes(content)
        read(path)

    return Target(tuple(s.encode() if isinstance(s, str) else s for s in seeds), run)


def _texts(folder: Path, suite: Any, predicted: pl.DataFrame) -> dict[str, Target]:
    """Predictions, answers, captions, labels and settings."""
    ids = suite.set("ce", "car", "test").image_ids
    (folder / "ids").write_text("1 car\n2 fire_hydrant\n")
    npz, npy = io.BytesIO(), io.BytesIO()
    table = wide(predicted)
    tasks = [name for name in table.columns if name != "image_id"]
    values = table.select(tasks).to_numpy()
    np.savez(npz, image_ids=table["image_id"].to_numpy(), tasks=np.array(tasks), logits=values)
    np.save(npy, values)
    boxes = [{"image_id": i, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5} for i in ids]
    text = "Is there a car in the image?"
    asked = [{"question_id": n, "image": f"{i}.jpg", "text": text} for n, i in enumerate(ids[:3])]
    questions = folder / "asked.json"
    questions.write_text(json.dumps(asked))
    answers = [{**question, "answer": "Yes, there is."} for question in asked]
    said = [{"image_id": i, "caption": "a red car on the road"} for i in ids[:3]]
    said_by = {"verdict": "no", "reviewer": "a", "time": "2024-01-02T00:00:00"}
    verdicts = [{"image_id": i, "task": "car", **said_by} for i in ids[:3]]

    def predictions(path: Path) -> object:
        return nooch.load_predictions(
            path, suite, small_data(), scale="logit", classes=folder / "ids"
        )

    def both(records: list[Any]) -> list[str]:
        return [json.dumps(records), "\n".join(map(json.dumps, records))]

    def overlay(path: Path) -> object:
        return read_label_overlay(path, suite)

    formats: dict[str, tuple[Any, ...]] = {
        "predictions-csv": ("p.csv", predictions,
                            predicted.head(9).write_csv(), table[:5].write_csv()),
        "predictions-tsv": ("p.tsv", predictions, predicted.head(9).write_csv(separator="\t")),
        "predictions-npz": ("p.npz", predictions, npz.getvalue()),
        "array": ("p.npy", read_array, npy.getvalue()),
        "detections-json": ("p.json", predictions, json.dumps(boxes[:3])),
        "answers-json": ("a.json",
                         lambda p: read_answers(p, suite, questions=questions), *both(answers)),
        "questions-json": ("q.json", lambda p: read_questions(p, suite), *both(asked)),
        "captions-json": ("c.json", lambda p: read_captions([p], suite), *both(said)),
        "overlay-json": ("o.json", overlay, json.dumps(verdicts)),
        "overlay-csv": ("o.csv", overlay, pl.DataFrame(verdicts).write_csv()),
        "config-yaml": ("c.yaml", read_config, CONFIG),
        "config-finetune-yaml": ("f.yaml",
                                 lambda p: read_config(p, "finetune"),
                                 "epochs: 3\nmethods: {erm: }\n"),
        "task-map-yaml": ("m.yaml", read_task_map,
                          "car: [a, 817]\ncow: {positive: [ox], negative: [a]}\n"),
        "words-yaml": ("w.yaml", load_vocabulary,
                       "mentions: {car: [car]}\nother: [cart]\nplurals: true\n"),
        "thresholds-csv": ("t.csv", read_thresholds, "task,positive,negative\ncar,0.1,0.2\n"),
        "published-labels-npz": ("l.npz", read_labels,
                                 _npz(image_ids=[1], labels=[[0]], category_names=["car"])),
        "split-npz": ("s.npz", lambda p: apply_split(small_data().images, SplitPlan(str(p))),
                      _npz(train_ids=range(1, 40), valid_ids=[40, 41], test_ids=range(42, 61))),
    }  # fmt: skip
    return {name: _file(folder, *given) for name, given in formats.items()}


CONFIG = """tasks: [car]
seeds: [0, 1]
methods:
  erm:
  gdro: {K: [0, 5]}
  cvar: {p: 0.1}
lr: 1e-2
epochs: 4
"""


def _npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _tables(folder: Path, suite: Any, predicted: pl.DataFrame) -> dict[str, Target]:
    """Tables whose columns, types and values are changed, as Parquet files."""
    columns = nooch.io.Columns("id", split="split")
    rows = pl.DataFrame({"id": [1, 2, 3, 4], "split": ["train", "valid", "test", "test"],
                         "car": [0, 1, 1, 0], "hour": [1.5, 2.0, 3.0, None]})  # fmt: skip
    areas = pl.DataFrame({"id": [1, 1, 2], "class": ["car", "cow", None], "area": [0.1, 0.5, 0.0]})

    def parquet(name: str, read: Callable[[Path], object], *seeds: pl.DataFrame) -> Target:
        path = folder / f"{name}.parquet"
        return Target(
            tuple(map(as_json, seeds)), lambda data: read(_written(table_of(data), path)), True
        )

    def text(name: str, read: Callable[[Path], object], seed: pl.DataFrame) -> Target:
        is_csv = name.endswith("csv")
        return _file(folder, name, read, seed.write_csv() if is_csv else seed.write_ndjson())

    def labels(path: Path) -> object:
        return nooch.io.read(nooch.io.TableReading(path, columns, nooch.io.TableOfImages(["car"])))

    def long(path: Path) -> object:
        layout = nooch.io.LongTable("class", "area", "none")
        return nooch.io.read(nooch.io.TableReading(path, nooch.io.Columns("id"), layout))

    overlay = pl.DataFrame({"image_id": [40], "task": ["car"], "verdict": ["no"]})
    return {
        "predictions-table": parquet("p", lambda p: nooch.load_predictions(p, suite, scale="logit"),
                                predicted.head(6), wide(predicted).head(4)),
        "labels-table": parquet("l", labels, rows),
        "areas-table": parquet("a", long, areas),
        "labels-csv": text("l.csv", labels, rows),
        "labels-jsonl": text("l.jsonl", labels, rows),
        "areas-csv": text("a.csv", long, areas),
        "overlay-table": parquet("o", lambda p: read_label_overlay(p, suite), overlay),
        "labels-parquet": _file(folder, "b.parquet", labels, _parquet(rows)),
        "parquet": _file(folder, "x.parquet", lambda p: nooch.load_predictions(p, suite),
                         _parquet(predicted.head(6))),
    }  # fmt: skip


def _parquet(frame: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.write_parquet(file)
    return file.getvalue()


def _annotations(folder: Path) -> dict[str, Target]:
    """Annotation files, images and archives."""
    images = [image(n) for n in (1, 2)]
    square = {"segmentation": [[0, 0, 2, 0, 2, 2, 0, 2]], "iscrowd": 0, "bbox": [0, 0, 2, 2]}
    run = {"segmentation": {"counts": [4, 8, 4], "size": [4, 4]}, "iscrowd": 1}
    things: list[dict[str, Any]]
    things = [{"image_id": 1, "category_id": 1, "area": 3.5},
              {"image_id": 2, "category_id": 3, **square},
              {"image_id": 2, "category_id": 11, **run}]  # fmt: skip
    instances = json.dumps(document(images, things))
    (folder / "things.json").write_text(instances)
    stuff = json.dumps(document(images, [{"image_id": 1, "category_id": 149, "area": 4.0}], STUFF))
    texts = {"images": images, "annotations": [{"image_id": 1, "caption": "a car"}]}
    voc = "<annotation><filename>a.jpg</filename><size><width>9</width><height>9</height></size>"
    voc += "<object><name>car</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>4</xmax><ymax>4"
    voc += "</ymax></bndbox></object></annotation>"
    for name in ("voc", "yolo", "maps", "zips", "png"):
        (folder / name).mkdir()
    for name in ("yolo/a.jpg", "yolo/b.jpg", "png/a.png"):
        (folder / name).write_bytes(_png("L"))
    (folder / "names.txt").write_text("car\ncow\nroad\nsky\n")
    opened = "ImageID,LabelName,XMin,XMax,YMin,YMax\na,/m/1,0.1,0.5,0.1,0.5\n"

    def after_things(**more: Any) -> object:
        return nooch.io.read(nooch.io.CocoReading([folder / "things.json"], **more))

    def maps(path: Path) -> object:
        return nooch.io.read(nooch.io.MapReading(path.parent, folder / "names.txt"))

    def boxes(source: Path, kind: str, classes: Path | None = None) -> object:
        return nooch.io.read(nooch.io.BoxReading(source, kind, classes=classes))

    def seen(path: Path) -> object:
        return read(recognize(path).reading)

    def look(path: Path) -> object:
        with (
            suppress(OSError, ValueError, SyntaxError, Image.DecompressionBombError),
            opened_image(path) as picture,
        ):
            return picture.convert("RGB")
        return None

    def class_names(path: Path) -> object:
        return nooch.io.read(nooch.io.MapReading(folder / "png", path))

    formats: dict[str, tuple[Any, ...]] = {
        "coco": ("i.json", lambda p: nooch.io.read(nooch.io.CocoReading([p])), instances),
        "coco-stuff": ("s.json", lambda p: after_things(stuff=[p]), stuff),
        "coco-captions": ("t.json", lambda p: after_things(captions=[p]), json.dumps(texts)),
        "coco-recognized": ("r.json", seen, instances),
        "voc": ("voc/a.xml", lambda p: boxes(p.parent, "voc"), voc),
        "yolo": ("yolo/a.txt", lambda p: boxes(p.parent, "yolo", folder / "names.txt"),
                 "0 0.5 0.5 0.25 0.125\n1 0.1 0.1 0.1 0.1\n"),
        "yolo-data": ("data.yaml", seen, "path: .\ntrain: yolo\nnames: {0: car, 1: cow}\n"),
        "openimages": ("oi.csv", lambda p: boxes(p, "openimages"), opened),
        "label-maps": ("maps/a.png", maps, _png("L"), _png("P")),
        "class-names": ("classes.txt", class_names,
                        "0 car\n1 cow\n2 road\n3 sky\n", "car\ncow\nroad\nsky\n"),
        "image": ("x.jpg", look, *(_png("RGB", kind) for kind in ("PNG", "JPEG", "WEBP", "GIF"))),
        "zip": ("x.zip", lambda p: unpack(p, folder / "zips", 100_000), _zip()),
    }  # fmt: skip
    return {name: _file(folder, *given) for name, given in formats.items()}


def _png(mode: str, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    shape = (4, 5, 3) if mode == "RGB" else (4, 5)
    values = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    Image.fromarray(values % 4 if mode != "RGB" else values).convert(mode).save(file, kind)
    return file.getvalue()


def _zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("top/a.txt", "some text" * 20)
        archive.writestr("top/b/c.txt", "more")
    return file.getvalue()


def _folders(folder: Path, suite: Any) -> dict[str, Target]:
    """Folders that nooch wrote, with one file altered; recorded hashes are made to match."""
    place = folder / "dataset"
    nooch.save_suite(suite, folder / "suite")
    made_runs(folder / "runs", suite, seeds=(0,))
    job = folder / "runs" / "jobs" / "job0000"
    for file in (place / "dataset.json", folder / "suite/suite.json", folder / "runs/runs.json"):
        # without the checksum, which would refuse any altered file
        content = json.loads(file.read_text())
        file.write_text(json.dumps({k: v for k, v in content.items() if k != "checksum"}))

    def dataset() -> None:
        opened = nooch.load_dataset(place)
        for part in (opened.images, opened.areas, opened.captions, opened.embeddings):
            str(part)
        opened.labels("car")
        nooch.find(opened, {"ce": nooch.CE()}, tasks=["car"])

    def sets() -> None:
        opened = nooch.load_suite(folder / "suite")
        for key in opened.keys:
            opened.set(*key)

    def runs() -> None:
        opened = RunsFolder.open(folder / "runs")
        for name in opened.done()[:1]:
            opened.read_job(name)
        nooch.paper.score_runs(opened, suite)

    def altered(
        path: Path, read: Callable[[], None], seal: Callable[[], object] = str, *, raw: bool = False
    ) -> Target:
        before = path.read_bytes()
        is_table = path.suffix == ".parquet" and not raw
        like = pl.read_parquet(path) if is_table else None

        def run(content: bytes) -> None:
            try:
                if is_table:
                    _written(table_of(content, like), path)
                else:
                    path.write_bytes(content)
                seal()
                read()
            finally:
                path.write_bytes(before)
                seal()

        seed = before if like is None else as_json(like)
        return Target((seed,), run, is_table)

    header = place / "dataset.json"
    plain = header.read_bytes()

    def seal_dataset() -> None:
        content = json.loads(plain)
        for name in content["files"]:
            record = msgspec.to_builtins(file_record(place / name))
            content["files"][name] = record
        header.write_text(json.dumps(content))

    about, before = folder / "suite" / "suite.json", (folder / "suite" / "suite.json").read_text()
    table = folder / "suite" / "challenge_sets.parquet"
    first = sha256_of(table)

    def seal_suite() -> None:
        about.write_text(before.replace(first, sha256_of(table)))

    images, areas = place / "images.parquet", place / "areas.parquet"
    predictions = job / "predictions.parquet"
    return {
        "dataset-json": altered(header, dataset),
        "dataset-images": altered(images, dataset, seal_dataset),
        "dataset-images-bytes": altered(images, dataset, seal_dataset, raw=True),
        "dataset-areas": altered(areas, dataset, seal_dataset),
        "dataset-captions": altered(place / "captions.parquet", dataset, seal_dataset),
        "dataset-embedding": altered(place / "embeddings" / "made.npy", dataset, seal_dataset),
        "suite-json": altered(about, sets),
        "suite-sets": altered(table, sets, seal_suite),
        "suite-sets-bytes": altered(table, sets, seal_suite, raw=True),
        "runs-json": altered(folder / "runs" / "runs.json", runs),
        "run-config": altered(job / "config.json", runs),
        "run-predictions": altered(predictions, runs),
        "run-predictions-bytes": altered(predictions, runs, raw=True),
        "published-npy": _file(folder, "published/nooch_ids_CE_car_hard_positive_test.npy",
                               lambda p: read_published(p.parent), _npy(folder)),
    }  # fmt: skip


def _npy(folder: Path) -> bytes:
    (folder / "published").mkdir()
    file = io.BytesIO()
    np.save(file, np.arange(3))
    return file.getvalue()


def _languages(data: Any) -> dict[str, Target]:
    """Expressions, conditions and values of settings."""
    rows = data.images.with_columns(
        hour=pl.int_range(len(data)) % 24, day=pl.lit("2024-01-02").str.to_date(), dark=pl.lit(True)
    )
    small = nooch.Dataset.build(rows, data.classes, data.areas)
    phis = ("road != y", "place IS NOT NULL AND unseen(place)", "present(road) AND area(car) > 0.1",
            "NOT (hour BETWEEN 2 AND 5) OR place IS NOT NULL AND place IN ('street')",
            "ln(hour + 1) / 2 < 0.5", "place IS NULL", "day > '2024-01-01' AND dark = TRUE",
            "abs(-hour % 7) * 1e3 = 2")  # fmt: skip

    def phi(content: bytes) -> None:
        criterion = nooch.Attribute(content.decode("utf-8", "surrogateescape"))
        fitted = criterion.fit(small, ["car"])
        fitted.phi(small, "car")
        fitted.explain(small.select(rows=np.arange(1)), "car")

    def text(read: Callable[[str], object]) -> Callable[[bytes], object]:
        return lambda content: read(content.decode("utf-8", "surrogateescape"))

    def setting(text: str) -> None:
        name, _, value = text.partition("=")
        read_config({name: yaml_value(value, "--set")})

    return {
        "phi": Target(tuple(p.encode() for p in phis), phi),
        "fail-if": Target((b"auc@hard[ce,car]<0.85", b"error @ easy_positive [*] >= 1e-3"),
                          text(parse_condition)),
        "set-option": Target((b"lr=1e-3", b"seeds=[0, 1]", b"methods={gdro: {K: [0, 5]}}"),
                             text(setting)),
    }  # fmt: skip
