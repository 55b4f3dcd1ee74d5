"""Decides which waiting puts share a unit of work, and what happens to them if the unit of work is backed out.

Pure functions. This file handles only numbers and sizes, no messages.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final

from msgspec import Struct

__all__ = ("CONNECTIONS_MAX", "AfterBackout", "Waiting", "after_backout", "calls_of_unit")

CONNECTIONS_MAX: Final = 4
"""After this many lost connections a put fails. The message itself can break each connection (through an exit or a limit)."""
_MESSAGES_MAX: Final = 64
_BYTES_MAX: Final = 1024 * 1024


class Waiting(Struct, frozen=True, gc=False):
    """The size of a call that waits until its messages are put in a unit of work."""

    messages: int
    body_bytes: int
    #: True if the call has a unit of work of its own, because it can put any number of messages.
    alone: bool = False


class AfterBackout(Enum):
    """The next step after the queue manager has backed out a unit of work at its commit (2003)."""

    PUT_EACH_ALONE = "put each alone"
    """Put the messages again, in a separate unit of work for each call. So no call fails because of another call."""
    PUT_AGAIN = "put again"
    """Put the messages again on the next connection."""
    FAIL = "fail"


def calls_of_unit(waiting: Iterable[Waiting]) -> int:
    """Return how many of the waiting calls, from the first, share the next unit of work; at least 1 if a call waits.

    A unit of work has at most 64 messages and 1 MiB, so that a commit stays short. Only the first call may exceed this.
    """
    calls = messages = body_bytes = 0
    for each in waiting:
        messages += each.messages
        body_bytes += each.body_bytes
        if calls and (each.alone or messages > _MESSAGES_MAX or body_bytes > _BYTES_MAX):
            break
        calls += 1
        if each.alone:
            break
    return calls


def after_backout(*, calls: int, connection_lost: bool, connections_lost: int, waits: bool) -> AfterBackout:
    """Return the next step after 2003 at the commit of `calls` calls. Nothing was committed, so no duplicate can arise.

    `connections_lost` is the number of connections that a single call has lost, including this loss. If `waits` is false, no
    message is put again on another connection.
    """
    if connection_lost and not waits:
        return AfterBackout.FAIL
    if calls > 1:
        return AfterBackout.PUT_EACH_ALONE
    return AfterBackout.PUT_AGAIN if connection_lost and connections_lost < CONNECTIONS_MAX else AfterBackout.FAIL
