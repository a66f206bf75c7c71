"""Every method on whole networks: several at once as each alone, interrupted as undisturbed."""

import json
from dataclasses import replace

import numpy as np
import pytest
from pictures import CONFIG, pictures
from refusals import fails
from shortcuts import hard_auc, jobs_of

from nooch.base.errors import FormatError, InputError, ParameterError
from nooch.models.images import IMAGENET
from nooch.models.networks import Network, backbones, read_outputs
from nooch.models.saved_networks import load_network
from nooch.models.task_maps import TaskWords
from nooch.models.task_models import load_task_model
from nooch.training.methods import METHODS
from nooch.training.network_jobs import NetworkJobs
from nooch.training.network_settings import OPTIMISERS, TuneSettings
from nooch.training.records import passes_of

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

DATA = pictures(n_train=64, n_other=40)
SETTINGS = TuneSettings(lr=0.02, batch=16, epochs=2, patience=5)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Backbones with random weights of a small ResNet."""
    return small(tmp_path_factory.mktemp("network"))


def small(folder, settings=SETTINGS):
    (folder / "small.json").write_text(json.dumps(CONFIG))
    return backbones(f"config:{folder}/small.json", settings.network, size=16, device="cpu")


def finished(*given, interrupted=False):
    trained = NetworkJobs(*given)
    while not trained.finished:
        trained.step()
        if interrupted:
            # a new process knows only what was saved
            saved = {name: array.copy() for name, array in trained.state_dict().items()}
            trained = NetworkJobs(*given)
            trained.load_state_dict(saved)
    trained.refit()
    return trained


def valid_losses(trained):
    return [record["valid"].tolist() for record in trained.history]


ALL = jobs_of([name for name, method in METHODS.items() if not method.frozen])
ONE_EACH = list({job.method: job for job in ALL[::-1]}.values())[::-1]


@pytest.mark.parametrize("job", ONE_EACH, ids=lambda job: job.method)
def test_every_method_trains_and_goes_on_after_an_interruption(job, made):
    one, other = (finished(DATA, [job], SETTINGS, made, interrupted=i) for i in (False, True))
    assert one.epoch == other.epoch == 2
    assert np.isfinite(one.logits("test")[0]).all()
    assert np.array_equal(one.logits("test")[0], other.logits("test")[0])
    assert valid_losses(one) == valid_losses(other)
    assert one.best_epochs[0] > 0


def test_side_by_side_as_alone(made):
    together = [job for job in ONE_EACH if job.takes == (0,)]
    assert {"erm", "gdro", "irm", "focal", "dfr"} <= {job.method for job in together}
    assert not {"jtt", "mixup", "label-undersample"} & {job.method for job in together}
    both = finished(DATA, together, SETTINGS, made)
    outputs = both.logits("test")
    for number, job in enumerate(together):
        alone = finished(DATA, [job], SETTINGS, made).logits("test")[0]
        assert np.array_equal(alone, outputs[number]), job.method
    fails(lambda: NetworkJobs(DATA, ONE_EACH, SETTINGS, made), "Job.takes", kind=ParameterError)


def test_passes_of_whole_networks_take_the_same_rows():
    named = {str(number): job for number, job in enumerate(ALL)}
    passes = passes_of(named, 4, weighted=False)
    assert sorted(name for names in passes for name in names) == sorted(named)
    assert max(map(len, passes)) == 4
    for names in passes:
        assert len({named[name].takes for name in names}) == 1
    # by weights all but mixed ones share their pass
    assert len(passes_of(named, 1000)) == 1 + 2 + 3


def test_jtt_takes_what_its_first_stage_gets_wrong(made):
    (job,) = jobs_of({"jtt": {"epochs": 1, "up": 3}})
    erm = NetworkJobs(DATA, jobs_of(["erm"]), SETTINGS, made)
    erm.step()
    networks = [trainer.network for trainer in erm.trainers]
    logits = read_outputs(networks, DATA.inputs, DATA.rows["train"], 16)[0][:, 0]
    wrong = (logits > 0) != DATA.labels["car"][DATA.rows["train"]]
    assert 0 < wrong.sum() < len(wrong)
    trained = NetworkJobs(DATA, [job], SETTINGS, made)
    trained.step()
    assert trained.epoch == 0
    rows = trained.hooks.rows(0)
    assert np.array_equal(np.bincount(rows, minlength=64)[:64], np.where(wrong, 3, 1))


def test_a_last_stage_changes_the_last_layer_alone(made):
    jobs = [job for job in ONE_EACH if job.method in {"erm", "dfr"}]
    trained = NetworkJobs(DATA, jobs, SETTINGS, made)
    while not trained.finished:
        trained.step()
    before = trained.logits("valid")
    networks = [trained.network(number) for number in range(2)]
    features = read_outputs(networks, DATA.inputs, DATA.rows["valid"], 16, Network.features)
    assert np.array_equal(features[0], features[1])
    trained.refit()
    after = dict(zip([job.method for job in jobs], trained.logits("valid"), strict=True))
    assert np.array_equal(before[0], after["erm"])
    assert not np.allclose(before[1], after["dfr"])
    head = trained.network([job.method for job in jobs].index("dfr")).head
    expected = features[0] @ head.weight.detach().numpy()[0] + head.bias.item()
    assert np.abs(expected - after["dfr"]).max() < 1e-4


def answers_as_trained(folder, trained):
    """The model of a saved network, after checking its outputs."""
    model = load_task_model(folder, ["car"], device="cpu")
    found = model.logits(DATA.inputs.batch(DATA.rows["test"]))[:, 0].detach().numpy()
    assert np.abs(found - trained.logits("test")[0]).max() < 1e-5
    return model


def test_a_trained_network_is_saved_and_answers_its_tasks(made, tmp_path):
    trained = finished(DATA, jobs_of(["dfr"]), SETTINGS, made)
    trained.save(0, tmp_path / "network")
    network, header = load_network(tmp_path / "network", device="cpu")
    assert header.outputs == ["car"]
    found = read_outputs([network], DATA.inputs, DATA.rows["test"], 16)[0][:, 0]
    assert np.abs(found - trained.logits("test")[0]).max() < 1e-5
    model = answers_as_trained(tmp_path / "network", trained)
    assert (model.kind, model.size, model.tasks) == ("trained", (16, 16), ("car",))
    folder, words = tmp_path / "network", {"car": TaskWords(("car",))}

    def refused(*parts, kind, tasks=("car",), words=None, size=None):
        load = {"device": "cpu", "size": size}
        fails(lambda: load_task_model(folder, tasks, words, **load), *parts, kind=kind)

    refused("'cow'", "car", tasks=["cow"], kind=ParameterError)
    refused("`task_map`", words=words, kind=ParameterError)
    refused("16 x 16", size=32, kind=InputError)
    (folder / "head.safetensors").write_bytes(b"x")
    refused("head.safetensors", kind=FormatError)


def test_an_auxiliary_output_predicts_the_cue(made):
    settings = replace(SETTINGS, auxiliary=1.0, lr=0.05, epochs=8)
    trained = finished(DATA, jobs_of(["erm"]), settings, made)
    network = trained.network(0)
    assert network.head.out_features == 2
    network.training(False)
    with torch.no_grad():
        rows = DATA.rows["test"]
        cue = network.logits(network.backbone.prepare(DATA.inputs.batch(rows)))[:, 1].numpy()
    there = DATA.environments["car"][rows] % 2 == 1
    assert cue[there].mean() > cue[~there].mean() + 0.5


def test_environments_recover_what_erm_loses_to_the_shortcut(made):
    """As for heads: the cue goes with the label in training, and not on hard images."""
    data = pictures(n_train=600, n_other=150)
    settings = TuneSettings(lr=0.02, batch=32, epochs=6, patience=6)
    methods = {"erm": None, "environment-reweight": {"alpha": 1}, "gdro": {"K": 0}, "dfr": None}
    trained = finished(data, jobs_of(methods), settings, made)
    found = {method: hard_auc(trained, data, method) for method in methods}
    assert found["erm"] < 0.4, found
    for method in list(methods)[1:]:
        assert found[method] > found["erm"] + 0.3, found


def test_pixels_of_the_released_variant_are_not_normalized(made, tmp_path):
    """The released code divides by 255 and resizes; normalize decides where it is given."""
    released = replace(SETTINGS, variant="released")
    rows = DATA.rows["test"][:5]
    pixels = DATA.inputs.batch(rows)
    scaled = torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255
    mean, std = (torch.tensor(values)[:, None, None] for values in (IMAGENET.mean, IMAGENET.std))
    for settings, expected in (
        (SETTINGS, (scaled - mean) / std),
        (replace(released, normalize=True), (scaled - mean) / std),
        (released, scaled),
        (replace(SETTINGS, normalize=False), scaled),
    ):
        backbone = small(tmp_path, settings)(0)
        assert torch.allclose(backbone.prepare(pixels), expected, atol=1e-6)
    assert backbone.describe()["preprocessing"]["mean"] == (0.0, 0.0, 0.0)
    # a saved network says so itself, and predicts as it was trained
    bare = small(tmp_path, released)
    trained = finished(DATA, jobs_of(["erm"]), released, bare)
    trained.save(0, tmp_path / "network")
    network, _ = load_network(tmp_path / "network", device="cpu")
    assert network.backbone.preprocessing == bare(0).preprocessing
    answers_as_trained(tmp_path / "network", trained)
    other = finished(DATA, jobs_of(["erm"]), replace(released, normalize=True), made)
    assert np.abs(other.logits("test")[0] - trained.logits("test")[0]).max() > 1e-3


def test_another_setting_is_another_job():
    (job,) = jobs_of(["erm"])
    named = {job.identity(replace(SETTINGS, normalize=value), {}) for value in (None, True, False)}
    assert len(named) == 3


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_a_fused_optimiser_goes_on_with_channels_last(optimiser, tmp_path, monkeypatch):
    """As on a GPU, where optimizers are fused: momenta must lie in memory as weights do."""
    make = OPTIMISERS[optimiser]
    fused = lambda learned, settings, fused: make(learned, settings, fused=True)  # noqa: E731
    monkeypatch.setitem(OPTIMISERS, optimiser, fused)
    settings = replace(SETTINGS, channels_last=True, optimiser=optimiser, lr=0.001)
    given = DATA, jobs_of(["erm"]), settings, small(tmp_path, settings)
    assert valid_losses(finished(*given)) == valid_losses(finished(*given, interrupted=True))
