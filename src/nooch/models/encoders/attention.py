"""Attention for short sentences without padding: plain matrix products instead of fused kernels.

On captions of 9 to 30 tokens torch's fused attention for CPUs spends most of its time on the
overhead of each sentence and head, and its softmax has no vectorized path for so few keys. Products
over all sentences and heads at once take about half that time.
"""

from __future__ import annotations

from typing import Any

__all__ = ["FAMILIES", "use_short_attention"]

FAMILIES = frozenset({"bert", "roberta", "xlm-roberta", "distilbert", "electra"})
"""Model types that attend to every token and look their attention up by name."""

_NAME = "nooch_short"
_LONGEST = 64


def use_short_attention(transformer: Any) -> None:
    """Let a Hugging Face model use ``_short_attention``, unless transformers is too old."""
    try:
        from transformers import AttentionInterface
    except ImportError:
        return
    if transformer.config.model_type in FAMILIES:
        AttentionInterface.register(_NAME, _short_attention)
        transformer.set_attn_implementation(_NAME)


def _short_attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Any, None]:
    """Softmax(QK^T * scaling)V, softmax in float32.

    Args:
        module: the calling layer.
        query: (batch, heads, tokens, width); ``key`` and ``value`` alike.
        key: see ``query``.
        value: see ``query``.
        attention_mask: None, as there is no padding; anything else goes to the fused kernel.
        scaling: of the products; 1 / sqrt(width) where None.
        options: what other implementations take.

    Returns:
        (batch, tokens, heads, width), and no weights.
    """
    batch, heads, length, width = query.shape
    if attention_mask is not None or length > _LONGEST or query.device.type != "cpu":
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        fused: tuple[Any, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, is_causal=False, **options
        )
        return fused
    q, k, v = (x.reshape(batch * heads, length, width) for x in (query, key, value))
    scale = width**-0.5 if scaling is None else scaling
    weights = q.bmm(k.transpose(1, 2)).float()
    weights = weights.sub_(weights.amax(-1, keepdim=True)).mul_(scale).exp_()
    # dividing the result is cheaper than dividing the weights: width, not length, per token
    mixed = weights.to(v.dtype).bmm(v).float().div_(weights.sum(-1, keepdim=True)).to(v.dtype)
    return mixed.view(batch, heads, length, width).transpose(1, 2).contiguous(), None
