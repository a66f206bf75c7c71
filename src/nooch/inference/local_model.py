"""A vision-language model that answers on this machine, or where an engine's workers are: loading
it, its replies in words, and reading yes or no.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from nooch.base.calls import Count, Map, Options
from nooch.base.errors import Command, Give, InputError, ParameterError
from nooch.base.limits import limited_threads
from nooch.base.work_folder import Steps, key_of
from nooch.data.readers.image_files import UNREADABLE, rgb_image
from nooch.evaluation.answer_rules import opens_reasoning
from nooch.inference.requests import (
    CAPTION_TOKENS,
    YES_NO_TOKENS,
    Answering,
    Asking,
    Reply,
    Request,
)
from nooch.models.devices import choose_device, memory_limits, require_packages
from nooch.models.images import refuse_broken
from nooch.models.pixel_batches import read_in_order
from nooch.models.sources import (
    ModelSource,
    find_source,
    naming_packages,
    pretrained,
    quietly,
    refuse_lacking,
    silently,
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


_BATCHES = 8
"""Batches after which replies are kept: what a kill can cost."""


@dataclass(frozen=True)
class LocalModel(Options):
    """A vision-language model that runs on this machine.

    Attributes:
        model: a hub id ``owner/model``, or a folder with weights as safetensors.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        device_map: spread the layers of a large model over all GPUs and the memory of this machine,
            with accelerate: ``auto``, ``balanced`` or ``sequential``.
        precision: ``float32``, ``bf16``, or ``auto``: bf16 on a GPU.
        quantize: load the weights as ``4bit`` or ``8bit``, with bitsandbytes. Weights that are
            quantized already (bitsandbytes, AWQ, GPTQ) need only the package of their method.
        trust_remote_code: run Python code that comes with the model, which can do anything on this
            machine. Without it, none is run.
        batch: requests in a batch, at least 1.
        threads: CPU threads of a job, for concurrent jobs; by default as torch chooses.
        map: where parts are asked, such as an engine's; all workers must see the images and the
            output.

    Raises:
        ParameterError: a setting that is not allowed.
    """

    model: str | Path
    device: str = "auto"
    device_map: Annotated[str, ("auto", "balanced", "sequential")] | None = None
    precision: Annotated[str, ("auto", "float32", "bf16")] = "auto"
    quantize: Annotated[str, ("4bit", "8bit")] | None = None
    trust_remote_code: bool = False
    batch: Count = 8
    threads: Count | None = None
    map: Map = builtins.map

    def answering(self, asking: Asking) -> Answering:
        """Replies of the model; see ``Answerer``."""
        source = find_vlm(str(self.model), trust_remote_code=self.trust_remote_code)
        if self.device_map and self.device != "auto":
            problem = "`device` has no effect with `device_map`"
            raise ParameterError(problem, give=({"device": None}, {"device_map": None}))
        warm, device = asking.temperature, choose_device(self.device)
        usual = CAPTION_TOKENS if asking.describe else YES_NO_TOKENS if warm else 1
        precision = "float32" if device == "cpu" else "bf16"
        options = Computing(
            device,
            precision if self.precision == "auto" else self.precision,
            self.batch,
            self.threads,
            asking.max_tokens or usual,
            asking.describe,
            warm,
            Loading(self.trust_remote_code, self.device_map, self.quantize),
        )
        kept = {name: getattr(options, name) for name in ("precision", "batch", "most_tokens")}
        made = {"model": source.name, "sha256": source.identity, **kept, "temperature": warm or 0}
        made["device"] = device.partition(":")[0]
        made |= {name: value for name, value in options.loading._asdict().items() if value}
        replies = partial(model_replies, asking.requests, source, options, map=self.map)
        return Answering(made, replies)


class Computing(NamedTuple):
    """Settings of a local model's replies; see ``LocalModel``."""

    device: str
    precision: str
    batch: int
    threads: int | None
    most_tokens: int
    describe: bool
    temperature: float | None
    loading: Loading


def model_replies(
    requests: Sequence[Request], source: ModelSource, options: Computing, folder: Path, map: Map
) -> Iterator[Reply]:
    """Replies in the order of requests; finished parts are kept in a folder of these requests.
    Raises InputError: images that cannot be read, or a model that cannot reply.
    """
    size = options.batch * _BATCHES
    parts = [requests[start : start + size] for start in range(0, len(requests), size)]
    try:
        for replies in map(partial(_kept, source, options, folder), enumerate(parts)):
            yield from replies
    finally:
        # a model may fill a GPU
        _loaded.cache_clear()


def _kept(
    source: ModelSource, options: Computing, folder: Path, part: tuple[int, Sequence[Request]]
) -> list[Reply]:
    name, answered = f"{part[0]:07d}.msgpack", partial(_answered, source, options, part[1])
    replies: list[Reply] = Steps(folder).get(name, answered, list[Reply])
    return replies


def _answered(source: ModelSource, options: Computing, requests: Sequence[Request]) -> list[Reply]:
    size, replies = options.batch, []
    batches = [requests[start : start + size] for start in range(0, len(requests), size)]
    with limited_threads(options.threads), silently(), memory_limits(size, "asking"):
        warm, bf16 = options.temperature, options.precision == "bf16"
        yes_no = not options.describe and warm is None
        how = (options.device, bf16, yes_no, options.loading)
        model = _loaded(str(source.folder), source.identity, *how)
        # one reader: a tokenizer is not made for several threads
        inputs = read_in_order(partial(_read, model), batches, 1)
        for batch, content in zip(batches, inputs, strict=True):
            seed = int(key_of([r.key for r in batch]), 16) % 2**63
            most = options.most_tokens
            made = model.replies(content, most, yes_no=yes_no, temperature=warm, seed=seed)
            replies += [Reply(r.key, *reply) for r, reply in zip(batch, made, strict=True)]
    return replies


@lru_cache(maxsize=1)
def _loaded(
    folder: str, identity: str, device: str, bf16: bool, yes_no: bool, loading: Loading
) -> VisionLanguageModel:
    """The model: a process loads it once, not for every part."""
    vlm = find_vlm(folder, trust_remote_code=loading.trust_remote_code)
    if vlm.identity != identity:
        problem = f"the model has hash {vlm.identity} here, and {identity} where the work started"
        raise InputError(problem, where=folder, allowed="the same model on all machines")
    model = load_vlm(vlm, device, bf16=bf16, yes_no=yes_no, loading=loading)
    if opens_reasoning(model.prompt("Is it dark?")):
        problem = "the chat template opens a block of reasoning: the next token is not an answer"
        remedy = "serve it and ask it there: `endpoint`, and `max_tokens` such as 4096"
        raise InputError(problem, where=folder, remedy=remedy)
    return model


def _read(model: VisionLanguageModel, requests: Sequence[Request]) -> Any:
    """Inputs of a model. Raises InputError if an image cannot be read."""
    images, broken = {}, []
    for path, value_range in dict.fromkeys((r.image, r.range) for r in requests):
        try:
            images[path] = rgb_image(path, value_range)
        except UNREADABLE as error:
            broken.append(f"{path}: {error}")
    refuse_broken(broken)
    return model.inputs([images[r.image] for r in requests], [r.text for r in requests])
