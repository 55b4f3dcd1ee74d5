"""The state of the embedded queue manager, with the tools for steps: clock, serial numbers, names, the lock.

Callers of a function that takes a `QueueManagerState` hold its lock, unless the docstring of the function says otherwise. This
file knows no verb. `open` and `administration` write `queues`; `object_records`, `authority_records` and `retained` write
`objects`; `subscribe` writes the subscriptions; `settle` writes the reason of the stop.
`EmbeddedQueueManager` and `end` write the connections.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Final, Protocol, cast

from msgspec.structs import replace

from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.access import Authorities
from mqflow.embedded.state.backlog import Backlog, QueuedMessage, order_key, serial_of
from mqflow.embedded.state.identifiers import Identifiers, Timestamps
from mqflow.embedded.state.objects import ConnectionState, LocalQueue, QueueDefinition, Subscription, UnitOfWork
from mqflow.embedded.state.pages import StoredPages
from mqflow.embedded.state.steady_clock import CLOCK, ClockAnchor, SteadyClock, anchored
from mqflow.embedded.state.stored_objects import kind_of, load_objects
from mqflow.embedded.state.subscription_index import Subscriptions
from mqflow.embedded.state.topic_tree import TopicTree
from mqflow.embedded.state.users import THIS_USER_ONLY, Users
from mqflow.embedded.storage.store import Snapshot, Store
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.queue_manager import QueueManagerAttributes
from mqflow.mqi.authority_records import AuthorityRecord
from mqflow.mqi.options import QueueType
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionAttributes
from mqflow.world import Clock, Lock, Runner, World

__all__ = ("QueueManagerState", "Watcher")

_logger: Final = logging.getLogger("mqflow")
_AS_QMGR: Final = -3
_XMITQ: Final = 1


class Watcher(Protocol):
    """Processes puts and gets for performance events and triggers. `calls/watch.py` implements it."""

    def put(self, queue: LocalQueue, message: QueuedMessage, unit: UnitOfWork | None) -> None:
        """Process a put."""

    def got(self, queue: LocalQueue) -> None:
        """Process a get, committed or not."""

    def fell(self, queue: LocalQueue) -> None:
        """Process a decrease of the depth: a get outside a unit of work, or the commit of a get."""

    def full(self, queue: LocalQueue) -> None:
        """Process a put that was refused because the queue is full."""

    def may_trigger(self, queue: LocalQueue) -> None:
        """Process a change of the queue's attributes, or of its open handles, that can cause a trigger message."""

    def opened(self, queue: LocalQueue) -> None:
        """Process an open of an initiation queue for input."""


class Turn:
    """The commands that change one object. One of them is under way, and all others wait."""

    __slots__ = ("commands", "lock")

    def __init__(self, lock: Lock) -> None:
        #: The number of commands, and the lock that the command under way holds.
        self.commands: int = 0
        self.lock: Final[Lock] = lock


