"""What a test has in its hands: a queue manager in memory on a virtual clock, the application running on it, and what it did.

The application is not patched: it runs as it is, on another queue manager, another clock and other dice. Knows the public
parts of an application only: its hooks and `App.running`.
"""

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
from mqflow.app.handlers.outgoing import outgoing, put_in_unit_of_work
from mqflow.app.run.running_application import RunningApplication
from mqflow.embedded import mqsc
from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import Disposed, Event
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers.chain import Header
from mqflow.mqi.options import GetOption, OpenOption, QueueType
from mqflow.policy.poison import moved_message
from mqflow.policy.poison.disposition import Failed, Settlement, Undecodable
from mqflow.policy.poison.moved_message import Why
from mqflow.runtime.connection.session import InlineSession
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE, Stager
from mqflow.testing.faults import Faults
from mqflow.testing.virtual_clock import SeededRandom, VirtualClock
from mqflow.verbs import GetOptions, Got, Put

__all__ = ("Found", "MQSCError", "QueueManagerKit", "carry_out", "definition")

E = TypeVar("E")

_GET: Final = GetOptions(options=GetOption.NO_SYNCPOINT | GetOption.PROPERTIES_FORCE_MQRFH2)
_BROWSE: Final = GetOptions(options=_GET.options | GetOption.BROWSE_NEXT)
_LOOK_EVERY_S: Final = 0.05
_EVENTS_SHOWN: Final = 10


class MQSCError(AssertionError):
    """MQSC that a test asked for was not carried out."""


class Found(Message):
    """A message that a test took off a queue, or looked at; headers, body and the story of how it got there."""

    def __init__(self, got: Got, queue: str, events: Sequence[Event]) -> None:
        super().__init__(got.descriptor, got.body, queue)
        self._events = events

    @property
    def headers(self) -> Sequence[Header]:
        """The headers in front of the body, outermost first."""
        return self.parts.chain

    def json(self) -> Any:
        """Return the body, read as JSON."""
        return msgspec.json.decode(self.text())

    @cached_property
    def why(self) -> Why:
        """Why it is here: what its headers say, and where they are silent, what the application told its hooks.

        A message with an RFH2 of its own is moved byte for byte, and an MQDLH has no room for more than a reason; the events
        know the rest. Empty for a message that nobody moved.
        """
        said = moved_message.why(self.descriptor, self.data) or Why()
        told = next((_why_disposed(event) for event in reversed(self._events) if self._disposes(event)), Why())
        # Field by field, whatever fields `Why` has.
        silent = {name: getattr(told, name) for name in told.__struct_fields__ if not getattr(said, name)}
        return replace(said, **silent)

    def _disposes(self, event: Event) -> bool:
        return isinstance(event, Disposed) and event.message_id == self.message_id


