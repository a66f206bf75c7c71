"""Detectors as ONNX and custom ones: layouts of outputs, suppression, refusals."""

import sys

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from image_folders import street_images
from refusals import fails

from nooch.base.errors import ParameterError
from nooch.data import save_dataset
from nooch.models.detectors import ImageBoxes, suppressed

pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
onnx = pytest.importorskip("onnx", reason="onnx is not installed (nooch[onnx])")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (nooch[onnx])")

SIZE, LABELS = 64, ("car", "dog", "bus")
CELLS = 64 + 16 + 4
WIDE = np.zeros((32, 128, 3), np.uint8)
"""Fits an input of 64 x 64 at half its size, 16 pixels high."""


def save(file, outputs, *, metadata=None, slope=None):
    """A network whose outputs are arrays, plus ``slope`` times the mean of the first channel."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("Gather", ["images", "channel"], ["one"], axis=1),
        helper.make_node("ReduceMean", ["one"], ["mean"], axes=[0, 1, 2], keepdims=0),
    ]
    arrays, infos = {"channel": np.array(0)}, []
    for name, value in outputs.items():
        fixed = np.asarray(value, np.float32)
        more = np.zeros_like(fixed) if slope is None else np.asarray(slope, np.float32)
        arrays |= {f"{name}_fixed": fixed, f"{name}_slope": more}
        nodes += [
            helper.make_node("Mul", ["mean", f"{name}_slope"], [f"{name}_more"]),
            helper.make_node("Add", [f"{name}_fixed", f"{name}_more"], [name]),
        ]
        infos.append(helper.make_tensor_value_info(name, kind, fixed.shape))
    graph = helper.make_graph(
        nodes, "d", [helper.make_tensor_value_info("images", kind, [1, 3, SIZE, SIZE])], infos,
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    helper.set_model_props(model, metadata or {})
    onnx.save_model(model, str(file))
    (file.parent / "labels.txt").write_text("\n".join(LABELS))
    return file


def rows(n, *numbers):
    """n rows, all 0 but the third."""
    values = np.zeros((1, n, len(numbers)))
    values[0, 2] = numbers
    return values


# the box of 16 x 8 around (24, 12) of the input, of a bus
YOLOX = rows(CELLS, 1, 1.5, np.log(2), 0, 0.8, 0, 0, 0.5)
V5 = rows(3 * CELLS, 24, 12, 16, 8, 0.8, 0, 0, 0.5)
ULTRALYTICS = rows(CELLS, 24, 12, 16, 8, 0, 0, 0.4)
CORNERS = [16, 8, 32, 16]
NAMED = {"boxes": [CORNERS], "labels": [2], "scores": [0.4]}
TENSORRT = {
    "num_dets": [[1]], "det_boxes": [[CORNERS, CORNERS]], "det_scores": [[0.4, 0.9]],
    "det_classes": [[2, 2]],
}  # fmt: skip
SOFTMAX = np.log([[[0.2, 0.2, 0.4, 0.2]]]) + 5
QUERIES = {"logits": SOFTMAX, "pred_boxes": np.array([[[24, 12, 16, 8]]]) / SIZE}
PLAIN = {"mean": (0, 0, 0), "std": (1, 1, 1)}
# in the wide image: at the top left; centered, 24 pixels below the top; or stretched
AT_CORNER, CENTERED, STRETCHED = [32, 16, 64, 32], [32, -32, 64, -16], [32, 4, 64, 8]


@pytest.mark.parametrize(
    ("outputs", "options", "expected"),
    [
        ({"output": YOLOX}, {}, AT_CORNER),
        ({"output": rows(CELLS, 24, 12, 16, 8, 0.8, 0, 0, 0.5)}, {}, AT_CORNER),
        ({"output": V5}, {}, CENTERED),
        ({"output0": ULTRALYTICS.transpose(0, 2, 1)}, {}, CENTERED),
        ({"output0": ULTRALYTICS}, {}, CENTERED),
        ({"output0": rows(300, *CORNERS, 0.4, 2)}, {}, CENTERED),
        (NAMED, PLAIN, CENTERED),
        (NAMED | {"boxes": np.array([CORNERS]) / SIZE}, PLAIN, CENTERED),
        ({"dets": [[[*CORNERS, 0.4]]], "labels": [[2]]}, PLAIN, CENTERED),
        (TENSORRT, {}, CENTERED),
        (QUERIES, PLAIN, STRETCHED),
        (QUERIES | {"logits": [[[-9, -9, np.log(0.4 / 0.6)]]]}, PLAIN, STRETCHED),
    ],
)
def test_layouts_of_outputs(tmp_path, outputs, options, expected):
    model = load(save(tmp_path / "d.onnx", outputs), ["bus", "car"], **options)
    assert (model.kind, model.size) == ("detector", (SIZE, SIZE))
    (found,) = model.detect([WIDE])
    np.testing.assert_allclose(found.boxes[found.labels == 0], [expected], atol=1e-4)
    assert found.scores[found.labels == 0] == pytest.approx([0.4])
    # the largest score of each task
    logits = model.logits(np.zeros((1, SIZE, SIZE, 3), np.uint8)).numpy()
    assert logits[0, 0] == pytest.approx(np.log(0.4 / 0.6), abs=1e-5)


def load(file, tasks=("bus",), **options):
    from nooch.models.task_models import load_task_model

    return load_task_model(file, list(tasks), **options)


@pytest.mark.parametrize(
    ("output", "options", "score"),
    [
        # blue from 0 to 255, red from 0 to 1, or as it is asked for
        (YOLOX, {}, 0.5 + 51 / 1000),
        (YOLOX, {**PLAIN}, 0.5 + 0.8 / 1000),
        (V5, {}, 0.5 + 0.8 / 1000),
        (V5, {"mean": (0.3, 0, 0), "std": (0.1, 1, 1)}, 0.5 + 5 / 1000),
    ],
)
def test_the_input_of_each_kind(tmp_path, output, options, score):
    slope = np.zeros_like(output)
    slope[0, 2, 7] = 0.001
    model = load(save(tmp_path / "d.onnx", {"o": output}, slope=slope), **options)
    image = np.broadcast_to(np.array([204, 102, 51], np.uint8), (SIZE, SIZE, 3))
    (found,) = model.detect([image])
    assert found.scores[0] == pytest.approx(0.8 * score, rel=1e-4)


def test_networks_that_are_refused(tmp_path):
    save_as = lambda name, outputs, **how: save(tmp_path / f"{name}.onnx", outputs, **how)  # noqa: E731
    odd = save_as("odd", {"output": np.zeros((1, 100, 11))})
    fails(lambda: load(odd), "output (1, 100, 11)", "3 labels", "YOLOX's", "`classes`")
    some = save_as("some", {"boxes": [CORNERS]})
    fails(lambda: load(some, **PLAIN), "outputs boxes (1, 4)", "num_dets")
    named = save_as("named", NAMED)
    fails(lambda: load(named), "its input is unknown", "`mean`")
    (tmp_path / "labels.txt").unlink()
    fails(lambda: load(named, **PLAIN), "outputs have no names", "`classes`")
    # without labels there are COCO's 80
    fails(lambda: load(tmp_path / "odd.onnx"), "80 labels")
    wrong = save_as("wrong", NAMED | {"labels": [3]})
    fails(lambda: load(wrong, **PLAIN), "labels from 3 to 3", "0 to 2")
    broken = save_as("broken", {"o": YOLOX}, slope=np.full_like(YOLOX, np.nan))
    fails(lambda: load(broken), "not finite")
    (tmp_path / "text.onnx").write_text("GIF89a")
    fails(lambda: load(tmp_path / "text.onnx"), "cannot be loaded")


def oracle(boxes, labels, scores, overlap, most):
    """Again and again the best box that no better one of its label hides."""
    left, kept = set(range(len(boxes))), []
    while left:
        best = min(left, key=lambda i: (-scores[i], i))
        left.remove(best)
        if sum(labels[i] == labels[best] for i in kept) < most:
            kept.append(best)
        for i in set(left):
            (a, b, c, d), (e, f, g, h) = boxes[best], boxes[i]
            shared = max(0, min(c, g) - max(a, e)) * max(0, min(d, h) - max(b, f))
            whole = (c - a) * (d - b) + (g - e) * (h - f) - shared
            if labels[i] == labels[best] and shared > overlap * whole:
                left.remove(i)
    return set(kept)


SPANS = st.tuples(st.integers(0, 6), st.integers(1, 6))
FOUND = st.tuples(SPANS, SPANS, st.integers(0, 1), st.sampled_from([0.1, 0.5, 0.9]))


@given(st.lists(FOUND, max_size=12), st.sampled_from([0.3, 0.65]), st.integers(1, 3))
def test_suppression_against_a_slow_oracle(found, overlap, most):
    boxes = np.array([[x, y, x + w, y + h] for (x, w), (y, h), *_ in found], float).reshape(-1, 4)
    labels = np.array([label for *_, label, _ in found], np.int64)
    scores = np.array([score for *_, score in found])
    kept = suppressed(ImageBoxes(boxes, labels, scores), overlap, most)
    expected = sorted(oracle(boxes, labels, scores, overlap, most))
    made = sorted((*box, label, score) for box, label, score in zip(*kept, strict=True))
    assert made == sorted((*boxes[i], labels[i], scores[i]) for i in expected)


OWN = """
import numpy as np

