"""The two compared ways to consume a full queue: a plain loop over the verbs, and an application."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from cProfile import Profile
from typing import Any

import anyio

from benchmarks.orders import Order, decode
from benchmarks.samples import Meter, Sample
from benchmarks.transports import QUEUE, Transport
from mqflow import App
from mqflow.events import Hook
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.verbs import GetOptions

__all__ = ("Course", "framework", "raw")

_GET = GetOptions(options=GetOption.SYNCPOINT | GetOption.FAIL_IF_QUIESCING)


def raw(transport: Transport, messages: int, unit_of_work: int) -> Sample:
    """Consume in a loop on one thread: get, decode, handle, commit. This is a program without a framework."""
    course = Course(messages)
    with transport(messages) as queue_manager:
        connection = queue_manager.connect(application_name="raw")
        handle = connection.open(QUEUE, OpenOption.INPUT_SHARED)
        for number in range(1, messages + 1):
            got = connection.get(handle, _GET)
            assert got is not None
            with suppress(StopIteration):
                course.handle(decode(got.body)).send(None)
            if number % unit_of_work == 0:
                connection.commit()
        connection.commit()
        connection.disconnect()
    return course.sample


def framework(
    transport: Transport,
    messages: int,
    unit_of_work: int,
    *,
    concurrency: int = 1,
    middleware: Sequence[Any] = (),
    hooks: Sequence[Hook] = (),
    profile: Profile | None = None,
) -> Sample:
    """Consume with an application that has one typed, trivial handler, and only the given middleware and hooks."""
    return anyio.run(_framework, transport, messages, unit_of_work, concurrency, middleware, hooks, profile)


async def _framework(
    transport: Transport,
    messages: int,
    unit_of_work: int,
    concurrency: int,
    middleware: Sequence[Any],
    hooks: Sequence[Hook],
    profile: Profile | None,
) -> Sample:
    over = anyio.Event()
    course = Course(messages, profile, over.set)
    app = App(middleware=middleware, hooks=hooks)
    app.listener(QUEUE, concurrency=concurrency, unit_of_work=unit_of_work)(course.handle)
    with transport(messages) as queue_manager:
        async with app.running(queue_manager):
            await over.wait()
    return course.sample


class Course:
    """The handler of the loop and of the application, and the measurement from the first handled message to the last."""

    def __init__(self, messages: int, profile: Profile | None = None, at_end: Callable[[], None] | None = None) -> None:
        self._messages = messages
        self._handled = 0
        self._profile = profile
        self._at_end = at_end
        self._meter = Meter()
        self.sample: Sample

    async def handle(self, order: Order) -> None:
        """Handle the order, with as little work as possible."""
        assert order.id
        self._handled += 1
        if self._handled == 1:
            self._start()
        elif self._handled == self._messages:
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
