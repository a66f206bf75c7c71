"""A suite and sources of evidence -> its labels, those first that the sources contradict most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from nooch.base.calls import Count, Progress, checked, no_progress, tracked
from nooch.base.display import DisplayTable, TabularResult
from nooch.base.errors import InputError, ParameterError
from nooch.base.files import check_output, write_folder
from nooch.base.limits import limited_threads
from nooch.base.words import counted
from nooch.criteria import Attribute
from nooch.criteria.context import FOLDS
from nooch.criteria.presences import fold_numbers
from nooch.data import Dataset, load_dataset, parquet_bytes
from nooch.data.objects import BOX
from nooch.data.readers.coco.reader import CocoReading
from nooch.data.readers.contract import read
from nooch.data.readers.image_files import range_text
from nooch.evaluation import Predictions, context_run, read_predictions, run_notes
from nooch.evaluation.captions import finished, mentions, read_captions
from nooch.evaluation.prediction_files import PredictionSource
from nooch.evaluation.predictions import positions
from nooch.evaluation.vocabulary import load_vocabulary
from nooch.report.images.drawn_boxes import DrawnBoxes
from nooch.report.images.sources import Sources
from nooch.report.images.thumbnails import SplitImages, draw_pictures, picture_name
from nooch.report.site.cards import pictures_of
from nooch.report.site.explore_data import script
from nooch.report.site.folder import page_environment, write_assets
from nooch.report.site.site import image_index
from nooch.suites import Suite, as_suite
from nooch.suites.find import find
from nooch.suites.label_overlay import OverlaySource, read_label_overlay
from nooch.suites.questions import read_questions

_SURE = 1e-3
"""A probability below this, or above 1 - this, is taken for it: 0 has no finite log odds."""


def cross_fitted(
    columns: Any, labels: NDArray[np.bool_], folds: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Log odds of presence by logistic regressions, each fitted on the rows of the other folds.

    ``columns``: dense or sparse, (n, k); ``labels``: bool (n,); ``folds``: int64 (n,); negative:
        the only rows fitted on. Returns float64 (n,), NaN where the other folds have only one
        label.
    """
    odds = np.full(len(labels), np.nan)
    for fold in np.unique(folds[folds >= 0]):
        fitted, own = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        if 0 < labels[fitted].sum() < len(fitted):
            # threads would wait for each other most of the time: a step of a regression is short
            with limited_threads(1):
                model = LogisticRegression(max_iter=1000).fit(columns[fitted], labels[fitted])
            odds[own] = model.decision_function(columns[own])
    return odds


def values_of(run: Predictions, task: str, ids: pl.Series) -> NDArray[np.float64]:
    """A run's log odds of presence in images, float64 (n,); NaN if it has none."""
    values = run.outputs(task, ids)
    return values if run.scale == "logit" else logit(np.clip(values, _SURE, 1 - _SURE))


