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
from functools import cache, wraps
from pathlib import Path
from textwrap import dedent
from typing import Any, Literal

from typer import Option

from nooch.cli.options import WORDS, split_names

_SOURCE = Path(__file__).parents[2]
_TYPES: dict[str, Any] = {"Path": Path, "str": str, "int": int, "float": float, "bool": bool}
# of a union, the first of these is what is typed
_ORDER = (Path, str, float, int, bool)


Command = Callable[..., Any]
_NOT_TYPERS = {"name", "flags", "type", "default", "parse"}


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

    def typed_as(self, given: Mapping[str, Any]) -> Setting:
        """With the type that a command gives it, for all of its values."""
        if "type" not in given:
            return self
        default = None if self.many else self.default
        return Setting(self.name, given["type"], default, self.help)

    def parameter(self, group: str | None, **given: Any) -> inspect.Parameter:
        """The option as typer reads it; ``given`` replaces the function's declaration."""
        name = given.get("name", self.name)
        flags = given.get("flags") or [f"--{name.replace('_', '-')}"]
        kind: Any = self.type
        shown, text = given.get("default", self.default), self.help
        if kind is bool:
            if self.default:
                flags = [f"--no-{name.replace('_', '-')}"]
                text = f"Do not {text[:1].lower()}{text[1:]}"
            shown = False
        elif self.many:
            kind, shown = list[kind], []
        words: dict[str, Any] = {"help": text, "rich_help_panel": group}
        # for a share that is a percentage, the function's error suggests what may be meant
        if self.most != 1:
            words |= {"min": self.least, "max": self.most}
        words |= {n: word for n, word in given.items() if n not in _NOT_TYPERS}
        option = Option(shown, *flags, **words)
        return inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind
        )

    def value(self, typed: Any, *, whole: bool) -> Any:
        """Value of the function's keyword for the typed text; None if nothing was typed."""
        if self.type is bool:
            return (not self.default) if typed else None
        if self.many and self.type is str and not whole:
            return [name for text in typed for name in split_names(text)] or None
        return (typed or None) if self.many else typed


def settings_of(target: str, *, positional: bool = False) -> dict[str, Setting]:
    """Name -> setting: the keywords of ``package.module:function``; type None cannot be typed.

    ``positional``: also of its other parameters.
    """
    module, _, name = target.partition(":")
    body = _body(module)
    (definition,) = (
        n for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef) and n.name == name
    )
    declared: list[tuple[str, ast.expr, ast.expr | None]]
    if isinstance(definition, ast.FunctionDef):
        words = definition.args
        pairs = [*zip(words.kwonlyargs, words.kw_defaults, strict=True)]
        if positional:
            needed = [None] * (len(words.args) - len(words.defaults))
            pairs += zip(words.args, [*needed, *words.defaults], strict=True)
        declared = [
            (entry.arg, entry.annotation, default) for entry, default in pairs if entry.annotation
        ]
    else:
        fields = [node for node in definition.body if isinstance(node, ast.AnnAssign)]
        declared = [(ast.unparse(entry.target), entry.annotation, entry.value) for entry in fields]
    helps = dict(_entries(ast.get_docstring(definition) or ""))
    return {entry[0]: _setting(*entry, helps.get(entry[0], ""), body) for entry in declared}


@cache
def _body(module: str) -> list[ast.stmt]:
    path = _SOURCE.joinpath(*module.split("."))
    file = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
    return ast.parse(file.read_text(encoding="utf-8")).body


def _constant(name: str, body: list[ast.stmt]) -> tuple[ast.expr, list[ast.stmt]] | None:
    """The object of a name in a module, and the module that defines it; None if there is none."""
    for node in body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return node.value, body
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            module = node.module or ""
            return _constant(name, _body(module)) if module.startswith("nooch.") else None
    return None


def _entries(docstring: str) -> Iterator[tuple[str, str]]:
    """Name and text of each entry of ``Args``, as a sentence without markup, for a terminal."""
    section = re.search(r"^(?:Args|Attributes):\n((?:[ ].*\n?|\n)*)", docstring, re.MULTILINE)
    for entry in re.split(r"\n(?=\S)", dedent(section[1]).strip()) if section else ():
        name, _, text = entry.partition(":")
        sentence = _OF_PYTHON.sub("", " ".join(text.split()))
        # a value at the beginning is typed as it is
        first = sentence[:1] if sentence.startswith("``") else sentence[:1].upper()
        yield name, (first + sentence[1:]).replace("``", "")


_OF_PYTHON = re.compile(r" \(in Python\b[^)]*\)")
"""A remark in a docstring for readers who call the function."""


