"""The test kit: a queue manager in memory on a virtual clock, the application that runs on it, and the record of its events.

The kit does not patch the application: the application runs on another queue manager, clock and random generator. The kit knows
only the public parts of an application: its hooks and `App.running`.
"""

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import cached_property
from typing import Any, Final, TypeVar

import anyio
import msgspec
from msgspec.structs import replace

from mqflow.app.application import App
from mqflow.app.handlers.message import Message, PropertyValue
from mqflow.app.handlers.mistakes import check_number
from mqflow.app.handlers.outgoing_message import outgoing, put_in_unit_of_work
from mqflow.app.run.running_application import RunningApplication
from mqflow.embedded import mqsc
from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import ConsumerFailed, Disposed, Event, Warned
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers.chain import Header
from mqflow.mqi.options import GetOption, OpenOption, QueueType
from mqflow.policy.poison import moved_message
from mqflow.policy.poison.disposition import Failed, Settlement, Undecodable
from mqflow.policy.poison.moved_message import Why
from mqflow.runtime.connection.inline_session import InlineSession
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE, Stager
from mqflow.runtime.runtime import IDLE_WAITS
from mqflow.testing.faults import Faults
from mqflow.testing.virtual_clock import SeededRandom, VirtualClock
from mqflow.verbs import GetOptions, Got, Put
from mqflow.world import World

__all__ = ("Found", "MQSCError", "QueueManagerKit", "carry_out", "definition")

E = TypeVar("E")

_NO_OTHERS: Final["Mapping[str, QueueManagerKit]"] = {}

_GET: Final = GetOptions(options=GetOption.NO_SYNCPOINT | GetOption.PROPERTIES_FORCE_MQRFH2)
_BROWSE: Final = GetOptions(options=_GET.options | GetOption.BROWSE_NEXT)
_LOOK_EVERY_S: Final = 0.05
_EVENTS_SHOWN: Final = 10
_BLANK: Final = MessageDescriptor()
_START_OR_END_S: Final = 3_600.0
"""After this time, in virtual seconds, an application that does not start or end fails its test, so that no test hangs."""
_NOISY_S_MAX: Final = 600.0
"""After this time, in virtual seconds, a drain fails its test if messages still come. A longer `within_s` replaces it."""


class MQSCError(AssertionError):
    """The queue manager refused MQSC commands of a test."""


class Found(Message):
    """A message that a test got or browsed: its headers, its body, and the reason why it is on this queue."""

    def __init__(self, got: Got, queue: str, events: Sequence[Event]) -> None:
        super().__init__(got.descriptor, got.body, queue)
        self._events = events

    @property
    def headers(self) -> Sequence[Header]:
        """The headers in front of the body, outermost first."""
        return self.parts.chain

    def json(self) -> Any:
        """Return the body, decoded from JSON."""
        return msgspec.json.decode(self.text())

    @cached_property
    def why(self) -> Why:
        """The reason why the message is on this queue: from its headers, or otherwise from the application's events.

        The events complete the headers: a message with its own RFH2 gets no header, and an MQDLH has only a reason code.
        The reason is empty if the message was not moved.
        """
        said = moved_message.why(self.descriptor, self.data) or Why()
        reason = next((_why_disposed(event) for event in reversed(self._events) if self._disposes(event)), Why())
        # getattr, because this code fills every field of `Why` in the same way.
        silent = {name: getattr(reason, name) for name in reason.__struct_fields__ if not getattr(said, name)}
        return replace(said, **silent)

    def _disposes(self, event: Event) -> bool:
        return isinstance(event, Disposed) and event.message_id == self.message_id


