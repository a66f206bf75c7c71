"""A small world, and the commands that run in it: what every command promises is tested on each.

A new command is a line here (``tests/cli/test_every_command.py`` names those that lack one).
"""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from coco_files import STUFF, document, image, write
from commands import completed
from image_folders import smooth
from PIL import Image
from scipy.sparse import csr_array
from small_world import small_dataset

from nooch.data import Dataset, csv_bytes, divide, load_dataset, save_dataset
from nooch.models.caches.array_store import making, write_block
from nooch.models.caches.features import FEATURES
from nooch.suites import load_suite

__all__ = [
    "COMMANDS", "ELSEWHERE", "GROUPS", "HOSTILE", "PLAIN", "Command", "Names", "World",
    "annotation_files",
]  # fmt: skip

N = 120
_TABLE = """
info ds                                                           | ds, parts |  |
info ds --check                                                   | ds |  |
find ds {find} --out out                                          | ds | suite | 1000
find ds {gist} --out out                                          | ds | suite | 1000
find ds --fitted suite --tasks {car} --out out                    | ds, suite | suite | 1000
find parts {find} --engine local:1 --out out                      | parts | suite | 1000
find parts {gist} --out out                                       | parts | suite | 1000
show suite                                                        | suite |  |
show suite --detect 10 --rate 0.2                                 | suite |  |
explain suite --task {car} --image {image} --predictions p.csv    | ds, suite, p.csv |  |
evaluate suite p.parquet --by weather --bootstrap 20 --out out.csv| suite, p.parquet | file | 700
evaluate suite p.csv --out out.parquet                            | suite, p.csv | file | 700
evaluate suite p.jsonl --out out.json                             | suite, p.jsonl | file | 700
evaluate suite p.npz                                              | suite, p.npz |  |
evaluate suite answers.jsonl                                      | suite, answers.jsonl |  |
captions suite captions.jsonl {words} --out out.csv | suite, captions.jsonl, words.yaml | file | 700
leaderboard models --suite suite {words} --least-coverage 0 --out out|suite, models | folder | 1000
paper select-tasks suite p.csv --n 1 --min-hard 1 --out out | suite, p.csv | suite | 1000
slices suite p.csv --min-support 2 --out out.csv                  | suite, p.csv | file | 300
validity suite p.csv other.csv --out out.csv                      | suite, p.csv | file | 300
audit suite --predictions p.parquet --out out                     | suite, p.parquet | folder | 1000
audit suite --captions captions.jsonl --out out | suite, captions.jsonl | folder | 1000
audit ds p.csv --columns weather --bootstrap 100 --out out.csv | ds, p.csv | file | 300
check ds p.csv --criterion ce --alpha 0.001 --min-hard 1 --out out| ds, p.csv | folder | 1000
check ds p.csv --phi "word('word1')" --min-hard 1 --out out | ds, p.csv | folder | 1000
train weights ds --task {car} --alpha 0.001 --out out.csv               | ds | file | 1000
sweep ds {sweep} --out out                             | ds | folder | 700
train bench ds suite {bench} --embedding made --out out | ds, suite, bench.yaml | resumed | 2500
train bench ds suite {bench} --features features --out out              | features | resumed | 2500
train status runs                                                       | runs |  |
train score runs suite --out out                                      | runs, suite | added | 1000
paper tables runs --suite suite --out out.csv                          | runs, suite | file | 700
paper tables scores                                                    | scores |  |
repair suite {repair} --out out | suite, vectors.npz, p.parquet | folder | 1000
report suite --predictions p.csv --out out                        | ds, suite, p.csv | folder | 2000
report suite --runs runs --out out                                | suite, runs | folder | 2000
gallery suite --task {car} --predictions p.csv --out out.png      | suite, p.csv | file | 700
paper figures fig4 --suite suite --predictions p.csv --formats svg --out out|suite, p.csv|added|1000
train pixels ds --size 8 --out out                                      | ds | folder | 1000
export suite out --to ids                                         | suite | file | 700
export suite out --to csv --split test --predictions p.csv        | suite, p.csv | folder | 700
export suite out --to hf                                          | suite | folder | 700
export suite out --to pope                                        | suite | folder | 300
export suite out --to hf --images photos                          | suite, photos | folder | 700
tools add-attributes ds weather.csv out | ds, weather.csv | data | 1000
tools add-attributes ds out --captions captions.jsonl | ds, captions.jsonl | data | 1000
tools add-attributes ds out --image-properties | ds | data | 1000
tools embed ds --encoder vectors.npz                                    | ds, vectors.npz |  |
import table areas.parquet {table} out                            | areas.parquet | data | 2500
import coco --things train.json {captions} out | train.json, captions.json | data | 700
import auto train.json out                                       | train.json | data | 700
import coco-stuff root out                                        | root | data | 700
import label-maps maps out --classes names.txt                    |  | data | 700
import boxes labels out --boxes yolo --classes names.txt            |  | data | 700
import image-folder by-class out                                  |  | data | 700
import waterbirds birds out                                       | birds | data | 700
collect-next suite --pool more --out out.csv                      | more, suite | file | 100
tools scenes out --images 3                                             |  | data | 2000
"""
"""A command | what it reads | what ``out`` is | bytes that a file has on a full disk.

``added``: a folder to which files are added; ``resumed``: one in which the same command goes on.
"""
GROUPS = {"import", "train", "paper", "tools"}
_PARTS = {
    "find": "--criterion ce --alpha 0.001 --tasks {car}",
    "gist": "--criterion gist --encoder lexical --tau 0.5 --cues bowl=table --tasks bowl",
    "captions": "--captions captions.json",
    "words": "--synonyms words.yaml",
    "repair": "--features vectors.npz --predictions p.parquet",
    "sweep": "--alpha 0:0.2:3 --beta 0.1 --tasks {car} --split test",
    "table": "--id id --class class --area area --part-size 50 --engine local:1",
    "bench": "--config bench.yaml --device cpu",
}
ELSEWHERE = {
    "annotate": "cli/test_annotate.py", "predict": "cli/test_predict.py", "ask": "cli/test_ask.py",
    "train features": "cli/test_training_features.py",
    "paper class-network": "cli/test_choosing.py",
    "intervene": "analysis/test_intervention.py",
    "tools scenes-score": "scenes/test_truth_scores.py",
    "paper waterbirds": "cli/test_waterbirds.py",
    "download coco-stuff": "cli/test_download.py",
    "download nooch-published": "cli/test_download.py",
    "download nooch-coco-images": "cli/test_download.py",
}  # fmt: skip
"""A command that the world has no input for -> where its promises are tested."""


