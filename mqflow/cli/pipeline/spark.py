"""`mqflow spark`: the data pipeline. Its commands load Spark only when they run; what each does is in `mqflow.pipeline`."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mqflow.cli.pipeline.spark_errors import sentence_of
from mqflow.cli.text.terminal import Progress, note, progress, show_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ("command", "rules_option", "spark_options", "started", "tables_option", "tables_there_option", "told")

_COMMANDS: Final = {
    "bronze": "A journal into tables, each message once.",
    "silver": "Attempts, messages and dead letters, repaired and typed.",
    "gold": "Poison rates, retries, times to backout, delays.",
    "triage": "Try a rules table on dead letters, without moving any.",
    "redrive": "Rows of a table back to queues, each once.",
    "report": "A page that shows what is poison, where and since when.",
}
"""`bronze` is here; the module of each other is `mqflow.cli.pipeline.spark_<name>`, its object there `command`."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return [name for name in _COMMANDS if name == "bronze" or _module(name) is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name == "bronze":
            return bronze
        module = _module(cmd_name) if cmd_name in _COMMANDS else None
        if module is None:
            return None
        found: click.Command = importlib.import_module(module).command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name]) for name in self.list_commands(ctx)])


def _module(name: str) -> str | None:
    module = f"mqflow.cli.pipeline.spark_{name}"
    return module if importlib.util.find_spec(module) is not None else None


@click.group("spark", cls=_Commands)
def command() -> None:
    """Run the data pipeline on Spark: from a journal (`mqflow land`) to tables, and from tables to insight.

    On this machine unless --master or --remote say where. Needs mqflow[spark], and Java 17 but for --remote.
    """


# For each operation on a column PySpark asks the JVM five times, to say in an error which line of the program it was. Here that
# is none that who typed the command wrote, and it was a quarter of what silver and gold of a small journal cost.
_SETTINGS: Final = {"spark.python.sql.dataFrameDebugging.enabled": "false"}
_FOLDER: Final = click.Path(path_type=Path, file_okay=False)
_FILE: Final = click.Path(path_type=Path, exists=True, dir_okay=False)
_THERE: Final = click.Path(path_type=Path, exists=True, file_okay=False)
tables_option: Final = click.option("--tables", type=_FOLDER, required=True, help="The folder of the tables.")
tables_there_option: Final = click.option("--tables", type=_THERE, required=True, help="The folder of the tables.")
"""For who makes none: a mistyped one would look like tables in which nothing has landed."""
rules_option: Final = click.option("--rules", type=_FILE, help="A rules table to try on dead letters.")


def spark_options(function: Any) -> Any:
    """Give the command the options that say where Spark runs, as `master`, `remote` and `conf`."""
    for option in (
        click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark's; may be given again."),
        click.option("--remote", metavar="URL", help="A Spark Connect server, sc://host; needs no Java here."),
        click.option("--master", metavar="MASTER", help="Where Spark runs: local[2], yarn, k8s://..., spark://..."),
    ):
        function = option(function)
    return function


@contextmanager
def started(name: str, *, master: str | None, remote: str | None, conf: tuple[str, ...]) -> Iterator["SparkSession"]:
    """Give a session with mqflow's formats: the one that runs already, or a new one that is stopped at the end.

    Raises what `spark_session` does.
    """
    from mqflow.pipeline import register, spark_session  # noqa: PLC0415 - only who asks pays

    settings = _SETTINGS | dict(_setting(text) for text in conf)
    there = _running()
    if there is not None:
        register(there)
        yield there
        return
    note("Starting Spark ...")
    session = spark_session(f"mqflow spark {name}", master=master, remote=remote, config=settings)
    try:
        if remote is None:
            session.sparkContext.setLogLevel(settings.get("spark.log.level", "OFF"))
        yield session
    finally:
        session.stop()


def _running() -> "SparkSession | None":
    """Return the session of the program that runs this command as a function; None for a command that was typed."""
    loaded = sys.modules.get("pyspark.sql")
    return None if loaded is None else loaded.SparkSession.getActiveSession()


@contextmanager
def told() -> Iterator[None]:
    """Tell an error that Spark wraps in a traceback, of Python or of Java, by a sentence that says what to do."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # noqa: PLC0415 - comes with Spark; it has no types
    from pyspark.errors import PySparkException  # noqa: PLC0415 - loads Spark

    from mqflow.pipeline import PipelineError  # noqa: PLC0415 - as above

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        # Spark's own words name the task, and no reason; that stands in the traceback.
        sentence = sentence_of(f"{error}\n{getattr(error, '_stackTrace', '')}")
        if not sentence:
            raise
        raise PipelineError(sentence) from error


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"{text!r} is no setting: KEY=VALUE is.")
    return key, value


def _reached(bar: Progress, rows: int) -> None:
    bar.reached(rows, f"{rows:,} rows")


@click.command("bronze")
@click.option("--journal", type=_FOLDER, required=True, help="The journal to read.")
@tables_option
@click.option("--kind", multiple=True, help="disposition, dead_letter, backout_message or payload; all there are otherwise.")
@click.option("--format", "form", type=click.Choice(["parquet", "delta"]), default="parquet", show_default=True)
@click.option("--payload", default="full", show_default=True, help="How much of the bodies: none, hash, head:N or full.")
@click.option("--no-consumer", is_flag=True, help="Do not keep segments from being trimmed until they are in the table.")
@spark_options
def bronze(journal: Path, tables: Path, kind: tuple[str, ...], form: Any, payload: str, **options: Any) -> None:
    """Copy what is new in a journal into the bronze tables, each message once.

    Run again it goes on where it was; killed at any point, it loses and repeats nothing.
    """
    from mqflow.journal import Kind  # noqa: PLC0415 - only who asks pays
    from mqflow.pipeline.payload import payload_of  # noqa: PLC0415 - as above
    from mqflow.pipeline.tables import bronze as work  # noqa: PLC0415 - as above

    payload_of(payload)
    there = work.kinds_of(journal)
    if strange := [each for each in kind if each not in set(Kind)]:
        raise click.BadParameter(f"{strange[0]!r} is no kind; {', '.join(Kind)} are.", param_hint="--kind")
    kinds = [Kind(each) for each in kind] or there
    consumer = "" if options.pop("no_consumer") else "bronze"
    tables.mkdir(
        mode=0o700, parents=True, exist_ok=True
    )  # also where nothing has landed yet: it is a table's folder from now on
    rows = []
    with started("bronze", **options) as spark, told():
        for each in kinds:
            asked = work.Bronze(journal=journal, tables=tables, kind=each, format=form, payload=payload, consumer=consumer)
            with progress(f"Bronze {each}", 0) as bar:
                written = work.bronze(spark, asked, partial(_reached, bar))
            rows.append((each.value, f"{written.rows:,}", str(written.batches), str(written.table)))
    show_table(("Kind", "Rows", "Batches", "Table"), rows, numbers=frozenset({1, 2}))
