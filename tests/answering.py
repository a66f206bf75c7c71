"""Tiny models with random weights: classifiers, and one of texts and images with a tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from image_folders import save_model

LABELS = (
    "sports car, sport car",
    "Cardigan, Cardigan corgi",
    "cardigan",
    "street",
    "water bird",
    "car",
)
WORDS = (
    "[pad]",
    "[bos]",
    "[unk]",
    "a",
    "an",
    "photo",
    "of",
    "car",
    "water",
    "bird",
    "street",
    "empty",
    "[eos]",
)


def save_classifier(
    folder: Path, labels: tuple[str, ...] = LABELS, seed: int = 0, **config: Any
) -> Path:
    """A ResNet of two stages with a class for each label, for images of 32 x 32 pixels."""
    import torch
    from transformers import ResNetConfig, ResNetForImageClassification

    torch.manual_seed(seed)
    made = ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic",
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)}, **config,
    )  # fmt: skip
    return save_model(ResNetForImageClassification(made), folder)


def save_clip(folder: Path, seed: int = 0, kind: str = "CLIP") -> Path:
    """A CLIP (or SigLIP) of one layer for 32 x 32 pixels and 12 tokens, with a few words."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    torch.manual_seed(seed)
    size = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    number = {word: i for i, word in enumerate(WORDS)}
    special = {
        "bos_token_id": number["[bos]"],
        "eos_token_id": number["[eos]"],
        "pad_token_id": number["[pad]"],
    }
    text = {**size, **special, "vocab_size": len(WORDS), "max_position_embeddings": 12}
    more = {"projection_dim": 8} if kind == "CLIP" else {}
    if kind == "Siglip":
        text["projection_size"] = 16
    config = getattr(transformers, f"{kind}Config")(
        text_config=text, vision_config={**size, "image_size": 32, "patch_size": 8}, **more
    )
    save_model(getattr(transformers, f"{kind}Model")(config), folder)
    tokenizer = Tokenizer(models.WordLevel(number, unk_token="[unk]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    ends = [(word, number[word]) for word in ("[bos]", "[eos]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[bos] $A [eos]", special_tokens=ends
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[pad]",
        bos_token="[bos]",
        eos_token="[eos]",
        unk_token="[unk]",
    ).save_pretrained(folder)
    return folder
