"""A sweep as a folder: tables, pictures, and ``sweep.json``, which is written last."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from nooch.base.errors import FormatError, InputError
from nooch.base.files import SWEEP_MARKER, atomic_folder
from nooch.base.version import __version__
from nooch.data import encode_header, load_header, read_table
from nooch.report.figures.style import svg
from nooch.report.figures.sweep_figures import (
    cue_counts,
    draw_cues,
    draw_shares,
    draw_tau,
    share_points,
    tau_counts,
)
from nooch.suites import Sweep

__all__ = ["load_sweep", "save_sweep"]

_VERSION = 1
_SIDES = ("hard_positives", "hard_negatives", "positives", "negatives")
_SHARES = dict.fromkeys(("share_positive", "share_negative"), pl.Float64)
_COUNTS = dict.fromkeys(_SIDES, pl.Int64) | _SHARES
_PLACE = {"task": pl.String, "split": pl.String}
_POINT = {"alpha": pl.Float64, "beta": pl.Float64}
_COLUMNS: dict[str, dict[str, Any]] = {
    "cues": {"task": pl.String, "alpha": pl.Float64, "n_cues": pl.Int64},
    "grid": {**_PLACE, **_POINT, **_COUNTS},
    "tau": {**_PLACE, "tau": pl.Float64, **_COUNTS},
    "lift": {**_PLACE, "lift": pl.Float64, **_COUNTS},
    "equal": {**_PLACE, **_POINT, **_SHARES, "imbalance": pl.Float64},
}


def save_sweep(
    sweep: Sweep,
    folder: str | Path,
    settings: Mapping[str, Any] | None = None,
    *,
    overwrite: bool = False,
) -> Path:
    """Write a sweep's folder atomically: ``NAME.parquet`` of its tables, and pictures of them.

    Raises:
        OutputError: the folder exists (and ``overwrite`` is false) or cannot be written.
    """
    with atomic_folder(folder, overwrite=overwrite, marker=SWEEP_MARKER) as partial:
        for name in _COLUMNS:
            table: pl.DataFrame = getattr(sweep, name)
            if table.height:
                table.write_parquet(partial / f"{name}.parquet")
        for name, picture in _pictures(sweep).items():
            (partial / f"{name}.svg").write_bytes(picture)
        header = {
            "format": "nooch-sweep",
            "version": _VERSION,
            "nooch": __version__,
            **(settings or {}),
            "equal": sweep.equal.to_dicts(),
        }
        (partial / SWEEP_MARKER).write_bytes(encode_header(header))
    return Path(folder)


def _pictures(sweep: Sweep) -> dict[str, bytes]:
    pictures = {}
    if sweep.cues.height:
        pictures["cues_by_alpha"] = svg(draw_cues(cue_counts(sweep.cues)))
    for split in sweep.grid["split"].unique(maintain_order=True):
        points = share_points(sweep.grid, split)
        pictures[f"hard_by_alpha_and_beta_{split}"] = svg(draw_shares(points))
    for name, table in (("tau", sweep.tau), ("lift", sweep.lift)):
        for split in table["split"].unique(maintain_order=True):
            pictures[f"hard_by_{name}_{split}"] = svg(draw_tau(tau_counts(table, split)))
    return pictures


class _Header(msgspec.Struct):
    """What reading a sweep needs of its header."""

    format: str
    version: int


def load_sweep(folder: str | Path) -> Sweep:
    """Read a sweep's folder.

    Raises:
        FormatError: no sweep, a newer version, or a table that cannot be read or lacks columns.
    """
    folder = Path(folder)
    load_header(
        folder / SWEEP_MARKER,
        _Header,
        name="sweep",
        version=_VERSION,
        make="make one with nooch sweep-thresholds",
        again="sweep again",
    )
    tables = {name: _table(folder / f"{name}.parquet", of) for name, of in _COLUMNS.items()}
    return Sweep(**tables)


def _table(path: Path, columns: Mapping[str, Any]) -> pl.DataFrame:
    """A table of a sweep; one that was not written has no row."""
    if not path.exists():
        return pl.DataFrame(schema=columns)
    try:
        return read_table(path).select(list(columns)).cast(columns)  # type: ignore[arg-type]
    except (pl.exceptions.PolarsError, InputError) as error:
        problem = f"is no table of a sweep: {error}"
        raise FormatError(problem, where=path, remedy="sweep again") from error
