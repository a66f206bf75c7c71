"""Options of a command: name, type, default and help of the keywords of the function it calls.

They are read from the function's source, which is parsed and not imported: ``nooch evaluate
--help`` must not wait for polars.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Literal

from typer import Option

_SOURCE = Path(__file__).parents[2]
_TYPES: dict[str, Any] = {"Path": Path, "str": str, "int": int, "float": float, "bool": bool}
_RANGES: dict[str, tuple[Any, dict[str, float]]] = {
    "Count": (int, {"ge": 1}), "Seed": (int, {"ge": 0}), "Share": (float, {"ge": 0, "le": 1}),
}  # fmt: skip
"""The ranges that ``nooch.base.calls`` names."""
# of a union, the first of these is what is typed
_ORDER = (Path, str, float, int, bool)


@dataclass(frozen=True)
class Setting:
    """A keyword of a function as an option: what is typed for it, its default, its help.

    ``many``: the option takes several values, separated by commas or repeated. ``least`` and
    ``most`` are the bounds of a number.
    """

    name: str
    type: Any
    default: Any
    help: str
    many: bool = False
    least: float | None = None
    most: float | None = None

    def parameter(self, group: str | None, **given: Any) -> inspect.Parameter:
        """The option as typer reads it; ``given`` replaces what the function says of it."""
        flags = given.get("flags") or [f"--{self.name.replace('_', '-')}"]
        kind: Any = given.get("type", self.type)
        shown = self.default
        if kind is bool:
            flags = [f"--no-{self.name.replace('_', '-')}"] if self.default else flags
            shown = False
        elif self.many:
            kind, shown = list[kind], []
        words: dict[str, Any] = {
            "help": self.help,
            "rich_help_panel": group,
            "min": self.least,
            "max": self.most,
        }
        words |= {name: word for name, word in given.items() if name not in {"flags", "type"}}
        option = Option(shown, *flags, **words)
        return inspect.Parameter(
            self.name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind
        )

    def value(self, typed: Any, *, whole: bool) -> Any:
        """What the function gets for what was typed; None where nothing was."""
        if self.type is bool:
            return (not self.default) if typed else None
        if self.many and self.type is str and not whole:
            return [name for text in typed for name in split_names(text)] or None
        return (typed or None) if self.many else typed


def split_names(text: str | None) -> list[str]:
    """``a, b`` as a list without empty entries."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def settings_of(target: str) -> dict[str, Setting]:
    """Name -> setting: the keywords of ``package.module:function``; type None cannot be typed."""
    module, _, name = target.partition(":")
    path = _SOURCE.joinpath(*module.split(".")).with_suffix(".py")
    body = ast.parse(path.read_text(encoding="utf-8")).body
    (found,) = (n for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef) and n.name == name)
    declared: list[tuple[str, ast.expr, ast.expr | None]]
    if isinstance(found, ast.FunctionDef):
        pairs = zip(found.args.kwonlyargs, found.args.kw_defaults, strict=True)
        declared = [(one.arg, one.annotation, default) for one, default in pairs if one.annotation]
    else:
        fields = [node for node in found.body if isinstance(node, ast.AnnAssign)]
        declared = [(ast.unparse(one.target), one.annotation, one.value) for one in fields]
    helps = dict(_entries(ast.get_docstring(found) or ""))
    settings = [_setting(*one, helps.get(one[0], "")) for one in declared]
    return {one.name: one for one in settings}


def _entries(docstring: str) -> Iterator[tuple[str, str]]:
    """Name and text of each entry of ``Args``, as a sentence without markup."""
    section = re.search(r"^(?:Args|Attributes):\n((?:[ ].*\n?|\n)*)", docstring, re.MULTILINE)
    for entry in re.split(r"\n(?=\S)", inspect.cleandoc(section[1])) if section else ():
        name, _, text = entry.partition(":")
        sentence = " ".join(text.split())
        # a value at the beginning is typed as it is
        first = sentence[:1] if sentence.startswith("``") else sentence[:1].upper()
        yield name, (first + sentence[1:]).replace("``", "")


