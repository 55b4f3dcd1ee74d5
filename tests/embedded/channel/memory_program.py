"""A client program in memory: it calls one conversation, whose line keeps the flows and whose clock the test moves."""

from collections.abc import Iterable

from mqflow.embedded.channel.conversation import Conversation
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.server.contract import ServableConnection
from mqflow.fap import calls
from mqflow.fap.async_messages import MessageRequest, RequestFlag, Selection
from mqflow.fap.connection_flows import Credentials
from mqflow.fap.fields import Reader
from mqflow.fap.transmission_segments import ONLY, Flag, Flow, Flows, Header, SegmentType
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.policy.delivery_delay import ClockReading
from tests.fap.client_half import ORDER, connect_body, open_body, request_body

__all__ = ("MemoryLine", "Program")


class MemoryLine:
    """The line of a conversation: it keeps the flows, and the test moves its clock."""

    segment_bytes_max = 32_748
    message_bytes_max = 104_857_600

    def __init__(self, queue_manager: EmbeddedQueueManager, user: str = "") -> None:
        self._queue_manager = queue_manager
        self._user = user
        self.sent: list[Flow] = []
        self.complaints: list[str] = []
        self.time_s = 0.0

    def send(self, flow: Flow) -> None:
        self.sent.append(flow)

    def send_segments(self, segments: Iterable[bytes]) -> None:
        flows = Flows()
        self.sent.extend(flow for segment in segments for flow in flows.feed(segment))

    def connect(self, given: Credentials | None, asked: calls.Connect) -> ServableConnection:  # noqa: ARG002 - as `Line`
        return self._queue_manager.connect(user=self._user)

    def disconnected(self) -> None:
        """Hold no places."""

    def now(self) -> float:
        return self.time_s

    def moment(self) -> ClockReading:
        return ClockReading(wall_ms=1_000_000, monotonic_ms=1_000)

    def reserved_identifier(self) -> bytes:
        return b"R" * 19 + bytes(5)

    def wake(self) -> None:
        pass

    def complain(self, sentence: str) -> None:
        self.complaints.append(sentence)

    def taken(self) -> list[Flow]:
        """Return the flows since the last call."""
        taken, self.sent = self.sent, []
        return taken


class Program:
    """A client program that is connected, with the queue Q1 open."""

    def __init__(self, queue_manager: EmbeddedQueueManager, user: str = "") -> None:
        self.line = MemoryLine(queue_manager, user)
        self.conversation = Conversation(self.line)
        #: The structures of the last reply.
        self.body = b""
        asked = calls.Connect(
            queue_manager="QM1", application_name="a test", application_type=28, accounting_token=bytes(32), options=7,
            extended_options=0,
        )  # fmt: skip
        self.call(SegmentType.MQCONN, connect_body(asked))
        self.handle = self.call(SegmentType.SPI, open_body("Q1", OpenOption.INPUT_SHARED | OpenOption.BROWSE), -1)[2]

    def call(self, kind: SegmentType, body: bytes = b"", handle: int = 0) -> tuple[int, int, int]:
        """Call a verb; return the completion code, the reason and the handle."""
        (answered,) = self.send(kind, body, handle)
        reader = Reader(answered.body, ORDER, "a reply")
        reader.raw(4)
        codes = reader.number(), reader.number(), reader.number()
        self.body = reader.raw(reader.left)
        return codes

    def send(self, kind: SegmentType, body: bytes, handle: int = 0) -> list[Flow]:
        """Call a verb; return what came."""
        self.receive(kind, bytes(12) + handle.to_bytes(4, signed=True) + body)
        return self.line.taken()

    def receive(self, kind: SegmentType, body: bytes) -> None:
        """Let the conversation receive a flow with this body."""
        self.conversation.receive(Flow(Header(kind=kind, conversation=1), body))

    def ask(
        self,
        wanted_bytes: int,
        flags: int = RequestFlag.WAITS,
        handle: int | None = None,
        *,
        received_bytes: int = 0,
        received: int = 0,
        options: GetOption = GetOption.SYNCPOINT,
        wait_ms: int = 0,
    ) -> list[Flow]:
        """Ask for messages of the queue, after the program has received these; return what came."""
        asked = MessageRequest(
            handle=self.handle if handle is None else handle, received_bytes=received_bytes, wanted_bytes=wanted_bytes,
            message_bytes_max=4096, options=int(options), wait_ms=wait_ms, queue_status=0, flags=flags | RequestFlag.SELECTION,
            message_index=received, selection=Selection(index=1),
        )  # fmt: skip
        confirm = ONLY | Flag.CONFIRM if flags & RequestFlag.CHECK else ONLY
        header = Header(kind=SegmentType.REQUEST_MESSAGES, conversation=1, flags=confirm)
        self.conversation.receive(Flow(header, request_body(asked)))
        return self.line.taken()
