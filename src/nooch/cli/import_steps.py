"""What every ``nooch import`` does: with which engine files are read, how the dataset is written, what is printed."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nooch.cli.output import Format, console, note, notes_on, print_json
from nooch.cli.watching import logs_of, watched
from nooch.engines import LocalEngine
from nooch.engines import engine as engine_of
from nooch.errors import ParameterError
from nooch.plans import SplitPlan
from nooch.shared_types import Map

if TYPE_CHECKING:
    from nooch.data import Dataset
    from nooch.data.store import Header
    from nooch.engines.ray import RayEngine
    from nooch.engines.slurm import SlurmEngine
    from nooch.readers.parts import Reading

    Engine = LocalEngine | RayEngine | SlurmEngine

__all__ = ["engine_for", "finish", "import_in_parts", "mapping_of", "not_in_parts", "note_size"]


def not_in_parts(what: str, instead: str) -> ParameterError:
    """What is wrong with ``--part-size`` where something can only be read in one piece."""
    return ParameterError(f"{what} cannot be read in parts", allowed=f"{instead}, or an import without --part-size")


_MANY = 4_000_000_000
"""Bytes of annotation files from which on importing them in one piece takes more memory than a laptop has left."""


def note_size(files: Sequence[Path]) -> None:
    """Note that large files can be imported in parts."""
    size = sum(path.stat().st_size for path in files if path.is_file())
    if size >= _MANY:
        note(f"the files hold {size / 1e9:.1f} GB and are merged in memory; --part-size 125000 merges them in parts")


def engine_for(processes: int | None, text: str | None, out: Path) -> Engine:
    """The engine of ``--engine`` or ``--processes``; its logs lie beside the output.

    Raises:
        ParameterError: both were given, or no such engine.
    """
    if text is None:
        return LocalEngine(processes)
    if processes is not None:
        raise ParameterError(
            "--processes and --engine exclude each other", allowed=f"--engine local:{processes}, or another engine"
        )
    return engine_of(text, logs_of(out))


@contextmanager
def mapping_of(what: str, processes: int | None, engine: str | None, out: Path) -> Iterator[Map]:
    """Yield an engine's map that shows progress. The work starts when the map is called."""
    chosen = engine_for(processes, engine, out)
    with watched(chosen.logs) as update:

        def mapping(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterable[Any]:
            listed = list(items)
            update(what, 0, len(listed))
            return counted(chosen.map(function, listed), len(listed))

        def counted(results: Iterable[Any], total: int) -> Iterator[Any]:
            for done, result in enumerate(results, 1):
                update(what, done, total)
                yield result

        yield mapping


def import_in_parts(
    reading: Reading,
    out: Path,
    part_size: int,
    images: Path | None,
    plan: SplitPlan | None,
    overwrite: bool,
    engine: Engine,
    format: Format,
    notes: Sequence[str] = (),
) -> None:
    """Import files into a dataset in parts, and print what was written."""
    from nooch.study.sharded_importing import import_in_parts as put_together

    with watched(engine.logs) as update:
        made = put_together(
            reading,
            out,
            part_size=part_size,
            images=images,
            split=plan,
            notes=notes,
            overwrite=overwrite,
            map=engine.map,
            progress=update,
        )
    told = (made.header.n_images, made.annotated, made.captions, made.attributes)
    _tell(out, made.header, *told, format, has_areas=made.has_areas)


def finish(data: Dataset, plan: SplitPlan | None, out: Path, overwrite: bool, format: Format) -> None:
    """Split and write a dataset, and print what was written."""
    from nooch.data import save_dataset
    from nooch.study.importing import with_split

    data = with_split(data, plan)
    save_dataset(data, out, overwrite=overwrite)
    captions = 0 if data.captions is None else data.captions.height
    attributes = list(data.attributes)
    _tell(out, data, len(data), int(data.areas.nnz), captions, attributes, format, has_areas=data.has_areas)


def _tell(
    out: Path,
    data: Dataset | Header,
    images: int,
    annotated: int,
    captions: int,
    attributes: list[str],
    format: Format,
    *,
    has_areas: bool,
) -> None:
    """Print what was written."""
    notes_on(data.provenance)
    if format is Format.json:
        print_json(
            {
                "dataset": str(out),
                "images": images,
                "splits": data.splits,
                "classes": len(data.classes),
                "annotated": annotated,
                "captions": captions,
                "attributes": attributes,
                "area": data.provenance.get("area"),
                "fingerprint": data.fingerprint,
                "notes": data.provenance.get("notes", []),
            }
        )
        return
    splits = ", ".join(f"{name} {count:,}" for name, count in data.splits.items())
    told = f"{out}: {images:,} images ({splits}), {len(data.classes)} classes, {captions:,} captions"
    console().print(told, markup=False)
    criterion = "ce" if has_areas else 'attribute --phi "EXPRESSION"'
    console().print(
        f"next: nooch find {shlex.quote(str(out))} --criterion {criterion} --out SUITE", style="dim", markup=False
    )
