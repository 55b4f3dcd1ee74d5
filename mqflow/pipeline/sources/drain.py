"""Drains a queue for an engine that replays batches: each batch is a segment of a journal of its own, the manifest.

A lander moves the messages of a batch into the manifest, with a marker in the unit of work. Only then does the engine get the
number of the batch, and replays read the segment. So each message is on the queue or in one batch, even if the engine is killed
and other programs get from the queue. The messages are browsed first: only a kill within the unit of work adds to BackoutCount.
This file knows the lander and the journal, but no Spark.
"""

from typing import Final

from mqflow.journal import Consumers, Journal, Lane
from mqflow.landing.lander import Lander, LanderOptions
from mqflow.verbs import Connection
from mqflow.world import Clock

__all__ = ("Drain", "forget")

_CONSUMER: Final = "drain"


class Drain:
    """Drains one queue into one lane of the manifest, on one connection; after an error, a new connection needs a new drain."""

    def __init__(
        self, connection: Connection, journal: Journal, lane: Lane, *, messages_max: int, state_queue: str, clock: Clock
    ) -> None:
        """Take the lane over, and publish a batch that was committed before a kill. Raises the errors of `Lander.open`."""
        options = LanderOptions(batch=messages_max, browse_first=True, state_queue=state_queue)
        self._lane = lane
        self._lander = Lander(connection, journal, lane, options, clock=clock, stopping=lambda: True)
        self._lander.open()

    def take(self, after: int) -> tuple[int, int]:
        """Move the next messages into the segment after `after`; return its number, and the number of these messages.

        Returns `after` if the queue is empty. If the segment exists already (from a run that was killed), moves nothing and
        returns its number. Raises the errors of `Lander.land`.
        """
        if self._lane.last > after:
            return after + 1, 0
        landed = self._lander.land()
        return (after, 0) if landed is None else (landed.segment, landed.messages)


def forget(journal: Journal, lane: Lane, through: int) -> None:
    """Delete the segments up to `through`, which the engine has committed. The call can be repeated."""
    if through > lane.trimmed:
        consumers = Consumers(journal)
        consumers.commit(_CONSUMER, {lane.name: through})
        consumers.trim()
