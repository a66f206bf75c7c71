"""CE for 171 tasks with its challenge sets, in memory, against dense loops and SQL in DuckDB.

The loops have areas as a dense array (n_images, n_classes), as one would with only NumPy. DuckDB
stores them as a table image, class, area, and finds cues and hard images by joins, with a thread
per CPU. Both give the same hard images, which is checked. nooch also gives label, support and
subset of every image, and so does a second query of DuckDB. Writing the suite is timed separately.

    python benchmarks/bench_criteria.py [--images 123287] [--runs 5] [--json FILE]
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from bench_import import HERE, annotation_files
from measuring import Spread, machine, parser, ratios, write_json
from numpy.typing import NDArray

import nooch
from nooch.data import Dataset

Hard = dict[tuple[str, str], set[int]]


def dense_loops(
    data: Dataset, dense: NDArray[np.float64], present: NDArray[np.bool_], alpha: float, beta: float
) -> Hard:
    """Cues and hard images by loops over tasks and classes."""
    split = data.images["split"].to_numpy()
    train, ids, hard = split == "train", data.image_ids, {}
    areas, presence = dense[train], present[train]
    for y, task in enumerate(data.classes):
        positive = presence[:, y]
        others = [c for c in range(areas.shape[1]) if c != y and positive.any()]
        strength = {c: (areas[positive, c] - areas[positive, y]).mean() for c in others}
        cues = [c for c, value in strength.items() if value > alpha]
        if not cues:
            continue
        for name in ("valid", "test"):
            rows = split == name
            all_below, some_above = np.ones(rows.sum(), bool), np.zeros(rows.sum(), bool)
            for c in cues:
                all_below &= dense[rows, c] < beta
                some_above |= dense[rows, c] > beta
            labels = present[rows, y]
            marked = (labels & all_below) | (~labels & some_above)
            hard[task, name] = set(ids[rows][marked].tolist())
    return hard


COMMON_SQL = """
with train as (select a.* from areas a join images i using (image) where i.split = 'train'),
own as (select class as task, count(*) as n, sum(area) as total from train group by class),
pairs as (
    select t.class as task, c.class as cue, sum(c.area) as total
    from train t join train c using (image) where c.class != t.class group by all
),
cues as (
    select p.task, p.cue from pairs p join own o using (task)
    where (p.total - o.total) / o.n > $alpha
),
searched as (select image from images where split in ('valid', 'test')),
-- the largest area among a task's cues in an image that has any of them
usual as (
    select c.task, a.image, max(a.area) as support
    from areas a join cues c on a.class = c.cue semi join searched using (image) group by all
),
positives as (
    select class as task, image from areas semi join searched using (image)
    where class in (select task from cues)
)
"""
HARD_SQL = f"""{COMMON_SQL}
select p.task, p.image from positives p left join usual u using (task, image)
where coalesce(u.support, 0) < $beta
union all
select u.task, u.image from usual u anti join positives p using (task, image)
where u.support > $beta
"""
WHOLE_SQL = f"""{COMMON_SQL}
select *, case when label and support < $beta then 0 when not label and support > $beta then 1
else 2 end as subset from (
    select t.task, s.image, p.image is not null as label, coalesce(u.support, 0) as support
    from (select distinct task from cues) t cross join searched s
    left join positives p using (task, image) left join usual u using (task, image)
)
"""


class Database:
    """The annotations as tables of DuckDB, in memory."""

    def __init__(self, data: Dataset) -> None:
        import duckdb

        self.data, self.base = data, duckdb.connect()
        coordinates = data.areas.tocoo()
        classes = coordinates.col.astype(np.int16)
        areas = {"image": coordinates.row, "class": classes, "area": coordinates.data}
        numbers, splits = np.arange(len(data), dtype=np.int32), data.images["split"].to_numpy()
        images = {"image": numbers, "split": splits}
        for name, columns in {"areas": areas, "images": images}.items():
            self.base.register("columns", columns)
            self.base.execute(f"create table {name} as select * from columns")

    def ask(self, query: str, alpha: float, beta: float) -> dict[str, NDArray[np.int64]]:
        """Columns of the answer; tasks and images as numbers."""
        answer = self.base.execute(query, {"alpha": alpha, "beta": beta})
        columns: dict[str, NDArray[np.int64]] = answer.fetchnumpy()
        return columns

    def named(self, columns: dict[str, NDArray[np.int64]]) -> Hard:
        """The same by name; not timed."""
        ids, split, hard = self.data.image_ids, self.data.images["split"].to_numpy(), {}
        for task in np.unique(columns["task"]):
            rows = columns["image"][columns["task"] == task]
            for name in ("valid", "test"):
                hard[self.data.classes[task], name] = set(ids[rows[split[rows] == name]].tolist())
        return hard


def dataset(images: int) -> Dataset:
    """The generated annotations as a dataset, split 70/10/20."""
    source = annotation_files(images)
    files = [source / "instances.json"], [source / "stuff.json"]
    data = nooch.io.read(nooch.io.CocoReading(*files))
    return nooch.io.with_split(data, nooch.io.SplitPlan("70/10/20"))


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result."""
    started = time.perf_counter()
    result = function()
    return time.perf_counter() - started, result


