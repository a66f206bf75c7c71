"""Settings of fine-tuning, and random changes of images."""

from dataclasses import replace

import numpy as np
import pytest
from pixel_arrays import one_thread  # noqa: F401 - a fixture of every test here
from refusals import fails
from scipy.ndimage import map_coordinates

from nooch.base.errors import NoochError
from nooch.paper.class_network import ALL_CLASSES
from nooch.training.epoch_batches import augmented, draw
from nooch.training.network_settings import OPTIMISERS, SCHEDULES, TuneSettings

torch = pytest.importorskip("torch", reason="`torch`: is not installed (nooch[train])")
transformers = pytest.importorskip(
    "transformers", reason="`transformers`: is not installed (nooch[train])"
)


@pytest.mark.parametrize(
    ("values", "parts_of_message"),
    [
        ({"optimiser": "lion"}, ("optimiser", "adam, sgd")),
        ({"stop_on": "auc"}, ("stop_on", "nll")),
        ({"variant": "mine"}, ("variant", "paper")),
        ({"schedule": "linear"}, ("schedule", "cosine")),
        ({"train": "some"}, ("train", "affine")),
        ({"batchnorm": "off"}, ("batchnorm", "frozen")),
        ({"precision": "fp16"}, ("precision", "bf16")),
        ({"augment": ("blur",)}, ("`augment`", "affine, crop, flip")),
        ({"batch": 0}, ("`batch`: is 0", "at least 1")),
        ({"epochs": True}, ("`epochs`: is True",)),
        ({"patience": 1.5}, ("`patience`: is 1.5",)),
        ({"decay_epochs": 0}, ("`decay_epochs`: is 0",)),
        ({"decay": 1.5}, ("`decay`: is 1.5", "at most 1")),
        ({"rotation": 200}, ("`rotation`: is 200", "at most 180")),
        ({"shift": -0.1}, ("`shift`: is -0.1",)),
        ({"zoom": 1.0}, ("`zoom`: is 1.0", "below 1")),
        ({"crop": 0.0}, ("`crop`: is 0.0", "above 0")),
        ({"auxiliary": -1.0}, ("`auxiliary`: is -1.0",)),
        ({"auxiliary": float("nan")}, ("`auxiliary`: is nan",)),
        ({"clip": 0.0}, ("`clip`: is 0.0",)),
        ({"normalize": "no"}, ("`normalize`: is 'no'", "bool | None")),
        ({"lr": 0.0}, ("`lr`: is 0.0", "above 0")),
        ({"momentum": 1.0}, ("`momentum`: is 1.0", "below 1")),
        ({"weight_decay": -1.0}, ("`weight_decay`: is -1.0",)),
    ],
)
def test_settings_that_are_refused(values, parts_of_message):
    fails(lambda: TuneSettings(**values), *parts_of_message, kind=NoochError)


def test_settings_are_the_papers_and_written_in_one_way():
    made = TuneSettings()
    assert (made.optimiser, made.lr, made.momentum, made.weight_decay) == ("sgd", 1e-4, 0.9, 1e-4)
    assert (made.batch, made.patience, made.schedule, made.train) == (32, 3, "constant", "all")
    assert (ALL_CLASSES.optimiser, ALL_CLASSES.lr, ALL_CLASSES.batch) == ("adam", 1e-3, 16)
    assert TuneSettings(augment=["flip", "affine"]) == TuneSettings(augment=("affine", "flip"))
    assert TuneSettings(augment=("flip", "affine")).augment == ("affine", "flip")


def test_learning_rates_of_schedules():
    made = TuneSettings(lr=2.0, decay=0.1, decay_epochs=4)
    schedules = {name: replace(made, schedule=name) for name in SCHEDULES}
    rates = {name: [s.rate(epoch) for epoch in range(10)] for name, s in schedules.items()}
    assert rates["constant"] == [2.0] * 10
    assert np.allclose(rates["step"], [2.0] * 4 + [0.2] * 4 + [0.02] * 2)
    cosine = [0.2 + 1.8 * (1 + np.cos(np.pi * epoch / 4)) / 2 for epoch in range(5)]
    assert np.allclose(rates["cosine"][:5], cosine)
    assert np.allclose(rates["cosine"][4:], 0.2)


