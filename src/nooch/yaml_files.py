"""YAML files of settings and maps: read safely, with one kind of error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nooch.errors import InputError
from nooch.limits import MOST_ALIASES

__all__ = ["read_yaml", "read_yaml_list", "yaml_value"]


def yaml_value(text: str, where: object) -> Any:
    """What a YAML text says: numbers, text, lists and mappings alone. Raises InputError."""
    import yaml

    try:
        events = yaml.parse(text, Loader=yaml.SafeLoader)
        aliases = sum(isinstance(event, yaml.AliasEvent) for event in events)
        if aliases <= MOST_ALIASES:
            return yaml.safe_load(text)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        # a number of thousands of digits, a date that there is not, or lists in lists in lists
        reason = str(error).partition("\n")[0][:200]
        raise InputError(f"cannot be read: {reason}", where=where, allowed="a YAML file") from error
    raise InputError(f"has {aliases} aliases", where=where, allowed=f"at most {MOST_ALIASES}")


def read_yaml(path: Path) -> dict[str, Any]:
    """Names and values of a YAML file; an empty file has none.

    Raises:
        InputError: it cannot be read, or is no mapping.
    """
    content = _parsed(path)
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise InputError(
            f"holds a {type(content).__name__}",
            where=path,
            allowed="names and values, such as 'seeds: [0, 1, 2]'",
        )
    return content


def read_yaml_list(path: Path) -> list[str]:
    """The texts that a YAML file lists.

    Raises:
        InputError: it cannot be read, or is no list of texts, one at least.
    """
    content = _parsed(path)
    if not isinstance(content, list) or not all(isinstance(t, str) for t in content) or not content:
        raise InputError("is no list of texts", where=path, allowed="lines such as '- a text'")
    return content


def _parsed(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", where=path, allowed="a YAML file") from error
    return yaml_value(text, path)
