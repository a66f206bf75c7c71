"""A small world, and the commands that are disturbed in it."""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from answering import save_clip
from image_folders import street_images, tiny_resnet
from reference_files import make
from small_world import make_world

import nooch
from nooch.data import divide, load_dataset, save_dataset

__all__ = ["COMMANDS", "World", "argv", "contents"]

_COCO = "--things W/coco/instances.json --stuff W/coco/stuff.json --captions W/coco/captions.json"
_FIND = "--tasks person,car --alpha 0.01 --beta 0.05 --criterion ce"
_GIST = "--criterion gist --encoder lexical --match ce"
_PICTURES = "W/pictures-suite --dataset W/pictures"
_BENCH = "bench W/dataset W/suite --embedding made --config W/bench.yaml --out out"
COMMANDS = {
    "import": f"import coco {_COCO} --split 50/25/25 out",
    "import, parts": f"import coco {_COCO} --split 50/25/25 --part-size 40 --engine local:2 out",
    "import, table": "import table W/long.csv --id id --class class --area area --part-size 60 out",
    "embed": "embed coco --encoder lexical",
    "embed, parts": "embed parts --encoder lexical --engine local:2",
    "find": f"find coco {_FIND} {_GIST} --out out",
    "find, parts": f"find parts {_FIND} {_GIST} --engine local:2 --out out",
    "bench": _BENCH,
    "bench, engine": f"{_BENCH} --engine local:2",
    "features": "features W/pictures --backbone W/resnet --out out",
    "predict": f"predict {_PICTURES} --model W/clip --out out.csv",
    "ask": f"ask {_PICTURES} --endpoint ENDPOINT/v1 --model m --out out.parquet",
}
"""Name -> command; W is the world's folder. ``coco`` and ``parts`` are copied, since embed adds to
them."""


def argv(command: str) -> list[str]:
    """Program and arguments of a command."""
    return [sys.executable, "-m", "nooch", *shlex.split(command)]


def contents(folder: Path) -> dict[str, bytes]:
    """Bytes of all files, except logs and times."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    named = {path.relative_to(folder).as_posix(): path for path in files}
    return {
        name: path.read_bytes()
        for name, path in named.items()
        if "-logs/" not in name and path.name != "timings.jsonl"
    }


@dataclass(frozen=True)
class World:
    """A folder with inputs, and the address of a server that answers questions."""

    folder: Path
    endpoint: str

    @classmethod
    def make(cls, folder: Path, endpoint: str) -> World:
        """Write the inputs of all commands."""
        make(folder)
        make_world(folder)
        names = ("instances", "stuff", "captions")
        things, stuff, captions = ([folder / "coco" / f"{name}.json"] for name in names)
        split = nooch.io.SplitPlan("50/25/25")
        coco = nooch.io.CocoReading(things, stuff, captions)
        nooch.import_dataset(coco, folder / "coco-data", split=split)
        save_dataset(divide(load_dataset(folder / "coco-data"), 6), folder / "parts-data")
        pictures = street_images(folder)
        save_dataset(pictures, folder / "pictures")
        cues = {"car": ["street"], "water_bird": ["street"]}
        suite = nooch.find(folder / "pictures", {"ce": nooch.CE(cues=cues)}, tasks=[*cues])
        nooch.save_suite(suite, folder / "pictures-suite")
        save_clip(folder / "clip")
        tiny_resnet(folder / "resnet")
        return cls(folder, endpoint)

    def place(self, at: Path, name: str) -> list[str]:
        """Make a folder to run a command in; returns the command's words."""
        at.mkdir(parents=True)
        words = COMMANDS[name]
        for data in ("coco", "parts"):
            if f" {data} " in words:
                shutil.copytree(self.folder / f"{data}-data", at / data)
        return argv(words.replace("W/", f"{self.folder}/").replace("ENDPOINT", self.endpoint))
