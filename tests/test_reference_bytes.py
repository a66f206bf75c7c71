"""Imports, finds and exports write the bytes that are recorded in ``reference_bytes.json``.

``python tests/test_reference_bytes.py`` records them again, after a change of format that is meant.
"""

import hashlib
import json
import sys
from pathlib import Path

import polars as pl
import pytest
from reference_files import make

from nooch.base.version import __version__

RECORD = Path(__file__).with_suffix("").with_name("reference_bytes.json")
PARTS = {"1": "", "2": "--part-size 120", "3": "--part-size 100"}
COCO = "--things coco/instances.json --stuff coco/stuff.json --captions coco/captions.json"
IMPORTS = {
    "coco": f"import coco {COCO} --split 50/25/25",
    "long": "import table long.csv --id id --class class --area area --split 50/25/25",
    "labels": "import table labels.csv --id id --label boat,kind --split 50/25/25",
    "maps": "import label-maps maps --classes map-classes.txt",
    "boxes": "import boxes boxes --boxes yolo --classes box-classes.txt",
}
FINDS = {
    "coco": "--criterion ce --beta 0.05 --alpha 0.01",
    "long": "--criterion ce --alpha 0.01",
    "labels": "--criterion attribute --phi hour>11",
}
EXPORTS = ("ids", "csv", "hf")


def commands(parts: str) -> dict[str, str]:
    """Commands for datasets of so many parts, by the name of their output."""
    listed = {}
    for name, command in IMPORTS.items():
        if parts == "1" or name not in ("maps", "boxes"):
            listed[f"{name}-{parts}"] = f"{command} {PARTS[parts]} {name}-{parts}"
    if parts != "1":
        size = {"2": "15", "3": "10"}[parts]
        listed[f"maps-{parts}"] = f"{IMPORTS['maps']} --part-size {size} maps-{parts}"
    for name, options in FINDS.items():
        out = f"{name}-suite-{parts}"
        engine = "--engine local:2" if out == "coco-suite-2" else ""
        listed[out] = f"find {name}-{parts} {options} {engine} --out {out}"
    for kind in EXPORTS:
        out = f"{kind}-export-{parts}"
        listed[out] = f"export coco-suite-{parts} {out} --to {kind}"
    return listed


def digests(path: Path) -> dict[str, str]:
    """File -> the first half of its SHA-256."""
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return {
        file.relative_to(path.parent).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()[:32]
        for file in files
    }


@pytest.mark.parametrize("parts", PARTS)
def test_the_bytes_are_those_that_are_recorded(parts, tmp_path, run_cli):
    record = json.loads(RECORD.read_text())
    if record["made with"] != _versions():
        pytest.skip(f"recorded with {record['made with']}, not {_versions()}")
    make(tmp_path)
    for name, command in commands(parts).items():
        run_cli(command, cwd=tmp_path).ok()
        assert digests(tmp_path / name) == record[name], name


def _versions() -> dict[str, str]:
    return {"nooch": __version__, "polars": pl.__version__}


def main() -> None:
    """Record the bytes of this version."""
    import subprocess
    import tempfile

    record: dict[str, dict[str, str]] = {"made with": _versions()}
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        for parts in PARTS:
            for name, command in commands(parts).items():
                words = [sys.executable, "-m", "nooch", *command.split()]
                subprocess.run(words, cwd=folder, check=True)
                record[name] = digests(Path(folder) / name)
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
