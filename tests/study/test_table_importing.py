"""Importing a table in parts gives what importing it in one piece and dividing gives, however it is cut."""

import json
import os
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from coco_files import write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import fails
from same_datasets import in_parts_of, same_folder, told

from nooch.data.shards import open_shards
from nooch.engines import LocalEngine
from nooch.errors import InputError, ParameterError
from nooch.plans import SplitPlan
from nooch.readers.table import Columns, read_long_table, read_table_of_images
from nooch.readers.table_layouts import LongTable, TableOfImages
from nooch.readers.table_parts import TableReading
from nooch.readers.table_ranges import cut, file_schema, look
from nooch.study.importing import with_split
from nooch.study.sharded_importing import import_in_parts

IDS = st.sampled_from(
    [
        list(range(-3, 12)),
        [2**62 + i * 7**20 for i in range(9)],
        [f"{i:012d}" for i in range(5, 20)],
        ["a", "b,c", 'd"e', "f\ng", "10", "9", "é", "h/i", "00"],
    ]
)
CLASSES = st.sampled_from(["cat", "fire hydrant", " cat ", 'a "b"', "line\nend", "", None, "dog, wet", "zebra"])
AREAS = st.none() | st.floats(0, 1).map(lambda x: round(x, 6)) | st.sampled_from([0, 1])
EXTRA = {
    "weight": st.none() | st.integers(-9, 9) | st.floats(-1, 1),
    "place": st.none() | st.sampled_from(["sea", "1", "é,x"]),
}
FOLDS = ["train", "VAL", "7"]


@st.composite
def long_tables(draw):
    """Rows of images, classes and areas, in any order; attributes and splits are the same in all rows of an image."""
    ids = draw(st.lists(st.sampled_from(draw(IDS)), min_size=1, max_size=12))
    about = {i: {k: draw(v) for k, v in EXTRA.items()} | {"fold": draw(st.sampled_from(FOLDS))} for i in ids}
    # areas as text may also be stated as unknown
    areas = draw(st.sampled_from([AREAS, st.sampled_from([None, "unknown", " Unknown", "0.25", "1"])]))
    return [{"id": i, "class": draw(CLASSES), "area": draw(areas), **about[i]} for i in draw(st.permutations(ids * 3))]


@st.composite
def tables_of_images(draw):
    """Rows with labels of several kinds, one for each image."""
    ids = draw(st.lists(st.sampled_from(draw(IDS)), min_size=1, unique=True))
    kinds = {
        "flag": st.booleans(),
        "number": st.sampled_from([0, 1]),
        "kind": st.sampled_from(["a b", "c", "0"]),
        "level": st.integers(0, 3),
    }
    return [
        {"id": i, **{k: draw(v) for k, v in {**kinds, **EXTRA}.items()}, "fold": draw(st.sampled_from(FOLDS))}
        for i in ids
    ]


def _frame(rows):
    """As a table whose numbers are what they seem to be."""
    frame = pl.DataFrame(rows, infer_schema_length=None, strict=False)
    return frame.with_columns(pl.col("weight").cast(pl.Float64))


WRITERS = {
    "csv": lambda frame, path: frame.write_csv(path),
    "tsv": lambda frame, path: frame.write_csv(path, separator="\t", quote_style="non_numeric"),
    "parquet": lambda frame, path: frame.write_parquet(path, row_group_size=3),
    "jsonl": lambda frame, path: frame.write_ndjson(path),
}


def _written(rows, kind, files, folder):
    """The table as a file, or as a folder of part files."""
    frame = _frame(rows)
    if files == 1:
        path = folder / f"table.{kind}"
        WRITERS[kind](frame, path)
        return path
    path = folder / "table"
    path.mkdir()
    edges = [round(i * frame.height / files) for i in range(files + 1)]
    for number, (a, b) in enumerate(pairwise(edges)):
        WRITERS[kind](frame[a:b], path / f"part-{number}.{kind}")
    return path


