"""Criteria by name, alone, in a list, in a mapping; and what is none."""

import pytest
from own_criteria import Counted
from refusals import fails, refused
from scored import small_data

import nooch
from nooch.base.errors import WrongTypeError
from nooch.criteria import CE, Attribute, Combination, Gist
from nooch.criteria.by_name import custom_criterion, named_criteria

OWN = "own_criteria:Counted"
ACCEPTED = [
    (CE(), {"ce": CE()}),
    ("ce", {"ce": CE()}),
    (["ce"], {"ce": CE()}),
    ((CE(alpha=0.1), "gist"), {"ce": CE(alpha=0.1), "gist": Gist("e")}),
    ([CE(), Gist()], {"ce": CE(), "gist": Gist("e")}),
    (Gist("other"), {"gist": Gist("other")}),
    ({"a": "ce", "b": CE(beta=0.2)}, {"a": CE(), "b": CE(beta=0.2)}),
    ({}, {}),
    (Attribute("place = 'field'"), {"attribute": Attribute("place = 'field'")}),
    ("~ce", {"ce": CE(), "~ce": Combination("~ce")}),
    (["ce & gist", "ce"], {"ce": CE(), "gist": Gist("e"), "ce & gist": Combination("ce & gist")}),
    ([Combination("~ce"), CE(beta=0.2)], {"ce": CE(beta=0.2), "~ce": Combination("~ce")}),
    (OWN, {OWN: Counted()}),
]


@pytest.mark.parametrize(("criteria", "expected"), ACCEPTED)
def test_criteria_as_users_give_them(criteria, expected):
    named = named_criteria(criteria, ["e"])
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
    fails(lambda: named_criteria(criteria, ["e"]), "`criteria`", message, kind=WrongTypeError)
    with pytest.raises(TypeError):
        nooch.find(small_data(), criteria)


REFUSED = [
    ("cee", ["e"], "did you mean ce?"),
    ("attribute", ["e"], "allowed: ce, context, gist"),
    ([CE(), CE(alpha=0.1)], ["e"], "two criteria are named ce"),
    (["~ce", Combination("~ce")], ["e"], "two criteria are named ~ce"),
    ("gist", [], "the dataset has 0 embeddings"),
    (Gist(), ["e", "f"], "allowed: the name of one: e, f"),
    ("ce & nothing", ["e"], "'nothing' is not a criterion"),
]


@pytest.mark.parametrize(("criteria", "embeddings", "message"), REFUSED)
def test_names_that_cannot_be_used_are_refused(criteria, embeddings, message):
    refused(lambda: named_criteria(criteria, embeddings), message)
