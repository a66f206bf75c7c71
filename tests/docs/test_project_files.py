"""Files that say things about the project: they agree with the package, and with each other."""

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import nooch
from nooch.cli.main import EXIT_CODES

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


def test_the_reference_has_every_public_name():
    pages = "\n".join(path.read_text("utf-8") for path in REFERENCE.glob("*.md"))
    documented = re.findall(r"^::: nooch\.([\w.]+)$", pages, re.MULTILINE)
    assert len(documented) == len(set(documented))
    spaces = {name for name in nooch.__all__ if isinstance(getattr(nooch, name), ModuleType)}
    assert len(set(nooch.__all__) - spaces - {"__version__"}) <= 45
    names = set(nooch.__all__) - spaces
    for space in spaces:
        names |= {f"{space}.{name}" for name in getattr(nooch, space).__all__}
    names -= {f"{whole}.{name}" for whole in documented for name in _listed(whole)}
    assert names - set(documented) == {"__version__"}


def _listed(documented):
    """Names of a module that is documented whole."""
    found = getattr(nooch, documented, None)
    return found.__all__ if isinstance(found, ModuleType) else []


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == nooch.__version__


def test_a_release_is_refused_with_all_that_is_missing(tmp_path):
    for name in ("CHANGELOG.md", "CITATION.cff", "pyproject.toml", "src/nooch/base/version.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())

    def notes(tag):
        command = [sys.executable, ROOT / "scripts" / "release_notes.py", tag, tmp_path]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr.splitlines()

    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 9.9.9 (unreleased)\n- a\n")
    code, _, missing = notes("9.9.9")
    assert code == 1
    assert [line.split()[0] for line in missing[:4]] == [
        "the", "version.py", "CITATION.cff", "CHANGELOG.md",
    ]  # fmt: skip
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert len(missing) == 4 + ("urls" not in project)
    (tmp_path / "pyproject.toml").write_text('[project.urls]\nHomepage = "https://a.example"\n')
    (tmp_path / "CHANGELOG.md").write_text(
        f"# Changelog\n\n## {nooch.__version__} (2026-01-31)\n- a\n\n### B\n- c\n\n## 0.0.1\n"
    )
    assert notes(f"v{nooch.__version__}") == (0, "- a\n\n### B\n- c\n", [])


def test_the_page_for_programs_links_to_what_exists():
    text = (ROOT / "llms.txt").read_text("utf-8")
    links = re.findall(r"\]\((\S+)\)", text)
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).is_file()] == []
    codes = {int(code) for code in re.findall(r"(\d+) (?:done|a condition|an)", text)}
    assert codes <= EXIT_CODES.keys()
    assert {0, 1, 2} <= codes


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
    (tmp_path / "README.md").write_text("All is well.\nIt goes on\nwhere it was.\nIt is no\nset.\n")
    (tmp_path / "CHANGELOG.md").write_text("There is no set. It is no set.\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text(
        "# It hangs\n# on the CPU. It goes on where it was.\n"
        'def f():\n    """What it is: one and more."""\n'
    )
    command = [sys.executable, copy / "check_wording.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        'src/a.py:1: "hangs on the"; write: depends on the',
        'README.md:2: "goes on where it was"; write: resumes',
        'src/a.py:2: "goes on where it was"; write: resumes',
        'README.md:4: "is no s"; write: is not a ...',
        'src/a.py:4: "one and more"; write: at least ...',
        'src/a.py:4: """"What"; write: a noun or a verb: True if ..., Number of ...',
    ]


def _program(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)


