"""A clock and a queue manager for tests, with one special property each."""

from mqflow.verbs import Connection, QueueManager

__all__ = ("Blocking", "SteppingClock")


class Blocking:
    """A queue manager with blocking calls, so that its sessions have threads."""

    def __init__(self, inner: QueueManager) -> None:
        self.name = inner.name
        self._inner = inner

    def connect(self, *, application_name: str = "", user: str = "") -> Connection:
        return self._inner.connect(application_name=application_name, user=user)


class SteppingClock:
    """A clock that advances by some seconds with each read."""

    def __init__(self, step_s: float = 1.0) -> None:
        self._now = 0.0
        self._step_s = step_s

    def monotonic(self) -> float:
        self._now += self._step_s
        return self._now

    wall = monotonic

    def monotonic_epoch(self) -> bytes:
        return bytes(16)
