"""What `mqflow qmgr start` waits for: that the process it has started says it is ready, and is, or has ended.

Knows processes and their log; starts none.
"""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import anyio

from mqflow.app.errors import ConfigurationError
from mqflow.cli.processes.is_served import answers
from mqflow.cli.text.exit_codes import EXIT_USAGE
from mqflow.cli.text.terminal import note
from mqflow.embedded.storage.folder import prepare_folder
from mqflow.embedded.storage.standby import owner_pid
from mqflow.world import SYSTEM_CLOCK

__all__ = ("LOG", "NotStartedError", "until_ready")


class NotStartedError(Exception):
    """The process that was started has ended, or does not say that it is ready."""


LOG: Final = "qmgr.log"
"""In the folder of the queue manager: what it says in the background."""
_START_S: Final = 20.0
_TIME: Final = re.compile(r"^[0-9 :-]{19}Z ")


def until_ready(process: "subprocess.Popen[bytes]", name: str, place: Path, said_before: int) -> str:
    """Return what it has become. Raises `NotStartedError` where it has ended, or says nothing for too long.

    And `ConfigurationError` where it has ended for how it was started.

    `said_before` is how long its log was when it was started.
    """
    data = prepare_folder(place, create=True)
    ready_by = SYSTEM_CLOCK.monotonic() + _START_S
    owns = False
    while owns or SYSTEM_CLOCK.monotonic() < ready_by:  # who owns it reads it, however much that is
        code = process.poll()
        said = (place / LOG).read_bytes()[said_before:].decode(errors="replace").strip().splitlines()
        if code is not None:
            why = said[-1].removeprefix("mqflow: ") if said else "it said nothing"
            error = ConfigurationError if code == EXIT_USAGE else NotStartedError
            raise error(f"{name} did not start (exit code {code}): {why}")
        owns = owner_pid(data) == process.pid
        # It says so once it listens at every address, and answers at its own before that.
        active = owns and any(f"{name} is active, at" in line for line in said) and answers(place)
        if active or any(f"{name} stands by" in line for line in said):
            process.returncode = 0  # it outlives this command, and nobody waits for it
            _tell_the_rest(said, name)
            return f"{name} {'is active' if active else 'stands by'} as process {process.pid}."
        anyio.run(anyio.sleep, 0.05)
    raise NotStartedError(f"{name} is not ready after {_START_S:g} s; {place / LOG} says more.")


def _tell_the_rest(said: Sequence[str], name: str) -> None:
    """Tell whoever started it what else it has said: what it warns of would be read in its log by nobody."""
    for line in said:
        text = _TIME.sub("", line)
        if not text.startswith((f"{name} is active", f"{name} stands by")):
            note(text)
