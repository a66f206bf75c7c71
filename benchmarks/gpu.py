"""All figures of a GPU in one call of at most 10 minutes, as a section for RESULTS.md.

    python benchmarks/gpu.py [--only ITEM ...] [--seconds 8] [--device cuda] [--json FILE]
    python benchmarks/gpu.py --tiny --device cpu        # a rehearsal: every line runs, no figure

Items: features of ResNet-50 and ViT-B; fine-tuning ResNet-50 at 321 px against a plain loop in
float32 that decodes with Pillow in the main process (see ``bench_finetune.py``); annotating;
asking; heads. Weights are random; without photographs, generated ones of 640 x 480 are used. The
other peers are transformers' pipelines, which also decode in the main process. Each way is timed
for ``--seconds`` after a warm-up. What fails takes a line, and an item ends at its limit, so that
all end within 10 minutes. nvidia-smi's busy share: how much of the time at least one kernel ran.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gc
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import bench_finetune
import numpy as np
import torch
import transformers
from bench_finetune import Plain, Setup, Shared, rate
from bench_probe import SETTINGS, jobs, made_up
from measuring import Spread, machine, parser, write_json
from random_models import SIZES, save_random

import nooch
from nooch.base.engines.local import visible_gpus
from nooch.inference.local_model import LocalModel
from nooch.inference.requests import Asking, Request
from nooch.models.backbones import Backbone, load_backbone
from nooch.models.caches.features import extract_features
from nooch.models.caches.pixels import PixelCache, build_pixels
from nooch.models.devices import choose_device
from nooch.training.head_pass import HeadPass

T = TypeVar("T")
Runs = dict[str, Callable[[], float]]

QUESTION = "Is there a dog in the image?"
GOAL = 2000
"""Images a second of fine-tuning ResNet-50 at 321 px, on one GPU."""
JOBS, IMAGES = 1152, 86_302
"""The paper's grid, and its training images."""


class OutOfTime(BaseException):
    """An item's limit: no ``except Exception`` of a part may catch it."""


def features(folder: Path, arguments: Any) -> dict[str, Any]:
    """ResNet-50 and ViT-B at 224 px, from a cache of pixels and from JPEG files."""
    setup, rates = pictures(folder, arguments, 2048), {}
    for name in ("resnet-50", "vit-b"):
        model = save_random(name, folder / name, arguments.device, tiny=arguments.tiny)
        side, seen = 64 if arguments.tiny else SIZES[name], list[bytes]()
        pixels = build_pixels(setup.data, folder / f"pixels of {name}", size=side)

        def extracted(
            backbone: Backbone, cache: PixelCache | None, seen: list[bytes] = seen
        ) -> float:
            started = time.perf_counter()
            made = extract_features(
                setup.data,
                backbone,
                folder / "features",
                batch=setup.batch * 8,
                pixels=cache,
                overwrite=True,
            )
            taken = time.perf_counter() - started
            seen += [made.matrix().tobytes()] if cache and backbone.bf16 else []
            return len(setup.files) / taken

        plain = load_backbone(model, device=arguments.device)
        fast = load_backbone(model, device=arguments.device, bf16=True, channels_last=True)
        peer = piped("image-feature-extraction", model, setup.files[:256], arguments, pool=True)
        runs: Runs = {
            "transformers' pipeline, float32": peer,
            "nooch, float32": partial(extracted, plain, pixels),
            "nooch, bf16, channels_last": partial(extracted, fast, pixels),
            "nooch, bf16, channels_last, from JPEG files": partial(extracted, fast, None),
        }
        rates[name] = report(f"features of {name}, {side} px: images/s", runs, arguments)
        if arguments.tiny:
            # a rehearsal runs each way once
            extracted(fast, pixels)
        print(f"  bf16 from the cache: {repeated(seen)}")
    return rates


