"""A template and a class name -> a yes/no question."""

from __future__ import annotations

import re
from string import Formatter

from nooch.base.errors import ParameterError
from nooch.base.words import is_plural, readable, with_article

__all__ = ["TEMPLATE", "check_template", "question_text"]

TEMPLATE = "Is there {a} {task} in the image?"
"""POPE's wording (Li et al., EMNLP 2023)."""


def check_template(template: str, where: str = "`template`") -> str:
    """The template; ``where`` is what errors call it.

    Raises:
        ParameterError: it lacks ``{task}``, or has another field than ``{a}`` and ``{task}``.
    """
    allowed = "text with {task}, and {a} where the article belongs, such as " + TEMPLATE
    try:
        fields = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise ParameterError(str(error), where=where, allowed=allowed) from error
    if "task" not in fields or not set(fields) <= {"a", "task"}:
        raise ParameterError(f"{template!r} is no template", where=where, allowed=allowed)
    return template


def question_text(template: str, task: str) -> str:
    """The question about a class: ``airplane`` takes "an", ``skis`` "are there", grass no article.

    Args:
        template: see ``check_template``.
        task: a class name, which is made readable: ``wall-brick`` is a brick wall.
    """
    if is_plural(task):
        for one, many in (("is", "are"), ("Is", "Are")):
            template = re.sub(rf"\b{one} there \{{a\}}", f"{many} there {{a}}", template)
    noun = readable(task)
    article = with_article(task)[: -len(noun)].strip()
    text = template.format(a=article, task=noun)
    return " ".join(text.split()) if not article else text
