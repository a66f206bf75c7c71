"""Models that take an image and a text and reply in words: loading them, and reading yes or no."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nooch.base.errors import Command, Give, InputError, ParameterError
from nooch.models.devices import require_packages
from nooch.models.sources import (
    ModelSource,
    find_source,
    naming_packages,
    pretrained,
    quietly,
    refuse_lacking,
)

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor


_FORMS = ("{}", " {}")
"""A word is another token after a blank."""


_OWN_CODE = ("AutoModelForImageTextToText", "AutoModelForCausalLM")
"""Classes that a model's own code may have, and that generate words; the first one counts."""


class Loading(NamedTuple):
    """Settings of loading a model; see ``nooch.ask``."""

    trust_remote_code: bool = False
    device_map: str | None = None
    quantize: str | None = None


_PLAIN = Loading()


def find_vlm(source: str, *, trust_remote_code: bool = False) -> ModelSource:
    """Find a vision-language model. Raises InputError: no such model, or one of another type, also
    one that needs code that comes with it, which may not be run.
    """
    require_packages("a vision-language model", "vlm")
    # absolute, for workers in other folders
    place = Path(source).expanduser()
    named = str(place.absolute()) if place.is_dir() else source
    resolved = find_source(named, code=trust_remote_code)
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    kind, code = resolved.config["model_type"], resolved.config.get("auto_map") or {}
    allowed = "an image-text-to-text model with weights, such as LLaVA"
    if kind == "florence2":
        problem = "Florence-2 takes task tokens such as <OD>, not questions"
        remedy = "use a model that chats about images, such as Qwen3-VL"
        raise InputError(problem, where=source, allowed=allowed, remedy=remedy)
    known = resolved.folder is not None and kind in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    if not known and resolved.folder is not None and code:
        runs = not {*_OWN_CODE}.isdisjoint(code)
        if trust_remote_code and runs:
            return resolved
        problem = f"a model of type {kind} needs its own code, which nooch does not run"
        remedy = "use weights made for transformers (their names often end in -hf); or ask it on a"
        remedy += " server: {}"
        give: list[Give] = [{"endpoint": ...}]
        if trust_remote_code:
            problem = f"the code of this {kind} model defines none of {', '.join(_OWN_CODE)}"
        elif runs:
            remedy += "; or {} to run that code, which can do anything: read it first"
            give.append({"trust_remote_code": True})
        raise InputError(problem, where=source, allowed=allowed, remedy=remedy, give=give)
    if not known:
        problem = f"a model of type {kind} cannot answer questions about images"
        remedy = "{}, for image classifiers and models such as CLIP"
        make = Command("predict", model=source)
        raise InputError(problem, where=source, allowed=allowed, remedy=remedy, give=make)
    return resolved


def load_vlm(
    resolved: ModelSource,
    device: str,
    *,
    bf16: bool = False,
    yes_no: bool = True,
    loading: Loading = _PLAIN,
) -> VisionLanguageModel:
    """A model on a device, after it has replied about a black image. Raises InputError: missing
    weights or processor, it cannot reply, or (``yes_no``) no tokens tell yes from no.
    MissingExtraError: a package that its processor needs.
    """
    import torch
    import transformers
    from PIL import Image
    from transformers import AutoProcessor

    options = loading_options(resolved, device, loading)
    options["dtype"] = torch.bfloat16 if bf16 else torch.float32
    trust, code = loading.trust_remote_code, resolved.config.get("auto_map") or {}
    owned = next((name for name in _OWN_CODE if trust and name in code), _OWN_CODE[0])
    load: Any = AutoProcessor.from_pretrained
    with naming_packages("the processor of this model", "vlm", "torchvision", "num2words"):
        module, lacking = pretrained(getattr(transformers, owned), resolved, **options)
        refuse_lacking(resolved, lacking)
        with quietly(resolved):
            processor = load(str(resolved.folder), local_files_only=True, trust_remote_code=trust)
            tokens = processor.tokenizer
            # the next token of every text in a batch is then at the end
            tokens.padding_side = "left"
            tokens.pad_token = tokens.pad_token or tokens.eos_token
        if "device_map" in options:
            # placed by accelerate already; inputs go where its first weights are
            device = str(module.device)
        else:
            module = module.to(device)
        loaded = VisionLanguageModel(resolved.name, module.eval(), processor, device)
        with quietly(resolved):
            black = loaded.inputs([Image.new("RGB", (64, 64))], ["Is it dark?"])
            loaded.replies(black, yes_no=yes_no)
    return loaded


