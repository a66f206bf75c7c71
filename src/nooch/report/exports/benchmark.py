"""The Hub's benchmarks: ``eval.yaml`` of a dataset, and ``.eval_results`` of a model's repository.

Source: https://huggingface.co/docs/hub/eval-results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from nooch.base.errors import ParameterError, some_of, unreadable
from nooch.base.version import __version__
from nooch.base.yaml_files import read_yaml
from nooch.report.exports.contract import one_line, safe_name

CONFIG, FILE = "questions", "eval.yaml"
"""Configuration of the questions; each of ``CELLS`` is a split of it."""
CELL_TEXTS = {
    "hard_negative": "no about absent objects where the context suggests them",
    "easy_negative": "no about absent objects elsewhere",
    "easy_positive": "yes about present objects where the context suggests them",
    "hard_positive": "yes about present objects elsewhere",
}
"""Cell -> its right answers; the first is the rate that a leaderboard ranks by."""
FIELDS = {"input": "question", "input_image": "image", "target": "answer",
          "metadata": ["image_id", "task", "weight"]}  # fmt: skip
PATTERN = r"(?i)^\W*(yes|no)\b"


def task_id(criterion: str, splits: Sequence[str], cell: str) -> str:
    """Id of the task that asks about one of ``CELLS``, in both files."""
    return "-".join([*map(safe_name, (criterion, *sorted(splits))), cell])


def eval_yaml(name: str, criterion: str, splits: Sequence[str], cells: Collection[str]) -> str:
    """Text of ``eval.yaml``: a task of Inspect AI for each cell, whose accuracy is the share of
    right answers; what is neither yes nor no is wrong.
    """
    tasks = [
        {
            "id": task_id(criterion, splits, cell), "config": CONFIG, "split": cell,
            "field_spec": FIELDS, "solvers": [{"name": "generate"}],
            "scorers": [{"name": "pattern", "args": {"pattern": PATTERN}}],
        }
        for cell in CELL_TEXTS if cell in cells
    ]  # fmt: skip
    asked = f"yes/no questions about objects in images, {one_line(criterion)}"
    right = "; ".join(f"{task['id']}: {CELL_TEXTS[str(task['split'])]}" for task in tasks)
    about = {
        "name": name, "description": f"Share of right answers to {asked}. {right}.",
        "evaluation_framework": "inspect-ai", "tasks": tasks,
    }  # fmt: skip
    return _plain(about)


def results_yaml(row: Mapping[str, Any], settings: Mapping[str, Any], benchmark: str) -> str:
    """Text of ``.eval_results/*.yaml``: an entry for each cell, with the share of right answers.

    ``row`` and ``settings`` are a leaderboard's, whose rates count what is unanswered or unknown as
    wrong; ``benchmark`` is the dataset's id, with ``@`` its revision.
    """
    repository, _, revision = benchmark.partition("@")
    entries: list[dict[str, Any]] = []
    for cell, text in CELL_TEXTS.items():
        if row[cell] is None:
            continue
        rates = [row[cell], row[f"{cell}_low"], row[f"{cell}_high"]]
        if cell.endswith("negative"):
            rates = [1 - rates[0], *(1 - rate for rate in reversed(rates[1:]))]
        task = task_id(settings["criterion"], settings["splits"], cell)
        notes = [f"{text}: {100 * rates[0]:.1f}% [{100 * rates[1]:.1f}, {100 * rates[2]:.1f}]",
                 f"{row[f'{cell}_n']:,} questions", f"nooch {__version__}",
                 *(f"{key}: {row[key]}" for key in ("revision", "prompt") if row[key])]  # fmt: skip
        source = {key: row[of] for key, of in (("url", "source"), ("name", "who")) if row[of]}
        entries.append({
            "dataset": {"id": repository, "task_id": task}
            | ({"revision": revision} if revision else {}),
            "value": rates[0],
            **({"date": row["date"]} if row["date"] else {}),
            **({"source": source} if row["source"] else {}),
            "notes": one_line("; ".join(notes)),
        })  # fmt: skip
    return _plain(entries)


def check_benchmark(
    benchmark: str,
    task: str,
    questions: str | Path | None,
    lists: Collection[str],
    out: str | Path | None,
) -> None:
    """Raise ParameterError for an id that is not ``OWNER/NAME`` or ``OWNER/NAME@REVISION``, a list
    of questions, which no export has, an export of ``questions`` without a task, or no folder.
    """
    where = "`benchmark`"
    word = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
    if not re.fullmatch(rf"{word}/{word}(?:@[\w./-]+)?", benchmark, re.ASCII):
        problem = f"{benchmark!r} is not the id of a dataset of the Hub"
        allowed = "OWNER/NAME or OWNER/NAME@REVISION"
        raise ParameterError(problem, where=where, allowed=allowed)
    if out is None:
        raise ParameterError("results are files", where=where, give={"out": ...})
    if str(questions) in lists:
        ways = ({"benchmark": None}, {"questions": None})
        raise ParameterError(f"a benchmark asks more than {questions}", where=where, give=ways)
    file = Path(questions or "") / FILE
    if questions is not None and file.is_file():
        with unreadable(file, "as an export writes it", (KeyError, TypeError)):
            ids = [str(one["id"]) for one in read_yaml(file)["tasks"]]
        if task not in ids:
            others = ({"criterion": ...}, {"split": ...})
            problem = f"no task is {task}"
            raise ParameterError(problem, where=file, allowed=some_of(ids), give=others)


def _plain(content: Any) -> str:
    """YAML without anchors, which stand for what is there twice."""
    copied = json.loads(json.dumps(content))
    return str(yaml.safe_dump(copied, sort_keys=False, allow_unicode=True, width=1000))
