"""A queue manager that another process owns and serves: how to reach it, and the connections made to it.

Tries its addresses in turn, says hello, and shares heartbeats between connections. Knows no verb.
"""

import socket
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Final

from mqflow.embedded.catalogue.system_objects import STAGING_QUEUE
from mqflow.embedded.wire.client.administration import ServedAdministration
from mqflow.embedded.wire.client.connection import ServedConnection
from mqflow.embedded.wire.client.dial import Dial, dial
from mqflow.embedded.wire.client.line import Line
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.addresses import Address, TcpAddress, UnixAddress
from mqflow.embedded.wire.protocol.frames import SILENCE_S
from mqflow.embedded.wire.protocol.heart import Heart
from mqflow.embedded.wire.protocol.pulse import OWN_BEATS_MAX, Pulse, PulseError
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.world import SYSTEM_CLOCK, THREADS, Clock, Runner

__all__ = ("ServedQueueManager",)


#: Reasons for which another address may do better: it is a standby, or on its way out.
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
    """The queue manager that is served at this socket. Nothing is reached until `connect`."""

    staging_queue: Final = STAGING_QUEUE

    def __init__(
        self,
        address: Path | Address | Sequence[Address],
        *,
        name: str = "",
        user: str = "",
        password: str = "",
        tls: ssl.SSLContext | None = None,
        runner: Runner = THREADS,
        silence_s: float = SILENCE_S,
        dial: Dial = dial,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._dial = dial
        self._addresses: Final = _addresses(address)
        self._password = password
        self._tls = tls
        self._name = name
        # Who connects where a connection names nobody; empty for the user of the owner, as whom this process runs too.
        self._user = user
        self._lines: set[Line] = set()
        self._heart = Heart(runner, silence_s=silence_s)
        self._runner = runner
        self._guard = runner.lock()
        self._pulses: dict[Address, Pulse] = {}

    @property
    def name(self) -> str:
        """The name as asked for; empty for whichever is served there."""
        return self._name

    @property
    def administration(self) -> "ServedAdministration":
        """Its definitions and status, over a connection of their own. Close it when done."""
        return ServedAdministration(self._line("mqflow administration", self._user, administers=True))

    def connect(self, *, application_name: str = "", user: str = "") -> "ServedConnection":
        """Return a new connection (MQCONNX).

        Raises 2059 where nobody serves at the socket, 2058 where the queue manager there has another name, and what the owner
        says.
        """
        program = PurePath(sys.argv[0]).name if sys.argv else ""
        return ServedConnection(self._line(application_name or program, user or self._user), self._clock)

    def close(self) -> None:
        """End the connections that were not disconnected, as when the application dies."""
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
                raise said from error  # a queue manager's own word says more than that nobody is there
            raise

    def _line_to(self, address: Address, application_name: str, user: str, *, administers: bool) -> Line:
        try:
            stream = self._dial(address, self._tls, self._heart.silence_s)
        except OSError as error:
            reason, said = _refusal(error)
            detail = f"{said} at {address} ({error.strerror or error})"
            if isinstance(error, ssl.SSLCertVerificationError):
                detail += ". ca=FILE in the URL says whom to trust, and a certificate is good for the hosts it was made for"
            raise error_for(reason, "MQCONNX", queue_manager=self._name, detail=detail) from error
        line = Line(stream, self._name, self._heart, self._over)
        self._lines.add(line)
        pulse = self._pulse_for(line, address)
        hello = requests.Hello(
            requests.PROTOCOL_VERSION, self._name, application_name, user, self._password, pulse, administers=administers
        )
        try:
            line.queue_manager_name = line.call(hello, "MQCONNX")
            if pulse:
                line.rely_on_pulse()
        except MQIError as error:
            line.close()
            if error.reason == Reason.CONNECTION_BROKEN and self._tls is None and isinstance(address, TcpAddress):
                detail = f"{address} took the connection and ended it. Where it is served with TLS, the URL is embedded+tls:"
                raise error_for(error.reason, "MQCONNX", queue_manager=self._name, detail=detail) from error
            raise
        except BaseException:
            line.close()
            raise
        return line

    def _pulse_for(self, line: Line, address: Address) -> int:
        """Return the number of the pulse that beats for the line; 0 where it beats for itself.

        On this machine only: between two, what breaks the wire of one connection may spare that of another.
        """
        with self._guard:
            pulse = self._pulses.get(address)
            if pulse is None or not pulse.add(line):
                if not isinstance(address, UnixAddress) or len(self._lines) <= OWN_BEATS_MAX:
                    return 0
                try:
                    pulse = Pulse(self._dial(address, None, self._heart.silence_s), self._heart, self._runner)
                except (OSError, PulseError):  # it can do without
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
    """Return the reason of a connection that could not be made, and what it means."""
    match error:
        case ssl.SSLCertVerificationError():
            return Reason.SSL_INITIALIZATION_ERROR, "The certificate is not one that is trusted,"
        case ssl.SSLEOFError():  # no question of settings: it is tried again
            return Reason.Q_MGR_NOT_AVAILABLE, "The connection was ended before TLS was agreed on, as one that stops does,"
        case ssl.SSLError():
            return Reason.SSL_INITIALIZATION_ERROR, "TLS could not be agreed on"
        case socket.gaierror():
            return Reason.HOST_NOT_AVAILABLE, "No machine of that name is known,"
        case _:
            return Reason.Q_MGR_NOT_AVAILABLE, "Nobody serves a queue manager"
