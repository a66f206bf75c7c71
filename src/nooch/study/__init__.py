"""The only place that wires the stages: the Python face of a whole run."""

from nooch.study.embedding import with_embedding
from nooch.study.finding import find, resolve_tasks
from nooch.study.importing import with_split
from nooch.study.showing import explain, overlaps, recorded_dataset, summary

__all__ = [
    "explain",
    "find",
    "overlaps",
    "recorded_dataset",
    "resolve_tasks",
    "summary",
    "with_embedding",
    "with_split",
]
