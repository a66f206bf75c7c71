"""Backbones: features as transformers pools them, no code of folders, clear refusals."""

import json
import math
import sys

import numpy as np
import pytest
from image_folders import PREPROCESSOR, save_model, tiny_resnet
from refusals import fails, refused

from nooch.base.errors import NoochError
from nooch.models.backbones import load_backbone
from nooch.models.devices import choose_device, memory_limits, reuse_memory
from nooch.models.images import IMAGENET, read_preprocessing
from nooch.models.sources import CONFIGURATIONS, find_source

torch = pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
transformers = pytest.importorskip("transformers", reason="not installed (nooch[train])")


def _resnet(transformers):
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}
    config = transformers.ResNetConfig(**sizes, layer_type="bottleneck")
    return transformers.ResNetModel(config), 16, lambda out: out.pooler_output.flatten(1)


def _mobilenet(transformers):
    config = transformers.MobileNetV1Config(depth_multiplier=0.25, min_depth=4)
    return transformers.MobileNetV1Model(config), 256, lambda out: out.pooler_output


def _vit(transformers):
    sizes = {"hidden_size": 12, "intermediate_size": 16, "image_size": 32, "patch_size": 8}
    config = transformers.ViTConfig(num_hidden_layers=2, num_attention_heads=2, **sizes)
    return transformers.ViTModel(config), 12, lambda out: out.pooler_output


def _vit_classifier(transformers):
    config = _vit(transformers)[0].config
    return transformers.ViTForImageClassification(config), 12, lambda out: out.hidden_states[-1]


def _convnext(transformers):
    config = transformers.ConvNextConfig(hidden_sizes=[4, 6, 8, 10], depths=[1, 1, 1, 1])
    return transformers.ConvNextModel(config), 10, lambda out: out.pooler_output


KINDS = {"resnet": _resnet, "mobilenet": _mobilenet, "vit": _vit, "convnext": _convnext}


@pytest.fixture
def pixels():
    return np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)


