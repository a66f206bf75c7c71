"""YAML files of settings and maps: read safely, with one kind of error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nooch.errors import InputError

__all__ = ["read_yaml", "read_yaml_list"]


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
    import yaml

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(
            f"cannot be read: {str(error).splitlines()[0]}", where=path, allowed="a YAML file"
        ) from error