def _setting(
    name: str, annotation: ast.expr, default: ast.expr | None, help: str, body: list[ast.stmt]
) -> Setting:
    kinds = [*_kinds(annotation, body)]
    bounds = {key: value for kind in kinds for key, value in kind.bounds.items()}
    value = _literal(default, body)
    # a file or a sequence: in a terminal the file, or if there may be none, several files
    several = value == () or all(kind.many or kind.type is str for kind in kinds)
    many = several and any(kind.many for kind in kinds)
    typed = [kind.type for kind in kinds if kind.many == many]
    chosen_kind = next((candidate for candidate in (*_ORDER, *typed) if candidate in typed), None)
    return Setting(name, chosen_kind, value, help, many, bounds.get("ge"), bounds.get("le"))


@dataclass(frozen=True)
class _Kind:
    type: Any
    many: bool
    bounds: dict[str, float]


def _kinds(node: ast.expr, body: list[ast.stmt], *, many: bool = False) -> Iterator[_Kind]:
    """The parts of an annotation that can be typed: numbers, texts, paths, and choices of texts."""
    match node:
        case ast.BinOp(left=left, right=right):
            yield from _kinds(left, body, many=many)
            yield from _kinds(right, body, many=many)
        case ast.Name(id=name) if name in _TYPES:
            yield _Kind(_TYPES[name], many, {})
        case ast.Name(id=name) if constant := _constant(name, body):
            yield from _kinds(*constant, many=many)
        case ast.Subscript(value=ast.Name(id="Sequence"), slice=inner):
            yield from _kinds(inner, body, many=True)
        case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
            yield _Kind(Literal[ast.literal_eval(inner)], many, {})
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[inner, limit])):
            # a range; or one of some names, which the function checks
            words = limit.keywords if isinstance(limit, ast.Call) else []
            bounds = {str(word.arg): _literal(word.value, body) for word in words}
            for kind in _kinds(inner, body, many=many):
                yield _Kind(kind.type, kind.many, kind.bounds | bounds)


def _literal(node: ast.expr | None, body: list[ast.stmt]) -> Any:
    """The value of a literal, or of a name of one; None for objects, which the function has."""
    if isinstance(node, ast.Name) and (constant := _constant(node.id, body)):
        return _literal(*constant)
    try:
        return None if node is None else ast.literal_eval(node)
    except ValueError:
        return None


def takes(
    target: str,
    into: str = "settings",
    *,
    leave: Collection[str] = (),
    only: Collection[str] = (),
    whole: Collection[str] = (),
    group: str | None = None,
    **given: Mapping[str, Any],
) -> Callable[[Command], Command]:
    """Give a command the options of ``target``; those that were typed are in ``into``, by name.

    ``leave`` and ``only`` choose among the settings; a parameter that the command declares itself
    is its own. Values of ``whole`` are not divided at commas. ``given``: setting -> what replaces
    its ``name``, ``flags``, ``type``, ``default``, or other words of ``typer.Option``; ``parse``
    reads text.
    """

    def decorate(command: Command) -> Command:
        before = command.__dict__.get("built", lambda: command)

        def built() -> Command:
            words = {**WORDS, **given}
            settings = settings_of(target, positional=bool(only))
            declared = {n: s.typed_as(words.get(n, {})) for n, s in settings.items()}
            typed = {n: s for n, s in declared.items() if s.type}
            options = {n: typed[n] for n in only or typed if n not in leave}
            return _with_options(before(), options, into, whole, group, words)

        command.__dict__["built"] = built
        return command

    return decorate


def with_settings(command: Command) -> Command:
    """A command with the options of all that it ``takes``, for typer; sources are read now."""
    make: Callable[[], Command] = command.__dict__.get("built", lambda: command)
    return make()


def _with_options(
    command: Command,
    settings: Mapping[str, Setting],
    into: str,
    whole: Collection[str],
    group: str | None,
    words: Mapping[str, Mapping[str, Any]],
) -> Command:
    own = dict(inspect.signature(command, eval_str=True).parameters)
    own.pop(into, None)
    options = {n: s.parameter(group, **words.get(n, {})) for n, s in settings.items()}
    added = {n: option for n, option in options.items() if option.name not in own}

    @wraps(command)
    def run(**values: Any) -> Any:
        given = {n: values.pop(option.name) for n, option in added.items()}
        typed = {n: settings[n].value(value, whole=n in whole) for n, value in given.items()}
        typed = {name: value for name, value in typed.items() if value is not None}
        read = {name: words[name]["parse"] for name in typed if "parse" in words.get(name, {})}
        typed |= {name: parse(typed[name]) for name, parse in read.items()}
        both = values.pop(into, {}) | typed
        return command(**values, **{into: both})

    # what typer reads: up to what must be given, what the command does, where its results go
    needed = [n for n, option in own.items() if getattr(option.default, "default", None) is ...]
    first = [*own].index(needed[-1]) + 1 if needed else 0
    listed = [*own.values()]
    parameters = [
        option.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for option in [*listed[:first], *added.values(), *listed[first:]]
    ]
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
