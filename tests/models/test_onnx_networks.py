"""Networks as ONNX and custom models: logits are those of a definition written in numpy."""

import json
from functools import partial

import numpy as np
import pytest
from image_folders import PREPROCESSOR, smooth
from refusals import fails, refused

torch = pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
onnx = pytest.importorskip("onnx", reason="onnx is not installed (nooch[onnx])")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (nooch[onnx])")

from nooch.models.segmenters import ModelChoice, load_segmenter  # noqa: E402
from nooch.models.task_maps import read_task_map  # noqa: E402
from nooch.models.task_models import load_task_model  # noqa: E402

LABELS = ["car", "tabby, tabby cat", "dog", "bus"]
WEIGHTS = np.array([[2, -1, 0.5], [-1, 2, 1], [0.3, 0.2, -2], [1, 1, 1]], np.float32)
USUAL = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
PIXELS = np.stack([np.array(smooth(seed, 16, 16)) for seed in range(6)])


def save_classifier(file, end=None, *, metadata=None, shape=("n", 3, 16, 16), half=False):
    """The mean of each channel times ``WEIGHTS``, and ``end``; its shape of ``end`` detect is that
    of ultralytics' detectors with two boxes, the second with scores 0.
    """
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT16 if half else onnx.TensorProto.FLOAT
    axes = [1, 2] if shape[-1] == 3 else [2, 3]
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["means"], axes=axes, keepdims=0),
        helper.make_node("Gemm", ["means", "w"], ["y"], transB=1),
    ]
    nodes += [helper.make_node(end, ["y"], ["z"])] if end else []
    nodes += [helper.make_node("Identity", [nodes[-1].output[0]], ["output"])]
    weights = WEIGHTS.astype(np.float16 if half else np.float32)
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("images", kind, shape)],
        [helper.make_tensor_value_info("output", kind, [shape[0], 4])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    helper.set_model_props(model, metadata or {})
    file.parent.mkdir(parents=True, exist_ok=True)
    onnx.save_model(model, str(file))
    return file


def outputs_of(mean, std):
    """Outputs of the network before its end, (m, n_labels)."""
    images = (PIXELS / 255 - np.array(mean)) / np.array(std)
    return images.mean(axis=(1, 2)) @ WEIGHTS.T.astype(float)


def softmax_logits(outputs, place):
    p = np.exp(outputs) / np.exp(outputs).sum(1, keepdims=True)
    return np.log(p[:, place] / (1 - p[:, place]))


def listed(tmp_path):
    (tmp_path / "names.txt").write_text("\n".join(LABELS) + "\n")
    return tmp_path / "names.txt"


@pytest.mark.parametrize("end", [None, "Softmax", "Sigmoid"])
@pytest.mark.parametrize("shape", [("n", 3, 16, 16), (1, 3, 16, 16), ("n", 16, 16, 3)])
def test_a_file_with_options_gives_logits_of_tasks(tmp_path, end, shape):
    file = save_classifier(tmp_path / "own.onnx", end, shape=shape)
    outputs = None if end else "exclusive"
    model = load_task_model(
        file, ["car", "dog"], classes=listed(tmp_path), outputs=outputs, **USUAL
    )
    assert (model.name, model.kind, model.size) == ("own", "onnx", (16, 16))
    outputs = outputs_of(**USUAL)
    expected = [
        outputs[:, place] if end == "Sigmoid" else softmax_logits(outputs, place)
        for place in (0, 2)
    ]
    np.testing.assert_allclose(model.logits(PIXELS).numpy(), np.transpose(expected), atol=1e-3)
    assert model.meaning == {"car": ["car"], "dog": ["dog"]}


def test_half_precision_computes_in_half_precision(tmp_path):
    file = save_classifier(tmp_path / "own.onnx", half=True)
    given = {"classes": listed(tmp_path), "outputs": "exclusive"}
    model = load_task_model(file, ["car"], **given, **USUAL)
    expected = softmax_logits(outputs_of(**USUAL), 0)
    np.testing.assert_allclose(model.logits(PIXELS).numpy()[:, 0], expected, atol=0.02)


@pytest.mark.parametrize("form", ["labels.txt", "config.json"])
def test_files_beside_it_say_what_options_would(tmp_path, form):
    file = save_classifier(tmp_path / "model" / "model.onnx")
    processor = {**PREPROCESSOR, "size": {"height": 16, "width": 16}}
    (file.parent / "preprocessor_config.json").write_text(json.dumps(processor))
    config = {"id2label": dict(enumerate(LABELS)), "problem_type": "multi_label_classification"}
    content = "\n".join(LABELS) if form == "labels.txt" else json.dumps(config)
    (file.parent / form).write_text(content)
    outputs = outputs_of(PREPROCESSOR["image_mean"], PREPROCESSOR["image_std"])
    expected = softmax_logits(outputs, 0) if form == "labels.txt" else outputs[:, 0]
    identities, given = set(), {"outputs": "exclusive" if form == "labels.txt" else None}
    for source in (file, file.parent):
        model = load_task_model(source, ["car"], **given)
        np.testing.assert_allclose(model.logits(PIXELS).numpy()[:, 0], expected, atol=1e-4)
        identities.add(model.identity)
    # options take precedence, and are part of what it is
    changed = load_task_model(file.parent, ["car"], mean=(0.1, 0.2, 0.3), **given)
    assert changed.inputs.preprocessing.mean == (0.1, 0.2, 0.3)
    assert changed.inputs.preprocessing.std == tuple(PREPROCESSOR["image_std"])
    assert changed.identity not in identities


def test_metadata_of_ultralytics(tmp_path):
    names = str(dict(enumerate(LABELS)))
    facts = {"author": "Ultralytics", "task": "classify", "imgsz": "[16, 16]", "names": names}
    facts |= {"stride": "1", "batch": "1", "channels": "3", "head": "Classify", "end2end": "False"}
    file = save_classifier(tmp_path / "yolo-cls.onnx", "Softmax", metadata=facts,
                           shape=("n", 3, "h", "w"))  # fmt: skip
    model = load_task_model(file, ["car"])
    expected = softmax_logits(outputs_of((0, 0, 0), (1, 1, 1)), 0)
    np.testing.assert_allclose(model.logits(PIXELS).numpy()[:, 0], expected, atol=1e-4)
    mapped = load_task_model(
        file, ["cow", "cat"], read_task_map({"cow": ["bus", 2], "cat": "tabby"})
    )
    assert mapped.meaning == {"cow": ["dog", "bus"], "cat": ["tabby, tabby cat"]}
    for broken in ("[]", "['a', 16]", "[None]", "[True]", "16", "[16, 16, 16]", "9" * 5000):
        file = save_classifier(tmp_path / "broken.onnx", metadata={**facts, "imgsz": broken})
        fails(lambda file=file: load_task_model(file, ["car"]), "metadata imgsz")
    evil = {**facts, "names": "__import__('os').system('true')"}
    file = save_classifier(tmp_path / "evil.onnx", metadata=evil)
    fails(lambda: load_task_model(file, ["car"]), "cannot be read", "metadata names")


def test_detections_of_ultralytics_are_the_largest_score_of_a_label(tmp_path):
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    boxes = np.zeros((1, 8, 3), np.float32)
    boxes[0, 4:] = [[0.1, 0.7, 0.2], [0, 0, 0], [0.5, 0.4, 0.3], [0.9, 0.95, 0]]
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["m"], axes=[1, 2, 3], keepdims=0),
        helper.make_node("Reshape", ["m", "three"], ["r"]),
        helper.make_node("Mul", ["r", "zero"], ["none"]),
        helper.make_node("Add", ["none", "boxes"], ["output0"]),
    ]
    arrays = {"three": np.array([-1, 1, 1]), "zero": np.zeros(1, np.float32), "boxes": boxes}
    graph = helper.make_graph(
        nodes, "detect", [helper.make_tensor_value_info("images", kind, ["n", 3, 16, 16])],
        [helper.make_tensor_value_info("output0", kind, ["n", 8, 3])],
        [onnx.numpy_helper.from_array(a, n) for n, a in arrays.items()],
    )  # fmt: skip
    detector = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    names = str(dict(enumerate(LABELS)))
    facts = {"author": "Ultralytics", "task": "detect", "imgsz": "[16, 16]", "names": names}
    helper.set_model_props(detector, facts)
    onnx.save_model(detector, str(tmp_path / "yolo.onnx"))
    model = load_task_model(tmp_path / "yolo.onnx", ["car", "dog", "bus"])
    expected = [np.log(p / (1 - p)) for p in (0.7, 0.5, 0.95)]
    np.testing.assert_allclose(model.logits(PIXELS).numpy(), [expected] * 6, atol=1e-5)


