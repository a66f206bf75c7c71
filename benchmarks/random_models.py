"""Models of usual sizes with random weights, saved as folders: enough for speed, without a hub."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import torch
import transformers

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
save_llava: Any = importlib.import_module("tiny_vlm").save_llava

__all__ = ["SIZES", "save_random"]

_SWIN: dict[str, Any] = {
    "embed_dim": 8,
    "depths": [1, 1, 1, 1],
    "num_heads": [1, 1, 1, 1],
    "window_size": 2,
}
_DECODER = {"hidden_dim": 32, "feature_size": 32, "mask_feature_size": 32, "num_queries": 6}
_DECODER |= {"encoder_layers": 1, "decoder_layers": 2, "num_attention_heads": 1}
_SWIN["out_features"] = ["stage1", "stage2", "stage3", "stage4"]
# (class, configuration, what is smaller in a rehearsal): without more, the named model's values
_MODELS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "resnet-50": ("ResNetModel", {}, {"hidden_sizes": [8, 16], "depths": [1, 1]}),
    "vit-b": (
        "ViTModel",
        {},
        {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 64},
    ),
    "segformer-b0": (
        "SegformerForSemanticSegmentation",
        {"num_labels": 150},
        {
            "num_labels": 5,
            "depths": [1, 1, 1, 1],
            "hidden_sizes": [8, 16, 40, 64],
            "decoder_hidden_size": 8,
        },
    ),
    "mask2former-swin-t": (
        "Mask2FormerForUniversalSegmentation",
        {"num_labels": 133},
        {
            "num_labels": 5,
            "backbone_config": transformers.SwinConfig(**_SWIN),
            **_DECODER,
        },
    ),
}
SIZES = {"resnet-50": 224, "vit-b": 224, "segformer-b0": 512, "mask2former-swin-t": 384}
"""Height and width of their input; 64 in a rehearsal."""

# two billion weights: a CLIP-L and a language model of 24 layers
_LANGUAGE = {"hidden_size": 2048, "intermediate_size": 8192}
_LANGUAGE |= {"num_hidden_layers": 24, "num_attention_heads": 16, "vocab_size": 32000}
_VISION = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24}
_VISION |= {"num_attention_heads": 16, "image_size": 336, "patch_size": 14}


def save_random(name: str, folder: Path, device: str, *, tiny: bool) -> Path:
    """Save a model of ``SIZES``, or ``llava-2b``, with the files of its processor."""
    torch.manual_seed(0)
    if name == "llava-2b":
        sizes: dict[str, Any] = {} if tiny else {"text": _LANGUAGE, "vision": _VISION}
        with torch.device(device):
            save_llava(folder, **sizes)
        return folder
    kind, config, smaller = _MODELS[name]
    model_class = getattr(transformers, kind)
    made = model_class.config_class(**{**config, **(smaller if tiny else {})})
    with torch.device(device):
        model_class(made).save_pretrained(folder)
    side = 64 if tiny else SIZES[name]
    scaling = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "rescale_factor": 1 / 255}
    steps = {"do_resize": True, "do_rescale": True, "do_normalize": True}
    processor = {"image_processor_type": "ViTImageProcessor", **steps, **scaling}
    if kind.endswith("Segmentation"):
        processor["image_processor_type"] = f"{kind.rpartition('For')[0]}ImageProcessor"
    text = json.dumps({**processor, "size": {"height": side, "width": side}})
    (folder / "preprocessor_config.json").write_text(text)
    return folder