def loading_options(resolved: ModelSource, device: str, loading: Loading) -> dict[str, Any]:
    """Arguments of ``from_pretrained`` by which weights are quantized or spread over devices.

    Weights that are quantized (bitsandbytes, AWQ, GPTQ) are loaded where they are used: most of
    them cannot be moved. ParameterError: weights to quantize that are quantized already.
    """
    from transformers import BitsAndBytesConfig

    config: Any = BitsAndBytesConfig
    options: dict[str, Any] = {}
    quantized = resolved.config.get("quantization_config")
    if loading.quantize:
        if quantized:
            method = quantized.get("quant_method", "some method")
            problem = f"has no effect: the weights are quantized already, by {method}"
            raise ParameterError(problem, give={"quantize": None})
        options["quantization_config"] = config(**{f"load_in_{loading.quantize}": True})
    if loading.device_map or loading.quantize or quantized:
        options["device_map"] = loading.device_map or {"": device}
    if loading.trust_remote_code:
        options["trust_remote_code"] = True
    return options


@dataclass(frozen=True, eq=False)
class VisionLanguageModel:
    """A model that replies to texts about images, with its processor, which pads on the left."""

    name: str
    module: Any
    processor: Any
    device: str

    def prompt(self, text: str) -> str:
        """Text that the model reads: its chat template around image and text, without thinking
        where the template can; else the image's token on a line before the text.
        """
        if getattr(self.processor, "chat_template", None):
            content = [{"type": "image"}, {"type": "text", "text": text}]
            talk = [{"role": "user", "content": content}]
            options = {"add_generation_prompt": True, "enable_thinking": False}
            return str(self.processor.apply_chat_template(talk, **options))
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
        self,
        inputs: Any,
        most_tokens: int = 1,
        *,
        yes_no: bool = True,
        temperature: float | None = None,
        seed: int = 0,
    ) -> list[tuple[str, float | None, float | None]]:
        """The most likely words, token by token; with ``yes_no`` also P(yes) / (P(yes) + P(no)) and
        P(yes) + P(no) of the first token over the whole vocabulary, else None. With a temperature,
        words are drawn from the whole vocabulary, by a seed.

        Raises InputError: probabilities that are not finite.
        """
        import torch

        tokenizer, prompt = self.processor.tokenizer, inputs["input_ids"]
        chosen: dict[str, Any] = {"do_sample": temperature is not None}
        if temperature is not None:
            chosen |= {"temperature": temperature, "top_k": 0, "top_p": 1.0}
        gpus = [self.device] if self.device.startswith("cuda") else []
        # the caller's own random numbers are not touched
        with torch.inference_mode(), torch.random.fork_rng(gpus, enabled=temperature is not None):
            if temperature is not None:
                torch.manual_seed(seed)
            made = self.module.generate(
                **inputs.to(self.device, self.module.dtype),
                **chosen,
                num_beams=1,
                max_new_tokens=most_tokens,
                pad_token_id=tokenizer.pad_token_id,
                # before any penalty of the model's generation settings
                output_logits=yes_no,
                return_dict_in_generate=True,
            )
            read = self._yes_no(made.logits[0]) if yes_no else [(None, None)] * len(prompt)
        tokens = made.sequences.cpu()
        # most models repeat what they were asked
        if torch.equal(tokens[:, : prompt.shape[1]], prompt.cpu()):
            tokens = tokens[:, prompt.shape[1] :]
        words = tokenizer.batch_decode(tokens, skip_special_tokens=True)
        return [(text.strip(), *pair) for text, pair in zip(words, read, strict=True)]

    @cached_property
    def yes_no_tokens(self) -> tuple[list[int], list[int]]:
        """Tokens that yes begins with, and no: small, large or with a capital, with or without a
        blank before it. Raises InputError if a word has none, or both have the same.
        """
        yes, no = self._first_tokens("yes"), self._first_tokens("no")
        if not yes or not no or yes & no:
            problem = "the tokenizer has no different first tokens for yes and no"
            allowed = "the model's own tokenizer, with tokens for yes and no"
            raise InputError(problem, where=self.name, allowed=allowed)
        return sorted(yes), sorted(no)

    def _first_tokens(self, word: str) -> set[int]:
        """Spellings that are one token; where none is, the first tokens of all."""
        tokenizer, spelled = self.processor.tokenizer, []
        for text in (form.format(w) for w in (word, word.title(), word.upper()) for form in _FORMS):
            ids = tokenizer.encode(text, add_special_tokens=False)
            # a blank may be a token of its own
            ids = ids[1:] if ids and not tokenizer.decode(ids[:1]).strip() else ids
            spelled += [ids] if ids and tokenizer.unk_token_id not in ids else []
        return {ids[0] for ids in spelled if len(ids) == 1} or {ids[0] for ids in spelled}

    def _yes_no(self, logits: Tensor) -> list[tuple[float, float]]:
        """Share of yes, and of yes and no, in the probability; logits (m, n_tokens)."""
        import torch

        logs = torch.log_softmax(logits.double(), 1)
        yes, no = (torch.logsumexp(logs[:, tokens], 1) for tokens in self.yes_no_tokens)
        values = torch.stack([torch.sigmoid(yes - no), torch.logaddexp(yes, no).exp()], 1)
        if not bool(torch.isfinite(values).all()):
            remedy = "ask it in `precision` float32, or check its weights"
            raise InputError("gives no finite probabilities", where=self.name, remedy=remedy)
        return [(share, mass) for share, mass in values.tolist()]
