"""Installs the stand-in library in this process, once, and never together with a real client library.

A library stays loaded as long as its process. So it is loaded once, and only its host is replaced.
"""

from collections.abc import Callable, Mapping
from itertools import count
from types import TracebackType
from typing import Final, Self

from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.standin.host import ConnectRequest, Host, WhyNot
from mqflow.standin.library.shared_library import SONAMES, Library, can_load, filled, load, mapped_clients
from mqflow.verbs import QueueManager

__all__ = ("Installed", "StandInError", "fill", "install")


class StandInError(RuntimeError):
    """The stand-in library cannot be installed; the text says why."""


class Installed:
    """An installed queue manager. ibmmq and pymqi in this process reach it until `withdraw` or another `install`."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def withdraw(self) -> None:
        """Back out and end every connection; from now on MQCONN gets 2059."""
        self._host.abandon()
        if _state.host is self._host:
            _state.host = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.withdraw()


class _State:
    """The state of the process: the loaded libraries, and the host of their calls."""

    def __init__(self) -> None:
        self.libraries: list[Library] = []
        self.host: Host | None = None
        self.numbers: Final = count(1)


_state: Final = _State()


def install(
    queue_manager: QueueManager,
    *,
    on_connect: Callable[[ConnectRequest], None] | None = None,
    users: Mapping[str, str] | None = None,
    why_not: WhyNot | None = None,
) -> Installed:
    """Let ibmmq and pymqi reach the queue manager in this process; call this before either package is imported.

    `on_connect` receives the request of each application that connects. If `on_connect` raises an `MQIError`, the application
    gets this error. `users` has passwords by user; with it, the library refuses (2035) any other password, and a client that
    names no user. `why_not` decides whether a program can use the channel that it names.

    Raises `StandInError` if the process has loaded a real client library, or if the stand-in does not run on this system.
    """
    if why := can_load():
        raise StandInError(why)
    if real := mapped_clients():
        raise StandInError(
            f"A real IBM MQ client library is loaded already: {', '.join(real)}. "
            "The stand-in does not take its place; install it before ibmmq or pymqi is imported, in another process."
        )
    if _state.host is not None:
        _state.host.abandon()
    _state.host = Host(queue_manager, numbers=_state.numbers, on_connect=on_connect, users=users, why_not=why_not)
    if not _state.libraries:
        _state.libraries = [load(soname, _host) for soname in SONAMES]
    return Installed(_state.host)


def fill(table_at: int, soname: str, queue_manager: QueueManager | None, *, why_not: WhyNot | None = None) -> Installed | None:
    """Let a library that this process has loaded from a file reach the queue manager: fill its table of calls.

    If an earlier call has given a queue manager, this library reaches that queue manager too. Without a queue manager every
    MQCONN gets 2059.
    """
    if _state.host is None and queue_manager is not None:
        _state.host = Host(queue_manager, numbers=_state.numbers, why_not=why_not)
    _state.libraries.append(Library(soname, filled(table_at, soname, _host)))
    return None if _state.host is None else Installed(_state.host)


def _host() -> Host:
    if _state.host is None:
        raise error_for(Reason.Q_MGR_NOT_AVAILABLE, "MQI call", detail="The stand-in has no queue manager")
    return _state.host
