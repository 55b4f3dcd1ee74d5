"""Putting messages as an application does: payload to body, properties to an RFH2, wishes to a descriptor.

Makes an `Outgoing` and sends it through a session: within the unit of work of a delivery, or in one of its own. Knows sessions
and verbs; decides nothing.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.app.codecs import CCSID_UTF8, Codec, encode
from mqflow.app.message import PropertyValue
from mqflow.mqi import headers, rfh2
from mqflow.mqi.descriptor import NO_ID, MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.options import Encoding, MessageType, Persistence, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.runtime.session import Session
from mqflow.verbs import Put

__all__ = ("Outgoing", "Publish", "Send", "framed", "outgoing", "put_in_unit_of_work")

_PUT: Final = PutOption.SYNCPOINT | PutOption.FAIL_IF_QUIESCING
_EXPIRY_TENTHS_MAX: Final = 999_999_999


class Outgoing(Struct, frozen=True, kw_only=True):
    """A message about to be put: what `publish` middleware sees, and may replace."""

    queue: str
    queue_manager: str = ""
    descriptor: MessageDescriptor
    body: bytes
    #: Travel in the `usr` folder of an RFH2; none, no RFH2.
    properties: Mapping[str, PropertyValue] = {}


Send = Callable[[Outgoing], Awaitable[Put]]
Publish = Callable[[Outgoing, Send], Awaitable[Put]]
"""Publish middleware: look, change, call the next."""


def outgoing(
    queue: str,
    payload: Any,
    *,
    codec: Codec | None = None,
    properties: Mapping[str, PropertyValue] | None = None,
    persistent: bool | None = None,
    priority: int | None = None,
    expiry: timedelta | float | None = None,
    correlation_id: bytes = NO_ID,
    message_id: bytes = NO_ID,
    reply_to: str = "",
    descriptor: MessageDescriptor | None = None,
) -> Outgoing:
    """Return the message to put. What is None is left to the queue's definition; `expiry` is a timedelta or seconds.

    A descriptor given is the start: for report options, a message type of one's own, and so on.
    Raises `MQIError` 2013 for an expiry that is not positive, before anything is put.
    """
    body, message_format, ccsid = encode(payload, codec)
    start = descriptor or MessageDescriptor(message_type=MessageType.REQUEST if reply_to else MessageType.DATAGRAM)
    wishes: dict[str, Any] = {"format": message_format, "ccsid": ccsid, "encoding": Encoding.NATIVE}
    if persistent is not None:
        wishes["persistence"] = Persistence.PERSISTENT if persistent else Persistence.NOT_PERSISTENT
    if priority is not None:
        wishes["priority"] = priority
    if expiry is not None:
        wishes["expiry_tenths"] = _tenths(expiry, queue)
    if correlation_id != NO_ID:
        wishes["correlation_id"] = correlation_id
    if message_id != NO_ID:
        wishes["message_id"] = message_id
    if reply_to:
        wishes["reply_to_queue"] = reply_to
    return Outgoing(queue=queue, descriptor=replace(start, **wishes), body=body, properties=properties or {})


async def put_in_unit_of_work(session: Session, message: Outgoing) -> Put:
    """Put the message in the unit of work of this session. Raises the `MQIError` of the put."""
    descriptor, data = framed(message)
    connection = session.connection
    if message.queue_manager not in {"", connection.queue_manager_name}:
        manager = message.queue_manager
        return await session.call(connection.put1, message.queue, descriptor, data, _PUT, queue_manager=manager)
    handle = await session.output(message.queue)
    return await session.call(connection.put, handle, descriptor, data, _PUT)


def framed(message: Outgoing) -> tuple[MessageDescriptor, bytes]:
    """Return descriptor and data as they are put: the properties, where there are any, in an RFH2 before the body."""
    if not message.properties:
        return message.descriptor, message.body
    properties = tuple(rfh2.Property(name=name, value=value) for name, value in message.properties.items())
    header = rfh2.RFH2(folders=(rfh2.Folder(name="usr", properties=properties),), ccsid=CCSID_UTF8)
    return headers.join(message.descriptor, (header,), message.body)


def _tenths(expiry: timedelta | float, queue: str) -> int:
    expiry_s = expiry.total_seconds() if isinstance(expiry, timedelta) else expiry
    if not 0 < expiry_s <= _EXPIRY_TENTHS_MAX / 10:
        said = f"An expiry of {expiry!r} is none: it takes more than 0 and at most {_EXPIRY_TENTHS_MAX // 10} seconds"
        raise error_for(Reason.EXPIRY_ERROR, "MQPUT", queue, detail=said)
    return max(1, round(expiry_s * 10))
