"""Print the changelog of a release: python scripts/release_notes.py TAG [ROOT]

Fails, with everything that is wrong, where the tag is not the version everywhere or the release
is not dated.
"""

import re
import sys
import tomllib
from pathlib import Path


def main() -> int:
    """0, or 1 where the release is not ready."""
    tag, root = sys.argv[1], Path(sys.argv[2] if sys.argv[2:] else Path(__file__).parents[1])
    version = tag.removeprefix("v")
    changelog = (root / "CHANGELOG.md").read_text("utf-8")
    # the text up to the next heading of this level
    section = rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)\n(.*?)(?=^## |\Z)"
    notes = re.search(section, changelog, re.MULTILINE | re.DOTALL)
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    code = (root / "src/nooch/base/version.py").read_text("utf-8")
    citation = (root / "CITATION.cff").read_text("utf-8")
    wrong = {
        "the tag does not start with v": tag == version,
        f"version.py is not of {version}": f'__version__ = "{version}"\n' not in code,
        f"CITATION.cff is not of {version}": f"\nversion: {version}\n" not in citation,
        f'CHANGELOG.md has no "## {version} (YEAR-MONTH-DAY)"': notes is None,
        "pyproject.toml has no [project.urls]": not project.get("urls"),
    }
    for problem in [problem for problem, is_wrong in wrong.items() if is_wrong]:
        print(problem, file=sys.stderr)
    if any(wrong.values()) or notes is None:
        return 1
    print(notes[1].strip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