PLANS = st.sampled_from(
    [None, None, SplitPlan("50/25/25", 3), SplitPlan("60/20/20", 1, "place"), SplitPlan("50/50/0", 2, r"(.)$")]
)
CUTS = {
    "kind": st.sampled_from(list(WRITERS)),
    "files": st.sampled_from([1, 1, 2]),
    "plan": PLANS,
    "sizes": st.tuples(st.integers(1, 9), st.integers(20, 900)),
    "columns": st.sampled_from(
        [
            {},
            {"attributes": ["place", "id"]},
            {"attributes": []},
            {"split": "fold", "split_values": {"7": "test"}},
            {"file_name": "place"},
        ]
    ),
}
MANY = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None, max_examples=60
)


def _compared(folder, path, columns, layout, read, plan, sizes):
    """Both ways of importing give the same folder, or the same error."""
    # of what has no place, or no file name, images are told that a part holds
    no_group = plan is not None and plan.group == "place" and columns.attributes == []
    plan = None if columns.split or no_group else plan
    part, size = sizes
    whole, problem = told(lambda: with_split(read(path, columns), plan))
    reading = TableReading(path, columns, layout, size)
    done, other = told(lambda: import_in_parts(reading, folder / "parts", part_size=part, split=plan))
    assert str(problem) == str(other)
    assert sorted(p.name for p in folder.iterdir()) == sorted([path.name, *(["parts"] if done else [])])
    if done is not None:
        same_folder(folder / "parts", in_parts_of(whole, part, folder / "whole"))
        assert done.header.fingerprint == whole.fingerprint
        assert (done.annotated, done.has_areas) == (whole.areas.nnz, whole.has_areas)
        assert done.attributes == list(whole.attributes)


@MANY
@given(rows=long_tables(), area=st.sampled_from(["area", None]), **CUTS)
def test_any_cut_of_a_long_table_gives_the_bytes_of_one_piece(
    rows, area, kind, files, plan, sizes, columns, tmp_path_factory
):
    folder = tmp_path_factory.mktemp("long")
    # without it, areas would be an attribute, which must be the same in all rows of an image
    rows = rows if area else [{k: v for k, v in row.items() if k != "area"} for row in rows]
    path = _written(rows, kind, files, folder)
    read = lambda p, c: read_long_table(p, c, "class", area)  # noqa: E731
    _compared(folder, path, Columns("id", **columns), LongTable("class", area), read, plan, sizes)


@MANY
@given(
    rows=tables_of_images(), labels=st.sets(st.sampled_from(["flag", "number", "kind", "level"]), min_size=1), **CUTS
)
def test_any_cut_of_a_table_of_images_gives_the_bytes_of_one_piece(
    rows, labels, kind, files, plan, sizes, columns, tmp_path_factory
):
    folder = tmp_path_factory.mktemp("wide")
    path, labels = _written(rows, kind, files, folder), sorted(labels)
    read = lambda p, c: read_table_of_images(p, c, labels)  # noqa: E731
    _compared(folder, path, Columns("id", **columns), TableOfImages(labels), read, plan, sizes)


PLAIN = ["", "1", "-1", "+1", "007", "1.5", "1e5", "inf", "nan", "true", "False", "x", " 1", "null", "2020-01-01"]
QUOTED = ['"1"', '""', '"a\nb"', '"a""b"', '"a,b"', '"\n"']
CELLS = st.sampled_from([*PLAIN, *QUOTED, "12345678901234567890123", "18446744073709551615"])


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(CELLS, CELLS) | st.just(None), max_size=9),
    size=st.integers(1, 40),
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    before=st.sampled_from(["", "\n", "\ufeff"]),
)
def test_columns_of_csv_are_of_the_kinds_that_reading_it_whole_finds(rows, size, end, last, before, tmp_path_factory):
    lines = ['a,"b\nc"', *("" if row is None else ",".join(row) for row in rows)]
    text = before + end.join(lines) + (end if last else "")
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_bytes(text.encode())
    whole = pl.read_csv(path, infer_schema_length=None)
    found = cut(path, size)
    assert found.ranges[-1][1] == len(text.encode())
    schema, refused = told(lambda: file_schema(path, found, [look(path, found.head, span) for span in found.ranges]))
    if refused is None:
        assert schema == dict(whole.schema)
    else:
        assert "holds fractions and integers of more than 64 bits" in str(refused)
        assert any(len(cell) > 18 and cell.isdigit() for row in rows if row for cell in row)


