"""Sends heartbeats for sockets whose threads can be busy for longer than a peer waits. One thread serves all sockets.

Heartbeats continue even if a handler blocks its event loop. This module knows frames, but not their content.
"""

from typing import Final

from mqflow.embedded.wire.protocol.frames import SILENCE_S, Frames
from mqflow.world import Runner

__all__ = ("HeartbeatSender",)

_BEATS_IN_A_SILENCE = 4
_AT_ONCE: Final = 16


class HeartbeatSender:
    """Sends four heartbeats on each socket within the time that a peer waits. The thread runs while there are sockets."""

    def __init__(self, runner: Runner, *, silence_s: float = SILENCE_S) -> None:
        self._runner = runner
        self.silence_s: Final = silence_s
        self._beat_s = silence_s / _BEATS_IN_A_SILENCE
        self._guard = runner.lock()
        #: The sockets in the order of `add`. A set has another order in each process, so no simulated run could be repeated.
        self._beating: dict[Frames, None] = {}
        self._wake = runner.event()
        self._alive = False

    def add(self, frames: Frames) -> None:
        """Begin to send heartbeats on this socket. Raises `RuntimeError` if the system can start no thread."""
        with self._guard:
            if not self._alive:
                self._wake.clear()
                self._runner.start(self._run, "mqflow-heart")  # the thread begins with a wait, and then needs the lock
                self._alive = True
            self._beating[frames] = None

    def remove(self, frames: Frames) -> None:
        """Send no more heartbeats on this socket."""
        with self._guard:
            self._beating.pop(frames, None)
            if not self._beating:
                self._wake.set()

    def _run(self) -> None:
        shares: list[tuple[Frames, ...]] = []
        pause_s = self._beat_s
        while True:
            self._wake.wait(pause_s)
            with self._guard:
                if not self._beating:
                    self._alive = False
                    return
                self._wake.clear()
                if not shares:
                    shares = _shares(tuple(self._beating))
                    pause_s = self._beat_s / len(shares)
                due = [frames for frames in shares.pop(0) if frames in self._beating]
            for frames in due:
                frames.beat()


def _shares(beating: tuple[Frames, ...]) -> list[tuple[Frames, ...]]:
    """Return the sockets in groups. Within the time between two heartbeats, the sender serves one group after another.

    Each heartbeat wakes a thread of the peer. If a thousand threads wake at the same time, each of them checks every 5 ms
    whether the interpreter is free. These checks cost several times as much as the heartbeats.
    """
    return [beating[at : at + _AT_ONCE] for at in range(0, len(beating), _AT_ONCE)]
