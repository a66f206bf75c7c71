"""The language of phi: what it refuses, and that what it accepts follows SQL's logic."""

import logging
import math
import operator
from datetime import date

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from refusals import fails, refused
from scipy.sparse import csr_array

from nooch.base.errors import ParameterError
from nooch.criteria.attribute import Attribute, FittedAttribute
from nooch.criteria.phi import MAX_DEPTH, MAX_LENGTH, identifier, parse
from nooch.data import Dataset

ANY = ""
# part of the message -> what is refused with it
REFUSED = {
    "is empty": ["", "   "],
    "cannot be read": [
        "place = 1 place = 0", "place = 1 AS x", "place alias", "place = ", "place = 1 AND",
        "(place = 1", "place = 1)", "place = 'open", 'place = "open', "place = 1 extra",
        "place BETWEEN 1", "place = 1 LIMIT 1",
    ],
    # statements, sub-queries, functions, aggregates, windows
    ANY: [
        "SELECT 1", "(SELECT 1) = place", "place = ANY (SELECT 1)", "place > ALL (1, 2)",
        "EXISTS (SELECT 1)", "place = 1 UNION SELECT 2", "WITH t AS (SELECT 1) SELECT * FROM t",
        "DROP TABLE images", "COPY images TO 'x'", "SET x = 1", "VALUES (1)",
        "place IN read_csv('x')", "count(*) = 1", "sum(place) OVER () = 1", "now() > place",
        "ln() > 0", "ln(DISTINCT place) > 0", "ln(2, place) > 0", "abs(*) > 0",
        "abs(place ORDER BY y) > 0", "ln(place) FILTER (WHERE y = 1) > 0", "unseen(place) OVER ()",
        "unseen(place) IGNORE NULLS", "{fn ln(place)} > 0",
        # unseen takes one column; area and present take one class
        "unseen()", "unseen(place, y)", "unseen(1)", "unseen('place')", "unseen(place + 1)",
        "unseen(ln(place))", "unseen(*)", "unseen(DISTINCT place)", "area(road, sky) > 0",
        "area('road') > 0", "present()", "present(area(sky))", "present(sky) OVER ()",
        "present(DISTINCT sky)", "share(road) > 0",
        # syntax outside the language
        "*", "* = 1", "a.b.c = 1", "columns('a.*') = 1", "CASE place WHEN 1 THEN TRUE END",
        "TRY_CAST(place AS INT) = 1", "place::int = 1", "place > INTERVAL '1' DAY",
        "EXTRACT(year FROM place) = 2013", "place > CURRENT_DATE", "place ILIKE 'a%'",
        "place SIMILAR TO 'a'", "place ~ 'a'", "place || 'a' = 'b'", "'a' 'b' = place",
        "place COLLATE x = 'a'", "place AT TIME ZONE 'UTC' = 1", "place & 1 = 1", "~place = 1",
        "place << 1 = 1", "place // 2 = 1", "place DIV 2 = 1", "place <=> 1", "place XOR y",
        "place IS DISTINCT FROM 1", "place IS y", "place IS UNKNOWN", "place ISNULL",
        "y >= place ISNULL", "place NOTNULL", "NULL", "place IN (1, NULL)", "place IN (y)",
        "place IN (1 + 1)", "place IN 1", "place IN ((1))", "place IN ()", "place IN UNNEST([1])",
        "place BETWEEN SYMMETRIC 2 AND 1", "(place, y) = (1, 1)", "(place, y)", "ROW(place) = 1",
        "ARRAY[place] = 1", "place[0] = 1", "{'a': place} = 1", "STRUCT(place) = 1", "x -> x + 1",
        "place = ?", "place = :name", "place = @name", "place = $1", "{{ place }} = 1",
        "`place` = 1", "place := 1", "if(place = 1, TRUE, FALSE)", "if = 1",
        # literals of other dialects; unicode in the place of signs, digits and spaces
        "place = N'a'", "place = x'1f'", "place = 0x1f", "place = e'\\n'", "place = $$a$$",
        "place = 1_000", "place = 1e", "place = 1.2.3", "place ＝ 1", "place = １", "place = ²",
        "place = ٣", "pla\u200bce = 1", "（place = 1）", "place = ‘a’", "place = 1\x00",
        "\ufeffplace = 1", "CASE WHEN " * 190,
    ],
    "has ';'": [";", "place = 1;", "place = 1; DROP TABLE images"],
    "has '.'": ["images.place = 1", "images.* = 1"],
    "half a character": ["place = '\ud800'"],
    "the functions are": ["coalesce(place, 0) = 1", "max(place) = 1", "random() > 0"],
    "YYYY-MM-DD": ["place > DATE '2013-01-01'", "CAST(place AS INT) = 1"],
    "name IN ('a', 'b')": ["place LIKE 'a%'", "place IN (SELECT 1)"],
    "write it with AND, OR and NOT": ["CASE WHEN place = 1 THEN TRUE END"],
    "write IS NULL or IS NOT NULL": ["place = NULL"],
    "name = TRUE": ["place IS TRUE", "place IS 1"],
    # chained comparisons would read as (0 < place) < 2
    "chains comparisons": ["0 < place < 2", "place = y = 1", "place = 1 IS NULL", "place = NOT y"],
    "comment": ["place = 1 -- 0", "place /* x */ = 1", "/*+ hint */ place = 1", "place--1 = 0",
                "{# c #} place = 1"],
    "up to 1.7e308": ["place = 1e999", "place = 18446744073709551616",
                      "place = -9223372036854775809"],
    "is the same for every image": ["TRUE", "1 = 1", "'a' < 'b'"],
    f"up to {MAX_DEPTH} levels": [
        "(" * (MAX_DEPTH + 1) + "place = 1" + ")" * (MAX_DEPTH + 1), "NOT " * 400 + "place = 1",
        "(" * 900 + "place = 1" + ")" * 900, "- " * 900 + "place = 1", "(" * 1999,
        "abs(" * 300 + "place" + ")" * 300 + " = 1", "+".join(["place"] * 300) + " = 1",
    ],
    "nests %, BETWEEN or IN too often": ["y" + " % 7" * 13 + " = 1"],
    f"up to {MAX_LENGTH}": ["place = " + "1" * MAX_LENGTH, " OR ".join(["place = 1"] * 2000)],
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message, caplog, capsys):
    """In silence, with what is allowed and what to write instead."""
    caplog.set_level(logging.DEBUG)
    for text in REFUSED[message]:
        said = refused(lambda text=text: parse(text), "phi: ", message, "allowed: ", "remedy: ")
        assert len(said) < 1000, text
    assert not caplog.records
    assert capsys.readouterr() == ("", "")


