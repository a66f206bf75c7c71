"""The authors' challenge sets, read and compared with a suite, and the paper's numbers."""

from nooch.published.paper import NOOCH_TASKS, PaperTask, paper_tasks
from nooch.published.sets import Published, PublishedSet, read_published
from nooch.published.verifying import Verdict, verify

__all__ = [
    "NOOCH_TASKS",
    "PaperTask",
    "Published",
    "PublishedSet",
    "Verdict",
    "paper_tasks",
    "read_published",
    "verify",
]
