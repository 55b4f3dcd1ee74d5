"""Watches each put and get, and creates the performance events and trigger messages that the rules require.

`enqueue`, `get`, `settle` and `open` call the watcher of the queue manager: for queues with triggers, and for every queue while
PERFMEV is ENABLED. The decisions are in `rules`. Callers hold the queue manager's lock.
Source: IBM q026930 (conditions for a trigger event), q027000 (properties of trigger messages).
"""

from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Any, Final

from msgspec.structs import replace

from mqflow.embedded.calls.event_messages import performance_event
from mqflow.embedded.calls.open import TEMPORARY_DYNAMIC, input_handles
from mqflow.embedded.calls.reports import send
from mqflow.embedded.catalogue.kinds import DefinedObject
from mqflow.embedded.catalogue.system_objects import PERFORMANCE_EVENTS
from mqflow.embedded.rules.performance_events import after_get, after_put, service, when_full
from mqflow.embedded.rules.trigger import TRIGGER_DEPTH, triggers
from mqflow.embedded.state.backlog import QueuedMessage
from mqflow.embedded.state.objects import LocalQueue, UnitOfWork
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.storage.store import QueueDefined
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers.trigger import TriggerMessage, to_bytes
from mqflow.mqi.options import Format, MessageType, Persistence
from mqflow.policy.poison.report import ReportMessage

__all__ = ("QueueWatcher",)

_FIFO: Final = 1


class QueueWatcher:
    """The watcher of one queue manager."""

    def __init__(self, state: QueueManagerState) -> None:
        self._state = state
        #: For each queue, the monotonic time of its last trigger message.
        self._triggered_at: dict[str, float] = {}
        #: The queues whose trigger messages are being put now. A queue can be its own initiation queue.
        self._triggering: set[str] = set()

    def put(self, queue: LocalQueue, message: QueuedMessage, unit: UnitOfWork | None) -> None:
        """Process a put. A trigger message joins the unit of work of the put, and never triggers the queue that caused it."""
        if self._is_watched(queue):
            now, statistics = self._state.clock.monotonic(), queue.statistics
            since = statistics.served_since
            event = service(queue.attributes, None if since is None else now - since, is_get=False)
            if event is not None:
                performance_event(self._state, queue, event)
            if queue.depth == 1:
                queue.statistics.served_since = now
            if (event := after_put(queue.attributes, queue.depth)) is not None:
                performance_event(self._state, queue, event)
        attributes = queue.attributes
        if not attributes.trigger or queue.name in self._triggering:
            return
        if message.descriptor.priority >= attributes.trigger_message_priority:
            self._trigger(queue, unit, message)

    def got(self, queue: LocalQueue) -> None:
        """Process a get, committed or not. The get stops or restarts the service interval timer."""
        if not self._is_watched(queue):
            return
        now, since = self._state.clock.monotonic(), queue.statistics.served_since
        event = service(queue.attributes, None if since is None else now - since, is_get=True)
        if event is not None:
            performance_event(self._state, queue, event)
        queue.statistics.served_since = now if queue.available else None

    def fell(self, queue: LocalQueue) -> None:
        """Process a decrease of the depth: a get outside a unit of work, or the commit of a get."""
        if self._is_watched(queue) and (event := after_get(queue.attributes, queue.depth)) is not None:
            performance_event(self._state, queue, event)

    def full(self, queue: LocalQueue) -> None:
        """Process a put that was refused because the queue is full."""
        if self._is_watched(queue) and (event := when_full(queue.attributes)) is not None:
            performance_event(self._state, queue, event)

    def may_trigger(self, queue: LocalQueue) -> None:
        """Process a change of the queue's attributes, or of its open handles, that can cause a trigger message."""
        if queue.attributes.trigger and not queue.deleted:
            self._trigger(queue, None, None)

    def opened(self, queue: LocalQueue) -> None:
        """Process an open of an initiation queue for input: put the trigger messages that had to wait for this open."""
        for each in self._state.triggered_to(queue.name):
            self.may_trigger(each)

    def _is_watched(self, queue: LocalQueue) -> bool:
        # The event queue itself causes no performance event.
        return self._state.attributes.performance_event and queue.name != PERFORMANCE_EVENTS

    def _trigger(self, queue: LocalQueue, unit: UnitOfWork | None, arrived: QueuedMessage | None) -> None:
        state, attributes = self._state, queue.attributes
        now, last = state.clock.monotonic(), self._triggered_at.get(queue.name)
        if not triggers(
            attributes,
            qualifying=_qualifying(state, queue, unit, arrived),
            arrived=arrived is not None,
            input_count=len(input_handles(queue)),
            since_last_ms=None if last is None else (now - last) * 1000,
            interval_ms=state.attributes.trigger_interval_ms,
        ):
            return
        target = state.queues.get(attributes.initiation_queue)
        process = state.objects["process"].get(attributes.process)
        if not isinstance(target, LocalQueue) or target.attributes.get_inhibited or not input_handles(target):
            return
        if attributes.process and not isinstance(process, DefinedObject):
            return
        self._triggered_at[queue.name] = now
        if attributes.trigger_type == TRIGGER_DEPTH:
            queue.attributes = replace(attributes, trigger=False)
            if attributes.definition_type != TEMPORARY_DYNAMIC:
                state.store.write((QueueDefined(queue.attributes),), None)
        descriptor = MessageDescriptor(
            format=Format.TRIGGER,
            message_type=MessageType.DATAGRAM,
            persistence=int(Persistence.NOT_PERSISTENT),
            priority=target.attributes.default_priority,
            ccsid=state.attributes.ccsid,
        )
        values = process.values if isinstance(process, DefinedObject) else {}
        body = to_bytes(_message(attributes, values), ccsid=state.attributes.ccsid)
        message = ReportMessage(target.name, "", descriptor, body)
        send_to = partial(self._send, queue.name, message)
        send_to(unit)
        if unit is not None:
            # Source: q027000: a trigger message is delivered even if the unit of work that caused it is backed out.
            unit.undo.append(partial(send_to, None))

    def _send(self, queue: str, message: ReportMessage, unit: UnitOfWork | None) -> None:
        """Put a trigger message of the queue. If the message comes to this queue, it does not trigger the queue again."""
        self._triggering.add(queue)
        try:
            send(self._state, unit, message)
        finally:
            self._triggering.discard(queue)