def _as_a_processor(pixels):
    """Rescaled and normalized with PREPROCESSOR, in float64."""
    mean, std = (np.array(PREPROCESSOR[name]) for name in ("image_mean", "image_std"))
    return ((pixels / 255 - mean) / std).transpose(0, 3, 1, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_features_are_the_models_own(kind, pixels, tmp_path):
    torch.manual_seed(1)
    module, n_features, pooled = KINDS[kind](transformers)
    folder = save_model(module.eval(), tmp_path / kind)
    backbone = load_backbone(str(folder), device="cpu")
    prepared = backbone.prepare(pixels)
    assert prepared.shape == (5, 3, 32, 32)
    assert prepared.dtype == torch.float32
    assert np.abs(prepared.numpy() - _as_a_processor(pixels)).max() < 1e-6
    with torch.inference_mode():
        expected = pooled(module(torch.tensor(_as_a_processor(pixels), dtype=torch.float32)))
        given = backbone.features(prepared)
    assert given.shape == (5, n_features) == (5, backbone.n_features)
    assert (given - expected).abs().max() < 1e-5
    assert backbone.pooling == "pooler"
    assert not backbone.module.training
    assert json.loads(json.dumps(backbone.describe()))["sha256"] == backbone.identity


def test_a_classifier_without_a_pooler_gives_its_first_token(pixels, tmp_path):
    torch.manual_seed(1)
    module, n_features, _ = _vit_classifier(transformers)
    folder = save_model(module.eval(), tmp_path / "vit")
    backbone = load_backbone(str(folder), device="cpu")
    assert (backbone.pooling, backbone.n_features) == ("cls", n_features)
    with torch.inference_mode():
        prepared = backbone.prepare(pixels)
        expected = module.vit(prepared).last_hidden_state[:, 0]
        assert (backbone.features(prepared) - expected).abs().max() < 1e-6


def test_order_in_memory_and_precision(pixels, tmp_path):
    folder = tiny_resnet(tmp_path / "resnet")
    options = {}, {"channels_last": True}, {"bf16": True}
    plain, last, rough = (load_backbone(str(folder), device="cpu", **each) for each in options)
    assert plain.prepare(pixels).is_contiguous()
    assert last.prepare(pixels).is_contiguous(memory_format=torch.channels_last)
    expected = plain.features(plain.prepare(pixels))
    assert expected.requires_grad
    assert (last.features(last.prepare(torch.from_numpy(pixels))) - expected).abs().max() < 1e-5
    given = rough.features(rough.prepare(pixels))
    assert given.dtype == torch.float32
    assert 0 < (given - expected).abs().max() < 0.1 * expected.abs().max()
    assert (plain.identity, plain.describe()["precision"]) == (rough.identity, "fp32")


def test_random_weights_depend_on_the_seed_alone(pixels, tmp_path):
    folder = tiny_resnet(tmp_path / "resnet")
    (folder / "model.safetensors").unlink()
    # buffers, not only parameters
    states = {}
    file = folder / "config.json"
    for name, source, seed in (("a", folder, 3), ("b", file, 3), ("c", folder, 4)):
        torch.manual_seed(len(name) + seed)
        before = torch.random.get_rng_state()
        made = load_backbone(f"config:{source}", seed=seed, size=32, device="cpu")
        assert torch.equal(torch.random.get_rng_state(), before)
        states[name] = (made.identity, made.features(made.prepare(pixels)))
        assert made.preprocessing.mean == IMAGENET.mean
    assert states["a"][0] == states["b"][0] != states["c"][0]
    assert torch.equal(states["a"][1], states["b"][1])
    assert not torch.equal(states["a"][1], states["c"][1])


def test_named_configurations():
    made = load_backbone("config:resnet-18", size=33, device="cpu")
    assert (made.n_features, made.size, made.name) == (512, (33, 33), "config:resnet-18")
    depths = {name: sum(c["depths"]) for name, c in CONFIGURATIONS.items()}
    # a block has two convolutions in a basic layer, three in a bottleneck; then the first one and
    # the classifier
    convolutions = {"basic": 2, "bottleneck": 3}
    layers = {n: 2 + d * convolutions[CONFIGURATIONS[n]["layer_type"]] for n, d in depths.items()}
    assert layers == {f"resnet-{n}": n for n in (18, 34, 50, 101, 152)}


def test_the_default_is_the_papers(monkeypatch):
    config = transformers.ResNetConfig()
    wanted = transformers.AutoConfig.for_model(**CONFIGURATIONS["resnet-50"])
    for name in ("depths", "hidden_sizes", "layer_type", "embedding_size"):
        assert str(getattr(wanted, name)).strip("()[]") == str(getattr(config, name)).strip("()[]")


def test_a_folder_without_weights(tmp_path, monkeypatch):
    folder = tiny_resnet(tmp_path / "resnet")
    weights = folder / "model.safetensors"
    moved = weights.rename(folder / "model.bin")
    parts = "contains no weights as .safetensors", "pickled ones can run code", "config:"
    fails(lambda: load_backbone(str(folder)), *parts)
    moved.rename(weights)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "../elsewhere.safetensors"}}))
    fails(lambda: load_backbone(str(folder)), "lacks weights", "../elsewhere.safetensors")
    index.write_text("[]")
    fails(lambda: load_backbone(str(folder)), "index of weights")
    # they are looked for without torch
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "resnet"}))
    monkeypatch.setitem(sys.modules, "torch", None)
    fails(lambda: load_backbone(str(tmp_path)), "contains no weights")


def test_what_is_no_backbone(tmp_path):
    for source in ("nothing", "./nothing", "a/b/c", f"{tmp_path}/no"):
        fails(lambda source=source: find_source(source), "is not a backbone", "config:NAME")
    fails(lambda: find_source(str(tmp_path)), "no such file, so this is not a backbone")
    fails(lambda: find_source("config:resnet-51"), "is not a configuration", "resnet-50")
    file = tmp_path / "config.json"
    file.write_text("{")
    fails(lambda: find_source(str(tmp_path)), "cannot be read")
    file.write_text("{}")
    fails(lambda: find_source(f"config:{tmp_path}"), "names no model_type")
    file.write_text('{"model_type": "strange", "auto_map": {"AutoModel": "evil.Evil"}}')
    (tmp_path / "evil.py").write_text("raise SystemExit('code was run')")
    parts = "cannot be loaded", "no code from the folder is run"
    fails(lambda: load_backbone(f"config:{tmp_path}"), *parts)
    file.write_text('{"model_type": "bert", "hidden_size": 4, "num_attention_heads": 1}')
    fails(lambda: load_backbone(f"config:{tmp_path}"), "gives no features for images")


