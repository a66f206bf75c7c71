"""An encoder is frozen parameters and ``encode(sentences) -> float32 (n, d)``; one file, one line.

``ENCODERS`` gives their import strings: nothing is imported before it is used, so that this package
needs neither torch nor sentence-transformers.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

from nooch.base.calls import imported, is_named
from nooch.base.errors import ParameterError, check_one_of
from nooch.models.encoders.caption_vectors import (
    Encoder,
    caption_means,
    distinct_captions,
    embed_captions,
    encode_texts,
)
from nooch.models.encoders.precomputed import (
    EmbeddingFile,
    check_features,
    load_embedding,
    open_embedding,
)

__all__ = [
    "ENCODERS", "EmbeddingFile", "Encoder", "caption_means", "check_features", "distinct_captions",
    "embed_captions", "encode_texts", "encoder", "load_embedding", "open_embedding",
]  # fmt: skip

_SBERT = "nooch.models.encoders.sbert:SbertEncoder"
ENCODERS = MappingProxyType(
    {
        "lexical": "nooch.models.encoders.lexical:LexicalEncoder",
        "minilm": _SBERT,
        "all-MiniLM-L6-v2": _SBERT,
        # of the paper's Appendix B
        "stsb-distilroberta-base-v2": _SBERT,
    }
)


def encoder(name: str, **options: Any) -> Encoder:
    """The encoder of a name."""
    target = ENCODERS.get(name)
    if target is None and is_named(name):
        target = name
    if target is None and ("/" in name or Path(name).is_dir()):
        target = _SBERT
    if target is None:
        _refuse(name)
    if target == _SBERT and not is_named(name):
        options = {"source": "all-MiniLM-L6-v2" if name == "minilm" else name, **options}
    factory = imported(str(target), f"encoder {name!r}")
    try:
        made: Encoder = factory(**options)
    except TypeError as error:
        remedy = "remove the option that this encoder does not have"
        raise ParameterError(f"encoder {name!r}: {error}", remedy=remedy) from error
    return made


def _refuse(name: str) -> None:
    try:
        check_one_of("encoder", name, ENCODERS)
    except ParameterError as error:
        allowed = f"{error.allowed}; a folder; a hub id owner/model; package.module:Name"
        other = "models of sentence-transformers are named sentence-transformers/MODEL"
        remedy = error.remedy or other
        raise ParameterError(error.problem, allowed=allowed, remedy=remedy) from None
