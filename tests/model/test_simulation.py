"""A whole application under faults drawn by a seed: after every fault, each message ends in exactly one place.

The run has virtual time, no thread, and chance from the seed, so the same seed gives the same events. For more seeds, set
MQFLOW_SIMULATIONS=10000.
"""

import os
import random
from collections.abc import Callable, Iterable
from functools import partial

import anyio
import pytest
from msgspec.structs import asdict

from mqflow import App, Context, Message
from mqflow.app.handlers import outgoing
from mqflow.app.handlers.listener_declaration import ListenerOptions
from mqflow.events import Disposed, Event, InDoubt, ListenerPaused, Reconnected
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Settlement
from mqflow.runtime.connection import inline_session
from mqflow.runtime.connection.inline_session import InlineSession
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.listener import move_poison
from mqflow.testing.fault_runs import run_once
from mqflow.testing.faults import Fault, Moment
from mqflow.testing.kit import QueueManagerKit
from mqflow.testing.virtual_time import Backend

SEEDS = int(os.environ.get("MQFLOW_SIMULATIONS", "40"))
MESSAGES = 24
THRESHOLD = 4
CALLS_MAX = 20_000
"""The most calls of a run. Usually a run makes a few hundred calls, an outage included."""

A_SECOND_OUTAGE = 161
"""The seed of a run in which an outage began while a worker was returning from another."""

#: Errors of a verb that leave the connection as it was; every call can also lose the connection.
REFUSALS = {
    "MQPUT": Reason.Q_FULL,
    "MQGET": Reason.GET_INHIBITED,
    "MQOPEN": Reason.OBJECT_IN_USE,
    "MQINQ": Reason.OBJECT_CHANGED,
}
VERBS = ("MQCMIT", "MQCMIT", "MQBACK", "MQCLOSE", "", *REFUSALS)
BROKEN = (Reason.CONNECTION_BROKEN, Reason.CONNECTION_BROKEN, Reason.CALL_INTERRUPTED)


#: The listener of a run, by its seed.
LISTENERS = (
    ListenerOptions(concurrency=2, unit_of_work=3),
    ListenerOptions(concurrency=3),
    ListenerOptions(strict_order=True),
    ListenerOptions(concurrency=2, time_limit_s=0.7),
    ListenerOptions(),
)


def application(dice: random.Random, options: ListenerOptions) -> App:
    app = App("embedded::memory:", name="simulated")

    @app.listener("IN", **asdict(options))
    async def move(body: str, message: Message, ctx: Context) -> None:
        number = int(body)
        await anyio.sleep(dice.random())
        if number % 3 == 0:
            raise ValueError("always")
        await ctx.put("OUT", body)
        if number % 5 == 0 and message.backout_count == 0:
            raise ValueError("once, after its put")

    return app


def fault(dice: random.Random) -> Fault:
    verb = dice.choice(VERBS)
    reason = dice.choice((*BROKEN, REFUSALS.get(verb, Reason.CONNECTION_BROKEN)))
    return Fault(
        verb=verb,
        nth=dice.randrange(1, 40),
        times=dice.choice((1, 1, 1, 4)),
        reason=reason,
        moment=dice.choice(tuple(Moment)) if reason in BROKEN else Moment.BEFORE,
        delay_s=dice.choice((0.0, 0.0, 0.5)),
    )


async def simulate(kit: QueueManagerKit, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - repeatable, not secret
    kit.mqsc(f"DEFINE QLOCAL(IN) DEFPSIST(YES) BOTHRESH({THRESHOLD}) BOQNAME(BAD)", "DEFINE QLOCAL(OUT)", "DEFINE QLOCAL(BAD)")
    async with kit.run(application(dice, LISTENERS[seed % len(LISTENERS)])):
        kit.faults.add(*(fault(dice) for _ in range(dice.randrange(8))))
        for number in range(1, MESSAGES + 1):
            await kit.put("IN", str(number))
            await anyio.sleep(dice.random() / 4)
            if dice.random() < 0.05:
                with kit.faults.outage():
                    await anyio.sleep(dice.random() * 30)
        with anyio.fail_after(3_600):
            while kit.depth("IN"):
                await anyio.sleep(1)
                assert len(kit.faults.calls) < CALLS_MAX, "it spins"
        kit.faults.clear()
    check(kit)


def check(kit: QueueManagerKit) -> None:
    moved = [int(found.text()) for found in kit.browse("OUT")]
    bad = kit.browse("BAD")
    assert sorted([*moved, *(int(found.text()) for found in bad)]) == list(range(1, MESSAGES + 1))
    assert not [number for number in moved if number % 3 == 0]
    assert all(found.why.count >= THRESHOLD for found in bad)


def simulated(seed: int, backend: Backend) -> list[Event]:
    """Return the events of the run."""
    kit = QueueManagerKit(seed=seed)
    try:
        run_once(kit, partial(simulate, kit, seed), backend, seed)
    except BaseException as error:
        error.add_note(f"simulated({seed}, {backend!r})")
        raise
    finally:
        kit.close()
    return kit.events


both = pytest.mark.parametrize("backend", ["asyncio", "trio"])


@both
@pytest.mark.timeout(0 if SEEDS > 1_000 else 120)
def test_every_message_ends_in_exactly_one_place_whatever_breaks(backend: Backend) -> None:
    happened = [event for seed in range(SEEDS) for event in simulated(seed, backend)]

    for kind in (Reconnected, InDoubt, Disposed, ListenerPaused):
        assert any(isinstance(event, kind) for event in happened), (
            f"no {kind.__name__} in {SEEDS} runs: too tame to prove anything"
        )


@both
def test_the_same_seed_is_the_same_run(backend: Backend) -> None:
    assert simulated(3, backend) == simulated(3, backend)


@both
@pytest.mark.parametrize("seed", [A_SECOND_OUTAGE])
def test_what_was_found_before_is_not_found_again(seed: int, backend: Backend) -> None:
    assert simulated(seed, backend)


def puts_are_outside_the_unit_of_work(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(outgoing, "_PUT", PutOption.NO_SYNCPOINT)


def moves_are_outside_the_unit_of_work(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(move_poison, "_MOVE", PutOption.NO_SYNCPOINT | PutOption.PASS_ALL_CONTEXT)


def what_failed_is_committed(patch: pytest.MonkeyPatch) -> None:
    real = InlineSession.settle

    async def settle(self: InlineSession, settlement: Settlement) -> None:
        await real(self, Settlement.COMMIT)

    patch.setattr(InlineSession, "settle", settle)


def a_session_is_left_without_a_backout(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(inline_session, "disconnect_without_commit", lambda connection: connection.disconnect())


def an_outage_is_one_only_for_who_was_connected(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Supervisor, "_was_reached", property(lambda _: False))


FEW = range(SEEDS)
DEFECTS = (
    (puts_are_outside_the_unit_of_work, FEW),
    (moves_are_outside_the_unit_of_work, FEW),
    (what_failed_is_committed, FEW),
    (a_session_is_left_without_a_backout, FEW),
    (an_outage_is_one_only_for_who_was_connected, FEW),
)


@pytest.mark.parametrize(("defect", "seeds"), DEFECTS, ids=[defect.__name__ for defect, _ in DEFECTS])
def test_a_planted_defect_is_found(
    defect: Callable[[pytest.MonkeyPatch], None], seeds: Iterable[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)

    with pytest.raises((AssertionError, TimeoutError, MQIError, ExceptionGroup)):
        [simulated(seed, "asyncio") for seed in seeds]
