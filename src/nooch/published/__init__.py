"""The authors' challenge sets, read, made a suite, and compared with one; and the paper's numbers."""

from nooch.published.paper_numbers import NOOCH_TASKS, PaperTask, paper_tasks
from nooch.published.published_sets import Published, PublishedSet, read_published
from nooch.published.sets_as_suite import Labels, published_suite, read_labels
from nooch.published.suite_verification import Verdict, verify

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
