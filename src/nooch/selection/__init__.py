"""Which hyperparameters, chosen on the validation split after the fact; which tasks, by how much harder their hard images are."""

from nooch.selection.settings import RULES, select
from nooch.selection.tasks import paper_rule, select_tasks

__all__ = ["RULES", "paper_rule", "select", "select_tasks"]
