"""Fine-tuning one network, and several that share batches, against a plain PyTorch loop.

The plain loop is what the paper's code does: float32, no cache, each JPEG opened, converted and
resized in the main process whenever it is its turn, one network. Both train all weights of the same
network (random weights from its configuration) by SGD on the same images; an image counts once for
each network that learns from it. Before anything is timed, both take a step in float32 from the
same start, and their weights are compared (a network with random weights makes each later step's
rounding 40 times larger).

On a GPU: ResNet-50, 321 x 321, batches of 32, bf16, channels_last, torch.compile; ``gpu.py`` has
more. On a CPU a small size, float32, not compiled: almost all of the time is the network's own, so
the ratio is close to 1 there. Operations are counted per step: three times the forward pass's.

    python benchmarks/bench_finetune.py [--networks 4] [--steps 40] [--runs 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from bench_pixels import photographs
from measuring import Spread, machine, parser, ratios, write_json
from PIL import Image
from scipy.sparse import csr_array

from nooch.data import Dataset
from nooch.models.caches.pixels import PixelCache, build_pixels
from nooch.models.devices import choose_device
from nooch.models.images import IMAGENET
from nooch.models.networks import Backbones, backbones
from nooch.training.epoch_batches import BatchHooks
from nooch.training.network_pass import NetworkPass, Target
from nooch.training.network_settings import TuneSettings
from nooch.training.objectives import ERM, TrainingCounts

# what a GPU and a CPU can do in a minute or two
SIZES = {"cuda": (321, "config:resnet-50", 32), "cpu": (96, "config:resnet-18", 8)}
CHECKED = 1
TOLERANCE = 1e-5


class Setup:
    """Images, their labels, and the order in which both take them."""

    def __init__(self, folder: Path, arguments: argparse.Namespace, device: str) -> None:
        self.device = device
        kind = device.partition(":")[0]
        size, source, batch = SIZES[kind]
        self.size, self.source = arguments.size or size, arguments.backbone or source
        self.batch = batch
        self.steps = arguments.steps
        count = self.batch * self.steps
        files, self.origin = photographs(folder)
        (folder / "images").mkdir()
        self.files = []
        for number in range(count):
            self.files.append(folder / "images" / f"{number:06d}.jpg")
            shutil.copyfile(files[number % len(files)], self.files[-1])
        names = [file.name for file in self.files]
        frame, root = (
            pl.DataFrame({"image_id": range(count), "file_name": names}),
            folder / "images",
        )
        self.data = Dataset.build(frame, ["none"], csr_array((count, 1)), image_root=str(root))
        # the same pixels as the plain loop has
        options: dict[str, Any] = {"size": self.size, "codec": "pil"}
        self.pixels: PixelCache = build_pixels(self.data, folder / "pixels", **options)
        self.labels = (np.random.default_rng(0).random(count) < 0.3).astype(np.float32)
        self.labels[:2] = 0, 1

    def settings(self, *, fast: bool) -> TuneSettings:
        """Settings of the paper; as fast as this device allows."""
        plain = TuneSettings(batch=self.batch, lr=1e-3)
        return replace(plain, precision="bf16", channels_last=True, compile=True) if fast else plain

    def backbones(self, settings: TuneSettings) -> Backbones:
        """Random weights of one seed."""
        return backbones(self.source, settings.network, size=self.size, device=self.device)

    def targets(self, count: int) -> list[Target]:
        """Tasks that differ in nothing but their name."""
        import torch

        classes = np.bincount(self.labels.astype(int)).astype(np.float32)[:, None]
        environments = torch.ones(1, 1, device=self.device)
        counts = TrainingCounts(torch.from_numpy(classes).to(self.device), environments)
        return [Target(f"task {n}", self.labels[:, None], ERM(counts)) for n in range(count)]

    def order(self, steps: int) -> np.ndarray[Any, np.dtype[np.intp]]:
        """The rows of some steps."""
        return np.random.default_rng(0).permutation(len(self.labels))[: steps * self.batch]


class Shared:
    """Networks of nooch that share batches."""

    def __init__(self, setup: Setup, settings: TuneSettings, networks: int) -> None:
        rows = np.arange(len(setup.labels))
        # one batch to validate on: only the steps are timed
        splits = {"train": rows, "valid": rows[: setup.batch]}
        self.setup, self.steps = setup, setup.steps
        hooks = BatchHooks(rows=lambda _epoch: setup.order(self.steps))
        never = replace(settings, patience=1000, epochs=1000)
        targets = setup.targets(networks)
        self.trained = NetworkPass(
            setup.backbones(settings), setup.pixels, splits, targets, never, hooks
        )
        self.networks = networks

    def run(self, steps: int) -> None:
        """Some steps of each network."""
        self.steps = steps
        self.trained.step()

    def weights(self) -> torch.Tensor:
        """All weights of the first network."""
        return _flat(self.trained.trainers[0].network.moving().values())


class Plain:
    """One network of transformers, a Linear, autograd, images decoded in between."""

    def __init__(self, setup: Setup) -> None:
        from nooch.training.block_sgd import HeadState

        self.setup = setup
        settings = setup.settings(fast=False)
        backbone = setup.backbones(settings)(0)
        self.body = backbone.module.train()
        start = HeadState.initial([0], backbone.n_features, setup.device)
        self.head = torch.nn.Linear(backbone.n_features, 1).to(setup.device)
        with torch.no_grad():
            self.head.weight.copy_(start.weights[:, :1].T)
            self.head.bias.copy_(start.biases[:1])
        learnt = [*self.body.parameters(), *self.head.parameters()]
        self.optimiser = torch.optim.SGD(
            learnt, lr=settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay
        )
        self.mean, self.std = (
            torch.tensor(values).view(3, 1, 1) for values in (IMAGENET.mean, IMAGENET.std)
        )

    def image(self, row: int) -> torch.Tensor:
        """An image, decoded now."""
        with Image.open(self.setup.files[row]) as image:
            size = (self.setup.size, self.setup.size)
            small = image.convert("RGB").resize(size, Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.asarray(small).copy()).permute(2, 0, 1).float() / 255
        return (pixels - self.mean) / self.std

    def run(self, steps: int) -> None:
        """Some steps."""
        order, batch, device = self.setup.order(steps), self.setup.batch, self.setup.device
        for begin in range(0, len(order), batch):
            rows = order[begin : begin + batch]
            x = torch.stack([self.image(int(row)) for row in rows]).to(device)
            y = torch.from_numpy(self.setup.labels[rows])[:, None].to(device)
            logits = self.head(self.body(x).pooler_output.flatten(1))
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, y)
            self.optimiser.zero_grad()
            torch.autograd.backward(loss)
            self.optimiser.step()

    def weights(self) -> torch.Tensor:
        """All weights and statistics."""
        body = [*self.body.parameters(), *self.body.buffers()]
        return _flat([self.head.weight, self.head.bias, *body])


def _flat(values: Any) -> torch.Tensor:
    return torch.cat([value.detach().double().flatten().cpu() for value in values])


def check(setup: Setup) -> float:
    """A step from the same start in float32; stops where weights differ by more than rounding."""
    ours, theirs = Shared(setup, setup.settings(fast=False), 2), Plain(setup)
    ours.run(CHECKED)
    theirs.run(CHECKED)
    apart = float((ours.weights() - theirs.weights()).abs().max())
    # on a GPU convolutions round to 10 bits and add up in any order
    if apart > TOLERANCE * (1000 if setup.device != "cpu" else 1):
        sys.exit(f"error: after a step the weights differ by {apart}")
    return apart


def rate(runner: Shared | Plain, setup: Setup) -> float:
    """Images of all networks in a second."""
    networks = runner.networks if isinstance(runner, Shared) else 1
    _wait(setup.device)
    started = time.perf_counter()
    runner.run(setup.steps)
    _wait(setup.device)
    taken = time.perf_counter() - started
    return float(networks * setup.steps * setup.batch / taken)


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize(device)


def operations(setup: Setup) -> float:
    """Floating-point operations of a training step per image: forward, and twice that backward."""
    from torch.utils.flop_counter import FlopCounterMode

    backbone = setup.backbones(setup.settings(fast=False))(0)
    batch = backbone.prepare(np.zeros((1, setup.size, setup.size, 3), np.uint8))
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        backbone.features(batch)
    return 3.0 * float(counter.get_total_flops())


def main() -> None:
    """Run and print."""
    command = parser(__doc__, runs=3)
    command.add_argument("--networks", type=int, default=4, help="how many share batches")
    command.add_argument("--steps", type=int, default=40, help="steps that are timed")
    command.add_argument("--size", type=int, help="pixels; by default by the device")
    command.add_argument("--backbone", help="by default by the device")
    command.add_argument("--device", default="auto")
    arguments = command.parse_args()
    device = choose_device(arguments.device)
    with tempfile.TemporaryDirectory() as name:
        setup = Setup(Path(name), arguments, device)
        apart = check(setup)
        fast = setup.settings(fast=device != "cpu")
        several = f"{arguments.networks} networks sharing batches"
        runners: dict[str, Shared | Plain] = {
            "plain loop": Plain(setup),
            "one network": Shared(setup, fast, 1),
            several: Shared(setup, fast, arguments.networks),
        }
        for runner in runners.values():
            # compiled, and memory taken; the last batch and validation too
            runner.run(2)
        rates: dict[str, list[float]] = {who: [] for who in runners}
        for _ in range(arguments.runs):
            for who, runner in runners.items():
                rates[who].append(rate(runner, setup))
        per_image = operations(setup)
    card = torch.cuda.get_device_name(device) if device != "cpu" else "CPU"
    images = f"{setup.size} x {setup.size}, batches of {setup.batch}"
    print(f"{setup.source}, {images}, {card}; photographs: {setup.origin}")
    print(f"weights after a step differ by {apart:.2g}; {per_image / 1e9:.1f} GFLOP per image")
    facts: dict[str, Any] = {"rates": rates, "weights_apart": apart, "operations": per_image}
    for who, values in rates.items():
        print(f"{who}: {Spread.from_values(values)} images/s")
    for who in ("one network", several):
        facts[f"ratio {who}"] = ratios(rates[who], rates["plain loop"])
        print(f"{who}: {facts[f'ratio {who}']} times the images/s of the plain loop")
    write_json(arguments.json, {"machine": {**machine(), "device": card}, **facts})


if __name__ == "__main__":
    main()
