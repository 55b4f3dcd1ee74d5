"""A queue manager that another process owns and serves: how to reach it, and the connections to it.

`connect` tries the addresses in turn, and sends the first request (the hello). On one machine, many connections share the
heartbeats of one connection (the pulse). This module knows no verb.
"""

import socket
import ssl
import sys
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import Final

from mqflow.embedded.catalogue.system_objects import STAGING_QUEUE
from mqflow.embedded.wire.client.administration import ServedAdministration, served_administration
from mqflow.embedded.wire.client.connection import ServedConnection
from mqflow.embedded.wire.client.dial import Dial, dial
from mqflow.embedded.wire.client.line import Line
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.addresses import Address, TcpAddress, UnixAddress
from mqflow.embedded.wire.protocol.frames import SILENCE_S
from mqflow.embedded.wire.protocol.heartbeat_sender import HeartbeatSender
from mqflow.embedded.wire.protocol.pulse import OWN_BEATS_MAX, PulseError, PulseSender
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.world import SYSTEM_WORLD, World

__all__ = ("ServedQueueManager",)


#: Reasons to try the next address: this address belongs to a standby, or to a queue manager that is ending.
_ELSEWHERE: Final = frozenset(
    {
        Reason.Q_MGR_NOT_AVAILABLE,
        Reason.HOST_NOT_AVAILABLE,
        Reason.STANDBY_Q_MGR,
        Reason.Q_MGR_QUIESCING,
        Reason.Q_MGR_STOPPING,
        Reason.CONNECTION_BROKEN,
    }
)


