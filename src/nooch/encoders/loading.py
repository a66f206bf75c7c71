"""A sentence-transformers model in memory: which way it can be run, and in which precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nooch.encoders.attention import FAMILIES, use_short_attention
from nooch.errors import InputError, MissingExtraError

__all__ = ["computes_in_bf16", "is_fast", "load", "require_package"]

# model types that need no input beside the token ids, checked on batches of equal length; others go the plain way
_FAST = FAMILIES | {"mpnet"}


def require_package() -> None:
    """Raise MissingExtraError where sentence-transformers is not installed."""
    try:
        import sentence_transformers  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("sentence-transformers", extra="gist", purpose="a sentence encoder") from error


def is_fast(model: Any) -> bool:
    """Whether a model can be run on its transformer's token ids directly, in batches of equal length."""
    transformer = getattr(model[0], "auto_model", None)
    kind = getattr(getattr(transformer, "config", None), "model_type", None)
    return kind in _FAST and bool(getattr(model.tokenizer, "is_fast", False)) and model.default_prompt_name is None


def computes_in_bf16(device: str) -> bool:
    """Whether the device has instructions for bfloat16."""
    import torch

    if device.startswith("cuda"):
        return bool(torch.cuda.is_bf16_supported())
    # oneDNN also runs bf16 by emulation, slower than float32, so its own answer would mislead
    return device == "cpu" and bool(getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)())


def load(folder: Path, device: str, precision: str) -> Any:
    """The model of a checked folder, ready to run; its transformer in the precision where it is a fast one.

    Raises:
        InputError: the folder does not hold what sentence-transformers can load.
    """
    model = _quietly(folder, device)
    if is_fast(model):
        use_short_attention(model[0].auto_model)
        if precision == "bf16":
            model[0].bfloat16()
    return model.eval()


def _quietly(folder: Path, device: str) -> Any:
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        return SentenceTransformer(
            str(folder), device=device, local_files_only=True, model_kwargs={"use_safetensors": True}
        )
    except Exception as error:  # loading fails with errors of several packages; all mean a folder that does not fit
        reason = (str(error).splitlines() or [""])[0]
        raise InputError(
            f"cannot be loaded: {type(error).__name__}: {reason}",
            where=folder,
            allowed="a folder saved by sentence-transformers, with weights as .safetensors",
        ) from error
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
