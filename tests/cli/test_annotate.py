"""``nooch annotate``: from images and a model to a dataset that find takes."""

import numpy as np
import pytest
from full_disk import full_disk
from image_folders import smooth
from segmenters import save_onnx, save_segmenter

from nooch.data import load_dataset

pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
pytest.importorskip("transformers", reason="transformers is not installed (nooch[train])")


@pytest.fixture
def photos(tmp_path):
    (tmp_path / "photos").mkdir()
    for number in range(12):
        smooth(number, 40, 30).save(tmp_path / "photos" / f"{number}.png")
    save_segmenter(tmp_path / "model", "segformer")
    return tmp_path


def test_a_dataset_that_find_takes(photos, run_cli):
    merge = "--merge way=road+path --split 60/20/20 --maps maps --batch-size 3"
    done = run_cli(f"annotate photos data --segmenter model {merge}").ok()
    assert "data: 12 images (train 8, valid 2, test 2), 2 classes" in done.out.replace("\n", " ")
    data = load_dataset(photos / "data")
    assert data.classes == ("sky", "way")
    assert data.provenance["predicted"]["merge"] == {"way": ["road", "path"]}
    assert len(list((photos / "maps").glob("*.png"))) == 12
    assert "predicted by model" in " ".join(run_cli("info data").ok().out.split())
    cues = "--cues sky=way --tasks sky --criterion ce"
    run_cli(f"find data {cues} --out suite").ok()
    run_cli("report suite --annotations maps --out site").ok()
    index = (photos / "site" / "index.html").read_text(encoding="utf-8")
    assert "predicted by model, not annotated" in index
    shown = len(list((photos / "site").rglob("*-cue0.png")))
    # of each image of valid and test with a pixel of the cue
    found = data.confidences[:, [1]].toarray()[:, 0] > 0
    assert shown == (found & (data.images["split"] != "train").to_numpy()).sum() > 0


def test_labels(photos, run_cli):
    rows = [f"{number},{number % 2},{number // 6}" for number in range(12)]
    (photos / "labels.csv").write_text("\n".join(["id,cow,car", *rows]))
    labels = "--labels labels.csv --tasks cow --min-area 0.2 --format json"
    done = run_cli(f"annotate photos data --segmenter model {labels}").ok()
    assert done.json["classes"] == 4
    assert "`merge` cow=CLASS" not in done.err
    assert "--merge cow=CLASS" in done.err
    areas = load_dataset(photos / "data").areas
    assert areas.data[areas.data > 0].min() > 0.2
    np.testing.assert_array_equal(load_dataset(photos / "data").labels("cow"), np.arange(12) % 2)


def test_labels_of_pixels_that_may_overlap_are_asked_about(photos, run_cli):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (nooch[onnx])")
    save_onnx(photos / "own", [[1, 0, 0], [1, 0.2, 0], [0, 0, 0.1]])
    (photos / "own" / "labels.txt").write_text("sky\nroad\npath\n")
    (photos / "labels.csv").write_text("\n".join(["id,road", *(f"{n},0" for n in range(12))]))
    command = "annotate photos data --segmenter own --labels labels.csv"
    asked = "does not say whether its outputs exclude each other", "--outputs exclusive if"
    run_cli(command).refused(*asked, "--outputs independent if")
    assert not (photos / "data").exists()
    done = run_cli(f"{command} --outputs independent").ok()
    said = " ".join(done.err.split())
    data = load_dataset(photos / "data")
    assert "outputs are read as independent: as --outputs says; yes (labeled yes): road" in said
    assert "warning: far more or fewer yes than labeled: road" in said
    assert data.provenance["predicted"]["outputs"] == "independent"
    overlapping = np.asarray(data.area("sky") + data.area("path"))
    assert overlapping.max() > 1
    run_cli("annotate photos two --segmenter model --outputs independent").refused(
        "its outputs are exclusive: SegformerForSemanticSegmentation", "leave out --outputs"
    )


def test_a_table_of_labels_takes_the_hints_of_an_import(photos, run_cli):
    """What its columns leave open is asked, and answered by the same options."""
    rows = [f"{n};{('out', 'in')[n % 2]};p{n // 9};{n % 3}" for n in range(12)]
    (photos / "labels.csv").write_text("\n".join(["id;cow;part;light", *rows]))
    command = "annotate photos data --segmenter model --labels labels.csv"
    run_cli(command).refused("are cow, part labels", "--positive cow=in")
    hints = "--positive cow=in --label cow --split-column part --split-values p0=train,p1=test"
    run_cli(f"{command} {hints}").ok()
    data = load_dataset(photos / "data")
    np.testing.assert_array_equal(data.labels("cow"), np.arange(12) % 2)
    assert data.images["split"].to_list() == ["train"] * 9 + ["test"] * 3
    assert {*data.attributes} >= {"light"}
    both = f"{command} {hints} --split 50/50 --overwrite"
    run_cli(both).refused("--split and --split-column exclude")
    alone = "annotate photos other --segmenter model --split-values 0=train"
    run_cli(alone).refused("options of tables need --labels", "give --labels")
    given = "annotate photos other --segmenter model --labels data --label cow"
    run_cli(given).refused("--labels: is a dataset", "leave out --label")


def test_a_full_disk_loses_nothing(photos, run_cli):
    command = "annotate photos data --segmenter model --maps maps --batch 1"
    with full_disk(1000):
        run_cli(command).refused("cannot write: File too large", "it resumes")
    assert not (photos / "data").exists()
    run_cli(command).ok()
    assert not list(photos.glob(".*"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--merge road", "'road' is not a pair"),
        ("--tasks cow", "--tasks needs --labels"),
        ("--embedder nowhere", "is not a backbone"),
        ("--device cuda:99", "there is no device"),
        ("--size 20000", "1 to 16384 pixels"),
    ],
)
def test_options_that_do_not_fit(photos, run_cli, words, message):
    run_cli(f"annotate photos data --segmenter model {words}").refused(message)
    assert {p.name for p in photos.iterdir()} == {"photos", "model"}
