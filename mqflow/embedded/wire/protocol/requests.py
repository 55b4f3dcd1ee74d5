"""The requests of the verbs as records for the wire, and the replies to all requests.

The application's end and the server's end share these records. This module knows no socket and no rule of MQ.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

from mqflow.embedded.wire.protocol.administration_calls import ANSWERS, Administer
from mqflow.embedded.wire.protocol.end_manner import End
from mqflow.embedded.wire.protocol.frames import UndecodableError
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import ObjectType
from mqflow.mqi.reason_codes import CompletionCode
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import UNIT_BYTES_MAX, GetOptions, Got, Inquired, ObjectDescriptor
from mqflow.verbs import Put as PutAnswer

__all__ = (
    "MANY_MAX", "NO_HANDLE", "PROTOCOL_VERSION", "Backout", "Backup", "BrowseBack", "Close", "Commit", "Decoded",
    "Disconnect", "EndQueueManager", "Exchange", "Exchanged", "Failure", "Get", "GetMany", "GiveBack", "Hello", "HostOrder",
    "Inquire", "Interrupt", "Open", "Opened", "Pulse", "Put", "Put1", "PutMany", "PutManyAnswer", "Reply", "Request",
    "RequestPublications", "Set", "SettleMany", "SettledMany", "Subscribe", "Subscribed", "VerbGet", "VerbOrder",
    "VerbQuestion", "decode_reply", "decode_request", "encode", "encode_into", "error_of", "failure_of", "in_frames",
    "in_runs",
)  # fmt: skip

PROTOCOL_VERSION: Final = 7
NO_HANDLE: Final = -1
"""The number of an object that is not a handle of the connection. The queue manager refuses it."""

# More bytes than a full descriptor needs.
_DESCRIPTOR_BYTES: Final = 1024
# A get request has some 300 bytes.
_REPEATED_BYTES_MAX: Final = 512
_REPEATED_MAX: Final = 16

MANY_MAX: Final = 10_000
"""The most messages in one reply, because the whole reply is one frame in memory."""
_Many = Annotated[int, Meta(le=MANY_MAX)]

T = TypeVar("T")


class Hello(Struct, frozen=True, tag=True):
    """MQCONNX, or the beginning of administration. It is the first request. The reply is the queue manager's name."""

    version: int
    #: The name of the queue manager to connect to; empty for any name.
    queue_manager: str
    application_name: str
    user: str
    #: Required over TCP, unless the client shows a certificate.
    password: str = ""
    #: The number of this connection's pulse; 0 if the connection sends its own heartbeats.
    pulse: int = 0
    #: True if the connection is only for `Administer` and `HostOrder`, false if it is only for verbs.
    administers: bool = False

    def __repr__(self) -> str:
        return f"Hello({self.version}, {self.queue_manager!r}, {self.application_name!r}, {self.user!r})"


class Pulse(Struct, frozen=True, tag=True):
    """The first request of a connection that only sends heartbeats. The only reply is the pulse's number."""

    version: int


