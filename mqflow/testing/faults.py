"""Faults on demand in the calls of the MQI: refused calls, lost replies, broken connections, slow calls, outages.

`Faults` has the planned faults and the record of all calls. `wrap` puts the faults in front of a queue manager, embedded or
not. If a connection to the embedded queue manager breaks, its unit of work is backed out, as on IBM MQ. This file knows
`mqflow.verbs`; it knows no application.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from typing import Final, Literal, TypeVar

from msgspec import Struct

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import ConnectionBrokenError, MQIError, error_for
from mqflow.mqi.options import CloseOption, OpenOption, PutOption, SubscriptionRequestOption
from mqflow.mqi.reason_codes import Reason, reason_name
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import (
    AbandonableConnection,
    Connection,
    GetOptions,
    Got,
    InlineConnection,
    InlineQueueManager,
    Inquired,
    ObjectDescriptor,
    ObjectHandle,
    Put,
    QueueManager,
    Subscribed,
    SubscriptionHandle,
    object_descriptor,
)

__all__ = ("CONNECT", "FOREVER", "Call", "Fault", "Faults", "Moment")

T = TypeVar("T")

FOREVER: Final = 1 << 62
CONNECT: Final = "MQCONNX"
_VERBS: Final = (
    "MQBACK", "MQCLOSE", "MQCMIT", "MQDISC", "MQGET", "MQINQ", "MQOPEN", "MQPUT", "MQPUT1", "MQSET", "MQSUB", "MQSUBRQ",
)  # fmt: skip
_BREAKING: Final = frozenset({*ConnectionBrokenError.reasons, Reason.CALL_INTERRUPTED})


class Moment(Enum):
    """The moment at which a call fails."""

    BEFORE = "before its effect"
    AFTER = "after its effect, the reply lost"


class Fault(Struct, frozen=True, kw_only=True):
    """A planned fault: the calls that it strikes, and how they fail.

    Raises `ValueError` for a fault that strikes no call, for example with an unknown verb. Also raises it for `Moment.AFTER`
    with the reason of a refusal: only a lost connection can lose a reply.
    """

    #: The verb, such as "MQPUT"; empty for any verb but MQCONNX.
    verb: str = ""
    #: The object that the call names; empty for any object.
    object_name: str = ""
    #: The first matching call that fails, counted from 1 since the fault was added; and the number of calls that fail in a row.
    nth: int = 1
    times: int = 1
    #: MQRC_*. 2549, and each reason of a lost connection such as 2009, also break the connection. 2003 also backs out the unit
    #: of work. 0: the call succeeds slowly.
    reason: int = Reason.CONNECTION_BROKEN
    moment: Moment = Moment.BEFORE
    #: The duration of the call, in seconds.
    delay_s: float = 0.0

    def __post_init__(self) -> None:
        for field, holds, takes in (
            ("verb", self.verb in {"", CONNECT, *_VERBS}, f"'' for any verb, or one of {', '.join((CONNECT, *_VERBS))}"),
            ("nth", isinstance(self.nth, int) and self.nth >= 1, "1 or more"),
            ("times", isinstance(self.times, int) and self.times >= 1, "1 or more"),
            ("delay_s", isinstance(self.delay_s, int | float) and self.delay_s >= 0, "0 or more seconds"),
            (
                "reason",
                isinstance(self.reason, int) and (self.reason or self.delay_s),
                "a reason code; 0 only with delay_s, for a slow call",
            ),
            ("moment", isinstance(self.moment, Moment), "Moment.BEFORE or Moment.AFTER"),
        ):
            if not holds:
                value = getattr(self, field)  # a field of this record
                raise ValueError(f"Fault({field}={value!r}) strikes no call. {field} takes {takes}.")
        if self.moment is Moment.AFTER and self.reason not in _BREAKING:
            known = ", ".join(reason_name(reason) for reason in sorted(_BREAKING))
            raise ValueError(
                f"{reason_name(self.reason)} means that the call had no effect. A lost reply has one of these reasons: {known}."
            )


class Call(Struct, frozen=True):
    """A call of an application."""

    #: The number of the call, from 1, over all connections.
    number: int
    verb: str
    object_name: str
    #: The number of the connection, from 1.
    connection: int

    def __str__(self) -> str:
        name = f" on {self.object_name}" if self.object_name else ""
        return f"call {self.number}: {self.verb}{name}, connection {self.connection}"


class _Planned:
    """A fault, and the number of calls that have matched the fault."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.matched = 0

    def strikes(self, verb: str, object_name: str) -> bool:
        """Count this call, and return whether the fault strikes it."""
        fault = self.fault
        matches = verb == fault.verb if fault.verb else verb != CONNECT
        if not matches or fault.object_name not in {"", object_name}:
            return False
        self.matched += 1
        return fault.nth <= self.matched < fault.nth + fault.times


