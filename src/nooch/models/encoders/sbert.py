"""Sentence embeddings of sentence-transformers, faster than its ``encode`` on captions.

The transformer runs on batches of equal token length, on every core, in float32 or bfloat16;
pooling and later modules stay in float32. Times are in benchmarks/RESULTS.md.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import check_one_of
from nooch.base.shared_types import StepProgress, no_progress
from nooch.models.encoders import folders
from nooch.models.encoders import sentence_batches as batching
from nooch.models.encoders import sentence_models as loading

__all__ = ["PRECISIONS", "SbertEncoder", "distilroberta", "minilm"]

PRECISIONS = ("float32", "bf16")
# suffix of the name of a stored embedding; data.embedding_precision reads it
_SUFFIX = {"float32": "fp32", "bf16": "bf16"}

# tokens in a batch: a GPU needs more than a CPU to be busy
_GPU_TOKENS = 65536
# Python issues one operation at a time, so that more threads would wait for each other
_MOST_WORKERS = 8


def minilm(precision: str = "float32", device: str | None = None) -> SbertEncoder:
    """all-MiniLM-L6-v2: 384 numbers, 6 layers."""
    return SbertEncoder("all-MiniLM-L6-v2", precision, device)


def distilroberta(precision: str = "float32", device: str | None = None) -> SbertEncoder:
    """stsb-distilroberta-base-v2 of the paper's Appendix B: 768 numbers, 6 layers."""
    return SbertEncoder("stsb-distilroberta-base-v2", precision, device)


@dataclass(frozen=True)
class SbertEncoder:
    """A model of sentence-transformers.

    Attributes:
        source: a named model, a hub id ``owner/model``, or a folder.
        precision: of the transformer: ``float32`` or ``bf16``. Never chosen by device: vectors in
            bfloat16 differ enough to move images across a threshold.
        device: ``cpu`` or ``cuda`` (``cuda:1``); None uses a GPU if there is one.
    """

    source: str
    precision: str = "float32"
    device: str | None = None

    def __post_init__(self) -> None:
        check_one_of("precision", self.precision, PRECISIONS, owner="encoder")

    @cached_property
    def identity(self) -> str:
        """``all-MiniLM-L6-v2-fp32``; a folder adds part of a hash of its contents."""
        slug = re.sub(r"[^A-Za-z0-9._-]+", "-", self._model_name).strip("-._")
        hashed = "" if self._by_name else f"-{folders.contents_hash(self._folder)[:8]}"
        return f"{slug or 'model'}{hashed}-{_SUFFIX[self.precision]}"

    @property
    def in_parts(self) -> bool:
        """Sentences do not depend on each other."""
        return True

    @property
    def chosen(self) -> dict[str, Any]:
        """Device and precision in use here: workers on other machines must not choose others."""
        return {"device": self._on, "precision": self.precision}

    @property
    def on_gpu(self) -> bool:
        """Whether it computes on a GPU, which one job at a time should have."""
        return self._on.startswith("cuda")

    def describe(self) -> dict[str, Any]:
        """Family, model, precision, device, length limit, versions, and hash of the files."""
        import sentence_transformers
        import torch

        return {
            "encoder": "sentence-transformers",
            "model": self._model_name,
            "precision": self.precision,
            "device": self._on,
            "max_tokens": self._model.max_seq_length,
            "sha256": folders.contents_hash(self._folder),
            "versions": {
                "sentence-transformers": sentence_transformers.__version__,
                "torch": str(torch.__version__),
            },
        }

    def encode(
        self, sentences: Sequence[str], progress: StepProgress | None = None
    ) -> NDArray[np.float32]:
        """One vector for each sentence: float32 (n, d). Each distinct sentence is encoded once.

        Raises:
            InputError: the model cannot be loaded.
            MissingExtraError: sentence-transformers is not installed.
        """
        # ascending, so that batches, and thus the last bits, depend on the set of sentences alone
        texts, codes = batching.distinct(sentences)
        vectors = self._encode(texts or [""], progress or no_progress)
        return vectors if np.array_equal(codes, np.arange(len(vectors))) else vectors[codes]

    @property
    def _by_name(self) -> bool:
        return folders.is_named(self.source) or not Path(self.source).expanduser().is_dir()

    @property
    def _model_name(self) -> str:
        return self.source if self._by_name else self._folder.name

    @cached_property
    def _folder(self) -> Path:
        loading.require_package()
        return folders.locate(self.source).resolve()

    @cached_property
    def _on(self) -> str:
        """The device that will be used."""
        loading.require_package()
        import torch

        return self.device or ("cuda" if torch.cuda.is_available() else "cpu")

    @cached_property
    def _model(self) -> Any:
        folders.check_folder(self._folder)
        return loading.load(self._folder, self._on, self.precision)

    def _encode(self, texts: list[str], progress: StepProgress) -> NDArray[np.float32]:
        model = self._model
        if not loading.is_fast(model):
            return _encode_plainly(model, texts, progress)
        tokens = batching.tokenize(model.tokenizer, texts, model.max_seq_length)
        starts, done = tokens.starts, 0
        budget = loading.CPU_TOKENS if self._on == "cpu" else _GPU_TOKENS
        batches = list(batching.equal_lengths(tokens.lengths, budget))
        vectors = np.empty((len(texts), 0), np.float32)
        with _workers(self._on) as pool:
            results = pool.map(lambda rows: _forward(model, tokens.matrix(rows, starts)), batches)
            for members, result in zip(batches, results, strict=True):
                if not done:
                    vectors = np.empty((len(texts), result.shape[1]), np.float32)
                vectors[members] = result
                done += len(members)
                progress(done, len(texts))
        return vectors


def _forward(model: Any, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    """Vectors of sentences of one length, (n, length) -> (n, d), through all modules in order."""
    import torch

    with torch.inference_mode():
        tokens = torch.from_numpy(ids).to(model.device)
        features = model[0]({"input_ids": tokens, "attention_mask": torch.ones_like(tokens)})
        # rounding a pooled vector would lose more than the whole transformer in bf16 does
        features = {
            k: v.float() if torch.is_tensor(v) and v.is_floating_point() else v
            for k, v in features.items()
        }
        for module in list(model)[1:]:
            features = module(features)
        vectors: NDArray[np.float32] = features["sentence_embedding"].cpu().numpy()
    return vectors


def _encode_plainly(model: Any, texts: list[str], progress: StepProgress) -> NDArray[np.float32]:
    """Use the model's own ``encode``: its family is not checked on batches of equal length."""
    parts = []
    for start in range(0, len(texts), 2048):
        vectors = model.encode(texts[start : start + 2048], show_progress_bar=False)
        parts.append(np.asarray(vectors, dtype=np.float32))
        progress(min(start + 2048, len(texts)), len(texts))
    return np.concatenate(parts)


@contextlib.contextmanager
def _workers(device: str) -> Iterator[ThreadPoolExecutor]:
    """Threads that share the cores, each with its own batch: serial operations block no other."""
    import torch

    before = torch.get_num_threads()
    count = min(before, _MOST_WORKERS) if device == "cpu" else 1
    share = max(1, before // count)
    try:
        with ThreadPoolExecutor(count, "", torch.set_num_threads, (share,)) as pool:
            yield pool
    finally:
        # partly global in torch: later threads would inherit the workers' share
        torch.set_num_threads(before)
