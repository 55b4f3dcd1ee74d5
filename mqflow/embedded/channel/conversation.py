"""One conversation of a client program: its log-in, its connection, and the replies to its flows.

A conversation calls the same verbs as all other clients of a served queue manager (`verb_calls`). If the listener does not
serve a verb, the client gets an error with the verb's name. This module knows flows and requests, but no socket and no MQ rule.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, Protocol

from msgspec.structs import asdict, replace

from mqflow.embedded.channel.consumption import Outcome, Waits, ends_at
from mqflow.embedded.channel.puts import UnansweredPuts, delayed, put_message
from mqflow.embedded.rules.get_plan import at_once
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.server.contract import ServableConnection
from mqflow.embedded.wire.server.verb_calls import VerbCalls
from mqflow.fap import calls
from mqflow.fap.async_messages import MessageRequest, Notice, Notification, RequestFlag, Selection, async_message, notification
from mqflow.fap.connection_flows import Credentials
from mqflow.fap.fields import FlowError, Reader
from mqflow.fap.spi import SpiCall, SpiOpen, SpiOpenOption, SpiPut, SpiSubscribe, SpiVerb, query_answer, reserve_answer
from mqflow.fap.structures import ObjectFields
from mqflow.fap.transmission_segments import Flag, Flow, Header, SegmentType, kind_name
from mqflow.mqi.attributes.queue import QUEUE_ATTRIBUTES
from mqflow.mqi.descriptor import MQMD1_BYTES, MQMD2_BYTES
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import GetOption, MatchOption, OpenOption, Persistence, PutOption, SubscribeOption
from mqflow.mqi.reason_codes import CompletionCode, Reason
from mqflow.policy.delivery_delay import ClockReading
from mqflow.verbs import WAIT_UNLIMITED, GetOptions, Got

__all__ = ("Conversation", "Line")

_TEXT_LENGTHS: Final = {spec.selector: spec.chars for spec in QUEUE_ATTRIBUTES if spec.chars}
_NO_SELECTION: Final = Selection()
_CLOSED: Final = -1
# The client makes further identifiers from a reserved identifier by counting up this byte. _RESERVED is their number. If the
# byte before it were not 0, the client would refuse many large reservations (2195).
_COUNTED_BYTE: Final = 20
_RESERVED: Final = 250
# MQIA_DEF_PERSISTENCE, MQIA_DEF_PUT_RESPONSE_TYPE.
_NO_DEFAULTS: Final = calls.OpenDefaults(Persistence.AS_Q_DEF)
# The return value for an XA call, which is not served. Its place in the reply is that of the completion code of other verbs.
_XAER_RMERR: Final = -3
# MQSR_ACTION_PUBLICATION.
_PUBLICATION: Final = 1
# The request number of messages and notices that the listener sends without a request.
_PUSHED: Final = 1
_CONNECTION_ID_BYTES: Final = 24
# From a queue with GET(DISABLED): the seconds between two gets for a listener, and the seconds before a notice.
_INHIBITED_S: Final = 1.0
_NOTICE_S: Final = 0.25
_TOO_LONG: Final = frozenset({Reason.TRUNCATED_MSG_FAILED})


class Line(Protocol):
    """The operations of a socket that its conversations use."""

    def send(self, flow: Flow) -> None:
        """Send a flow."""

    def send_segments(self, segments: Iterable[bytes]) -> None:
        """Send the segments of a flow."""

    @property
    def segment_bytes_max(self) -> int:
        """The longest segment that both ends have agreed on."""
        ...

    @property
    def message_bytes_max(self) -> int:
        """The longest message that the channel accepts."""
        ...

    def connect(self, given: Credentials | None, asked: calls.Connect) -> ServableConnection:
        """Return a new connection for this user. Raises `MQIError` if the user or the queue manager name is refused."""
        ...

    def disconnected(self) -> None:
        """Release the place of an ended connection that `connect` has returned."""

    def now(self) -> float:
        """Return the time of the monotonic clock in seconds."""
        ...

    def moment(self) -> ClockReading:
        """Return the present time of the wall clock and the monotonic clock, as the start of a delivery delay."""
        ...

    def reserved_identifier(self) -> bytes:
        """Return 24 bytes that no other call returns. The last five bytes are 0."""
        ...

    def wake(self) -> None:
        """Make the socket's thread call `progress`. Any thread can call this."""

    def complain(self, sentence: str) -> None:
        """Log the sentence, unless the listener has already logged it."""