class QueueManagerState:
    """The whole state of a queue manager in memory. One lock guards all fields."""

    def __init__(
        self,
        attributes: QueueManagerAttributes,
        *,
        store: Store,
        world: World,
        snapshot: Snapshot,
        users: Users = THIS_USER_ONLY,
    ) -> None:
        #: Makes the locks and events that threads wait for.
        self.runner: Runner = world.runner
        # Reentrant, because a store can call back before its `write` returns.
        self.lock: Final = threading.RLock()
        self.attributes = attributes
        self.store = store
        self.clock: Clock = world.clock
        self.durable: bool = store.durable
        self.queues: dict[str, LocalQueue | QueueDefinition] = {}
        #: Objects other than queues, by kind and name; see `stored_objects`.
        self.objects: Final = load_objects(snapshot.objects)
        anchor = anchored(self.clock, [each for each in self.objects["clock"].values() if isinstance(each, ClockAnchor)])
        self.objects["clock"][CLOCK] = anchor
        self.steady_clock: Final = SteadyClock(anchor)
        # The dictionary of a kind has only records of this kind, but its declared type is the general `Struct`.
        records = cast("dict[str, AuthorityRecord]", self.objects[kind_of(AuthorityRecord)])
        subscribed = cast("Iterable[SubscriptionAttributes]", self.objects["subscription"].values())  # as above
        self.authorities: Final = Authorities(records, users)
        self.topics: Final = TopicTree(self.objects["topic"])
        self.subscriptions: Final = Subscriptions(subscribed)
        self.next_serial: int = snapshot.next_serial
        # Start at the later of two clocks: a wall clock that was set back would repeat earlier identifiers.
        self.identifiers: Final = Identifiers(
            attributes.name, max(self.clock.wall(), anchor.steady_ms / 1_000), snapshot.next_serial
        )
        self.timestamps: Final = Timestamps()
        self.pages: Final = StoredPages(store, self._lose)
        self.connections: set[ConnectionState] = set()
        #: The number of connections since the start, of programs only.
        self.connected = 0
        #: The connections of the queue manager itself. A quiesce does not wait for them.
        self.system_connections: set[ConnectionState] = set()
        #: The units of work of single calls, and those that the store has not answered yet. A connection can already have its
        #: next unit of work.
        self.in_commit: Final[set[UnitOfWork]] = set()
        #: The commands under way, by the name of their object.
        self.turns: Final[dict[str, Turn]] = {}
        self.quiescing = False
        #: True if the queue manager stops after the last connection ends.
        self.stops_when_empty = False
        #: The time of the start, by the wall clock.
        self.started_at: float = self.clock.wall()
        #: Processes the puts and gets of queues with TRIGGER, and of all queues while PERFMEV is ENABLED.
        self.watcher: Watcher | None = None
        #: Called with each new subscription to a topic below RESOURCE_TOPICS.
        self.when_monitored: Callable[[Subscription], None] | None = None
        self._initiation_queues: dict[str, list[LocalQueue]] | None = None
        #: Functions to call when the next message is staged.
        self.when_staged: list[Callable[[], None]] = []
        #: The reason code of the stop; 0 while the queue manager runs.
        self.stopped = 0
        #: Functions to call when the queue manager stops.
        self.when_stopped: list[Callable[[], None]] = []
        #: The failure of the store that stopped the queue manager, or an empty text.
        self.failure = ""
        #: The damaged messages in quarantine, each with its serial number and the cause.
        self.quarantined: list[tuple[int, str]] = list(snapshot.quarantined)
        if self.quarantined:
            _logger.warning(
                "%s: the number of damaged messages that are set aside in its data folder is %d. No program gets them. "
                "EmbeddedQueueManager.quarantined lists them.",
                attributes.name,
                len(self.quarantined),
            )
        for queue in snapshot.queues:
            self.define(queue)
        self._load(snapshot)

    @property
    def name(self) -> str:
        """The queue manager's name."""
        return self.attributes.name

    def define(self, attributes: QueueAttributes) -> LocalQueue | QueueDefinition:
        """Add a queue or a queue definition, in memory."""
        if attributes.kind is not QueueType.LOCAL:
            self.queues[attributes.name] = definition = QueueDefinition(attributes)
            return definition
        self.queues[attributes.name] = made = LocalQueue(attributes, self.pages)
        made.statistics.reset_at = self.clock.monotonic()
        if attributes.trigger:
            self.triggers_changed()
        return made

    def triggered_to(self, initiation_queue: str) -> Sequence[LocalQueue]:
        """Return the queues with TRIGGER whose INITQ is this queue."""
        if self._initiation_queues is None:
            self._initiation_queues = {}
            for queue in self.queues.values():
                if isinstance(queue, LocalQueue) and queue.attributes.trigger:
                    self._initiation_queues.setdefault(queue.attributes.initiation_queue, []).append(queue)
        return self._initiation_queues.get(initiation_queue, ())

    def triggers_changed(self) -> None:
        """Forget which queues trigger, because a queue with TRIGGER was defined, altered or deleted."""
        self._initiation_queues = None

    def local_queue(self, name: str) -> LocalQueue:
        """Return the local queue of this name, or the target of the alias of this name.

        Refuses with 2085, 2082 or 2001, and with 2057 a model or a remote queue (rc2057: a model is not a destination).
        """
        found = self.queues.get(name)
        if found is None:
            raise Refusal(Reason.UNKNOWN_OBJECT_NAME)
        if found.attributes.kind is QueueType.MODEL:
            raise Refusal(Reason.Q_TYPE_ERROR, f"{name} is a model")
        if found.attributes.kind is QueueType.REMOTE:
            raise Refusal(Reason.Q_TYPE_ERROR, f"{name} is the definition of a remote queue")
        return found if isinstance(found, LocalQueue) else self.target_of(found.attributes)

    def target_of(self, alias: QueueAttributes) -> LocalQueue:
        """Return the local queue that is the target of an alias. Refuses with 2082 or 2001."""
        base = self.queues.get(alias.target)
        if base is None:
            raise Refusal(Reason.UNKNOWN_ALIAS_BASE_Q, f"It is an alias of {alias.target!r}, which does not exist")
        if not isinstance(base, LocalQueue):
            raise Refusal(Reason.ALIAS_BASE_Q_TYPE_ERROR, f"Its target {alias.target} is not a local queue")
        return base

    def transmission_queue(self, wanted: str, queue_manager: str) -> LocalQueue:
        """Return the transmission queue to another queue manager: XMITQ, the queue with that name, or DEFXMITQ.

        Refuses with 2087, 2196, 2091 and 2092; for DEFXMITQ with 2197, 2198 and 2199 (name resolution, MQOPEN).
        """
        default = self.attributes.default_transmission_queue
        name = wanted or (queue_manager if queue_manager in self.queues else default)
        if not name or not queue_manager:
            detail = f"There is no transmission queue to {queue_manager!r}: no XMITQ, no queue of that name, and no DEFXMITQ"
            raise Refusal(Reason.UNKNOWN_REMOTE_Q_MGR, detail)
        is_default = name == default and name not in {wanted, queue_manager}
        found = self.queues.get(name)
        if found is None:
            raise Refusal(Reason.UNKNOWN_DEF_XMIT_Q if is_default else Reason.UNKNOWN_XMIT_Q, f"There is no queue {name}")
        if not isinstance(found, LocalQueue):
            reason = Reason.DEF_XMIT_Q_TYPE_ERROR if is_default else Reason.XMIT_Q_TYPE_ERROR
            raise Refusal(reason, f"{name} is not a local queue")
        if found.attributes.usage != _XMITQ:
            reason = Reason.DEF_XMIT_Q_USAGE_ERROR if is_default else Reason.XMIT_Q_USAGE_ERROR
            raise Refusal(reason, f"{name} has USAGE(NORMAL), and a transmission queue needs USAGE(XMITQ)")
        return found

    def manager_alias(self, name: str) -> QueueDefinition | None:
        """Return the queue manager alias of this name: a remote queue definition without RNAME. Return None for any other name.

        Refuses with 2087 a definition with RNAME or without RQMNAME.
        Source: IBM q025990 (name resolution), q002730; "Unknown Remote Queue Manager" (q050110).
        """
        found = self.queues.get(name) if name != self.name else None
        if not isinstance(found, QueueDefinition) or found.attributes.kind is not QueueType.REMOTE:
            return None
        if found.attributes.remote_queue or not found.attributes.remote_queue_manager:
            raise Refusal(Reason.UNKNOWN_REMOTE_Q_MGR, f"{name} has RNAME, or no RQMNAME: it is no queue manager alias")
        return found

    def reply_target(self, queue: str, queue_manager: str) -> tuple[str, str]:
        """Return ReplyToQ and ReplyToQMgr of a message on a queue. If ReplyToQMgr is blank, ReplyToQ can be a remote queue.

        Source: IBM q023100; ReplyToQ (q097660), ReplyToQMgr (q097670).
        """
        if not queue or queue_manager:
            return queue, queue_manager if queue else ""
        found = self.queues.get(queue)
        if found is None or found.attributes.kind is not QueueType.REMOTE:
            return queue, self.name
        return found.attributes.remote_queue or queue, found.attributes.remote_queue_manager or self.name

    def monitors(self, queue: QueueAttributes) -> bool:
        """True if the queue collects monitoring data: MONQ of the queue or, if that is QMGR, MONQ of the queue manager.

        If MONQ of the queue manager is NONE, no queue collects monitoring data (ALTER QMGR, MONQ).
        """
        of_all = self.attributes.queue_monitoring
        return of_all >= 0 and (of_all if queue.monitoring == _AS_QMGR else queue.monitoring) > 0

    def uncommitted(self, queue: LocalQueue, of_the_call: UnitOfWork | None) -> Iterator[QueuedMessage]:
        """Yield the messages of the queue that units of work have put or got. The cost grows with the units of work.

        `of_the_call` is the unit of work of the present call, which can be separate from the connection's.
        """
        units = set(self.in_commit)
        if of_the_call is not None:
            units.add(of_the_call)
        for connection in self.connections | self.system_connections:
            units.add(connection.unit_of_work)
            units.update(ahead.unit for ahead in connection.ahead)
        for unit in units:
            for of_message, message in chain(unit.puts.values(), unit.gets):
                if of_message is queue:
                    yield message

    def serial(self) -> int:
        """Return the next serial number. Serial numbers give the order of arrival in the whole queue manager."""
        serial = self.next_serial
        self.next_serial = serial + 1
        return serial

    @contextmanager
    def in_turn(self, name: str) -> Iterator[None]:
        """Run the block, which changes the object of this name, after all earlier blocks for this name.

        A block waits for the store. If the store refuses the change, no later change must hinder its undo. The caller does not
        hold the lock.
        """
        with self.lock:
            turn = self.turns.setdefault(name, Turn(self.runner.lock()))
            turn.commands += 1
        try:
            with turn.lock:
                yield
        finally:
            with self.lock:
                turn.commands -= 1
                if not turn.commands:
                    del self.turns[name]

    def dated(self, attributes: QueueAttributes) -> QueueAttributes:
        """Return the definition with the present time as alteration time and, if it has no creation date, as creation time."""
        date, time = self.now_as_text()
        created = attributes.creation_date
        return replace(
            attributes,
            creation_date=created or date,
            creation_time=attributes.creation_time if created else time,
            alteration_date=date,
            alteration_time=time,
        )

    def now_as_text(self) -> tuple[str, str]:
        """Return the present date and time in the form of MQSC: ``2026-11-21`` and ``12.34.56``, GMT."""
        return self.as_text(self.clock.wall())

    def as_text(self, wall_s: float | None) -> tuple[str, str]:
        """Return the date and time of a moment in the form of MQSC; two empty texts for None."""
        if wall_s is None:
            return "", ""
        date, time = self.timestamps.of(wall_s)
        return f"{date[:4]}-{date[4:6]}-{date[6:]}", f"{time[:2]}.{time[2:4]}.{time[4:6]}"

    def _load(self, snapshot: Snapshot) -> None:
        loaded: dict[str, list[int]] = {}
        for entry in snapshot.serials:
            first = order_key(entry.order_priority, 0)
            loaded.setdefault(entry.queue, []).extend([first | serial for serial in entry.serials])
        for name, keys in loaded.items():
            queue = self.queues[name]
            if isinstance(queue, LocalQueue):
                queue.load(keys)
                queue.statistics.high_depth = queue.depth
                queue.statistics.served_since = self.clock.monotonic()  # the service timer starts with the queue manager

    def _lose(self, queue: Backlog, key: int) -> None:
        """Take a damaged message off its queue, and log that. The store has already put the message in quarantine."""
        queue.lose(key)
        name = queue.name if isinstance(queue, LocalQueue) else ""
        self.quarantined.append((serial_of(key), f"A message on {name} is damaged"))
        _logger.error(
            "%s: a message on %s is damaged, and is set aside in the data folder (serial number %d). No program gets it. "
            "Keep a copy of the folder, and check the disk.",
            self.name,
            name,
            serial_of(key),
        )
