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

REFUSED = [
    # not an expression, or more than one
    "", "   ", ";", "place = 1;", "place = 1; DROP TABLE images", "1; drop", "place = 1 place = 0",
    "place = 1 AS x", "place alias", "place = ", "place = 1 AND", "(place = 1", "place = 1)",
    "place = 'open", 'place = "open',
    # statements and sub-queries
    "SELECT 1", "SELECT place FROM images WHERE place = 1", "(SELECT 1) = place",
    "place IN (SELECT 1)", "place = ANY (SELECT 1)", "place > ALL (1, 2)", "EXISTS (SELECT 1)",
    "place = 1 UNION SELECT 2", "place = 1 LIMIT 1", "place = 1 ORDER BY place",
    "place = 1 GROUP BY place", "WITH t AS (SELECT 1) SELECT * FROM t", "DROP TABLE images",
    "COPY images TO 'x'", "SET x = 1", "VALUES (1)",
    # functions, aggregates, windows
    "read_csv('/etc/passwd') = 1", "place IN read_csv('x')", "scan_parquet('x')",
    "__import__('os').system('id')", "eval('1') = place", "max(place) = 1", "count(*) = 1",
    "count(place) > 0", "sum(place) OVER () = 1", "rank() OVER (PARTITION BY place) = 1",
    "lag(place) = 1", "coalesce(place, 0) = 1", "log(place) > 0", "exp(place) > 0",
    "sqrt(place) > 0", "length(place) > 0", "random() > 0", "now() > place", "ln(2, place) > 0",
    "ln() > 0", "ln(DISTINCT place) > 0", "abs(*) > 0", "abs(place ORDER BY y) > 0",
    "ln(place) FILTER (WHERE y = 1) > 0", "unseen(place) OVER ()", "unseen(place) IGNORE NULLS",
    "{fn ln(place)} > 0",
    # unseen takes one column
    "unseen()", "unseen(place, y)", "unseen(1)", "unseen('place')", "unseen(place + 1)",
    "unseen(ln(place))", "unseen(*)", "unseen(DISTINCT place)",
    # area and present take one class
    "area() > 0", "area(road, sky) > 0", "area('road') > 0", "area(road + 1) > 0", "area(*) > 0",
    "present()", "present(1)", "present('sky')", "present(area(sky))", "present(sky) OVER ()",
    "present(DISTINCT sky)", "share(road) > 0",
    # syntax outside the language
    "*", "* = 1", "images.* = 1", "images.place = 1", "a.b.c = 1", "columns('a.*') = 1",
    "columns(*) = 1", "CASE WHEN place = 1 THEN TRUE END",
    "CASE place WHEN 1 THEN TRUE ELSE FALSE END", "CAST(place AS INT) = 1",
    "TRY_CAST(place AS INT) = 1", "place::int = 1", "place > DATE '2013-01-01'",
    "place > INTERVAL '1' DAY", "EXTRACT(year FROM place) = 2013", "place > CURRENT_DATE",
    "place LIKE 'a%'", "place NOT LIKE 'a%'", "place ILIKE 'a%'", "place SIMILAR TO 'a'",
    "place RLIKE 'a'", "place ~ 'a'", "place || 'a' = 'b'", "'a' 'b' = place",
    "place COLLATE x = 'a'", "place AT TIME ZONE 'UTC' = 1", "place & 1 = 1", "place | 1 = 1",
    "place ^ 1 = 1", "place << 1 = 1", "~place = 1", "place // 2 = 1", "place DIV 2 = 1",
    "place MOD 2 = 1", "place <=> 1", "place IS DISTINCT FROM 1", "place IS TRUE",
    "place IS NOT FALSE", "place IS 1", "place IS y", "place IS UNKNOWN", "place ISNULL",
    "y >= place ISNULL", "place NOTNULL", "place XOR y", "place = NULL", "NULL",
    "place IN (1, NULL)", "place IN (y)", "place IN (1 + 1)", "place IN ((1))", "place IN ()",
    "place IN 1", "place IN y", "place IN UNNEST([1])", "place BETWEEN 1",
    "place BETWEEN SYMMETRIC 2 AND 1", "(place, y) = (1, 1)", "(place, y)", "ROW(place) = 1",
    "ARRAY[place] = 1", "[place] = 1", "place[0] = 1", "{'a': place} = 1", "STRUCT(place) = 1",
    "MAP {'a': 1} = place", "x -> x + 1", "(x) => x = 1", "place = ?", "place = ?1",
    "place = :name", "place = @name", "place = $1", "place = #1", "{{ place }} = 1",
    "{% if place %} = 1", "`place` = 1", "[place = 1]", "place := 1", "if(place = 1, TRUE, FALSE)",
    "if = 1",
    # chained comparisons would read as (0 < place) < 2
    "0 < place < 2", "place = y = 1", "place = 1 IS NULL", "place = NOT y",
    # comments and hints
    "-- place = 1", "/* place */", "place = 1 -- 0", "place = 1 /* and */", "place /* x */ = 1",
    "/*+ hint */ place = 1", "place--1 = 0", "# place\nplace = 1", "{# c #} place = 1",
    # literals of other dialects
    "place = N'a'", "place = x'1f'", "place = 0x1f", "place = b'1'", "place = e'\\n'",
    "place = $$a$$", "place = 1_000", "place = 1e", "place = 1.2.3", "place = 1e999",
    "place = 18446744073709551616", "place = -9223372036854775809",
    # unicode in the place of signs, digits and spaces
    "place ＝ 1", "place = １", "place = ²", "place = ٣", "place ≠ y", "pla\u200bce = 1",
    "place\u202e = 1", "（place = 1）", "place = ‘a’", "place = 1\x00", "place = '\ud800'",
    "\ufeffplace = 1",
    # nothing that an image could change
    "TRUE", "1 = 1", "'a' < 'b'",
    # depth and length
    "(" * (MAX_DEPTH + 1) + "place = 1" + ")" * (MAX_DEPTH + 1),
    "(" * 900 + "place = 1" + ")" * 900, "NOT " * 400 + "place = 1",
    "NOT (" * 300 + "place = 1" + ")" * 300, "- " * 900 + "place = 1",
    "abs(" * 300 + "place" + ")" * 300 + " = 1", "CASE WHEN " * 190,
    "+".join(["place"] * 300) + " = 1", "(" * 1999, "place = " + "1" * MAX_LENGTH,
    " OR ".join(["place = 1"] * 2000),
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: repr(text[:40]))
def test_refused(text):
    with pytest.raises(ParameterError) as caught:
        parse(text)
    assert caught.value.where == "phi"
    assert caught.value.allowed
    assert caught.value.remedy


