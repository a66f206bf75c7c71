"""Importing tables of every format, in any number of parts, gives what a loop over rows gives."""

import json
import math
import re
from functools import partial
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from coco_files import PHOTO, areas_of, write
from hypothesis import HealthCheck, given, settings, strategies as st
from refusals import fails
from same_datasets import changing, stopping

import nooch
from nooch.base.engines import LocalEngine
from nooch.base.errors import InputError, NoochError, ParameterError
from nooch.base.split_plan import SplitPlan
from nooch.data import class_name, load_dataset, open_dataset
from nooch.data.importing.import_dataset import import_dataset, with_split
from nooch.data.importing.recognition import recognize, recognize_table
from nooch.data.importing.table_roles import Hints
from nooch.data.readers.contract import read
from nooch.data.readers.table_layouts import Columns, LongTable, TableOfImages
from nooch.data.readers.tables import TableReading, file_schema

LONG_IDS, PADDED_IDS = [2**62 + i * 7**20 for i in range(9)], [f"{i:012d}" for i in range(5, 20)]
TEXT_IDS = ["a", "b,c", 'd"e', "f\ng", "10", "9", "é", "h/i", "00"]
IDS = st.sampled_from([list(range(-3, 12)), LONG_IDS, PADDED_IDS, TEXT_IDS])
CLASSES = ["cat", "fire hydrant", " cat ", 'a "b"', "line\nend", "", None, "dog, wet", "zebra"]
CLASSES = st.sampled_from(CLASSES)
# sums of these are exact, whatever their order
AREAS = st.none() | st.integers(0, 64).map(lambda x: x / 64) | st.sampled_from([0, 1])
FOLDS = {"train": "train", "VAL": "valid", "7": "test"}
EXTRA = {
    "weight": st.none() | st.integers(-9, 9) | st.floats(-1, 1),
    "place": st.none() | st.sampled_from(["sea", "1", "é,x"]),
    "fold": st.sampled_from(list(FOLDS)),
}
LABELS = {
    "flag": st.booleans(),
    "number": st.sampled_from([0, 1]),
    "kind": st.sampled_from(["a b", "c", "0"]),
    "level": st.integers(0, 3),
}


@st.composite
def long_tables(draw):
    """Rows of images, classes, areas in any order; attributes are the same for an image."""
    ids = draw(st.lists(st.sampled_from(draw(IDS)), min_size=1, max_size=12))
    about = {i: {name: draw(values) for name, values in EXTRA.items()} for i in ids}
    # areas as text may also be stated as unknown
    texts = st.sampled_from([None, "unknown", " Unknown", "0.25", "1"])
    areas = draw(st.sampled_from([AREAS, texts]))
    return [
        {"id": i, "class": draw(CLASSES), "area": draw(areas), **about[i]}
        for i in draw(st.permutations(ids * 3))
    ]


@st.composite
def tables_of_images(draw):
    """Rows with labels of several kinds, one for each image."""
    ids = draw(st.lists(st.sampled_from(draw(IDS)), min_size=1, unique=True))
    values = (LABELS | EXTRA).items()
    return [{"id": i, **{name: draw(some) for name, some in values}} for i in ids]


WRITERS = {
    "csv": lambda frame, path: frame.write_csv(path),
    "tsv": lambda frame, path: frame.write_csv(path, separator="\t", quote_style="non_numeric"),
    "parquet": lambda frame, path: frame.write_parquet(path, row_group_size=3),
    "jsonl": lambda frame, path: frame.write_ndjson(path),
}
READERS = {
    "csv": lambda path: pl.read_csv(path, infer_schema_length=None),
    "tsv": lambda path: pl.read_csv(path, infer_schema_length=None, separator="\t"),
    "parquet": pl.read_parquet,
    "jsonl": pl.read_ndjson,
}