@dataclass(frozen=True)
class Command:
    """A command as it is typed, what it reads, what it writes, and the size of a full disk."""

    words: str
    reads: tuple[str, ...]
    kind: str
    full: int

    @property
    def name(self) -> str:
        """``import table`` or ``find``, as one has it in the help."""
        first, second, *_ = self.words.split()
        return f"{first} {second}" if first in GROUPS else first

    @property
    def out(self) -> str:
        """The name of what it writes: the word that is ``out`` with an ending."""
        return next((word for word in self.words.split() if word.partition(".")[0] == "out"), "")

    def typed(self, names: Names, out: str = "") -> str:
        """The command for a world with these names, or into another place than ``out``."""
        quoted = {"car": shlex.quote(names.car), "road": shlex.quote(names.road)}
        text = self.words.format(**{k: v.format(**quoted) for k, v in _PARTS.items()}, **quoted,
                                 image=shlex.quote(str(names.ids()[4])))  # fmt: skip
        return " ".join(out or word if word == self.out else word for word in text.split(" "))


def _command(line: str) -> Command:
    words, reads, kind, full = (cell.strip() for cell in line.split("|"))
    return Command(words, tuple(reads.split(", ")) if reads else (), kind, int(full or 0))


COMMANDS = [_command(line) for line in _TABLE.strip().splitlines()]


@dataclass(frozen=True)
class Names:
    """Names of two classes, of images, of values and of a run."""

    car: str = "car"
    road: str = "road"
    image: str = ""
    weather: tuple[str, str] = ("rain", "dry")
    run: str = "model"

    def ids(self) -> list[int] | list[str]:
        """Ids of the images: numbers, unless they have names."""
        return [f"@{n:03}{self.image}" for n in range(N)] if self.image else [*range(1, N + 1)]


PLAIN = Names()
CLEAR, WINDOW, TURN, ISOLATE = "\x1b[2J", "\x9b31m", "\u202e", "\u2066"
HOSTILE = Names(
    f"=car{CLEAR}", f"+road{TURN}{WINDOW}", f"{ISOLATE}\x07", (f"-rain{CLEAR}", "=dry"),
    f"model{CLEAR}",
)  # fmt: skip
"""They move a cursor, turn text around or are a formula."""


