"""Networks that share an order of rows: a batch is prepared once, then each takes a step. Their
targets are checked before training starts.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import Command, FormatError, InputError, NoochError, ParameterError, some_of
from nooch.models.backbones import Backbone
from nooch.models.devices import memory_limits, reuse_memory
from nooch.models.networks import Backbones, Network, build_network, read_outputs
from nooch.models.pixel_batches import Pixels, check_pixels
from nooch.training.epoch_batches import BatchHooks, Epochs, SharedBatch, on_device
from nooch.training.network_settings import OPTIMISERS, TuneSettings
from nooch.training.objectives import Objective, losses
from nooch.training.training_pass import (
    Arrays,
    OwnRandom,
    TrainingPass,
    array_of,
    part_of,
    restore,
    tensor_of,
    validation_value,
)

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer


@dataclass(frozen=True, eq=False)
class Target:
    """One network to train.

    Attributes:
        name: how errors call it; different for all networks that train together.
        labels: 0 to 1, float32 (n_images, K), in the dataset's order.
        objective: made for K heads on the device; copied, as its state is the network's own.
        seed: of the head, of random weights, and of what the network draws itself (dropout).
        environments: uint8 (n_images, K), for objectives that need them.
        auxiliary: further labels 0 to 1, float32 (n_images, A), learned by outputs of their own
            with the plain mean loss times ``TuneSettings.auxiliary``; they do not decide when to
            stop, and are not predictions (paper, Appendix A).
        valid_weights: float (n_valid,), factors on the losses of the validation images in their
            order, for the value that decides when to stop; then that is the weighted mean loss, for
            any objective.
    """

    name: str
    labels: NDArray[np.float32]
    objective: Objective
    seed: int = 0
    environments: NDArray[np.uint8] | None = None
    auxiliary: NDArray[np.float32] | None = None
    valid_weights: NDArray[np.floating[Any]] | None = None

    @property
    def n_outputs(self) -> int:
        """K."""
        return int(self.labels.shape[-1])

    @property
    def n_auxiliary(self) -> int:
        """A."""
        return 0 if self.auxiliary is None else int(self.auxiliary.shape[1])


def check_rows(rows: Mapping[str, NDArray[np.intp]], n_images: int) -> None:
    """Raise an InputError unless there are rows of train and valid, all images of the dataset."""
    for split in ("train", "valid"):
        images = np.asarray(rows.get(split, ()))
        if not len(images):
            give = Command("import auto", split="70/10/20")
            raise InputError(f"the split {split} has no images", give=give)
        low, high = images.min(), images.max()
        if low < 0 or high >= n_images:
            allowed = f"0 to {n_images - 1}"
            raise InputError(f"rows of {split} range from {low} to {high}", allowed=allowed)


def check_targets(
    targets: Sequence[Target],
    rows: Mapping[str, NDArray[np.intp]],
    n_images: int,
    settings: TuneSettings,
) -> None:
    """Raise what is wrong with networks to train, before the first of them is made."""
    names = [target.name for target in targets]
    if not names or len(set(names)) != len(names):
        raise ParameterError(f"networks {some_of(names)}", allowed="different names, one at least")
    for target in targets:
        for name, shape, expected in _shapes(target, n_images, len(rows["valid"])):
            if shape != expected:
                problem = f"{name} has shape {shape}"
                raise ParameterError(problem, where=target.name, allowed=f"{expected}")
        _check_labels(target, rows["train"])
        _check_auxiliary(target, settings)
        _check_environments(target)


def _shapes(
    target: Target, n_images: int, n_valid: int
) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Description of a wrong shape: the array, its shape and the expected one."""
    k = target.n_outputs if target.labels.ndim == 2 else 1
    shapes_expected = {
        "labels": (n_images, k),
        "environments": (n_images, k),
        "auxiliary": (n_images, target.n_auxiliary) if target.auxiliary is not None else (),
        "valid_weights": (n_valid,),
    }
    present = [(name, getattr(target, name), shape) for name, shape in shapes_expected.items()]
    shapes = [(name, np.shape(value), shape) for name, value, shape in present if value is not None]
    heads = target.objective.counts.classes.shape[1]
    return [*shapes, ("the objective's heads", (heads,), (k,))]


def _check_labels(target: Target, train: NDArray[np.intp]) -> None:
    for what, values in (("labels", target.labels), ("auxiliary labels", target.auxiliary)):
        if values is None:
            continue
        # NaN fails too
        if not bool(((values >= 0) & (values <= 1)).all()):
            raise InputError(f"{what} are not all 0 to 1", where=target.name, allowed="0 to 1")
        mine = values[train]
        if bool((mine.min(axis=0) == mine.max(axis=0)).all()):
            problem = f"all {len(train)} training images have the same {what}"
            raise InputError(problem, where=target.name, remedy="another split, or another task")


