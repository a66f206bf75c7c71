"""Mapping from a network's outputs to tasks: labels of a classifier, or prompts."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nooch.base.errors import Give, InputError, ParameterError, check_one_of, some_of
from nooch.base.yaml_files import read_yaml
from nooch.data import class_name

READY = MappingProxyType({"imagenet": Path(__file__).with_name("imagenet.yaml")})
"""Maps that come with nooch: COCO's classes as ImageNet's 1,000 classes."""

SYNONYMS = "synonyms"
"""Name of the map that gives tasks the words that captions have for them."""
_MENTIONS = Path(__file__).parents[1] / "evaluation" / "coco_mentions.yaml"

_ALLOWED = (
    "a list of labels or prompts for each task, or 'positive' and 'negative' with a list each"
)


@dataclass(frozen=True)
class TaskWords:
    """Stand-ins for a task: labels of a classifier (text or number), or prompts for an image with
    the object and, None for the usual one, prompts for an image without it. ``optional``: names of
    the task, of which a classifier may lack some.
    """

    positive: tuple[str | int, ...]
    negative: tuple[str | int, ...] | None = None
    optional: bool = False


def read_task_map(
    source: str | Path | Mapping[str, Any], tasks: Sequence[str] = ()
) -> dict[str, TaskWords]:
    """A map from tasks to words: a name of ``READY``, a YAML file, or a mapping of the same form;
    or ``synonyms``, for the given tasks: their names and other words for them.

    Task names may have spaces, as in ``fire hydrant``.

    Raises:
        InputError: the file cannot be read, or has another form.
    """
    if str(source) == SYNONYMS:
        return _synonyms(tasks)
    if isinstance(source, Mapping):
        content, where = dict(source), "task map"
    else:
        path = READY.get(str(source), Path(source))
        content, where = read_yaml(path), str(path)
    task_map: dict[str, TaskWords] = {}
    for task, words in content.items():
        name = class_name(str(task), where)
        if name in task_map:
            raise InputError(f"names task {name} twice", where=where, allowed="each task once")
        task_map[name] = _words(name, words, where)
    if not task_map:
        raise InputError("contains no task", where=where, allowed=_ALLOWED)
    return task_map


def _synonyms(tasks: Sequence[str]) -> dict[str, TaskWords]:
    """Each task's name, and the words of the one class of COCO that it names in its words."""
    groups: dict[str, list[str]] = read_yaml(_MENTIONS)["mentions"]
    found: dict[str, TaskWords] = {}
    for task in tasks:
        name = _plain(task)
        own = [words for kind, words in groups.items() if _plain(kind) == name]
        named = own or [words for words in groups.values() if name in map(_plain, words)]
        words = [name, *(named[0] if len(named) == 1 else ())]
        found[task] = TaskWords(tuple(dict.fromkeys(words)), optional=True)
    return found


def _words(task: str, content: Any, where: str) -> TaskWords:
    if isinstance(content, TaskWords):
        return content
    if not isinstance(content, dict):
        return TaskWords(_listed(task, content, where))
    for side in content:
        check_one_of("side", str(side), ("positive", "negative"), owner=f"task {task} in {where}")
    positive, negative = _listed(task, content.get("positive"), where), content.get("negative")
    return TaskWords(positive, None if negative is None else _listed(task, negative, where))


def _listed(task: str, content: Any, where: str) -> tuple[str | int, ...]:
    words = [content] if isinstance(content, str | int) else content
    if not isinstance(words, list | tuple) or not words or not all(map(_usable, words)):
        raise InputError(f"task {task} has {content!r}", where=where, allowed=_ALLOWED)
    return tuple(dict.fromkeys(words))


def _usable(word: Any) -> bool:
    """True if it is a text or a number, not empty."""
    return isinstance(word, str | int) and not isinstance(word, bool) and bool(str(word).strip())


def find_labels(
    labels: Sequence[str],
    tasks: Sequence[str],
    words: Mapping[str, TaskWords] | None,
    owner: str,
    *,
    skip_unmapped: bool = False,
) -> dict[str, list[int]]:
    """Classes of a classifier (``owner``) that stand for each task: task -> positions, ascending.

    A label is found by its number; by its text; by one of the names that stand between its commas;
    or by either written with other capitals or with underscores. Without words, a task is looked
    for by its own name; with ``skip_unmapped``, those not found are left out, if some are found.
    """
    if words is None:
        return _by_name(labels, tasks, owner, skip_unmapped=skip_unmapped)
    _check_complete(tasks, words)
    if sided := [task for task in tasks if words[task].negative is not None]:
        problem = f"{some_of(sided)} have negative prompts, but {owner} is a classifier"
        allowed = "a list of the classifier's labels for each task"
        raise InputError(problem, where="`task_map`", allowed=allowed)
    lookup = _Lookup(labels)
    inside, wrong = {}, []
    for task in tasks:
        positions = {word: lookup.positions(word) for word in words[task].positive}
        if words[task].optional:
            positions = {word: places for word, places in positions.items() if places}
        unclear = [word for word, places in positions.items() if len(places) != 1]
        wrong += [f"{task}: {_trouble(word, positions[word], labels)}" for word in unclear]
        inside[task] = sorted(set().union(*positions.values()))
    if wrong:
        problem = f"words that do not match exactly one label of {owner}: {some_of(wrong, 12)}"
        allowed = f"numbers from 0 to {len(labels) - 1}, or labels such as {some_of(labels, 3)}"
        raise InputError(problem, where="`task_map`", allowed=allowed)
    if lacking := [task for task in tasks if not inside[task]]:
        if not skip_unmapped or len(lacking) == len(tasks):
            problem = f"no label of {owner} is a synonym of {some_of(lacking, 12)}"
            allowed = f"labels such as {some_of(labels, 8)}"
            raise InputError(problem, allowed=allowed, give=_ways(tasks, lacking))
        inside = {task: places for task, places in inside.items() if places}
    return inside


