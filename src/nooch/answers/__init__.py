"""Answers of vision-language models in words: files, rules that read yes or no, and the questions
they belong to.
"""

from nooch.answers.answer_files import FORMATS, holds_answers
from nooch.answers.answer_rules import RULES
from nooch.answers.answer_table import Answers, read_answers
from nooch.answers.answer_words import LANGUAGES, answer_words
from nooch.answers.label_overlay import LabelOverlay, OverlaySource, read_label_overlay

__all__ = [
    "FORMATS", "LANGUAGES", "RULES", "Answers", "LabelOverlay", "OverlaySource", "answer_words",
    "holds_answers", "read_answers", "read_label_overlay",
]  # fmt: skip
