"""The client's half of the protocol, as the tests need it: requests as bytes, and replies as call codes and bodies."""

import socket
import ssl
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.fap import calls
from mqflow.fap.async_messages import MessageRequest, Notification, Selection
from mqflow.fap.connection_flows import Credentials, SocketAction
from mqflow.fap.fields import Reader, Writer
from mqflow.fap.negotiation import InitialData
from mqflow.fap.spi import SpiCall, SpiOpen, SpiVerb
from mqflow.fap.structures import ObjectFields, PutFields, read_descriptor, write_descriptor
from mqflow.fap.transmission_segments import Flow, Flows, Header, SegmentType, segments_of
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, MatchOption, OpenOption, PutOption
from mqflow.verbs import ObjectDescriptor

__all__ = (
    "ORDER", "Answer", "ChannelClient", "Golden", "Message", "flow_of", "golden_of", "initial_data", "open_body", "put_body",
    "request_body",
)  # fmt: skip

ORDER: Final = ">"
SEGMENT_BYTES_MAX: Final = 32_748


class Answer(Struct, frozen=True):
    """The reply to a verb."""

    completion: int
    reason: int
    handle: int
    body: bytes


class Message(Struct, frozen=True):
    """A message that the queue manager sent to a handle."""

    handle: int
    reason: int
    descriptor: MessageDescriptor
    body: bytes


def initial_data(level: int = 17, conversations: int = 999_999_999, channel: str = "DEV.APP.SVRCONN") -> InitialData:
    """Return the initial data that IBM's JMS classes send."""
    return InitialData(
        level=level, flags1=38, transmission_bytes_max=SEGMENT_BYTES_MAX, message_bytes_max=104_857_600, channel=channel,
        flags2=81, ccsid=819, queue_manager="QM1", heartbeat_s=1, conversations_max=conversations, flags3=40,
        product="MQJM09030501", queue_manager_identifier="CANNED_DATA",
    )  # fmt: skip


def authentication(given: Credentials) -> bytes:
    """Return the body of a connection authentication."""
    user, password = given.user.encode(), given.password.encode()
    writer = Writer(ORDER).raw(b"CAUT").number(1, len(user), len(password), len(user), len(password))
    return writer.raw(user).raw(password).done()


def connect_body(asked: calls.Connect) -> bytes:
    """Return the structures of MQCONN, with FCNO."""
    writer = Writer(ORDER).text(asked.queue_manager, 48).text(asked.application_name, 28).number(asked.application_type)
    writer.raw(asked.accounting_token).number(asked.options, asked.extended_options)
    return writer.raw(b"FCNO").number(2, 0).raw(bytes(200)).done()


def open_body(name: str, options: int, spi_options: int = 0x23) -> bytes:
    """Return the structures of the SPI's open of a queue."""
    writer = Writer(ORDER).number(12, 1, 244).raw(b"SPOU").number(1, 12).raw(b"SPOI").number(1, 244)
    writer.raw(b"LPOO").number(3, options, spi_options, -1, -1, -1, -1)
    ObjectFields(version=2, descriptor=ObjectDescriptor(name)).write(writer)
    return writer.done()


def put_body(body: bytes, options: PutOption) -> bytes:
    """Return the structures of MQPUT."""
    writer = Writer(ORDER)
    write_descriptor(writer, MessageDescriptor(format="MQSTR", ccsid=1208, encoding=273), 1)
    PutFields(version=2, options=int(options)).write(writer)
    return writer.number(len(body)).raw(body).done()


def request_body(request: MessageRequest) -> bytes:
    """Return a request for messages."""
    writer = Writer(ORDER).number(1, request.handle, request.received_bytes, request.wanted_bytes)
    writer.number(request.message_bytes_max, request.options, request.wait_ms, request.queue_status, request.flags)
    writer.number(request.message_index)
    given = request.selection
    if given is not None:
        writer.short(given.index, given.descriptor_version)
        writer.number(given.ccsid, given.encoding, given.sequence_number, given.offset, given.match)
        writer.raw(given.message_id if given.match & MatchOption.MSG_ID else b"")
        writer.raw(given.correlation_id if given.match & MatchOption.CORREL_ID else b"")
        writer.raw(given.group_id if given.match & MatchOption.GROUP_ID else b"")
        writer.raw(given.message_token if given.match & MatchOption.MSG_TOKEN else b"")
    return writer.done()


