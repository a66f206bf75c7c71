"""Counts, durations and sizes as people say them."""

import pytest

from nooch.cli.number_words import duration, human_size
from nooch.english import counted

DURATIONS = {
    0.00042: "0.4 ms",
    0.58: "580 ms",
    1: "1 s",
    1.25: "1.2 s",
    58.4: "58 s",
    119: "119 s",
    120: "2 min",
    3600: "60 min",
    9000: "2.5 h",
    86400: "24 h",
    298000: "3.4 days",
    729 * 86400: "729 days",
    7e7: "2.2 years",
    4e12: "126,752 years",
}


@pytest.mark.parametrize("seconds", DURATIONS)
def test_durations(seconds):
    assert duration(seconds) == DURATIONS[seconds]


def test_counts_and_sizes():
    assert [counted(n, "job") for n in (0, 1, 1024)] == ["0 jobs", "1 job", "1,024 jobs"]
    words = ("class", "hard image", "probability")
    assert [counted(2, word) for word in words] == ["2 classes", "2 hard images", "2 probabilities"]
    sizes = ["6 bytes", "1.5 kB", "26 MB", "3,400 TB"]
    assert [human_size(n) for n in (6, 1500, 26_000_000, 3.4e15)] == sizes
