"""The listener's end of one client program's socket: the negotiation and the conversations, on one thread.

If the program ends, closes the socket or stays silent for too long, its units of work are backed out. Bytes that are no flow
end the socket. This module knows flows, but no verb.
"""

import contextlib
import socket
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import Final

from mqflow.embedded.channel.admission import ChannelRules, ServableToClients, offer_of
from mqflow.embedded.channel.conversation import Conversation
from mqflow.embedded.rules.channel_instances import ChannelSettings, ChannelStatus, NoChannel, why_not_secure
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.frames import time_limit
from mqflow.embedded.wire.protocol.streams import Stream, TlsStream
from mqflow.embedded.wire.server.contract import Arrival, ServableConnection
from mqflow.embedded.wire.server.login import Login
from mqflow.fap import calls
from mqflow.fap.connection_flows import Credentials, SocketAction, SocketActionType, Status, StatusCode, heartbeat
from mqflow.fap.fields import FlowError, Reader
from mqflow.fap.negotiation import InitialData, Offer, answer
from mqflow.fap.transmission_segments import (
    FLOW_BYTES_MAX,
    ONLY,
    Flag,
    Flow,
    Flows,
    Header,
    SegmentType,
    kind_name,
    segments_of,
)
from mqflow.mqi.ccsid import is_ebcdic
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import ApplicationType
from mqflow.mqi.reason_codes import Reason, reason_name
from mqflow.policy.delivery_delay import ClockReading
from mqflow.world import Clock, Random

__all__ = ("ChannelPeer", "Tap", "send_whole")

Tap = Callable[[bool, bytes], None]
"""A function that receives all bytes of a client, with True for bytes from the client and False for bytes to the client."""

_RECEIVE_BYTES: Final = 256 * 1024
_STRANGER_BYTES_MAX: Final = 64 * 1024
_SEND_S: Final = 30.0
_OF_CONVERSATIONS: Final = frozenset(
    int(kind)
    for kind in SegmentType
    if kind >= SegmentType.MQCONN or kind in {SegmentType.REQUEST_MESSAGES, SegmentType.NOTIFICATION}
)
_PUTS: Final = frozenset({SegmentType.MQPUT, SegmentType.MQPUT1})
_RUNNING, _STOPPING = 3, 4
# The JMS classes send a name such as "*GROUP" as it is: the program accepts any queue manager that answers.
_ANY_QUEUE_MANAGER: Final = "*"
_HEARTBEAT_S_MAX: Final = 999_999
#: The types that a client program can have. It cannot name itself a queue manager or a channel.
_PROGRAMS: Final = frozenset({
    ApplicationType.UNIX, ApplicationType.OS400, ApplicationType.WINDOWS, ApplicationType.WINDOWS_NT, ApplicationType.USER,
    ApplicationType.JAVA,
})  # fmt: skip
_ALONE: Final = 0
"""The number of the only conversation on a socket that is not shared."""


class _SilenceError(Exception):
    """The program has sent nothing for too long, not even a heartbeat."""


