"""Inputs of a bench by path and name, from which any process makes the same plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nooch.benching.bench_config import BenchConfig
from nooch.benching.bench_plan import Plan, plan_bench, plan_finetune
from nooch.caches.features import load_features
from nooch.caches.pixels import PixelCache
from nooch.challenge import is_shipped, load_suite
from nooch.data import load_dataset
from nooch.engines import engine as engine_of
from nooch.errors import ParameterError, check_one_of
from nooch.files import Place
from nooch.models.backbones import choose_device
from nooch.models.model_sources import DEFAULT
from nooch.models.pretrained import require_packages
from nooch.training.methods import add_method

__all__ = ["PlanSource", "training_device"]


@dataclass(frozen=True)
class PlanSource:
    """What is trained on what: exactly one of ``features``, ``embedding`` and ``pixels``.

    Attributes:
        dataset: folder or address.
        suite: folder, or the name of a suite that comes with the package.
        config: methods, settings, seeds.
        methods: the user's own, ``package.module:Name``.
        features: folder of features; heads are trained on them.
        embedding: an embedding of the dataset, likewise.
        pixels: folder of pixels; whole networks are fine-tuned.
        backbone: of fine-tuning: hub id, folder, or ``config:NAME``.
    """

    dataset: Place
    suite: Path
    config: BenchConfig
    methods: Sequence[str] = ()
    features: Path | None = None
    embedding: str | None = None
    pixels: Path | None = None
    backbone: str | None = None

    def plan(self, device: str) -> Plan:
        """The plan for a device. Raises as ``plan_bench`` and ``plan_finetune``."""
        data, suite = load_dataset(self.dataset), load_suite(self.suite)
        if self.pixels is not None:
            pixels, backbone = PixelCache.load(self.pixels, data), self.backbone or DEFAULT
            return plan_finetune(data, suite, pixels, backbone, self.config, device=device)
        if self.features is not None:
            features = load_features(self.features, data)
            return plan_bench(data, suite, features, self.config, device=device)
        name = check_one_of("embedding", str(self.embedding), data.embeddings, owner="the dataset")
        about = f"embedding {name}"
        return plan_bench(
            data, suite, data.embeddings[name], self.config, features_name=about, device=device
        )

    def plan_in_worker(self, device: str) -> Plan:
        """The plan in a worker, which does not know the user's methods and must have the device."""
        for name in self.methods:
            add_method(name)
        choose_device(device)
        return self.plan(device)

    def absolute(self) -> PlanSource:
        """The same for a process in another folder; names of shipped suites and hub ids stay."""
        backbone = self.backbone
        if backbone is not None:
            kind, sign, name = backbone.rpartition(":")
            backbone = f"{kind}{sign}{Path(name).absolute() if Path(name).exists() else name}"
        return replace(
            self,
            dataset=self.dataset.absolute(),
            suite=self.suite if is_shipped(self.suite) else self.suite.absolute(),
            features=self.features and self.features.absolute(),
            pixels=self.pixels and self.pixels.absolute(),
            backbone=backbone,
        )


def training_device(device: str, engine: str | None) -> str:
    """Where jobs are trained: a device here or, with an engine, the kind each job has.

    Args:
        device: ``auto``, ``cpu``, ``cuda`` or, without an engine, ``cuda:N``.
        engine: as for ``nooch.engine``; None trains in this process.

    Raises:
        ParameterError: a device that is not here, or that no job of an engine can have.
    """
    if engine is None:
        return choose_device(device)
    if device not in {"cpu", "cuda", "auto"}:
        raise ParameterError(
            f"`device` {device} with `engine`",
            allowed="auto, cpu, or cuda: each job has a GPU to itself",
        )
    require_packages()
    import torch

    built: bool = torch.backends.cuda.is_built()  # type: ignore[no-untyped-call]
    if device == "auto":
        # workers have the same packages; the kind of device is in the records of all jobs
        device = "cuda" if built and engine_of(engine).gpus_there() else "cpu"
    engine_of(engine, gpus=int(device == "cuda"))
    return device
