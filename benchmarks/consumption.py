"""The two compared ways to consume a full queue: a plain loop over the verbs, and an application."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from cProfile import Profile
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import anyio

from benchmarks.orders import Order, decode
from benchmarks.samples import Meter, Sample
from benchmarks.transports import QUEUE, Transport
from mqflow import App
from mqflow.app.run.decision_ledger import DecisionLedger, Record
from mqflow.events import Hook
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.runtime.connection.loop_call import LoopCaller
from mqflow.verbs import UNIT_BYTES_MAX, Connection, GetOptions, Got, ObjectHandle

__all__ = ("Course", "framework", "raw")

_GET = GetOptions(options=GetOption.SYNCPOINT | GetOption.FAIL_IF_QUIESCING)


def raw(transport: Transport, messages: int, unit_of_work: int) -> Sample:
    """Consume in a loop on one thread: get, decode, handle, commit. This is a program without a framework.

    The loop uses the verbs of its connection that need the fewest calls: see `_units`.
    """
    course = Course(messages)
    with transport(messages) as queue_manager:
        connection = queue_manager.connect(application_name="raw")
        handle = connection.open(QUEUE, OpenOption.INPUT_SHARED)
        for unit in _units(connection, handle, unit_of_work):
            for got in unit:
                with suppress(StopIteration):
                    course.handle(decode(got.body)).send(None)
        connection.disconnect()
    return course.sample


def _units(connection: Any, handle: ObjectHandle, most: int) -> Iterator[Sequence[Got]]:
    """Yield the units of work until the queue is empty, and commit each.

    One call commits a unit and gets the next, if the connection has such a verb and the commit needs no disk. Otherwise, one
    call gets a unit if the connection has a verb for it.
    """
    if hasattr(connection, "exchange"):
        while unit := connection.exchange(handle, _GET, commit=True, most=most).unit:
            yield unit
        return
    if hasattr(connection, "exchange_at_once"):
        at_once = partial(connection.exchange_at_once, handle, _GET, commit=True, most=most, bytes_max=UNIT_BYTES_MAX)
        while unit := at_once():
            yield unit
        if unit is None:  # this commit needs the disk, and so do all later commits
            connection.commit()
    get_unit = partial(connection.get_many, handle, _GET, most) if hasattr(connection, "get_many") else None
    while unit := get_unit() if get_unit else _got_one_by_one(connection, handle, most):
        yield unit
        connection.commit()


def _got_one_by_one(connection: Connection, handle: ObjectHandle, most: int) -> list[Got]:
    unit: list[Got] = []
    while len(unit) < most and (got := connection.get(handle, _GET)) is not None:
        unit.append(got)
    return unit


def framework(
    transport: Transport,
    messages: int,
    unit_of_work: int,
    *,
    concurrency: int = 1,
    middleware: Sequence[Any] = (),
    hooks: Sequence[Hook] = (),
    record: Record | None = "troubled",
    profile: Profile | None = None,
    plain: bool = False,
    watched: bool = False,
) -> Sample:
    """Consume with an application that has one typed, trivial handler, and only the given middleware and hooks.

    The decision ledger records troubled messages, as it does by default for an embedded queue manager with a data folder. If
    `record` is None, there is no ledger. With `plain`, the handler is a plain function. With `watched`, the workers note what
    they do, as in `mqflow run --http`.
    """
    run = partial(_framework, transport, messages, unit_of_work, concurrency, middleware, hooks, record, profile)
    return anyio.run(partial(run, plain=plain, watched=watched))


async def _framework(
    transport: Transport,
    messages: int,
    unit_of_work: int,
    concurrency: int,
    middleware: Sequence[Any],
    hooks: Sequence[Hook],
    record: Record | None,
    profile: Profile | None,
    *,
    plain: bool,
    watched: bool,
) -> Sample:
    over = anyio.Event()
    at_end = LoopCaller()
    course = Course(messages, profile, lambda: at_end(over.set))
    handle = course.note if plain else course.handle
    with transport(messages) as queue_manager, _ledger(record) as ledger:
        app = App(middleware=middleware, hooks=[*hooks, *ledger])
        app.listener(QUEUE, concurrency=concurrency, unit_of_work=unit_of_work)(handle)
        if watched:
            app.on_start(partial(_watch, app))
        async with app.running(queue_manager):
            await over.wait()
    return course.sample


def _watch(app: App) -> None:
    if app.current is not None:
        app.current.watch()


@contextmanager
def _ledger(record: Record | None) -> Iterator[Sequence[Hook]]:
    """Yield the decision ledger as a hook; no hook if `record` is None."""
    if record is None:
        yield ()
        return
    with (
        tempfile.TemporaryDirectory(prefix="mqflow-bench-", dir=Path.cwd()) as folder,
        closing(DecisionLedger(Path(folder) / "decisions.db", record=record)) as ledger,
    ):
        yield (ledger,)


class Course:
    """The handler of the loop and of the application, and the measurement from the first handled message to the last."""

    def __init__(self, messages: int, profile: Profile | None = None, at_end: Callable[[], None] | None = None) -> None:
        self._messages = messages
        self._numbers = count(1)
        self._profile = profile
        self._at_end = at_end
        self._meter = Meter()
        self.sample: Sample

    async def handle(self, order: Order) -> None:
        """Handle the order like `note`."""
        self.note(order)

    def note(self, order: Order) -> None:
        """Handle the order, with as little work as possible."""
        assert order.id
        number = next(self._numbers)  # in one step, because plain handlers run on several threads
        if number == 1:
            self._start()
        elif number == self._messages:
            self._end()

    def _start(self) -> None:
        if self._profile is not None:
            self._profile.enable()
        self._meter.start()

    def _end(self) -> None:
        self.sample = self._meter.sample(self._messages)
        if self._profile is not None:
            self._profile.disable()
        if self._at_end is not None:
            self._at_end()
