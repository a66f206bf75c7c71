"""Is a challenge set worth its name? Failure, discrimination and convergence of its criterion.

After Bell, Bouchacourt and Sagun (2024, arXiv 2409.04188): a challenge set should make models fail
(hard images are harder than easy ones of the same side), tell models apart, and order them as other
criteria of the same thing do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.stats import kendalltau, norm, rankdata

from nooch.base.calls import Progress, Seed, checked, no_progress, tracked
from nooch.base.display import DisplayTable, TabularResult
from nooch.base.errors import InputError
from nooch.base.words import counted
from nooch.data import Dataset
from nooch.data.table_files import write_result
from nooch.evaluation import Predictions, read_predictions, run_notes
from nooch.evaluation.answer_sample import fill_unanswered
from nooch.evaluation.captions import finished, mentions, read_captions
from nooch.evaluation.findings import size_strata
from nooch.evaluation.metrics.pointwise import are_wrong, worst_case
from nooch.evaluation.metrics.proportions import SIGNIFICANT, holm, wilson_of_groups
from nooch.evaluation.metrics.rate_gaps import rate_gap
from nooch.evaluation.prediction_files import PredictionSource
from nooch.evaluation.predictions import positions
from nooch.evaluation.vocabulary import load_vocabulary
from nooch.suites import ChallengeSet, Suite, as_suite

LEAST_MODELS = 6
"""Models below which the agreement of two orders has no interval."""
_RESAMPLES = 1000
_COLUMNS: dict[str, Any] = {
    "criterion": pl.String, "quality": pl.String, "side": pl.String, "of": pl.String,
    "value": pl.Float64, "low": pl.Float64, "high": pl.Float64, "n": pl.Int64, "p": pl.Float64,
}  # fmt: skip


class TableInWords(TabularResult):
    """A table with sentences and notes; ``kind`` is its name in JSON."""

    kind: ClassVar[str]

    def save(self: Any, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the table as ``.parquet``, ``.csv`` or ``.json``. Raises as ``result_files``."""
        write_result(path, self.kind, self.table, self.as_json(), overwrite=overwrite)

    def as_json(self: Any) -> dict[str, Any]:
        """Everything as JSON-like values."""
        rows, sentences = self.table.to_dicts(), self.sentences()
        return {self.kind: rows, "sentences": sentences, "notes": [*self.notes]}


@dataclass(frozen=True, eq=False, repr=False)
class Validity(TableInWords):
    """Evidence that the challenge sets of each criterion are valid.

    Attributes:
        table: ``criterion, quality, side, of, value, low, high, n, p``, with 95% intervals.
            ``failure``: how much more often the model ``of`` errs on hard than on easy images of a
            side, of the same task (and object size, where areas are known), among ``n`` hard
            images. ``discrimination``: the difference of two models' mean errors over tasks and
            sides on ``n`` hard images, with ``p`` corrected over the pairs of the criterion by
            Holm. ``convergence``: Kendall's tau of the order of ``n`` models
            with the order under another criterion; without an interval below ``LEAST_MODELS``.
            ``tenth 1`` to ``tenth 10``: the rate of errors of the model ``of`` on ``n`` images of a
            side, from the tenth with the least support in their task and split to the one with the
            most.
        notes: what a reader should know.
    """

    table: pl.DataFrame
    notes: Sequence[str] = ()
    kind = "validity"

    @property
    def display(self) -> DisplayTable:
        """The numbers, and a sentence for each criterion and quality."""
        rows = self.table.rows()
        notes = [*self.sentences(), *self.notes]
        return DisplayTable("Validity", self.table.columns, rows, left=4, notes=notes)

    def sentences(self) -> list[str]:
        """A sentence for each quality of each criterion."""
        texts = []
        for name in self.table["criterion"].unique(maintain_order=True):
            own = self.table.filter(criterion=name)
            for side, verb in (("positive", "miss more hard positives"),
                               ("negative", "claim more on hard negatives")):  # fmt: skip
                rows = own.filter(quality="failure", side=side).drop_nulls("value")
                if rows.height:
                    worse = rows.filter(pl.col("low") > 0).height
                    span = _span(rows["value"])
                    texts.append(
                        f"{name}: {worse} of {counted(rows.height, 'model')} {verb} ({span})"
                    )
            texts += [f"{name}: {text}" for text in _curves(own)]
            pairs = own.filter(quality="discrimination")
            if pairs.height:
                apart = pairs.filter(pl.col("p") <= SIGNIFICANT).height
                total = counted(pairs.height, "pair")
                text = f"tells {apart} of {total} of models apart on hard images"
                texts.append(f"{name}: {text} (p at most {SIGNIFICANT:.2g}, by Holm)")
            for row in own.filter(quality="convergence").iter_rows(named=True):
                interval = "too few models for an interval"
                if row["low"] is not None:
                    interval = f"[{row['low']:.2f}, {row['high']:.2f}]"
                models = counted(row["n"], "model")
                tau = "undefined" if row["value"] is None else f"{row['value']:.2f}"
                texts.append(
                    f"{name}: orders {models} as {row['of']} does with tau {tau} ({interval})"
                )
        return texts


