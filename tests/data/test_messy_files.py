"""Files as people have them: read as they mean, or refused with every reading and its flag."""

from pathlib import PurePosixPath

import pytest
from messy_files import FORMS, TRUTH, frame, photos
from refusals import fails

import nooch
from nooch.base.errors import ParameterError
from nooch.data.importing.table_roles import Hints


def content(folder):
    """Stem of each image -> its classes; the folder of a file name is not compared."""
    data = nooch.load_dataset(folder)
    names = data.images["file_name"].fill_null(data.images["image_id"].cast(str))
    stems = [PurePosixPath(name.replace("\\", "/")).stem for name in names]
    dense = data.areas.tocsr()
    return {
        stem: {data.classes[c] for c in dense.indices[dense.indptr[n] : dense.indptr[n + 1]]}
        for n, stem in enumerate(stems)
    }


def outcome(form, run_cli, tmp_path):
    """What an import comes to, and its words."""
    path = form.make(tmp_path / "in")
    if path is None:
        pytest.skip("the real data is not here")
    done = run_cli(f"import auto {path} {tmp_path / 'out'} {form.flags}")
    words = " ".join(done.err.split())
    if done.code == 0:
        found, truth = content(tmp_path / "out"), form.truth or TRUTH
        right = len(found) == truth if isinstance(truth, int) else found == truth
        return ("right" if right else f"wrong: {found}"), words
    if (
        not all(word in words for word in form.words)
        or "remedy:" not in words
        or "internal error" in words
    ):
        return f"dead: {words}", words
    return ("asked" if form.outcome == "asked" else "refused"), words


@pytest.mark.parametrize("name", FORMS)
def test_a_messy_file_is_read_or_refused_with_a_remedy(name, tmp_path, run_cli):
    found, words = outcome(FORMS[name], run_cli, tmp_path)
    assert found == FORMS[name].outcome, words
    if FORMS[name].has_files:
        data = nooch.load_dataset(tmp_path / "out")
        files = [path.name for path in (tmp_path / "in" / "images").rglob("*.jpg")]
        assert sorted(files) == [PurePosixPath(name).name for name in data.images["file_name"]]
        assert all((tmp_path / "in/images" / name).is_file() for name in data.images["file_name"])


@pytest.mark.parametrize("kind", ["polars", "lazy", "pandas", "Arrow"])
def test_a_frame_is_imported(kind, tmp_path):
    table = frame().rename({"filename": "shown"})
    made = {
        "polars": lambda: table, "lazy": table.lazy, "pandas": table.to_pandas,
        "Arrow": table.to_arrow,
    }[kind]()  # fmt: skip
    images = photos(tmp_path / "photos")
    hints = Hints(id="shown", label=["sky", "road"])
    done = nooch.import_dataset(made, tmp_path / "out", hints=hints, images=images)
    assert done.header.n_images == len(TRUTH)
    assert content(tmp_path / "out") == TRUTH
    data = nooch.load_dataset(tmp_path / "out")
    assert sorted(data.images["file_name"]) == [f"{stem}.jpg" for stem in TRUTH]


def test_what_is_not_a_frame_is_refused(tmp_path):
    words = "a dict cannot be imported", "polars, pandas or Arrow"
    fails(lambda: nooch.import_dataset({}, tmp_path / "out"), *words, kind=ParameterError)
