"""bfloat16 against float32: seconds to embed captions, and the hard images that differ.

    python benchmarks/bench_precision.py

MiniLM on the captions of COCO's val2017, with the labels and the split of the published sets, all
from ``shared/data`` next to the repository. Prototypes come from the training images among the
5,000; for each of the paper's 12 tasks, split and side as many images are hard as CE has there.
Seconds are CPU time of this process, in turns on the same captions, so that other work on the
machine changes them little.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import polars as pl
from measuring import Spread, parser, ratios
from scipy.sparse import csr_array

from nooch.base.split_plan import SplitPlan
from nooch.criteria import Gist
from nooch.data import Dataset, apply_split
from nooch.models.encoders import embed_captions, encoder
from nooch.models.encoders.sbert import PRECISIONS
from nooch.paper.published_sets import read_labels
from nooch.suites import HARD, load_suite, mark_by_matching
from nooch.suites.published_counts import NOOCH_TASKS

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"


def captioned() -> Dataset:
    """The 5,000 images with presence of the 12 classes."""
    file = DATA / "captions" / "captions_val2017.json"
    annotations = json.loads(file.read_bytes())["annotations"]
    columns = ("image_id", "caption")
    captions = pl.DataFrame({name: [a[name] for a in annotations] for name in columns})
    labels = read_labels(DATA / "coco-stats" / "derived_coco_thing_labels_123287x80.npz")
    rows = np.flatnonzero(np.isin(labels.image_ids, captions["image_id"].to_numpy()))
    classes = np.array([labels.classes.index(task) for task in NOOCH_TASKS])
    present = labels.present[np.ix_(rows, classes)]
    where = present.nonzero()
    areas = csr_array((np.full(len(where[0]), np.nan), where), shape=present.shape)
    plan = SplitPlan(str(DATA / "nooch-published" / "cocostuff_split_image_ids.npz"))
    images = apply_split(pl.DataFrame({"image_id": labels.image_ids[rows]}), plan)
    captions = captions.filter(pl.col("image_id").is_in(labels.image_ids[rows]))
    return Dataset.build(images, NOOCH_TASKS, areas, captions)


def hard_ids(data: Dataset, name: str) -> dict[tuple[str, str], set[int]]:
    """(task, split) -> hard images by gist, as many on each side as CE has among these images."""
    fitted, official = Gist(name).fit(data.select("train"), NOOCH_TASKS), load_suite("nooch-coco")
    ids = {}
    for split in ("valid", "test"):
        part = data.select(split)
        for task in NOOCH_TASKS:
            ce, labels = official.set("ce", task, split), part.labels(task)
            hard = np.isin(part.image_ids, ce.ids("hard"))
            counts = int((hard & labels).sum()), int((hard & ~labels).sum())
            codes = mark_by_matching(fitted.support(part, task), labels, *counts).codes
            ids[task, split] = set(part.image_ids[codes == HARD].tolist())
    return ids


def main() -> None:
    command = parser(__doc__, runs=3)
    runs = command.parse_args().runs
    if not DATA.is_dir():
        command.error(f"no real data at {DATA}")
    data, hard = captioned(), {}
    seconds: dict[str, list[float]] = {precision: [] for precision in PRECISIONS}
    for _ in range(runs):
        for precision in PRECISIONS:
            text_encoder = encoder("minilm", precision=precision, device="cpu")
            text_encoder.encode(["to load the model"])
            start = time.process_time()
            vectors = embed_captions(data, text_encoder)
            seconds[precision].append(time.process_time() - start)
            hard[precision] = hard_ids(data.with_embedding(precision, vectors), precision)
    exact, half = (hard[precision] for precision in ("float32", "bf16"))
    assert data.captions is not None
    print(f"{data.captions.height:,} captions of {len(data):,} images")
    for precision, taken in seconds.items():
        print(f"{precision}: {Spread.from_values(taken)} s of CPU time")
    ratio = ratios(seconds["float32"], seconds["bf16"])
    print(f"bf16 against float32: {ratio} times as fast")
    differing = sum(len(exact[key] - half[key]) for key in exact)
    sets = sum(exact[key] != half[key] for key in exact)
    total = sum(len(ids) for ids in exact.values())
    print(f"{differing} of {total:,} hard images differ, in {sets} of {len(exact)} sets")


if __name__ == "__main__":
    main()