def _written(rows, kind, n_files, folder):
    """The rows as a file, or as a folder of part files; and as they are read, all at once."""
    frame = pl.DataFrame(rows, infer_schema_length=None, strict=False)
    frame = frame.with_columns(pl.col("weight").cast(pl.Float64))
    n_files = min(n_files, frame.height)
    edges = [round(i * frame.height / n_files) for i in range(n_files + 1)]
    path = folder / ("table" if n_files > 1 else f"table.{kind}")
    files = [path / f"part-{n}.{kind}" for n in range(n_files)] if n_files > 1 else [path]
    files[0].parent.mkdir(exist_ok=True)
    for file, (a, b) in zip(files, pairwise(edges), strict=True):
        WRITERS[kind](frame[a:b], file)
    return path, [READERS[kind](file) for file in files]


def _long_oracle(rows, area):
    """Image -> class -> area, and the pairs that are stated as unknown."""
    areas, unknown = {}, set()
    for row in rows:
        classes = areas.setdefault(row["id"], {})
        text = str(row["class"] or "").strip()
        if not text:
            continue
        name, value = class_name(text), row[area] if area else None
        if str(value).strip().lower() == "unknown":
            unknown.add((row["id"], name))
        else:
            classes[name] = classes.get(name, 0.0) + (math.nan if value is None else float(value))
    return areas, unknown


def _images_oracle(rows, labels):
    """Image -> classes that are present."""
    present = {row["id"]: set() for row in rows}
    for label in labels:
        values = {str(row[label]).lower() for row in rows}
        pairs = ("0", "1"), ("false", "true")
        one = next((yes for no, yes in pairs if values <= {no, yes}), None)
        for row in rows:
            if one is None:
                present[row["id"]].add(class_name(f"{label}={row[label]}"))
            elif str(row[label]).lower() == one:
                present[row["id"]].add(label)
    return present


def _with_ids(rows):
    """Ids as integers where all of them are written in digits."""
    if all(re.fullmatch("[0-9]{1,18}", str(row["id"])) for row in rows):
        return [row | {"id": int(row["id"])} for row in rows]
    return rows


