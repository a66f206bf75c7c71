"""Which of POPE's labels people flipped: answers, context, and both (RePOPE)."""

import json
import re

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_array

from nooch.analysis.audit import audit
from nooch.criteria import Attribute
from nooch.data import Dataset
from nooch.evaluation.metrics import auc
from nooch.suites.find import find

FILES = ("adversarial", "popular", "random")


def _lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def _pair(question):
    image = int(re.search(r"(\d+)\.jpg", question["image"])[1])
    noun = re.search(r"there an? (.+?) in the iman?ge", question["text"])[1]
    return image, noun.replace(" ", "_")


def _labels(folder, name):
    """(image, task) -> whether POPE, or RePOPE, says yes, of images with an even id."""
    rows = [row for kind in FILES for row in _lines(folder / name.format(kind))]
    return {_pair(row): row["label"] == "yes" for row in rows if not _pair(row)[0] % 2}


@pytest.fixture(scope="module")
def flips(shared_data):
    """``image_id, task, flipped`` of the questions that RePOPE has; the images are POPE's."""
    before = _labels(shared_data / "vlm" / "pope", "coco_pope_{}.json")
    after = _labels(shared_data / "vlm" / "repope", "coco_repope_{}_even_image_ids.json")
    rows = [(*pair, yes, before[pair] != yes) for pair, yes in after.items()]
    return pl.DataFrame(rows, ["image_id", "task", "yes", "flipped"], orient="row")


@pytest.fixture(scope="module")
def found(shared_data):
    """A suite of POPE's labels on its 500 images; a sixth of coco-stats is for training."""
    name = "coco-stats/derived_coco_thing_labels_123287x80.npz"
    with np.load(shared_data / name, allow_pickle=False) as stats:
        ids, labels = stats["image_ids"], stats["labels"]
        classes = [str(one).replace(" ", "_") for one in stats["category_names"]]
    pope = [shared_data / "vlm" / "pope" / f"coco_pope_{kind}.json" for kind in FILES]
    asked = {_pair(row)[0] for path in pope for row in _lines(path)}
    assert len(asked) == 500
    known = np.isin(ids, list(asked))
    some = known | (np.arange(len(ids)) % 6 == 0)
    ids, labels, known = ids[some], labels[some], known[some]
    split = np.where(known, "test", "train")
    names = [f"COCO_val2014_{number:012d}.jpg" for number in ids]
    columns = {"image_id": ids, "file_name": names, "split": split, "asked": split == "test"}
    images = pl.DataFrame(columns)
    data = Dataset.build(images, classes, csr_array(labels * 0.5))
    suite = find(data, {"asked": Attribute("asked")}, overlay=pope)
    assert "5,127 verdicts" in suite.header.overlay.notes[0]
    return suite, data


def test_flips_of_repope(shared_data, found, flips):
    """AUC and precision at 50: .918 and .46 together; answers .862, .32; context .847, .38."""
    suite, data = found
    vlm = shared_data / "vlm"
    assert flips["flipped"].sum() == 96
    assert (flips["flipped"] & flips["yes"]).sum() == 27
    answers, questions = (
        vlm / "answers" / "llava-1.5-7b.jsonl",
        vlm / "pope" / "llava_pope_test.jsonl",
    )
    done = audit(suite, answers, data=data, reading={"questions": questions})
    rows = flips.join(done.table, on=["image_id", "task"], how="left", maintain_order="left")
    assert rows["context"].null_count() == 0
    figures = {}
    for name in ("score", *done.table.columns[4:]):
        ranked = rows.sort(pl.col(name).fill_null(0), descending=True, maintain_order=True)
        flipped = ranked["flipped"].to_numpy()
        figures[name] = auc(flipped, ranked[name].fill_null(0).to_numpy()), flipped[:50].mean()
    assert figures["score"][0] > 0.91
    assert figures["score"][1] >= 0.44
    for name in done.table.columns[4:]:
        assert figures[name][0] < figures["score"][0] - 0.04, name
        assert figures[name][1] < figures["score"][1], name


def test_one_command_from_questions_and_annotations(shared_data, flips, tmp_path, run_cli):
    """The same figures as above: .918 together, .847 by context only."""
    vlm, coco = shared_data / "vlm", tmp_path / "instances.json"
    name = "coco-stats/derived_coco_thing_labels_123287x80.npz"
    with np.load(shared_data / name, allow_pickle=False) as stats:
        ids, labels = stats["image_ids"], stats["labels"]
        numbers = [int(number) for number in stats["category_ids"]]
        classes = [str(one) for one in stats["category_names"]]
    asked = {_pair(row)[0] for row in _lines(vlm / "pope" / "llava_pope_test.jsonl")}
    some = np.isin(ids, list(asked)) | (np.arange(len(ids)) % 6 == 0)
    ids, labels = [int(number) for number in ids[some]], labels[some]
    size = {"width": 640, "height": 480}
    images = [{"id": i, "file_name": f"{i:012d}.jpg", **size} for i in ids]
    categories = [{"id": i, "name": name} for i, name in zip(numbers, classes, strict=True)]
    boxes = [
        {"id": n, "image_id": ids[image], "category_id": numbers[column], "area": 900.0}
        for n, (image, column) in enumerate(np.argwhere(labels))
    ]
    document = {"images": images, "categories": categories, "annotations": boxes}
    coco.write_text(json.dumps(document))
    files = f"{vlm}/pope/llava_pope_test.jsonl {vlm}/answers/llava-1.5-7b.jsonl"
    out = tmp_path / "audit"
    pope = " ".join(f"--overlay {vlm}/pope/coco_pope_{kind}.json" for kind in FILES)
    run_cli(f"audit --questions {files} --labels {coco} {pope} --out {out} --most 5").ok()
    rows = flips.join(pl.read_parquet(out / "audit.parquet"), on=["image_id", "task"])
    assert rows.height == flips.height
    flipped = rows["flipped"].to_numpy()
    figures = {name: auc(flipped, rows[name].to_numpy()) for name in ("score", "context")}
    assert figures["score"] == pytest.approx(0.918, abs=0.003)
    assert figures["context"] == pytest.approx(0.847, abs=0.003)
