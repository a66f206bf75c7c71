"""A job: one training of one task by one method with one setting and one seed."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any

import msgspec

from nooch.base.calls import Count, Options
from nooch.base.work_folder import key_of
from nooch.training.block_sgd import Descent
from nooch.training.methods import METHODS, Method
from nooch.training.network_settings import STOP_ON, TuneSettings, stop_rule
from nooch.training.objectives import VARIANTS
from nooch.training.samplers import RandomStreams

CODE_FORMAT = 1
"""Raised when the same configuration would give other results."""

CONDITIONS = ("standardize", "none")
"""Scaling of frozen features, and of steps, before heads are trained."""


@dataclass(frozen=True)
class ProbeSettings(Options):
    """Training settings of heads on frozen features.

    Attributes:
        descent: learning rate, momentum, weight decay. The rate is for standardized features.
        condition: ``standardize``: each feature is centered and divided by its standard deviation
            on the training split, all by the root of their number, so that the mean squared norm is
            1; and a head's steps are divided by ``Objective.step_size``. Or ``none``.
        batch: rows in a step.
        epochs: at most.
        patience: epochs without a lower validation value before a head stops.
        stop_on: which validation value, out of ``STOP_ON``; see ``stop_rule`` for the default.
        variant: of the objectives: ``paper`` or ``released``.
        block: steps that are computed together; changes results by rounding only.
    """

    descent: Descent = Descent(lr=0.1)  # noqa: RUF009 - frozen
    condition: Annotated[str, CONDITIONS] = "standardize"
    batch: Count = 32
    epochs: Count = 100
    patience: Count = 3
    stop_on: Annotated[str, STOP_ON] | None = None
    variant: Annotated[str, VARIANTS] = "paper"
    block: Count = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "stop_on", stop_rule(self.stop_on, self.variant))


Seed = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

Settings = ProbeSettings | TuneSettings
"""Training settings of heads on frozen features, or of whole networks."""


@dataclass(frozen=True)
class Job:
    """A training job.

    Attributes:
        task: the class.
        method: name of the method; ``parameters`` its hyperparameters as (name, value).
        seed: of the initialization.
        order: seed of the order of rows and of draws, a stream of its own.
    """

    task: str
    method: str
    parameters: tuple[tuple[str, float], ...]
    seed: Seed
    order: Seed

    @property
    def kind(self) -> Method:
        """The method."""
        return METHODS[self.method]

    @property
    def shares(self) -> tuple[Any, ...]:
        """Properties shared by the jobs of a pass: the order of rows, and what rows are mixed
        with.
        """
        mixing = self.kind.mixing
        if mixing is None:
            return (self.order,)
        return self.order, self.method, self.parameters, self.task if mixing.of_task else ""

    @property
    def takes(self) -> tuple[Any, ...]:
        """Key shared by jobs that take the very same rows in an epoch, none by weights."""
        kind = self.kind
        drawn = () if kind.sampler is None else (self.task, self.method, self.parameters)
        # a first stage's errors are each job's own
        return *self.shares, *(drawn if kind.first is None else (self,))

    def streams(self, epoch: int = 0) -> RandomStreams:
        """Its random streams in an epoch."""
        return RandomStreams(self.order, f"{self.task} {self.method} {self.setting}", epoch)

    @property
    def setting(self) -> str:
        """The hyperparameters as text, such as ``K=30``; empty if there is none."""
        return ",".join(f"{name}={value:g}" for name, value in self.parameters)

    @property
    def run(self) -> str:
        """Name of its predictions: method, setting and seed."""
        return "/".join([self.method, *([self.setting] if self.setting else []), str(self.seed)])

    def identity(self, settings: Settings, data: dict[str, Any]) -> str:
        """Hash of configuration, format of the code and data, 16 hexadecimal digits."""
        # the block changes only rounding: a machine may choose it
        counted = {n: v for n, v in msgspec.to_builtins(settings).items() if n != "block"}
        job = msgspec.to_builtins(self)
        content = {"code": CODE_FORMAT, "job": job, "settings": counted, "data": data}
        return key_of(content, order="sorted", hashed=sha256)
