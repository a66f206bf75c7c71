"""A folder that ``datasets.load_dataset`` reads: Parquet files and a card."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import yaml

from nooch.base.display import parameters_text
from nooch.base.words import counted
from nooch.data import ALL
from nooch.inference.endpoint import image_url
from nooch.report.exports.benchmark import CELL_TEXTS, CONFIG, FILE, eval_yaml
from nooch.report.exports.contract import (
    ANSWER,
    LICENSES,
    Content,
    Exported,
    Key,
    Names,
    asked,
    licenses_text,
    one_line,
    safe_name,
    table_of,
    write_export,
    write_questions,
    written,
)
from nooch.suites.questions import Draw, Questions, main_criterion

PAPER = (
    "Madras and Zemel, Identifying and Benchmarking Natural Out-of-Context Prediction Problems,"
    " NeurIPS 2021"
)

COLUMNS = {
    "image_id": "id of the image in its dataset",
    "file_name": (
        "name of the image file, relative to the folder of images, which is not part of this export"
    ),
    "task": "the class that is asked for",
    "label": "1 where the class is present in the image",
    "subset": (
        "hard_positive: present without its usual context; hard_negative: absent in spite of it;"
        " easy: neither"
    ),
    "support": (
        "context support of the image for the task, larger for a more usual context; null if"
        " there is none"
    ),
}
"""Descriptions of the columns."""
_ASKED = {name: COLUMNS[name] for name in ("image_id", "file_name", "task")} | {
    "question_id": "number of the question",
    "split": "split of the image",
    "question": "whether an object of the task is in the image",
    "answer": "yes or no",
    "weight": "the images of the challenge sets that the question stands for",
    "image": "the image file, as a data URI",
}
_NAME = "Out-of-context challenge sets"
_AT_ONCE = 64
"""Questions whose images are in memory at a time."""


@dataclass(frozen=True)
class ParquetPart:
    """The rows of a criterion and a split.

    Attributes:
        criterion: its name in the suite; ``split`` is a name as well.
        config: the criterion's name made safe: configuration and folder; ``name`` is what the split
            is called there.
        path: relative to the export's folder; ``rows`` and names of ``columns`` are the file's.
    """

    criterion: str
    split: str
    config: str
    name: str
    path: str
    rows: int
    columns: list[str]


_WHAT = (
    "Images whose context misleads: for each task (is this class present?) the images that have the"
    " class without its usual context, and those that have the context without the class."
)

_SIZES = {10**3: "n<1K", 10**4: "1K<n<10K", 10**5: "10K<n<100K", 10**6: "100K<n<1M"}
_SIZES |= {10**7: "1M<n<10M"}


def card(
    content: Content, files: Sequence[ParquetPart], questions: Mapping[str, int] | None = None
) -> str:
    """The text of ``README.md``; ``questions`` of each cell, if they are there."""
    # names and addresses are recorded, often several: no identifier of the hub would be true
    terms = {"license": "unknown"}
    if content.licenses:
        terms = {"license": "other", "license_name": "see-licenses-txt"}
        terms["license_link"] = LICENSES
    rows = sum(part.rows for part in files)
    configs: dict[str, list[dict[str, str]]] = {}
    for part in files:
        configs.setdefault(part.config, []).append({"split": part.name, "path": part.path})
    if questions:
        configs[CONFIG] = [{"split": c, "path": f"data/{CONFIG}/{c}.parquet"} for c in questions]
    kinds = ["image-classification", *(["visual-question-answering"] if questions else [])]
    front = {
        **terms,
        "pretty_name": _NAME,
        "task_categories": kinds,
        "size_categories": [next((n for most, n in _SIZES.items() if rows < most), "10M<n<100M")],
        "tags": ["robustness", "out-of-context", "nooch"],
        "configs": [{"config_name": name, "data_files": path} for name, path in configs.items()],
    }
    body = _body(content, files, questions or {})
    return f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n\n{body}"


def markdown(text: object) -> str:
    """Text on one line, escaped so that Markdown and HTML show it as it is."""
    inline = re.sub(r"([\\`*_{}\[\]()<>#!|~&$^])", r"\\\1", one_line(text))
    # at the beginning these would make a list or a heading
    return re.sub(r"^(\d*)([-+.=])", r"\1\\\2", inline)


def _body(content: Content, files: Sequence[ParquetPart], questions: Mapping[str, int]) -> str:
    record = content.suite.header.dataset
    fingerprint = markdown(record.fingerprint)
    here = "Only ids, labels and marks are here, no image."
    if questions:
        here = f"Here are ids, labels and marks, and images only in `{CONFIG}`."
    chapters = [
        f"# {_NAME}",
        f"{_WHAT} {here}",
        f"A suite over {record.n_images:,} images (dataset {fingerprint}), after {PAPER}.",
        "## Criteria",
        _table(["criterion", "configuration", "kind", "parameters"], _criteria(content, files)),
        "## Sizes",
        _table(
            ["configuration", "split", "tasks", "rows", "hard positives", "hard negatives"],
            _counts(content, files),
        ),
        "## Columns",
        "\n".join(f"- `{name}`: {COLUMNS[name]}" for name in files[0].columns),
        *_about_questions(content, questions),
        "## Licenses",
        "\n".join(
            f"- {markdown(line[2:])}" if line.startswith("- ") else line
            for line in licenses_text(content.licenses).splitlines()
        ),
    ]
    return "\n\n".join(chapters) + "\n"


def _about_questions(content: Content, questions: Mapping[str, int]) -> list[str]:
    if not questions:
        return []
    criterion = markdown(main_criterion(content.criteria))
    rows = [[cell, CELL_TEXTS[cell], n] for cell, n in questions.items()]
    return [
        "## Questions",
        f"Of `{CONFIG}`, by {criterion}, which `eval.yaml` asks for with Inspect AI.",
        _table(["split", "right answer", "questions"], rows),
        "\n".join(f"- `{name}`: {text}" for name, text in _ASKED.items()),
    ]


def _criteria(content: Content, files: Sequence[ParquetPart]) -> list[list[object]]:
    configs = {part.criterion: part.config for part in files}
    rows: list[list[object]] = []
    for name, config in configs.items():
        record = content.suite.header.criteria[name]
        about = [parameters_text(record.parameters)] if record.parameters else []
        about += [f"counts matched to {record.match}"] if record.match else []
        about += [record.expression] if record.expression else []
        rows.append([name, config, record.kind, "; ".join(about)])
    return rows


def _counts(content: Content, files: Sequence[ParquetPart]) -> list[list[object]]:
    rows: list[list[object]] = []
    for part in files:
        keys = [key for key in content.keys if (key[0], key[2]) == (part.criterion, part.split)]
        records = [content.suite.record(*key) for key in keys]
        hard = [sum(r.hard_positives for r in records), sum(r.hard_negatives for r in records)]
        rows.append([part.config, part.name, len(records), part.rows, *hard])
    return rows


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(markdown(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def export_hf(
    content: Content,
    out: str | Path,
    *,
    overwrite: bool = False,
    image_questions: Draw | None = None,
    images: str | Path | None = None,
) -> Exported:
    """Write ``data/{criterion}/{split}.parquet`` and ``README.md`` (the card).

    A table has ``image_id, file_name, task, label, subset, support``, a row for each image of each
    task; ``file_name`` only where the dataset is there and names files. Each criterion is a
    configuration of its own: ``load_dataset(OUT, "ce", split="test")``. The split ``all`` is called
    ``full``, since ``all`` is taken there.

    With the folder of ``images``, also ``eval.yaml``, which makes it a benchmark of the Hub, its
    questions with their images as the configuration ``questions``, a split for each of ``CELLS``
    under ``context`` or else the first criterion, and ``questions.parquet``.
    """
    table = None if images is None else asked(content, image_questions, images)

    def fill(folder: Path) -> list[str]:
        names = Names()
        parts = []
        for criterion in content.criteria:
            config = names.take(safe_name(criterion), criterion)
            (folder / "data" / config).mkdir(parents=True)
            for split in content.splits:
                keys = [key for key in content.keys if (key[0], key[2]) == (criterion, split)]
                parts += [_part(content, folder, config, keys)] if keys else []
        counts, notes = None, ["no eval.yaml, as a benchmark of the Hub has; `images` adds it"]
        if table is not None and images is not None:
            names.take(CONFIG, "the questions")
            counts, notes = _questions(content, table, Path(images), folder)
        (folder / "README.md").write_text(card(content, parts, counts), encoding="utf-8")
        return notes

    return write_export(content, "hf", out, fill, overwrite=overwrite)


def _questions(
    content: Content, table: Questions, images: Path, folder: Path
) -> tuple[dict[str, int], list[str]]:
    """Write ``eval.yaml`` and questions; how many each cell has, and notes."""
    criterion, counts = main_criterion(table.criteria), dict[str, int]()
    notes = write_questions(content, table, folder)
    (folder / "data" / CONFIG).mkdir()
    columns = table.frame.rename({"text": "question", "image": "file_name"})
    columns = columns.with_columns(answer=ANSWER)
    equal = True
    for cell in CELL_TEXTS:
        rows = columns.filter(pl.col(criterion) == cell)
        frames = _with_images(rows, images)
        n = sum(f.height for f in written(frames, folder / "data" / CONFIG / f"{cell}.parquet"))
        counts |= {cell: n} if n else {}
        equal &= rows["weight"].n_unique() <= 1
    if left := len(table) - sum(counts.values()):
        notes.append(f"{counted(left, 'question')} without a verdict of {criterion}: in no task")
    if not equal:
        way = "" if content.suite.sample_weights is not None else ", unless `per_set` is all"
        notes.append(f"Inspect AI counts questions alike, nooch by their weights{way}")
    text = eval_yaml(_NAME, criterion, content.splits, counts)
    (folder / FILE).write_text(text, encoding="utf-8")
    return counts, notes


def _with_images(rows: pl.DataFrame, images: Path) -> Iterator[pl.DataFrame]:
    """Questions with ``image``, an image read once for the questions about it that are next."""
    for part in rows.iter_slices(_AT_ONCE):
        names = part["file_name"].unique(maintain_order=True)
        uris = [image_url(images / name, None) for name in names]
        image = pl.col("file_name").replace_strict(names, uris, return_dtype=pl.String)
        shown = part.with_columns(image=image)
        yield shown.select(*_ASKED)


def _part(content: Content, folder: Path, config: str, keys: Sequence[Key]) -> ParquetPart:
    """One file of a criterion and split, so that one set is in memory at a time."""
    criterion, _, split = keys[0]
    name = "full" if split == ALL else split
    path = f"data/{config}/{name}.parquet"
    rows, columns = 0, list[str]()
    for frame in written(_frames(content, keys), folder / path):
        rows += frame.height
        columns = frame.columns
    return ParquetPart(criterion, split, config, name, path, rows, columns)


def _frames(content: Content, keys: Sequence[Key]) -> Iterator[pl.DataFrame]:
    data = content.data
    has_names = data is not None and data.images["file_name"].null_count() < len(data)
    for challenge in (content.suite.set(*key) for key in keys):
        rows = table_of(challenge)
        if data is not None and has_names:
            names = data.images.select("image_id", "file_name")
            rows = rows.join(names, on="image_id", how="left", maintain_order="left")
            rows = rows.select("image_id", "file_name", pl.exclude("image_id", "file_name"))
        yield rows