# Any: the table of attributes gives each value its type.
def _message(queue: QueueAttributes, values: Mapping[str, Any]) -> TriggerMessage:
    return TriggerMessage(
        queue=queue.name,
        process=queue.process,
        trigger_data=queue.trigger_data,
        application_type=int(values.get("application_type", 0)),
        application=str(values.get("application", "")),
        environment_data=str(values.get("environment_data", "")),
        user_data=str(values.get("user_data", "")),
    )


def _qualifying(state: QueueManagerState, queue: LocalQueue, unit: UnitOfWork | None, arrived: QueuedMessage | None) -> int:
    """Return the number of messages with priority TRIGMPRI or higher, committed or not. It can stop a little above TRIGDPTH.

    Source: q026930: "the queue manager counts both committed and uncommitted messages" (queues that are not shared).
    """
    attributes = queue.attributes
    lowest = attributes.trigger_message_priority
    if lowest == 0:
        return queue.depth
    enough = max(attributes.trigger_depth, 2)  # FIRST distinguishes one message from more messages
    if attributes.message_delivery_sequence != _FIFO:
        found = queue.count_from(lowest, enough)
    else:  # the place of a message does not tell its priority
        available = (each for each in queue.first(queue.available) if each.descriptor.priority >= lowest)
        found = sum(1 for _ in islice(available, enough))
    key = None if arrived is None else arrived.key
    if found < enough and queue.uncommitted:
        others = (each for each in state.uncommitted(queue, unit) if each.descriptor.priority >= lowest and each.key != key)
        found += sum(1 for _ in islice(others, enough - found))
    return found + (key is not None and not queue.holds(key))