class Own:
    classes = {1: "car", 7: "water bird", 3: "dog"}

    def __call__(self, images):
        assert {image.shape for image in images} <= {(48, 64, 3), (640, 640, 3)}
        return [self.one(image) for image in images]

    def one(self, image):
        red = float(image[:, :, 0].mean()) / 255
        return {"boxes": [[0, 0, 10, 20], [5, 5, 9, 9]], "labels": [7, 3], "scores": [red, 0.5]}

class Names(Own):
    classes = ["water bird"]
    one = lambda self, image: {
        "boxes": np.zeros((1, 4)), "labels": ["water bird"], "scores": [0.25]}

class Nothing(Names):
    one = lambda self, image: {"boxes": [], "labels": [], "scores": []}

class Unknown(Own):
    one = lambda self, image: {"boxes": [[0, 0, 1, 1]], "labels": [2], "scores": [0.5]}

class Uneven(Own):
    one = lambda self, image: {"boxes": [[0, 0, 1, 1]], "labels": [1, 1], "scores": [0.5]}

class Lacking(Own):
    one = lambda self, image: {"boxes": [[0, 0, 1, 1]]}

class Score(Own):
    one = lambda self, image: {"boxes": [[0, 0, 1, 1]], "labels": [1], "scores": [2.0]}