class ServedQueueManager:
    """The queue manager that another process serves at one of these addresses. The constructor does not connect yet."""

    staging_queue: Final = STAGING_QUEUE

    def __init__(
        self,
        address: Path | Address | Sequence[Address],
        *,
        name: str = "",
        user: str = "",
        password: str | Callable[[], str] | None = None,
        tls: ssl.SSLContext | None = None,
        silence_s: float = SILENCE_S,
        dial: Dial = dial,
        world: World = SYSTEM_WORLD,
    ) -> None:
        """Take the addresses, the user and the password. A function that reads the password is called for each connection."""
        self._clock = world.clock
        self._dial = dial
        self._addresses: Final = _addresses(address)
        self._password = password
        self._tls = tls
        self._name = name
        # The user of each connection that names no user. Empty means the owner's user, which is also the user of this process.
        self._user = user
        self._lines: set[Line] = set()
        self._heartbeats = HeartbeatSender(world.runner, silence_s=silence_s)
        self._runner = world.runner
        self._guard = world.runner.lock()
        self._pulses: dict[Address, PulseSender] = {}

    @property
    def name(self) -> str:
        """The name of the queue manager to connect to; empty for any name."""
        return self._name

    @property
    def administration(self) -> "ServedAdministration":
        """The administration of the queue manager, over a new connection. The caller must close it."""
        return served_administration(self._line("mqflow administration", self._user, administers=True))

    def connect(self, *, application_name: str = "", user: str = "") -> "ServedConnection":
        """Return a new connection (MQCONNX).

        Raises 2059 if no process serves at the addresses, 2058 if the queue manager has another name, and 2195 if the password
        cannot be read. Also raises any refusal of the owner.
        """
        program = PurePath(sys.argv[0]).name if sys.argv else ""
        return ServedConnection(self._line(application_name or program, user or self._user), self._clock)

    def close(self) -> None:
        """End all open connections as if the application had died: the owner backs out their units of work."""
        for line in tuple(self._lines):
            line.close()

    def _line(self, application_name: str, user: str, *, administers: bool = False) -> Line:
        *others, last = self._addresses
        said: MQIError | None = None
        for address in others:
            try:
                return self._line_to(address, application_name, user, administers=administers)
            except MQIError as error:
                if error.reason not in _ELSEWHERE:
                    raise
                said = said or (error if error.reason != Reason.Q_MGR_NOT_AVAILABLE else None)
        try:
            return self._line_to(last, application_name, user, administers=administers)
        except MQIError as error:
            if said is not None and error.reason == Reason.Q_MGR_NOT_AVAILABLE:
                raise said from error  # an error from a queue manager helps more than "not available"
            raise

    def _line_to(self, address: Address, application_name: str, user: str, *, administers: bool) -> Line:
        password = self._read_password()
        try:
            stream = self._dial(address, self._tls, self._heartbeats.silence_s)
        except OSError as error:
            reason, said = _refusal(error)
            detail = f"{said} at {address} ({error.strerror or error})"
            if isinstance(error, ssl.SSLCertVerificationError):
                detail += ". ca=FILE in the URL names the authority to trust, and a certificate is valid for its hosts only"
            raise error_for(reason, "MQCONNX", queue_manager=self._name, detail=detail) from error
        line = Line(stream, self._name, self._heartbeats, self._over)
        self._lines.add(line)
        pulse = self._pulse_for(line, address)
        hello = requests.Hello(
            requests.PROTOCOL_VERSION, self._name, application_name, user, password, pulse, administers=administers
        )
        try:
            line.queue_manager_name = line.call(hello, "MQCONNX")
            if pulse:
                line.rely_on_pulse()
        except MQIError as error:
            line.close()
            if isinstance(error.__cause__, ssl.SSLError):  # in TLS 1.3, the refusal arrives after the handshake
                reason, said = _refusal(error.__cause__)
                detail = f"{said} at {address} ({error.__cause__.strerror or error.__cause__})"
                raise error_for(reason, "MQCONNX", queue_manager=self._name, detail=detail) from error
            if error.reason == Reason.CONNECTION_BROKEN and self._tls is None and isinstance(address, TcpAddress):
                detail = f"{address} accepted the connection and ended it. If it is served with TLS, the URL is embedded+tls:"
                raise error_for(error.reason, "MQCONNX", queue_manager=self._name, detail=detail) from error
            raise
        except BaseException:
            line.close()
            raise
        return line

    def _read_password(self) -> str:
        """Return the password. Raises 2195, after which an application connects again: the file may be there then."""
        try:
            return self._password() if callable(self._password) else self._password or ""
        except UnicodeError:  # the error has the bytes of the password
            detail = "The password file is not text in UTF-8"
            raise error_for(Reason.UNEXPECTED_ERROR, "MQCONNX", queue_manager=self._name, detail=detail) from None
        except (OSError, ValueError) as error:
            detail = f"The password cannot be read: {error}"
            raise error_for(Reason.UNEXPECTED_ERROR, "MQCONNX", queue_manager=self._name, detail=detail) from error

    def _pulse_for(self, line: Line, address: Address) -> int:
        """Return the number of the line's pulse; 0 if the line sends its own heartbeats.

        Only connections on one machine use a pulse: between machines, a fault can break one connection and leave another.
        """
        with self._guard:
            pulse = self._pulses.get(address)
            if pulse is None or not pulse.add(line):
                if not isinstance(address, UnixAddress) or len(self._lines) <= OWN_BEATS_MAX:
                    return 0
                try:
                    pulse = PulseSender(self._dial(address, None, self._heartbeats.silence_s), self._heartbeats, self._runner)
                except (OSError, PulseError):  # then the line sends its own heartbeats
                    return 0
                self._pulses[address] = pulse
                pulse.add(line)
            return pulse.number

    def _over(self, line: Line) -> None:
        self._lines.discard(line)
        for pulse in tuple(self._pulses.values()):
            pulse.remove(line)


def _addresses(address: Path | Address | Sequence[Address]) -> Sequence[Address]:
    match address:
        case Path():
            return (UnixAddress(address),)
        case UnixAddress() | TcpAddress():
            return (address,)
        case _:
            return address


def _refusal(error: OSError) -> tuple[Reason, str]:
    """Return the reason of the failed connection, and its meaning in words."""
    match error:
        case ssl.SSLCertVerificationError():
            return Reason.SSL_INITIALIZATION_ERROR, "The certificate is not trusted,"
        case ssl.SSLEOFError():  # wrong settings do not cause this error, so a retry can help
            return Reason.Q_MGR_NOT_AVAILABLE, "The server broke off the TLS handshake (perhaps it is stopping)"
        case ssl.SSLError(reason=str() as alert) if "ALERT" in alert and ("CERTIFICATE" in alert or "UNKNOWN_CA" in alert):
            said = "The queue manager refused the certificate of this client (cert=FILE in the URL),"
            return Reason.SSL_INITIALIZATION_ERROR, said
        case ssl.SSLError():
            return Reason.SSL_INITIALIZATION_ERROR, "The TLS handshake failed"
        case socket.gaierror():
            return Reason.HOST_NOT_AVAILABLE, "The host name is unknown,"
        case _:
            late = isinstance(error, TimeoutError | BlockingIOError)
            return Reason.Q_MGR_NOT_AVAILABLE, "Nothing answered in time" if late else "No process serves a queue manager"
