"""The attribute criterion: names, types, missing values, what it learns, its JSON, Table 1."""

import json
import math
from datetime import date, datetime
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from refusals import fails, refused
from scipy.sparse import csr_array

from nooch.base.errors import FormatError, InputError, ParameterError
from nooch.criteria.attribute import Attribute, FittedAttribute
from nooch.criteria.phi import condition_texts, parse
from nooch.criteria.presets import PRESETS, phi_preset
from nooch.data import Dataset

WATERBIRDS = Path(__file__).parents[2].parent / "shared" / "data" / "waterbirds" / "metadata.csv"
CLASSES = ("bird", "sky-other", "cat")


def dataset(presence=None, **columns):
    """Bird in the first half of the images, sky in the first, no cat."""
    n = len(next(iter(columns.values())))
    if presence is None:
        presence = np.zeros((n, len(CLASSES)))
        presence[: n // 2, 0] = 0.2
        presence[0, 1] = 0.5
    images = pl.DataFrame({"image_id": range(n), **columns})
    return Dataset.build(images, CLASSES[: presence.shape[1]], csr_array(presence))


def times(*texts):
    return pl.Series([datetime.fromisoformat(text) for text in texts], dtype=pl.Datetime("us"))


def marked(phi, data, task="bird", train=None):
    fitted = Attribute(phi).fit(data if train is None else train, [task])
    marks = fitted.phi(data, task)
    assert marks.dtype == np.bool_
    assert marks.shape == (len(data),)
    return np.flatnonzero(marks).tolist()


FOUR = {
    "place": [0, 1, 0, 1],
    "camera": ["a", "b", "it's", "B"],
    "night": [True, False, True, False],
    "f": [1.5, 0.0, -2.0, 0.1],
    "small": pl.Series([250, 3, 5, 7], dtype=pl.UInt8),
    "big": pl.Series([2**64 - 1, 2**64 - 2, 2, 3], dtype=pl.UInt64),
    "kind": pl.Series(["x", "y", "x", "z"], dtype=pl.Categorical),
    "price": pl.Series(["1.50", "2.25", "3", "4"]).cast(pl.Decimal(10, 2)),
    "day": [date(2012, 12, 31), date(2013, 1, 1), date(2013, 1, 2), date(2020, 2, 29)],
    "later": [date(2013, 1, 1)] * 4,
    "taken": times("2012-12-31T23", "2013-01-01", "2013-01-01T12", "2020-02-29"),
    "year": [2012, 2013, 2014, 2020],
    "*": [1, 2, 3, 4],
    "^p.*$": [4, 3, 2, 1],
    "a b": [1, 0, 1, 0],
    "height": [10, 20, 30, 40],
    "width": [5, 25, 25, 45],
}


@pytest.mark.parametrize(
    ("phi", "expected"),
    [("place != y", [0, 3]), ("place <> label", [0, 3]), ("place != bird", [0, 3]),
     ('"sky-other" = 1', [0]), ('present("sky-other")', [0]), ('present("sky-other") = 1', [0]),
     ('NOT present("sky-other") AND y = 1', [1]), ("area(bird) >= 0.2", [0, 1]),
     ('area("sky-other") > area(bird)', [0]), ('Area("sky-other") - area(bird) <= 0', [1, 2, 3]),
     ("present(cat)", []), ("cat = 0 AND bird = 0", [2, 3]), ("y = 1", [0, 1]),
     ("y = TRUE", [0, 1]), ("not place = y", [0, 3]), ("camera = 'it''s'", [2]),
     ("camera IN ('b', 'B')", [1, 3]), ("camera NOT IN ('b', 'B')", [0, 2]),
     ("'b' <= camera", [1, 2]), ("night", [0, 2]), ("NOT night", [1, 3]), ("night = 1", [0, 2]),
     ("night = FALSE", [1, 3]), ("night != place", [0, 1, 2, 3]), ("f > 0", [0, 3]),
     ("f = 0.1", [3]), ("f * 10 = 1", [3]), ("f > 0 AND ln(f) > 0", [0]), ("abs(f) >= 1.5", [0, 2]),
     ("f % 1.5 = -0.5", [2]), ("small - 251 < 0", [0, 1, 2, 3]), ("small + small > 255", [0]),
     ("big = 18446744073709551615", [0]), ("big > 2.5", [0, 1, 3]), ("kind = 'x'", [0, 2]),
     ("price > 2", [1, 2, 3]), ("year / 2 = 1006.5", [1]), ("-year % 10 = -2", [0]),
     ("year >= 2013 AND NOT year BETWEEN 2014 AND 2020", [1]), ("year = -1 OR year = +2012", [0]),
     ("day >= '2013-01-01'", [1, 2, 3]), ("day BETWEEN '2013-01-01' AND '2013-01-02'", [1, 2]),
     ("'2013-01-01' = day", [1]), ("day < later", [0]),
     ("day IN ('2012-12-31', '2020-02-29')", [0, 3]), ("taken >= '2013-01-01'", [1, 2, 3]),
     ("taken > '2013-01-01T11:59:59'", [2, 3]), ('"*" = 1', [0]), ('"^p.*$" = 4', [0]),
     ('"a b" = 1', [0, 2]), ("width > height", [1, 3]), ("image_id >= 2", [2, 3]),
     ("TRUE OR place = 1", [0, 1, 2, 3]), ("FALSE AND place = 1", []),
     ("1 = 2 OR place = 1", [1, 3]), ("(place = 1) = (y = 1)", [1, 2]),
     ("(camera IS NULL) = (y = 0)", [0, 1]), ("1 / place > 5", [0, 2]),
     ("place = 1 OR place = 0 AND y = 1", [0, 1, 3]), ("NOT place = 1 AND y = 1", [0]),
     ("place + 2 * 3 = 7", [1, 3]), ("place - 1 - 1 = -1", [1, 3])],
)  # fmt: skip
def test_phi(phi, expected):
    assert marked(phi, dataset(**FOUR)) == expected


def test_label_belongs_to_the_task():
    data = dataset(**FOUR)
    assert marked("place != y", data, "cat") == [1, 3]
    assert marked("bird != y", data, "cat") == [0, 1]


def test_order_is_that_of_the_dataset():
    images = pl.DataFrame({"image_id": [7, 3, 5], "place": [1, 0, 0]})
    data = Dataset.build(images, ["bird"], csr_array(np.zeros((3, 1))))
    assert marked("place = 1", data) == [2]


def test_presence_counts_without_area():
    data = dataset(np.array([[math.nan], [0.0]]), place=[1, 1])
    assert marked("y = 1", data) == [0]


def test_a_dataset_without_images():
    data = dataset(**FOUR).select(rows=np.zeros(4, dtype=bool))
    assert Attribute("place != y").fit(data).phi(data, "bird").tolist() == []


# Names and types

# phi -> parts of the message
REFUSED = {
    "plaec = 1": ["allowed: ", "did you mean place"],
    "Place = 1": ["did you mean place"],
    "brid = 1": ["did you mean bird"],
    "sky_other = 1": ['did you mean "sky-other"'],
    "camera = lake": ["single quotes: 'lake'"],
    'camera = "it"': ["'it'"],
    "split = 'train'": ["knows no 'split'"],
    "file_name = 'x'": ["knows no 'file_name'"],
    "present(place)": ["'place' is not a class"],
    "area(brid) > 0": ["'brid' is not a class", "did you mean bird"],
    "unseen(bird)": ["takes a column, and bird is none"],
    "unseen(y)": ["takes a column, and y is none"],
    "unseen(split)": ["takes a column, and split is none"],
    "year + 1": ["condition where year + 1 stands, which is a number", "compare it"],
    "bird": ["condition where bird (Int64)"],
    "camera": ["condition where camera (String) stands, which is text"],
    "y AND place = 1": ["condition where y"],
    "NOT year": ["condition where year"],
    "area(bird)": ["condition where area(bird) (Float64) stands, which is a number"],
    "camera = 3": ["camera (String) is text and cannot be compared with 3", "quotes: '3'"],
    "3 = camera": ["camera (String) is text"],
    "place = 'x'": ["place (Int64) is a number and cannot be compared with 'x'", "without quotes"],
    "place IN (1, 'x')": ["place (Int64) is a number"],
    "place BETWEEN 0 AND 'x'": ["place (Int64) is a number"],
    "place = camera": ["place (Int64) is a number", "camera (String)", "one type"],
    "place = 1 AND 1 = 'a'": ["cannot be compared"],
    "area(bird) = 'x'": ["cannot be compared with 'x'"],
    "night = 2": ["night (Boolean) is a Boolean", "with 2"],
    "night = camera": ["night (Boolean) is a Boolean"],
    "day = 3": ["day (Date) is a date"],
    "day >= 'soon'": ["day (Date)", "write it as '2013-01-31'"],
    "day >= '2013-13-01'": ["write it as"],
    "day >= '2013-01-01T10:00'": ["write it as"],
    "taken >= 'soon'": ["'2013-01-31T12:00'"],
    "taken >= '2013-01-01T00:00+00:00'": ["'2013-01-31T12:00'"],
    "day = taken": ["is a date", "is a time"],
    "day = year": ["is a date", "is a number"],
    "camera + 1 = 2": ["calculates with camera"],
    "night + 1 = 2": ["calculates with night"],
    "present(bird) + 1 = 2": ["calculates with present(bird)"],
    "ln(day) = 2": ["calculates with day"],
    "-'a' = place": ["calculates with 'a'"],
    "items = 1": ["List(Int64)", "cannot use", "convert it"],
    "items IS NULL": ["cannot use"],
    "length = 1": ["Duration", "cannot use"],
    "nothing IS NULL": ["Null", "cannot use"],
    "unseen(items)": ["cannot use"],
}


def test_names_and_types_that_do_not_fit():
    length = pl.Series([1, 2, 3, 4], dtype=pl.Duration)
    data = dataset(**FOUR, items=[[1]] * 4, length=length, nothing=[None] * 4)
    for phi, parts in REFUSED.items():
        refused(partial(Attribute(phi).fit, data, ["bird"]), *parts)


def test_unknown_task():
    data = dataset(**FOUR)
    refused(lambda: Attribute("place = 1").fit(data, ["brid"]), "'brid' is not a class")
    refused(lambda: Attribute("place = 1").fit(data).phi(data, "brid"), "'brid' is not a class")


OTHER_VALUES = [[1, 1, 1, 0], [1, 1, None, 0], ["1", "1", "0", "0"], [[1], [1], [0], [0]]]


def test_a_column_or_class_called_as_the_label_is_ambiguous():
    for name, values in product(["y", "label", "bird"], OTHER_VALUES):
        data = dataset(**{name: values})
        words = f"name {name} is ambiguous", "a column", "rename"
        refused(partial(marked, f"{name} = 1", data), *words)
    # in a task of its own a class name is a column like others
    assert marked("bird = 0", dataset(bird=OTHER_VALUES[0]), "cat") == [3]
    data = Dataset.build(pl.DataFrame({"image_id": [1]}), ["y", "cat"], csr_array(np.ones((1, 2))))
    refused(lambda: marked("y = 1", data, "cat"), "ambiguous", "a class")
    assert marked("y = 1", data, "y") == [0]


@pytest.mark.parametrize("values", [[1, 1, 0, 0], [1.0, 1.0, 0.0, 0.0], [True, True, False, False]])
def test_a_column_that_is_the_label_is_not_ambiguous(values):
    data = dataset(y=values, label=values, bird=values)
    assert marked("y = 1 AND label = 1 AND bird = 1", data) == [0, 1]


def test_a_column_goes_before_a_class():
    assert marked("cat = 3", dataset(cat=[1, 2, 3, 4])) == [2]


def test_times_with_a_zone():
    taken = times("2013-01-01T12", "2013-01-01T13").dt.replace_time_zone("America/New_York")
    data = dataset(taken=taken, utc=taken.dt.convert_time_zone("UTC"))
    assert marked("taken > '2013-01-01T12:00-05:00'", data) == [1]
    assert marked("taken > '2013-01-01T17:00Z'", data) == [1]
    assert marked("taken = utc", data) == [0, 1]
    assert marked("unseen(taken)", data, train=data.select(rows=np.array([0]))) == [1]
    refused(lambda: marked("taken > '2013-01-01'", data), "+00:00")
    refused(lambda: marked("taken > '0001-01-01T00:00+14:00'", data), "+00:00")


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_times_of_every_unit(unit):
    data = dataset(taken=times("2013-01-01T12", "2014-01-01").cast(pl.Datetime(unit)))
    assert marked("taken >= '2013-06-01'", data) == [1]
    assert marked("unseen(taken)", data, train=data.select(rows=np.array([0]))) == [1]


# Missing values

HOLES = {
    "place": [0, None, 1, None],
    "f": [1.0, 2.0, math.nan, None],
    "zero": [0, 0, 0, 1],
    "camera": ["a", None, "c", "d"],
}


def test_a_missing_attribute_is_an_error_that_says_where():
    data = dataset(**HOLES)
    guarded = "place IS NOT NULL AND (place != y)"
    words = "no value for 2 of 4 images, such as 1, 3: place is null", guarded
    fails(lambda: marked("place != y", data), *words)
    assert marked(guarded, data) == [0, 2]


def test_every_missing_column_is_named():
    with pytest.raises(InputError, match="3 of 4 images, such as 1, 2, 3: place, f is null"):
        marked("place = 1 OR f > 5", dataset(place=[0, None, 0, None], f=[1.0, 1.0, math.nan, 2.0]))


def test_unknown_presences_and_areas_are_missing_values():
    unknown = np.zeros((4, 3))
    unknown[3, 1] = 1
    presence = csr_array(([0.5, math.nan], ([0, 1], [1, 1])), shape=(4, 3))
    data = Dataset.build(pl.DataFrame({"image_id": range(4)}), CLASSES, presence, unknown=unknown)
    guard = 'area("sky-other") IS NOT NULL AND (area("sky-other") > 0)'
    fails(lambda: marked('area("sky-other") > 0', data), "2 of 4 images, such as 1, 3", guard)
    fails(lambda: marked('present("sky-other")', data), "1 of 4 images, such as 3")
    assert marked(guard, data) == [0]
    assert marked('present("sky-other") IS NOT NULL AND present("sky-other")', data) == [0, 1]
    image = data.select(rows=np.array([0]))
    said = Attribute('area("sky-other") > 0').fit(image).explain(image, "bird")
    assert said.startswith('area("sky-other") = 0.5, so area("sky-other") > 0 holds')


def test_words_of_captions():
    said = pl.DataFrame({
        "image_id": [0, 0, 1, 2, 3],
        "caption": ["A Boat.", "on a TRAILER, parked", "Trailers", "a trailer-park; it's", "-"],
    })  # fmt: skip
    bare = dataset(place=[0, 1, 0, 1])
    data = Dataset.build(bare.images, bare.classes, bare.areas, said)
    for phi, expected in (
        ("word(trailer)", [0, 2]), ("Word('trailer')", [0, 2]), ('word("Trailer Park")', [2]),
        ("word('boat on')", []), ("word(boat) AND NOT word(dock)", [0]), ("word('it''s')", [2]),
    ):  # fmt: skip
        assert marked(phi, data) == expected
        assert Attribute(phi).reads == ("captions",)
    assert Attribute("place = 1").reads == ()
    some = Dataset.build(bare.images, bare.classes, bare.areas, said.head(3))
    words = "2 of 4 images, such as 2, 3: word(boat) is null", "word(boat) IS NOT NULL AND ("
    fails(lambda: marked("word(boat)", some), *words)
    fails(lambda: marked("word(boat)", bare), "the dataset has none", "`captions`",
          kind=ParameterError, helps=False)  # fmt: skip
    fails(lambda: marked("word('!')", data), "has no word", kind=ParameterError)
    image = data.select(rows=np.array([0]))
    assert Attribute("word(boat)").fit(image).explain(image, "bird").startswith("word(boat) = TRUE")


def boxed(n=400, seed=0, **unknown):
    """Random boxes, many at the edge or beyond it, in pixels or, without a size, in fractions."""
    random = np.random.default_rng(seed)
    sized = random.random(n) < 0.7
    wide, tall = np.where(sized, 200, 1), np.where(sized, 100, 1)
    image = np.sort(random.integers(0, n, 2 * n))
    low = random.choice([-0.02, 0, 0.005, 0.01, 0.02, 0.35, 0.6], (2 * n, 2))
    high = np.maximum(low, random.choice([0.1, 0.5, 0.65, 0.985, 0.99, 1, 1.01], (2 * n, 2)))
    objects = pl.DataFrame({
        "image_id": image, "class": random.choice(["bird", "cat"], 2 * n),
        "left": low[:, 0] * wide[image], "top": low[:, 1] * tall[image],
        "width": (high - low)[:, 0] * wide[image], "height": (high - low)[:, 1] * tall[image],
        "area": random.choice([1.0, 2.0, 3.0], 2 * n), "crowd": random.random(2 * n) < 0.2,
        "ignore": random.random(2 * n) < 0.2,
    })  # fmt: skip
    images = pl.DataFrame({"image_id": range(n), "split": ["train", "test"] * (n // 2)})
    sizes = (pl.Series(name, of).set(~pl.Series(sized), None)
             for name, of in (("width", wide), ("height", tall)))  # fmt: skip
    present = np.where(random.random((n, 3)) < 0.1, 0.2, 0)
    present[image, [CLASSES.index(name) for name in objects["class"]]] = 0.2
    return Dataset.build(
        images.with_columns(sizes), CLASSES, csr_array(present), objects=objects, **unknown
    )


def position_of_largest(data, name, function):
    """By plain loops: True or False, None where it is unknown."""
    for row, image in enumerate(data.images.rows(named=True)):
        largest = None
        for box in data.objects.rows(named=True):
            is_own = (box["image_id"], box["class"]) == (image["image_id"], name)
            if is_own and not box["crowd"] and not box["ignore"]:
                largest = box if largest is None or box["area"] > largest["area"] else largest
        label = data.labels(name, unknown=False)[row]
        unknown = data.unknown_labels(name)
        if unknown is not None and unknown[row]:
            yield None
        elif not label or largest is None:
            yield None if label else False
        else:
            gaps = []
            for start, extent, size in (("left", "width", "width"), ("top", "height", "height")):
                ends = [largest[start], largest[start] + largest[extent]]
                low, high = (end / (image[size] or 1) for end in ends)
                if function == "off_center":
                    low = high = (min(max(low, 0), 1) + min(max(high, 0), 1)) / 2
                gaps += [low, 1 - high]
            gap = min(gaps)
            yield gap <= 0.01 + 1e-9 if function == "at_edge" else gap < 0.2 - 1e-9


@pytest.mark.parametrize("function", ["at_edge", "off_center"])
def test_positions_of_largest_objects(function):
    unknown = np.random.default_rng(1).random((400, 3)) < 0.1
    for data in (boxed(), boxed(seed=1, unknown=unknown)):
        for name in ("bird", "cat"):
            expected = [*position_of_largest(data, name, function)]
            assert min(expected.count(value) for value in (True, False, None)) > 20
            call = f"{function}({name})"
            gaps = data.unknown_labels("sky-other")
            for phi, value in ((call, True), (f"NOT {call}", False)):
                assert marked(f"{call} IS NOT NULL AND {phi}", data, "sky-other") == [
                    row for row, one in enumerate(expected)
                    if one is value and (gaps is None or not gaps[row])
                ]  # fmt: skip
            fails(lambda call=call, data=data: marked(call, data), f"{call} is null", "IS NOT NULL")
    assert Attribute(call).reads == ("objects",)
    without = Dataset.build(data.images, CLASSES, data.areas)
    fails(lambda: marked(call, without), "no objects with boxes", kind=ParameterError)
    words = condition_texts(f"present(bird) AND NOT {call}")
    assert words[1].startswith("with the largest cat ")


def test_columns_that_do_not_matter_are_not_named():
    fails(lambda: marked("zero = 1 OR camera = 'x'", dataset(**HOLES)), "such as 1: camera is null")


@pytest.mark.parametrize(
    ("phi", "expected"),
    [("place IS NOT NULL AND place > 0", [2]), ("place > 0 AND place IS NOT NULL", [2]),
     ("place IS NULL OR place > 0", [1, 2, 3]), ("NOT (place IS NULL OR place = 0)", [2]),
     ("place IS NULL", [1, 3]), ("(place > 0) IS NULL", [1, 3]), ("f IS NULL", [2, 3]),
     ("f IS NOT NULL AND f < 2", [0]), ("zero != 0 AND 1 / zero = 1", [3]),
     ("(0 / zero) IS NULL", [0, 1, 2]), ("ln(zero) < 0", [0, 1, 2]), ("1 / zero > 1000", [0, 1, 2]),
     ("camera IS NOT NULL AND camera IN ('a', 'x')", [0]), ("y IS NULL OR bird IS NULL", [])],
)  # fmt: skip
def test_logic_has_three_values(phi, expected):
    assert marked(phi, dataset(**HOLES)) == expected


@pytest.mark.parametrize(
    ("phi", "count", "ids"),
    [("ln(zero - 1) > 0", 3, "0, 1, 2"), ("zero / zero = 1", 3, "0, 1, 2"),
     ("5% zero = 1", 3, "0, 1, 2"), ("ln(zero) - ln(zero) = 0", 3, "0, 1, 2"),
     ("ln(-1 - zero) > 0", 4, "0, 1, 2, 3"), ("ln(zero - 1) > 0 OR y = 1", 1, "2")],
)  # fmt: skip
def test_what_is_no_number_is_an_error(phi, count, ids):
    words = f"{count} of 4 images, such as {ids}: 0/0, x % 0 or ln", "guard it"
    fails(lambda: marked(phi, dataset(**HOLES)), *words)


# What is learned


@pytest.mark.parametrize(
    ("column", "seen", "expected"),
    [
        ("camera", ["a", "b"], [2, 3]),
        ("place", [0, 1], []),
        ("year", [2012, 2013], [2, 3]),
        ("f", [0.0, 1.5], [2, 3]),
        ("night", [False, True], []),
        ("small", [3, 250], [2, 3]),
        ("big", [2**64 - 2, 2**64 - 1], [2, 3]),
        ("kind", ["x", "y"], [3]),
        ("price", [1.5, 2.25], [2, 3]),
        ("day", ["2012-12-31", "2013-01-01"], [2, 3]),
        ("taken", ["2012-12-31T23:00:00", "2013-01-01T00:00:00"], [2, 3]),
        ("width", [5, 25], [3]),
        ('"^p.*$"', [3, 4], [2, 3]),
    ],
)
def test_unseen(column, seen, expected):
    data = dataset(**FOUR)
    train = data.select(rows=np.array([0, 1]))
    fitted = Attribute(f"unseen({column})").fit(train, ["bird"])
    assert fitted.to_json()["seen"] == {column.strip('"'): seen}
    assert np.flatnonzero(fitted.phi(data, "bird")).tolist() == expected
    again = FittedAttribute.from_json(json.loads(json.dumps(fitted.to_json())))
    assert again == fitted
    assert again.phi(data, "bird").tolist() == fitted.phi(data, "bird").tolist()


def test_unseen_takes_1_and_1_0_for_one_value():
    whole, floats = dataset(trap=[1, 2, 3, 2**60]), dataset(trap=[1.0, 2.0, 3.0, 3.5])
    assert marked("unseen(trap)", whole, train=floats) == [3]
    assert marked("unseen(trap)", floats, train=whole) == [3]
    assert marked("unseen(trap)", dataset(trap=[2**60, 2**60 + 1]), train=whole) == [1]


def test_unseen_of_a_missing_value_has_no_value():
    train, data = dataset(camera=["a", None]), dataset(camera=["a", None, "b", "a"])
    assert Attribute("unseen(camera)").fit(train).to_json()["seen"] == {"camera": ["a"]}
    with pytest.raises(InputError, match="1 of 4 images, such as 1: camera is null"):
        marked("unseen(camera)", data, train=train)
    assert marked("camera IS NOT NULL AND unseen(camera)", data, train=train) == [2]


def test_unseen_needs_values_in_training():
    with pytest.raises(InputError, match="camera has no value in 2 training images"):
        Attribute("unseen(camera)").fit(dataset(camera=pl.Series([None, None], dtype=pl.String)))


def test_unseen_needs_one_type():
    train = dataset(camera=[1, 2])
    refused(lambda: marked("unseen(camera)", dataset(camera=["1", "2"]), train=train), "camera")


def test_several_unseen():
    data = dataset(**FOUR)
    phi = "unseen(camera) AND NOT UNSEEN(kind) OR unseen(width)"
    assert marked(phi, data, train=data.select(rows=np.array([0, 1]))) == [2, 3]


# As JSON, and in words


def test_json_round_trip():
    fitted = Attribute("place != y AND \"it's\" = 'x'").fit(dataset(place=[0, 1]))
    content = json.loads(json.dumps(fitted.to_json()))
    assert content == {"phi": "place != y AND \"it's\" = 'x'", "seen": {}}
    assert FittedAttribute.from_json(content) == fitted
    assert fitted.parameters() == {"phi": "place != y AND \"it's\" = 'x'"}
    assert fitted.undefined("bird") is None
    assert fitted.kind == Attribute.kind == "attribute"


NO_PHI = ["__import__('os').system('id')", "eval('1') = place", "place = 1; DROP TABLE x", ""]
NO_VALUES = [[], "a", [None], [["a"]], ["a", 1], [True, 1], [2**64], [math.inf], {"a": 1}]


def test_json_that_does_not_fit():
    for content in (
        *({}, [], None, {"phi": 1, "seen": {}}, {"phi": "place != y"}),
        *({"phi": "place != y", "seen": seen} for seen in (None, [], {"place": [1]})),
        *({"phi": phi, "seen": {}} for phi in (*NO_PHI, "unseen(camera)")),
        {"phi": "unseen(camera)", "seen": {"other": ["a"]}},
        *({"phi": "unseen(camera)", "seen": {"camera": values}} for values in NO_VALUES),
        {"phi": "unseen(camera)", "seen": {1: ["a"]}},
    ):
        with pytest.raises(FormatError, match="not a fitted attribute criterion"):
            FittedAttribute.from_json(content)


@pytest.mark.parametrize(
    ("phi", "row", "words"),
    [
        ("place != y", 0, "place = 0 and y = 1, so {} holds: out of context"),
        ("place != y", 1, "place = 1 and y = 1, so {} does not hold: in context"),
        ("day > '2013-01-01'", 0, "day = 2012-12-31, so {} does not hold: in context"),
        (
            "camera = 'x' OR f > 1 OR night",
            2,
            "camera = 'it's', f = -2.0 and night = TRUE, so {} holds: out of context",
        ),
        ("unseen(kind)", 3, "kind = 'z', so {} holds: out of context"),
    ],
)
def test_explain(phi, row, words):
    data = dataset(**FOUR)
    fitted = Attribute(phi).fit(data.select(rows=np.array([0, 1])), ["bird"])
    assert fitted.explain(data.select(rows=np.array([row])), "bird") == words.format(phi)


def test_explain_a_missing_value():
    data = dataset(**HOLES).select(rows=np.array([1]))
    words = Attribute("place IS NULL").fit(data).explain(data, "bird")
    assert words == "place = null, so place IS NULL holds: out of context"
    fails(lambda: Attribute("place = 1").fit(data).explain(data, "bird"), "1 of 1 images")


def test_explain_takes_one_image():
    data = dataset(**FOUR)
    refused(lambda: Attribute("place != y").fit(data).explain(data, "bird"), "4 images")


# Table 1 of the paper


@pytest.mark.parametrize(
    ("name", "columns", "values", "phi"),
    [
        ("waterbirds", (), (), "place != y"),
        ("waterbirds", ("back-ground",), (), '"back-ground" != y'),
        ("iwildcam", (), (), "unseen(location_remapped)"),
        ("iwildcam", ("camera",), (), "unseen(camera)"),
        ("fmow", (), (), "year >= 2013"),
        ("fmow", ("taken",), ("2013-01-01",), "taken >= '2013-01-01'"),
        ("imagenet-a", (), (), "max_nll >= -ln(0.15)"),
        ("imagenet-a", ("a", "b"), (), "(a >= -ln(0.15)) OR (b >= -ln(0.15))"),
        ("imagenet-a", ("a",), (np.float64(0.3),), "a >= -ln(0.3)"),
        ("breeds", (), ("a",), "subclass IN ('a')"),
        ("breeds", ("kind",), ("x", "it's", 3, 0.5, True), "kind IN ('x', 'it''s', 3, 0.5, TRUE)"),
        ("breeds", ('odd "name"',), ("a",), '"odd ""name""" IN (\'a\')'),
        ("breeds", ("select",), ("a' OR 'b",), "\"select\" IN ('a'' OR ''b')"),
    ],
)
def test_presets(name, columns, values, phi):
    assert phi_preset(name, columns, values) == phi
    assert parse(phi).names[0] == (columns or parse(phi).names)[0]
    assert name in PRESETS


def test_presets_refuse():
    for name, columns, values, *parts in (
        ("waterbird", (), (), "did you mean waterbirds"),
        ("waterbirds", ("a", "b"), (), "2 columns"),
        ("waterbirds", (), (1,), "takes no values"),
        ("iwildcam", (), (1,), "takes no values"),
        ("fmow", (), (2013, 2014), "2 values"),
        ("breeds", (), (), "has no values", "target domain"),
        ("breeds", (), (None,), "None is not a value"),
        ("breeds", (), (math.nan,), "nan is not a value"),
    ):
        refused(partial(phi_preset, name, columns, values), *parts)


def test_presets_on_small_tables():
    edge = -math.log(0.15)
    data = dataset(
        place=[0, 1, 0, 1],
        location_remapped=[1, 2, 245, 246],
        year=[2012, 2013, 2012, 2016],
        max_nll=[0.0, edge, 1.89, 3.0],
        other_nll=[2.0, 0.0, 1.0, 0.0],
        subclass=["siamese", "tabby", "it's", "tabby"],
    )
    train = data.select(rows=np.array([0, 1, 2]))
    assert marked(phi_preset("waterbirds"), data) == [0, 3]
    assert marked(phi_preset("iwildcam"), data, train=train) == [3]
    assert marked(phi_preset("fmow"), data) == [1, 3]
    assert marked(phi_preset("imagenet-a"), data) == [1, 3]
    assert marked(phi_preset("imagenet-a", ["max_nll", "other_nll"]), data) == [0, 1, 3]
    assert marked(phi_preset("breeds", values=["it's", "siamese"]), data) == [0, 2]


@pytest.mark.skipif(not WATERBIRDS.is_file(), reason=f"the Waterbirds table is not at {WATERBIRDS}")
def test_waterbirds():
    table = pl.read_csv(WATERBIRDS)
    split = pl.col("split").replace_strict({0: "train", 1: "valid", 2: "test"})
    images = table.select(image_id="img_id", split=split, place="place", y="y")
    presence = csr_array(table["y"].to_numpy().reshape(-1, 1).astype(np.float64))
    data = Dataset.build(images, ["waterbird"], presence)
    train = data.select("train")
    fitted = Attribute(phi_preset("waterbirds")).fit(train, ["waterbird"])
    marks, labels = fitted.phi(train, "waterbird"), train.labels("waterbird")
    assert int((marks & ~labels).sum()) == 184
    assert int((marks & labels).sum()) == 56
    for name, count in data.splits.items():
        assert len(fitted.phi(data.select(name), "waterbird")) == count
