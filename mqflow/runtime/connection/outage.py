"""The facts of one outage: when it began, which sessions were lost, and which objects are open again.

The supervisor says when an outage begins and ends; this module only records it. No method waits.
"""

from typing import Final

from mqflow.events import Reconnected
from mqflow.mqi.errors import MQIError
from mqflow.policy.reconnect.ledger import Opened, gone
from mqflow.runtime.connection.open_objects import name_of
from mqflow.runtime.connection.session import Session
from mqflow.world import Clock

__all__ = ("Outage",)


class Outage:
    """The outage of a supervisor, from the first loss until `end` reports that it is over."""

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._lost: tuple[float, MQIError] | None = None
        #: The time of the first loss, in monotonic seconds. If the connection breaks again before the end, the outage
        #: continues.
        self._since = 0.0
        self._attempts = 0
        self._waiting: dict[Session, None] = {}
        self._objects: dict[int, Opened] = {}

    @property
    def began(self) -> tuple[float, MQIError]:
        """The time of the last loss of the connection, in monotonic seconds, and the error of that loss."""
        assert self._lost is not None  # noqa: S101 - `begin` comes first
        return self._lost

    def begin(self, error: MQIError, *, goes_on: bool) -> None:
        """Record a lost connection. `goes_on` is true if an outage had begun before this loss."""
        now = self._clock.monotonic()
        self._lost = (now, error)
        if not goes_on:
            self._since = now

    def expect(self, session: Session) -> None:
        """Record that the owner of this lost session needs a new session."""
        self._waiting[session] = None

    def expect_no_more(self, session: Session) -> None:
        """Record that the owner of this lost session has a new session, or does not need one."""
        self._waiting.pop(session, None)

    @property
    def all_back(self) -> bool:
        """True if no owner of a lost session waits for a new session."""
        return not self._waiting

    def reopened(self, objects: tuple[Opened, ...]) -> None:
        """Record the objects that are open again on one of the new sessions."""
        self._objects.update({entry.number: entry for entry in objects})

    def count(self, attempts: int) -> None:
        """Add the number of attempts of a successful reconnection."""
        self._attempts += attempts

    def end(self, queue_manager: str, generation: int) -> Reconnected:
        """Return the report about the outage, and forget the objects and attempts of the outage."""
        objects = [self._objects[number] for number in sorted(self._objects)]
        attempts = self._attempts
        self._objects, self._attempts = {}, 0
        return Reconnected(
            queue_manager=queue_manager,
            generation=generation,
            objects=tuple(dict.fromkeys(name_of(each) for each in objects)),
            gone=tuple(dict.fromkeys(f"{name_of(each)}: {what}" for each in objects for what in gone(each))),
            attempts=attempts,
            downtime_ms=(self._clock.monotonic() - self._since) * 1_000,
        )