def test_a_hub_id_that_is_not_at_hand(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    huggingface_hub = pytest.importorskip("huggingface_hub")

    def refuse(name, **_options):
        raise OSError(name)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    fails(lambda: find_source("microsoft/resnet-50"), "cannot be fetched", "go online once")


def test_weights_that_are_missing_are_not_made_up(tmp_path):
    from safetensors.torch import load_file, save_file

    folder = tiny_resnet(tmp_path / "resnet")
    weights = load_file(folder / "model.safetensors")
    del weights[next(name for name in weights if name.endswith("convolution.weight"))]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    fails(lambda: load_backbone(str(folder)), "lacks 1 weights", "convolution.weight")
    (folder / "model.safetensors").write_bytes(b"nothing of the kind")
    fails(lambda: load_backbone(str(folder)), "cannot be loaded")


def test_the_size_that_a_vision_transformer_needs(tmp_path):
    folder = save_model(_vit(transformers)[0], tmp_path / "vit")
    words = "no features for images of 40 x 40", "`size`"
    fails(lambda: load_backbone(str(folder), size=40), *words)
    refused(lambda: load_backbone(str(folder), size=0), "size 0 x 0")


def test_devices(tmp_path):
    assert choose_device("cpu") == "cpu"
    assert choose_device() == ("cuda" if torch.cuda.is_available() else "cpu")
    for name in ("gpu", "cuda:99", "cpu:0", "cuda:x"):
        refused(lambda name=name: choose_device(name), repr(name))


def test_preprocessing_as_processors_write_it(tmp_path):
    file = tmp_path / "preprocessor_config.json"
    assert read_preprocessing(tmp_path) is None
    edge = {"size": {"shortest_edge": 50}}
    for size, expected in (
        ({"size": 60}, (60, 60)),
        (edge, (50, 50)),
        ({"size": {"height": 40, "width": 30}}, (40, 30)),
        ({**edge, "crop_size": {"height": 20, "width": 22}, "do_center_crop": True}, (20, 22)),
        ({**edge, "crop_size": 20, "do_center_crop": False}, (50, 50)),
        ({"size": {"longest_edge": 50}}, (224, 224)),
    ):
        file.write_text(json.dumps(size))
        assert read_preprocessing(tmp_path).size == expected
    content = {"do_normalize": False, "rescale_factor": 1 / 127.5, "rescale_offset": True}
    file.write_text(json.dumps(content))
    made = read_preprocessing(tmp_path)
    assert (made.factor, made.offset, made.mean, made.std) == (1 / 127.5, 1.0, (0, 0, 0), (1, 1, 1))
    file.write_text(json.dumps({"do_rescale": False, "do_flip_channel_order": True}))
    made = read_preprocessing(tmp_path)
    assert (made.factor, made.flip) == (1.0, True)
    sizes = {"size": 0}, {"size": "large"}
    for broken in ({"image_std": [1, 1, 0]}, {"image_mean": [1, 1]}, *sizes):
        file.write_text(json.dumps(broken))
        fails(lambda: read_preprocessing(tmp_path))


def test_blue_green_red(tmp_path, pixels):
    folder = tiny_resnet(tmp_path / "resnet")
    file = folder / "preprocessor_config.json"
    file.write_text(json.dumps({**PREPROCESSOR, "do_flip_channel_order": True}))
    flipped = load_backbone(str(folder), device="cpu")
    assert np.abs(flipped.prepare(pixels).numpy() - _as_a_processor(pixels[..., ::-1])).max() < 1e-6
    file.unlink()
    fails(lambda: load_backbone(str(folder)), "has no preprocessor_config.json")


def test_memory_that_ran_out():
    text = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
    for error in (MemoryError(), RuntimeError(text)):
        with pytest.raises(NoochError, match="`batch` 4"), memory_limits(8, "training"):
            raise error
    with pytest.raises(NoochError, match="batches of 1") as caught, memory_limits(1, "training"):
        raise torch.OutOfMemoryError("CUDA out of memory")
    assert "`size`" in str(caught.value)
    with pytest.raises(RuntimeError, match="shapes"), memory_limits(8, "training"):
        raise RuntimeError("shapes do not match")
    reuse_memory()


def test_the_real_one(shared_data):
    folder = shared_data / "backbones" / "mobilenet_v1_0.75_224"
    backbone = load_backbone(str(folder), device="cpu")
    assert (backbone.n_features, backbone.size, backbone.pooling) == (768, (224, 224), "pooler")
    assert (backbone.preprocessing.mean, backbone.preprocessing.std) == ((0.5,) * 3, (0.5,) * 3)
    images = [np.full((224, 224, 3), value, np.uint8) for value in (0, 255)]
    black, white = backbone.prepare(np.stack(images))
    assert math.isclose(float(black.mean()), -1, abs_tol=1e-6)
    assert math.isclose(float(white.mean()), 1, abs_tol=1e-6)
