"""The Spark session of a command: the options for it, its start and its end, and its errors as sentences.

Spark is imported only inside of functions of this file.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from itertools import count
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from mqflow.cli.pipeline.folder_uri import existing_folder_uri, folder_uri
from mqflow.cli.pipeline.spark_errors import ATTEMPTS_MAX, pause_s, sentence_of
from mqflow.cli.text.terminal import note

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = (
    "as_of_option",
    "attempted",
    "consumer_option",
    "existing_tables_option",
    "rules_option",
    "spark_errors_as_sentences",
    "spark_options",
    "started",
    "tables_option",
)

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])  # Any: a click command has any parameters

# For each operation on a column, PySpark makes five calls to the JVM, so that an error can name the line of the user's program.
# Here all lines are mqflow's own, and without these calls, silver and gold of a small journal took a quarter less time.
_SETTINGS: Final = {"spark.python.sql.dataFrameDebugging.enabled": "false"}
_FILE: Final = click.Path(path_type=Path, exists=True, dir_okay=False)
_TABLES: Final = "The folder of the tables: a path or a URI."
tables_option: Final = click.option("--tables", type=folder_uri, metavar="FOLDER", required=True, help=_TABLES)
existing_tables_option: Final = click.option(
    "--tables", type=existing_folder_uri, metavar="FOLDER", required=True, help=_TABLES
)
"""The option for commands that create no tables. With `tables_option`, a mistyped folder would look like empty tables."""
as_of_option: Final = click.option(
    "--as-of",
    metavar="TIME",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S"]),
    callback=lambda _ctx, _param, value: None if value is None else value.replace(tzinfo=UTC),
    help="Show the tables as they were at this time (UTC): 2026-01-31T06:00; changes no table.",
)
consumer_option: Final = click.option(
    "--consumer",
    default="bronze",
    show_default=True,
    metavar="NAME",
    help="The consumer of the journal: each folder of tables of one journal needs a name of its own.",
)
rules_option: Final = click.option("--rules", type=_FILE, help="A rules table to try on dead letters.")


def spark_options(function: F) -> F:
    """Add to the command the options that say where Spark runs: `master`, `remote` and `conf`."""
    for option in (
        click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; repeatable."),
        click.option("--remote", metavar="URL", help="A Spark Connect server, sc://host; needs no Java here."),
        click.option("--master", metavar="MASTER", help="Where Spark runs: local[2], yarn, k8s://..., spark://..."),
    ):
        function = option(function)
    return function


@contextmanager
def started(name: str, *, master: str | None, remote: str | None, conf: tuple[str, ...]) -> Iterator["SparkSession"]:
    """Yield a session with mqflow's formats: the session that runs already, or a new session that is stopped at the end.

    Raises the errors of `spark_session`.
    """
    from mqflow.pipeline import register, spark_session  # noqa: PLC0415 - only commands that run Spark need it
    from mqflow.pipeline.session import end_quietly, end_session  # noqa: PLC0415 - as above

    settings = _SETTINGS | dict(_setting(text) for text in conf)
    running = _running()
    if running is not None:
        register(running)
        yield running
        return
    note("Starting Spark ...")
    session = spark_session(f"mqflow spark {name}", master=master, remote=remote, config=settings)
    try:
        if remote is None:
            session.sparkContext.setLogLevel(settings.get("spark.log.level", "OFF"))
            end_quietly(session)
        yield session
    finally:
        end_session(session)


def _running() -> "SparkSession | None":
    """Return the session of a program that calls this command as a function; None if the command runs in a shell."""
    loaded = sys.modules.get("pyspark.sql")
    return None if loaded is None else loaded.SparkSession.getActiveSession()


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE.")
    return key, value


def _wait(seconds: float) -> None:
    Event().wait(seconds)


def attempted(work: Callable[[], T], *, pause: Callable[[float], None] = _wait) -> T:
    """Do the work and return its result. If Spark's Python processes do not start, try again, at most `ATTEMPTS_MAX` times.

    It must be possible to repeat the work, as every run on a table can be repeated. Raises the last error of Spark.
    """
    for attempt in count(1):
        try:
            return work()
        except _errors_of_spark() as error:
            seconds = pause_s(_text_of(error), attempt)
            if seconds is None:
                raise
        note(f"Spark's Python did not start, or ended: trying again in {seconds:.0f} s ({attempt} of {ATTEMPTS_MAX} attempts).")
        pause(seconds)
    raise AssertionError  # never reached: `count` does not end


@contextmanager
def spark_errors_as_sentences() -> Iterator[None]:
    """Turn an error of Spark, which has a traceback of Python or Java, into a sentence with the remedy."""
    from mqflow.pipeline import PipelineError  # noqa: PLC0415 - only commands that run Spark need it

    try:
        yield
    except _errors_of_spark() as error:
        sentence = sentence_of(_text_of(error))
        if not sentence:
            raise
        raise PipelineError(sentence) from error


def _errors_of_spark() -> tuple[type[Exception], ...]:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # noqa: PLC0415 - comes with Spark; it has no types
    from pyspark.errors import PySparkException  # noqa: PLC0415 - imports Spark

    return PySparkException, Py4JJavaError


def _text_of(error: BaseException) -> str:
    """Return the text of an error of Spark and its Java traceback, because sometimes only the traceback has the reason."""
    return f"{error}\n{getattr(error, '_stackTrace', '')}"  # an error of Py4J has no such attribute
