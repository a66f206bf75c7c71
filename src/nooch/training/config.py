"""What a bench is asked to do: one YAML file, or the same names in Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from nooch.errors import InputError, ParameterError, check_one_of
from nooch.training.heads import Descent
from nooch.training.jobs import Job, ProbeSettings
from nooch.training.methods import grid_of_methods

__all__ = ["BenchConfig", "read_config", "read_yaml"]

_DESCENT = {f.name: f.type for f in fields(Descent)}
_SETTINGS = {f.name: f.type for f in fields(ProbeSettings) if f.name != "descent"}


@dataclass(frozen=True)
class BenchConfig:
    """A grid of jobs: tasks x settings of methods x seeds.

    Attributes:
        tasks: names; all tasks of the suite that have a set by default.
        methods: method -> hyperparameter -> value or values (nothing for the usual ones); the paper's nine by default.
        seeds: of the initialisations.
        orders: ``by seed``, each seed with an order of rows of its own, as the paper's repeats; or one seed of an order for all.
        environment: attribute whose two values make environments with the label, instead of the strongest context cue.
        heads: largest number of jobs in one pass.
        settings: learning rate and so on, names of ``ProbeSettings`` and ``Descent``.
    """

    tasks: tuple[str, ...] | None = None
    methods: Mapping[str, Any] | None = None
    seeds: tuple[int, ...] = (0, 1, 2)
    orders: str | int = "by seed"
    environment: str | None = None
    heads: int = 1024
    settings: ProbeSettings = field(default_factory=ProbeSettings)

    def jobs(self, tasks: tuple[str, ...]) -> list[Job]:
        """All jobs of these tasks."""
        return [
            Job(task, method, tuple(values.items()), seed, seed if isinstance(self.orders, str) else self.orders)
            for seed in self.seeds
            for task in tasks
            for method, values in grid_of_methods(self.methods)
        ]


def read_config(source: str | Path | Mapping[str, Any] | None) -> BenchConfig:
    """A configuration from a YAML file or a mapping; the defaults where it is None.

    Names are those of ``BenchConfig``, ``ProbeSettings`` and ``Descent``, all on one level.

    Raises:
        InputError: the file cannot be read, or is no YAML mapping.
        ParameterError: an unknown name, or a value that is not allowed.
    """
    content = dict(source) if isinstance(source, Mapping) else {} if source is None else read_yaml(Path(source))
    own = {f.name for f in fields(BenchConfig)} - {"settings"}
    for name in content:
        check_one_of("name", str(name), sorted(own | set(_DESCENT) | set(_SETTINGS)), owner="the configuration")
    descent = Descent(**{name: _number(name, content[name]) for name in _DESCENT if name in content})
    given = {name: content[name] for name in _SETTINGS if name in content}
    given |= {name: _whole(name, value) for name, value in given.items() if name not in {"stop_on", "variant"}}
    config = BenchConfig(
        **{name: value for name, value in content.items() if name in own}, settings=ProbeSettings(descent, **given)
    )
    grid_of_methods(config.methods)
    return _checked(config)


def _checked(config: BenchConfig) -> BenchConfig:
    """Lists as tuples, numbers as they must be."""
    seeds = _listed("seeds", config.seeds)
    if not seeds or len(set(seeds)) != len(seeds):
        raise ParameterError(f"seeds are {config.seeds}", where="configuration", allowed="different whole numbers")
    orders = config.orders if config.orders == "by seed" else _whole("orders", config.orders, least=0)
    tasks = None if config.tasks is None else tuple(str(task) for task in _listed("tasks", config.tasks))
    values = {f.name: getattr(config, f.name) for f in fields(config)}
    values |= {
        "seeds": tuple(_whole("seeds", seed, least=0) for seed in seeds),
        "orders": orders,
        "tasks": tasks,
        "heads": _whole("heads", config.heads),
    }
    return BenchConfig(**values)


def read_yaml(path: Path) -> dict[str, Any]:
    """Names and values of a YAML file. Raises InputError where it cannot be read or is no mapping."""
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"cannot be read: {str(error).splitlines()[0]}", where=path, allowed="a YAML file") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise InputError(
            f"holds a {type(content).__name__}", where=path, allowed="names and values, such as 'seeds: [0, 1, 2]'"
        )
    return content


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
        raise ParameterError(f"{name} is {value!r}", where="configuration", allowed="a number") from error


def _whole(name: str, value: Any, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ParameterError(f"{name} is {value!r}", where="configuration", allowed=f"a whole number, {least} and more")
    return value
