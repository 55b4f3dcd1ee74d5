"""`Outgoing`: a message to put, made from a payload, properties and keywords. Also the functions that put it.

The session decides whether a put is in the unit of work of a delivery, or in a separate unit of work. This file makes no
decision.
"""

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache, partial
from itertools import count
from typing import Any, Final, TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import replace

from mqflow.app.errors import PayloadError
from mqflow.app.handlers.codecs import CCSID_UTF8, Codec, Encoded, encode
from mqflow.app.handlers.message import PropertyValue
from mqflow.app.handlers.mistakes import check_keywords
from mqflow.many_verbs import put_many
from mqflow.mqi.descriptor import NO_ID, MessageDescriptor
from mqflow.mqi.errors import HeaderError, MQIError, error_for
from mqflow.mqi.headers import chain, rfh2
from mqflow.mqi.options import Encoding, MessageType, ObjectType, Persistence, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.delivery_delay import ClockReading, check_delay, delay_in_ms, seconds_of
from mqflow.policy.poison.failure_origin import calling_frame
from mqflow.runtime.connection.open_objects import not_persistent
from mqflow.runtime.connection.session import Session
from mqflow.runtime.delay.stage import Stager, moment
from mqflow.verbs import ManyPut, ObjectDescriptor, Put
from mqflow.world import World

__all__ = (
    "EXPIRY_TENTHS_MAX",
    "Framed",
    "MessageIds",
    "Outgoing",
    "Publish",
    "Send",
    "all_outgoing",
    "checked_put",
    "framed",
    "outgoing",
    "published",
    "put_framed",
    "put_in_unit_of_work",
    "put_many_framed",
    "share_a_step",
    "with_codec",
)

_PUT: Final = PutOption.SYNCPOINT | PutOption.FAIL_IF_QUIESCING
EXPIRY_TENTHS_MAX: Final = 999_999_999
_OF_EVERY_MESSAGE: Final = frozenset({"codec", "persistent"})
"""Keyword arguments that do not stop a message from sharing its descriptor with similar messages (see `_plain`)."""
_ENCODED_TYPES: Final = ((bytes, str, int), (bytes, str, int, int))
_PROPERTY_TYPES: Final = (str, int, float, bytes, type(None))


class PutKeywords(TypedDict, total=False):
    """The keyword arguments of a put. None is the same as a missing argument, except for `persistent`."""

    #: The codec for the payload, in place of the codec of the application.
    codec: Codec | None
    #: The application properties, for the `usr` folder of an RFH2.
    properties: Mapping[str, PropertyValue] | None
    #: True or False. By default the message is persistent, unless `descriptor` says that it is not. With None, `descriptor`
    #: decides; if it does not, DEFPSIST of the queue or topic decides. A temporary dynamic queue accepts only non-persistent
    #: messages, so there every message is non-persistent.
    persistent: bool | None
    #: The priority, 0 to 9; by default, DEFPRTY of the queue decides.
    priority: int | None
    #: The lifetime of the message: a timedelta, or seconds.
    expiry: timedelta | float | None
    #: The time after the put at which the message becomes available: a timedelta, or seconds.
    delay: timedelta | float | None
    #: The CorrelId, 24 bytes.
    correlation_id: bytes | None
    #: The MsgId, 24 bytes.
    message_id: bytes | None
    #: The queue for the reply. It makes the message a request.
    reply_to: str | None
    #: A descriptor to start from, for example with report options. Its format and character set are used only for bytes.
    descriptor: MessageDescriptor | None


_KEYWORDS: Final = (*PutKeywords.__annotations__,)


class Outgoing(Struct, frozen=True, kw_only=True):
    """A message to put. Middleware with `publish` receives it, and can replace it."""

    #: The name of the queue, or the topic string of a publication.
    queue: str
    queue_manager: str = ""
    descriptor: MessageDescriptor
    body: bytes
    #: The application properties, for the `usr` folder of an RFH2; without properties there is no RFH2.
    properties: Mapping[str, PropertyValue] = {}
    #: True for a publication.
    publishes: bool = False
    #: True for a retained publication.
    retain: bool = False
    #: The delay in milliseconds; 0 for no delay.
    delay_ms: int = 0


