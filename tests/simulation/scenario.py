"""A whole life in a world: an application with several listeners, producers, an active queue manager, a standby, and faults.

`simulate` runs one seed, and raises `FindingError` if an invariant does not hold. All code is real, except the clock,
the threads, the wire and the speed of the disk.
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from msgspec import Struct
from msgspec.structs import asdict

from mqflow import App, Context, Message, Reject
from mqflow.app.config.settings import Settings
from mqflow.app.handlers.listener_declaration import ListenerOptions
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.connection import ServedConnection
from mqflow.embedded.wire.protocol.end_manner import End, Manner
from mqflow.events import Event
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import Persistence, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.testing.virtual_clock import SeededRandom
from mqflow.testing.virtual_time import Backend
from tests.finding import FindingError, findings
from tests.simulation.history import BAD, BETTER, DONE, IN, NEXT, THRESHOLDS, TICKS, History, is_poison
from tests.simulation.loops import run
from tests.simulation.stage import Stage
from tests.simulation.wire import Act, Fate, Passing, Where
from tests.simulation.world import Process, Seeded

__all__ = ("PERSISTENT", "Life", "Report", "simulate")

DEFINITIONS: Final = (
    *(f"DEFINE QLOCAL({name}) DEFPSIST(YES) BOTHRESH({most}) BOQNAME({BAD})" for name, most in THRESHOLDS.items()),
    f"DEFINE QLOCAL({DONE}) DEFPSIST(YES)",
    f"DEFINE QLOCAL({TICKS}) DEFPSIST(YES)",
    f"DEFINE QLOCAL({BAD}) DEFPSIST(YES)",
    f"DEFINE QLOCAL({BETTER}) DEFPSIST(YES)",
)
LISTENERS: Final = (
    ListenerOptions(concurrency=2),
    ListenerOptions(concurrency=2, unit_of_work=3),
    ListenerOptions(strict_order=True),
    ListenerOptions(concurrency=3, time_limit_s=0.7),
    ListenerOptions(),
)
STRICT: Final = 2
PERSISTENT: Final = MessageDescriptor(persistence=Persistence.PERSISTENT, format="MQSTR")
MESSAGES: Final = 10
TICKS_EACH: Final = 5
"""The messages to the queue `TICKS` for each message to the queue `DONE`. A worker has some of them ahead."""
AT_REST_WITHIN_S: Final = 600.0
"""Seconds after the last fault: the longest reconnection delay, a pause of a listener, and a margin."""


class Report(Struct, frozen=True):
    """The summary of a run."""

    trace: str
    virtual_s: float
    steps: int
    events: Counter[str]
    #: The number of processes that owned or wanted to own the folder, two of them from the start.
    owners: int
    unknown_puts: int


class Life(Stage):
    """One run."""

    def __init__(self, seed: int, root: Path, *, calm: bool = False, error: type[Exception] = ValueError) -> None:
        self.history = History()
        #: Whether nothing breaks in this run.
        self.calm = calm
        #: The exception of every bad message.
        self.error = error
        super().__init__(Seeded(seed), root, DEFINITIONS, self.history)
        self.seed = seed
        self.folder.owned = self.alter
        self.application = Process(self.world, "application")
        self.producers_left = 0
        self.unknown_puts = 0
        self.troubled = False
        #: The time until which owners are stopped or gone, because of a frame.
        self.hurt_until = 0.0
        self.made = 0
        self.options = LISTENERS[seed % len(LISTENERS)]

    def alter(self, queue_manager: EmbeddedQueueManager) -> None:
        """Act as an administrator while applications are away: poison messages go to another queue from now on."""
        if not self.history.forsaken and self.seed % 2:
            for name in (IN, NEXT):
                queue_manager.administration.alter(name, {"backout_requeue_queue": BETTER})
            self.history.forsaken = BAD

    # -- the application

    def app(self) -> App:
        life, history = self, self.history

        def note(event: Event) -> None:
            self.world.note(type(event).__name__)
            try:
                history.told(event)
            except FindingError as wrong:  # an exception of a hook is reported, and goes no further
                self.world.failures.append(wrong)

        app = App("embedded::memory:", name="simulated", hooks=[note], settings=Settings())
        app.delay_processor()

        @app.listener(IN, **asdict(self.options))
        async def first(body: str, message: Message, ctx: Context) -> None:
            number, tag = int(body.split(">", maxsplit=1)[0][1:]), life.tag("a", body, message)
            await anyio.sleep(life.chance.random() * 0.3)
            if is_poison(body):
                raise life.error("always")
            await ctx.put(NEXT, f"{body}>{tag}", delay=5.0 if number % 4 == 0 else None)
            if number % 7 == 0 and message.backout_count == 0:
                raise ValueError("once, after its put")

        @app.listener(NEXT, concurrency=2)
        async def second(body: str, message: Message, ctx: Context) -> None:
            await ctx.put(DONE, f"{body}>{life.tag('b', body, message)}")
            for _ in range(TICKS_EACH):
                await ctx.put(TICKS, "tick")

        @app.listener(TICKS, unit_of_work=1 + self.seed % 2)
        async def third(message: Message) -> None:
            if life.chance.choose(4) == 0:
                await anyio.sleep(life.chance.random() * 0.3)
            if life.chance.choose(8) == 0 and message.backout_count == 0:
                raise ValueError("once")

        return app

    def tag(self, prefix: str, body: str, message: Message) -> str:
        """Return a unique mark for this handling of the message."""
        self.made += 1
        tag = f"{prefix}{self.made}"
        self.history.handles(body, message.descriptor.message_id, tag)
        return tag

    async def live(self) -> None:
        """Run the application through all faults, until no more events come."""
        app = self.app()
        manager = self.manager(self.application)
        async with app.running(
            manager, clock=self.world.clock, random=SeededRandom(self.seed), runner=self.application, drain_s=60.0
        ) as running:
            await running.wait_ready()
            self.network.judge = self.judge
            for number in range(2):
                process = Process(self.world, f"producer {number}")
                self.producers_left += 1
                process.start(partial(self.produce, process, range(1 + number, MESSAGES + 1, 2)), "producer")
            nature = Process(self.world, "nature").start(self.trouble, "nature")
            while nature.is_alive() or self.producers_left:  # noqa: ASYNC110 - told by threads of the world
                await anyio.sleep(1)
            with anyio.move_on_after(AT_REST_WITHIN_S) as waited:
                while self.is_busy() or not running.ready:  # noqa: ASYNC110 - as above
                    await anyio.sleep(1)
            if waited.cancelled_caught:
                raise FindingError(f"I8: after {AT_REST_WITHIN_S} s without a fault, the application is not at rest")
        await anyio.sleep(5)

    def is_busy(self) -> bool:
        """Whether the application still has messages to handle."""
        history = self.history
        return bool(history.ticks) or any(each.queue not in {DONE, BAD, BETTER} for each in history.there.values())

    # -- the producers

    def produce(self, process: Process, numbers: Sequence[int]) -> None:
        """Put each message once, without a retry, over as many connections as necessary."""
        manager = self.manager(process)
        left = [f"m{number}" for number in numbers]
        connection: ServedConnection | None = None
        while left:
            self.world.sleep(self.chance.random() * 2)
            try:
                connection = connection or manager.connect()
            except MQIError:
                continue
            names, left = (left[:2], left[2:]) if self.chance.choose(2) else (left[:1], left[1:])
            try:
                self.put(connection, names)
            except MQIError:
                connection.abandon()
                connection = None
        if connection is not None:
            with suppress(MQIError):
                connection.disconnect()
        manager.close()
        self.producers_left -= 1

    def put(self, connection: ServedConnection, names: Sequence[str]) -> None:
        """Put one message outside a unit of work, or several messages in one unit of work, and note the answer."""
        self.history.asks(names)
        alone = len(names) == 1
        options = PutOption.NO_SYNCPOINT if alone else PutOption.SYNCPOINT
        try:
            for name in names:
                connection.put1(IN, PERSISTENT, name.encode(), options)
            if not alone:
                connection.commit()
        except MQIError as error:
            unknown = error.reason == Reason.CALL_INTERRUPTED
            self.unknown_puts += unknown
            self.history.answered(names, done=None if unknown else False)
            raise
        self.history.answered(names, done=True)

    # -- trouble

    def judge(self, passing: Passing) -> Fate | None:
        """Decide about a frame. During the faults, about one frame in twenty meets a fault."""
        del passing
        if not self.troubled or self.chance.random() > 0.05:
            return None
        act = (Act.CUT, Act.CUT, Act.BLACKHOLE, Act.LATE, Act.LATE, Act.KILL, Act.STOP)[self.chance.choose(7)]
        if act in {Act.KILL, Act.STOP}:
            if self.chance.choose(3):
                return None
            until = self.world.now + self.chance.random() * 12
            self.hurt_until = max(self.hurt_until, until)
            self.world.at(until, self.repair)
        where = tuple(Where)[self.chance.choose(3)]
        return Fate(act, where, self.chance.random() * (7 if self.chance.choose(2) else 0.5))

    def trouble(self) -> None:
        """Make one fault after the other, and repair everything at the end."""
        acts: tuple[Callable[[], None], ...] = (
            self.kill_active, self.kill_active, self.stop_active, self.hand_over, self.partition, self.network.cut_all,
            self.storm, self.storm,
        )  # fmt: skip
        for _ in range(0 if self.calm else 1 + self.chance.choose(3)):
            self.world.sleep(self.chance.random() * 5)
            acts[self.chance.choose(len(acts))]()
            self.repair()
        while self.hurt_until > self.world.now:
            self.world.sleep(1.0)
        self.repair()

    def kill_active(self) -> None:
        if self.active is not None:
            self.active.process.kill()
            self.world.sleep(self.chance.random() * 3)

    def stop_active(self) -> None:
        active = self.active
        if active is not None:
            active.process.stop()
            self.world.sleep(self.chance.random() * 15)
            active.process.go_on()

    def hand_over(self) -> None:
        active = self.active
        if active is not None:
            manner = Manner.IMMEDIATE if self.chance.choose(2) else Manner.CONTROLLED
            active.end(End(manner, reconnect=bool(self.chance.choose(2)), switchover=bool(self.chance.choose(2))))
            self.world.sleep(self.chance.random() * 5)

    def partition(self) -> None:
        self.network.partitioned = True
        self.world.sleep(self.chance.random() * 12)
        self.network.partitioned = False
        for wire in tuple(self.network.wires):  # frames sent meanwhile are lost: TCP would send them again, or give up
            wire.swallows = True

    def storm(self) -> None:
        self.troubled = True
        self.world.sleep(self.chance.random() * 10)
        self.troubled = False

    # -- the end

    @findings()
    def check(self) -> None:
        """Check the invariants of the end."""
        self.history.check_end(in_order=self.seed % len(LISTENERS) == STRICT)
        self.history.check_calls(alone=self.options.unit_of_work == 1)
        if self.calm:
            attempts = 1 if self.error is Reject else THRESHOLDS[IN]
            self.history.check_calm(attempts, alone=self.options.unit_of_work == 1)
        assert self.network.dialled_at_once.get(self.application, 0) <= 1, "two sessions reconnected at once"
        active = self.active
        assert active is not None
        assert active.server is not None
        assert not active.server.connection_count, f"I10: {active.server.connection_count} connections are left"
        assert active.queue_manager is not None
        held = [each.application_name for each in active.queue_manager._state.connections]
        assert not held, f"I10: nobody is there, and the queue manager has connections of {held}"
        assert not [name for name in (thread.name for thread in self.application.threads) if name != "mqflow-heart"], (
            "I10: threads are left"
        )


def simulate(seed: int, backend: Backend, root: Path, *, calm: bool = False, error: type[Exception] = ValueError) -> Report:
    """Run the seed. Raises `FindingError` if an invariant does not hold, with the way to run it again."""
    logging.getLogger("mqflow").setLevel(logging.CRITICAL)  # the outages are expected here
    life = Life(seed, root, calm=calm, error=error)
    world = life.world
    try:
        run(world, life.live, backend, seed)
        life.check()
    except BaseException as wrong:
        wrong.add_note(f"simulate({seed}, {backend!r}, root, {calm=}, error={error.__name__})")
        raise
    finally:
        life.close()
    return Report(world.trace, world.now, world.steps, life.history.events, len(life.owners), life.unknown_puts)
