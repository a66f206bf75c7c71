"""A suite in one small file, and the ones that come with the package.

A packed suite holds what criteria without support leave: ids, labels and which images are hard.
After the magic and the SHA-256 of the rest comes, compressed by zlib, the suite's header as JSON,
then for each split its image ids, for each of its tasks the labels, and for each of its sets which
images are hard, a bit an image.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.challenge.challenge_set import SUBSETS, ChallengeSet
from nooch.challenge.suite import Suite, SuiteHeader
from nooch.errors import FormatError, InputError

__all__ = ["SHIPPED", "is_shipped", "pack_suite", "shipped_suite", "unpack_suite"]

SHIPPED = ("nooch-coco",)
"""Names of the suites that come with the package: files of ``nooch/challenge/shipped``, each with
its licences.
"""

_MAGIC = b"nooch-packed-suite 1\n"
_DIGEST = 32
_ID_BYTES = 4


class _Head(msgspec.Struct, frozen=True):
    header: SuiteHeader
    images: dict[str, int]


def is_shipped(folder: str | Path) -> bool:
    """Whether a suite's place is the name of one that comes with the package; a folder of that name
    comes first.
    """
    return str(folder) in SHIPPED and not Path(folder).is_dir()


def shipped_suite(name: str) -> Suite:
    """A suite that comes with the package, by its name out of ``SHIPPED``."""
    file = resources.files("nooch.challenge").joinpath("shipped", f"{name}.suite")
    return unpack_suite(file.read_bytes(), name)


def pack_suite(suite: Suite) -> bytes:
    """The bytes of a suite whose sets have no support, and in a split the same images and labels
    under every criterion.

    Raises:
        InputError: another suite, or ids that are no integers of 32 bits.
    """
    images: dict[str, NDArray[np.int64]] = {}
    labels: dict[tuple[str, str], NDArray[np.bool_]] = {}
    hard: dict[tuple[str, str, str], NDArray[np.bool_]] = {}
    for criterion, task, split in suite.keys:
        one = suite.set(criterion, task, split)
        if one.support is not None or one.by_cue is not None or any(one.excluded):
            raise InputError(
                f"set {criterion}, {task}, {split} has support, cues or images without a verdict"
            )
        if one.image_ids.dtype != pl.Int64 or not one.image_ids.is_between(0, 2**31 - 1).all():
            raise InputError(
                f"set {criterion}, {task}, {split} has image ids that are no integers of 32 bits"
            )
        ids = one.image_ids.to_numpy()
        same = np.array_equal(images.setdefault(split, ids), ids)
        if not same or not np.array_equal(labels.setdefault((task, split), one.labels), one.labels):
            raise InputError(
                f"set {criterion}, {task}, {split} has other images or labels than others of the"
                " split"
            )
        hard[criterion, task, split] = one.subset != SUBSETS.index("easy")
    head = msgspec.json.encode(
        _Head(suite.header, {split: len(ids) for split, ids in images.items()})
    )
    parts = [len(head).to_bytes(4, "little"), head]
    for split, ids in images.items():
        # bytes of equal weight together: the upper ones of ascending ids' differences are nearly
        # all 0
        steps = np.diff(ids, prepend=0).astype(f"<u{_ID_BYTES}")
        parts.append(steps.view(np.uint8).reshape(-1, _ID_BYTES).T.tobytes())
        parts += [np.packbits(labels[key]).tobytes() for key in labels if key[1] == split]
        parts += [np.packbits(hard[key]).tobytes() for key in hard if key[2] == split]
    packed = zlib.compress(b"".join(parts), 9)
    return _MAGIC + hashlib.sha256(packed).digest() + packed


def unpack_suite(content: bytes, name: str) -> Suite:
    """The suite of ``pack_suite``'s bytes, in memory; ``name`` is for errors.

    Raises:
        FormatError: other bytes, or bytes that were altered.
    """
    if not content.startswith(_MAGIC):
        raise FormatError(
            "is no packed suite of a version that is known",
            where=name,
            remedy="install nooch again",
        )
    digest, packed = content[len(_MAGIC) :][:_DIGEST], content[len(_MAGIC) + _DIGEST :]
    if hashlib.sha256(packed).digest() != digest:
        raise FormatError(
            "was altered: its SHA-256 is not the one that it begins with",
            where=name,
            remedy="install nooch again",
        )
    rest = _Rest(zlib.decompress(packed))
    head = msgspec.json.decode(rest.take(int.from_bytes(rest.take(4), "little")), type=_Head)
    images: dict[str, pl.Series] = {}
    labels: dict[tuple[str, str], NDArray[np.bool_]] = {}
    hard: dict[tuple[str, str, str], NDArray[np.bool_]] = {}
    keys = [(r.criterion, r.task, r.split) for r in head.header.sets]
    for split, n in head.images.items():
        steps = np.frombuffer(rest.take(_ID_BYTES * n), np.uint8).reshape(_ID_BYTES, n)
        ids = np.ascontiguousarray(steps.T).view(f"<u{_ID_BYTES}").ravel().astype(np.int64).cumsum()
        images[split] = pl.Series("image_id", ids)
        here = [key for key in keys if key[2] == split]
        labels |= {(task, split): rest.bits(n) for task in dict.fromkeys(key[1] for key in here)}
        hard |= {key: rest.bits(n) for key in here}

    def read(criterion: str, task: str, split: str) -> ChallengeSet:
        present = labels[task, split]
        subset = np.where(
            hard[criterion, task, split], np.where(present, 0, 1), SUBSETS.index("easy")
        )
        return ChallengeSet(criterion, task, split, images[split], present, subset.astype(np.uint8))

    return Suite(head.header, read)


@dataclass
class _Rest:
    """What of some bytes was not taken yet."""

    content: bytes
    at: int = 0

    def take(self, n: int) -> bytes:
        self.at += n
        return self.content[self.at - n : self.at]

    def bits(self, n: int) -> NDArray[np.bool_]:
        return np.unpackbits(np.frombuffer(self.take(-(-n // 8)), np.uint8), count=n).astype(bool)
