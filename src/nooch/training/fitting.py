"""Training whole networks that share an order of rows: each batch is read and prepared once, then each network takes its own step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.errors import NoochError, ParameterError
from nooch.training.backbones import Backbone
from nooch.training.epochs import Epochs, Seams, on_device
from nooch.training.feeding import Pixels, check_pixels
from nooch.training.learning import Learning, check_learnings, check_rows
from nooch.training.members import Member
from nooch.training.memory import memory_limits, reuse_memory
from nooch.training.networks import Backbones, Network, read_features, read_logits
from nooch.training.states import part_of
from nooch.training.tuning import TuneSettings

__all__ = ["NetworkPass", "Seams", "fastest_convolutions", "fit"]

_NAMES = ("train", "valid", "nll")


class NetworkPass:
    """Trains networks together; one call of ``step`` is an epoch of all that have not stopped.

    A network's result is that of training it alone: to the bit on a processor, for the same number of threads. Everything that an
    epoch needs is in ``state_dict``, so a pass goes on after ``load_state_dict`` as if it had never stopped.

    Args:
        backbones: seed -> backbone, see ``nooch.training.networks.backbones``.
        pixels: of all images, of the backbones' size.
        rows: split -> positions of images; ``train`` and ``valid`` at least.
        learnings: the networks.
        settings: of the training.
        seams: where methods enter.

    Raises:
        InputError: an empty split, labels that cannot be learnt from, no weights.
        ParameterError: what does not fit together; see ``check_learnings``.
        NoochError: memory ran out; a smaller batch, or fewer networks at once, are suggested.
    """

    def __init__(
        self,
        backbones: Backbones,
        pixels: Pixels,
        rows: Mapping[str, NDArray[np.intp]],
        learnings: Sequence[Learning],
        settings: TuneSettings,
        seams: Seams = Seams(),  # noqa: B008 - frozen
    ) -> None:
        check_rows(rows, len(pixels))
        check_learnings(learnings, rows, len(pixels), settings)
        _check_mixing(learnings, seams)
        self.pixels, self.rows, self.settings, self.seams = pixels, rows, settings, seams
        self.learnings = list(learnings)
        self.members: list[Member] = []
        for learning in self.learnings:
            with _limits(settings.batch, len(self.learnings), "making"):
                self.members.append(self._member(learning, backbones(learning.seed)))
        backbone = self.members[0].network.backbone
        self._epochs = Epochs(pixels, np.asarray(rows["train"]), backbone, settings, seams)
        n = len(self.members)
        self.epoch = 0
        self.active = np.arange(n)
        self.best = {"value": np.full(n, np.inf), "epoch": np.zeros(n, dtype=np.int64)}
        self.history: list[dict[str, NDArray[np.float64]]] = []
        if self.device == "cpu":
            reuse_memory()

    def _member(self, learning: Learning, backbone: Backbone) -> Member:
        check_pixels(self.pixels, backbone)
        first = self.members[0].network.backbone if self.members else backbone
        if (first.preprocessing, first.device, first.channels_last) != (
            backbone.preprocessing,
            backbone.device,
            backbone.channels_last,
        ):
            raise ParameterError(
                f"{backbone.name} takes other input than {first.name}",
                where=learning.name,
                allowed="networks that share prepared images",
                remedy="train it in another pass",
            )
        return Member.begin(learning, backbone, self.settings)

    @property
    def device(self) -> str:
        """Where it is computed."""
        return self.members[0].network.backbone.device

    @property
    def finished(self) -> bool:
        """Whether every network has stopped."""
        return not len(self.active)

    @property
    def diverged(self) -> NDArray[np.bool_]:
        """Which networks have had no finite validation value, bool (n_networks,)."""
        found: NDArray[np.bool_] = self.best["epoch"] == 0
        return found

    def step(self) -> dict[str, NDArray[np.float64]]:
        """One epoch; returns, and appends to ``history``, ``train``, ``valid`` and ``nll`` of each network, NaN where it has stopped.

        ``train`` is the mean over steps of the networks' objectives, ``valid`` the value that decides when to stop.
        """
        members = [self.members[number] for number in self.active]
        record = {name: np.full(len(self.members), np.nan) for name in _NAMES}
        with _limits(self.settings.batch, len(members), "training"):
            record["train"][self.active] = self._train(members)
        self.epoch += 1
        valid = self.rows["valid"]
        outputs = read_logits([member.network for member in members], self.pixels, valid, self.settings.batch)
        at = on_device(valid, self.device)
        for number, member, logits in zip(self.active, members, outputs, strict=True):
            record["valid"][number], record["nll"][number] = member.validate(logits, at)
        self.history.append(record)
        self._judge(record)
        return record

    def logits(self, rows: NDArray[np.intp]) -> list[NDArray[np.float32]]:
        """Predictions of every network's best epoch for some images, float32 (m, K) each; images are read once."""
        return self._at_best(read_logits, rows)

    def features(self, rows: NDArray[np.intp]) -> list[NDArray[np.float32]]:
        """What the backbones of the best epochs give to the heads, float32 (m, d) each."""
        return self._at_best(read_features, rows)

    def network(self, number: int) -> Network:
        """A network of its best epoch, once it has stopped; after the last epoch all have. Raises ParameterError before."""
        if number in self.active:
            raise ParameterError(f"{self.learnings[number].name} is still in training", remedy="train until finished")
        return self.members[number].network

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """All that changes, as arrays."""
        arrays: dict[str, NDArray[Any]] = {"epoch": np.array(self.epoch), "active": self.active}
        arrays |= {f"best_{name}": values for name, values in self.best.items()}
        for name in _NAMES:
            arrays[f"history_{name}"] = np.array([r[name] for r in self.history]).reshape(-1, len(self.members))
        for number, member in enumerate(self.members):
            arrays |= {f"{number}.{name}": value for name, value in member.state_dict().items()}
        return arrays

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what ``state_dict`` gave for the same networks. Raises FormatError where it was another's."""
        self.epoch, self.active = int(arrays["epoch"]), arrays["active"].copy()
        self.best = {name: arrays[f"best_{name}"].copy() for name in self.best}
        self.history = [{name: arrays[f"history_{name}"][epoch] for name in _NAMES} for epoch in range(self.epoch)]
        for number, member in enumerate(self.members):
            member.load_state_dict(part_of(arrays, str(number)), stopped=number not in self.active)

    def _train(self, members: Sequence[Member]) -> NDArray[np.float64]:
        """An epoch of steps; mean losses."""
        import torch

        for member in members:
            member.network.training(True)
        total = torch.zeros(len(members), dtype=torch.float64, device=self.device)
        rate, steps = self.settings.rate(self.epoch), 0
        with fastest_convolutions():
            for batch in self._epochs.batches(self.epoch):
                total += torch.stack([member.step(batch, rate) for member in members]).double()
                steps += 1
        found: NDArray[np.float64] = (total / max(steps, 1)).cpu().numpy()
        return found

    def _judge(self, record: Mapping[str, NDArray[np.float64]]) -> None:
        """Remember networks that are better than ever; let those stop that have not been for too long."""
        for number in self.active:
            # NaN is not smaller
            if record["valid"][number] < self.best["value"][number]:
                self.best["value"][number], self.best["epoch"][number] = record["valid"][number], self.epoch
                self.members[number].keep_best()
        waited = self.epoch - self.best["epoch"][self.active]
        stopping = (waited >= self.settings.patience) | (self.epoch >= self.settings.epochs)
        for number in self.active[stopping]:
            self.members[number].stop()
        self.active = self.active[~stopping]

    def _at_best(
        self,
        read: Callable[[Sequence[Network], Pixels, NDArray[np.intp], int], list[NDArray[np.float32]]],
        rows: NDArray[np.intp],
    ) -> list[NDArray[np.float32]]:
        with ExitStack() as stack:
            networks = [stack.enter_context(member.at_best()) for member in self.members]
            return read(networks, self.pixels, rows, self.settings.batch)


