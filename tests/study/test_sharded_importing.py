"""Importing in parts gives what importing in one piece and dividing gives, however files are cut and by whomever they are read."""

import errno
import json
import os
import signal
import subprocess
import sys

import polars as pl
import pytest
from coco_files import STUFF, THINGS, collections, document, image, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import fails
from same_datasets import same_folder, told

from nooch.data import load_dataset
from nooch.data.shard_writing import save_shards
from nooch.data.shards import divide, open_shards
from nooch.engines import LocalEngine
from nooch.errors import InputError, OutputError, ParameterError
from nooch.plans import SplitPlan
from nooch.readers import coco_scan
from nooch.readers.coco import read_coco
from nooch.study import import_parts
from nooch.study.importing import with_split
from nooch.study.sharded_importing import import_coco_in_parts

# texts that look like what lies between elements, and like keys
NASTY = st.sampled_from(
    ['},{"id":1', "]}", "}]", '"', "\\", '"images": [{"id": 5}]', "a, b", "é{", "", '}, {"image_id": 1, "category_id": 1}, {']
)  # fmt: skip
NESTED = st.recursive(
    NASTY | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NASTY, inner, max_size=2),
    max_leaves=6,
)
ORDERS = st.permutations(["info", "licenses", "images", "annotations", "categories", "more"])


@st.composite
def sources(draw):
    """Random files by role, as text: of odd order and spacing, with odd members and masks in place of areas."""
    content = draw(collections())
    every = [i for files in content.values() for file in files for i in file["images"]]
    for files in content.values():
        for file in files:
            sizes = {i["id"]: (i["height"], i["width"]) for i in file["images"]}
            for annotation in file["annotations"]:
                annotation["attributes"] = draw(NESTED)
                height, width = sizes[annotation["image_id"]]
                if draw(st.integers(0, 3)) == 0:
                    del annotation["area"]
                    ones = draw(st.integers(0, height * width))
                    annotation["segmentation"] = {"counts": [height * width - ones, ones], "size": [height, width]}
            for entry in file["images"]:
                if draw(st.integers(0, 3)) == 0:
                    entry["file_name"] = draw(st.none() | st.sampled_from(["a},{b.jpg", "s/x.jpg", "],[.png"]))
    if draw(st.booleans()):
        listed = [*{i["id"]: i for i in every}.values(), image(2**62 + 1)]
        texts = [
            {"image_id": draw(st.sampled_from(listed))["id"], "caption": draw(NASTY)}
            for _ in range(draw(st.integers(0, 9)))
        ]
        content["captions"] = [{"images": listed, "annotations": texts}]
    return {role: [_text(draw, file) for file in files] for role, files in content.items()}


def _text(draw, file):
    file = {
        **file,
        "more": draw(NESTED | st.lists(st.fixed_dictionaries({"images": NESTED, "annotations": NESTED}), max_size=3)),
    }
    text = json.dumps(
        {k: file[k] for k in draw(ORDERS) if k in file},
        indent=draw(st.sampled_from([None, 0, 2])),
        ensure_ascii=draw(st.booleans()),
    )
    return draw(st.sampled_from(["", " \n"])) + text + draw(st.sampled_from(["", "\r\n\t "]))


