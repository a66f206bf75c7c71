"""Answers of vision-language models in words: files, rules that read yes or no, and the questions
they belong to.
"""

from nooch.answers.answer_files import FORMATS
from nooch.answers.answer_rules import RULES
from nooch.answers.answer_table import Answers, read_answers
from nooch.answers.asked_questions import image_id_of, images_of

__all__ = ["FORMATS", "RULES", "Answers", "image_id_of", "images_of", "read_answers"]