@pytest.mark.parametrize("first", ["1.5", "12345678901234567890123,x\n1.5"])
def test_fractions_and_integers_of_more_than_64_bits_are_refused(tmp_path, first):
    path = write(tmp_path / "t.csv", f"id,z\n{first},x\n12345678901234567890123,x\n")
    reading = TableReading(path, Columns("z"), LongTable("id"), 10)
    act = lambda: import_in_parts(reading, tmp_path / "parts")  # noqa: E731
    fails(act, "column id holds fractions and integers of more than 64 bits", kind=InputError)
    assert list(tmp_path.iterdir()) == [path]


def test_a_relative_path_stays_so_in_errors(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "t.csv", "id,class\n1,2,3\n")
    _, problem = told(lambda: read_long_table("t.csv", Columns("id"), "class"))
    _, other = told(lambda: import_in_parts(TableReading(Path("t.csv"), Columns("id"), LongTable("class")), "parts"))
    assert str(problem) == str(other)
    assert str(problem).startswith("t.csv: cannot be read")


def _expensive(folder, n=4000):
    """A long table of n images, three rows each, far apart."""
    rows = [f"{i % n * 7 % n},class {i % 11},{i % 97 / 100},{i % n * 7 % n % 3}\n" for i in range(3 * n)]
    return write(folder / "table.csv", "id,class,area,place\n" + "".join(rows))


READING = {"columns": Columns("id"), "layout": LongTable("class", "area"), "range_size": 9000}


def test_processes_do_not_matter_and_progress_is_told(tmp_path):
    path, plan, shown = _expensive(tmp_path), SplitPlan("70/10/20", 0, r"..?$"), []
    reading = TableReading(path, **READING)
    import_in_parts(
        reading,
        tmp_path / "parts",
        part_size=600,
        split=plan,
        map=LocalEngine(2).map,
        progress=lambda *what: shown.append(what),
    )
    whole = with_split(read_long_table(path, Columns("id"), "class", "area"), plan)
    same_folder(tmp_path / "parts", in_parts_of(whole, 600, tmp_path / "whole"))
    assert len(open_shards(tmp_path / "parts")) == 7
    steps = ["reading annotation files", "putting parts together", "splitting parts", "writing"]
    assert list(dict.fromkeys(what for what, _, _ in shown)) == steps
    assert all(done == total > 0 for done, total in {what: rest for what, *rest in shown}.values())


