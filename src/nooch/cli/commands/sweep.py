"""``nooch sweep``: what other thresholds give."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from typer import Option

from nooch.base.errors import ParameterError
from nooch.base.files import SWEEP_MARKER, check_output
from nooch.cli import options as shared
from nooch.cli.declared import takes
from nooch.cli.terminal import hint, note, print_json, print_table, progress

_MOST_ROWS = 30


_TEXT = {"type": str, "metavar": "FROM:TO:COUNT | A,B"}


@takes(
    "nooch.suites.sweep:sweep_thresholds",
    leave=["embedding"],
    alpha=_TEXT,
    beta=_TEXT,
    tau=_TEXT,
    lift=_TEXT,
)
@takes("nooch.suites.embed:embed", "vectors", only=["precision"])
def sweep_command(
    dataset: str = shared.DatasetArgument,
    out: Path = Option(..., help="Folder to write; it must not exist."),
    encoder: str = Option(
        None, help="gist: encoder, an embedding of the dataset, or a file of embeddings."
    ),
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
    *,
    settings: Any,
    vectors: Any,
) -> None:  # fmt: skip
    """Count hard images over alpha, beta, tau, lift. And cues, and where both sides are equal."""
    check_output(out, overwrite=overwrite, marker=SWEEP_MARKER)
    texts = {name: settings.pop(name, None) for name in ("alpha", "beta", "tau", "lift")}
    grids = shared.parse_grids(**texts)
    if encoder is not None and not grids["tau"]:
        problem, give = "an encoder is for the gist criterion", {"tau": "0:1:6"}
        raise ParameterError(problem, where="--encoder", give=give)
    import polars as pl

    from nooch.data import open_dataset
    from nooch.report.figures.sweeps import save_sweep
    from nooch.suites.embed import embed
    from nooch.suites.sweep import POOLED, grid_of, sweep_thresholds

    for name, values in grids.items():
        # before captions are embedded for nothing
        grid_of(name, values)

    data = open_dataset(dataset)
    with progress() as update:
        embedding = None
        if grids["tau"]:
            data, embedding = embed(
                data,
                encoder,
                **vectors,
                progress=partial(update, "embedding captions"),
                note=note,
            )
        sweep = sweep_thresholds(
            data.in_memory(), **grids, embedding=embedding, progress=update, **settings
        )
    splits_counted = pl.concat([sweep.grid["split"], sweep.tau["split"], sweep.lift["split"]])
    about = {
        "dataset": data.fingerprint,
        **grids,
        "embedding": embedding,
        "tasks": settings.get("tasks", "all"),
        "splits": splits_counted.unique(maintain_order=True).to_list(),
    }
    save_sweep(sweep, out, about, overwrite=overwrite)
    if format is shared.Format.json:
        print_json({"sweep": str(out), **about, "equal": sweep.equal.to_dicts()})
        return
    rows = sweep.equal.rows()
    if len(rows) > _MOST_ROWS:
        rows = [row for row in rows if row[0] == POOLED]
        hint(f"each task on its own: {out}/equal.parquet")
    if rows:
        columns = ["task", "split", "alpha", "beta", "P(hard | 1)", "P(hard | 0)", "imbalance"]
        print_table("Where both sides are hard equally often", columns, rows, left=2)
    elif grids["alpha"]:
        note("no point of the grid has hard images on both sides")
    hint(f"{out}: {', '.join(sorted(f.name for f in out.iterdir()))}")
