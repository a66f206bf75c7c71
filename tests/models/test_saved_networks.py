"""Trained networks as folders: they predict the same, transformers reads them, alterations fail."""

import json
from dataclasses import replace

import numpy as np
import pixel_arrays
import pytest
from image_folders import PREPROCESSOR, save_model, tiny_resnet
from pixel_arrays import squares, tiny_vit
from refusals import fails, refused

from nooch.base.errors import FormatError, OutputError, ParameterError
from nooch.models.images import read_preprocessing
from nooch.models.networks import read_outputs
from nooch.models.saved_networks import load_network, save_network

torch = pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
transformers = pytest.importorskip("transformers", reason="not installed (nooch[train])")

PIXELS, Y, ENVIRONMENTS = squares(60)
CUE = (ENVIRONMENTS % 2).astype(np.float32)[:, None]


def _classifier(folder):
    config = tiny_vit(folder / "base").joinpath("config.json")
    config = transformers.ViTConfig.from_json_file(str(config))
    made = transformers.ViTForImageClassification(config)
    return save_model(made, folder / "classifier")


KINDS = {
    "resnet": lambda f: tiny_resnet(f / "resnet"),
    "vit": lambda f: tiny_vit(f / "vit"),
    "classifier": _classifier,
}


def trained(folder, **changes):
    return pixel_arrays.trained(folder, PIXELS, Y, 40, cue=CUE, auxiliary=0.5, **changes)


@pytest.fixture
def saved(tmp_path):
    network, _ = trained(tiny_resnet(tmp_path / "model"), train="affine")
    return save_network(network, tmp_path / "saved", ["car"]), network


@pytest.mark.parametrize("train", ["all", "head", "affine"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_saved_predicts_the_same(kind, train, tmp_path, capfd):
    network, logits = trained(KINDS[kind](tmp_path), train=train)
    capfd.readouterr()
    folder = save_network(network, tmp_path / "saved", ["car"], about={"method": "erm"})
    assert capfd.readouterr() == ("", "")
    again, header = load_network(folder, device="cpu")
    assert (header.outputs, header.auxiliary) == (["car"], 1)
    assert (header.train, header.about) == (train, {"method": "erm"})
    assert np.array_equal(read_outputs([again], PIXELS, np.arange(40, 60), 16)[0], logits)
    names = "config.json head.safetensors model.safetensors network.json preprocessor_config.json"
    assert sorted(p.name for p in folder.iterdir()) == names.split()


def test_transformers_reads_the_backbone(tmp_path):
    network, _ = trained(tiny_resnet(tmp_path / "model"))
    folder = save_network(network, tmp_path / "saved", ["car"])
    module = transformers.AutoModel.from_pretrained(folder).eval()
    batch = network.backbone.prepare(PIXELS.array[:4])
    with torch.no_grad():
        assert torch.equal(module(batch).pooler_output.flatten(1), network.features(batch))


def test_scaling_is_saved_whatever_it_is(tmp_path):
    network, _ = trained(tiny_resnet(tmp_path / "model"))
    changes = {"do_rescale": False, "do_normalize": False}
    changes |= {"rescale_offset": True, "do_flip_channel_order": True}
    for number, name in enumerate(changes):
        content = json.dumps(PREPROCESSOR | {name: changes[name]})
        (tmp_path / "model" / "preprocessor_config.json").write_text(content)
        made = read_preprocessing(tmp_path / "model")
        other = replace(network, backbone=replace(network.backbone, preprocessing=made))
        assert read_preprocessing(save_network(other, tmp_path / f"saved{number}", ["car"])) == made


def test_places_and_names_that_are_refused(saved, tmp_path):
    folder, network = saved
    fails(lambda: save_network(network, folder, ["car"]), "exists already", kind=OutputError)
    other = tmp_path / "other"
    refused(lambda: save_network(network, other, ["car", "cow"]), "2 names")
    assert not other.exists()
    (folder / "network.json").write_bytes((folder / "network.json").read_bytes() + b" ")
    save_network(network, folder, ["cow"], overwrite=True)
    assert load_network(folder, device="cpu")[1].outputs == ["cow"]


def test_what_is_no_network_or_was_altered_is_refused(saved, tmp_path):
    folder, _ = saved
    head = (folder / "head.safetensors").read_bytes()
    header = json.loads((folder / "network.json").read_bytes())

    def load():
        load_network(folder, device="cpu")

    fails(lambda: load_network(tmp_path, device="cpu"), "is not a network", kind=FormatError)
    flipped = head[:-1] + bytes([head[-1] ^ 1])
    for content, words in ((b"nothing", "cannot be read"), (flipped, "altered")):
        (folder / "head.safetensors").write_bytes(content)
        fails(load, words, kind=FormatError)
    (folder / "head.safetensors").unlink()
    fails(load, "head.safetensors", kind=FormatError)
    (folder / "head.safetensors").write_bytes(head)
    load()
    for name, value, words in (
        ("version", 2, "newer nooch"),
        ("train", "some", "train"),
        ("auxiliary", 3, "does not fit"),
        ("outputs", 5, "cannot be read"),
    ):
        (folder / "network.json").write_text(json.dumps({**header, name: value}))
        fails(load, words, kind=(FormatError, ParameterError))
