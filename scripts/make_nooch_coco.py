"""Make the suite ``nooch-coco`` that comes with the package, and the notice of its licenses.

    python scripts/make_nooch_coco.py ../shared/data

reads ``nooch-published`` (the authors' 96 lists of image ids and their split) and ``coco-stats``
(which of COCO 2017's 80 thing classes are in which image) below that folder, and writes
``nooch-coco.parquet`` and ``nooch-coco.NOTICE.txt``, and prints the hash of the table, which
``nooch.suites.SHIPPED`` has. The same input gives the same bytes, given the same pyarrow.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from nooch.base.files import sha256_of
from nooch.paper.published_sets import published_suite, read_labels, read_published
from nooch.suites import SUBSETS, Suite

OUT = Path(__file__).resolve().parents[1] / "src" / "nooch" / "suites" / "shipped"
LABELS = "derived_coco_thing_labels_123287x80.npz"
COCO = {
    "name": "CC BY 4.0 (the labels: annotations of COCO 2017, by the COCO Consortium)",
    "url": "https://cocodataset.org/#termsofuse",
}
ENCODING = {
    "compression": "zstd",
    "compression_level": 22,
    "use_dictionary": ["split"],
    "column_encoding": {"image_id": "DELTA_BINARY_PACKED"},
    "write_statistics": False,
    "store_schema": False,
}
NOTICE = """\
nooch-coco.parquet holds two things that others made.

1. The challenge sets: the ids of hard images of 12 tasks, and the validation and test split, as \
David Madras and Richard Zemel
   published them with "Identifying and Benchmarking Natural Out-of-Context Prediction Problems" \
(NeurIPS 2021),
   https://github.com/dmadras/nooch. They are here in another encoding, under this license:

{license}
2. The labels: which of the 12 classes are in which of the 36,985 images of the two splits. They \
are facts of the annotations
   of COCO 2017 (https://cocodataset.org), which belong to the COCO Consortium and are licensed \
under the Creative Commons
   Attribution 4.0 International License \
(https://creativecommons.org/licenses/by/4.0/legalcode). Changes: presence alone, no
   places or shapes; taken by way of the label lists of https://github.com/thuml/HashNet. No \
image is here; COCO's images
   are under Flickr's terms of use.
"""


def official(data: Path) -> Suite:
    """The authors' sets with COCO's labels, and the licenses of both."""
    suite = published_suite(
        read_published(data / "nooch-published"), read_labels(data / "coco-stats" / LABELS)
    )
    record = suite.header.dataset
    record = msgspec.structs.replace(record, licenses=[*record.licenses, COCO])
    return Suite(msgspec.structs.replace(suite.header, dataset=record), suite.set)


def table_of(suite: Suite) -> pa.Table:
    """A row per image: its id, split, and for each task whether it is there, and hard."""
    splits = []
    for split in suite.splits:
        columns: dict[str, pl.Series] = {}
        for criterion, task, of in suite.keys:
            if of == split:
                challenge = suite.set(criterion, task, split)
                columns |= {
                    "image_id": challenge.image_ids,
                    f"label/{task}": pl.Series(challenge.labels),
                    f"hard/{criterion}/{task}": pl.Series(
                        challenge.subset != SUBSETS.index("easy")
                    ),
                }
        splits.append(pl.DataFrame(columns).insert_column(1, pl.lit(split).alias("split")))
    return pl.concat(splits).to_arrow()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder with nooch-published and coco-stats")
    parser.add_argument("--out", type=Path, default=OUT, help="folder to write into")
    options = parser.parse_args()
    terms = (options.data / "nooch-published" / "LICENSE").read_text(encoding="utf-8")
    indented = "".join(f"   {line}".rstrip() + "\n" for line in terms.splitlines())
    file, suite = options.out / "nooch-coco.parquet", official(options.data)
    table = table_of(suite)
    with pq.ParquetWriter(file, table.schema, **ENCODING) as writer:
        writer.write_table(table)
        header = msgspec.structs.replace(suite.header, sets=[])
        writer.add_key_value_metadata({"nooch": msgspec.json.encode(header).decode()})
    (options.out / "nooch-coco.NOTICE.txt").write_text(
        NOTICE.format(license=indented), encoding="utf-8"
    )
    print(f"{file}: {file.stat().st_size:,} bytes, SHA-256 {sha256_of(file)}")


if __name__ == "__main__":
    main()
