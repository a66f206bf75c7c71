"""Files as people have them: read as they mean, or refused with every reading and its flag."""

import json
import re
from pathlib import PurePosixPath

import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from messy_files import FORMS, TRUTH, frame, photos
from refusals import fails, typed_in

import nooch
from nooch.base.errors import InputError, ParameterError
from nooch.data.importing.table_roles import Hints
from nooch.data.table_files import TABLE_ENDINGS

FRAMES = {
    "polars": lambda table: table,
    "lazy": lambda table: table.lazy(),
    "pandas": lambda table: table.to_pandas(),
    "pandas with an index": lambda table: table.to_pandas().set_index("shown"),
    "pandas with categories": lambda table: table.to_pandas().astype({"shown": "category"}),
    "Arrow": lambda table: table.to_arrow(),
}


def content(data):
    """Stem of each image -> its classes; the folder of a file name is not compared."""
    names = data.images["file_name"].fill_null(data.images["image_id"].cast(str))
    stems = [PurePosixPath(name.replace("\\", "/")).stem for name in names]
    dense = data.areas.tocsr()
    return {
        stem: {data.classes[c] for c in dense.indices[dense.indptr[n] : dense.indptr[n + 1]]}
        for n, stem in enumerate(stems)
    }


def outcome(form, path, run_cli, command, out):
    """What an import comes to, and its words."""
    done = run_cli(f"{command} {path} {out} {form.flags}")
    words = " ".join(done.err.split())
    if done.code == 0:
        found, truth = content(nooch.load_dataset(out)), form.truth or TRUTH
        right = len(found) == truth if isinstance(truth, int) else found == truth
        return ("right" if right else f"wrong: {found}"), words
    if (
        not all(word in words for word in form.words)
        or "remedy:" not in words
        or "internal error" in words
    ):
        return f"dead: {words}", words
    return ("asked" if form.outcome == "asked" else "refused"), words


def commands(path):
    is_table = path.suffix in TABLE_ENDINGS and path.is_file()
    return ["import auto", *["import table"] * is_table]


@pytest.mark.parametrize("name", FORMS)
def test_a_messy_file_is_read_or_refused_with_a_remedy(name, tmp_path, run_cli):
    """Also by ``import table``, without the names of its columns."""
    form = FORMS[name]
    path = form.make(tmp_path / "in")
    if path is None:
        pytest.skip("the real data is not here")
    for number, command in enumerate(commands(path)):
        out = tmp_path / f"out{number}"
        found, words = outcome(form, path, run_cli, command, out)
        assert found == form.outcome, words
        if form.has_files:
            names = nooch.load_dataset(out).images["file_name"]
            files = [path.name for path in (tmp_path / "in" / "images").rglob("*.jpg")]
            assert sorted(files) == [PurePosixPath(name).name for name in names]
            assert all((tmp_path / "in/images" / name).is_file() for name in names)


ASKED = [n for n, form in FORMS.items() if form.outcome == "asked" and "--void" not in form.words]


@pytest.mark.parametrize("name", ASKED)
def test_each_reading_of_a_refusal_is_what_its_flag_gives(name, tmp_path, run_cli):
    """Also ``import table`` and ``check`` take the flags."""
    form = FORMS[name]
    path = form.make(tmp_path / "in")
    answers = {f"{file}.jpg": [1.5] for file in TRUTH}
    (tmp_path / "answers.csv").write_text("image,sky\n" + "".join(f"{a},0.7\n" for a in answers))
    tried = set()
    for command in commands(path):
        asked = run_cli(f"{command} {path} {tmp_path / 'none'} {form.flags}")
        words = " ".join(asked.err.split())
        gets = re.findall(r"give --[^;]*? for (\d+(?= class)|splits)", words)
        assert len(asked.error.give) == len(gets) >= 1 + ("otherwise" not in words), words
        for number, (give, got) in enumerate(zip(asked.error.give, gets, strict=True)):
            out = tmp_path / f"{command.split()[1]}-{number}"
            flags = f"{form.flags} {' '.join(typed_in(command.split(), give)[0])}"
            run_cli(f"{command} {path} {out} {flags}").ok()
            data = nooch.load_dataset(out)
            if got == "splits":
                assert set(data.splits) == {"train", "test"}
            else:
                assert len(data.classes) == int(got), flags
            if flags in tried:
                continue
            tried.add(flags)
            checked = run_cli(f"check {path} {tmp_path / 'answers.csv'} --out {out}-check {flags}")
            # the labels were read; four images are too few to check
            assert re.search("imported table|out of context|no predictions for", checked.err), (
                checked.err
            )


def test_check_takes_the_meaning_of_splits(tmp_path, run_cli):
    path = FORMS["splits as numbers"].make(tmp_path)
    (tmp_path / "answers.csv").write_text("image,sky\n" + "".join(f"{s}.jpg,0.7\n" for s in TRUTH))
    check = f"check {path} {tmp_path / 'answers.csv'} --out {tmp_path / 'out'}"
    words = run_cli(check).refused("split values 0, 1 are not known")
    (flags,) = re.findall(r"--split-values \S+", words)
    assert flags == "--split-values 0=train,1=test"
    done = run_cli(f"{check} {flags}").ok()
    assert "split test" in done.err


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_is_a_dataset_and_imported(kind, tmp_path):
    table = frame().rename({"filename": "shown"}).with_columns(year=2019)
    made = FRAMES[kind](table)
    images = photos(tmp_path / "photos")
    hints = Hints(id="shown", label=["sky", "road"])
    done = nooch.import_dataset(made, tmp_path / "out", hints=hints, images=images)
    assert done.header.n_images == len(TRUTH)
    data = nooch.dataset(made, id="shown", labels=["sky", "road"], images=str(images))
    for found in (nooch.load_dataset(tmp_path / "out"), data):
        assert content(found) == TRUTH
        assert sorted(found.images["file_name"]) == [f"{stem}.jpg" for stem in TRUTH]
        assert "labels: sky, road" in found.provenance["notes"][0]
    assert data.attributes == ("year",)
    assert data.fingerprint == nooch.load_dataset(tmp_path / "out").fingerprint


