"""Whole networks against a plain PyTorch loop, alone and side by side, interrupted and not."""

import io
from dataclasses import replace

import numpy as np
import pytest
from image_folders import image_dataset, tiny_resnet
from pixel_arrays import TINY, Pictures, fit, objective, squares, tiny_vit
from refusals import fails

from nooch.base.errors import FormatError, InputError, NoochError, ParameterError
from nooch.models.caches.pixels import build_pixels
from nooch.models.networks import Network, backbones, read_outputs
from nooch.training.block_sgd import Descent
from nooch.training.epoch_batches import BatchHooks
from nooch.training.network_pass import NetworkPass, NetworkTrainer, Target
from nooch.training.network_settings import TuneSettings
from nooch.training.objectives import losses

torch = pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
pytest.importorskip("transformers", reason="transformers is not installed (nooch[train])")

PIXELS, Y, ENVIRONMENTS = squares()
ROWS = {"train": np.arange(5, 60), "valid": np.arange(60, 90), "test": np.arange(5)}
FAST = TuneSettings(lr=0.02, weight_decay=1e-3, batch=16, epochs=3)
AS_IS = BatchHooks()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Tiny networks by name."""
    return {name: make(tmp_path_factory.mktemp("networks") / name) for name, make in TINY.items()}


@pytest.fixture(scope="module")
def resnet(folders):
    return folders["resnet"]


def target(kind="erm", seed=0, y=Y, environments=ENVIRONMENTS, parameters=None, **more):
    train = ROWS["train"]
    made = objective(kind, y[train], environments[train], **(parameters or {}))
    labels = y.astype(np.float32).reshape(len(y), -1)
    more = {"environments": environments.reshape(labels.shape), **more}
    name = more.pop("name", f"{kind} {parameters} {seed}")
    return Target(name, labels, made, seed, **more)


def factory(folder, settings=FAST):
    return backbones(folder, settings.network, device="cpu")


def trained(folder, targets, settings=FAST, hooks=AS_IS, pixels=PIXELS):
    return fit(factory(folder, settings), pixels, ROWS, targets, settings, hooks)


def weights(network):
    return torch.cat([value.double().flatten() for value in network.moving().values()])


OPTIMISERS = {
    "sgd": torch.optim.SGD,
    "adam": lambda p, momentum, **more: torch.optim.Adam(p, **more),
}


def plain(folder, given, settings, *, order=None, mixture=None, rates=None):
    """The loop as one writes it: transformers' model, a Linear, autograd; all moving values after
    each epoch.
    """
    from transformers import AutoModel

    from nooch.training.block_sgd import HeadState

    network, outputs = factory(folder, settings)(0), given.n_outputs + given.n_auxiliary
    body = AutoModel.from_pretrained(folder)
    start = HeadState.initial([given.seed + 1_000_003 * n for n in range(outputs)], 16)
    head = torch.nn.Linear(16, outputs)
    with torch.no_grad():
        head.weight.copy_(start.weights[:, : len(head.weight)].T)
        head.bias.copy_(start.biases[: len(head.weight)])
    learned = [*body.parameters(), *head.parameters()]
    rates_of = {name: getattr(settings, name) for name in ("lr", "momentum", "weight_decay")}
    optimiser = OPTIMISERS[settings.optimiser](learned, **rates_of)
    images, y = network.prepare(PIXELS.array), torch.from_numpy(given.labels)
    environments = torch.from_numpy(given.environments.astype(np.int64))
    after = []
    for epoch in range(settings.epochs):
        train = ROWS["train"]
        random = np.random.default_rng([0, 0, epoch])
        rows = train[random.permutation(len(train))] if order is None else order(epoch)
        for group in optimiser.param_groups:
            group["lr"] = settings.lr * (rates[epoch] if rates else 1)
        body.train()
        for start in range(0, len(rows), settings.batch):
            part = slice(start, start + settings.batch)
            batch = torch.from_numpy(rows[part])
            x, labels = images[batch], y[batch]
            if mixture is not None:
                partners, shares = (torch.from_numpy(each[part]) for each in mixture(epoch))
                x = shares.view(-1, 1, 1, 1) * x + (1 - shares).view(-1, 1, 1, 1) * images[partners]
                labels = shares[:, None] * labels + (1 - shares)[:, None] * y[partners]
            logits = head(body(x).pooler_output.flatten(1))
            k = given.n_outputs
            loss = given.objective(logits[:, :k], labels, environments[batch]).mean()
            if given.auxiliary is not None:
                extra = torch.from_numpy(given.auxiliary)[batch]
                loss = loss + settings.auxiliary * losses(logits[:, k:], extra).mean()
            optimiser.zero_grad()
            loss.backward()
            if settings.clip:
                torch.nn.utils.clip_grad_norm_(learned, settings.clip)
            optimiser.step()
        body.eval()
        moving = [head.weight, head.bias, *body.parameters(), *body.buffers()]
        after.append(torch.cat([value.detach().double().flatten() for value in moving]))
    return after


def sampled(epoch):
    return ROWS["train"][np.random.default_rng([7, epoch]).integers(0, 20, 40)]


def mixed(epoch):
    random = np.random.default_rng([8, epoch])
    return ROWS["train"][random.integers(0, 55, 55)], random.random(55).astype(np.float32)


CUE = (ENVIRONMENTS % 2).astype(np.float32)[:, None]
TWO = np.stack([Y, ENVIRONMENTS % 2 > 0], axis=1)
WEIGHTS = np.random.default_rng(3).random(90)
HALVED = {"schedule": "step", "decay": 0.5, "decay_epochs": 1}
CASES = {
    "erm": (target(), {}, {}, {}),
    "adam": (target(), {"optimiser": "adam", "lr": 1e-3}, {}, {}),
    "gdro": (target("gdro", parameters={"K": 2.0}), {}, {}, {}),
    "online": (target("online-gdro", parameters={"eta": 0.5}), {}, {}, {}),
    "schedule": (target(), HALVED, {}, {"rates": [1, 0.5, 0.25]}),
    "clip": (target(), {"clip": 0.3}, {}, {}),
    "rows": (target(), {}, {"rows": sampled}, {"order": sampled}),
    "mix": (target(), {}, {"mix": mixed}, {"mixture": mixed}),
    "auxiliary": (target(auxiliary=CUE), {"auxiliary": 0.7}, {}, {}),
    "two classes": (target(y=TWO, environments=np.zeros((90, 2), np.uint8)), {}, {}, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_steps_are_those_of_a_plain_loop(case, resnet):
    given, changes, hooks, loop = CASES[case]
    settings = replace(FAST, **changes)
    source = factory(resnet, settings)
    found = NetworkPass(source, PIXELS, ROWS, [given], settings, BatchHooks(**hooks))
    start = weights(found.trainers[0].network).clone()
    for expected in plain(resnet, given, settings, **loop):
        found.step()
        # at the last epoch the network goes back to the best one
        if not found.finished:
            now = weights(found.trainers[0].network)
            assert (now - expected).abs().max() < 1e-6
            assert (now - start).abs().max() > 1e-3
    assert found.epoch == 3


def _bytes(arrays):
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


SEVERAL = [
    target("erm", 0),
    target("gdro", 1, parameters={"K": 2.0}),
    target("online-gdro", 1, parameters={"eta": 0.5}),
    target("focal", 0, parameters={"gamma": 1.0}),
]
STOPPING = replace(FAST, lr=0.05, epochs=8, patience=1, augment=("affine", "flip"))


@pytest.mark.parametrize("kind", TINY)
def test_side_by_side_equals_alone_to_the_bit(kind, folders):
    together = trained(folders[kind], SEVERAL, STOPPING)
    logits = together.logits("valid")
    assert len(set(together.best["epoch"])) > 1
    for number, given in enumerate(SEVERAL):
        alone = trained(folders[kind], [given], STOPPING)
        states = [t.state_dict() for t in (alone.trainers[0], together.trainers[number])]
        assert _bytes(states[0]) == _bytes(states[1])
        assert np.array_equal(alone.logits("valid")[0], logits[number])
        assert alone.best["epoch"][0] == together.best["epoch"][number]
        values = [record["valid"][number] for record in together.history]
        assert values[: alone.epoch] == [record["valid"][0] for record in alone.history]
        assert np.isnan(values[alone.epoch :]).all()


@pytest.mark.parametrize("kind", TINY)
def test_interrupted_after_every_epoch_ends_with_the_same_bytes(kind, folders):
    adam = {"optimiser": "adam", "lr": 0.01, "epochs": 4}
    settings = replace(STOPPING, **adam, schedule="cosine", decay_epochs=3)
    hooks = BatchHooks(order=3, mix=mixed)
    expected = trained(folders[kind], SEVERAL, settings, hooks)
    saved, ahead = None, 0
    while ahead < expected.epoch:
        # as a new process: nothing but the arrays is carried over
        torch.manual_seed(ahead)
        source = factory(folders[kind], settings)
        again = NetworkPass(source, PIXELS, ROWS, SEVERAL, settings, hooks)
        if saved is not None:
            again.load_state_dict(dict(np.load(io.BytesIO(saved), allow_pickle=False)))
        again.step()
        saved, ahead = _bytes(again.state_dict()), ahead + 1
    assert again.finished
    assert saved == _bytes(expected.state_dict())
    assert np.array_equal(again.logits("test"), expected.logits("test"))


def test_what_is_drawn_elsewhere_changes_nothing_and_is_not_changed(folders):
    seen = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        seen.append(_bytes(trained(folders["vit"], [target()]).state_dict()))
        drawn = torch.rand(1)
        torch.manual_seed(seed)
        assert drawn == torch.rand(1)
    assert seen[0] == seen[1]
    assert _bytes(trained(folders["vit"], [target(seed=1)]).state_dict()) != seen[0]


def test_a_network_goes_back_to_its_best_epoch(resnet):
    settings = replace(FAST, lr=0.3, epochs=30, patience=2)
    found = trained(resnet, [target(seed=s, name=str(s)) for s in range(3)], settings)
    valid = ROWS["valid"]
    for number, logits in enumerate(found.logits("valid")):
        values = np.array([record["valid"][number] for record in found.history])
        best = int(np.nanargmin(values))
        assert found.best["epoch"][number] == best + 1
        assert np.isfinite(values).sum() == best + 1 + settings.patience
        loss = losses(torch.from_numpy(logits), torch.from_numpy(Y[valid, None]).float()).mean()
        assert abs(float(loss) - values[best]) < 1e-6
        assert np.array_equal(read_outputs([found.network(number)], PIXELS, valid, 16)[0], logits)
    for record in found.history:
        assert np.array_equal(record["valid"], record["nll"], equal_nan=True)
    assert found.best_epochs.all()


def test_predictions_come_after_the_end_and_training_resumes_after_a_refusal(resnet):
    settings = replace(FAST, lr=0.3, epochs=4)
    passes = [NetworkPass(factory(resnet), PIXELS, ROWS, [target()], settings) for _ in range(2)]
    for epoch in range(4):
        for number, each in enumerate(passes):
            each.step()
            if number and epoch < 3:
                fails(lambda p=each: p.network(0), "still in training", kind=ParameterError)
                fails(lambda p=each: p.logits("valid"), "still in training", kind=ParameterError)
    assert _bytes(passes[0].state_dict()) == _bytes(passes[1].state_dict())


def test_the_head_alone_is_probe_mode(resnet):
    from nooch.training.head_pass import HeadPass
    from nooch.training.jobs import Job, ProbeSettings
    from nooch.training.training_data import TrainingData

    settings = replace(FAST, train="head", lr=0.05, epochs=5)
    found = trained(resnet, [target("gdro", 4, parameters={"K": 5.0})], settings)
    network = found.network(0)
    every = read_outputs([network], PIXELS, np.arange(90), 16, Network.features)[0]
    frozen = factory(resnet)(0)
    with torch.no_grad():
        assert np.abs(every - frozen.features(frozen.prepare(PIXELS.array)).numpy()).max() < 1e-6
    job = Job("car", "gdro", (("K", 5.0),), seed=4, order=0)
    probe = ProbeSettings(Descent(0.05, 0.9, 1e-3), "none", batch=16, epochs=5)
    heads = HeadPass(TrainingData(every, ROWS, {"car": Y}, {"car": ENVIRONMENTS}), [job], probe)
    while not heads.finished:
        heads.step()
    for mine, theirs in zip(found.history, heads.history, strict=True):
        for name in ("train", "valid", "nll"):
            assert abs(mine[name][0] - theirs[name][0]) < 1e-5
    ours = torch.cat([network.head.weight[0], network.head.bias]).detach().numpy()
    assert np.abs(ours - heads.best_weights[0]).max() < 1e-5


def test_validation_weights_and_other_rules_to_stop(resnet):
    valid, settings = ROWS["valid"], replace(FAST, epochs=1)
    weight = np.random.default_rng(0).random(30)
    given = {
        "weights": target(valid_weights=weight),
        "gdro": target("gdro", parameters={"K": 9.0}),
        "auxiliary": target(auxiliary=CUE),
        "two": target(y=TWO, environments=np.zeros((90, 2), np.uint8)),
    }
    for name, each in given.items():
        mine = replace(settings, auxiliary=0.5 if name == "auxiliary" else 0.0)
        for stop_on in ("objective", "nll", "batches"):
            found = trained(resnet, [each], replace(mine, stop_on=stop_on))
            logits = torch.from_numpy(found.logits("valid")[0])
            values = losses(logits, torch.from_numpy(each.labels[valid]))
            expected = {"weights": (torch.from_numpy(weight)[:, None] * values).mean()}
            if name == "gdro":
                environments = torch.from_numpy(ENVIRONMENTS[valid, None].astype(np.int64))
                y = torch.from_numpy(Y[valid, None]).float()
                size = mine.batch if stop_on == "batches" else 30
                batches = [t.split(size) for t in (logits, y, environments)]
                sums = [float(each.objective(*b)) * len(b[0]) for b in zip(*batches, strict=True)]
                expected["gdro"] = sum(sums) / 30
            if stop_on == "batches":
                # whose rows are drawn in training is not drawn in validation
                del expected["weights"]
            wanted = values.mean() if stop_on == "nll" else expected.get(name, values.mean())
            assert abs(found.best["value"][0] - float(wanted)) < 1e-6
            assert abs(found.history[0]["nll"][0] - float(values.mean())) < 1e-6
            assert logits.shape == (30, each.n_outputs)


def test_frozen_statistics_stay_and_others_move(resnet):
    for batchnorm in ("train", "frozen"):
        found = trained(resnet, [target()], replace(FAST, batchnorm=batchnorm, epochs=1)).network(0)
        before, after = factory(resnet)(0).module.state_dict(), found.backbone.module.state_dict()
        same = {n: torch.equal(before[n], after[n]) for n in before}
        assert all(kept == (batchnorm == "frozen") for n, kept in same.items() if "running" in n)
        moving = ("normalization.weight", "convolution.weight")
        assert not any(kept for n, kept in same.items() if n.endswith(moving))


def test_from_scratch_weights_follow_the_seed(resnet):
    settings = replace(FAST, epochs=1)
    source = backbones(f"config:{resnet}", settings.network, size=32, device="cpu")
    name = "embedder.embedder.convolution.weight"
    first = [source(n % 2).module.state_dict()[name] for n in range(3)]
    assert torch.equal(first[0], first[2])
    assert not torch.equal(first[0], first[1])
    found = fit(source, PIXELS, ROWS, [target(seed=s, name=str(s)) for s in (0, 1)], settings)
    assert found.best["epoch"].tolist() == [1, 1]


def test_networks_from_tensorflow_keep_their_statistics(tmp_path):
    from image_folders import save_model
    from transformers import MobileNetV1Config, MobileNetV1Model

    config = MobileNetV1Config(depth_multiplier=0.25, min_depth=4)
    folder = save_model(MobileNetV1Model(config), tmp_path / "mobilenet")
    found = NetworkPass(factory(folder), PIXELS, ROWS, [target()], FAST).trainers[0].network
    modules = found.backbone.module.modules()
    assert {part.momentum for part in modules if hasattr(part, "momentum")} == {0.1}


@pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")
@pytest.mark.parametrize("train", ["all", "affine"])
def test_compiled_rounded_and_otherwise_ordered_networks_are_close(train, resnet, monkeypatch):
    compiled, whole = [], torch.compile

    def traced(module, **_):
        # the graph is caught and differentiated as a compiler would, without the minute that code
        # for it takes
        compiled.append(whole(module, backend="aot_eager"))
        return compiled[-1]

    monkeypatch.setattr(torch, "compile", traced)
    # all batches are of one size: another one is traced again
    settings = replace(FAST, lr=0.01, train=train, epochs=2, batch=5)
    # code that is made for one network serves the next one: its weights must not be those of the
    # first
    two = [target(), target("gdro", seed=1, parameters={"K": 9.0})]
    expected = np.stack(trained(resnet, two, settings).logits("valid"))
    assert np.abs(expected[0] - expected[1]).max() > 0.1
    layouts = (("compile", True, 1e-4), ("channels_last", True, 1e-4), ("precision", "bf16", 0.1))
    for name, value, tolerance in layouts:
        changes = {name: value}
        found = trained(resnet, two, replace(settings, **changes))
        apart = np.abs(np.stack(found.logits("valid")) - expected).max()
        assert apart < tolerance * max(1, np.abs(expected).max()), changes
        state = found.state_dict()
        assert all(array.dtype.kind in "fiub" for array in state.values())
        source = factory(resnet, replace(settings, **changes))
        again = NetworkPass(source, PIXELS, ROWS, two, found.settings)
        again.load_state_dict(state)
        assert np.array_equal(again.logits("test"), found.logits("test"))
    assert len(compiled) == 4


def test_a_network_that_diverges_says_so_and_stops(resnet):
    settings = replace(FAST, lr=1e30, epochs=20, patience=2)
    found = trained(resnet, [target(), target(seed=1, name="b")], settings)
    assert found.best_epochs.tolist() == [0, 0]
    assert found.epoch == 2
    assert all(np.isnan(record["valid"]).all() for record in found.history)


def test_a_pixel_cache_feeds_it_and_a_last_image_is_not_alone(resnet, tmp_path):
    data = image_dataset(tmp_path, 40)
    cache = build_pixels(data, tmp_path / "pixels", size=32)
    rows = {"train": np.arange(33), "valid": np.arange(33, 40)}
    y = np.arange(40) % 3 == 0
    made = Target("car", y[:, None].astype(np.float32), objective("erm", y[:33]))
    settings = replace(FAST, epochs=2)
    found = fit(factory(resnet), cache, rows, [made], settings)
    assert found.epoch == 2
    same = fit(factory(resnet), Pictures(cache.matrix()), rows, [made], settings)
    assert _bytes(same.state_dict()) == _bytes(found.state_dict())


def test_changes_and_mixtures_come_in_the_order_of_rows(resnet):
    # flips alone: a flipped picture of a picture that is the same from both sides is itself
    both = PIXELS.array.copy()
    both[:, :, 16:] = both[:, :, 15::-1]
    settings = replace(FAST, epochs=2)
    flips = replace(settings, augment=("flip",))

    def state(settings, *hooks, **more):
        return _bytes(trained(resnet, [target()], settings, *hooks, **more).state_dict())

    assert state(settings, pixels=Pictures(both)) == state(flips, pixels=Pictures(both))
    assert state(flips) != state(settings)
    # images mixed with nothing of their partners are as they were
    alone = BatchHooks(mix=lambda epoch: (ROWS["train"][np.arange(55) % 7], np.ones(55)))
    assert state(settings, alone) == state(settings)


def test_what_cannot_be_trained_is_refused_before_training(resnet, tmp_path, monkeypatch):
    monkeypatch.setattr(NetworkTrainer, "step", lambda *_: pytest.fail("training began"))

    def begin(given=None, rows=ROWS, settings=FAST, pixels=PIXELS, folder=resnet, hooks=AS_IS):
        listed = [target()] if given is None else given
        trained_pass = NetworkPass(factory(folder, settings), pixels, rows, listed, settings, hooks)
        trained_pass.step()

    def refused(*parts, kind=ParameterError, helps=True, **given):
        fails(lambda: begin(**given), *parts, kind=kind, helps=helps)

    train, gdro = ROWS["train"], target("gdro", parameters={"K": 1.0})
    for rows, *parts in (
        ({**ROWS, "valid": ROWS["valid"][:0]}, "the split valid has no images"),
        ({"valid": ROWS["valid"]}, "the split train has no images"),
        ({**ROWS, "train": np.arange(200)}, "0 to 199", "0 to 89"),
    ):
        refused(*parts, rows=rows, kind=InputError)
    auxiliary = replace(FAST, auxiliary=1.0)
    for given, settings, part in (
        (target(y=np.arange(90) < 70), FAST, "all 55 training images have the same labels"),
        (target(auxiliary=CUE * 0), auxiliary, "same auxiliary labels"),
        (replace(target(), labels=CUE * np.nan), FAST, "not all 0 to 1"),
    ):
        refused(part, given=[given], settings=settings, kind=InputError)
    for given, *parts in (
        ([], "different names"),
        ([target(), target()], "different names"),
        ([replace(target(), labels=CUE[:50])], "labels has shape (50, 1)", "(90, 1)"),
        ([replace(target(), labels=Y.astype(np.float32))], "labels has shape (90,)"),
        ([replace(target(), labels=TWO * np.float32(1), environments=None)], "heads"),
        ([target(valid_weights=WEIGHTS)], "valid_weights has shape (90,)", "(30,)"),
        ([target(auxiliary=CUE)], "1 auxiliary outputs have the weight 0"),
        ([replace(gdro, environments=gdro.environments + 3)], "environment 6", "0 to 3"),
    ):
        refused(*parts, given=given)
    refused("gdro needs environments", given=[replace(gdro, environments=None)], helps=False)
    for more, *parts in (
        ({"settings": auxiliary}, "0 auxiliary outputs have the weight 1"),
        ({"pixels": Pictures(PIXELS.array[:, :24])}, "pixels of 24 x 32", "32 x 32"),
        ({"hooks": BatchHooks(rows=lambda _: np.arange(9))}, "not training images"),
        ({"hooks": BatchHooks(mix=lambda _: (train[:9], np.ones(9)))}, "partners", "(55,)"),
        ({"hooks": BatchHooks(mix=lambda _: (train, np.full(55, 2.0)))}, "shares"),
    ):
        refused(*parts, **more)
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "config.json").write_bytes((resnet / "config.json").read_bytes())
    fails(lambda: begin(folder=empty), "no weights")
    fails(lambda: begin(folder=tmp_path / "none"), "is not a backbone")


def test_networks_that_take_other_input_cannot_share_it(resnet, tmp_path):
    other = factory(tiny_vit(tmp_path / "vit"), replace(FAST, channels_last=True))
    either = [factory(resnet), other]
    begin = (lambda seed: either[seed](seed)), PIXELS, ROWS, [target(seed=0), target(seed=1)], FAST
    fails(lambda: NetworkPass(*begin), "other input", kind=ParameterError)


def test_running_out_of_memory_says_what_to_do(resnet, monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(NetworkTrainer, "step", full)
    two = [target(seed=s, name=str(s)) for s in (0, 1)]
    parts = "training 2 networks", "`set` batch=8", "networks=1"
    fails(lambda: trained(resnet, two), *parts, kind=NoochError)
    message = fails(lambda: trained(resnet, [target()]), "`set` batch=8", kind=NoochError)
    assert "fewer" not in message


def test_the_state_of_another_network_is_refused(folders):
    saved = trained(folders["vit"], [target()]).state_dict()
    again = NetworkPass(factory(folders["resnet"]), PIXELS, ROWS, [target()], FAST)
    fails(lambda: again.load_state_dict(saved), "another network", kind=FormatError)


def test_all_classes_in_one_network(resnet):
    y = np.stack([Y, ENVIRONMENTS % 2 > 0, np.arange(90) % 5 == 0], axis=1)
    given = replace(target(y=y, environments=np.zeros((90, 3), np.uint8)), environments=None)
    settings = TuneSettings(optimiser="adam", lr=3e-3, batch=16, epochs=12, patience=12)
    found = trained(resnet, [given], settings)
    assert found.logits("valid")[0].shape == (30, 3)
    assert found.history[-1]["train"][0] < 0.75 * found.history[0]["train"][0]
    none = [found.network(0)], PIXELS, ROWS["test"][:0], 4
    fails(lambda: read_outputs(*none), "no images", kind=ParameterError)


def test_tiny_networks_are_what_they_are_said_to_be(tmp_path):
    assert tiny_resnet(tmp_path / "again").is_dir()
    modules = factory(tiny_vit(tmp_path / "vit"))(0).module.modules()
    assert any(isinstance(module, torch.nn.Dropout) and module.p > 0 for module in modules)
