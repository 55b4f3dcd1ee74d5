"""Decides when a schedule fires. Its state is one message on a queue, so that all workers of an application have one schedule.

This module knows moments and rules: `now` is an argument, in seconds since 1970 UTC. The runtime does the waiting.
"""

import hashlib
import math
from typing import Final, Protocol

from msgspec import Struct

__all__ = ("Begin", "Fire", "Interval", "NotDue", "ScheduleRule", "ScheduleState", "decide", "key_of")

#: The clocks of two workers differ by less than this, in seconds. A state further in the future comes from a wrong clock.
CLOCKS_DIFFER_S_MAX: Final = 3_600.0
_KEY_BYTES: Final = 24


class ScheduleRule(Protocol):
    """The moments of a schedule."""

    @property
    def text(self) -> str:
        """The rule in words. A schedule with another text begins from the start."""
        ...

    def next_after(self, moment: float) -> float:
        """Return the first moment of the schedule after this moment."""
        ...

    def latest(self, since: float, now: float) -> float:
        """Return the last moment of the schedule after `since` and not after `now`. The caller knows that there is one."""
        ...


class Interval(Struct, frozen=True):
    """A rule with equal pauses, from the first start of the schedule."""

    every_s: float

    @property
    def text(self) -> str:
        """The rule in words."""
        return f"every {self.every_s:g} s"

    def next_after(self, moment: float) -> float:
        """Return the moment one interval later: each moment is counted from the one before."""
        return moment + self.every_s

    def latest(self, since: float, now: float) -> float:
        """Return the last moment up to `now` that is a whole number of intervals after `since`, at least one interval."""
        return since + max(1, math.floor((now - since) / self.every_s)) * self.every_s


class ScheduleState(Struct, frozen=True, kw_only=True):
    """The body of the state message, in JSON."""

    #: The name of the schedule.
    schedule: str
    #: The text of its rule.
    rule: str
    #: The moment of the last firing, or of the beginning.
    last: float


class NotDue(Struct, frozen=True):
    """The schedule is due after this number of seconds."""

    seconds: float


class Fire(Struct, frozen=True):
    """The schedule is due: put its message, and a state with this moment as the last."""

    due: float


class Begin(Struct, frozen=True):
    """Put a new state whose last moment is now: the rule has changed, or the old state is from the far future."""


def decide(state: ScheduleState, rule: ScheduleRule, now: float) -> NotDue | Fire | Begin:
    """Return the next step of a schedule. Several moments that have passed since the last firing are one firing: the latest."""
    if state.rule != rule.text or state.last > now + CLOCKS_DIFFER_S_MAX:
        return Begin()
    due = rule.next_after(state.last)
    return NotDue(due - now) if due > now else Fire(rule.latest(state.last, now))


def key_of(application: str, schedule: str) -> bytes:
    """Return the CorrelId of the state message: the same in each worker of an application."""
    return hashlib.sha256(f"{application}\0{schedule}".encode()).digest()[:_KEY_BYTES]
