"""Puts messages that are to be delivered later on the staging queue, in the unit of work of whoever sends them.

Asks the target what the queue manager would ask (may it be opened, has it room), and says what time it is. What may be sent,
and what a staged message looks like, is said by `policy.delivery_delay`.
Source: IBM, "JMS 2.0 delivery delay": authority on the target at the send, first resolution, the basic checks.
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
from mqflow.policy.delivery_delay import Moment, Target, check_delay, check_target, staged
from mqflow.runtime.connection.session import Session
from mqflow.verbs import Connection, ObjectDescriptor, Put, QueueManager
from mqflow.world import Clock, Random

__all__ = (
    "EMBEDDED_STAGING_QUEUE",
    "STAGING_QUEUE",
    "Stager",
    "StagingQueueManager",
    "is_embedded",
    "moment",
    "stages_publications",
    "staging_queue_of",
)

STAGING_QUEUE: Final = "MQFLOW.DDELAY.QUEUE"
"""The staging queue on IBM MQ, where SYSTEM.DDELAY.LOCAL.QUEUE belongs to the queue manager's own delay processor."""
EMBEDDED_STAGING_QUEUE: Final = "SYSTEM.DDELAY.LOCAL.QUEUE"
"""That of the embedded queue manager, which keeps it in the order of due times."""

_PUT: Final = PutOption.SYNCPOINT | PutOption.NEW_MSG_ID | PutOption.FAIL_IF_QUIESCING
_PUBLISH: Final = PutOption.SYNCPOINT | PutOption.FAIL_IF_QUIESCING
_SELECTORS: Final = {spec.field: spec.selector for spec in QUEUE_ATTRIBUTES if spec.selector}
_ASKED: Final = (
    "put_inhibited",
    "max_message_bytes",
    "max_depth",
    "depth",
    "default_priority",
    "default_persistence",
    "default_bind",
    "cluster",
)
_NOT_FIXED: Final = 1
#: What the put fills in of the message as it was sent; the rest describes the staged one.
_FILLED_IN: Final = (
    "reply_to_queue_manager",
    "user_identifier",
    "accounting_token",
    "application_identity_data",
    "put_application_type",
    "put_application_name",
    "put_date",
    "put_time",
    "application_origin_data",
)
_IDENTIFIER_PARTS: Final = 4