def test_networks_that_are_refused(tmp_path):
    file = save_classifier(tmp_path / "own.onnx")
    names = listed(tmp_path)
    fails(lambda: load_task_model(file, ["car"], classes=names), "its input is unknown", "`mean`")
    fails(lambda: load_task_model(file, ["car"], **USUAL), "outputs have no names", "`classes`")
    fails(lambda: load_task_model(file, ["cow"], classes=names, **USUAL), "called cow", "car")
    wide = save_classifier(tmp_path / "wide.onnx", shape=("n", 3, "h", "w"))
    fails(lambda: load_task_model(wide, ["car"], classes=names, **USUAL), "`size`")
    everything = (
        "input is unknown",
        "outputs have no names",
        "`size`",
        "`mean`",
        "`std`",
        "`classes`",
    )
    fails(lambda: load_task_model(wide, ["car"]), *everything)
    own = partial(load_task_model, outputs="exclusive", classes=names, **USUAL)
    assert own(wide, ["car"], size=16).size == (16, 16)
    fails(lambda: own(file, ["car"], size=8), "8 x 8", "`size`")
    short = tmp_path / "short.txt"
    short.write_text("car\ncow\n")
    fails(lambda: own(file, ["car"], classes=short), "returns 4 outputs", "2,")
    odd = (0.5, 0.5)
    fails(lambda: load_task_model(file, ["car"], classes=names, mean=odd, std=odd), "three means")
    (tmp_path / "broken.onnx").write_bytes(b"GIF89a")
    fails(lambda: load_task_model(tmp_path / "broken.onnx", ["car"], **USUAL), "cannot be loaded")
    fails(lambda: load_task_model(tmp_path / "no.onnx", ["car"]), "no such file")


