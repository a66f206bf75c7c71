"""Selection of hyperparameters (validation split), and of tasks (how hard hard images are)."""

from nooch.selection.setting_choice import RULES, select
from nooch.selection.task_choice import paper_rule, select_tasks

__all__ = ["RULES", "paper_rule", "select", "select_tasks"]
