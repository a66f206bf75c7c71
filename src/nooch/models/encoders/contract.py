"""The contract of an encoder: frozen parameters, and one call from sentences to vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nooch.base.calls import StepProgress


class Encoder(Protocol):
    """Frozen parameters of a map from sentences to vectors.

    An optional property ``on_gpu`` says that it computes on a GPU: on an engine each job then has
    its own. Where options depend on the machine, ``chosen`` gives those for workers.
    """

    @property
    def identity(self) -> str:
        """Name of a stored embedding (letters, digits, ``.``, ``_``, ``-``): says what matters."""
        ...

    @property
    def in_parts(self) -> bool:
        """Whether some sentences can be encoded without the others: the encoder is not fitted."""
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
