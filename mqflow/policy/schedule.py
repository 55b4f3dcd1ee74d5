"""Decides when a schedule fires. Its state is one message on a queue that all workers of an application share.

Times are seconds since 1970 UTC; `now` is an argument. The runtime does the waiting.
"""

import hashlib
import math
from typing import Annotated, Final, Protocol

from msgspec import Meta, Struct

__all__ = ("Begin", "Fire", "Interval", "NotDue", "ScheduleRule", "ScheduleState", "decide", "key_of")

#: The clocks of two workers differ by less than this, in seconds. A state further in the future is from a wrong clock.
CLOCKS_DIFFER_S_MAX: Final = 3_600.0
_KEY_BYTES: Final = 24


class ScheduleRule(Protocol):
    """A rule that says at which moments a schedule is due."""

    @property
    def text(self) -> str:
        """The rule in words. If the text of a schedule's rule changes, the schedule begins again."""
        ...

    def next_after(self, moment: float) -> float:
        """Return the first moment after `moment` at which the schedule is due."""
        ...

    def latest(self, since: float, now: float) -> float:
        """Return the last moment at which the schedule is due, after `since` and not after `now`. There must be one."""
        ...


class Interval(Struct, frozen=True):
    """A rule with equal intervals, counted from the first start of the schedule."""

    every_s: float

    @property
    def text(self) -> str:
        """The rule in words."""
        return f"every {self.every_s:.15g} s"

    def next_after(self, moment: float) -> float:
        """Return the moment one interval after `moment`."""
        return moment + self.every_s

    def latest(self, since: float, now: float) -> float:
        """Return the last moment up to `now` that is a whole number of intervals after `since`; at least one interval."""
        return since + max(1, math.floor((now - since) / self.every_s)) * self.every_s


class ScheduleState(Struct, frozen=True, kw_only=True):
    """The state of a schedule: the body of its state message, in JSON."""

    #: The name of the schedule.
    schedule: str
    #: The text of the schedule's rule.
    rule: str
    #: The due time of the last firing. If the schedule has not fired yet, the time when it began. A state with a time that no
    #: clock shows cannot be decoded.
    last: Annotated[float, Meta(ge=0)]


class NotDue(Struct, frozen=True):
    """The schedule is not due yet. It is due after this number of seconds."""

    seconds: float


class Fire(Struct, frozen=True):
    """The schedule is due: put its message, and a new state with `due` as its last firing."""

    due: float


class Begin(Struct, frozen=True):
    """Put a new state that begins now, because the rule has changed, or the old state is from a wrong clock."""


def decide(state: ScheduleState, rule: ScheduleRule, now: float) -> NotDue | Fire | Begin:
    """Return the next step of a schedule. If several due times have passed since its last firing, the schedule fires once."""
    if state.rule != rule.text or state.last > now + CLOCKS_DIFFER_S_MAX:
        return Begin()
    due = rule.next_after(state.last)
    return NotDue(due - now) if due > now else Fire(rule.latest(state.last, now))


def key_of(application: str, schedule: str) -> bytes:
    """Return the CorrelId of the state message. It is the same in each worker of an application."""
    return hashlib.sha256(f"{application}\0{schedule}".encode()).digest()[:_KEY_BYTES]
