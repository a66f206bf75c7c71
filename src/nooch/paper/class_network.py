"""One network with an output for each class (paper, section 3.3), trained by the mean loss."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.calls import Progress, Seed, checked, no_progress
from nooch.base.errors import InputError, check_one_of
from nooch.base.words import counted
from nooch.base.work_folder import Steps, resumable_folder
from nooch.data import Dataset, parquet_bytes
from nooch.models.networks import backbones
from nooch.models.pixel_batches import Pixels
from nooch.models.saved_networks import save_network
from nooch.training.bench.plan import rows_of_splits
from nooch.training.network_pass import NetworkPass, Target
from nooch.training.network_settings import TuneSettings
from nooch.training.objectives import OBJECTIVES, TrainingCounts

CLASSES_MARKER = "classes.json"

ALL_CLASSES = TuneSettings(optimiser="adam", lr=1e-3, batch=16)
"""The paper's values for one network of all classes (section C.2)."""


@checked
def train_classes(
    data: Dataset,
    pixels: Pixels,
    backbone: str | Path,
    out: str | Path,
    *,
    tasks: Sequence[str] | None = None,
    settings: TuneSettings = ALL_CLASSES,
    seed: Seed = 0,
    device: str = "cpu",
    overwrite: bool = False,
    progress: Progress = no_progress,
) -> Path:
    """Train one network for many classes and write a folder.

    The folder has ``predictions.parquet`` (``image_id, task, split, logit`` of valid and test),
    ``metrics.jsonl``, ``network`` (see ``load_network``) and ``classes.json``, which names the
    classes that are left out. Interrupted or killed, the training resumes after the last epoch.

    Args:
        data: the dataset, with the splits train, valid and test.
        pixels: its images.
        backbone: hub id, folder, ``config:NAME``, or ``package.module:Name``.
        out: folder to write.
        tasks: classes; all by default. Classes that no training image has, or all have, or that
            were not annotated in all images of train and valid are left out and listed.
        settings: the paper's by default (Adam, 1e-3, batch 16).
        seed: seed of initialization and order.
        device: device to compute on.
        overwrite: replace an earlier folder.
        progress: called with what is being done, and how much of how much is done.
    """
    rows = rows_of_splits(data)
    task_names = list(data.classes if tasks is None else tasks)
    labels = _labels(data, task_names, rows)
    table = np.stack(list(labels.values()), axis=1).astype(np.float32)
    source = backbones(backbone, settings.network, size=pixels.size, device=device)
    target = _target(table, rows["train"], seed, device)
    trained = NetworkPass(source, pixels, rows, [target], settings)
    facts = {
        "dataset": data.fingerprint,
        "pixels": getattr(pixels, "identity", "array"),
        "backbone": trained.trainers[0].network.backbone.describe(),
        "settings": asdict(settings),
        "seed": seed,
        "classes": list(labels),
        "left_out": [task for task in task_names if task not in labels],
    }
    doing = "training this network"
    place = resumable_folder(
        out, "training", facts, doing, marker=CLASSES_MARKER, overwrite=overwrite
    )
    with place as (folder, written_folder):
        _train(trained, Steps(folder), progress)
        with written_folder() as partial:
            _write(partial, data, trained, facts)
    return Path(out).absolute()


def _labels(
    data: Dataset, task_names: Sequence[str], rows: Mapping[str, NDArray[np.intp]]
) -> dict[str, NDArray[np.bool_]]:
    """Labels of the classes that can be learned, (n_images,) each."""
    for task in task_names:
        check_one_of("class", task, data.classes, owner="the dataset")
    train = rows["train"]
    seen = data.select(rows=np.sort(np.concatenate([train, rows["valid"]])))
    labeled = [task for task in task_names if seen.unknown_labels(task) is None]
    labels = {task: data.labels(task, unknown=False) for task in labeled}
    learned = {task: y for task, y in labels.items() if 0 < y[train].sum() < len(train)}
    if not learned:
        problem = "every class has unannotated images in train or valid, or one label in train"
        n_unknown = len(task_names) - len(labeled)
        unknown = f"labels are unknown for {n_unknown} of {counted(len(task_names), 'class')}"
        raise InputError(f"{problem}; {unknown}", allowed="a fully annotated class, both labels")
    return learned


def _write(folder: Path, data: Dataset, trained: NetworkPass, facts: dict[str, Any]) -> None:
    classes = facts["classes"]
    predictions = _predictions(data, trained, classes)
    (folder / "predictions.parquet").write_bytes(parquet_bytes(predictions))
    lines = [
        msgspec.json.encode({"epoch": n, **{k: float(v[0]) for k, v in r.items()}}) + b"\n"
        for n, r in enumerate(trained.history, 1)
    ]
    (folder / "metrics.jsonl").write_bytes(b"".join(lines))
    save_network(trained.network(0), folder / "network", classes)
    best = {"best_epoch": int(trained.best["epoch"][0]), "epochs": trained.epoch}
    text = json.dumps(facts | best, indent=2, default=list)
    (folder / CLASSES_MARKER).write_text(f"{text}\n", encoding="utf-8")


def _target(labels: NDArray[np.float32], train: NDArray[np.intp], seed: int, device: str) -> Target:
    import torch

    positives = labels[train].sum(axis=0)
    table = np.stack([len(train) - positives, positives])
    counts = torch.tensor(table, dtype=torch.float32, device=device)
    sizes = TrainingCounts(counts, torch.ones(1, labels.shape[1], device=device))
    return Target("all classes", labels, OBJECTIVES["erm"](sizes), seed)


def _train(trained: NetworkPass, steps: Steps, progress: Progress) -> None:
    """Epochs until it has stopped, from the last one that is kept."""
    if (state := steps.kept("state.npz")) is not None:
        trained.load_state_dict(state)
    what = "epochs of the all-classes network"
    while not trained.finished:
        progress(what, trained.epoch, trained.settings.epochs)
        trained.step()
        steps.put("state.npz", trained.state_dict())
    progress(what, trained.settings.epochs, trained.settings.epochs)


def _predictions(data: Dataset, trained: NetworkPass, classes: Sequence[str]) -> pl.DataFrame:
    frames = []
    for split in ("valid", "test"):
        ids = data.images["image_id"].gather(trained.rows[split])
        logits = trained.logits(split)[0]
        for number, name in enumerate(classes):
            facts = {"image_id": ids, "task": name, "split": split, "logit": logits[:, number]}
            frames.append(pl.DataFrame(facts))
    return pl.concat(frames)
