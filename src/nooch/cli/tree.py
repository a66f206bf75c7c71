"""The tree of commands. Each is made when it is looked up: its options are read from source."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from nooch.cli.declared import Command, with_settings
from nooch.cli.runner import with_format

_SETTINGS = {"help_option_names": ["-h", "--help"]}
_OUTPUT = ("out", "overwrite", "format", "help")
"""Options that the help lists at its end."""
Sections = Mapping[str, Mapping[str, "Command | Group"]]


class _Command(TyperCommand):
    """A command whose help has its options in groups; ``paths`` are the paths of all commands."""

    paths: Collection[str] = ()

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """``[OPTIONS] SUITE PREDICTIONS...``, without typer's braces."""
        pieces = super().collect_usage_pieces(ctx)
        return [re.sub(r"^\{(.*)\}(\.{3})?$", r"\1", piece) for piece in pieces]

    def in_terminal(self, text: str) -> str:
        """A help text with functions, as ``nooch.find``, as the command: ``nooch find``."""
        commands = {path.split()[-1].replace("-", "_"): f"nooch {path}" for path in self.paths}
        return _FUNCTION.sub(lambda match: commands.get(match[1], match[0]), text)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, the command's own options, and then the options of each group."""
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        last = {name: place for place, name in enumerate(_OUTPUT)}
        for parameter in sorted(self.get_params(ctx), key=lambda p: last.get(p.name, -1)):
            record = parameter.get_help_record(ctx)
            is_argument = parameter.param_type_name == "argument"
            panel = getattr(parameter, "rich_help_panel", None) or "Options"
            group = "Output" if parameter.name in _OUTPUT else panel
            group = "Arguments" if is_argument else group
            if record is not None:
                # an argument needs no type: its name is enough
                typed = _TYPE.sub("" if is_argument else _value, record[0])
                groups.setdefault(group, []).append((typed, self.in_terminal(record[1])))
        groups["Output"] = groups.pop("Output", [])
        for group, records in groups.items():
            if records:
                with formatter.section(group):
                    formatter.write_dl(records)


_FUNCTION = re.compile(r"\bnooch\.(?:\w+\.)*(\w+)")
_TYPE = re.compile(r" <(?:list\[)?(\w+)(?: range)?\]?>")
"""Names by typer for the values of an option: ``<str>``, ``<list[Path]>``, ``<int range>``."""


def _value(name: re.Match[str]) -> str:
    return " " + {"str": "TEXT"}.get(name[1], name[1].upper())


class Group(TyperGroup):
    """Commands by section; ``path`` is what is typed before their names, ``examples`` by path."""

    path = ""
    sections: Sections
    examples: Mapping[str, str]

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - of typer
        """The names, in the order of the help."""
        return [name for commands in self.sections.values() for name in commands]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - of typer
        """The command, or None."""
        for commands in self.sections.values():
            if cmd_name in commands and cmd_name not in self.commands:
                self.commands[cmd_name] = self._made(cmd_name, commands[cmd_name])
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is typed, or an error that suggests similar ones."""
        if self.get_command(ctx, args[0]) is None:
            # typer suggests out of those that were made
            for name in self.list_commands(ctx):
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)

    def every(self) -> Iterator[tuple[str, Any]]:
        """The typed words and the command, for all commands of this group and of those in it."""
        for name in self.list_commands(None):
            command = self.get_command(None, name)
            if isinstance(command, Group):
                yield from command.every()
            else:
                yield f"{self.path} {name}".strip(), command

    def _made(self, name: str, command: Command | Group) -> Any:
        path = f"{self.path} {name}".strip()
        if isinstance(command, Group):
            command.name, command.path, command.examples = name, path, self.examples
            return command
        made = typer.Typer(context_settings=_SETTINGS, add_completion=False, rich_markup_mode=None)
        lines = [f"  nooch {path} {words}" for words in self.examples[path].split(" | ")]
        # \b keeps typer from joining lines
        epilog = "\n".join(["\b", "Examples:", *lines])
        made.command(name, cls=_Command, epilog=epilog)(with_format(with_settings(command)))
        built: Any = typer.main.get_command(made)
        built.paths = self.examples
        return built

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands by section, each with the first sentence of its help."""
        width = max(map(len, self.list_commands(ctx)))
        for title, commands in self.sections.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(f"{name:{width}}", _summary(command)) for name, command in commands.items()]
                )


def _summary(command: Command | Group) -> str:
    text = command.help if isinstance(command, Group) else inspect.getdoc(command)
    return (text or "").partition(". ")[0].rstrip(".")


def group(help: str, sections: Sections, *, cls: type[Group] = Group, **settings: Any) -> Any:
    """Commands below one name; ``settings`` are passed to ``typer.Typer``."""
    made = typer.Typer(
        cls=cls, help=help, no_args_is_help=True, context_settings=_SETTINGS, rich_markup_mode=None,
        **{"callback": lambda: None, "add_completion": False, **settings},
    )  # fmt: skip
    built: Any = typer.main.get_command(made)
    built.sections = sections
    return built
