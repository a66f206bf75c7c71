"""``nooch import``: what is printed where, exit codes, and no incomplete output."""

import json
import signal
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from coco_files import areas_of, write
from every_command import annotation_files
from PIL import Image
from waiting import HANGS, until

from nooch.data import load_dataset


@pytest.fixture
def files(tmp_path):
    """A folder of inputs of every kind: ten images of 4 x 4 pixels."""
    folder = tmp_path / "in"
    annotation_files(folder)
    return folder


KINDS = {
    "coco": "coco --things in/train.json --things in/val.json --stuff in/stuff.json",
    "label-maps": "label-maps in/maps --classes in/names.txt",
    "boxes": "boxes in/labels --boxes yolo --classes in/names.txt",
    "table": "table in/table.csv --id id --label bird --attributes place",
    "long-table": "table in/long.csv --id id --class class --area area",
}
"""Commands that work, but for the dataset."""
COCO, TABLE = (f"import {KINDS[kind]}" for kind in ("coco", "table"))


def _left(folder):
    return sorted(p.name for p in folder.iterdir())


# what works


@pytest.mark.parametrize("kind", KINDS)
def test_a_dataset_is_written_and_reported(run_cli, files, tmp_path, kind):
    out = tmp_path / "new" / "data"
    done = run_cli(f"import {KINDS[kind]} {out}").ok()
    assert f"{out}: 10 images (all 10)" in done.out
    assert f"next: nooch find {out}" in done.out
    assert len(load_dataset(out)) == 10
    assert _left(out.parent) == ["data"]


@pytest.mark.parametrize("kind", KINDS)
def test_json_stands_alone_on_standard_output(run_cli, files, tmp_path, kind):
    done = run_cli(f"import {KINDS[kind]} data --split 70/10/20 --format json").ok()
    data = load_dataset(tmp_path / "data")
    assert done.json == {
        "dataset": "data",
        "images": 10,
        "splits": {"train": 7, "valid": 1, "test": 2},
        "classes": len(data.classes),
        "annotated": data.areas.nnz,
        "captions": 0,
        "attributes": list(data.attributes),
        "area": data.provenance["area"],
        "fingerprint": data.fingerprint,
        "notes": list(data.provenance["notes"]),
    }
    for text in data.provenance["notes"]:
        assert text in done.err


def test_as_typed_in_a_shell(files, run_cli, tmp_path):
    # relative paths, another process, several processes within
    done = run_cli(
        "import coco --things in/train.json --things in/val.json --stuff in/stuff.json --captions"
        " in/captions.json --split in/split.csv --processes 2 --format json data",
        separate=True,
    ).ok()
    assert done.json["splits"] == {"train": 3, "valid": 4, "test": 3}
    assert done.json["captions"] == 1
    assert json.loads(done.err) == {"note": "9 images have no caption, so they have no gist"}
    data = load_dataset(tmp_path / "data")
    assert areas_of(data)[5] == {"person": 2 / 16, "road": 0.5}
    assert areas_of(data)[6] == {}
    assert data.provenance["split"]["source"] == "in/split.csv"


def test_the_number_of_processes_has_no_effect(run_cli, files):
    done = run_cli(f"{COCO} data --format json --processes 3")
    alone = run_cli(f"{COCO} again --format json --processes 1")
    assert done.json["fingerprint"] == alone.json["fingerprint"]


def test_splits_seeds_and_groups(run_cli, files, tmp_path):
    table = "import table in/table.csv --id id --label bird --file-name path"
    prints = []
    for number, seed in enumerate((0, 0, 1)):
        done = run_cli(f"{table} {number} --split 40/30/30 --seed {seed} --format json")
        prints.append(done.json["fingerprint"])
    assert prints[0] == prints[1] != prints[2]
    for number, group in enumerate(("place", "^s[0-9]")):
        out = tmp_path / f"group{number}"
        done = run_cli(f"{table} {out} --split 20/40/40 --group {group}")
        assert done.code == (0 if number else 2), done.err
        if done.code:
            # two groups do not fill three splits
            assert "leaves" in done.err
            assert not out.exists()
            continue
        images = load_dataset(out).images.with_columns(group=pl.col("file_name").str.slice(0, 2))
        splits = images.group_by("group").agg(pl.col("split").n_unique())["split"]
        assert splits.to_list() == [1, 1, 1]


def test_a_column_of_splits_and_what_its_values_mean(run_cli, files, tmp_path):
    values = "--split-values '0=train, 1=valid,2=test'"
    done = run_cli(f"{TABLE} data --split-column fold {values} --format json")
    assert done.json["splits"] == {"train": 3, "valid": 4, "test": 3}
    assert done.json["attributes"] == ["place"]


def test_pixel_maps_instead_of_a_stuff_file(run_cli, files, tmp_path):
    (tmp_path / "pixels").mkdir()
    for i in range(1, 11):
        Image.fromarray(np.full((4, 4), 149, np.uint8)).save(tmp_path / "pixels" / f"{i:012d}.png")
    run_cli(
        "import coco --things in/train.json --stuff-maps pixels --stuff-map-values pixelmaps data"
    ).ok()
    assert load_dataset(tmp_path / "data").area("road").tolist() == [1.0] * 6


def test_boxes_name_their_format_twice(run_cli, files, tmp_path):
    done = run_cli("import boxes in/labels data --boxes yolo --classes in/names.txt --format json")
    assert done.json["area"] == "boxes"
    assert "areas are of bounding boxes" in done.err


