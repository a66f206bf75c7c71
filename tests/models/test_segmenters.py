"""Segmenters: areas and confidences are those that a loop over pixels finds."""

import json
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from image_folders import PREPROCESSOR, smooth, tiny_resnet
from refusals import fails, refused
from segmenters import KINDS, LABELS, save_onnx, save_segmenter

torch = pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
transformers = pytest.importorskip("transformers")

from nooch.models.segmenters import (  # noqa: E402
    ModelChoice,
    load_onnx_segmenter,
    load_segmenter,
)

CLASSES = ("sky", "road", "path")
WEIGHTS = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0.5, 0], [0, 0.7, 0.5]]


def photographs(count, side):
    return np.stack([np.array(smooth(seed, side, side)) for seed in range(count)])


def network_input(pixels):
    mean, std = (np.array(PREPROCESSOR[f"image_{name}"]) for name in ("mean", "std"))
    return torch.from_numpy(((pixels / 255 - mean) / std).transpose(0, 3, 1, 2)).float()


def probabilities(folder, kind, pixels):
    """Of every label and pixel of one image, (n_labels, height, width), by the definitions."""
    auto = "Semantic" if kind == "segformer" else "Universal"
    model = getattr(transformers, f"AutoModelFor{auto}Segmentation").from_pretrained(folder)
    # "the task is semantic", padded
    task = torch.tensor([[2, 3, 4, 5, 0, 0, 0]])
    more = {"task_inputs": task} if kind == "oneformer" else {}
    with torch.inference_mode():
        outputs = model.eval()(network_input(pixels[None]), **more)
    if kind == "segformer":
        return outputs.logits[0].softmax(0).numpy()
    queries, masks = outputs.class_queries_logits[0], outputs.masks_queries_logits[0].sigmoid()
    sums = sum(
        share[:-1, None, None] * mask for share, mask in zip(queries.softmax(1), masks, strict=True)
    )
    return (sums / sums.sum(0).clamp(min=1)).numpy()


def counted(values, merge=None):
    """Class -> (area, mean probability) of one image, pixel by pixel."""
    found = defaultdict(list)
    for row, column in np.ndindex(*values.shape[1:]):
        label = int(values[:, row, column].argmax())
        name = (merge or {}).get(LABELS[label], LABELS[label])
        found[name].append(values[label, row, column])
    found.pop("background", None)
    return {name: (len(p) / values[0].size, np.mean(p)) for name, p in found.items()}


def agrees(annotator, pixels, of_image, merge=None):
    predicted = annotator.predict(pixels)
    for number, image in enumerate(pixels):
        expected = counted(of_image(image), merge)
        for column, name in enumerate(annotator.classes):
            area, mean = expected.get(name, (0, 0))
            assert predicted.areas[number, column] == pytest.approx(area, abs=1e-9)
            assert predicted.confidences[number, column] == pytest.approx(mean, abs=1e-4)
        shares = [(predicted.maps[number] == c).mean() for c in range(len(annotator.classes))]
        np.testing.assert_allclose(shares, predicted.areas[number])


@pytest.mark.parametrize("kind", KINDS)
def test_areas_are_those_of_a_loop_over_pixels(tmp_path, kind):
    folder = save_segmenter(tmp_path / "model", kind)
    annotator = load_segmenter(ModelChoice(str(folder)))
    assert annotator.classes == CLASSES
    # more images than a CPU takes at once
    pixels = photographs(6, annotator.size[0])
    agrees(annotator, pixels, lambda image: probabilities(folder, kind, image))


@pytest.fixture
def onnx():
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (nooch[onnx])")


@pytest.mark.usefixtures("onnx")
def test_weights_beside_an_onnx_network_are_part_of_what_it_is(tmp_path):
    facts, networks = [], []
    for weights in (WEIGHTS, WEIGHTS[::-1]):
        folder = save_onnx(tmp_path / "model", weights, data="model.onnx_data")
        networks.append((folder / "model.onnx").read_bytes())
        facts.append(load_onnx_segmenter(ModelChoice(str(folder))).facts["sha256"])
    assert networks[0] == networks[1]
    assert facts[0] != facts[1]
    assert load_onnx_segmenter(ModelChoice(str(folder))).facts["sha256"] == facts[1]


@pytest.mark.usefixtures("onnx")
def test_weights_outside_the_folder_of_an_onnx_network_are_refused(tmp_path):
    folder = save_onnx(tmp_path / "model", WEIGHTS, data="../weights")
    assert (tmp_path / "weights").is_file()
    fails(lambda: load_onnx_segmenter(ModelChoice(str(folder))), "cannot be loaded")


@pytest.mark.parametrize("batch", [None, 1])
@pytest.mark.usefixtures("onnx")
def test_onnx(tmp_path, batch):
    folder = save_onnx(tmp_path / "model", WEIGHTS, batch)

    def of_image(image):
        logits = torch.einsum("lc,chw->lhw", torch.tensor(WEIGHTS), network_input(image[None])[0])
        return logits.softmax(0).numpy()

    merge = (("way", ("road", "path")),)
    annotator = load_onnx_segmenter(ModelChoice(str(folder), merge=merge))
    assert annotator.classes == ("sky", "way")
    agrees(annotator, photographs(6, 32), of_image, {"road": "way", "path": "way"})
    assert len(annotator.facts["sha256"]) == 64


