"""Configuration of a bench: one YAML file, or the same names in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nooch.errors import ParameterError, check_one_of
from nooch.training.block_sgd import Descent
from nooch.training.jobs import Job, ProbeSettings, Settings
from nooch.training.methods import grid_of_methods
from nooch.training.network_settings import TuneSettings
from nooch.yaml_files import read_yaml

__all__ = ["MODES", "BenchConfig", "read_config", "read_settings"]


@dataclass(frozen=True)
class BenchConfig:
    """A grid of jobs: tasks x settings of methods x seeds.

    Attributes:
        tasks: names; all tasks of the suite that have a set by default.
        methods: method -> hyperparameter -> value or values; the paper's nine by default.
        seeds: of the initializations.
        orders: ``by seed``, each seed with its own order of rows; or one order's seed for all.
        environment: attribute of two values, used instead of the strongest context cue.
        within: criterion of the suite: each task is trained on the images that are in context under
            it alone (phi = 0; the paper's step 3, section 2). The suite must have sets of the
            training split.
        heads: largest number of jobs in one pass over frozen features.
        networks: largest number of networks fine-tuned together: as many as fit into memory.
        keep_weights: whether each job keeps its trained network, or its head.
        settings: learning rate and so on: names of ``ProbeSettings`` and ``Descent`` for heads on
            frozen features, of ``TuneSettings`` for fine-tuning.
    """

    tasks: tuple[str, ...] | None = None
    methods: Mapping[str, Any] | None = None
    seeds: tuple[int, ...] = (0, 1, 2)
    orders: str | int = "by seed"
    environment: str | None = None
    within: str | None = None
    heads: int = 1024
    networks: int = 1
    keep_weights: bool = False
    settings: Settings = field(default_factory=ProbeSettings)

    def jobs(self, tasks: tuple[str, ...]) -> list[Job]:
        """All jobs of these tasks."""
        return [
            Job(
                task,
                method,
                tuple(values.items()),
                seed,
                seed if isinstance(self.orders, str) else self.orders,
            )
            for seed in self.seeds
            for task in tasks
            for method, values in grid_of_methods(self.methods)
        ]


def _probe(given: Mapping[str, Any]) -> ProbeSettings:
    names = {f.name for f in fields(Descent)}
    descent = replace(
        ProbeSettings().descent, **{name: value for name, value in given.items() if name in names}
    )
    return ProbeSettings(
        descent, **{name: value for name, value in given.items() if name not in names}
    )


MODES: Mapping[str, tuple[tuple[type, ...], Callable[[Mapping[str, Any]], Settings]]] = (
    MappingProxyType(
        {
            "probe": ((Descent, ProbeSettings), _probe),
            "finetune": ((TuneSettings,), lambda given: TuneSettings(**given)),
        }
    )
)
"""Mode (frozen features, whole networks) -> classes that name its settings, their factory."""


def read_config(source: str | Path | Mapping[str, Any] | None, mode: str = "probe") -> BenchConfig:
    """A configuration from a YAML file or a mapping; the defaults where it is None.

    Names are those of ``BenchConfig`` and of the mode's settings, all on one level.

    Args:
        source: file, mapping, or None.
        mode: ``probe`` or ``finetune``.

    Raises:
        InputError: the file cannot be read, or is no YAML mapping.
        ParameterError: an unknown name, or a value that is not allowed.
    """
    content = (
        dict(source)
        if isinstance(source, Mapping)
        else {}
        if source is None
        else read_yaml(Path(source))
    )
    kinds, make = MODES[check_one_of("mode", mode, MODES)]
    own = {f.name for f in fields(BenchConfig)} - {"settings"}
    types = {f.name: str(f.type) for kind in kinds for f in fields(kind) if f.name != "descent"}
    for name in content:
        check_one_of(
            "name", str(name), sorted(own | set(types)), owner=f"the configuration ({mode})"
        )
    given = {
        name: _READERS[types[name]](name, value) for name, value in content.items() if name in types
    }
    config = BenchConfig(
        **{name: value for name, value in content.items() if name in own}, settings=make(given)
    )
    grid_of_methods(config.methods)
    return _checked(config)


def read_settings(content: Mapping[str, Any], base: TuneSettings) -> TuneSettings:
    """Settings of one network: ``base`` with the names and values of a mapping over it.

    Raises ParameterError as ``read_config``.
    """
    types = {f.name: str(f.type) for f in fields(TuneSettings)}
    for name in content:
        check_one_of("name", str(name), sorted(types), owner="the settings")
    return replace(
        base, **{name: _READERS[types[name]](name, value) for name, value in content.items()}
    )


def _checked(config: BenchConfig) -> BenchConfig:
    """Lists as tuples, numbers as they must be."""
    seeds = _listed("seeds", config.seeds)
    if not seeds or len(set(seeds)) != len(seeds):
        raise ParameterError(
            f"seeds are {config.seeds}", where="configuration", allowed="different whole numbers"
        )
    orders = (
        config.orders if config.orders == "by seed" else _whole("orders", config.orders, least=0)
    )
    tasks = (
        None
        if config.tasks is None
        else tuple(str(task) for task in _listed("tasks", config.tasks))
    )
    values = {f.name: getattr(config, f.name) for f in fields(config)}
    values |= {
        "seeds": tuple(_whole("seeds", seed, least=0) for seed in seeds),
        "orders": orders,
        "tasks": tasks,
        "heads": _whole("heads", config.heads),
        "networks": _whole("networks", config.networks),
        "keep_weights": _truth("keep_weights", config.keep_weights),
    }
    return BenchConfig(**values)


def _listed(name: str, value: Any) -> list[Any]:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    if not isinstance(value, list | tuple):
        raise ParameterError(f"{name} is {value!r}", where="configuration", allowed="a list")
    return list(value)


def _number(name: str, value: Any) -> float:
    try:
        # YAML reads 1e-4 as text, and true as a number
        return float("no number" if isinstance(value, bool) else value)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"{name} is {value!r}", where="configuration", allowed="a number"
        ) from error


def _whole(name: str, value: Any, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ParameterError(
            f"{name} is {value!r}",
            where="configuration",
            allowed=f"a whole number, {least} and more",
        )
    return value


def _truth(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ParameterError(f"{name} is {value!r}", where="configuration", allowed="true or false")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ParameterError(f"{name} is {value!r}", where="configuration", allowed="a word")
    return value


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "float": _number,
    "int": _whole,
    "str": _text,
    "bool": _truth,
    "str | None": lambda name, value: None if value is None else _text(name, value),
    "float | None": lambda name, value: None if value is None else _number(name, value),
    "bool | None": lambda name, value: None if value is None else _truth(name, value),
    "tuple[str, ...]": lambda name, value: tuple(
        _text(name, part) for part in _listed(name, value)
    ),
}
"""Type of a setting -> how its value is read."""