def _imported(reading, folder, n_images):
    """The dataset, which is the same in one part and three, and as it is read into memory."""
    data = read(reading)
    for n_parts in (1, 3):
        size = None if n_parts == 1 else -(-n_images // n_parts)
        done = import_dataset(reading, folder / f"{n_parts}", part_size=size)
        loaded = load_dataset(folder / f"{n_parts}")
        assert done.header.fingerprint == loaded.fingerprint == data.fingerprint
        assert loaded.provenance == data.provenance
        assert (done.annotated, done.has_areas) == (data.areas.nnz, data.has_areas)
        assert done.attributes == list(data.attributes)
        assert loaded.images.equals(data.images)
    assert sorted(p.name for p in folder.iterdir()) == sorted([reading.path.name, "1", "3"])
    return data


def _check_images(data, rows, columns):
    """Attributes, file names and splits are those of the first row of each image."""
    first = {}
    for row in rows:
        first.setdefault(row["id"], row)
    expected = [first[i] for i in sorted(first)]
    assert data.images["image_id"].to_list() == [row["id"] for row in expected]
    for name in data.attributes:
        assert data.images[name].to_list() == [row[name] for row in expected]
    if columns.file_name:
        names = [row[columns.file_name] for row in expected]
        texts = [None if name is None else str(name) for name in names]
        assert data.images["file_name"].to_list() == texts
    if columns.split:
        splits = [FOLDS[str(row[columns.split])] for row in expected]
        assert data.images["split"].to_list() == splits


COLUMNS = [
    {},
    {"attributes": ["place", "weight"]},
    {"attributes": []},
    {"split": "fold", "values": {"7": "test"}},
    {"file_name": "place"},
]
FILES = {"kind": st.sampled_from(list(WRITERS)), "n_files": st.sampled_from([1, 1, 2])}
FILES["columns"] = st.sampled_from(COLUMNS)
FIXTURE = {"suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]}
MANY = settings(deadline=None, max_examples=16, **FIXTURE)


def _rows(reading, frames):
    """The rows of all files; None where files differ, which the reader refuses, too."""
    try:
        return _with_ids(pl.concat(frames).to_dicts())
    except pl.exceptions.SchemaError:
        fails(lambda: read(reading), "part files differ", kind=InputError)
        return None


@MANY
@given(rows=long_tables(), area=st.sampled_from(["area", None]), **FILES)
def test_long_tables_are_those_of_a_loop(rows, area, kind, n_files, columns, tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    # without it, areas would be an attribute, which must be the same in all rows of an image
    rows = rows if area else [{k: v for k, v in row.items() if k != "area"} for row in rows]
    path, frames = _written(rows, kind, n_files, folder)
    reading = TableReading(path, Columns("id", **columns), LongTable("class", area))
    if (rows := _rows(reading, frames)) is None:
        return
    areas, unknown = _long_oracle(rows, area)
    data = _imported(reading, folder, len(areas))
    # repr: NaN is equal to NaN
    assert {i: sorted(map(repr, classes.items())) for i, classes in areas_of(data).items()} == {
        i: sorted(map(repr, classes.items())) for i, classes in areas.items()
    }
    ids, marks = data.images["image_id"], {c: data.unknown_labels(c) for c in data.classes}
    marks = {c: mark for c, mark in marks.items() if mark is not None}
    stated = {(i, c) for c, mark in marks.items() for i in ids.filter(pl.Series(mark))}
    assert stated == {(i, c) for i, c in unknown if c not in areas[i]}
    _check_images(data, rows, reading.columns)


LABEL_SETS = st.sets(st.sampled_from(list(LABELS)), min_size=1).map(sorted)


@MANY
@given(rows=tables_of_images(), labels=LABEL_SETS, **FILES)
def test_tables_of_images_are_those_of_a_loop(
    rows, labels, kind, n_files, columns, tmp_path_factory
):
    folder = tmp_path_factory.mktemp("wide")
    path, frames = _written(rows, kind, n_files, folder)
    # two texts are a question
    asked = "kind" in labels and len({row["kind"] for row in rows}) == 2
    layout = TableOfImages(labels, {"kind": "*"} if asked else {})
    reading = TableReading(path, Columns("id", **columns), layout)
    if (rows := _rows(reading, frames)) is None:
        return
    data = _imported(reading, folder, len(rows))
    areas = areas_of(data)
    assert {i: set(classes) for i, classes in areas.items()} == _images_oracle(rows, labels)
    assert all(math.isnan(area) for classes in areas.values() for area in classes.values())
    _check_images(data, rows, reading.columns)


PLAIN = ["", "1", "-1", "+1", "007", "1.5", "-.5", "5.", "1e5", "1e"]
PLAIN += ["inf", "Inf", "+inf", "nan", "NaN"]
TEXT = ["true", "False", "TRUE", "x", " 1", "null", "2020-01-01", "1.5.5", "-", "."]
QUOTED = ['"1"', '""', '"a\nb"', '"a""b"', '"a,b"', '"\n"', '"1.5"', '"true"']
LONG = ["12345678901234567890123", "18446744073709551615"]
LONG += ["-9223372036854775809", "9223372036854775807"]
CELLS = st.sampled_from([*PLAIN, *TEXT, *QUOTED, *LONG])


@settings(deadline=None, max_examples=150, **FIXTURE)
@given(
    pool=st.lists(CELLS, min_size=1, max_size=4),
    picks=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)) | st.none(), max_size=9),
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    before=st.sampled_from(["", "\n", "\ufeff"]),
)
def test_columns_of_csv_have_the_types_that_polars_infers(
    pool, picks, end, last, before, tmp_path_factory
):
    rows = [",".join(pool[n % len(pool)] for n in pick or ()) for pick in picks]
    lines = ['a,"b\nc"', *rows]
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_bytes((before + end.join(lines) + (end if last else "")).encode())
    assert file_schema(path) == dict(pl.read_csv(path, infer_schema_length=None).schema)


def test_types_of_csv_are_those_of_all_rows(tmp_path):
    rows = [f"{i},{i % 2 == 0},,{i},7\n" for i in range(3000)]
    rows[2500] = "2500.5,1,x,,18446744073709551616\n"
    path = write(tmp_path / "t.csv", "a,b,c,d,e\n" + "".join(rows))
    found = file_schema(path)
    assert found == dict(pl.read_csv(path, infer_schema_length=None).schema)
    assert list(found.values()) == [pl.Float64, pl.String, pl.String, pl.Int64, pl.Int128]


