"""Puts the stand-in library in place: in this process, once, and never beside a real client library.

A library stays loaded as long as its process: so there is one, and what it works on can be exchanged.
"""

from collections.abc import Callable, Mapping
from itertools import count
from types import TracebackType
from typing import Final, Self

from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.standin.host import ConnectRequest, Host
from mqflow.standin.library.shared_library import SONAMES, Library, can_load, load, mapped_clients
from mqflow.verbs import QueueManager
from mqflow.world import SYSTEM_CLOCK, THREADS, Clock, Runner

__all__ = ("Installed", "StandInError", "install")


class StandInError(RuntimeError):
    """The stand-in library cannot be put in place; the sentence says why."""


class Installed:
    """The queue manager is what ibmmq and pymqi reach in this process, until this is withdrawn or another is installed."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def withdraw(self) -> None:
        """End every connection, backed out; from now on connecting is answered with 2059."""
        self._host.abandon()
        if _state.host is self._host:
            _state.host = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.withdraw()


class _State:
    """What a process can have only one of: the libraries that are loaded, and what their calls work on."""

    def __init__(self) -> None:
        self.libraries: tuple[Library, ...] = ()
        self.host: Host | None = None
        self.numbers: Final = count(1)


_state: Final = _State()


def install(
    queue_manager: QueueManager,
    *,
    on_connect: Callable[[ConnectRequest], None] | None = None,
    users: Mapping[str, str] | None = None,
    clock: Clock = SYSTEM_CLOCK,
    runner: Runner = THREADS,
) -> Installed:
    """Let this process's ibmmq and pymqi reach the queue manager; call it before they are imported.

    `on_connect` is told what an application asks for when it connects; an `MQIError` that it raises is the answer. With
    `users`, passwords by user, any other password is refused with 2035, and so is a client that names no user.

    Raises `StandInError` where a real client library is loaded already, and where there can be no such library.
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
    _state.host = Host(queue_manager, clock=clock, runner=runner, numbers=_state.numbers, on_connect=on_connect, users=users)
    if not _state.libraries:
        _state.libraries = tuple(load(soname, _host) for soname in SONAMES)
    return Installed(_state.host)


def _host() -> Host:
    if _state.host is None:
        raise error_for(Reason.Q_MGR_NOT_AVAILABLE, "MQI call", detail="The stand-in was withdrawn")
    return _state.host