class Logits(Own):
    __call__ = lambda self, images: np.zeros((len(images), 3))

class Unnamed(Own):
    classes = ()
"""


def test_a_custom_detector_from_the_command_line(run_cli, tmp_path, monkeypatch):
    pytest.importorskip("transformers", reason="transformers is not installed (nooch[train])")
    (tmp_path / "own_detectors.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_detectors", raising=False)
    save_dataset(street_images(tmp_path), tmp_path / "data")
    run_cli("find data --cues water_bird=street --tasks water_bird --out suite").ok()
    done = run_cli("predict data --model own_detectors:Own --out p.parquet --batch 5").ok()
    assert "p.parquet: 24 boxes: 2 tasks x 24 images by own_detectors:Own (detector)" in done.out
    table = pl.read_parquet(tmp_path / "p.parquet")
    assert table.columns == [
        "image_id", "task", "probability", "run", "left", "top", "width", "height",
    ]  # fmt: skip
    assert table.select("task", "left", "top", "width", "height").unique().rows() == [
        ("water_bird", 0, 0, 10, 20)
    ]
    scored = run_cli("evaluate suite p.parquet --format json").ok()
    assert "24 images, 24 boxes (a table with left top width height)" in scored.err
    (tmp_path / "map.yaml").write_text("water_bird: [water bird, dog]\n")
    run_cli("predict suite --model own_detectors:Own --map map.yaml --out q.csv").ok()
    assert pl.read_csv(tmp_path / "q.csv").height == 48
    run_cli("predict suite --model own_detectors:Names --out n.csv").ok()
    assert pl.read_csv(tmp_path / "n.csv")["probability"].unique().to_list() == [0.25]
    run_cli("predict suite --model own_detectors:Nothing --out o.csv").ok()
    run_cli("evaluate suite o.csv").ok()


@pytest.mark.parametrize(
    ("name", "parts", "kind"),
    [
        ("Unknown", ["labels without names: 2", "car, water bird, dog"], None),
        ("Uneven", ["2 labels and scores (1,)"], None),
        ("Lacking", ["a dict for an image", "scores: (n,)"], None),
        ("Logits", ["a ndarray for 1 images", "boxes: (n, 4)"], None),
        ("Unnamed", ["lacks the attribute classes or size"], ParameterError),
    ],
)
def test_custom_detectors_that_are_refused(tmp_path, monkeypatch, name, parts, kind):
    (tmp_path / "own_detectors.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_detectors", raising=False)
    fails(
        lambda: load(f"own_detectors:{name}", ["car"]), *parts, **({"kind": kind} if kind else {})
    )
