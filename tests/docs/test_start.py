"""The lines of docs/start.md, run one after the other on generated scenes; README's words."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from answering import save_classifier

import nooch

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "start.md").read_text("utf-8")
TASKS = ["car", "boat", "cow"]
# models and data that a test does not download
STANDS_FOR = {
    "nvidia/segformer-b0-finetuned-ade-512-512": "own_annotators:Colors",
    "--model model.onnx": "--model classifier",
    "--map synonyms": f"--skip-unmapped --tasks {','.join(TASKS)}",
}
LEFT_OUT = (
    "nooch ask", "answers.parquet", "nooch captions", "predict annotated", "check annotated"
)  # fmt: skip
"""Not run: they need downloads, or the classes that a real segmenter predicts."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Scenes as a table, COCO files, boxes and photos; predictions and answers about them."""
    from commands import completed

    path = tmp_path_factory.mktemp("start")
    completed(f"tools scenes {path / 'scenes'} --images 2000 --size 32")
    shutil.move(path / "scenes" / "annotations", path / "annotations")
    (path / "annotations" / "captions_scenes.json").unlink()
    shutil.move(path / "scenes" / "images", path / "photos")
    things = path / "annotations" / "instances_scenes.json"
    data = nooch.io.read_coco([things], [path / "annotations" / "stuff_scenes.json"])
    wide = {name: data.labels(name).astype(int) for name in (*TASKS, "road", "sea", "grass")}
    pl.DataFrame({"filename": data.images["file_name"], **wide}).write_csv(path / "labels.csv")
    random = np.random.default_rng(0)
    labels = np.concatenate([data.labels(task) for task in TASKS])
    answers = pl.DataFrame(
        {
            "image_id": pl.concat([data.images["file_name"]] * len(TASKS)),
            "task": np.repeat(TASKS, len(data)),
            "probability": np.where(labels ^ (random.random(len(labels)) < 0.2), 0.9, 0.1),
        }
    )
    answers.write_csv(path / "predictions.csv")
    said = pl.when(pl.col("probability") > 0.5).then(pl.lit("Yes.")).otherwise(pl.lit("No."))
    answers.select("image_id", "task", answer=said).write_ndjson(path / "answers.jsonl")
    _boxes(path, json.loads(things.read_text()))
    return path


_KINDS = ("images", "labels")
_SPLITS = {"path": ".", "train": "images/train", "val": "images/val"}


def _boxes(path, content):
    names = {c["id"]: number for number, c in enumerate(content["categories"])}
    lines = {image["id"]: [] for image in content["images"]}
    for box in content["annotations"]:
        x, y, width, height = (value / 32 for value in box["bbox"])
        middle = f"{x + width / 2} {y + height / 2} {width} {height}"
        lines[box["image_id"]].append(f"{names[box['category_id']]} {middle}")
    for number, image in enumerate(content["images"]):
        part = "val" if number % 2 == 0 else "train"
        image_file, file = (path / "boxes" / kind / part / image["file_name"] for kind in _KINDS)
        image_file.parent.mkdir(parents=True, exist_ok=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path / "photos" / image["file_name"], image_file)
        file.with_suffix(".txt").write_text("\n".join(lines[image["id"]]))
    classes = [c["name"] for c in content["categories"]]
    listed = json.dumps({**_SPLITS, "names": classes})
    (path / "boxes" / "data.yaml").write_text(listed)


def test_every_line_works(folder, run_cli, monkeypatch):
    pytest.importorskip("transformers", reason="transformers is not installed (nooch[train])")
    monkeypatch.chdir(folder)
    save_classifier(folder / "classifier", (*TASKS, "street"))
    lines = [
        line
        for block in re.findall(r"^```bash\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(lines) >= 10
    for line in lines:
        if any(words in line for words in LEFT_OUT):
            continue
        typed = line.removeprefix("nooch ")
        for words, instead in STANDS_FOR.items():
            typed = typed.replace(words, instead)
        shutil.rmtree("check", ignore_errors=True)
        if " predict " in line:
            Path("predictions.parquet").unlink(missing_ok=True)
        run_cli(typed).ok()
        if " check " in line:
            assert Path("check/report/index.html").is_file()


def test_a_word_is_defined_where_it_is_first_used():
    """In the README after its first sentence; six of the glossary's 15 come before a finding."""
    glossary = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    words = re.findall(r"^\| \*\*([\w ]+)\*\* \|", glossary, re.MULTILINE)
    assert len(words) == 15
    readme = (ROOT / "README.md").read_text("utf-8").partition(".** ")[2]
    # code, pictures, addresses and titles
    code = r"^```.*?^```$|!\[[^\n]*|`[^`]*`|\]\([^)]*\)|^##.*?$"
    first, rest = (
        re.sub(code, "", part, flags=re.MULTILINE | re.DOTALL)
        for part in readme.split("## Install", 1)
    )
    assert [word for word in words if f"**{word}**" in first] == words[:6]
    for word in words[6:]:
        assert word not in first.lower()
        used = re.search(rf"\**\b{word}s?\b\**", rest, re.IGNORECASE)
        assert used is None or used[0].startswith("**"), word
