"""Files of arrays -> predictions: NumPy, PyTorch and safetensors; nothing is unpickled."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nooch.base.errors import InputError, MissingExtraError, some_of
from nooch.data import class_name, id_column, read_arrays
from nooch.data.array_values import float_array
from nooch.data.data_files import checked_read
from nooch.evaluation.prediction_format import PredictionFormat
from nooch.evaluation.prediction_tables import scale_of
from nooch.evaluation.predictions import Predictions

__all__ = ["ARRAY_ENDINGS", "array_predictions"]

ARRAY_ENDINGS = (".npz", ".npy", ".pt", ".pth", ".safetensors")
_SCALE_OF = {"logits": "logit", "probabilities": "probability"}
_ARRAYS = (
    "image_ids (n,), tasks (t,), and logits or probabilities: (n, t), or (r, n, t) with runs (r,);"
    " or one array (n, t), with `ids` and `classes`"
)


def array_predictions(path: Path, name: str, how: PredictionFormat) -> list[Predictions]:
    """The runs of a file of arrays; ``ids`` and ``classes`` stand for arrays that it does not have.

    Raises:
        InputError: other arrays, shapes that do not agree, an unknown scale.
    """
    arrays = _tensors(path) if path.suffix[1] in "ps" else dict(read_arrays(path, _ARRAYS))
    listed, named = how.listed(), how.named()
    given = arrays if listed is None else {**arrays, "image_ids": listed}
    given = given if named is None else {**given, "tasks": [*named.values()]}
    keys = [key for key in _SCALE_OF if key in arrays]
    keys = keys or [key for key in arrays if key not in {"image_ids", "tasks", "runs"}]
    if len(keys) != 1 or not {"image_ids", "tasks"} <= given.keys():
        raise InputError(
            f"holds {some_of(arrays, 8) or 'no named array'}", where=path, allowed=_ARRAYS
        )
    ids = id_column(given["image_ids"], f"{path}, image_ids")
    tasks = [class_name(str(task)) for task in np.atleast_1d(given["tasks"])]
    values = float_array(given[keys[0]]) / (100 if how.percent else 1)
    column = keys[0] if keys[0] in _SCALE_OF else None
    scale, read = scale_of(values, column, how, path, what="array")
    by_run, names = [values], [name]
    if values.ndim == 3:
        by_run, names = list(values), [f"{name}/{i}" for i in range(len(values))]
    runs = [str(run) for run in np.atleast_1d(given.get("runs", names))]
    if len(runs) != len(by_run):
        problem = f"has {len(runs)} runs and {keys[0]} of shape {values.shape}"
        raise InputError(problem, where=path, allowed=_ARRAYS)
    return [
        replace(Predictions.of(of_run, ids, tasks, scale=scale, run=run), read=read)
        for of_run, run in zip(by_run, runs, strict=True)
    ]


def _tensors(path: Path) -> dict[str, Any]:
    """Tensors of PyTorch or safetensors by name, ``""`` for one without."""
    content = checked_read(path, path.read_bytes)
    try:
        import torch
        from safetensors.torch import load
    except ImportError as error:
        raise MissingExtraError("torch", "train", f"reading {path.suffix}") from error
    try:
        if path.suffix.lower() == ".safetensors":
            return dict(load(content))
        loaded = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        tensors = loaded if isinstance(loaded, dict) else {"": loaded}
        if all(isinstance(tensor, torch.Tensor) for tensor in tensors.values()):
            return {str(name): tensor for name, tensor in tensors.items()}
        problem = "holds more than tensors"
    except Exception as error:
        # errors of many kinds, for contents that are not tensors
        raise InputError(
            f"cannot be read as tensors: {type(error).__name__}", where=path, allowed=_ARRAYS
        ) from error
    raise InputError(problem, where=path, allowed="tensors alone, by name")
