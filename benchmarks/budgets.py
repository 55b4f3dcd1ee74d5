"""The budgets: the comparisons, and the figures that they must reach.

The design's list of goals has the numbers of the goals.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from benchmarks.client_packages import PACKAGES, loop, through
from benchmarks.consumption import raw
from benchmarks.samples import Sample
from benchmarks.transports import Transport, blocking, computing, durable, in_memory

__all__ = ("ADDED_CPU_US", "CONSUMING", "FRAMEWORK_ELSEWHERE", "STARTING", "Bar", "Consuming", "Starting")


class Bar(Struct, frozen=True):
    """The figure that a benchmark must reach, and the figure that would be excellent."""

    must: float
    moonshot: float
    #: Whether a smaller figure is better.
    at_most: bool = False

    def met(self, figure: float) -> str:
        """Return in words whether the figure reaches the moonshot, the required figure or neither."""
        for word, bound in (("moonshot", self.moonshot), ("met", self.must)):
            if figure <= bound if self.at_most else figure >= bound:
                return word
        return "**missed**"


class Consuming(Struct, frozen=True):
    """A comparison of the framework with the raw loop on one transport."""

    #: The number of the goal.
    goal: int
    transport: str
    make: Transport
    unit_of_work: int
    connections: int
    #: The required rate, as a part of the raw loop's rate on one connection.
    ratio: Bar | None
    #: The number of messages in a sample, for about half a second.
    messages: int
    #: The raw loop.
    loop: Callable[[Transport, int, int], Sample] = raw


def _by_package(name: str) -> tuple[Consuming, ...]:
    """Return goals 1 to 3 on a client package, against a loop on that package. The calls of the package take processor time."""
    transport, make, compared = f"{name} on the stand-in", through(name), loop(name)
    return (
        Consuming(1, transport, make, 32, 1, Bar(0.90, 0.95), 6_400, compared),
        Consuming(2, transport, make, 1, 1, Bar(0.75, 0.85), 4_000, compared),
        Consuming(3, transport, make, 32, 4, Bar(0.90, 0.95), 6_400, compared),
        Consuming(3, transport, make, 1, 4, Bar(0.90, 0.95), 4_000, compared),
    )


CONSUMING: Final = (
    Consuming(1, "blocks 110 µs", blocking, 32, 1, Bar(0.90, 0.95), 3_200),
    Consuming(1, "computes 20 µs", computing, 32, 1, Bar(0.90, 0.95), 9_600),
    Consuming(1, "embedded, durable", durable, 32, 1, Bar(0.75, 0.85), 12_800),
    Consuming(1, "embedded, in memory", in_memory, 32, 1, Bar(0.75, 0.85), 32_000),
    Consuming(2, "blocks 110 µs", blocking, 1, 1, Bar(0.75, 0.85), 1_600),
    Consuming(2, "embedded, durable", durable, 1, 1, Bar(0.55, 0.65), 2_000),
    Consuming(2, "embedded, in memory", in_memory, 1, 1, Bar(0.55, 0.65), 24_000),
    Consuming(3, "blocks 110 µs", blocking, 1, 4, Bar(2.4, 3.0), 4_000),
    Consuming(3, "computes 20 µs", computing, 1, 4, Bar(0.90, 0.95), 4_000),
    Consuming(3, "embedded, durable", durable, 1, 4, None, 4_000),
    *(budget for name in PACKAGES for budget in _by_package(name)),
)
"""Goals 1 to 3. On the embedded queue manager goals 1 and 2 demand less, because a loop on it takes a few microseconds."""

ADDED_CPU_US: Final = Bar(10.0, 5.0, at_most=True)
"""Goal 4: the processor time added to each message, on the embedded queue manager in memory: no call leaves the thread."""


class Starting(Struct, frozen=True):
    """A figure of a whole process."""

    goal: int
    what: str
    unit: str
    bar: Bar
    #: FastStream's figure, from the table below.
    elsewhere: float


FRAMEWORK_ELSEWHERE: Final = (
    "FastStream 0.7.8 with NATS, Python 3.11, measured when mqflow was designed, on a machine like this one"
)

STARTING: Final = (
    Starting(14, "process start to first durable message handled", "ms", Bar(140.0, 100.0, at_most=True), 252.0),
    Starting(15, "memory of a consumer after 1,000 messages (RSS)", "MB", Bar(0.80 * 44.6, 28.0, at_most=True), 44.6),
    Starting(16, "a process that does `from mqflow import App`", "ms", Bar(0.45 * 280.0, 85.0, at_most=True), 280.0),
)
"""Goals 14 to 16."""
