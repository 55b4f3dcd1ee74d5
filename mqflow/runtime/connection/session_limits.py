"""The two waits of a session that have a time limit: for the answer to a settlement, and for more messages of a unit.

This module knows no connection and no thread.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

import anyio

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Settlement
from mqflow.policy.reconnect.reason_classes import needs_reconnect
from mqflow.runtime.connection.loop_call import OneShot
from mqflow.verbs import Got

__all__ = ("SETTLE_DEADLINE_S", "arrivals_within", "raise_if", "settlement_reply", "units_ahead")

SETTLE_DEADLINE_S: Final = 30.0
"""The longest time of a commit or backout. After that, its outcome counts as unknown."""

_AHEAD_S: Final = 0.005
#: The largest number of messages that are got ahead. If the units have many messages, the largest number of units.
_MESSAGES_MAX: Final = 64
_LARGE_UNITS_MAX: Final = 8


def units_ahead(handled_s: float, most: int) -> int:
    """Return how many units of work the thread of a session may get ahead, before the worker is ready for them.

    A unit has up to `most` messages, and the last unit took `handled_s` seconds. With the returned number, the worker begins
    each unit within 5 ms. So no message waits for a slow handler while another worker is idle. A slow worker has only its next
    unit.
    """
    units_max = max(_LARGE_UNITS_MAX, _MESSAGES_MAX // most)
    return units_max if handled_s * units_max <= _AHEAD_S else max(1, int(_AHEAD_S / handled_s))


async def settlement_reply(answer: OneShot, settlement: Settlement, queue_manager: str) -> object:
    """Return the result of a settlement. The wait for it is shielded from cancellation.

    Raises the error of the settlement. Raises 2549 (outcome unknown) if no answer comes in time.
    """
    if await answer.comes_within(SETTLE_DEADLINE_S):
        reply = answer.value
        result, error = reply if isinstance(reply, tuple) else (None, reply)
        raise_if(error)
        return result
    verb = "MQCMIT" if settlement is Settlement.COMMIT else "MQBACK"
    detail = f"No answer came within {SETTLE_DEADLINE_S:g} s"
    raise error_for(Reason.CALL_INTERRUPTED, verb, "", queue_manager, detail)


async def arrivals_within(
    unit: list[Got], most: int, linger_ms: int, wait: Callable[[int], Awaitable[Got | None]]
) -> AsyncGenerator[Got, None]:
    """Yield messages that arrive while the unit has room, for at most `linger_ms`. A message that was backed out ends the unit.

    If a get is refused, the iteration ends: the unit keeps its messages, and the next get reports the refusal. If the
    connection is lost, its error is raised.
    """
    until = anyio.current_time() + linger_ms / 1_000
    while len(unit) < most and not unit[-1].descriptor.backout_count:
        left_ms = round((until - anyio.current_time()) * 1_000)
        try:
            more = await wait(left_ms) if left_ms > 0 else None
        except MQIError as error:
            if needs_reconnect(error):
                raise
            return
        if more is None:
            return
        yield more


def raise_if(error: BaseException | None) -> None:
    """Raise the error, unless it is None."""
    if error is not None:
        raise error
