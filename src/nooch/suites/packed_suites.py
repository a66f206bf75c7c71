"""A suite in one small file, such as the ones that come with the package.

A packed suite holds ids, labels and which images are hard, of criteria without support. After the
magic and the SHA-256 of the rest comes, compressed by zlib, the suite's header as JSON, then for
each split its image ids, for each of its tasks the labels, and for each of its sets which images
are hard, one bit per image.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import FormatError, InputError
from nooch.suites.challenge_set import SUBSETS, ChallengeSet, subset_codes
from nooch.suites.suite import Suite, SuiteHeader

__all__ = ["pack_suite", "unpack_suite"]

_MAGIC = b"nooch-packed-suite 1\n"
_DIGEST = 32
_ID_BYTES = 4
_AGAIN = "install nooch again"


class _Head(msgspec.Struct, frozen=True):
    header: SuiteHeader
    images: dict[str, int]


def pack_suite(suite: Suite) -> bytes:
    """The bytes of a suite whose sets have no support, and the same images within a split.

    Raises:
        InputError: sets with support, cues or images without a verdict, other images or labels
            within a split, or ids that are no integers of 32 bits.
    """
    images: dict[str, NDArray[np.int64]] = {}
    labels: dict[tuple[str, str], NDArray[np.bool_]] = {}
    hard: dict[tuple[str, str, str], NDArray[np.bool_]] = {}
    for criterion, task, split in suite.keys:
        where, challenge = f"set {criterion}, {task}, {split}", suite.set(criterion, task, split)
        image_ids, present = challenge.image_ids, challenge.labels
        if challenge.support is not None or challenge.by_cue is not None or any(challenge.excluded):
            raise InputError(f"{where} has support, cues or images without a verdict")
        if image_ids.dtype != pl.Int64 or not image_ids.is_between(0, 2**31 - 1).all():
            raise InputError(f"{where} has image ids that are no integers of 32 bits")
        ids = image_ids.to_numpy()
        same_images = np.array_equal(images.setdefault(split, ids), ids)
        same_labels = np.array_equal(labels.setdefault((task, split), present), present)
        if not same_images or not same_labels:
            raise InputError(f"{where} has other images or labels than others of the split")
        hard[criterion, task, split] = challenge.subset != SUBSETS.index("easy")
    counts = {split: len(ids) for split, ids in images.items()}
    head = msgspec.json.encode(_Head(suite.header, counts))
    parts = [len(head).to_bytes(4, "little"), head]
    for split, numbers in images.items():
        # bytes of equal weight together: most upper ones are 0 in differences of ascending ids
        steps = np.diff(numbers, prepend=0).astype(f"<u{_ID_BYTES}")
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
        problem = "is no packed suite of a version that is known"
        raise FormatError(problem, where=name, remedy=_AGAIN)
    digest, packed = content[len(_MAGIC) :][:_DIGEST], content[len(_MAGIC) + _DIGEST :]
    if hashlib.sha256(packed).digest() != digest:
        problem = "was altered: its SHA-256 is not the one that it begins with"
        raise FormatError(problem, where=name, remedy=_AGAIN)
    rest = _Unread(zlib.decompress(packed))
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
        subset = subset_codes(present, hard[criterion, task, split])
        return ChallengeSet(criterion, task, split, images[split], present, subset)

    return Suite(head.header, read)


@dataclass
class _Unread:
    """The bytes from a position on."""

    content: bytes
    at: int = 0

    def take(self, n: int) -> bytes:
        self.at += n
        return self.content[self.at - n : self.at]

    def bits(self, n: int) -> NDArray[np.bool_]:
        return np.unpackbits(np.frombuffer(self.take(-(-n // 8)), np.uint8), count=n).astype(bool)
