"""A sentence-transformers model in memory: loading, precision, and how it can be run."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from nooch.base.errors import MissingExtraError, as_input_error
from nooch.models.encoders.attention import FAMILIES, use_short_attention

__all__ = ["CPU_TOKENS", "is_fast", "load", "require_package"]

CPU_TOKENS = 1024
"""Tokens in a batch: a CPU keeps the activations in its caches."""

# what torch.compile calls for a linear layer on a CPU
_OPERATIONS = ("_reorder_linear_weight", "_linear_pointwise")
# model types that need no input but token ids, checked on batches of equal length
_FAST = FAMILIES | {"mpnet"}


def require_package() -> None:
    """Raise MissingExtraError if sentence-transformers is not installed."""
    try:
        import sentence_transformers  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("sentence-transformers", "gist", "a sentence encoder") from error


def is_fast(model: Any) -> bool:
    """Whether a model runs on its transformer's token ids directly, in batches of equal length."""
    transformer = getattr(model[0], "auto_model", None)
    kind = getattr(getattr(transformer, "config", None), "model_type", None)
    return (
        kind in _FAST
        and bool(getattr(model.tokenizer, "is_fast", False))
        and model.default_prompt_name is None
    )


def load(folder: Path, device: str, precision: str) -> Any:
    """The model of a checked folder, ready to run in the precision (``float32`` or ``bf16``).

    Weights saved in half precision are converted to float32; with ``bf16`` the transformer alone
    is in bfloat16 if it is a fast one, else the whole model.

    Raises:
        InputError: sentence-transformers cannot load the folder.
    """
    model = _quietly(folder, device).float()
    fast = is_fast(model)
    if fast:
        use_short_attention(model[0].auto_model)
    if precision == "bf16":
        (model[0] if fast else model).bfloat16()
    if fast and device == "cpu":
        _use_packed_weights(model[0].auto_model)
    return model.eval()


def _quietly(folder: Path, device: str) -> Any:
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    safe: dict[str, Any] = {"local_files_only": True, "model_kwargs": {"use_safetensors": True}}
    allowed = "a folder saved by sentence-transformers, with weights as .safetensors"
    try:
        with as_input_error("cannot be loaded", where=folder, allowed=allowed):
            return SentenceTransformer(str(folder), device=device, **safe)
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _use_packed_weights(transformer: Any) -> None:
    """Pack the weights of linear layers once, by oneDNN where torch has it. In float32 vectors
    differ by rounding alone, in bfloat16 not at all.
    """
    import torch
    from transformers.activations import GELUActivation

    pack, multiply = (getattr(torch.ops.mkldnn, name, None) for name in _OPERATIONS)
    if pack is None or multiply is None:
        return
    activated: set[Any] = set()
    for part in transformer.modules():
        after = getattr(part, "intermediate_act_fn", None)
        # not the approximations by tanh, which are other classes; in bfloat16 one rounding less
        # would give other vectors
        exact = type(after) is GELUActivation and after.act is torch.nn.functional.gelu
        if exact and part.dense.weight.dtype == torch.float32:
            activated.add(part.dense)
            part.intermediate_act_fn = torch.nn.Identity()
        if type(part) is torch.nn.Linear:
            weight = pack(part.weight.detach(), CPU_TOKENS)
            bias = None if part.bias is None else part.bias.detach()
            activation = "gelu" if part in activated else "none"
            product = partial(_product, multiply, weight, bias, activation)
            part.forward = product  # type: ignore[method-assign]


def _product(multiply: Any, weight: Any, bias: Any, activation: str, inputs: Any) -> Any:
    """Inputs W^T + bias, float (..., d_in) -> (..., d_out), activated."""
    # the last: GELU itself, no approximation
    return multiply(inputs, weight, bias, activation, [], "none" if activation == "gelu" else "")
