"""The lines of README.md and docs/start.md, run one after the other on generated scenes."""

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from answering import save_classifier
from in_memory import read_coco
from tiny_vlm import save_llava

import nooch

ROOT = Path(__file__).parents[2]
TASKS = ["car", "boat", "cow"]
MAPPED = f"--skip-unmapped --tasks {','.join(TASKS[:2])}"
ASKED = "ask nooch-coco --limit 4 --device cpu --overwrite --model llava"
# what a test does not download, less work, and places that another line wrote to
STANDS_FOR = {
    "nvidia/segformer-b0-finetuned-ade-512-512": "own_annotators:Boats",
    "--segmenter MODEL": "--segmenter own_annotators:Boats",
    "--model model.onnx --map synonyms": f"--model classifier {MAPPED}",
    "--model model.onnx": f"--model classifier {MAPPED}",
    "intervene suite --model MODEL": "intervene suite --model classifier",
    "ask nooch-coco --model MODEL": ASKED,
    "ask nooch-coco --model llava-hf/llava-1.5-7b-hf": ASKED,
    "evaluate nooch-coco predictions.csv": "evaluate nooch-coco coco.parquet --split test",
    "--pool more": "--pool pool",
    "audit dataset": "audit scanned",
    "--engine slurm:cpu": "--engine local:1 --tasks car --overwrite",
    "train bench dataset suite": "train bench dataset suite --set 'methods=[erm]' --set epochs=1",
}
# what a line reads that the page does not make
NEEDS = {
    "find big": "import coco --things instances.json --images photos --split 70/10/20 big",
    "leaderboard": "ask suite --model llava --device cpu --out models/mine/answers.parquet",
    "collect-next": "import coco --things more/things.json --stuff more/stuff.json pool",
    "audit dataset": "tools add-attributes dataset scanners.csv scanned",
    "repair suite": "train features dataset --backbone config:classifier --out features",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Scenes as a table, COCO files, boxes and photos; predictions and answers about them."""
    pytest.importorskip("transformers", reason="transformers is not installed (nooch[train])")
    from commands import completed

    path = tmp_path_factory.mktemp("start")
    completed(f"tools scenes {path / 'scenes'} --images 2000 --size 32")
    shutil.move(path / "scenes" / "annotations", path / "annotations")
    (path / "annotations" / "captions_scenes.json").unlink()
    shutil.move(path / "scenes" / "images", path / "photos")
    things = path / "annotations" / "instances_scenes.json"
    data = read_coco([things], [path / "annotations" / "stuff_scenes.json"])
    wide = {name: data.labels(name).astype(int) for name in (*TASKS, "road", "sea", "grass")}
    pl.DataFrame({"filename": data.images["file_name"], **wide}).write_csv(path / "labels.csv")
    random = np.random.default_rng(0)
    scanners = pl.Series("scanner", random.choice(["GE", "Siemens"], len(data)))
    pl.DataFrame([data.images["file_name"], scanners]).write_csv(path / "scanners.csv")
    labels = np.concatenate([data.labels(task) for task in TASKS])
    answers = pl.DataFrame(
        {
            "image_id": pl.concat([data.images["file_name"]] * len(TASKS)),
            "task": np.repeat(TASKS, len(data)),
            "probability": np.where(labels ^ (random.random(len(labels)) < 0.2), 0.9, 0.1),
        }
    )
    for name in ("predictions", "old", "new"):
        answers.write_csv(path / f"{name}.csv")
    said = pl.when(pl.col("probability") > 0.5).then(pl.lit("Yes.")).otherwise(pl.lit("No."))
    answers.select("image_id", "task", answer=said).write_ndjson(path / "answers.jsonl")
    content = json.loads(things.read_text())
    _boxes(path, content)
    _for_readme(path, content, things.with_name("stuff_scenes.json"))
    save_classifier(path / "classifier", (*TASKS, "street"))
    save_llava(path / "llava", sure=True)
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


def _for_readme(path, content, stuff):
    """COCO files and a detector's; the images, answers and captions of the paper's sets."""
    (path / "instances.json").write_text(json.dumps(content))
    shutil.copy(stuff, path / "stuff.json")
    parts = ("image_id", "category_id", "bbox")
    boxes = [{name: box[name] for name in parts} | {"score": 0.9} for box in content["annotations"]]
    (path / "detections.json").write_text(json.dumps(boxes))
    (path / "more").mkdir()
    for name, part in (("things", content), ("stuff", json.loads(stuff.read_text()))):
        images, boxes = part["images"], part["annotations"]
        moved = [{**image, "id": -image["id"], "file_name": f"{-image['id']}"} for image in images]
        boxes = [{**box, "image_id": -box["image_id"]} for box in boxes]
        text = json.dumps({**part, "images": moved, "annotations": boxes})
        (path / "more" / f"{name}.json").write_text(text)
    (path / "models" / "mine").mkdir(parents=True)
    (path / "models" / "mine" / "model.yaml").write_text("name: mine\nkind: answers\n")
    suite = nooch.load_suite("nooch-coco")
    ids = suite.image_ids(key for key in suite.keys if key[2] == "test")
    (path / "coco").mkdir()
    photo = path / "photos" / content["images"][0]["file_name"]
    for image in ids:
        os.link(photo, path / "coco" / f"{image:012}.jpg")
    answers = {"image_id": ids, "probability": np.random.default_rng(0).random(len(ids))}
    pl.concat([pl.DataFrame({**answers, "task": task}) for task in suite.tasks]).write_parquet(
        path / "coco.parquet"
    )
    nooch.export("nooch-pope", "pope", path / "pope")
    asked = pl.read_ndjson(path / "pope" / "questions.json")
    for name in ("base", "tuned"):
        asked.select(
            "question_id", "image", question="text", text=pl.lit("Yes, there is.")
        ).write_ndjson(path / f"{name}.jsonl")
    captions = [{"image_id": image, "caption": "A car on a road."} for image in ids[:300].to_list()]
    (path / "captions.json").write_text(json.dumps(captions))


def _lines(page):
    """The commands of a page: of its blocks, then of its table of jobs."""
    blocks = re.findall(r"^```(?:bash)?\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", "").splitlines()]
    jobs = page.partition("| job | command | details |")[2]
    return [line for line in lines + re.findall("`([^`]*)`", jobs) if line.startswith("nooch ")]


@pytest.mark.parametrize("page", ["README.md", "docs/start.md"])
def test_every_line_works(page, folder, run_cli, monkeypatch, tmp_path):
    for path in folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    lines = _lines((ROOT / page).read_text("utf-8"))
    assert len(lines) >= 10
    for line in lines:
        typed = line.removeprefix("nooch ")
        for words, instead in STANDS_FOR.items():
            typed = typed.replace(words, instead)
        if "--image 285" in typed:
            image = nooch.load_suite("suite").set("ce", "car", "test").image_ids[0]
            typed = typed.replace("--image 285", f"--image {image}")
        for before in (text for words, text in NEEDS.items() if words in line):
            run_cli(before).ok()
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
