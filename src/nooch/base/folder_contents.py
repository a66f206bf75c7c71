"""Ownership of files in a folder: names that nooch writes, and folders that only it uses."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from pathlib import Path

from nooch.base.errors import OutputError, some_of

_MARK = ".nooch"
"""In a folder of intermediate files: nooch made it, and may remove it."""

_DATASET = (
    r"(images|areas|captions|exceptions|confidences|objects)(/part-\d+)?\.parquet"
    r"|broken_(images|annotations)\.csv"
    r"|embeddings/[^/]+(/part-\d+)?\.npy"
)
_SITE = (
    r"(index|explore|results|criteria|examples(-\d+)?)\.html|data/[\w-]+\.js"
    r"|assets/\w+\.(js|css|svg)|pictures/\w+/\d+/\d+(-large)?\.jpg|pictures/\w+/\d+/\d+-cue\d+\.png"
)
_NETWORK = (
    r"(config|preprocessor_config|model\.safetensors\.index)\.json"
    r"|(head|model(-\d+-of-\d+)?)\.safetensors"
)
_NAMES = {
    "audit.parquet": _SITE,
    "changes.parquet": r"(before|edit|control|edited)\.parquet|thresholds\.csv|examples\.png",
    "classes.json": rf"predictions\.parquet|metrics\.jsonl|network/({_NETWORK}|network\.json)",
    "config.json": r"metrics\.jsonl|predictions\.parquet|done|weights/[^/]+",
    "dataset.json": _DATASET,
    "features.json": r"features\.npy|images\.parquet",
    "findings.json": r"(scores|scores-\w+|slices|findings|confusions)\.parquet|findings\.md"
    r"|suite/(suite\.json|(challenge_sets|image_names|groups)\.parquet)"
    rf"|dataset/(dataset\.json|{_DATASET})|report/(report\.json|{_SITE})",
    "leaderboard.json": rf"leaderboard\.csv|{_SITE}",
    "network.json": _NETWORK,
    "nooch-export.json": "",
    "pixels.json": r"pixels\.npy|images\.parquet",
    "repair.json": r"(predictions|changes)\.parquet|head\.(json|onnx|safetensors)",
    "report.json": _SITE,
    "scenes.json": r"images/\d+\.jpg|annotations/(instances|stuff|captions)_scenes\.json"
    r"|truth\.parquet|world\.yaml",
    "suite.json": r"(challenge_sets|image_names|groups)\.parquet",
    "sweep.json": r"(cues|grid|tau|lift|equal)\.parquet"
    r"|(cues_by_alpha|hard_by_(alpha_and_beta|tau|lift)_\w+)\.svg",
}
"""File that marks a kind of folder -> names of the other files that nooch writes there."""

_LEFT = re.compile(r"(.*/)?\.[^/]+\.(partial-[0-9a-f]{16}|lock)")
"""Temporary files of killed processes."""


def foreign_files(folder: Path, marker: str) -> list[str]:
    """Paths of files, links and empty folders below a folder that nooch did not write."""
    recorded, names = {marker}, re.compile(_NAMES[marker])
    # without its record, all that is in it may be somebody's
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        if marker == "nooch-export.json":
            recorded |= {*json.loads((folder / marker).read_bytes())["files"]}
    strangers = []
    for root, folders, files in os.walk(folder):
        here = Path(root)
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = [n for n in folders if n not in links and not (here / n / _MARK).is_file()]
        empty = [] if folders or files or links or here == folder else [""]
        strangers += [
            (here / name).relative_to(folder).as_posix() for name in files + links + empty
        ]
    return sorted(
        name
        for name in strangers
        if not (name in recorded or names.fullmatch(name) or _LEFT.fullmatch(name))
    )


def refuse_foreign(folder: Path, marker: str) -> None:
    """Raise an OutputError that names the files in a folder that nooch did not write."""
    if foreign := foreign_files(folder, marker):
        problem = f"contains what nooch did not write: {some_of(foreign)}"
        remedy = "move them to another folder, or choose another path"
        raise OutputError(problem, where=folder, remedy=remedy)


def is_ours(folder: Path) -> bool:
    """True if nooch made a folder of intermediate files, or it is empty."""
    try:
        whole = folder.is_dir() and not folder.is_symlink()
        return whole and ((folder / _MARK).is_file() or not any(folder.iterdir()))
    except OSError:
        return False


def check_own(folder: Path) -> None:
    """Raise an OutputError if something has the name of a folder of intermediate files that
    nooch did not make.
    """
    if os.path.lexists(folder) and not is_ours(folder):
        problem = "nooch needs this name for intermediate files, and did not make what is there"
        raise OutputError(problem, where=folder, remedy="rename it, or delete it")


def own_folder(folder: Path) -> None:
    """Make a folder of intermediate files, or take one that nooch made. Raises as ``check_own``."""
    check_own(folder)
    folder.mkdir(exist_ok=True)
    # before anything else: so that what a kill leaves is known as ours
    (folder / _MARK).touch()


def remove_ours(folder: Path) -> None:
    """Try to remove a folder that nooch made; its marker goes last."""
    if not folder.is_dir() or not is_ours(folder):
        return
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != _MARK:
            with contextlib.suppress(OSError):
                entry.unlink()
    with contextlib.suppress(OSError):
        if [entry.name for entry in folder.iterdir()] == [_MARK]:
            (folder / _MARK).unlink()
        folder.rmdir()
