"""`mqflow mqsc`: runs the MQSC commands of a file or of stdin. If stdin is a terminal, shows a prompt."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Unpack

import click
import msgspec

from mqflow.app.channels.location import OpenQueueManager, reach_queue_manager
from mqflow.app.config.settings import load
from mqflow.cli.applications.requirements_script import RequirementOptions, requirement_options, requirements_script
from mqflow.cli.option_types import json_option, url_option
from mqflow.cli.text.terminal import counted, note, read_text, safe
from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.mqsc import Response, Results, Verdict, execute, parse, run
from mqflow.embedded.mqsc.commands import Command
from mqflow.embedded.mqsc.display import as_json as as_record
from mqflow.embedded.mqsc.interpreter import is_end, loses_connection
from mqflow.embedded.mqsc.lexer import is_unfinished
from mqflow.embedded.mqsc.report import left_out, lines_of, summary
from mqflow.mqi.errors import MQIError

__all__ = ("command",)


@click.command("mqsc")
@click.argument("source", metavar="[FILE | MODULE:APP]", required=False)
@click.option("--strict", is_flag=True, help="Fail also for MQSC that the embedded queue manager does not support.")
@requirement_options
@json_option
@url_option
def command(
    source: str | None, *, strict: bool, as_json: bool, url: str | None, **requirements: Unpack[RequirementOptions]
) -> None:
    """Run the MQSC commands of FILE, of stdin (-), or from a prompt; or print the commands that an application needs.

    A file for IBM MQ works here too: the command names unsupported attributes and leaves them out. After a failed command the
    next command runs. Exits with 10 if a command failed. END or Ctrl-D ends the prompt.

    With MODULE:APP, print the DEFINE and SET AUTHREC commands that the application needs to run as a user without other
    authorities. With --url, leave out the definitions that this queue manager already has.
    """
    if source is not None and ":" in source and not Path(source).exists():
        for line in requirements_script(source, url, **requirements):
            click.echo(line)
        return
    file = None if source is None or source == "-" else _file(source)
    if any(requirements.values()):
        raise click.UsageError(
            "--user, --group, --get, --put, --publish, --request, --delay, --dead-letter-queue and --included need MODULE:APP."
        )
    # Read first: a text that cannot be read must not create a queue manager.
    script = None if source is None and sys.stdin.isatty() else read_text(file)
    queue_manager = reach_queue_manager(load({"url": url}).url)
    try:
        administration = queue_manager.administration
        if script is None:
            _run_prompt(queue_manager, administration, as_json=as_json)
            return
        results = run(script, administration)
    finally:
        queue_manager.close()
    _print(results.responses, as_json=as_json)
    _sum_up(results, as_json=as_json)
    if code := results.exit_code(strict=strict):
        sys.exit(code)


def _file(name: str) -> Path:
    path = Path(name)
    if not path.is_file():
        raise click.BadParameter(f"there is no file {name!r}, and {name!r} is not MODULE:APP.", param_hint="FILE")
    return path


def _run_prompt(queue_manager: OpenQueueManager, administration: Administration, *, as_json: bool) -> None:
    """Carry out the commands from the prompt up to END. After a lost connection, the next command connects again."""
    connected: Administration | None = administration
    for line in _prompt(queue_manager.name):
        for command in parse(line):
            if is_end(command):
                return
            try:
                connected = connected or queue_manager.administration
            except MQIError as error:
                click.secho(safe(str(error)), fg="red", err=as_json)
                continue
            response = execute(command, connected)
            _print([response], as_json=as_json)
            if loses_connection(response):
                connected = None


def _prompt(queue_manager: str) -> Iterator[str]:
    """Yield commands from the prompt, one at a time. If a line ends with + or -, the command continues on the next line."""
    with suppress(ImportError):
        import readline  # noqa: F401, PLC0415 - editing and history, if Python has it
    lines: list[str] = []
    while True:
        try:
            lines.append(input("> " if lines else f"{queue_manager}> "))
        except EOFError:
            click.echo()
            if lines:
                yield "\n".join(lines)
            return
        if not is_unfinished("\n".join(lines)):
            yield "\n".join(lines)
            lines.clear()


def _print(responses: Sequence[Response], *, as_json: bool) -> None:
    for response in responses:
        if as_json:
            for record in response.records:
                click.echo(msgspec.json.encode(as_record(record)))
            for line in left_out(response.command) if isinstance(response.command, Command) else ():
                note(line)
            if response.verdict is not Verdict.DONE:
                note(safe(response.text))
            continue
        for line in lines_of(response):
            click.secho(line, fg=None if response.verdict is Verdict.DONE else "red")


def _sum_up(results: Results, *, as_json: bool) -> None:
    if not as_json:
        click.echo(summary(results))
    elif results.not_run:
        note(f"{counted(results.not_run, 'commands')} did not run, because the connection is lost.")
