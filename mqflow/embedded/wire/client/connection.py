"""A queue manager that another process owns and serves, behind the seam: each verb is a round trip over a Unix socket.

For worker processes beside the owner. A lost socket is 2009; where the call may have taken effect for good it is 2549. Knows
the records of `calls`; knows no rule of MQ.
"""

import socket
import ssl
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path, PurePath
from typing import Any, Final

from msgspec import Struct

from mqflow.embedded.catalogue.system_objects import STAGING_QUEUE
from mqflow.embedded.wire.client.administration import ServedAdministration
from mqflow.embedded.wire.client.dial import Dial, dial
from mqflow.embedded.wire.client.line import Line
from mqflow.embedded.wire.client.read_ahead import AHEAD_BYTES_MAX, ReadAhead, may_read_ahead
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.addresses import Address, TcpAddress, UnixAddress
from mqflow.embedded.wire.protocol.frames import SILENCE_S, made
from mqflow.embedded.wire.protocol.heart import Heart
from mqflow.embedded.wire.protocol.pulse import OWN_BEATS_MAX, Pulse, PulseError
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import (
    CloseOption,
    ObjectType,
    OpenOption,
    Persistence,
    PutOption,
    SubscribeOption,
    SubscriptionRequestOption,
)
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import UNIT_BYTES_MAX, Exchange, GetOptions, Got, Inquired, ManyPut, Put, Subscribed
from mqflow.world import SYSTEM_CLOCK, THREADS, Clock, Runner

__all__ = ("ServedAdministration", "ServedConnection", "ServedHandle", "ServedQueueManager")


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


class ServedHandle(Struct, frozen=True):
    """An open object on the other side. Valid on its connection only."""

    connection: "ServedConnection"
    number: int
    name: str
    options: OpenOption
    resolved_queue: str
    #: All queues are its own.
    resolved_queue_manager: str = ""


class ServedSubscription(Struct, frozen=True):
    """A subscription on the other side. Valid on its connection only."""

    connection: "ServedConnection"
    number: int
    name: str


class _Prepared(Struct, frozen=True):
    """An exchange ready to be asked for again, as a consumer does for each of its units of work."""

    handle: object
    request: requests.Exchange
    frame: bytes
    verb: str
    name: str

    def asks(self, handle: object, options: GetOptions, commit: bool | None, most: int) -> bool:  # noqa: FBT001 - as given
        """Whether it is the same."""
        request = self.request
        return handle is self.handle and options is request.options and commit is request.commit and most == request.most


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


