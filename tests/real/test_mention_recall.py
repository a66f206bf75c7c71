"""Each class's words are tested on images that have it: people's captions of COCO's images."""

import csv
import json
from collections import Counter, defaultdict

import numpy as np
import pytest

from nooch.evaluation.vocabulary import COCO, load_vocabulary

# things that captions seldom name
SELDOM = {"backpack", "handbag", "potted_plant"}


@pytest.fixture(scope="module")
def recall(shared_data):
    """Class -> share of the images with it of which a caption mentions it."""
    folder = shared_data / "captions"
    texts = defaultdict(list)
    for row in json.loads((folder / "captions_val2017.json").read_bytes())["annotations"]:
        texts[row["image_id"]].append(row["caption"])
    with (folder / "coco_30k.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            texts[int(row["image_id"])].append(row["prompt"])
    labels = np.load(shared_data / "coco-stats" / "derived_coco_thing_labels_123287x80.npz")
    names = [str(name).replace(" ", "_") for name in labels["category_names"]]
    words, there, found = load_vocabulary(COCO), Counter(), Counter()
    for image, row in zip(labels["image_ids"].tolist(), labels["labels"], strict=True):
        if image in texts:
            own = {names[column] for column in np.flatnonzero(row)}
            there.update(own)
            found.update(own & {*sum((words.mentions(text) for text in texts[image]), Counter())})
    return {name: found[name] / there[name] for name in names}


def test_the_words_of_no_class_are_idle(recall):
    assert len(recall) == 80
    low = {name for name, share in recall.items() if share < 0.05}
    assert low <= SELDOM
    assert min(recall.values()) > 0.01
    assert np.mean([*recall.values()]) > 0.45


@pytest.mark.parametrize(
    ("name", "least"),
    [("orange", 0.3), ("baseball_bat", 0.5), ("person", 0.75), ("cat", 0.9), ("zebra", 0.9)],
)
def test_recall_of_single_classes(recall, name, least):
    assert recall[name] > least
