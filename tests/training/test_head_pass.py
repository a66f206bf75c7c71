"""Many heads in one pass against one plain PyTorch training after another."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from pixel_arrays import derived
from refusals import refused
from shortcuts import finished, hard_auc, jobs_of, shortcut

from nooch.training.block_sgd import Coefficients, Descent, HeadState, run_epoch
from nooch.training.head_pass import HeadPass
from nooch.training.jobs import ProbeSettings
from nooch.training.methods import METHODS, PAPER_METHODS, grid_of_methods
from nooch.training.objectives import OBJECTIVES, TrainingCounts, losses
from nooch.training.samplers import Balance, RandomStreams, Redraw, row_weights
from nooch.training.training_data import counts_of, expected_of, mixture_of

torch = pytest.importorskip("torch")

SMALL_BATCHES = {"batch": 16, "epochs": 6, "patience": 2, "block": 4}
FAST = ProbeSettings(Descent(lr=0.02, momentum=0.9, weight_decay=1e-3), "none", **SMALL_BATCHES)
DATA, SMALL = shortcut(), shortcut(n_train=120, n_other=60)


def plain_head(seed, d, descent):
    """A Linear that starts as a head does, and torch's optimizer for it."""
    start, linear = HeadState.initial([seed], d), torch.nn.Linear(d, 1)
    with torch.no_grad():
        linear.weight.copy_(start.weights[:, :1].T)
        linear.bias.copy_(start.biases[:1])
    return linear, torch.optim.SGD(linear.parameters(), **asdict(descent))


def weights_of(linear):
    return np.append(linear.weight.detach().numpy()[0], linear.bias.item())


def alone(data, job, settings, last=False):
    """Plain PyTorch: one Linear, autograd, SGD; best validation value, epoch and weights."""
    kind, parameters = job.kind, dict(job.parameters)
    linear, optimiser = plain_head(job.seed, data.inputs.shape[1], settings.descent)
    train, valid = data.rows["train"], data.rows["valid"]
    x, y = torch.from_numpy(data.inputs), torch.from_numpy(data.labels[job.task]).float()[:, None]
    c = torch.from_numpy(data.environments[job.task]).long()[:, None]
    tables = (data.labels[job.task][train], 2), (data.environments[job.task][train], 4)
    counts = [torch.from_numpy(np.bincount(v, minlength=n)).float()[:, None] for v, n in tables]
    own = {n: v for n, v in parameters.items() if n in kind.objective_class.ranges}
    objective = kind.objective_class(TrainingCounts(*counts), **own, variant=settings.variant)
    best, first = (np.inf, 0, None), None
    if kind.first:
        plain = replace(settings, epochs=kind.first.epochs(parameters), patience=1000)
        head = alone(data, replace(job, method="erm", parameters=()), plain, last=True)
        inputs = {split: data.inputs[data.rows[split]] for split in ("train", "valid")}
        first = {split: x @ head[:-1] + head[-1] for split, x in inputs.items()}
    for epoch in range(settings.epochs):
        order = np.random.default_rng([job.order, 0, epoch]).permutation(len(train))
        taken = counts_of(data, job, epoch, first)
        mixture = mixture_of(data, job, epoch, settings.variant)
        weights = None if taken is None else row_weights(taken)
        for begin in range(0, len(order), settings.batch):
            places = order[begin : begin + settings.batch]
            rows = train[places if mixture is None else mixture.rows[places]]
            inputs, labels = x[rows], y[rows]
            if mixture is not None:
                other = train[mixture.partners[places]]
                share = torch.from_numpy(mixture.weights[places])[:, None]
                inputs, labels = (share * a[rows] + (1 - share) * a[other] for a in (x, y))
            logits = linear(inputs)
            times = None if weights is None else torch.from_numpy(weights[places])[:, None]
            drawn = None if times is None else (times * losses(logits, labels)).mean()
            loss = objective(logits, labels, c[rows]) if drawn is None else drawn
            optimiser.zero_grad()
            loss.sum().backward()
            optimiser.step()
        with torch.no_grad():
            logits = linear(x[valid])
            if weights is None:
                value = float(objective.measure(logits, y[valid], c[valid]))
            else:
                expected = torch.from_numpy(expected_of(data, job, first))[:, None]
                value = float((expected * losses(logits, y[valid])).mean())
        if value < best[0]:
            best = value, epoch + 1, weights_of(linear)
        if epoch + 1 - best[1] >= settings.patience:
            break
    return weights_of(linear) if last else best


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_all_methods_in_one_pass_equal_one_training_after_another(variant):
    # slow enough for IRM with its largest weight to stay where rounding does not grow
    settings = replace(FAST, variant=variant, descent=Descent(0.002, 0.9, 1e-3))
    jobs = jobs_of(list(METHODS), tasks=("car", "bowl"), seeds=(0, 3), order=7)
    others = {job.method: job for job in jobs if (job.task, job.seed) == ("bowl", 3)}.values()
    shared, stopped, done = {}, set(), []
    for job in jobs:
        shared.setdefault(job.shares, []).append(job)
    # mixup and LISA have rows of their own
    assert len(shared) == 1 + 2 + 2 * 3
    passes = [finished(SMALL, members, settings) for members in shared.values()]
    for trained, number, job in ((t, *pair) for t in passes for pair in enumerate(t.jobs)):
        done.append(job)
        # every setting of one task and seed, one setting of each method of another
        if (job.task, job.seed) != ("car", 0) and job not in others:
            continue
        value, epoch, weights = alone(SMALL, job, settings)
        assert trained.best["value"][number] == pytest.approx(value, rel=1e-4), job
        assert trained.best["epoch"][number] == epoch, job
        # float32, and objectives with a sign or a largest one make more of its rounding
        tolerance = 1e-4 * max(1, np.abs(weights).max())
        assert np.abs(trained.best_weights[number] - weights).max() < tolerance, job
        stopped.add(epoch)
    assert sorted(map(str, done)) == sorted(map(str, jobs))
    # heads stop at different epochs, so that some went on without the others
    assert len(stopped) > 1


