"""The tutorials, and the pages on extending nooch, executed: the fenced blocks of a page in order,
and the output that it prints.
"""

import contextlib
import io
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from commands import completed

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path for name in ("tutorials", "extending") for path in (DOCS / name).glob("*.md"))
FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
TOLERANCE = 0.1
"""Of decimals, which depend on the CPU; whole numbers must be the same."""


@dataclass
class Page:
    """A tutorial that is run in ``folder``: blocks of ``bash`` and ``python``."""

    folder: Path
    scenes: Path
    run_cli: Callable
    monkeypatch: pytest.MonkeyPatch
    names: dict

    def run(self, language: str, text: str) -> str:
        """Run a block; return what it writes to standard output."""
        if language == "python":
            return self.run_python(text)
        assert language == "bash"
        text = text.replace("\\\n", "").replace("||\n", "||")
        return "".join(map(self.run_nooch, text.splitlines()))

    def run_nooch(self, line: str) -> str:
        """Run a command in this process: ``[PYTHONPATH=.] nooch ... [|| echo "exit code $?"]``."""
        command, _, otherwise = line.partition("||")
        if command.startswith("PYTHONPATH=. "):
            self.monkeypatch.syspath_prepend(self.folder)
        words = command.removeprefix("PYTHONPATH=. ").removeprefix("nooch ")
        if words == SCENES:
            shutil.copytree(self.scenes, "scenes")
            return ""
        ran = self.run_cli(words, env={"COLUMNS": "100"})
        assert bool(ran.code) == bool(otherwise), f"{line}\n{ran.out}\n{ran.err}"
        return ran.out + (f"exit code {ran.code}\n" if otherwise else "")

    def run_python(self, text: str) -> str:
        """Run Python in this process; names are those of the blocks before."""
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(text, "tutorial", "exec"), self.names)
        return output.getvalue()


SCENES = "tools scenes scenes --images 1500 --size 64"


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """What every page's first command makes."""
    with contextlib.chdir(tmp_path_factory.mktemp("scenes")):
        completed(SCENES)
        return Path("scenes").absolute()


@pytest.fixture
def page(scenes, tmp_path, monkeypatch, run_cli):
    monkeypatch.chdir(tmp_path)
    return Page(tmp_path, scenes, run_cli, monkeypatch, {})


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_blocks_run_and_print_what_the_page_says(path, page):
    output = ""
    for language, title, text in FENCE.findall(path.read_text(encoding="utf-8")):
        if title:
            (page.folder / title).write_text(text, encoding="utf-8")
        elif language == "text":
            assert_printed(text, output)
        else:
            output = page.run(language, text)


def assert_printed(expected: str, output: str) -> None:
    """Compare words; ``...`` stands for any number of them."""
    words, position = output.split(), 0
    for part in re.split(r"\.\.\.(?:\s|$)", expected):
        wanted = part.split()
        starts = range(position, len(words) - len(wanted) + 1)
        start = next((at for at in starts if all(map(same, wanted, words[at:]))), None)
        assert start is not None, f"not printed:\n{part}\nprinted:\n{output}"
        position = start + len(wanted)


def same(wanted: str, word: str) -> bool:
    with contextlib.suppress(ValueError):
        if "." in wanted:
            return abs(float(wanted) - float(word)) <= TOLERANCE
    return wanted == word


PRINTED = [("a 1 b", "a  1\nb"), ("a ... c", "a x y c"), ("... 0.52", "z 0.5")]
NOT_PRINTED = [("0.92", "0.5"), ("12", "13"), ("a c", "a b c"), ("b ... a", "a b")]


@pytest.mark.parametrize(("expected", "output"), PRINTED + NOT_PRINTED)
def test_output_is_compared(expected, output):
    refused = pytest.raises(AssertionError, match="not printed")
    with refused if (expected, output) in NOT_PRINTED else contextlib.nullcontext():
        assert_printed(expected, output)