def test_optimisers_take_all_settings():
    made = TuneSettings(lr=0.3, momentum=0.7, weight_decay=0.1)
    own = {"sgd": ("momentum", 0.7), "adam": ("betas", (0.7, 0.999))}
    for name, make in OPTIMISERS.items():
        (group,) = make([torch.nn.Parameter(torch.ones(2))], made, fused=False).param_groups
        key, value = own[name]
        assert (group["lr"], group[key], group["weight_decay"]) == (0.3, value, 0.1)


IMAGES = torch.from_numpy(np.random.default_rng(0).random((5, 3, 12, 20), dtype=np.float32))


def changed(settings, images=IMAGES, seed=0):
    height, width = images.shape[2:]
    drawn = draw(settings, len(images), width / height, np.random.default_rng(seed))
    both = drawn.matrices, drawn.flips
    tensors = [None if each is None else torch.from_numpy(each) for each in both]
    return augmented(images, *tensors), drawn


def test_flips_are_exact_and_half_of_the_images():
    found, drawn = changed(TuneSettings(augment=("flip",)))
    assert drawn.matrices is None
    assert 0 < drawn.flips.sum() < 5
    for mine, before, flip in zip(found, IMAGES, drawn.flips, strict=True):
        assert torch.equal(mine, before.flip(-1) if flip else before)
    many = draw(TuneSettings(augment=["flip"]), 1000, 1.0, np.random.default_rng(1))
    assert 450 < many.flips.sum() < 550


def test_no_change_is_no_change():
    assert draw(TuneSettings(), 5, 1.0, np.random.default_rng(0)) is None
    still = TuneSettings(augment=("affine", "crop"), rotation=0.0, shift=0.0, zoom=0.0, crop=1.0)
    assert (changed(still)[0] - IMAGES).abs().max() < 1e-5


def test_affine_and_crop_against_pixel_by_pixel():
    settings = TuneSettings(augment=("affine",), rotation=40.0, shift=0.2, zoom=0.3)
    found, _ = changed(settings, seed=3)
    random = np.random.default_rng(3)
    angles = np.deg2rad(random.uniform(-40, 40, 5))
    zooms = random.uniform(0.7, 1.3, 5)
    across, down = random.uniform(-0.4, 0.4, (2, 5))
    y, x = np.mgrid[:12, :20].astype(float)
    for number in range(5):
        # in pixels about the middle, where a rotation is one whatever the image's shape
        u, v = (x - 9.5) / zooms[number], (y - 5.5) / zooms[number]
        c, s = np.cos(angles[number]), np.sin(angles[number])
        at = [s * u + c * v + 5.5 + down[number] * 6, c * u - s * v + 9.5 + across[number] * 10]
        for channel in range(3):
            image = IMAGES[number, channel].numpy()
            wanted = map_coordinates(image, at, order=1, mode="grid-constant")
            assert np.abs(found[number, channel].numpy() - wanted).max() < 1e-4


def test_crops_are_parts_of_the_image_of_its_shape():
    settings = TuneSettings(augment=["crop"], crop=0.3)
    drawn = draw(settings, 1000, 1.5, np.random.default_rng(0)).matrices
    side = drawn[:, 0, 0]
    assert np.array_equal(side, drawn[:, 1, 1])
    assert 0.3 <= (side**2).min() < 0.32
    assert 0.98 < (side**2).max() <= 1
    assert (np.abs(drawn[:, :, 2]) + side[:, None] <= 1 + 1e-6).all()
    assert not drawn[:, [0, 1], [1, 0]].any()
    assert (changed(settings)[0] >= 0).all()
    assert changed(TuneSettings(augment=("affine", "crop")))[1].matrices.shape == (5, 2, 3)


def test_changes_keep_the_order_in_memory_and_follow_the_stream():
    settings = TuneSettings(augment=("affine", "crop", "flip"))
    last = IMAGES.contiguous(memory_format=torch.channels_last)
    found = changed(settings, last)[0]
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(found, changed(settings)[0])
    assert not torch.equal(found, changed(settings, seed=1)[0])