@pytest.mark.parametrize("block", [1, 3, 8, 100])
@pytest.mark.parametrize(
    "descent", [Descent(0.05, 0.0, 0.0), Descent(0.1, 0.9, 0.05), Descent(1e-4, 0.99, 1e-4)]
)
def test_blocks_are_steps(block, descent):
    """The block rule in float64 against steps, the last batch being smaller."""
    random = np.random.default_rng(0)
    n, d, heads, batch = 53, 5, 3, 8
    x = random.normal(size=(n, d))
    y = torch.from_numpy((random.random((n, heads)) < 0.5).astype(float))
    states = [HeadState.initial(range(heads), d) for _ in range(2)]
    states = [HeadState(s.weights.double(), s.biases.double()) for s in states]
    objective = OBJECTIVES["erm"](TrainingCounts.from_numbers([1, 1]))
    x = x.astype(np.float32)

    def gradient(rows):
        return lambda logits, part: derived(objective, logits, y[rows][part], y[rows][part])

    order = random.permutation(n)
    for _ in range(2):
        run_epoch(states[0], x, order, gradient, descent, batch=batch, block=block)
    weights = states[1].weights[:, :heads].clone()
    momenta = torch.zeros(d, heads, dtype=torch.float64)
    bias, push = states[1].biases[:heads].clone(), torch.zeros(heads, dtype=torch.float64)
    for _ in range(2):
        for start in range(0, n, batch):
            rows = order[start : start + batch]
            inputs = torch.from_numpy(x[rows]).double()
            _, derivative = derived(objective, inputs @ weights + bias, y[rows], y[rows])
            mu, decay = descent.momentum, descent.weight_decay
            momenta = mu * momenta + inputs.T @ derivative + decay * weights
            push = mu * push + derivative.sum(dim=0) + decay * bias
            weights, bias = weights - descent.lr * momenta, bias - descent.lr * push
    assert torch.allclose(states[0].weights, torch.cat([weights, momenta], dim=1), atol=1e-10)
    assert torch.allclose(states[0].biases, torch.cat([bias, push]), atol=1e-10)


