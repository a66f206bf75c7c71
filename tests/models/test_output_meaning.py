"""Whether outputs exclude each other: by the model's description, the labels, an option, or asked;
never by what a description lacks.
"""

import json
import math

import numpy as np
import polars as pl
import pytest
from answering import save_classifier
from hypothesis import given, strategies as st
from image_folders import PREPROCESSOR, smooth
from refusals import fails, refused
from scipy.sparse import csr_array
from segmenters import save_onnx

from nooch.data import Dataset
from nooch.models.output_meaning import (
    OUTPUTS,
    OutputMeaning,
    described,
    has_one_label,
    output_meaning,
    share_notes,
)
from nooch.models.task_maps import read_task_map

CLASSES = ["car", "dog", "bus"]
ASKED = "does not say whether its outputs exclude each other"


def dataset(labels):
    frame = pl.DataFrame({"image_id": range(len(labels))})
    return Dataset.build(frame, CLASSES, csr_array(np.array(labels) * 0.5))


ONE_LABEL, SEVERAL = dataset(np.eye(3)[[0, 1, 2, 0, 1]]), dataset([[1, 1, 0], [0, 0, 1], [1, 0, 0]])
NONE_AT_TIMES = dataset([[1, 0, 0], [0, 1, 0], [0, 0, 0]])
PIXELS = np.stack([np.array(smooth(seed, 16, 16)) for seed in range(6)])
WEIGHTS = np.array([[2, -1, 0.5], [-1, 2, 1], [1, 1, 1]], np.float32)


def save_network(file, *ends):
    """Means of channels times ``WEIGHTS``, and the operators ``ends``."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed (nooch[onnx])")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (nooch[onnx])")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["means"], axes=[2, 3], keepdims=0),
        helper.make_node("Gemm", ["means", "w"], ["y"], transB=1),
    ]
    for end in ends:
        last = nodes[-1].output[0]
        nodes.append(helper.make_node(end, [last], [f"{last}{end}"]))
    output = nodes[-1].output[0]
    graph = helper.make_graph(
        nodes, "tiny", [helper.make_tensor_value_info("x", kind, ["n", 3, 16, 16])],
        [helper.make_tensor_value_info(output, kind, ["n", 3])],
        [onnx.numpy_helper.from_array(WEIGHTS, "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    file.parent.mkdir(exist_ok=True)
    onnx.save_model(model, str(file))
    (file.parent / "labels.txt").write_text("\n".join(CLASSES))
    shape = {"size": {"height": 16, "width": 16}, "do_normalize": False}
    (file.parent / "preprocessor_config.json").write_text(json.dumps({**PREPROCESSOR, **shape}))
    return file


LOGITS = (PIXELS / 255).mean(axis=(1, 2)) @ WEIGHTS.T


def expected(kind):
    """Logits of car and bus by the definitions."""
    p = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)
    p = p if kind == "exclusive" else 1 / (1 + np.exp(-LOGITS))
    return np.log(p / (1 - p))[:, [0, 2]]


OWN = """
import numpy as np
class Own:
    classes, size = ["car", "dog", "bus"], 16
    def __call__(self, images):
        return (images / 255).mean(axis=(1, 2)) @ np.array({weights}).T
class Several(Own):
    multi_label = True
class One(Own):
    multi_label = False