def weighed(
    values: NDArray[np.float64], labels: NDArray[np.bool_], folds: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Log odds of presence from the sources that speak of each label, float64 (n,); else NaN.

    A regression for each set of sources, fitted on the labels that all of them speak of. ``values``
    is (n, n_sources), NaN where a source is silent.
    """
    bits = 1 << np.arange(values.shape[1])
    codes, odds = ~np.isnan(values) @ bits, np.full(len(values), np.nan)
    for code in np.unique(codes[codes > 0]):
        rows = np.flatnonzero(codes & code == code)
        fitted = cross_fitted(values[np.ix_(rows, bits & code > 0)], labels[rows], folds[rows])
        own = codes[rows] == code
        odds[rows[own]] = fitted[own]
    return odds


def boxes_of(
    labels: pl.DataFrame, runs: Sequence[Predictions], data: Dataset | None
) -> list[DrawnBoxes | None]:
    """For each label (``image_id, task``) the objects of the class, and the box of the largest
    score of each run with boxes; None without these, or where the size of the image is not known.
    """
    boxed = [(run, run.boxes) for run in runs if run.boxes is not None]
    drawn: list[DrawnBoxes | None] = [None] * len(labels)
    if data is None or not boxed:
        return drawn
    sizes = labels.join(data.images, on="image_id", maintain_order="left").select("width", "height")
    for number, (image, task, *_) in enumerate(labels.rows()):
        width, height = sizes.row(number)
        if not (width and height):
            continue
        claims = []
        for run, found in boxed:
            at = (run.image_ids.cast(labels["image_id"].dtype, strict=False) == image).to_numpy()
            label = run.tasks.index(task) if task in run.tasks else -1
            own = np.flatnonzero(at[found.boxes.image] & (found.boxes.label == label))
            if len(own):
                box = found.boxes.box[own[found.scores[own].argmax()]]
                claims.append(box * ([width, height] * 2 if found.in_fractions else 1))
        objects = [] if data.objects is None else data.objects.filter(
            pl.col("image_id") == image, pl.col("class").cast(pl.String) == task
        ).select(BOX).rows()  # fmt: skip
        drawn[number] = DrawnBoxes(width, height, objects, false=[box.tolist() for box in claims])
    return drawn


def write_review(
    folder: Path,
    shown: pl.DataFrame,
    boxes: Sequence[DrawnBoxes | None],
    suite: Suite,
    sources: Sources,
    notes: Sequence[str],
) -> None:
    """Write the page with these labels, pictures and scripts. Raises InputError: no such images."""
    audit_task, data = "audit", sources.data
    ids = shown["image_id"].unique(maintain_order=True)
    target = SplitImages(audit_task, ids if data is None else data.images["image_id"], data)
    rows = positions(ids, target.ids).tolist()
    wanted, _ = pictures_of(
        {audit_task: target}, image_index(data, sources.images), {audit_task: rows}
    )
    shown_range = sources.shown_range([one.path for one in wanted])
    made = draw_pictures(wanted, folder, sources.progress, shown_range)
    drawn = {picture.wanted.row: picture.sizes for picture in made}
    wide = {target.ids[picture.wanted.row] for picture in made if picture.wide}
    pictures = {
        image_id: picture_name(audit_task, row, large=drawn[row] == 2)
        for image_id, row in zip(ids, rows, strict=True)
        if drawn.get(row)
    }
    pairs = [
        {
            "image": str(image_id),
            "task": task,
            "label": bool(label),
            "odds": odds,
            "picture": pictures.get(image_id),
            "values": range_text(shown_range) if shown_range and image_id in wide else None,
            "boxes": None if drawn_boxes is None else asdict(drawn_boxes),
        }
        for (image_id, task, label, *odds), drawn_boxes in zip(shown.rows(), boxes, strict=True)
    ]
    about = {"dataset": suite.header.dataset.fingerprint, "sources": shown.columns[4:]}
    (folder / "data").mkdir()
    (folder / "data" / "audit.js").write_bytes(script("audit", {**about, "pairs": pairs}))
    write_assets(folder / "assets")
    template = page_environment().get_template("review.html")
    page = template.render(page="index", pages={"index": "Review"}, suite=suite, notes=notes)
    (folder / "index.html").write_text(page, encoding="utf-8")


def suite_of_questions(
    questions: str | Path, labels: Sequence[str | Path], overlay: OverlaySource
) -> tuple[Suite, Dataset, pl.DataFrame]:
    """All classes in the images that questions are about, as a suite; the dataset, with all other
    images as its training split; and the pairs to audit, ``image_id, task``: those asked about or
    in the overlay. Where the overlay, or the questions, have labels, these stand.
    """
    paths = [Path(path) for path in labels]
    if len(paths) == 1 and paths[0].is_dir():
        data = load_dataset(paths[0])
    else:
        data = read(CocoReading(things=paths))
    asked, _ = read_questions(questions, data, ignore_unknown=True)
    pairs = asked.drop_nulls(["image_id", "task"]).select("image_id", "task").unique()
    if not pairs.height:
        problem = "the questions ask about none of the images and classes of the labels"
        raise InputError(problem, where=questions, remedy="give the annotations of these images")
    of_questions = pl.col("image_id").is_in(pairs["image_id"].implode())
    split = pl.when(of_questions).then(pl.lit("test")).otherwise(pl.lit("train"))
    images = data.images.with_columns(split=split, asked=of_questions)
    data = Dataset.build(images, data.classes, data.areas)
    if not overlay and asked["label"].count() and Path(questions).suffix.lower() != ".parquet":
        overlay = [questions] if Path(questions).is_file() else []
    if overlay:
        stated = read_label_overlay(overlay, data).frame.select("image_id", "task")
        pairs = pl.concat([pairs, stated]).unique()
    suite = find(data, {"asked": Attribute("asked")}, splits=["test"], overlay=overlay)
    return suite, data, pairs


def _audited(
    suite: Any,
    data: Any,
    labels: Sequence[str | Path],
    overlay: OverlaySource,
    questions: str | Path | None,
) -> tuple[Suite, Any, pl.DataFrame | None]:
    """The suite whose labels are audited, its dataset, and the pairs if not all are."""
    if labels and (suite is not None or data is not None or questions is None):
        problem = "`labels` take the place of a suite and its dataset, and need `questions`"
        given = {"suite": suite, "data": data}
        left_out: dict[str, object] = {
            name: None for name, value in given.items() if value is not None
        }
        needed = {"reading": {"questions": ...}} if questions is None else {}
        raise ParameterError(problem, give=left_out | needed)
    if labels:
        return suite_of_questions(str(questions), labels, overlay)
    if overlay:
        problem = "`overlay` has no effect without `labels`"
        raise ParameterError(problem, remedy="{}, or find a suite with it", give={"overlay": None})
    return as_suite(suite), data, None


_PAIR = ("image_id", "task", "label")
_TABLE = "audit.parquet"
MOST = 200
"""Labels on the page, by default."""
_SHOWN = 20


@dataclass(frozen=True, eq=False, repr=False)
class Audit(TabularResult):
    """Labels, the most likely wrong ones first.

    Attributes:
        table: ``image_id, task, label, score``, and a column for each source. All numbers are
            natural log odds against the label: above 0, they contradict it. A source is null if it
            has no evidence; ``score`` is of all together.
        notes: what a reader should know.
    """

    table: pl.DataFrame
    notes: Sequence[str] = ()

    @property
    def display(self) -> DisplayTable:
        """The most contradicted labels."""
        title = f"Audit({counted(len(self.table), 'label')}; {', '.join(self.table.columns[4:])})"
        rows = self.table.head(_SHOWN).rows()
        return DisplayTable(title, self.table.columns, rows, left=2, notes=self.notes)


@checked
def audit(
    suite: Suite | str | Path | None,
    predictions: PredictionSource = None,
    *,
    labels: Sequence[str | Path] = (),
    overlay: OverlaySource = (),
    data: Dataset | str | Path | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    split: str | Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    criterion: Sequence[str] | None = None,
    captions: Sequence[str | Path] = (),
    synonyms: str | Path | None = None,
    most: Count = MOST,
    images: str | Path | None = None,
    range: tuple[float, float] | None = None,
    group: str | None = None,
    reading: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
) -> Audit:
    """Rank labels by how strongly models, captions and the context contradict them.

    Each source is turned into log odds of presence by a logistic regression on the labels
    themselves, fitted on the images of the other folds; another one weighs all sources together,
    so that models that err alike count once, and a source that is silent counts nothing.

    Args:
        suite: whose labels; None with ``labels``.
        predictions: as for ``nooch.evaluate``: outputs, answers in words, or detections, of several
            models. Of detections the page draws each model's best box next to the objects.
        labels: in place of a suite, instances_*.json files of COCO's format or a dataset folder:
            audit the labels of the pairs that the file ``questions`` of ``reading`` asks about, as
            POPE's; all other images give the context.
        overlay: with ``labels``: files with the labels to audit, such as POPE's, if the file of
            questions has none.
        data: the dataset, whose other labels are the context; by default the one that the suite
            records, if it is there.
        out: folder to write: ``audit.parquet``, and ``index.html`` to review labels.
        overwrite: replace an earlier audit.
        split: one or several splits; by default ``test``, or the only one.
        tasks: names of tasks; by default all of the suite.
        criterion: names of criteria; by default all of the suite. An image's label is audited only
            if one of these criteria has a verdict on the image.
        captions: files of captions, as for ``nooch captions``.
        synonyms: words by which captions mention a task: ``coco``, ``names`` (only the task's
            name), or a YAML file; by default ``coco``, and ``names`` for ``nooch-amber``.
        most: maximum number of labels on the page.
        images: folder of images; by default the one that the dataset records, if it exists.
        range: values of black and white in pictures, as for ``nooch.check``.
        group: column, or pattern of file names, of images that count as one, such as ``scene``, and
            are in one fold; by default the suite's.
        reading: how files of predictions are read: keywords of ``nooch.load_predictions``.
        progress: called with what is being done, and how much of how much is done.

    Raises:
        InputError: files that cannot be used, no source, two of one name, labels all alike.
        ParameterError: unknown tasks or splits, another dataset than the suite's.
        OutputError: ``out`` exists (and ``overwrite`` is false) or cannot be written.

    Examples:
        >>> audit = nooch.audit("suite", ["model.csv", "other.csv"])
        >>> audit.table.select("image_id", "task", "label").row(0)
        (829, 'car', 1)
    """
    if out is not None:
        check_output(out, overwrite=overwrite, marker=_TABLE)
    progress("reading labels", 0, 1)
    suite, data, pairs = _audited(suite, data, labels, overlay, (reading or {}).get("questions"))
    suite = suite.grouped(group, data)
    splits = suite.splits_to_score(split)
    keys = suite.select_keys(criterion or (), tasks or (), splits)
    tasks = list(dict.fromkeys(key[1] for key in keys))
    dataset = suite.source_dataset() if data is None else suite.require_dataset(data)
    runs = []
    if predictions is not None:
        runs += read_predictions(predictions, suite, dataset, reading)
    if captions:
        words = load_vocabulary(synonyms or suite.words, suite.tasks)
        said = read_captions(captions, suite, (reading or {}).get("answers"))
        runs += [mentions(finished(one), words, tasks) for one in said]
    notes = suite.unit_notes + run_notes(runs)
    if dataset is not None:
        progress("fitting contexts", 0, 1)
        try:
            grouped = dataset.grouped(suite.header.group or None)
            runs.insert(0, context_run(grouped, tasks, splits))
        except InputError as error:
            notes.append(f"no context: {error.problem}")
        progress("fitting contexts", 1, 1)
    else:
        notes.append(
            "no context: the dataset was not found at its recorded path; give it as `data`"
        )
    table = _ranked(suite, keys, runs, progress)
    if pairs is not None:
        ids = pairs["image_id"].cast(table["image_id"].dtype)
        pairs = pairs.with_columns(ids)
        table = table.join(pairs, on=["image_id", "task"], how="semi", maintain_order="left")
    if out is not None:
        with write_folder(out, overwrite=overwrite, marker=_TABLE) as folder:
            shown = table.head(most)
            boxes = boxes_of(shown, runs, dataset)
            sources = Sources(data=dataset, images=images, range=range, progress=progress)
            write_review(folder, shown, boxes, suite, sources, notes)
            (folder / _TABLE).write_bytes(parquet_bytes(table))
    return Audit(table, notes)


def _ranked(
    suite: Suite,
    keys: Sequence[tuple[str, str, str]],
    runs: Sequence[Predictions],
    progress: Progress,
) -> pl.DataFrame:
    """The table of ``Audit``: the images on which any criterion has a verdict."""
    frames = []
    for task in dict.fromkeys(key[1] for key in keys):
        sets = (suite.set(*key).table for key in keys if key[1] == task)
        rows = pl.concat(frame.select("image_id", "label") for frame in sets).unique("image_id")
        frames.append(rows.sort("image_id").with_columns(task=pl.lit(task)))
    pairs = pl.concat(frames)
    labels, units = pairs["label"].to_numpy() == 1, suite.units(pairs["image_id"])
    folds = fold_numbers(pairs["image_id"] if units is None else pl.Series(units), FOLDS)
    if labels.all() or not labels.any():
        raise InputError(
            "all labels are the same, so no evidence can be weighted", allowed="yes and no"
        )
    names = [run.run for run in runs]
    if not names or len({*names, *_PAIR, "score"}) < len(names) + 4:
        problem = f"the sources of evidence are {', '.join(names) or 'none'}"
        ways = () if names else ({"predictions": ...}, {"captions": ...}, {"data": ...})
        remedy = "give each file of predictions and captions another name" if names else None
        raise InputError(problem, remedy=remedy, give=ways)
    for run in runs:
        of_tasks = [
            values_of(run, frame["task"][0], frame["image_id"]) for frame in frames if len(frame)
        ]
        pairs = pairs.with_columns(pl.Series(run.run, np.concatenate(of_tasks)))
    sources = {"score": names, **{name: [name] for name in names}}
    odds = {
        name: weighed(pairs.select(evidence).to_numpy(), labels, folds)
        for name, evidence in tracked(sources.items(), len(sources), "weighing sources", progress)
    }
    against = [pl.Series(name, np.where(labels, -frame, frame)) for name, frame in odds.items()]
    table = pairs.select(*_PAIR, *against).fill_nan(None)
    order = {"score": True, "task": False, "image_id": False}
    return table.sort(*order, descending=[*order.values()], nulls_last=True)
