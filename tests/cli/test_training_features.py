"""train pixels and train features as a user types them."""

import json

import numpy as np
import pytest
from altered_files import write_header
from image_folders import image_dataset, tiny_resnet

from nooch.data import save_dataset
from nooch.models.caches.features import load_features
from nooch.models.caches.pixels import PixelCache

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
    done = run_cli("train pixels dataset --out px --size 40 --format json").ok()
    cache = PixelCache.load(tmp_path / "px", data)
    assert done.json == {
        "pixels": "px", "images": 6, "size": [40, 40], "bytes": 6 * 40 * 40 * 3,
        "codec": cache.header.made["codec"], "identity": cache.identity,
    }  # fmt: skip
    command = f"train features dataset --backbone {weights} --pixels px --device cpu --out f"
    done = run_cli(f"{command} --batch 4").ok()
    assert "6 images x 16 features of resnet at 40 x 40" in done.out
    assert "next: nooch train bench dataset SUITE --features f" in " ".join(done.out.split())
    made = load_features(tmp_path / "f", data)
    assert made.header.made["backbone"]["preprocessing"]["size"] == [40, 40]
    done = run_cli(f"{command} --half --overwrite --format json")
    assert (done.json["dtype"], done.json["n_features"], done.json["images"]) == ("float16", 16, 6)
    assert np.abs(load_features(tmp_path / "f", data).matrix() - made.matrix()).max() < 0.01


def test_text_names_the_next_step(data, run_cli, tmp_path):
    done = run_cli("train pixels dataset --out px --size 16 --codec pil")
    assert "6 images of 16 x 16, 0 MB, codec pil" in done.out
    command = "nooch train features dataset --pixels px --backbone"
    assert f"next: {command}" in " ".join(done.out.split())


def test_features_of_images_at_the_backbones_size(data, weights, run_cli, tmp_path):
    done = run_cli(f"train features dataset --backbone {weights} --out f --format json").ok()
    assert done.json["backbone"]["preprocessing"]["size"] == [32, 32]
    done = run_cli(
        f"train features dataset --backbone config:{weights} --seed 7 --size 24 --images"
        f" images --out g --format json"
    )
    assert done.json["backbone"]["preprocessing"]["size"] == [24, 24]
    assert done.json["backbone"]["name"] == "config:resnet"


def test_what_is_refused(data, weights, run_cli, tmp_path):
    features = "train features dataset --out out --backbone"
    (weights / "model.safetensors").rename(tmp_path / "away")
    run_cli(f"{features} {weights}").refused("contains no weights", f"config:{weights}")
    (tmp_path / "away").rename(weights / "model.safetensors")
    run_cli(f"{features} resnet-5000").refused("is not a backbone", "config:NAME")
    run_cli(f"{features} {weights} --device cuda:77").refused("no device 'cuda:77'")
    run_cli(f"{features} {weights} --pixels out --images out").refused("exclude each other")
    run_cli("train pixels dataset --out px --size 32")
    of_pixels = f"{features} {weights} --pixels px"
    run_cli(f"{of_pixels} --size 40").refused("--size 40", "contains 32 x 32")
    header = json.loads((tmp_path / "px" / "pixels.json").read_bytes())
    header["blocks"] = ["0" * 64]
    write_header(tmp_path / "px" / "pixels.json", header)
    run_cli(of_pixels).refused("was altered", "nooch train pixels")
    run_cli("train pixels dataset --out px").refused("exists already", "--overwrite")
    run_cli("train pixels dataset --out out --codec quick").refused("'quick' is not a codec")
    (tmp_path / "images" / "002.jpg").unlink()
    missing = "1 of 6 images were not found: 2 (002.jpg)"
    run_cli("train pixels dataset --out out").refused(missing, "--images")
    run_cli(f"{features} {weights}").refused(missing)
    assert not (tmp_path / "out").exists()
