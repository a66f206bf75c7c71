"""Criteria by name, alone, in a list, in a mapping; and what is none."""

from functools import partial

import pytest
from own_criteria import Counted
from refusals import fails, refused
from scored import small_data

import nooch
from nooch.base.errors import WrongTypeError
from nooch.criteria import CE, Attribute, Combination, Gist
from nooch.criteria.by_name import criterion_of, custom_criterion, parse_criteria

OWN = "own_criteria:Counted"
ACCEPTED = [
    (CE(), {"ce": CE()}),
    ("ce", {"ce": CE()}),
    (["ce"], {"ce": CE()}),
    ((CE(alpha=0.1), "gist"), {"ce": CE(alpha=0.1), "gist": Gist()}),
    (Gist("other"), {"gist": Gist("other")}),
    ({"a": "ce", "b": CE(beta=0.2)}, {"a": CE(), "b": CE(beta=0.2)}),
    ({}, {}),
    (Attribute("place = 'field'"), {"attribute": Attribute("place = 'field'")}),
    ("~ce", {"ce": CE(), "~ce": Combination("~ce")}),
    (["ce & gist", "ce"], {"ce": CE(), "gist": Gist(), "ce & gist": Combination("ce & gist")}),
    ([Combination("~ce"), CE(beta=0.2)], {"ce": CE(beta=0.2), "~ce": Combination("~ce")}),
    (OWN, {OWN: Counted()}),
]


@pytest.mark.parametrize(("criteria", "expected"), ACCEPTED)
def test_criteria_as_users_give_them(criteria, expected):
    named = parse_criteria(criteria)
    assert named == expected
    assert list(named) == list(expected)


def test_a_custom_criterion_may_be_an_object_or_a_class():
    assert custom_criterion(OWN) == Counted()
    refused(lambda: custom_criterion("own_criteria:Missing"), "cannot be imported")


def test_of_an_import_that_fails_the_first_line_is_told(tmp_path, monkeypatch):
    (tmp_path / "broken_criteria.py").write_text(r'raise ImportError("\nno libGL\nand more")')
    monkeypatch.syspath_prepend(tmp_path)
    refused(lambda: custom_criterion("broken_criteria:Any"), "cannot be imported: no libGL\n")


WRONG = [
    (3, "is 3, of type int"),
    (None, "of type NoneType"),
    ([CE(), 3], "is 3, of type int"),
    (CE, "write nooch.find(data, nooch.CE())"),
    ({"a": CE}, "write nooch.find(data, nooch.CE())"),
    (small_data(), "of type Dataset"),
]


@pytest.mark.parametrize(("criteria", "message"), WRONG)
def test_what_is_no_criterion_is_refused_with_an_example(criteria, message):
    fails(lambda: parse_criteria(criteria), "`criteria`", message, kind=WrongTypeError)
    with pytest.raises(TypeError):
        nooch.find(small_data(), criteria)


REFUSED = [
    ("cee", "did you mean ce?"),
    ("attribute", "allowed: ce, context, gist"),
    (["ce", "ce"], "two criteria are named ce\n  allowed: each name once"),
    ([CE(), CE(alpha=0.1)], "two criteria are named ce\n  allowed: each name once\n  remedy: give"),
    (["~ce", Combination("~ce")], "two criteria are named ~ce"),
    ("ce & nothing", "'nothing' is not a criterion"),
]


@pytest.mark.parametrize(("criteria", "message"), REFUSED)
def test_names_that_cannot_be_used_are_refused(criteria, message):
    refused(lambda: parse_criteria(criteria), message)


def test_gist_takes_the_only_embedding_of_a_dataset():
    assert Gist(tau=0.5).completed(["e"]) == Gist("e", 0.5)
    assert Gist("other").completed(["e", "f"]) == Gist("other")
    refused(lambda: Gist().completed([]), "the dataset has 0 embeddings", "nooch.embed(data")
    refused(lambda: Gist().completed(["e", "f"]), "allowed: the name of one: e, f")
    refused(lambda: nooch.find(small_data(), "gist"), "the dataset has 0 embeddings")


def test_the_makers_of_names_are_the_callers():
    made = parse_criteria(
        ["~mine", "ce"], partial(criterion_of, makers={"mine": Counted, "ce": CE})
    )
    assert made == {"ce": CE(), "mine": Counted(), "~mine": Combination("~mine")}
    refused(lambda: parse_criteria("gist", partial(criterion_of, makers={"ce": CE})), "allowed: ce")