class Probable(Own):
    multi_label = False
    def __call__(self, images):
        p = np.exp(super().__call__(images))
        return p / p.sum(1, keepdims=True)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The name of a module of custom models that compute ``LOGITS``."""
    pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
    name = f"own_meaning_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(OWN.format(weights=WEIGHTS.tolist()))
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def logits(source, *words, **options):
    from nooch.models.task_models import load_task_model

    model = load_task_model(source, ["car", "bus"], *words, device="cpu", **options)
    return model.logits(PIXELS).numpy(), model.reading


@pytest.mark.parametrize("kind", ["onnx", "custom"])
def test_a_model_that_says_nothing_is_asked_unless_labels_exclude_each_other(tmp_path, own, kind):
    source = f"{own}:Own" if kind == "custom" else save_network(tmp_path / "model" / "own.onnx")
    for data in (None, SEVERAL, NONE_AT_TIMES):
        text = fails(lambda data=data: logits(source, data=data), ASKED)
        assert ("nor do the dataset's labels" in text) == (data is not None)
        assert text.index("outputs='independent'") < text.index("outputs='exclusive'")
    # labels of its own, mapped: a softmax is the more likely
    words = read_task_map({"car": ["car"], "bus": ["bus"]})
    text = fails(lambda: logits(source, words, data=SEVERAL), ASKED)
    assert text.index("outputs='exclusive'") < text.index("outputs='independent'")
    for outputs in OUTPUTS:
        values, reading = logits(source, data=SEVERAL, outputs=outputs)
        assert (reading.kind, reading.why) == (outputs, "as `outputs` says")
        np.testing.assert_allclose(values, expected(outputs), atol=1e-5)
    values, reading = logits(source, data=ONE_LABEL)
    assert (reading.kind, reading.other) == ("exclusive", "independent")
    np.testing.assert_allclose(values, expected("exclusive"), atol=1e-5)
    refused(lambda: logits(source, outputs="exclusives"), "value of `outputs`", "did you mean")


@pytest.mark.parametrize(
    ("ends", "kind"),
    [
        (["Sigmoid"], "independent"),
        (["Sigmoid", "Clip", "Identity"], "independent"),
        (["Softmax"], "exclusive"),
        (["LogSoftmax"], "exclusive"),
    ],
)
def test_the_last_operator_of_a_network_decides(tmp_path, ends, kind):
    file = save_network(tmp_path / "model" / "own.onnx", *ends)
    for data in (ONE_LABEL, SEVERAL):
        values, reading = logits(file, data=data)
        assert (reading.kind, reading.why) == (kind, f"own ends with {ends[0]}")
        np.testing.assert_allclose(values, expected(kind), atol=1e-4)
    other = next(name for name in OUTPUTS if name != kind)
    refused(lambda: logits(file, outputs=other), f"ends with {ends[0]}", "leave out outputs")
    types = {
        "independent": "single_label_classification",
        "exclusive": "multi_label_classification",
    }
    config = {"id2label": dict(enumerate(CLASSES)), "problem_type": types[kind]}
    (file.parent / "config.json").write_text(json.dumps(config))
    fails(lambda: logits(file), f"ends with {ends[0]}, and its config.json", "problem_type")


def test_what_a_custom_model_says_decides(own):
    for name, kind in (("Several", "independent"), ("One", "exclusive")):
        values, reading = logits(f"{own}:{name}", data=SEVERAL)
        assert (reading.kind, reading.firm) == (kind, True)
        np.testing.assert_allclose(values, expected(kind), atol=1e-5)
        other = "exclusive" if kind == "independent" else "independent"
        refused(lambda n=name, o=other: logits(f"{own}:{n}", outputs=o), "its multi_label is")
    fails(lambda: logits(f"{own}:Probable"), "returns probabilities (they add up to 1)")


@pytest.mark.parametrize(
    "problem_type", [None, *(f"{n}_label_classification" for n in ("multi", "single"))]
)
def test_a_classifier_of_transformers(tmp_path, problem_type):
    pytest.importorskip("transformers", reason="not installed (nooch[train])")
    from nooch.models.task_models import load_task_model

    folder = save_classifier(tmp_path / "model", tuple(CLASSES), problem_type=problem_type)

    def reading(**options):
        return load_task_model(folder, CLASSES, device="cpu", **options).reading

    if problem_type is None:
        fails(lambda: reading(data=SEVERAL), ASKED)
        assert [reading(outputs=kind).kind for kind in OUTPUTS] == [*OUTPUTS]
        assert reading(data=ONE_LABEL).exclusive
    else:
        assert reading(data=SEVERAL).exclusive == reading(data=ONE_LABEL).exclusive
        assert reading().exclusive == problem_type.startswith("single")
        assert reading().why == f"problem_type {problem_type}"


def test_models_whose_outputs_are_no_classes_take_no_outputs(tmp_path):
    pytest.importorskip("transformers", reason="not installed (nooch[train])")
    from answering import save_clip

    refused(lambda: logits(save_clip(tmp_path / "clip"), outputs="exclusive"), "zero-shot")


def test_heads_of_imagenet_and_single_outputs(shared_data):
    config = shared_data / "backbones" / "mobilenet_v1_0.75_224" / "config.json"
    names = json.loads(config.read_bytes())["id2label"]
    labels = [names[str(number)] for number in range(1000)]
    for heads in (labels, ["background", *labels], [f"n{number:08d}" for number in range(10)]):
        meaning = output_meaning(heads, "it", data=SEVERAL)
        assert (meaning.kind, meaning.why) == ("exclusive", "they are ImageNet's classes")
        assert output_meaning(heads, "it", outputs="independent").kind == "independent"
    for others in (labels[:900], [f"class {number}" for number in range(1000)]):
        fails(lambda others=others: output_meaning(others, "it", data=SEVERAL), ASKED)
    assert output_meaning(["car"], "it", data=ONE_LABEL).kind == "independent"


def test_descriptions():
    assert described("it") is None
    assert described("it", "Gemm") is None
    fails(lambda: described("it", problem_type="regression"), "problem_type regression")
    assert described("it", "Softmax", "single_label_classification").exclusive
    default = OutputMeaning("exclusive", "as usual")
    assert output_meaning(CLASSES, "it", default, data=SEVERAL) is default
    assert output_meaning(CLASSES, "it", default, outputs="independent").kind == "independent"


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=150))
def test_labels_exclude_each_other_where_nearly_each_image_has_one(rows):
    singles = sum(sum(row) == 1 for row in rows)
    assert has_one_label(dataset(np.array(rows, float))) == (100 * singles >= 99 * len(rows))


def test_unknown_labels_do_not_exclude_each_other():
    frame = pl.DataFrame({"image_id": [0, 1], "annotated_things": [True, False]})
    kinds = dict.fromkeys(CLASSES, "thing")
    areas = csr_array(np.eye(3)[[0, 1]] * 0.5)
    assert not has_one_label(Dataset.build(frame, CLASSES, areas, kinds=kinds))
    assert not has_one_label(Dataset.build(frame[["image_id"]], ["car"], areas[:, :1]))


@given(st.integers(1, 2000), st.data())
def test_shares_far_from_the_labels_are_warned_of(n, data):
    yes, labels = (data.draw(st.integers(0, n)) for _ in range(2))
    odds = [(k + 0.5) / (n - k + 0.5) for k in (yes, labels)]
    ratio = max(odds) / min(odds)
    notes = share_notes(OutputMeaning("exclusive", "as it is"), {"sky": (n, yes, labels)})
    assert f"sky {yes / n:.1%} ({labels / n:.1%})" in notes[0]
    if not math.isclose(ratio, 10):
        assert (len(notes) == 2) == (ratio > 10)
    if len(notes) == 2:
        assert notes[1].startswith("warning: far more or fewer yes than labeled: sky")
        assert "`outputs` independent" in notes[1]


def test_shares_come_with_the_farthest_first_and_need_no_labels():
    counts = {"a": (100, 50, 50), "b": (100, 6, 81), "c": (100, 20, None), "d": (100, 30, 60)}
    said, warned = share_notes(OutputMeaning("independent", "own", firm=True), counts)
    assert said.endswith("b 6.0% (81.0%), d 30.0% (60.0%), a 50.0% (50.0%), c 20.0%")
    assert "`outputs`" not in warned


def segment(folder, **options):
    from nooch.models.segmenters import ModelChoice, load_onnx_segmenter

    return load_onnx_segmenter(ModelChoice(str(folder), **options))


def test_a_segmenter_without_a_background_is_asked(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (nooch[onnx])")
    weights = [[1, 0, 0], [1, 0.2, 0], [0, 1, -1]]
    folder = save_onnx(tmp_path / "model", weights)
    assert segment(folder).reading.exclusive
    labels = ["sky", "road", "path"]
    (folder / "labels.txt").write_text("\n".join(labels))
    fails(lambda: segment(folder), ASKED, "outputs='independent'")
    pixels = np.stack([np.array(smooth(seed, 32, 32)) for seed in range(4)])
    mean, std = (np.array(PREPROCESSOR[f"image_{name}"]) for name in ("mean", "std"))
    values = np.einsum("lc,mhwc->mlhw", np.array(weights), (pixels / 255 - mean) / std)
    p = 1 / (1 + np.exp(-values))
    annotator = segment(folder, outputs="independent", merge=(("way", ("road", "path")),))
    assert annotator.classes == ("sky", "way")
    predicted = annotator.predict(pixels)
    of_class = [p[:, 0], np.maximum(p[:, 1], p[:, 2])]
    for column, share in enumerate(of_class):
        inside = share > 0.5
        area = inside.mean(axis=(1, 2))
        mean_share = [
            image[where].mean() if where.any() else 0
            for image, where in zip(share, inside, strict=True)
        ]
        np.testing.assert_allclose(predicted.areas[:, column], area, atol=2e-3)
        np.testing.assert_allclose(predicted.confidences[:, column], mean_share, atol=1e-3)
    # classes overlap, and some pixels have none
    assert (predicted.areas.sum(1) > 1).any()
    both = np.stack(of_class)
    best = np.where(both.max(0) > 0.5, both.argmax(0), 2)
    assert (predicted.maps == best).mean() > 0.99
    assert annotator.facts["outputs"] == "independent"
    exclusive = segment(folder, outputs="exclusive").predict(pixels)
    np.testing.assert_allclose(exclusive.areas.sum(1), 1)
