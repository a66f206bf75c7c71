"""Every exception of nooch, and the wording that all errors share.

An error names what is wrong, where, what would have been allowed, and how to fix it. The command
line prints it without a traceback and exits with code 2.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from numbers import Real
from pathlib import Path
from typing import Any, Self

Give = Mapping[str, object]
"""Parameter -> value that cures an error."""


class Command(dict[str, object]):
    """A way out by another command first: ``Command("import auto", split="70/10/20")``."""

    def __init__(self, path: str, /, **give: object) -> None:
        super().__init__(give)
        self.path = path


class NoochError(Exception):
    """Root of all errors that a user can cause and fix.

    A cure that is a parameter of the call is not written into ``remedy``; ``give`` has it, and the
    words are made from it: ``remedy="correct them, or {} to leave them out"`` with
    ``give={"ignore_unknown": True}`` reads "or pass ignore_unknown=True" in Python and "or give
    --ignore-unknown" in a terminal (``nooch.cli.terminal.as_typed``). Two readings: a tuple of two
    mappings, one ``{}`` for each, in ``remedy="{} if x is in pixels, {} if not"``. Without ``{}``
    they come last, without ``remedy`` alone. A value that only the user has is ``...``; None means
    to leave the parameter out.

    Args:
        problem: what is wrong, one sentence without a full stop.
        where: the file, record or argument that it concerns.
        allowed: what would have been accepted.
        remedy: what to do about it.
        give: parameter of the public function that was called -> value, or a ``Command``; or one
            such mapping for each of several ways out.
    """

    def __init__(
        self,
        problem: str,
        *,
        where: object = None,
        allowed: str | None = None,
        remedy: str | None = None,
        give: Give | Sequence[Give] = (),
    ) -> None:
        self.problem, self.where, self.allowed, self.remedy = problem, where, allowed, remedy
        self.give = (give,) if isinstance(give, Mapping) else tuple(give)
        super().__init__(self.worded(_as_keywords))

    def worded(self, words: Callable[[Give], str]) -> str:
        """The message, with ``words`` for each way out: "pass map=None", for example."""
        lines = [f"{self.where}: {self.problem}" if self.where is not None else self.problem]
        lines += [f"allowed: {self.allowed}"] if self.allowed else []
        remedy = self.cure(words)
        return "\n  ".join([*lines, f"remedy: {remedy}"] if remedy else lines)

    def cure(self, words: Callable[[Give], str]) -> str | None:
        """The remedy with its ways out, as ``worded`` has it; without those that have no words."""
        ways, text = map(words, self.give), ""
        parts = re.split(r"(; (?:or,? )?|, or |,? or (?=\{\}))", self.remedy or "")
        for between, part in zip(["", *parts[1::2]], parts[::2], strict=True):
            given = [next(ways, "{}") for _ in range(part.count("{}"))]
            if all(given):
                filled = "".join(map("".join, zip(part.split("{}"), [*given, ""], strict=True)))
                text += (between if text else "") + filled
        return ", or ".join(filter(None, [text, *ways])) or None

    def changed(self, **fields: Any) -> Self:
        """The same error with another ``problem``, ``where``, ``allowed`` or ``remedy``."""
        names = ("problem", "where", "allowed", "remedy", "give")
        words = {name: getattr(self, name) for name in names} | fields
        return type(self)(words.pop("problem"), **words)

    def __reduce__(self) -> tuple[Any, ...]:
        # errors travel from worker processes, regardless of their constructor's signature
        return _restore, (type(self), self.args, self.__dict__)


class InputError(NoochError, ValueError):
    """A file or table that was given contains something that cannot be used."""


class FormatError(InputError):
    """A folder that nooch wrote is of another version, incomplete or altered."""


class ParameterError(NoochError, ValueError):
    """An argument has a value that is not allowed."""


class WrongTypeError(NoochError, TypeError):
    """An argument has a type that is not allowed; the message has an example of one that is."""


class UndefinedError(NoochError, ValueError):
    """The requested value is undefined here, for example for a CE set of a task without cues."""


class OutputError(NoochError, OSError):
    """The place to write to exists already, or cannot be written."""


class DownloadError(NoochError, OSError):
    """No source of a file gave it completely; the message has the reason for each."""


class MissingExtraError(NoochError, ImportError):
    """An optional dependency is not installed; the message gives the install line."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package}, which is not installed",
            remedy=f"pip install 'nooch[{extra}]'",
        )


def joined_ways(given: Iterable[str], left_out: Iterable[str], verb: str) -> str:
    """The parts of one way out: "leave out a, and pass b=1 and c=2"."""
    parts = [("leave out", [*left_out]), (verb, [*given])]
    return ", and ".join(f"{word} {' and '.join(names)}" for word, names in parts if names)


def _as_keywords(give: Give) -> str:
    written = {name: _literal(value) for name, value in give.items() if value is not None}
    given = [f"{name}={text}" for name, text in written.items()]
    if isinstance(give, Command):
        return " ".join(filter(None, [f"nooch {give.path}", joined_ways(given, (), "with")]))
    return joined_ways(given, [name for name in give if name not in written], "pass")