Framed = tuple[Outgoing, MessageDescriptor, bytes]
"""A message, with the descriptor and the data that `framed` has made from it."""

Send = Callable[[Outgoing], Awaitable[Put]]
"""Calls the rest of the chain, which ends with the put."""
Publish = Callable[[Outgoing, Send], Awaitable[Put]]
"""The type of `PublishMiddleware.publish`."""


def outgoing(queue: str, payload: Any, **keywords: Unpack[PutKeywords]) -> Outgoing:
    """Return the message to put. The keyword arguments are the fields of `PutKeywords`.

    Without the keyword `persistent` the message is persistent, as in JMS, unless the keyword `descriptor` says otherwise.

    Raises `PayloadError` for a payload that cannot be encoded, and `TypeError` for a keyword that no put has. Raises `MQIError`
    2013 for an expiry that is not positive, or is shorter than the delay. Raises 2046 for an invalid delay, and for a message
    that cannot have a delay.
    """
    if not isinstance(queue, str):
        raise TypeError(f"put({queue!r:.40}, ...): the queue comes first, and is a text. The payload comes second.")
    body, message_format, ccsid, *encoding = _encoded(queue, payload, keywords.get("codec"))
    if keywords.keys() <= _OF_EVERY_MESSAGE:
        plain = _plain(message_format, ccsid, keywords.get("persistent", True), *encoding)
        return Outgoing(queue=queue, descriptor=plain, body=body)
    _check(queue, keywords)
    reply_to = keywords.get("reply_to") or ""
    start = keywords.get("descriptor") or MessageDescriptor(
        message_type=MessageType.REQUEST if reply_to else MessageType.DATAGRAM
    )
    fields: dict[str, Any] = {"format": message_format, "ccsid": ccsid, "encoding": (*encoding, Encoding.NATIVE)[0]}
    if not message_format and not encoding and keywords.get("descriptor") is not None:
        fields = {}  # for bytes, only the given descriptor names the format
    expiry, chosen = keywords.get("expiry"), start.persistence != Persistence.AS_Q_DEF
    persistent = keywords.get("persistent", None if chosen else True)
    if persistent is not None:
        fields["persistence"] = _persistence(persistent)
    if expiry is not None:
        fields["expiry_tenths"] = _tenths(expiry, queue)
    if reply_to:
        fields["reply_to_queue"] = reply_to
    kept = (("priority", keywords.get("priority")), ("correlation_id", keywords.get("correlation_id")))
    fields |= {name: value for name, value in (*kept, ("message_id", keywords.get("message_id"))) if value is not None}
    descriptor, delay_ms = replace(start, **fields), delay_in_ms(keywords.get("delay") or 0, queue)
    check_delay(delay_ms, descriptor, name=queue)
    properties = keywords.get("properties") or {}
    return Outgoing(queue=queue, descriptor=descriptor, body=body, properties=properties, delay_ms=delay_ms)


def _encoded(queue: str, payload: Any, codec: Codec | str | None) -> Encoded:
    """Return the body, format and character set, and perhaps the encoding.

    Raises `PayloadError`, with the line of the put, if the payload cannot be encoded. An error that a codec of the user raises
    is not changed.
    """
    try:
        encoded = encode(payload, codec)
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        if codec is not None:
            raise  # an error from a codec of the user
        raise PayloadError(queue, str(error).rstrip("."), calling_frame()) from error
    if codec is not None and not (isinstance(encoded, tuple) and (*map(type, encoded),) in _ENCODED_TYPES):
        problem = f"{type(codec).__qualname__}.encode returned {encoded!r:.60}, and not a body, a format and a character set"
        raise PayloadError(queue, problem, calling_frame())
    return encoded