class Golden(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One flow of IBM's JMS classes, as our own records, and the answers of the listener in a few words."""

    kind: str
    flags: int
    conversation: int | None
    request: int
    handle: int = 0
    initial: InitialData | None = None
    credentials: tuple[str, str] | None = None
    connect: calls.Connect | None = None
    open: calls.OpenCall | None = None
    spi: int | None = None
    spi_open: SpiOpen | None = None
    inquire: calls.InquireCall | None = None
    put: calls.PutCall | None = None
    messages: MessageRequest | None = None
    notice: Notification | None = None
    action: SocketAction | None = None
    answers: tuple[str, ...] = ()


def golden_of(flow: Flow) -> Golden:  # noqa: PLR0911 - one a kind
    """Return the record of a flow that a client sent."""
    header = flow.header
    kind = SegmentType(header.kind)
    front = Golden(kind=kind.name, flags=header.flags, conversation=header.conversation, request=header.request)
    reader = Reader(flow.body, header.order, kind.name)
    match kind:
        case SegmentType.INITIAL_DATA:
            return replace(front, initial=InitialData.read(reader))
        case SegmentType.CONNECTION_AUTHENTICATION:
            given = Credentials.of_authentication(reader)
            return replace(front, credentials=(given.user, given.password))
        case SegmentType.SOCKET_ACTION:
            return replace(front, action=SocketAction.read(reader))
        case SegmentType.REQUEST_MESSAGES:
            return replace(front, messages=MessageRequest.read(reader))
        case SegmentType.NOTIFICATION:
            return replace(front, notice=Notification.read(reader))
        case SegmentType.USER_DATA:
            given = Credentials.of_user_data(reader)
            return replace(front, credentials=(given.user, given.password))
        case SegmentType.HEARTBEAT:
            return front
    call = calls.VerbRequest.of(flow)
    front, reader = replace(front, handle=call.handle), call.reader()
    match kind:
        case SegmentType.MQCONN:
            return replace(front, connect=calls.Connect.read(reader))
        case SegmentType.MQOPEN:
            return replace(front, open=calls.OpenCall.read(reader))
        case SegmentType.MQINQ:
            return replace(front, inquire=calls.InquireCall.read(reader))
        case SegmentType.MQPUT | SegmentType.MQPUT1:
            return replace(front, put=calls.PutCall.read(reader, one=kind is SegmentType.MQPUT1))
        case SegmentType.SPI:
            spi = SpiCall.read(reader)
            is_open = spi.verb == SpiVerb.OPEN
            return replace(front, spi=spi.verb, spi_open=SpiOpen.read(spi, reader) if is_open else None)
        case _:
            return front


def flow_of(golden: Golden) -> Flow:
    """Return the flow of a record; the inverse of `golden_of`, except for fields that no record has."""
    kind = SegmentType[golden.kind]
    header = Header(kind=kind, flags=golden.flags, conversation=golden.conversation, request=golden.request)
    body = _structures(golden)
    if kind >= SegmentType.MQCONN:
        body = bytes(12) + golden.handle.to_bytes(4, signed=True) + body
    return Flow(header, body)


def _structures(golden: Golden) -> bytes:  # noqa: PLR0911 - one a record
    writer = Writer(ORDER)
    if golden.initial is not None:
        return golden.initial.to_bytes(ORDER)
    if golden.credentials is not None and golden.kind == "USER_DATA":
        user, password = golden.credentials
        return writer.raw(b"UID ").text("", 12).text(password, 12).text(user, 64).raw(bytes(40)).done()
    if golden.credentials is not None:
        return authentication(Credentials(*golden.credentials))
    if golden.connect is not None:
        return connect_body(golden.connect)
    if golden.messages is not None:
        return request_body(golden.messages)
    if (action := golden.action) is not None:
        return writer.number(action.conversation, action.request, action.kind, action.first, action.second).done()
    if (notice := golden.notice) is not None:
        return writer.number(1, notice.handle, notice.notice, notice.value).done()
    if (inquire := golden.inquire) is not None:
        counts = (len(inquire.selectors), inquire.integer_count, inquire.text_bytes)
        return writer.number(*counts, *inquire.selectors).done()
    if (put := golden.put) is not None:
        if put.fields is not None:
            put.fields.write(writer)
        write_descriptor(writer, put.descriptor, put.descriptor_version)
        put.put.write(writer)
        return writer.number(len(put.body)).raw(put.body).done()
    if (opened := golden.open) is not None:
        opened.fields.write(writer)
        return writer.number(opened.options).raw(b"FOPA" + bytes(80) if opened.wants_defaults else b"").done()
    if golden.spi_open is not None:
        return open_body(golden.spi_open.fields.descriptor.name, golden.spi_open.options, golden.spi_open.spi_options)
    if golden.spi is not None:
        return writer.number(golden.spi, 1, 256).raw(b"SPQU").number(1, 12).raw(b"SPQI").number(1, 12).done()
    return writer.number(0).done() if golden.kind == "MQCLOSE" else b""


class ChannelClient:
    """A client program with one socket. Every wait ends after ten seconds with an error."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        raw = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._stream = raw if tls is None else tls.wrap_socket(raw, server_hostname="127.0.0.1")
        self._flows = Flows()
        self._flows.segment_bytes_max = 1024 * 1024
        self._arrived: list[Flow] = []
        #: What this end has sent and received: bytes, segments and calls.
        self.bytes_sent = self.bytes_received = self.segments_sent = self.call_count = 0

    @property
    def segments_received(self) -> int:
        return self._flows.segment_count

    def close(self) -> None:
        self._stream.close()

    def send_bytes(self, data: bytes) -> None:
        self._stream.sendall(data)
        self.bytes_sent += len(data)

    def send(
        self, kind: SegmentType, body: bytes, *, conversation: int | None = 1, request: int = 0, flags: int = 0x30
    ) -> None:
        header = Header(kind=kind, conversation=conversation, request=request, flags=flags)
        for segment in segments_of(Flow(header, body), SEGMENT_BYTES_MAX):
            self.send_bytes(segment)
            self.segments_sent += 1

    def receive(self) -> Flow | None:
        """Return the next flow; None at the end of the stream."""
        while not self._arrived:
            try:
                data = self._stream.recv(65_536)
            except ConnectionResetError:
                data = b""
            if not data:
                return None
            self.bytes_received += len(data)
            self._arrived.extend(self._flows.feed(data))
        return self._arrived.pop(0)

    def expect(self, kind: int) -> Flow:
        flow = self.receive()
        assert flow is not None, "the listener closed the socket"
        assert kind == flow.header.kind, f"{flow.header.kind:#x} came, not {kind:#x}"
        return flow

    def negotiate(self, channel: str = "DEV.APP.SVRCONN") -> InitialData:
        """Repeat the initial data until both ends agree."""
        mine, conversation = initial_data(channel=channel), None
        while True:
            self.send(SegmentType.INITIAL_DATA, mine.to_bytes(ORDER), conversation=conversation)
            answered = InitialData.read(self.reader(self.expect(SegmentType.INITIAL_DATA)))
            if not answered.errors1 and not answered.errors2:
                return answered
            mine, conversation = answered, 1

    def refused(self, channel: str) -> int:
        """Send the initial data for a channel; return the code of the refusal, after which the listener closes the socket."""
        self.send(SegmentType.INITIAL_DATA, initial_data(channel=channel).to_bytes(ORDER), conversation=None)
        reader = self.reader(self.expect(SegmentType.STATUS))
        code = (reader.number(), reader.number())[1]
        assert self.receive() is None
        return code

    def log_in(self, given: Credentials, *, conversation: int = 1) -> tuple[int, int]:
        """Send user and password; return the code and the value of the status."""
        self.send(SegmentType.CONNECTION_AUTHENTICATION, authentication(given), conversation=conversation)
        reader = self.reader(self.expect(SegmentType.STATUS))
        length, code = reader.number(), reader.number()
        return code, reader.number() if length > 8 else 0

    def call(self, kind: SegmentType, body: bytes = b"", *, handle: int = 0, conversation: int = 1) -> Answer:
        """Call a verb, and return its reply."""
        self.call_without_reply(kind, body, handle=handle, conversation=conversation)
        reader = self.reader(self.expect(kind + calls.REPLY))
        reader.raw(4)
        return Answer(reader.number(), reader.number(), reader.number(), reader.raw(reader.left))

    def call_without_reply(self, kind: SegmentType, body: bytes, *, handle: int, conversation: int = 1) -> None:
        self.call_count += 1
        self.send(kind, bytes(12) + handle.to_bytes(4, signed=True) + body, conversation=conversation)

    def connect(self, *, queue_manager: str = "QM1", application_type: int = 28, conversation: int = 1) -> Answer:
        asked = calls.Connect(
            queue_manager=queue_manager, application_name="a test", application_type=application_type,
            accounting_token=bytes(32), options=7, extended_options=0,
        )  # fmt: skip
        return self.call(SegmentType.MQCONN, connect_body(asked), conversation=conversation)

    def begin(self, given: Credentials, channel: str = "DEV.APP.SVRCONN") -> "ChannelClient":
        """Negotiate, log in and connect."""
        self.negotiate(channel)
        assert (0, 0) == self.log_in(given)
        assert 0 == self.connect().reason
        return self

    def open(self, name: str, options: OpenOption, *, conversation: int = 1) -> Answer:
        saves = 0x03 if options & (OpenOption.INPUT_SHARED | OpenOption.INPUT_AS_Q_DEF) else 0
        return self.call(SegmentType.SPI, open_body(name, int(options), 0x20 | saves), handle=-1, conversation=conversation)

    def put(self, handle: int, body: bytes, options: PutOption, *, conversation: int = 1) -> Answer:
        return self.call(SegmentType.MQPUT, put_body(body, options), handle=handle, conversation=conversation)

    def ask(
        self, handle: int, options: GetOption, wait_ms: int = 0, *, flags: int = 0x18, request: int = 1, conversation: int = 1
    ) -> None:
        """Ask for one message of a handle."""
        asked = MessageRequest(
            handle=handle, received_bytes=0, wanted_bytes=1, message_bytes_max=4096, options=int(options), wait_ms=wait_ms,
            queue_status=0, flags=flags, message_index=0,
            selection=Selection(index=1, ccsid=1208, encoding=273) if flags & 0x10 else None,
        )  # fmt: skip
        confirm = 0x01 if flags & 0x02 else 0
        self.send(
            SegmentType.REQUEST_MESSAGES, request_body(asked), conversation=conversation, request=request, flags=0x30 | confirm
        )

    def message(self) -> Message:
        """Return the next message that the queue manager sends."""
        whole, first = b"", None
        while True:
            flow = self.receive()
            assert flow is not None, "the listener closed the socket"
            assert SegmentType.ASYNC_MESSAGE == flow.header.kind, flow
            reader = self.reader(flow)
            _, handle, _, _, length = (reader.number() for _ in range(5))
            index, _ = reader.short(), reader.short()
            if index == 0:
                reason, _, total = reader.number(), reader.number(), reader.number()
                reader.raw(18)
                reader.raw(reader.byte())
                reader.raw(-(reader.at - 24) % 4)
                first = reason, total, read_descriptor(reader)[0]
            assert length == reader.left
            whole += reader.raw(length)
            if flow.header.flags & 0x20:
                assert first is not None
                assert first[1] == len(whole)
                return Message(handle, first[0], first[2], whole)

    def notice(self) -> Notification:
        return Notification.read(self.reader(self.expect(SegmentType.NOTIFICATION)))

    @staticmethod
    def reader(flow: Flow) -> Reader:
        return Reader(flow.body, flow.header.order, "a reply")
