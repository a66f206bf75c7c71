"""The functions of the lmms-eval task ``nooch_questions``, which needs only Pillow.

nooch writes this file next to the task's YAML as ``utils.py``.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps

METRICS = ("accuracy", "precision", "recall", "f1", "yes_rate")
FALSE_YES = ("false_yes_hard", "false_yes_easy", "false_yes_ratio")
"""Rates of yes to absent objects where the context suggests them, elsewhere, and their ratio."""
IMAGES = "images"
"""Folder of the image files; a relative path starts at the folder of this file."""


def doc_to_visual(doc: dict[str, Any]) -> list[Image.Image]:
    """The image in RGB, upright, from the table or from its file below ``IMAGES``. Raises
    ValueError: the path leads out of that folder, or the image has more than 8 bits a channel.
    """
    image = doc["image"]
    if isinstance(image, str):
        folder = Path(__file__).parent / IMAGES
        if Path(image).is_absolute() or ".." in Path(image).parts:
            raise ValueError(f"{image} is not a path below {folder}")
        image = Image.open(folder / image)
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        raise ValueError(f"the image of {doc['question_id']} has more than 8 bits a channel")
    return [ImageOps.exif_transpose(image).convert("RGB")]


def doc_to_text(doc: dict[str, Any], lmms_eval_specific_kwargs: dict[str, Any]) -> str:
    """The question between the prompts of the YAML file, which may differ between models."""
    before = lmms_eval_specific_kwargs.get("pre_prompt", "")
    return f"{before}{doc['question']}{lmms_eval_specific_kwargs.get('post_prompt', '')}"


def process_results(doc: dict[str, Any], results: list[str]) -> dict[str, dict[str, Any]]:
    """Inputs of each metric from an answer: ``question_id``, ``target`` (yes or no),
    ``prediction`` (yes, no, or None for an answer that is anything but one of these words),
    ``subset`` (such as ``hard_negative``, None if it has none) and ``weight``.
    """
    word = results[0].strip().lower()
    answer = {
        "question_id": doc["question_id"],
        "target": doc["answer"],
        "prediction": word if word in ("yes", "no") else None,
        "subset": doc.get("subset"),
        "weight": doc.get("weight", 1.0),
    }
    return dict.fromkeys((*METRICS, *FALSE_YES), answer)


def accuracy(results: list[dict[str, Any]]) -> float:
    """The share of right answers; one that is neither yes nor no is wrong."""
    return _ratio(sum(r["prediction"] == r["target"] for r in results), len(results))


def precision(results: list[dict[str, Any]]) -> float:
    """The share of present objects among the ones that the model reports."""
    return accuracy([r for r in results if r["prediction"] == "yes"])


def recall(results: list[dict[str, Any]]) -> float:
    """The share of present objects that the model reports."""
    return accuracy([r for r in results if r["target"] == "yes"])


def f1(results: list[dict[str, Any]]) -> float:
    """The harmonic mean of precision and recall."""
    words = [(r["prediction"], r["target"]) for r in results]
    yes = sum(pair.count("yes") for pair in words)
    return _ratio(2 * words.count(("yes", "yes")), yes)


def yes_rate(results: list[dict[str, Any]]) -> float:
    """The share of yes among the answers."""
    return _ratio(sum(r["prediction"] == "yes" for r in results), len(results))


def false_yes_hard(results: list[dict[str, Any]]) -> float:
    """The rate of yes to absent objects where the context suggests them, weighted."""
    return _false_yes(results, "hard_negative")


def false_yes_easy(results: list[dict[str, Any]]) -> float:
    """The rate of yes to absent objects elsewhere, weighted."""
    return _false_yes(results, "easy_negative")


def false_yes_ratio(results: list[dict[str, Any]]) -> float:
    """The rate where the context suggests them over the rate elsewhere."""
    return _ratio(false_yes_hard(results), false_yes_easy(results))


def _false_yes(results: list[dict[str, Any]], subset: str) -> float:
    asked = [r for r in results if r["subset"] == subset]
    yes = sum(r["weight"] for r in asked if r["prediction"] == "yes")
    return _ratio(yes, sum(r["weight"] for r in asked))


def _ratio(part: float, whole: float) -> float:
    """Not a number if it is undefined."""
    return part / whole if whole else math.nan
