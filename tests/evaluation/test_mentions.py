"""Mentions of classes in free text."""

import re

import pytest
from hypothesis import given, strategies as st
from refusals import fails

from nooch.evaluation.captions import first_words, whole_sentences, word_count
from nooch.evaluation.vocabulary import COCO, Vocabulary, load_vocabulary

PHRASES = {"dog": ["dog", "puppy"], "hot_dog": ["hot dog"], "kite": ["kite", "kites"]}
SMALL = Vocabulary.from_phrases(PHRASES, ["dog park", "kite surfing"])


def _oracle(text, plain=PHRASES, other=("dog park", "kite surfing")):
    """At each word, the longest phrase that starts there; letter by letter, without a table."""
    owners = {phrase: name for name, phrases in plain.items() for phrase in phrases}
    owners |= dict.fromkeys(other)
    counts = {}
    for part in re.split("[,.]", text.lower()):
        _count([word for word in re.split(r"[\W_]+", part) if word], counts, owners)
    return counts


def _count(words, counts, owners):
    while words:
        fitting = [p for p in owners if words[: p.count(" ") + 1] == p.split(" ")]
        best = max(fitting, key=lambda phrase: phrase.count(" "), default=None)
        if best is not None and owners[best] is not None:
            counts[owners[best]] = counts.get(owners[best], 0) + 1
        words = words[1 if best is None else best.count(" ") + 1 :]


WORDS = [
    "hot", "dog", "Dog", "dogs", "park", "kite", "kites", "surfing", "PUPPY", "a", "dog's", "é",
]  # fmt: skip


@given(
    st.lists(
        st.tuples(st.sampled_from(WORDS), st.sampled_from([" ", "-", ", ", "_", ". "])), max_size=12
    )
)
def test_mentions_are_those_of_the_definition(pieces):
    text = "".join(word + gap for word, gap in pieces)
    assert dict(SMALL.mentions(text)) == _oracle(text)


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        ("Two men fly kites near a Sailboat.", {"person": 1, "kite": 1, "boat": 1}),
        ("A hot dog on a bun", {"hot_dog": 1}),
        ("a hot-dog and 2 hotdogs", {"hot_dog": 2}),
        ("A dog sits on a tennis court", {"dog": 1}),
        ("tennis rackets and a tennis ball", {"tennis_racket": 1, "sports_ball": 1}),
        ("an orange cat", {"cat": 1}),
        ("people ride the ski lift", {"person": 1}),
        ("knives, mice and sheep", {"knife": 1, "mouse": 1, "sheep": 1}),
        ("a pair of skis", {"skis": 1}),
        ("The baby elephant's trunk", {"elephant": 1}),
        ("carpet, busy, catalog", {}),
        ("an orange cat and an orange and white dog", {"cat": 1, "dog": 1}),
        ("oranges, an orange next to a slice of orange", {"orange": 3}),
        ("a tie game near a mouse pad and a truck stop", {}),
        ("swinging a bat at a passenger jet", {"baseball_bat": 1, "airplane": 1}),
        ("hot, dog", {"dog": 1}),
        ("", {}),
    ],
)
def test_the_words_for_coco(text, classes):
    assert dict(load_vocabulary(COCO).mentions(text)) == classes


def test_coco_has_words_for_its_80_things():
    coco = load_vocabulary(COCO)
    assert len(coco.classes) == 80
    for name in coco.classes:
        # "orange" alone is a color
        words = "an orange on a plate" if name == "orange" else name.replace("_", " ")
        assert coco.mentions(words)[name] == 1, name


def test_a_file_adds_no_plurals_unless_asked(tmp_path):
    file = tmp_path / "words.yaml"
    file.write_text("car: [car]\nfire_hydrant: [hydrant]\n")
    assert dict(load_vocabulary(file).mentions("cars, car, hydrants")) == {"car": 1}
    file.write_text("plurals: true\nother: [car park]\nmentions: {car: [car]}\n")
    assert dict(load_vocabulary(file).mentions("cars in a car park")) == {"car": 1}


@pytest.mark.parametrize(
    "content",
    ["[1, 2]", "car: car", "car: [1]", "mentions: {}", "mentions: {car: [car]}\nplural: true", ":",
     "car: [car]\ntaxi: [car]", "car: ['...']", "plurals: 3\nmentions: {car: [car]}"],
)  # fmt: skip
def test_files_that_are_refused(tmp_path, content):
    (tmp_path / "words.yaml").write_text(content)
    fails(lambda: load_vocabulary(tmp_path / "words.yaml"), helps=False)


DENIED = {
    "An empty road with no cars in sight": ([], ["car"]),
    "no people on a boat": (["boat"], ["person"]),
    "There are no cars, trucks, or buses in the image.": ([], ["car", "truck", "bus"]),
    "A man without a shirt riding a surfboard": (["person", "surfboard"], []),
    "a street free of cars and a dog": (["dog"], ["car"]),
    "there isn't any car, but a bus is here": (["bus"], ["car"]),
    "No one is on the boat.": (["boat"], ["person"]),
    "Nobody rides a horse": ([], ["person", "horse"]),
    "A street with no traffic except a bus": (["bus"], []),
    "There are no animals other than a cat": (["cat"], []),
    "A dog-shaped cookie and a box": ([], []),
    "Possible cars": ([], []),
    "I was unable to find any dogs": ([], ["dog"]),
    "There is nothing that looks like a dog": ([], ["dog"]),
    "The cloud looks like a dog": ([], []),
    "an absence of cars or people on the road near a truck": (["truck"], ["car", "person"]),
    "There are no cars visible in the scene, a dog is there": (["dog"], ["car"]),
    "not any dogs. A cat": (["cat"], ["dog"]),
    "neither a cat nor a dog is here": ([], ["cat", "dog"]),
    "a car": (["car"], []),
    "The image doesn't contain any cars.": ([], ["car"]),
    "I can't see any dogs here.": ([], ["dog"]),
    "Dogs are not visible on the road.": ([], ["dog"]),
    "The dog isn't moving.": (["dog"], []),
    "A dog sits there, and the cat is missing.": (["dog"], ["cat"]),
    "Not a single bus is in sight": ([], ["bus"]),
    "A truck rather than a bus is parked": (["truck"], ["bus"]),
    "The street is empty of cars.": ([], ["car"]),
    "Cars: none. Trucks: two.": (["truck"], ["car"]),
    "Number of dogs: 0": ([], ["dog"]),
    "There could be a dog behind it": ([], []),
    "It is not clear whether a dog is there.": ([], []),
    "A man sits on a bench, maybe waiting for a bus": (["person", "bench"], []),
    "There is no man with a dog": ([], ["person"]),
    "There are no dogs and a cat": (["cat"], ["dog"]),
    "Not only a dog but a cat": (["dog", "cat"], []),
}


@pytest.mark.parametrize(("text", "wanted"), DENIED.items())
def test_what_is_denied_in_a_clause_is_no_mention(text, wanted):
    found, denied = load_vocabulary(COCO).read(text)
    assert ([*found], [*denied]) == wanted
    assert load_vocabulary(COCO).mentions(text) == found


def test_a_sentence_that_was_cut_off_is_dropped_and_texts_are_cut_by_words():
    assert whole_sentences("A dog. A cat sits on the") == "A dog."
    assert whole_sentences('He says "a dog." Then') == 'He says "a dog."'
    assert whole_sentences("a dog on a beach") == "a dog on a beach"
    assert whole_sentences("") == ""
    assert first_words("A dog, and a cat.", 2) == "A dog"
    assert first_words("A dog", 5) == "A dog"
    assert word_count("A dog, and a cat.") == 5
