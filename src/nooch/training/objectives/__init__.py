"""An objective turns a batch's logits, labels and environments into one loss for each head."""

from nooch.training.objectives.by_environment import GDRO, IRM, OnlineGDRO, VREx
from nooch.training.objectives.by_label_and_loss import (
    ERM,
    BalancedSoftmax,
    CVaR,
    EnvironmentReweight,
    Focal,
    LabelReweight,
)
from nooch.training.objectives.contract import (
    VARIANTS,
    BatchTerms,
    Objective,
    Ranges,
    TrainingCounts,
    check_objective,
    indicators,
    losses,
    residuals,
)

OBJECTIVES: dict[str, type[Objective]] = {
    kind.name: kind
    for kind in (
        ERM,
        LabelReweight,
        EnvironmentReweight,
        BalancedSoftmax,
        GDRO,
        OnlineGDRO,
        IRM,
        VREx,
        CVaR,
        Focal,
    )
}
"""Name -> objective."""

__all__ = [
    "ERM", "GDRO", "IRM", "OBJECTIVES", "VARIANTS", "BalancedSoftmax", "BatchTerms", "CVaR",
    "EnvironmentReweight", "Focal", "LabelReweight", "Objective", "OnlineGDRO", "Ranges",
    "TrainingCounts", "VREx", "check_objective", "indicators", "losses", "residuals",
]  # fmt: skip
