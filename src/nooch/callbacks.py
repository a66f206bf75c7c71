"""Hard and easy scores after each epoch: for the Trainer of Hugging Face, and for Lightning.

Trainer(..., compute_metrics=nooch.callbacks.HuggingFace("suite", "car"))
lightning.Trainer(callbacks=[nooch.callbacks.Lightning("suite", "car")])
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from nooch.base.errors import MissingExtraError, ParameterError, UndefinedError
from nooch.data.arrays import float_array
from nooch.evaluation import AVERAGE, Predictions, evaluate
from nooch.evaluation.averages import WORST_HARD, with_worst_hard
from nooch.suites import Suite, as_suite

__all__ = ["EpochScores", "HuggingFace", "Lightning"]

_SIDES = ["hard_positive", "hard_negative", "easy_positive", "easy_negative", WORST_HARD]
_LOGGED = pl.DataFrame(
    {"metric": ["auc"] * 2 + ["nll"] * len(_SIDES), "subset": ["hard", "easy", *_SIDES]}
)


class EpochScores:
    """``auc_hard``, ``auc_easy``, the mean loss ``nll_hard_positive``, the same for the other three
    cells, and ``worst_hard``, the larger of both hard ones; means over tasks that have them all.

    Args:
        suite: the suite, or its folder.
        tasks: of the outputs, in order; by default the suite's.
        image_ids: of the images, in the order of the outputs; by default all of the suite's sets in
            ascending order.
        split: of the suite.
        criterion: of the suite; by default its first.

    Raises:
        ParameterError: no such task, split or criterion, or no such set.
        UndefinedError: no task has hard positives and hard negatives.
    """

    def __init__(
        self,
        suite: Suite | str | Path,
        tasks: str | Sequence[str] | None = None,
        *,
        image_ids: Any = None,
        split: str = "valid",
        criterion: str | None = None,
    ) -> None:
        self._suite = as_suite(suite)
        self._tasks = [tasks] if isinstance(tasks, str) else list(tasks or self._suite.tasks)
        criteria = [criterion or self._suite.criteria[0]]
        self._how: dict[str, Any] = {
            "split": split, "criteria": criteria, "metrics": ["auc", "nll"],
        }  # fmt: skip
        keys = self._suite.select_keys(criteria, self._tasks, [split])
        if not any(min(self._suite.record(*key).cells[:2]) for key in keys):
            raise UndefinedError(
                f"no task has both hard positives and hard negatives in split {split}",
                give=({"criterion": ...}, {"split": ...}),
            )
        self._ids = self._suite.image_ids(keys) if image_ids is None else image_ids

    def scores(self, logits: Any, labels: Any = None) -> dict[str, float]:
        """Scores by name of logits (n_images, n_tasks), for one task also (n_images,), or
        (n_images, 2) of a softmax over absent and present. If any value is not finite, only
        ``worst_hard``, which is then infinite. Labels of as many numbers must be the suite's.

        Raises InputError: another shape, other images, or images in another order than the suite's.
        """
        values = float_array(logits)
        if len(self._tasks) == 1 and values.shape[1:] == (2,):
            values = values[:, 1] - values[:, 0]
        if not np.isfinite(values).all():
            return {WORST_HARD: math.inf}
        predictions = Predictions.from_arrays(values, self._ids, self._tasks, scale="logit")
        if getattr(labels, "size", 0) == predictions.values.size:
            given = labels.reshape(len(values), -1).T.astype(np.int8)
            predictions = replace(predictions, labels=given)
        table = evaluate(self._suite, predictions, **self._how).table
        of_tasks = table.filter(pl.col("cue").is_null(), pl.col("task") != AVERAGE)
        rows = _LOGGED.join(with_worst_hard(of_tasks), on=["metric", "subset"])
        complete = rows.filter((pl.col("value").null_count() == 0).over("task"))
        rows = rows.drop_nulls("value") if complete.is_empty() else complete
        means = rows.group_by("metric", "subset", maintain_order=True).agg(pl.col("value").mean())
        return {
            subset if subset == WORST_HARD else f"{metric}_{subset}": value
            for metric, subset, value in means.rows()
        }


class HuggingFace(EpochScores):
    """``compute_metrics`` of the Trainer of Hugging Face; the arguments are ``EpochScores``'s.

    The Trainer evaluates its ``eval_dataset`` (``eval_strategy="epoch"``), logs the scores with its
    own as ``eval_auc_hard``, and keeps the best with ``load_best_model_at_end=True``,
    ``metric_for_best_model="worst_hard"`` and ``greater_is_better=False``.
    """

    def __call__(self, evaluation: Any) -> dict[str, float]:
        """Scores of an ``EvalPrediction``; of several outputs the first is the logits."""
        outputs = evaluation.predictions
        first = outputs[0] if isinstance(outputs, tuple) else outputs
        return self.scores(first, evaluation.label_ids)


class Lightning(EpochScores):
    """A callback of Lightning; the arguments are ``EpochScores``'s.

    It logs ``val_auc_hard``, ``val_worst_hard`` and the others by ``log_dict``, for any logger and
    ``ModelCheckpoint(monitor="val_worst_hard")``. ``validation_step`` returns logits, or a dict
    with ``logits``; the first validation loader gives the suite's images in order, in one process.
    Sanity checks and ``fast_dev_run``, of a few batches, are not scored.

    Raises:
        MissingExtraError: Lightning is not installed.
    """

    _logits: list[Any]

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """An instance that is also a ``Callback`` of Lightning, which is imported only here."""
        kind: Any = cls
        made: Self = super().__new__(_as_callback(kind))
        made._logits = []
        return made

    def on_validation_batch_end(
        self,
        trainer: Any,  # noqa: ARG002 - of Lightning, as the other three are
        pl_module: Any,  # noqa: ARG002
        outputs: Any,
        batch: Any,  # noqa: ARG002
        batch_idx: int,  # noqa: ARG002
        dataloader_idx: int = 0,
    ) -> None:
        """Keep the logits of a batch of the first validation loader."""
        logits = outputs.get("logits") if isinstance(outputs, Mapping) else outputs
        if logits is None or logits.ndim == 0:
            remedy = 'return {"loss": loss, "logits": logits}'
            raise ParameterError("returns no logits", where="`validation_step`", remedy=remedy)
        if dataloader_idx == 0:
            self._logits.append(logits.detach().float().cpu().numpy())

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Score the logits and log the scores."""
        logits = np.concatenate(self._logits)
        self._logits.clear()
        if trainer.world_size > 1:
            problem = f"{trainer.world_size} processes have a part of the images each"
            raise ParameterError(problem, where="nooch.callbacks.Lightning", allowed="one process")
        if not (trainer.sanity_checking or trainer.fast_dev_run):
            scores = self.scores(logits)
            pl_module.log_dict({f"val_{name}": value for name, value in scores.items()})


@cache
def _as_callback(kind: Any) -> Any:
    """The class, also a subclass of Lightning's ``Callback``."""
    try:
        from lightning.pytorch.callbacks import Callback
    except ImportError as error:
        raise MissingExtraError("lightning", "lightning", "a callback of Lightning") from error
    if issubclass(kind, Callback):
        return kind
    return type(kind.__name__, (kind, Callback), {"__module__": kind.__module__})
