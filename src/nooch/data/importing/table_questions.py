"""Questions about a table: what its columns leave open is refused, with each reading, the keyword
for it, and what it gives.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NoReturn

import polars as pl

from nooch.base.errors import Give, InputError, some_of
from nooch.base.words import counted, counted_are
from nooch.data.readers.table_layouts import YES_NO, texts_of
from nooch.data.splits import SPLIT_NAMES


def pair_of(column: pl.Series) -> tuple[str, str] | None:
    """The pair of values, such as no and yes, that the cells of a column are, blanks left out."""
    texts = texts_of(column)
    return next((pair for pair in YES_NO if texts and texts <= set(pair)), None)


def columns_seen(table: pl.DataFrame) -> str:
    """Columns, each with a few of its values."""
    nested = {name for name, kind in table.schema.items() if kind.is_nested()}
    values = (
        "lists or objects"
        if name in nested
        else some_of(table[name].drop_nulls().unique().sort().head(3))
        for name in table.columns
    )
    shown = [f"{name} ({some})" for name, some in zip(table.columns, values, strict=True)]
    return some_of(shown, 12)


Reading = tuple[str, Give]
"""Contents of a table under one reading, and the parameters that choose this reading."""


def question(problem: str, where: object, *readings: Reading) -> InputError:
    """The error for what can be read in several ways."""
    remedy = "; ".join(f"{{}} for {gets}" if give else gets for gets, give in readings)
    ways = [give for _, give in readings if give]
    return InputError(problem, where=where, remedy=remedy, give=ways)


def _labels(names: Sequence[str], attributes: Sequence[str] = ()) -> Reading:
    """A reading: these columns are labels, those are attributes."""
    gets = counted(len(names), "class")
    gets += f", and {_as_attributes(attributes)}" if attributes else ""
    return gets, {"label": [*names]}


def _as_attributes(names: Sequence[str]) -> str:
    return f"{some_of(names)} as {'attributes' if len(names) > 1 else 'an attribute'}"


_MARKS = ("x", "v", "*", "+", "✓", "✔", "present", "positive")
"""Texts, in small letters, that mark what is present in a column of nothing else and blanks."""


def is_mark(text: str, name: str) -> bool:
    """True for a text that can mark what is present in the column of that name."""
    return text.strip().lower() in {*_MARKS, name.strip().lower()}


_NO_OTHER: Reading = "otherwise fill in a label in every row", {}


def ask_blank(
    table: pl.DataFrame, blank: Sequence[str], others: Sequence[str], where: object
) -> NoReturn:
    """Refuse columns with blanks, next to ``others`` without."""
    n = sum(table[name].null_count() for name in blank)
    classes = counted(len(blank) + len(others), "class")
    raise question(
        f"{counted_are(n, 'cell')} blank in {some_of(blank)}: absent, or not annotated?",
        where,
        (f"{classes}, absent where the cell is blank", {"blank_is_no": True}),
        _labels(others, blank) if others else _NO_OTHER,
    )


_UNSURE = {
    "", "na", "n/a", "nan", "null", "none", "?", "-", "unknown", "unsure", "uncertain", "unclear",
    "maybe",
}  # fmt: skip
"""Texts, in small letters, of a cell that is neither yes nor no."""


def ask_unsure(
    table: pl.DataFrame, others: Sequence[str], labels: Sequence[str], where: object
) -> None:
    """Refuse columns of yes, no and what is neither; 1, 0 and -1 are such."""
    positive, words = dict[str, str](), set[str]()
    for name in others:
        texts = texts_of(table[name])
        sure = {text for text in texts if text.strip() not in _UNSURE}
        sure -= {"-1"} if {"0", "1"} <= sure else set()
        yes = [pair[1] for pair in YES_NO if pair[1] in sure and sure <= {*pair}]
        yes += [text for text in sure if len(sure) == 1 and is_mark(text, name)]
        if yes and texts != sure:
            cells = table[name].cast(pl.Int64) if table[name].dtype.is_float() else table[name]
            spelled = cells.cast(pl.String).drop_nulls().unique().sort()
            positive[name] = spelled.filter(spelled.str.to_lowercase() == yes[0])[0]
            words |= {repr(text) if text.strip() != text else text or "''" for text in texts - sure}
    if not positive:
        return
    give: dict[str, object] = {"positive": positive}
    full = [name for name in labels if not table[name].null_count()]
    if len(full) < len(labels) or any(table[name].null_count() for name in positive):
        give |= {"blank_is_no": True}
    raise question(
        f"{some_of(positive)} {'has' if len(positive) == 1 else 'have'} {some_of(sorted(words))}"
        " next to yes and no: absent, or not annotated?",
        where,
        (f"{counted(len(labels) + len(positive), 'class')}, absent in all other cells", give),
        _labels(full, [name for name in (*labels, *positive) if name not in full])
        if full
        else _NO_OTHER,
    )


TARGETS = ("y", "label", "labels", "target", "gt", "ground_truth")
"""Names of the one column of labels of a table."""
_RECORDS = {
    "train", "training", "test", "testing", "val", "valid", "validation", "holdout", "flip",
    "flipped", "augmented", "synthetic", "reviewed", "verified", "validated", "checked",
    "confirmed", "approved", "done", "duplicate", "corrupt", "corrupted", "broken", "blurry",
    "blurred", "grayscale", "difficult", "truncated", "occluded", "crowd", "iscrowd", "ignore",
    "ignored", "exclude", "excluded", "usable", "flagged", "gold",
}  # fmt: skip
"""Words of columns that record something about an image, its file or its annotation."""


_FACTS = {
    "site", "hospital", "center", "scanner", "camera", "device", "vendor", "manufacturer", "sex",
    "gender", "age", "place", "location", "country", "city", "region", "view", "weather", "season",
    "time", "day", "year", "source", "patient", "person", "scene", "sequence", "video",
}  # fmt: skip
"""Words of columns about an image: its place, time, person, device."""


def is_fact(name: str) -> bool:
    """True for the name of a column of facts about the image, such as ``scanner_site``."""
    return bool(_FACTS & {*re.split(r"[\s_-]+", name.strip().lower())})


_FILLERS = {"is", "in", "image", "img", "set", "sample"}


def record_of(name: str) -> set[str]:
    """Words of a name that is called after a record of the image; none of another name."""
    words = {*re.split(r"[\s_-]+", re.sub(r"^is", "is_", name.strip().lower()))} - _FILLERS - {""}
    return words if words <= _RECORDS else set()


def ask_attributes(
    table: pl.DataFrame,
    labels: Sequence[str],
    rest: Sequence[str],
    where: object,
    others: Callable[[], Sequence[Reading]],
) -> None:
    """Refuse columns of 0 and 1 that may be attributes: next to the one of labels, called after a
    record, or written in another way than most; ``others`` are readings if there is nothing else.
    """
    target = [name for name in labels if name.strip().lower() in TARGETS]
    if target:
        why, asked = f"next to {target[0]}", [name for name in labels if name not in target]
    elif asked := [
        name for name in labels if record_of(name) and name != _only_split(labels, rest)
    ]:
        why = "named like facts about the image"
    else:
        why, asked = "with other values than most label columns", _written_alone(table, labels)
    if not asked:
        return
    classes = [name for name in labels if name not in asked]
    readings: list[Reading] = [_labels(classes, asked)] if classes else [*others()]
    readings.append(_labels(labels))
    split = next((SPLIT_NAMES[word] for word in record_of(asked[0]) if word in SPLIT_NAMES), None)
    cells = table[asked[0]]
    is_full = pair_of(cells) is not None and cells.n_unique() == 2 and not cells.null_count()
    if split and classes and len(asked) == 1 and is_full:
        no, yes = cells.cast(pl.String).unique().sort()
        meaning = {yes: split, no: "test" if split == "train" else "train"}
        readings.append(("splits", {"split_column": asked[0], "split_values": meaning}))
    what = "classes, or attributes" if len(asked) > 1 else "a class, or an attribute"
    raise question(f"{some_of(asked)}, {why}: {what}?", where, *readings)


def _only_split(labels: Sequence[str], rest: Sequence[str]) -> str | None:
    """The one column called train or test of a table with nothing else than columns of classes."""
    named = [name for name in labels if name.strip().lower() in ("train", "test")]
    is_class = len(named) == 1 and len(labels) > 2 and {*labels} == {*rest}
    return named[0] if is_class else None


def ask_texts(labels: Sequence[str], texts: Sequence[Reading], where: object) -> None:
    """Refuse columns of 0 and 1 next to columns of ``texts`` that may be names of classes, unless
    one of the former is called after labels.
    """
    if texts and labels and not any(name.strip().lower() in TARGETS for name in labels):
        names = [str(give["class_column"]) for _, give in texts]
        contents = f"{some_of(labels)} contain 0 and 1, {some_of(names)} texts"
        first = texts if not is_fact(names[0]) else ()
        raise question(
            f"{contents}: which are the classes?",
            where,
            *first,
            _labels(labels),
            *(() if first else texts),
        )


def _written_alone(table: pl.DataFrame, labels: Sequence[str]) -> list[str]:
    """The columns of labels, fewer than the others, that are not written as most are."""
    pairs = {name: pair for name in labels if (pair := pair_of(table[name])) is not None}
    if not pairs:
        return []
    most, count = Counter(pairs.values()).most_common(1)[0]
    others = [name for name in pairs if not texts_of(table[name]) <= {*most}]
    return others if len(others) < count else []


def ask_positive(
    table: pl.DataFrame, rest: Sequence[str], where: object, others: Sequence[Reading]
) -> NoReturn:
    """Refuse a table without a column that is certain to be a label; ``others`` are readings."""
    two: dict[str, list[str]] = {}
    for name in rest:
        if table[name].dtype == pl.String and not table[name].null_count():
            values = table[name].unique().sort()
            two |= {name: values.to_list()} if len(values) == 2 else {}
    if two:
        one = {name: values[0] for name, values in two.items()}
        likely = [one for one in others if not is_fact(str(one[1]["class_column"]))]
        each = ", ".join(f"{name}={value}" for name, values in two.items() for value in values)
        raise question(
            f"are {some_of(two)} labels, or facts about the image?"
            if len(two) > 1
            else f"is {some_of(two)} a label, or a fact about the image?",
            where,
            *likely,
            (
                f"{counted(len(two), 'class')}, each present or absent (the other text also works)",
                {"positive": one},
            ),
            (f"{2 * len(two)} classes, {each}", {"positive": dict.fromkeys(two, "*")}),
            *(one for one in others if one not in likely),
        )
    if others:
        problem = f"no column is certain to contain labels; columns: {columns_seen(table)}"
        raise question(problem, where, *others)
    floats = [name for name in rest if table[name].dtype.is_float()]
    if floats and all(table[name].drop_nulls().is_between(0, 1).all() for name in floats):
        raise InputError(
            f"columns {some_of(floats)} contain fractions, not labels",
            where=where,
            allowed="labels of 0 and 1; areas in a table with a row for each image and class;"
            " a model's probabilities as predictions",
            remedy="round them to 0 and 1, or give them as areas or predictions",
        )
    raise InputError(
        f"no column contains labels; columns: {columns_seen(table)}",
        where=where,
        allowed="columns of 0 and 1, true and false, yes and no; or one called class, label or"
        " tags",
        remedy="{}, or {} for a row per label",
        give=({"label": ...}, {"class_column": ...}),
    )
