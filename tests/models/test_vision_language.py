"""Vision-language models: which tokens are yes and no, what the model reads, what it replies."""

import shutil
from functools import partial
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
from image_folders import smooth
from refusals import fails
from tiny_vlm import save_llava

from nooch.base.errors import MissingExtraError
from nooch.models.sources import naming_packages
from nooch.models.vision_language import VisionLanguageModel, find_vlm, load_vlm

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
    fails(act, "tiny: the tokenizer does not tell yes from no", "the model's own tokenizer")


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
    fails(lambda: find_vlm("config:resnet-18"), "type resnet answers no questions")


@pytest.fixture
def onevision(folders, tmp_path):
    """A model whose processor takes videos, for which it needs torchvision."""
    folder = shutil.copytree(folders["chat"], tmp_path / "onevision")
    settings = folder / "processor_config.json"
    kind = settings.read_text().replace('"LlavaProcessor"', '"LlavaOnevisionProcessor"')
    settings.write_text(kind)
    video = '{"video_processor_type": "LlavaOnevisionVideoProcessor"}'
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


def test_errors_that_name_no_package_stay():
    with pytest.raises(ValueError, match="json is wrong"), naming_packages("it", "vlm", "json"):
        raise ValueError("json is wrong")
