"""One network with an output for each class (paper, section 3.2): trained by the mean loss, its
predictions for every class kept.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nooch.benching.bench_plan import rows_of_splits
from nooch.data import Dataset, read_arrays
from nooch.errors import InputError, check_one_of
from nooch.files import atomic_folder, check_output, replace_file
from nooch.models.networks import backbones
from nooch.models.pixel_batches import Pixels
from nooch.models.saved_networks import save_network
from nooch.objectives import OBJECTIVES, TrainingCounts
from nooch.shared_types import Progress, no_progress
from nooch.training.network_pass import NetworkPass
from nooch.training.network_settings import ALL_CLASSES, TuneSettings
from nooch.training.run_records import arrays_as_bytes
from nooch.training.targets import Target

__all__ = ["CLASSES_MARKER", "train_classes"]

CLASSES_MARKER = "classes.json"


def train_classes(
    data: Dataset,
    pixels: Pixels,
    backbone: str | Path,
    out: str | Path,
    *,
    tasks: Sequence[str] | None = None,
    settings: TuneSettings = ALL_CLASSES,
    seed: int = 0,
    device: str = "cpu",
    overwrite: bool = False,
    progress: Progress = no_progress,
) -> Path:
    """Train one network for many classes and write a folder.

    The folder has ``predictions.parquet`` (``image_id, task, split, logit`` of valid and test),
    ``metrics.jsonl``, ``network`` (see ``load_network``) and ``classes.json``. Interrupted or
    killed, the training goes on at the last epoch that ended.

    Args:
        data: with the splits train, valid and test.
        pixels: the dataset's pixel cache.
        backbone: hub id, folder, or ``config:NAME``.
        out: folder to write.
        tasks: classes; all by default. Classes that no training image has, or all have, or that
            were not annotated in all images of train and valid are left out and listed.
        settings: the paper's by default (Adam, 1e-3, batch 16).
        seed: of initialisation and order.
        device: where it is computed.
        overwrite: replace a folder of this kind.
        progress: called with (what, epochs done, epochs at most).

    Raises:
        InputError: an empty split, no class to learn, pixels of other images.
        OutputError: the folder exists, or cannot be written.
    """
    path = check_output(out, overwrite=overwrite, marker=CLASSES_MARKER)
    rows = rows_of_splits(data)
    asked = list(data.classes if tasks is None else tasks)
    for task in asked:
        check_one_of("class", task, data.classes, owner="the dataset")
    seen = data.select(rows=np.sort(np.concatenate([rows["train"], rows["valid"]])))
    labels_of = {
        task: data.labels(task, unknown=False)
        for task in asked
        if seen.unknown_labels(task) is None
    }
    learnt = [
        task for task, y in labels_of.items() if 0 < y[rows["train"]].sum() < len(rows["train"])
    ]
    if not learnt:
        raise InputError(
            "no class is in some training images and not in others",
            allowed="one such class at least",
        )
    labels = np.stack([labels_of[task] for task in learnt], axis=1).astype(np.float32)
    made = backbones(backbone, settings.network, size=pixels.size, device=device)
    trained = NetworkPass(
        made, pixels, rows, [_target(labels, rows["train"], seed, device)], settings
    )
    facts = _facts(data, pixels, trained, settings, seed) | {
        "classes": learnt,
        "left_out": [task for task in asked if task not in learnt],
    }
    state = path.with_name(f".{path.name}.training.npz")
    _train(trained, state, json.dumps(facts, sort_keys=True, default=list), progress)
    with atomic_folder(path, overwrite=overwrite, marker=CLASSES_MARKER) as partial:
        _predictions(data, trained, learnt).write_parquet(
            partial / "predictions.parquet", compression="zstd"
        )
        lines = [
            json.dumps({"epoch": n, **{k: float(v[0]) for k, v in r.items()}})
            for n, r in enumerate(trained.history, 1)
        ]
        (partial / "metrics.jsonl").write_text(
            "".join(f"{line}\n" for line in lines), encoding="utf-8"
        )
        save_network(trained.network(0), partial / "network", learnt)
        best = {"best_epoch": int(trained.best["epoch"][0]), "epochs": trained.epoch}
        (partial / CLASSES_MARKER).write_text(
            json.dumps(facts | best, indent=2, default=list) + "\n", encoding="utf-8"
        )
    state.unlink(missing_ok=True)
    return path


def _target(labels: Any, train: Any, seed: int, device: str) -> Target:
    import torch

    positives = labels[train].sum(axis=0)
    counts = torch.tensor(
        np.stack([len(train) - positives, positives]), dtype=torch.float32, device=device
    )
    sizes = TrainingCounts(counts, torch.ones(1, labels.shape[1], device=device))
    return Target("all classes", labels, OBJECTIVES["erm"](sizes), seed)


def _facts(
    data: Dataset, pixels: Pixels, trained: NetworkPass, settings: TuneSettings, seed: int
) -> dict[str, Any]:
    return {
        "dataset": data.fingerprint,
        "pixels": getattr(pixels, "identity", "array"),
        "backbone": trained.trainers[0].network.backbone.describe(),
        "settings": asdict(settings),
        "seed": seed,
    }


def _train(trained: NetworkPass, state: Path, plan: str, progress: Progress) -> None:
    """Epochs until it has stopped, from the saved state where that is of the same plan."""
    if state.is_file():
        saved = read_arrays(state, "the state of a training")
        if str(saved.get("plan")) == plan:
            trained.load_state_dict(
                {name: value for name, value in saved.items() if name != "plan"}
            )
    state.parent.mkdir(parents=True, exist_ok=True)
    while not trained.finished:
        progress("epochs of the all-classes network", trained.epoch, trained.settings.epochs)
        trained.step()
        replace_file(state, arrays_as_bytes({**trained.state_dict(), "plan": np.array(plan)}))
    progress("epochs of the all-classes network", trained.settings.epochs, trained.settings.epochs)


def _predictions(data: Dataset, trained: NetworkPass, classes: Sequence[str]) -> pl.DataFrame:
    frames = []
    for split in ("valid", "test"):
        ids = data.images["image_id"].gather(trained.rows[split])
        logits = trained.logits(split)[0]
        for number, name in enumerate(classes):
            frame = pl.DataFrame({"image_id": ids, "logit": logits[:, number]})
            frames.append(
                frame.select("image_id", task=pl.lit(name), split=pl.lit(split), logit="logit")
            )
    return pl.concat(frames)
