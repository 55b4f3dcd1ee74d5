"""Receives from a peer that answers within microseconds: polls the socket for a short time before it blocks.

A blocked thread must be woken. On an idle machine this takes longer than the answer, because the processor is in a power-saving
state. So after several quick answers, a receive first polls for the time that a wake-up costs, and lets other threads run
between two polls. Only then does it block. So a receive takes at most twice as long as the faster of the two ways. After a slow
answer, receives block without polling until answers are quick again. This module knows a socket, but no frame.
"""

import socket
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from mqflow.world import SYSTEM_CLOCK, give_way

__all__ = ("LOOK_S", "SpinReceive")

LOOK_S: Final = 100e-6
"""The polling time: the cost of a wake-up if both sides are blocked and wake on another processor."""
_QUICK_S: Final = 3 * LOOK_S
"""A blocked receive was quick if it took less time than this, with the wake-up."""
_QUICK_MIN: Final = 8
_QUICK_MAX: Final = 4_096


Wanted = TypeVar("Wanted")
Received = TypeVar("Received")


class SpinReceive(Generic[Wanted, Received]):
    """The `recv` or `recv_into` of a socket whose peer can be quick."""

    __slots__ = ("_clock", "_distrust", "_give_way", "_next_distrust", "_recv")

    def __init__(
        self,
        recv: Callable[[Wanted, int], Received],
        clock: Callable[[], float] = SYSTEM_CLOCK.monotonic,
        give_way: Callable[[], None] = give_way,
    ) -> None:
        self._recv = recv
        self._clock = clock
        self._give_way = give_way
        #: The number of consecutive quick receives before the next poll.
        self._distrust = _QUICK_MIN
        #: The value of `_distrust` after the next poll that gets no answer.
        self._next_distrust = _QUICK_MIN

    def recv(self, most: Wanted) -> Received:
        """Return the result of the socket's call, after blocking or polling. Raises the errors of that call."""
        began = self._clock()
        if not self._distrust:
            return self._spin(most, began + LOOK_S)
        data = self._recv(most, 0)
        self._distrust = self._distrust - 1 if self._clock() - began < _QUICK_S else max(self._distrust, _QUICK_MIN)
        return data

    def _spin(self, most: Wanted, until: float) -> Received:
        """Poll until `until`, then block. Return the received bytes. First let other threads run, as no answer is immediate."""
        while True:
            self._give_way()
            try:
                data = self._recv(most, socket.MSG_DONTWAIT)
            except BlockingIOError:
                if self._clock() < until:
                    continue
                self._distrust_longer()
                return self._recv(most, 0)
            if self._clock() >= until:  # other threads took long: a blocking receive would have been quicker
                self._distrust_longer()
            elif self._next_distrust > _QUICK_MIN:
                self._next_distrust = max(_QUICK_MIN, self._next_distrust >> 1)
            return data

    def _distrust_longer(self) -> None:
        self._distrust = self._next_distrust
        self._next_distrust = min(self._next_distrust * 8, _QUICK_MAX)
