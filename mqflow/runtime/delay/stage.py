"""Puts messages with a delivery delay, in the unit of work of their sender.

An embedded queue manager stages the message itself: it gets the delay in a put to the target. For any other queue manager, and
for a staging queue that the user has chosen, this module checks the target. Then it puts the staged message on the staging
queue. `policy.delivery_delay` decides which messages can be delayed, and makes the staged message.
Source: IBM, "JMS 2.0 delivery delay": authority on the target at the send, resolution of the target, the basic checks.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from mqflow.many_verbs import open_to_put
from mqflow.mqi.attributes.queue import NOT_APPLICABLE, QUEUE_ATTRIBUTES
from mqflow.mqi.descriptor import NO_ID, PRIORITY_AS_Q_DEF, MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import ObjectType, OpenOption, Persistence, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.delivery_delay import ClockReading, TargetQueue, check_delay, check_target, staged
from mqflow.verbs import Connection, ObjectDescriptor, Put, QueueManager
from mqflow.world import Clock, World

__all__ = (
    "EMBEDDED_STAGING_QUEUE",
    "STAGING_QUEUE",
    "Stager",
    "StagingQueueManager",
    "is_embedded",
    "moment",
    "staging_queue_for",
    "staging_queue_of",
)

STAGING_QUEUE: Final = "MQFLOW.DDELAY.QUEUE"
"""The staging queue on IBM MQ. There SYSTEM.DDELAY.LOCAL.QUEUE belongs to the queue manager's own delay processor."""
EMBEDDED_STAGING_QUEUE: Final = "SYSTEM.DDELAY.LOCAL.QUEUE"
"""The staging queue of the embedded queue manager. Its messages are in the order of their due times."""

_STAGE: Final = PutOption.SYNCPOINT | PutOption.NEW_MSG_ID | PutOption.FAIL_IF_QUIESCING
_PUT: Final = PutOption.SYNCPOINT | PutOption.FAIL_IF_QUIESCING
_SELECTORS: Final = {spec.field: spec.selector for spec in QUEUE_ATTRIBUTES if spec.selector}
_ASKED: Final = (
    "put_inhibited", "max_message_bytes", "max_depth", "depth", "default_priority", "default_persistence", "definition_type",
    "default_bind", "cluster",
)  # fmt: skip
_NOT_FIXED: Final = 1
_TEMPORARY_DYNAMIC: Final = 3
"""3 is the value of "temporary dynamic queue" in the definition type, and of "not fixed" (MQBND_BIND_NOT_FIXED) in DEFBIND."""
#: The fields that the put of the staged message has filled in, and that are the same in the message that was sent.
_FILLED_IN: Final = (
    "reply_to_queue", "reply_to_queue_manager", "user_identifier", "accounting_token", "application_identity_data",
    "put_application_type", "put_application_name", "put_date", "put_time", "application_origin_data",
)  # fmt: skip
_IDENTIFIER_PARTS: Final = 4


