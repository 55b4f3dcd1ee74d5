"""An application whose events and deliveries a test can await."""

from collections.abc import Callable
from typing import Any

import anyio

from mqflow import App
from mqflow.events import Event, InDoubt, Settled
from mqflow.policy.poison.disposition import Settlement

__all__ = ("LATEST_S", "StagedApplication")

LATEST_S = 10.0


class StagedApplication:
    """An application, its events in order, and the bodies that its handler got."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.app = App(hooks=[self._heard])
        #: The bodies that the handler got, in order.
        self.seen: list[bytes] = []
        self._changed = anyio.Event()

    def _heard(self, event: Event) -> None:
        self.events.append(event)
        self._changed.set()

    def listen(self, **options: Any) -> None:
        """Declare a handler of IN that notes each body."""

        @self.app.listener("IN", **options)
        async def handle(body: bytes) -> None:
            self.note(body)

    def note(self, body: bytes) -> None:
        self.seen.append(body)
        self._changed.set()

    async def until_seen(self, count: int) -> None:
        """Wait until the handler has had so many deliveries."""
        await self.until(lambda: len(self.seen) >= count)

    async def until_settled(self, count: int) -> None:
        """Wait until so many messages are committed."""
        await self.until(lambda: len(self.settled()) >= count)

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until the condition holds; it is looked at after each event and each delivery."""
        with anyio.fail_after(LATEST_S):
            while not holds():
                self._changed = anyio.Event()
                await self._changed.wait()

    def settled(self, how: Settlement = Settlement.COMMIT) -> list[bytes]:
        """Return the MsgIds of the messages whose unit of work ended in this way, in order."""
        ended = (event for event in self.events if isinstance(event, Settled) and event.settlement is how)
        return [each for event in ended for each in event.message_ids]

    def in_doubt(self) -> list[bytes]:
        """Return the MsgIds of the messages whose unit of work is in doubt."""
        return [each for event in self.events if isinstance(event, InDoubt) for each in event.message_ids]
