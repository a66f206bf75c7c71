"""Vision-language models: which tokens are yes and no, what the model reads, what it replies."""

import json
import shutil
import sys
from functools import partial
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
from image_folders import smooth
from refusals import fails, refused
from tiny_vlm import TEMPLATE, save_gemma, save_llava

from nooch.base.errors import MissingExtraError
from nooch.inference.local_model import (
    Loading,
    VisionLanguageModel,
    find_vlm,
    load_vlm,
    loading_options,
)
from nooch.models.sources import naming_packages

pytest.importorskip("torch", reason="torch is not installed (nooch[vlm])")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")


def _tokens(kind, words, **options):
    """Texts of the tokens of yes and of no in a tokenizer with these words."""
    import tokenizers

    number = {word: i for i, word in enumerate(("<unk>", *words))}
    if kind == "words":
        model = tokenizers.models.WordLevel(number, unk_token="<unk>")
    else:
        scores = [(word, -9.0 if len(word) == 1 else -1.0) for word in number]
        model = tokenizers.models.Unigram(scores, unk_id=0)
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(**options)
    made.decoder = tokenizers.decoders.Metaspace(**options)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>")
    asked = VisionLanguageModel("tiny", None, SimpleNamespace(tokenizer=fast), "cpu")
    return tuple({fast.convert_ids_to_tokens(n) for n in ids} for ids in asked.yes_no_tokens)


def test_spellings_that_are_one_token_count():
    words = ("▁Yes", "▁No", "▁yes", "▁no", "Yes", "NO", "▁YES", "▁Y", "ES", "▁NOT")
    yes, no = _tokens("words", words, prepend_scheme="always")
    assert (yes, no) == ({"▁Yes", "▁yes", "▁YES"}, {"▁No", "▁no"})
    yes, no = _tokens("words", words, prepend_scheme="never")
    assert (yes, no) == ({"Yes", "▁Yes", "▁yes", "▁YES"}, {"NO", "▁No", "▁no"})


def test_a_blank_of_its_own_and_letters():
    pieces = ("▁", "Yes", "yes", "No", "no", "Y", "y", "E", "S", "N", "O", "e", "s", "n", "o")
    yes, no = _tokens("pieces", pieces, prepend_scheme="always")
    assert {"Yes", "yes"} == yes
    assert {"No", "no"} == no
    letters = ("▁", *"YESNOyesno")
    assert _tokens("pieces", letters, prepend_scheme="never") == ({"Y", "y"}, {"N", "n"})


@pytest.mark.parametrize("words", [("▁yes",), ("▁no",), ("▁maybe",)])
def test_tokenizers_that_do_not_tell_yes_from_no(words):
    act = partial(_tokens, "words", words, prepend_scheme="always")
    fails(act, "tiny: the tokenizer has no different first tokens", "the model's own tokenizer")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    plain = save_llava(folder / "plain", template=None)
    return {"chat": save_llava(folder / "chat"), "plain": plain}


def _replies(model, texts, together=True, **options):
    images = [smooth(number, 64, 48) for number in range(len(texts))]
    if together:
        return model.replies(model.inputs(images, texts), **options)
    pairs = zip(images, texts, strict=True)
    return [model.replies(model.inputs([i], [t]), **options)[0] for i, t in pairs]


TEXTS = ["Is there a car in the image?", "Is it dark?", "Can you see a water bird in the photo?"]


@pytest.mark.parametrize("kind", ["chat", "plain"])
def test_a_batch_gives_what_each_gives(folders, kind):
    model = load_vlm(find_vlm(str(folders[kind])), "cpu")
    read = {"chat": "<s>USER: <image> Is it dark? ASSISTANT:", "plain": "<image>\nIs it dark?"}
    assert model.prompt("Is it dark?") == read[kind]
    # the first token once, whether the template writes it or the tokenizer
    inputs = model.inputs([smooth(0, 64, 48)], TEXTS[:1])
    assert inputs["input_ids"][0].tolist().count(1) == 1
    together, alone = _replies(model, TEXTS), _replies(model, TEXTS, together=False)
    assert [words for words, *_ in together] == [words for words, *_ in alone]
    for one, other in zip(together, alone, strict=True):
        assert one[1:] == pytest.approx(other[1:], abs=1e-6)


