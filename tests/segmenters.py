"""Tiny segmenters with random weights: of transformers, and as ONNX."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from image_folders import PREPROCESSOR, save_model

LABELS = ("background", "sky", "road", "path", "road")
"""One that is no class, and one that occurs twice."""
KINDS = ("segformer", "mask2former", "oneformer", "maskformer")

_SWIN = {
    "image_size": 32, "embed_dim": 8, "depths": [1, 1, 1, 1], "num_heads": [1, 1, 1, 1],
    "window_size": 2, "out_features": ["stage1", "stage2", "stage3", "stage4"],
}  # fmt: skip
_DECODER = {
    "hidden_dim": 32, "encoder_feedforward_dim": 8, "dim_feedforward": 8, "encoder_layers": 1,
    "decoder_layers": 2, "num_attention_heads": 1, "num_queries": 6,
}  # fmt: skip


def save_segmenter(folder: Path, kind: str, seed: int = 0) -> Path:
    """A model whose weights are large enough for its pixels to differ."""
    import torch
    import transformers as t

    torch.manual_seed(seed)
    names = dict(enumerate(LABELS))
    labels: dict[str, Any] = {"id2label": names, "label2id": {v: k for k, v in names.items()}}
    if kind == "segformer":
        stages = {"num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1]}
        stages |= {"hidden_sizes": [8, 16], "patch_sizes": [7, 3], "strides": [4, 2]}
        stages |= {"num_attention_heads": [1, 1], "mlp_ratios": [1, 1], "decoder_hidden_size": 8}
        model = t.SegformerForSemanticSegmentation(t.SegformerConfig(**stages, **labels))
    elif kind == "mask2former":
        sizes = {"feature_size": 32, "mask_feature_size": 32, **_DECODER}
        config = t.Mask2FormerConfig(backbone_config=t.SwinConfig(**_SWIN), **sizes, **labels)
        model = t.Mask2FormerForUniversalSegmentation(config)
    elif kind == "maskformer":
        decoder = t.DetrConfig(d_model=32, encoder_layers=1, decoder_layers=1, num_queries=6)
        config = t.MaskFormerConfig(
            fpn_feature_size=32, mask_feature_size=32, backbone_config=t.SwinConfig(**_SWIN),
            decoder_config=decoder, **labels,
        )  # fmt: skip
        model = t.MaskFormerForInstanceSegmentation(config)
    else:
        sizes = {"conv_dim": 32, "mask_dim": 32, "text_encoder_width": 32, **_DECODER}
        sizes |= {"text_encoder_num_layers": 1, "text_encoder_vocab_size": 20}
        sizes |= {"text_encoder_proj_layers": 1, "task_seq_len": 7, "query_dec_layers": 1}
        config = t.OneFormerConfig(
            backbone_config=t.SwinConfig(**_SWIN), is_training=False, **sizes, **labels
        )
        model = t.OneFormerForUniversalSegmentation(config)
        _save_tokenizer(folder)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    side = 32 if kind == "segformer" else 64
    return save_model(model, folder, {**PREPROCESSOR, "size": {"height": side, "width": side}})


def _save_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {word: i for i, word in enumerate(("[pad]", "[unk]", "the", "task", "is", "semantic"))}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[unk]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokens = {"pad_token": "[pad]", "unk_token": "[unk]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **tokens).save_pretrained(folder)


def save_onnx(
    folder: Path, weights: list[list[float]], batch: int | None = None, data: str | None = None
) -> Path:
    """A network of one 1 x 1 convolution, weights (n_labels, 3), with a file for its labels; the
    weights are in a file ``data`` of their own, if it is named.

    The file is written by hand, field by field, as the format's .proto describes it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    n = len(weights)
    flat = struct.pack(f"<{3 * n}f", *(value for row in weights for value in row))
    tensor = b"".join(_number(1, size) for size in (n, 3, 1, 1))
    tensor += _number(2, 1) + _text(8, b"w")
    if data is None:
        tensor += _text(9, flat)
    else:
        (folder / data).write_bytes(flat)
        tensor += _text(13, _text(1, b"location") + _text(2, data.encode())) + _number(14, 1)
    node = _text(1, b"pixel_values") + _text(1, b"w") + _text(2, b"logits") + _text(4, b"Conv")
    graph = _text(1, node) + _text(2, b"tiny") + _text(5, tensor)
    graph += _text(11, _value(b"pixel_values", [batch or b"n", 3, 32, 32]))
    graph += _text(12, _value(b"logits", [batch or b"n", n, 32, 32]))
    model = _number(1, 8) + _text(7, graph) + _text(8, _number(2, 13))
    (folder / "model.onnx").write_bytes(model)
    (folder / "labels.txt").write_text("\n".join(LABELS[:n]) + "\n")
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPROCESSOR))
    return folder


def _varint(value: int) -> bytes:
    low, rest = value & 127, value >> 7
    return bytes([low | 128]) + _varint(rest) if rest else bytes([low])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _value(name: bytes, shape: list[int | bytes]) -> bytes:
    sizes = [_text(1, _text(2, s) if isinstance(s, bytes) else _number(1, s)) for s in shape]
    kind = _number(1, 1) + _text(2, b"".join(sizes))
    return _text(1, name) + _text(2, _text(1, kind))
