"""Fuzzing: inputs for every target of ``fuzz_targets``, guided by coverage where Atheris is there.

``python campaign/fuzzing.py --seconds 600 --seed 1`` shares the time among the targets, each in a
process of its own, which is watched: one that ends or stands still is a crash or a hang. Any
exception but a NoochError is a failure; a short input for it is kept in ``campaign/failures``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import mmap
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NoReturn

from mutations import MOST, minimal, mutated

if TYPE_CHECKING:
    from fuzz_targets import Target

__all__ = ["FAILURES", "failure_of", "fuzz"]

HERE = Path(__file__).resolve().parent
FAILURES = HERE / "failures"
HANG = 30.0
"""Seconds for one input; readers take milliseconds."""
MEMORY = 6 << 30
"""Bytes of address space of a process that fuzzes."""
_HEAD = 24


def failure_of(target: Target, data: bytes) -> str | None:
    """A forbidden exception of a target, and where; None if all is well, "" where no file could be
    made of the input.
    """
    from fuzz_targets import Uninteresting

    from nooch.base.errors import NoochError

    try:
        target.read(data)
    except Uninteresting:
        return ""
    except (NoochError, MemoryError):
        # the command line has a line for these
        return None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - panics of polars are not exceptions
        frames = traceback.extract_tb(error.__traceback__)
        places = [f for f in frames if "/src/nooch/" in f.filename] or frames
        return f"{type(error).__name__} in {Path(places[-1].filename).name}:{places[-1].lineno}"
    return None


class Child:
    """One target, fuzzed until a deadline; the parent sees its counter and its input."""

    def __init__(self, name: str, seconds: float, seed: int, shared: Path) -> None:
        from fuzz_targets import make_targets

        self.folder = tempfile.TemporaryDirectory(dir=shared.parent)
        self.target = make_targets(Path(self.folder.name))[name]
        self.deadline, self.random, self.shared = time.monotonic() + seconds, Random(seed), shared
        self.corpus = list(self.target.seeds)
        self.failures: dict[str, str] = {}
        with shared.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)
        self.count = self.runs = 0

    def run_one(self, data: bytes) -> None:
        """Read an input; note what must not be raised, with a short input for it."""
        self.memory[: _HEAD + len(data)] = b"%12d%12d" % (self.runs, len(data)) + data
        failure = failure_of(self.target, data)
        self.count += failure != ""
        self.runs += 1
        if failure and failure not in self.failures:
            short = minimal(data, lambda one: failure_of(self.target, one) == failure)
            self.failures[failure] = short.hex()
        if self.runs % 32 == 0 and time.monotonic() > self.deadline:
            self.end()

    def end(self) -> NoReturn:
        """Write what was found, and leave at once."""
        report = {"inputs": self.count, "failures": self.failures}
        self.shared.with_suffix(".json").write_text(json.dumps(report))
        self.folder.cleanup()
        os._exit(0)

    def next_input(self) -> bytes:
        """An input made from the seeds."""
        seed = self.random.choice(self.corpus)
        return mutated(seed, self.corpus, self.random, is_json=self.target.is_json)


def _fuzz_one(name: str, seconds: float, seed: int, shared: Path) -> NoReturn:
    """Fuzz in this process: by libFuzzer with our mutations, or only by our mutations."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        import atheris
    except ImportError:
        child = Child(name, seconds, seed, shared)
        while True:
            child.run_one(child.next_input())
    with atheris.instrument_imports(include=["nooch"]):
        child = Child(name, seconds, seed, shared)
        for corpus_entry in child.corpus:
            # what readers import when they are used is also instrumented
            failure_of(child.target, corpus_entry)

    def change(data: bytes, most: int, number: int) -> bytes:
        random = Random(number)
        if not child.target.is_json and random.random() < 0.2:
            return bytes(atheris.Mutate(data, most))
        return mutated(data, child.corpus, random, is_json=child.target.is_json)[:most]

    inputs = Path(child.folder.name, "corpus")
    inputs.mkdir()
    for number, corpus_entry in enumerate(child.corpus):
        (inputs / str(number)).write_bytes(corpus_entry)
    options = (
        f"-seed={seed} -max_len={MOST} -timeout=9999 -verbosity=0 -detect_leaks=0 -rss_limit_mb=0"
    )
    words = [sys.argv[0], *options.split(), str(inputs)]
    atheris.Setup(words, child.run_one, custom_mutator=change)
    atheris.Fuzz()
    child.end()


