"""Segmenters as ONNX: ``model.onnx``, ``labels.txt`` and ``preprocessor_config.json``."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nooch.errors import InputError, MissingExtraError, ParameterError
from nooch.files import sha256_of
from nooch.models.annotators import Annotator, ModelChoice
from nooch.models.model_sources import ModelSource
from nooch.models.preprocessing import Inputs
from nooch.models.pretrained import preprocessing_of
from nooch.models.segmenters import segmenter_of

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["MODEL_FILE", "load_onnx_segmenter"]

MODEL_FILE = "model.onnx"


def load_onnx_segmenter(folder: Path, choice: ModelChoice) -> Annotator:
    """Load a network with one input, float32 (n, 3, height, width), whose first output is logits,
    (n, n_labels, any height, any width). ``labels.txt`` has a label per line, in their order.

    Raises:
        InputError: a file that is missing or cannot be read, or another output.
        ParameterError: bfloat16, or a GPU that onnxruntime cannot use.
        MissingExtraError: onnxruntime is not installed.
    """
    if choice.bf16:
        problem = "an ONNX network computes in the precision that it was exported in"
        raise ParameterError(problem, where="`bf16`", remedy="leave it out")
    try:
        text = (folder / "labels.txt").read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        allowed = "a text file with the label of each output, one per line"
        problem = f"labels.txt cannot be read: {error}"
        raise InputError(problem, where=folder, allowed=allowed) from error
    model, name = folder / MODEL_FILE, folder.resolve().name
    source = ModelSource(name, folder, {}, sha256_of(model))
    inputs = Inputs(preprocessing_of(source, choice.size), choice.device)
    session = _session(model, choice.device)
    first = session.get_inputs()[0]

    def probabilities(batch: Tensor) -> Tensor:
        import torch

        images = batch.cpu().numpy()
        # a network may be exported for one image at a time
        parts = images[:, None] if first.shape[0] == 1 else [images]
        logits = [session.run(None, {first.name: part})[0] for part in parts]
        return torch.from_numpy(np.concatenate(logits)).float().softmax(1)

    facts = {"sha256": source.identity, "onnxruntime": version("onnxruntime")}
    labels = [line for line in text.splitlines() if line.strip()]
    return segmenter_of(name, labels, choice, inputs, (probabilities, facts))


def _session(model: Path, device: str) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("onnxruntime", "onnx", "a segmenter as ONNX") from error
    import torch

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    kind, _, number = device.partition(":")
    provider = "CPUExecutionProvider" if kind == "cpu" else "CUDAExecutionProvider"
    if provider not in onnxruntime.get_available_providers():
        problem = f"onnxruntime cannot use {device} here"
        remedy = "install onnxruntime-gpu instead of onnxruntime, or use `device` cpu"
        raise ParameterError(problem, where="`device`", remedy=remedy)
    where = {} if kind == "cpu" else {"device_id": int(number or 0)}
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=[(provider, where)])
    # errors of several kinds, of onnxruntime's own
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        problem = f"cannot be loaded: {reason}"
        raise InputError(problem, where=model, allowed="a network as ONNX") from error
