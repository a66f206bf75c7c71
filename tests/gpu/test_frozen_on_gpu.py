"""Features, embeddings and heads on a GPU against a CPU."""

import numpy as np
import pytest
from image_folders import image_dataset, tiny_resnet
from pixel_arrays import tiny_vit
from shortcuts import jobs_of, shortcut

from nooch.models.backbones import load_backbone
from nooch.models.caches.features import extract_features
from nooch.models.caches.pixels import build_pixels
from nooch.models.encoders.sbert import SbertEncoder
from nooch.training.head_pass import HeadPass
from nooch.training.jobs import ProbeSettings
from nooch.training.methods import METHODS

WORDS = ["a", "car", "boat", "on", "the", "road", "water", "cow", "grass", "two", "people", "sit"]


def apart(ours, theirs):
    """The largest difference, as a fraction of the largest value."""
    ours, theirs = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


@pytest.mark.parametrize("family", [tiny_resnet, tiny_vit])
@pytest.mark.parametrize(
    ("more", "tolerance"),
    [({}, 1e-4), ({"channels_last": True}, 1e-4), ({"bf16": True, "channels_last": True}, 0.05)],
)
def test_features(device, family, more, tolerance, tmp_path):
    folder, data = family(tmp_path / "model"), image_dataset(tmp_path, 37)
    pixels = build_pixels(data, tmp_path / "px", size=32)
    # 37 images in batches of 16: the last has another shape
    options = {"batch": 16}
    fast, plain = load_backbone(folder, device=device, **more), load_backbone(folder, device="cpu")
    ours = extract_features(data, fast, tmp_path / "a", **options, pixels=pixels)
    theirs = extract_features(data, plain, tmp_path / "b", **options, pixels=pixels)
    assert apart(ours.matrix(), theirs.matrix()) < tolerance
    assert ours.header.made["backbone"]["device"] == device.partition(":")[0]


def sentence_model(folder):
    """A BERT of two layers with random weights, and a tokenizer of a few words."""
    import torch
    import transformers
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules as parts
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    template = {"single": "[CLS] $A [SEP]", "special_tokens": ends}
    tokenizer.post_processor = processors.TemplateProcessing(**template)
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    wrapped.save_pretrained(folder / "hf")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "max_position_embeddings": 64}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=len(vocabulary), **sizes)
    transformers.BertModel(config).save_pretrained(folder / "hf")
    first = parts.Transformer(str(folder / "hf"), max_seq_length=32)
    modules = [first, parts.Pooling(32, pooling_mode="mean"), parts.Normalize()]
    model = SentenceTransformer(modules=modules, device="cpu")
    model.save_pretrained(str(folder / "st"), create_model_card=False)
    return str(folder / "st")


def test_embeddings(device, tmp_path):
    reason = "sentence-transformers is not installed (nooch[gist])"
    pytest.importorskip("sentence_transformers", reason=reason)
    folder, random = sentence_model(tmp_path), np.random.default_rng(0)
    sentences = [" ".join(random.choice(WORDS, random.integers(1, 12))) for _ in range(200)]
    theirs = SbertEncoder(folder, "float32", "cpu").encode(sentences)
    assert apart(SbertEncoder(folder, "float32", device).encode(sentences), theirs) < 1e-4
    assert apart(SbertEncoder(folder, "bf16", device).encode(sentences), theirs) < 0.03


SETTINGS = ProbeSettings(epochs=2, patience=9)
DATA = shortcut(n_train=200, n_other=80)


def heads(device, *, interrupted=False):
    """All methods in their passes: run -> logits of test images."""
    found = {}
    jobs = jobs_of(list(METHODS))
    for shares in {job.shares for job in jobs}:
        members = [job for job in jobs if job.shares == shares]
        trained = HeadPass(DATA, members, SETTINGS, device)
        while not trained.finished:
            trained.step()
            if interrupted:
                saved = {name: array.copy() for name, array in trained.state_dict().items()}
                trained = HeadPass(DATA, members, SETTINGS, device)
                trained.load_state_dict(saved)
        trained.refit()
        runs = [job.run for job in trained.jobs]
        found |= dict(zip(runs, trained.logits("test"), strict=True))
    return found


def test_heads(device):
    ours, theirs, again = heads(device), heads("cpu"), heads(device, interrupted=True)
    assert len(ours) > 30
    far = {run: apart(ours[run], theirs[run]) for run in theirs}
    # sums in another order; where two batches' largest environments nearly tie, another one may be
    # taken
    assert np.median(list(far.values())) < 1e-4, far
    assert max(far.values()) < 0.02, far
    assert max(apart(again[run], ours[run]) for run in ours) < 1e-5