def is_imagenet(labels: Sequence[str]) -> bool:
    """True for labels that include ImageNet's 1,000 names, or are all ids of WordNet."""
    if all(re.fullmatch(r"n\d{8}", label) for label in labels):
        return True
    names = {str(word) for words in read_task_map("imagenet").values() for word in words.positive}
    lookup = _Lookup(labels)
    known = sum(bool(lookup.positions(name)) for name in names)
    return len(labels) >= 1000 and known >= 0.9 * len(names)


def _by_name(
    labels: Sequence[str], tasks: Sequence[str], owner: str, *, skip_unmapped: bool
) -> dict[str, list[int]]:
    lookup = _Lookup(labels)
    inside = {task: sorted(lookup.positions(task)) for task in tasks}
    lacking = [task for task in tasks if len(inside[task]) != 1]
    if skip_unmapped and len(lacking) < len(tasks):
        return {task: places for task, places in inside.items() if task not in lacking}
    if lacking:
        ways = _ways(tasks, lacking)
        ways += [{"task_map": "imagenet"}] if len(labels) in {1000, 1001} else []
        raise InputError(
            f"{owner} has no label (or several) called {some_of(lacking, 12)}",
            allowed=f"labels such as {some_of(labels, 8)}",
            remedy="{}, a YAML file with the labels that stand for each task",
            give=ways,
        )
    return inside


def _ways(tasks: Sequence[str], lacking: Sequence[str]) -> list[Give]:
    """A map, or only the other tasks."""
    rest = [task for task in tasks if task not in lacking]
    return [{"task_map": ...}, *([{"tasks": rest}] if rest else [])]


def _trouble(word: str | int, places: set[int], labels: Sequence[str]) -> str:
    several = some_of(f"{place} ({labels[place]})" for place in sorted(places))
    return f"{word!r} matches {several}" if places else f"{word!r} matches none"


class _Lookup:
    """Labels by text, by each of their names, and both in plain spelling; the first hit counts."""

    def __init__(self, labels: Sequence[str]) -> None:
        self._count = len(labels)
        self._steps = [
            (spelling, _places(labels, spelling, split=split))
            for spelling in (str.strip, _plain)
            for split in (False, True)
        ]

    def positions(self, word: str | int) -> set[int]:
        if isinstance(word, int):
            return {word} if 0 <= word < self._count else set()
        hits = (table.get(spelling(word)) for spelling, table in self._steps)
        return next(filter(None, hits), set())


def _places(
    labels: Sequence[str], spelling: Callable[[str], str], *, split: bool
) -> dict[str, set[int]]:
    table: dict[str, set[int]] = {}
    for place, label in enumerate(labels):
        for part in label.split(",") if split else [label]:
            table.setdefault(spelling(part), set()).add(place)
    return table


def _plain(text: str) -> str:
    return " ".join(text.replace("_", " ").lower().split())


def prompts_of(
    tasks: Sequence[str], words: Mapping[str, TaskWords] | None
) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Prompts of each task: from the map, else ``a photo of a car`` against ``a photo``.

    The usual negative prompt names no object: such models ignore a "without".
    """
    prompts = {}
    if words is not None:
        _check_complete(tasks, words)
    for task in tasks:
        words_of_task = TaskWords((_prompt(task),)) if words is None else words[task]
        sides = words_of_task.positive, words_of_task.negative or ("a photo",)
        positive, negative = (tuple(map(str, side)) for side in sides)
        positive = tuple(map(_prompt, positive)) if words_of_task.optional else positive
        if both := set(positive) & set(negative):
            problem = f"prompt {min(both)!r} is positive and negative for {task}"
            raise ParameterError(problem, where="`task_map`", allowed="one of the two")
        prompts[task] = positive, negative
    return prompts


def _check_complete(tasks: Sequence[str], words: Mapping[str, TaskWords]) -> None:
    if lacking := [task for task in tasks if task not in words]:
        raise InputError(
            f"the map has no {some_of(lacking, 12)}",
            where="`task_map`",
            allowed=some_of(sorted(words), 12),
            give=_ways(tasks, lacking),
        )


def _prompt(task: str) -> str:
    # COCO-Stuff marks what has several kinds
    name = task.replace("_", " ").removesuffix("-other").removesuffix("-stuff")
    return f"a photo of {'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
