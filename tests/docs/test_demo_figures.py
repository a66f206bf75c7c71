"""Numbers that the documentation quotes are those that ``make demo`` wrote down."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
KNOWN = json.loads((ROOT / "examples" / "demo_figures.json").read_text())


def _words(name):
    return " ".join((ROOT / name).read_text("utf-8").split())


def test_readme_quotes_the_demo():
    text = _words("README.md")
    found = re.search(
        r"misses (\S+)% of the hard positives and (\S+)% of the easy ones[^;]*; it claims an"
        r" absent object in (\S+)% of the hard negatives and (\S+)% of the easy ones",
        text,
    )
    assert found, "README.md does not quote the demo in the usual words"
    means = [
        KNOWN[f"error_{side}_task_mean"]
        for side in ("hard_positive", "easy_positive", "hard_negative", "easy_negative")
    ]
    quoted = [float(number) for number in found.groups()]
    # as many digits as are printed
    assert all(abs(a - b) <= (0.005 if b < 1 else 0.5) for a, b in zip(quoted, means, strict=True))


def test_the_page_on_bench_quotes_the_demo():
    marked, jobs = KNOWN["jobs_worse_than_constant"], KNOWN["jobs"]
    assert f"{marked} of {jobs:,} jobs of the demo are marked" in _words("docs/bench.md")