@pytest.mark.parametrize("ending", [".pt", ".pth", ".torchscript", ".ckpt"])
def test_files_that_can_run_code_are_not_loaded(tmp_path, ending):
    file = tmp_path / f"model{ending}"
    torch.save(torch.nn.Linear(2, 2), file)
    words = "code that runs when it is loaded", "torch.onnx.export(", "package.module:Name"
    fails(lambda: load_task_model(file, ["car"]), *words)
    fails(lambda: load_segmenter(ModelChoice(str(file))), *words)


OWN = """
import numpy as np
class Own:
    classes = ["car", "cow"]
    size = 16
    multi_label = {several}
    def __call__(self, images):
        assert images.dtype == np.uint8 and images.shape[1:] == (16, 16, 3)
        return np.stack([images[:, 0, 0, 0] - 7.0, images[:, 1, 2, 1] / 2], 1)
class Bare:
    def __call__(self, images):
        return images
class Short(Own):
    def __call__(self, images):
        return np.zeros((len(images), 3))
"""


@pytest.mark.parametrize("several", [False, True])
def test_a_custom_model_gives_logits_of_its_classes(tmp_path, monkeypatch, several):
    module = f"own_model_{several}"
    (tmp_path / f"{module}.py").write_text(OWN.format(several=several))
    monkeypatch.syspath_prepend(str(tmp_path))
    model = load_task_model(f"{module}:Own", ["cow", "car"])
    cow, car = PIXELS[:, 1, 2, 1] / 2, PIXELS[:, 0, 0, 0] - 7.0
    expected = [cow, car] if several else [cow - car, car - cow]
    np.testing.assert_allclose(model.logits(PIXELS).numpy(), np.transpose(expected))
    refused(
        lambda: load_task_model(f"{module}:Bare", ["car"]), "lacks the attribute classes or size"
    )
    fails(lambda: load_task_model(f"{module}:Short", ["car"]), "returns 3 outputs")
    refused(lambda: load_task_model(f"{module}:Own", ["car"], mean=(0, 0, 0)), "as ONNX")
    refused(lambda: load_task_model(f"{module}:None_", ["car"]), "cannot be imported")
