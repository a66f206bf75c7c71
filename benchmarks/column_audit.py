"""Words of ``nooch.audit_columns``, where the truth is known.

    python benchmarks/column_audit.py [DRAWS] [SEED] [METADATA of Waterbirds]

Of 16 normal features the first is 1 larger with the label. With ``shown`` the second one rises by 3
from the first to the last value of the column, and a model's predictions use both. Columns depend
on the label, or are the same with their groups shuffled.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array

import nooch
from nooch.analysis.column_audit import WORDS

Array = NDArray[Any]
_MEANS = ("label", "features", "drop", "model")


def audited(labels: Array, values: Array, groups: Array, seed: int, *, shown: bool) -> Any:
    """The row of a column."""
    x = np.random.default_rng(seed).normal(size=(n := len(labels), 16)).astype(np.float32)
    x[:, 0] += labels
    ranks = np.unique(values, return_inverse=True)[1]
    if shown:
        x[:, 1] += 3 * ranks / ranks.max()
    columns = {"image_id": np.arange(n), "split": ["all"] * n, "column": values, "unit": groups}
    data = nooch.Dataset.build(pl.DataFrame(columns), ["bird"], csr_array(labels[:, None] * 0.5))
    logits = (x[:, :1] - 0.5) + (x[:, 1:2] - 1.5)
    run = nooch.Predictions.from_arrays(logits, data.images["image_id"], ["bird"], scale="logit")
    group = "unit" if len(np.unique(groups)) < n else None
    audit = nooch.audit_columns(
        data, run, columns=["column"], features=x, group=group, seed=seed, bootstrap=300
    )
    return audit.table.row(0, named=True)


def drawn(kind: str, n: int, size: int, random: np.random.Generator) -> tuple[Array, Array, Array]:
    """Labels, values of the column and groups of ``size`` images each."""
    m = n // size
    label = random.random(m) < 0.4
    if kind == "JPEG quality":
        value = np.round(random.normal(70 + 10 * label, 8), 1)
    elif kind == "site, of 5":
        value = np.where((random.random(m) < 0.4) & label, 4, random.integers(0, 5, m))
    else:
        value = np.where(random.random(m) < 0.8, label, ~label).astype(np.int64)
    groups = np.repeat(np.arange(m), size)
    return label[groups], value[groups], groups


def show(name: str, times: int, seed: int, make: Callable[[np.random.Generator], Any]) -> None:
    """Print the row of a case."""
    rows = [make(np.random.default_rng([seed, number])) for number in range(times)]
    count = Counter(row["word"] for row in rows)
    cells = [name, str(times), *(str(count[word]) for word in WORDS)]
    for measure in _MEANS:
        known = [row[measure] for row in rows if row[measure] is not None]
        # of shuffled columns few have one; 0.0 is added to what rounds to -0.0
        cells.append(f"{round(np.mean(known), 2) + 0.0:.2f}" if 2 * len(known) > times else "")
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print the table."""
    typed = sys.argv[1:]
    draws, seed = int(typed[0]) if typed else 100, int(typed[1]) if typed[1:] else 0
    print(f"| column | draws | {' | '.join(WORDS)} | {' | '.join(_MEANS)} |")
    print("|" + "---|" * (2 + len(WORDS) + len(_MEANS)))
    few = max(1, draws // 4)
    if typed[2:]:
        table = pl.read_csv(Path(typed[2]))
        # of the other splits the places do not depend on the label
        table = table.filter(split=0)
        y, place = table["y"].to_numpy() == 1, table["place"].to_numpy()
        each = np.arange(len(y))
        for shown, times, mix in ((True, few, False), (False, few, False), (True, draws, True)):

            def made(random: np.random.Generator, shown: bool = shown, mix: bool = mix) -> Any:
                values = random.permutation(place) if mix else place
                return audited(y, values, each, int(random.integers(1 << 30)), shown=shown)

            name = f"Waterbirds' place{', shuffled' * mix}, {'' if shown else 'not '}shown"
            show(f"{name}, {len(y):,} images", times, seed, made)
    for kind in ("site", "site, of 5", "JPEG quality"):
        for n, size in ((2000, 1), (2000, 4), (200, 1)):
            for shown, times, mix in ((True, few, False), (False, few, False), (True, draws, True)):

                def case(
                    random: np.random.Generator, kind: str = kind, n: int = n, size: int = size,
                    shown: bool = shown, mix: bool = mix,
                ) -> Any:  # fmt: skip
                    y, values, groups = drawn(kind, n, size, random)
                    if mix:
                        values = random.permutation(values[::size])[groups]
                    seed = int(random.integers(1 << 30))
                    return audited(y, values, groups, seed, shown=shown)

                name = f"{kind}{', shuffled' * mix}, {'' if shown else 'not '}shown, {n:,} images"
                show(name + f" in groups of {size}" * (size > 1), times, seed, case)


if __name__ == "__main__":
    main()
