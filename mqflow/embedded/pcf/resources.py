"""Publishes the figures of queues and connections on the topics below `$SYS/MQ/INFO/QMGR/`, as IBM MQ does for monitors.

The retained publications below METADATA list the classes, their types, and the elements of each type. While a subscription to
a type exists, the queue manager publishes the type every ten seconds. `_CLASSES` has only elements that the embedded queue
manager counts exactly.

Source: "Metrics published on the system topics", amqsrua. UNCERTAIN: the type of the PCF header, and IBM's numbers of the
elements, which a monitor reads from the metadata.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from msgspec import Struct

from mqflow.embedded.calls.publish import matching_subscriptions, place_copies, publication_now
from mqflow.embedded.calls.queue_attributes import attributes_now
from mqflow.embedded.calls.retained import keep_retained
from mqflow.embedded.calls.settle import begin_commit
from mqflow.embedded.catalogue.system_objects import RESOURCE_TOPICS
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.objects import LocalQueue, Subscription, UnitOfWork
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import Encoding, Format, MessageType
from mqflow.mqi.pcf.codes import StructureType
from mqflow.mqi.pcf.structures import CFGR, CFH, CFIN, CFIN64, CFST, Parameter, PCFMessage, to_bytes
from mqflow.mqi.subscription import RetainedPublication
from mqflow.world import Runner, Running

__all__ = ("INTERVAL_S", "ResourcePublisher")

INTERVAL_S: Final = 10
_PER_SECOND: Final = 1_000_000
# MQIAMO_MONITOR_*, MQCAMO_MONITOR_*, MQGACF_MONITOR_* and MQIAMO64_MONITOR_INTERVAL.
_CLASS, _TYPE, _ELEMENT, _DATATYPE, _FLAGS, _INTERVAL = 839, 840, 841, 842, 843, 845
_CLASS_NAME, _TYPE_NAME, _DESCRIPTION = 2713, 2714, 2715
_CLASS_GROUP, _TYPE_GROUP, _ELEMENT_GROUP = 8015, 8016, 8017
_Q_MGR_NAME, _Q_NAME, _TOPIC_STRING = 2015, 2016, 2094
#: The kinds of elements: the value now, and the difference to the last publication.
_UNIT, _DELTA = 1, 2


class _Type(Struct, frozen=True):
    number: int
    name: str
    description: str
    #: The description and the kind of each element.
    elements: tuple[tuple[str, int], ...]
    #: Returns the counts of the elements. The queue is None for a type of the queue manager.
    count: Callable[[QueueManagerState, LocalQueue | None], tuple[int, ...]]


class _Class(Struct, frozen=True):
    number: int
    name: str
    description: str
    #: True if each queue has a topic of its own.
    of_queues: bool
    types: tuple[_Type, ...]


class _Resource(Struct, frozen=True):
    """One topic of figures: a type, for one queue or for the queue manager."""

    of_class: _Class
    type: _Type
    queue: LocalQueue | None


def _connections(state: QueueManagerState, _: LocalQueue | None) -> tuple[int, ...]:
    return state.connected, state.connected - len(state.connections)


def _puts(_: QueueManagerState, queue: LocalQueue | None) -> tuple[int, ...]:
    assert queue is not None  # noqa: S101 - a type of a class of queues
    return queue.statistics.enqueued + queue.statistics.enqueued_before, queue.statistics.put_bytes


def _gets(_: QueueManagerState, queue: LocalQueue | None) -> tuple[int, ...]:
    assert queue is not None  # noqa: S101 - as above
    return queue.statistics.dequeued + queue.statistics.dequeued_before, queue.statistics.got_bytes


def _general(_: QueueManagerState, queue: LocalQueue | None) -> tuple[int, ...]:
    assert queue is not None  # noqa: S101 - as above
    now = attributes_now(queue)
    return now.depth, now.open_input_count, now.open_output_count


_CLASSES: Final = (
    _Class(2, "STATMQI", "API usage statistics", False, (
        _Type(0, "CONNDISC", "MQCONN and MQDISC", (("MQCONN/MQCONNX count", _DELTA), ("MQDISC count", _DELTA)), _connections),
    )),
    _Class(3, "STATQ", "API per-queue usage statistics", True, (
        _Type(2, "PUT", "MQPUT and MQPUT1", (("MQPUT/MQPUT1 count", _DELTA), ("MQPUT byte count", _DELTA)), _puts),
        _Type(3, "GET", "MQGET", (("MQGET count", _DELTA), ("MQGET byte count", _DELTA)), _gets),
        _Type(4, "GENERAL", "General",
              (("Queue depth", _UNIT), ("open input count", _UNIT), ("open output count", _UNIT)), _general),
    )),
)  # fmt: skip


class ResourcePublisher:
    """The publisher of one queue manager. It has a thread only while a subscription to its topics exists."""

    def __init__(self, state: QueueManagerState, runner: Runner) -> None:
        self._state = state
        self._runner = runner
        self._root = f"{RESOURCE_TOPICS}{state.name}/Monitor/"
        self._stop = runner.event()
        self._thread: Running | None = None
        #: For each topic, the time and the counts of the last publication or, before the first, of the subscription.
        self._last: dict[str, tuple[float, tuple[int, ...]]] = {}
        state.when_stopped.append(self._stop.set)
        keep_retained(state, {each.topic_string: each for each in self._metadata()})

    def begin(self, subscription: Subscription) -> None:
        """Count from now on for a new subscription. The caller holds the queue manager's lock."""
        for topic, resource in self._resources(subscription):
            self._last.setdefault(topic, (self._state.clock.monotonic(), resource.type.count(self._state, resource.queue)))
        if self._thread is None and not self._state.stopped:
            self._thread = self._runner.start(self._work, f"mqflow resource topics {self._state.name}")

    def join(self) -> None:
        """Wait until the thread has ended, after the stop. The caller must not hold the queue manager's lock."""
        if (thread := self._thread) is not None:
            thread.join()

    def publish(self) -> bool:
        """Publish each topic that has a subscription. Return False if no topic has a subscription.

        The caller holds the queue manager's lock.
        """
        resources: dict[str, _Resource] = {}
        for subscription in self._state.subscriptions:
            resources.update(self._resources(subscription))
        self._last = {topic: last for topic, last in self._last.items() if topic in resources}
        for topic, resource in resources.items():
            self._publish(topic, resource)
        return bool(resources)

    def _work(self) -> None:
        while not self._stop.wait(INTERVAL_S):
            with self._state.lock:
                if self._state.stopped or not self.publish():
                    self._thread = None
                    return

    def _publish(self, topic: str, resource: _Resource) -> None:
        state, counted = self._state, resource.type.count(self._state, resource.queue)
        now = state.clock.monotonic()
        since, before = self._last.get(topic, (now, (0,) * len(counted)))
        self._last[topic] = now, counted
        if any(value < earlier for value, earlier in zip(counted, before, strict=True)):
            before = (0,) * len(counted)  # the queue was deleted and defined again, so its counts began again
        name = () if resource.queue is None else (CFST(_Q_NAME, resource.queue.name.ljust(48)),)
        numbers = [
            CFIN64(number, value - earlier if kind == _DELTA else value)
            for number, ((_, kind), value, earlier) in enumerate(zip(resource.type.elements, counted, before, strict=True))
        ]
        body = self._body(
            CFST(_Q_MGR_NAME, state.name.ljust(48)),
            *name,
            CFIN(_CLASS, resource.of_class.number),
            CFIN(_TYPE, resource.type.number),
            CFIN64(_INTERVAL, round((now - since) * _PER_SECOND)),
            *numbers,
        )
        publication, unit = publication_now(state, topic, self._descriptor(), body), UnitOfWork()
        with suppress(Refusal, MQIError):  # for example, the queue of the subscription is full: the next publication follows
            place_copies(state, unit, publication, matching_subscriptions(state, publication))
            begin_commit(state, unit, lambda _: None)

    def _resources(self, subscription: Subscription) -> Iterator[tuple[str, _Resource]]:
        """Yield the topics of figures that the subscription matches."""
        wanted = subscription.attributes.topic_string
        if not wanted.startswith(RESOURCE_TOPICS):
            return
        queues = [queue for queue in self._state.queues.values() if isinstance(queue, LocalQueue)]
        if not subscription.wild:
            named = wanted.removeprefix(self._root).split("/")[1:2]
            queues = [queue for queue in queues if named == [_level(queue)]]
        for each in _CLASSES:
            for kind in each.types:
                for queue in queues if each.of_queues else (None,):
                    level = "" if queue is None else f"{_level(queue)}/"
                    topic = f"{self._root}{each.name}/{level}{kind.name}"
                    if subscription.matches(topic):
                        yield topic, _Resource(each, kind, queue)

    def _metadata(self) -> Iterator[RetainedPublication]:
        places = f"{self._root}METADATA/"
        yield self._retained(f"{places}CLASSES", *(
            CFGR(_CLASS_GROUP, (
                CFIN(_CLASS, each.number),
                CFIN(_FLAGS, each.of_queues),
                CFST(_CLASS_NAME, each.name),
                CFST(_DESCRIPTION, each.description),
                CFST(_TOPIC_STRING, f"{places}{each.name}/TYPES"),
            )) for each in _CLASSES
        ))  # fmt: skip
        for each in _CLASSES:
            identity = CFIN(_CLASS, each.number)
            yield self._retained(f"{places}{each.name}/TYPES", identity, CFIN(_FLAGS, each.of_queues), *(
                CFGR(_TYPE_GROUP, (
                    CFIN(_TYPE, kind.number),
                    CFST(_TYPE_NAME, kind.name),
                    CFST(_DESCRIPTION, kind.description),
                    CFST(_TOPIC_STRING, f"{places}{each.name}/{kind.name}"),
                )) for kind in each.types
            ))  # fmt: skip
            for kind in each.types:
                topic = f"{self._root}{each.name}/{'%s/' if each.of_queues else ''}{kind.name}"
                yield self._retained(
                    f"{places}{each.name}/{kind.name}", identity, CFIN(_TYPE, kind.number), CFST(_TOPIC_STRING, topic), *(
                        CFGR(_ELEMENT_GROUP, (
                            CFIN(_ELEMENT, number), CFIN(_DATATYPE, datatype), CFST(_DESCRIPTION, description),
                        )) for number, (description, datatype) in enumerate(kind.elements)
                    ),
                )  # fmt: skip

    def _retained(self, topic: str, *parameters: Parameter) -> RetainedPublication:
        return RetainedPublication(
            topic_string=topic, descriptor=self._descriptor(), body=self._body(*parameters), put_at=self._state.clock.wall()
        )

    def _body(self, *parameters: Parameter) -> bytes:
        header = CFH(type=StructureType.STATISTICS, version=3)
        return to_bytes(PCFMessage(header, parameters), encoding=Encoding.NATIVE, ccsid=self._state.attributes.ccsid)

    def _descriptor(self) -> MessageDescriptor:
        return MessageDescriptor(
            format=Format.PCF,
            message_type=MessageType.DATAGRAM,
            persistence=0,
            priority=0,
            message_id=self._state.identifiers.identifier(),
            encoding=Encoding.NATIVE,
            ccsid=self._state.attributes.ccsid,
        )


def _level(queue: LocalQueue) -> str:
    """Return the name of the queue as one level of a topic: `&` stands for a slash (IBM MQ 9.3)."""
    return queue.name.replace("/", "&")
