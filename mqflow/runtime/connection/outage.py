"""One outage after the other: when it began, who still waits to be back, and what is open again at its end.

The end is told once, when the last of those who lost a session has another one with its objects open. Waits for nothing itself.
"""

from typing import Final

from mqflow.events import Reconnected
from mqflow.mqi.errors import MQIError
from mqflow.policy.reconnect.ledger import Opened, gone
from mqflow.runtime.connection.open_objects import name_of
from mqflow.runtime.connection.session import Session
from mqflow.runtime.hooks import Broadcast
from mqflow.world import Clock

__all__ = ("Outage",)


class Outage:
    """Of one supervisor."""

    def __init__(self, broadcast: Broadcast, clock: Clock) -> None:
        self._broadcast: Final = broadcast
        self._clock: Final = clock
        self._lost: tuple[float, MQIError] | None = None
        #: Since when, where a connection is had again and it is not told yet.
        self._untold_since: float | None = None
        self._attempts = 0
        self._waiting: dict[Session, None] = {}
        self._objects: dict[int, Opened] = {}

    @property
    def lasts(self) -> bool:
        """Whether there is no connection to be had."""
        return self._lost is not None

    @property
    def began(self) -> tuple[float, MQIError]:
        """When, in monotonic seconds, and with what; while it lasts."""
        assert self._lost is not None  # noqa: S101 - `lasts` comes first
        return self._lost

    def begins(self, error: MQIError) -> bool:
        """Note a lost connection; False where it is known already."""
        if self._lost is not None:
            return False
        self._lost = (self._clock.monotonic(), error)
        return True

    def waits(self, session: Session) -> None:
        """Note that the owner of this session is going to want another one."""
        self._waiting[session] = None

    def connected(self, attempts: int) -> None:
        """Note that a connection is had again."""
        since, _ = self.began
        self._lost = None
        if self._untold_since is None:
            self._untold_since = since
        self._attempts += attempts

    def reopened(self, objects: tuple[Opened, ...]) -> None:
        """Note what is open again on one of the new sessions."""
        self._objects.update({entry.number: entry for entry in objects})

    def back(self, session: Session | None, queue_manager: str, generation: int) -> None:
        """Note that the owner of the lost session has another one, or wants none; tell where that was the last."""
        if session is not None:
            self._waiting.pop(session, None)
        since = self._untold_since
        if since is None or self._waiting or self.lasts:
            return
        objects = [self._objects[number] for number in sorted(self._objects)]
        attempts = self._attempts
        self._objects, self._attempts, self._untold_since = {}, 0, None
        self._broadcast(
            Reconnected(
                queue_manager=queue_manager,
                generation=generation,
                objects=tuple(dict.fromkeys(name_of(each) for each in objects)),
                gone=tuple(dict.fromkeys(f"{name_of(each)}: {what}" for each in objects for what in gone(each))),
                attempts=attempts,
                downtime_ms=(self._clock.monotonic() - since) * 1_000,
            )
        )