def _curves(own: pl.DataFrame) -> Iterator[str]:
    """Change of errors with support, and whether it is monotonic."""
    curves = own.filter(pl.col("quality").str.starts_with("tenth")).drop_nulls("value")
    for (side, run), rows in curves.group_by("side", "of", maintain_order=True):
        rates = rows["value"].to_numpy()
        more = side == "negative"
        steps = np.diff(rates) if more else -np.diff(rates)
        expected = "rise" if more else "fall"
        defined = (
            "monotone"
            if (steps >= 0).all()
            else f"{expected} in {(steps >= 0).sum()} of {len(steps)} steps"
        )
        change = ("fall", "stay", "rise")[int(np.sign(rates[-1] - rates[0])) + 1]
        what = f"{'claims' if more else 'misses'} {change}"
        first, last = (f"{100 * rate:.1f}%" for rate in (rates[0], rates[-1]))
        yield f"{what} with support, {first} to {last} ({run}, tenths of images; {defined})"


def _span(values: pl.Series) -> str:
    ordered = values.sort().to_list()
    points = [f"{100 * value:+.1f}" for value in (ordered[0], ordered[-1])]
    return f"{' to '.join(dict.fromkeys(points))} points"


@checked
def validity(
    suite: Suite | str | Path,
    predictions: PredictionSource = (),
    *,
    captions: Sequence[str | Path] = (),
    synonyms: str | Path | None = None,
    data: Dataset | str | Path | None = None,
    split: str | Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    group: str | None = None,
    reading: Mapping[str, Any] | None = None,
    seed: Seed = 0,
    progress: Progress = no_progress,
) -> Validity:
    """Test for each criterion of a suite whether its hard images are hard for models.

    Args:
        suite: with easy images.
        predictions: predictions of several models, as for ``nooch.evaluate``. A question without an
            answer, or with one that is neither yes nor no, counts as wrong, and intervals cover
            every meaning of it. Without a list of questions, a model was asked everything that any
            model of its kind (answers, captions, others) answered.
        captions: files of captions, as for ``nooch captions``: a mention is a yes.
        synonyms: words by which captions mention a task: ``coco``, ``names`` (only the task's
            name), or a YAML file; by default ``coco``, and ``names`` for ``nooch-amber``.
        data: the dataset, whose areas give objects' sizes; by default the one that the suite
            records, if it is there.
        split: one or several splits; by default ``test``, or the only one.
        tasks: names of tasks; by default all of the suite.
        group: column, or pattern of file names, of images that count as one in intervals and tests,
            such as ``scene``; by default the suite's.
        reading: how files of predictions are read: keywords of ``nooch.load_predictions``; for
            captions ``answers``.
        seed: seed of the resamples of images or groups.
        progress: called with what is being done, and how much of how much is done.

    Raises:
        InputError: predictions that cannot be read, only one model, no image that all have.
        ParameterError: an unknown task or split; a suite of only hard images.

    Examples:
        >>> validity = nooch.validity("suite", ["model.csv", "other.csv"])
        >>> validity.sentences()[0]
        'ce: 2 of 2 models miss more hard positives (+11.5 to +47.6 points)'
    """
    suite = as_suite(suite, group, data)
    suite.require_easy("comparing hard with easy images")
    dataset = suite.source_dataset() if data is None else suite.require_dataset(data)
    keys = suite.select_keys((), tasks or (), suite.splits_to_score(split))
    runs = read_predictions(predictions, suite, dataset, reading) if predictions else []
    notes = []
    if captions:
        synonyms, task_names = synonyms or suite.words, list(dict.fromkeys(key[1] for key in keys))
        words = load_vocabulary(synonyms, suite.tasks)
        read = read_captions(captions, suite, (reading or {}).get("answers"))
        runs += fill_unanswered([mentions(finished(one), words, task_names) for one in read])
        notes = [f"{one.run}: {note}" for one in read for note in one.notes]
        notes.append(f"captions mention a task by the words of {synonyms} (`synonyms`)")
    if len(runs) < 2:
        problem = f"there is {counted(len(runs), 'model')}"
        raise InputError(problem, where="predictions", allowed="at least two models to compare")
    every = suite.image_ids(list(keys))
    rows: list[dict[str, Any]] = []
    orders: dict[str, _Images] = {}
    names = [name for name in suite.criteria if any(key[0] == name for key in keys)]
    for name in tracked(names, len(names), "comparing models, criteria", progress):
        own = [key for key in keys if key[0] == name]
        images = _Images.from_sets(suite, own, every, runs, dataset)
        if len(images.wrong):
            orders[name] = images
            rows += [{"criterion": name, **row} for row in images.failure(runs)]
            rows += [{"criterion": name, **row} for row in images.discrimination(runs)]
            rows += [{"criterion": name, **row} for row in images.curve(runs)]
    if not orders:
        raise InputError("no image has predictions of all models", where="predictions")
    for a, b in combinations(orders, 2):
        row = _convergence(orders[a], orders[b], len(runs), seed)
        rows += [{"criterion": one, "of": other, **row} for one, other in ((a, b), (b, a))]
    table = pl.DataFrame(rows, schema=_COLUMNS).with_columns(pl.col(pl.Float64).fill_nan(None))
    order = pl.col("criterion").replace_strict({n: k for k, n in enumerate(orders)})
    notes = [*suite.unit_notes, *notes, *run_notes(runs)]
    return Validity(table.sort(order, maintain_order=True), notes)