class _Target(Struct, frozen=True):
    """The fields of `ObjectDescriptor`, with any number as the type: the queue manager refuses an unknown type."""

    name: str
    object_type: int = ObjectType.Q
    queue_manager: str = ""
    dynamic_name: str = "AMQ.*"
    alternate_user: str = ""
    object_string: str = ""
    selection: str = ""

    @property
    def target(self) -> ObjectDescriptor:
        """The object."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in ObjectDescriptor.__struct_fields__}  # fields of both
        return ObjectDescriptor(**fields)


class Open(_Target, frozen=True, kw_only=True, tag=True):
    """MQOPEN. `asdict` of an `ObjectDescriptor` gives the other fields."""

    options: int


class Opened(Struct, frozen=True):
    """The reply to `Open`."""

    handle: int
    name: str
    options: int
    resolved_queue: str
    resolved_queue_manager: str = ""


class Close(Struct, frozen=True, tag=True):
    """MQCLOSE."""

    handle: int
    options: int


class Put(Struct, frozen=True, tag=True):
    """MQPUT. `context` is a handle."""

    handle: int
    descriptor: MessageDescriptor
    body: bytes
    options: int
    context: int | None


class Put1(_Target, frozen=True, kw_only=True, tag=True):
    """MQPUT1. `context` is a handle. `asdict` of an `ObjectDescriptor` gives the other fields."""

    descriptor: MessageDescriptor
    body: bytes
    options: int
    context: int | None


class PutMany(Struct, frozen=True, tag=True):
    """MQPUT for each message, up to the first refusal. `context` is a handle."""

    handle: int
    #: Each descriptor once, with the bodies of consecutive messages that have this descriptor.
    runs: tuple[tuple[MessageDescriptor, tuple[bytes, ...]], ...]
    options: int
    context: int | None


class PutManyAnswer(Struct, frozen=True):
    """The reply to `PutMany`: the results of the puts, and the failure of the first refused put."""

    puts: tuple[PutAnswer, ...]
    failure: "Failure | None" = None


class Subscribe(Struct, frozen=True, tag=True):
    """MQSUB. `queue` is a handle."""

    descriptor: SubscriptionDescriptor
    queue: int | None


class Subscribed(Struct, frozen=True):
    """The reply to `Subscribe`: the handle of the subscription, and the handle of its queue in `queue`."""

    handle: int
    name: str
    queue: Opened
    descriptor: SubscriptionDescriptor
    reason: int


class RequestPublications(Struct, frozen=True, tag=True):
    """MQSUBRQ."""

    handle: int
    options: int


class Get(Struct, frozen=True, tag=True):
    """MQGET."""

    handle: int
    options: GetOptions


class GetMany(Struct, frozen=True, tag=True):
    """MQGET for several messages. Only the first message is waited for."""

    handle: int
    options: GetOptions
    most: _Many
    bytes_max: Annotated[int, Meta(le=UNIT_BYTES_MAX)] = UNIT_BYTES_MAX


class BrowseBack(Struct, frozen=True, tag=True):
    """Moves the browse cursor back by `count` messages of the last `GetMany`."""

    handle: int
    count: int


class Interrupt(Struct, frozen=True, tag=True):
    """Ends the waits of all gets of this connection, including the present get. This request has no reply."""


class Exchange(Struct, frozen=True, tag=True):
    """MQCMIT, MQBACK or neither, then MQGET for several messages. The request can have several replies; see `Exchanged`."""

    handle: int
    options: GetOptions
    commit: bool | None
    most: _Many


class Exchanged(Struct, frozen=True, omit_defaults=True):
    """The reply to `Exchange`. If `waits` is true, the unit of work is settled, and a second reply follows with messages."""

    settle: "Failure | None" = None
    unit: tuple[Got, ...] = ()
    get: "Failure | None" = None
    waits: bool = False
    #: True if another reply follows, with more messages of the unit of work.
    more: bool = False


class SettleMany(Struct, frozen=True, tag=True):
    """MQCMIT for each of the first `commits` units of work, then MQGET for further units of work.

    Before any other request that settles or gets, the server gives back the messages of all units except the first. Their
    BackoutCount does not increase.
    """

    handle: int
    options: GetOptions
    commits: _Many
    #: The most messages in a unit.
    most: _Many
    #: The most units to get.
    units: _Many


class SettledMany(Struct, frozen=True):
    """The reply to `SettleMany`: the failure of each commit or None, and the new units."""

    failures: "tuple[Failure | None, ...]"
    units: tuple[tuple[Got, ...], ...] = ()


class GiveBack(Struct, frozen=True, tag=True):
    """Returns the messages of the last `count` units of work to their queues, without an increase of the BackoutCount."""

    count: int


class Inquire(Struct, frozen=True, tag=True):
    """MQINQ."""

    handle: int
    selectors: tuple[int, ...]


class Set(Struct, frozen=True, tag=True):
    """MQSET."""

    handle: int
    values: dict[int, int | str]


class Commit(Struct, frozen=True, tag=True):
    """MQCMIT."""


class Backout(Struct, frozen=True, tag=True):
    """MQBACK."""


class Disconnect(Struct, frozen=True, tag=True):
    """MQDISC."""


VerbQuestion = Open | Put | PutMany | Put1 | Inquire | Subscribe | RequestPublications
VerbGet = Get | GetMany
VerbOrder = Close | BrowseBack | GiveBack | Set | Commit | Backout | Disconnect


class EndQueueManager(Struct, frozen=True, tag=True):
    """`mqflow qmgr stop`: the queue manager replies, and then ends."""

    end: End


class Backup(Struct, frozen=True, tag=True):
    """`mqflow qmgr backup`: copy the durable data to a folder of this machine."""

    folder: str


HostOrder = EndQueueManager | Backup
Request = Hello | Pulse | Exchange | SettleMany | Interrupt | VerbQuestion | VerbGet | VerbOrder | Administer | HostOrder
"""All requests. A question has a value as its reply. An order has no value, but can be refused."""


class Failure(Struct, frozen=True):
    """An `MQIError` in a reply."""

    reason: int
    verb: str
    object_name: str
    queue_manager: str
    detail: str
    completion: int


class Reply(Struct, Generic[T], frozen=True, array_like=True):
    """The result of a request: a failure or a value."""

    failure: Failure | None
    value: T | None = None


# Any, here and below: the request decides the type of the reply, so no checker can know it.
def _reply(answer: Any) -> msgspec.msgpack.Decoder[Any]:
    reply: Any = Reply
    return msgspec.msgpack.Decoder(reply[answer])


_REPLIES: Final[Mapping[type[Request] | str, msgspec.msgpack.Decoder[Any]]] = {
    Hello: _reply(str),
    Pulse: _reply(int),
    Open: _reply(Opened),
    Put: _reply(PutAnswer),
    Put1: _reply(PutAnswer),
    PutMany: _reply(PutManyAnswer),
    Get: _reply(Got),
    GetMany: _reply(tuple[Got, ...]),
    Exchange: _reply(Exchanged),
    SettleMany: _reply(SettledMany),
    Inquire: _reply(Inquired),
    Subscribe: _reply(Subscribed),
    RequestPublications: _reply(int),
    **{call: _reply(answer) for call, answer in ANSWERS.items()},
}
_OBEYED: Final = _reply(None)

encode: Final = msgspec.msgpack.Encoder().encode
encode_into: Final = msgspec.msgpack.Encoder().encode_into
_decode: Final[Callable[[bytes | memoryview], Request]] = msgspec.msgpack.Decoder(Request).decode


# The peer chooses the bytes, so the decoder can fail in many ways: besides its own errors, it raises `UnicodeDecodeError` and
# `RecursionError`. All these errors mean the same.


def decode_request(data: bytes | memoryview) -> Request:
    """Return the request. Raises `UndecodableError` if the bytes are not a request."""
    try:
        return _decode(data)
    except Exception as error:
        raise UndecodableError(error, len(data)) from error


def decode_reply(request: Request, data: bytes | memoryview) -> Reply[Any]:
    """Return the reply to this request. Raises `UndecodableError` if the bytes are not such a reply."""
    key = request.call if isinstance(request, Administer) else type(request)
    try:
        reply: Reply[Any] = _REPLIES.get(key, _OBEYED).decode(data)
    except Exception as error:
        raise UndecodableError(error, len(data)) from error
    return reply


_REPEATED: Final = (Get, GetMany, Exchange, Commit, Backout)


class Decoded:
    """Decodes each request and keeps the result, because a consumer repeats the same request for the next messages.

    Keeps a limited number of short requests. A longer request contains a message, and is decoded each time.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, Request] = {}

    def __call__(self, data: bytes | memoryview) -> Request:
        """Return the request. Raises `UndecodableError` if the bytes are not a request."""
        if isinstance(data, memoryview) or len(data) > _REPEATED_BYTES_MAX:
            return decode_request(data)
        known = self._known.get(data)
        if known is not None:
            return known
        request = decode_request(data)
        if isinstance(request, _REPEATED):
            if len(self._known) >= _REPEATED_MAX:
                self._known.clear()
            self._known[data] = request
        return request