@runtime_checkable
class StagingQueueManager(Protocol):
    """A queue manager in this process that keeps a staging queue in order, and says when there is something on it."""

    @property
    def owner(self) -> str:
        """The user that the queue manager's own work is done as."""
        ...

    def when_staged(self, wake: Callable[[], None]) -> None:
        """Call `wake` once, from any thread, when there is a delayed message to deliver; it must only hand over."""
        ...

    def on_staged(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` once, from any thread, when another message is staged; it must only hand over.

        Returns what withdraws it.
        """
        ...


def is_embedded(queue_manager: QueueManager) -> bool:
    """Return whether this is an embedded queue manager, here or served: its staging queue is in the order of due times."""
    return getattr(queue_manager, "staging_queue", "") == EMBEDDED_STAGING_QUEUE


def stages_publications(queue_manager: QueueManager, queue: str) -> bool:
    """Return whether a delayed publication can be staged on this queue: an embedded queue manager does it, on its own only."""
    return is_embedded(queue_manager) and queue == EMBEDDED_STAGING_QUEUE


def staging_queue_of(queue_manager: QueueManager, wished: str = "") -> str:
    """Return the staging queue to use: the one that is wished for, else the queue manager's, else `STAGING_QUEUE`.

    Raises `MQIError` 2298 for IBM MQ's own: its delay processor would meet messages that it cannot read.
    """
    if is_embedded(queue_manager):
        return wished or EMBEDDED_STAGING_QUEUE
    if wished == EMBEDDED_STAGING_QUEUE:
        said = f"{wished} belongs to the delay processor of IBM MQ; define a queue of your own, {STAGING_QUEUE} say"
        raise error_for(Reason.FUNCTION_NOT_SUPPORTED, "Sending with a delivery delay", wished, detail=said)
    return wished or STAGING_QUEUE


def moment(clock: Clock) -> Moment:
    """Return what time it is."""
    return Moment(wall_ms=int(clock.wall() * 1_000), monotonic_ms=int(clock.monotonic() * 1_000), epoch=clock.monotonic_epoch())


class Stager(Struct, frozen=True):
    """Knows the staging queue, the time, and how to make a MsgId."""

    queue: str
    clock: Clock
    random: Random
    #: Whether the queue manager matches a delayed publication with its subscriptions; IBM MQ does that for JMS clients only.
    publishes: bool = False

    async def put(
        self,
        session: Session,
        queue: str,
        descriptor: MessageDescriptor,
        body: bytes,
        delay_ms: int,
        *,
        queue_manager: str = "",
    ) -> Put:
        """Put the message to be delivered in `delay_ms`; it is on the staging queue once the unit of work is committed.

        What is returned is what a put without a delay would have: the MsgId is the one the message will be delivered with.
        Raises the `MQIError` of a restriction, of the target, or 2298 where there is no staging queue.
        """
        return await session.call(
            self.put_on, session.connection, queue, descriptor, body, delay_ms, queue_manager=queue_manager
        )

    def put_on(
        self,
        connection: Connection,
        queue: str,
        descriptor: MessageDescriptor,
        body: bytes,
        delay_ms: int,
        *,
        queue_manager: str = "",
    ) -> Put:
        """As `put`, on a connection."""
        check_delay(delay_ms, descriptor, name=queue)
        resolved = self._resolved(connection, queue, descriptor, len(body), queue_manager)
        named, data = staged(
            resolved, body, target=queue, target_queue_manager=queue_manager, delay_ms=delay_ms, now=moment(self.clock)
        )
        try:
            put = connection.put1(self.queue, named, data, _PUT)
        except MQIError as error:
            if error.reason != Reason.UNKNOWN_OBJECT_NAME or error.object_name != self.queue:
                raise
            said = f"There is no staging queue: DEFINE QLOCAL('{self.queue}') MSGDLVSQ(FIFO), or name another (delay_queue)"
            raise error_for(
                Reason.FUNCTION_NOT_SUPPORTED,
                "Sending with a delivery delay",
                queue,
                connection.queue_manager_name,
                detail=said,
            ) from error
        filled_in = {field: getattr(put.descriptor, field) for field in _FILLED_IN}
        sent = replace(resolved, **filled_in)
        return Put(descriptor=sent, resolved_queue=queue, resolved_queue_manager=put.resolved_queue_manager, reason=put.reason)

    async def publish(
        self, session: Session, topic: str, descriptor: MessageDescriptor, body: bytes, delay_ms: int, *, retain: bool = False
    ) -> Put:
        """Publish on the topic to be delivered in `delay_ms`, to the subscriptions that match it now.

        Raises the `MQIError` of a restriction or of the topic, 2502 where that does not take delayed publications, and 2298
        where the queue manager cannot stage them.
        """
        return await session.call(self.publish_on, session.connection, topic, descriptor, body, delay_ms, retain=retain)

    def publish_on(
        self,
        connection: Connection,
        topic: str,
        descriptor: MessageDescriptor,
        body: bytes,
        delay_ms: int,
        *,
        retain: bool = False,
    ) -> Put:
        """As `publish`, on a connection."""
        check_delay(delay_ms, descriptor, name=topic, retained=retain)
        if not self.publishes:
            said = (
                "Only an embedded queue manager matches a delayed publication with its subscriptions, and stages it; "
                "IBM MQ does that for JMS clients. Put to a queue with a delay, and publish from there when it comes"
            )
            manager = connection.queue_manager_name
            raise error_for(Reason.FUNCTION_NOT_SUPPORTED, "Publishing with a delivery delay", topic, manager, detail=said)
        fresh = descriptor.message_id == NO_ID
        named = replace(descriptor, message_id=self._identifier() if fresh else descriptor.message_id)
        now = moment(self.clock)
        on_queue, data = staged(named, body, target="", target_type=ObjectType.TOPIC, delay_ms=delay_ms, now=now)
        target = ObjectDescriptor(object_type=ObjectType.TOPIC, object_string=topic)
        return connection.put1(target, on_queue, data, _PUBLISH)

    def _resolved(
        self, connection: Connection, queue: str, descriptor: MessageDescriptor, body_bytes: int, queue_manager: str
    ) -> MessageDescriptor:
        """Return the descriptor with all that is decided at the send: MsgId, priority, persistence."""
        found = _inquire(connection, queue, queue_manager)
        if found is not None:
            check_target(_target(found), body_bytes, name=queue)
        fresh = descriptor.message_id == NO_ID
        return replace(
            descriptor,
            message_id=self._identifier() if fresh else descriptor.message_id,
            priority=_as_defined(descriptor.priority, PRIORITY_AS_Q_DEF, found, "default_priority", queue),
            persistence=_as_defined(descriptor.persistence, Persistence.AS_Q_DEF, found, "default_persistence", queue),
        )

    def _identifier(self) -> bytes:
        return b"".join(int(self.random.random() * 2**48).to_bytes(6, "big") for _ in range(_IDENTIFIER_PARTS))


def _inquire(connection: Connection, queue: str, queue_manager: str) -> Mapping[str, int | str] | None:
    """Return what is known of the target, None where it may be put to and not inquired. Raises `MQIError` where it may not."""
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


def _target(found: Mapping[str, int | str]) -> Target:
    def number(field: str) -> int | None:
        value = found[field]
        return None if not isinstance(value, int) or value == NOT_APPLICABLE else value

    cluster = str(found["cluster"]).strip()
    return Target(
        put_inhibited=number("put_inhibited") == 1,
        max_message_bytes=number("max_message_bytes"),
        max_depth=number("max_depth"),
        depth=number("depth"),
        clustered_and_bound=bool(cluster.strip("*")) and number("default_bind") != _NOT_FIXED,
    )


def _as_defined(said: int, as_defined: int, found: Mapping[str, int | str] | None, field: str, queue: str) -> int:
    """Return the value that was said, or where that leaves it to the queue, the queue's."""
    if said != as_defined:
        return said
    if found is None:
        detail = f"Without inquire authority {field} of the queue is not known: say it with the message, or grant INQ"
        raise error_for(Reason.NOT_AUTHORIZED, "Sending with a delivery delay", queue, detail=detail)
    return int(found[field])
