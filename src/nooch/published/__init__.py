"""The authors' challenge sets, read, made a suite, and compared with one; and the paper's numbers."""

from nooch.published.as_suite import Labels, published_suite, read_labels
from nooch.published.paper import NOOCH_TASKS, PaperTask, paper_tasks
from nooch.published.sets import Published, PublishedSet, read_published
from nooch.published.verifying import Verdict, verify

__all__ = [
    "NOOCH_TASKS",
    "Labels",
    "PaperTask",
    "Published",
    "PublishedSet",
    "Verdict",
    "paper_tasks",
    "published_suite",
    "read_labels",
    "read_published",
    "verify",
]
