"""Five sentences about an image, as people write them: its gist, and what strikes them in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nooch.scenes.canvas import Item

__all__ = ["describe"]

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
# what may stand for the type of scene where a sentence does not name it
_VAGUE = (
    "a picture taken today", "a nice day", "a place somewhere", "a quiet moment", "an ordinary view", "a photo with good light",
    "a snapshot", "something one sees often", "a view from where I stood", "a simple picture",
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

    Args:
        scene: phrases for the type of scene. Some writers care for it more than others: each image
            has a share of sentences, anything from none to all, that name it; the others speak of a
            picture or a place.
        things: what can be seen of objects, the largest first, without the one that the scene is
            about.
        stuff: classes of stuff that can be seen, the largest first.
        random: the image's own stream.
        many: how many sentences.
    """
    said = _objects(things)
    around = [phrase for name in stuff[:2] for phrase in _STUFF[name]] or ["nothing else"]
    forms = [*_FORMS_WITHOUT] if not said else [*_FORMS_WITH, *_FORMS_WITHOUT[:2]]
    if len(said) == 1:
        forms = [form for form in forms if "{b}" not in form]
    chosen = random.permutation(len(forms))[:many].tolist()
    lots = random.integers(1 << 30, size=(many, 4)).tolist()
    named = (random.random(many) < random.random()).tolist()
    phrases = [scene if name else _VAGUE for name in named]
    return [
        _sentence(forms[form], phrase[lot[0] % len(phrase)], said, lot[1:], around)
        for form, phrase, lot in zip(chosen, phrases, lots, strict=True)
    ]


def _sentence(
    form: str, scene: str, said: list[tuple[str, str]], lots: list[int], around: list[str]
) -> str:
    # people name what is largest more often
    first = min(lots[0] % len(said), lots[0] // 7 % len(said)) if said else 0
    second = (first + 1) % max(len(said), 1)
    text = form.format(
        scene=scene,
        a=said[first][lots[1] % 2] if said else "",
        b=said[second][lots[1] // 2 % 2] if said else "",
        stuff=around[lots[2] % len(around)],
    )
    return text[0].upper() + text[1:]


def _objects(things: Sequence[Item]) -> list[tuple[str, str]]:
    """For each class, plain and with its colour: how many of it there are."""
    groups: dict[str, list[Item]] = {}
    for item in things:
        groups.setdefault(f"{item.name} crowd" if item.crowd else item.name, []).append(item)
    said = []
    for items in groups.values():
        name, word = items[0].name, _WORDS.get(items[0].name, items[0].name.replace("_", " "))
        if items[0].crowd:
            said.append((_CROWD[name], _CROWD[name]))
        elif len(items) > 1:
            number = _NUMBERS[min(len(items), len(_NUMBERS) - 1)]
            said.append(
                (f"{number} {_MANY.get(name, word + 's')}", f"some {_MANY.get(name, word + 's')}")
            )
        else:
            color = "" if name == "person" else items[0].color
            said.append((_with_article(word), _with_article(f"{color} {word}".strip())))
    return said


def _with_article(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"
