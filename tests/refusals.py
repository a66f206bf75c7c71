"""Assert that something is refused, and with which message; apply what the message recommends."""

from __future__ import annotations

import inspect
import pickle
import re
import sys
import traceback
from dataclasses import fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

import nooch
from nooch.base.errors import Command, InputError, ParameterError
from nooch.cli.terminal import options_typed
from nooch.report.figures.sweeps import load_sweep

_SOURCE = Path(nooch.__file__).parent
_PUBLIC = {name for module in (nooch, nooch.io, nooch.paper, nooch.vlm) for name in dir(module)}

ONLY_TYPED = {
    "split_column",
    "split_values",
    "label",
    "class_column",
    "blank_is_no",
    "encoding",
    "tau",
    "cues",
    "fitted",
    "phi",
    "phi_preset",
}
"""Options that are parts of the parameters of several classes in Python, as ``OF_CONTEXT`` is."""
OF_CONTEXT = {"columns": ["all"]}


_LOADED = {
    "suite": nooch.load_suite, "suites": lambda path: [nooch.load_suite(path)],
    "data": nooch.load_dataset, "sweep": load_sweep,
}  # fmt: skip
"""Parameters that some functions take as objects only."""


def fails(act, *parts, kind=InputError, helps=True):
    """``act()`` raises ``kind`` with all ``parts``, and what is allowed or a remedy, as message.

    A part such as ```split``` is a parameter that the message names or gives. The error can be
    pickled, as worker processes do, and its remedy gives parameters that the public function
    takes. Returns the message.
    """
    with pytest.raises(kind) as caught:
        act()
    text, ways = str(caught.value), getattr(caught.value, "give", ())
    given = {f"`{name}`" for give in ways for name in (*give, *give.get("reading", ()))}
    for part in parts:
        assert part in text or part in given, text
    assert not helps or "allowed:" in text or "remedy:" in text, text
    assert str(pickle.loads(pickle.dumps(caught.value))) == text
    called = [*calls_of(caught.value)]
    if any(call.func.__name__ in _PUBLIC for call in called):
        for give in [g for g in ways if not g.keys() & ONLY_TYPED and g != OF_CONTEXT]:
            if isinstance(give, Command):
                continue
            assert any(with_given(call, give) for call in called), (give, text)
    return text


refused = partial(fails, kind=ParameterError)


def typed_in(words, give):
    """What a way out of an error adds to a command and leaves out, in the flags of the command."""
    with mock.patch.object(sys, "argv", ["nooch", *words]):
        return options_typed(give)


def same_error(error, other):
    """Whether two errors differ in numbers at most, or the first recommends what led to it."""
    if error is None:
        return False
    first, second = (re.sub(r"[\d.]+", "0", str(text)) for text in (error, other))
    return first == second or bool(set(map(repr, error.give)) & set(map(repr, other.give)))


def calls_of(error):
    """The calls of nooch's functions below ``cli`` that led to an error, the first one first."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        path, code = Path(frame.f_code.co_filename), frame.f_code
        if path.is_relative_to(_SOURCE) and not path.is_relative_to(_SOURCE / "cli"):
            # a method is no way to call a verb; a decorated function is called with its decorator
            function = frame.f_globals.get(code.co_name)
            if inspect.unwrap(function).__code__ is code if inspect.isfunction(function) else False:
                given = inspect.getargvalues(frame)
                names = [*given.args, *filter(None, [given.varargs, given.keywords])]
                # a name that was deleted on the way is not part of the call
                yield partial(function, **{n: given.locals[n] for n in names if n in given.locals})


def with_given(call, give):
    """A call with what an error recommends; None if neither it nor a reading takes it."""
    arguments = dict(call.keywords)
    give = {n: _LOADED[n](v) if n in _LOADED and isinstance(v, str) else v for n, v in give.items()}
    parameters = inspect.signature(call.func).parameters
    if give.keys() <= parameters.keys():
        left = {name: parameters[name].default for name, value in give.items() if value is None}
        parts = {name: {**(arguments.get(name) or {}), **value}
                 for name, value in give.items() if name == "reading"}  # fmt: skip
        return partial(call.func, **{**arguments, **give, **left, **parts})
    for name, value in arguments.items():
        if (changed := _changed(value, give)) is not None:
            return partial(call.func, **{**arguments, name: changed})
    return None


def _changed(value, give):
    """A reading, or a part of it, with what an error recommends; None if it does not take it."""
    if not is_dataclass(value):
        return None
    own = {field.name: field for field in fields(value)}
    if give.keys() <= own.keys():
        given = {n: own[n].default if v is None else v for n, v in give.items() if v is not ...}
        return replace(value, **given)
    parts = ((name, _changed(getattr(value, name), give)) for name in own)
    return next((replace(value, **{name: part}) for name, part in parts if part is not None), None)
