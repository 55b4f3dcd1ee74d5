"""The embedded queue manager behind both forms of a session: one calls it directly, the other calls it on a thread."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import anyio
from msgspec.structs import replace

from mqflow import App
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import Disposed, Event, Settled
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import PutOption
from mqflow.policy.poison.disposition import Failed, Settlement
from mqflow.testing.kit import carry_out
from mqflow.verbs import Connection, GetOptions, Got, Put
from mqflow.world import THREADS, Runner
from tests.queue_contents import put, taken

__all__ = ("WAIT_S", "Manager", "failure")

WAIT_S = 10


class Counting:
    """A connection that notes its puts under syncpoint, in the order in which they are made."""

    def __init__(self, behind: Connection, made: list[bytes]) -> None:
        self._behind = behind
        self._made = made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    def put(self, handle: Any, descriptor: MessageDescriptor, body: bytes, options: PutOption, *, context: Any = None) -> Put:
        self._made.append(body)
        return self._behind.put(handle, descriptor, body, options, context=context)

    def get(self, handle: Any, options: GetOptions) -> Got | None:
        return self._behind.get(handle, replace(options, wait_ms=min(options.wait_ms, 20)))  # so that a stop takes effect soon


class Manager:
    """The embedded queue manager behind a session of one form: "inline" calls it directly, "thread" calls it on a thread."""

    def __init__(self, form: str) -> None:
        self.name = "QM1"
        self.form = form
        self.behind = EmbeddedQueueManager("QM1")
        #: The bodies of all puts of the application, the backed-out puts too.
        self.made: list[bytes] = []
        self.mqsc("DEFINE QLOCAL(OUT)", "DEFINE QLOCAL(BOQ)", "DEFINE QLOCAL(IN) BOTHRESH(1) BOQNAME(BOQ)")

    def mqsc(self, *commands: str) -> None:
        carry_out(self.behind.administration, commands)

    def connect(self, *, application_name: str = "", user: str = "") -> Connection:
        return cast("Connection", Counting(self.behind.connect(application_name=application_name, user=user), self.made))

    @property
    def queue_manager(self) -> Any:
        return Inline(self) if self.form == "inline" else self

    def take(self, queue: str) -> list[Got]:
        """Get all messages of the queue."""
        return taken(self.behind, queue)

    def bodies(self, queue: str) -> list[bytes]:
        return [got.body.rpartition(b">")[2].strip() for got in self.take(queue)]

    def put(self, *bodies: str | bytes) -> None:
        """Put these messages on the queue IN."""
        data = (body.encode() if isinstance(body, str) else body for body in bodies)
        put(self.behind, "IN", *data, descriptor=MessageDescriptor(format="MQSTR"))

    async def run(
        self, app: App, *bodies: str, units: int = 1, runner: Runner = THREADS, then: Callable[[], object] | None = None
    ) -> Sequence[Event]:
        """Put these messages for the application. Stop the application after this number of units of work."""
        told: list[Event] = []
        app.hooks.append(lambda event: told.append(event))  # noqa: PLW0108 - a hook is called by keyword too
        self.put(*bodies)
        async with app.running(self.queue_manager, runner=runner):
            with anyio.fail_after(WAIT_S):
                while sum(isinstance(event, Settled) for event in told) < units:  # noqa: ASYNC110 - a hook adds the events
                    await anyio.sleep(0.005)
                if (
                    any(isinstance(event, Settled) and event.settlement is Settlement.BACKOUT for event in told)
                    and then is None
                ):
                    while not any(isinstance(event, Disposed) for event in told):  # noqa: ASYNC110 - as above
                        await anyio.sleep(0.005)
        return told


class Inline:
    """The same queue manager with connections that an event loop calls directly."""

    inline = True
    stopped = False

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self.name = manager.name
        self.connect = manager.connect


def failure(told: Sequence[Event]) -> Failed:
    [moved] = [event for event in told if isinstance(event, Disposed)]
    assert isinstance(moved.outcome, Failed)
    return moved.outcome