def _setting(name: str, annotation: ast.expr, default: ast.expr | None, help: str) -> Setting:
    kinds = [*_kinds(annotation)]
    bounds = {key: value for kind in kinds for key, value in kind.bounds.items()}
    # a file or a sequence: in a terminal, the file
    many = any(kind.many for kind in kinds) and all(kind.many or kind.type is str for kind in kinds)
    typed = [kind.type for kind in kinds if kind.many == many]
    chosen = next((one for one in (*_ORDER, *typed) if one in typed), None)
    try:
        value = None if default is None else ast.literal_eval(default)
    except ValueError:
        # a constant's name; the function has it where nothing is typed
        value = None
    return Setting(name, chosen, value, help, many, bounds.get("ge"), bounds.get("le"))


@dataclass(frozen=True)
class _Kind:
    type: Any
    many: bool
    bounds: Mapping[str, float]


def _kinds(node: ast.expr, *, many: bool = False) -> Iterator[_Kind]:
    """The parts of an annotation that can be typed: numbers, texts, paths, and choices of texts."""
    match node:
        case ast.BinOp(left=left, right=right):
            yield from _kinds(left, many=many)
            yield from _kinds(right, many=many)
        case ast.Name(id=name) if name in _RANGES:
            yield _Kind(_RANGES[name][0], many, _RANGES[name][1])
        case ast.Name(id=name) if name in _TYPES:
            yield _Kind(_TYPES[name], many, {})
        case ast.Subscript(value=ast.Name(id="Sequence"), slice=inner):
            yield from _kinds(inner, many=True)
        case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
            yield _Kind(Literal[ast.literal_eval(inner)], many, {})
        case ast.Subscript(
            value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[inner, ast.Call(keywords=words)])
        ):
            bounds = {str(word.arg): ast.literal_eval(word.value) for word in words}
            yield from (_Kind(kind.type, many, bounds) for kind in _kinds(inner))
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[inner, _])):
            # one of some names, which the function checks
            yield from _kinds(inner, many=many)


def takes(
    target: str,
    into: str = "settings",
    *,
    leave: Collection[str] = (),
    only: Collection[str] = (),
    whole: Collection[str] = (),
    group: str | None = None,
    **given: Mapping[str, Any],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of ``target``; those that were typed are in ``into``, by name.

    ``leave`` and ``only`` choose among the settings; a parameter that the command declares itself
    is its own. Values of ``whole`` are not divided at commas. ``given``: setting -> what replaces
    its ``flags``, ``type``, or other words of ``typer.Option``.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        before = command.__dict__.get("built", lambda: command)

        def built() -> Callable[..., None]:
            settings = settings_of(target)
            chosen = {
                n: s for n, s in settings.items() if n not in leave and (not only or n in only)
            }
            return _with_options(before(), chosen, into, whole, group, given)

        command.__dict__["built"] = built
        return command

    return decorate


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of all that it ``takes``, for typer; sources are read now."""
    make: Callable[[], Callable[..., None]] = command.__dict__.get("built", lambda: command)
    return make()


def _with_options(
    command: Callable[..., None],
    settings: Mapping[str, Setting],
    into: str,
    whole: Collection[str],
    group: str | None,
    given: Mapping[str, Mapping[str, Any]],
) -> Callable[..., None]:
    own = dict(inspect.signature(command, eval_str=True).parameters)
    own.pop(into, None)
    added = {n: s.parameter(group, **given.get(n, {})) for n, s in settings.items() if n not in own}

    @wraps(command)
    def run(**values: Any) -> None:
        typed = {n: settings[n].value(values.pop(n), whole=n in whole) for n in added}
        typed = {name: value for name, value in typed.items() if value is not None}
        both = values.pop(into, {}) | typed
        command(**values, **{into: both})

    # what typer reads: what must be given, what the command does, where its results go
    needed = [one for one in own.values() if getattr(one.default, "default", None) is ...]
    parameters = [*needed, *added.values(), *(one for one in own.values() if one not in needed)]
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
