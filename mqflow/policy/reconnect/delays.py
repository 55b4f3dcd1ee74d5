"""Decides how long to wait before each attempt to reconnect, and when to give up.

This module only computes: times and random numbers are arguments. `reason_classes` decides which reason codes cause a
reconnection.
Source: IBM, "Automatic JMS client reconnection with CCDTs" for the default delays; IBM, "CHANNELS stanza of the client
configuration file" (q016860) for ReconDelay and MQReconnectTimeout.
"""

import re
from typing import Final

__all__ = ("LADDER", "DelaysError", "Ladder", "delay_s", "next_delay_s", "parse_delays")

Ladder = tuple[tuple[float, float], ...]
"""The delay before each attempt: fixed seconds, and the most random seconds that are added. The last pair repeats."""

LADDER: Final[Ladder] = ((1, 0.25), (2, 0.5), (4, 1), (8, 2), (16, 4), (25, 6.25))
"""IBM's default delays before the attempts: fixed seconds, and random seconds. The last pair repeats forever."""

_PAIR: Final = re.compile(r"\s*\(\s*([0-9]{1,9})\s*(?:,\s*([0-9]{1,9})\s*)?\)\s*", re.ASCII)
_PAIRS_MAX: Final = 100


class DelaysError(ValueError):
    """A text is not a list of reconnect delays; the error gives the accepted form."""


def parse_delays(text: str) -> Ladder:
    """Return the pairs of a ReconDelay such as "(1000,200)(2000,200)(4000,1000)". The result is in seconds.

    A pair without its second number has no random part. Raises `DelaysError` for any other text, and for a last delay of
    0, because then the attempts follow each other without rest.
    """
    ladder: list[tuple[float, float]] = []
    at = 0
    while (pair := _PAIR.match(text, at)) and len(ladder) < _PAIRS_MAX:
        ladder.append((int(pair[1]) / 1_000, int(pair[2] or 0) / 1_000))
        at = pair.end()
    if not ladder or at < len(text):
        problem = f"at {text[at : at + 20]!r}" if text.strip() else "it is empty"
        raise DelaysError(
            f"{text[:80]!r} is not a ReconDelay, {problem}: it takes (delay[,random]) in milliseconds, once or more."
        )
    if not any(ladder[-1]):
        raise DelaysError(f"{text[:80]!r} ends in a delay of 0, which repeats forever: end it in a delay such as (25000,6250).")
    return tuple(ladder)


def delay_s(attempt: int, random: float, ladder: Ladder = LADDER) -> float:
    """Return the delay in seconds before this attempt. Attempt 1 is the first after the connection was lost.

    `random` is in [0, 1). Because of the random part, the applications of a lost queue manager connect at different moments.
    """
    fixed_s, random_s = ladder[min(max(attempt, 1), len(ladder)) - 1]
    return fixed_s + random_s * random


def next_delay_s(
    attempt: int, random: float, *, ladder: Ladder = LADDER, lost_for_s: float = 0.0, limit_s: float | None = None
) -> float | None:
    """Return the delay in seconds before this attempt, from 1; None to give up (2556).

    `random` is in [0, 1). `limit_s` counts from the loss of the connection. The last delay is shortened so that it ends at the
    limit. Without a limit the attempts never end.
    """
    wait_s = delay_s(attempt, random, ladder)
    if limit_s is None:
        return wait_s
    left_s = limit_s - lost_for_s
    return min(wait_s, left_s) if left_s > 0 else None
