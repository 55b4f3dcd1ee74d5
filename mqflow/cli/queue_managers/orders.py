"""The start of a queue manager in another process, and the orders to it: to end, or to make a backup."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import anyio

from mqflow.app.channels.location import SERVED_SOCKET
from mqflow.app.errors import ConfigurationError
from mqflow.cli.processes.served_connections import is_served
from mqflow.cli.text.exit_codes import EXIT_USAGE
from mqflow.cli.text.terminal import note
from mqflow.embedded.storage.folder import DataFolder, prepare_folder
from mqflow.embedded.storage.standby import owner_pid
from mqflow.embedded.wire.client.administration import ServedAdministration
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.end_manner import End, Manner
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from mqflow.world import SYSTEM_CLOCK

__all__ = ("LOG", "NotServedError", "NotStartedError", "back_up", "end", "until_ready")

LOG: Final = "qmgr.log"
"""The log file of a queue manager that runs in the background, in its data folder."""
_START_S: Final = 20.0
_TIME: Final = re.compile(r"^[0-9 :-]{19}Z ")


class NotStartedError(Exception):
    """The process that was started has ended, or was not ready in time."""


class NotServedError(Exception):
    """The owner of the folder takes no orders. The message names its process and the remedy."""

    def __init__(self, place: Path, pid: int) -> None:
        self.place = place
        self.pid = pid

    def __str__(self) -> str:
        return (
            f"Process {self.pid} has opened {self.place}, but does not answer at {self.place / SERVED_SOCKET}. End an "
            "application that has opened the folder itself. If a queue manager starts there, try again."
        )


def end(place: Path, name: str, how: End) -> Sequence[str]:
    """Order the queue manager to end. Return the applications that it waits for.

    Raises `MQIError` if it refuses, and `NotServedError` if the owner of the folder takes no orders.
    """
    with _administered(place, name) as administration:
        administration.order(requests.EndQueueManager(how))
        return _connected(administration) if how.manner is Manner.CONTROLLED else ()


def back_up(place: Path, name: str, target: Path) -> None:
    """Order a backup of the durable data to a new folder. Raises like `end`."""
    with _administered(place, name) as administration:
        administration.order(requests.Backup(str(target.absolute())))


@contextmanager
def _administered(place: Path, name: str) -> Iterator[ServedAdministration]:
    manager = ServedQueueManager(place / SERVED_SOCKET, name=name)
    try:
        yield manager.administration
    except MQIError as error:
        pid = owner_pid(DataFolder(place)) if error.reason == Reason.Q_MGR_NOT_AVAILABLE else None
        if pid is None:
            raise
        raise NotServedError(place, pid) from error
    finally:
        manager.close()


def _connected(administration: ServedAdministration) -> Sequence[str]:
    try:
        connections = administration.objects.connections()
    except MQIError:  # it has ended already, because it had no application to wait for
        return ()
    return sorted({each.application for each in connections if not each.system})


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