@dataclass(frozen=True)
class World:
    """A folder with all that ``COMMANDS`` name, and the names that are used in it."""

    folder: Path
    names: Names

    @classmethod
    def make(cls, folder: Path, names: Names = PLAIN) -> World:
        """Inputs first, then what commands make of them."""
        made = cls(folder, names)
        made._datasets()
        made._annotations()
        with contextlib.chdir(folder):
            completed(*(command.format(car=shlex.quote(names.car), road=shlex.quote(names.road))
                        for command in _FIRST))  # fmt: skip
        made._predictions()
        made._features()
        return made

    def place(self, at: Path, *altered: str) -> None:
        """Make a folder to run commands in: ``altered`` are copies, all else is linked."""
        for path in self.folder.iterdir():
            if path.name not in altered:
                (at / path.name).symlink_to(path)
            elif path.is_dir():
                shutil.copytree(path, at / path.name)
            else:
                shutil.copy(path, at)

    def _datasets(self) -> None:
        folder, names, made = self.folder, self.names, small_dataset(N)
        ids, draw = pl.Series(names.ids()), np.random.default_rng(0)
        classes = [names.car, "bowl", names.road, "table"]
        files = [f"{n:03}{names.image[:1]}.png" for n in range(N)]
        (folder / "photos").mkdir(parents=True)
        for number, name in enumerate(files):
            smooth(number, 16, 16).save(folder / "photos" / name)
        weather = [names.weather[n % 2] for n in range(N)]
        columns = {"image_id": ids, "file_name": pl.Series(files), "weather": pl.Series(weather)}
        frame = made.images.with_columns(**columns, width=16, height=16, annotated_things=True)
        texts = [f"word{n % 7} by a {names.car}" for n in range(N)]
        captions = pl.DataFrame({"image_id": ids, "caption": texts})
        more = {"kinds": {names.car: "thing"}, "embeddings": dict(made.embeddings)}
        unknown = csr_array(([1.0], ([3], [0])), shape=(N, 4))
        root = str(folder / "photos")
        data = Dataset.build(frame, classes, made.areas, captions, unknown=unknown,
                             image_root=root, **more)  # fmt: skip
        save_dataset(data, folder / "ds")
        save_dataset(divide(replace(data, embeddings={}), 2), folder / "parts")
        others = ids.reverse() + "x" if names.image else ids + 1000
        named = frame.with_columns(image_id=others, file_name="new" + pl.col("file_name"))
        save_dataset(Dataset.build(named, classes, made.areas), folder / "more")
        grid = {"tasks": [names.car, "bowl"], "seeds": [0], "heads": 6, "epochs": 2, "lr": 0.01}
        grid["methods"] = {"erm": None, "gdro": {"K": [0, 5]}}
        (folder / "bench.yaml").write_text(json.dumps(grid))
        captions.write_ndjson(folder / "captions.jsonl")
        (folder / "models" / "a").mkdir(parents=True)
        captions.write_ndjson(folder / "models" / "a" / "captions.jsonl")
        (folder / "models" / "a" / "model.yaml").write_text("name: a\nkind: captions\n")
        words = {names.car: ["car", "cars"], "bowl": ["bowl"]}
        (folder / "words.yaml").write_text(json.dumps(words))
        table = pl.DataFrame({"image_id": ids, "rain": 1.5, "fog": "a"})
        (folder / "weather.csv").write_bytes(csv_bytes(table))
        vectors: dict[str, Any] = {
            "image_ids": np.array(ids.to_list()),
            "embeddings": draw.normal(size=(N, 4)),
        }
        np.savez(folder / "vectors.npz", **vectors)
        at = made.areas.tocoo()
        named = pl.Series(classes).gather(at.col)
        areas = pl.DataFrame({"id": ids.gather(at.row), "class": named, "area": at.data})
        areas.write_parquet(folder / "areas.parquet")

    def _annotations(self) -> None:
        folder = self.folder
        annotation_files(folder)
        for name in ("train", "stuff"):
            file = folder / "root" / "annotations" / f"{_IN_ROOT[name]}_val2017.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / f"{name}.json", file)
        for number in range(1, 11):
            kind = folder / "by-class" / ("cat", "dog")[number % 2]
            kind.mkdir(parents=True, exist_ok=True)
            smooth(number, 4, 4).save(kind / f"{number}.png")
        birds = {"img_id": range(1, 9), "img_filename": [f"{n}.jpg" for n in range(8)]}
        birds |= {"y": [0, 1] * 4, "place": [0, 0, 1, 1] * 2, "split": [0, 0, 0, 0, 1, 1, 2, 2]}
        write(folder / "birds" / "metadata.csv", pl.DataFrame(birds).write_csv())

    def _predictions(self) -> None:
        folder, draw = self.folder, np.random.default_rng(0)
        suite = load_suite(folder / "suite")
        sets = (suite.set("ce", self.names.car, split) for split in ("valid", "test"))
        ids = pl.concat([one.image_ids for one in sets])
        wide = {task: draw.normal(size=len(ids)) for task in (self.names.car, "bowl")}
        logits = pl.DataFrame({"image_id": ids, **wide}).unpivot(
            index="image_id", variable_name="task", value_name="logit"
        )
        named = logits.with_columns(run=pl.lit(self.names.run))
        named.write_parquet(folder / "p.parquet")
        (folder / "p.csv").write_bytes(csv_bytes(named))
        other = pl.col("logit").reverse()
        (folder / "other.csv").write_bytes(csv_bytes(logits.with_columns(other)))
        named.write_ndjson(folder / "p.jsonl")
        values, tasks = np.stack([*wide.values()], axis=1), np.array([*wide])
        np.savez(folder / "p.npz", image_ids=np.array(ids.to_list()), tasks=tasks, logits=values)
        says = pl.when(pl.col("logit") > 0).then(pl.lit("Yes")).otherwise(pl.lit("no, none"))
        logits.select("image_id", "task", answer=says).write_ndjson(folder / "answers.jsonl")

    def _features(self) -> None:
        made, data = {"backbone": {"name": "x"}}, load_dataset(self.folder / "ds")
        with making(
            self.folder / "features", FEATURES, data, made, shape=(N, 8), dtype="float32", block=50
        ) as unfinished:
            for number in list(unfinished.todo):
                rows = range(N)[unfinished.rows(number)]
                values = np.random.default_rng(number).normal(size=(len(rows), 8))
                at = unfinished.offset_of(number)
                block = write_block(unfinished.array, at, values.astype(np.float32))
                unfinished.record(number, block)


