"""The comparisons with a plain loop (goals 1 to 4), and the figures that they must reach.

The numbers of the goals come from the list of goals in the design.
"""

from typing import Final

from msgspec import Struct

from benchmarks.client_packages import PACKAGES, through
from benchmarks.tables import Bar
from benchmarks.transports import Transport, blocking, computing, durable, in_memory

__all__ = ("ADDED_CPU_US", "CONSUMING", "Consuming")


class Consuming(Struct, frozen=True):
    """A comparison of the framework with the raw loop on one transport."""

    #: The number of the goal.
    goal: int
    transport: str
    make: Transport
    unit_of_work: int
    connections: int
    #: The required rate, as a part of the raw loop's rate on one connection.
    ratio: Bar
    #: The number of messages in a sample, for about half a second.
    messages: int

    @property
    def name(self) -> str:
        """The name of the rows."""
        connections = "1 connection" if self.connections == 1 else f"{self.connections} connections"
        return f"{self.transport}, unit of work {self.unit_of_work}, {connections}"


#: The bars of goals 1 and 2 with one connection, and of goal 3 with four connections: transports that wait, and that compute.
_UNIT, _ONE = Bar(0.90, 0.95), Bar(0.75, 0.85)
_WAITING, _COMPUTING = Bar(2.4, 3.0), Bar(0.90, 0.95)


def _by_package(name: str) -> tuple[Consuming, ...]:
    """Return goals 1 to 3 on a client package. The calls of the package take processor time."""
    transport, make = f"{name} on the stand-in", through(name)
    return (
        Consuming(1, transport, make, 32, 1, _UNIT, 6_400),
        Consuming(2, transport, make, 1, 1, _ONE, 4_000),
        Consuming(3, transport, make, 32, 4, _COMPUTING, 6_400),
        Consuming(3, transport, make, 1, 4, _COMPUTING, 4_000),
    )


CONSUMING: Final = (
    Consuming(1, "blocks 110 µs", blocking, 32, 1, _UNIT, 3_200),
    Consuming(1, "computes 20 µs", computing, 32, 1, _UNIT, 9_600),
    Consuming(1, "embedded, durable", durable, 32, 1, Bar(0.75, 0.85), 12_800),
    Consuming(1, "embedded, in memory", in_memory, 32, 1, _UNIT, 32_000),
    Consuming(2, "blocks 110 µs", blocking, 1, 1, _ONE, 1_600),
    Consuming(2, "embedded, durable", durable, 1, 1, Bar(0.55, 0.65), 2_000),
    Consuming(2, "embedded, in memory", in_memory, 1, 1, _ONE, 24_000),
    Consuming(3, "blocks 110 µs", blocking, 1, 4, _WAITING, 4_000),
    Consuming(3, "computes 20 µs", computing, 1, 4, _COMPUTING, 4_000),
    Consuming(3, "embedded, durable", durable, 1, 4, _WAITING, 4_000),
    *(budget for name in PACKAGES for budget in _by_package(name)),
)
"""Goals 1 to 3. Only the durable embedded queue manager has lower bars for goals 1 and 2, because the disk limits its rate."""

ADDED_CPU_US: Final = Bar(10.0, 5.0, at_most=True)
"""Goal 4: the processor time that mqflow adds to each message, on every transport."""
