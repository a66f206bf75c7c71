"""Writing a dataset folder in parts, one part in memory at a time; ``nooch.data.shards`` says what such a folder is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from blake3 import blake3
from numpy.typing import NDArray

from nooch.data.checks import ALL, SPLITS
from nooch.data.dataset import Dataset, column_bytes
from nooch.data.header import encode_header
from nooch.data.store import FORMAT_VERSION, Header, areas_table, file_record
from nooch.errors import InputError
from nooch.files import DATASET_MARKER, atomic_folder
from nooch.version import __version__

__all__ = ["save_shards"]


def save_shards(
    parts: Iterable[Dataset],
    folder: str | Path,
    *,
    overwrite: bool = False,
    progress: Callable[[int], None] = lambda _done: None,
) -> Path:
    """Write a dataset folder in parts, one for each dataset that comes, whole or not at all; one is in memory at a time.

    Args:
        parts: with the same classes, columns and embeddings; the image ids of each lie above those of the one before.
        folder: where to write.
        overwrite: replace a dataset folder that exists.
        progress: called with how many parts are written.

    Raises:
        InputError: no part, or parts that do not fit together.
        OutputError: the folder exists (and ``overwrite`` is false) or cannot be written.
    """
    with atomic_folder(folder, overwrite=overwrite, marker=DATASET_MARKER) as partial:
        first: Dataset | None = None
        last: Any = None
        splits: dict[str, int] = {}
        sizes: list[NDArray[Any]] = []
        for number, part in enumerate(parts):
            first = first or part
            last = _check_part(first, part, last, number)
            for name, count in part.splits.items():
                splits[name] = splits.get(name, 0) + count
            per_image = np.diff(part.areas.indptr)
            sizes.append(per_image.astype(np.min_scalar_type(int(per_image.max(initial=0)))))
            _write_part(part, partial, f"part-{number:07d}")
            progress(number + 1)
        if first is None:
            raise InputError("a dataset in parts needs one part at least")
        if ALL in splits and len(splits) > 1:
            raise InputError(
                f"some parts have splits, others {ALL}", allowed=f"{', '.join(SPLITS)}, or {ALL} in every part"
            )
        files = {f.relative_to(partial).as_posix(): file_record(f) for f in sorted(partial.rglob("*")) if f.is_file()}
        header = Header(
            format="nooch-dataset",
            version=FORMAT_VERSION,
            nooch=__version__,
            fingerprint=_fingerprint(partial, first, sizes),
            n_images=sum(map(len, sizes)),
            splits={name: splits[name] for name in (*SPLITS, ALL) if name in splits},
            classes=list(first.classes),
            image_root=first.image_root,
            provenance=dict(first.provenance),
            files=files,
        )
        (partial / DATASET_MARKER).write_bytes(encode_header(header))
    return Path(folder)


def _check_part(first: Dataset, part: Dataset, last: Any, number: int) -> Any:
    """The part's largest id; InputError where it does not go on from the parts before."""
    where = f"part {number}"
    if not len(part):
        raise InputError("has no image", where=where, allowed="one image at least")
    for what, same in (
        ("classes", part.classes == first.classes),
        ("columns of images", part.images.schema == first.images.schema),
        ("captions", (part.captions is None) == (first.captions is None)),
        (
            "embeddings",
            {k: v.shape[1] for k, v in part.embeddings.items()} == {k: v.shape[1] for k, v in first.embeddings.items()},
        ),
    ):
        if not same:
            raise InputError(f"has other {what} than part 0", where=where, allowed="the same in every part")
    ids = part.images["image_id"]
    if last is not None and not last < ids[0]:
        raise InputError(
            f"begins with image {ids[0]!r}, and the part before ends with {last!r}",
            where=where,
            allowed="ids that ascend from part to part",
        )
    return ids[-1]


def _write_part(part: Dataset, folder: Path, name: str) -> None:
    tables = {"images": part.images, "areas": areas_table(part), "captions": part.captions}
    for kind, table in tables.items():
        if table is not None:
            (folder / kind).mkdir(exist_ok=True)
            table.write_parquet(folder / kind / f"{name}.parquet", compression="lz4")
    for kind, values in part.embeddings.items():
        (folder / "embeddings" / kind).mkdir(parents=True, exist_ok=True)
        np.save(folder / "embeddings" / kind / f"{name}.npy", values, allow_pickle=False)


def _fingerprint(folder: Path, first: Dataset, sizes: list[NDArray[Any]]) -> str:
    """``Dataset.fingerprint`` of the whole, from one column of one part at a time."""
    digest = blake3()
    for name, kind in first.images.schema.items():
        digest.update(f"{name}\0{kind}\0".encode())
        _add_column(digest, folder / "images", name)
    digest.update("\0".join(first.classes).encode())
    digest.update(np.zeros(1, np.int64).tobytes())
    before = 0
    for counts in sizes:
        ends = before + np.cumsum(counts, dtype=np.int64)
        digest.update(ends.tobytes())
        before = int(ends[-1])
    for part in _columns(folder / "areas", "class"):
        digest.update(part.to_physical().cast(pl.Int64).to_numpy().tobytes())
    for part in _columns(folder / "areas", "area"):
        digest.update(part.to_numpy().tobytes())
    for name in () if first.captions is None else first.captions.columns:
        _add_column(digest, folder / "captions", name)
    return digest.hexdigest()


def _columns(folder: Path, name: str) -> Iterator[pl.Series]:
    return (pl.read_parquet(path, columns=[name], glob=False)[name] for path in sorted(folder.iterdir()))


def _add_column(digest: Any, folder: Path, name: str) -> None:
    """What ``column_bytes`` gives for the whole column, in pieces: it goes by the kind of column, and joins texts."""
    kinds = [(part.dtype, part.null_count() > 0) for part in _columns(folder, name)]
    kind, nulls = kinds[0][0], any(missing for _, missing in kinds)
    if kind.is_numeric() and not nulls:
        separator, opening, closing = b"", b"", b""
    elif kind.is_nested() or kind in (pl.Binary, pl.Object):
        separator, opening, closing = b", ", b"[", b"]"
    else:
        separator, opening, closing = b"\0", b"", b""
    digest.update(opening)
    begun = False
    for part in _columns(folder, name):
        if not len(part):
            continue
        digest.update(separator if begun else b"")
        # a part without nulls of a column with some is text too
        text = part.cast(pl.String) if kind.is_numeric() and nulls else part
        digest.update(column_bytes(text).removeprefix(opening).removesuffix(closing) if opening else column_bytes(text))
        begun = True
    digest.update(closing)
