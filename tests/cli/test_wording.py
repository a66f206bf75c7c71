"""Counts as people say them."""

from nooch.base.words import counted


def test_counts():
    assert [counted(n, "job") for n in (0, 1, 1024)] == ["0 jobs", "1 job", "1,024 jobs"]
    words = ("class", "hard image", "probability")
    assert [counted(2, word) for word in words] == ["2 classes", "2 hard images", "2 probabilities"]