def main() -> None:
    """Run and print."""
    arguments = parser(__doc__, images=123_287, runs=5).parse_args()
    data = dataset(arguments.images)
    dense = data.areas.toarray()
    present = np.zeros(dense.shape, dtype=bool)
    present[data.areas.nonzero()] = True
    database = Database(data)
    names = ("nooch", "dense loops", "DuckDB, only hard images", "DuckDB")
    seconds: dict[str, list[float]] = {name: [] for name in names}
    nooch.find(data, {"ce": nooch.CE(0.05, 0.1)})  # warm-up
    for _ in range(arguments.runs):
        taken, suite = timed(lambda: nooch.find(data, {"ce": nooch.CE(0.05, 0.1)}))
        seconds["nooch"].append(taken)
        taken, hard = timed(lambda: dense_loops(data, dense, present, 0.05, 0.1))
        seconds["dense loops"].append(taken)
        taken, rows = timed(lambda: database.ask(HARD_SQL, 0.05, 0.1))
        seconds["DuckDB, only hard images"].append(taken)
        taken, whole = timed(lambda: database.ask(WHOLE_SQL, 0.05, 0.1))
        seconds["DuckDB"].append(taken)
    same = {key[1:]: set(suite.set(*key).ids("hard")) for key in suite.keys}
    all_hard = {name: values[whole["subset"] < 2] for name, values in whole.items()}
    peers = {"dense loops": hard, "DuckDB": database.named(rows), "SQL": database.named(all_hard)}
    for peer, theirs in peers.items():
        # a task whose images are all easy has no row in SQL
        if same != {key: set() for key in same} | theirs:
            sys.exit(f"error: nooch and {peer} disagree")
    out = HERE / "data" / "suite"
    shutil.rmtree(out, ignore_errors=True)
    written, _ = timed(lambda: nooch.save_suite(suite, out))
    size = sum(f.stat().st_size for f in out.iterdir()) / 1e6
    for name, values in seconds.items():
        print(f"{name}: {Spread.from_values(values)} s")
    faster = {peer: ratios(seconds[peer], seconds["nooch"]) for peer in names[1:]}
    for peer, ratio in faster.items():
        same_sets = f"the same hard images of {len(same)} sets"
        print(f"nooch against {peer}, {same_sets}: {ratio} times as fast")
    print(f"writing the suite: {written:.2f} s, {size:.1f} MB")
    figures = {"machine": machine(), "seconds": seconds, "ratios": faster}
    write_json(arguments.json, {**figures, "writing_seconds": written, "suite_mb": size})


if __name__ == "__main__":
    main()
