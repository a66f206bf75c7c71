"""Commands that are killed, interrupted, or find a disk full or a folder read-only: afterwards the
same command must end with the bytes of an undisturbed run.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from waiting import has_ended
from worlds import World, contents

__all__ = ["DISTURBANCES", "Figures", "Undisturbed", "disturb"]

HANG = 300.0
_CAP_DAC_OVERRIDE, _PR_CAPBSET_DROP = 1, 24


@dataclass
class Figures:
    """Counts of a campaign; ``problems`` has a line for everything that should not be."""

    name: str
    runs: int = 0
    disturbed: int = 0
    tracebacks: int = 0
    hangs: int = 0
    lost: int = 0
    problems: list[str] = field(default_factory=list)

    def row(self) -> str:
        """As a row of a table in Markdown."""
        numbers = (self.runs, self.disturbed, self.tracebacks, self.hangs, self.lost)
        counted = self.tracebacks + self.hangs + self.lost
        cells = (*numbers, max(0, len(self.problems) - counted))
        return f"| {self.name} | {' | '.join(f'{cell:,}' for cell in cells)} |"

    def add(self, other: Figures) -> None:
        """Add what another part of the campaign counted."""
        for name in ("runs", "disturbed", "tracebacks", "hangs", "lost"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.problems += other.problems

    def note(self, problem: str, command: str, error: str = "") -> None:
        """Write down a problem."""
        last = error.strip().splitlines()[-1:] if error else []
        self.problems.append(f"{self.name}, {command}: {problem} {' '.join(last)}"[:300])


@dataclass(frozen=True)
class Undisturbed:
    """Output of a command when nobody disturbs it, and its duration."""

    files: dict[str, bytes]
    seconds: float

    @classmethod
    def from_run(cls, world: World, name: str, work: Path) -> Undisturbed:
        """Run the command."""
        words = world.place(work, name)
        started = time.monotonic()
        subprocess.run(words, cwd=work, check=True, capture_output=True, timeout=HANG)
        seconds = time.monotonic() - started
        files = contents(work)
        shutil.rmtree(work)
        return cls(files, seconds)


@dataclass
class Trial:
    """One command in a folder of its own, disturbed some times."""

    figures: Figures
    name: str
    words: list[str]
    work: Path
    usual: Undisturbed
    random: Random

    def run(
        self,
        prepare: Callable[[], None] | None = None,
        stop: int | None = None,
        who: Callable[[int], list[int]] = lambda group: [-group],
    ) -> tuple[int, str]:
        """Run the command; send a signal at a random moment, to all of its group or to ``who``.

        Returns its exit code and its output.
        """
        self.figures.runs += 1
        errors = self.work.with_suffix(".err")
        with errors.open("wb") as file:
            process = subprocess.Popen(
                self.words, cwd=self.work, stdout=subprocess.DEVNULL, stderr=file,
                start_new_session=True, preexec_fn=prepare,
            )  # fmt: skip
            try:
                if stop is not None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(self.random.uniform(0, 1.05 * self.usual.seconds))
                    for victim in who(process.pid) if process.poll() is None else ():
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(victim, stop)
                            self.figures.disturbed += 1
                code = process.wait(HANG)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                code = process.wait()
                self.figures.hangs += 1
                self.figures.note("hangs", self.name)
        said = errors.read_text(errors="replace")
        if stop != signal.SIGKILL and ("Traceback" in said or "panicked" in said or code == 70):
            self.figures.tracebacks += 1
            self.figures.note("traceback", self.name, said)
        return code, said

    def check(self, code: int, said: str, *allowed: int) -> None:
        """Note an exit code that is not allowed, or an error that is not one error."""
        if code not in allowed:
            self.figures.note(f"exit code {code}", self.name, said)
        errors = sum(line.startswith("error:") for line in said.splitlines())
        if code == 2 and errors != 1:
            self.figures.note(f"{errors} errors", self.name, said)

    def finish(self) -> None:
        """The same command, undisturbed: everything must be there, and nothing else."""
        code, said = self.run()
        if code == 2 and "exists" in said and self.same():
            # it was finished before it was disturbed
            return
        if code or not self.same():
            self.figures.lost += 1
            now = contents(self.work)
            differs = sorted(
                n
                for n in now.keys() | self.usual.files.keys()
                if now.get(n) != self.usual.files.get(n)
            )
            self.figures.note(f"LOST ({code}): {', '.join(differs[:3])}", self.name, said)

    def same(self) -> bool:
        """True if the files equal an undisturbed run's."""
        return bool(contents(self.work) == self.usual.files)


