"""Worlds: what is refused, and the probabilities that objects are drawn with."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from refusals import fails
from scipy.stats import binom

from nooch.base.errors import InputError, ParameterError
from nooch.data.readers.cocostuff import COCOSTUFF
from nooch.scenes import default_text, load_world
from nooch.scenes.generator import describe
from nooch.scenes.images import Item, draw_image, draw_presence
from nooch.scenes.sprites import THINGS
from nooch.scenes.textures import STUFF

WORLD = load_world()
PAPER = {
    "car": "road", "bowl": "dining_table", "boat": "sea", "fire_hydrant": "pavement",
    "airplane": "sky-other", "cow": "grass", "backpack": "person", "cup": "dining_table",
    "surfboard": "sea", "tie": "person", "sports_ball": "playingfield", "kite": "sky-other",
}  # fmt: skip


def draws(context_strength, many=4000, seed=0):
    """Scenes, and presence of every task: bool (many, n_tasks)."""
    scenes, present = [], []
    for image in range(many):
        scene, wanted = draw_presence(WORLD, context_strength, np.random.default_rng([seed, image]))
        scenes.append(scene)
        present.append(list(wanted.values()))
    return np.array(scenes), np.array(present)


def test_the_default_world_holds_the_papers_tasks_and_their_contexts():
    assert set(WORLD.tasks) == set(PAPER)
    assert set(PAPER.values()) <= set(WORLD.classes())
    stuff = {"sand", "snow", "building-other", "tree", "wall-other", "floor-wood", "table"}
    assert stuff | {"mountain", "clouds"} <= set(WORLD.classes())
    assert 30 <= len(WORLD.classes()) <= 36
    # a default world that draws what COCO-Stuff does not know would have no ids
    assert set(WORLD.classes()) <= set(COCOSTUFF)
    assert set(THINGS) | set(STUFF) <= set(COCOSTUFF)


@pytest.mark.parametrize("strength", [0.0, 0.5, 0.9, 1.0])
def test_objects_are_drawn_with_the_documented_probability(strength):
    scenes, present = draws(strength)
    for (column, task), scene in product(enumerate(WORLD.tasks), WORLD.scenes):
        rows = present[scenes == scene, column]
        chance = WORLD.probability(scene, task, strength)
        expected = strength * WORLD.strength(scene, task) + (1 - strength) * WORLD.stray
        assert chance == pytest.approx(expected)
        # 192 comparisons: each is allowed one in a million
        assert binom.cdf(rows.sum(), len(rows), chance) > 1e-6
        assert binom.sf(rows.sum() - 1, len(rows), chance) > 1e-6


def test_without_strength_objects_are_independent_of_scenes_and_with_it_they_are_not():
    for strength, low, high in ((0.0, 0.0, 0.06), (0.9, 0.5, 1.0)):
        scenes, present = draws(strength)
        for column, task in enumerate(WORLD.tasks):
            strengths = np.array([WORLD.strength(scene, task) for scene in scenes])
            matrix = np.corrcoef(strengths >= WORLD.expected, present[:, column])
            assert low <= abs(matrix[0, 1]) <= high, (strength, task)


def test_at_full_strength_objects_are_only_where_scenes_hold_them():
    scenes, present = draws(1.0)
    for column, task in enumerate(WORLD.tasks):
        assert {s for s in scenes[present[:, column]] if not WORLD.strength(s, task)} == set()


def test_sampled_objects_are_visible():
    # an object may be hidden behind others, but seldom
    lost = wanted = 0
    for image in range(150):
        picture = draw_image(WORLD, 64, 0.0, 5, image)
        shown = {picture.items[number].name for number in np.unique(picture.owner).tolist()}
        _, lots = draw_presence(WORLD, 0.0, np.random.default_rng([5, image]))
        wanted += sum(lots.values())
        lost += sum(there and task not in shown for task, there in lots.items())
        sampled = {task for task, there in lots.items() if there}
        assert shown & set(WORLD.tasks) <= sampled
    assert lost < 0.02 * wanted


def test_captions_name_what_there_is():
    random = np.random.default_rng(0)
    items = [Item("car", "red"), *[Item("cow", "brown")] * 2, Item("person", crowd=True)]
    scene = (["a road in town"], items, ["road", "tree"])
    text = " ".join(sentence for _ in range(40) for sentence in describe(*scene, random))
    for words in ("a red car", "two cows", "a group of people", "a road in town", "some trees"):
        assert words in text.lower(), words
    empty = describe(["a forest"], [], ["tree"], random)
    assert len(set(empty)) == 5


@pytest.mark.parametrize(
    ("old", "new", "parts", "kind"),
    [
        ("stray: 0.25", "stray: 1.5", ["is not a valid world", "stray"], InputError),
        ("stray: 0.25", "strays: 0.25", ["is not a valid world", "strays"], InputError),
        ("stray: 0.25", "stray: [", ["cannot be read", "a YAML file"], InputError),
        ("weight: 0.6", "weight: 0", ["is not a valid world", "weight"], InputError),
        ("place: sky", "place: heaven", ["is not a valid world", "heaven"], InputError),
        ("car: 0.8", "cars: 0.8", ["'cars' is not a thing", "did you mean car", "street"],
         ParameterError),
        ("[pavement]", "[paving]", ["'paving' is not a stuff", "street"], ParameterError),
        ("tasks: [car,", "tasks: [car, car,", ["twice"], ParameterError),
        ("tasks: [car,", "tasks: [cat, car,", ["'cat' is not a thing", "tasks"], ParameterError),
        ("tasks: [car,", "tasks: [sheep, car,", ["sheep is a task, so it cannot be a crowd"],
         ParameterError),
        ("  car:          {", "  dining_table: {", ["car has no entry under objects"],
         ParameterError),
        ("size: [0.80, 0.94]", "size: [0.94, 0.80]", ["0.94 to 0.8 is not a range"],
         ParameterError),
        ("size: [0.80, 0.94]", "size: [0.80, 9]", ["is not a range"], ParameterError),
        ("share: [0.04", "share: [-1", ["is not a valid world"], InputError),
        ("pose: top", "pose: side", ["'side' is not a pose"], ParameterError),
        ("thing: dining_table", "thing: cup", ["cup is a task, so it cannot be the front"],
         ParameterError),
        ("crowds: {person: 0.08}", "crowds: {car: 0.08}", ["'car' is not a crowd"], ParameterError),
        ("- {stuff: [wall-other, floor-wood, tree], share: [1, 1]}",
         "- {stuff: [tree], share: [1, 1], chance: 0.5}", ["every band may be missing"],
         ParameterError),
    ],
)  # fmt: skip
def test_worlds_that_are_refused(tmp_path, old, new, parts, kind):
    assert old in default_text()
    path = tmp_path / "world.yaml"
    path.write_text(default_text().replace(old, new, 1), encoding="utf-8")
    text = fails(lambda: load_world(path), *parts, kind=kind)
    assert "world.yaml" in text


def test_files_that_are_no_worlds(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\xfa")
    (tmp_path / "tag").write_text("!!python/object/apply:os.getcwd []")
    for name, part in (("none.yaml", "No such file"), ("binary", "utf-8"), ("tag", "constructor")):
        fails(lambda n=name: load_world(tmp_path / n), "cannot be read", part)


def test_a_custom_world(tmp_path):
    path = tmp_path / "mine.yaml"
    road = "{captions: [a road], bands: [{stuff: [road], share: [1, 1]}], things: {car: 1}}"
    tasks = "tasks: [car]\nstray: 0\nobjects: {car: {size: [0.3, 0.4]}}"
    path.write_text(f"{tasks}\nscenes: {{road: {road}}}\n")
    world = load_world(path)
    assert world.classes() == ["car", "road"]
    picture = draw_image(world, 48, 0.5, 0, 1)
    assert {item.name for item in picture.items} <= {"car", "road"}
    assert picture.pixels.shape == (48, 48, 3)
