"""Keeps one lane landing: a connection and a lander, and new ones after whatever ended them, until told to stop.

Runs in a thread of its own and blocks there. Exactly once is the lander's business; here is only when to try
again, and whether.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from msgspec import Struct

from mqflow.journal.errors import JournalFullError
from mqflow.landing.lander import Landed, Lander
from mqflow.many_verbs import disconnect_without_commit
from mqflow.mqi.errors import MQIError
from mqflow.policy.poison import redelivery_delay
from mqflow.policy.reconnect import reconnection
from mqflow.verbs import Connection
from mqflow.world import Random

__all__ = ("Progress", "Troubled", "keep_landing")

_PACE: Final = redelivery_delay.Pace(first_s=0.5, max_s=30.0)


class Troubled(Struct, frozen=True):
    """Something is in the way; it is tried again."""

    error: Exception
    delay_s: float


Progress: TypeAlias = Landed | Troubled


def keep_landing(
    connect: Callable[[], Connection],
    make: Callable[[Connection], Lander],
    *,
    tell: Callable[[Progress], None],
    stopping: Callable[[], bool],
    pause: Callable[[float], None],
    random: Random,
    once: bool = False,
) -> None:
    """Land until told to stop, or with `once` until the queue is empty. `pause` lets so many seconds pass, or fewer.

    Raises the `MQIError` that no second attempt can mend, and every `JournalError`: then a person has to look. A full disk is
    waited for, but not with `once`: who lands once is waited for too.
    """
    troubles = 0
    while not stopping():
        try:
            for landed in _lander_s_life(connect, make, stopping, once=once):
                troubles = 0
                tell(landed)
        except (MQIError, JournalFullError) as error:
            if isinstance(error, MQIError) and reconnection.classify(int(error.reason)) is reconnection.Class.CONFIGURATION:
                raise
            if once and isinstance(error, JournalFullError):
                raise
            troubles += 1
            trouble = Troubled(error, redelivery_delay.pause_s(_PACE, troubles, random.random()))
            tell(trouble)
            pause(trouble.delay_s)
        else:
            return


def _lander_s_life(
    connect: Callable[[], Connection], make: Callable[[Connection], Lander], stopping: Callable[[], bool], *, once: bool
) -> Iterator[Landed]:
    connection = connect()
    try:
        lander = make(connection)
        found = lander.open()
        if found is not None:
            yield found
        while not stopping():
            landed = lander.land()
            if landed is not None:
                yield landed
            elif once and lander.idle:
                return
    finally:
        disconnect_without_commit(connection)