def test_types_of_json_lines_are_those_of_all_rows(tmp_path):
    rows = [{"id": i, "y": i % 2, "n": i, **({"late": 1} if i > 150 else {})} for i in range(200)]
    path = write(tmp_path / "t.jsonl", "\n\n".join(map(json.dumps, rows)))
    reading = TableReading(path, Columns("id"), TableOfImages(["y"]))
    assert _imported(reading, tmp_path, 200).attributes == ("n", "late")
    rows[120]["n"] = 0.5
    write(path, "\n".join(map(json.dumps, rows)))
    import_dataset(reading, tmp_path / "again")
    assert load_dataset(tmp_path / "again").images["n"].to_list()[119:122] == [119, 0.5, 121]


def test_a_file_name_with_a_pattern_is_a_name(tmp_path):
    for kind, writer in WRITERS.items():
        writer(pl.DataFrame({"id": [1, 2], "y": [0, 1]}), tmp_path / f"t[1]*.{kind}")
        writer(pl.DataFrame({"id": [3], "y": [1]}), tmp_path / f"t1x.{kind}")
        reading = TableReading(tmp_path / f"t[1]*.{kind}", Columns("id"), TableOfImages(["y"]))
        import_dataset(reading, tmp_path / f"[o]*{kind}", part_size=1)
        assert load_dataset(tmp_path / f"[o]*{kind}").images["image_id"].to_list() == [1, 2]


def _expensive(folder, n=1300):
    """A long table of n images, three rows each, far apart."""
    rows = [
        f"{i % n * 7 % n},class {i % 11},{i % 97 / 100},{i % n * 7 % n % 3}\n" for i in range(3 * n)
    ]
    return write(folder / "table.csv", "id,class,area,place\n" + "".join(rows))


def test_engines_and_parts_do_not_matter_and_progress_is_reported(tmp_path):
    reading = TableReading(_expensive(tmp_path), Columns("id"), LongTable("class", "area"))
    plan, shown = SplitPlan("70/10/20", 0, r"..?$"), []
    whole = with_split(read(reading), plan)
    for part_size, map_, n_parts in ((None, map, 1), (200, map, 7), (200, LocalEngine(2).map, 7)):
        out = tmp_path / f"{n_parts}"
        how = {"part_size": part_size, "split": plan, "overwrite": out.exists()}
        show = lambda *what: shown.append(what)  # noqa: E731
        done = import_dataset(reading, out, map=map_, progress=show, **how)
        assert done.header.fingerprint == whole.fingerprint
        assert open_dataset(out).n_parts == n_parts
        assert load_dataset(out).images.equals(whole.images)
    steps = ["reading annotation files", "putting parts together", "splitting parts", "writing"]
    assert list(dict.fromkeys(what for what, _, _ in shown)) == steps
    assert all(done == total > 0 for done, total in {what: rest for what, *rest in shown}.values())


@pytest.mark.parametrize("share", [0, 0.3, 0.9])
def test_an_interrupted_import_resumes(tmp_path, share):
    columns, layout = Columns("id"), LongTable("class", "area")
    reading, done, total = TableReading(_expensive(tmp_path), columns, layout), [], 7

    def go(most):
        import_dataset(reading, tmp_path / "out", part_size=200, map=stopping(done, most))

    with pytest.raises(KeyboardInterrupt):
        go(int(share * total))
    assert not (tmp_path / "out").exists()
    if share == 0:
        # as if it was killed while rows were divided: those that are left are not taken
        (folder,) = tmp_path.glob(".out.importing-*[!k]")
        (folder / "divide.msgpack").unlink()
        pl.DataFrame({"x": [1]}).write_parquet(folder / "rows" / "part=0" / "left.parquet")
    go(None)
    assert len(set(done)) == len(done) == total
    assert load_dataset(tmp_path / "out").fingerprint == read(reading).fingerprint
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "table.csv"]


