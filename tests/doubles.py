"""A clock and queue managers for tests."""

from collections.abc import Iterator
from typing import Any

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.testing.kit import carry_out
from mqflow.verbs import Connection, QueueManager

__all__ = ("Blocking", "SteppingClock", "queue_manager_with")


def queue_manager_with(*commands: str, **options: Any) -> Any:
    """Return a fixture: the queue manager QM1, made with these options, after these MQSC commands or scripts."""

    @pytest.fixture
    def queue_manager() -> Iterator[EmbeddedQueueManager]:
        with EmbeddedQueueManager("QM1", **options) as made:
            carry_out(made.administration, commands)
            yield made

    return queue_manager


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
