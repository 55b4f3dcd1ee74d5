"""Runs of a whole application in virtual time, with faults drawn by a seed. Each message must end in exactly one place.

A run has no thread, and chance from the seed, so the same seed gives the same events.
"""

import random
from collections import Counter
from functools import partial
from typing import Final

import anyio
from msgspec.structs import asdict

from mqflow import App, Context, Message, Reject
from mqflow.app.handlers.listener_declaration import ListenerOptions
from mqflow.events import Decided, Delivered, Disposed, Event
from mqflow.mqi.reason_codes import Reason
from mqflow.testing.fault_runs import run_once
from mqflow.testing.faults import Fault, Moment
from mqflow.testing.kit import QueueManagerKit
from mqflow.testing.virtual_time import Backend
from tests.finding import FindingError, findings

__all__ = ("simulated",)

MESSAGES = 24
THRESHOLD = 4
CALLS_MAX = 20_000
"""The most calls of a run. Usually a run makes a few hundred calls, an outage included."""

#: Errors of a verb that leave the connection as it was; every call can also lose the connection.
REFUSALS = {
    "MQPUT": Reason.Q_FULL,
    "MQGET": Reason.GET_INHIBITED,
    "MQOPEN": Reason.OBJECT_IN_USE,
    "MQINQ": Reason.OBJECT_CHANGED,
    "MQBACK": Reason.UNEXPECTED_ERROR,
}
VERBS = ("MQCMIT", "MQCMIT", "MQBACK", "MQCLOSE", "", "MQPUT", "MQGET", "MQOPEN", "MQINQ")
BROKEN = (Reason.CONNECTION_BROKEN, Reason.CONNECTION_BROKEN, Reason.CALL_INTERRUPTED)


#: The listener of a run, by its seed.
LISTENERS = (
    ListenerOptions(concurrency=2, unit_of_work=3),
    ListenerOptions(concurrency=3),
    ListenerOptions(strict_order=True),
    ListenerOptions(concurrency=2, time_limit_s=0.7),
    ListenerOptions(),
)


class Life:
    """One run of the application, and how often it handled each message."""

    def __init__(self, seed: int, *, calm: bool = False, error: type[Exception] = ValueError) -> None:
        self.dice: Final = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self.options: Final = LISTENERS[seed % len(LISTENERS)]
        #: Whether nothing breaks in this run. If so, no handling takes longer than its time limit either.
        self.calm: Final = calm
        #: The exception of each message whose number is divisible by three.
        self.error: Final = error
        self.handled: Final = Counter[int]()


def application(life: Life) -> App:
    app, dice = App("embedded::memory:", name="simulated"), life.dice

    @app.listener("IN", **asdict(life.options))
    async def move(body: str, message: Message, ctx: Context) -> None:
        number = int(body)
        life.handled[number] += 1
        await anyio.sleep(dice.random() / (2 if life.calm else 1))
        if is_bad(number):
            raise life.error("always")
        await ctx.put("OUT", body)
        if number % 5 == 0 and message.backout_count == 0:
            raise ValueError("once, after its put")

    return app


def fault(dice: random.Random) -> Fault:
    verb = dice.choice(VERBS)
    reason = dice.choice((*BROKEN, REFUSALS.get(verb, Reason.CONNECTION_BROKEN)))
    return Fault(
        verb=verb, nth=dice.randrange(1, 40), times=dice.choice((1, 1, 1, 4)), reason=reason,
        moment=dice.choice(tuple(Moment)) if reason in BROKEN else Moment.BEFORE, delay_s=dice.choice((0.0, 0.0, 0.5)),
    )  # fmt: skip


async def simulate(kit: QueueManagerKit, life: Life) -> None:
    dice = life.dice
    kit.mqsc(f"DEFINE QLOCAL(IN) DEFPSIST(YES) BOTHRESH({THRESHOLD}) BOQNAME(BAD)", "DEFINE QLOCAL(OUT)", "DEFINE QLOCAL(BAD)")
    async with kit.run(application(life)):
        kit.faults.add(*(fault(dice) for _ in range(0 if life.calm else dice.randrange(8))))
        for number in range(1, MESSAGES + 1):
            await kit.put("IN", str(number))
            await anyio.sleep(dice.random() / 4)
            if dice.random() < 0.05 and not life.calm:
                with kit.faults.outage():
                    await anyio.sleep(dice.random() * 30)
        with anyio.move_on_after(3_600):
            while kit.depth("IN"):
                await anyio.sleep(1)
                if len(kit.faults.calls) >= CALLS_MAX:
                    raise FindingError("I8: it spins")
        if kit.depth("IN"):
            raise FindingError("I8: messages were left for an hour")
        kit.faults.clear()
    check(kit, life)


def is_bad(number: int) -> bool:
    """Return whether the handler always fails with this message."""
    return number % 3 == 0


@findings()
def check(kit: QueueManagerKit, life: Life) -> None:
    """Check that each message is in one place (I1 to I5), and how often it was handled.

    After faults, a message was handled at most as often as its count says. Its count is at most the number of deliveries that
    the queue manager counts. A delivery that was lost with a connection counts too, so a count can be above the threshold.
    """
    moved = [int(found.text()) for found in kit.browse("OUT")]
    bad = kit.browse("BAD")
    assert sorted([*moved, *(int(found.text()) for found in bad)]) == list(range(1, MESSAGES + 1))
    assert not [number for number in moved if is_bad(number)]
    assert not [found.descriptor.backout_count for found in bad if found.descriptor.backout_count], "I6: not 0 at requeue"
    handled = {number: life.handled[number] for number in range(1, MESSAGES + 1) if is_bad(number)}
    counts = {int(found.text()): found.why.count for found in bad}
    attempts = 1 if life.error is Reject else THRESHOLD
    decided = {event.message_id: event.backout_count for event in kit.told(Decided)}
    assert [decided[found.message_id] for found in bad] == [found.why.count for found in bad], "a count is not its decision's"
    if life.calm:
        assert dict.fromkeys(handled, attempts) == handled == counts
        assert [attempts] * len(handled) == [event.backout_count for event in kit.told(Disposed)]
        if life.options.unit_of_work == 1:  # otherwise, a message is handled again if another message of its unit failed
            good = {number: life.handled[number] for number in moved}
            assert {number: 1 + (number % 5 == 0) for number in moved} == good
        return
    deliveries = {event.message_id: event.backout_count + 1 for event in kit.told(Delivered)}
    assert all(found.why.count <= deliveries[found.message_id] for found in bad), f"I6: counts above the deliveries: {counts}"
    for number, times in handled.items():
        assert times <= THRESHOLD, f"I5: {number} was handled {times} times, beyond the threshold"
        assert max(times, attempts) <= counts[number], (
            f"I5: {number} was handled {times} times, and its count is {counts[number]}"
        )


def simulated(seed: int, backend: Backend, *, calm: bool = False, error: type[Exception] = ValueError) -> list[Event]:
    """Return the events of the run. Raises `FindingError` if an invariant does not hold."""
    kit = QueueManagerKit(seed=seed)
    try:
        run_once(kit, partial(simulate, kit, Life(seed, calm=calm, error=error)), backend, seed)
    except BaseException as wrong:
        wrong.add_note(f"simulated({seed}, {backend!r}, {calm=}, error={error.__name__})")
        raise
    finally:
        kit.close()
    return kit.events
