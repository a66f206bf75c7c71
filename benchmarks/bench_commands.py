"""Commands on a dataset of COCO's size: seconds, CPU and memory of the whole process of each.

123,287 made-up images, all 171 classes as tasks, five captions an image, predictions of one run for
valid and test, and 64 features of each image. What needs a model or images is left out.

    python benchmarks/bench_commands.py [--images 123287] [--folder FOLDER] [--only NAMES]
    [--json FILE]

With ``--folder`` files are kept there and used again; ``--only check,slices`` measures only these.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from measuring import Memory, cpu_seconds, machine, measured, nooch_command, parser, write_json

import nooch

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
from generate_annotations import generate

KINDS = {"things": "instances", "stuff": "stuff", "captions": "captions"}
FILES = " ".join(f"--{kind} annotations/{name}.json" for kind, name in KINDS.items())
FIRST = {
    "import coco": f"import coco {FILES} --split 70/10/20 data",
    "embed --encoder lexical": "tools embed data --encoder lexical",
    "find": "find data --criterion ce --split train,valid,test --out suite",
}
"""Commands whose results the others need."""
COMMANDS = {
    "import table": "import table areas.csv --id id --class class --area area out/table",
    "info": "info data",
    "info --check": "info data --check",
    "show --all": "show suite --all",
    "explain": "explain suite --task person --image 285",
    "sweep": "sweep data --alpha 0:0.2:20 --beta 0.01:0.5:20 --out out/sweep",
    "evaluate --bootstrap 0": "evaluate suite said.parquet --bootstrap 0",
    "evaluate --bootstrap 1000": "evaluate suite said.parquet --bootstrap 1000",
    "check": "check data said.parquet --out out/check",
    "slices": "slices suite said.parquet",
    "audit": "audit suite --predictions said.parquet --out out/audit",
    "captions": "captions suite said.json",
    "weights": "train weights data --task car --out out/weights.parquet",
    "bench --dry-run": "train bench data suite --embedding lexical-256 --out out/runs --dry-run",
    "repair": "repair suite --features features.npz --predictions said.parquet --out out/repaired",
    "report": "report suite --predictions said.parquet --out out/site",
    "export --to csv": "export suite out/csv --to csv",
    "export --to hf": "export suite out/hf --to hf",
    "export --to pope": "export suite out/pope --to pope",
}


def prepare() -> None:
    """Predictions, answers, features and tables for commands, next to ``data`` and ``suite``."""
    data, random = nooch.load_dataset("data"), np.random.default_rng(0)
    ids, scored = data.images["image_id"], (data.images["split"] != "train").to_numpy()
    labels = np.stack([data.labels(task) for task in data.classes], axis=1).astype(np.float32)
    said = 2 * labels[scored] - 2 + random.normal(size=(scored.sum(), labels.shape[1]))
    wide = pl.DataFrame(
        {"image_id": ids.filter(scored), **dict(zip(data.classes, said.T, strict=True))}
    )
    wide.unpivot(index="image_id", variable_name="task", value_name="logit").write_parquet(
        "said.parquet"
    )
    mixed = labels @ random.normal(size=(labels.shape[1], 64)) + random.normal(size=(len(data), 64))
    features = mixed.astype(np.float32)
    np.savez("features.npz", image_ids=ids.to_numpy(), embeddings=features)
    assert data.captions is not None
    first = data.captions.group_by("image_id", maintain_order=True).first()
    Path("said.json").write_text(json.dumps(first.to_dicts()))
    areas = data.areas.tocoo()
    names = pl.Series(data.classes).gather(areas.col)
    table = {"id": ids.gather(areas.row), "class": names, "area": areas.data}
    pl.DataFrame(table).write_csv("areas.csv")


def main() -> None:
    """Run and print."""
    given = parser(__doc__, images=123_287, folder="", only="").parse_args()
    figures: dict[str, tuple[float, float, Memory]] = {}

    def measure(name: str, words: str) -> None:
        before = cpu_seconds()
        seconds, memory = measured(nooch_command(words))
        figures[name] = seconds, cpu_seconds() - before, memory
        print(
            f"{name:26} {seconds:6.1f} s, {figures[name][1]:6.1f} s of CPU,"
            f" peak {memory.total_mb:6,.0f} MB",
            flush=True,
        )

    with tempfile.TemporaryDirectory() as temporary, contextlib.chdir(given.folder or temporary):
        if not Path("areas.csv").exists():
            generate(Path("annotations"), given.images, 0)
            for name, words in FIRST.items():
                measure(name, words)
            prepare()
        only = given.only.split(",") if given.only else list(COMMANDS)
        for name in only:
            shutil.rmtree("out", ignore_errors=True)
            Path("out").mkdir()
            measure(name, COMMANDS[name])
    write_json(given.json, {"machine": machine(), "images": given.images, "commands": figures})


if __name__ == "__main__":
    main()
