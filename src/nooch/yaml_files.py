"""YAML files of settings and maps: read safely, with one kind of error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nooch.errors import InputError

__all__ = ["read_yaml"]


def read_yaml(path: Path) -> dict[str, Any]:
    """Names and values of a YAML file; an empty file has none.

    Raises:
        InputError: it cannot be read, or is no mapping.
    """
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(
            f"cannot be read: {str(error).splitlines()[0]}", where=path, allowed="a YAML file"
        ) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise InputError(
            f"holds a {type(content).__name__}",
            where=path,
            allowed="names and values, such as 'seeds: [0, 1, 2]'",
        )
    return content
