"""A state machine that makes each call on the embedded queue manager and on the model, and compares the answers.

After every step, the visible state of the queues must equal the state of the model. A ledger checks that no committed
message was lost (I1), committed twice (I2) or came from nowhere (I3).
"""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeVar

from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import MemoryStore, Store
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import EXPIRY_UNLIMITED, NO_ID, MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption, QueueType
from mqflow.mqi.reason_codes import Reason, reason_name
from mqflow.testing.virtual_clock import VirtualClock
from mqflow.verbs import Got, ObjectHandle, Put
from mqflow.world import World
from tests.model.actions import action
from tests.model.comparing import Waiter, attempt, get_options, refused_alike, seen_in_model, seen_in_queue_manager
from tests.model.model import ANY, Alias, Connection, Handle, Look, Match, Message, Model, Queue, RefusedError, State, Unit

M = TypeVar("M")
R = TypeVar("R")

CONNECTIONS_MAX = 3
HANDLES_MAX = 10
HANDLES_MIN = 2
UNCOMMITTED_MAX = 4
STEPS_BETWEEN_RESTARTS = 30

QUEUES = ("Q.A", "Q.FIFO", "Q.SMALL")
NAMES = (*QUEUES, "ALIAS.A")
IDENTIFIERS = (NO_ID, b"A" * 24, b"B" * 24)

EVERYTHING = OpenOption.INPUT_SHARED | OpenOption.BROWSE | OpenOption.OUTPUT
LOCKING = OpenOption.INPUT_SHARED | OpenOption.BROWSE

_INPUT = int(OpenOption.INPUT_SHARED | OpenOption.INPUT_EXCLUSIVE)
_OUTPUT = int(OpenOption.OUTPUT)

ONE_PURPOSE = (OpenOption.INPUT_SHARED, OpenOption.OUTPUT, OpenOption.BROWSE)

GET_UNIT = {
    Unit.NO: GetOption.NO_SYNCPOINT,
    Unit.YES: GetOption.SYNCPOINT,
    Unit.IF_PERSISTENT: GetOption.SYNCPOINT_IF_PERSISTENT,
}
PUT_UNIT = {Unit.NO: PutOption.NO_SYNCPOINT, Unit.YES: PutOption.SYNCPOINT}
LOOK = {
    Look.FIRST: GetOption.BROWSE_FIRST,
    Look.NEXT: GetOption.BROWSE_NEXT,
    Look.UNDER_CURSOR: GetOption.BROWSE_MSG_UNDER_CURSOR,
}

PICKS = range(32)
PRIORITIES = range(3)
IDENTITIES = range(9)
EITHER = (False, True)
IN_UNIT = (Unit.YES, Unit.NO)


