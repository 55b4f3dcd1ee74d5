"""`mqflow standin`: programs that use ibmmq or pymqi, run unmodified on the embedded queue manager."""

import os
from pathlib import Path
from typing import Final

import click

from mqflow.app.config.settings import load
from mqflow.app.errors import ConfigurationError
from mqflow.cli.connection_options import opened, url_option
from mqflow.cli.standin import start
from mqflow.standin.library.c_headers import write_kit
from mqflow.standin.library.shared_library import can_load

__all__ = ("command",)

_SITE: Final = Path(__file__).parent / "site"


@click.group("standin")
def command() -> None:
    """Run programs that use ibmmq or pymqi on the embedded queue manager, where there is no IBM MQ.

    The packages are the real ones; the library they call is mqflow's, in the process of the program.
    """


@command.command(
    "run", context_settings={"ignore_unknown_options": True}, short_help="Run a program on the embedded queue manager."
)
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--mqsc", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="MQSC to carry out first.")
@url_option
def run(program: tuple[str, ...], mqsc: Path | None, url: str | None) -> None:
    """Run PROGRAM (`mqflow standin run -- python legacy.py`); every Python in it finds the stand-in library.

    The program reaches the queue manager of this command by its name, whatever channel and host it asks for. What it has not
    committed when it ends is backed out. Two Pythons, one after the other, find each other's messages in a folder and not in
    memory; both at once take a queue manager that is served.
    """
    if why := can_load():
        raise ConfigurationError(why)
    if mqsc is None:
        with opened(url):
            pass  # said here, in a sentence, and not when the program is half started
    environment = dict(os.environ)
    environment[start.URL] = load({"url": url}).url
    if mqsc is not None:
        environment[start.MQSC] = str(mqsc.resolve())
    environment["PYTHONPATH"] = os.pathsep.join((str(_SITE), *filter(None, (environment.get("PYTHONPATH"),))))
    try:
        os.execvpe(program[0], program, environment)  # noqa: S606 - the user's own command, as typed
    except OSError as error:
        raise ConfigurationError(f"{program[0]} cannot be run: {error.strerror}.") from error


@command.command("kit")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def kit(folder: Path) -> None:
    """Write into FOLDER what `pip install pymqi` compiles against.

    Prints the command that builds it; the folder is needed for that only.
    """
    write_kit(folder)
    click.echo(f"MQ_FILE_PATH={folder.resolve()} pip install --no-binary pymqi pymqi")
