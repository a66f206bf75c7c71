"""Every state that a power loss could leave of a folder that a command works in.

The command runs once, with ``power_loss.c`` preloaded, which records what it does to files. From
that record follows what is on the disk at each moment, under two file systems: one that keeps
nothing which was not synced (names in a folder, too), and one that keeps all names in order, as
journaling ones do, but no content that was not synced.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from commands import argv

__all__ = ["Losses", "State", "compiled"]

Tree = dict[str, Any] | tuple[int, bytes]
"""Names and what they are, or a file: its identity and content."""


@dataclass(eq=False)
class Node:
    """A file or folder: its content, or the nodes in it; ``kept`` is what is on the disk."""

    is_folder: bool
    kept: dict[str, Node] | bytes
    names: dict[str, Node] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, known: dict[int, Node]) -> Node:
        """What lies there, all of it on the disk; ``known`` collects nodes by inode."""
        inode = path.stat().st_ino
        if inode not in known:
            names = {}
            if path.is_dir():
                names = {one.name: cls.of(one, known) for one in sorted(path.iterdir())}
            kept = dict(names) if path.is_dir() else path.read_bytes()
            known[inode] = cls(path.is_dir(), kept, names)
        return known[inode]

    def left(self, strict: bool) -> Tree:
        """What a loss leaves of it."""
        if not self.is_folder:
            return id(self), self.kept
        names = self.kept if strict and isinstance(self.kept, dict) else self.names
        return {name: names[name].left(strict) for name in sorted(names)}


@dataclass(frozen=True)
class State:
    """What a loss after ``done`` operations, the last of which was ``last``, leaves of a folder."""

    done: int
    last: str
    tree: Tree

    def restore(self, folder: Path) -> None:
        """Make a folder that; a file with several names stays one file."""
        shutil.rmtree(folder)
        _write(self.tree, folder, {})


def compiled(folder: Path) -> Path:
    """The library to preload; the test is skipped without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler (cc)")
    library, source = folder / "power_loss.so", Path(__file__).with_suffix(".c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


@dataclass
class Losses:
    """The recorded operations of a command on a folder, which was ``before``."""

    root: Path
    before: Node
    nodes: dict[int, Node]
    operations: list[list[str]]

    @classmethod
    def recorded(cls, command: str, root: Path, library: Path, log: Path, **more: str) -> Losses:
        """Run a command in ``root``; it must succeed."""
        log.mkdir()
        nodes: dict[int, Node] = {}
        before = Node.of(root, nodes)
        variables = {"LD_PRELOAD": library, "NOOCH_LOSS_ROOT": root, "NOOCH_LOSS_LOG": log, **more}
        environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
        done = subprocess.run(
            argv(command), cwd=root, env=environment, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        lines = (log / "operations").read_text().splitlines()
        return cls(root, before, nodes, [line.split("\t") for line in lines])

    def states(self) -> list[State]:
        """Each different state that a loss can leave; those of the end come last."""
        found: dict[str, State] = {}
        end = len(self.operations)
        for number, (what, inode, one, other) in enumerate([["", "0", "", ""], *self.operations]):
            self._apply(what, int(inode), one, other)
            for strict in (True, False):
                tree = self.before.left(strict)
                last = f"{what} {one[len(str(self.root)) :]}"
                # what is lost at the end was called done: looked at again
                found.setdefault(f"{number == end} {_digest(tree)}", State(number, last, tree))
        return list(found.values())

    def _apply(self, what: str, inode: int, one: str, other: str) -> None:
        if what in ("create", "mkdir"):
            self.nodes[inode] = Node(what == "mkdir", {} if what == "mkdir" else b"")
            self._put(one, self.nodes[inode])
        elif what == "truncate":
            self.nodes[inode].kept = b""
        elif what == "remove":
            self._take(one)
        elif what == "link":
            self._put(other, self._at(one))
        elif what == "rename":
            self._put(other, self._take(one))
        elif what == "exchange":
            first, second = self._take(one), self._take(other)
            self._put(one, second)
            self._put(other, first)
        elif what == "sync":
            self.nodes[inode].kept = Path(other).read_bytes()
        elif what == "sync-names":
            self.nodes[inode].kept = dict(self.nodes[inode].names)
        else:
            assert what in ("", "write"), what

    def _at(self, path: str | Path) -> Node:
        node = self.before
        for part in Path(os.path.normpath(path)).relative_to(self.root).parts:
            node = node.names[part]
        return node

    def _put(self, path: str, node: Node) -> None:
        self._at(Path(path).parent).names[Path(path).name] = node

    def _take(self, path: str) -> Node:
        return self._at(Path(path).parent).names.pop(Path(path).name)


def _digest(tree: Tree) -> str:
    """Equal where the same is left."""
    if isinstance(tree, tuple):
        return hashlib.sha256(tree[1]).hexdigest()
    listed = [(name, _digest(one)) for name, one in tree.items()]
    return hashlib.sha256(repr(listed).encode()).hexdigest()


def _write(tree: Tree, path: Path, done: dict[int, Path]) -> None:
    if isinstance(tree, dict):
        path.mkdir()
        for name, one in tree.items():
            _write(one, path / name, done)
    elif tree[0] in done:
        os.link(done[tree[0]], path)
    else:
        path.write_bytes(tree[1])
        done[tree[0]] = path
