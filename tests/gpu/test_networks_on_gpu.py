"""Fine-tuning on a GPU: as on a CPU, several networks as each alone, resumed as undisturbed."""

from dataclasses import replace

import numpy as np
import pytest
from pictures import pictures
from pixel_arrays import tiny_vit
from shortcuts import jobs_of

from nooch.models.networks import backbones, read_outputs
from nooch.models.saved_networks import load_network
from nooch.training.epoch_batches import augmented, draw
from nooch.training.methods import METHODS
from nooch.training.network_jobs import NetworkJobs
from nooch.training.network_settings import TuneSettings

# 56 images in batches of 16: the last batch has another shape, and so has the last of 40 images of
# validation
DATA = pictures(n_train=56, n_other=40)
SETTINGS = TuneSettings(lr=0.002, batch=16, epochs=2, patience=5)
FAST = replace(SETTINGS, precision="bf16", channels_last=True)
FEW = [jobs_of([name])[0] for name in ("erm", "gdro", "irm")]


def trained(device, source, settings, jobs, *, interrupted=False, data=DATA):
    """Networks after all epochs."""
    made = backbones(source, settings.network, size=data.inputs.size[0], device=device)
    found = NetworkJobs(data, jobs, settings, made, device)
    while not found.finished:
        found.step()
        if interrupted:
            saved = {name: array.copy() for name, array in found.state_dict().items()}
            found = NetworkJobs(data, jobs, settings, made, device)
            found.load_state_dict(saved)
    found.refit()
    return found


def logits(*given, **more):
    return trained(*given, **more).logits("test")


def apart(ours, theirs):
    pairs = zip(ours, theirs, strict=True)
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"channels_last": True},
        {"optimiser": "adam", "lr": 1e-4},
        {"train": "head", "lr": 0.02},
        {"train": "affine"},
        {"auxiliary": 0.5, "clip": 1.0},
        {"augment": ("affine", "crop", "flip")},
        {"variant": "released", "stop_on": "nll"},
    ],
    ids=str,
)
def test_one_network_as_on_a_cpu(device, small, more):
    settings = replace(SETTINGS, **more)
    ours, theirs = (logits(where, small, settings, FEW[:1]) for where in (device, "cpu"))
    assert apart(ours, theirs) < 0.01


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if not method.frozen])
def test_every_method(device, small, method):
    job, *_ = jobs_of([method])
    ours, theirs = (logits(where, small, SETTINGS, [job]) for where in (device, "cpu"))
    assert np.isfinite(ours[0]).all()
    assert apart(ours, theirs) < 0.02


def test_bf16_is_near_fp32_and_several_networks_as_each_alone(device, small):
    assert len(FEW) == 3
    fast = logits(device, small, FAST, FEW)
    assert apart(fast, logits(device, small, SETTINGS, FEW)) < 0.1
    together = logits(device, small, SETTINGS, FEW)
    alone = [logits(device, small, SETTINGS, [job])[0] for job in FEW]
    assert apart(together, alone) < 0.005


def test_compiled_as_plain(device, compiles, small):
    ours = logits(device, small, replace(SETTINGS, compile=True), FEW[:2])
    assert apart(ours, logits(device, small, SETTINGS, FEW[:2])) < 0.005
    fast = logits(device, small, replace(FAST, compile=True), FEW[:1])
    assert apart(fast, logits(device, small, FAST, FEW[:1])) < 0.1


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("settings", [SETTINGS, FAST], ids=["fp32", "bf16"])
def test_resumed_as_undisturbed(device, small, settings, optimiser):
    rate = settings.lr if optimiser == "sgd" else 1e-4
    settings = replace(settings, optimiser=optimiser, lr=rate)
    one = trained(device, small, settings, FEW[:2])
    other = trained(device, small, settings, FEW[:2], interrupted=True)
    values = [np.stack([record["valid"] for record in found.history]) for found in (one, other)]
    tolerance = 0.005 if settings.precision == "fp32" else 0.03
    assert apart(values[:1], values[1:]) < tolerance
    assert apart(other.logits("test"), one.logits("test")) < 5 * tolerance


def test_dropout_has_its_own_stream(device, tmp_path):
    data, folder = pictures(n_train=56, n_other=24, size=32), str(tiny_vit(tmp_path / "vit"))
    jobs = FEW[:2]
    together = logits(device, folder, SETTINGS, jobs, data=data)
    again = logits(device, folder, SETTINGS, jobs, data=data, interrupted=True)
    alone = [logits(device, folder, SETTINGS, [job], data=data)[0] for job in jobs]
    assert apart(again, together) < 1e-3
    assert apart(together, alone) < 1e-3


def test_random_changes_of_images(device):
    import torch

    settings = replace(SETTINGS, augment=("affine", "crop", "flip"))
    drawn = draw(settings, 8, 1.0, np.random.default_rng(0))
    batch = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    given = torch.from_numpy(drawn.matrices), torch.from_numpy(drawn.flips)
    theirs = augmented(batch, *given)
    ours = augmented(batch.to(device), *(each.to(device) for each in given)).cpu()
    assert float((ours - theirs).abs().max()) < 1e-3


def test_a_saved_network_predicts_the_same_on_either(device, small, tmp_path):
    found = trained(device, small, SETTINGS, FEW[:1])
    found.save(0, tmp_path / "network")
    for where in (device, "cpu"):
        network, _ = load_network(tmp_path / "network", device=where)
        values = read_outputs([network], DATA.inputs, DATA.rows["test"], 16)[0][:, 0]
        assert apart([values], found.logits("test")) < 1e-3
