"""An import gives what reading, splitting and dividing in memory gives, in any number of parts."""

import errno
import os
import signal
import subprocess
import sys
import time

import polars as pl
import pytest
from coco_files import PHOTO, STUFF, THINGS, document, image, sources, write
from hypothesis import HealthCheck, assume, given, settings, strategies as st
from in_memory import read_coco
from refusals import fails
from same_datasets import changing, in_parts_of, same_folder, stopping, told

from nooch.base.engines import LocalEngine
from nooch.base.errors import InputError, OutputError, ParameterError
from nooch.base.split_plan import SplitPlan
from nooch.data import load_dataset, open_dataset
from nooch.data.importing import parts as import_parts
from nooch.data.importing.import_dataset import import_dataset, with_split
from nooch.io import CocoReading

PLANS = [None, SplitPlan("50/25/25", 3), SplitPlan("50/50/0", 2, "width")]
PLANS = st.sampled_from([*PLANS, SplitPlan("60/20/20", 1, r"(\d?)(\.|$)")])
SMALL = {"part_size": 60, "slice_size": 6000}


def _import(out, *, slice_size=6000, things=(), stuff=(), captions=(), **more):
    """Import COCO files, decoded in small slices."""
    return import_dataset(CocoReading(things, stuff, captions, slice_size=slice_size), out, **more)


def _expected(folder, files, plan=None, part_size=60, **more):
    """What the import should write: the files read into memory, split and divided."""
    whole = with_split(read_coco(**files, **more), plan)
    return in_parts_of(whole, part_size, folder)


PART_SIZES = st.none() | st.integers(1, 9)
IGNORED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@settings(suppress_health_check=IGNORED, deadline=None, max_examples=12)
@given(sample=sources(names=True), plan=PLANS, part_size=PART_SIZES, slice_size=st.integers(1, 300))
def test_any_cut_gives_the_same_bytes(sample, plan, part_size, slice_size, tmp_path_factory):
    folder = tmp_path_factory.mktemp("import")
    files = {
        role: [write(folder / f"{role}{n}.json", text) for n, text in enumerate(texts)]
        for role, texts in sample[1].items()
    }
    whole, problem = told(lambda: with_split(read_coco(**files), plan))
    # an import also keeps images with one file together
    assume(whole is None or whole.images["file_name"].drop_nulls().is_unique().all())
    options = {"part_size": part_size, "split": plan, "slice_size": slice_size}
    done, other = told(lambda: _import(folder / "data", **files, **options))
    assert str(problem) == str(other)
    written = [p.name for p in folder.iterdir() if p.suffix != ".json"]
    assert written == (["data"] if done else [])
    if whole is None:
        return
    in_parts_of(whole, part_size or len(whole), folder / "whole")
    same_folder(folder / "data", folder / "whole")
    assert done.header.fingerprint == whole.fingerprint
    assert done.annotated == whole.areas.nnz
    assert done.captions == (0 if whole.captions is None else whole.captions.height)