def finetune(folder: Path, arguments: Any) -> dict[str, Any]:
    """One network, and several that share batches, compiled (on a GPU) and not."""
    setup, n = pictures(folder, arguments, arguments.steps * 32), arguments.networks
    is_gpu = arguments.device != "cpu"
    fast = replace(setup.settings(fast=is_gpu), compile=False)
    made: dict[str, Callable[[], Shared | Plain]] = {
        "plain loop": lambda: Plain(setup),
        "one network": lambda: Shared(setup, fast, 1),
        f"{n} networks sharing batches": lambda: Shared(setup, fast, n),
    }
    if is_gpu:
        best = replace(fast, compile=True)
        made["one network, compiled"] = lambda: Shared(setup, best, 1)
        made[f"{n} networks sharing batches, compiled"] = lambda: Shared(setup, best, n)
    runs = {name: late(make, partial(rate, setup=setup)) for name, make in made.items()}
    title = f"fine-tuning {setup.source}, {setup.size} px: images/s of all networks"
    network_rates = report(title, runs, arguments)
    medians = {who: float(np.median(rates)) for who, rates in network_rates.items()}
    if who := max(medians.keys() - {"plain loop"}, key=medians.__getitem__, default=""):
        hours = JOBS * IMAGES / medians[who] / 3600
        print(f"  {who}: {medians[who] / GOAL:.2f} of {GOAL:,} images/s; computed from that, an")
        print(f"  epoch of {JOBS:,} jobs of {IMAGES:,} images: {hours:.1f} hours, not validated")
    return network_rates


def annotate(folder: Path, arguments: Any) -> dict[str, Any]:
    """SegFormer-B0 and Mask2Former, from JPEG files to a dataset."""
    setup, rates = pictures(folder, arguments, 640), {}
    for name in ("segformer-b0", "mask2former-swin-t"):
        model = save_random(name, folder / name, arguments.device, tiny=arguments.tiny)

        def annotated(source: str, bf16: bool) -> float:
            how: dict[str, Any] = {"device": arguments.device, "batch": setup.batch, "bf16": bf16}
            reading = nooch.io.AnnotationReading(folder / "images", source, **how)
            with tempfile.TemporaryDirectory(dir=folder) as out:
                started = time.perf_counter()
                nooch.import_dataset(reading, Path(out) / "data")
                return len(setup.files) / (time.perf_counter() - started)

        # its masks, one for each label, take long
        few = setup.files[:16]
        runs: Runs = {
            "transformers' pipeline, float32": piped(
                "image-segmentation", model, few, arguments, subtask="semantic"
            ),
            "nooch, float32": partial(annotated, str(model), False),
            "nooch, bf16": partial(annotated, str(model), True),
        }
        rates[name] = report(f"annotating with {name}: images/s", runs, arguments)
    return rates


def ask(work: Path, arguments: Any) -> dict[str, Any]:
    """A model of 2 billion weights that takes an image and a question and gives one token."""
    setup = pictures(work, arguments, 512, tiny_steps=2)
    folder = save_random("llava-2b", work / "llava", arguments.device, tiny=arguments.tiny)
    batch = 1 if arguments.tiny else 16
    requests = [Request(file.stem, file, QUESTION) for file in setup.files]
    model = LocalModel(folder, device=arguments.device, batch=batch)
    made, reply = model.answering(Asking(requests))
    assert reply is not None

    def asked() -> float:
        with tempfile.TemporaryDirectory(dir=work) as out:
            replies = reply(Path(out))
            # the first part also loads the model
            _ = list(islice(replies, 8 * batch))
            started = time.perf_counter()
            return sum(1 for _ in replies) / (time.perf_counter() - started)

    runs = {
        "transformers' pipeline": piped(
            "image-text-to-text", folder, setup.files[:32], arguments, max_new_tokens=1
        ),
        f"nooch, {made['precision']}, {batch} questions at once": asked,
    }
    return report("asking a LLaVA of 2 billion weights: questions/s", runs, arguments)


