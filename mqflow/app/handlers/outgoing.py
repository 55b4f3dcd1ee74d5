"""Putting messages as an application does: payload to body, properties to an RFH2, wishes to a descriptor.

Makes an `Outgoing` and sends it through a session: within the unit of work of a delivery, or in one of its own. Knows sessions
and verbs; decides nothing.
"""

import math
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, Final, TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import replace

from mqflow.app.handlers.codecs import CCSID_UTF8, Codec, encode
from mqflow.app.handlers.message import PropertyValue
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import HeaderError, MQIError, error_for
from mqflow.mqi.headers import chain, rfh2
from mqflow.mqi.options import Encoding, MessageType, ObjectType, Persistence, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.delivery_delay import check_delay, delay_in_ms
from mqflow.runtime.connection.session import Session
from mqflow.runtime.delay.stage import Stager
from mqflow.runtime.listener.record_queue import put_kept_open
from mqflow.verbs import ObjectDescriptor, Put

__all__ = ("EXPIRY_TENTHS_MAX", "Outgoing", "Publish", "Send", "framed", "outgoing", "published", "put_in_unit_of_work")

_PUT: Final = PutOption.SYNCPOINT | PutOption.FAIL_IF_QUIESCING
EXPIRY_TENTHS_MAX: Final = 999_999_999
_PROPERTY_TYPES: Final = (str, int, float, bytes, type(None))


class PutKeywords(TypedDict, total=False):
    """What may be said of a message that is put; what is not said, or None, is left to the queue's definition."""

    codec: Codec | None
    #: Travel in the `usr` folder of an RFH2.
    properties: Mapping[str, PropertyValue] | None
    persistent: bool | None
    #: 0 to 9.
    priority: int | None
    #: How long the message lives: a timedelta, or seconds.
    expiry: timedelta | float | None
    #: How long before it can be got, from now on: a timedelta, or seconds. It waits on the staging queue.
    delay: timedelta | float | None
    correlation_id: bytes | None
    message_id: bytes | None
    #: The queue for the reply; makes the message a request.
    reply_to: str
    #: The start, for report options, a message type of one's own, and so on; of bytes it says format and character set too.
    descriptor: MessageDescriptor | None


class Outgoing(Struct, frozen=True, kw_only=True):
    """A message about to be put: what `publish` middleware sees, and may replace."""

    queue: str
    queue_manager: str = ""
    descriptor: MessageDescriptor
    body: bytes
    #: Travel in the `usr` folder of an RFH2; none, no RFH2.
    properties: Mapping[str, PropertyValue] = {}
    #: The queue's name is a topic: a publication, which may be retained.
    publishes: bool = False
    retain: bool = False
    #: More than 0: it is delivered that much later.
    delay_ms: int = 0


Send = Callable[[Outgoing], Awaitable[Put]]
Publish = Callable[[Outgoing, Send], Awaitable[Put]]
"""Publish middleware: look, change, call the next."""


def outgoing(queue: str, payload: Any, **wishes: Unpack[PutKeywords]) -> Outgoing:
    """Return the message to put.

    Raises `MQIError` before anything is put: 2013 for an expiry that is not positive, or shorter than the delay, 2046 for a
    delay that is none, or of a message that cannot be delayed.
    """
    body, message_format, ccsid = encode(payload, wishes.get("codec"))
    reply_to = wishes.get("reply_to", "")
    start = wishes.get("descriptor") or MessageDescriptor(
        message_type=MessageType.REQUEST if reply_to else MessageType.DATAGRAM
    )
    fields: dict[str, Any] = {"format": message_format, "ccsid": ccsid, "encoding": Encoding.NATIVE}
    if not message_format and wishes.get("descriptor") is not None:
        fields = {}  # bytes: what they are is said by the descriptor, or by nobody
    persistent, expiry = wishes.get("persistent"), wishes.get("expiry")
    if persistent is not None:
        fields["persistence"] = Persistence.PERSISTENT if persistent else Persistence.NOT_PERSISTENT
    if expiry is not None:
        fields["expiry_tenths"] = _tenths(expiry, queue)
    if reply_to:
        fields["reply_to_queue"] = reply_to
    kept = (("priority", wishes.get("priority")), ("correlation_id", wishes.get("correlation_id")))
    fields |= {name: value for name, value in (*kept, ("message_id", wishes.get("message_id"))) if value is not None}
    descriptor, delay_ms = replace(start, **fields), delay_in_ms(wishes.get("delay") or 0, queue)
    check_delay(delay_ms, descriptor, name=queue)
    properties = wishes.get("properties") or {}
    return Outgoing(queue=queue, descriptor=descriptor, body=body, properties=properties, delay_ms=delay_ms)


