"""What the commands of ``nooch import`` share: options, the engine, the printed summary."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from nooch.base.engines import LocalEngine
from nooch.base.engines import engine as engine_of
from nooch.base.errors import ParameterError
from nooch.base.split_plan import SplitPlan
from nooch.base.words import counted
from nooch.cli.options import Format, FormatOption, OverwriteOption, parse_pairs, with_options
from nooch.cli.progress_log import logs_of
from nooch.cli.terminal import hint, note, print_json, progress, say

if TYPE_CHECKING:
    from nooch.base.engines.ray import RayEngine
    from nooch.base.engines.slurm import SlurmEngine
    from nooch.data.importing.parts import Imported
    from nooch.data.readers.contract import Reading

    Engine = LocalEngine | RayEngine | SlurmEngine

__all__ = ["LARGE", "ImportOptions", "Out", "print_imported", "run_import", "with_import_options"]

Out: Any = Argument(..., metavar="DATASET", help="Folder to write; it must not exist.")


@dataclass(frozen=True)
class ImportOptions:
    """Options of every import, as they were typed."""

    images: Path | None = Option(None, help="Folder below which the image files lie.")
    split: str | None = Option(
        None,
        help="70/10/20 (train/valid/test), .npz of train_ids, valid_ids, test_ids, or a table.",
    )
    seed: int = Option(0, help="Seed of a split by percentages.")
    group: str | None = Option(
        None, help="Column, or pattern on the file name, whose images stay on one side."
    )
    split_values: str | None = Option(
        None, help="What split names mean, such as 0=train,1=valid,2=test."
    )
    overwrite: bool = OverwriteOption
    processes: int | None = Option(
        None, min=1, help="Parallel processes, short for --engine local:N; all CPUs by default."
    )
    engine: str | None = Option(
        None,
        metavar="ENGINE",
        help="Where files are read: local[:N], ray[:ADDRESS] or slurm[:PARTITION].",
    )
    part_size: int | None = Option(
        None,
        min=1,
        metavar="N",
        help="Write parts of at most N images, such as 125000: bounded memory for any size.",
    )
    format: Format = FormatOption

    @property
    def plan(self) -> SplitPlan | None:
        """How images are divided. Raises ParameterError for options of a split without one."""
        if self.split is None:
            for option, text in (("--group", self.group), ("--split-values", self.split_values)):
                if text is not None:
                    raise ParameterError(
                        f"{option} needs --split", allowed="--split 70/10/20, or a file"
                    )
            return None
        return SplitPlan(self.split, self.seed, self.group, self.values)

    @property
    def values(self) -> dict[str, str]:
        """What split names mean."""
        return parse_pairs(self.split_values, "--split-values", "0=train,1=valid,2=test")

    def engine_for(self, out: Path, gpus: int = 0) -> Engine:
        """Where files are read, each job with so many GPUs; logs are next to the output.

        Raises:
            ParameterError: both an engine and a number of processes were given, or no such engine.
        """
        if self.engine is None:
            return LocalEngine(self.processes, gpus=gpus)
        if self.processes is not None:
            raise ParameterError(
                "--processes and --engine exclude each other",
                allowed=f"--engine local:{self.processes}, or another engine",
            )
        return engine_of(self.engine, logs_of(out), gpus=gpus)


with_import_options = partial(with_options, ImportOptions, "options", ImportOptions)


def run_import(
    reading: Reading, out: Path, options: ImportOptions, notes: Sequence[str] = (), gpus: int = 0
) -> None:
    """Import what ``reading`` names, each job with so many GPUs, and print what was written."""
    plan, engine = options.plan, options.engine_for(out, gpus)
    if options.part_size is None:
        size = sum(path.stat().st_size for _, path in reading.files() if path.is_file())
        if size >= LARGE:
            much = f"the files hold {size / 1e9:.1f} GB and are merged in memory"
            note(f"{much}; --part-size 125000 merges them part by part")
    from nooch.data.importing.import_dataset import DatasetImportOptions, import_dataset

    asked = DatasetImportOptions(options.part_size, options.images, plan, notes, options.overwrite)
    with progress() as update:
        imported = import_dataset(reading, out, options=asked, map=engine.map, progress=update)
    print_imported(out, imported, options.format)


LARGE = 4_000_000_000
"""Bytes of annotation files that, imported as one part, need more memory than a laptop has."""


def print_imported(out: Path, imported: Imported, format: Format) -> None:
    """Print what was written."""
    header = imported.header
    note(*header.provenance.get("notes", []))
    if format is Format.json:
        print_json(
            {
                "dataset": str(out),
                "images": header.n_images,
                "splits": header.splits,
                "classes": len(header.classes),
                "annotated": imported.annotated,
                "captions": imported.captions,
                "attributes": imported.attributes,
                "area": header.provenance.get("area"),
                "fingerprint": header.fingerprint,
                "notes": header.provenance.get("notes", []),
            }
        )
        return
    splits = ", ".join(f"{name} {count:,}" for name, count in header.splits.items())
    held = counted(len(header.classes), "class"), counted(imported.captions, "caption")
    say(f"{out}: {counted(header.n_images, 'image')} ({splits}), {', '.join(held)}")
    criterion = "ce" if imported.has_areas else 'attribute --phi "EXPRESSION"'
    hint(f"next: nooch find {shlex.quote(str(out))} --criterion {criterion} --out SUITE")