class _Consumer:
    """A handle whose messages the queue manager sends without a get, as far as the client has requested them."""

    def __init__(self, header: Header) -> None:
        #: The header of the flows that the listener sends to this handle without a request.
        self.header: Final = replace(header, request=_PUSHED)
        self.selection = _NO_SELECTION
        self.sent = 0
        self.request: MessageRequest | None = None
        #: The number of bytes that the client has requested and not received yet.
        self.credit = 0
        #: The number of the last message of the handle, counted on the connection; and the bytes that the client has not yet
        #: confirmed.
        self.last_number = self.unconfirmed_bytes = 0
        #: The time of the next get while gets from the queue are inhibited; otherwise None.
        self.inhibited_until: float | None = None
        #: The request whose first get was refused with 2016.
        self._refused: MessageRequest | None = None

    def has_under_way(self, request: MessageRequest) -> bool:
        """Record the bytes that the client confirms. Return whether it has not received the last message yet."""
        self.unconfirmed_bytes = max(0, self.unconfirmed_bytes - request.received_bytes)
        return self.unconfirmed_bytes > 0 and request.message_index < self.last_number

    def waits_while_inhibited(self, request: MessageRequest) -> float:
        """Return the seconds until the next get for a request, after a get was refused with 2016; 0 to send the notice now.

        A listener gets no notice, because IBM's client then asks for nothing more, also when gets are allowed again. A client
        that waits gets its notice after a moment. IBM's client can miss a notice that comes at once, and then waits for ever.
        """
        if request.stands:
            return _INHIBITED_S
        first, self._refused = self._refused is not request, request
        return _NOTICE_S if first and not request.flags & RequestFlag.CHECK else 0.0


