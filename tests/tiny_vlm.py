"""A tiny LLaVA with random weights: a vision tower, a language model and a tokenizer of words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>", "<image>")
_TEXT = """Yes No yes no YES NO Is Are Can you see there a an any the this image in photo ? . : USER
ASSISTANT Describe It is dark car cow street water bird dog with and of"""
WORDS = tuple(_TEXT.split())
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}USER: {% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image> {% else %}{{ part['text'] }}{% endif %}{% endfor %}"
    "{% endfor %}{% if add_generation_prompt %} ASSISTANT:{% endif %}"
)


def save_llava(
    folder: Path,
    seed: int = 0,
    words: tuple[str, ...] = (),
    template: str | None = TEMPLATE,
    *,
    sure: bool = False,
    text: Mapping[str, Any] = MappingProxyType({}),
    vision: Mapping[str, Any] = MappingProxyType({}),
) -> Path:
    """A model for images of 32 x 32 pixels; ``words`` replace the tokenizer's own, ``text`` and
    ``vision`` the sizes of its parts, for benchmarks. A model that is ``sure`` says yes or no.
    """
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import CLIPImageProcessorPil, LlavaProcessor

    torch.manual_seed(seed)
    number = {word: i for i, word in enumerate((*SPECIAL, *(words or WORDS)))}
    size = {"hidden_size": 16, "intermediate_size": 32}
    size |= {"num_hidden_layers": 2, "num_attention_heads": 2}
    tokens = {"vocab_size": len(number), "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    words_config = transformers.LlamaConfig(**{**size, **tokens, "initializer_range": 0.5, **text})
    seen = {**size, "image_size": 32, "patch_size": 8, **vision}
    side, patch = seen["image_size"], seen["patch_size"]
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**seen), text_config=words_config,
        image_token_index=4, image_seq_length=(side // patch) ** 2, vision_feature_layer=-1,
    )  # fmt: skip
    model = transformers.LlavaForConditionalGeneration(config)
    if sure:
        yes_no = [i for word, i in number.items() if word.lower() in {"yes", "no"}]
        with torch.no_grad():
            sure_of = 6 * model.lm_head.weight[yes_no]
            model.lm_head.weight[:] = 0
            model.lm_head.weight[yes_no] = sure_of
    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel(number, unk_token="<unk>"))
    split = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(split)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    named = {"pad": "<pad>", "bos": "<s>", "eos": "</s>", "unk": "<unk>"}
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        additional_special_tokens=["<image>"],
        **{f"{name}_token": token for name, token in named.items()},
    )
    square = {"height": side, "width": side}
    pictures = CLIPImageProcessorPil(size={"shortest_edge": side}, crop_size=square)
    LlavaProcessor(
        pictures, fast, patch_size=patch, vision_feature_select_strategy="default",
        chat_template=template, num_additional_image_tokens=1,
    ).save_pretrained(folder)  # fmt: skip
    return folder
