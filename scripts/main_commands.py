"""Run the main commands of nooch on small files: python main_commands.py SET WHAT [PROGRAM...]

The first two arguments are the same as of unlocked.sh; the others run nooch, where it is not
installed in this environment. Exit code 75 where the newest packages fail in code
of another package; where the lowest fail, a lower bound of pyproject.toml is wrong.
"""

from __future__ import annotations

import csv
import json
import random
import re
import shlex
import subprocess
import sys
import tempfile
from importlib.metadata import requires, version
from pathlib import Path

COMMANDS = """
--help
tools scenes scenes --images 300 --size 64
import coco --things scenes/annotations/instances_scenes.json --images scenes/images
  --stuff scenes/annotations/stuff_scenes.json --split 70/10/20 dataset
find dataset --criterion ce --criterion context --out suite
show suite
evaluate suite predictions.csv --ignore-unknown --out scores.parquet
check dataset predictions.csv --out check
report suite --dataset dataset --predictions predictions.csv --out report
gallery suite --task car --dataset dataset --out gallery.jpg
info suite --check
"""


def main() -> int:
    """0, or the exit code of the first command that fails."""
    lowest = sys.argv[1] == "lowest"
    nooch = sys.argv[3:] or [str(Path(sys.executable).with_name("nooch"))]
    # an extra may need more
    if sys.argv[1:3] == ["lowest", "core"] and (other := above_their_bounds()):
        print(f"lower bounds without a wheel for this Python: {', '.join(other)}")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS.strip().replace("\n  ", " ").splitlines():
            if command.startswith("evaluate"):
                write_predictions(Path(folder))
            program = [*nooch, *shlex.split(command)]
            done = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"nooch {command}\n{done.stderr}")
                return 1 if lowest or is_ours(done.stderr) else 75
    return 0


def above_their_bounds() -> list[str]:
    """Packages of which the version of the lower bound could not be installed."""
    bounds = [text.split(">=") for text in requires("nooch") or [] if "extra ==" not in text]
    return [
        f"{name}>={bound} ({version(name)})"
        for name, bound in bounds
        if not f"{version(name)}.".startswith(f"{bound}.")
    ]


def write_predictions(folder: Path) -> None:
    """Probabilities of all classes, higher where they are present."""
    text = (folder / "scenes/annotations/instances_scenes.json").read_text(encoding="utf-8")
    made, draw = json.loads(text), random.Random(0)
    present = {(one["image_id"], one["category_id"]) for one in made["annotations"]}
    with (folder / "predictions.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["image_id", "task", "probability"])
        for image in made["images"]:
            for one in made["categories"]:
                is_there = (image["id"], one["id"]) in present
                rows.writerow([image["id"], one["name"], draw.betavariate(3 + is_there, 4)])


def is_ours(message: str) -> bool:
    """False for an internal error that another package raised."""
    if report := re.search(r"\S*nooch-error-\S+\.txt", message):
        message = Path(report[0]).read_text(encoding="utf-8")
    places = re.findall(r'^\s*(?:File ")?(/.+\.py)\b', message, re.MULTILINE)
    return not places or "/nooch/" in places[-1]


if __name__ == "__main__":
    sys.exit(main())