class ChannelPeer:
    """The listener's end of one socket."""

    is_pulse = False
    is_checked: bool = False

    def __init__(
        self, queue_manager: ServableToClients, arrival: Arrival, login: Login, offer: Offer, tap: Tap | None, random: Random
    ) -> None:
        self._queue_manager = queue_manager
        self._arrival = arrival
        self._raw = arrival.raw
        self._stream: Stream = arrival.raw
        self._login = login
        self._offer = offer
        self._once = arrival.complain_once
        self._tap = tap
        self._random = random
        self._rules: Final = ChannelRules(queue_manager, login, arrival.complain)
        self._address: Final = _address_of(arrival.raw)
        #: The channel that the program asked for; None before its initial data.
        self._channel: ChannelSettings | None = None
        self._user = self._application = ""
        self._call_count = self._bytes_received = self._bytes_sent = self._segments_sent = 0
        #: The time when the last MQI call was completed, by the wall clock; None before the first call.
        self._last_call_s: float | None = None
        #: The time by which the program must log in; None after its log-in.
        self.unknown_until: float | None = arrival.clock.monotonic() + arrival.hello_s
        #: The places that this socket uses: one from its log-in to its end, and one for each further connection.
        self._places = 0
        self._connected = 0
        self._ending = False
        #: The time when the send of a flow began; None outside of a send.
        self._sending_since: float | None = None
        self._flows = Flows()
        self._flows.segment_bytes_max = self._flows.flow_bytes_max = _STRANGER_BYTES_MAX
        self._flows.conversations_max = 0
        self._conversations: dict[int, Conversation] = {}
        self._agreed: InitialData | None = None
        self._last_heard = arrival.clock.monotonic()
        #: True if bytes can have arrived that a wait for the socket does not show, because TLS has read them already.
        self._hides_bytes = False
        self._closed_by_client = False

    # -- the contract of a served peer

    def run(self) -> None:
        """Answer flows until the program ends the channel, dies, or sends bytes that are no flow."""
        try:
            self._raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, time_limit(_SEND_S))
            # The system notices a machine that has failed, even while its program waits in MQGET and sends no heartbeats.
            self._raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if not self._rules.lets_in(self._address):
                return
            self._stream = self._login.secured(self._raw)
            self._hides_bytes = isinstance(self._stream, TlsStream)
            while not self._ending and not self._closed_by_client and self._heard():
                pass
        except _SilenceError as error:
            self._arrival.complain(f"A client program at {self._address} {error}, so it counts as dead, and is disconnected.")
        except FlowError as error:
            self._arrival.complain(
                f"A peer at {self._address} sent bytes that MQ's clients do not send, and is disconnected: {error}."
            )
        except OSError:
            pass  # the program is gone and cannot receive an error
        finally:
            for conversation in self._conversations.values():
                conversation.abandon()
            self._queue_manager.channels.ended(self)
            self.let_go()
            self._arrival.over(self)

    def end(self) -> None:
        """Make `run` return. The listener still replies to the present call.

        A program that has not logged in gets no reply.
        """
        self._ending = True
        with contextlib.suppress(OSError):  # the stream has ended already
            self._raw.shutdown(socket.SHUT_RD if self.unknown_until is None else socket.SHUT_RDWR)

    def end_slow_send(self, began_before: float) -> None:
        """Break the socket off if the send of a flow that began before this time still runs. The program loses the flow."""
        since = self._sending_since
        if since is not None and since < began_before:
            with contextlib.suppress(OSError):  # the stream has ended already
                self._raw.shutdown(socket.SHUT_RDWR)

    def let_go(self) -> None:
        """Close the socket and the signal."""
        self._raw.close()
        self._arrival.arrived.close()

    # -- the contract of a running channel

    def status(self) -> ChannelStatus:
        """Return the status of the channel. Any thread can call this."""
        agreed = self._agreed
        return ChannelStatus(
            name="" if self._channel is None else self._channel.name,
            address=self._address,
            status=_STOPPING if self._ending else _RUNNING,
            mca_user=self._user,
            application=self._application,
            conversation_count=self._connected,
            conversations_max=0 if agreed is None else agreed.conversations_max,
            call_count=self._call_count,
            last_call_s=self._last_call_s,
            bytes_sent=self._bytes_sent,
            bytes_received=self._bytes_received,
            buffers_sent=self._segments_sent,
            buffers_received=self._flows.segment_count,
            heartbeat_s=0 if agreed is None else agreed.heartbeat_s,
        )

    # -- the line of the conversations

    @property
    def message_bytes_max(self) -> int:
        """The longest message that the channel accepts."""
        return self._offer.message_bytes_max if self._agreed is None else self._agreed.message_bytes_max

    @property
    def segment_bytes_max(self) -> int:
        """The longest segment that both ends have agreed on."""
        return self._offer.transmission_bytes_max if self._agreed is None else self._agreed.transmission_bytes_max

    def send(self, flow: Flow) -> None:
        """Send a flow. The reply to a verb completes an MQI call."""
        if flow.header.kind >= SegmentType.MQCONN:
            self._last_call_s = self._arrival.clock.wall()
        self.send_segments(segments_of(flow, self.segment_bytes_max))

    def send_segments(self, segments: Iterable[bytes]) -> None:
        """Send the segments of a flow."""
        self._sending_since = self.now()
        for segment in segments:
            self._send(segment)
        self._sending_since = None

    def connect(self, given: Credentials | None, asked: calls.Connect) -> ServableConnection:
        """Return a new connection for this user. Raises `MQIError` if the user or the queue manager name is refused."""
        with self._logs_refusals():
            self._check_name(asked.queue_manager)
        channel = self._channel or ChannelSettings(name="")
        self._check_secure(channel)
        user = self._user_of(given or Credentials("", ""), asked.application_name)
        user = self._rules.user_on(channel, self._address, user)
        with self._logs_refusals():
            connection = self._connected_as(user, channel, asked)
        self._connected += 1
        self.unknown_until = None
        self._flows.segment_bytes_max = self.segment_bytes_max
        self._flows.flow_bytes_max = FLOW_BYTES_MAX
        return connection

    @contextlib.contextmanager
    def _logs_refusals(self) -> Iterator[None]:
        """Log an `MQIError` of the block: the program itself gets only the reason code."""
        try:
            yield
        except MQIError as error:
            self._complain_of_refusal(int(error.reason), error.detail or reason_name(int(error.reason)))
            raise

    def _check_name(self, asked: str) -> None:
        if self._arrival.full is not None:
            raise self._arrival.full
        name = self._queue_manager.name
        if asked not in {"", name} and not asked.startswith(_ANY_QUEUE_MANAGER):
            detail = f"The queue manager served here is {name}"
            raise error_for(Reason.Q_MGR_NAME_ERROR, "MQCONN", queue_manager=asked, detail=detail)

    def _connected_as(self, user: str, channel: ChannelSettings, asked: calls.Connect) -> ServableConnection:
        """Take a place, and return a new connection for the user."""
        if not self._places:
            self._user, self._application = user, asked.application_name
            self._queue_manager.channels.begin(self, channel)
            try:
                self._arrival.admit(self, administers=False)
            except BaseException:
                self._queue_manager.channels.ended(self)
                raise
            self._places = 1
        elif self._connected == self._places:
            self._arrival.take_place()
            self._places += 1
        try:
            return self._queue_manager.connect(
                application_name=asked.application_name,
                application_type=asked.application_type if asked.application_type in _PROGRAMS else ApplicationType.UNIX,
                user=user,
                channel=channel.name,
                address=self._address,
            )
        except BaseException:
            self._give_places_back()
            raise

    def _check_secure(self, channel: ChannelSettings) -> None:
        stream = self._stream
        refused = why_not_secure(channel, stream.peer_names if isinstance(stream, TlsStream) else None)
        if refused is None:
            return
        reason, detail = refused
        self._complain_of_refusal(int(reason), detail)
        raise error_for(reason, "MQCONNX", channel.name, self._queue_manager.name, detail)

    def _complain_of_refusal(self, reason: int, detail: str) -> None:
        name = "" if self._channel is None else self._channel.name
        self._arrival.complain(f"Channel {name!r} refused a program at {self._address} ({reason}): {detail}.")

    def disconnected(self) -> None:
        """Release the place of an ended connection that `connect` has returned."""
        self._connected -= 1
        self._give_places_back()

    def _give_places_back(self) -> None:
        while self._places > max(1, self._connected):
            self._arrival.give_place_back()
            self._places -= 1

    def now(self) -> float:
        """Return the time of the monotonic clock in seconds."""
        return self._arrival.clock.monotonic()

    def moment(self) -> ClockReading:
        """Return the present time of the wall clock and the monotonic clock, as the start of a delivery delay."""
        clock = self._arrival.clock
        wall_ms, monotonic_ms = int(clock.wall() * 1_000), int(clock.monotonic() * 1_000)
        return ClockReading(wall_ms=wall_ms, monotonic_ms=monotonic_ms, epoch=clock.monotonic_epoch())

    def reserved_identifier(self) -> bytes:
        """Return 24 bytes that no other call returns. The last five bytes are 0."""
        drawn = b"".join(int(self._random.random() * 2**40).to_bytes(5) for _ in range(3))
        return b"AMQR" + drawn + bytes(5)

    def wake(self) -> None:
        """Make the socket's thread call `progress` of its conversations. Any thread can call this."""
        self._arrival.arrived.set()

    def complain(self, sentence: str) -> None:
        """Log the sentence, unless the listener has already logged it."""
        self._once(sentence)

    # -- the loop

    def _heard(self) -> bool:
        """Wait for bytes or for the end of a wait, then reply. Return False at the end of the stream.

        One call receives once, so a program that sends without a pause does not hold up the waits of its conversations.
        """
        silence_s, hidden = self._silence_s(), self._hides_bytes
        if (hidden or self._has_bytes(silence_s)) and not self._take_bytes():
            return False
        if hidden and not self._hides_bytes:
            return True  # no bytes were hidden, and the waits have been tried after the last bytes
        if self._waits_in_mqget():
            self._last_heard = self.now()
        for conversation in tuple(self._conversations.values()):
            conversation.progress()
        if self.now() >= self._last_heard + silence_s:
            raise _SilenceError(f"was silent for {silence_s:.0f} seconds")
        return True

    def _has_bytes(self, silence_s: float) -> bool:
        """Wait for bytes, for a signal, and until a conversation must go on or the program counts as dead."""
        now = self.now()
        ends = [end for each in self._conversations.values() if (end := each.next_end()) is not None]
        limit = min([*ends, self._last_heard + silence_s])
        waited = self._arrival.arrived.heard_beside(self._stream, max(0.0, limit - now))
        if waited.signalled:
            self._arrival.arrived.clear()
        return waited.readable

    def _waits_in_mqget(self) -> bool:
        """Return whether a program waits in MQGET on a socket that is not shared. Such a program sends no heartbeats."""
        shared = self._agreed is not None and self._agreed.conversations_max > 0
        return not shared and any(conversation.waiting for conversation in self._conversations.values())

    def _silence_s(self) -> float:
        """Return the seconds of silence after which the program counts as dead. A living program sends regular heartbeats."""
        interval_s = self._offer.heartbeat_s if self._agreed is None else self._agreed.heartbeat_s
        return 2.0 * (interval_s or _HEARTBEAT_S_MAX) + 60.0  # an interval of 0 means no heartbeats

    def _take_bytes(self) -> bool:
        """Receive bytes that have arrived, and reply to their flows. Return False at the end of the stream."""
        try:
            data = self._stream.recv(_RECEIVE_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            self._hides_bytes = False
            return True
        if not data:
            return False
        self._hides_bytes = isinstance(self._stream, TlsStream)
        self._last_heard = self.now()
        self._bytes_received += len(data)
        if self._tap is not None:
            self._tap(True, data)
        for flow in takewhile(lambda _: not self._ending, self._flows.feed(data)):
            self._receive(flow)
        return True

    def _receive(self, flow: Flow) -> None:
        header = flow.header
        reader = Reader(flow.body, header.order, kind_name(header.kind))
        match header.kind:
            case SegmentType.INITIAL_DATA:
                self._negotiate(header, InitialData.read(reader))
            case SegmentType.USER_DATA:
                given = Credentials.of_user_data(reader)
                if given.password:
                    self._conversation(header).credentials = given
            case SegmentType.CONNECTION_AUTHENTICATION:
                self._authenticate(header, Credentials.of_authentication(reader))
            case SegmentType.SOCKET_ACTION:
                self._act(header, SocketAction.read(reader))
            case SegmentType.HEARTBEAT:
                if self._agreed is None:
                    raise FlowError("a heartbeat came before both ends agreed")
                self.send(heartbeat(header))
            case SegmentType.STATUS:
                self._closed_by_client = bool(header.flags & (Flag.CLOSE | Flag.REQUEST_CLOSE))
            case kind if kind in _OF_CONVERSATIONS:
                self._converse(flow)
            case kind:
                self._once(f"A client program sent {kind_name(kind)}, which the listener for MQ's clients does not serve.")
                self._refuse(header, StatusCode.PROTOCOL_SEGMENT_TYPE)

    def _converse(self, flow: Flow) -> None:
        kind = flow.header.kind
        self._call_count += kind >= SegmentType.MQCONN
        self._conversation(flow.header).receive(flow)
        if kind in _PUTS:  # a put can have no reply
            self._last_call_s = self._arrival.clock.wall()

    def _negotiate(self, header: Header, client: InitialData) -> None:
        if is_ebcdic(client.ccsid):
            self._once(f"A client program has the character set {client.ccsid}, which the listener does not serve.")
            self._refuse(header, StatusCode.CCSID_NOT_SUPPORTED)
            return
        if self._places:
            raise FlowError("initial data came after MQCONN")
        channel = self._rules.channel_of(client.channel)
        if isinstance(channel, NoChannel):
            kind = "is no server-connection channel" if channel.other_type else "is not defined"
            self._arrival.complain(
                f"A client program at {self._address} asked for channel {channel.name!r}, which {kind} (2540)."
            )
            self._refuse(header, StatusCode.WRONG_CHANNEL_TYPE if channel.other_type else StatusCode.NO_CHANNEL)
            return
        self._channel = channel
        answered, agreed = answer(client, offer_of(channel, self._offer))
        sent = Header(
            kind=SegmentType.INITIAL_DATA,
            flags=ONLY if agreed else ONLY | Flag.ERROR,
            conversation=header.conversation,
            request=header.request,
            order=header.order,
        )
        self.send(Flow(sent, answered.to_bytes(header.order)))
        if agreed:
            self._agreed = answered
            self._flows.conversations_max = max(1, answered.conversations_max)

    def _conversation(self, header: Header) -> Conversation:
        """Return the conversation with the header's number. The first flow with a new number begins a conversation."""
        number = _ALONE if header.conversation is None else header.conversation
        known = self._conversations.get(number)
        if known is None:
            if self._agreed is None:
                raise FlowError(f"{kind_name(header.kind)} came before both ends agreed")
            if len(self._conversations) >= self._flows.conversations_max:
                raise FlowError(f"it began more than {self._flows.conversations_max} conversations")
            known = self._conversations[number] = Conversation(self)
        return known

    def _authenticate(self, header: Header, given: Credentials) -> None:
        """Keep user and password for MQCONN, and send the status for which the client waits.

        MQCONN checks the password, because only its reply can contain the reason of a refusal.
        """
        self._conversation(header).credentials = given
        self.send(Status(StatusCode.NONE).flow(header, ONLY))

    def _user_of(self, given: Credentials, application_name: str) -> str:
        hello = requests.Hello(
            requests.PROTOCOL_VERSION, self._queue_manager.name, application_name, given.user, given.password
        )
        self.is_checked = True
        try:
            return self._login.user_of(hello, self._queue_manager.owner, self._address, self._stream)
        finally:
            self.is_checked = False

    def _act(self, header: Header, action: SocketAction) -> None:
        if action.kind == SocketActionType.START:
            self._conversation(Header(kind=header.kind, conversation=action.conversation, order=header.order))
            self.send(action.started(header))
        elif action.kind == SocketActionType.END:
            ended = self._conversations.pop(action.conversation, None)
            if ended is not None:
                ended.abandon()
            self._closed_by_client = bool(header.flags & Flag.CLOSE)
        else:
            # The client chooses this number. The sentence leaves it out, because the listener keeps each different sentence.
            self._once("A client program sent a socket action that the listener does not serve.")

    def _refuse(self, header: Header, code: StatusCode) -> None:
        """Send the client a status code as the reason, and end the channel."""
        self.send(Status(code).flow(header, ONLY | Flag.ERROR | Flag.CLOSE))
        self._closed_by_client = True

    def _send(self, data: bytes) -> None:
        if self._tap is not None:
            self._tap(False, data)
        self._bytes_sent += len(data)
        self._segments_sent += 1
        send_whole(self._stream.send, data, _SEND_S, self._arrival.clock)


def _address_of(raw: socket.socket) -> str:
    try:
        address = raw.getpeername()
    except OSError:  # the peer has already gone
        return "an unknown address"
    return str(address[0]) if isinstance(address, tuple) else "an unknown address"


def send_whole(send: Callable[[memoryview], int], data: bytes, within_s: float, clock: Clock) -> None:
    """Send all the bytes. Raises `OSError` if the send takes longer than `within_s` seconds.

    The time limit of the socket does not bound the whole send, because it begins again with each part.
    """
    view, until = memoryview(data), clock.monotonic() + within_s
    while view:
        try:
            view = view[send(view) :]
        except BlockingIOError as error:
            raise OSError("the program takes no bytes") from error
        if view and clock.monotonic() >= until:
            raise OSError("the program takes too few bytes")
