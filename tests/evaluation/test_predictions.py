"""Predictions from arrays and tensors."""

import numpy as np
import polars as pl
import pytest
from refusals import fails

from nooch.evaluation import Predictions

VALUES = np.array([[0.5, -1.25], [2.0, 0.0], [-3.5, 8.0]])
IDS = [3, 1, 2]
TASKS = ["car", "fire hydrant"]


def _of(values=VALUES, ids=IDS, tasks=TASKS, **options):
    return Predictions.from_arrays(values, ids, tasks, **{"scale": "logit", **options})


def _check(run):
    assert run.values.dtype == np.float64
    assert run.values.tolist() == VALUES.T.tolist()
    assert run.image_ids.to_list() == IDS
    assert run.image_ids.name == "image_id"
    assert run.tasks == ("car", "fire_hydrant")


@pytest.mark.parametrize(
    "kind", [np.float16, np.float32, np.float64, "list", "object", "fortran", "strided"]
)
def test_arrays_of_any_kind_that_hold_the_numbers(kind):
    made = {
        "list": VALUES.tolist(),
        "object": VALUES.astype(object),
        "fortran": np.asfortranarray(VALUES),
        "strided": np.repeat(VALUES, 2, axis=1)[:, ::2],
    }
    _check(_of(made[kind] if isinstance(kind, str) else VALUES.astype(kind)))


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("grad", [False, True])
def test_tensors_also_those_that_numpy_does_not_know(kind, grad):
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(VALUES, dtype=getattr(torch, kind), requires_grad=grad)
    _check(_of(tensor * 1 if grad else tensor, torch.tensor(IDS)))


@pytest.mark.parametrize(
    "ids",
    [np.array(IDS, np.int32), np.array(IDS, np.uint8), pl.Series(IDS), tuple(IDS), [3.0, 1.0, 2.0]],
)
def test_ids_of_any_kind_that_hold_integers(ids):
    run = _of(ids=ids)
    _check(run)
    assert run.image_ids.dtype == pl.Int64


@pytest.mark.parametrize(
    "ids", [["c", "a", "b"], np.array(["c", "a", "b"], object), pl.Series(["c", "a", "b"])]
)
def test_ids_as_text(ids):
    run = _of(ids=ids)
    assert run.image_ids.to_list() == ["c", "a", "b"]
    assert run.image_ids.dtype == pl.String


def test_one_task_may_be_flat_and_its_values_are_not_shared():
    flat = VALUES[:, 0].copy()
    run = _of(flat, tasks="fire hydrant", run="r", method="erm", seed=3)
    assert (run.run, run.method, run.seed, run.tasks) == ("r", "erm", 3, ("fire_hydrant",))
    flat[:] = 99
    assert run.values.tolist() == [VALUES[:, 0].tolist()]


def test_probabilities_are_0_to_1_with_their_ends():
    assert _of([0.0, 1.0, 0.5], tasks="car", scale="probability").scale == "probability"
    for near, end in ((-1e-7, 0), (1 + 1e-7, 1)):
        rounded = _of([0.0, near, 0.5], tasks="car", scale="probability")
        assert rounded.values.tolist() == [[0, end, 0.5]]
        assert "1 probability outside 0 to 1" in rounded.notes[0]
    for wrong in (-1e-5, 1 + 1e-5):
        fails(
            lambda wrong=wrong: _of([0.0, wrong, 0.5], tasks="car", scale="probability", run="r"),
            "1 value is not a probability", "image 1, task car", "run r", "0 to 1",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"values": VALUES[:2]}, ["values have shape (2, 2)", "(3, 2): 3 image ids and 2 tasks"]),
        ({"values": VALUES.T}, ["values have shape (2, 3)"]),
        ({"values": VALUES[:, 0]}, ["values have shape (3, 1)"]),
        ({"values": VALUES[None]}, ["values have shape (1, 3, 2)"]),
        (
            {"values": np.where(VALUES > 7, np.nan, VALUES)},
            ["1 value is NaN", "image 2, task fire_hydrant"],
        ),
        ({"values": np.where(VALUES > 7, np.inf, VALUES)}, ["NaN or infinite, such as inf"]),
        ({"values": VALUES.astype(str)}, ["values are not numbers"]),
        ({"values": VALUES.astype(complex)}, ["values are not numbers", "complex"]),
        ({"values": [[1], [1, 2], [3]]}, ["values are not numbers"]),
        ({"values": None}, ["values have shape"]),
        ({"ids": [1, 1, 2]}, ["image ids occur more than once: 1"]),
        ({"ids": [1.5, 2, 3]}, ["image_ids", "not whole numbers, or too large: 1.5"]),
        ({"ids": [np.inf, 2, 3]}, ["image_ids", "or too large: inf"]),
        ({"ids": pl.Series([1e300, 2, 3])}, ["image_ids", "or too large: 1e+300"]),
        ({"ids": [None, 2, 3]}, ["image_ids", "integers or text"]),
        ({"ids": np.array(IDS).astype("S")}, ["integers or text"]),
        ({"ids": np.array([IDS]).T}, ["of shape (3, 1)"]),
        ({"tasks": ["car", "car"]}, ["tasks occur more than once: car"]),
        ({"tasks": ["fire hydrant", "fire_hydrant"]}, ["tasks occur more than once: fire_hydrant"]),
        ({"tasks": []}, ["values have shape"]),
        ({"values": np.empty((3, 0)), "tasks": []}, ["there are no tasks"]),
        ({"values": np.empty((0, 2)), "ids": []}, ["there are no image ids"]),
        ({"scale": "logits"}, ["scale 'logits' is not known", "logit, probability"]),
    ],
)
def test_what_is_refused(change, parts):
    fails(lambda: _of(**change), *parts)


def test_its_text_tells_its_size():
    assert repr(_of(run="r")) == "Predictions(r: 3 images, 2 tasks, logits)"
