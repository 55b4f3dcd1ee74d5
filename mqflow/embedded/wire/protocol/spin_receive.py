"""Receiving from a peer that answers within microseconds: looks again a few times before it sleeps.

A sleep ends by a wake-up, and on an idle machine that costs both sides more than the answer took: the processor has gone to
rest, and is called back. So who has been answered quickly several times looks for as long as a wake-up costs, giving way to
others between two looks, and sleeps only then: never more than twice the price of the better of the two. Who was not looks no
more until it is quick again. Knows a socket; knows no frame.
"""

import socket
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from mqflow.world import SYSTEM_CLOCK, give_way

__all__ = ("LOOK_S", "SpinReceive")

LOOK_S: Final = 100e-6
"""How long it looks: what it costs that both sides fall asleep and are woken on another processor."""
_QUICK_S: Final = 3 * LOOK_S
"""What counts as quick asleep: with the time it takes to be woken."""
_QUICK_MIN: Final = 8
_QUICK_MAX: Final = 4_096


Wanted = TypeVar("Wanted")
Received = TypeVar("Received")


class SpinReceive(Generic[Wanted, Received]):
    """The `recv` of a socket, or its `recv_into`, for a peer that may be quick."""

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
        #: How many waits in a row have to be short before it looks again.
        self._distrust = _QUICK_MIN
        #: How many that will be when the next look is in vain.
        self._next_distrust = _QUICK_MIN

    def recv(self, most: Wanted) -> Received:
        """Return what the call of the socket does, and raise what it does; asleep or not."""
        began = self._clock()
        if not self._distrust:
            return self._spin(most, began + LOOK_S)
        data = self._recv(most, 0)
        self._distrust = self._distrust - 1 if self._clock() - began < _QUICK_S else max(self._distrust, _QUICK_MIN)
        return data

    def _spin(self, most: Wanted, until: float) -> Received:
        """Return what comes; after `until`, asleep. What is awaited is never there at once: others first."""
        while True:
            self._give_way()
            try:
                data = self._recv(most, socket.MSG_DONTWAIT)
            except BlockingIOError:
                if self._clock() < until:
                    continue
                self._distrust_longer()
                return self._recv(most, 0)
            if self._clock() >= until:  # others took their time: asleep, it would have been woken before they were done
                self._distrust_longer()
            elif self._next_distrust > _QUICK_MIN:
                self._next_distrust = max(_QUICK_MIN, self._next_distrust >> 1)
            return data

    def _distrust_longer(self) -> None:
        self._distrust = self._next_distrust
        self._next_distrust = min(self._next_distrust * 8, _QUICK_MAX)