class Faults:
    """The planned faults of every connection to the wrapped queue managers."""

    def __init__(self, *plan: Fault, wait: Callable[[float], None] = lambda _: None) -> None:
        self._planned = [_Planned(fault) for fault in plan]
        self._outages: list[_Planned] = []
        self._wait = wait
        self._lines: list[_Line] = []
        self._calls: list[Call] = []

    @property
    def calls(self) -> Sequence[Call]:
        """All calls so far in order, failed calls and MQCONNX included."""
        return self._calls

    def wrap(self, queue_manager: QueueManager, *, user: str = "") -> QueueManager:
        """Return the same queue manager with these faults in front of it. An `InlineQueueManager` stays inline.

        `user` is the user of connections that name no user.
        """
        if not isinstance(queue_manager, InlineQueueManager):
            return _Faulty(queue_manager, self, user)
        inline: InlineQueueManager = _InlineFaulty(queue_manager, self, user)
        return inline

    def add(self, *plan: Fault) -> None:
        """Plan more faults. Each fault counts the calls that match it.

        If several faults are due at one call, the fault that was planned first strikes. Raises `TypeError` for another object.
        """
        for fault in plan:
            given: object = fault
            if not isinstance(given, Fault):
                raise TypeError(f"faults.add({given!r:.80}): it takes one or more Fault(...), not a list of them.")
        self._planned += [_Planned(fault) for fault in plan]

    def clear(self) -> None:
        """Drop all planned faults. Broken connections stay broken, and an outage continues until its block ends."""
        self._planned.clear()

    def break_connections(self, reason: int = Reason.CONNECTION_BROKEN) -> None:
        """Break every connection now. The queue manager backs out the units of work, and every wait of `on_arrival` ends.

        If a thread waits inside a verb, its next call raises the error.
        """
        for line in self._lines:
            line.cut(reason)

    @contextmanager
    def outage(self, reason: int = Reason.Q_MGR_NOT_AVAILABLE) -> Iterator[None]:
        """Break every connection, and refuse new ones until the block ends."""
        outage = _Planned(Fault(verb=CONNECT, reason=reason, times=FOREVER))
        self._outages.insert(0, outage)
        self.break_connections()
        try:
            yield
        finally:
            self._outages.remove(outage)

    def around(self, line: "_Line", verb: str, object_name: str, effect: Callable[[], T]) -> T:
        """Call `effect` and return its result. If a fault strikes, raise the fault's `MQIError` before or after this call."""
        fault = self.strike(line, verb, object_name)
        if fault is None:
            return effect()
        if fault.moment is Moment.AFTER:
            effect()
        raise line.failure(fault, verb, object_name)

    def connect(self, queue_manager: QueueManager, connect: Callable[[], T]) -> tuple["_Line", T]:
        """Return a new `_Line`, which a fault can cut, and the connection behind it."""
        line = _Line(self, len(self._lines) + 1, queue_manager.name)
        self._lines.append(line)
        return line, self.around(line, CONNECT, "", connect)

    def strike(self, line: "_Line", verb: str, object_name: str) -> Fault | None:
        """Wait as long as a fault delays this call. Return the fault that makes the call fail, or None."""
        call = Call(len(self._calls) + 1, verb, object_name, line.number)
        self._calls.append(call)
        line.check(verb, object_name)
        struck = next(iter(self._matching(verb, object_name)), None)
        if struck is not None and struck.delay_s:
            self._wait(struck.delay_s)
        return struck if struck is not None and struck.reason else None

    def _matching(self, verb: str, object_name: str) -> list[Fault]:
        """Return the faults that strike this call. Every fault counts the call, even if an earlier fault strikes."""
        return [planned.fault for planned in (*self._outages, *self._planned) if planned.strikes(verb, object_name)]


