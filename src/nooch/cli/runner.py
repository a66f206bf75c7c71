"""Runs commands: each yields its result for programs, and then prints it for people."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import wraps
from typing import Any

import typer

from nooch.cli.declared import Command
from nooch.cli.options import Format, FormatOption
from nooch.cli.terminal import print_json

Output = Iterator[Any]
"""A command's generator of one value: its result as ``print_json`` takes it, or a function that
makes it; with conditions that ``failed`` it ends with exit code 1. The lines behind this ``yield``
print the result for people.
"""


def with_format(command: Command) -> Command:
    """A command with the option ``--format``: JSON is what it yields, and ends it.

    One that yields nothing, and prints itself, has no such option, or its own.
    """
    if not inspect.isgeneratorfunction(inspect.unwrap(command)):
        return command

    @wraps(command)
    def run(*, format: Format, **values: Any) -> None:
        steps = command(**values)
        for result in steps:
            if format is Format.json:
                content = result() if callable(result) else result
                print_json(content)
                steps.close()
                if isinstance(content, Mapping) and content.get("failed"):
                    raise typer.Exit(1)

    signature = inspect.signature(command, eval_str=True)
    option = inspect.Parameter(
        "format", inspect.Parameter.KEYWORD_ONLY, default=FormatOption, annotation=Format
    )
    parameters = [*signature.parameters.values(), option]
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
