"""Linear layers by oneDNN on a CPU: weights packed once, not at each call, and GELU on the way."""

from __future__ import annotations

from functools import partial
from typing import Any

__all__ = ["use_packed_weights"]

# what torch.compile calls for a linear layer on a CPU
_OPERATIONS = ("_reorder_linear_weight", "_linear_pointwise")


def use_packed_weights(transformer: Any, rows: int) -> None:
    """Pack the weights of a Hugging Face model's linear layers, for batches of about ``rows``
    tokens; nothing happens where torch has no oneDNN. In float32 vectors differ by rounding alone,
    in bfloat16 not at all.
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
            weight = pack(part.weight.detach(), rows)
            bias = None if part.bias is None else part.bias.detach()
            activation = "gelu" if part in activated else "none"
            product = partial(_product, multiply, weight, bias, activation)
            part.forward = product  # type: ignore[method-assign]


def _product(multiply: Any, weight: Any, bias: Any, activation: str, inputs: Any) -> Any:
    """Inputs W^T + bias, float (..., d_in) -> (..., d_out), activated."""
    # the last: GELU itself, no approximation
    return multiply(inputs, weight, bias, activation, [], "none" if activation == "gelu" else "")