def test_the_same_bits_again_and_after_an_interruption():
    methods = ["erm", "gdro", "online-gdro", "environment-undersample", "subg", "jtt", "afr"]
    jobs = jobs_of(methods, tasks=("car", "bowl"), seeds=(0, 1))
    one, other = finished(DATA, jobs, FAST), HeadPass(DATA, jobs[::-1], FAST)
    while not other.finished:
        other.step()
        saved = {name: array.copy() for name, array in other.state_dict().items()}
        # a new process knows only what was saved
        other = HeadPass(DATA, jobs, FAST)
        other.load_state_dict(saved)
    assert one.jobs == other.jobs
    assert np.array_equal(one.best_weights, other.best_weights)
    assert all(np.array_equal(one.best[name], other.best[name]) for name in one.best)
    for a, b in zip(one.history, other.history, strict=True):
        assert all(np.array_equal(a[name], b[name], equal_nan=True) for name in a)


def test_environment_methods_resist_the_shortcut():
    data = shortcut(n_train=3000, n_other=1000)
    settings = ProbeSettings(epochs=12, patience=12)
    methods = {
        "erm": None,
        "environment-reweight": {"alpha": [1, 2]},
        "gdro": {"K": [0, 5]},
        "subg": None,
        "environment-undersample": {"alpha": 1},
    }
    trained = finished(data, jobs_of(methods, seeds=(0, 1)), settings)
    erm = hard_auc(trained, data, "erm")
    assert erm < 0.6
    for method in methods:
        if method != "erm":
            assert hard_auc(trained, data, method) > erm + 0.15, method


def redrawn(data, alpha, order, settings, task="car"):
    """Undersampling by the letter (Eq. 3): n rows drawn with replacement each epoch."""
    train, groups = data.rows["train"], data.environments[task].astype(np.int64)
    linear, optimiser = plain_head(0, data.inputs.shape[1], settings.descent)
    sizes = np.bincount(groups[train])
    chance = (len(train) / sizes[groups[train]]) ** alpha
    random = np.random.default_rng([order, 99])
    x, y = torch.from_numpy(data.inputs), torch.from_numpy(data.labels[task]).float()[:, None]
    for _ in range(settings.epochs):
        drawn = train[random.choice(len(train), len(train), p=chance / chance.sum())]
        for begin in range(0, len(drawn), settings.batch):
            rows = drawn[begin : begin + settings.batch]
            optimiser.zero_grad()
            losses(linear(x[rows]), y[rows]).mean().backward()
            optimiser.step()
    with torch.no_grad():
        return linear(x[data.rows["test"]]).numpy()[:, 0].astype(float)


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_row_weights_come_out_where_redrawing_does(alpha):
    """In a pass batches differ, but the model is the same up to noise between two orders."""
    from nooch.evaluation.metrics import auc, nll

    data = shortcut(n_train=2000, n_other=1000)
    settings = ProbeSettings(Descent(0.002, 0.9, 1e-4), "none", epochs=6, patience=6)
    rows = data.rows["test"]
    y, c = data.labels["car"][rows], data.environments["car"][rows]
    hard = (c == 1) | (c == 2)
    ours, theirs = [], []
    for order in range(4):
        # the last epoch of both, not the best of one; a pass has no head after its own last epoch
        longer = replace(settings, epochs=settings.epochs + 1, patience=settings.epochs + 1)
        jobs = jobs_of({"environment-undersample": {"alpha": alpha}}, order=order)
        trained = HeadPass(data, jobs, longer)
        for _ in range(settings.epochs):
            trained.step()
        z = trained.state.logits(torch.from_numpy(data.inputs[rows]))[:, 0].numpy().astype(float)
        for values, found in ((z, ours), (redrawn(data, alpha, order, settings), theirs)):
            found.append((auc(y[hard], values[hard]), auc(y[~hard], values[~hard]), nll(y, values)))
    # AUC of hard images varies by several hundredths between orders of drawing, of either kind
    error = np.sqrt((np.var(ours, axis=0, ddof=1) + np.var(theirs, axis=0, ddof=1)) / len(ours))
    apart = np.abs(np.mean(ours, axis=0) - np.mean(theirs, axis=0))
    assert (apart < 3 * error + 0.01).all(), (ours, theirs)
    assert error.max() < 0.03


