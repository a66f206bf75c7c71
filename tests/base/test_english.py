"""Articles and plurals of class names."""

import pytest

from nooch.base.words import plural, readable, with_article


@pytest.mark.parametrize(
    ("name", "words", "article", "many"),
    [
        ("car", "car", "a car", "cars"),
        ("airplane", "airplane", "an airplane", "airplanes"),
        ("umbrella", "umbrella", "an umbrella", "umbrellas"),
        ("oven", "oven", "an oven", "ovens"),
        ("hour_glass", "hour glass", "an hour glass", "hour glasses"),
        ("uniform", "uniform", "a uniform", "uniforms"),
        ("person", "person", "a person", "people"),
        ("sheep", "sheep", "a sheep", "sheep"),
        ("skis", "skis", "skis", "skis"),
        ("hills", "hills", "hills", "hills"),
        ("earth", "earth", "earth", "earth"),
        ("lens", "lens", "a lens", "lenses"),
        ("walrus", "walrus", "a walrus", "walruses"),
        ("bus", "bus", "a bus", "buses"),
        ("bench", "bench", "a bench", "benches"),
        ("epoch", "epoch", "an epoch", "epochs"),
        ("fire_hydrant", "fire hydrant", "a fire hydrant", "fire hydrants"),
        ("mouse", "mouse", "a mouse", "mice"),
        ("knife", "knife", "a knife", "knives"),
        ("canary", "canary", "a canary", "canaries"),
        ("toy", "toy", "a toy", "toys"),
        ("tv", "tv", "a tv", "tvs"),
        ("wall-brick", "brick wall", "a brick wall", "brick walls"),
        ("sky-other", "sky", "sky", "sky"),
        ("water-other", "water", "water", "water"),
        ("grass", "grass", "grass", "grass"),
        ("door-stuff", "door", "a door", "doors"),
    ],
)
def test_words_of_a_class(name, words, article, many):
    assert (readable(name), with_article(name), plural(name)) == (words, article, many)
