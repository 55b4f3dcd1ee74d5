"""`mqflow standin`: runs programs that use ibmmq or pymqi on the embedded queue manager. The programs need no change."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from mqflow.app.config.settings import load
from mqflow.app.errors import ConfigurationError
from mqflow.cli.connection_options import opened
from mqflow.cli.option_types import WholeLines, url_option
from mqflow.cli.standin import installation
from mqflow.standin import StandInError
from mqflow.standin.library.development_kit import write_development_kit, write_kit
from mqflow.standin.library.shared_library import can_load

__all__ = ("command",)

_STARTUP: Final = Path(__file__).parent / "startup"
"""A folder for PYTHONPATH. Python imports `sitecustomize` from it when the program starts."""


@click.group("standin", cls=WholeLines)
def command() -> None:
    """Run programs that use ibmmq or pymqi on the embedded queue manager, without IBM MQ.

    The packages are the original ones. The client library that they call is mqflow's, in the process of the program.
    """


@command.command(
    "run", context_settings={"ignore_unknown_options": True}, short_help="Run a program on the embedded queue manager."
)
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--mqsc", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="MQSC commands that each process runs first."
)
@url_option
def run(program: tuple[str, ...], mqsc: Path | None, url: str | None) -> None:
    """Run PROGRAM (`mqflow standin run -- python legacy.py`); every Python process in it finds the stand-in library.

    The program reaches the queue manager of this command by name, and ignores the channel and the host that it asks for.
    If the program ends with an open unit of work, the queue manager backs it out.

    Two Python processes that run one after the other share only persistent messages, and only in a folder. If both run at
    the same time, the queue manager must be served (`mqflow qmgr start`).
    """
    if why := can_load():
        raise ConfigurationError(why)
    settings = load({"url": url})
    installation.check_url(settings.url)
    if mqsc is None:
        with opened(url):
            pass  # so that an error is shown as a sentence before the program starts
    environment = dict(os.environ)
    environment[installation.URL] = settings.url
    if mqsc is not None:
        environment[installation.MQSC] = str(mqsc.resolve())
    environment["PYTHONPATH"] = os.pathsep.join((str(_STARTUP), *filter(None, (environment.get("PYTHONPATH"),))))
    try:
        os.execvpe(program[0], program, environment)  # noqa: S606 - the user's own command, as typed
    except OSError as error:
        raise ConfigurationError(f"{program[0]} cannot be run: {error.strerror}.") from error


@command.command("library", short_help="Write headers and client libraries for programs in any language.")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def library(folder: Path) -> None:
    """Write C headers and client libraries into FOLDER, for programs in any language: C, Go, Node, Perl, .NET.

    A program that loads libmqm_r.so or libmqic_r.so from FOLDER/lib64 reaches the queue manager of `mqflow standin run`, or
    otherwise the queue manager of the settings. The library starts this Python in the process of the program.

    The command needs a C compiler and the shared library of Python.
    """
    if why := can_load():
        raise ConfigurationError(why)
    with _written_to(folder):
        write_development_kit(folder)
    place = folder.resolve()
    click.echo(f"cc program.c -I{place}/inc -L{place}/lib64 -lmqm_r -Wl,-rpath,{place}/lib64")


@command.command("kit", short_help="Write the C headers that `pip install pymqi` needs.")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def kit(folder: Path) -> None:
    """Write into FOLDER the C headers that `pip install pymqi` needs.

    The command prints the pip command to type next. After that build you can delete the folder.
    """
    with _written_to(folder):
        write_kit(folder)
    click.echo(f"MQ_FILE_PATH={folder.resolve()} pip install --no-binary pymqi pymqi")


@contextmanager
def _written_to(folder: Path) -> Iterator[None]:
    """Raise `ConfigurationError` if the files inside this context cannot be created or written."""
    try:
        yield
    except StandInError as error:
        raise ConfigurationError(str(error)) from error
    except OSError as error:
        raise ConfigurationError(f"The files cannot be written to {folder}: {error.strerror}. Name another folder.") from error