def test_a_seed_is_the_start_and_an_order_the_rows():
    a, b = HeadState.initial([0, 1], 6), HeadState.initial([1, 0], 6)
    assert torch.equal(a.weights[:, 0], b.weights[:, 1])
    assert not torch.equal(a.weights[:, 0], a.weights[:, 1])
    bound = 1 / 6**0.5
    assert float(a.weights[:, :2].abs().max()) <= bound
    assert not a.weights[:, 2:].any()
    once = replace(FAST, epochs=1)
    orders = [finished(DATA, jobs_of(["erm"], order=n), once).best_weights for n in (0, 1)]
    assert not np.array_equal(*orders)


def test_sampling_by_groups():
    groups = np.array([0] * 900 + [1] * 90 + [3] * 10, dtype=np.uint8)
    for alpha in (0.0, 0.5, 1.0):
        sampler, given = Redraw("labels"), {"alpha": alpha}
        streams = (RandomStreams(0, "a", epoch) for epoch in range(300))
        drawn = [sampler.counts(groups, given, stream) for stream in streams]
        draws = np.mean(drawn, axis=0)
        assert {counts.sum() for counts in drawn} == {len(groups)}
        # P proportional to (1 / w)^alpha
        chance = np.array([(1000 / size) ** alpha for size in (900, 90, 10)])
        chance /= chance @ [900, 90, 10]
        for group, p in zip((0, 1, 3), chance, strict=True):
            assert draws[groups == group].mean() == pytest.approx(1000 * p, rel=0.05)
            expected = sampler.expected(groups, given, np.array([group], np.uint8))[0]
            assert expected == pytest.approx(1000 * p, rel=1e-5)
    kept = row_weights(Balance("labels").counts(groups, {}, RandomStreams(0, "a")))
    assert [(kept[groups == g] > 0).sum() for g in (0, 1, 3)] == [10, 10, 10]
    assert kept.mean() == pytest.approx(1)


def test_table_8():
    settings = grid_of_methods(None)
    assert len(settings) == 32
    assert {name for name, _ in settings} == set(PAPER_METHODS)
    assert [v["K"] for name, v in settings if name == "gdro"] == [5, 30, 60, 240]
    alphas = [v["alpha"] for name, v in settings if name == "environment-reweight"]
    assert alphas == [0.5, 1, 1.5, 2]
    assert [v["p"] for name, v in settings if name == "cvar"] == [0.05, 0.1, 0.15]
    assert METHODS["erm"].sees == () == METHODS["focal"].sees
    assert METHODS["gdro"].needs_environments
    assert not METHODS["label-reweight"].needs_environments


def test_what_is_refused():
    for grid, *parts in (
        (["gdor"], "gdor", "gdro"),
        ({"gdro": {"k": 5}}, "'k'", "K"),
        ({"erm": {"K": 5}}, "K"),
        ({"gdro": {"K": [5, 5]}}, "different"),
        ({"gdro": {"K": "5"}}, "'5'"),
        ({"cvar": {"p": 2}}, "p is 2"),
        ({"gdro": 5}, "gdro"),
    ):
        refused(lambda grid=grid: grid_of_methods(grid), *parts)
    refused(lambda: Descent(lr=0), "`lr`: is 0")
    refused(lambda: Descent(momentum=1), "`momentum`: is 1")
    for jobs in (jobs_of(["erm", "mixup"]), []):
        refused(lambda jobs=jobs: HeadPass(SMALL, jobs, FAST), "Job.shares")
    refused(lambda: ProbeSettings(batch=0), "`batch`: is 0")


def test_coefficients_are_powers():
    descent = Descent(0.1, 0.9, 0.01)
    numbers = Coefficients(descent, 5)
    w, v = 1.0, 0.0
    for step in range(1, 6):
        v = 0.9 * v + 0.01 * w
        w -= 0.1 * v
        assert numbers.powers[step] @ [1, 0] == pytest.approx([w, v])