def test_every_python_of_the_machine_is_tested(tmp_path):
    """One behind a file of pyenv that refuses, too; a failure ends it, but for what is new."""
    copy, programs = tmp_path / "copy", tmp_path / "programs"
    (copy / ".ci").mkdir(parents=True)
    (copy / "scripts").mkdir()
    for name in (".ci/run", "scripts/pythons.sh"):
        shutil.copy(ROOT / name, copy / name)
    _program(copy / "scripts" / "unlocked.sh", 'echo "unlocked $*"', "exit $UNLOCKED")
    _program(copy / ".venv" / "bin" / "python", "echo 3.11")
    for name in ("chromium", "python3.13", "python3.14"):
        _program(programs / name)
    _program(programs / "python3.12", "exit 127")
    hidden = tmp_path / "versions" / "bin" / "python3.12"
    _program(hidden)
    _program(programs / "pyenv", f'test "$2" = 3.12 && echo {hidden.parents[1]}')
    _program(programs / "make", 'echo "make $*"', 'case "$*" in *$FAILS*) exit 1;; esac')
    for name in ("bash", "dirname", "env"):
        (programs / name).symlink_to(shutil.which(name))

    def runs(fails, unlocked=0):
        environment = {"PATH": str(programs), "FAILS": fails, "UNLOCKED": str(unlocked)}
        command = [programs / "bash", copy / ".ci" / "run"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, [line for line in done.stdout.splitlines() if "3.1" in line]

    make = "make -C .venv-sdist test-fast PYTHON={} VENV=.venv-{} TESTS={}".format
    expected = [
        "Python 3.11: tested above",
        make(hidden, 3.12, "tests/cli"),
        "Python 3.12: make test-fast TESTS=tests/cli passes",
        make(programs / "python3.13", 3.13, ""),
        "Python 3.13: make test-fast TESTS= passes",
        make(programs / "python3.14", 3.14, "tests/cli"),
        "Python 3.14: not supported yet",
    ]
    unlocked = ["unlocked newest core 3.13", "unlocked lowest core 3.11"]
    assert runs("3.14") == (0, [*expected, *unlocked])
    # what others released, and what nooch has to correct
    assert runs("3.14", 75) == (0, [*expected, *unlocked])
    assert runs("3.14", 1) == (1, [*expected, unlocked[0]])
    assert runs("3.13") == (1, expected[:4])
    (programs / "python3.14").unlink()
    missing = "Python 3.14: not tested, since this machine lacks it"
    assert runs("nothing") == (0, [*expected[:5], missing, *unlocked])


def test_what_fails_in_another_package_is_told_from_what_nooch_has_to_correct(tmp_path):
    is_ours = runpy.run_path(str(ROOT / "scripts" / "main_commands.py"))["is_ours"]
    report, ours, theirs = tmp_path / "nooch-error-1.txt", "/v/nooch/a.py", "/v/typer/core.py"
    for places, expected in (([theirs, ours], True), ([ours, theirs], False)):
        report.write_text("\n".join(["options: ", *(f"{place}:3 in run" for place in places), ""]))
        assert is_ours(f"error\n  remedy: report it with the file {report}") is expected
        assert is_ours("".join(f'  File "{place}", line 1, in f\n' for place in places)) is expected
    assert is_ours("error: suite: is not a suite folder")


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
@pytest.mark.parametrize(("version", "code"), [("Python 3.13.0", 0), ("Python 3.12.1", 2)])
def test_make_refuses_the_environment_of_another_python(version, code, tmp_path):
    _program(tmp_path / "bin" / "python", "echo Python 3.13.0")
    _program(tmp_path / "python", f"echo {version}")
    command = ["make", "same-python", f"VENV={tmp_path}", f"PYTHON={tmp_path / 'python'}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert ("has Python 3.13.0: make clean" in done.stdout) is bool(code)


def test_what_processors_of_models_in_words_need_is_in_their_extra():
    """The metadata alone: torchvision does not load next to a CPU build of torch."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = extras["optional-dependencies"]
    names = {re.match(r"[\w-]+", line)[0] for line in extras["vlm"]}
    assert {"torchvision", "num2words", "torch", "transformers"} <= names
    assert {"vlm", "excel"} <= {*re.findall(r"\w+", extras["all"][0])}
