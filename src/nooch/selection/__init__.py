"""Which hyperparameters, chosen on the validation split after the fact; which tasks, by how much harder their hard images are."""

from nooch.selection.settings import RULES, select
from nooch.selection.tasks import select_tasks

__all__ = ["RULES", "select", "select_tasks"]
