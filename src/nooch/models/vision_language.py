"""Models that take an image and a text and reply in words: loading them, and reading yes or no."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nooch.errors import InputError
from nooch.files import sha256_once
from nooch.models.model_sources import ModelSource, find_source
from nooch.models.pretrained import pretrained, quietly, refuse_lacking, require_packages

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

__all__ = ["VisionLanguageModel", "WordsReply", "find_vlm", "load_vlm"]

_SPELLINGS = ("{}", " {}")
"""What may stand before a word, in which case it is another token."""


@dataclass(frozen=True)
class WordsReply:
    """A reply: its words; P(yes) / (P(yes) + P(no)) and P(yes) + P(no), where they were asked."""

    words: str
    probability: float | None = None
    mass: float | None = None


def find_vlm(source: str) -> ModelSource:
    """Find a vision-language model, whose chat template is part of its identity. Raises InputError:
    no such model, or one of another type.
    """
    require_packages("a vision-language model")
    resolved, allowed = find_source(source), "an image-text-to-text model such as LLaVA"
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    kind = resolved.config["model_type"]
    if kind not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        problem = f"a model of type {kind} answers no questions about images"
        remedy = "nooch predict takes image classifiers, and models such as CLIP"
        raise InputError(problem, where=resolved.name, allowed=allowed, remedy=remedy)
    if resolved.folder is None:
        raise InputError("has no weights", where=source, allowed=f"{allowed}, with weights")
    template = resolved.folder / "chat_template.jinja"
    if not template.is_file():
        return resolved
    both = f"{resolved.identity} {sha256_once(template)}"
    return replace(resolved, identity=hashlib.sha256(both.encode()).hexdigest())


def load_vlm(resolved: ModelSource, device: str, *, bf16: bool) -> VisionLanguageModel:
    """A model on a device, which has replied about one black image.

    Raises:
        InputError: missing weights or processor, or it replies to nothing.
    """
    import torch
    from PIL import Image
    from transformers import AutoModelForImageTextToText, AutoProcessor

    dtype = torch.bfloat16 if bf16 else torch.float32
    module, lacking = pretrained(AutoModelForImageTextToText, resolved, dtype=dtype)
    refuse_lacking(resolved, lacking)
    safe = {"local_files_only": True, "trust_remote_code": False}
    with quietly(resolved):
        load: Any = AutoProcessor.from_pretrained
        processor = load(str(resolved.folder), **safe)
    if not all(hasattr(processor, part) for part in ("tokenizer", "image_processor")):
        raise InputError(
            "has no processor of texts and images",
            where=resolved.folder,
            remedy="save it in the model's folder: processor.save_pretrained(folder)",
        )
    # the next token of every text in a batch is then at the end
    processor.tokenizer.padding_side = "left"
    if processor.tokenizer.pad_token is None:
        processor.tokenizer.pad_token = processor.tokenizer.eos_token
    loaded = VisionLanguageModel(resolved.name, module.to(device).eval(), processor, device)
    with quietly(resolved):
        loaded.replies(loaded.inputs([Image.new("RGB", (64, 64))], ["Is it dark?"]))
    return loaded


@dataclass(frozen=True, eq=False)
class VisionLanguageModel:
    """A model that replies to texts about images.

    Attributes:
        name: hub id, or the folder's name.
        module: the torch module, on the device, in eval mode.
        processor: of transformers; its tokenizer pads on the left.
        device: ``cpu``, ``cuda`` or ``cuda:1``.
    """

    name: str
    module: Any
    processor: Any
    device: str

    def prompt(self, text: str) -> str:
        """What the model reads: its chat template around image and text, else the image's token
        on a line of its own before the text.
        """
        if getattr(self.processor, "chat_template", None):
            content = [{"type": "image"}, {"type": "text", "text": text}]
            talk = [{"role": "user", "content": content}]
            made = self.processor.apply_chat_template(talk, add_generation_prompt=True)
            return str(made)
        token = getattr(self.processor, "image_token", None)
        return f"{token}\n{text}" if isinstance(token, str) else text

    def inputs(self, images: Sequence[Image], texts: Sequence[str]) -> Any:
        """Images in RGB and a text for each, as the processor gives them to the model."""
        prompts, first = [self.prompt(text) for text in texts], self.processor.tokenizer.bos_token
        return self.processor(
            text=prompts,
            images=[[image] for image in images],
            padding=True,
            return_tensors="pt",
            # a chat template may have written the first token already
            add_special_tokens=not (first and prompts[0].startswith(first)),
        )

    def replies(
        self, inputs: Any, *, most_tokens: int = 1, yes_no: bool = False
    ) -> list[WordsReply]:
        """The most likely words, token by token.

        Args:
            inputs: from ``inputs``.
            most_tokens: length of a reply.
            yes_no: whether the probabilities of yes and no as the first token are read, too, over
                the whole vocabulary, before any penalty of the model's generation settings.

        Raises:
            InputError: no tokens tell yes from no, or probabilities that are not finite.
        """
        import torch

        tokenizer, asked = self.processor.tokenizer, inputs["input_ids"]
        with torch.inference_mode():
            made = self.module.generate(
                **inputs.to(self.device, self.module.dtype),
                do_sample=False,
                num_beams=1,
                max_new_tokens=most_tokens,
                pad_token_id=tokenizer.pad_token_id,
                output_logits=yes_no,
                return_dict_in_generate=True,
            )
        tokens = made.sequences.cpu()
        # most models repeat what they were asked
        if torch.equal(tokens[:, : asked.shape[1]], asked.cpu()):
            tokens = tokens[:, asked.shape[1] :]
        words = [t.strip() for t in tokenizer.batch_decode(tokens, skip_special_tokens=True)]
        if not yes_no:
            return [WordsReply(text) for text in words]
        read = self._yes_no(made.logits[0])
        return [WordsReply(text, *pair) for text, pair in zip(words, read, strict=True)]

    @cached_property
    def yes_no_tokens(self) -> tuple[list[int], list[int]]:
        """Tokens that yes begins with, and those of no.

        Each word is spelled small, large and with a capital, with and without a blank before it.
        Spellings that are one token count; where none is, the first tokens do. Raises InputError
        where a word has no token, or both have the same.
        """
        yes, no = self._first_tokens("yes"), self._first_tokens("no")
        if not yes or not no or yes & no:
            shared = self.processor.tokenizer.convert_ids_to_tokens(sorted(yes & no))
            raise InputError(
                f"yes and no begin with the same tokens: {', '.join(shared)}"
                if shared
                else "the tokenizer has no token for yes or for no",
                where=self.name,
                allowed="a tokenizer that tells yes from no by the first token",
                remedy="use the model's own tokenizer",
            )
        return sorted(yes), sorted(no)

    def _first_tokens(self, word: str) -> set[int]:
        tokenizer, spelled = self.processor.tokenizer, []
        for form in (word, word.capitalize(), word.upper()):
            for spelling in _SPELLINGS:
                ids = tokenizer.encode(spelling.format(form), add_special_tokens=False)
                # a blank may be a token of its own
                while ids and not tokenizer.decode(ids[:1]).strip():
                    ids = ids[1:]
                spelled += [ids] if ids and tokenizer.unk_token_id not in ids else []
        return {ids[0] for ids in spelled if len(ids) == 1} or {ids[0] for ids in spelled}

    def _yes_no(self, logits: Tensor) -> list[tuple[float, float]]:
        """(P(yes) / (P(yes) + P(no)), P(yes) + P(no)) from logits of the next token, (m, n)."""
        import torch

        logs = torch.log_softmax(logits.double(), 1)
        if max(map(max, self.yes_no_tokens)) >= logs.shape[1]:
            raise InputError(
                f"the tokenizer has more than the {logs.shape[1]} tokens of the model",
                where=self.name,
                allowed="the model's own tokenizer",
            )
        yes, no = (torch.logsumexp(logs[:, tokens], 1) for tokens in self.yes_no_tokens)
        values = torch.stack([torch.sigmoid(yes - no), torch.logaddexp(yes, no).exp()], 1)
        if not bool(torch.isfinite(values).all()):
            raise InputError(
                "gives probabilities that are not finite",
                where=self.name,
                allowed="finite numbers",
                remedy="ask it in `precision` float32, or check its weights",
            )
        return [(share, mass) for share, mass in values.tolist()]