class _Line:
    """The line of one connection to its queue manager; a fault can cut it."""

    def __init__(self, faults: Faults, number: int, queue_manager: str) -> None:
        self.number = number
        self.queue_manager = queue_manager
        self._faults = faults
        self._cut = 0
        self.inner: Connection | None = None
        #: The waits of `on_arrival`, each with a function that ends the wait once.
        self.waits: dict[object, Callable[[], None]] = {}

    def check(self, verb: str, object_name: str) -> None:
        """If the line is cut, raise the reason of the cut."""
        if self._cut:
            raise error_for(self._cut, verb, object_name, self.queue_manager, "The connection broke before")

    def failure(self, fault: Fault, verb: str, object_name: str) -> MQIError:
        """Return the error of a fault. Before that, cut the line or back out if the reason requires this."""
        if fault.reason in _BREAKING:
            self.cut(Reason.CONNECTION_BROKEN)
        elif fault.reason == Reason.BACKED_OUT and self.inner is not None:
            self.inner.backout()
        detail = f"A planned fault: it failed {fault.moment.value}"
        return error_for(fault.reason, verb, object_name, self.queue_manager, detail)

    def cut(self, reason: int) -> None:
        """Cut the line: the queue manager backs out, and forgets the connection."""
        if self._cut:
            return
        self._cut = reason
        if self.inner is not None:
            _abandon(self.inner)
        for wake in list(self.waits.values()):
            wake()

    def around(self, verb: str, object_name: str, effect: Callable[[], T]) -> T:
        """Make a call on this line, as `Faults.around` does."""
        return self._faults.around(self, verb, object_name, effect)

    def strike(self, verb: str) -> Fault | None:
        """Do what `Faults.strike` does, for a call on this line that names no object."""
        return self._faults.strike(self, verb, "")


def _abandon(connection: Connection) -> None:
    """End a connection as if its client had died: by `abandon` if it has this verb, otherwise by backout and disconnect."""
    verbs = (
        (connection.abandon,) if isinstance(connection, AbandonableConnection) else (connection.backout, connection.disconnect)
    )
    for verb in verbs:
        with suppress(MQIError):
            verb()


def _called(target: ObjectDescriptor | str) -> str:
    """Return the name by which a fault finds the call: the name of the object, or the topic string."""
    described = object_descriptor(target)
    return described.name or described.object_string


class _FaultyConnection:
    """The verbs of a connection, with the planned faults in front of each verb."""

    def __init__(self, line: _Line, inner: Connection) -> None:
        line.inner = inner
        self._line = line
        self._inner = inner

    @property
    def queue_manager_name(self) -> str:
        return self._inner.queue_manager_name

    def open(self, target: ObjectDescriptor | str, options: OpenOption) -> ObjectHandle:
        return self._line.around("MQOPEN", _called(target), lambda: self._inner.open(target, options))

    def close(self, handle: ObjectHandle | SubscriptionHandle, options: CloseOption = CloseOption.NONE) -> None:
        self._line.around("MQCLOSE", handle.name, lambda: self._inner.close(handle, options))

    def put(
        self,
        handle: ObjectHandle,
        descriptor: MessageDescriptor,
        body: bytes,
        options: PutOption,
        *,
        context: ObjectHandle | None = None,
    ) -> Put:
        return self._line.around(
            "MQPUT", handle.name, lambda: self._inner.put(handle, descriptor, body, options, context=context)
        )

    def put1(
        self,
        target: ObjectDescriptor | str,
        descriptor: MessageDescriptor,
        body: bytes,
        options: PutOption,
        *,
        context: ObjectHandle | None = None,
    ) -> Put:
        def effect() -> Put:
            return self._inner.put1(target, descriptor, body, options, context=context)

        return self._line.around("MQPUT1", _called(target), effect)

    def get(self, handle: ObjectHandle, options: GetOptions) -> Got | None:
        return self._line.around("MQGET", handle.name, lambda: self._inner.get(handle, options))

    def inquire(self, handle: ObjectHandle, selectors: Sequence[int]) -> Inquired:
        return self._line.around("MQINQ", handle.name, lambda: self._inner.inquire(handle, selectors))

    def set(self, handle: ObjectHandle, values: Mapping[int, int | str]) -> None:
        self._line.around("MQSET", handle.name, lambda: self._inner.set(handle, values))

    def subscribe(self, descriptor: SubscriptionDescriptor, queue: ObjectHandle | None = None) -> Subscribed:
        name = descriptor.name or descriptor.object_name or descriptor.object_string
        return self._line.around("MQSUB", name, lambda: self._inner.subscribe(descriptor, queue))

    def request_publications(
        self, handle: SubscriptionHandle, options: SubscriptionRequestOption = SubscriptionRequestOption.NONE
    ) -> int:
        return self._line.around("MQSUBRQ", handle.name, lambda: self._inner.request_publications(handle, options))

    def commit(self) -> None:
        self._line.around("MQCMIT", "", self._inner.commit)

    def backout(self) -> None:
        self._line.around("MQBACK", "", self._inner.backout)

    def disconnect(self) -> None:
        self._line.around("MQDISC", "", self._inner.disconnect)