@pytest.mark.parametrize("part_size", [None, 7])
@pytest.mark.parametrize(
    ("name", "ids"),
    [("path", range(1, 41)), (None, range(1, 41)), (None, [f"x{i}" for i in range(40)])],
)
def test_image_files_and_split_files_are_found(tmp_path, name, ids, part_size):
    names = [f"{i:012d}.jpg" if isinstance(i, int) else f"{i}.jpg" for i in ids]
    for file in names[:-3]:
        write(tmp_path / "pictures" / file[-5] / file, PHOTO)
    write(tmp_path / "pictures" / "others.jpg", PHOTO)
    rows = "".join(f"{i},{file},{len(file) % 2}\n" for i, file in zip(ids, names, strict=True))
    path = write(tmp_path / "table.csv", "id,path,y\n" + rows)
    sides = {i: ("train", "valid", "test")[n % 3] for n, i in enumerate(ids)}
    text = "image_id,split\n" + "".join(f"{i},{side}\n" for i, side in sides.items())
    plan, pictures = SplitPlan(str(write(tmp_path / "split.csv", text))), tmp_path / "pictures"
    reading = TableReading(path, Columns("id", name), TableOfImages(["y"]))
    how = {"part_size": part_size, "images": pictures, "split": plan, "notes": ["first"]}
    import_dataset(reading, tmp_path / "out", **how)
    data = load_dataset(tmp_path / "out")
    assert data.provenance["notes"] == ["first", f"3 of 40 image files are not below {pictures}"]
    missing = dict(zip(ids, names if name else [None] * 40, strict=True))
    there = {i: f"{file[-5]}/{file}" for i, file in zip(ids, names[:-3], strict=False)}
    images = data.images.rows_by_key("image_id", named=True, unique=True)
    assert {i: row["file_name"] for i, row in images.items()} == missing | there
    assert {i: row["split"] for i, row in images.items()} == sides


ROWS = "".join(f"{i},cat,0.5,{i}\n" for i in range(9))
TABLE = f"id,class,area,w\n{ROWS}"


def test_cells_that_look_like_lists_are_refused_where_the_column_is_named(tmp_path):
    def classes(file, **hints):
        return read(recognize_table(file, Hints(id="file", **hints)).reading).classes

    cells = {
        "comma": ["sky, road", "road", "sky, grass", "grass"],
        "bar": ["sky|road", "road|grass", "sky", "sky"],
        "json": ['["sky", "road"]', '["road"]', '["grass"]', "[]"],
    }
    wide, long = {"label": ["what"]}, {"class_column": "what"}
    for separator, texts in cells.items():
        frame = pl.DataFrame({"file": ["1.jpg", "2.jpg", "3.jpg", "4.jpg"], "what": texts})
        frame.write_csv(file := tmp_path / f"{separator}.csv")
        words = "several classes may be in a cell of what", f"label_separator={separator!r} for 3"
        refused = partial(fails, kind=InputError)
        refused(partial(classes, file, **wide), *words, "positive={'what': '*'}")
        refused(partial(classes, file, **long), *words, "label_separator='none'")
        refused(partial(nooch.dataset, frame, labels=["what"]), *words)
        assert len(classes(file, **wide, positive={"what": "*"})) == len({*texts})
        assert len(classes(file, **long, label_separator="none")) == len({*texts})
        expected = ("grass", "road", "sky")
        assert classes(file, **long, label_separator=separator) == expected
    # names with commas are not lists
    names = write(tmp_path / "names.csv", 'file,what\n1.jpg,"hen, fowl"\n2.jpg,"cab, taxi"\n')
    assert len(classes(names, **long)) == 2


AREA, LABELED = LongTable("class", "area"), TableOfImages(["w"])
FOLDS_OF_ROWS = {"split": "w", "values": {str(i): "x" for i in range(9)}}


