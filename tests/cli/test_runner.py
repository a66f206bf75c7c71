"""Commands yield their result: JSON is that and ends them; else the rest of them prints."""

import inspect
import json

import pytest

from nooch.cli.options import Format
from nooch.cli.runner import with_format
from nooch.cli.terminal import say


def shown(name: str, *, twice: bool = False):
    """A command."""
    say("before")
    yield {"name": name} if not twice else lambda: {"name": 2 * name}
    say(f"for people: {name}")


@pytest.mark.parametrize(("twice", "name"), [(False, "a"), (True, "aa")])
def test_json_is_what_a_command_yields_and_ends_it(twice, name, capsys):
    with_format(shown)(name="a", twice=twice, format=Format.json)
    first, document = capsys.readouterr().out.split("\n", 1)
    assert (first, json.loads(document)) == ("before", {"name": name})
    with_format(shown)(name="a", twice=twice, format=Format.text)
    assert capsys.readouterr().out == "before\nfor people: a\n"


def test_what_makes_the_json_is_not_called_for_people(capsys):
    def summed():
        yield lambda: 1 / 0
        say("done")

    with_format(summed)(format=Format.text)
    assert capsys.readouterr().out == "done\n"
    with pytest.raises(ZeroDivisionError):
        with_format(summed)(format=Format.json)


def test_the_option_comes_last_and_only_where_something_is_yielded():
    assert [*inspect.signature(with_format(shown)).parameters] == ["name", "twice", "format"]
    assert with_format(say) is say
