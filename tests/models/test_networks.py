"""Networks: affine parameters after blocks, copies of backbones, what trains, reading ahead."""

from types import SimpleNamespace

import numpy as np
import pytest
from image_folders import save_model, tiny_resnet
from pixel_arrays import Pictures, squares, tiny_vit
from refusals import fails

from nooch.base.errors import InputError
from nooch.models.backbones import Backbone
from nooch.models.images import IMAGENET
from nooch.models.networks import NetworkOptions, backbones, blocks_of, build_network, with_affine
from nooch.models.pixel_batches import parts, read_ahead

torch = pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
transformers = pytest.importorskip("transformers", reason="not installed (nooch[train])")


def _model(name, **options):
    return getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**options))


VIT = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
RESNET = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 2]}
SWIN = {"image_size": 32, "embed_dim": 8, "depths": [1, 2], "num_heads": [2, 2], "window_size": 4}
CONVNEXT = {"hidden_sizes": [4, 6, 8, 10], "depths": [1, 2, 1, 1]}
POOLFORMER = {"hidden_sizes": [4, 4, 4, 4], "depths": [1, 1, 1, 1]}
MOBILENET = {"depth_multiplier": 0.25, "min_depth": 4}
BLOCKS = {
    "ResNet": (RESNET, 3, "ResNetBottleNeckLayer"),
    "MobileNetV1": (MOBILENET, 26, "MobileNetV1ConvLayer"),
    "ViT": ({**VIT, "image_size": 32, "patch_size": 8}, 2, "ViTLayer"),
    "ConvNext": (CONVNEXT, 5, "ConvNextLayer"),
    "Swin": (SWIN, 3, "SwinLayer"),
    "PoolFormer": (POOLFORMER, 8, "PoolFormerLayer"),
}


@pytest.mark.parametrize("kind", BLOCKS)
def test_affine_parameters_after_every_block(kind, tmp_path):
    torch.manual_seed(0)
    options, count, block = BLOCKS[kind]
    folder = save_model(_model(kind, **options), tmp_path / kind)
    make = backbones(folder, NetworkOptions(), device="cpu")
    found = blocks_of(make(0).module)
    assert len(found) == count
    assert type(list(found.values())[-1]).__name__ == block
    network = build_network(make(0), NetworkOptions(train="affine"), 1, auxiliary=0, seed=0)
    pixels, _, _ = squares(4)
    batch = network.backbone.prepare(pixels.array)
    with torch.no_grad():
        before = make(0).features(batch)
        # nothing is changed at the start
        assert torch.equal(network.features(batch), before)
        assert len(network.affine) == count
        for value in network.affine.values():
            assert value.shape[0] == 2
            value[0].mul_(1.5)
            value[1].add_(0.5)
        assert not torch.equal(network.features(batch), before)
        # other copies of the same weights have none
        assert torch.equal(make(0).features(batch), before)
    network.logits(batch).sum().backward()
    assert all(value.grad is not None for value in network.affine.values())
    assert all(value.grad is None for value in network.backbone.module.parameters())
    affine = {f"affine.{n}" for n in network.affine}
    assert set(network.moving()) == {"head.weight", "head.bias"} | affine
    assert set(network.backbone.module.state_dict()) == set(make(0).module.state_dict())


def _backbone(module):
    return Backbone("mine", "0", module, 2, IMAGENET, "mean", "cpu")


class Strange(torch.nn.Module):
    def __init__(self, *blocks):
        super().__init__()
        self.parts = torch.nn.ModuleList(blocks)

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return SimpleNamespace(last_hidden_state=torch.zeros(len(x), 3, 2), pooler_output=None)


class Tower(torch.nn.Module):
    def __init__(self, gives):
        super().__init__()
        self.inner, self.gives = torch.nn.Identity(), gives

    def forward(self, x):
        return self.gives(x)


def test_networks_without_blocks_are_refused():
    none, flat = Strange(torch.nn.Identity()), Strange(Tower(lambda x: x.flatten()))
    fails(lambda: with_affine(_backbone(none)), "has no blocks", "ResNet", "train: head")
    fails(lambda: with_affine(_backbone(flat)), "block parts.0 returns a Tensor", "tokens")
    several = with_affine(_backbone(Strange(Tower(lambda x: (x, "more")), Tower(lambda x: x[0]))))
    assert [tuple(value.shape) for value in several.values()] == [(2, 3), (2, 3)]


def test_batches_of_rows():
    assert parts(7, 3) == [slice(0, 3), slice(3, 7)]
    assert parts(8, 3) == [slice(0, 3), slice(3, 6), slice(6, 8)]
    assert parts(1, 3) == [slice(0, 1)]
    assert parts(0, 3) == []


def test_reading_ahead_keeps_the_order_and_passes_errors_on():
    pictures, _, _ = squares(30)
    rows = [np.random.default_rng(n).integers(0, 30, 4) for n in range(12)]
    for found, wanted in zip(read_ahead(pictures, rows, pin=False), rows, strict=True):
        assert np.array_equal(found.numpy(), pictures.array[wanted])
    asked = []

    class Slow(Pictures):
        def batch(self, rows, out=None):
            asked.append(len(asked))
            if len(asked) == 9:
                raise InputError("cannot be read", allowed="a disk that works")
            return super().batch(rows, out)

    stream = read_ahead(Slow(pictures.array), rows, pin=False)
    next(stream)
    # three wait and one may be under way: memory stays bounded
    assert len(asked) <= 5
    fails(lambda: list(stream), "cannot be read")
    assert len(list(read_ahead(pictures, [], pin=False))) == 0


def test_copies_of_pretrained_weights_do_not_share_them(tmp_path):
    options = NetworkOptions(channels_last=True, bf16=True)
    make = backbones(tiny_resnet(tmp_path / "resnet"), options, device="cpu")
    first, second = make(0), make(1)
    assert first.channels_last
    assert first.bf16
    with torch.no_grad():
        next(first.module.parameters()).add_(1)
    assert not torch.equal(next(first.module.parameters()), next(second.module.parameters()))
    assert torch.equal(next(make(0).module.parameters()), next(second.module.parameters()))


def test_training_switches_what_is_learned_alone(tmp_path):
    for train in ("all", "head", "affine"):
        make = backbones(tiny_vit(tmp_path / train), NetworkOptions(), device="cpu")
        network = build_network(make(0), NetworkOptions(train=train), 2, auxiliary=1, seed=5)
        network.training(True)
        assert network.backbone.module.training == (train == "all")
        network.training(False)
        assert not network.backbone.module.training
        assert network.head.weight.shape == (3, 12)
        assert network.predict(torch.zeros(2, 3, 32, 32)).shape == (2, 2)
    one = build_network(make(0), NetworkOptions(), 1, auxiliary=0, seed=5)
    # another output does not change how the first one starts
    assert torch.equal(one.head.weight[0], network.head.weight[0])
    assert not torch.equal(network.head.weight[0], network.head.weight[1])