class QueueManagerKit:
    """A queue manager in memory, its clock, its faults, and all events of the application that runs on it."""

    def __init__(self, name: str = "QM1", *, seed: int = 0, clock: VirtualClock | None = None) -> None:
        self._name: Final = name
        self._seed: Final = seed
        self._beside: Final[list[QueueManagerKit]] = []
        self.renew(clock)

    def renew(self, clock: VirtualClock | None = None) -> None:
        """Start again with a new queue manager, a new clock and no faults."""
        #: The clock of the queue manager and of the application; `advance` and every wait move the clock.
        self.clock: VirtualClock = clock or VirtualClock()
        #: The random generator of the application.
        self.random: SeededRandom = SeededRandom(self._seed)
        self._stager = Stager(EMBEDDED_STAGING_QUEUE, World(self.clock, SeededRandom(self._seed + 1)))
        self.queue_manager: EmbeddedQueueManager = EmbeddedQueueManager(self._name, world=World(self.clock))
        #: The faults of the application's calls; the kit's own calls never fail.
        self.faults: Faults = Faults(wait=self.clock.advance)
        #: Every event that the application sent to its hooks, in order.
        self.events: list[Event] = []

    def mqsc(self, *commands: str) -> mqsc.Results:
        """Run MQSC commands; each string is a command or a script. Raises `MQSCError` with every refused line."""
        return carry_out(self.queue_manager.administration, commands)

    def define(self, queue: str, kind: str = "QLOCAL", **attributes: str | int) -> None:
        """Define a queue by MQSC keywords in lower case: ``define("ORDERS.IN", bothresh=3, boqname="ORDERS.BOQ")``."""
        self.mqsc(definition(queue, kind, attributes))

    @asynccontextmanager
    async def run(
        self,
        app: App,
        *,
        others: "Mapping[str, QueueManagerKit]" = _NO_OTHERS,
        drain_s: float | None = None,
        user: str = "",
        incidents: bool = False,
    ) -> AsyncIterator[RunningApplication]:
        """Run the application on this queue manager and clock inside the block. The end of the block drains the application.

        `others` has the queue managers of included applications, by name; `beside` makes them. Each of these kits gets the
        events and the faults of its own queue manager.

        The application connects as `user`; the default is the user that administers the queue manager. The end of the block
        raises `AssertionError` if a consumer failed and started again (`ConsumerFailed`), or if a queue manager was given up. A
        test that expects this sets `incidents`. The block also raises `AssertionError` if the application does not start, or
        does not drain, within a virtual hour. Raises `TypeError` if `app` is no `App`, and `ValueError` for a kit in `others`
        that `beside` has not made.
        """
        given: object = app
        if not isinstance(given, App):
            raise TypeError(f"mq.run({given!r}): it takes the App itself. Import it: from app import app.")
        for name, other in others.items():
            if other.clock is not self.clock:
                raise ValueError(f"mq.run(others={{{name!r}: ...}}): this kit has another clock. mq.beside('QM2') makes one.")
        if anyio.current_time() != self.clock.monotonic():
            raise RuntimeError(
                "mq.run() needs a test that runs in virtual time: a coroutine function with the fixture `mq`, run by "
                "mqflow's own pytest plugin. Remove the marker or the mode of the other asyncio or trio plugin."
            )
        self.clock.idle_waits = IDLE_WAITS
        notes = [(app, self._note)]
        known = [each for each in app.included if each.name in others]
        notes += [(each, others[each.name]._note) for each in known]  # noqa: SLF001 - another object of this class
        for each, note in notes:
            each.hooks.append(note)
        failure: BaseException | None = None
        try:
            application = app.running(
                self.faults.wrap(self.queue_manager, user=user),
                others={name: other.faults.wrap(other.queue_manager) for name, other in others.items()},
                clock=self.clock,
                random=self.random,
                drain_s=drain_s,
            )
            with anyio.CancelScope(deadline=anyio.current_time() + _START_OR_END_S) as scope:
                async with application as running:
                    scope.deadline = math.inf
                    try:
                        yield running
                    except BaseException as error:
                        failure = error
                        raise
                    finally:
                        scope.deadline = anyio.current_time() + _START_OR_END_S
                if running.incidents and not incidents:
                    raise AssertionError(_incident([*self.events, *(event for kit in others.values() for event in kit.events)]))
        finally:
            for each, note in notes:
                each.hooks.remove(note)
        if scope.cancelled_caught:
            raise AssertionError(
                f"{app.name or 'mqflow'} did not start, or did not end, within {_START_OR_END_S:g} virtual seconds."
            ) from failure

    async def put(
        self,
        queue: str,
        body: Any,
        *,
        properties: Mapping[str, PropertyValue] | None = None,
        persistent: bool | None = None,
        expiry: timedelta | float | None = None,
        delay: timedelta | float | None = None,
        **descriptor: Any,
    ) -> Put:
        """Put a message, as another program does: bytes and text unchanged, any other value as JSON.

        `descriptor` takes fields of `MessageDescriptor`: ``correlation_id=``, ``reply_to_queue=``, ``report=``, ``format=`` ...
        """
        message = outgoing(queue, body, properties=properties, persistent=persistent, expiry=expiry, delay=delay)
        message = replace(message, descriptor=replace(message.descriptor, **_known(descriptor)))
        connection = self.queue_manager.connect(application_name="mqflow test")
        session = InlineSession(connection)
        try:
            put = await put_in_unit_of_work(session, message, self._stager)
            await session.settle(Settlement.COMMIT)
        finally:
            await session.close()
        return put

    async def drain(self, queue: str, *, at_least: int = 1, within_s: float = 60.0, quiet_s: float = 1.0) -> list[Found]:
        """Get all messages of a queue, at least `at_least`, until none comes for `quiet_s`. All seconds are virtual.

        Raises `AssertionError` if fewer messages come within `within_s`, or if messages still come after ten virtual
        minutes. The error lists queue depths and the last events.
        """
        for name, given, unit in (
            ("at_least", at_least, "messages"),
            ("within_s", within_s, "seconds"),
            ("quiet_s", quiet_s, "seconds"),
        ):
            check_number("drain", name, given, unit)
        found: list[Found] = []
        started = came = self.clock.monotonic()
        while True:
            now = self.clock.monotonic()
            new = self._read(queue, OpenOption.INPUT_SHARED, _GET)
            found += new
            came = now if new else came
            if len(found) >= at_least and now - came >= quiet_s:
                return found
            if len(found) < at_least and now - started >= within_s:
                raise AssertionError(self._missing(queue, len(found), at_least, within_s))
            if came - started >= max(_NOISY_S_MAX, within_s):
                raise AssertionError(self._endless(queue, len(found), quiet_s))
            await anyio.sleep(_LOOK_EVERY_S)

    def browse(self, queue: str) -> list[Found]:
        """Return the available messages of a queue, and leave them there."""
        return self._read(queue, OpenOption.BROWSE, _BROWSE)

    def depth(self, queue: str) -> int:
        """Return CURDEPTH of a local queue, which includes uncommitted messages."""
        return self.queue_manager.administration.queue_status(queue).depth

    def told(self, kind: type[E]) -> list[E]:
        """Return the events of one class that the application sent to its hooks."""
        return [event for event in self.events if isinstance(event, kind)]

    def beside(self, name: str = "QM2") -> "QueueManagerKit":
        """Return another queue manager in memory on the same clock, for an application with several queue managers."""
        kit = QueueManagerKit(name, seed=self._seed, clock=self.clock)
        self._beside.append(kit)
        return kit

    def close(self) -> None:
        """End the queue manager, and those beside it."""
        for kit in self._beside:
            kit.close()
        self.queue_manager.close()

    def _note(self, event: Event) -> None:
        self.events.append(event)
        self.clock.quiet_moves = 0

    def _read(self, queue: str, options: OpenOption, how: GetOptions) -> list[Found]:
        connection = self.queue_manager.connect(application_name="mqflow test")
        try:
            handle = connection.open(queue, options)
            found: list[Found] = []
            while (got := connection.get(handle, how)) is not None:
                found.append(Found(got, queue, self.events))
            return found
        finally:
            connection.disconnect()

    def _missing(self, queue: str, count: int, at_least: int, within_s: float) -> str:
        return self._drained(f"{count} of at least {at_least} messages came to {queue} within {within_s:g} virtual seconds.")

    def _endless(self, queue: str, count: int, quiet_s: float) -> str:
        return self._drained(
            f"{count} messages came to {queue}, and they still come. mq.drain waits until none comes for {quiet_s:g} s. "
            "Stop their sender first, or give a shorter quiet_s."
        )

    def _drained(self, problem: str) -> str:
        queues = self.queue_manager.administration.queues()
        depths = [f"  {each.name}: {each.depth}" for each in queues if each.kind is QueueType.LOCAL and each.depth]
        events = [f"  {event}" for event in self.events[-_EVENTS_SHOWN:]]
        return "\n".join(
            (
                problem,
                "Queues that hold messages:" if depths else "No queue holds a message.",
                *depths,
                f"The last of {len(self.events)} events:" if events else "The application sent no event.",
                *events,
            )
        )


