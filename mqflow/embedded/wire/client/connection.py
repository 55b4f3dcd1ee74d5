"""A connection to a queue manager that another process owns and serves. Each verb is one round trip.

If the socket is lost, a call raises 2009 or 2549. With 2549 it may have had a durable effect that no backout undoes: for
example a commit, or a put outside a unit of work. A get outside a unit of work raises 2009, although its message may be gone.
This module knows no rule of MQ.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from mqflow.embedded.wire.client.line import Line
from mqflow.embedded.wire.client.read_ahead import AHEAD_BYTES_MAX, ReadAhead, may_read_ahead
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.frames import made
from mqflow.mqi.descriptor import MessageDescriptor, type_problem
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import CloseOption, OpenOption, Persistence, PutOption, SubscribeOption, SubscriptionRequestOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import (
    UNIT_BYTES_MAX,
    Exchange,
    GetOptions,
    Got,
    Inquired,
    ManyPut,
    ObjectDescriptor,
    ObjectHandle,
    Put,
    SettledMany,
    Subscribed,
    SubscriptionHandle,
    object_descriptor,
)
from mqflow.world import SYSTEM_CLOCK, Clock

__all__ = ("ServedConnection", "ServedHandle")

_DELETES: Final = CloseOption.DELETE | CloseOption.DELETE_PURGE | CloseOption.REMOVE_SUB


class ServedHandle(Struct, frozen=True):
    """An open object of the served queue manager. It is valid only on its connection."""

    connection: "ServedConnection"
    number: int
    name: str
    options: OpenOption
    resolved_queue: str
    #: The queue manager of a remote queue; empty for this queue manager.
    resolved_queue_manager: str = ""


class ServedSubscription(Struct, frozen=True):
    """A subscription of the served queue manager. It is valid only on its connection."""

    connection: "ServedConnection"
    number: int
    name: str


class _Prepared(Struct, frozen=True):
    """An encoded exchange. The connection keeps it, because a consumer repeats the same exchange for each unit of work."""

    handle: object
    request: requests.Exchange
    frame: bytes
    verb: str
    name: str

    def asks(self, handle: object, options: GetOptions, commit: bool | None, most: int) -> bool:  # noqa: FBT001 - as the caller has it
        """Return whether this is the exchange for these arguments."""
        request = self.request
        return handle is self.handle and options is request.options and commit is request.commit and most == request.most


class ServedConnection:
    """The Hconn: offers `verbs.Connection`. If the process ends without `disconnect`, the owner backs out the unit of work."""

    def __init__(self, line: Line, clock: Clock = SYSTEM_CLOCK) -> None:
        self._line = line
        self._clock = clock
        #: The messages that were read ahead, by number of the handle.
        self._ahead: dict[int, ReadAhead] = {}
        #: The number of calls so far that can change the result of a browse.
        self._calls = 0
        self._last_exchange: _Prepared | None = None
        #: True if the application has put no message in the open unit of work.
        self.only_removes: bool = True

    @property
    def queue_manager_name(self) -> str:
        """The name of the connected queue manager."""
        return self._line.queue_manager_name

    def open(self, target: ObjectDescriptor | str, options: OpenOption) -> ServedHandle:
        """Return a handle on the object (MQOPEN)."""
        described = object_descriptor(target)
        request = requests.Open(**asdict(described), options=int(options))
        return self._opened(self._call(request, "MQOPEN", described.name))

    def close(self, handle: ObjectHandle | SubscriptionHandle, options: CloseOption = CloseOption.NONE) -> None:
        """Close an object or a subscription (MQCLOSE)."""
        number = self._number(handle)
        self._ahead.pop(number, None)
        self._call(requests.Close(number, int(options)), "MQCLOSE", _name_of(handle), unknown=bool(options & _DELETES))

    def put(
        self,
        handle: ObjectHandle,
        descriptor: MessageDescriptor,
        body: bytes,
        options: PutOption,
        *,
        context: ObjectHandle | None = None,
    ) -> Put:
        """Put a message (MQPUT). Outside a unit of work, a persistent message is durable when this method returns."""
        self._check_message(descriptor, body, "MQPUT", _name_of(handle))
        self._note_put(options)
        request = requests.Put(self._number(handle), descriptor, body, int(options), self._context(context))
        answer: Put = self._call(request, "MQPUT", _name_of(handle), unknown=_durable(descriptor, options))
        return answer

    def put_many(
        self,
        handle: ObjectHandle,
        messages: Sequence[tuple[MessageDescriptor, bytes]],
        options: PutOption,
        *,
        context: ObjectHandle | None = None,
    ) -> ManyPut:
        """Put the messages in order, in as few round trips as the size of a frame allows."""
        puts: list[Put] = []
        self._note_put(options)
        number, passed_on, name = self._number(handle), self._context(context), _name_of(handle)
        try:
            sound = tuple(takewhile(lambda message: _why_not_sent(*message) is None, messages))
            for some in requests.in_frames(sound):
                request = requests.PutMany(number, requests.in_runs(some), int(options), passed_on)
                unknown = any(_durable(descriptor, options) for descriptor, _ in some)
                answer: requests.PutManyAnswer = self._call(request, "MQPUT", name, unknown=unknown)
                puts += answer.puts
                if answer.failure is not None:
                    return ManyPut(tuple(puts), requests.error_of(answer.failure))
            if len(sound) < len(messages):
                self._check_message(*messages[len(sound)], "MQPUT", name)
        except MQIError as error:
            return ManyPut(tuple(puts), error)
        return ManyPut(tuple(puts))

    def put1(
        self,
        target: ObjectDescriptor | str,
        descriptor: MessageDescriptor,
        body: bytes,
        options: PutOption,
        *,
        context: ObjectHandle | None = None,
    ) -> Put:
        """Open the object, put one message, close the object (MQPUT1)."""
        described = object_descriptor(target)
        self._check_message(descriptor, body, "MQPUT1", described.name)
        self._note_put(options)
        request = requests.Put1(
            **asdict(described), descriptor=descriptor, body=body, options=int(options), context=self._context(context)
        )
        answer: Put = self._call(request, "MQPUT1", described.name, unknown=_durable(descriptor, options))
        return answer

    def get(self, handle: ObjectHandle, options: GetOptions) -> Got | None:
        """Return the next matching message (MQGET), or None if no message arrives within the wait (2033)."""
        number = self._number(handle)
        if may_read_ahead(options):
            return self._browse_next(handle, number, options)
        self._go_back(handle, number)
        answer: Got | None = self._call(requests.Get(number, options), "MQGET", _name_of(handle))
        return answer

    def get_many(self, handle: ObjectHandle, options: GetOptions, most: int, *, bytes_max: int = UNIT_BYTES_MAX) -> list[Got]:
        """Return up to `most` messages in one round trip. Only the first message is waited for."""
        number = self._number(handle)
        self._go_back(handle, number)
        return self._got(
            self._call, handle, requests.GetMany(number, options, min(most, requests.MANY_MAX), min(bytes_max, UNIT_BYTES_MAX))
        )

    # Any: the type of the value depends on the request; see `requests`.
    def _got(self, call: Callable[..., Any], handle: object, request: requests.GetMany) -> list[Got]:
        answer: tuple[Got, ...] | None = call(request, "MQGET", _name_of(handle))
        return list(answer or ())

    def _browse_next(self, handle: object, number: int, options: GetOptions) -> Got | None:
        """Return the next message, possibly one that was read ahead. Keep the further messages of the same reply."""
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
        """Move the queue manager's browse cursor back to the application's position."""
        ahead = self._ahead.get(number)
        if ahead is None:
            return
        if ahead.behind:
            self._line.call(requests.BrowseBack(number, ahead.behind), "MQGET", _name_of(handle))
            ahead.went_back()  # also if the next get is refused
        if forget:
            ahead.forget()

    def _call(self, request: requests.Request, verb: str, object_name: str = "", *, unknown: bool = False) -> Any:
        """Call `Line.call`, and count the call: after it, the messages that were read ahead can be out of date."""
        self._calls += 1
        return self._line.call(request, verb, object_name, unknown=unknown)

    def exchange(self, handle: ObjectHandle, options: GetOptions, *, commit: bool | None, most: int) -> Exchange:
        """Commit or back out, then get messages, in one round trip. A commit without a reply may have taken effect."""
        last = self._last_exchange
        if last is None or not last.asks(handle, options, commit, most):
            last = self._last_exchange = self._prepared(handle, options, commit, most)
        settled, line = commit is None, self._line
        unit: tuple[Got, ...] = ()
        self.only_removes = self.only_removes or not settled
        self._calls += 1
        try:
            if self._ahead:
                self._go_back(handle, last.request.handle)
            line.take(last.verb, last.name)
            try:
                answer: requests.Exchanged = line.reply(last.request, last.frame, last.verb, last.name, unknown=commit is True)
                settled = settled or answer.settle is None
                unit = answer.unit
                while answer.waits or answer.more:  # the line is not free yet, because another call would receive this reply
                    if answer.waits:
                        line.let_go()
                    answer = line.reply(last.request, None, "MQGET", last.name)
                    unit += answer.unit
            finally:
                line.give_back()
        except MQIError as error:
            return Exchange(get_error=error, lost=unit) if settled else Exchange(settle_error=error)
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

    def settle_many(self, handle: ObjectHandle, options: GetOptions, *, commits: int, most: int, units: int) -> SettledMany:
        """Commit units of work, and get further units, in one round trip. A commit without a reply may have taken effect."""
        request = requests.SettleMany(self._number(handle), options, commits, min(most, requests.MANY_MAX), units)
        self.only_removes = True
        try:
            answer: requests.SettledMany = self._call(request, "MQCMIT", unknown=True)
        except MQIError as error:
            return SettledMany((error,) * commits)
        return SettledMany([None if each is None else requests.error_of(each) for each in answer.failures], answer.units)

    def give_back(self, count: int) -> None:
        """Return the messages of the last `count` units of work to their places."""
        self._call(requests.GiveBack(count), "MQBACK")

    def interrupt(self) -> None:
        """End the wait of the present get. Later gets do not wait."""
        self._line.interrupt()

    def inquire(self, handle: ObjectHandle, selectors: Sequence[int]) -> Inquired:
        """Return the attributes with these selectors (MQINQ)."""
        answer: Inquired = self._call(requests.Inquire(self._number(handle), tuple(selectors)), "MQINQ", _name_of(handle))
        return answer

    def set(self, handle: ObjectHandle, values: Mapping[int, int | str]) -> None:
        """Change attributes (MQSET)."""
        self._call(requests.Set(self._number(handle), dict(values)), "MQSET", _name_of(handle))

    def subscribe(self, descriptor: SubscriptionDescriptor, queue: ObjectHandle | None = None) -> Subscribed:
        """Create, resume or alter a subscription (MQSUB)."""
        request = requests.Subscribe(descriptor, self._context(queue))
        durable = bool(descriptor.options & SubscribeOption.DURABLE)
        answer: requests.Subscribed = self._call(request, "MQSUB", descriptor.name, unknown=durable)
        return Subscribed(
            handle=ServedSubscription(self, answer.handle, answer.name),
            queue=self._opened(answer.queue),
            descriptor=answer.descriptor,
            reason=answer.reason,
        )

    def request_publications(
        self, handle: SubscriptionHandle, options: SubscriptionRequestOption = SubscriptionRequestOption.NONE
    ) -> int:
        """Ask the queue manager to send the retained publications again (MQSUBRQ). Return their number."""
        request = requests.RequestPublications(self._number(handle), int(options))
        answer: int = self._call(request, "MQSUBRQ", _name_of(handle), unknown=True)
        return answer

    def commit(self) -> None:
        """Commit the unit of work (MQCMIT). Raises 2549 if the socket is lost before the reply arrives."""
        self.only_removes = True
        self._call(requests.Commit(), "MQCMIT", unknown=True)

    def backout(self) -> None:
        """Back out the unit of work (MQBACK)."""
        self.only_removes = True
        self._call(requests.Backout(), "MQBACK")

    def disconnect(self) -> None:
        """End the connection (MQDISC). **Commits an open unit of work**, as IBM MQ does."""
        try:
            self._call(requests.Disconnect(), "MQDISC", unknown=True)
        finally:
            self._line.close()

    def abandon(self) -> None:
        """End the connection as if the application had died: the owner backs out the unit of work."""
        self._line.close()

    def _note_put(self, options: PutOption) -> None:
        if options & PutOption.SYNCPOINT:
            self.only_removes = False

    def _check_message(self, descriptor: object, body: object, verb: str, object_name: str) -> None:
        """Refuse a message that the server could not decode, or would receive with other bytes."""
        refusal = _why_not_sent(descriptor, body)
        if refusal is not None:
            raise error_for(refusal[0], verb, object_name, self.queue_manager_name, refusal[1])

    def _number(self, handle: object) -> int:
        if isinstance(handle, ServedHandle | ServedSubscription) and handle.connection is self:
            return handle.number
        return requests.NO_HANDLE

    def _opened(self, opened: requests.Opened) -> ServedHandle:
        return ServedHandle(
            self,
            opened.handle,
            opened.name,
            OpenOption(opened.options),
            opened.resolved_queue,
            resolved_queue_manager=opened.resolved_queue_manager,
        )

    def _context(self, handle: object) -> int | None:
        return None if handle is None else self._number(handle)


def _why_not_sent(descriptor: object, body: object) -> tuple[Reason, str] | None:
    """Return the reason and the detail of the refusal of a message that is not sent; None if it can be sent."""
    if not isinstance(body, bytes):
        return Reason.BUFFER_ERROR, f"A body is bytes, not {type(body).__name__}"
    problem = type_problem(descriptor)
    return (Reason.MD_ERROR, problem) if problem else None


def _durable(descriptor: MessageDescriptor, options: PutOption) -> bool:
    """Return whether a put without a reply may be durable."""
    return not options & PutOption.SYNCPOINT and descriptor.persistence != Persistence.NOT_PERSISTENT


def _name_of(handle: object) -> str:
    return handle.name if isinstance(handle, ServedHandle | ServedSubscription) else ""
