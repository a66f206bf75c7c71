"""Real networks annotate real photographs: areas and presence agree with the annotations."""

import json
import shutil

import pytest
from in_memory import read_label_maps
from sklearn.metrics import roc_auc_score

import nooch

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (nooch[onnx])")

# inputs in [-1, 1], as the network's README says
DEEPLAB = {
    "size": {"height": 513, "width": 513},
    "rescale_factor": 1 / 127.5,
    "image_mean": [1.0] * 3,
    "image_std": [1.0] * 3,
}


@pytest.fixture(scope="module")
def msrc(shared_data):
    source = shared_data / "msrc-v2"
    classes, images = source / "classes.txt", source / "images"
    return read_label_maps(source / "labels", classes, void=[0], images=images)


def photographs(msrc, folder, every):
    """Some of the photographs, and their annotations."""
    folder.mkdir()
    some = msrc.select(rows=range_of(len(msrc), every))
    for name in some.images["file_name"]:
        shutil.copy(f"{some.image_root}/{name}", folder)
    return some


def range_of(length, every):
    import numpy as np

    return np.arange(0, length, every)


def annotated(folder, out, segmenter, **options):
    nooch.import_dataset(
        nooch.io.AnnotationReading(folder, segmenter, device="cpu", **options), out
    )
    return nooch.load_dataset(out)


def test_deeplab(shared_data, msrc, tmp_path):
    true = photographs(msrc, tmp_path / "photos", every=20)
    model = tmp_path / "deeplab"
    shutil.copytree(shared_data / "models" / "deeplab-ade20k", model, copy_function=shutil.copyfile)
    model.chmod(0o755)
    (model / "preprocessor_config.json").write_text(json.dumps(DEEPLAB))
    merge = {"water": ["water", "sea", "river", "lake"]}
    data = annotated(tmp_path / "photos", tmp_path / "data", str(model), merge=merge, batch=4)
    assert data.image_ids.tolist() == true.image_ids.tolist()
    assert len(data.classes) == 146
    for name in ("sky", "grass", "tree", "water"):
        assert roc_auc_score(true.area(name) > 0.1, data.area(name)) > 0.9, name


def test_yolox(shared_data, msrc, tmp_path, monkeypatch):
    monkeypatch.setenv("YOLOX", str(shared_data / "models" / "yolox-nano" / "yolox_nano.onnx"))
    true = photographs(msrc, tmp_path / "photos", every=12)
    data = annotated(tmp_path / "photos", tmp_path / "data", "own_annotators:Yolox")
    names = {"aeroplane": "airplane", **{n: n for n in ("bicycle", "car", "cow", "sheep", "boat")}}
    for name, predicted in names.items():
        scores = data.confidences[:, [data.column(predicted)]].toarray()[:, 0]
        assert roc_auc_score(true.labels(name), scores) > 0.95, name
