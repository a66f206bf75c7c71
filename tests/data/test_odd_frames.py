"""Frames of anything: a dataset, or an error with what is allowed or a remedy."""

from datetime import date
from decimal import Decimal

import polars as pl
from hypothesis import given, settings, strategies as st

import nooch
from nooch.base.errors import NoochError

NAMES = [
    "image", "id", "file_name", "Image Path", "label", "class", "tags", "category_id", "y", "split",
    "fold", "sky", "is_train", "area", "xmin", "ymin", "xmax", "ymax", "width", "height", "bbox",
    "", "Unnamed: 0", "a,b",
]  # fmt: skip
CELLS = {
    pl.Int64: [0, 1, -1, 7, None],
    pl.Float64: [0.0, 1.0, 0.5, float("nan"), float("inf"), None],
    pl.Boolean: [True, False, None],
    pl.String: ["yes", "no", "unknown", "x", "", " ", "train", "a, b", '["a"]', '{"a": 1}', "0,5"],
    pl.Date: [date(2019, 1, 1), None],
    pl.Binary: [b"a", b"\xff"],
    pl.Decimal: [Decimal("1.0"), Decimal("0.0")],
    pl.List(pl.String): [["a"], [], None],
    pl.List(pl.Float64): [[0.0, 0.0, 1.0, 1.0], [1.0]],
    pl.Struct({"a": pl.Int64}): [{"a": 1}],
    pl.Null: [None],
}


@st.composite
def frames(draw):
    n = draw(st.integers(1, 5))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    columns = {}
    for name in names:
        kind = draw(st.sampled_from([*CELLS, "files"]))
        if kind == "files":
            columns[name] = [f"{number}.jpg" for number in range(n)]
        else:
            cells = st.lists(st.sampled_from(CELLS[kind]), min_size=n, max_size=n)
            columns[name] = pl.Series(draw(cells), dtype=kind)
    return pl.DataFrame(columns)


@settings(deadline=None)
@given(st.data())
def test_any_frame_is_a_dataset_or_refused_with_a_remedy(data):
    frame = data.draw(frames())
    column = st.sampled_from(frame.columns)
    hints = st.fixed_dictionaries(
        {},
        optional={
            "id": column, "labels": column.map(lambda name: [name]), "class_column": column,
            "attributes": column.map(lambda name: [name]), "split_column": column,
            "area_column": column, "blank_is_no": st.booleans(),
            "positive": column.map(lambda name: {name: "*"}),
        },
    )  # fmt: skip
    refusal = ""
    try:
        nooch.dataset(frame, **data.draw(hints))
    except NoochError as error:
        refusal = str(error)
    assert not refusal or "allowed:" in refusal or "remedy:" in refusal, refusal