def _kill(trial: Trial) -> None:
    for _ in range(5):
        code, _ = trial.run(stop=signal.SIGKILL)
        if code != -signal.SIGKILL:
            return


def _kill_worker(trial: Trial) -> None:
    """Kill one worker of an engine; the command ends all the same."""
    if "--engine" in trial.words:
        code, said = trial.run(stop=signal.SIGKILL, who=_worker)
        trial.check(code, said, 0)


def _worker(group: int) -> list[int]:
    """The next process of the group that the command itself did not start: a fork server did."""
    while not has_ended(group):
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, IndexError):
                words = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(words[2]) == group and group not in {int(words[1]), int(entry.name)}:
                    return [int(entry.name)]
        time.sleep(0.01)
    return []


def _interrupt(trial: Trial) -> None:
    for _ in range(3):
        code, said = trial.run(stop=signal.SIGINT)
        # -2: the signal came before Python had a handler, which shells also report as 130
        trial.check(code, said, 0, 130, -signal.SIGINT)
        if code not in {130, -signal.SIGINT}:
            return


def _fill_disk(trial: Trial) -> None:
    largest = max(map(len, trial.usual.files.values()))
    for _ in range(2):
        limit = trial.random.randrange(largest + 1)
        code, said = trial.run(partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit)))
        trial.figures.disturbed += 1
        trial.check(code, said, 0, 2)
        if code == 0:
            return


def _without_rights() -> None:
    """Let root be refused what others are."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, 0, 0, 0)


def _forbid_writing(trial: Trial) -> None:
    folders = [trial.work, *(path for path in trial.work.rglob("*") if path.is_dir())]
    before = contents(trial.work)
    for folder in folders:
        folder.chmod(0o555)
    code, said = trial.run(_without_rights)
    trial.figures.disturbed += 1
    for folder in folders:
        folder.chmod(0o755)
    trial.check(code, said, 2)
    if contents(trial.work) != before:
        trial.figures.note("has written to a folder that is read-only", trial.name)


def _lose_power(trial: Trial) -> None:
    """One of the states that a power loss can leave; what was called done is there."""
    from power_loss import Losses, compiled

    log, command = trial.work.with_suffix(".log"), " ".join(trial.words[3:])
    library = compiled(trial.work.parent)
    recorded = Losses.recorded(command, trial.work, library, log)
    trial.figures.runs += 1
    states = recorded.states()
    state = trial.random.choice(states)
    state.restore(trial.work)
    trial.figures.disturbed += 1
    if state is states[-1] and not trial.same():
        trial.figures.lost += 1
        trial.figures.note("LOST: it was called done", trial.name)
    shutil.rmtree(log)


DISTURBANCES: dict[str, Callable[[Trial], None]] = {
    "kills": _kill,
    "killed workers": _kill_worker,
    "SIGINT": _interrupt,
    "full disk": _fill_disk,
    "read-only": _forbid_writing,
    "power loss": _lose_power,
}


def disturb(figures: Figures, name: str, world: World, usual: Undisturbed, random: Random) -> None:
    """One trial of a command in a folder of its own, which is kept where something was lost."""
    work = world.folder / f"{figures.name} {random.getrandbits(60)}".replace(" ", "-")
    trial = Trial(figures, name, world.place(work, name), work, usual, random)
    DISTURBANCES[figures.name](trial)
    trial.finish()
    if not figures.lost:
        shutil.rmtree(work)
