"""Images per second on a GPU: frozen features and fine-tuning, against a plain PyTorch loop.

    python benchmarks/gpu.py [--seconds 60] [--steps 40] [--networks 4] [--device cuda] [--json
    FILE]

The plain loop computes in float32, decodes each JPEG with Pillow in the main process when it is its
turn, and trains one network (see ``bench_finetune.py``, whose parts are used here). nooch reads a
cache of pixels and computes in bf16 with channels_last, compiled if torch.compile works. Weights
are random, from a configuration (ResNet-50 at 321 px); without photographs, generated ones of 640 x
480 are used. Each part gets ``--seconds``, after a warm-up: 60 keeps one call under 10 minutes. On
a CPU the sizes are small: a rehearsal.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from bench_finetune import Plain, Setup, Shared, rate
from measuring import Spread, machine, parser, ratios, write_json

from nooch.caches.features import FeatureOptions, extract_features
from nooch.models.backbones import load_backbone
from nooch.models.devices import choose_device

_FEATURE_BATCH = {"cuda": 256, "cpu": 8}


class PlainFeatures:
    """One pass over the images in float32, decoded in between."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.plain = setup, Plain(setup)
        self.plain.body.eval()

    def __call__(self) -> float:
        """Images a second."""
        setup, started = self.setup, time.perf_counter()
        with torch.inference_mode():
            for begin in range(0, len(setup.files), setup.batch):
                rows = range(begin, min(begin + setup.batch, len(setup.files)))
                batch = torch.stack([self.plain.image(row) for row in rows]).to(setup.device)
                self.plain.body(batch).pooler_output.flatten(1).cpu()
        return len(setup.files) / (time.perf_counter() - started)


class CachedFeatures:
    """The same by ``extract_features``, from the cache of pixels."""

    def __init__(self, setup: Setup, folder: Path, *, fast: bool) -> None:
        self.setup, self.folder = setup, folder
        self.backbone = load_backbone(
            setup.source, size=setup.size, device=setup.device, channels_last=fast, bf16=fast
        )

    def __call__(self) -> float:
        """Images a second, hashing and writing included."""
        batch, started = _FEATURE_BATCH[self.setup.device.partition(":")[0]], time.perf_counter()
        inputs = (self.setup.data, self.backbone, self.folder, FeatureOptions(batch=batch))
        extract_features(*inputs, pixels=self.setup.pixels, overwrite=True)
        return len(self.setup.files) / (time.perf_counter() - started)


def rates_of(run: Callable[[], float], seconds: float) -> list[float]:
    """Rates of consecutive runs until the time is over, without the warm-up; at least one."""
    run()
    rates: list[float] = []
    started = time.perf_counter()
    while not rates or time.perf_counter() - started < seconds:
        rates.append(run())
    return rates


def compiles(device: str) -> str:
    """Why torch.compile does not work here; empty if it does."""
    try:
        torch.compile(lambda x: torch.sin(x) + 1)(torch.ones(8, device=device))
    except Exception as error:  # noqa: BLE001 - compilation fails with errors of several packages
        return (str(error).splitlines() or [type(error).__name__])[0][:200]
    return ""


def trainings(setup: Setup, networks: int, *, fast: bool) -> dict[str, Callable[[], float]]:
    """Timed runs of fine-tuning by name; a network is made at its first run."""
    settings = replace(setup.settings(fast=fast), compile=False)
    made: dict[str, Callable[[], Shared | Plain]] = {
        "plain loop": lambda: Plain(setup),
        "one network": lambda: Shared(setup, settings, 1),
        f"{networks} networks sharing batches": lambda: Shared(setup, settings, networks),
    }
    if problem := compiles(setup.device):
        sys.stdout.write(f"compiled: skipped, torch.compile does not work here: {problem}\n")
    else:
        made["one network, compiled"] = lambda: Shared(setup, replace(settings, compile=True), 1)

    def timed(make: Callable[[], Shared | Plain]) -> Callable[[], float]:
        runner: list[Shared | Plain] = []

        def run() -> float:
            runner.extend([] if runner else [make()])
            return rate(runner[0], setup)

        return run

    return {name: timed(make) for name, make in made.items()}


def report(
    title: str, runs: dict[str, Callable[[], float]], seconds: float
) -> dict[str, list[float]]:
    """Time all, and print each as it is known, with its ratio to the first."""
    sys.stdout.write(f"{title}\n")
    found: dict[str, list[float]] = {}
    for name, run in runs.items():
        found[name] = rates_of(run, seconds)
        first, peer = next(iter(found)), next(iter(found.values()))
        n = min(len(peer), len(found[name]))
        ratio = "" if name == first else f", {ratios(found[name][:n], peer[:n])} times the {first}"
        print(f"  {name}: {Spread.of(found[name])} images/s{ratio}", flush=True)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return found


def main() -> None:
    """Run and print."""
    command = parser(__doc__)
    command.add_argument("--seconds", type=float, default=60, help="of each part, after a warm-up")
    command.add_argument("--networks", type=int, default=4, help="how many share batches")
    command.add_argument("--steps", type=int, default=40, help="steps of a run")
    command.add_argument("--size", type=int, help="pixels; by default by the device")
    command.add_argument("--backbone", help="by default by the device")
    command.add_argument("--device", default="auto")
    arguments = command.parse_args()
    device, started = choose_device(arguments.device), time.perf_counter()
    is_gpu = device != "cpu"
    with tempfile.TemporaryDirectory() as name:
        setup = Setup(Path(name), arguments, device)
        card = torch.cuda.get_device_name(device) if is_gpu else "CPU"
        images = f"{setup.size} x {setup.size}, {len(setup.files)} images ({setup.origin})"
        print(f"{setup.source}, {images}, {card}, torch {torch.__version__}", flush=True)
        features: dict[str, Callable[[], float]] = {
            "plain loop": PlainFeatures(setup),
            "nooch, float32": CachedFeatures(setup, Path(name) / "f32", fast=False),
            "nooch, bf16 and channels_last": CachedFeatures(setup, Path(name) / "bf16", fast=True),
        }
        of_features = report("frozen features", features, arguments.seconds)
        features.clear()
        of_training = report(
            "fine-tuning", trainings(setup, arguments.networks, fast=is_gpu), arguments.seconds
        )
    print(f"{time.perf_counter() - started:.0f} s in all")
    write_json(
        arguments.json,
        {
            "machine": {**machine(), "device": card},
            "features": of_features,
            "training": of_training,
        },
    )


if __name__ == "__main__":
    main()
