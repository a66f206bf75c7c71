"""Configuration of a bench: one YAML file, or the same names in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, get_args, get_type_hints

import msgspec

from nooch.base.calls import Count, Options, Seed
from nooch.base.errors import ParameterError, check_one_of
from nooch.base.yaml_files import read_yaml
from nooch.training.block_sgd import Descent
from nooch.training.jobs import Job, ProbeSettings, Settings
from nooch.training.methods import grid_of_methods
from nooch.training.network_settings import TuneSettings


@dataclass(frozen=True)
class BenchConfig(Options):
    """A grid of jobs: tasks x settings of methods x seeds.

    Attributes:
        tasks: names; all tasks of the suite that have a set by default.
        methods: method -> hyperparameter -> value or values; the paper's nine by default.
        seeds: of the initializations.
        orders: ``by seed``, each seed with its own order of rows; or one order's seed for all.
        environment: attribute of two values, used instead of the strongest context cue.
        within: criterion of the suite: each task is trained only on the images that are in context
            under it (phi = 0; the paper's step 3, section 2). The suite must have sets of the
            training split.
        heads: largest number of jobs in one pass over frozen features.
        networks: largest number of networks fine-tuned together: as many as fit into memory.
        keep_weights: whether each job keeps its trained network, or its head.
        settings: learning rate and so on: names of ``ProbeSettings`` and ``Descent`` for heads on
            frozen features, of ``TuneSettings`` for fine-tuning.
    """

    tasks: tuple[str, ...] | None = None
    methods: Mapping[str, Any] | Sequence[str] | None = None
    seeds: tuple[Seed, ...] = (0, 1, 2)
    orders: Annotated[str, ("by seed",)] | Seed = "by seed"
    environment: str | None = None
    within: str | None = None
    heads: Count = 1024
    networks: Count = 1
    keep_weights: bool = False
    settings: Settings = field(default_factory=ProbeSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            problem = f"are {list(self.seeds)}"
            raise ParameterError(problem, where="`seeds`", allowed="different numbers")
        grid_of_methods(self.methods)

    def jobs(self, tasks: tuple[str, ...]) -> list[Job]:
        """All jobs of these tasks."""
        grid = product(self.seeds, tasks, grid_of_methods(self.methods))
        return [
            Job(task, method, tuple(values.items()), seed,
                seed if isinstance(self.orders, str) else self.orders)
            for seed, task, (method, values) in grid
        ]  # fmt: skip


def _probe(given: Mapping[str, Any]) -> ProbeSettings:
    names = {f.name for f in fields(Descent)} & given.keys()
    descent = replace(ProbeSettings().descent, **{name: given[name] for name in names})
    return ProbeSettings(descent, **{name: given[name] for name in given if name not in names})


MODES: dict[str, tuple[tuple[type, ...], Callable[[Mapping[str, Any]], Settings]]] = {
    "probe": ((Descent, ProbeSettings), _probe),
    "finetune": ((TuneSettings,), lambda given: TuneSettings(**given)),
}
"""Mode (frozen features, whole networks) -> classes that name its settings, their factory."""

_NAMES = {tuple[str, ...], Sequence[str]}


def read_config(source: str | Path | Mapping[str, Any] | None, mode: str = "probe") -> BenchConfig:
    """A configuration from a YAML file or a mapping; the defaults if it is None.

    Names are the fields of ``BenchConfig`` and of the mode's settings, all on one level.

    Args:
        source: file, mapping, or None.
        mode: ``probe`` or ``finetune``.

    Raises:
        InputError: the file cannot be read, or is not a YAML mapping.
        ParameterError: an unknown name, or a value that is not allowed.
        WrongTypeError: a value of another type.
    """
    if source is not None and not isinstance(source, Mapping):
        source = read_yaml(Path(source))
    content = dict(source or {})
    owners, make = MODES[check_one_of("mode", mode, MODES)]
    own = get_type_hints(BenchConfig)
    del own["settings"]
    kinds = {name: kind for owner in owners for name, kind in get_type_hints(owner).items()}
    kinds.pop("descent", None)
    allowed = sorted(own | kinds)
    for name in content:
        check_one_of("name", str(name), allowed, owner=f"the configuration ({mode})")
    settings = make(_read({name: content[name] for name in content if name in kinds}, kinds))
    given = _read({name: content[name] for name in content if name in own}, own)
    return BenchConfig(**given, settings=settings)


def read_settings(content: Mapping[str, Any], base: TuneSettings) -> TuneSettings:
    """Settings of one network: ``base`` with the names and values of a mapping over it.

    Raises ParameterError as ``read_config``.
    """
    kinds = get_type_hints(TuneSettings)
    for name in content:
        check_one_of("name", str(name), sorted(kinds), owner="the settings")
    return replace(base, **_read(content, kinds))


def _read(content: Mapping[str, Any], kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Values as the fields of these types have them; methods are checked by their own table."""
    return {
        name: value if name == "methods" else _value(value, kinds[name])
        for name, value in content.items()
    }


def _value(value: Any, kind: Any) -> Any:
    alternatives = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    if _NAMES & set(alternatives) and isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    elif _NAMES & set(alternatives) and isinstance(value, list | tuple):
        value = list(map(str, value))
    try:
        # YAML reads 1e-4 as text
        return msgspec.convert(value, kind, strict=float not in alternatives)
    except msgspec.ValidationError:
        # worded by the settings' own check
        return value
