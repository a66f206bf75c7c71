"""The examples in the docstrings of public functions, run in a folder with small data."""

import doctest

import polars as pl
import pytest
from coco_files import document, image, write
from planted import planted_data, planted_predictions

import nooch

FUNCTIONS = {
    name: function
    for space in (nooch, nooch.io, nooch.paper, nooch.training, nooch.vlm)
    for name in dir(space)
    if ">>> " in (getattr(function := getattr(space, name), "__doc__", None) or "")
}
LEAST = 25


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with ``data``, the ``suite`` found in it, and predictions of two models."""
    path, data = tmp_path_factory.mktemp("examples"), planted_data()
    nooch.save_dataset(data, path / "data")
    nooch.save_suite(nooch.find(path / "data", "ce", tasks=["car"]), path / "suite")
    images = [image(1, 10, 10), image(2, 10, 10)]
    car = {"image_id": 1, "category_id": 3, "area": 25.0}
    write(path / "instances.json", document(images, [car], {3: "car"}))
    runs = {"model": {}, "other": {"missed": 0.2, "claimed": 0.2, "seed": 2}}
    for name, rates in runs.items():
        answers = planted_predictions(data, **rates)
        answers.filter(pl.Series(data.images["split"] == "test")).write_csv(path / f"{name}.csv")
    return path


def test_the_functions_that_people_call_first_have_examples():
    assert len(FUNCTIONS) >= LEAST


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_output_of_an_example(name, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    text = FUNCTIONS[name].__doc__
    example = doctest.DocTestParser().get_doctest(text, {"nooch": nooch}, name, None, None)
    doctest.DocTestRunner().run(example)
    assert capsys.readouterr().out == ""