class Conversation:
    """One conversation. Only the thread of its socket calls the methods; other threads wake that thread with `Line.wake`."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self.credentials: Credentials | None = None
        self._verbs: VerbCalls | None = None
        self._waits: Waits | None = None
        self._consumers: dict[int, _Consumer] = {}
        self._sent = 0
        self._unanswered = UnansweredPuts()
        #: True if the client has stopped its callbacks.
        self._stopped = False

    @property
    def connected(self) -> bool:
        """True if MQCONN has succeeded and the connection has not ended."""
        return self._verbs is not None

    def abandon(self) -> None:
        """End the connection as if the program had died: back out its unit of work."""
        verbs, waits = self._forget()
        if waits is not None:
            waits.clear()
        if verbs is not None:
            verbs.connection.abandon()
            self._line.disconnected()

    @property
    def waiting(self) -> bool:
        """True if a get waits, or a handle waits for messages to send."""
        return self._waits is not None and bool(self._waits)

    def next_end(self) -> float | None:
        """Return the time by which `progress` must run; None if no wait has an end and no queue is inhibited."""
        ends = [None if self._waits is None else self._waits.next_end()]
        ends += [consumer.inhibited_until for consumer in self._consumers.values()]
        return min((end for end in ends if end is not None), default=None)

    def progress(self) -> None:
        """Answer every waiting get that has a message or an error, or whose time is over."""
        if self._waits is None:
            return
        now = self._line.now()
        for consumer in self._consumers.values():
            if consumer.request is not None and consumer.inhibited_until is not None and now >= consumer.inhibited_until:
                self._next(consumer, consumer.request)
        self._waits.progress(now)

    def receive(self, flow: Flow) -> None:
        """Answer a verb or a request for messages. Raises `FlowError` if the flow is malformed."""
        if flow.header.kind == SegmentType.REQUEST_MESSAGES:
            self._request(flow)
            return
        if flow.header.kind == SegmentType.NOTIFICATION:
            self._notified(flow)
            return
        call = calls.VerbRequest.of(flow)
        try:
            answered = self._perform(call)
        except MQIError as error:
            # A client also reads the structures in the reply to a refused call, so they go back unchanged.
            answered = calls.reply(
                call, call.body, completion=int(error.completion), reason=int(error.reason), handle=call.handle
            )
        if answered is not None:
            self._line.send(answered)

    def _connection(self, call: calls.VerbRequest) -> VerbCalls:
        if self._verbs is None:
            raise error_for(Reason.HCONN_ERROR, kind_name(call.header.kind))
        return self._verbs

    def _perform(self, call: calls.VerbRequest) -> Flow | None:  # noqa: C901, PLR0911, PLR0912 - one case for each verb
        match call.header.kind:
            case SegmentType.MQCONN:
                return self._connect(call)
            case SegmentType.MQDISC:
                return self._disconnect(call)
            case SegmentType.MQOPEN:
                return self._open(call)
            case SegmentType.MQCLOSE:
                return self._close(call)
            case SegmentType.MQPUT | SegmentType.MQPUT1:
                return self._put(call)
            case SegmentType.MQGET:
                return self._get(call)
            case SegmentType.MQINQ:
                return self._inquire(call)
            case SegmentType.MQSET:
                values = calls.SetCall.read(call.reader(), _TEXT_LENGTHS).values
                self._connection(call).perform(requests.Set(call.handle, values))
                return calls.reply(call, call.body, handle=call.handle)
            case SegmentType.MQCMIT:
                return self._commit(call)
            case SegmentType.MQBACK:
                self._connection(call).perform(requests.Backout())
                self._unanswered.forget_unit()
                return calls.reply(call)
            case SegmentType.SPI:
                return self._spi(call)
            case SegmentType.MQSUB:
                return self._subscribe(call, calls.SubscribeCall.read(call.reader()))
            case SegmentType.MQSTAT:
                return self._status(call)
            case SegmentType.MQSUBRQ:
                return self._request_publications(call)
            case kind if SegmentType.XA_START <= kind <= SegmentType.XA_COMPLETE:
                self._not_served(kind_name(kind))
                return calls.reply(call, call.body, completion=_XAER_RMERR, handle=call.handle)
            case kind:
                raise self._not_served(kind_name(kind))

    def _not_served(self, name: str) -> MQIError:
        self._line.complain(f"A client program called {name}, which the listener for MQ's clients does not serve (2298).")
        return error_for(Reason.FUNCTION_NOT_SUPPORTED, name)

    def _connect(self, call: calls.VerbRequest) -> Flow:
        if self._verbs is not None:
            raise error_for(Reason.ALREADY_CONNECTED, "MQCONN")
        reader = call.reader()
        asked = calls.Connect.read(reader)
        connection = self._line.connect(self.credentials, asked)
        self._verbs = VerbCalls(connection)
        self._waits = Waits(connection, self._line.wake)
        name = connection.queue_manager_name
        identifier = b"AMQC" + name.encode("latin-1", "replace")[:12].ljust(12)
        return calls.reply(call, asked.answer(call.writer(), reader, name, identifier.ljust(_CONNECTION_ID_BYTES, b"\0")))

    def _forget(self) -> tuple[VerbCalls | None, Waits | None]:
        left = self._verbs, self._waits
        self._verbs, self._waits = None, None
        self._consumers.clear()
        return left

    def _disconnect(self, call: calls.VerbRequest) -> Flow:
        verbs = self._connection(call)
        failed = self._unanswered.failed_in_unit
        try:
            if failed:  # MQDISC would commit the rest of the unit of work
                verbs.perform(requests.Backout())
            verbs.perform(requests.Disconnect())
        finally:  # a refused MQDISC ends the connection too
            self._unanswered.forget_unit()
            self.abandon()
        if failed:
            return calls.reply(call, completion=int(CompletionCode.WARNING), reason=int(Reason.BACKED_OUT))
        return calls.reply(call)

    def _opened(
        self, verbs: VerbCalls, fields: ObjectFields, options: int
    ) -> tuple[requests.Opened, ObjectFields, calls.OpenDefaults]:
        """Open the object. Return the result, the MQOD for the reply, and the defaults of the queue."""
        target = fields.descriptor
        opened = verbs.perform(requests.Open(**asdict(target), options=options))
        if not isinstance(opened, requests.Opened):
            raise FlowError("an open has an answer")
        answered = replace(
            fields,
            descriptor=replace(target, name=opened.name or target.name, selection=""),
            resolved_queue=opened.resolved_queue,
            resolved_queue_manager=opened.resolved_queue_manager or verbs.connection.queue_manager_name,
        )
        defaults = verbs.connection.put_defaults(verbs.handle(opened.handle))
        return opened, answered, _NO_DEFAULTS if defaults is None else calls.OpenDefaults(*defaults)

    def _open(self, call: calls.VerbRequest) -> Flow:
        verbs = self._connection(call)
        asked = calls.OpenCall.read(call.reader())
        opened, fields, defaults = self._opened(verbs, asked.fields, asked.options)
        return calls.reply(call, asked.answer(call.writer(), fields, defaults), handle=opened.handle)

    def _close(self, call: calls.VerbRequest) -> Flow:
        verbs = self._connection(call)
        options = call.reader().number()
        if self._waits is not None:
            self._waits.cancel(call.handle)
        self._consumers.pop(call.handle, None)
        try:
            verbs.perform(requests.Close(call.handle, options))
        except MQIError as error:
            if error.completion is not CompletionCode.WARNING:
                raise
            return calls.reply(call, completion=int(error.completion), reason=int(error.reason), handle=_CLOSED)
        return calls.reply(call, handle=_CLOSED)

    def _put(self, call: calls.VerbRequest) -> Flow | None:
        verbs = self._connection(call)
        asked = calls.PutCall.read(call.reader(), one=call.header.kind == SegmentType.MQPUT1)
        if asked.put.options & PutOption.ASYNC_RESPONSE:
            self._unanswered.put(verbs, call.handle, asked, self._line.message_bytes_max)
            return None
        done = put_message(
            verbs, call.handle, asked.fields, asked.put, asked.descriptor, asked.body, self._line.message_bytes_max
        )
        body = asked.answer(call.writer(), done, verbs.connection.queue_manager_name)
        return _succeeded(call, body, done.reason, call.handle)

    def _commit(self, call: calls.VerbRequest) -> Flow:
        verbs = self._connection(call)
        self._unanswered.check(verbs)
        verbs.perform(requests.Commit())
        return calls.reply(call)

    def _status(self, call: calls.VerbRequest) -> Flow:
        verbs = self._connection(call)
        asked = calls.StatusCall.read(call.reader())
        puts = self._unanswered.taken(asked.kind)
        return calls.reply(call, asked.answer(call.writer(), puts, verbs.connection.queue_manager_name), handle=call.handle)

    def _inquire(self, call: calls.VerbRequest) -> Flow:
        asked = calls.InquireCall.read(call.reader())
        verbs = self._connection(call)
        answered = verbs.connection.inquire(verbs.handle(call.handle), asked.selectors)
        return _succeeded(call, asked.answer(call.writer(), answered.values), answered.reason, call.handle)

    def _spi(self, call: calls.VerbRequest) -> Flow:
        verbs = self._connection(call)
        reader = call.reader()
        front = SpiCall.read(reader)
        if front.verb == SpiVerb.QUERY:
            return calls.reply(call, query_answer(front, call.writer()))
        if front.verb == SpiVerb.OPEN:
            asked = SpiOpen.read(front, reader)
            saves = OpenOption.SAVE_ALL_CONTEXT if asked.spi_options & SpiOpenOption.SAVE_CONTEXT else 0
            opened, fields, defaults = self._opened(verbs, asked.fields, asked.options | saves)
            return calls.reply(call, asked.answer(call.writer(), fields, defaults), handle=opened.handle)
        if front.verb == SpiVerb.RESERVE:
            reserved = self._line.reserved_identifier()
            return calls.reply(call, reserve_answer(front, call.writer(), reserved, _COUNTED_BYTE, _RESERVED))
        if front.verb == SpiVerb.PUT:
            return self._put_by_spi(call, SpiPut.read(front, reader))
        if front.verb == SpiVerb.SUBSCRIBE:
            return self._subscribe(call, SpiSubscribe.read(front, reader))
        known = front.verb in set(SpiVerb)
        # The client chooses this number. The sentence leaves it out, because the listener keeps each different sentence.
        raise self._not_served(f"the SPI verb {SpiVerb(front.verb).name}" if known else "an unknown SPI verb")

    def _put_by_spi(self, call: calls.VerbRequest, asked: SpiPut) -> Flow:
        verbs = self._connection(call)
        if asked.options:
            raise self._not_served("the SPI verb PUT with options")
        descriptor, body = delayed(asked.descriptor, asked.body, self._line.moment())
        bytes_max = self._line.message_bytes_max + len(body) - len(asked.body)  # MAXMSGL does not count the staging header
        done = put_message(verbs, call.handle, None, asked.put, descriptor, body, bytes_max)
        content = asked.answer(call.writer(), done, verbs.connection.queue_manager_name)
        return _succeeded(call, content, done.reason, call.handle)

    def _subscribe(self, call: calls.VerbRequest, asked: SpiSubscribe | calls.SubscribeCall) -> Flow:
        verbs, wanted = self._connection(call), asked.fields.descriptor
        if isinstance(asked, SpiSubscribe):
            wanted = replace(wanted, shared=asked.shared)
        made = verbs.perform(requests.Subscribe(wanted, None if wanted.options & SubscribeOption.MANAGED else call.handle))
        if not isinstance(made, requests.Subscribed):
            raise FlowError("a subscribe has an answer")
        if isinstance(asked, SpiSubscribe):
            queue, manager = made.queue.resolved_queue, verbs.connection.queue_manager_name
            body = asked.answer(call.writer(), made.handle, queue, manager, made.descriptor)
        else:
            body = asked.answer(call.writer(), made.handle, made.descriptor)
        return _succeeded(call, body, made.reason, made.queue.handle)

    def _request_publications(self, call: calls.VerbRequest) -> Flow:
        verbs = self._connection(call)
        asked = calls.SubscriptionRequestCall.read(call.reader())
        if asked.action != _PUBLICATION:
            detail = f"Action {asked.action}; 1 (MQSR_ACTION_PUBLICATION) is known"
            raise error_for(Reason.ACTION_ERROR, "MQSUBRQ", detail=detail)
        count = verbs.perform(requests.RequestPublications(call.handle, asked.options))
        if not isinstance(count, int):
            raise FlowError("a request for publications has an answer")
        return calls.reply(call, asked.answer(call.writer(), count), handle=call.handle)

    # -- gets

    def _get(self, call: calls.VerbRequest) -> Flow | None:
        self._connection(call)
        asked = calls.GetCall.read(call.reader())
        options = _get_options(
            asked.get.options,
            Selection(
                descriptor_version=asked.descriptor_version,
                ccsid=asked.descriptor.ccsid,
                encoding=asked.descriptor.encoding,
                sequence_number=asked.descriptor.sequence_number,
                offset=asked.descriptor.offset,
                match=asked.get.match,
                message_id=asked.descriptor.message_id,
                correlation_id=asked.descriptor.correlation_id,
                group_id=asked.descriptor.group_id,
                message_token=asked.get.message_token,
            ),
            asked.bytes_max,
            min(asked.get.wait_ms, 0),  # from 0 on no wait is refused, so all of them have one record
        )
        waits = asked.get.options & GetOption.WAIT

        def done(outcome: Outcome) -> None:
            body, got, error = asked.answer(call.writer(), outcome.got), outcome.got, outcome.error
            if error is not None:
                reason, completion = int(error.reason), int(error.completion)
            elif got is None and asked.get.options & GetOption.UNLOCK:  # the browse lock is released; the reply has no message
                reason, completion = int(Reason.NONE), int(CompletionCode.OK)
            elif got is None:
                reason, completion = int(Reason.NO_MSG_AVAILABLE), int(CompletionCode.FAILED)
            else:
                reason, completion = got.reason, int(_completion(got))
            self._line.send(calls.reply(call, body, completion=completion, reason=reason, handle=call.handle))

        self._begin(call.handle, options, asked.get.wait_ms if waits else 0, done)
        self.progress()
        return None

    def _begin(self, handle: int, options: GetOptions, wait_ms: int, done: Callable[[Outcome], None]) -> None:
        if self._verbs is not None and self._waits is not None:
            self._waits.begin(handle, self._verbs.handle(handle), options, ends_at(wait_ms, self._line.now()), done)

    def _request(self, flow: Flow) -> None:
        """Send messages of a handle, up to the requested number of bytes. Confirm the request if its flag asks for this."""
        request = MessageRequest.read(Reader(flow.body, flow.header.order, "a request for messages"))
        if self._verbs is None:
            raise FlowError("a request for messages came without a connection")
        consumer = self._consumers.get(request.handle) or _Consumer(flow.header)
        if self._verbs.has(request.handle):  # otherwise the get answers with 2019
            self._consumers[request.handle] = consumer
        consumer.request = request
        consumer.credit = request.wanted_bytes
        if request.selection is not None:
            consumer.selection = request.selection
        under_way = consumer.has_under_way(request)
        if under_way and request.flags & RequestFlag.CHECK and self._waits is not None:
            # The client wants one message, and would lose a second one, which the next commit removes from the queue.
            self._waits.cancel(request.handle)
        else:
            self._next(consumer, request)
        self.progress()
        if flow.header.flags & Flag.CONFIRM:
            self._line.send(notification(flow.header, request.handle, Notice.CHECK_MESSAGE))

    def _next(self, consumer: _Consumer, request: MessageRequest) -> None:
        """Begin a wait for the next message of a handle, unless the client has stopped its callbacks."""
        consumer.inhibited_until = None
        if self._stopped and request.stands:
            return
        options = _get_options(request.options, consumer.selection, None, min(request.wait_ms, 0))
        if request.stands:
            wait_ms = WAIT_UNLIMITED
        elif request.flags & RequestFlag.CHECK:
            wait_ms = 0
        else:
            wait_ms = request.wait_ms
        self._begin(request.handle, options, wait_ms, lambda outcome: self._deliver(consumer, request, outcome))

    def _deliver(self, consumer: _Consumer, request: MessageRequest, outcome: Outcome) -> None:
        got, error = outcome.got, outcome.error
        if got is None and error is None:
            if not request.flags & RequestFlag.CHECK:
                self._line.send(notification(consumer.header, request.handle, Notice.CHECK_MESSAGE))
            return
        if got is None:
            reason = Reason.UNEXPECTED_ERROR if error is None else int(error.reason)
            if reason == Reason.GET_INHIBITED and (wait_s := consumer.waits_while_inhibited(request)):
                consumer.inhibited_until = self._line.now() + wait_s
                return
            notice = _NOTICES.get(reason, Notice.STREAMING_FAILURE)
            self._line.send(notification(consumer.header, request.handle, notice, reason))
            return
        consumer.sent += 1
        self._sent += 1
        segments = async_message(
            consumer.header,
            request.handle,
            got,
            number=consumer.sent,
            connection_number=self._sent,
            selection=consumer.selection,
            segment_bytes_max=self._line.segment_bytes_max,
        )
        self._line.send_segments(segments)
        # The client's `received_bytes` include the descriptor, so an empty message uses credit too.
        sent_bytes = (MQMD1_BYTES if consumer.selection.descriptor_version == 1 else MQMD2_BYTES) + len(got.body)
        consumer.credit -= sent_bytes
        consumer.unconfirmed_bytes += sent_bytes
        consumer.last_number = self._sent
        if consumer.credit > 0:
            self._next(consumer, request)

    def _notified(self, flow: Flow) -> None:
        """Process a notification of the client. The notification can start or stop the messages for the client's callbacks."""
        given = Notification.read(Reader(flow.body, flow.header.order, "a notification"))
        replied = _REPLIES.get(given.notice)
        if given.notice == Notice.CONNECTION_STATE:
            self._stopped = given.value == _CONNECTION_STOPPED
            for number, consumer in self._consumers.items():
                request = consumer.request
                if request is None or not request.stands:
                    continue
                if self._stopped and self._waits is not None:
                    self._waits.cancel(number)
                elif consumer.credit > 0:
                    self._next(consumer, request)
            self.progress()
        if replied is not None and flow.header.flags & Flag.CONFIRM:
            self._line.send(notification(flow.header, given.handle, replied, given.value))