def _check_auxiliary(target: Target, settings: TuneSettings) -> None:
    if (target.n_auxiliary > 0) != (settings.auxiliary > 0):
        problem = f"{target.n_auxiliary} auxiliary outputs have the weight {settings.auxiliary:g}"
        remedy = "give auxiliary labels and a weight above 0 (auxiliary: 0.1), or neither"
        raise ParameterError(problem, where=target.name, remedy=remedy)


def _check_environments(target: Target) -> None:
    if not target.objective.needs_environments:
        return
    if target.environments is None:
        raise ParameterError(f"{target.objective.name} needs environments", where=target.name)
    n, largest = len(target.objective.counts.environments), int(target.environments.max())
    if largest >= n:
        problem = f"environment {largest}, but there are counts of only {n}"
        raise ParameterError(problem, where=target.name, allowed=f"0 to {n - 1}")


@dataclass
class NetworkTrainer:
    """A network in training.

    Attributes:
        target, network, settings: what it learns, what learns it, and how.
        objective: its own copy.
        optimiser: None once it has stopped.
        random: the stream of what it draws itself, such as dropout.
        best: what its moving tensors were at the best epoch; empty before there is one.
        labels: float32 (n_images, K + A) on the device; ``environments``: uint8 (n_images, K).
    """

    target: Target
    network: Network
    settings: TuneSettings
    objective: Objective
    optimiser: Optimizer | None
    random: OwnRandom
    labels: Tensor
    environments: Tensor
    valid_weights: Tensor | None
    best: Arrays = field(default_factory=dict)

    @classmethod
    def start(cls, target: Target, backbone: Backbone, settings: TuneSettings) -> NetworkTrainer:
        """A network before its first step."""
        import torch

        device, options, n_auxiliary = backbone.device, settings.network, target.n_auxiliary
        network = build_network(
            backbone, options, target.n_outputs, auxiliary=n_auxiliary, seed=target.seed
        )

        def table(values: NDArray[Any] | None) -> Tensor | None:
            if values is None:
                return None
            return torch.from_numpy(np.asarray(values, dtype=np.float32)).to(device)[:, None]

        labels = [part for part in (target.labels, target.auxiliary) if part is not None]
        environments = target.environments
        if environments is None:
            environments = np.zeros(target.labels.shape, np.uint8)
        # made last: everything above may draw
        return cls(
            target,
            network,
            settings,
            copy.deepcopy(target.objective),
            cls._optimiser(network, settings),
            OwnRandom.start(target.seed, device),
            torch.from_numpy(np.concatenate(labels, axis=1).astype(np.float32)).to(device),
            torch.from_numpy(np.ascontiguousarray(environments)).to(device),
            table(target.valid_weights),
        )

    @staticmethod
    def _optimiser(network: Network, settings: TuneSettings) -> Optimizer:
        body, head = network.backbone.module.parameters(), network.head.parameters()
        every = [*body, *network.affine.values(), *head]
        moving = [parameter for parameter in every if parameter.requires_grad]
        make = OPTIMISERS[settings.optimiser]
        return make(moving, settings, fused=network.backbone.device != "cpu")

    def step(self, batch: SharedBatch, lr: float) -> Tensor:
        """One step of the optimiser; the loss of the main outputs, a number on the device."""
        import torch

        assert self.optimiser is not None  # noqa: S101 - it has not stopped
        for group in self.optimiser.param_groups:
            group["lr"] = lr
        with self.random:
            logits = self.network.logits(batch.inputs)
            own, total = self._losses(logits, batch)
            self.optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(total)
            if self.settings.clip is not None:
                torch.nn.utils.clip_grad_norm_(_learned(self.optimiser), self.settings.clip)
            self.optimiser.step()
        return own.detach()

    def _losses(self, logits: Tensor, batch: SharedBatch) -> tuple[Tensor, Tensor]:
        """The main outputs' loss, and that with the auxiliary outputs'."""
        labels, k = batch.mixed(self.labels), self.network.n_outputs
        environments = self.environments[batch.rows].long()
        own = (self.objective(logits[:, :k], labels[:, :k], environments) * (1 / k)).sum()
        if logits.shape[1] == k:
            return own, own
        return own, own + self.settings.auxiliary * losses(logits[:, k:], labels[:, k:]).mean()

    def validate(self, logits: NDArray[np.float32], rows: Tensor) -> tuple[float, float]:
        """The value that decides when to stop, and the plain loss, of outputs (n_valid, K)."""
        import torch

        with torch.no_grad():
            outputs = torch.from_numpy(logits).to(rows.device)
            labels = self.labels[rows, : self.network.n_outputs]
            plain = losses(outputs, labels)
            rule, batch = str(self.settings.stop_on), self.settings.batch
            inputs = outputs, labels, self.environments[rows].long()
            values = validation_value(rule, self.objective, inputs, self.valid_weights, batch)
            each = 1 / self.network.n_outputs
            total, nll = ((v * each).sum() for v in (values, plain.mean(dim=0)))
        return float(total), float(nll)

    def keep_best(self) -> None:
        """Remember the weights as they are."""
        self.best = {name: array_of(value) for name, value in self.network.moving().items()}

    def stop(self) -> None:
        """Go back to the best epoch, and let go of what only training needs."""
        self.optimiser = None
        for parameter in self.network.backbone.module.parameters():
            parameter.grad = None
        restore(self.network.moving(), self.best)

    def state_dict(self) -> Arrays:
        """All that changes, as arrays."""
        arrays = {f"best.{name}": value for name, value in self.best.items()}
        if self.optimiser is None:
            return arrays
        arrays |= {f"now.{name}": array_of(value) for name, value in self.network.moving().items()}
        for number, state in self.optimiser.state_dict()["state"].items():
            values = {name: value for name, value in state.items() if value is not None}
            arrays |= {f"optimiser.{number}.{name}": array_of(values[name]) for name in values}
        arrays |= {f"random.{n}": array_of(state) for n, state in enumerate(self.random.states)}
        if hasattr(self.objective, "q"):
            arrays["q"] = array_of(self.objective.q)
        return arrays

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]], *, stopped: bool) -> None:
        """Resume from what ``state_dict`` gave.

        Raises FormatError if that is another network's.
        """
        parts = {kind: part_of(arrays, kind) for kind in ("best", "now", "optimiser", "random")}
        names = set(self.network.moving())
        fits = not parts["best"] or set(parts["best"]) == names
        if not fits or not (stopped or set(parts["now"]) == names):
            problem = "the saved state belongs to another network"
            remedy = "delete it and start again"
            raise FormatError(problem, where=self.target.name, remedy=remedy)
        self.best = dict(parts["best"])
        if stopped:
            self.stop()
            return
        restore(self.network.moving(), parts["now"])
        self._load_optimiser(parts["optimiser"])
        states = range(len(self.random.states))
        self.random.states = [tensor_of(parts["random"][str(number)]) for number in states]
        if "q" in arrays:
            self.objective.q = tensor_of(arrays["q"]).to(self.labels.device)  # type: ignore[attr-defined]

    def _load_optimiser(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        import torch

        assert self.optimiser is not None  # noqa: S101 - it has not stopped
        learned = _learned(self.optimiser)
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in arrays.items():
            number, _, name = key.partition(".")
            saved, like = tensor_of(value), learned[int(number)]
            # a fused optimizer walks weights and momenta together: both need one order in memory
            if saved.shape == like.shape:
                saved = torch.empty_like(like, dtype=saved.dtype).copy_(saved)
            state.setdefault(int(number), {})[name] = saved
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": state, "param_groups": groups})


def _learned(optimiser: Optimizer) -> list[Tensor]:
    """The parameters that an optimizer changes, in its order."""
    return [value for group in optimiser.param_groups for value in group["params"]]


class NetworkPass(TrainingPass):
    """Trains networks that share an order of rows, see ``TrainingPass``.

    A network's result is the same as if trained on its own, to the bit on a CPU with equal threads.

    Args:
        backbones: seed -> backbone, see ``nooch.models.networks.backbones``.
        pixels: of all images, of the backbones' size.
        rows: split -> positions of images; ``train`` and ``valid`` at least.
        targets: what each network learns.
        settings: of the training.
        hooks: where methods enter.

    Raises:
        InputError: an empty split, labels that cannot be learned from, no weights.
        ParameterError: what does not fit together; see ``check_targets``.
        NoochError: memory ran out; a smaller batch, or fewer networks at once, are suggested.
    """

    def __init__(
        self,
        backbones: Backbones,
        pixels: Pixels,
        rows: Mapping[str, NDArray[np.intp]],
        targets: Sequence[Target],
        settings: TuneSettings,
        hooks: BatchHooks = BatchHooks(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(len(targets), settings)
        check_rows(rows, len(pixels))
        check_targets(targets, rows, len(pixels), settings)
        self.pixels, self.rows, self.settings, self.hooks = pixels, rows, settings, hooks
        self.trainers: list[NetworkTrainer] = []
        for target in targets:
            with _limits(settings.batch, len(targets), "making"):
                self.trainers.append(self._trainer(target, backbones(target.seed)))
        backbone = self.trainers[0].network.backbone
        self.device = backbone.device
        self._epochs = Epochs(pixels, np.asarray(rows["train"]), backbone, settings, hooks)
        if self.device == "cpu":
            reuse_memory()

    def _trainer(self, target: Target, backbone: Backbone) -> NetworkTrainer:
        check_pixels(self.pixels, backbone)
        first = self.trainers[0].network.backbone if self.trainers else backbone
        if first.inputs != backbone.inputs:
            problem = f"{backbone.name} takes other input than {first.name}"
            raise ParameterError(problem, where=target.name, remedy="train it in another pass")
        return NetworkTrainer.start(target, backbone, self.settings)

    def logits(self, split: str) -> list[NDArray[np.float32]]:
        """Predictions of every network's best epoch for a split's images, float32 (m, K) each.

        Images are read once.

        Raises:
            ParameterError: a network has not stopped yet.
        """
        networks = [self.network(number) for number in range(len(self.trainers))]
        return read_outputs(networks, self.pixels, self.rows[split], self.settings.batch)

    def network(self, number: int) -> Network:
        """A network of its best epoch. Raises ParameterError: it has not stopped yet; after the
        last epoch all have.
        """
        trainer = self.trainers[number]
        if number in self.active:
            name = trainer.target.name
            raise ParameterError(f"{name} is still in training", remedy="train until finished")
        return trainer.network

    def _train(self) -> NDArray[np.float64]:
        import torch

        trainers = self._chosen(self.active)
        for trainer in trainers:
            trainer.network.training(True)
        total = torch.zeros(len(trainers), dtype=torch.float64, device=self.device)
        rate, steps = self.settings.rate(self.epoch), 0
        with _limits(self.settings.batch, len(trainers), "training"), fastest_convolutions():
            for batch in self._epochs.batches(self.epoch):
                total += torch.stack([trainer.step(batch, rate) for trainer in trainers]).double()
                steps += 1
        return array_of(total / max(steps, 1))

    def _validate(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        trainers, valid = self._chosen(self.active), self.rows["valid"]
        networks = [trainer.network for trainer in trainers]
        outputs = read_outputs(networks, self.pixels, valid, self.settings.batch)
        index = on_device(valid, self.device)
        pairs = zip(trainers, outputs, strict=True)
        both = [trainer.validate(logits, index) for trainer, logits in pairs]
        values, nll = np.array(both, dtype=np.float64).T
        return values, nll

    def _keep_best(self, better: NDArray[np.bool_]) -> None:
        for trainer in self._chosen(self.active[better]):
            trainer.keep_best()

    def _stop(self, stopping: NDArray[np.bool_]) -> None:
        for trainer in self._chosen(self.active[stopping]):
            trainer.stop()

    def _state(self) -> Arrays:
        states = enumerate(trainer.state_dict() for trainer in self.trainers)
        return {f"{n}.{name}": value for n, state in states for name, value in state.items()}

    def _load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        for number, trainer in enumerate(self.trainers):
            trainer.load_state_dict(part_of(arrays, str(number)), stopped=number not in self.active)

    def _chosen(self, numbers: NDArray[np.intp]) -> list[NetworkTrainer]:
        return [self.trainers[number] for number in numbers]


@contextmanager
def fastest_convolutions() -> Iterator[None]:
    """Let a GPU find the fastest convolution for each size; no effect on a CPU."""
    from torch.backends import cudnn

    before = cudnn.benchmark
    cudnn.benchmark = True
    try:
        yield
    finally:
        cudnn.benchmark = before


@contextmanager
def _limits(batch: int, n_networks: int, what: str) -> Iterator[None]:
    """Running out of memory, with what can be done about it here."""
    try:
        with memory_limits(batch, f"{what} {n_networks} networks at once", "`set` batch={}"):
            yield
    except NoochError as error:
        if n_networks < 2 or type(error) is not NoochError:
            raise
        fewer = f"fewer networks at once, such as `set` networks={n_networks // 2}"
        raise error.changed(remedy=f"{error.remedy}, or {fewer}") from error
