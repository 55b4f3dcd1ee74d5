"""Opens the queue manager and installs the stand-in library. Runs in the process of the program that uses the library."""

import atexit
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from mqflow.app.channels.location import OpenQueueManager, is_client_url, open_queue_manager, reach_queue_manager
from mqflow.app.config.settings import load
from mqflow.app.errors import ConfigurationError, shown_url
from mqflow.cli.text.exit_codes import EXIT_FAILED, sentence_of
from mqflow.embedded import mqsc
from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.rules.channel_instances import why_not_as_stated
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from mqflow.standin import Installed, StandInError, install
from mqflow.standin.calls.table import CALLS
from mqflow.standin.library.development_kit import EMBEDDED
from mqflow.standin.library.install import fill

__all__ = ("MQSC", "URL", "begin", "check_url", "end", "start")

URL: Final = "MQFLOW_STANDIN_URL"
MQSC: Final = "MQFLOW_STANDIN_MQSC"


def start() -> None:
    """Install the stand-in library, until the program ends. The environment names its queue manager.

    At the end, an open unit of work is backed out. If the installation fails, this function prints a sentence and ends the
    program, which must not run with another client library.
    """
    if os.environ.get(EMBEDDED):
        return  # the library that has started this Python calls `begin` instead
    try:
        queue_manager = open_queue_manager(os.environ[URL])
        if script := os.environ.get(MQSC):
            _define(queue_manager, Path(script))
        installed = install(queue_manager, why_not=partial(_why_not, queue_manager))
    except Exception as error:  # noqa: BLE001 - after any error the program must not start
        give_up(sentence_of(error))
    atexit.register(_end, installed, queue_manager)


class _Opened:
    """The queue manager that the stand-in libraries of a program in another language have opened."""

    def __init__(self) -> None:
        self.is_tried = False
        self.queue_manager: OpenQueueManager | None = None
        self.installed: Installed | None = None


_opened: Final = _Opened()


def begin(table_at: int, soname: str, calls: str = "") -> None:
    """Fill the table of functions of a library, which a program in any language has loaded. The library calls this first.

    The queue manager is that of `mqflow standin run`, or otherwise that of the settings. If it cannot be opened, this function
    prints a sentence, and every MQCONN of the program gets 2059. `calls` names the layout of the table. If another version of
    mqflow has made the library, this function ends the program, because a call would use a wrong place of the table.
    """
    if calls != CALLS:
        give_up("Another version of mqflow has written this library. Run `mqflow standin library FOLDER` again.")
    if not _opened.is_tried:
        _opened.is_tried = True
        try:
            url = os.environ.get(URL) or load().url
            check_url(url)
            _opened.queue_manager = reach_queue_manager(url)
            if script := os.environ.get(MQSC):
                _define(_opened.queue_manager, Path(script))
        except Exception as error:  # noqa: BLE001 - an exception cannot pass through C
            sys.stderr.write(f"mqflow standin: {sentence_of(error)}\n")
    reached = _opened.queue_manager
    _opened.installed = fill(table_at, soname, reached, why_not=None if reached is None else partial(_why_not, reached))


def end() -> None:
    """Back out all open units of work and close the queue manager. The library calls this when the program ends."""
    if _opened.installed is not None and _opened.queue_manager is not None:
        _end(_opened.installed, _opened.queue_manager)
        _opened.installed = None


def check_url(url: str) -> None:
    """Raise `ConfigurationError` for IBM MQ: mqflow would reach it through ibmmq or pymqi, which call the stand-in library."""
    if is_client_url(url):
        raise ConfigurationError(
            f"{shown_url(url)!r} is a queue manager of IBM MQ, and the stand-in library is for an embedded one. Name it: --url "
            "'embedded:./data?qmgr=QM1', or MQFLOW_URL."
        )


def give_up(sentence: str) -> NoReturn:
    """End the program before its first line. If this raised, Python would report a fatal error of the interpreter."""
    os.write(sys.stderr.fileno(), f"mqflow standin: {sentence}\n".encode())
    os._exit(EXIT_FAILED)


def _why_not(queue_manager: OpenQueueManager, channel: str, labels: Sequence[str] | None) -> tuple[int, str] | None:
    """Return why a program cannot use the channel, as its definition in the queue manager says, or None if it can.

    A user who cannot read the definitions can use every channel.
    """
    try:
        with ExitStack() as opened:
            if isinstance(queue_manager, ServedQueueManager):
                administration: Administration = opened.enter_context(closing(queue_manager.administration))
            else:
                administration = queue_manager.administration
            return why_not_as_stated(channel, (each.values for each in administration.objects.all("CHANNEL")), labels)
    except MQIError:
        return None


def _define(queue_manager: OpenQueueManager, script: Path) -> None:
    from mqflow.cli.text.terminal import read_text  # noqa: PLC0415 - loaded only for a script

    if not isinstance(queue_manager, EmbeddedQueueManager):
        raise StandInError(
            "--mqsc is only for a queue manager in this process. For a served one, run `mqflow mqsc FILE` first."
        )
    results = mqsc.run(read_text(script), queue_manager.administration)
    refused = [each for each in results.responses if each.verdict is not mqsc.Verdict.DONE]
    if any(each.reason != Reason.OBJECT_ALREADY_EXISTS for each in refused):
        raise StandInError(f"{script}: {' '.join(each.text for each in refused)}")
    for each in refused:  # for example because an earlier run in this folder has defined it
        sys.stderr.write(f"mqflow standin: {script.name}: {each.text}\n")


def _end(installed: Installed, queue_manager: OpenQueueManager) -> None:
    installed.withdraw()
    queue_manager.close()