class QueueManagerKit:
    """A queue manager in memory, its clock, its faults, and everything an application on it did."""

    def __init__(self, name: str = "QM1", *, seed: int = 0) -> None:
        self._name: Final = name
        self._seed: Final = seed
        self.renew()

    def renew(self) -> None:
        """Start again with a new queue manager, a new clock and no faults, as if nothing had happened."""
        #: What the queue manager and the application take for the time; `advance` moves it, waiting moves it.
        self.clock = VirtualClock()
        #: The chance the application is given.
        self.random = SeededRandom(self._seed)
        self._stager = Stager(EMBEDDED_STAGING_QUEUE, self.clock, SeededRandom(self._seed + 1))
        self.queue_manager = EmbeddedQueueManager(self._name, clock=self.clock)
        #: What goes wrong for the application; the kit's own calls are never struck.
        self.faults = Faults(wait=self.clock.advance)
        #: Every event the application told its hooks, in order.
        self.events: list[Event] = []

    def mqsc(self, *commands: str) -> mqsc.Results:
        """Carry out MQSC commands, one or a script to a string. Raises `MQSCError` with every line that was refused."""
        return carry_out(self.queue_manager.administration, commands)

    def define(self, queue: str, kind: str = "QLOCAL", **attributes: str | int) -> None:
        """Define a queue by MQSC keywords in lower case: ``define("ORDERS.IN", bothresh=3, boqname="ORDERS.BOQ")``."""
        self.mqsc(definition(queue, kind, attributes))

    @asynccontextmanager
    async def run(self, app: App, *, drain_s: float | None = None, user: str = "") -> AsyncIterator[RunningApplication]:
        """Run the application on this queue manager inside, with this clock and this chance; it is drained on leaving.

        It connects as `user`: the one that administers the queue manager, if left out.
        """
        if anyio.current_time() != self.clock.monotonic():
            raise RuntimeError(
                "mq.run() needs a test that runs in virtual time: a coroutine function that asks for the fixture `mq`, run by "
                "mqflow's own pytest plugin. Take off the marker or the mode of the other asyncio or trio plugin."
            )
        app.hooks.append(self._note)
        try:
            application = app.running(
                self.faults.wrap(self.queue_manager, user=user), clock=self.clock, random=self.random, drain_s=drain_s
            )
            async with application as running:
                yield running
        finally:
            app.hooks.remove(self._note)

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
        """Put a message as another program would. Bytes and text as they are, anything else as JSON.

        `descriptor` are fields of `MessageDescriptor`: ``correlation_id=``, ``reply_to_queue=``, ``report=``, ``format=`` ...
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
        """Take everything off a queue, once there is enough and nothing more comes for a while; all in virtual seconds.

        Raises `AssertionError` where fewer than `at_least` messages came in time, with what there is and what happened.
        """
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
            await anyio.sleep(_LOOK_EVERY_S)

    def browse(self, queue: str) -> list[Found]:
        """Return the messages of a queue that are there for others, and leave them."""
        return self._read(queue, OpenOption.BROWSE, _BROWSE)

    def depth(self, queue: str) -> int:
        """Return CURDEPTH of a local queue: messages under way in units of work count."""
        return self.queue_manager.administration.queue_status(queue).depth

    def told(self, kind: type[E]) -> list[E]:
        """Return the events of one class that the application told its hooks."""
        return [event for event in self.events if isinstance(event, kind)]

    def close(self) -> None:
        """Let go of the queue manager."""
        self.queue_manager.close()

    def _note(self, event: Event) -> None:
        self.events.append(event)

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
        queues = self.queue_manager.administration.queues()
        depths = [f"  {each.name}: {each.depth}" for each in queues if each.kind is QueueType.LOCAL and each.depth]
        events = [f"  {event}" for event in self.events[-_EVENTS_SHOWN:]]
        return "\n".join(
            (
                f"{count} of at least {at_least} messages came to {queue} within {within_s:g} virtual seconds.",
                "Queues that hold messages:" if depths else "No queue holds a message.",
                *depths,
                f"The last of {len(self.events)} events:" if events else "The application told no event.",
                *events,
            )
        )


def _why_disposed(event: Event) -> Why:
    """Return what a `Disposed` says of why."""
    assert isinstance(event, Disposed)  # noqa: S101 - `_disposes` chose it
    outcome = event.outcome
    error, text = (outcome.error, outcome.text) if isinstance(outcome, Failed | Undecodable) else ("", "")
    return Why(
        queue=event.queue,
        outcome="" if outcome is None else type(outcome).__name__.lower(),
        error=error,
        text=text,
        handler=event.listener,
        count=event.backout_count,
    )


def _known(descriptor: Mapping[str, Any]) -> Mapping[str, Any]:
    unknown = descriptor.keys() - set(MessageDescriptor.__struct_fields__)
    if unknown:
        fields = ", ".join(MessageDescriptor.__struct_fields__)
        raise TypeError(f"{', '.join(sorted(unknown))}: no field of a message descriptor; there are {fields}.")
    return descriptor


def carry_out(administration: Administration, commands: Sequence[str]) -> mqsc.Results:
    """Carry out MQSC commands, one or a script to a string. Raises `MQSCError` with every line that was refused."""
    results = mqsc.run("\n".join(commands), administration)
    refused = [each.text for each in results.responses if each.verdict is not mqsc.Verdict.DONE]
    if refused:
        raise MQSCError("\n".join(refused))
    return results


def definition(queue: str, kind: str, attributes: Mapping[str, str | int]) -> str:
    """Return the DEFINE of a queue by MQSC keywords in lower case."""
    clauses = "".join(f" {keyword.upper()}({_value(value)})" for keyword, value in attributes.items())
    return f"DEFINE {kind} ('{queue}'){clauses}"


def _value(value: str | int) -> str:
    """Return a value as MQSC takes it: words and numbers bare, what bare would be folded to upper case quoted."""
    text = str(value)
    bare = text and text == text.upper() and all(letter.isalnum() or letter in "._/%" for letter in text)
    return text if bare else "'" + text.replace("'", "''") + "'"
