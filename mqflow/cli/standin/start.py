"""The other end of `mqflow standin run`: in the program it starts, opens the queue manager and installs the stand-in."""

import atexit
import os
import sys
from pathlib import Path
from typing import Final, NoReturn

from mqflow.app.channels.locate import OpenQueueManager, open_queue_manager
from mqflow.cli.text.exit_codes import EXIT_FAILED, sentence_of
from mqflow.embedded import mqsc
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.reason_codes import Reason
from mqflow.standin import Installed, StandInError, install

__all__ = ("MQSC", "URL", "start")

URL: Final = "MQFLOW_STANDIN_URL"
MQSC: Final = "MQFLOW_STANDIN_MQSC"


def start() -> None:
    """Install what the environment says, until the program ends; what it has not committed then is backed out.

    Ends the program, with a sentence, where that cannot be: it must not run against something else instead.
    """
    try:
        queue_manager = open_queue_manager(os.environ[URL])
        if script := os.environ.get(MQSC):
            _define(queue_manager, Path(script))
        installed = install(queue_manager)
    except Exception as error:  # noqa: BLE001 - whatever it is, the program must not start
        give_up(sentence_of(error))
    atexit.register(_end, installed, queue_manager)


def give_up(sentence: str) -> NoReturn:
    """End the program before it has begun. An exception would be told as a fatal error of the interpreter."""
    os.write(sys.stderr.fileno(), f"mqflow standin: {sentence}\n".encode())
    os._exit(EXIT_FAILED)


def _define(queue_manager: OpenQueueManager, script: Path) -> None:
    if not isinstance(queue_manager, EmbeddedQueueManager):
        raise StandInError("A served queue manager is defined where it is served, not by --mqsc.")
    results = mqsc.run(script.read_text(encoding="utf-8"), queue_manager.administration)
    refused = [each for each in results.responses if each.verdict is not mqsc.Verdict.DONE]
    if any(each.reason != Reason.OBJECT_ALREADY_EXISTS for each in refused):
        raise StandInError(f"{script}: {' '.join(each.text for each in refused)}")
    for each in refused:  # defined by an earlier run in this folder
        sys.stderr.write(f"mqflow standin: {script.name}: {each.text}\n")


def _end(installed: Installed, queue_manager: OpenQueueManager) -> None:
    installed.withdraw()
    queue_manager.close()
