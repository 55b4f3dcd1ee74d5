"""The campaigns: their goals, units and targets. Knows which piece belongs to which campaign, and runs none."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from tests.campaign import pieces
from tests.campaign.pieces import Piece

__all__ = ("CAMPAIGNS", "Bound", "Campaign")


class Bound(Struct, frozen=True):
    """A limit for a percentile of a measured time."""

    time: str
    percent: float
    ms: float


class Campaign(Struct, frozen=True, kw_only=True):
    """A harness that runs seed after seed."""

    name: str
    #: The goal that the campaign serves: R1 to R20.
    goal: str
    #: The unit of the target, in the plural.
    unit: str
    target: int
    run: Callable[[int], Piece]
    #: The seeds of the small form, which the tests and the zoo run.
    small: range
    bounds: tuple[Bound, ...] = ()


CAMPAIGNS: Final = {
    each.name: each
    for each in (
        Campaign(name="kills", goal="R2", unit="kills", target=100_000, run=pieces.kills, small=range(3)),
        Campaign(
            name="system-calls", goal="R3, R5, R6", unit="points", target=30_000, run=pieces.system_calls, small=range(0, 16, 8)
        ),
        Campaign(name="power-cuts", goal="R4", unit="states", target=10_000_000, run=pieces.power_cuts, small=range(2)),
        Campaign(name="bit-flips", goal="R7", unit="flips", target=100_000, run=pieces.bit_flips, small=range(2)),
        Campaign(name="model", goal="R8", unit="steps", target=100_000_000, run=pieces.model, small=range(160)),
        Campaign(name="simulation", goal="R9, R18", unit="seeds", target=1_000_000, run=pieces.simulation, small=range(30)),
        Campaign(name="application", goal="R9", unit="seeds", target=1_000_000, run=pieces.application, small=range(40)),
        Campaign(
            name="failovers",
            goal="R10",
            unit="failovers",
            target=10_000,
            run=pieces.failovers,
            small=range(1),
            bounds=(Bound("takeover after a kill", 99, 100), Bound("an application back, by IBM MQ's delays", 99, 1_500)),
        ),
        Campaign(
            name="drains",
            goal="R11",
            unit="drains",
            target=5_000,
            run=pieces.drains,
            small=range(1),
            bounds=(Bound("exit after SIGTERM", 99, 120),),
        ),
        Campaign(name="network", goal="R12", unit="calls", target=10_000, run=pieces.network, small=range(8)),
        Campaign(name="soak", goal="R13", unit="messages", target=10_000_000, run=pieces.soaks, small=range(1)),
        Campaign(name="parsers", goal="R14", unit="inputs", target=100_000_000, run=pieces.parsers, small=range(10)),
        Campaign(name="journals", goal="R7", unit="journals", target=100_000, run=pieces.journals, small=range(1)),
    )
}