def test_settings_of_the_model_change_no_probability(folders):
    model = load_vlm(find_vlm(str(folders["chat"])), "cpu")
    before = _replies(model, TEXTS)
    settings = model.module.generation_config
    settings.repetition_penalty, settings.do_sample, settings.temperature = 9.0, True, 3.0
    after = _replies(model, TEXTS)
    assert [reply[1:] for reply in after] == [reply[1:] for reply in before]
    words = _replies(model, TEXTS, most_tokens=4, yes_no=False)
    assert {reply[1:] for reply in words} == {(None, None)}
    assert max(len(text.split()) for text, *_ in words) > 1


def test_the_template_is_part_of_the_identity(folders, tmp_path):
    first, other = (find_vlm(str(folder)).identity for folder in folders.values())
    assert first != other
    fails(lambda: find_vlm("config:resnet-18"), "type resnet cannot answer questions")


@pytest.fixture(params=["LlavaOnevision", "Qwen3VL", "InternVL", "SmolVLM"])
def onevision(request, folders, tmp_path):
    """A model whose processor takes videos, for which it needs torchvision."""
    folder = shutil.copytree(folders["chat"], tmp_path / "onevision")
    settings = folder / "processor_config.json"
    kind = settings.read_text().replace('"LlavaProcessor"', f'"{request.param}Processor"')
    settings.write_text(kind)
    video = f'{{"video_processor_type": "{request.param}VideoProcessor"}}'
    (folder / "video_preprocessor_config.json").write_text(video)
    return find_vlm(str(folder))


@pytest.mark.skipif(find_spec("torchvision") is not None, reason="torchvision is installed")
def test_a_processor_without_its_package(onevision):
    with pytest.raises(MissingExtraError, match="needs the package torchvision, which is not") as e:
        load_vlm(onevision, "cpu")
    assert "pip install 'nooch[vlm]'" in str(e.value)


@pytest.mark.skipif(find_spec("torchvision") is not None, reason="torchvision is installed")
def test_a_package_that_does_not_load(onevision, tmp_path, monkeypatch):
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('\\nno operator nms')")
    monkeypatch.syspath_prepend(tmp_path)
    error = "torchvision is installed and does not load: RuntimeError: no operator nms"
    fails(lambda: load_vlm(onevision, "cpu"), error, "made for this torch")


def test_gemma_3(tmp_path):
    """A family whose processor loads without torchvision, with its own order of tokens."""
    folder = save_gemma(tmp_path / "gemma")
    model = load_vlm(find_vlm(str(folder)), "cpu")
    together, alone = _replies(model, TEXTS), _replies(model, TEXTS, together=False)
    for one, other in zip(together, alone, strict=True):
        assert one[0] == other[0]
        assert one[1:] == pytest.approx(other[1:], abs=1e-5)
        assert 0 < one[1] < 1


def test_a_template_that_can_do_without_thinking(tmp_path):
    off = "{% if enable_thinking is defined and enable_thinking is false %} <think></think>"
    template = TEMPLATE.replace(" ASSISTANT:", f" ASSISTANT:{off}{{% else %}} <think>{{% endif %}}")
    model = load_vlm(find_vlm(str(save_llava(tmp_path / "m", template=template))), "cpu")
    assert model.prompt("Is it dark?").endswith("ASSISTANT: <think></think>")


def _altered(folder, **settings):
    """The model with other settings in its configuration."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | settings))
    return folder


CODE = """
from pathlib import Path
from transformers import LlavaConfig, LlavaForConditionalGeneration
Path({mark!r}).write_text("run")
class Config(LlavaConfig):
    model_type = "own_llava"
class Own(LlavaForConditionalGeneration):
    config_class = Config
