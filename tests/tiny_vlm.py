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
    fast = _tokenizer(number)
    square = {"height": side, "width": side}
    pictures = CLIPImageProcessorPil(size={"shortest_edge": side}, crop_size=square)
    LlavaProcessor(
        pictures, fast, patch_size=patch, vision_feature_select_strategy="default",
        chat_template=template, num_additional_image_tokens=1,
    ).save_pretrained(folder)  # fmt: skip
    return folder


def save_gemma(folder: Path, seed: int = 0) -> Path:
    """A Gemma 3 for images of 32 x 32 pixels, 4 tokens each."""
    import torch
    import transformers
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Gemma3Processor
    from transformers.models.gemma3 import image_processing_pil_gemma3 as pictures

    torch.manual_seed(seed)
    more = ("<start_of_image>", "<end_of_image>")
    number = {word: i for i, word in enumerate((*SPECIAL, *more, *WORDS))}
    size = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2}
    size |= {"num_hidden_layers": 2}
    text = {**size, "vocab_size": len(number), "num_key_value_heads": 1, "head_dim": 8}
    text |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "initializer_range": 0.5}
    config = Gemma3Config(
        text_config=transformers.Gemma3TextConfig(**text),
        vision_config=transformers.SiglipVisionConfig(**size, image_size=32, patch_size=8),
        mm_tokens_per_image=4, image_token_index=4, boi_token_index=5, eoi_token_index=6,
    )  # fmt: skip
    Gemma3ForConditionalGeneration(config).save_pretrained(folder)
    own = {"boi_token": more[0], "eoi_token": more[1], "image_token": "<image>"}
    tokens = _tokenizer(number, extra_special_tokens=own)
    images = pictures.Gemma3ImageProcessorPil(size={"height": 32, "width": 32})
    template = TEMPLATE.replace("<image>", more[0])
    made = Gemma3Processor(images, tokens, chat_template=template, image_seq_length=4)
    made.save_pretrained(folder)
    return folder


def _tokenizer(number: Mapping[str, int], **options: Any) -> Any:
    """A tokenizer of words."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordLevel(dict(number), unk_token="<unk>"))
    split = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(split)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    named = {"pad": "<pad>", "bos": "<s>", "eos": "</s>", "unk": "<unk>"}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **{"additional_special_tokens": ["<image>"], **options},
        **{f"{name}_token": token for name, token in named.items()},
    )