@pytest.mark.parametrize("value", [None, 1, b"place = 1", ["place = 1"]])
def test_phi_must_be_text(value):
    refused(lambda: Attribute(value), "empty")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max(place) = 1", r"'MAX\(place\)'[\s\S]*unseen\(column\)"),
        ("place > DATE '2013-01-01'", r"CAST[\s\S]*YYYY-MM-DD"),
        ("place LIKE 'a%'", r"LIKE[\s\S]*IN \('a', 'b'\)"),
        ("place IN (SELECT 1)", r"SELECT 1[\s\S]*the values themselves"),
        ("place = NULL", r"IS NOT NULL"),
        ("place IS TRUE", r"name = TRUE"),
        ("0 < place < 2", r"chains comparisons[\s\S]*AND x < b"),
        ("images.place = 1", r"'\.'"),
        ("place = 1; DROP TABLE x", r"';'"),
        ("place--1 = 0", r"comment[\s\S]*space"),
        ("place = 1 extra", r"cannot be read"),
        ("- " * 900 + "place = 1", r"nests too deeply[\s\S]*32 levels"),
        ("y" + " % 7" * 13 + " = 1", "nests %, BETWEEN or IN too often"),
        ("place = " + "1" * 30000, r"30008 characters[\s\S]*20000"),
        ("place = 1e999", r"1\.7e308"),
    ],
)
def test_errors_say_what_and_what_instead(text, message):
    with pytest.raises(ParameterError, match=message):
        parse(text)


def test_refusing_is_silent(caplog, capsys):
    with caplog.at_level(logging.DEBUG):
        for text in REFUSED:
            with pytest.raises(ParameterError):
                parse(text)
    assert not caplog.records
    assert capsys.readouterr() == ("", "")


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


@pytest.mark.parametrize("name", ODD_NAMES)
def test_identifier_reads_as_that_name_everywhere(name):
    word = identifier(name)
    for template in TEMPLATES:
        assert set(parse(template.replace("{}", word)).names) - {"other"} == {name}
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


def check(tree, table):
    """Compare phi with the evaluator: where it is null, where true, and that null is an error."""
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


@given(conditions(3), st.lists(rows(), min_size=1, max_size=6))
@settings(deadline=None, max_examples=160)
def test_phi_agrees_with_a_naive_evaluator(tree, table):
    check(tree, table)


COMPARISONS = st.tuples(st.sampled_from(sorted(COMPARE)), numbers(2), numbers(1))


@given(COMPARISONS, st.lists(rows(), min_size=3, max_size=6))
@settings(deadline=None, max_examples=160)
def test_arithmetic_agrees_with_a_naive_evaluator(tree, table):
    check(tree, table)
