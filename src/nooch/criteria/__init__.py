"""A criterion is frozen parameters; fitted, it gives images a support or an out-of-context mark."""

from nooch.criteria.attribute import Attribute, FittedAttribute
from nooch.criteria.by_name import Combination, is_combination
from nooch.criteria.ce import CE, FittedCE
from nooch.criteria.context import Context, FittedContext
from nooch.criteria.contract import (
    Criterion,
    Fitted,
    MarkFitted,
    Summable,
    SupportFitted,
    TaskThresholds,
    Tau,
    Thresholds,
    read_thresholds,
    reads_of,
    require_areas,
    thresholds_of,
)
from nooch.criteria.gist import FittedGist, Gist
from nooch.criteria.presets import PRESETS, phi_preset
from nooch.criteria.scores import ContextScores

FITTED: dict[str, type[Fitted]] = {
    "ce": FittedCE,
    "context": FittedContext,
    "gist": FittedGist,
    "attribute": FittedAttribute,
    "scores": ContextScores,
}
"""Kind -> class of the fitted criterion; others that a suite's JSON names are never imported."""


__all__ = [
    "CE", "FITTED", "PRESETS", "Attribute", "Combination", "Context", "ContextScores", "Criterion",
    "Fitted", "FittedAttribute", "FittedCE", "FittedContext", "FittedGist", "Gist", "MarkFitted",
    "Summable", "SupportFitted", "TaskThresholds", "Tau", "Thresholds", "is_combination",
    "phi_preset", "read_thresholds", "reads_of", "require_areas", "thresholds_of",
]  # fmt: skip
