"""Five sentences about an image, as people write them: its gist, and striking objects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nooch.scenes.images import Item

_FORMS_WITH = (
    "{scene} with {a}.",
    "{a} and {scene}.",
    "There is {a} here: {scene}.",
    "{scene}, and {a} in it.",
    "A picture of {scene} that shows {a}.",
    "{scene}, {a} in the middle of it.",
    "One sees {a}, and behind it {scene}.",
    "{a} in front of {stuff}.",
    "{scene} with {a} and {b}.",
    "{a} next to {b}, {stuff} around them.",
)
_FORMS_WITHOUT = (
    "{scene}.",
    "A picture of {scene}.",
    "{scene} with {stuff}.",
    "This is {scene}.",
    "A view of {scene}, {stuff} and not much else.",
    "{stuff} and {scene}.",
)
# replaces the type of scene in sentences that do not name it
_VAGUE = (
    "a picture taken today", "a nice day", "a place somewhere", "a quiet moment",
    "an ordinary view", "a photo with good light", "a snapshot", "something one sees often",
    "a view from where I stood", "a simple picture",
)  # fmt: skip
_STUFF = {
    "building-other": ("some houses", "tall buildings"),
    "clouds": ("a gray sky", "low clouds"),
    "floor-wood": ("a wooden floor", "brown boards"),
    "grass": ("green grass", "a lawn"),
    "mountain": ("mountains", "a row of hills"),
    "pavement": ("gray tiles", "the pavement"),
    "playingfield": ("the playing field", "a court with white lines"),
    "road": ("the road", "a wide road"),
    "sand": ("yellow sand", "the sand"),
    "sea": ("blue water", "the sea"),
    "sky-other": ("a clear sky", "the blue sky"),
    "snow": ("white snow", "the snow"),
    "table": ("a desk", "a bare table"),
    "tree": ("some trees", "green trees"),
    "wall-other": ("a plain wall", "a light wall"),
}
_WORDS = {
    "sports_ball": "ball",
    "fire_hydrant": "hydrant",
    "airplane": "plane",
    "dining_table": "table",
}
_MANY = {"person": "people", "sheep": "sheep", "bus": "buses"}
_CROWD = {"person": "a group of people", "sheep": "a flock of sheep"}
_NUMBERS = ("", "a", "two", "three", "four", "five", "six")


def describe(
    scene: Sequence[str],
    things: Sequence[Item],
    stuff: Sequence[str],
    random: np.random.Generator,
    many: int = 5,
) -> list[str]:
    """Sentences of different forms.

    As writers differ, a random share of an image's sentences, from none to all, names the
    ``scene``; the others mention a picture or a place. ``things`` are the visible objects, the
    largest first, without the one that the scene is about; the same for ``stuff``.
    """
    objects = _objects(things)
    around = [phrase for name in stuff[:2] for phrase in _STUFF[name]] or ["nothing else"]
    forms = [*_FORMS_WITH, *_FORMS_WITHOUT[:2]] if objects else [*_FORMS_WITHOUT]
    if len(objects) == 1:
        forms = [form for form in forms if "{b}" not in form]
    order = random.permutation(len(forms))[:many].tolist()
    lots = random.integers(1 << 30, size=(many, 4)).tolist()
    by_name = (random.random(many) < random.random()).tolist()
    phrases = [scene if name else _VAGUE for name in by_name]
    return [
        _sentence(forms[form], phrase[lot[0] % len(phrase)], objects, lot[1:], around)
        for form, phrase, lot in zip(order, phrases, lots, strict=True)
    ]


def _sentence(
    form: str, scene: str, objects: list[tuple[str, str]], lots: list[int], around: list[str]
) -> str:
    a = b = ""
    if objects:
        # people name large objects more often
        first = min(lots[0] % len(objects), lots[0] // 7 % len(objects))
        a = objects[first][lots[1] % 2]
        b = objects[(first + 1) % len(objects)][lots[1] // 2 % 2]
    text = form.format(scene=scene, a=a, b=b, stuff=around[lots[2] % len(around)])
    return text[0].upper() + text[1:]


def _objects(things: Sequence[Item]) -> list[tuple[str, str]]:
    """For each class: how many there are, in two wordings, one of them with its color."""
    groups: dict[str, list[Item]] = {}
    for item in things:
        groups.setdefault(f"{item.name} crowd" if item.crowd else item.name, []).append(item)
    phrases = []
    for items in groups.values():
        name, word = items[0].name, _WORDS.get(items[0].name, items[0].name.replace("_", " "))
        if items[0].crowd:
            phrases.append((_CROWD[name], _CROWD[name]))
        elif len(items) > 1:
            number = _NUMBERS[min(len(items), len(_NUMBERS) - 1)]
            plural = _MANY.get(name, word + "s")
            phrases.append((f"{number} {plural}", f"some {plural}"))
        else:
            color = "" if name == "person" else items[0].color
            phrases.append((_with_article(word), _with_article(f"{color} {word}".strip())))
    return phrases


def _with_article(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"
