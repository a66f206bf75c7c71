"""Files that say things about the project: they agree with the package, and with each other."""

import re
import subprocess
import sys
from pathlib import Path

import yaml

import nooch

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


def test_the_reference_has_every_public_name():
    pages = "\n".join(path.read_text("utf-8") for path in REFERENCE.glob("*.md"))
    documented = re.findall(r"^::: nooch\.(\w+)$", pages, re.MULTILINE)
    assert len(documented) == len(set(documented))
    assert set(nooch.__all__) - set(documented) == {"__version__"}


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == nooch.__version__


def test_github_files_are_yaml():
    files = list((ROOT / ".github").rglob("*.yml"))
    assert {path.parent.name for path in files} == {"ISSUE_TEMPLATE", "workflows"}
    assert all(isinstance(yaml.safe_load(path.read_text("utf-8")), dict) for path in files)


def test_pre_commit_runs_what_make_lint_runs():
    repository = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"][0]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)[1].split("\n\t")
    linters = [re.sub(r"^\$\(BIN\)/| (--check )?\.$", "", line.strip()) for line in recipe]
    entries = [hook["entry"].removeprefix(".venv/bin/") for hook in repository["hooks"]]
    assert [entry.removesuffix(" --fix") for entry in entries] == linters


def test_the_lint_refuses_a_phrase(tmp_path):
    """In documentation and code, also over the end of a line."""
    copy = tmp_path / "scripts"
    copy.mkdir()
    for name in ("check_wording.py", "wording.toml"):
        (copy / name).write_bytes((ROOT / "scripts" / name).read_bytes())
    (tmp_path / "README.md").write_text("All is well.\nIt goes on\nwhere it was.\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("# It hangs\n# on the CPU. It goes on where it was.\n")
    command = [sys.executable, copy / "check_wording.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        'src/a.py:1: "hangs on the"; write: depends on the',
        'README.md:2: "goes on where it was"; write: resumes',
        'src/a.py:2: "goes on where it was"; write: resumes',
    ]
