"""The contract of an encoder: frozen parameters, and one call from sentences to vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nooch.shared_types import StepProgress

__all__ = ["Encoder"]

"""Called with (sentences done, sentences in all) while long work goes on."""


class Encoder(Protocol):
    """Frozen parameters of a map from sentences to vectors.

    One that computes on a GPU may say so with a property ``on_gpu``: on an engine each of its jobs
    then has a GPU for itself. One that chooses by machine may have ``chosen``, the options that
    workers make it with.
    """

    @property
    def identity(self) -> str:
        """Name of a stored embedding (letters, digits, ``.``, ``_``, ``-``): all that determines
        the result.
        """
        ...

    @property
    def in_parts(self) -> bool:
        """Whether a part of the sentences can be encoded without the others; not so where the
        encoder is fitted on all.
        """
        ...

    def encode(
        self, sentences: Sequence[str], progress: StepProgress | None = None
    ) -> NDArray[np.float32]:
        """One vector for each sentence, in their order: float32 (n, d), finite.

        The same sentences give the same vectors, whatever their order and however often they occur.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """What the encoder is, JSON-like, for the provenance of a dataset."""
        ...
