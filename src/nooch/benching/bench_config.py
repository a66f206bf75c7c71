"""Configuration of a bench: one YAML file, or the same names in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
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
        grid = product(self.seeds, tasks, grid_of_methods(self.methods))
        return [
            Job(task, method, tuple(values.items()), seed, self._order(seed))
            for seed, task, (method, values) in grid
        ]

    def _order(self, seed: int) -> int:
        return seed if isinstance(self.orders, str) else self.orders


def _probe(given: Mapping[str, Any]) -> ProbeSettings:
    names = {f.name for f in fields(Descent)} & given.keys()
    descent = replace(ProbeSettings().descent, **{name: given[name] for name in names})
    return ProbeSettings(descent, **{name: given[name] for name in given if name not in names})


MODES: dict[str, tuple[tuple[type, ...], Callable[[Mapping[str, Any]], Settings]]] = {
    "probe": ((Descent, ProbeSettings), _probe),
    "finetune": ((TuneSettings,), lambda given: TuneSettings(**given)),
}
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
    if source is not None and not isinstance(source, Mapping):
        source = read_yaml(Path(source))
    content = dict(source or {})
    kinds, make = MODES[check_one_of("mode", mode, MODES)]
    own = {f.name for f in fields(BenchConfig)} - {"settings"}
    types = {f.name: str(f.type) for kind in kinds for f in fields(kind) if f.name != "descent"}
    allowed = sorted(own | set(types))
    for name in content:
        check_one_of("name", str(name), allowed, owner=f"the configuration ({mode})")
    values = {name: content.pop(name) for name in list(content) if name in types}
    config = BenchConfig(**content, settings=make(_read(values, types)))
    grid_of_methods(config.methods)
    return _checked(config)


def _read(content: Mapping[str, Any], types: Mapping[str, str]) -> dict[str, Any]:
    """Values as their settings' types have them."""
    return {name: _READERS[types[name]](name, value) for name, value in content.items()}


def read_settings(content: Mapping[str, Any], base: TuneSettings) -> TuneSettings:
    """Settings of one network: ``base`` with the names and values of a mapping over it.

    Raises ParameterError as ``read_config``.
    """
    types = {f.name: str(f.type) for f in fields(TuneSettings)}
    for name in content:
        check_one_of("name", str(name), sorted(types), owner="the settings")
    return replace(base, **_read(content, types))


def _checked(config: BenchConfig) -> BenchConfig:
    """Lists as tuples, numbers as they must be."""
    seeds = _listed("seeds", config.seeds)
    if not seeds or len(set(seeds)) != len(seeds):
        raise _refused("seeds are", config.seeds, "different whole numbers")
    orders, tasks = config.orders, config.tasks
    return replace(
        config,
        seeds=tuple(_whole("seeds", seed, least=0) for seed in seeds),
        orders=orders if orders == "by seed" else _whole("orders", orders, least=0),
        tasks=None if tasks is None else tuple(map(str, _listed("tasks", tasks))),
        heads=_whole("heads", config.heads),
        networks=_whole("networks", config.networks),
        keep_weights=_truth("keep_weights", config.keep_weights),
    )


def _refused(what: str, value: Any, allowed: str) -> ParameterError:
    return ParameterError(f"{what} {value}", where="configuration", allowed=allowed)


def _listed(name: str, value: Any) -> list[Any]:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    if not isinstance(value, list | tuple):
        raise _refused(f"{name} is", repr(value), "a list")
    return list(value)


def _number(name: str, value: Any) -> float:
    try:
        # YAML reads 1e-4 as text, and true as a number
        return float("no number" if isinstance(value, bool) else value)
    except (TypeError, ValueError) as error:
        raise _refused(f"{name} is", repr(value), "a number") from error


def _whole(name: str, value: Any, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise _refused(f"{name} is", repr(value), f"a whole number, {least} and more")
    return value


def _truth(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _refused(f"{name} is", repr(value), "true or false")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _refused(f"{name} is", repr(value), "a word")
    return value


def _optional(read: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    return lambda name, value: None if value is None else read(name, value)


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "float": _number,
    "int": _whole,
    "str": _text,
    "bool": _truth,
    "str | None": _optional(_text),
    "float | None": _optional(_number),
    "bool | None": _optional(_truth),
    "tuple[str, ...]": lambda name, value: tuple(_text(name, v) for v in _listed(name, value)),
}
"""Type of a setting -> how its value is read."""
