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
from nooch.cli.runner import Output
from nooch.cli.terminal import hint, note, print_table, show_progress

_MOST_ROWS = 30


_GRIDS = ("alpha", "beta", "tau", "lift")


@takes(
    "nooch.suites.sweep:sweep_thresholds",
    leave=["embedding"],
    alpha=shared.grid("alpha"),
    beta=shared.grid("beta"),
    tau=shared.grid("tau"),
    lift=shared.grid("lift"),
)
@takes("nooch.suites.embed:embed", "vectors", only=["precision"])
def sweep_command(
    settings: Any,
    vectors: Any,
    dataset: str = shared.DatasetArgument,
    out: Path = Option(..., help="Folder to write; it must not exist."),
    encoder: str = Option(
        None, help="gist: encoder, an embedding of the dataset, or a file of embeddings."
    ),
    overwrite: bool = shared.OverwriteOption,
) -> Output:  # fmt: skip
    """Count hard images over alpha, beta, tau, lift. Also counts cues, and finds equal sides."""
    check_output(out, overwrite=overwrite, marker=SWEEP_MARKER)
    grids = {name: settings.pop(name, []) for name in _GRIDS}
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

    data, embedding = open_dataset(dataset), None
    if grids["tau"]:
        shown = partial(show_progress, "embedding captions")
        data, embedding = embed(data, encoder, **vectors, progress=shown, note=note)
    sweep = sweep_thresholds(
        data.in_memory(), **grids, embedding=embedding, progress=show_progress, **settings
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
    yield {"sweep": str(out), **about, "equal": sweep.equal.to_dicts()}
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
