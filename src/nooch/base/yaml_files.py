"""YAML files of settings and maps: read safely, with one kind of error."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nooch.base.errors import InputError, unreadable
from nooch.base.limits import MOST_ALIASES, MOST_NESTED


def yaml_value(text: str, where: object) -> Any:
    """Content of a YAML text: only numbers, text, lists and mappings. Raises InputError."""
    import yaml

    # written in C, where PyYAML was built with it: ten times as fast
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    # a ValueError: a number of thousands of digits, or an invalid date such as February 30
    with unreadable(where, "a YAML file", (ValueError, yaml.YAMLError, RecursionError)):
        beyond = _beyond_limits(yaml.parse(text, Loader=loader))
        if beyond is None:
            return yaml.load(text, Loader=loader)  # noqa: S506 - either is safe
    what, most = beyond
    raise InputError(f"has more than {most} {what}", where=where, allowed=f"at most {most}")


def _beyond_limits(events: Iterable[Any]) -> tuple[str, int] | None:
    """Name the exceeded limit and its value; no later event is parsed."""
    import yaml

    aliases = nested = 0
    for event in events:
        aliases += isinstance(event, yaml.AliasEvent)
        nested += isinstance(event, yaml.CollectionStartEvent)
        nested -= isinstance(event, yaml.CollectionEndEvent)
        if aliases > MOST_ALIASES:
            return "aliases", MOST_ALIASES
        if nested > MOST_NESTED:
            return "lists in lists", MOST_NESTED
    return None


def read_yaml(path: Path) -> dict[str, Any]:
    """Names and values of a YAML file; an empty file has none."""
    content = _parsed(path)
    if content is None:
        return {}
    if not isinstance(content, dict):
        allowed = "names and values, such as 'seeds: [0, 1, 2]'"
        raise InputError(f"contains a {type(content).__name__}", where=path, allowed=allowed)
    return content


def read_yaml_list(path: Path) -> list[str]:
    """The texts that a YAML file lists."""
    content = _parsed(path)
    if not isinstance(content, list) or not all(isinstance(t, str) for t in content) or not content:
        raise InputError("is not a list of texts", where=path, allowed="lines such as '- a text'")
    return content


def _parsed(path: Path) -> Any:
    with unreadable(path, "a YAML file"):
        text = path.read_text(encoding="utf-8-sig")
    return yaml_value(text, path)
