"""Images and a model -> a dataset: what is present, known labels, broken images, work in parts."""

from functools import partial

import numpy as np
import own_annotators
import polars as pl
import pytest
from in_memory import read_label_maps
from PIL import Image
from refusals import fails, refused
from same_datasets import same_folder

import nooch
from nooch import import_dataset
from nooch.base.errors import NoochError, OutputError
from nooch.base.split_plan import SplitPlan
from nooch.data import load_dataset
from nooch.io import AnnotationReading

pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
pytest.importorskip("transformers", reason="transformers is not installed (nooch[train])")

COLORS = "own_annotators:Colors"


@pytest.fixture
def photos(tmp_path):
    """11 images of two sizes: red for a share that grows, blue below, the rest dark."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(11):
        height, width = (20, 10) if number % 3 else (10, 20)
        pixels = np.zeros((height, width, 3), np.uint8)
        pixels[: number * height // 20, :, 0] = 200 + number
        pixels[height - 2 :, : width // 2, 2] = 255
        Image.fromarray(pixels).save(folder / f"{number:03d}.png")
    return folder


def oracle(photos, number):
    """Class -> (area, confidence) of one image, pixel by pixel."""
    with Image.open(photos / f"{number:03d}.png") as image:
        pixels = np.array(image).reshape(-1, 3)
    red, blue = ([p for p in pixels.tolist() if p[channel] > 127] for channel in (0, 2))
    return {
        "red": (len(red) / len(pixels), max((p[0] for p in red), default=0) / 255),
        "blue": (len(blue) / len(pixels), 1.0),
    }


def annotated(photos, out, split=None, part_size=None, map=map, **options):
    options.setdefault("min_area", 0.0)
    rest = {name: options.pop(name) for name in options.keys() & {"broken"}}
    reading = AnnotationReading(photos, options.pop("segmenter", COLORS), device="cpu", **options)
    import_dataset(reading, out, split=split, part_size=part_size, map=map, **rest)
    return load_dataset(out)


@pytest.mark.parametrize(
    ("min_area", "min_confidence"), [(0.0, None), (0.1, None), (0.0, 0.81), (0.15, 1.0)]
)
def test_what_is_present(photos, tmp_path, min_area, min_confidence):
    thresholds = {"min_area": min_area, "min_confidence": min_confidence}
    data = annotated(photos, tmp_path / "data", batch=4, **thresholds)
    assert data.image_ids.tolist() == list(range(11))
    assert data.classes == ("red", "blue")
    for row in range(11):
        size = (10, 20) if row % 3 else (20, 10)
        assert data.images.row(row)[1:4] == (f"{row:03d}.png", *size)
        for column, (area, confidence) in enumerate(oracle(photos, row).values()):
            assert data.confidences[row, column] == pytest.approx(confidence)
            present = area > min_area and confidence >= (min_confidence or 0)
            assert data.labels(data.classes[column])[row] == present
            assert data.areas[row, column] == pytest.approx(area if present else 0)
    about = data.provenance["predicted"]
    given = {"min_confidence": min_confidence} if min_confidence else {}
    assert about == {"model": COLORS, "min_area": min_area, **given}


def test_presence_alone(photos, tmp_path):
    data = annotated(photos, tmp_path / "data", segmenter="own_annotators:Presence")
    assert not data.has_areas
    confident = [oracle(photos, n)["red"][1] >= 0.5 for n in range(11)]
    assert data.labels("red").tolist() == confident
    assert data.provenance["area"] == "unknown"


def test_parts_and_processes_give_the_same_bytes(photos, tmp_path):
    split = SplitPlan("60/20/20", seed=1)
    annotated(photos, tmp_path / "one", split, batch=2)
    whole = load_dataset(tmp_path / "one")
    nooch.save_dataset(nooch.io.divide(whole, 3), tmp_path / "divided")
    engine = nooch.engine("local:2")
    annotated(photos, tmp_path / "parts", split, part_size=4, map=engine.map, batch=2)
    same_folder(tmp_path / "divided", tmp_path / "parts")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["divided", "one", "parts", "photos"]


def test_interrupted_work_resumes(photos, tmp_path, monkeypatch):
    calls, undisturbed = [], own_annotators.Colors.__call__

    def counted(self, pixels):
        calls.append(len(pixels))
        if sum(calls) == 5:
            raise KeyboardInterrupt
        return undisturbed(self, pixels)

    monkeypatch.setattr(own_annotators.Colors, "__call__", counted)
    with pytest.raises(KeyboardInterrupt):
        annotated(photos, tmp_path / "data", batch=1)
    assert not (tmp_path / "data").exists()
    annotated(photos, tmp_path / "data", batch=1)
    # the image at which it was interrupted is predicted again
    assert sum(calls) == 12
    monkeypatch.undo()
    annotated(photos, tmp_path / "other", batch=1)
    same_folder(tmp_path / "data", tmp_path / "other")


class TestBrokenImages:
    @pytest.fixture
    def broken(self, photos):
        (photos / "004.png").write_bytes(b"no image")
        whole = (photos / "007.png").read_bytes()
        (photos / "007.png").write_bytes(whole[:60])
        return photos

    def test_are_left_out_or_an_error_that_keeps_what_is_done(self, broken, tmp_path):
        act = partial(annotated, broken, tmp_path / "data", batch=1)
        fails(partial(act, broken="refuse"), "broken='leave-out'", "004.png", kind=NoochError)
        assert not (tmp_path / "data").exists()
        assert len(list(tmp_path.glob(".data.importing-*/annotated-*"))) >= 11
        data = act()
        assert data.image_ids.tolist() == [0, 1, 2, 3, 5, 6, 8, 9, 10]
        (note,) = data.provenance["notes"]
        assert note.startswith("2 of 11 images cannot be read and are left out, with 0 labels: 004")
        assert data.provenance["sources"][0]["files"] == 9
        listed = pl.read_csv(tmp_path / "data" / "broken_images.csv")
        assert listed["file"].to_list() == ["004.png", "007.png"]
        assert all(str(broken) not in reason for reason in listed["reason"])

    def test_alone_are_refused(self, tmp_path):
        (tmp_path / "photos").mkdir()
        (tmp_path / "photos" / "1.png").write_bytes(b"")
        act = partial(annotated, tmp_path / "photos", tmp_path / "data")
        fails(act, "1 of 1 images cannot be read: 1.png")


class TestLabels:
    @pytest.fixture
    def table(self, tmp_path):
        """Whether there is a cow, and blue, in all images but two; and in one without a file."""
        file = tmp_path / "labels.csv"
        rows = {"id": [f"{n:03d}" for n in range(2, 12)], "camera": [1.5, 2.5] * 5}
        rows |= {"cow": [n % 2 for n in range(10)], "blue": [1] * 5 + [0] * 5}
        pl.DataFrame(rows).write_csv(file)
        return file

    def test_count_alone(self, photos, table, tmp_path):
        data = annotated(photos, tmp_path / "data", labels=table)
        assert data.image_ids.tolist() == list(range(2, 11))
        assert data.classes == ("red", "blue", "cow")
        assert data.labels("cow").tolist() == [n % 2 == 1 for n in range(9)]
        assert data.labels("blue").tolist() == [True] * 5 + [False] * 4
        # the area of what the model does not know is 0, and CE can be computed
        assert data.has_areas
        assert data.area("cow").max() == 0
        assert data.area("blue")[0] == pytest.approx(oracle(photos, 2)["blue"][0])
        assert data.area("red")[5] == pytest.approx(oracle(photos, 7)["red"][0])
        assert data.confidences[8, 1] == 1
        assert data.attributes == ("camera",)
        left, unknown = data.provenance["notes"]
        assert left == "2 images have no labels and are left out"
        assert unknown.startswith("the model has no class cow")
        assert data.provenance["labels"]["classes"] == ["cow", "blue"]

    def test_of_some_tasks(self, photos, table, tmp_path):
        data = annotated(photos, tmp_path / "data", labels=table, tasks=["cow"])
        assert data.labels("blue").all()

    def test_of_a_dataset_with_areas_gaps_captions_and_splits(self, photos, tmp_path):
        from scipy.sparse import csr_array

        from nooch.data import Dataset, save_dataset

        areas = csr_array(([0.5, np.nan, 0.0], ([0, 1, 2], [0, 0, 1])), shape=(4, 2))
        images = pl.DataFrame(
            {"image_id": [10, 20, 30, 40], "split": ["train", "train", "valid", "test"]}
        ).with_columns(file_name=pl.format("00{}.png", pl.Series([1, 2, 3, 4])))
        captions = pl.DataFrame({"image_id": [20], "caption": ["a sea"]})
        unknown = np.zeros((4, 2))
        unknown[3, 0] = 1
        labels = Dataset.build(images, ["red", "cow"], areas, captions, unknown=unknown)
        save_dataset(labels, tmp_path / "labels")
        data = annotated(photos, tmp_path / "data", labels=str(tmp_path / "labels"), part_size=3)
        assert data.splits == {"train": 2, "valid": 1, "test": 1}
        assert data.image_ids.tolist() == [10, 20, 30, 40]
        assert data.captions.rows() == [(20, "a sea")]
        red = [0.5, oracle(photos, 2)["red"][0], 0.0, -1.0]
        assert data.area("red", unknown=-1).tolist() == pytest.approx(red)
        assert data.labels("cow").tolist() == [False, False, True, False]

    def test_of_another_model_keep_their_confidences(self, photos, tmp_path):
        first = annotated(photos, tmp_path / "first", segmenter="own_annotators:Presence")
        labels = str(tmp_path / "first")
        data = annotated(photos, tmp_path / "data", labels=labels, tasks=["red"], min_area=0.3)
        both = zip(data.confidences.T, first.confidences.T, strict=True)
        assert all((one != other).nnz == 0 for one, other in both)
        assert data.labels("red").tolist() == first.labels("red").tolist()
        # below the threshold of the second model, but present by the first
        assert data.area("red")[5] == 0

    def test_of_a_folder_for_each_class(self, photos, tmp_path):
        for number in range(11):
            folder = photos / ("cow" if number < 4 else "sheep")
            folder.mkdir(exist_ok=True)
            (photos / f"{number:03d}.png").rename(folder / f"{number:03d}.png")
        data = annotated(photos, tmp_path / "data", labels=photos)
        assert data.labels("cow").sum() == 4
        assert data.image_ids[0] == "cow/000.png"

    def test_that_name_no_image(self, photos, tmp_path):
        (tmp_path / "labels.csv").write_text("id,cow\n77,1\n")
        act = partial(annotated, photos, tmp_path / "data", labels=tmp_path / "labels.csv")
        fails(act, "`labels`: none of its images", "such as 77")


class TestMaps:
    def test_are_read_as_label_maps(self, photos, tmp_path):
        maps = tmp_path / "maps"
        data = annotated(photos, tmp_path / "data", maps=maps)
        read = read_label_maps(maps, maps / "classes.txt", void=[65535])
        assert read.image_ids.tolist() == data.image_ids.tolist()
        np.testing.assert_allclose(read.areas.toarray(), data.areas.toarray())
        # of another model: refused; of the same: written again
        act = partial(annotated, photos, tmp_path / "other", maps=tmp_path)
        fails(act, "exists already", kind=OutputError)
        annotated(photos, tmp_path / "other", maps=maps)

    def test_one_for_two_images_is_refused(self, photos, tmp_path):
        Image.new("RGB", (4, 4)).save(photos / "003.webp")
        act = partial(annotated, photos, tmp_path / "data", maps=tmp_path / "maps")
        fails(act, "share a map", "003.png, 003.webp")
        assert not (tmp_path / "maps").exists()


def test_ids_are_paths_where_names_are_not_unique(photos, tmp_path):
    (photos / "more").mkdir()
    Image.new("RGB", (4, 4)).save(photos / "more" / "003.png")
    data = annotated(photos, tmp_path / "data")
    assert data.image_ids.tolist()[-2:] == ["010.png", "more/003.png"]


def test_an_embedding_takes_the_place_of_captions(photos, tmp_path):
    from answering import save_clip
    from image_folders import PREPROCESSOR
    from transformers import AutoModel

    folder = save_clip(tmp_path / "clip")
    annotated(photos, tmp_path / "data", embedder=str(folder), part_size=4)
    data = load_dataset(tmp_path / "data")
    (name,) = data.embeddings
    assert name.startswith("image-clip-")
    assert name.endswith("-fp32")
    with Image.open(photos / "005.png") as opened:
        image = opened.resize((32, 32), Image.Resampling.BILINEAR)
    mean, std = (np.array(PREPROCESSOR[f"image_{k}"]) for k in ("mean", "std"))
    import torch

    batch = torch.from_numpy(((np.array(image) / 255 - mean) / std).transpose(2, 0, 1)[None])
    with torch.inference_mode():
        model = AutoModel.from_pretrained(folder).eval()
        expected = model.get_image_features(pixel_values=batch.float()).pooler_output[0]
    np.testing.assert_allclose(data.embeddings[name][5], expected, atol=0.02)
    suite = nooch.find(data, {"gist": nooch.Gist(name, tau=0.5)}, tasks=["red"])
    assert len(suite.set("gist", "red", "all")) == 11


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "`batch`: is 0"),
        ({"min_area": 20}, "did you mean 0.2?"),
        ({"min_confidence": 2.0}, "`min_confidence`: is 2.0"),
        ({"tasks": ["cow"]}, "`tasks` needs `labels`"),
        ({"bf16": True}, "a custom model has no bf16"),
        ({"segmenter": "own_annotators:Nobody"}, "cannot be imported"),
        ({"segmenter": "own_annotators:Mute"}, "names no classes"),
    ],
)
def test_options_that_do_not_fit(photos, tmp_path, options, message):
    refused(lambda: annotated(photos, tmp_path / "data", **options), message)
    assert not (tmp_path / "data").exists()


def test_models_and_folders_that_do_not_fit(photos, tmp_path):
    act = partial(annotated, photos, tmp_path / "data", segmenter="own_annotators:Wrong")
    fails(act, "or are not fractions", "values from 0 to 1")
    (tmp_path / "empty").mkdir()
    fails(
        lambda: annotated(tmp_path / "empty", tmp_path / "data"), "contains no images", helps=False
    )
