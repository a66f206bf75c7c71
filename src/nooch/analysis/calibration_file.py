"""A calibration: betas of cues for one model's predicted areas, and how far they can be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import msgspec
from blake3 import blake3

from nooch.base.errors import FormatError, ParameterError
from nooch.criteria import CE
from nooch.data import Dataset, load_header

__all__ = ["Calibration", "read_calibration"]

_AGAIN = "make it again with nooch calibrate"


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """What ``nooch.calibrate`` found, as its file keeps it.

    Attributes:
        criterion: with betas by task and cue, and what to expect of them.
        predicted: the model of the areas, as the dataset's provenance has it.
        settings: options, and fingerprints of the datasets.
        areas: ``name, predicted, images, bias`` (mean predicted minus true area), ``correlation,
            auc`` (of the predicted area for true areas above beta) of each class.
        verdicts: ``task, cue`` (null: all cues together), ``set`` (one of the four cells), ``true``
            (images truly in it); ``precision`` and ``recall``, each with its 95 % interval, by beta
            itself and, as ``calibrated_*``, out of fold. One cue alone has no row of its own.
        notes: what could not be calibrated, does not reach the precision, or keeps beta; and how
            many images are neither hard nor easy.
        hash: of all that.
    """

    format: str = "nooch-calibration"
    version: int = 1
    criterion: CE
    predicted: Any = None
    settings: dict[str, Any]
    areas: list[dict[str, Any]]
    verdicts: list[dict[str, Any]]
    notes: list[str]
    hash: str = ""

    def sealed(self) -> Self:
        """With the hash of its contents."""
        plain = msgspec.structs.replace(self, hash="")
        digest = blake3(msgspec.json.encode(plain, order="deterministic")).hexdigest()
        return msgspec.structs.replace(self, hash=digest)

    def ce(self, data: Dataset) -> CE:
        """The criterion to find with. Raises ParameterError for areas of another model."""
        if (other := data.provenance.get("predicted")) != self.predicted:
            raise ParameterError(
                f"is of areas by {self.predicted}, those of the dataset are by {other}",
                where="calibration",
                allowed="areas by the same model, merged in the same way",
            )
        return self.criterion


def read_calibration(path: str | Path) -> Calibration:
    """Read a file of ``nooch.calibrate``. Raises FormatError where it is none, or was altered."""
    make = "make one with nooch calibrate"
    file = load_header(
        Path(path), Calibration, name="calibration", version=1, make=make, again=_AGAIN
    )
    if file.sealed() != file:
        problem = "was altered: its hash is not that of its contents"
        raise FormatError(problem, where=path, remedy=_AGAIN)
    return file
