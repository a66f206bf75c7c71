"""Scores while a model trains: against plain sums, in the Trainer, in Lightning; the refusals."""

import logging
import math
import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from refusals import fails, refused
from sklearn.metrics import log_loss, roc_auc_score

import nooch
from nooch.base.errors import NoochError, UndefinedError
from nooch.base.split_plan import SplitPlan
from nooch.data.importing.import_dataset import with_split
from nooch.data.readers.image_files import rgb_image

TASKS = ["airplane", "fire_hydrant"]


@pytest.fixture(scope="module")
def world(data):
    """The scenes with more validation images, and a suite of two tasks."""
    divided = with_split(data, SplitPlan("40/30/30"))
    return divided, nooch.find(divided, "ce", tasks=TASKS)


def plain_scores(suite, logits, tasks):
    """Means over tasks, from the sets' own columns."""
    of_tasks = []
    for task, values in zip(tasks, logits.T, strict=True):
        one = suite.set("ce", task, "valid")
        y, p, easy = one.labels, 1 / (1 + np.exp(-values)), one.subset == 2
        scores = {}
        for level, inside in (("hard", ~easy), ("easy", easy)):
            scores[f"auc_{level}"] = roc_auc_score(y[inside], p[inside])
            for side, rows in (("positive", inside & y), ("negative", inside & ~y)):
                nll = log_loss(y[rows], p[rows], labels=[False, True])
                scores[f"nll_{level}_{side}"] = nll
        scores["worst_hard"] = max(scores[f"nll_hard_{side}"] for side in ("positive", "negative"))
        of_tasks.append(scores)
    return {name: np.mean([scores[name] for scores in of_tasks]) for name in of_tasks[0]}


def test_scores_are_means_over_tasks(world):
    divided, suite = world
    ids = divided.select("valid").images["image_id"]
    logits = np.random.default_rng(0).normal(size=(len(ids), 2))
    epoch = partial(nooch.callbacks.EpochScores, suite)
    given = epoch(image_ids=ids.to_numpy()).scores(logits)
    assert given == pytest.approx(plain_scores(suite, logits[np.argsort(ids)], TASKS))
    in_order = np.argsort(ids)
    one = epoch(["airplane"]).scores(logits[in_order, 0])
    assert one == pytest.approx(plain_scores(suite, logits[in_order, :1], TASKS[:1]))
    two = np.stack([np.full(len(ids), 0.5), logits[in_order, 0] + 0.5], axis=1)
    assert epoch("airplane").scores(two.astype(np.float32)) == pytest.approx(one, rel=1e-5)
    logits[3, 1] = np.nan
    assert epoch().scores(logits) == {"worst_hard": math.inf}


def test_another_order_is_found_by_labels(world):
    _, suite = world
    labels = suite.set("ce", "airplane", "valid").labels
    logits = np.where(labels, 1.0, -1.0)
    for task in (["airplane"], "airplane"):
        watch = nooch.callbacks.HuggingFace(suite, task)
        one = SimpleNamespace(predictions=(logits, 0), label_ids=labels.astype(float))
        assert watch(one)["auc_hard"] == 1
        other = SimpleNamespace(predictions=logits[::-1], label_ids=labels[::-1])
        fails(lambda w=watch, other=other: w(other), "labels disagree with the suite's")


def test_tasks_without_hard_images_are_left_out(world):
    divided, _ = world
    suite = nooch.find(divided, "ce", tasks=["airplane", "bowl"])
    logits = np.random.default_rng(0).normal(size=(len(divided.select("valid")), 2))
    given = nooch.callbacks.EpochScores(suite).scores(logits)
    assert given == pytest.approx(plain_scores(suite, logits[:, :1], ["airplane"]))


def test_what_cannot_be_watched_is_refused(world):
    divided, suite = world
    epoch = partial(nooch.callbacks.EpochScores, suite)
    refused(lambda: epoch("cow"), "'cow' is not a task")
    refused(lambda: epoch(split="train"), "'train' is not a split")
    refused(lambda: epoch(criterion="gist"), "'gist' is not a criterion")
    fails(lambda: epoch("airplane").scores(np.zeros((9, 1))), "shape (9, 1)", "72 image ids")
    fails(lambda: epoch("airplane", image_ids=range(9)).scores(np.zeros(9)), "", kind=NoochError)
    bowls = nooch.find(divided, "ce", tasks=["bowl"])
    words = "no task has both hard positives and hard negatives", "`criterion`"
    refused(lambda: nooch.callbacks.EpochScores(bowls), *words, kind=UndefinedError)
    with pytest.raises(AttributeError):
        _ = nooch.callbacks.Keras