"""


def test_code_of_a_model_is_run_only_if_asked(tmp_path, monkeypatch):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "c"))
    from safetensors.torch import save_file

    monkeypatch.setattr(sys, "path", [*sys.path])
    code = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Own"}
    folder = save_llava(tmp_path / "m")
    # weights by the names of the class: transformers translates only those of its own models
    module = transformers.LlavaForConditionalGeneration.from_pretrained(folder)
    weights = {name: value.clone() for name, value in module.state_dict().items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    _altered(folder, model_type="own_llava", auto_map=code)
    mark = tmp_path / "mark"
    (folder / "own.py").write_text(CODE.format(mark=str(mark)))
    needs = "a model of type own_llava needs its own code, which nooch does not run"
    fails(lambda: find_vlm(str(folder)), needs, "`trust_remote_code`", "`endpoint`")
    found = find_vlm(str(folder), trust_remote_code=True)
    assert not mark.exists()
    fails(lambda: load_vlm(found, "cpu"), "cannot be loaded")
    assert not mark.exists()
    asked = load_vlm(found, "cpu", loading=Loading(trust_remote_code=True))
    plain = load_vlm(find_vlm(str(save_llava(tmp_path / "n"))), "cpu")
    assert _replies(asked, TEXTS) == _replies(plain, TEXTS)
    assert mark.exists()
    # the code is part of what the answers depend on
    (folder / "own.py").write_text(CODE.format(mark="other"))
    assert find_vlm(str(folder), trust_remote_code=True).identity != found.identity


@pytest.mark.parametrize(
    ("kind", "classes", "trust", "parts"),
    [
        (
            "internvl_chat",
            ["AutoModel", "AutoModelForCausalLM"],
            False,
            ["-hf", "`trust_remote_code`"],
        ),
        (
            "phi4mm",
            ["AutoModelForCausalLM"],
            False,
            ["type phi4mm needs its own code", "`endpoint`"],
        ),
        ("own", ["AutoModel"], False, ["type own needs its own code"]),
        (
            "own",
            ["AutoModel"],
            True,
            ["defines none of AutoModelForImageTextToText, AutoModelForC"],
        ),
        ("florence2", ["AutoModelForCausalLM"], True, ["Florence-2 takes task tokens"]),
        ("florence2", [], False, ["not questions", "such as Qwen3-VL"]),
    ],
)
def test_families_that_are_refused(folders, tmp_path, kind, classes, trust, parts):
    folder = shutil.copytree(folders["chat"], tmp_path / "m")
    _altered(folder, model_type=kind, auto_map=dict.fromkeys(classes, "own.Own"))
    fails(lambda: find_vlm(str(folder), trust_remote_code=trust), *parts)


@pytest.mark.parametrize(
    ("method", "package"),
    [("awq", "gptqmodel"), ("gptq", "optimum"), ("bitsandbytes", "bitsandbytes")],
)
def test_quantized_weights_are_loaded_where_they_are_used(folders, tmp_path, method, package):
    folder = shutil.copytree(folders["chat"], tmp_path / "m")
    bits = {"load_in_4bit": True} if method == "bitsandbytes" else {"bits": 4, "group_size": 16}
    settings = {"quant_method": method, **bits}
    found = find_vlm(str(_altered(folder, quantization_config=settings)))
    assert loading_options(found, "cuda:1", Loading()) == {"device_map": {"": "cuda:1"}}
    assert loading_options(found, "cuda", Loading(device_map="auto")) == {"device_map": "auto"}
    act = lambda: loading_options(found, "cuda", Loading(quantize="4bit"))  # noqa: E731
    refused(act, "`quantize`", "has no effect: the weights are quantized already", method)
    if find_spec(package) is None:
        fails(lambda: load_vlm(found, "cpu"), "cannot be loaded", package)


def test_weights_are_quantized_and_spread(folders):
    found = find_vlm(str(folders["chat"]))
    assert loading_options(found, "cpu", Loading()) == {}
    for bits in ("4bit", "8bit"):
        options = loading_options(found, "cuda", Loading(quantize=bits))
        assert options["device_map"] == {"": "cuda"}
        assert getattr(options["quantization_config"], f"load_in_{bits}")
        if find_spec("bitsandbytes") is None:
            loading = Loading(quantize=bits)
            fails(lambda how=loading: load_vlm(found, "cpu", loading=how), "bitsandbytes")
    pytest.importorskip("accelerate", reason="accelerate is not installed (nooch[hf])")
    spread = load_vlm(found, "cpu", loading=Loading(device_map="sequential"))
    assert _replies(spread, TEXTS) == _replies(load_vlm(found, "cpu"), TEXTS)


def test_errors_that_name_no_package_stay():
    with pytest.raises(ValueError, match="json is wrong"), naming_packages("it", "vlm", "json"):
        raise ValueError("json is wrong")
