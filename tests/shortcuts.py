"""Data with a planted shortcut, and jobs on it."""

import numpy as np

from nooch.evaluation.metrics import auc
from nooch.training.head_pass import HeadPass
from nooch.training.jobs import Job
from nooch.training.methods import grid_of_methods
from nooch.training.training_data import TrainingData


def shortcut(n_train=600, n_other=300, d=12, seed=0):
    """Two tasks: y moves one feature a little, a cue that goes with y in training another a lot."""
    random = np.random.default_rng(seed)
    n = n_train + 2 * n_other
    splits = np.split(np.arange(n), [n_train, n_train + n_other])
    rows = dict(zip(("train", "valid", "test"), splits, strict=True))
    features = random.normal(size=(n, d)).astype(np.float32)
    labels, environments = {}, {}
    for number, task in enumerate(("car", "bowl")):
        y = random.random(n) < 0.4
        agrees = random.random(n) < np.where(np.arange(n) < n_train, 0.95, 0.5)
        cue = np.where(agrees, y, ~y)
        features[:, 2 * number] += 1.6 * y
        features[:, 2 * number + 1] += 5 * cue
        labels[task], environments[task] = y, (2 * y + cue).astype(np.uint8)
    return TrainingData(features, rows, labels, environments)


def jobs_of(methods, tasks=("car",), seeds=(0,), order=0):
    return [
        Job(task, name, tuple(values.items()), seed, order)
        for name, values in grid_of_methods(methods)
        for task in tasks
        for seed in seeds
    ]


def finished(data, jobs, settings):
    trained = HeadPass(data, jobs, settings)
    while not trained.finished:
        trained.step()
    return trained


def hard_auc(trained, data, method, task="car"):
    """Best AUC over settings and mean over seeds, on test images where label and cue disagree."""
    rows = data.rows["test"]
    y, c = data.labels[task][rows], data.environments[task][rows]
    hard = (c == 1) | (c == 2)
    outputs, values = np.array(trained.logits("test"), dtype=float), {}
    for number, job in enumerate(trained.jobs):
        if job.method == method and job.task == task:
            values.setdefault(job.setting, []).append(auc(y[hard], outputs[number, hard]))
    return max(float(np.mean(aucs)) for aucs in values.values())
