"""The authors' challenge sets, as a suite and compared with one; and the paper's numbers."""

from nooch.published.published_counts import NOOCH_TASKS, PaperTask, paper_tasks
from nooch.published.published_sets import Published, PublishedSet, read_published
from nooch.published.sets_as_suite import Labels, published_suite, read_labels, unlabeled
from nooch.published.suite_verification import SetAgreement, verify

__all__ = [
    "NOOCH_TASKS", "Labels", "PaperTask", "Published", "PublishedSet", "SetAgreement",
    "paper_tasks", "published_suite", "read_labels", "read_published", "unlabeled", "verify",
]  # fmt: skip