def _check(queue: str, keywords: PutKeywords) -> None:
    """Raise an error for a keyword that no put has, or a value that no descriptor can have."""
    check_keywords(keywords, _KEYWORDS)
    given: Mapping[str, object] = keywords
    for name in ("message_id", "correlation_id"):
        identifier = given.get(name)
        if identifier is not None and not (isinstance(identifier, bytes) and len(identifier) == len(NO_ID)):
            problem = f"{name}={identifier!r:.60}: it takes 24 bytes, for example b'ORDER-1'.ljust(24, b'\\0')"
            raise error_for(Reason.MD_ERROR, "MQPUT", queue, detail=problem)
    priority = given.get("priority")
    if priority is not None and not (isinstance(priority, int) and not isinstance(priority, bool) and priority in range(10)):
        raise error_for(Reason.PRIORITY_ERROR, "MQPUT", queue, detail=f"priority={priority!r}: it takes a number from 0 to 9")
    reply_to = given.get("reply_to")
    if reply_to is not None and not isinstance(reply_to, str):
        raise TypeError(f"put({queue!r}, reply_to={reply_to!r}): the name of a queue is a text.")
    descriptor = given.get("descriptor")
    if descriptor is not None and not isinstance(descriptor, MessageDescriptor):
        raise TypeError(f"put({queue!r}, descriptor={descriptor!r:.60}): it takes a MessageDescriptor(...).")
    properties = given.get("properties")
    if properties is not None and not (isinstance(properties, Mapping) and all(isinstance(name, str) for name in properties)):
        raise TypeError(f"put({queue!r}, properties={properties!r:.60}): it takes a dict from names to values.")


def with_codec(keywords: PutKeywords, codec: Codec | None) -> PutKeywords:
    """Return the keywords. If they have no codec, they get this one."""
    if keywords.get("codec") is None:
        keywords["codec"] = codec
    return keywords


def all_outgoing(queue: str, payloads: Iterable[Any], **keywords: Unpack[PutKeywords]) -> Sequence[Outgoing]:
    """Return the messages to put, one for each payload. If `outgoing` raises, its error has a note with the payload's index."""
    if not isinstance(payloads, Iterable) or isinstance(payloads, str | bytes | bytearray | memoryview | Mapping):
        raise TypeError(f"put_many({queue!r}, {payloads!r:.40}): it takes a list of payloads. One payload is put with `put`.")
    messages: list[Outgoing] = []
    for index, payload in enumerate(payloads):
        try:
            messages.append(outgoing(queue, payload, **keywords))
        except Exception as error:
            error.add_note(f"This is the payload at index {index}; nothing was put.")
            raise
    return messages


@lru_cache(maxsize=64)
def _plain(
    message_format: str,
    ccsid: int,
    persistent: bool | None,  # noqa: FBT001 - private
    encoding: int = Encoding.NATIVE,
) -> MessageDescriptor:
    """Return the descriptor of a message that has no further fields. Equal arguments return the same object.

    So a queue manager computes the fields of such messages only once.
    """
    start = MessageDescriptor(format=message_format, ccsid=ccsid, encoding=encoding)
    return start if persistent is None else replace(start, persistence=_persistence(persistent))


def _persistence(persistent: object) -> Persistence:
    if not isinstance(persistent, bool):
        raise TypeError(f"persistent={persistent!r}: it takes True, False, or None for DEFPSIST of the queue.")
    return Persistence.PERSISTENT if persistent else Persistence.NOT_PERSISTENT


def published(topic: str, payload: Any, *, retain: bool = False, **keywords: Unpack[PutKeywords]) -> Outgoing:
    """Return the publication to put. Raises the errors of `outgoing`, and `MQIError` 2046 for `retain` with a delay."""
    if not isinstance(retain, bool):
        raise TypeError(f"publish({topic!r}, retain={retain!r}): it takes True or False.")
    message = outgoing(topic, payload, **keywords)
    check_delay(message.delay_ms, message.descriptor, name=topic, retained=retain)
    return replace(message, publishes=True, retain=retain)


