"""`mqflow dlq`: the DLQ handler with the rules tables that runmqdlq takes, and what checks such a table beforehand."""

from pathlib import Path

import click

from mqflow.cli.connection_options import url_option

__all__ = ("command",)

_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.group("dlq")
def command() -> None:
    """Handle dead-letter queues by rules tables."""


@command.command("run", short_help="Handle a dead-letter queue by a rules table, as runmqdlq does.")
@click.argument("queue", default="")
@click.argument("queue_manager", default="", metavar="[QMGR]")
@click.option("-u", "user", metavar="USER", default="", help="Connect as this user; the first line of stdin is the password.")
@click.option("-c", "client", is_flag=True, help="Connect as a client: to the process that serves an embedded queue manager.")
@click.option("--rules", type=_FILE, help="Read the rules table from this file instead of stdin.")
@click.option("--reload", "reloads", is_flag=True, help="Go by the file's new rules whenever it changes (with --rules).")
@url_option
def run(queue: str, queue_manager: str, rules: Path | None, url: str | None, **options: object) -> None:
    """Handle the messages of QUEUE by the rules table on stdin, as runmqdlq does.

    QUEUE and QMGR come before INPUTQ and INPUTQM of the table; without any, it is the dead-letter queue of the queue manager
    that --url leads to. Every error of the table is listed, and then nothing is touched. The report goes to stdout. The exit
    code is runmqdlq's: 0, or the last two digits of the AMQ message that ended it, read as a hexadecimal number.
    """
    from mqflow.cli.dead_letters.run import DlqOptions, run_handler  # noqa: PLC0415 - only who runs one pays

    if options["reloads"] and rules is None:
        raise click.UsageError("--reload needs --rules FILE: what came on stdin cannot change.")
    wishes = DlqOptions(
        queue=queue.strip(),
        # A name of blanks is the queue manager's own dead-letter queue, whatever INPUTQ says.
        dead_letter_queue=bool(queue) and not queue.strip(),
        queue_manager=queue_manager.strip(),
        user=str(options["user"]),
        client=bool(options["client"]),
        rules=rules,
        reloads=bool(options["reloads"]),
        url=url,
    )
    click.get_current_context().exit(run_handler(wishes))


@command.command("check")
@click.argument("rules", type=_FILE)
@click.option("--against", metavar="QUEUE|FILE", help="Say what would happen to the messages of a queue, or of a capture.")
@click.option("--each", is_flag=True, help="With --against: a line for each message.")
@url_option
def check(rules: Path, against: str | None, each: bool, url: str | None) -> None:  # noqa: FBT001 - click passes options by name
    """Look for what is wrong in the table RULES, and touch nothing.

    Errors are listed with line and column, and exit with 1. Then what no error is but seldom meant: rules that are never
    reached, rules that lead in a circle, targets that do not exist. With --against, what each rule would do.
    """
    from mqflow.cli.dead_letters.check import run_check  # noqa: PLC0415 - only who checks one pays

    click.get_current_context().exit(run_check(rules, against, url, each=each))