def _files(folder, n=400):
    """Things and stuff of n images, and captions, with texts that look like boundaries."""
    images = [image(i * 7 % n + 1, 8, 8) for i in range(n)]
    at = lambda k, **more: {"image_id": k % n + 1, **more}  # noqa: E731
    things = [at(k, category_id=[*THINGS][k % 4], area=k % 9 / 4) for k in range(3 * n)]
    stuff = [at(k, category_id=[*STUFF][k % 4], area=1.5, note="},{") for k in range(2 * n)]
    said = [at(k, caption=f'{k} }}, {{"id": 1') for k in range(n // 2)]
    texts = {"things": document(images, things), "stuff": document(images, stuff, STUFF)}
    texts["captions"] = {"images": images, "annotations": said}
    return {role: [write(folder / f"{role}.json", text)] for role, text in texts.items()}


@pytest.mark.parametrize(("part_size", "map_"), [(None, map), (60, LocalEngine(2).map)])
def test_processes_do_not_matter(tmp_path, part_size, map_):
    files, plan, shown = _files(tmp_path / "in"), SplitPlan("70/10/20"), []
    options = {"split": plan, "part_size": part_size, "map": map_}
    _import(tmp_path / "data", **files, **options, progress=lambda *step: shown.append(step))
    same_folder(tmp_path / "data", _expected(tmp_path / "whole", files, plan, part_size or 400))
    steps = ["reading annotation files", "putting parts together", "writing"]
    assert list(dict.fromkeys(what for what, _, _ in shown)) == steps
    last = {what: (done, total) for what, done, total in shown}
    assert all(done == total > 0 for done, total in last.values())
    n_parts = 7 if part_size else 1
    assert last["putting parts together"] == (n_parts, n_parts)
    assert open_dataset(tmp_path / "data").n_parts == n_parts
    assert (tmp_path / "data" / "images.parquet").is_file() == (part_size is None)


@pytest.mark.parametrize("share", [0, 0.4, 0.8, 0.95])
def test_an_interrupted_import_resumes(tmp_path, share):
    files, plan = _files(tmp_path / "in"), SplitPlan("70/10/20", 4, r"(\d\d)\.jpg")
    every, done = [], []

    def go(out, how):
        _import(tmp_path / out, **files, split=plan, map=how, **SMALL)

    go("whole", stopping(every, None))
    stop = int(share * len(every))
    with pytest.raises(KeyboardInterrupt):
        go("parts", stopping(done, stop))
    assert not (tmp_path / "parts").exists()
    assert len(done) == stop
    go("parts", stopping(done, None))
    assert len(set(done)) == len(done) == len(every), "something was done twice"
    same_folder(tmp_path / "parts", tmp_path / "whole")
    same_folder(tmp_path / "parts", _expected(tmp_path / "expected", files, plan))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["expected", "in", "parts", "whole"]


RUN = """
import sys
from pathlib import Path
from nooch import import_dataset
from nooch.io import CocoReading
from nooch.base.engines import LocalEngine
from nooch.base.split_plan import SplitPlan

if __name__ == "__main__":
    out, *files = map(Path, sys.argv[1:])
    reading = CocoReading(*([file] for file in files), slice_size=1800)
    import_dataset(reading, out, split=SplitPlan("70/10/20"), map=LocalEngine(2).map, part_size=60)
"""


def test_a_killed_import_never_does_again_what_was_done(tmp_path):
    files = _files(tmp_path / "in")
    words = [sys.executable, str(write(tmp_path / "run.py", RUN)), str(tmp_path / "parts")]
    words += [str(file) for (file,) in files.values()]
    before: dict[str, int] = {}
    for most in (1, 4, 6):
        process = subprocess.Popen(words, start_new_session=True)
        try:
            kept: dict[str, int] = {}
            while process.poll() is None and len(kept) < most:
                files_now = filter(_is_kept, tmp_path.glob(".parts.importing-*/*"))
                kept = {p.name: p.stat().st_ino for p in files_now}
                # the workers need the CPU
                time.sleep(0.002)
        finally:
            # the driver alone: its workers are to end by themselves
            process.kill()
            process.wait()
        assert process.returncode == -signal.SIGKILL
        assert not (tmp_path / "parts").exists()
        assert before.items() <= kept.items(), "what was done was done again"
        before = kept
    assert subprocess.run(words, check=False).returncode == 0
    same_folder(tmp_path / "parts", _expected(tmp_path / "whole", files, SplitPlan("70/10/20")))


def _is_kept(path):
    # temporary files begin with a dot
    return path.suffix == ".msgpack" or path.name.startswith("part-")


def test_split_files_images_and_notes_are_those_of_the_same_in_memory(tmp_path):
    files = _files(tmp_path / "in", 100)
    rows = "".join(f"{i},{('train', 'val', 'train')[i % 3]}\n" for i in range(1, 101))
    plan = SplitPlan(str(write(tmp_path / "split.csv", "image_id,split\n" + rows)))
    pictures = tmp_path / "pictures"
    for i in range(1, 90):
        write(pictures / f"{i % 7}" / f"{i:012d}.jpg", PHOTO)
    options = {"split": plan, "images": pictures}
    done = _import(tmp_path / "parts", **files, **options, **SMALL)
    expected = _expected(tmp_path / "whole", files, plan, images=pictures)
    same_folder(tmp_path / "parts", expected)
    assert done.header.image_root == str(pictures)
    assert done.header.provenance["notes"] == [
        ("89 of 89 inspected image files differ in size from their annotations: boxes may not fit"),
        f"11 of 100 image files are not below {pictures}",
        "50 images have no caption, so they have no gist",
        "no image is in the split test",
    ]


def _refuses(tmp_path, kind, *words, helps=True, **more):
    before = sorted(tmp_path.rglob("*"))
    fails(lambda: _import(tmp_path / "new" / "parts", **more), *words, kind=kind, helps=helps)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_cannot_be_done_is_refused_and_leaves_nothing(tmp_path):
    files = _files(tmp_path / "in", 100)
    _refuses(tmp_path, ParameterError, "no annotation file was given", captions=files["captions"])

    def refuses(kind, problem, helps=True, **options):
        _refuses(tmp_path, kind, problem, helps=helps, **files, **options)

    refuses(ParameterError, "`part_size`: is 0", part_size=0)
    plan = SplitPlan("70/10/20", 0, "(")
    refuses(ParameterError, "neither a column nor a pattern", split=plan)
    plan = SplitPlan("70/10/20", 0, "x")
    refuses(ParameterError, "matches no part of", split=plan)
    refuses(InputError, "leaves test empty", split=SplitPlan("98.5/1/0.5"))
    refuses(InputError, "no such folder of images", helps=False, images=tmp_path / "nowhere")
    plan = SplitPlan(str(write(tmp_path / "split.csv", "image_id,split\n1,train\n")))
    refuses(InputError, "the split leaves out 99 of 100 images", split=plan)
    for folder in ("a", "b"):
        write(tmp_path / "pictures" / folder / f"{5:012d}.jpg", PHOTO)
    refuses(InputError, "several files are called", images=tmp_path / "pictures")
    (tmp_path / "new" / "parts").mkdir(parents=True)
    refuses(OutputError, "exists already")


def _no_room(*_args, **_more):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _no_room_in_other_words(*_args, **_more):
    reason = "parquet: underlying IO error: No space left on device (os error 28)"
    raise pl.exceptions.ComputeError(reason)


@pytest.mark.parametrize(
    ("name", "fault"), [("write_part", _no_room_in_other_words), ("write_table", _no_room)]
)
def test_a_full_disk_is_reported_and_finished_work_is_kept(tmp_path, monkeypatch, name, fault):
    files, plan, done = _files(tmp_path / "in"), SplitPlan("70/10/20", 4, r"(\d\d)\.jpg"), []
    write_it = getattr(import_parts, name)

    def sometimes(*args, **more):
        done.append(args)
        return (fault if len(done) > 3 else write_it)(*args, **more)

    def go():
        _import(tmp_path / "parts", **files, split=plan, **SMALL)

    with monkeypatch.context() as patch:
        patch.setattr(import_parts, name, sometimes)
        parts = "cannot write: No space left", "it resumes, and finished work is kept"
        text = fails(go, ".parts.importing-", *parts, kind=OutputError)
    assert ".json" not in text
    assert len(done) == 4
    (kept,) = tmp_path.glob(".parts.importing-*")
    before = {p: p.stat().st_ino for p in kept.iterdir() if _is_kept(p)}
    assert before
    go()
    same_folder(tmp_path / "parts", _expected(tmp_path / "whole", files, plan))


def test_image_files_that_were_added_since_are_found(tmp_path):
    files, pictures, rounds = _files(tmp_path / "in", 100), tmp_path / "pictures", []
    write(pictures / "a" / f"{1:012d}.jpg", PHOTO)

    def go(most):
        def mapping(function, items):
            rounds.append(list(items))
            for item in rounds[-1]:
                if isinstance(item, import_parts.PartJob) and item.number == most:
                    raise KeyboardInterrupt
                yield function(item)

        _import(tmp_path / "parts", **files, images=pictures, map=mapping, part_size=20)

    def parts():
        is_part = lambda items: items and isinstance(items[0], import_parts.PartJob)  # noqa: E731
        return [len(items) for items in rounds if is_part(items)]

    for stop in (2, 3):
        with pytest.raises(KeyboardInterrupt):
            go(stop)
    # the same files: parts that are done stay
    assert parts() == [5, 3]
    write(pictures / "b" / f"{2:012d}.jpg", PHOTO)
    go(None)
    assert parts() == [5, 3, 5]
    found = load_dataset(tmp_path / "parts")
    assert found.images["file_name"][:2].to_list() == [f"a/{1:012d}.jpg", f"b/{2:012d}.jpg"]
    assert f"98 of 100 image files are not below {pictures}" in found.provenance["notes"]


def test_a_file_that_changes_meanwhile_is_refused(tmp_path):
    files = _files(tmp_path / "in", 100)
    words, how = "changed while it was read", changing(files["stuff"][0])
    _refuses(tmp_path, InputError, words, **files, map=how)


def test_two_imports_of_one_dataset_do_not_run_at_once(tmp_path):
    files = _files(tmp_path / "in", 100)

    def mapping(function, items):
        problem = "another process is importing this dataset"
        fails(lambda: _import(tmp_path / "parts", **files), problem, kind=OutputError)
        return map(function, items)

    _import(tmp_path / "parts", **files, map=mapping)
    assert load_dataset(tmp_path / "parts").fingerprint == read_coco(**files).fingerprint


def test_leftovers_of_other_imports_are_removed(tmp_path):
    files = _files(tmp_path / "in", 100)

    def stop(function, items):
        next(iter(map(function, items)))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _import(tmp_path / "parts", **files, part_size=7, map=stop)
    for name in (".parts.importing-0", ".parts2.importing-0"):
        write(tmp_path / name / ".nooch", "")
        write(tmp_path / name / "scan-0.msgpack", "x")
    _import(tmp_path / "parts", **files)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".parts2.importing-0", "in", "parts"]
    before = load_dataset(tmp_path / "parts").fingerprint
    _import(tmp_path / "parts", things=files["things"], overwrite=True)
    assert load_dataset(tmp_path / "parts").fingerprint != before


def test_genuine_files_give_the_same_dataset_in_any_number_of_parts(shared_data, tmp_path):
    tiny = shared_data / "coco-real" / "coco-tiny" / "annotations"
    files = {
        "things": [tiny / f"instances_{part}.json" for part in ("train2017", "val2017")],
        "stuff": [shared_data / "stuff-json" / "stuff_examples.json"],
        "captions": [shared_data / "captions" / "captions_val2017.json"],
    }
    plan = SplitPlan("70/10/20")
    cut = {"part_size": 60, "slice_size": 20_000}
    done = _import(tmp_path / "parts", **files, split=plan, **cut)
    same_folder(tmp_path / "parts", _expected(tmp_path / "whole", files, plan))
    assert done.header.n_images > 160
    # most of the captions are of other images
    strays = "captions of images that no annotation file lists"
    assert any(strays in note for note in done.header.provenance["notes"])