async def put_in_unit_of_work(session: Session, message: Outgoing, stager: Stager) -> Put:
    """Put the message in the unit of work of the session. A delayed message is put on the staging queue. Raises `MQIError`.

    On a temporary dynamic queue a persistent message becomes non-persistent.
    """
    return await session.call(put_framed, session, message, *framed(message), stager)


def put_framed(session: Session, message: Outgoing, descriptor: MessageDescriptor, data: bytes, stager: Stager) -> Put:
    """Put like `put_in_unit_of_work`, on the thread of the session. `framed` has made the descriptor and the data."""
    target = _target(message, session.connection.queue_manager_name)
    if message.delay_ms:
        return _put(session, message, target, descriptor, data, stager)
    objects, options = session.open_objects, _PUT | PutOption.RETAIN if message.retain else _PUT
    try:
        return objects.put(target, descriptor, data, options)
    except MQIError as error:
        if not objects.takes_less(target, error):
            raise
    return objects.put(target, not_persistent(descriptor), data, options)


def share_a_step(one: Outgoing, other: Outgoing) -> bool:
    """Return whether `put_many_framed` can put both messages in one step: they have the same target, and no delay."""
    return (
        one.queue == other.queue
        and one.queue_manager == other.queue_manager
        and one.publishes == other.publishes
        and one.retain == other.retain
        and not one.delay_ms
        and not other.delay_ms
    )


def put_many_framed(session: Session, messages: Sequence[Framed]) -> ManyPut:
    """Put messages for which `share_a_step` is true, up to the first refusal. Raises the errors of MQOPEN.

    Runs on the thread of the session. Unlike `put_framed`, this does not open the target again after 2041 or 2052, and makes no
    message non-persistent.
    """
    message, connection = messages[0][0], session.connection
    handle = session.open_objects.output(_target(message, connection.queue_manager_name))
    options = _PUT | PutOption.RETAIN if message.retain else _PUT
    return put_many(connection, handle, [(descriptor, data) for _, descriptor, data in messages], options)


class MessageIds:
    """Makes MsgIds that are never used twice: `MQF `, 12 random bytes, and a number that increases.

    The number begins with the time of the first put, in microseconds. So two processes make different MsgIds even if their
    random generators give the same bytes. Identifiers that increase keep the indexes of a queue manager fast.
    """

    def __init__(self, world: World) -> None:
        self._world: Final = world
        self._prefix = b""
        self._numbers = count()

    def __call__(self) -> bytes:
        """Return a new MsgId."""
        if not self._prefix:
            self._prefix = b"MQF " + b"".join(int(self._world.random.random() * 2**48).to_bytes(6, "big") for _ in range(2))
            self._numbers = count(int(self._world.clock.wall() * 1_000_000))
        return self._prefix + next(self._numbers).to_bytes(8, "big")


async def checked_put(
    session: Session, message: Outgoing, stager: Stager, new_message_id: Callable[[], bytes]
) -> tuple[Put, Callable[[], Put]]:
    """Encode a message and open its target, but put nothing. Return the result of the later put, and the function that puts.

    The caller calls the function later, on the thread of the session. If the message has no MsgId, it gets one now. In the
    result, only the MsgId and the fields of the caller are final. The put sets the others: put date and time, context, and the
    priority, persistence and expiry of the queue. Raises the errors of the encoding and of MQOPEN.
    """
    descriptor, data = framed(message)
    if descriptor.message_id == NO_ID:
        descriptor = replace(descriptor, message_id=new_message_id())
    target = _target(message, session.connection.queue_manager_name)
    handle = session.open_objects.open_output(target) or await session.output(target)
    coming = Put(
        descriptor=descriptor, resolved_queue=handle.resolved_queue, resolved_queue_manager=handle.resolved_queue_manager
    )
    sent = moment(stager.world.clock) if message.delay_ms else None
    return coming, partial(_put, session, message, target, descriptor, data, stager, sent)


