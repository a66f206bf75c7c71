"""Make the suite ``nooch-coco`` that comes with the package, and the notice of its licenses.

    python scripts/make_nooch_coco.py ../shared/data

reads ``nooch-published`` (the authors' 96 lists of image ids and their split) and ``coco-stats``
(which of COCO 2017's 80 thing classes are in which image) below that folder, and writes
``nooch-coco.suite`` and ``nooch-coco.NOTICE.txt``. The same input gives the same bytes, given the
same zlib.
"""

from __future__ import annotations

import argparse
import zlib
from pathlib import Path

import msgspec

from nooch.suites import Suite, pack_suite
from nooch.suites.published import published_suite, read_labels, read_published

OUT = Path(__file__).resolve().parents[1] / "src" / "nooch" / "suites" / "shipped"
LABELS = "derived_coco_thing_labels_123287x80.npz"
COCO = {
    "name": "CC BY 4.0 (the labels: annotations of COCO 2017, by the COCO Consortium)",
    "url": "https://cocodataset.org/#termsofuse",
}
NOTICE = """\
nooch-coco.suite holds two things that others made.

1. The challenge sets: the ids of hard images of 12 tasks, and the validation and test split, as \
David Madras and Richard Zemel
   published them with "Identifying and Benchmarking Natural Out-of-Context Prediction Problems" \
(NeurIPS 2021),
   https://github.com/dmadras/nooch. They are here in another encoding, under this licence:

{licence}
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


def unpacked(file: Path) -> bytes:
    """What a packed suite says, however it was compressed."""
    return zlib.decompress(file.read_bytes().partition(b"\n")[2][32:])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder with nooch-published and coco-stats")
    parser.add_argument("--out", type=Path, default=OUT, help="folder to write into")
    options = parser.parse_args()
    packed = pack_suite(official(options.data))
    licence = (options.data / "nooch-published" / "LICENSE").read_text(encoding="utf-8")
    indented = "".join(f"   {line}".rstrip() + "\n" for line in licence.splitlines())
    (options.out / "nooch-coco.suite").write_bytes(packed)
    (options.out / "nooch-coco.NOTICE.txt").write_text(
        NOTICE.format(licence=indented), encoding="utf-8"
    )
    print(f"{options.out / 'nooch-coco.suite'}: {len(packed):,} bytes")


if __name__ == "__main__":
    main()