class _InlineFaultyConnection(_FaultyConnection):
    """The verbs of an `InlineConnection`, with the planned faults in front of each verb."""

    def __init__(self, line: _Line, inner: InlineConnection) -> None:
        super().__init__(line, inner)
        self._inline = inner

    def abandon(self) -> None:
        """End the connection as if its client had died. No fault prevents this: it is no call of the MQI."""
        self._line.cut(Reason.CONNECTION_BROKEN)

    @property
    def only_removes(self) -> bool:
        """True if the commit of the open unit of work only removes messages. This is no call of the MQI."""
        return self._inline.only_removes

    def give_back(self, count: int) -> None:
        """Return the messages to their places. Faults of MQBACK strike here."""
        self._line.around("MQBACK", "", lambda: self._inline.give_back(count))

    def begin_commit(self, done: Callable[[MQIError | None], None], *, behind: bool = False) -> bool:
        """Start the commit. A fault at `Moment.BEFORE` is raised immediately, a fault at `AFTER` when the commit is durable."""
        fault = self._line.strike("MQCMIT")
        if fault is None:
            return self._inline.begin_commit(done, behind=behind)
        lost = self._line.failure
        if fault.moment is Moment.AFTER:

            def reply_lost(_: MQIError | None) -> None:
                done(lost(fault, "MQCMIT", ""))

            if not self._inline.begin_commit(reply_lost, behind=behind):
                return False
        raise lost(fault, "MQCMIT", "")

    def on_arrival(self, handle: ObjectHandle, options: GetOptions, wake: Callable[[], None]) -> Callable[[], None] | None:
        """Wait for a message. No fault strikes here, because this is no call of the MQI. A cut of the line ends the wait."""
        waits = self._line.waits
        self._line.check("MQGET", handle.name)
        waiting = object()

        def wake_once() -> None:
            if waits.pop(waiting, None) is not None:
                wake()

        waits[waiting] = wake_once
        withdraw = self._inline.on_arrival(handle, options, wake_once)
        if withdraw is None:
            del waits[waiting]
            return None

        def withdraw_both() -> None:
            waits.pop(waiting, None)
            withdraw()

        return withdraw_both


class _Faulty:
    """A queue manager whose connections fail as planned."""

    def __init__(self, inner: QueueManager, faults: Faults, user: str) -> None:
        self._inner = inner
        self._user = user
        # getattr, here and below: some queue managers have more than the protocol asks for.
        self.staging_queue = getattr(inner, "staging_queue", "")
        self._faults = faults

    @property
    def name(self) -> str:
        return self._inner.name

    def connect(self, *, application_name: str = "", user: str = "") -> Connection:
        connect = self._inner.connect
        line, inner = self._faults.connect(self, lambda: connect(application_name=application_name, user=user or self._user))
        return _FaultyConnection(line, inner)


class _InlineFaulty(_Faulty):
    """A queue manager in this process, whose connections fail as planned."""

    inline: Literal[True] = True
    _inner: InlineQueueManager

    @property
    def stopped(self) -> bool:
        return self._inner.stopped

    @property
    def owner(self) -> str:
        return getattr(self._inner, "owner", "")  # only the embedded queue manager has an owner

    def when_staged(self, wake: Callable[[], None]) -> None:
        tell = getattr(self._inner, "when_staged", None)  # only the embedded queue manager has a staging queue
        if tell is not None:
            tell(wake)

    def on_staged(self, wake: Callable[[], None]) -> Callable[[], None]:
        tell = getattr(self._inner, "on_staged", None)  # as above
        return (lambda: None) if tell is None else tell(wake)

    def connect(self, *, application_name: str = "", user: str = "") -> InlineConnection:
        connect = self._inner.connect
        line, inner = self._faults.connect(self, lambda: connect(application_name=application_name, user=user or self._user))
        return _InlineFaultyConnection(line, inner)
