"""Make the suite ``nooch-words``, and the suspect labels of ``nooch-coco``, of the package.

    python scripts/make_nooch_words.py ../shared/data

reads ``nooch-published`` (the authors' split) and ``coco-stats`` (which of COCO 2017's 80 thing
classes are in which image) below that folder. The context criterion is fitted on the 86,302 images
of train, for each class on the presence of the other 79, and gives the 36,985 images of valid and
test their support. A label is suspect if the context contradicts it strongly: absent, where the
class is at least as likely as not; or present, where its probability is below 1 in 50.

Writes ``nooch-coco.suspects.parquet`` (``image_id, task`` of its 12 classes), and
``nooch-words.parquet``: of each class and label, without suspects, the images in tenths of support,
at most 6 a tenth, drawn with a fixed seed, each with the number of images that it stands for.
Prints the hashes, which ``nooch.suites.SHIPPED`` has. The same input gives the same bytes, given
the same pyarrow and the same fit to 3 digits.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from zlib import crc32

import msgspec
import numpy as np
import polars as pl
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.base.files import sha256_of
from nooch.criteria import Context
from nooch.data import Dataset
from nooch.paper.published_sets import Labels, read_labels, read_published
from nooch.suites import load_suite
from nooch.suites.questions import TEMPLATE
from nooch.suites.suite import CriterionRecord, DatasetRecord, SuiteHeader

OUT = Path(__file__).resolve().parents[1] / "src" / "nooch" / "suites" / "shipped"
LABELS = "derived_coco_thing_labels_123287x80.npz"
MOST, TENTHS, SEED = 6, 10, 0
PROMPTS = (
    TEMPLATE, "Can you see {a} {task} in this image?", "Does this image contain {a} {task}?",
)  # fmt: skip
SUSPECT_ABSENT, SUSPECT_PRESENT = 0.0, float(np.log(0.02 / 0.98))
"""Support (log odds) above which an absent class, and below which a present one, is suspect."""
NOTICE = """\
nooch-words.parquet, and nooch-coco.suspects.parquet, hold facts of the annotations of COCO 2017
(https://cocodataset.org), which belong to the COCO Consortium and are licensed under the Creative
Commons Attribution 4.0 International License (https://creativecommons.org/licenses/by/4.0/legalcode):
which of the 80 things are in which images. Changes: presence only, no places or shapes; a sample of
the images of valid and test of the split of David Madras and Richard Zemel (NeurIPS 2021,
https://github.com/dmadras/nooch, BSD-3-Clause: see nooch-coco.NOTICE.txt), with numbers computed
from the presences; taken by way of the label lists of https://github.com/thuml/HashNet. No image is
here; COCO's images are under Flickr's terms of use.
"""


def supports(labels: Labels, train: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Log odds of each class in each image, float64 (n, 80), fitted on the training images."""
    split = np.where(train, "train", "test")
    names = [f"{number:012d}.jpg" for number in labels.image_ids]
    images = pl.DataFrame({"image_id": labels.image_ids, "file_name": names, "split": split})
    data = Dataset.build(images, list(labels.classes), csr_array(labels.present * 0.5))
    fitted = Context().fit(data.select("train"), labels.classes)
    return np.asarray(fitted.supports(data, labels.classes))


def pairs_of(labels: Labels, support: NDArray[np.float64]) -> pl.DataFrame:
    """``image_id, task, label, support, suspect``, by task and image."""
    frames = [
        pl.DataFrame(
            {
                "image_id": labels.image_ids,
                "label": labels.present[:, column],
                # ranks must not depend on a machine's last digits
                "support": support[:, column].round(3),
            }
        ).with_columns(task=pl.lit(task))
        for column, task in enumerate(labels.classes)
    ]
    absent = ~pl.col("label") & (pl.col("support") > SUSPECT_ABSENT)
    present = pl.col("label") & (pl.col("support") < SUSPECT_PRESENT)
    return pl.concat(frames).with_columns(suspect=absent | present)


def drawn(pairs: pl.DataFrame) -> pl.DataFrame:
    """``image_id, task, label, tenth, weight, support``: at most ``MOST`` of each tenth."""
    parts = []
    for (task, label), frame in pairs.sort("task", "label", "support", "image_id").group_by(
        "task", "label", maintain_order=True
    ):
        tenth = np.arange(frame.height) * TENTHS // frame.height
        random = np.random.default_rng([SEED, crc32(f"{task}/{label}".encode())])
        ranked = frame.with_columns(
            tenth=pl.Series(tenth, dtype=pl.UInt8),
            order=pl.Series(random.permutation(frame.height)),
        )
        size, order = pl.len().over("tenth"), pl.col("order").rank("ordinal").over("tenth")
        part = ranked.with_columns(size=size).filter(order <= MOST)
        parts.append(part.with_columns(weight=pl.col("size") / pl.len().over("tenth")))
    columns = "image_id", "task", "label", "tenth", "weight", pl.col("support").cast(pl.Float32)
    return pl.concat(parts).select(*columns).sort("task", "image_id")


def header_of(words: pl.DataFrame, n_images: int) -> SuiteHeader:
    """The suite's header, without records of sets."""
    digest = hashlib.sha256(words.write_csv().encode()).hexdigest()[:32]
    licenses = load_suite("nooch-coco").header.dataset.licenses[1:]
    record = DatasetRecord(f"published-{digest}", n_images, {"all": n_images}, licenses=licenses)
    parameters = {"source": "nooch-words", "tenths": TENTHS, "most": MOST, "prompts": PROMPTS}
    criteria = {"context": CriterionRecord("context", parameters)}
    return SuiteHeader(record, words["task"].unique().sort().to_list(), ["all"], criteria, [], [])


def write(frame: pl.DataFrame, file: Path, header: SuiteHeader | None = None) -> None:
    """Write a small file with the same bytes every time."""
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    encoding = {"image_id": "DELTA_BINARY_PACKED"}
    names = [name for name in frame.columns if name not in encoding]
    with pq.ParquetWriter(
        file, table.schema, compression="zstd", compression_level=22, use_dictionary=names,
        column_encoding=encoding, write_statistics=False, store_schema=False,
    ) as writer:  # fmt: skip
        writer.write_table(table)
        if header is not None:
            writer.add_key_value_metadata({"nooch": msgspec.json.encode(header).decode()})
    print(f"{file}: {file.stat().st_size:,} bytes, SHA-256 {sha256_of(file)}")


def main() -> None:
    """Make both files and the notice."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder with nooch-published and coco-stats")
    parser.add_argument("--out", type=Path, default=OUT, help="folder to write into")
    options = parser.parse_args()
    labels = read_labels(options.data / "coco-stats" / LABELS)
    splits = read_published(options.data / "nooch-published").splits
    train = np.isin(labels.image_ids, splits["train"])
    support = supports(labels, train)[~train]
    asked = Labels(labels.image_ids[~train], labels.present[~train], labels.classes, labels.source)
    pairs = pairs_of(asked, support)
    suspects = pairs.filter("suspect", pl.col("task").is_in(load_suite("nooch-coco").tasks))
    write(
        suspects.select("image_id", "task").sort("task", "image_id"),
        options.out / "nooch-coco.suspects.parquet",
    )
    words = drawn(pairs.filter(~pl.col("suspect")))
    header = header_of(words, len(asked.image_ids))
    write(words, options.out / "nooch-words.parquet", header)
    (options.out / "nooch-words.NOTICE.txt").write_text(NOTICE, encoding="utf-8")
    kinds = pairs.group_by("label").agg(pl.len(), pl.col("suspect").sum()).sort("label")
    print(kinds, suspects.group_by("label").len(), words.group_by("label").len(), sep="\n")


if __name__ == "__main__":
    main()
