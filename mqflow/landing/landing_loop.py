"""Keeps the messages of one queue landing: makes a connection and a lander, and makes new ones after each failure.

`keep_landing` runs in a thread of its own and blocks there until it is stopped. The lander guarantees that each message lands
exactly once. This module only decides whether and when to try again.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from msgspec import Struct

from mqflow.folders import FolderError
from mqflow.journal.errors import JournalFullError
from mqflow.landing.lander import Landed, Lander
from mqflow.many_verbs import disconnect_without_commit
from mqflow.mqi.errors import MQIError
from mqflow.policy.poison import redelivery_delay
from mqflow.policy.reconnect.reason_classes import Class, classify
from mqflow.verbs import Connection
from mqflow.world import Random

__all__ = ("Progress", "Recovered", "Troubled", "keep_landing")

_PACE: Final = redelivery_delay.Pace(first_s=0.5, max_s=30.0)


class Troubled(Struct, frozen=True):
    """Landing has failed; `keep_landing` tries again after a delay."""

    error: Exception
    delay_s: float


class Recovered(Struct, frozen=True):
    """Landing works again after a failure."""


Progress: TypeAlias = Landed | Recovered | Troubled


def keep_landing(
    connect: Callable[[], Connection],
    make: Callable[[Connection], Lander],
    *,
    notify: Callable[[Progress], None],
    stopping: Callable[[], bool],
    pause: Callable[[float], None],
    random: Random,
    once: bool = False,
) -> None:
    """Land until `stopping` returns True, or with `once` until the queue is empty. `pause` waits at most the given seconds.

    Raises an `MQIError` with a configuration reason, and a `JournalError`, because a person must correct these. After any other
    `MQIError` the function waits and tries again. It does the same if the disk is full or an object store refuses. With `once`
    the function raises the error of these last two cases, because its caller waits for the end.
    """
    troubles = 0
    while not stopping():
        try:
            for landed in _land_on_one_connection(connect, make, stopping, once=once):
                if troubles:
                    notify(Recovered())
                troubles = 0
                if landed is not None:
                    notify(landed)
        except (MQIError, JournalFullError, FolderError) as error:
            if isinstance(error, MQIError) and classify(int(error.reason)) is Class.CONFIGURATION:
                raise
            if once and not isinstance(error, MQIError):
                raise
            troubles += 1
            trouble = Troubled(error, redelivery_delay.pause_s(_PACE, troubles, random.random()))
            notify(trouble)
            pause(trouble.delay_s)
        else:
            return


def _land_on_one_connection(
    connect: Callable[[], Connection], make: Callable[[Connection], Lander], stopping: Callable[[], bool], *, once: bool
) -> Iterator[Landed | None]:
    """Yield each segment, and None after each wait without a message."""
    connection = connect()
    try:
        lander = make(connection)
        found = lander.open()
        if found is not None:
            yield found
        while not stopping():
            landed = lander.land()
            yield landed
            if landed is None and once and lander.idle:
                return
    finally:
        disconnect_without_commit(connection)
