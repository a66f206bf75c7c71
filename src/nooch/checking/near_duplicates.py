"""Near-duplicate images: photographs of one scene, by a perceptual hash of their pixels."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from nooch.data import Dataset
from nooch.readers.image_files import ImageIndex
from nooch.readers.image_opening import UNREADABLE, opened_image
from nooch.resources import usable_cpus

__all__ = ["near_duplicates"]

_BITS = 64
_ALIKE = _BITS - 2 * 8
"""Product of the hashes of one scene, which differ in 8 bits at most; of others it is about 0."""
_ROWS = 256


def near_duplicates(data: Dataset, index: ImageIndex) -> NDArray[np.intp]:
    """Number the groups of images that look alike, intp (n_images,).

    The hash says where brightness increases along the rows of the image reduced to 9 x 8 pixels.
    An image without a readable file is a group of its own.
    """
    names = data.images["file_name"].to_list()
    paths = [index.root / name if name in index.paths else None for name in names]
    # threads are enough: Pillow decodes without holding the interpreter
    with ThreadPoolExecutor(usable_cpus()) as pool:
        hashes = list(pool.map(_hash, paths))
    known = np.flatnonzero([signs is not None for signs in hashes])
    signs = np.array([hashes[row] for row in known]).reshape(-1, _BITS)
    alike = [(known, known)]
    for start in range(0, len(known), _ROWS):
        first, second = np.nonzero(signs[start : start + _ROWS] @ signs[start:].T >= _ALIKE)
        alike.append((known[start + first], known[start + second]))
    rows, columns = (np.concatenate(ends) for ends in zip(*alike, strict=True))
    graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(names), len(names)))
    _, groups = connected_components(graph, directed=False)
    return groups.astype(np.intp)


def _hash(path: Path | None) -> NDArray[np.float32] | None:
    """Signs, 1 or -1, float32 (64,)."""
    try:
        with opened_image(path or Path()) as image:
            image.draft("L", (64, 64))
            gray = np.asarray(image.convert("L").resize((9, 8), Image.Resampling.BOX))
    except UNREADABLE:
        return None
    return np.where(gray[:, 1:] > gray[:, :-1], 1, -1).ravel().astype(np.float32)