def _literal(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {_literal(inner)}' for key, inner in value.items())}}}"
    return "..." if value is ... else repr(str(value) if isinstance(value, Path) else value)


@contextmanager
def giving(parameter: str, names: Collection[str] | Mapping[str, str]) -> Iterator[None]:
    """In errors raised inside, values of ``give`` with these names are parts of ``parameter``.

    ``parameter``, a mapping, is the caller's; empty if the caller has these values as parameters.
    """
    try:
        yield
    except NoochError as error:
        ways: list[Give] = []
        for give in error.give:
            if isinstance(give, Command):
                ways.append(give)
                continue
            inner = {name: value for name, value in give.items() if name in names}
            if isinstance(names, Mapping):
                inner = {names[name]: value for name, value in inner.items()}
            outer = {name: value for name, value in give.items() if name not in names}
            ways.append(outer | ({parameter: inner} if parameter and inner else inner))
        error.give = tuple(ways)
        error.args = (error.worded(_as_keywords),)
        raise


def _restore(kind: type[NoochError], args: tuple[Any, ...], state: dict[str, Any]) -> NoochError:
    error = kind.__new__(kind, *args)
    # an OSError takes its arguments only in its constructor, which is not run again
    error.args = args
    error.__dict__.update(state)
    return error


@contextmanager
def as_input_error(problem: str, **more: Any) -> Iterator[None]:
    """Turn an error of any package into an InputError that ends with its kind and first line of
    text, and has ``where``, ``allowed`` and ``remedy`` of ``more``; a NoochError stays as it is.
    """
    try:
        yield
    except NoochError:
        raise
    except Exception as error:
        raise InputError(
            f"{problem}: {type(error).__name__}: {reason_of(error)}", **more
        ) from error


@contextmanager
def unreadable(
    where: object,
    allowed: str | None = None,
    errors: tuple[type[BaseException], ...] = (OSError, ValueError, RecursionError),
    *,
    problem: str = "cannot be read",
    kind: type[InputError] = InputError,
    remedy: str | None = None,
) -> Iterator[None]:
    """Turn what reading a file raises, one of ``errors``, into an error of nooch, which ends with
    the reason on one line; a NoochError stays as it is. The default is what a text or JSON raises.
    """
    try:
        yield
    except NoochError:
        raise
    except errors as error:
        # an OSError's own text repeats the file; others may quote any length of it
        reason = (getattr(error, "strerror", None) or reason_of(error))[:300]
        if isinstance(error, FileNotFoundError) and isinstance(where, str | Path):
            remedy = remedy or no_such(where).remedy
        raise kind(f"{problem}: {reason}", where=where, allowed=allowed, remedy=remedy) from error


def reason_of(error: BaseException) -> str:
    """The first line of an error's text that is not empty; else its kind."""
    lines = (line.strip() for line in str(error).splitlines())
    return next(filter(None, lines), type(error).__name__)


def some_of(values: Iterable[object], most: int = 5) -> str:
    """The first few values as text, and how many more there are."""
    listed = list(values)
    shown = ", ".join(str(v) for v in listed[:most])
    return shown + (f" and {len(listed) - most} more" if len(listed) > most else "")


def lacking(
    what: str,
    missing: Iterable[str],
    there: Iterable[object],
    where: object,
    allowed: str | None = None,
    *,
    remedy: str | None = None,
    kind: type[InputError] = InputError,
) -> InputError:
    """The error of a file without a column, an array or the like, with those that it has."""
    problem = f"has no {what} {', '.join(missing)}, only {some_of(there, 12) or 'none'}"
    return kind(problem, where=where, allowed=allowed, remedy=remedy)


def no_such(path: str | Path, what: str = "file or folder", **more: Any) -> InputError:
    """The error of a path where nothing is, with those next to it that are called nearly so."""
    place, near = Path(path), list[str]()
    with suppress(OSError):
        there = [entry.name for entry in place.parent.iterdir()]
        near = difflib.get_close_matches(place.name, there, n=3, cutoff=0.6)
    named = " or ".join(str(place.with_name(name)) for name in near)
    remedy = f"did you mean {named}?" if near else None
    return InputError(f"no such {what}", where=path, **{"remedy": remedy, **more})


def check_idle(
    settings: Mapping[str, object], why: str, *, where: object = None, remedy: str | None = None
) -> None:
    """Raise ParameterError for the first setting that is given (not None): ``why`` ends the
    sentence that it has no effect.
    """
    for name in (name for name, value in settings.items() if value is not None):
        problem = f"`{name}` has no effect{why}"
        raise ParameterError(problem, where=where, remedy=remedy, give={name: None})


def check_one_of(
    name: str,
    value: str,
    options: Collection[str],
    *,
    owner: str = "",
    remedy: str | None = None,
    give: Sequence[Give] = (),
) -> str:
    """``value`` if it is one of ``options``, else a ParameterError with the nearest, or a remedy
    where none is near.
    """
    if value in options:
        return value
    near = difflib.get_close_matches(value, list(options), n=3, cutoff=0.6)
    raise ParameterError(
        f"{value!r} is not {'an' if name[:1] in 'aeiou' else 'a'} {name}"
        + (f" of {owner}" if owner else ""),
        allowed=some_of(sorted(options), 12) or "nothing: there are none",
        remedy=f"did you mean {' or '.join(near)}?" if near else remedy,
        give=() if near else give,
    )


def check_fraction(name: str, value: float, where: str) -> None:
    """Raise a ParameterError if ``value`` is not a fraction of an image (a percentage, for
    example), and a WrongTypeError if it is not a number.
    """
    if not isinstance(value, Real):
        raise wrong_type(name, value, "a fraction of the image, 0 to 1", f"{name}=0.1")
    if not 0 <= value <= 1:
        raise ParameterError(
            f"{name} is {value:g}",
            where=where,
            allowed="a fraction of the image, 0 to 1",
            remedy=f"did you mean {value / 100:g}?" if 1 < value <= 100 else None,
        )


def wrong_type(name: str, value: object, allowed: str, example: str) -> WrongTypeError:
    """The error of a parameter that was given a value of another type; ``example`` is Python."""
    kind = type(value).__name__
    shown = f"{value!r:.60}, " if isinstance(value, str | int | float | type) else ""
    problem = f"is {shown}of type {kind}"
    return WrongTypeError(problem, where=f"`{name}`", allowed=allowed, remedy=f"write {example}")