@runtime_checkable
class StagingQueueManager(Protocol):
    """A queue manager in this process. Its staging queue is in the order of the due times, and it reports staged messages."""

    @property
    def owner(self) -> str:
        """The user for the work of the queue manager itself."""
        ...

    def when_staged(self, wake: Callable[[], None]) -> None:
        """Call `wake` once, from any thread, when the staging queue has a message to deliver. `wake` must not block."""

    def on_staged(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` once, from any thread, when the next message is staged. `wake` must not block.

        Returns a function that withdraws the request.
        """
        ...


def is_embedded(queue_manager: QueueManager) -> bool:
    """Return whether this is an embedded queue manager: in this process, or served by another process."""
    # Only an embedded queue manager has `staging_queue`; the protocol `QueueManager` does not.
    return getattr(queue_manager, "staging_queue", "") == EMBEDDED_STAGING_QUEUE


def staging_queue_of(queue_manager: QueueManager, wished: str = "") -> str:
    """Return the staging queue for applications on this queue manager. Raises `MQIError` 2298 like `staging_queue_for`."""
    return staging_queue_for(wished, embedded=is_embedded(queue_manager))


def staging_queue_for(wished: str, *, embedded: bool) -> str:
    """Return `wished` if it is set, otherwise the default staging queue for this kind of queue manager.

    Raises `MQIError` 2298 if that queue belongs to the delay processor of IBM MQ, which cannot read mqflow's messages.
    """
    if wished == EMBEDDED_STAGING_QUEUE and not embedded:
        detail = f"{wished} belongs to the delay processor of IBM MQ; define a queue of your own, for example {STAGING_QUEUE}"
        raise error_for(Reason.FUNCTION_NOT_SUPPORTED, "Sending with a delivery delay", wished, detail=detail)
    return wished or (EMBEDDED_STAGING_QUEUE if embedded else STAGING_QUEUE)


def moment(clock: Clock) -> ClockReading:
    """Return the current time of both clocks."""
    return ClockReading(
        wall_ms=int(clock.wall() * 1_000), monotonic_ms=int(clock.monotonic() * 1_000), epoch=clock.monotonic_epoch()
    )


class Stager(Struct, frozen=True):
    """Puts messages and publications with a delay, on one staging queue."""

    queue: str
    world: World

    def put_on(
        self,
        connection: Connection,
        queue: str,
        descriptor: MessageDescriptor,
        body: bytes,
        delay_ms: int,
        *,
        queue_manager: str = "",
        sent: ClockReading | None = None,
    ) -> Put:
        """Stage the message for delivery `delay_ms` after `sent` (None means now). It is on the staging queue after the commit.

        The result is like that of a put without a delay: its MsgId is the MsgId of the message when it is delivered. Raises
        `MQIError` if the message cannot be delayed, or if the target refuses it. Raises 2298 if there is no staging queue.

        The sender needs authority to put to the target. The sender also needs authority to inquire the target and to put to the
        staging queue, except if the queue manager stages the message itself.
        """
        check_delay(delay_ms, descriptor, name=queue)
        if self.queue == EMBEDDED_STAGING_QUEUE:
            asked, data = staged(descriptor, body, delay_ms=delay_ms, now=sent or moment(self.world.clock))
            return connection.put1(ObjectDescriptor(queue, queue_manager=queue_manager), asked, data, _PUT)
        resolved = self._resolved(connection, queue, descriptor, len(body), queue_manager)
        now = sent or moment(self.world.clock)
        named, data = staged(resolved, body, target=queue, target_queue_manager=queue_manager, delay_ms=delay_ms, now=now)
        try:
            put = connection.put1(self.queue, named, data, _STAGE)
        except MQIError as error:
            if error.reason != Reason.UNKNOWN_OBJECT_NAME or error.object_name != self.queue:
                raise
            detail = f"There is no staging queue: DEFINE QLOCAL('{self.queue}') MSGDLVSQ(FIFO), or name another (delay_queue)"
            raise error_for(
                Reason.FUNCTION_NOT_SUPPORTED,
                "Sending with a delivery delay",
                queue,
                connection.queue_manager_name,
                detail=detail,
            ) from error
        # `_FILLED_IN` names fields of the descriptor.
        filled_in = {field: getattr(put.descriptor, field) for field in _FILLED_IN}
        complete = replace(resolved, **filled_in)
        return Put(
            descriptor=complete, resolved_queue=queue, resolved_queue_manager=put.resolved_queue_manager, reason=put.reason
        )

    def publish_on(
        self,
        connection: Connection,
        topic: str,
        descriptor: MessageDescriptor,
        body: bytes,
        delay_ms: int,
        *,
        retain: bool = False,
        sent: ClockReading | None = None,
    ) -> Put:
        """Stage a publication for the subscriptions to `topic` that exist now. `delay_ms` counts as in `put_on`.

        Raises `MQIError` if the publication cannot be delayed, or if the topic refuses it. The reason is 2502 if the topic
        takes no delayed publications, and 2298 if the queue manager cannot stage publications.
        """
        check_delay(delay_ms, descriptor, name=topic, retained=retain)
        if self.queue != EMBEDDED_STAGING_QUEUE:
            detail = (
                "Only an embedded queue manager matches a delayed publication with its subscriptions, and stages it; "
                "IBM MQ does that for JMS clients. Put to a queue with a delay, and publish from there when it comes"
            )
            manager = connection.queue_manager_name
            raise error_for(Reason.FUNCTION_NOT_SUPPORTED, "Publishing with a delivery delay", topic, manager, detail=detail)
        fresh = descriptor.message_id == NO_ID
        named = replace(descriptor, message_id=self._identifier() if fresh else descriptor.message_id)
        now = sent or moment(self.world.clock)
        on_queue, data = staged(named, body, target_type=ObjectType.TOPIC, delay_ms=delay_ms, now=now)
        target = ObjectDescriptor(object_type=ObjectType.TOPIC, object_string=topic)
        return connection.put1(target, on_queue, data, _PUT)

    def _resolved(
        self, connection: Connection, queue: str, descriptor: MessageDescriptor, body_bytes: int, queue_manager: str
    ) -> MessageDescriptor:
        """Return the descriptor with the MsgId, priority and persistence that the message gets now, when it is sent."""
        found = _inquire(connection, queue, queue_manager)
        if found is not None:
            check_target(_target(found), body_bytes, name=queue)
            if found["definition_type"] == _TEMPORARY_DYNAMIC:  # at the delivery, it refuses a persistent message (2048)
                descriptor = replace(descriptor, persistence=Persistence.NOT_PERSISTENT)
        fresh = descriptor.message_id == NO_ID
        return replace(
            descriptor,
            message_id=self._identifier() if fresh else descriptor.message_id,
            priority=_as_defined(descriptor.priority, PRIORITY_AS_Q_DEF, found, "default_priority", queue),
            persistence=_as_defined(descriptor.persistence, Persistence.AS_Q_DEF, found, "default_persistence", queue),
        )

    def _identifier(self) -> bytes:
        return b"".join(int(self.world.random.random() * 2**48).to_bytes(6, "big") for _ in range(_IDENTIFIER_PARTS))


def _inquire(connection: Connection, queue: str, queue_manager: str) -> Mapping[str, int | str] | None:
    """Return the attributes of the target; None if this user may not inquire it. Raises `MQIError` if it refuses puts."""
    output = OpenOption.OUTPUT | OpenOption.FAIL_IF_QUIESCING
    target = ObjectDescriptor(queue, queue_manager=queue_manager)
    try:
        handle = open_to_put(connection, target, output | OpenOption.INQUIRE)
    except MQIError as error:
        if error.reason not in {Reason.NOT_AUTHORIZED, Reason.OPTION_NOT_VALID_FOR_TYPE}:
            raise
        connection.close(open_to_put(connection, target, output))
        return None
    try:
        values = connection.inquire(handle, [_SELECTORS[field] for field in _ASKED]).values
    finally:
        connection.close(handle)
    return {field: values[_SELECTORS[field]] for field in _ASKED}


def _target(found: Mapping[str, int | str]) -> TargetQueue:
    def number(field: str) -> int | None:
        value = found[field]
        return None if not isinstance(value, int) or value == NOT_APPLICABLE else value

    cluster = str(found["cluster"]).strip()
    return TargetQueue(
        put_inhibited=number("put_inhibited") == 1,
        max_message_bytes=number("max_message_bytes"),
        max_depth=number("max_depth"),
        depth=number("depth"),
        clustered_and_bound=bool(cluster.strip("*")) and number("default_bind") != _NOT_FIXED,
    )


def _as_defined(value: int, as_defined: int, found: Mapping[str, int | str] | None, field: str, queue: str) -> int:
    """Return the value in the descriptor. If it means "as the queue defines", return the value of the queue's attribute."""
    if value != as_defined:
        return value
    if found is None:
        detail = f"Without inquire authority {field} of the queue is not known: set it in the message, or grant INQ"
        raise error_for(Reason.NOT_AUTHORIZED, "Sending with a delivery delay", queue, detail=detail)
    return int(found[field])
