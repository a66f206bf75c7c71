"""A user's own network: features, training, its folder, real ImageNet features; refusals."""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from image_folders import tiny_resnet
from pixel_arrays import squares, trained
from refusals import fails, refused

from nooch.base.errors import FormatError, NoochError
from nooch.models.backbones import load_backbone
from nooch.models.images import decode_images
from nooch.models.networks import read_outputs
from nooch.models.pixel_batches import forward
from nooch.models.saved_networks import load_network, save_network

torch = pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
pytest.importorskip("transformers", reason="transformers is not installed (nooch[train])")

OWN = "own_networks:network"
PIXELS, Y, _ = squares(40)


def test_features_are_what_the_module_gives():
    import own_networks

    before = torch.random.get_rng_state()
    backbone, other = (load_backbone(OWN, seed=seed, device="cpu") for seed in (3, 4))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert (backbone.name, backbone.n_features, backbone.size) == (OWN, 6, (32, 32))
    assert (backbone.pooling, backbone.preprocessing) == ("output", own_networks.INPUT)
    assert not backbone.module.training
    again = load_backbone(OWN, seed=3, device="cpu", channels_last=True, size=40)
    assert (backbone.identity, again.size) == (again.identity, (40, 40))
    assert other.identity != backbone.identity
    prepared = backbone.prepare(PIXELS.array[:5])
    expected = (PIXELS.array[:5] / 255 - own_networks.INPUT.mean) / own_networks.INPUT.std
    assert np.abs(prepared.numpy() - expected.transpose(0, 3, 1, 2)).max() < 1e-6
    with torch.inference_mode():
        assert torch.equal(backbone.features(prepared), backbone.module(prepared))


def test_the_identity_follows_the_file(tmp_path, monkeypatch):
    text = (Path(__file__).parents[1] / "own_networks.py").read_text()
    monkeypatch.syspath_prepend(tmp_path)
    found = set()
    for name, added in (("one", ""), ("two", ""), ("three", "# pooled in another way")):
        (tmp_path / f"{name}.py").write_text(text + added)
        found.add(load_backbone(f"{name}:network", device="cpu").identity)
        del sys.modules[name]
    assert len(found) == 2


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("own_networks:nothing", "has no attribute 'nothing'"),
        ("no_such_module:network", "No module named"),
        ("own_networks:module_alone", "returns Flatten"),
        ("own_networks:two_of_other_kinds", "returns Flatten and dict"),
        ("own_networks:INPUT", "returns Preprocessing and NoneType"),
        ("own_networks:no_deviation", "standard deviation (1.0, 1.0, 0.0)"),
        ("own_networks:maps", "gives no features for images of 32 x 32"),
        ("own_networks:strict", "takes 64 x 64"),
    ],
)
def test_what_gives_no_features_is_refused(source, words):
    fails(lambda: load_backbone(source, device="cpu"), words, source, kind=NoochError)


@pytest.mark.parametrize("train", ["all", "head", "affine"])
def test_it_is_trained_and_saved(train, tmp_path, capfd):
    pixels, _, _ = squares(40, size=24)
    network, logits = trained(OWN, pixels, Y, 30, size=24, train=train)
    folder = save_network(network, tmp_path / "saved", ["car"])
    remedy = f"pass backbone={OWN!r}"
    for named in (None, "config:resnet-18"):
        load = partial(load_network, folder, device="cpu", backbone=named)
        refused(load, f"needs its custom backbone {OWN}", remedy)
    network, _ = load_network(folder, device="cpu", backbone=OWN)
    assert np.array_equal(read_outputs([network], pixels, np.arange(30, 40), 16)[0], logits)
    # its own weights do not fit another network, and broken ones none
    for name, content in (("own_networks:wider", None), (OWN, b"no weights")):
        if content is not None:
            (folder / "model.safetensors").write_bytes(content)
        load = partial(load_network, folder, device="cpu", backbone=name)
        fails(load, f"does not fit the backbone {name}", kind=FormatError)


def test_a_name_for_a_network_that_has_its_own(tmp_path):
    network, _ = trained(tiny_resnet(tmp_path / "model"), PIXELS, Y, 30)
    folder = save_network(network, tmp_path / "saved", ["car"])
    refused(
        lambda: load_network(folder, backbone=OWN), "has its own backbone", "leave out backbone"
    )


def test_imagenet_features_without_a_hub(shared_data):
    pytest.importorskip("efficientnet_lite_pytorch")
    images = shared_data / "msrc-v2" / "images"
    # the first number of a name is the kind of scene: cows, trees, houses, aeroplanes, ...
    paths = [images / f"{kind}_{n}_s.jpg" for kind in range(1, 9) for n in range(1, 6)]
    backbone = load_backbone("own_networks:efficientnet_lite", size=160, device="cpu")
    pixels, broken = decode_images(paths, backbone.size, "pil")
    assert (broken, backbone.n_features) == ([], 1280)
    features = forward(lambda p: backbone.features(backbone.prepare(p)), pixels, "cpu")
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    nearest = (features @ features.T - 2 * np.eye(len(paths))).argmax(axis=1)
    assert (nearest // 5 == np.arange(len(paths)) // 5).mean() > 0.8
