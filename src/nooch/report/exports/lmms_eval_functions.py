"""The functions of the lmms-eval task ``nooch_questions``, which needs only Pillow.

nooch writes this file next to the task's YAML as ``utils.py``.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps

METRICS = ("accuracy", "precision", "recall", "f1", "yes_rate")
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
    """Inputs of each metric from an answer: ``question_id``, ``target`` (yes or no), and
    ``prediction`` (yes, no, or None for an answer that is anything but one of these words).
    """
    word = results[0].strip().lower()
    answer = {
        "question_id": doc["question_id"],
        "target": doc["answer"],
        "prediction": word if word in ("yes", "no") else None,
    }
    return dict.fromkeys(METRICS, answer)


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


def _ratio(part: int, whole: int) -> float:
    """Not a number if it is undefined."""
    return part / whole if whole else math.nan