def loaders(world, torch):
    """Datasets of small images of training and of validation."""
    divided, suite = world

    def small(image):
        return torch.from_numpy(np.asarray(image.resize((12, 12)), np.float32)).flatten() / 255

    def items(ids, labels):
        names = dict(divided.images.select("image_id", "file_name").rows())
        files = [Path(divided.image_root, names[image_id]) for image_id in ids]
        return [(small(rgb_image(file)), int(y)) for file, y in zip(files, labels, strict=True)]

    train, valid = divided.select("train"), suite.set("ce", "airplane", "valid")
    return items(train.image_ids, train.labels("airplane")), items(valid.image_ids, valid.labels)


def test_the_trainer_logs_them_and_keeps_the_best(world, tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
    transformers = pytest.importorskip("transformers", reason="nooch[train]")
    pytest.importorskip("accelerate", reason="accelerate is not installed (nooch[hf])")

    class Linear(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(432, 1)

        def forward(self, inputs, labels):
            logits = self.linear(inputs)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logits[:, 0], labels)
            return {"loss": loss, "logits": logits}

    def collate(items):
        return {
            "inputs": torch.stack([item[0] for item in items]),
            "labels": torch.tensor([float(item[1]) for item in items]),
        }

    train, valid = loaders(world, torch)
    arguments = transformers.TrainingArguments(
        str(tmp_path), num_train_epochs=3, eval_strategy="epoch", save_strategy="epoch",
        load_best_model_at_end=True, metric_for_best_model="worst_hard", greater_is_better=False,
        learning_rate=0.3, report_to=[], use_cpu=True, disable_tqdm=True, seed=1,
    )  # fmt: skip
    torch.manual_seed(0)
    trainer = transformers.Trainer(
        Linear(), arguments, train_dataset=train, eval_dataset=valid, data_collator=collate,
        compute_metrics=nooch.callbacks.HuggingFace(world[1], "airplane"),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.train()
        outputs = trainer.predict(valid)
    logged = [entry for entry in trainer.state.log_history if "eval_worst_hard" in entry]
    assert len(logged) == 3
    values = [entry["eval_worst_hard"] for entry in logged]
    assert trainer.state.best_metric == min(values)
    # the best weights were loaded in the end: their scores are those of a plain sum
    plain = plain_scores(world[1], outputs.predictions.astype(np.float64), ["airplane"])
    assert plain["worst_hard"] == pytest.approx(min(values), rel=1e-5)
    assert {name: logged[int(np.argmin(values))][f"eval_{name}"] for name in plain} == (
        pytest.approx(plain, rel=1e-5)
    )


@pytest.fixture
def lightning():
    pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield pytest.importorskip("lightning.pytorch", reason="not installed (nooch[lightning])")


def fit(world, lightning, folder, step, **options):
    """A linear model trained with Lightning: the trainer, the module, and the checkpoint."""
    import torch
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(432, 1)

        def training_step(self, batch):
            logits = self.linear(batch[0])[:, 0]
            return torch.nn.functional.binary_cross_entropy_with_logits(logits, batch[1].float())

        def validation_step(self, batch):
            return step(self.linear(batch[0]))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.5)

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    train, valid = (torch.utils.data.DataLoader(s, 32) for s in loaders(world, torch))
    best = ModelCheckpoint(folder, monitor="val_worst_hard")
    watch = nooch.callbacks.Lightning(world[1], "airplane")
    torch.manual_seed(0)
    trainer, module = lightning.Trainer(
        max_epochs=3, callbacks=[watch, best], accelerator="cpu", logger=False,
        enable_progress_bar=False, enable_model_summary=False, **options,
    ), Module()  # fmt: skip
    trainer.fit(module, train, valid)
    return trainer, module, best, torch.cat([module.linear(batch[0]) for batch in valid])


def test_lightning_logs_them_and_keeps_the_best(world, lightning, tmp_path):
    made = fit(world, lightning, tmp_path, lambda z: {"loss": z.mean(), "logits": z})
    trainer, _, best, logits = made
    plain = plain_scores(world[1], logits.detach().double().numpy(), ["airplane"])
    logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
    assert logged == pytest.approx({f"val_{name}": v for name, v in plain.items()}, rel=1e-5)
    assert float(best.best_model_score) <= logged["val_worst_hard"]
    assert len(list(tmp_path.iterdir())) == 1


def test_lightning_is_told_what_lacks(world, lightning, tmp_path):
    part = 'return {"loss": loss, "logits": logits}'
    refused(lambda: fit(world, lightning, tmp_path, lambda z: z.mean()), "no logits", part)
    fails(lambda: fit(world, lightning, tmp_path, lambda z: z[:1]), "72 image ids")