@pytest.mark.parametrize("command", ["coco", "label-maps", "boxes", "table"])
def test_help(run_cli, command):
    done = run_cli(f"import {command} --help").ok()
    assert "DATASET" in done.out
    assert "--split" in done.out


# what does not


def test_an_error_in_a_worker_process_is_shown_as_any_other(run_cli, files, tmp_path):
    write(files / "val.json", '{"images": [')
    command = f"{COCO} data --processes 2"
    error = run_cli(command, separate=True).refused("val.json: is not valid JSON")
    assert error.startswith("error: ")
    assert _left(tmp_path) == ["in"]


# where it is written


def test_an_empty_folder_is_replaced_only_when_told(run_cli, files, tmp_path):
    (tmp_path / "empty").mkdir()
    run_cli(f"{COCO} empty").refused("exists already")
    run_cli(f"{COCO} empty --overwrite").ok()


# interrupted

PAUSED = """
import sys, time
from pathlib import Path

def wait(*_):
    Path(sys.argv[0]).touch()
    time.sleep(300)

if {where!r} == "reading":
    import nooch.data.readers.coco.rows
    nooch.data.readers.coco.rows.FileJob._write = wait
else:
    whole = Path.write_bytes

    def half(path, content):
        if content[:4] != b"PAR1":
            return whole(path, content)
        whole(path, content[: len(content) // 2])
        wait()

    Path.write_bytes = half
from nooch.cli import main
main()
"""


@pytest.fixture
def paused(files, tmp_path):
    """Start an import that waits in the middle (of ``reading`` or ``writing``), send it a signal,
    give its exit code.
    """

    def start(where, number, *more):
        ready = tmp_path / "ready"
        # in one process, where the patches below are
        words = ["import", "coco", "--things", "in/train.json", "--processes", "1", "out/data"]
        # what it is called is where it says that it waits
        command = f"import sys; sys.argv[0] = {str(ready)!r}\n" + PAUSED.format(where=where)
        process = subprocess.Popen(
            [sys.executable, "-c", command, *words, *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            until(ready.exists, while_=lambda p=process: p.poll() is None)
            assert process.poll() is None, process.stderr.read().decode()
            during = _left(tmp_path / "out")
            process.send_signal(number)
            out, err = process.communicate(timeout=HANGS)
        finally:
            process.kill()
            process.wait()
        ready.unlink()
        assert b"Traceback" not in err
        assert out == b""
        return process.returncode, during

    (tmp_path / "out").mkdir()
    return start


@pytest.mark.parametrize(
    ("where", "number", "code"),
    [
        ("reading", signal.SIGTERM, 143),
        ("reading", signal.SIGKILL, -signal.SIGKILL),
        ("writing", signal.SIGINT, 130),
        ("writing", signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_an_interruption_leaves_no_dataset_and_the_next_import_resumes(
    paused, run_cli, files, tmp_path, where, number, code
):
    ended, during = paused(where, number)
    assert ended == code
    assert all(name.startswith(".data.importing-") for name in (*during, *_left(tmp_path / "out")))
    with pytest.raises(ValueError, match="is not a dataset"):
        load_dataset(tmp_path / "out" / "data")
    run_cli(f"{COCO} out/data").ok()
    assert _left(tmp_path / "out") == ["data"]
    assert len(load_dataset(tmp_path / "out" / "data")) == 10


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_replacement_keeps_the_old_dataset(paused, run_cli, files, tmp_path, number):
    out = tmp_path / "out" / "data"
    run_cli(f"{COCO} out/data").ok()
    before = load_dataset(out).fingerprint
    paused("writing", number, "--overwrite")
    assert load_dataset(out).fingerprint == before
    run_cli(f"{TABLE} out/data --overwrite").ok()
    assert _left(tmp_path / "out") == [".data.old", "data"]


# genuine files


def test_genuine_coco_with_the_published_split(run_cli, shared_data, tmp_path):
    folder = shared_data / "coco-real" / "coco128"
    done = run_cli(
        f"import coco --things {folder / 'annotations' / 'instances_train2017.json'}"
        f" --images {folder} --split"
        f" {shared_data / 'nooch-published' / 'cocostuff_split_image_ids.npz'} --format"
        f" json data"
    ).ok()
    assert done.json["images"] == 128
    assert sum(done.json["splits"].values()) == 128
    assert load_dataset(tmp_path / "data").images["file_name"].str.starts_with("train2017/").all()


def test_genuine_label_maps(run_cli, shared_data, tmp_path):
    folder = shared_data / "msrc-v2"
    done = run_cli(
        f"import label-maps {folder / 'labels'} --classes {folder / 'classes.txt'} --void 0"
        f" --images {folder / 'images'} --split 60/20/20 --group '^[0-9]+' --format json"
        f" data"
    ).ok()
    assert (done.json["images"], done.json["classes"], done.json["area"]) == (591, 23, "pixels")
    images = load_dataset(tmp_path / "data").images.with_columns(
        scene=pl.col("image_id").str.extract("^([0-9]+)")
    )
    assert images.group_by("scene").agg(pl.col("split").n_unique())["split"].unique().to_list() == [
        1
    ]


def test_genuine_table(run_cli, shared_data, tmp_path):
    done = run_cli(
        f"import table {shared_data / 'waterbirds' / 'metadata.csv'} --id img_id --label y"
        " --attributes place --file-name img_filename --split-column split --split-values"
        f" 0=train,1=valid,2=test --format json data"
    ).ok()
    assert done.json["splits"] == {"train": 4795, "valid": 1199, "test": 5794}
    assert done.json["attributes"] == ["place"]
