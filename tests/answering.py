"""Tiny models with random weights: classifiers, and one of texts and images with a tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from image_folders import SMALL_RESNET, save_model

CARDIGANS = ("Cardigan, Cardigan corgi", "cardigan")
LABELS = ("sports car, sport car", *CARDIGANS, "street", "water bird", "car")
WORDS = ("[pad]", "[bos]", "[unk]", "a", "an", "photo", "of", "car", "water", "bird", "street")
WORDS += ("empty", "[eos]")


def save_classifier(
    folder: Path, labels: tuple[str, ...] = LABELS, seed: int = 0, **config: Any
) -> Path:
    """A ResNet of two stages with a class for each label, for images of 32 x 32 pixels; an image
    has one of them, unless ``config`` has another ``problem_type``.
    """
    import torch
    from transformers import ResNetConfig, ResNetForImageClassification

    torch.manual_seed(seed)
    names = dict(enumerate(labels))
    config = {"problem_type": "single_label_classification", **config}
    config |= {"id2label": names, "label2id": {label: number for number, label in names.items()}}
    return save_model(ResNetForImageClassification(ResNetConfig(**SMALL_RESNET, **config)), folder)


def save_clip(folder: Path, seed: int = 0, kind: str = "CLIP") -> Path:
    """A CLIP (or SigLIP) of one layer for 32 x 32 pixels and 12 tokens, with a few words."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    torch.manual_seed(seed)
    size = {"hidden_size": 16, "intermediate_size": 16}
    size |= {"num_hidden_layers": 1, "num_attention_heads": 2}
    number = {word: i for i, word in enumerate(WORDS)}
    special = {f"{name}_token_id": number[f"[{name}]"] for name in ("bos", "eos", "pad")}
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
    template = {"single": "[bos] $A [eos]", "special_tokens": ends}
    tokenizer.post_processor = processors.TemplateProcessing(**template)
    tokens = {f"{name}_token": f"[{name}]" for name in ("pad", "bos", "eos", "unk")}
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **tokens)
    fast.save_pretrained(folder)
    return folder