@pytest.mark.parametrize(
    ("text", "columns", "layout", "words"),
    [
        ("id,class,area\n", {}, AREA, "contains no row"),
        ("", {}, AREA, "cannot be read"),
        (TABLE + "1,cat\n2,cat,1,2,3\n", {}, AREA, "cannot be read"),
        (TABLE, {"id": "ident"}, AREA, "is not a column"),
        (TABLE, {}, LongTable("klass"), "is not a column"),
        (TABLE, {}, TableOfImages([]), "no label column"),
        ("id,class,area\n,cat,1\n,dog,1\n", {}, AREA, "no row has a id"),
        (TABLE + "1.5,cat,1,1\n", {}, AREA, "column id contains Float64"),
        (TABLE + "99999999999999999999,cat,1,1\n", {}, AREA, "more than 64 bits"),
        (TABLE.replace(",w", ",split"), {}, AREA, "a name that nooch uses itself"),
        (TABLE + "1,dog,1,7\n", {}, AREA, "different attributes in different rows: 1"),
        (TABLE + "1,dog,-1,1\n", {}, AREA, "row 10 has area -1"),
        (TABLE + "1,dog,1e300,1\n", {}, AREA, "row 10 has area 1e+300"),
        (TABLE + "8,dog,60,8\n7,dog,60,7\n" * 2, {}, AREA, "dog has area 120 in image 7"),
        (TABLE + "inf,cat,1,1\n", {}, AREA, "column id contains Float64"),
        (TABLE + "1e300,cat,1,1\n", {}, AREA, "column id contains Float64"),
        (TABLE + "10,cat,1,1e300\n", {}, LABELED, "numbers beyond 2^53"),
        (TABLE + "1,dog,x,1\n", {}, AREA, "column area contains String"),
        (TABLE, {"split": "w"}, AREA, "split values 0, 1, 2, 3, 4 and 4 more are not known"),
        (TABLE, FOLDS_OF_ROWS, AREA, "is not a split"),
        (TABLE + "9,cat,1,../x\n", {"file_name": "w"}, AREA, "lead out of the image folder"),
        (TABLE + "3,cat,1,1\n", {}, LABELED, "more than once: 3"),
        (TABLE + "10,cat,1,\n", {}, LABELED, "1 rows have no w"),
        (TABLE + "10,cat,1,1.5\n", {}, LABELED, "contains fractions"),
        (TABLE.replace(",w", ",width"), {}, AREA, "column width contains 0 in images 0"),
    ],
)
def test_what_is_refused_is_refused_in_parts_too(tmp_path, text, columns, layout, words):
    path, columns = write(tmp_path / "table.csv", text), Columns(**{"id": "id", **columns})
    reading, problems = TableReading(path, columns, layout), []
    for part_size in (None, 4):
        with pytest.raises(NoochError, match=re.escape(words)) as refused:
            import_dataset(reading, tmp_path / "new" / "x", part_size=part_size)
        problems.append((type(refused.value), str(refused.value)))
        assert [p.name for p in tmp_path.iterdir()] == ["table.csv"]
    assert problems[0] == problems[1]


