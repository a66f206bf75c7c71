"""pixels and features as a user types them."""

import json

import numpy as np
import pytest
from image_folders import image_dataset, tiny_resnet

from nooch.caches.features import load_features
from nooch.caches.pixels import PixelCache
from nooch.data import save_dataset

pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
pytest.importorskip("transformers", reason="transformers is not installed (nooch[train])")


@pytest.fixture
def data(tmp_path):
    made = image_dataset(tmp_path, 6)
    save_dataset(made, tmp_path / "dataset")
    return made


@pytest.fixture
def weights(tmp_path):
    return tiny_resnet(tmp_path / "resnet")


def test_pixels_then_features(data, weights, run_cli, tmp_path):
    done = run_cli(f"pixels {tmp_path / 'dataset'} --out {tmp_path / 'px'} --size 40 --format json")
    assert done.code == 0, done.err
    cache = PixelCache.load(tmp_path / "px", data)
    assert done.json == {
        "pixels": str(tmp_path / "px"), "images": 6, "size": [40, 40], "bytes": 6 * 40 * 40 * 3,
        "codec": cache.header.made["codec"], "identity": cache.identity,
    }  # fmt: skip
    given = (
        "features",
        tmp_path / "dataset",
        "--backbone",
        weights,
        "--pixels",
        tmp_path / "px",
        "--device",
        "cpu",
    )
    done = run_cli(*given, "--out", tmp_path / "f", "--batch", 4)
    assert done.code == 0, done.err
    assert "6 images x 16 features of resnet at 40 x 40" in done.out
    assert (
        f"next: nooch bench {tmp_path / 'dataset'} SUITE --features {tmp_path / 'f'}"
        in " ".join(done.out.split())
    )
    made = load_features(tmp_path / "f", data)
    assert made.header.made["backbone"]["preprocessing"]["size"] == [40, 40]
    done = run_cli(*given, "--out", tmp_path / "f", "--half", "--overwrite", "--format", "json")
    assert (done.json["dtype"], done.json["n_features"], done.json["images"]) == ("float16", 16, 6)
    assert np.abs(load_features(tmp_path / "f", data).matrix() - made.matrix()).max() < 0.01


def test_text_names_the_next_step(data, run_cli, tmp_path):
    done = run_cli(f"pixels {tmp_path / 'dataset'} --out {tmp_path / 'px'} --size 16 --codec pil")
    assert "6 images of 16 x 16, 0 MB, codec pil" in done.out
    assert (
        f"next: nooch features {tmp_path / 'dataset'} --pixels {tmp_path / 'px'} --backbone"
        in " ".join(done.out.split())
    )


def test_features_of_images_at_the_backbones_size(data, weights, run_cli, tmp_path):
    done = run_cli(
        f"features {tmp_path / 'dataset'} --backbone {weights} --out {tmp_path / 'f'} --format json"
    )
    assert done.code == 0, done.err
    assert done.json["backbone"]["preprocessing"]["size"] == [32, 32]
    done = run_cli(
        f"features {tmp_path / 'dataset'} --backbone config:{weights} --seed 7 --size 24 --images"
        f" {tmp_path / 'images'} --out {tmp_path / 'g'} --format json"
    )
    assert done.json["backbone"]["preprocessing"]["size"] == [24, 24]
    assert done.json["backbone"]["name"] == "config:resnet"


def test_what_is_refused(data, weights, run_cli, tmp_path):
    def refused(*args, words):
        done = run_cli(*args)
        assert (done.code, done.out) == (2, ""), done
        for word in words:
            assert word in done.err.replace("\n", " "), done.err

    dataset, out = tmp_path / "dataset", tmp_path / "out"
    features = ("features", dataset, "--out", out, "--backbone")
    (weights / "model.safetensors").rename(tmp_path / "away")
    refused(*features, weights, words=["holds no weights", f"config:{weights}"])
    (tmp_path / "away").rename(weights / "model.safetensors")
    refused(*features, "resnet-5000", words=["is no backbone", "config:NAME"])
    refused(*features, weights, "--device", "cuda:77", words=["no device 'cuda:77'"])
    refused(*features, weights, "--pixels", out, "--images", out, words=["exclude each other"])
    run_cli(f"pixels {dataset} --out {tmp_path / 'px'} --size 32")
    refused(
        *features,
        weights,
        "--pixels",
        tmp_path / "px",
        "--size",
        40,
        words=["--size 40", "holds 32 x 32"],
    )
    header = json.loads((tmp_path / "px" / "pixels.json").read_bytes())
    header["blocks"] = ["0" * 64]
    (tmp_path / "px" / "pixels.json").write_text(json.dumps(header))
    refused(
        *features,
        weights,
        "--pixels",
        tmp_path / "px",
        words=["was altered", "nooch pixels DATASET"],
    )
    refused("pixels", dataset, "--out", tmp_path / "px", words=["exists already", "--overwrite"])
    refused("pixels", dataset, "--out", out, "--codec", "quick", words=["'quick' is no codec"])
    (tmp_path / "images" / "002.jpg").unlink()
    refused(
        "pixels",
        dataset,
        "--out",
        out,
        words=["1 of 6 images are not there: 2 (002.jpg)", "--images"],
    )
    refused(*features, weights, words=["1 of 6 images are not there: 2 (002.jpg)"])
    assert not out.exists()
