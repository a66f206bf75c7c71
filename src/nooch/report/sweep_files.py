"""A sweep as a folder: tables, pictures, and ``sweep.json``, which is written last."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from nooch.challenge import Sweep
from nooch.files import SWEEP_MARKER, atomic_folder
from nooch.report.sweep_figures import cues_figure, shares_figure, tau_figure
from nooch.version import __version__

__all__ = ["save_sweep"]


def save_sweep(
    sweep: Sweep, folder: str | Path, settings: Mapping[str, Any] | None = None, *, overwrite: bool = False
) -> Path:
    """Write a sweep's folder, whole or not at all: ``cues``, ``grid``, ``tau`` and ``equal.parquet``, and pictures of them.

    Raises:
        OutputError: the folder exists (and ``overwrite`` is false) or cannot be written.
    """
    with atomic_folder(folder, overwrite=overwrite, marker=SWEEP_MARKER) as partial:
        tables = {"cues": sweep.cues, "grid": sweep.grid, "tau": sweep.tau, "equal": sweep.equal}
        for name, table in tables.items():
            if table.height:
                table.write_parquet(partial / f"{name}.parquet")
        for name, picture in _pictures(sweep).items():
            (partial / f"{name}.svg").write_bytes(picture)
        header = {
            "format": "nooch-sweep",
            "version": 1,
            "nooch": __version__,
            **(settings or {}),
            "equal": sweep.equal.to_dicts(),
        }
        (partial / SWEEP_MARKER).write_bytes(msgspec.json.format(msgspec.json.encode(header), indent=1) + b"\n")
    return Path(folder)


def _pictures(sweep: Sweep) -> dict[str, bytes]:
    pictures = {"cues_by_alpha": cues_figure(sweep.cues)} if sweep.cues.height else {}
    for split in sweep.grid["split"].unique(maintain_order=True):
        pictures[f"hard_by_alpha_and_beta_{split}"] = shares_figure(sweep.grid, split)
    for split in sweep.tau["split"].unique(maintain_order=True):
        pictures[f"hard_by_tau_{split}"] = tau_figure(sweep.tau, split)
    return pictures