@pytest.mark.parametrize(
    ("merge", "message"),
    [
        ((("way", ("raod",)),), "did you mean road?"),
        ((("way", ("road",)), ("track", ("road",))), "class road is merged twice"),
        ((("path", ("road",)),), "model already has a class path"),
    ],
)
def test_merges_that_do_not_fit(tmp_path, merge, message):
    folder = save_segmenter(tmp_path / "model", "segformer")
    refused(lambda: load_segmenter(ModelChoice(str(folder), merge=merge)), message)


def test_what_is_no_segmenter(tmp_path):
    folder = tiny_resnet(tmp_path / "resnet")
    words = "a model of type resnet does not segment images", "SegFormer"
    fails(lambda: load_segmenter(ModelChoice(str(folder))), *words)


def test_an_image_that_a_network_cannot_take(tmp_path):
    folder = save_segmenter(tmp_path / "model", "mask2former")
    words = "gives no segmentation for images of 1 x 1", "`size`"
    fails(lambda: load_segmenter(ModelChoice(str(folder), size=1)), *words)


def test_weights_that_are_no_numbers(tmp_path):
    folder = save_segmenter(tmp_path / "model", "segformer")
    model = transformers.AutoModelForSemanticSegmentation.from_pretrained(folder)
    with torch.no_grad():
        model.decode_head.classifier.bias.fill_(torch.nan)
    model.save_pretrained(folder)
    fails(lambda: load_segmenter(ModelChoice(str(folder))), "are not finite", "check its weights")


def test_bfloat16_is_near(tmp_path):
    folder = str(save_segmenter(tmp_path / "model", "segformer"))
    exact, near = (load_segmenter(ModelChoice(folder, bf16=bf16)) for bf16 in (False, True))
    pixels = photographs(3, 32)
    np.testing.assert_allclose(near.predict(pixels).areas, exact.predict(pixels).areas, atol=0.15)
    assert (exact.facts["precision"], near.facts["precision"]) == ("fp32", "bf16")


SMALLER = json.dumps({**PREPROCESSOR, "size": {"height": 16, "width": 16}}).encode()


class TestBrokenOnnx:
    @pytest.fixture
    def folder(self, tmp_path):
        pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (nooch[onnx])")
        return save_onnx(tmp_path / "model", WEIGHTS)

    @pytest.mark.parametrize(
        ("name", "content", "messages"),
        [("model.onnx", b"no network", ("cannot be loaded", "a network as ONNX")),
         ("labels.txt", b"\xff\xfe\xff", ("labels.txt", "line 1 is not text in utf-16")),
         ("labels.txt", b"sky\nroad\n", ("outputs of shape (1, 5, 32, 32)", "2 labels")),
         ("preprocessor_config.json", None, ("has no preprocessor_config.json",)),
         ("preprocessor_config.json", SMALLER, ("images of 16 x 16",))],
    )  # fmt: skip
    def test_a_file(self, folder, name, content, messages):
        (folder / name).unlink()
        if content is not None:
            (folder / name).write_bytes(content)
        choice = ModelChoice(str(folder), outputs="exclusive")
        fails(lambda: load_onnx_segmenter(choice), *messages)

    def test_bfloat16(self, folder):
        choice = ModelChoice(str(folder), bf16=True)
        refused(lambda: load_onnx_segmenter(choice), "leave out bf16")


@pytest.mark.usefixtures("onnx")
def test_an_onnx_file_takes_its_input_and_labels_from_options(tmp_path):
    folder = save_onnx(tmp_path / "model", WEIGHTS)
    expected = load_onnx_segmenter(ModelChoice(str(folder)))
    file = (folder / "model.onnx").rename(tmp_path / "own.onnx")
    labels = (folder / "labels.txt").rename(tmp_path / "names.txt")
    choice = ModelChoice(str(file), mean=tuple(PREPROCESSOR["image_mean"]), classes=labels)
    fails(lambda: load_onnx_segmenter(choice), "its input is unknown", "`mean`", "`std`")
    given = replace(choice, std=tuple(PREPROCESSOR["image_std"]))
    annotator = load_onnx_segmenter(given)
    assert (annotator.name, annotator.classes, annotator.size) == ("own", CLASSES, (32, 32))
    pixels = photographs(6, 32)
    np.testing.assert_array_equal(annotator.predict(pixels).maps, expected.predict(pixels).maps)
    other = load_onnx_segmenter(replace(given, mean=(0.1, 0.2, 0.3)))
    assert other.facts["sha256"] != annotator.facts["sha256"]
    segformer = save_segmenter(tmp_path / "segformer", "segformer")
    choice = ModelChoice(str(segformer), mean=(0.5, 0.5, 0.5))
    refused(lambda: load_segmenter(choice), "`mean` is for networks as ONNX")
