"""`mqflow spark`: the data pipeline. Each command imports Spark only when it runs; `mqflow.pipeline` does the work."""

import importlib
from typing import Final

import click

__all__ = ("command",)

_COMMANDS: Final = {
    "bronze": ("spark_tables:bronze", "Copy a journal into tables, each message once."),
    "silver": ("spark_tables:silver", "Make tables of attempts, messages and dead letters from bronze."),
    "gold": ("spark_tables:gold", "Count poison rates, retries, times to backout, delays."),
    "triage": ("spark_tables:triage", "Try a rules table on dead letters, without moving any."),
    "redrive": ("spark_redrive:command", "Put rows of a table back on queues, each once."),
    "stream": ("spark_stream:command", "Keep bronze, silver and gold up to date, and send alerts."),
    "status": ("spark_upkeep:status", "Show how far each table is behind; starts no Spark."),
    "optimize": ("spark_upkeep:optimize", "Join small files, and delete old versions; starts no Spark."),
    "erase": ("spark_upkeep:erase", "Erase the messages of one person, with a receipt; starts no Spark."),
    "report": ("spark_report:command", "Write a page that shows what is poison, where and since when."),
}
"""For each command: its module in this folder and the object there, and its line in the help."""


class _Commands(click.Group):
    """The group of the commands. It imports the module of a command only when that command runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return [*_COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        # getattr: the table above names the object as text, so that `--help` imports no command.
        found: click.Command = getattr(importlib.import_module(f"mqflow.cli.pipeline.{module}"), name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])


@click.group("spark", cls=_Commands)
def command() -> None:
    """Run the data pipeline on Spark: copy a journal (`mqflow land`) to tables, and evaluate the tables.

    Spark runs on this machine unless --master or --remote names another place. Needs mqflow[spark], and Java 17 unless
    --remote is given.
    """
