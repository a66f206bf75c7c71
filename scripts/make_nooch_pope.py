"""Make the suites ``nooch-pope``, ``nooch-amber`` and ``nooch-opera``, and the notices of their
licenses.

    python scripts/make_nooch_pope.py ../shared/data

reads below that folder ``nooch-published`` (the authors' split) and ``coco-stats`` (which of COCO's
80 things are in which image), ``vlm/pope`` (POPE's questions) and LLaVA's copy of them, answers in
VLMEvalKit's order, ``answers/amber`` (AMBER's annotations), and what ``examples/mitigations.py``
reads.

``nooch-pope``: the context criterion is fitted on the training images that are not POPE's, and
gives each of POPE's 500 images its support for each thing. ``nooch-amber``: the words that at least
20 of AMBER's images truly have, and the criterion fitted on these words, in folds. Support is the
log odds less the usual ones, so that all tasks have the same thresholds. ``nooch-opera``: the
challenge sets of ``examples/mitigations.py``, of the images that OPERA's captions are of.

Prints the hashes, which ``nooch.suites.SHIPPED`` has. The same input gives the same bytes, given
the same pyarrow and the same fit to 2 digits.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from make_nooch_words import LABELS, write  # type: ignore[import-not-found]
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.criteria import Context
from nooch.data import Dataset
from nooch.data.table_files import file_records
from nooch.paper.published_sets import read_labels, read_published
from nooch.suites import load_suite
from nooch.suites.find import find
from nooch.suites.suite import CriterionRecord, DatasetRecord, SuiteHeader

OUT = Path(__file__).resolve().parents[1] / "src" / "nooch" / "suites" / "shipped"
sys.path.append(str(OUT.parents[3] / "examples"))
from mitigations import opera_files, val2014  # noqa: E402

CATEGORIES = "adversarial", "popular", "random"
LEAST, FOLDS = 20, 5
POPE = {
    "name": "MIT (the questions: POPE, by Yifan Li)",
    "url": "https://github.com/AoiDragon/POPE",
}
AMBER = {
    "name": "Apache-2.0 (AMBER, by Alibaba X-PLUG Team)",
    "url": "https://github.com/junyangwang0410/AMBER",
}
POPE_NOTICE = """\
nooch-pope.parquet holds two things that others made.