def in_frames(messages: Iterable[tuple[MessageDescriptor, bytes]]) -> Iterator[tuple[tuple[MessageDescriptor, bytes], ...]]:
    """Yield the messages in parts that each fit into a frame. A very long message is a part of its own."""
    part: list[tuple[MessageDescriptor, bytes]] = []
    part_bytes = 0
    for message in messages:
        message_bytes = len(message[1]) + _DESCRIPTOR_BYTES
        if part and part_bytes + message_bytes > UNIT_BYTES_MAX:
            yield tuple(part)
            part, part_bytes = [], 0
        part.append(message)
        part_bytes += message_bytes
    if part:
        yield tuple(part)


def in_runs(messages: Iterable[tuple[MessageDescriptor, bytes]]) -> tuple[tuple[MessageDescriptor, tuple[bytes, ...]], ...]:
    """Return the messages in runs. Consecutive messages with the same descriptor record are one run, with one descriptor."""
    runs: list[tuple[MessageDescriptor, list[bytes]]] = []
    for descriptor, body in messages:
        if runs and runs[-1][0] is descriptor:
            runs[-1][1].append(body)
        else:
            runs.append((descriptor, [body]))
    return tuple((descriptor, tuple(bodies)) for descriptor, bodies in runs)


def failure_of(error: MQIError) -> Failure:
    """Return the error in the form for a reply."""
    return Failure(int(error.reason), error.verb, error.object_name, error.queue_manager, error.detail, int(error.completion))


def error_of(failure: Failure) -> MQIError:
    """Return the error for a failure in a reply."""
    error = error_for(failure.reason, failure.verb, failure.object_name, failure.queue_manager, failure.detail)
    error.completion = CompletionCode(failure.completion)
    return error
