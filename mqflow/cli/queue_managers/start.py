"""`mqflow qmgr start` uses this file to wait until the process that it has started is ready, or has ended."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import anyio

from mqflow.app.errors import ConfigurationError
from mqflow.cli.processes.served_connections import is_served
from mqflow.cli.text.exit_codes import EXIT_USAGE
from mqflow.cli.text.terminal import note
from mqflow.embedded.storage.folder import prepare_folder
from mqflow.embedded.storage.standby import owner_pid
from mqflow.world import SYSTEM_CLOCK

__all__ = ("LOG", "NotStartedError", "until_ready")


class NotStartedError(Exception):
    """The process that was started has ended, or was not ready in time."""


LOG: Final = "qmgr.log"
"""The log file of a queue manager that runs in the background, in its data folder."""
_START_S: Final = 20.0
_TIME: Final = re.compile(r"^[0-9 :-]{19}Z ")


def until_ready(process: "subprocess.Popen[bytes]", name: str, place: Path, log_start: int) -> str:
    """Return a sentence that says whether the process is active or a standby. Its log had `log_start` bytes before its start.

    Raises `NotStartedError` if the process has ended, or is not ready in time. Raises `ConfigurationError` if it has ended
    because of wrong options.
    """
    data = prepare_folder(place, create=True)
    ready_by = SYSTEM_CLOCK.monotonic() + _START_S
    owns = False
    while owns or SYSTEM_CLOCK.monotonic() < ready_by:  # without a limit while the owner of the folder loads its messages
        code = process.poll()
        lines = (place / LOG).read_bytes()[log_start:].decode(errors="replace").strip().splitlines()
        if code is not None:
            why = lines[-1].removeprefix("mqflow: ") if lines else "its log has no reason."
            error = ConfigurationError if code == EXIT_USAGE else NotStartedError
            raise error(f"{name} did not start (exit code {code}): {why}")
        owns = owner_pid(data) == process.pid
        # The process logs this line when it listens at all addresses. Its own socket accepts connections earlier. If the disk
        # is full, the line can be missing.
        said = any(f"{name} is active, at" in line for line in lines)
        active = owns and is_served(place) and (said or SYSTEM_CLOCK.monotonic() >= ready_by)
        if active or any(f"{name} stands by" in line for line in lines):
            process.returncode = 0  # this command does not wait for the end of the process
            _print_warnings(lines, name)
            return f"{name} {'is active' if active else 'stands by'} as process {process.pid}."
        anyio.run(anyio.sleep, 0.05)
    raise NotStartedError(f"{name} is not ready after {_START_S:g} s; see its log {place / LOG}.")


def _print_warnings(lines: Sequence[str], name: str) -> None:
    """Print the warnings in the log: all lines except the line that says that the process is active or a standby."""
    for line in lines:
        text = _TIME.sub("", line)
        if not text.startswith((f"{name} is active", f"{name} stands by")):
            note(text)