def test_phi_must_be_text():
    for value in (None, 1, b"place = 1", ["place = 1"]):
        refused(lambda value=value: Attribute(value), "empty")


@given(st.text(max_size=80) | st.text("ab1'\" ()<>=!+-*/%,;.:?[]{}#@$\\\n", max_size=80))
@settings(deadline=None, max_examples=200)
def test_any_text_is_parsed_or_refused(text):
    try:
        names = parse(text).names
    except ParameterError:
        return
    assert names


WORDS = [
    "a", "place", "y", "(", "(", ")", ")", ",", "=", "!=", "<", ">=", "+", "-", "*", "/", "%",
    "AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "TRUE", "ln", "abs", "unseen", "1", "2.5",
    "'x'", '"q"', "SELECT", "FROM", "CASE", "WHEN", "THEN", "END", "CAST", "AS", "LIKE", "EXISTS",
    "INTERVAL", "DATE", "OVER", "UNION", "ANY", "ARRAY", "COLLATE", "EXTRACT", "count", "max", "if",
    "ROW", "DISTINCT", "FILTER", "VALUES", "DIV", "XOR", "ISNULL", "UNKNOWN", "CURRENT_DATE",
    "trim", "overlay", "next", "value", "for", "columns", "lateral", "match", "area", "present",
]  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join))
@settings(deadline=None, max_examples=200)
def test_what_is_parsed_has_no_other_words(text):
    try:
        phi = parse(text)
    except ParameterError:
        return
    keywords = {"AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "TRUE", "LN", "ABS", "UNSEEN"}
    keywords |= {"AREA", "PRESENT"}
    words = {word for word in text.split() if word[0].isalpha()}
    known = {*phi.names, *(name for _, name in phi.calls.values())}
    assert all(word.upper() in keywords or word in known for word in words)


def test_areas_and_presences_are_of_classes_and_not_of_names():
    phi = parse('Area(road) > area AND NOT present("sky-other") OR present(road) AND present = 1')
    assert phi.names == ("area", "present")
    assert phi.calls == {
        "area(road)": ("area", "road"), 'present("sky-other")': ("present", "sky-other"),
        "present(road)": ("present", "road"),
    }  # fmt: skip
    assert phi.unseen == ()


def test_names_keep_case_and_order():
    phi = parse('Zeta = 1 AND "sky-other" > ALPHA OR unseen(Camera) and b BETWEEN c AND "d""e"')
    assert phi.names == ("Zeta", "sky-other", "ALPHA", "Camera", "b", "c", 'd"e')
    assert phi.unseen == ("Camera",)


def test_long_chains_are_one_level():
    assert parse(" OR ".join(["a=1"] * 150)).names == ("a",)
    assert parse("(" * 25 + "a=1" + ")" * 25).names == ("a",)


ODD_NAMES = [
    *WORDS, "sky-other", "", " ", "a b", 'q"q', "*", "^a$", "a.b", "1st", "é", "a = 1 OR b", "-- x",
    "next",
]  # fmt: skip

TEMPLATES = (
    "{} = 1", "{} IN (1)", "other != {}", "NOT {}", "unseen({})", "{} IS NULL", "ln({}) > -{}"
)  # fmt: skip


def test_identifier_reads_as_that_name_everywhere():
    for name in ODD_NAMES:
        for template in TEMPLATES:
            text = template.replace("{}", identifier(name))
            assert set(parse(text).names) - {"other"} == {name}, text
    assert identifier("place") == "place"


# What follows compares phi with a naive evaluator that goes row by row.

SEEN = {"i": [0, 1], "f": [0.25, 1], "s": ["a"], "b": [True], "d": ["2013-01-01"]}
KINDS = {
    "number": [*"ijfy", "cat", "area(sky)", "area(car)"],
    "text": [*"st"],
    "boolean": ["b", "present(sky)"],
    "date": [*"de"],
}
COMPARE = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne, "<>": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
LITERALS = {
    "number": st.integers(-3, 3) | st.integers(-12, 12).map(lambda n: n / 4),
    "text": st.sampled_from(["a", "b", "o'k", ""]),
    "boolean": st.booleans() | st.sampled_from([0, 1]),
    "date": st.sampled_from([date(2012, 12, 31), date(2013, 1, 1), date(2020, 2, 29)]),
}


def rows():
    nullable = dict.fromkeys("ij", st.integers(-3, 3)) | {"b": st.booleans()}
    nullable |= {name: LITERALS[kind] for kind in ("text", "date") for name in KINDS[kind]}
    nullable["f"] = st.integers(-12, 12).map(lambda n: n / 4) | st.just(math.nan)
    columns = {name: st.none() | values for name, values in nullable.items()}
    # None: not annotated in the image; NaN: present, with unknown area
    sky = st.sampled_from([None, math.nan, 0.0, 0.25, 1.0])
    columns |= {"y": st.integers(0, 1), "cat": st.integers(0, 1), "sky": sky}
    return st.fixed_dictionaries({**columns, "sky is there": st.booleans()}).map(_with_calls)


def _with_calls(row):
    """The values of calls, as phi writes them."""
    unknown, there = row["sky"] is None, row["sky is there"]
    row["area(sky)"] = None if unknown else row["sky"] if there else 0.0
    row["present(sky)"] = None if unknown else there
    row["area(car)"] = float(row["y"])
    return row


def dataset(table):
    types = {"i": pl.Int8, "j": pl.Int64, "f": pl.Float64, "s": pl.String, "t": pl.Categorical}
    types |= {"b": pl.Boolean, "d": pl.Date, "e": pl.Date}
    columns = {n: pl.Series([row[n] for row in table], dtype=kind) for n, kind in types.items()}
    entries = [
        (n, column, area)
        for n, row in enumerate(table)
        for column, area in enumerate((row["y"], row["cat"], row["sky"]))
        if (row["present(sky)"] if column == 2 else area)
    ]
    rows, columns_of, areas = (list(part) for part in zip((0, 0, 0), *entries, strict=True))
    places = rows[1:], columns_of[1:]
    unknown = np.zeros((len(table), 3))
    unknown[:, 2] = [row["sky"] is None for row in table]
    images = pl.DataFrame({"image_id": range(len(table)), **columns})
    presence = csr_array((np.array(areas[1:], float), places), shape=unknown.shape)
    return Dataset.build(images, ["car", "cat", "sky"], presence, unknown=unknown)


@st.composite
def numbers(draw, depth):
    """A tree of tuples; the second part of each leaf is a name or a value."""
    deeper = ["column", "+", "-", "*", "/", "%", "neg", "f"]
    kind = draw(st.sampled_from(["column", "literal"] if depth == 0 else deeper))
    if kind == "column":
        return (kind, draw(st.sampled_from(KINDS["number"])))
    if kind == "literal":
        return (kind, draw(LITERALS["number"]))
    if kind in ("/", "%"):
        # leaves only, so that the oracle and float64 agree to the last bit
        left = draw(numbers(depth - 1)) if kind == "/" else draw(numbers(0))
        return (kind, left, draw(numbers(0)))
    if kind == "neg":
        return ("neg", draw(numbers(depth - 1)))
    if kind == "f":
        return (draw(st.sampled_from(["ln", "abs"])), draw(numbers(depth - 1)))
    return (kind, draw(numbers(depth - 1)), draw(numbers(depth - 1)))


@st.composite
def operands(draw, kind, depth):
    if kind == "number":
        return draw(numbers(depth))
    return ("column", draw(st.sampled_from(KINDS[kind])))


@st.composite
def conditions(draw, depth):  # noqa: PLR0911
    choices = ["compare", "compare", "in", "between", "null", "unseen", "b", "literal"]
    choices += ["AND", "AND", "OR", "OR", "NOT", "NOT"] if depth else []
    form = draw(st.sampled_from(choices))
    if form in ("AND", "OR"):
        return (form, draw(conditions(depth - 1)), draw(conditions(depth - 1)))
    if form == "NOT":
        return ("NOT", draw(conditions(depth - 1)))
    if form == "unseen":
        return ("unseen", draw(st.sampled_from(sorted(SEEN))))
    if form == "b":
        return ("column", "b")
    if form == "literal":
        return ("literal", draw(st.booleans()))
    kind = draw(st.sampled_from(sorted(KINDS)))
    left = draw(operands(kind, 2))
    literal = LITERALS[kind].map(lambda value: ("literal", value))
    if form == "compare":
        right, sign = draw(operands(kind, 2) | literal), draw(st.sampled_from(sorted(COMPARE)))
        return (sign, right, left) if draw(st.booleans()) else (sign, left, right)
    if form == "null":
        return ("null", draw(st.just(left) | conditions(0)), draw(st.booleans()))
    if form == "in":
        return ("in", left, draw(st.lists(literal, min_size=1, max_size=4)))
    return ("between", left, draw(literal), draw(operands(kind, 0) | literal))


RANK = {"OR": 1, "AND": 2, "NOT": 3, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6, "neg": 7}
ATOMS = ("column", "literal", "unseen", "ln", "abs")


def written(tree, least=0):
    """The tree as text, with no more parentheses than SQL's precedence asks for."""
    form, *parts = tree
    rank = 8 if form in ATOMS else RANK.get(form, 4)
    if form == "literal" and isinstance(parts[0], int | float) and str(parts[0]).startswith("-"):
        rank = 7
    text = _written(form, parts, rank)
    return f"({text})" if rank < least else text


def _written(form, parts, rank):  # noqa: PLR0911
    if form == "column":
        return parts[0]
    if form == "literal":
        return _literal(parts[0])
    if form in ("unseen", "ln", "abs"):
        return f"{form}({parts[0] if form == 'unseen' else written(parts[0])})"
    if form in ("NOT", "neg"):
        return f"{'NOT' if form == 'NOT' else '-'} {written(parts[0], rank)}"
    if form == "null":
        return f"{written(parts[0], 5)} IS {'NOT ' if parts[1] else ''}NULL"
    if form == "in":
        return f"{written(parts[0], 5)} IN ({', '.join(written(part) for part in parts[1])})"
    if form == "between":
        return f"{written(parts[0], 5)} BETWEEN {written(parts[1], 5)} AND {written(parts[2], 5)}"
    left, right = (5, 5) if form in COMPARE else (rank, rank + 1)
    return f"{written(parts[0], left)} {form} {written(parts[1], right)}"


def _literal(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    return "'" + str(value).replace("'", "''") + "'"


def naive(tree, row):  # noqa: PLR0911
    """Value of a tree for one row: True, False, a number, text, a date or None."""
    form, *parts = tree
    if form == "literal":
        return parts[0]
    if form == "column":
        return _known(row[parts[0]])
    if form == "unseen":
        value = _known(row[parts[0]])
        value = value.isoformat() if isinstance(value, date) else value
        return None if value is None else value not in SEEN[parts[0]]
    if form == "in":
        return _either(*(naive(("=", parts[0], part), row) for part in parts[1]))
    if form == "between":
        return _both(naive((">=", parts[0], parts[1]), row), naive(("<=", parts[0], parts[2]), row))
    if form == "null":
        return (naive(parts[0], row) is None) != parts[1]
    values = [naive(part, row) for part in parts]
    if form in ("AND", "OR"):
        return _both(*values) if form == "AND" else _either(*values)
    if None in values:
        return None
    if form == "NOT":
        return not values[0]
    return COMPARE[form](*values) if form in COMPARE else _number(form, *map(float, values))


def _known(value):
    return None if isinstance(value, float) and math.isnan(value) else value


def _both(*values):
    return False if False in values else None if None in values else True


def _either(*values):
    return True if True in values else None if None in values else False


def _number(form, a, b=math.nan):
    functions = {"+": operator.add, "-": operator.sub, "*": operator.mul, "%": math.fmod}
    if form in ("neg", "abs"):
        return -a if form == "neg" else abs(a)
    if form == "ln":
        return (math.log(a) if a < math.inf else a) if a > 0 else -math.inf if a == 0 else None
    if b == 0 and form in ("/", "%"):
        return math.copysign(math.inf, a) if form == "/" and a else None
    return _known(a / b if form == "/" else functions[form](a, b))


def marks(text, data):
    fitted = FittedAttribute(Attribute(text), {name: SEEN[name] for name in parse(text).unseen})
    return fitted.phi(data, "car").tolist()


COMPARISONS = st.tuples(st.sampled_from(sorted(COMPARE)), numbers(2), numbers(1))


@given(conditions(3) | COMPARISONS, st.lists(rows(), min_size=1, max_size=6))
@settings(deadline=None, max_examples=100)
def test_phi_agrees_with_a_naive_evaluator(tree, table):
    text, data = written(tree), dataset(table)
    expected = [naive(tree, row) for row in table]
    # the part with "i" makes sure that the condition looks at an image at all
    null = marks(f"i IS NULL AND FALSE OR ({text}) IS NULL", data)
    assert null == [value is None for value in expected]
    true = marks(f"i IS NULL AND FALSE OR ({text}) IS NOT NULL AND ({text})", data)
    assert true == [value is True for value in expected]
    if None in expected:
        fails(lambda: marks(f"(i IS NULL AND FALSE) OR ({text})", data), "no value for")
    else:
        assert marks(f"{text} OR i IS NULL AND FALSE", data) == expected
