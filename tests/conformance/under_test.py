"""A queue manager as the conformance tests see it: the connections, and the few other actions that a test needs.

For real IBM MQ the clock is None (tests that need a clock are skipped). Its differences are declared by test name, with the
reason.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from mqflow.embedded.administration.interface import Administration
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import QueueType
from mqflow.verbs import Connection, QueueManager

__all__ = ("ManualClock", "UnderTest", "refused")


class ManualClock:
    """A clock that a test advances. Starts at 2026-01-02 03:04:05.67 GMT."""

    def __init__(self) -> None:
        self.now_s = 1_767_323_045.67

    def wall(self) -> float:
        return self.now_s

    def monotonic(self) -> float:
        return self.now_s

    def monotonic_epoch(self) -> bytes:
        return bytes(16)

    def advance(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass
class UnderTest:
    """One queue manager behind the seam."""

    queue_manager: QueueManager
    administration: Administration
    #: Ends a connection as if its process were killed.
    kill: Callable[[Connection], None]
    quiesce: Callable[[], None]
    stop: Callable[[], None]
    #: None if the queue manager uses real time.
    clock: ManualClock | None = None
    #: Stops the queue manager and starts it again on its store; None if a test cannot do so.
    restart: "Callable[[], UnderTest] | None" = None
    #: Test name, or test name and parameters -> why this queue manager may differ.
    differences: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.queue_manager.name

    def define(self, name: str, **attributes: object) -> str:
        """Define a local queue, or an object of `kind`, and return its name."""
        self.administration.define(QueueAttributes(name=name, **attributes))  # type: ignore[arg-type]  # rows of tables
        return name

    def define_alias(self, name: str, target: str, **attributes: object) -> str:
        return self.define(name, kind=QueueType.ALIAS, target=target, **attributes)

    def depth(self, name: str) -> int:
        found = self.administration.queue(name)
        assert found is not None, f"{name} is not defined"
        return found.depth

    def advance(self, seconds: float) -> None:
        if self.clock is None:
            pytest.skip("this queue manager lives in real time")
        self.clock.advance(seconds)


@contextmanager
def refused(reason: int, *, match: str | None = None) -> Iterator[pytest.ExceptionInfo[MQIError]]:
    """Expect that the block is refused with this reason, and with a text that the pattern matches."""
    with pytest.raises(MQIError, match=match) as raised:
        yield raised
    assert reason == raised.value.reason, str(raised.value)