PLANS = st.sampled_from(
    [None, SplitPlan("50/25/25", 3), SplitPlan("60/20/20", 1, r"(\d?)(\.|$)"), SplitPlan("50/50/0", 2, "width")]
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None, max_examples=40
)
@given(sample=sources(), plan=PLANS, sizes=st.tuples(st.integers(1, 9), st.integers(60, 4000), st.integers(1, 300)))
def test_any_cut_gives_the_bytes_of_one_piece(sample, plan, sizes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("import")
    files = {
        role: [write(folder / f"{role}{n}.json", text) for n, text in enumerate(texts)]
        for role, texts in sample.items()
    }
    part, range_size, slice_size = sizes
    whole, problem = told(lambda: with_split(read_coco(**files), plan))
    done, other = told(
        lambda: import_coco_in_parts(
            folder / "parts", **files, part_size=part, split=plan, range_size=range_size, slice_size=slice_size
        )
    )
    assert str(problem) == str(other)
    assert sorted(p.name for p in folder.iterdir() if p.suffix != ".json") == (["parts"] if done else [])
    if whole is None:
        return
    save_shards(divide(whole, -(-len(whole) // part)), folder / "whole")
    same_folder(folder / "parts", folder / "whole")
    assert done.header.fingerprint == whole.fingerprint
    assert done.annotated == whole.areas.nnz
    assert done.captions == (0 if whole.captions is None else whole.captions.height)


def _files(folder, n=400):
    """Things and stuff of n images, and captions, with texts that look like boundaries."""
    images = [image(i * 7 % n + 1, 8, 8) for i in range(n)]
    things = [{"image_id": k % n + 1, "category_id": list(THINGS)[k % 4], "area": k % 9 / 4} for k in range(3 * n)]
    stuff = [
        {"image_id": k % n + 1, "category_id": list(STUFF)[k % 4], "area": 1.5, "note": "},{"} for k in range(2 * n)
    ]
    said = [{"image_id": k % n + 1, "caption": f'{k} }}, {{"id": 1'} for k in range(n // 2)]
    texts = {"things": document(images, things), "stuff": document(images, stuff, STUFF)}
    texts["captions"] = {"images": images, "annotations": said}
    return {role: [write(folder / f"{role}.json", text)] for role, text in texts.items()}


SMALL = {"part_size": 60, "range_size": 9000, "slice_size": 900}


def _expected(folder, files, plan=None, **more):
    whole = with_split(read_coco(**files, **more), plan)
    save_shards(divide(whole, -(-len(whole) // 60)), folder)
    return folder


def test_processes_do_not_matter(tmp_path):
    files, plan, shown = _files(tmp_path / "in"), SplitPlan("70/10/20"), []
    import_coco_in_parts(
        tmp_path / "parts",
        **files,
        split=plan,
        map=LocalEngine(2).map,
        progress=lambda *told: shown.append(told),
        **SMALL,
    )
    same_folder(tmp_path / "parts", _expected(tmp_path / "whole", files, plan))
    steps = ["reading annotation files", "putting parts together", "writing"]
    assert list(dict.fromkeys(what for what, _, _ in shown)) == steps
    last = {what: (done, total) for what, done, total in shown}
    assert all(done == total > 0 for done, total in last.values())
    assert last["putting parts together"] == (7, 7)
    assert len(open_shards(tmp_path / "parts")) == 7


def test_plain_files_are_read_once(tmp_path):
    files, begun = _files(tmp_path / "in"), []

    def mapping(function, items):
        begun.append(list(items))
        return map(function, begun[-1])

    import_coco_in_parts(tmp_path / "parts", **files, map=mapping, **SMALL)
    # ranges, and then parts: no range was begun in a wrong place
    assert len(begun) == 2
    assert len(begun[0]) == 3 + sum(-(-file.stat().st_size // 9000) for (file,) in files.values())


def test_what_looks_like_annotations_is_none(tmp_path):
    """Elements hold lists of objects that fit: every range is begun in a wrong place, and read again."""
    files = _files(tmp_path / "in", 60)
    content = json.loads(files["things"][0].read_text())
    for annotation in content["annotations"]:
        annotation["inner"] = [{"image_id": 1, "category_id": 1, "area": 5.0}] * 40
    write(files["things"][0], content)
    rounds = []

    def mapping(function, items):
        rounds.append(list(items))
        return map(function, rounds[-1])

    import_coco_in_parts(tmp_path / "parts", **files, map=mapping, **SMALL)
    assert len(rounds) > 20
    same_folder(tmp_path / "parts", _expected(tmp_path / "whole", files))


@pytest.mark.parametrize("share", [0, 0.1, 0.4, 0.75, 0.95])
def test_an_interrupted_import_goes_on_where_it_was(tmp_path, share):
    files, done = _files(tmp_path / "in"), []
    plan = SplitPlan("70/10/20", 4, r"(\d\d)\.jpg")
    # hashes and ranges of files, parts, and splits of parts
    total = 3 + sum(-(-file.stat().st_size // 9000) for (file,) in files.values()) + 7 + 7
    stop = int(share * total)

    def counted(function, items, most):
        for item in items:
            if len(done) == most:
                raise KeyboardInterrupt
            result = function(item)
            done.append((type(function).__name__, repr(getattr(function, "func", function)), repr(item)))
            yield result

    def go(most):
        import_coco_in_parts(
            tmp_path / "parts", **files, split=plan, map=lambda f, items: counted(f, items, most), **SMALL
        )

    with pytest.raises(KeyboardInterrupt):
        go(stop)
    assert not (tmp_path / "parts").exists()
    assert len(done) == stop
    go(None)
    assert len(set(done)) == len(done), "something was done twice"
    assert len(done) == total
    same_folder(tmp_path / "parts", _expected(tmp_path / "whole", files, plan))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "parts", "whole"]


RUN = """
import sys
from pathlib import Path
from nooch.engines import LocalEngine
from nooch.plans import SplitPlan
from nooch.study.sharded_importing import import_coco_in_parts

if __name__ == "__main__":
    out, *files = map(Path, sys.argv[1:])
    files = {role: [file] for role, file in zip(("things", "stuff", "captions"), files)}
    import_coco_in_parts(out, **files, split=SplitPlan("70/10/20"), map=LocalEngine(2).map, part_size=60, range_size=9000, slice_size=900)
"""


def test_a_killed_import_never_does_again_what_was_done(tmp_path):
    files = _files(tmp_path / "in", 2000)
    words = [sys.executable, str(write(tmp_path / "run.py", RUN)), str(tmp_path / "parts")]
    words += [str(file) for (file,) in files.values()]
    before: dict[str, int] = {}
    for most in (1, 20, 45, 75, 90):
        process = subprocess.Popen(words, start_new_session=True)
        try:
            kept: dict[str, int] = {}
            while process.poll() is None and len(kept) < most:
                kept = {p.name: p.stat().st_ino for p in tmp_path.glob(".parts.importing-*/*") if _is_kept(p)}
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


def test_split_files_images_and_notes_are_those_of_one_piece(tmp_path):
    files = _files(tmp_path / "in", 100)
    rows = "".join(f"{i},{('train', 'val', 'train')[i % 3]}\n" for i in range(1, 101))
    plan = SplitPlan(str(write(tmp_path / "split.csv", "image_id,split\n" + rows)))
    for i in range(1, 90):
        write(tmp_path / "pictures" / f"{i % 7}" / f"{i:012d}.jpg", "")
    done = import_coco_in_parts(
        tmp_path / "parts", **files, split=plan, images=tmp_path / "pictures", map=LocalEngine(2).map, **SMALL
    )
    same_folder(tmp_path / "parts", _expected(tmp_path / "whole", files, plan, images=tmp_path / "pictures"))
    assert done.header.image_root == str(tmp_path / "pictures")
    assert done.header.provenance["notes"] == [
        f"11 of 100 image files are not below {tmp_path / 'pictures'}",
        "50 images have no caption: they have no gist",
        "no image is in the split test",
    ]


def _refuses(tmp_path, kind, *words, helps=True, **more):
    before = sorted(tmp_path.rglob("*"))
    fails(lambda: import_coco_in_parts(tmp_path / "new" / "parts", **more), *words, kind=kind, helps=helps)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_cannot_be_done_is_refused_and_leaves_nothing(tmp_path):
    files = _files(tmp_path / "in", 100)
    _refuses(tmp_path, ParameterError, "no annotation file was given", captions=files["captions"])
    _refuses(tmp_path, ParameterError, "a part of 0 images", **files, part_size=0)
    _refuses(tmp_path, ParameterError, "neither a column nor a pattern", **files, split=SplitPlan("70/10/20", 0, "("))
    _refuses(tmp_path, ParameterError, "matches no part of", **files, split=SplitPlan("70/10/20", 0, "x"))
    _refuses(tmp_path, InputError, "leaves test empty", **files, split=SplitPlan("98.5/1/0.5"))
    _refuses(tmp_path, InputError, "no such folder of images", **files, images=tmp_path / "nowhere", helps=False)
    plan = SplitPlan(str(write(tmp_path / "split.csv", "image_id,split\n1,train\n")))
    _refuses(tmp_path, InputError, "the split leaves out 99 of 100 images", **files, split=plan)
    for folder in ("a", "b"):
        write(tmp_path / "pictures" / folder / f"{5:012d}.jpg", "")
    _refuses(tmp_path, InputError, "several files are called", **files, images=tmp_path / "pictures")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "parts").mkdir()
    _refuses(tmp_path, OutputError, "exists already", **files)


def _no_room(*_args, **_more):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _no_room_in_other_words(*_args, **_more):
    raise pl.exceptions.ComputeError("parquet: underlying IO error: No space left on device (os error 28)")


@pytest.mark.parametrize(
    ("place", "fault"),
    [
        ((coco_scan, "write_spill"), _no_room),
        ((import_parts, "write_part"), _no_room_in_other_words),
        ((import_parts, "write_images"), _no_room),
    ],
)
def test_a_full_disk_is_told_and_what_is_done_is_kept(tmp_path, monkeypatch, place, fault):
    """It is no fault of the annotation file that is being read meanwhile."""
    files, plan, done = _files(tmp_path / "in"), SplitPlan("70/10/20", 4, r"(\d\d)\.jpg"), []
    write_it = getattr(*place)

    def sometimes(*args, **more):
        done.append(args)
        return (fault if len(done) > 3 else write_it)(*args, **more)

    def go():
        import_coco_in_parts(tmp_path / "parts", **files, split=plan, **SMALL)

    with monkeypatch.context() as patch:
        patch.setattr(*place, sometimes)
        text = fails(go, ".parts.importing-", "cannot write: No space left", "goes on where it was", kind=OutputError)
    assert ".json" not in text
    assert len(done) == 4
    (kept,) = tmp_path.glob(".parts.importing-*")
    before = {p: p.stat().st_ino for p in kept.iterdir() if _is_kept(p)}
    assert before
    go()
    same_folder(tmp_path / "parts", _expected(tmp_path / "whole", files, plan))


def test_image_files_that_came_meanwhile_are_seen(tmp_path):
    files, pictures, rounds = _files(tmp_path / "in", 100), tmp_path / "pictures", []
    write(pictures / "a" / f"{1:012d}.jpg", "")

    def go(most):
        def mapping(function, items):
            rounds.append(list(items))
            for item in rounds[-1]:
                if isinstance(item, import_parts.Part) and item.number == most:
                    raise KeyboardInterrupt
                yield function(item)

        import_coco_in_parts(tmp_path / "parts", **files, images=pictures, map=mapping, **SMALL | {"part_size": 20})

    def parts():
        return [len(items) for items in rounds if items and isinstance(items[0], import_parts.Part)]

    for stop in (2, 3):
        with pytest.raises(KeyboardInterrupt):
            go(stop)
    # the same files: parts that are done stay
    assert parts() == [5, 3]
    write(pictures / "b" / f"{2:012d}.jpg", "")
    go(None)
    assert parts() == [5, 3, 5]
    found = load_dataset(tmp_path / "parts")
    assert found.images["file_name"][:2].to_list() == [f"a/{1:012d}.jpg", f"b/{2:012d}.jpg"]
    assert f"98 of 100 image files are not below {pictures}" in found.provenance["notes"]


def test_a_file_that_changes_meanwhile_is_refused(tmp_path):
    files = _files(tmp_path / "in", 100)

    def mapping(function, items):
        yield from map(function, items)
        os.utime(files["stuff"][0], (1, 1))

    _refuses(tmp_path, InputError, "was changed while it was read", **files, map=mapping)


def test_two_imports_of_one_dataset_do_not_run_at_once(tmp_path):
    files = _files(tmp_path / "in", 100)

    def mapping(function, items):
        fails(
            lambda: import_coco_in_parts(tmp_path / "parts", **files),
            "another process is importing this dataset",
            kind=OutputError,
        )
        return map(function, items)

    import_coco_in_parts(tmp_path / "parts", **files, map=mapping)
    assert load_dataset(tmp_path / "parts").fingerprint == read_coco(**files).fingerprint


def test_what_other_imports_left_is_tidied_up(tmp_path):
    files = _files(tmp_path / "in", 100)

    def stop(function, items):
        next(iter(map(function, items)))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_coco_in_parts(tmp_path / "parts", **files, part_size=7, map=stop)
    write(tmp_path / ".parts.importing-0" / "scan-0.msgpack", "x")
    write(tmp_path / ".parts2.importing-0" / "scan-0.msgpack", "x")
    import_coco_in_parts(tmp_path / "parts", **files)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".parts2.importing-0", "in", "parts"]
    before = load_dataset(tmp_path / "parts").fingerprint
    import_coco_in_parts(tmp_path / "parts", things=files["things"], overwrite=True)
    assert load_dataset(tmp_path / "parts").fingerprint != before


def test_genuine_files_in_parts_are_those_in_one_piece(shared_data, tmp_path):
    tiny = shared_data / "coco-real" / "coco-tiny" / "annotations"
    files = {
        "things": [tiny / f"instances_{part}.json" for part in ("train2017", "val2017")],
        "stuff": [shared_data / "stuff-json" / "stuff_examples.json"],
        "captions": [shared_data / "captions" / "captions_val2017.json"],
    }
    plan = SplitPlan("70/10/20")
    cut = SMALL | {"range_size": 100_000, "slice_size": 20_000}
    done = import_coco_in_parts(tmp_path / "parts", **files, split=plan, map=LocalEngine(2).map, **cut)
    same_folder(tmp_path / "parts", _expected(tmp_path / "whole", files, plan))
    assert done.header.n_images > 160
    # most of the captions are of other images
    assert any("captions belong to images that no annotation file lists" in n for n in done.header.provenance["notes"])
