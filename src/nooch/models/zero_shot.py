"""Zero-shot models such as CLIP: a task's logit from positive and negative prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nooch.base.errors import InputError, some_of
from nooch.models.images import Inputs
from nooch.models.sources import ModelSource, complete, preprocessing_of, quietly
from nooch.models.task_contract import Asked, TaskModel
from nooch.models.task_maps import prompts_of

if TYPE_CHECKING:
    from torch import Tensor


# models that were trained on texts of one length, filled up with padding
_ONE_LENGTH = frozenset({"siglip"})
_VOCABULARIES = (
    *("tokenizer.json", "vocab.json", "vocab.txt"),
    *("spiece.model", "sentencepiece.bpe.model"),
)
_NEEDED = ("get_text_features", "get_image_features", "logit_scale")


def is_zero_shot(asked: Asked) -> bool:
    """Whether the configuration has a tower for texts and one for images."""
    return {"text_config", "vision_config"} <= asked.resolved.config.keys()


def load_zero_shot(asked: Asked) -> TaskModel:
    """A model of texts and images that gives the tasks' logits.

    The similarity of an image and a prompt is their cosine times the model's own scale. A task's
    logit is logsumexp over its positive prompts less logsumexp over its negative ones: p is the
    softmax's share of the positive prompts.
    """
    resolved, prompts = asked.resolved, prompts_of(asked.tasks, asked.words)
    inputs = Inputs(preprocessing_of(resolved, asked.size), asked.device, channels_last=True)
    from transformers import AutoModel

    module = complete(AutoModel, resolved, asked.device)
    if not all(hasattr(module, name) for name in _NEEDED):
        kind = resolved.config["model_type"]
        raise InputError(
            f"a model of type {kind} does not compare texts and images by cosine",
            where=resolved.name,
            allowed="CLIP, SigLIP, ALIGN-like models with a logit_scale",
        )
    every = (text for sides in prompts.values() for side in sides for text in side)
    texts = list(dict.fromkeys(every))
    towards = _embedded(module, resolved, texts, asked.device)
    columns = {
        task: [[texts.index(text) for text in side] for side in sides]
        for task, sides in prompts.items()
    }

    def outputs(batch: Tensor) -> Tensor:
        import torch

        images = _unit(module.get_image_features(pixel_values=batch))
        similar = (images @ towards.T).double() * module.logit_scale.double().exp()
        sums = [[torch.logsumexp(similar[:, c], 1) for c in columns[task]] for task in asked.tasks]
        return torch.stack([positive - negative for positive, negative in sums], 1)

    meaning = {task: {"positive": list(p), "negative": list(n)} for task, (p, n) in prompts.items()}
    return TaskModel(
        resolved.name, resolved.identity, "zero-shot", asked.tasks, inputs, outputs, meaning
    )


def _embedded(module: Any, resolved: ModelSource, texts: Sequence[str], device: str) -> Tensor:
    """Embeddings of length 1, float32 (n_texts, d)."""
    import torch

    tokenizer = tokenizer_of(resolved)
    config = module.config.text_config
    ids = tokenizer(list(texts))["input_ids"]
    most = int(config.max_position_embeddings)
    if long := [text for text, numbers in zip(texts, ids, strict=True) if len(numbers) > most]:
        raise InputError(
            f"prompts have more than {most} tokens: {some_of(long)}",
            where="`task_map`",
            allowed="shorter prompts",
        )
    if len(set(map(tuple, ids))) < len(texts) or max(map(max, ids)) >= config.vocab_size:
        raise InputError(
            "the tokenizer does not distinguish prompts, or is not this model's",
            where=resolved.folder,
            allowed="the model's own tokenizer, and prompts in words that it knows",
        )
    fixed = resolved.config["model_type"] in _ONE_LENGTH
    padding = {"padding": "max_length", "max_length": most} if fixed else {"padding": True}
    tokens = tokenizer(list(texts), return_tensors="pt", **padding).to(device)
    with torch.inference_mode():
        return _unit(module.get_text_features(**tokens))


def tokenizer_of(resolved: ModelSource) -> Any:
    """The tokenizer in a model's folder. Raises InputError where there is none."""
    from transformers import AutoTokenizer

    # without its vocabulary transformers makes a tokenizer that knows no word
    if resolved.folder is None or not any(
        (resolved.folder / name).is_file() for name in _VOCABULARIES
    ):
        raise InputError(
            "holds no tokenizer",
            where=resolved.folder or resolved.name,
            allowed=f"one of {', '.join(_VOCABULARIES)}",
            remedy="save it in the model's folder: tokenizer.save_pretrained(folder)",
        )
    safe = {"local_files_only": True, "trust_remote_code": False}
    with quietly(resolved):
        return AutoTokenizer.from_pretrained(str(resolved.folder), **safe)


def _unit(features: Any) -> Tensor:
    """Features at length 1; newer versions of transformers give them inside an output."""
    import torch

    values: Tensor = getattr(features, "pooler_output", features)
    return torch.nn.functional.normalize(values.float(), dim=1)
