"""The world of every command, with models, and the commands that are disturbed in it."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import every_command
from answering import save_clip
from commands import argv
from every_command import PLAIN
from image_folders import street_images, tiny_resnet
from reference_files import make
from small_world import contents

import nooch
from nooch.data import save_dataset

__all__ = ["COMMANDS", "World", "argv", "contents"]

_FILES = "W/coco-files/coco"
_COCO = " ".join(
    f"--{kind} {_FILES}/{name}.json"
    for kind, name in (("things", "instances"), ("stuff", "stuff"), ("captions", "captions"))
)
_BENCH = "--embedding made --config bench.yaml"
_PICTURES = "W/pictures-suite --dataset W/pictures"
COMMANDS = {one.words: one.typed(PLAIN) for one in every_command.COMMANDS if one.kind} | {
    "import, parts": f"import coco {_COCO} --split 50/25/25 --part-size 40 --engine local:2 out",
    "embed": "tools embed ds --encoder lexical",
    "embed, parts": "tools embed parts --encoder lexical --engine local:2",
    "find, parts": "find parts --criterion ce --alpha 0.001 --engine local:2 --out out",
    "bench, engine": f"train bench ds suite {_BENCH} --engine local:2 --out out",
    "features": "train features W/pictures --backbone W/resnet --out out",
    "predict": f"predict {_PICTURES} --model W/clip --out out.csv",
    "ask": f"ask {_PICTURES} --endpoint ENDPOINT/v1 --model m --out out.parquet",
}
"""Name -> command; W is the world's folder, in which all inputs are but those that embed alters."""


@dataclass(frozen=True)
class World:
    """A folder with inputs, and the address of a server that answers questions."""

    folder: Path
    endpoint: str

    @classmethod
    def make(cls, folder: Path, endpoint: str) -> World:
        """Write the inputs of all commands."""
        make(folder / "coco-files")
        every_command.World.make(folder)
        save_dataset(street_images(folder), folder / "pictures")
        cues = {"car": ["street"], "water_bird": ["street"]}
        suite = nooch.find(folder / "pictures", {"ce": nooch.CE(cues=cues)}, tasks=[*cues])
        nooch.save_suite(suite, folder / "pictures-suite")
        save_clip(folder / "clip")
        tiny_resnet(folder / "resnet")
        return cls(folder, endpoint)

    def place(self, folder: Path, name: str) -> list[str]:
        """Make a folder to run a command in; returns the command's words."""
        folder.mkdir(parents=True)
        words = shlex.split(COMMANDS[name])
        if words[:2] == ["tools", "embed"]:
            shutil.copytree(self.folder / words[2], folder / words[2])
        # a group's second word is also a command
        start = 2 if words[0] in every_command.GROUPS else 1
        words[start:] = [self._found(word, folder) for word in words[start:]]
        typed: list[str] = argv(shlex.join(words))
        return typed

    def _found(self, word: str, folder: Path) -> str:
        """A word that names an input as the path of it."""
        replaced = word.replace("W/", f"{self.folder}/").replace("ENDPOINT", self.endpoint)
        is_input = (self.folder / replaced).exists() and not (folder / replaced).exists()
        return str(self.folder / replaced) if is_input else replaced