class QueueManagerMachine:
    """Rules over one queue manager in memory."""

    durable: ClassVar[bool] = False

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.folder = tempfile.TemporaryDirectory(prefix="mqflow-model-") if self.durable else None
        self.model = Model(UNCOMMITTED_MAX)
        self.connections: dict[Connection, EmbeddedConnection] = {}
        self.handles: dict[Handle, ObjectHandle] = {}
        self.waiters: dict[Handle, Waiter] = {}
        self.bodies = 0
        self.steps = 0
        #: The ledger: bodies with a committed put, bodies with a committed get, and bodies that may be gone for a reason.
        self.committed: set[bytes] = set()
        self.consumed: set[bytes] = set()
        self.excused: set[bytes] = set()
        self.queue_manager = self.start()

    def start(self) -> EmbeddedQueueManager:
        store: Store = MemoryStore() if self.folder is None else SqliteStore(Path(self.folder.name), world=World(self.clock))
        return EmbeddedQueueManager("QM1", store=store, world=World(self.clock))

    def close(self) -> None:
        self.queue_manager.close()
        if self.folder is not None:
            self.folder.cleanup()

    # -- comparing

    def same(self, expected: Callable[[], M], actual: Callable[[], R]) -> tuple[M, R] | None:
        """Run the call on both; return both answers, or None if both refused."""
        reason, answers = attempt(actual)
        try:
            model = expected()
        except RefusedError as refused:
            refused_alike(refused, reason, answers)
            return None
        assert not reason, f"{reason_name(reason)} where the model sees no reason to refuse"
        return model, answers[0]

    def same_message(self, answers: tuple[Message | None, Got | None] | None) -> Message | None:
        """Compare the messages that were got; return the message."""
        if answers is None:
            return None
        model, got = answers
        if model is None or got is None:
            assert (model and model.body) == (got and got.body)
            return None
        assert seen_in_model(model) == seen_in_queue_manager(got)
        return model

    # -- choosing

    def connection(self, pick: int, *, working: bool = False) -> tuple[Connection, EmbeddedConnection]:
        """Return a connection; with `working`, preferably a connection with something to settle."""
        busy = [connection for connection in self.model.connections if connection.operations]
        among = busy if working and busy else self.model.connections
        chosen = among[pick % len(among)]
        return chosen, self.connections[chosen]

    def anybody_works(self) -> bool:
        return any(connection.operations for connection in self.connections)

    def handle(self, pick: int, options: OpenOption = OpenOption(0)) -> Handle | None:  # noqa: B008 - a flag is a constant
        """Return a handle, preferably one that is open for these options and does not wait."""
        free = [handle for handle in self.handles if handle not in self.waiters]
        fitting = [handle for handle in free if handle.options & options == options] or free
        return fitting[pick % len(fitting)] if fitting else None

    def real(self, handle: Handle) -> tuple[EmbeddedConnection, ObjectHandle]:
        return self.connections[handle.connection], self.handles[handle]

    def queue(self, pick: int, *, unused: bool = False) -> Queue | None:
        """Return a queue; with `unused`, preferably a queue that is not open."""
        queues = list(self.model.queues.values())
        among = [queue for queue in queues if not queue.handles] if unused else queues
        among = among or queues
        return among[pick % len(among)] if among else None

    # -- definitions

    def begin(self) -> None:
        self.define_everything()
        self.connect_programs()

    def connect_programs(self) -> None:
        """Connect two programs and open queues for all calls, because most interesting steps need such handles."""
        for name in ("Q.A", "ALIAS.A"):
            self.connect()
            self.open(-1, name, EVERYTHING)
            self.open(-1, "Q.FIFO", EVERYTHING)

    def define_everything(self) -> None:
        administration = self.queue_manager.administration
        administration.alter_queue_manager({"max_uncommitted_messages": UNCOMMITTED_MAX})
        for name in QUEUES:
            self.define(name)
        administration.define(QueueAttributes(name="ALIAS.A", kind=QueueType.ALIAS, target="Q.A"))
        self.model.aliases["ALIAS.A"] = Alias("ALIAS.A", "Q.A")

    def define(self, name: str) -> None:
        fifo, max_depth = name == "Q.FIFO", 3 if name == "Q.SMALL" else 1_000
        attributes = QueueAttributes(name=name, max_depth=max_depth, max_message_bytes=100, message_delivery_sequence=int(fifo))
        self.queue_manager.administration.define(attributes)
        self.model.queues[name] = Queue(name, fifo=fifo, max_depth=max_depth)

    @action(weight=8, when=lambda self: len(self.model.queues) < len(QUEUES))
    def define_again(self) -> None:
        for name in QUEUES:
            if name not in self.model.queues:
                self.define(name)

    @action(weight=1, pick=PICKS, purge=EITHER)
    def delete(self, pick: int, purge: bool) -> None:  # noqa: FBT001 - drawn
        queue = self.queue(pick, unused=True)
        if queue is not None:
            self.look(queue)
            gone = [message.body for message in queue.messages]
            administration = self.queue_manager.administration
            deleted = self.same(
                lambda: self.model.delete(queue, purge=purge), lambda: administration.delete(queue.name, purge=purge)
            )
            self.excused |= set(gone) if deleted else set()

    @action(weight=1, pick=PICKS)
    def clear(self, pick: int) -> None:
        queue = self.queue(pick, unused=True)
        if queue is not None:
            gone = [message.body for message in queue.messages]
            cleared = self.same(lambda: self.model.clear(queue), lambda: self.queue_manager.administration.clear(queue.name))
            self.excused |= set(gone) if cleared else set()

    @action(weight=1, pick=PICKS)
    def inhibit_get(self, pick: int) -> None:
        self.inhibit(pick, "get_inhibited", inhibited=True)

    @action(weight=1, pick=PICKS)
    def inhibit_put(self, pick: int) -> None:
        self.inhibit(pick, "put_inhibited", inhibited=True)

    @action(weight=6, when=lambda self: self.inhibited("get_inhibited"), pick=PICKS)
    def allow_get(self, pick: int) -> None:
        self.inhibit(pick, "get_inhibited", inhibited=False)

    @action(weight=6, when=lambda self: self.inhibited("put_inhibited"), pick=PICKS)
    def allow_put(self, pick: int) -> None:
        self.inhibit(pick, "put_inhibited", inhibited=False)

    def inhibit(self, pick: int, attribute: str, *, inhibited: bool) -> None:
        """Inhibit one queue, or allow all inhibited queues: if all calls were refused, the test would show nothing."""
        definitions = {**self.model.queues, **self.model.aliases}
        names = [list(definitions)[pick % len(definitions)]] if inhibited else self.inhibited(attribute)
        for name in names:
            self.queue_manager.administration.alter(name, {attribute: inhibited})
            setattr(definitions[name], attribute, inhibited)

    def inhibited(self, attribute: str) -> list[str]:
        definitions = {**self.model.queues, **self.model.aliases}
        return [name for name, definition in definitions.items() if getattr(definition, attribute)]

    @action(weight=1, pick=PICKS, depth=range(6))
    def alter_max_depth(self, pick: int, depth: int) -> None:
        queue = self.queue(pick)
        if queue is not None:
            self.queue_manager.administration.alter(queue.name, {"max_depth": depth})
            queue.max_depth = depth

    # -- connections

    @action(weight=2, when=lambda self: len(self.connections) < CONNECTIONS_MAX)
    def connect(self) -> None:
        real = self.queue_manager.connect(application_name="model")
        self.connections[self.model.connect()] = real

    @action(weight=1, when=anybody_works, pick=PICKS)
    def disconnect_commits(self, pick: int) -> None:
        connection, real = self.connection(pick, working=True)
        self.committing(connection)
        self.same(lambda: self.model.disconnect(connection), real.disconnect)
        self.forget(connection)

    @action(weight=2, when=anybody_works, pick=PICKS)
    def kill_connection(self, pick: int) -> None:
        connection, real = self.connection(pick, working=True)
        self.model.kill(connection)
        real.abandon()
        self.forget(connection)

    def forget(self, connection: Connection) -> None:
        del self.connections[connection]
        for handle in [handle for handle in self.handles if handle.connection is connection]:
            del self.handles[handle]
            self.waiters.pop(handle, None)

    @action(weight=5, when=anybody_works, pick=PICKS)
    def commit(self, pick: int) -> None:
        connection, real = self.connection(pick, working=True)
        self.committing(connection)
        self.same(lambda: self.model.commit(connection), real.commit)

    @action(weight=5, when=anybody_works, pick=PICKS)
    def backout(self, pick: int) -> None:
        connection, real = self.connection(pick, working=True)
        self.same(lambda: self.model.backout(connection), real.backout)

    def committing(self, connection: Connection) -> None:
        """Enter the unit of work in the ledger: it is about to be committed."""
        self.committed |= {message.body for _, message in connection.puts}
        for _, message in connection.gets:
            self.consume(message.body)

    def consume(self, body: bytes) -> None:
        assert body in self.committed, "I3: a message was got that nobody had put"
        assert body not in self.consumed, "I2: a message was got in two committed units of work"
        self.consumed.add(body)

    # -- opening

    def open(self, connection_pick: int, name: str, options: OpenOption) -> None:
        if len(self.handles) >= HANDLES_MAX:
            return
        connection, real = self.connection(connection_pick)
        answers = self.same(lambda: self.model.open(connection, name, options), lambda: real.open(name, options))
        if answers is not None:
            handle, opened = answers
            self.handles[handle] = opened

    @action(weight=2, when=lambda self: self.connections, pick=PICKS, name=NAMES)
    def open_for_everything(self, pick: int, name: str) -> None:
        self.open(pick, name, EVERYTHING)

    @action(weight=2, when=lambda self: self.connections, pick=PICKS, name=(*NAMES, "NO.SUCH.QUEUE"), options=ONE_PURPOSE)
    def open_for_one_purpose(self, pick: int, name: str, options: OpenOption) -> None:
        self.open(pick, name, options)

    @action(weight=1, when=lambda self: self.connections, pick=PICKS, name=NAMES)
    def open_exclusively(self, pick: int, name: str) -> None:
        self.open(pick, name, OpenOption.INPUT_EXCLUSIVE | OpenOption.BROWSE)

    @action(weight=2, when=lambda self: len(self.handles) > HANDLES_MIN, pick=PICKS)
    def close_handle(self, pick: int) -> None:
        handle = list(self.handles)[pick % len(self.handles)]
        real, opened = self.real(handle)
        self.same(lambda: self.model.close(handle), lambda: real.close(opened))
        del self.handles[handle]
        self.waiters.pop(handle, None)

    # -- putting

    def new_message(self, priority: int, *, persistent: bool, pick: int = 0, expiry_s: float | None = None) -> Message:
        self.bodies += 1
        return Message(
            body=f"{self.bodies}".encode(), serial=0, priority=priority, persistent=persistent,
            message_id=IDENTIFIERS[pick % 3], correlation_id=IDENTIFIERS[pick // 3 % 3],
            expires_at=None if expiry_s is None else self.model.now + expiry_s, stated_priority=priority,
        )  # fmt: skip

    def put(self, handle: Handle, message: Message, unit: Unit, actual: Callable[[MessageDescriptor], Put]) -> None:
        expiry_tenths = EXPIRY_UNLIMITED if message.expires_at is None else round((message.expires_at - self.model.now) * 10)
        descriptor = MessageDescriptor(
            priority=message.priority,
            persistence=int(Persistence.PERSISTENT if message.persistent else Persistence.NOT_PERSISTENT),
            message_id=message.message_id,
            correlation_id=message.correlation_id,
            expiry_tenths=expiry_tenths,
        )
        answers = self.same(lambda: self.model.put(handle, message, unit), lambda: actual(descriptor))
        if answers is not None:
            message.message_id = answers[1].descriptor.message_id
            self.committed |= {message.body} if unit is Unit.NO else set()

    @action(weight=9, when=lambda self: self.handles, pick=PICKS, priority=PRIORITIES, persistent=EITHER, identity=IDENTITIES)
    def put_outside_the_unit(self, pick: int, priority: int, persistent: bool, identity: int) -> None:  # noqa: FBT001 - drawn
        self.put_message(pick, priority, Unit.NO, identity, persistent=persistent)

    @action(weight=6, when=lambda self: self.handles, pick=PICKS, priority=PRIORITIES, persistent=EITHER, identity=IDENTITIES)
    def put_in_the_unit(self, pick: int, priority: int, persistent: bool, identity: int) -> None:  # noqa: FBT001 - drawn
        self.put_message(pick, priority, Unit.YES, identity, persistent=persistent)

    def put_message(self, pick: int, priority: int, unit: Unit, identity: int, *, persistent: bool) -> None:
        handle = self.handle(pick, OpenOption.OUTPUT)
        if handle is not None:
            real, opened = self.real(handle)
            message = self.new_message(priority, persistent=persistent, pick=identity)
            self.put(handle, message, unit, lambda descriptor: real.put(opened, descriptor, message.body, PUT_UNIT[unit]))

    @action(weight=3, when=lambda self: self.handles, pick=PICKS, tenths=(5, 20), persistent=EITHER)
    def put_expiring(self, pick: int, tenths: int, persistent: bool) -> None:  # noqa: FBT001 - drawn
        handle = self.handle(pick, OpenOption.OUTPUT)
        if handle is not None:
            real, opened = self.real(handle)
            message = self.new_message(1, persistent=persistent, expiry_s=tenths / 10)
            self.excused.add(message.body)
            no_unit = PutOption.NO_SYNCPOINT
            self.put(handle, message, Unit.NO, lambda descriptor: real.put(opened, descriptor, message.body, no_unit))

    @action(weight=1, when=lambda self: self.handles, pick=PICKS, unit=IN_UNIT)
    def put_too_long(self, pick: int, unit: Unit) -> None:
        handle = self.handle(pick, OpenOption.OUTPUT)
        if handle is not None:
            real, opened = self.real(handle)
            message = self.new_message(0, persistent=False)
            message.body = bytes(101)
            self.put(handle, message, unit, lambda descriptor: real.put(opened, descriptor, message.body, PUT_UNIT[unit]))

    @action(
        weight=3,
        when=lambda self: self.connections,
        pick=PICKS,
        name=NAMES,
        priority=PRIORITIES,
        persistent=EITHER,
        unit=IN_UNIT,
    )
    def put1(self, pick: int, name: str, priority: int, persistent: bool, unit: Unit) -> None:  # noqa: FBT001 - drawn
        connection, real = self.connection(pick)
        message = self.new_message(priority, persistent=persistent)
        try:
            handle = self.model.open(connection, name, OpenOption.OUTPUT)
        except RefusedError:
            self.same(
                lambda: self.model.open(connection, name, OpenOption.OUTPUT),
                lambda: real.put1(name, MessageDescriptor(), message.body, PUT_UNIT[unit]),
            )
            return
        self.put(handle, message, unit, lambda descriptor: real.put1(name, descriptor, message.body, PUT_UNIT[unit]))
        self.model.close(handle)

    # -- getting

    def get(self, handle: Handle, unit: Unit, match: Match = ANY) -> None:
        unit = self.unit_for(handle, unit)
        options = get_options(GET_UNIT[unit], match)
        real, opened = self.real(handle)
        answers = self.same(lambda: self.model.get(handle, unit, match), lambda: real.get(opened, options))
        self.got(self.same_message(answers))
        if match != ANY:
            self.look(handle.queue)  # no page says what a search by identifier discards

    def unit_for(self, handle: Handle, unit: Unit) -> Unit:
        """Return the unit for a get: a message put in this unit of work is got in it. No page says what other gets see."""
        own = any(message.state is State.PUT and message.connection is handle.connection for message in handle.queue.messages)
        return Unit.YES if own else unit

    def got(self, message: Message | None) -> None:
        if message is not None and message.state is State.THERE:
            self.consume(message.body)

    @action(weight=3, when=lambda self: self.handles, pick=PICKS)
    def get_outside_the_unit(self, pick: int) -> None:
        handle = self.handle(pick, OpenOption.INPUT_SHARED)
        if handle is not None:
            self.get(handle, Unit.NO)

    @action(weight=6, when=lambda self: self.handles, pick=PICKS)
    def get_in_the_unit(self, pick: int) -> None:
        handle = self.handle(pick, OpenOption.INPUT_SHARED)
        if handle is not None:
            self.get(handle, Unit.YES)

    @action(weight=2, when=lambda self: self.handles, pick=PICKS)
    def get_in_the_unit_if_persistent(self, pick: int) -> None:
        handle = self.handle(pick, OpenOption.INPUT_SHARED)
        if handle is not None:
            self.get(handle, Unit.IF_PERSISTENT)

    @action(weight=2, when=lambda self: self.handles, pick=PICKS, unit=IN_UNIT, identifier=IDENTIFIERS[1:])
    def get_by_message_id(self, pick: int, unit: Unit, identifier: bytes) -> None:
        handle = self.handle(pick, OpenOption.INPUT_SHARED)
        if handle is not None:
            self.get(handle, unit, Match(message_id=identifier))

    @action(weight=2, when=lambda self: self.handles, pick=PICKS, unit=IN_UNIT, identifier=IDENTIFIERS[1:])
    def get_by_correlation_id(self, pick: int, unit: Unit, identifier: bytes) -> None:
        handle = self.handle(pick, OpenOption.INPUT_SHARED)
        if handle is not None:
            self.get(handle, unit, Match(correlation_id=identifier))

    @action(weight=3, when=lambda self: self.handles, pick=PICKS, unit=IN_UNIT)
    def get_under_cursor(self, pick: int, unit: Unit) -> None:
        handle = self.handle(pick, LOCKING)
        if handle is None or handle.options & LOCKING != LOCKING or handle.cursor_unknown:
            return
        unit = self.unit_for(handle, unit)
        options = get_options(GET_UNIT[unit] | GetOption.MSG_UNDER_CURSOR)
        real, opened = self.real(handle)
        answers = self.same(lambda: self.model.get_under_cursor(handle, unit), lambda: real.get(opened, options))
        self.got(self.same_message(answers))

    # -- browsing

    def browse(self, pick: int, look: Look, *, lock: bool = False) -> None:
        handle = self.handle(pick, LOCKING if lock else OpenOption.BROWSE)
        if handle is None or (lock and handle.options & LOCKING != LOCKING):
            return
        if self.unit_for(handle, Unit.NO) is Unit.YES:
            return  # no page says whether a browse sees the puts of its own unit of work
        if handle.cursor_unknown:
            look = Look.FIRST
        options = get_options(LOOK[look] | (GetOption.LOCK if lock else GetOption.NONE))
        real, opened = self.real(handle)
        answers = self.same(lambda: self.model.browse(handle, look, lock=lock), lambda: real.get(opened, options))
        self.same_message(answers)

    @action(weight=2, when=lambda self: self.handles, pick=PICKS)
    def browse_first(self, pick: int) -> None:
        self.browse(pick, Look.FIRST)

    @action(weight=4, when=lambda self: self.handles, pick=PICKS)
    def browse_next(self, pick: int) -> None:
        self.browse(pick, Look.NEXT)

    @action(weight=2, when=lambda self: self.handles, pick=PICKS)
    def browse_under_cursor(self, pick: int) -> None:
        self.browse(pick, Look.UNDER_CURSOR)

    @action(weight=3, when=lambda self: self.handles, pick=PICKS, look=tuple(Look))
    def browse_and_lock(self, pick: int, look: Look) -> None:
        self.browse(pick, look, lock=True)

    @action(weight=2, when=lambda self: self.handles, pick=PICKS)
    def unlock(self, pick: int) -> None:
        locking = [handle for handle in self.handles if handle.locked is not None and handle not in self.waiters]
        handle = locking[pick % len(locking)] if locking else self.handle(pick, LOCKING)
        if handle is not None and handle.options & LOCKING == LOCKING and not handle.get_inhibited:
            real, opened = self.real(handle)
            self.same(lambda: self.model.unlock(handle), lambda: real.get(opened, get_options(GetOption.UNLOCK)))

    # -- waiting

    @action(weight=6, when=lambda self: self.handles, pick=PICKS, identifier=IDENTIFIERS)
    def wait(self, pick: int, identifier: bytes) -> None:
        handle = self.handle(pick, OpenOption.INPUT_SHARED)
        if handle is None or self.unit_for(handle, Unit.NO) is Unit.YES:
            return
        match = ANY if identifier == NO_ID else Match(correlation_id=identifier)
        real, opened = self.real(handle)
        waiter = Waiter(handle, match)
        withdraw = real.on_arrival(opened, get_options(GetOption.SYNCPOINT, match), waiter.wake)
        if withdraw is None:
            self.get(handle, Unit.YES, match)
        else:
            waiter.withdraw = withdraw
            self.waiters[handle] = waiter
            self.look(handle.queue)

    @action(weight=3, when=lambda self: any(waiter.woken for waiter in self.waiters.values()), pick=PICKS)
    def get_after_waking(self, pick: int) -> None:
        woken = [waiter for waiter in self.waiters.values() if waiter.woken]
        waiter = woken[pick % len(woken)]
        del self.waiters[waiter.handle]
        if self.unit_for(waiter.handle, Unit.NO) is Unit.NO:  # a waiting connection must put nothing: its own get would find it
            self.get(waiter.handle, Unit.YES, waiter.match)
        waiter.withdraw()  # as every caller: if the get was refused, the message wakes another waiter

    @action(weight=3, when=lambda self: self.waiters, pick=PICKS)
    def give_up_waiting(self, pick: int) -> None:
        waiters = sorted(self.waiters.values(), key=lambda waiter: not waiter.woken)
        waiter = waiters[pick % (len(waiters) // 2 + 1)]
        del self.waiters[waiter.handle]
        waiter.withdraw()

    # -- the world

    @action(weight=2, seconds=(0.35, 1.1, 5.0))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.model.now += seconds

    @action(weight=1, pick=PICKS)
    def look_at_a_queue(self, pick: int) -> None:
        queue = self.queue(pick)
        if queue is not None:
            self.look(queue)

    def look(self, queue: Queue) -> None:
        """Compare all messages that can be browsed; expired messages are gone afterwards."""
        if queue.get_inhibited:
            return
        self.model.discard_expired(queue)
        expected = [
            seen_in_model(message) for message in queue.messages if message.state is State.THERE and message.lock is None
        ]
        connection = self.queue_manager.connect(application_name="observer")
        handle = connection.open(queue.name, OpenOption.BROWSE)
        options = get_options(GetOption.BROWSE_NEXT)
        seen: list[tuple[object, ...]] = []
        while len(seen) <= queue.depth and (got := connection.get(handle, options)) is not None:
            seen.append(seen_in_queue_manager(got))
        connection.disconnect()
        assert expected == seen, f"{queue.name} holds something else"

    @action(weight=1, when=lambda self: self.steps > STEPS_BETWEEN_RESTARTS)
    def quiesce_and_restart(self) -> None:
        """Refuse new calls, back everything out and restart: all persistent messages are on their queues again."""
        self.queue_manager.quiesce()
        quiescing = OpenOption.OUTPUT | OpenOption.FAIL_IF_QUIESCING
        assert attempt(self.queue_manager.connect)[0] == Reason.Q_MGR_QUIESCING
        for real in self.connections.values():
            assert attempt(partial(real.open, "Q.A", quiescing))[0] == Reason.Q_MGR_QUIESCING
        self.restart()

    def restart(self) -> None:
        self.steps = 0
        self.queue_manager.close()
        for real in self.connections.values():
            assert attempt(real.commit)[0] in {Reason.BACKED_OUT, Reason.Q_MGR_STOPPING, Reason.CONNECTION_BROKEN}
        self.excused |= {
            message.body
            for queue in self.model.queues.values()
            for message in queue.messages
            if not (message.persistent and self.durable)
        }
        self.model.restart()
        self.connections.clear()
        self.handles.clear()
        self.waiters.clear()
        self.queue_manager = self.start()
        if not self.durable:
            self.model.queues.clear()
            self.define_everything()
        self.connect_programs()

    # -- what holds after every step

    def check(self) -> None:
        self.steps += 1
        self.every_queue_stands_as_the_model_says()
        self.nobody_waits_for_what_is_there()

    def every_queue_stands_as_the_model_says(self) -> None:
        for queue in self.model.queues.values():
            status = self.queue_manager.administration.queue_status(queue.name)
            inputs = sum(bool(int(handle.options) & _INPUT) for handle in queue.handles)
            outputs = sum(bool(int(handle.options) & _OUTPUT) for handle in queue.handles)
            expected = (queue.depth, queue.uncommitted, inputs, outputs)
            stands = (status.depth, status.uncommitted, status.open_input_count, status.open_output_count)
            assert expected == stands, f"{queue.name}: depth, uncommitted, input and output handles"

    def nobody_waits_for_what_is_there(self) -> None:
        """Check I8: a message with a waiting get has woken a waiter; an inhibited queue has woken all of its waiters."""
        for waiter in self.waiters.values():
            if waiter.woken:
                continue
            handle = waiter.handle
            assert not handle.get_inhibited, "somebody still waits on a queue inhibited for gets"
            there = [
                message
                for message in handle.queue.messages
                if message.state is State.THERE
                and message.lock is None
                and waiter.match.fits(message)
                and not self.model.expired(message)
            ]
            awake = [other for other in self.waiters.values() if other.woken and other.handle.queue is handle.queue]
            assert len(there) <= len(awake), "a message is there, somebody waits for it, and nobody was woken"

    def end(self) -> None:
        """Check I1 and I2 by the ledger alone: back everything out, get all messages, and count the messages."""
        for real in self.connections.values():
            real.abandon()
        connection = self.queue_manager.connect()
        found: list[bytes] = []
        for queue in self.queue_manager.administration.queues():
            if queue.kind is QueueType.LOCAL:
                self.queue_manager.administration.alter(queue.name, {"get_inhibited": False})
                handle = connection.open(queue.name, OpenOption.INPUT_SHARED)
                while (got := connection.get(handle, get_options(GetOption.NO_SYNCPOINT))) is not None:
                    found.append(got.body)
        assert len(found) == len(set(found)), "I2: a message is there twice"
        assert not self.consumed & set(found), "I2: a message that was got is still there"
        lost = self.committed - self.consumed - self.excused - set(found)
        assert not lost, f"I1: lost {sorted(lost)}"


class DurableMachine(QueueManagerMachine):
    """The same rules for a queue manager on disk, which keeps its messages across a restart."""

    durable = True