@settings(max_examples=10, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(["sky", "road", "car"]), unique=True), min_size=1, max_size=8
    ).filter(any)
)
def test_all_forms_are_the_same_dataset(tmp_path_factory, found):
    """A column per class, a list or text per image, a row per label; frames, and forms of JSON."""
    folder = tmp_path_factory.mktemp("forms")
    files = [f"{n}.jpg" for n in range(len(found))]
    by_file = dict(zip(files, found, strict=True))
    wide = {name: [name in tags for tags in found] for tags in found for name in tags}
    rows = [(f, tag) for f, tags in by_file.items() for tag in tags or [None]]
    records = [{"image": f, "tags": tags} for f, tags in by_file.items()]
    objects = [
        {"image": f, "is": {name: cells[n] for name, cells in wide.items()}}
        for n, f in enumerate(files)
    ]
    (folder / "records.json").write_text(json.dumps(records))
    (folder / "objects.json").write_text(json.dumps(objects))
    (folder / "by_file.json").write_text(json.dumps(by_file))
    (folder / "lines.jsonl").write_text("\n".join(map(json.dumps, records)))
    forms = [
        pl.DataFrame({"path": files, **wide}),
        pl.DataFrame({"path": files, "tags": found}),
        pl.DataFrame(rows, ["path", "label"], orient="row"),
        *sorted(folder.iterdir()),
    ]
    truth = {str(n): {*tags} for n, tags in enumerate(found)}
    assert [content(nooch.dataset(form)) for form in forms] == [truth] * len(forms)


def test_a_path_of_annotations_is_a_dataset(tmp_path):
    photos(tmp_path / "images")
    path = FORMS["semicolons"].make(tmp_path)
    data = nooch.dataset(str(path))
    assert content(data) == TRUTH
    assert data.image_root == str(tmp_path / "images")


BROKEN_FRAMES = {
    "no frame": ({}, "a dict cannot be imported", "polars, pandas or Arrow"),
    "no row": (frame().clear(), "the frame: contains no row"),
    "objects": (pl.DataFrame({"f": ["a.jpg"], "sky": [object()]}), "Python objects: sky"),
    "mixed": (pd.DataFrame({"f": ["a.jpg", 1], "sky": [1, 0]}), "the frame: a DataFrame cannot"),
    "twice": (pl.concat([frame(), frame()]), "the frame: image ids occur more than once: a.jpg"),
    "blank": (
        frame().select("filename", sky=pl.when(pl.col("sky") == 1).then(1)),
        "the frame: 1 cell is blank in sky",
    ),
}


@pytest.mark.parametrize("name", BROKEN_FRAMES)
def test_what_is_not_a_frame_of_labels_is_refused(name, tmp_path):
    made, *words = BROKEN_FRAMES[name]
    kind = ParameterError if name == "no frame" else InputError
    fails(lambda: nooch.import_dataset(made, tmp_path / "out"), *words, kind=kind)
    fails(lambda: nooch.dataset(made), *words, kind=kind)


KINDS = {
    "bit": ["1", "0", "1", "0"],
    "blank": ["1", "", "0", "1"],
    "mark": ["x", "", "x", ""],
    "unsure": ["1", "0", "na", "1"],
    "year": ["2019", "2020", "2021", "2019"],
    "remark": ["", "a tree", "", ""],
    "word": ["in", "out", "off", "in"],
    "y": ["0", "1", "1", "0"],
}
"""Columns of a table; the first kind are labels; the next three and words are asked about."""


@settings(deadline=None)
@given(st.lists(st.sampled_from([*KINDS]), max_size=5).map(lambda kinds: ["bit", *kinds]))
def test_columns_are_labels_or_attributes_or_asked_about(tmp_path_factory, kinds):
    file = tmp_path_factory.mktemp("kinds") / "t.csv"
    named = {kind if kind == "y" else f"{kind}{n}": KINDS[kind] for n, kind in enumerate(kinds)}
    pl.DataFrame({"image": [*TRUTH], **named}).write_csv(file)
    bits = [name for name in named if name.startswith("bit")]
    if set(kinds) & {"blank", "mark", "unsure", "y", "word"}:
        words = fails(lambda: nooch.dataset(file), " for ")
        assert "absent" in words or "labels=['y'" in words or "which are the classes" in words
        # named labels leave the others as attributes
        data = nooch.dataset(file, labels=bits)
    else:
        data = nooch.dataset(file)
    assert sorted(data.classes) == sorted(bits)
    assert sorted(data.attributes) == sorted(set(named) - {*bits})
    for name in bits:
        assert data.labels(name).tolist() == [True, False, True, False]


def test_what_is_likely_labels_is_the_first_remedy():
    """Columns of persons or devices are the last."""
    n = range(60)
    frame = pl.DataFrame({
        "image": [f"{i}.png" for i in n], "patient": [f"p{i // 3}" for i in n],
        "scanner": [("GE", "Siemens", "Philips")[i % 3] for i in n],
        "diagnosis": [("normal", "malignant")[i % 2] for i in n],
    })  # fmt: skip
    words = fails(lambda: nooch.dataset(frame))
    places = [words.index(f"class_column='{n}'") for n in ("diagnosis", "patient", "scanner")]
    assert places == sorted(places)
    assert places[0] < words.index("positive=") < places[1]