def heads(folder: Path, arguments: Any) -> dict[str, Any]:
    """12,288 heads on frozen features in one pass, on the device and on the CPU."""
    images, d, copies = (96, 16, 1) if arguments.tiny else (IMAGES, 2048, 32)
    del folder
    data, endless = made_up(images, d), replace(SETTINGS, epochs=10**6, patience=10**6)
    listed = [replace(job, seed=job.seed + 12 * n) for n in range(copies) for job in jobs()]

    def prepared(device: str, rows: int) -> HeadPass:
        part = replace(data, rows={**data.rows, "train": data.rows["train"][:rows]})
        return HeadPass(part, listed, endless, device)

    def epoch(trained: HeadPass) -> float:
        # its measures come to the CPU: nothing is left to wait for
        started = time.perf_counter()
        trained.step()
        return len(trained.data.rows["train"]) / (time.perf_counter() - started)

    few = min(images, 1024)
    runs = {
        f"CPU, {few:,} images": late(lambda: prepared("cpu", few), epoch),
        f"{arguments.device}, {images:,} images": late(
            lambda: prepared(arguments.device, images), epoch
        ),
    }
    head_rates = report(f"{len(listed):,} heads of {d:,} features: images/s", runs, arguments)
    for name, rates in head_rates.items():
        print(f"  {name}: {IMAGES / np.median(rates):.1f} s for an epoch of {IMAGES:,}")
    seen = []
    for _ in range(2):
        trained = prepared(arguments.device, few)
        trained.step()
        seen.append(trained.state.weights.cpu().numpy().tobytes())
    print(f"  {arguments.device}: {repeated(seen)}", flush=True)
    return head_rates


ITEMS: dict[str, tuple[Callable[[Path, Any], dict[str, Any]], int]] = {
    "features": (features, 130),
    "finetune": (finetune, 190),
    "annotate": (annotate, 90),
    "ask": (ask, 100),
    "heads": (heads, 70),
}
"""Functions, and their limits in seconds: 580 of 600."""