def published(topic: str, payload: Any, *, retain: bool = False, **wishes: Unpack[PutKeywords]) -> Outgoing:
    """Return the publication to put. Raises as `outgoing`, and `MQIError` 2046 where it is retained and has a delay."""
    message = outgoing(topic, payload, **wishes)
    check_delay(message.delay_ms, message.descriptor, name=topic, retained=retain)
    return replace(message, publishes=True, retain=retain)


async def put_in_unit_of_work(session: Session, message: Outgoing, stager: Stager) -> Put:
    """Put the message in the unit of work of this session, a delayed one on the staging queue. Raises `MQIError`."""
    descriptor, data = framed(message)
    if message.delay_ms and message.publishes:
        return await stager.publish(session, message.queue, descriptor, data, message.delay_ms, retain=message.retain)
    if message.delay_ms:
        manager = message.queue_manager
        return await stager.put(session, message.queue, descriptor, data, message.delay_ms, queue_manager=manager)
    connection = session.connection
    if message.publishes:
        options = _PUT | PutOption.RETAIN if message.retain else _PUT
        topic = ObjectDescriptor(object_type=ObjectType.TOPIC, object_string=message.queue)
        return await session.call(connection.put1, topic, descriptor, data, options)
    if message.queue_manager not in {"", connection.queue_manager_name}:
        target = ObjectDescriptor(message.queue, queue_manager=message.queue_manager)
        return await session.call(connection.put1, target, descriptor, data, _PUT)
    return await put_kept_open(session, message.queue, descriptor, data, _PUT)


def framed(message: Outgoing) -> tuple[MessageDescriptor, bytes]:
    """Return descriptor and data as they are put: the properties, where there are any, in an RFH2 before the body.

    Raises `MQIError` 2335 or 2334 for properties that an RFH2 cannot hold, and `TypeError` for a value that is none.
    """
    if not message.properties:
        return message.descriptor, message.body
    given: Mapping[str, object] = message.properties
    for name, value in given.items():
        if not isinstance(value, _PROPERTY_TYPES):
            said = "it takes str, int, float, bool, bytes or None"
            raise TypeError(f"Property {name!r} of a message for {message.queue} is a {type(value).__qualname__}: {said}.")
    try:
        return _with_properties(message)
    except HeaderError as error:
        # Not as the HeaderError it is: out of a handler, that says of the message it was given that it cannot be read.
        raise MQIError(
            error.reason, "MQPUT", message.queue, detail=f"Its properties do not fit into an MQRFH2. {error}"
        ) from error


def _with_properties(message: Outgoing) -> tuple[MessageDescriptor, bytes]:
    properties = tuple(rfh2.Property(name=name, value=value) for name, value in message.properties.items())
    header = rfh2.RFH2(folders=(rfh2.Folder(name="usr", properties=properties),), ccsid=CCSID_UTF8)
    return chain.join(message.descriptor, (header,), message.body)


def _tenths(expiry: timedelta | float, queue: str) -> int:
    expiry_s = expiry.total_seconds() if isinstance(expiry, timedelta) else expiry
    if not 0 < expiry_s <= EXPIRY_TENTHS_MAX / 10:
        said = f"An expiry of {expiry!r} is none: it takes more than 0 and at most {EXPIRY_TENTHS_MAX // 10} seconds"
        raise error_for(Reason.EXPIRY_ERROR, "MQPUT", queue, detail=said)
    # Rounded up, as a delay is: of the same length it is not over before. At the microsecond first, so that 0.7 s are 7 tenths.
    return math.ceil(max(1, round(expiry_s * 1_000_000)) / 100_000)
