"""Yes/no questions about a suite's images: drawn, worded, and kept as a table."""

from nooch.questions.question_draw import BALANCES, QuestionOptions, draw_questions
from nooch.questions.question_table import Questions, image_names, load_questions
from nooch.questions.question_wording import TEMPLATE, check_template, question_text

__all__ = [
    "BALANCES", "TEMPLATE", "QuestionOptions", "Questions", "check_template", "draw_questions",
    "image_names", "load_questions", "question_text",
]  # fmt: skip
