"""A suite's questions as tasks of Inspect AI, which finds them by their entry point."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser, ContentImage, ContentText
from inspect_ai.scorer import (
    CORRECT,
    INCORRECT,
    Metric,
    SampleScore,
    Score,
    Scorer,
    Target,
    accuracy,
    metric,
    scorer,
)
from inspect_ai.solver import TaskState

from nooch.base.errors import ParameterError, check_one_of
from nooch.data import parquet_bytes
from nooch.evaluation.answer_rules import read_verdicts
from nooch.evaluation.answer_sample import answers_as_predictions, answers_in
from nooch.evaluation.answer_words import AskedQuestion
from nooch.evaluation.answers import read_answers
from nooch.evaluation.context_rates import answer_rates
from nooch.inference.requests import plan_requests
from nooch.suites import as_suite
from nooch.suites.questions import PER_SET, TEMPLATE, main_criterion

_RATES = {
    "false_yes_hard": ("rate", "hard_negative"),
    "false_yes_easy": ("rate", "easy_negative"),
    "false_yes_ratio": ("ratio", "negative"),
    "recall_hard": ("rate", "hard_positive"),
    "recall_easy": ("rate", "easy_positive"),
    "macro_recall": ("macro_recall", "positive"),
}
"""Metric -> the estimate of ``nooch evaluate`` that it is; the first three as in lmms-eval."""


@task
def words(images: str | None = None) -> Task:
    """The questions of ``nooch-words`` about the images of COCO in a folder."""
    return questions("nooch-words", images=images)


@task
def questions(
    suite: str,
    *,
    images: str | None = None,
    data: str | None = None,
    criterion: str | None = None,
    tasks: str | Sequence[str] = (),
    splits: str | Sequence[str] = (),
    per_set: int | None = PER_SET,
    template: str = TEMPLATE,
    seed: int = 0,
) -> Task:
    """The questions that ``nooch ask`` draws from a suite, with the same defaults, for one of its
    criteria: ``context``, or else the first.
    """
    loaded = as_suite(suite)
    usual = main_criterion(loaded.criteria)
    criterion = check_one_of("criterion", criterion or usual, loaded.criteria, owner="the suite")
    plan = plan_requests(
        loaded, data, per_set=per_set, template=template, seed=seed, images=images,
        tasks=[tasks] if isinstance(tasks, str) else tasks,
        splits=[splits] if isinstance(splits, str) else splits,
        criteria=(), questions=None, prompts=(), describe=False, range=None, limit=None,
        sample=None,
    )  # fmt: skip
    about = plan.frame.drop("key", "prompt").iter_rows(named=True)
    samples = [
        Sample(
            input=[ChatMessageUser(content=[
                ContentText(text=row["text"]),
                ContentImage(image=str(plan.paths[row["image_id"]])),
            ])],
            target="yes" if row["label"] else "no",
            id=row["question_id"],
            metadata={name: value for name, value in row.items() if name != "question_id"},
        )
        for row in about
    ]  # fmt: skip
    return Task(
        dataset=samples,
        scorer=yes_or_no(),
        metrics=[accuracy(), context_rates(suite, criterion)],
        metadata={"criterion": criterion, "notes": list(plan.notes)},
    )


@scorer(metrics=[accuracy()])
def yes_or_no() -> Scorer:
    """Correct if an answer means the right one of yes and no; its words are the explanation."""

    async def score(state: TaskState, target: Target) -> Score:
        if state.epoch > 1:
            raise ParameterError("each question is asked once", where="epochs", allowed="1")
        said, about = state.output.completion, state.metadata
        (yes,) = read_verdicts([said], [AskedQuestion(about["text"], about["task"])])
        answer = None if yes is None else ("no", "yes")[yes]
        right = CORRECT if answer == target.text else INCORRECT
        return Score(value=right, answer=answer, explanation=said)

    return score


@metric
def context_rates(suite: str, criterion: str) -> Metric:
    """The rates of yes that ``nooch evaluate`` gives, hard and easy, without what is undefined; an
    unknown answer counts as wrong, and ``unknown`` is the largest share of these.
    """
    loaded = as_suite(suite)

    def compute(scores: list[SampleScore]) -> dict[str, float]:
        rows = [
            {"question_id": s.sample_id, **(s.sample_metadata or {}), "answer": s.score.explanation}
            for s in scores
        ]
        with TemporaryDirectory() as folder:
            file = Path(folder) / "answers.parquet"
            file.write_bytes(parquet_bytes(pl.DataFrame(rows)))
            run = answers_as_predictions(read_answers(file, loaded))
        keys = loaded.select_keys([criterion], splits=sorted({row["split"] for row in rows}))
        assert run.said is not None  # noqa: S101 - they are answers
        rates = answer_rates(answers_in(run.said, loaded.cells(keys)), bootstrap=0)
        values = {name: rates.estimates[place].value for name, place in _RATES.items()}
        values["unknown"] = max(rates.unknown.values())
        return {name: value for name, value in values.items() if value is not None}

    return compute
