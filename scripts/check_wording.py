"""Refuse the phrases of wording.toml in documentation, docstrings, comments and messages, and
documentation wider than 100 columns.

``--pending`` counts the phrases that are not refused everywhere yet, without failing.
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
COLUMNS = 100
GAP = r"[^\w.:;!?()]+"
"""Between two words of a phrase: spaces, line breaks, and what continues a comment or string."""


def main(arguments: list[str]) -> int:
    """Print every refused phrase or line with its place, or the counts of pending ones."""
    words = tomllib.loads((ROOT / "scripts" / "wording.toml").read_text("utf-8"))
    documentation, code = (list(_files(words["files"], kind)) for kind in ("documentation", "code"))
    if "--pending" in arguments:
        for phrase in words["documentation"] | words["pending"]:
            here, n_code = (
                len(list(occurrences(phrase, files))) for files in (documentation, code)
            )
            print(f"{phrase}: documentation {here}, code {n_code}")
        return 0
    refused = [
        *_refusals(words["everywhere"], [*documentation, *code]),
        *_refusals(words["documentation"], documentation),
        *_refused_patterns(words["patterns"], [*documentation, *code], words["files"]["history"]),
        *_refused_patterns(words["docstrings"], code),
        *_wide_lines(path for path in documentation if path.suffix == ".md"),
    ]
    print("\n".join(refused), end="\n" if refused else "")
    return 1 if refused else 0


def occurrences(phrase: str, files: Iterable[Path]) -> Iterator[tuple[Path, int]]:
    """Files and line numbers of a phrase, in any case; it may run over the end of a line.

    A flag such as ``--by-sight`` is not a phrase.
    """
    pattern = re.compile(rf"(?<!--)\b{GAP.join(map(re.escape, phrase.split()))}\b", re.IGNORECASE)
    for path in files:
        text = path.read_text("utf-8")
        for match in pattern.finditer(text):
            yield path, text.count("\n", 0, match.start()) + 1


def _refused_patterns(
    patterns: dict[str, str], files: Iterable[Path], exempt: Iterable[str] = ()
) -> Iterator[str]:
    """Places of regular expressions, in which a space (not before a bracket) is a gap."""
    texts = {path: path.read_text("utf-8") for path in files if path.name not in exempt}
    for pattern, better in patterns.items():
        compiled = re.compile(re.sub(r" (?!\))", lambda _: GAP, pattern))
        for path, text in texts.items():
            for match in compiled.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                found = " ".join(match[0].split())
                yield f'{path.relative_to(ROOT)}:{line}: "{found}"; write: {better}'


def _refusals(phrases: dict[str, str], files: Iterable[Path]) -> Iterator[str]:
    files = list(files)
    for phrase, better in phrases.items():
        for path, line in occurrences(phrase, files):
            yield f'{path.relative_to(ROOT)}:{line}: "{phrase}"; write: {better}'


def _wide_lines(files: Iterable[Path]) -> Iterator[str]:
    """Lines of Markdown over 100 columns, but for tables, addresses and code with its output."""
    for path in files:
        is_code = False
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            is_code ^= line.lstrip().startswith("```")
            if len(line) > COLUMNS and not (is_code or line.startswith("|") or "://" in line):
                yield f"{path.relative_to(ROOT)}:{number}: {len(line)} columns; wrap at {COLUMNS}"


def _files(patterns: dict[str, Any], kind: str) -> Iterator[Path]:
    exempt = {ROOT / name for name in patterns["exempt"]}
    for pattern in patterns[kind]:
        yield from sorted(set(ROOT.glob(pattern)) - exempt)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
