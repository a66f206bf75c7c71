"""Broken image files: what is found, against decoding every file whole; left out, or refused."""

import io
from functools import partial

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from image_folders import smooth
from PIL import Image
from refusals import fails

import nooch
from nooch.base.errors import InputError
from nooch.base.split_plan import SplitPlan
from nooch.data.importing.broken_images import LIST, broken_reason
from nooch.data.importing.import_dataset import import_dataset
from nooch.data.readers.image_folder import FolderReading

KINDS = {"JPEG": "jpg", "PNG": "png", "GIF": "gif", "WEBP": "webp", "BMP": "bmp", "TIFF": "tif"}
HTML = b"\n<!DOCTYPE html><html><title>404</title></html>"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


def encoded(kind, **options):
    content = io.BytesIO()
    smooth(3, 40, 30).save(content, kind, **options)
    return content.getvalue()


WHOLE = {kind: encoded(kind) for kind in KINDS} | {"progressive": encoded("JPEG", progressive=True)}


def decodes(content):
    """Whether Pillow reads all pixels: the slow and obvious way."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            image.load()
    except Exception:  # noqa: BLE001 - whatever a damaged file makes Pillow raise
        return False
    return True


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([*WHOLE]), st.integers(0, 5000), st.sampled_from([b"", b"\0" * 99, b"more"]))
def test_what_is_cut_off_is_found_and_what_can_be_read_is_kept(tmp_path_factory, kind, cut, more):
    content = WHOLE[kind]
    content = content[: max(0, len(content) - cut)] + more
    file = tmp_path_factory.getbasetemp() / "picture"
    file.write_bytes(content)
    assert (broken_reason(str(file)) is None) == decodes(content)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (HTML, "HTML"),
        (b"<svg></svg>", "SVG"),
        (POINTER, "git lfs pull"),
        (b"\0" * 4000, "cannot identify"),
        (WHOLE["JPEG"][:-200], "truncated"),
        (b"a,b\n1,2\n", "cannot identify"),
    ],
)
def test_the_reason_is_named(content, words, tmp_path):
    (tmp_path / "a.jpg").write_bytes(content)
    assert words in broken_reason(str(tmp_path / "a.jpg"))


def test_a_missing_file_is_not_broken(tmp_path):
    assert broken_reason(str(tmp_path / "no.jpg")) is None


@pytest.fixture
def photos(tmp_path):
    """Two classes of ten images; the fourth and the last cannot be read."""
    for n in range(20):
        file = tmp_path / "in" / ["cat", "dog"][n // 10] / f"{n:02d}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes({3: b"", 19: HTML}.get(n, WHOLE["JPEG"]))
    return tmp_path / "in"


@pytest.mark.parametrize("part_size", [None, 7, 1])
@pytest.mark.parametrize("group", [None, r"\d(\d)\.jpg"])
def test_they_are_left_out_with_their_labels(photos, tmp_path, part_size, group):
    plan = SplitPlan("60/20/20", 1, group)
    reading = FolderReading(photos)
    done = import_dataset(reading, tmp_path / "out", part_size=part_size, split=plan)
    data = nooch.load_dataset(tmp_path / "out")
    names = data.images["file_name"].to_list()
    assert names == sorted(
        f"{name}/{n:02d}.jpg"
        for n in range(20)
        for name in [["cat", "dog"][n // 10]]
        if n not in {3, 19}
    )
    assert data.labels("cat").sum() == data.labels("dog").sum() == 9
    note = done.facts["notes"][0]
    assert note.startswith("2 of 20 images cannot be read and are left out, with 2 labels: cat/03")
    listed = pl.read_csv(tmp_path / "out" / LIST)
    assert listed["file"].to_list() == ["cat/03.jpg", "dog/19.jpg"]
    assert listed["reason"][0] == "is empty"
    checked = nooch.fsck(tmp_path / "out")
    assert checked.is_whole
    assert not checked.notes
    # the others are in the split that they would have without broken images
    for n in (3, 19):
        (photos / ["cat", "dog"][n // 10] / f"{n:02d}.jpg").write_bytes(WHOLE["JPEG"])
    import_dataset(reading, tmp_path / "whole", part_size=part_size, split=plan)
    assert not (tmp_path / "whole" / LIST).exists()
    whole = nooch.load_dataset(tmp_path / "whole")
    splits = dict(whole.images.select("file_name", "split").iter_rows())
    assert dict(data.images.select("file_name", "split").iter_rows()) == {
        name: splits[name] for name in names
    }
    import_dataset(reading, tmp_path / "out", part_size=part_size, overwrite=True)
    assert len(nooch.load_dataset(tmp_path / "out")) == 20
    assert not (tmp_path / "out" / LIST).exists()


def test_they_are_refused(photos, tmp_path):
    act = partial(import_dataset, FolderReading(photos), tmp_path / "out", broken="refuse")
    fails(act, "2 of 20 images", "cat/03.jpg (is empty)", "broken='leave-out'", kind=InputError)
    for file in (photos / "cat/03.jpg", photos / "dog/19.jpg"):
        file.write_bytes(WHOLE["PNG"])
    # nothing of the refused import is used
    assert act().header.n_images == 20


def test_an_import_of_only_broken_images_is_refused(tmp_path):
    (tmp_path / "in/cat").mkdir(parents=True)
    (tmp_path / "in/cat/1.jpg").write_bytes(b"")
    act = partial(import_dataset, FolderReading(tmp_path / "in"), tmp_path / "out")
    fails(act, "1 of 1 images", "cat/1.jpg (is empty)")


def test_as_typed(photos, tmp_path, run_cli):
    done = run_cli(f"import image-folder {photos} {tmp_path / 'out'} --broken refuse")
    assert done.code == 2
    assert "--broken leave-out" in done.err
    done = run_cli(f"import auto {photos} {tmp_path / 'out'}").ok()
    assert "2 of 20 images cannot be read" in done.err
    assert run_cli(f"import auto {photos} {tmp_path / 'b'} --broken remove").code == 2


def test_without_a_folder_of_images_nothing_is_checked(photos, tmp_path):
    rows = {"image_id": ["cat/03.jpg", "dog/18.jpg"], "cat": [1, 0]}
    hints = nooch.io.Hints(id="image_id")
    act = partial(import_dataset, pl.DataFrame(rows), hints=hints)
    assert act(tmp_path / "a").header.n_images == 2
    assert act(tmp_path / "b", images=photos).header.n_images == 1
    assert np.array_equal(nooch.load_dataset(tmp_path / "b").image_ids, ["dog/18.jpg"])