@pytest.mark.parametrize("part_size", [None, 1])
def test_errors_name_the_part_file_as_it_was_given(tmp_path, monkeypatch, part_size):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "t" / "a.csv", "id,class,area\n1,x,0.5\n")
    write(tmp_path / "t" / "b.csv", "id,class,area\n1,2,3,4\n")
    lines = "".join(f'{{"id":{i},"y":1,"n":{i}}}\n' for i in range(120))
    write(tmp_path / "l" / "a.jsonl", lines)
    lines = lines.replace('"n":110', '"n":').replace('"id":', '"id":2')
    write(tmp_path / "l" / "b.jsonl", lines)
    for file, layout in (("t/b.csv", AREA), ("l/b.jsonl", TableOfImages(["y"]))):
        reading = TableReading(Path(file).parent, Columns("id"), layout)
        act = partial(import_dataset, reading, "out", part_size=part_size)
        fails(act, f"{file}: cannot be read", helps=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["l", "t"]


def test_a_table_that_changes_meanwhile_is_refused(tmp_path):
    reading = TableReading(_expensive(tmp_path, 100), Columns("id"), LongTable("class", "area"))
    act = partial(import_dataset, reading, tmp_path / "out")
    fails(partial(act, map=changing(reading.path)), "changed while it was read")
    fails(partial(act, part_size=0), "`part_size`: is 0", kind=ParameterError)


def test_a_part_file_may_have_a_column_without_values(tmp_path):
    frame = pl.DataFrame({"id": [1, 2], "y": [0, 1], "n": [0.5, 1.5]})
    (tmp_path / "t").mkdir()
    frame[:1].write_parquet(tmp_path / "t" / "a.parquet")
    frame[1:].with_columns(n=None).write_parquet(tmp_path / "t" / "b.parquet")
    data = _imported(TableReading(tmp_path / "t", Columns("id"), TableOfImages(["y"])), tmp_path, 2)
    assert data.images["n"].to_list() == [0.5, None]


def test_workers_may_run_in_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "t.csv", "id,y\n1,0\n2,1\n3,1\n")
    (tmp_path / "elsewhere").mkdir()

    def mapping(function, items):
        for item in items:
            with monkeypatch.context() as moved:
                moved.chdir(tmp_path / "elsewhere")
                yield function(item)

    out = (tmp_path / "out").absolute()
    reading = TableReading(Path("t.csv"), Columns("id"), TableOfImages(["y"]))
    import_dataset(reading, out, map=mapping)
    import_dataset(reading, out, part_size=1, map=mapping, overwrite=True)
    assert load_dataset(out).labels("y").tolist() == [False, True, True]


@pytest.mark.parametrize(
    "more", [{}, {"motion": [0, 1, 0, 1]}, {"sex": ["F", "M", "M", "F"]}, {"scan_site": [*"abba"]}]
)
def test_the_column_of_labels_is_the_first_remedy(tmp_path, more):
    """Before columns of facts about the image, of two texts or of 0 and 1."""
    given = {"image_id": [*"abcd"], "site": ["Oslo", "Lyon", "Lyon", "Oslo"], **more}
    columns = given | {"diagnosis": ["ill", "well", "well", "sore"]}
    pl.DataFrame(columns).write_csv(tmp_path / "t.csv")
    with pytest.raises(InputError) as error:
        recognize(tmp_path / "t.csv", Hints())
    assert error.value.give[0] == {"class_column": "diagnosis"}


_ROWS = [{"file": f"{n:03}.jpg", "sky": n % 2, "sea": n % 3 % 2} for n in range(12)]
_TABLE = pl.DataFrame(_ROWS)
_LABELS = pl.exclude("file")
_KIND = _TABLE.with_columns(kind=pl.when(sky=1).then(pl.lit("a")).otherwise(pl.lit("b")))
ODD_TABLES = {
    "list.jsonl": (_TABLE, lambda file: file.write_text(json.dumps(_ROWS))),
    "lines.json": (_TABLE, _TABLE.write_ndjson),
    "words.csv": (
        _TABLE,
        _TABLE.with_columns(_LABELS.replace_strict({1: "YES", 0: " No "})).write_csv,
    ),
    "decimals.parquet": (_TABLE, _TABLE.cast({"sky": pl.Decimal(4, 1)}).write_parquet),
    "categories.parquet": (
        _KIND.select("file", label="kind"),
        _KIND.select("file", label=pl.col("kind").cast(pl.Categorical)).write_parquet,
    ),
    "enum.parquet": (
        _KIND.select("file", label="kind"),
        _KIND.select("file", label=pl.col("kind").cast(pl.Enum(["b", "a"]))).write_parquet,
    ),
}


@pytest.mark.parametrize("name", ODD_TABLES)
def test_odd_types_and_endings_are_read_like_the_plain_table(tmp_path, name):
    plain, write_odd = ODD_TABLES[name]
    write_odd(tmp_path / name)
    plain.write_csv(tmp_path / "plain.csv")
    odd, expected = (nooch.dataset(tmp_path / file) for file in (name, "plain.csv"))
    assert odd.classes == expected.classes
    assert odd.images["image_id"].equals(expected.images["image_id"])
    assert (odd.areas != expected.areas).nnz == 0 or odd.areas.nnz == expected.areas.nnz
    for task in expected.classes:
        assert odd.labels(task).tolist() == expected.labels(task).tolist()
