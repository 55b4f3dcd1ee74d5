"""`mqflow dlq`: runs the DLQ handler with rules tables in the format of runmqdlq, and checks rules tables."""

from pathlib import Path

import click

from mqflow.cli.option_types import WholeLines, json_option, url_option

__all__ = ("command",)

_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)
_USER = "Connect as this user. A prompt asks for the password, or without a terminal the first line of stdin is the password."


@click.group("dlq", cls=WholeLines)
def command() -> None:
    """Handle dead-letter queues with rules tables."""


@command.command("run", short_help="Handle a dead-letter queue with a rules table, as runmqdlq does.")
@click.argument("queue", default="")
@click.argument("queue_manager", default="", metavar="[QMGR]")
@click.option("-u", "user", metavar="USER", default="", help=_USER)
@click.option("-c", "client", is_flag=True, help="Connect as a client: to the process that serves an embedded queue manager.")
@click.option("--rules", type=_FILE, help="Read the rules table from this file instead of stdin.")
@click.option("--reload", "reloads", is_flag=True, help="With --rules: load the new rules when the file changes.")
@json_option
@url_option
def run(queue: str, queue_manager: str, rules: Path | None, url: str | None, **options: object) -> None:
    """Handle the messages of QUEUE with the rules table on stdin, as runmqdlq does.

    QUEUE and QMGR override INPUTQ and INPUTQM of the table. The default is the dead-letter queue of the queue manager of --url.
    If the table has errors, the command lists all of them and handles no message. The report goes to stdout. The exit code is
    that of runmqdlq: 0, or the last two digits of the final AMQ message, read as a hexadecimal number.
    """
    from mqflow.cli.dead_letters.report import PRINTS_JSON  # noqa: PLC0415 - only these commands need it
    from mqflow.cli.dead_letters.run import DlqOptions, run_handler  # noqa: PLC0415 - only this command needs it

    click.get_current_context().meta[PRINTS_JSON] = options["as_json"]

    if options["reloads"] and rules is None:
        raise click.UsageError("--reload needs --rules FILE: a table from stdin cannot change.")
    dlq_options = DlqOptions(
        queue=queue.strip(),
        # A name that consists of blanks means the dead-letter queue of the queue manager, and replaces INPUTQ.
        dead_letter_queue=bool(queue) and not queue.strip(),
        queue_manager=queue_manager.strip(),
        user=str(options["user"]),
        client=bool(options["client"]),
        rules=rules,
        reloads=bool(options["reloads"]),
        url=url,
    )
    click.get_current_context().exit(run_handler(dlq_options))


@command.command("check")
@click.argument("rules", type=_FILE)
@click.option("--against", metavar="QUEUE|FILE", help="Show the actions for the messages of a queue, or of a capture file.")
@click.option("--each", is_flag=True, help="With --against: print a line for each message.")
@json_option
@url_option
def check(rules: Path, against: str | None, *, each: bool, as_json: bool, url: str | None) -> None:
    """Check the rules table RULES. Moves no message.

    If the table has errors, the command lists them with line and column, and exits with 1. Otherwise it warns about mistakes,
    such as a rule that no message reaches, or that forwards to the same queue. With --against, it shows the action of each rule
    on the messages. For a queue it also names the targets that cannot be opened, and those that lead back to the queue. It does
    not notice a target that is full or inhibited for puts.
    """
    from mqflow.cli.dead_letters.check import run_check  # noqa: PLC0415 - as above
    from mqflow.cli.dead_letters.report import PRINTS_JSON  # noqa: PLC0415 - as above

    click.get_current_context().meta[PRINTS_JSON] = as_json

    click.get_current_context().exit(run_check(rules, against, url, each=each))