1. The questions of POPE, which of 80 things are in which of 500 images, and their labels, as Yifan
Li et al. published them with "Evaluating Object Hallucination in Large Vision-Language Models"
(EMNLP 2023), https://github.com/AoiDragon/POPE; in the orders of POPE's files, of its first release
of random questions, and of VLMEvalKit (https://github.com/open-compass/VLMEvalKit). They are here
in another encoding, under this license:

{license}
2. Facts of the annotations of COCO 2017 (https://cocodataset.org), which belong to the COCO
Consortium and are licensed under the Creative Commons Attribution 4.0 International License
(https://creativecommons.org/licenses/by/4.0/legalcode): which of the 80 things are in these images,
and numbers computed from which are in the images of train of the split of nooch-coco (see
nooch-coco.NOTICE.txt). Changes: presence only, no places or shapes; taken by way of the label lists
of https://github.com/thuml/HashNet. No image is here; COCO's images are under Flickr's terms of
use.
"""
AMBER_NOTICE = """\
nooch-amber.parquet holds annotations of AMBER (https://github.com/junyangwang0410/AMBER), copyright
2023 Alibaba X-PLUG Team, licensed under the Apache License, Version 2.0 (the "License"); you may
not use this file except in compliance with the License. You may obtain a copy of the License at
https://www.apache.org/licenses/LICENSE-2.0. Unless required by applicable law or agreed to in
writing, software distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.

Changes: of annotations.json only which of the words that at least 20 images truly have are in each
image, and which of them AMBER's annotators expect there though they are absent; of relation.json
which words are accepted for a true one; and numbers computed from these. No image is here.
"""
OPERA_NOTICE = """\
nooch-opera.parquet holds facts of the annotations of COCO 2017 (https://cocodataset.org), which
belong to the COCO Consortium and are licensed under the Creative Commons Attribution 4.0
International License (https://creativecommons.org/licenses/by/4.0/legalcode): which of the 80
things are in 499 images, those that OPERA (https://github.com/shikiw/OPERA) has captions of, and
which of them the other things there suggest. Changes: presence only, no places or shapes; taken by
way of the label lists of https://github.com/thuml/HashNet. No image or caption is here.
"""

Flags: TypeAlias = NDArray[np.bool_]
Question: TypeAlias = tuple[int, str]
NOUN = re.compile(r"Is there an? (.+?) in the iman?ge\?")


def supports(present: Flags, split: NDArray[np.str_], classes: list[str], folds: int) -> Any:
    """Log odds of each class in each image less the usual ones, float64 (n, n_classes)."""
    ids = np.arange(len(present))
    images = pl.DataFrame({"image_id": ids, "file_name": ids.astype(str), "split": split})
    data = Dataset.build(images, classes, csr_array(np.asarray(present, np.float64)))
    fitted = Context(folds=folds).fit(data.select("all" if folds else "train"), classes)
    usual = [fitted.usual(task) for task in classes]
    # what is hard must not depend on a machine's last digits
    return (np.asarray(fitted.supports(data, classes)) - usual).round(2).astype(np.float32)


def pairs_of(ids: NDArray[np.int64], classes: list[str], columns: dict[str, Any]) -> pl.DataFrame:
    """``image_id, task`` and columns of (n_images, n_classes), by task and image."""
    frame = {"image_id": np.tile(ids, len(classes)), "task": np.repeat(classes, len(ids))}
    return pl.DataFrame(frame | {name: values.T.ravel() for name, values in columns.items()})


def pope_lists(data: Path) -> tuple[dict[str, list[Question]], dict[Question, bool]]:
    """The lists in which POPE's questions are asked, and POPE's labels."""

    def question(record: dict[str, Any]) -> Question:
        (noun,) = NOUN.findall(record["text"])
        return int(record["image"][-16:-4]), noun.replace(" ", "_")

    files = {name: file_records(data / f"vlm/pope/coco_pope_{name}.json") for name in CATEGORIES}
    labels = {question(r): r["label"] == "yes" for some in files.values() for r in some}
    texts = {question(record): record["text"] for some in files.values() for record in some}
    lists = {name: [question(record) for record in some] for name, some in files.items()}
    copy = file_records(data / "vlm/pope/llava_pope_test.jsonl")
    lists["first_random"] = [question(r) for r in copy if r["category"] == "random"]
    # VLMEvalKit orders the questions of an image by their text; which image is next, its rows say
    of_image: dict[int, list[Question]] = {}
    for pair in sorted(labels, key=texts.__getitem__):
        of_image.setdefault(pair[0], []).append(pair)
    names = {name: set(lists[name]) for name in CATEGORIES}
    known = {
        tuple((p[1], labels[p], *(p in names[n] for n in CATEGORIES)) for p in pairs): image
        for image, pairs in of_image.items()
    }
    rows = file_records(data / "answers/vlmevalkit/vila_8b_POPE.xlsx")
    asked = []
    for row in rows:
        (noun,) = NOUN.findall(row["question"])
        of = (name in row["category"].split(",") for name in CATEGORIES)
        asked.append((noun.replace(" ", "_"), row["answer"] == "Yes", *of))
    last = lists["vlmevalkit"] = []
    while len(last) < len(asked):
        sizes = range(len(last) + 1, len(asked) + 1)
        last += of_image[
            next(known[k] for n in sizes if (k := tuple(asked[len(last) : n])) in known)
        ]
    return lists, labels


def make_pope(data: Path, out: Path) -> None:
    """Write ``nooch-pope.parquet`` and its notice."""
    coco, (lists, labels) = read_labels(data / "coco-stats" / LABELS), pope_lists(data)
    train = read_published(data / "nooch-published").splits["train"]
    ids = np.asarray(coco.image_ids)
    asked = np.isin(ids, [image for image, _ in labels])
    used = asked | np.isin(ids, train)
    split = np.where(asked, "test", "train")[used]
    support = supports(coco.present[used], split, list(coco.classes), 0)[asked[used]]
    columns = {"label": coco.present[asked], "support/context": support}
    pairs = pairs_of(ids[asked], list(coco.classes), columns)
    keys = list(pairs.select("image_id", "task").iter_rows())
    own = pl.Series([labels.get(key) for key in keys], dtype=pl.Boolean)
    pairs = pairs.with_columns(
        suspect=(own != pl.col("label")).fill_null(value=False), label=own.fill_null(pairs["label"])
    )
    for name, questions in lists.items():
        # the orders of images, and of each one's questions, are smaller than one of all
        images = list(dict.fromkeys(image for image, _ in questions))
        counts = Counter[int]()
        place = {}
        for pair in questions:
            place[pair] = counts[pair[0]]
            counts[pair[0]] += 1
        order = pl.Series([images.index(image) for image, _ in keys], dtype=pl.Int16)
        asked_as = pl.Series([place.get(key) for key in keys], dtype=pl.UInt8)
        pairs = pairs.with_columns(order.alias(f"order/{name}"), asked_as.alias(f"asked/{name}"))
    licenses = [POPE, *load_suite("nooch-coco").header.dataset.licenses[1:]]
    notes = {"questions": "POPE", "suspects": "labels of POPE that COCO's annotations do not have"}
    write_suite("nooch-pope", pairs, licenses, notes, out)
    terms = (data / "vlm" / "pope" / "LICENSE").read_text(encoding="utf-8")
    indented = "".join(f"   {line}".rstrip() + "\n" for line in terms.splitlines())
    text = POPE_NOTICE.format(license=indented)
    (out / "nooch-pope.NOTICE.txt").write_text(text, encoding="utf-8")


def make_amber(data: Path, out: Path) -> None:
    """Write ``nooch-amber.parquet`` and its notice."""
    folder = data / "answers" / "amber"
    records = json.loads((folder / "annotations.json").read_text(encoding="utf-8"))
    records = [record for record in records if record["type"] == "generative"]
    accepted = json.loads((folder / "relation.json").read_text(encoding="utf-8"))
    truth = [set(record["truth"]) for record in records]
    counts = Counter(word for words in truth for word in words)
    classes = sorted(word for word, n in counts.items() if n >= LEAST)

    def there(words: list[set[str]]) -> Flags:
        return np.array([[name in own for name in classes] for own in words])

    alike = [{other for word in own for other in accepted.get(word, ())} for own in truth]
    present, expected = there(truth), there([set(record["hallu"]) for record in records])
    ids = np.array([record["id"] for record in records])
    columns = {
        "label": present,
        "suspect": np.where(present, expected, there(alike)),
        "support/context": supports(present, np.full(len(ids), "all"), classes, FOLDS),
        "hard/expected": expected & ~present,
    }
    notes = {
        "words": "names",
        "suspects": "words that are both true and expected, or that AMBER accepts for a true one",
    }
    write_suite("nooch-amber", pairs_of(ids, classes, columns), [AMBER], notes, out)
    (out / "nooch-amber.NOTICE.txt").write_text(AMBER_NOTICE, encoding="utf-8")


def make_opera(data: Path, out: Path) -> None:
    """Write ``nooch-opera.parquet`` and its notice."""
    suite, shown = find(val2014(data), Context()), pl.read_ndjson(opera_files(data)[0])["image_id"]
    rows = []
    for criterion, task, split in suite.keys:
        cells = suite.set(criterion, task, split).cell_frame
        rows.append(cells.select("image_id", "cell", task=pl.lit(task)))
    pairs = pl.concat(rows).filter(pl.col("image_id").is_in(shown.implode()))
    label, hard = (pl.col("cell").str.contains(part) for part in ("positive", "hard"))
    columns = {"label": label, "hard/context": hard}
    pairs = pairs.select("image_id", "task", **columns)
    licenses = load_suite("nooch-coco").header.dataset.licenses[1:]
    write_suite("nooch-opera", pairs, licenses, {}, out)
    (out / "nooch-opera.NOTICE.txt").write_text(OPERA_NOTICE, encoding="utf-8")


def write_suite(
    name: str, pairs: pl.DataFrame, licenses: list[dict[str, Any]], notes: dict[str, str], out: Path
) -> None:
    """Write a table of pairs with the header of its suite."""
    pairs = pairs.sort("task", "image_id")
    digest = hashlib.sha256(pairs.write_csv().encode()).hexdigest()[:32]
    n = pairs["image_id"].n_unique()
    images = "amber" if "words" in notes else "published"
    record = DatasetRecord(f"{images}-{digest}", n, {"all": n}, licenses=licenses)
    criteria = {
        column.partition("/")[2]: CriterionRecord("context" if "context" in column else "attribute",
                                                  {"source": name, **notes})
        for column in pairs.columns if column.startswith(("support/", "hard/"))
    }  # fmt: skip
    tasks = pairs["task"].unique().sort().to_list()
    header = SuiteHeader(record, tasks, ["all"], criteria, [], [], image_names="digits")
    print(pairs.group_by("label").len())
    write(pairs, out / f"{name}.parquet", header)


def main() -> None:
    """Make the suites and their notices."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder with the folders named above")
    parser.add_argument("--out", type=Path, default=OUT, help="folder to write into")
    options = parser.parse_args()
    make_pope(options.data, options.out)
    make_amber(options.data, options.out)
    make_opera(options.data, options.out)


if __name__ == "__main__":
    main()
