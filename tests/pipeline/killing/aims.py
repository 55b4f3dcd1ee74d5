"""Plans the end of each life of the campaign: the points at which processes are killed, or a random time.

Pure: the same seed gives the same plans. `gates` holds the processes at their points, and the campaign kills them.
"""

import random
from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from tests.pipeline.killing.names import CONTROLS, DESIGNS, LANDERS

__all__ = ("AIMS", "BEFORE_DRAIN", "CHANCES", "IN_A_TASK", "LANDINGS", "Plan", "plans")

BEFORE_DRAIN = "before:mqflow spark drain"
"""Before the drain commits: the kill cuts its unit of work off, which raises BackoutCount."""
QUERIES: dict[str, dict[str, str]] = {
    "after the sink, before the commit log": {each: f"before:/{each}/checkpoint/commits/" for each in (*DESIGNS, *CONTROLS)},
    "in a batch, so that the log is all there is": {
        each: f"after:/{each}/checkpoint/offsets/" for each in (*DESIGNS, *CONTROLS)
    },
    "when the sink has committed, and nobody knows": {
        "journal": "after:/journal/table/_spark_metadata/",
        "delta": "after:/delta/delta/_delta_log/",
        "drain": "after:mqflow spark drain",
        "sink": "after:mqflow sink",
    },
    "just before the sink commits": {
        "journal": "before:/journal/table/_spark_metadata/",
        "delta": "before:/delta/delta/_delta_log/",
        "drain": "before:/drain/manifest/",
        "sink": "before:mqflow sink",
    },
    "in the midst of a unit of work": {
        "journal": "after:/journal/table/_spark_metadata/",
        "delta": "before:/delta/checkpoint/commits/",
        "drain": BEFORE_DRAIN,
        "sink": "before:/sink/checkpoint/commits/",
    },
}
"""The place of a kill that hurts a driver, for each design.

Without a slash the place is a commit at the queue manager, by the name of the application.
"""
LANDINGS: dict[str, dict[str, str]] = {
    "the lander, in the midst of writing a segment": {"lander": "within:/lanes/IN/"},
    "the lander, before its commit": {each: f"before:{each}" for each in LANDERS},
    "the lander, between its commit and publishing": {"lander": "after:lander"},
}
"""The place of a kill that hurts a lander."""
REDRIVINGS: dict[str, dict[str, str]] = {
    f"mqflow spark redrive, {when} a commit": {"redrive": f"{when}:mqflow"} for when in ("before", "after")
}
"""The place of a kill that hurts a redrive."""
FORGETTING: dict[str, dict[str, str]] = {"a redrive that forgets how far it was, after a commit": {"forgetful": "after:mqflow"}}
"""The control's life: one is enough."""
IN_A_TASK = "workers, in the midst of their tasks"
TASKS: dict[str, dict[str, str]] = {IN_A_TASK: {f"{each}": "task" for each in DESIGNS}}
AIMS = QUERIES | LANDINGS | REDRIVINGS | TASKS
"""By where it hurts."""
CHANCES = ("all", "jvm", "worker")
"""Whom chance kills."""


class Plan(Struct, frozen=True, kw_only=True):
    """The end of one life."""

    name: str
    #: The aimed points, by design; empty for a random death.
    gates: dict[str, str] = field(default_factory=dict[str, str])
    #: How often each gate lets a process pass.
    skip: int = 0
    whom: str = "all"
    #: A random death: after this many batches, and this time.
    batches: int = 0
    seconds: float = 0.0


def plans(rounds: int, designs: Sequence[str], seed: int) -> Iterator[Plan]:
    """Yield the end of each life: every aim for these designs in turn, and a random death after each."""
    chance = random.Random(seed)  # noqa: S311 - the same deaths for the same seed
    aimed = list(_concerning(AIMS, designs))
    for number in range(rounds):
        if number % 2:
            whom = CHANCES[number // 2 % len(CHANCES)]
            yield Plan(name=f"chance: {whom}", whom=whom, batches=chance.randint(0, 12), seconds=chance.uniform(0.0, 1.0))
        else:
            name, gates = aimed[number // 2 % len(aimed)]
            # A lander's first commit claims its lane, and there is no segment yet.
            yield Plan(name=name, gates=gates, skip=chance.randint(0, 2) + (name in LANDINGS))
    for name, gates in _concerning(FORGETTING, designs):
        yield Plan(name=name, gates=gates, skip=1)


def _concerning(aims: dict[str, dict[str, str]], designs: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    for name, gates in aims.items():
        mine = {design: gate for design, gate in gates.items() if design in designs}
        if mine:
            yield name, mine
