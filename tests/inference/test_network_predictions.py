"""Predictions of a model on a suite's images: the images found, the same numbers in every batch,
files that evaluate reads.
"""

from functools import partial

import numpy as np
import polars as pl
import pytest
from answering import save_classifier
from image_folders import image_dataset
from PIL import Image
from refusals import fails, refused
from scipy.sparse import csr_array

import nooch
from nooch.base.errors import NoochError, OutputError
from nooch.data import Dataset
from nooch.inference.predict import find_images, predict, save_predictions, tasks_to_predict

torch = pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
pytest.importorskip("transformers", reason="transformers is not installed (nooch[train])")

N = 20


@pytest.fixture
def data(tmp_path):
    """Cars and cows on streets and without in 20 images, half of them test."""
    plain = image_dataset(tmp_path, N)
    split = pl.Series("split", ["test" if i % 2 else "valid" for i in range(N)])
    areas = np.zeros((N, 3))
    areas[:10, 0], areas[::3, 1], areas[5:15, 2] = 0.2, 0.3, 0.4
    images, classes = plain.images.with_columns(split), ["car", "cow", "street"]
    return Dataset.build(images, classes, csr_array(areas), image_root=plain.image_root)


@pytest.fixture
def suite(data):
    cues = {"car": ["street"], "cow": ["street"]}
    return nooch.find(data, {"ce": nooch.CE(cues=cues)}, tasks=["car", "cow"])


@pytest.fixture
def model(tmp_path):
    from nooch.models.task_models import load_task_model

    folder = save_classifier(tmp_path / "model", ("car", "cow", "street"))
    return load_task_model(str(folder), ["car", "cow"], device="cpu")


def test_predictions_are_the_models_in_every_batch(suite, data, model):
    ids, paths = find_images(suite, ["car", "cow"], data=data)
    assert ids.to_list() == list(range(N))
    shown, run = [], partial(predict, model, ids, paths, codec="pil")
    made = run(batch=3, readers=2, progress=lambda *done: shown.append(done))
    assert (made.run, made.tasks, made.scale) == ("model", ("car", "cow"), "logit")
    assert shown == [(0, 20), *((min(done, 20), 20) for done in range(3, 22, 3))]
    for number in (0, 7, 19):
        with Image.open(paths[number]) as image:
            pixels = np.array(image.resize((32, 32), Image.Resampling.BILINEAR))[None]
        with torch.inference_mode():
            expected = model.logits(pixels)[0].numpy()
        assert made.values[:, number] == pytest.approx(expected, abs=1e-5)
    assert np.array_equal(run(batch=3, readers=1).values, made.values)
    assert run(batch=64).values == pytest.approx(made.values, abs=1e-5)


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_files_that_evaluate_reads(ending, suite, data, model, tmp_path):
    ids, paths = find_images(suite, ["car", "cow"], data=data)
    made = predict(model, ids, paths, run="mine")
    file = save_predictions(made, tmp_path / "new" / f"predictions{ending}")
    scores, direct = nooch.evaluate(suite, file), nooch.evaluate(suite, made)
    assert scores.table["run"].unique().to_list() == ["mine"]
    values = [given.value("auc", "all", task="car") for given in (scores, direct)]
    assert values[0] == pytest.approx(values[1])
    fails(lambda: save_predictions(made, file), "exists already", kind=OutputError)
    save_predictions(made, file, overwrite=True)
    refused(lambda: save_predictions(made, tmp_path / "p.txt"), "ending")


def test_images_of_some_splits_and_without_a_dataset(suite, data, tmp_path):
    ids, _ = find_images(suite, ["car"], splits=["test"], data=data)
    assert ids.to_list() == list(range(1, N, 2))
    for limit in (1, 3, 9, 10, 99):
        tried, files = find_images(suite, ["car"], splits=["test"], data=data, limit=limit)
        kept = min(limit, len(ids))
        assert tried.to_list() == [ids[i * len(ids) // kept] for i in range(kept)]
        assert len(files) == kept
    folder = tmp_path / "by-id"
    (folder / "sub").mkdir(parents=True)
    for i in ids:
        name = f"{i}.jpg" if i < 10 else f"sub/{i:012d}.png"
        Image.new("RGB", (4, 4)).save(folder / name)
    _, paths = find_images(suite, ["car"], splits=["test"], images=folder)
    assert [int(path.stem) for path in paths] == ids.to_list()
    nameless = Dataset.build(data.images.drop("file_name"), data.classes, data.areas)
    assert find_images(suite, ["car"], splits=["test"], data=nameless, images=folder)[1] == paths
    (folder / "3.jpg").unlink()
    find = partial(find_images, suite, ["car"])
    gone = partial(find, splits=["test"], images=folder)
    fails(gone, "1 of 10 images were not found", "`images`")
    refused(find, "does not record the folder of its images")
    refused(partial(find, splits=["tset"]), "tset")
    refused(lambda: find_images(suite, ["street"], data=data), "'street' is not a task")


def test_links_that_lead_out_count_as_missing(suite, data, tmp_path):
    image = tmp_path / "images" / "003.jpg"
    image.rename(tmp_path / "elsewhere.jpg")
    image.symlink_to(tmp_path / "elsewhere.jpg")
    fails(
        lambda: find_images(suite, ["car"], data=data), "1 of 20 images were not found", "003.jpg"
    )


def test_tasks(suite):
    assert tasks_to_predict(suite) == ["car", "cow"]
    assert tasks_to_predict(suite, ["cow"]) == ["cow"]
    refused(lambda: tasks_to_predict(suite, ["dog"]), "dog")
    empty = nooch.find(_without_cues(), {"ce": nooch.CE()}, tasks=["car"])
    refused(lambda: tasks_to_predict(empty), "no challenge set")


def _without_cues():
    frame = pl.DataFrame({"image_id": [1, 2], "split": ["train", "test"]})
    return Dataset.build(frame, ["car", "road"], csr_array(np.array([[0.5, 0.0], [0.0, 0.1]])))


def test_what_goes_wrong_with_images_and_memory(suite, data, model, tmp_path, monkeypatch):
    ids, paths = find_images(suite, ["car"], data=data)
    refused(lambda: predict(model, ids, paths, batch=0), "`batch`: is 0")
    (tmp_path / "images" / "004.jpg").write_bytes(b"broken")
    fails(lambda: predict(model, ids, paths), "1 images cannot be read", "004.jpg")

    def full(*_):
        raise MemoryError

    monkeypatch.setattr("nooch.inference.predict.forward", full)
    rest = [row for row in range(N) if row != 4]
    others = partial(predict, model, ids.gather(rest), [paths[row] for row in rest])
    words = "out of memory while predicting", "`batch` 4"
    fails(partial(others, batch=8), *words, kind=NoochError)
    strange = lambda _f, pixels, _d: np.full((len(pixels), 2), np.nan)  # noqa: E731
    monkeypatch.setattr("nooch.inference.predict.forward", strange)
    fails(others, "images are not finite")
