"""`mqflow mqsc`: the MQSC commands of a file or of stdin, or a prompt where stdin is a terminal."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Unpack

import click
import msgspec

from mqflow.app.channels.locate import reach_queue_manager
from mqflow.app.config.settings import load
from mqflow.cli.applications.requirements_script import Needs, needs_of, needs_options
from mqflow.cli.connection_options import json_option, url_option
from mqflow.cli.text.terminal import note
from mqflow.cli.text.text_input import read_text
from mqflow.embedded.mqsc import Response, Results, Verdict, execute, parse, run
from mqflow.embedded.mqsc.commands import Command, End
from mqflow.embedded.mqsc.display import as_json as as_record
from mqflow.embedded.mqsc.lexer import is_unfinished
from mqflow.embedded.mqsc.report import lines_of, summary

__all__ = ("command",)


@click.command("mqsc")
@click.argument("what", metavar="[FILE | MODULE:APP]", required=False)
@click.option("--strict", is_flag=True, help="Fail also for what MQSC has and the embedded queue manager has not.")
@needs_options
@json_option
@url_option
def command(what: str | None, strict: bool, as_json: bool, url: str | None, **needs: Unpack[Needs]) -> None:  # noqa: FBT001 - click passes options by name
    """Carry out the MQSC commands of FILE, of stdin, or typed at a prompt; or print those that an application needs.

    The file a team uses for its real queue manager works here; what is not supported is named and left out. A command that
    fails does not stop the next. Exits with 10 where one failed.

    Of MODULE:APP, the DEFINE and SET AUTHREC commands are printed with which it runs as a user that may do nothing else. With
    --url, what is defined there already is looked up and not defined again.
    """
    if what is not None and ":" in what and not Path(what).exists():
        for line in needs_of(what, url, **needs):
            click.echo(line)
        return
    file = None if what is None else _file(what)
    if any(needs.values()):
        raise click.UsageError(
            "--user, --group, --get, --put, --publish, --request, --delay and --dead-letter-queue go with MODULE:APP."
        )
    queue_manager = reach_queue_manager(load({"url": url}).url)
    try:
        administration = queue_manager.administration
        if file is None and sys.stdin.isatty():
            for line in _typed(queue_manager.name):
                responses = [execute(each, administration) for each in parse(line)]
                _print(responses, as_json=as_json)
                if any(isinstance(each.command, Command) and isinstance(each.command.action, End) for each in responses):
                    break
            return
        results = run(read_text(file), administration)
    finally:
        queue_manager.close()
    _print(results.responses, as_json=as_json)
    _sum_up(results, as_json=as_json)
    if code := results.exit_code(strict=strict):
        sys.exit(code)


def _file(name: str) -> Path:
    path = Path(name)
    if not path.is_file():
        raise click.BadParameter(f"there is no file {name!r}, and it is not MODULE:APP either.", param_hint="FILE")
    return path


def _typed(queue_manager: str) -> Iterator[str]:
    """Yield what is typed at the prompt, a command at a time: a line that ends in + or - goes on in the next."""
    with suppress(ImportError):
        import readline  # noqa: F401, PLC0415 - editing and history, where Python has it
    lines: list[str] = []
    while True:
        try:
            lines.append(input("> " if lines else f"{queue_manager}> "))
        except EOFError:
            click.echo()
            return
        if not is_unfinished("\n".join(lines)):
            yield "\n".join(lines)
            lines.clear()


def _print(responses: Sequence[Response], *, as_json: bool) -> None:
    for response in responses:
        if as_json:
            for record in response.records:
                click.echo(msgspec.json.encode(as_record(record)))
            if response.verdict is not Verdict.DONE:
                note(response.text)
            continue
        for line in lines_of(response):
            click.secho(line, fg=None if response.verdict is Verdict.DONE else "red")


def _sum_up(results: Results, *, as_json: bool) -> None:
    if not as_json:
        click.echo(summary(results))