@pytest.mark.parametrize("share", [0, 0.3, 0.6, 0.9])
def test_an_interrupted_import_goes_on_where_it_was(tmp_path, share):
    path, done = _expensive(tmp_path), []
    ranges = len(cut(path, 9000).ranges)
    # the file is cut and hashed; ranges are looked at and read; parts
    total = 2 + 2 * ranges + 7

    def counted(function, items, most):
        for item in items:
            if len(done) == most:
                raise KeyboardInterrupt
            result = function(item)
            done.append((repr(function), repr(item)))
            yield result

    def go(most):
        reading = TableReading(path, **READING)
        import_in_parts(reading, tmp_path / "parts", part_size=600, map=lambda f, items: counted(f, items, most))

    with pytest.raises(KeyboardInterrupt):
        go(int(share * total))
    assert not (tmp_path / "parts").exists()
    go(None)
    assert len(set(done)) == len(done) == total
    whole = read_long_table(path, Columns("id"), "class", "area")
    same_folder(tmp_path / "parts", in_parts_of(whole, 600, tmp_path / "whole"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["parts", "table.csv", "whole"]


@pytest.mark.parametrize(
    ("name", "ids"), [("path", range(1, 41)), (None, range(1, 41)), (None, [f"x{i}" for i in range(40)])]
)
def test_image_files_and_split_files_are_those_of_one_piece(tmp_path, name, ids):
    names = [f"{i:012d}.jpg" if isinstance(i, int) else f"{i}.jpg" for i in ids]
    for file in names[:-3]:
        write(tmp_path / "pictures" / file[-5] / file, "")
    rows = "".join(f"{i},{file},{len(file) % 2}\n" for i, file in zip(ids, names, strict=True))
    path = write(tmp_path / "table.csv", "id,path,y\n" + rows)
    sides = "".join(f"{i},{('train', 'val', 'test')[n % 3]}\n" for n, i in enumerate(ids))
    plan = SplitPlan(str(write(tmp_path / "split.csv", "image_id,split\n" + sides)))
    columns, pictures = Columns("id", name), tmp_path / "pictures"
    reading = TableReading(path, columns, TableOfImages(["y"]), 200)
    done = import_in_parts(reading, tmp_path / "parts", part_size=7, split=plan, images=pictures, notes=["first"])
    whole = with_split(read_table_of_images(path, columns, ["y"], images=pictures), plan)
    assert done.header.provenance["notes"] == ["first", f"3 of 40 image files are not below {pictures}"]
    whole.provenance["notes"].insert(0, "first")
    same_folder(tmp_path / "parts", in_parts_of(whole, 7, tmp_path / "whole"))


ROWS = "".join(f"{i},cat,0.5,{i}\n" for i in range(9))
LONG = LongTable("class", "area")


@pytest.mark.parametrize(
    ("text", "columns", "layout", "words"),
    [
        ("id,class,area\n", {}, LONG, "holds no row"),
        ("", {}, LONG, "cannot be read"),
        ("id,class,area,w\n" + ROWS + "1,cat\n2,cat,1,2,3\n", {}, LONG, "cannot be read"),
        ("id,class,area,w\n" + ROWS, {"id": "ident"}, LONG, "is no column"),
        ("id,class,area,w\n" + ROWS, {}, LongTable("klass"), "is no column"),
        ("id,class,area,w\n" + ROWS, {}, TableOfImages([]), "no label column"),
        ("id,class,area,w\n" + ROWS + ",cat,1,1\n,dog,1,1\n", {}, LONG, "2 rows have no id"),
        ("id,class,area,w\n" + ROWS + "1.5,cat,1,1\n", {}, LONG, "column id holds Float64"),
        ("id,class,area,w\n" + ROWS + "99999999999999999999,cat,1,1\n", {}, LONG, "more than 64 bits"),
        ("id,class,area,split\n" + ROWS, {}, LONG, "a name that nooch uses itself"),
        ("id,class,area,w\n" + ROWS + "1,dog,1,7\n", {}, LONG, "different attributes in different rows: 1"),
        ("id,class,area,w\n" + ROWS + "1,dog,-1,1\n", {}, LONG, "row 10 has area -1"),
        ("id,class,area,w\n" + ROWS + "1,dog,1e300,1\n", {}, LONG, "row 10 has area 1e+300"),
        ("id,class,area,w\n" + ROWS + "8,dog,60,8\n7,dog,60,7\n" * 2, {}, LONG, "dog has area 120 in image 7"),
        ("id,class,area,w\n" + ROWS + "inf,cat,1,1\n", {}, LONG, "column id holds Float64"),
        ("id,class,area,w\n" + ROWS + "1e300,cat,1,1\n", {}, LONG, "column id holds Float64"),
        ("id,class,area,w\n" + ROWS + "10,cat,1,1e300\n", {}, TableOfImages(["w"]), "numbers beyond 2^53"),
        ("id,class,area,w\n" + ROWS + "1,dog,x,1\n", {}, LONG, "column area holds String"),
        ("id,class,area,w\n" + ROWS, {"split": "w"}, LONG, "split values 0, 1, 2, 3, 4 and 4 more are not known"),
        (
            "id,class,area,w\n" + ROWS,
            {"split": "w", "split_values": {str(i): "x" for i in range(9)}},
            LONG,
            "is no split",
        ),
        ("id,class,area,w\n9,cat,1,../x\n" + ROWS, {"file_name": "w"}, LONG, "lead out of the image folder"),
        ("id,class,area,w\n" + ROWS + "3,cat,1,1\n", {}, TableOfImages(["w"]), "more than once: 3"),
        ("id,class,area,w\n" + ROWS + "10,cat,1,\n", {}, TableOfImages(["w"]), "1 rows have no w"),
        ("id,class,area,w\n" + ROWS + "10,cat,1,1.5\n", {}, TableOfImages(["w"]), "holds fractions"),
        ("id,class,area,width\n" + ROWS, {}, LONG, "images without extent: 0"),
    ],
)
def test_what_is_refused_in_one_piece_is_refused_in_parts(tmp_path, text, columns, layout, words):
    path, columns = write(tmp_path / "table.csv", text), Columns(**{"id": "id", **columns})
    whole = (
        (lambda: read_table_of_images(path, columns, layout.labels))
        if isinstance(layout, TableOfImages)
        else (lambda: read_long_table(path, columns, layout.class_column, layout.area_column))
    )
    _, problem = told(whole)
    assert words in str(problem)
    _, other = told(
        lambda: import_in_parts(TableReading(path, columns, layout, 20), tmp_path / "new" / "x", part_size=4)
    )
    assert type(problem) is type(other)
    assert str(problem) == str(other)
    assert [p.name for p in tmp_path.iterdir()] == ["table.csv"]


def test_part_files_that_differ_are_refused_as_in_one_piece(tmp_path):
    write(tmp_path / "t" / "a.csv", "id,y\n1,1\n")
    write(tmp_path / "t" / "b.csv", "id,y\n2,x\n")
    _, problem = told(lambda: read_table_of_images(tmp_path / "t", Columns("id"), ["y"]))
    reading = TableReading(tmp_path / "t", Columns("id"), TableOfImages(["y"]))
    _, other = told(lambda: import_in_parts(reading, tmp_path / "parts"))
    assert "part files differ" in str(problem)
    assert str(problem) == str(other)
    for name, words in (("none", "no such file"), ("t.xls", "is not a table's"), ("empty", "holds no table")):
        (tmp_path / "empty").mkdir(exist_ok=True)
        write(tmp_path / "t.xls", "x")
        reading = TableReading(tmp_path / name, Columns("id"), TableOfImages(["y"]))
        fails(lambda reading=reading: import_in_parts(reading, tmp_path / "parts"), words, kind=InputError, helps=False)


def test_a_table_that_changes_meanwhile_is_refused(tmp_path):
    path = _expensive(tmp_path, 100)

    def mapping(function, items):
        yield from map(function, items)
        os.utime(path, (1, 1))

    act = lambda: import_in_parts(TableReading(path, **READING), tmp_path / "parts", map=mapping)  # noqa: E731
    fails(act, "was changed while it was read", kind=InputError)
    fails(
        lambda: import_in_parts(TableReading(path, **READING), tmp_path / "parts", part_size=0),
        "a part of 0 images",
        kind=ParameterError,
    )


def test_kinds_of_json_lines_are_those_of_its_first_hundred_rows(tmp_path):
    rows = [{"id": i, "y": i % 2, "n": i, **({"late": 1} if i > 150 else {})} for i in range(200)]
    path = write(tmp_path / "t.jsonl", "\n\n".join(map(json.dumps, rows)))
    reading = TableReading(path, Columns("id"), TableOfImages(["y"]), 100)
    import_in_parts(reading, tmp_path / "parts", part_size=30)
    whole = read_table_of_images(path, Columns("id"), ["y"])
    assert whole.attributes == ("n",)
    same_folder(tmp_path / "parts", in_parts_of(whole, 30, tmp_path / "whole"))
    rows[120]["n"] = "x"
    write(path, "\n".join(map(json.dumps, rows)))
    _, problem = told(lambda: read_table_of_images(path, Columns("id"), ["y"]))
    _, other = told(lambda: import_in_parts(reading, tmp_path / "again"))
    assert str(problem) == str(other)
    assert "cannot be read" in str(problem)