# The value of CONNECTION_STATE that a client sends when it stops its callbacks.
_CONNECTION_STOPPED: Final = 3
_NOTICES: Final = {int(Reason.GET_INHIBITED): Notice.GET_INHIBITED, int(Reason.Q_MGR_QUIESCING): Notice.QUEUE_MANAGER_QUIESCING}
_REPLIES: Final[dict[int, Notice]] = {
    Notice.CONNECTION_STATE: Notice.CONNECTION_STATE_REPLY,
    Notice.QUEUE_STATE: Notice.QUEUE_STATE_REPLY,
    Notice.TRANSACTION_REVOKE: Notice.TRANSACTION_REVOKE_REPLY,
}


def _succeeded(call: calls.VerbRequest, body: bytes, reason: int, handle: int) -> Flow:
    """Return the reply to a call that succeeded, with a warning if there is a reason."""
    completion = CompletionCode.WARNING if reason else CompletionCode.OK
    return calls.reply(call, body, completion=int(completion), reason=reason, handle=handle)


def _completion(got: Got) -> CompletionCode:
    if not got.reason:
        return CompletionCode.OK
    return CompletionCode.FAILED if got.reason in _TOO_LONG else CompletionCode.WARNING


@lru_cache(maxsize=256)
def _get_options(options: int, selection: Selection, bytes_max: int | None, wait_ms: int = 0) -> GetOptions:
    """Return the options of a get without a wait. Equal arguments give the same record, so the get is planned only once.

    If a queue manager refuses the wait, the options keep it, so that the get raises the error.
    """
    asked = GetOptions(
        options=GetOption(options),
        wait_ms=wait_ms,
        match=MatchOption(selection.match),
        message_id=selection.message_id,
        correlation_id=selection.correlation_id,
        group_id=selection.group_id,
        sequence_number=selection.sequence_number,
        offset=selection.offset,
        message_token=selection.message_token,
        buffer_bytes_max=bytes_max,
        ccsid=selection.ccsid,
        encoding=selection.encoding,
    )
    return at_once(asked)
