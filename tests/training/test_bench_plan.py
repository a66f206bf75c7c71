"""Plans: what jobs are trained on, and what is refused before any training."""

from functools import partial

import msgspec
import numpy as np
import polars as pl
import pytest
from refusals import fails, refused
from scipy.sparse import csr_array

import nooch
from nooch.base.errors import InputError, UndefinedError
from nooch.suites import Suite
from nooch.suites.suite import SuiteHeader
from nooch.training.bench.plan import identity_of, plan_bench, plan_finetune

undefined = partial(fails, kind=UndefinedError)

pytest.importorskip("torch")


def world(n=300, seed=0):
    """A car that is mostly on roads, a cow that is everywhere, and features."""
    random = np.random.default_rng(seed)
    road = random.random(n) < 0.5
    car = random.random(n) < np.where(road, 0.6, 0.1)
    cow = random.random(n) < 0.3
    areas = csr_array(np.stack([0.05 * car, 0.05 * cow, 0.4 * road], axis=1))
    split = np.array(["train", "valid", "test"])[np.arange(n) % 3].tolist()
    images = pl.DataFrame({"image_id": range(n), "split": split})
    data = nooch.Dataset.build(images, ["car", "cow", "road"], areas)
    return data, random.normal(size=(n, 4)).astype(np.float32)


DATA, FEATURES = world()
CE = {"ce": nooch.CE()}
read_config = nooch.training.read_config
ERM = read_config({"methods": ["erm"], "seeds": [0]})
find = partial(nooch.find, DATA, CE)
SPLITS = ["train", "valid", "test"]


def test_training_on_what_is_in_context_alone():
    suite = find(tasks=["car"], splits=SPLITS)
    config = read_config({"within": "ce", "methods": ["erm", "gdro"], "seeds": [0, 1]})
    plan = plan_bench(DATA, suite, FEATURES, config)
    (jobs,) = {tuple(job.task for job in plan.jobs.values())}
    assert set(jobs) == {"car"}
    trained = plan.begin(list(plan.jobs.values())[:5])
    rows = trained.data.rows["train"]
    road, car = DATA.labels("road")[rows], DATA.labels("car")[rows]
    # phi = 0: with the road where there is a car, without it where there is none
    assert np.array_equal(road, car)
    assert len(rows) == len(suite.in_context("ce", "car"))
    assert len(trained.data.rows["valid"]) == 100
    everywhere = read_config({"methods": ["erm", "gdro"], "seeds": [0, 1]})
    everything = plan_bench(DATA, suite, FEATURES, everywhere)
    assert not set(everything.jobs) & set(plan.jobs)


def test_tasks_within_a_criterion_have_passes_of_their_own():
    suite = find(tasks=["car", "cow"], splits=SPLITS)
    config = read_config({"within": "ce", "methods": ["erm"], "seeds": [0]})
    plan = plan_bench(DATA, suite, FEATURES, config)
    tasks = [{plan.jobs[name].task for name in names} for names in plan.header.passes]
    assert all(len(found) == 1 for found in tasks)


def test_what_is_refused():
    suite, whole = find(tasks=["car"]), find(tasks=["car"], splits=SPLITS)
    plain, tuned = (read_config({"seeds": [0]}, *mode) for mode in ((), ("finetune",)))
    within, gist = (read_config({"within": of, "methods": ["erm"]}) for of in ("ce", "gist"))
    refused(lambda: plan_bench(DATA, suite, FEATURES, within), "training split")
    refused(lambda: plan_bench(DATA, whole, FEATURES, gist), "gist", "ce")
    for large in (10**400, 10**5000):
        refused(partial(read_config, {"methods": {"gdro": {"K": large}}}), "an integer of")
    refused(lambda: plan_bench(DATA, suite, FEATURES, tuned), "mode probe")
    refused(lambda: plan_finetune(DATA, suite, [], "x", plain), "mode finetune")
    fails(lambda: plan_finetune(DATA, suite, [], "x", tuned), "pixels of 0 images", kind=InputError)
    fails(lambda: plan_bench(DATA, suite, FEATURES[:5], plain), "(5, 4)", kind=InputError)
    other, _ = world(seed=1)
    refused(lambda: plan_bench(other, suite, FEATURES, plain), "another dataset")


def test_a_label_that_training_does_not_tell():
    split = ["train"] * 3 + ["valid"] * 3 + ["test"] * 3
    areas = csr_array(np.array([[0.1, 0.5]] * 3 + [[0.1, 0.5], [0, 0.5], [0.1, 0]] * 2))
    images = pl.DataFrame({"image_id": range(9), "split": split})
    data = nooch.Dataset.build(images, ["car", "road"], areas)
    plan = data, nooch.find(data, CE, tasks=["car"]), FEATURES[:9], ERM
    undefined(lambda: plan_bench(*plan), "erm", "split train", "same label")


def _partly(split, name):
    """A plan's data and suite, where an image of a split was not annotated for a class."""
    absent = np.flatnonzero(~DATA.labels("car") & ~DATA.labels("road"))
    pairs = np.zeros(DATA.areas.shape)
    row = next(row for row in absent if DATA.images["split"][int(row)] == split)
    pairs[row, DATA.column(name)] = 1
    data = nooch.Dataset.build(DATA.images, DATA.classes, DATA.areas, unknown=pairs)
    return data, nooch.find(data, CE, tasks=["car"]), FEATURES


def test_an_unknown_label_is_not_trained_on_as_absent():
    for split in ("train", "valid"):
        plan = *_partly(split, "car"), ERM
        parts = "task car was not annotated in 1 images of train and valid", "unknown_labels(task)"
        undefined(lambda plan=plan: plan_bench(*plan), *parts)
    plan_bench(*_partly("test", "car"), ERM)
    # the cue alone: methods that need no environments are trained
    plan = _partly("train", "road")
    assert plan_bench(*plan, ERM).training.environments == {}
    gdro = read_config({"methods": ["gdro"], "seeds": [0]})
    part = "its cue road was not annotated in all images of train and valid"
    undefined(lambda: plan_bench(*plan, gdro), "method gdro", part)


def test_a_suite_of_an_earlier_version_keeps_its_identity():
    """Runs name the suite that they were trained for: a new field must not change that name."""
    ce = {"alpha": 0.05, "beta": 0.1, "cues": {}}
    fitted = {"kind": "ce", "parameters": ce, "fitted": None, "cues": {"car": [["road", 0.3]]}}
    splits = {"fingerprint": "0", "n_images": 10, "splits": {"test": 10}}
    zero = ("excluded_positives", "excluded_negatives", "missing_positives", "missing_negatives")
    challenge = {"criterion": "ce", "task": "car", "split": "test", **dict.fromkeys(zero, 0)}
    challenge |= {"positives": 3, "negatives": 4, "hard_positives": 2, "hard_negatives": 2}
    challenge |= {"threshold_positive": 0.1, "threshold_negative": 0.1}
    content = {
        "criteria": {"ce": fitted},
        "dataset": {**splits, "area": None, "path": None},
        "sets": [{**challenge, "tied_positive": False, "tied_negative": False}],
        "skipped": [],
        "splits": ["test"],
        "tasks": ["car"],
    }
    header = msgspec.convert(content, SuiteHeader)
    suite = Suite(header, lambda *_: pytest.fail("no set is read"))
    assert identity_of(suite) == "a51856cefe0110c6e00e7733b453e765"