def fit(
    backbones: Backbones,
    pixels: Pixels,
    rows: Mapping[str, NDArray[np.intp]],
    learnings: Sequence[Learning],
    settings: TuneSettings,
    seams: Seams = Seams(),  # noqa: B008 - frozen
    *,
    on_epoch: Callable[[NetworkPass], None] = lambda _pass: None,
) -> NetworkPass:
    """Train networks together until each has stopped; see ``NetworkPass``. ``on_epoch`` is called after every epoch."""
    trained = NetworkPass(backbones, pixels, rows, learnings, settings, seams)
    while not trained.finished:
        trained.step()
        on_epoch(trained)
    return trained


def _check_mixing(learnings: Sequence[Learning], seams: Seams) -> None:
    weighted = [learning.name for learning in learnings if learning.row_weights is not None]
    if seams.mix is not None and weighted:
        raise ParameterError(
            f"images are mixed, and rows of {weighted[0]} have weights", allowed="one of the two: a mixture has no row"
        )


@contextmanager
def fastest_convolutions() -> Iterator[None]:
    """A GPU tries once for each size which way of convolving is the fastest; of no effect on a processor."""
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
        raise NoochError(
            error.problem, remedy=f"{error.remedy}, or fewer networks at once, such as `set` networks={n_networks // 2}"
        ) from error
