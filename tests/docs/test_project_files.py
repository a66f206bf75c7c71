"""Files that say things about the project: they agree with the package, and with each other."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import nooch

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
LEAVING = {
    "MapReading",
    "TableReading",
    "embed_in_shards",
    "find_in_shards",
    "import_coco_in_parts",
    "import_in_parts",
    "open_shards",
    "save_shards",
}
"""Public names without a reference, because they are going away."""


def test_the_reference_has_every_public_name():
    documented = re.findall(
        r"^::: nooch\.(\w+)$", "\n".join(p.read_text("utf-8") for p in REFERENCE.glob("*.md")), re.MULTILINE
    )
    assert len(documented) == len(set(documented))
    assert set(nooch.__all__) - set(documented) - LEAVING == {"__version__"}


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == nooch.__version__


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.stem)
def test_github_files_are_yaml(path):
    assert isinstance(yaml.safe_load(path.read_text("utf-8")), dict)


def test_pre_commit_runs_what_make_lint_runs():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"][0]["hooks"]
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    linters = [re.sub(r"^\$\(BIN\)/| (--check )?\.$", "", line.strip()) for line in recipe[1].splitlines()]
    entries = [hook["entry"].removeprefix(".venv/bin/").removesuffix(" --fix") for hook in hooks]
    assert entries == linters


def test_the_lint_refuses_a_phrase(tmp_path):
    """In documentation and code, over the end of a line, and in a comment."""
    copy = tmp_path / "scripts"
    copy.mkdir()
    for name in ("check_wording.py", "wording.toml"):
        (copy / name).write_bytes((ROOT / "scripts" / name).read_bytes())
    (tmp_path / "README.md").write_text("All is well.\nIt goes on\nwhere it was.\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("# This hangs\n# on the machine, it goes on where it was.\n")
    done = subprocess.run([sys.executable, copy / "check_wording.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        'src/a.py:1: "hangs on the"; write: depends on the',
        'README.md:2: "goes on where it was"; write: resumes',
    ]