def _incident(events: Sequence[Event]) -> str:
    """Return the text about the last consumer that failed. Without one, a queue manager was given up: return the warnings."""
    failed = [event for event in events if isinstance(event, ConsumerFailed)]
    if failed:
        return f"{failed[-1].consumer} ended although nothing stopped it.\n{failed[-1].traceback}"
    return "\n".join(event.text for event in events if isinstance(event, Warned))


def _why_disposed(event: Event) -> Why:
    """Return the reason in a `Disposed` event."""
    assert isinstance(event, Disposed)  # noqa: S101 - `_disposes` selected the event
    outcome = event.outcome
    failure = outcome if isinstance(outcome, Failed | Undecodable) else Failed("")
    return Why(
        queue=event.queue,
        outcome="" if outcome is None else type(outcome).__name__.lower(),
        error=failure.error,
        text=failure.text,
        frame=failure.frame,
        handler=event.listener,
        count=event.backout_count,
    )


def _known(descriptor: Mapping[str, Any]) -> Mapping[str, Any]:
    unknown = descriptor.keys() - set(MessageDescriptor.__struct_fields__)
    if unknown:
        fields = ", ".join(MessageDescriptor.__struct_fields__)
        raise TypeError(f"{', '.join(sorted(unknown))}: not a field of a message descriptor. Fields: {fields}.")
    for name, value in descriptor.items():
        kind = next(each for each in (bytes, int, str) if isinstance(getattr(_BLANK, name), each))  # the name of a field
        if not isinstance(value, kind):
            raise TypeError(f"put({name}={value!r}): this field of a message descriptor takes {kind.__name__}.")
    return descriptor


def carry_out(administration: Administration, commands: Sequence[str]) -> mqsc.Results:
    """Run MQSC commands; each string is a command or a script. Raises `MQSCError` with every refused line."""
    results = mqsc.run("\n".join(commands), administration)
    refused = [each.text for each in results.responses if each.verdict is not mqsc.Verdict.DONE]
    if refused:
        raise MQSCError("\n".join(refused))
    return results


def definition(queue: str, kind: str, attributes: Mapping[str, str | int]) -> str:
    """Return the DEFINE command of a queue.

    The keys of `attributes` are MQSC keywords in lower case.
    """
    clauses = "".join(f" {keyword.upper()}({_value(value)})" for keyword, value in attributes.items())
    return f"DEFINE {kind} ('{queue}'){clauses}"


def _value(value: str | int) -> str:
    """Return a value in MQSC. Only numbers and words in upper case have no quotes: MQSC changes other words to upper case."""
    text = str(value)
    bare = text and text == text.upper() and all(letter.isalnum() or letter in "._/%" for letter in text)
    return text if bare else "'" + text.replace("'", "''") + "'"
