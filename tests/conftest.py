"""Fixtures that all tests share: real data where available, and the command line."""

from __future__ import annotations

import gc
import importlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

# tests run in parallel, one per CPU: threads that wait for each other would take most of the time
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("POLARS_MAX_THREADS", "1")

from nooch.cli import main


def _where(condition: Any, *values: Any) -> Any:
    """``np.where`` as of numpy 2.5: an integer that the other value's type lacks is an error."""
    for value, other in (values, values[::-1]) if values else ():
        if type(value) is int:
            np.array(value, dtype=np.result_type(other, value))
    return _numpy_where(condition, *values)


# earlier ones wrap it, and are those of requirements.lock
_numpy_where, np.where = np.where, _where

# waits for the disk would take as long as all else; cli/test_power_loss.py tests what survives,
# in processes that do wait
os.fsync = lambda _handle: None

# the same examples in every run; --hypothesis-profile=default looks for new ones
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=25)
# for make test-fast: fewer examples
settings.register_profile("fast", settings.get_profile("repeatable"), max_examples=10)
settings.load_profile("repeatable")

ROOT = Path(__file__).resolve().parent.parent

TESTS = Path(__file__).parent
SLOW = frozenset((TESTS / "slow.txt").read_text(encoding="utf-8").split())
"""Folders, files and tests that ``make test-fast`` leaves out."""
REHEARSALS = "rehearsals"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where slow tests are left out, files that are slow as a whole are not even imported.

    Rehearsals of a GPU run where they are asked for: by ``make gpu-check``, and every week.
    """
    name = collection_path.relative_to(TESTS).as_posix()
    if name == REHEARSALS:
        return True if not any(REHEARSALS in argument for argument in config.args) else None
    return True if config.option.markexpr == "not slow" and name in SLOW else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow tests: a whole folder or file, or a test with all its parameters."""
    for item in items:
        name = item.nodeid.partition("[")[0].removeprefix("tests/")
        file = name.partition("::")[0]
        if not SLOW.isdisjoint((name, file, *map(str, PurePosixPath(file).parents))):
            item.add_marker("slow")


def pytest_collection_finish() -> None:
    """What is imported stays: to look for garbage there takes 4% of the time."""
    gc.freeze()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data, never written; without it, the test is skipped.

    It is the one that the environment variable NOOCH_TEST_DATA names, or ``../shared/data``.
    """
    folder = Path(os.environ.get("NOOCH_TEST_DATA") or ROOT.parent / "shared" / "data").resolve()
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; NOOCH_TEST_DATA can name another folder")
    return folder


@dataclass(frozen=True)
class Ran:
    """Exit code and output of a command, and the error that it ended with."""

    code: int
    out: str
    err: str
    error: Exception | None = None

    @property
    def json(self) -> Any:
        """Standard output as one JSON document: fails where anything else was printed there."""
        return json.loads(self.out)

    def ok(self) -> Ran:
        """Itself, after checking that the command succeeded."""
        assert self.code == 0, self.err
        return self

    def refused(self, *messages: str) -> str:
        """The error on one line, after checking that it is one and says all of the messages."""
        assert self.code == 2, self.out
        assert self.out == ""
        assert "Traceback" not in self.err
        error = " ".join(self.err.split())
        for message in messages:
            assert message in error
        return error


@pytest.fixture
def run_cli(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Callable[..., Ran]:
    """Run ``nooch COMMAND``, and give its exit code and output.

    The command is one string, split as a shell does; more words are passed unchanged. It runs in
    this process, which is fast; with ``separate=True``, as ``python -m nooch``; in the folder
    ``cwd`` and with ``env`` added to the environment.
    """

    def run(
        command: str,
        *more: object,
        separate: bool = False,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Ran:
        words = [*shlex.split(command), *map(str, more)]
        if separate:
            process = {"cwd": cwd, "env": {**os.environ, **(env or {})}, "timeout": 300}
            program = [sys.executable, "-m", "nooch", *words]
            done = subprocess.run(program, check=False, capture_output=True, **process)
            return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["nooch", *words])
            # main sets the handler of SIGTERM: not for the test runner
            patch.setattr("signal.signal", lambda *_: None)
            if cwd is not None:
                patch.chdir(cwd)
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            capfdbinary.readouterr()
            errors: list[Any] = [None]
            module = importlib.import_module("nooch.cli.main")
            fail = module.fail
            patch.setattr(
                module, "fail", lambda error, *code: errors.append(error) or fail(error, *code)
            )
            try:
                main()
                code = 0
            except SystemExit as stop:
                code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
            out, err = capfdbinary.readouterr()
        return Ran(code, out.decode(), err.decode(), errors[-1])

    return run