_IN_ROOT = {"train": "instances", "stuff": "stuff"}


def annotation_files(folder: Path) -> None:
    """Inputs of every import: ten images of 4 x 4 pixels; in ``bad`` what is refused."""
    ids = range(1, 11)
    person = [{"image_id": i, "category_id": 1, "area": float(i % 3)} for i in ids if i % 2]
    road = [{"image_id": i, "category_id": 149, "area": 8.0} for i in ids if i % 3]
    write(
        folder / "train.json",
        document([image(i) for i in ids if i <= 6], [p for p in person if p["image_id"] <= 6]),
    )
    write(
        folder / "val.json",
        document([image(i) for i in ids if i > 6], [p for p in person if p["image_id"] > 6]),
    )
    write(folder / "stuff.json", document([image(i) for i in ids], road, STUFF))
    said = [{"image_id": 1, "caption": "a person on a road"}]
    captions = {"images": [image(i) for i in ids], "annotations": said}
    write(folder / "captions.json", captions)
    for i in ids:
        write(folder / "labels" / f"{i}.txt", "0 .5 .5 .5 .5")
        (folder / "maps").mkdir(exist_ok=True)
        Image.fromarray(np.array([[0, i % 2]], np.uint8)).save(folder / "maps" / f"{i}.png")
    write(folder / "names.txt", "sky\nroad\n")
    rows = "".join(
        f"{i},s{i // 4}/{i}.jpg,{i % 2},{'sea' if i % 3 else 'land'},{i % 3}\n" for i in ids
    )
    write(folder / "table.csv", "id,path,bird,place,fold\n" + rows)
    areas = "".join(f"{i},road,0.{i:02d}\n{i},car,\n" for i in ids)
    write(folder / "long.csv", "id,class,area\n" + areas)
    splits = "".join(f"{i},{('train', 'val', 'test')[i % 3]}\n" for i in ids)
    write(folder / "split.csv", "image_id,split\n" + splits)
    text = (folder / "train.json").read_text()
    write(folder / "bad" / "cut.json", text[:200])
    write(folder / "bad" / "types.json", document([{**image(1), "id": [1]}]))
    unknown = {"image_id": 9, "category_id": 1, "area": 1}
    write(folder / "bad" / "unknown.json", document([image(1)], [unknown]))
    write(folder / "bad" / "unsafe.json", document([image(1, file_name="../1.jpg")]))
    write(folder / "bad" / "one.txt", "0 sky\n")
    write(folder / "bad" / "split.csv", "image_id,split\n1,train\n")


_FIND = "find ds --criterion ce --criterion gist --encoder lexical --match ce --alpha 0.001"
_FIRST = (
    f"{_FIND} --tasks {{car}},bowl --split train,valid,test --out suite",
    "tools embed parts --encoder lexical",
    "train bench ds suite --embedding made --config bench.yaml --out runs",
    "train score runs suite --out scores",
)