class ServedConnection:
    """Hconn: offers `verbs.Connection`. If the process ends without `disconnect`, its unit of work is backed out."""

    def __init__(self, line: Line, clock: Clock = SYSTEM_CLOCK) -> None:
        self._line = line
        self._clock = clock
        #: What was read ahead, by the number of the handle.
        self._ahead: dict[int, ReadAhead] = {}
        #: How many calls were made that may have changed what a browse would see.
        self._calls = 0
        self._last_exchange: _Prepared | None = None

    @property
    def queue_manager_name(self) -> str:
        """The name of the queue manager reached."""
        return self._line.queue_manager_name

    def open(
        self,
        name: str,
        options: OpenOption,
        *,
        object_type: ObjectType = ObjectType.Q,
        queue_manager: str = "",
        dynamic_name: str = "AMQ.*",
        alternate_user: str = "",
        object_string: str = "",
        selection: str = "",
    ) -> ServedHandle:
        """Return a handle on the object (MQOPEN)."""
        request = requests.Open(
            name, int(options), int(object_type), queue_manager, dynamic_name, alternate_user, object_string, selection
        )
        return self._opened(self._call(request, "MQOPEN", name))

    def close(self, handle: Any, options: CloseOption = CloseOption.NONE) -> None:
        """Close it (MQCLOSE)."""
        number = self._number(handle)
        self._ahead.pop(number, None)
        self._call(requests.Close(number, int(options)), "MQCLOSE", _name_of(handle))

    def put(self, handle: Any, descriptor: MessageDescriptor, body: bytes, options: PutOption, *, context: Any = None) -> Put:
        """Put a message (MQPUT). Outside a unit of work, a persistent one is durable when this returns."""
        self._check_body(body, "MQPUT", _name_of(handle))
        request = requests.Put(self._number(handle), descriptor, body, int(options), self._context(context))
        answer: Put = self._call(request, "MQPUT", _name_of(handle), unknown=_durable(descriptor, options))
        return answer

    def put_many(
        self, handle: Any, messages: Sequence[tuple[MessageDescriptor, bytes]], options: PutOption, *, context: Any = None
    ) -> ManyPut:
        """Put the messages in order, in as few ways there and back as frames allow."""
        puts: list[Put] = []
        number, passed_on, name = self._number(handle), self._context(context), _name_of(handle)
        try:
            sound = tuple(takewhile(lambda message: isinstance(message[1], bytes), messages))
            for some in requests.in_frames(sound):
                request = requests.PutMany(number, requests.in_runs(some), int(options), passed_on)
                unknown = any(_durable(descriptor, options) for descriptor, _ in some)
                answer: requests.PutManyAnswer = self._call(request, "MQPUT", name, unknown=unknown)
                puts += answer.puts
                if answer.failure is not None:
                    return ManyPut(tuple(puts), requests.error_of(answer.failure))
            if len(sound) < len(messages):
                self._check_body(messages[len(sound)][1], "MQPUT", name)
        except MQIError as error:
            return ManyPut(tuple(puts), error)
        return ManyPut(tuple(puts))

    def put1(
        self,
        name: str,
        descriptor: MessageDescriptor,
        body: bytes,
        options: PutOption,
        *,
        context: Any = None,
        object_type: ObjectType = ObjectType.Q,
        queue_manager: str = "",
        alternate_user: str = "",
        object_string: str = "",
    ) -> Put:
        """Open, put one message, close (MQPUT1)."""
        self._check_body(body, "MQPUT1", name)
        passed_on = self._context(context)
        request = requests.Put1(
            name, descriptor, body, int(options), passed_on, queue_manager, alternate_user, int(object_type), object_string
        )
        answer: Put = self._call(request, "MQPUT1", name, unknown=_durable(descriptor, options))
        return answer

    def get(self, handle: Any, options: GetOptions) -> Got | None:
        """Return the next message that matches (MQGET), or None where there is none within the wait (2033)."""
        number = self._number(handle)
        if may_read_ahead(options):
            return self._browse_next(handle, number, options)
        self._go_back(handle, number)
        answer: Got | None = self._call(requests.Get(number, options), "MQGET", _name_of(handle))
        return answer

    def get_many(self, handle: Any, options: GetOptions, most: int, *, bytes_max: int = UNIT_BYTES_MAX) -> list[Got]:
        """Return up to `most` messages, one way there and back; waits for the first one only."""
        number = self._number(handle)
        self._go_back(handle, number)
        return self._got(
            self._call, handle, requests.GetMany(number, options, min(most, requests.MANY_MAX), min(bytes_max, UNIT_BYTES_MAX))
        )

    def _got(self, call: Callable[..., Any], handle: object, request: requests.GetMany) -> list[Got]:
        answer: tuple[Got, ...] | None = call(request, "MQGET", _name_of(handle))
        return list(answer or ())

    def _browse_next(self, handle: object, number: int, options: GetOptions) -> Got | None:
        """Return the next message; from what was read ahead, or with what comes next."""
        ahead = self._ahead.setdefault(number, ReadAhead())
        got = ahead.next(options, self._calls, self._clock.monotonic())
        if got is not None:
            return got
        self._go_back(handle, number, forget=False)
        request = requests.GetMany(number, options, ahead.most(), AHEAD_BYTES_MAX)
        found = self._got(self._line.call, handle, request)
        ahead.keep(options, found[1:], self._calls, self._clock.monotonic())
        return found[0] if found else None

    def _go_back(self, handle: object, number: int, *, forget: bool = True) -> None:
        """Have the queue manager's cursor where the application's is."""
        ahead = self._ahead.get(number)
        if ahead is None:
            return
        if ahead.behind:
            self._line.call(requests.BrowseBack(number, ahead.behind), "MQGET", _name_of(handle))
        if forget:
            ahead.forget()

    def _call(self, request: requests.Request, verb: str, object_name: str = "", *, unknown: bool = False) -> Any:
        """Return what `Line.call` does, and count it: what was read ahead before may not be as it was."""
        self._calls += 1
        return self._line.call(request, verb, object_name, unknown=unknown)

    def exchange(self, handle: Any, options: GetOptions, *, commit: bool | None, most: int) -> Exchange:
        """Settle and get the next, one way there and back. A settlement without an answer may have taken effect."""
        last = self._last_exchange
        if last is None or not last.asks(handle, options, commit, most):
            last = self._last_exchange = self._prepared(handle, options, commit, most)
        settled, line = commit is None, self._line
        self._calls += 1
        try:
            if self._ahead:
                self._go_back(handle, last.request.handle)
            line.take(last.verb, last.name)
            try:
                answer: requests.Exchanged = line.reply(last.request, last.frame, last.verb, last.name, unknown=commit is True)
                settled = settled or answer.settle is None
                unit = answer.unit
                while answer.waits or answer.more:  # the line is not free yet: another call would be given this one's answer
                    if answer.waits:
                        line.let_go()
                    answer = line.reply(last.request, None, "MQGET", last.name)
                    unit += answer.unit
            finally:
                line.give_back()
        except MQIError as error:
            return Exchange(get_error=error) if settled else Exchange(settle_error=error)
        except BaseException:
            line.break_off()
            raise
        return Exchange(
            settle_error=None if answer.settle is None else requests.error_of(answer.settle),
            unit=unit,
            get_error=None if answer.get is None else requests.error_of(answer.get),
        )

    def _prepared(self, handle: object, options: GetOptions, commit: bool | None, most: int) -> "_Prepared":  # noqa: FBT001
        request = requests.Exchange(self._number(handle), options, commit, min(most, requests.MANY_MAX))
        verb = "MQGET" if commit is None else "MQCMIT" if commit else "MQBACK"
        return _Prepared(handle, request, made(requests.encode(request)), verb, _name_of(handle))

    def interrupt(self) -> None:
        """Let the get that waits, and all later ones, return with what is there."""
        self._line.interrupt()

    def inquire(self, handle: Any, selectors: Sequence[int]) -> Inquired:
        """Return the attributes asked for (MQINQ)."""
        answer: Inquired = self._call(requests.Inquire(self._number(handle), tuple(selectors)), "MQINQ", _name_of(handle))
        return answer

    def set(self, handle: Any, values: Mapping[int, int | str]) -> None:
        """Change attributes (MQSET)."""
        self._call(requests.Set(self._number(handle), dict(values)), "MQSET", _name_of(handle))

    def subscribe(self, descriptor: SubscriptionDescriptor, queue: Any = None) -> Subscribed:
        """Make, resume or alter a subscription (MQSUB)."""
        request = requests.Subscribe(descriptor, self._context(queue))
        durable = bool(descriptor.options & SubscribeOption.DURABLE)
        answer: requests.Subscribed = self._call(request, "MQSUB", descriptor.name, unknown=durable)
        return Subscribed(
            handle=ServedSubscription(self, answer.handle, answer.name),
            queue=self._opened(answer.queue),
            descriptor=answer.descriptor,
            reason=answer.reason,
        )

    def request_publications(self, handle: Any, options: SubscriptionRequestOption = SubscriptionRequestOption.NONE) -> int:
        """Have what is retained sent again (MQSUBRQ); return how many."""
        request = requests.RequestPublications(self._number(handle), int(options))
        answer: int = self._call(request, "MQSUBRQ", _name_of(handle), unknown=True)
        return answer

    def commit(self) -> None:
        """End the unit of work for good (MQCMIT). Raises 2549 where the socket was lost before the answer came."""
        self._call(requests.Commit(), "MQCMIT", unknown=True)

    def backout(self) -> None:
        """Undo the unit of work (MQBACK)."""
        self._call(requests.Backout(), "MQBACK")

    def disconnect(self) -> None:
        """End the connection (MQDISC). **Commits an open unit of work**, as IBM MQ does."""
        try:
            self._call(requests.Disconnect(), "MQDISC", unknown=True)
        finally:
            self._line.close()

    def abandon(self) -> None:
        """End the connection as when its application dies: the owner backs its unit of work out."""
        self._line.close()

    def _check_body(self, body: object, verb: str, object_name: str) -> None:
        """Refuse what would not arrive as what it is."""
        if not isinstance(body, bytes):
            detail = f"A body is bytes, not {type(body).__name__}"
            raise error_for(Reason.BUFFER_ERROR, verb, object_name, self.queue_manager_name, detail)

    def _number(self, handle: object) -> int:
        if isinstance(handle, ServedHandle | ServedSubscription) and handle.connection is self:
            return handle.number
        return requests.NO_HANDLE

    def _opened(self, opened: requests.Opened) -> ServedHandle:
        return ServedHandle(self, opened.handle, opened.name, OpenOption(opened.options), opened.resolved_queue)

    def _context(self, handle: object) -> int | None:
        return None if handle is None else self._number(handle)


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


def _durable(descriptor: MessageDescriptor, options: PutOption) -> bool:
    """Whether a put may be there for good although its answer was lost."""
    return not options & PutOption.SYNCPOINT and descriptor.persistence != Persistence.NOT_PERSISTENT


def _name_of(handle: object) -> str:
    return handle.name if isinstance(handle, ServedHandle | ServedSubscription) else ""