def _put(
    session: Session,
    message: Outgoing,
    target: ObjectDescriptor | str,
    descriptor: MessageDescriptor,
    data: bytes,
    stager: Stager,
    sent: ClockReading | None = None,
) -> Put:
    """Put the message in the unit of work, on the thread of the session. The delay begins at `sent`; None means now."""
    queue, delay_ms = message.queue, message.delay_ms
    if delay_ms and message.publishes:
        return stager.publish_on(session.connection, queue, descriptor, data, delay_ms, retain=message.retain, sent=sent)
    options = _PUT | PutOption.RETAIN if message.retain else _PUT

    def put(described: MessageDescriptor) -> Put:
        if not delay_ms:
            return session.open_objects.put(target, described, data, options)
        manager = message.queue_manager
        return stager.put_on(session.connection, queue, described, data, delay_ms, queue_manager=manager, sent=sent)

    return session.open_objects.put_if_accepted(target, descriptor, put)


def _target(message: Outgoing, queue_manager_name: str) -> ObjectDescriptor | str:
    if message.publishes:
        return ObjectDescriptor(object_type=ObjectType.TOPIC, object_string=message.queue)
    if message.queue_manager and message.queue_manager != queue_manager_name:
        return ObjectDescriptor(message.queue, queue_manager=message.queue_manager)
    return message.queue


def framed(message: Outgoing) -> tuple[MessageDescriptor, bytes]:
    """Return the descriptor and the data of a message. If it has properties, the data begin with an RFH2 that has them.

    Raises `MQIError` 2335 or 2334 for properties that an RFH2 cannot have, and `TypeError` for a value of another type.
    """
    given_message: object = message
    if not isinstance(given_message, Outgoing):
        raise TypeError(f"send({given_message!r:.60}): it takes an Outgoing(...). A payload is put with `put`.")
    if not message.properties:
        return message.descriptor, message.body
    given: Mapping[str, object] = message.properties
    for name, value in given.items():
        if not isinstance(value, _PROPERTY_TYPES):
            accepted = "it takes str, int, float, bool, bytes or None"
            kind = type(value).__qualname__
            raise TypeError(f"Property {name!r} of a message for {message.queue} has the type {kind}: {accepted}.")
    try:
        return _with_properties(message)
    except HeaderError as error:
        # A HeaderError from a handler would mean that the delivered message cannot be read.
        raise MQIError(
            error.reason, "MQPUT", message.queue, detail=f"Its properties do not fit into an MQRFH2. {error}"
        ) from error


def _with_properties(message: Outgoing) -> tuple[MessageDescriptor, bytes]:
    properties = tuple(rfh2.FolderProperty(name=name, value=value) for name, value in message.properties.items())
    header = rfh2.RFH2(folders=(rfh2.Folder(name="usr", properties=properties),), ccsid=CCSID_UTF8)
    return chain.join(message.descriptor, (header,), message.body)


def _tenths(expiry: timedelta | float, queue: str) -> int:
    expiry_s = seconds_of(expiry)
    if not 0 < expiry_s <= EXPIRY_TENTHS_MAX / 10:
        takes = f"it takes more than 0 and at most {EXPIRY_TENTHS_MAX // 10} seconds, or a timedelta: timedelta(hours=1)"
        problem = f"The expiry {expiry!r} is not accepted: {takes}"
        raise error_for(Reason.EXPIRY_ERROR, "MQPUT", queue, detail=problem)
    # Rounded up, like a delay, so that a message does not expire before an equal delay ends. First rounded to microseconds, so
    # that 0.7 s are 7 tenths.
    return math.ceil(max(1, round(expiry_s * 1_000_000)) / 100_000)