@dataclass(frozen=True, eq=False)
class _Images:
    """Pairs of image and task of a criterion that all models were asked about.

    Attributes:
        unit: position of the image among all of them, or number of its group, intp (n,).
        grouped: whether images are in groups.
        task: number of the task, intp (n,).
        positive: bool (n,).
        hard: bool (n,).
        size: stratum of the object's size, intp (n,); 0 if it is unknown.
        tenth: of support in the task's side and split, 1 to 10, intp (n,); 0 without support.
        wrong: bool (n, n_runs), also what is unknown.
        unknown: bool (n, n_runs), what has no answer that can be read.
    """

    grouped: bool
    unit: NDArray[np.intp]
    task: NDArray[np.intp]
    positive: NDArray[np.bool_]
    hard: NDArray[np.bool_]
    size: NDArray[np.intp]
    tenth: NDArray[np.intp]
    wrong: NDArray[np.bool_]
    unknown: NDArray[np.bool_]

    @classmethod
    def from_sets(
        cls,
        suite: Suite,
        keys: Sequence[tuple[str, str, str]],
        every: pl.Series,
        runs: Sequence[Predictions],
        data: Dataset | None,
    ) -> _Images:
        """Images of some challenge sets; positions refer to ``every``."""
        parts: list[tuple[NDArray[Any], ...]] = []
        units = suite.units(every)
        unit = np.arange(len(every)) if units is None else units
        numbers = {task: number for number, task in enumerate(dict.fromkeys(k[1] for k in keys))}
        for key in keys:
            challenge, task = suite.set(*key), key[1]
            values = np.stack([run.outputs(task, challenge.image_ids) for run in runs], axis=1)
            unknown, plain = np.isnan(values), np.array([run.weights is None for run in runs])
            asked = np.stack([run.was_asked(task, challenge.image_ids) for run in runs], axis=1)
            # without any image of all models, they were not asked about the same
            alike = asked.all(axis=1).any()
            complete = alike & asked[:, ~plain].all(axis=1)
            complete &= asked[:, plain].any(axis=1) | ~plain.any()
            sizes = size_strata(data, challenge)
            said = zip(runs, values.T, strict=True)
            wrongs = [are_wrong(challenge.labels, outputs, run.scale) for run, outputs in said]
            wrong = np.stack(wrongs, axis=1)
            n, zeros = len(challenge), np.zeros(len(challenge), np.intp)
            columns = (
                unit[positions(challenge.image_ids, every)], np.full(n, numbers[task]),
                challenge.labels, challenge.hard, zeros if sizes is None else sizes,
                _tenths(challenge), wrong, unknown,
            )  # fmt: skip
            parts.append(tuple(column[complete] for column in columns))
        columns_of_all = (np.concatenate(column) for column in zip(*parts, strict=True))
        return cls(units is not None, *columns_of_all)

    def failure(self, runs: Sequence[Predictions]) -> Iterator[dict[str, Any]]:
        """Increase in each model's error rate on hard images of a side."""
        strata = self.task * 8 + np.where(self.positive, self.size, 0)
        for side, rows in (("positive", self.positive), ("negative", ~self.positive)):
            for number, run in enumerate(runs):
                units = self.unit[rows] if self.grouped else None
                wrong, unknown = self.wrong[rows, number], self.unknown[rows, number]
                hard = self.hard[rows]
                # unknown answers as they are counted, and as the least and the most of the effect
                ends = [worst_case(wrong, unknown, side) for side in (~hard, hard)]
                meant = [wrong, *(ends if unknown.any() else ())]
                gaps = [rate_gap(errors, hard, strata[rows], units) for errors in meant]
                yield {
                    "quality": "failure", "side": side, "of": run.run, "value": gaps[0].effect,
                    "low": min(gap.low for gap in gaps), "high": max(gap.high for gap in gaps),
                    "n": gaps[0].n_with,
                }  # fmt: skip

    def curve(self, runs: Sequence[Predictions]) -> Iterator[dict[str, Any]]:
        """Each model's rate of errors by tenths of support."""
        for side, of_side in (("positive", self.positive), ("negative", ~self.positive)):
            for number, run in enumerate(runs):
                for tenth in range(1, 11 if self.tenth.any() else 1):
                    rows = of_side & (self.tenth == tenth)
                    wrong = self.wrong[rows, number]
                    surely = wrong & ~self.unknown[rows, number]
                    units = self.unit[rows] if self.grouped else None
                    (low, _), (_, high) = (wilson_of_groups(of, units) for of in (surely, wrong))
                    yield {
                        "quality": f"tenth {tenth}", "side": side, "of": run.run, "n": len(wrong),
                        "value": float(wrong.mean()) if len(wrong) else np.nan,
                        "low": low, "high": high,
                    }  # fmt: skip

    def _cells(self) -> tuple[NDArray[np.intp], NDArray[np.float64], int]:
        """Hard images: their rows, each one's weight in the mean over cells (task and side), and
        the number of cells.
        """
        rows = np.flatnonzero(self.hard)
        _, cell, sizes = np.unique(
            2 * self.task[rows] + self.positive[rows], return_inverse=True, return_counts=True
        )
        return rows, 1 / sizes[cell] / max(1, len(sizes)), len(sizes)

    def discrimination(self, runs: Sequence[Predictions]) -> Iterator[dict[str, Any]]:
        """Differences of the models' mean errors on hard images, clustered by image or group, with
        p-values corrected over the pairs of models by Holm.
        """
        rows, weight, _ = self._cells()
        reach, tested = norm.ppf(0.975), list[dict[str, Any]]()
        cell = 2 * self.task[rows] + self.positive[rows]
        wrong = self.wrong[rows].astype(np.float64)
        surely = wrong * ~self.unknown[rows]

        def summed(apart: NDArray[np.float64]) -> tuple[float, float]:
            """The mean difference over cells, and its standard error."""
            means = np.bincount(cell, apart) / np.maximum(np.bincount(cell), 1)
            scores = np.bincount(self.unit[rows], weight * (apart - means[cell]))
            return float((weight * apart).sum()), float(np.sqrt((scores**2).sum()))

        for a, b in combinations(range(len(runs)), 2):
            value, _ = summed(wrong[:, a] - wrong[:, b])
            # the least and the most that unknown answers leave open
            least, error = summed(surely[:, a] - wrong[:, b])
            most, other = summed(wrong[:, a] - surely[:, b])
            errs = min(error, other) > 0
            distance = max(least / error, -most / other, 0.0) if errs else 0.0
            tested.append({
                "quality": "discrimination", "side": None, "of": f"{runs[a].run} - {runs[b].run}",
                "value": value, "low": least - reach * error if errs else None,
                "high": most + reach * other if errs else None, "n": len(rows),
                "p": 2 * float(norm.sf(distance)),
            })  # fmt: skip
        for row, p in zip(tested, holm(np.array([row["p"] for row in tested])), strict=True):
            yield row | {"p": float(p)}

    def errors(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean errors over cells, float64 (n_resamples, n_runs); weights (n_resamples, n)."""
        rows, _, n_cells = self._cells()
        _, cell = np.unique(2 * self.task[rows] + self.positive[rows], return_inverse=True)
        n_images = weights.shape[1]

        def summed(values: NDArray[np.float64]) -> NDArray[np.float64]:
            of_images = csr_array((values, (self.unit[rows], cell)), shape=(n_images, n_cells))
            return np.asarray(weights @ of_images)

        n = summed(np.ones(len(rows)))
        with np.errstate(invalid="ignore"):
            shares = [summed(wrongs.astype(np.float64)) / n for wrongs in self.wrong[rows].T]
        return np.stack([np.nanmean(share, axis=1) for share in shares], axis=1)


def _tenths(challenge: ChallengeSet) -> NDArray[np.intp]:
    """In which tenth of its side each image's support is, 1 to 10, equal ones in the same; or 0."""
    tenths = np.zeros(len(challenge), np.intp)
    for side in (challenge.labels, ~challenge.labels):
        if challenge.support is not None and side.any():
            ranks = rankdata(challenge.support[side]) - 0.5
            tenths[side] = 1 + np.floor(10 * ranks / side.sum())
    return tenths


def _convergence(a: _Images, b: _Images, n_runs: int, seed: int) -> dict[str, Any]:
    """Agreement of two criteria on the order of models by errors on hard images."""
    n = 1 + max(int(images.unit.max(initial=0)) for images in (a, b))
    resamples = _RESAMPLES if n_runs >= LEAST_MODELS else 0
    random = np.random.default_rng(seed)
    weights = np.concatenate(
        [np.ones((1, n)), random.multinomial(n, np.full(n, 1 / n), size=resamples)]
    )
    errors = [images.errors(weights) for images in (a, b)]
    taus = np.array([kendalltau(x, y).statistic for x, y in zip(*errors, strict=True)])
    low, high = (None, None)
    if resamples and np.isfinite(taus[1:]).any():
        low, high = np.nanpercentile(taus[1:], [2.5, 97.5]).tolist()
    return {
        "quality": "convergence", "side": None, "value": float(taus[0]), "low": low, "high": high,
        "n": n_runs,
    }  # fmt: skip
