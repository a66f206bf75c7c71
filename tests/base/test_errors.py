"""How errors of other packages are passed on."""

import pickle
from pathlib import Path

import pytest

from nooch.base.errors import (
    FormatError,
    InputError,
    UndefinedError,
    as_input_error,
    lacking,
    no_such,
    unreadable,
)


@pytest.mark.parametrize(
    ("text", "line"),
    [("\n  \nneeds it\nmore", "needs it"), ("", "ImportError"), ("one\ntwo", "one")],
)
def test_an_error_is_quoted_by_its_first_line_of_text(text, line):
    with pytest.raises(InputError) as error, as_input_error("fails", where="a"):
        raise ImportError(text)
    assert str(error.value) == f"a: fails: ImportError: {line}"


def test_an_unreadable_file_is_one_error_that_says_why(tmp_path):
    file = tmp_path / "no.txt"
    with pytest.raises(InputError) as error, unreadable(file, "a text file"):
        file.read_bytes()
    assert (
        str(error.value)
        == f"{file}: cannot be read: No such file or directory\n  allowed: a text file"
    )
    kind = {"kind": FormatError, "problem": "is damaged"}
    with (
        pytest.raises(FormatError, match=r"^here: is damaged: x{300}$"),
        unreadable("here", **kind),
    ):
        raise ValueError("x" * 999)


@pytest.mark.parametrize("error", [KeyError("a defect"), UndefinedError("known")])
def test_an_error_that_is_not_of_the_file_stays_as_it_is(error):
    with pytest.raises(type(error)) as raised, unreadable("here"):
        raise error
    assert raised.value is error


@pytest.mark.parametrize(
    ("remedy", "give", "words"),
    [
        (None, {"ignore_unknown": True}, "pass ignore_unknown=True"),
        ("correct them", {"split": "a"}, "correct them, or pass split='a'"),
        ("{} to skip {a}", {"map": None, "n": 1}, "leave out map, and pass n=1 to skip {a}"),
        (
            "{} if from 0, {} if from 1",
            ({"first": 0}, {"first": 1, "images": ...}),
            "pass first=0 if from 0, pass first=1 and images=... if from 1",
        ),
        ("fix it", ({"a": [1]}, {"b": Path("c")}), "fix it, or pass a=[1], or pass b='c'"),
        ("a file named {}", (), "a file named {}"),
    ],
)
def test_the_words_of_a_remedy_are_made_from_what_to_give(remedy, give, words):
    error = InputError("is wrong", where="a", remedy=remedy, give=give)
    assert str(error) == f"a: is wrong\n  remedy: {words}"
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.give) == (str(error), error.give)


def test_what_is_not_there_is_said_with_what_is(tmp_path):
    (tmp_path / "model.csv").touch()
    assert no_such(tmp_path / "model.cvs").remedy == f"did you mean {tmp_path / 'model.csv'}?"
    wrong = tmp_path / "model.cvs"
    with pytest.raises(InputError, match=r"did you mean .*model\.csv"), unreadable(wrong):
        wrong.read_bytes()
    for path in (tmp_path / "other", tmp_path / "none" / "model.csv"):
        assert no_such(path).remedy is None
    assert "has no key b, c, only a" in str(lacking("key", ["b", "c"], {"a": 1}, tmp_path))
    assert "only none" in str(lacking("key", ["b"], [], tmp_path))