def pictures(folder: Path, arguments: Any, count: int, *, tiny_steps: int = 1) -> Setup:
    """Files of images, and their pixels and labels for fine-tuning."""
    steps = tiny_steps if arguments.tiny else max(count // bench_finetune.SIZES["cuda"][2], 2)
    given = {"size": None, "backbone": None, **vars(arguments), "steps": steps}
    if arguments.tiny:
        small = {"model_type": "resnet", "hidden_sizes": [8, 16], "depths": [1, 1]}
        (folder / "small.json").write_text(json.dumps(small))
        given |= {"size": 64, "backbone": f"config:{folder / 'small.json'}"}
    return Setup(folder, argparse.Namespace(**given), arguments.device)


def piped(
    task: str, model: Path, files: Sequence[Path], arguments: Any, **options: Any
) -> Callable[[], float]:
    """Images a second of a pipeline of transformers, as it is by default, 8 images at once."""

    def run(pipe: Any) -> float:
        inputs: list[Any] = [str(file) for file in files]
        if task == "image-text-to-text":
            message = {"type": "text", "text": QUESTION}
            content = [[{"type": "image", "url": file}, message] for file in inputs]
            inputs = [[{"role": "user", "content": each}] for each in content]
        started = time.perf_counter()
        pipe(inputs, batch_size=8, **options)
        return len(files) / (time.perf_counter() - started)

    # typed for each task by its name
    made: Any = transformers.pipeline
    return late(lambda: made(task, model=str(model), device=arguments.device), run)


def late(make: Callable[[], T], run: Callable[[T], float]) -> Callable[[], float]:
    """A run of what is made when it is needed: at its first run."""
    made: list[T] = []

    def timed() -> float:
        made.extend([] if made else [make()])
        return run(made[0])

    return timed


def report(title: str, runs: Runs, arguments: Any) -> dict[str, list[float]]:
    """Time all, and print each as it is known, with its ratio to the first and the busy share."""
    print(title, flush=True)
    run_rates: dict[str, list[float]] = {}
    for name in list(runs):
        # with its network, when it is done
        run = runs.pop(name)
        try:
            if not arguments.tiny:
                run()
            with busy_share(arguments.device) as busy:
                run_rates[name] = rates_of(run, arguments.seconds)
        except Exception as error:  # noqa: BLE001 - of several packages; the others still run
            print(f"  {name}: failed: {first_line(error)}", flush=True)
        else:
            first, rates = next(iter(run_rates)), run_rates[name]
            times = float(np.median(rates) / np.median(run_rates[first]))
            ratio = "" if name == first else f", {times:.3g} times {first}"
            print(f"  {name}: {Spread.from_values(rates)}{ratio}{''.join(busy)}", flush=True)
        del run
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return run_rates


def rates_of(run: Callable[[], float], seconds: float) -> list[float]:
    """Rates of consecutive runs until the time is over; at least one."""
    rates, started = [run()], time.perf_counter()
    while time.perf_counter() - started < seconds:
        rates.append(run())
    return rates


@contextmanager
def busy_share(device: str) -> Iterator[list[str]]:
    """Yield a list that gets how busy the GPU was meanwhile, in words, where nvidia-smi is."""
    words: list[str] = []
    if device == "cpu":
        yield words
        return
    gpu = visible_gpus()[int(device.partition(":")[2] or 0)]
    query = ["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "200"]
    try:
        smi = subprocess.Popen(["nvidia-smi", "-i", gpu, *query], stdout=subprocess.PIPE, text=True)
    except OSError:
        words.append(", busy share unknown: no nvidia-smi")
        yield words
        return
    try:
        yield words
    finally:
        smi.terminate()
        shares = [int(line) for line in smi.communicate()[0].split() if line.isdecimal()]
        words.append(f", GPU busy {np.mean(shares):.0f}%" if shares else ", busy share unknown")


def repeated(outputs: Sequence[bytes]) -> str:
    """A note in words on whether runs gave the same bytes."""
    return f"{'the same' if len(set(outputs)) == 1 else 'NOT the same'} bytes in each run"


def first_line(error: BaseException) -> str:
    """Failures, in a line."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise OutOfTime in the main thread after some seconds."""

    def stop(*_: object) -> None:
        raise OutOfTime(f"stopped after {seconds} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def main() -> None:
    """Run the items, and print a section of RESULTS.md."""
    command = parser(__doc__, seconds=6, steps=40, networks=4, device="auto")
    command.add_argument("--only", nargs="+", choices=ITEMS, default=list(ITEMS))
    command.add_argument("--tiny", action="store_true", help="small models, a run of each")
    arguments = command.parse_args()
    if arguments.tiny:
        arguments.seconds = 0
    arguments.device, started = choose_device(arguments.device), time.perf_counter()
    is_gpu = arguments.device != "cpu"
    card = torch.cuda.get_device_name(arguments.device) if is_gpu else "CPU"
    about = ", ".join(f"{name} {value}" for name, value in machine().items())
    typed = f"`python benchmarks/{' '.join([Path(__file__).name, *sys.argv[1:]])}`"
    print(f"## GPU: {card}\n\n{typed}, {dt.datetime.now(tz=dt.UTC).date()}\n")
    print(f"{about}, torch {torch.__version__}\n\n```", flush=True)
    results: dict[str, Any] = {}
    for name in arguments.only:
        item, seconds = ITEMS[name]
        # a rehearsal may be on a busy machine
        seconds *= 10 if arguments.tiny else 1
        try:
            with tempfile.TemporaryDirectory() as folder, limited(seconds):
                results[name] = item(Path(folder), arguments)
        except (Exception, OutOfTime) as error:  # noqa: BLE001 - the other items still run
            print(f"{name}: {first_line(error)}", flush=True)
    print(f"{time.perf_counter() - started:.0f} s in all\n```", flush=True)
    write_json(arguments.json, {"machine": {**machine(), "device": card}, **results})


if __name__ == "__main__":
    main()
