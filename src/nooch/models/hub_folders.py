"""Folders of models as the hub gives them: fetched, hashed, their JSON read; no code is run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nooch.base.errors import InputError, MissingExtraError, unreadable
from nooch.base.files import sha256_once

WEIGHTS = ".safetensors"
_TEXTS = ("*.json", "*.txt", "*.model")


def fetched(
    repository: str, what: str, extra: str, allowed: str, more: Sequence[str] = (), **options: Any
) -> Path:
    """The folder of a hub id, from the local cache or the hub, without pickled weights.

    ``what`` it is, its ``extra`` and what is ``allowed`` are for errors; ``more`` are patterns of
    further files, and ``options`` those of ``snapshot_download``.
    """
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise MissingExtraError("huggingface_hub", extra, f"{what} {repository}") from error
    try:
        patterns = [*_TEXTS, f"*{WEIGHTS}", *more]
        return Path(snapshot_download(repository, allow_patterns=patterns, **options))
    # the hub raises errors of several packages, and all mean that it gave no model
    except Exception as error:
        raise InputError(
            f"{what} {repository!r} is not in the local cache and cannot be fetched:"
            f" {type(error).__name__}",
            allowed=allowed,
            remedy="give the path of a folder that holds the model, or go online once",
        ) from error


def read_json(file: Path, what: str, allowed: str) -> Any:
    """What a file says. Raises InputError: it cannot be read; it is not there, so that its folder
    is no ``what``, and ``allowed`` says what is.
    """
    if not file.exists():
        raise InputError(f"no such file, so this is no {what}", where=file, allowed=allowed)
    with unreadable(file, "JSON"):
        return json.loads(file.read_bytes())


def contents_hash(folder: Path) -> str:
    """SHA-256 of weights and configuration, in hexadecimal: they determine the vectors."""
    kinds = {WEIGHTS, ".json", ".jinja"}
    files = sorted(f for f in folder.rglob("*") if f.suffix in kinds and f.is_file())
    names = (f"{f.relative_to(folder).as_posix()} {sha256_once(f)}\n" for f in files)
    return hashlib.sha256("".join(names).encode()).hexdigest()
