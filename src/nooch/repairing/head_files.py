"""Heads of several tasks as files: safetensors with a JSON of what they are, and ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nooch.models.linear_head import save_head

__all__ = ["save_heads"]

_OPSET, _IR = 13, 8
"""Old enough for any runtime; Gemm has not changed since."""


def save_heads(heads: NDArray[np.float32], about: dict[str, Any], folder: Path) -> list[str]:
    """Write ``head.safetensors``, ``head.json`` and, with the package onnx, ``head.onnx``.

    The network takes ``features`` (n, d), float32 as the backbone gives them, and gives ``logits``
    (n, n_tasks): their standardization is in the weights.

    Args:
        heads: weights and bias of each task, float32 (n_tasks, d + 1).
        about: content of ``head.json``.
        folder: exists.

    Returns:
        Notes: what was not written, and why.
    """
    save_head(heads, folder)
    (folder / "head.json").write_bytes(msgspec.json.format(msgspec.json.encode(about)))
    try:
        from onnx import TensorProto, checker, helper, numpy_helper, save_model
    except ImportError:
        return ["head.onnx was not written: it needs pip install 'nooch[onnx]'"]
    sizes = {"features": heads.shape[1] - 1, "logits": len(heads)}
    given, answer = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])
        for name, size in sizes.items()
    )
    node = helper.make_node("Gemm", ["features", "weight", "bias"], ["logits"], transB=1)
    arrays = {"weight": heads[:, :-1], "bias": heads[:, -1]}
    tensors = [numpy_helper.from_array(value.copy(), name) for name, value in arrays.items()]
    graph = helper.make_graph([node], "head", [given], [answer], tensors)
    opsets = [helper.make_opsetid("", _OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, producer_name="nooch", ir_version=_IR)
    checker.check_model(model)
    save_model(model, folder / "head.onnx")
    return []
