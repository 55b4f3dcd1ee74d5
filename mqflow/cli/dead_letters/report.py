"""The output of `mqflow dlq`: lines for people, or JSON for scripts.

The option `--json` sets `PRINTS_JSON` in the context of click.
"""

from collections.abc import Iterable
from typing import Any, Final

import click

from mqflow.cli.text.json_lines import json_line
from mqflow.cli.text.terminal import safe
from mqflow.policy.dead_letters.rules import Problem

__all__ = ("PRINTS_JSON", "print_json", "print_message", "print_problems", "prints_json", "say")

PRINTS_JSON: Final = "mqflow.dlq.json"
"""The key in `click.Context.meta`. It says that the command prints JSON."""


def prints_json() -> bool:
    """Return whether the command prints JSON."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(PRINTS_JSON))


def print_json(kind: str, **facts: Any) -> None:  # Any: facts of several types
    """Print a record of this kind, for a script."""
    click.echo(json_line({"kind": kind, **facts}))


def print_message(number: int, text: str) -> None:
    """Print a message that runmqdlq has too, with the number that it has there."""
    if prints_json():
        print_json("message", number=f"AMQ{number}", text=text)
    else:
        click.echo(f"AMQ{number}: {safe(text)}")


def say(text: str) -> None:
    """Print a message without a number."""
    if prints_json():
        print_json("message", text=text)
    else:
        click.echo(safe(text))


def print_problems(problems: Iterable[Problem]) -> None:
    """Print each error of a table. For people, show the line of the table, with a mark below the place."""
    for problem in problems:
        if prints_json():
            number = f"AMQ{problem.number}" if problem.number else ""
            print_json(
                "error", line=problem.line, column=problem.column, number=number, text=problem.text, source=problem.source
            )
            continue
        click.echo(safe(str(problem)))
        if problem.source:
            click.echo(f"    {safe(problem.source)}")
            click.echo(f"    {' ' * len(safe(problem.source[: problem.column - 1]))}^")