@dataclass
class Fuzzed:
    """Findings in a target: number of inputs, failures and their inputs, hangs."""

    name: str
    inputs: int = 0
    seconds: float = 0.0
    hangs: int = 0
    failures: dict[str, bytes] = field(default_factory=dict)

    def line(self) -> str:
        """In words."""
        rate, failures = self.inputs / max(self.seconds, 0.1), ", ".join(self.failures) or "nothing"
        return f"{self.name:22} {self.inputs:>9,} inputs, {rate:7,.0f}/s: {failures}"


def _watched(name: str, seconds: float, seed: int, work: Path) -> Fuzzed:
    """Fuzz a target in processes of its own, until its time is over."""
    done, started = Fuzzed(name), time.monotonic()
    while (left := seconds - (time.monotonic() - started)) > 0:
        shared = work / f"{name}-{seed}"
        shared.write_bytes(b"\0" * (_HEAD + MOST + 1))
        words = [
            sys.executable,
            HERE / "fuzzing.py",
            "--one",
            name,
            "--shared",
            shared,
            "--seconds",
            left,
        ]
        words += ["--seed", seed]
        threads = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "RUST_BACKTRACE": "0"}
        process = subprocess.Popen(
            [*map(str, words)],
            start_new_session=True,
            cwd=work,
            env={**os.environ, **threads},
            stdout=subprocess.DEVNULL,
            stderr=(work / f"{name}.log").open("wb"),
        )
        hung = _stood_still(process, shared)
        report = shared.with_suffix(".json")
        content = shared.read_bytes()
        if report.is_file():
            facts = json.loads(report.read_text())
            report.unlink()
            done.inputs += facts["inputs"]
            done.failures |= {what: bytes.fromhex(data) for what, data in facts["failures"].items()}
            continue
        done.inputs += int(content[:12].strip(b" \0") or 0)
        size = int(content[12:_HEAD].strip(b" \0") or 0)
        what = "hang" if hung else f"the process ended with {process.returncode}"
        done.hangs += hung
        done.failures[what] = content[_HEAD : _HEAD + size]
        seed += 1
    done.seconds = time.monotonic() - started
    return done


def _stood_still(process: subprocess.Popen[bytes], shared: Path) -> bool:
    """Wait for the end of a process; kill it if one input takes too long."""
    last, since = b"", time.monotonic()
    while process.poll() is None:
        time.sleep(0.2)
        with shared.open("rb") as file:
            now = file.read(12)
        if now != last:
            last, since = now, time.monotonic()
        # making the targets also takes time
        elif time.monotonic() - since > HANG * (1 if now.strip(b" \0") else 4):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return True
    return False


def fuzz(
    seconds: float, seed: int, names: Sequence[str] | None = None, *, workers: int = 2
) -> Iterator[Fuzzed]:
    """Fuzz the targets (all by default) and keep an input for each failure."""
    from fuzz_targets import make_targets

    with tempfile.TemporaryDirectory(dir=_memory_disk()) as folder:
        Path(folder, "names").mkdir()
        names = names or list(make_targets(Path(folder, "names")))
        share = seconds * workers / len(names)
        with ThreadPoolExecutor(workers) as pool:
            run: Callable[[str], Fuzzed] = lambda name: _watched(name, share, seed, Path(folder))  # noqa: E731
            for done in pool.map(run, names):
                for data in done.failures.values():
                    place = FAILURES / done.name
                    place.mkdir(parents=True, exist_ok=True)
                    digest = hashlib.sha256(data).hexdigest()[:12]
                    (place / digest).write_bytes(data)
                yield done


def _memory_disk() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def main() -> None:
    """Fuzz one target as a child, or all of them and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--one")
    parser.add_argument("--shared", type=Path)
    given = parser.parse_args()
    if given.one:
        _fuzz_one(given.one, given.seconds, given.seed, given.shared)
    for done in fuzz(given.seconds, given.seed, given.only):
        print(done.line(), flush=True)


if __name__ == "__main__":
    sys.path.append(str(HERE.parent / "tests"))
    main()
