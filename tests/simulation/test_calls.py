"""Every call of the MQI, at every moment of its frames, against every kind of loss: the call raises the right error, and soon.

A call notices the loss within 5 s in every case, with the right reason, and no handle is left. After the reconnect each call
is either made again, or backed out, or in doubt; never repeated silently.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import Struct
from msgspec.structs import replace

from mqflow.embedded.wire.client.connection import ServedConnection
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.reconnect.reason_classes import Class, classify, leaves_in_doubt
from mqflow.verbs import Got
from tests.embedded.disk_faults.disk import memory_folder
from tests.embedded.network.calls_under_way import PERSISTENT, QUEUE, UNIT, USE, VERBS
from tests.queue_contents import browsed, put
from tests.simulation.defects import DEFECTS
from tests.simulation.hosts import QUEUE_MANAGER
from tests.simulation.stage import Stage
from tests.simulation.wire import Act, Fate, Passing, Where
from tests.simulation.world import Process, Seeded

NOTICED_S: Final = 5.0
CONNECT: Final = "MQCONNX"
WAIT: Final = "MQGET that waits"
EMPTY: Final = "EMPTY"
DEFINITIONS: Final = (f"DEFINE QLOCAL({QUEUE}) DEFPSIST(YES)", f"DEFINE QLOCAL({EMPTY}) DEFPSIST(YES)")


class Becomes(Enum):
    """The result of a call without an answer; the open unit of work is always backed out, or in the reported state."""

    ASKED_AGAIN = "it may be made again on the next connection: nothing of it is left"
    BACKED_OUT = "it was part of a unit of work, which is backed out with the connection"
    IN_DOUBT = "it may have taken effect permanently, and is never made again by itself"


class Row(Struct, frozen=True):
    """The facts about a call that got no answer."""

    becomes: Becomes
    source: str
    #: Whether the message that the unit of work held is gone if the call took effect.
    ends_unit: bool = False
    #: Whether the call, if it took effect, has put a message permanently.
    puts: bool = False
    #: Whether the call, if it took effect, got the same message again, which the loss then backs out again.
    gets_it_again: bool = False

    @property
    def reason(self) -> Reason:
        """The reason of the error that the call raises."""
        return Reason.CALL_INTERRUPTED if self.becomes is Becomes.IN_DOUBT else Reason.CONNECTION_BROKEN


_ASKED_AGAIN: Final = "architecture, one reconnect: the session is lost, the object opened and the call made again"
_BACKED_OUT: Final = "rc2009 of a call in a unit of work: the queue manager backs it out"
_DOUBT: Final = "rc2549: the call may have completed; IBM MQ says so of MQCMIT, and of an MQPUT outside syncpoint"
_DISC: Final = "q101800: MQDISC commits, so its outcome is a commit's"

ROWS: Final = {
    CONNECT: Row(Becomes.ASKED_AGAIN, _ASKED_AGAIN), "MQOPEN": Row(Becomes.ASKED_AGAIN, _ASKED_AGAIN),
    "MQCLOSE": Row(Becomes.ASKED_AGAIN, _ASKED_AGAIN), "MQINQ": Row(Becomes.ASKED_AGAIN, _ASKED_AGAIN),
    "MQSET": Row(Becomes.ASKED_AGAIN, _ASKED_AGAIN), "MQSUB": Row(Becomes.ASKED_AGAIN, _ASKED_AGAIN),
    "MQGET": Row(Becomes.BACKED_OUT, _BACKED_OUT), WAIT: Row(Becomes.BACKED_OUT, _BACKED_OUT),
    "get several": Row(Becomes.BACKED_OUT, _BACKED_OUT), "MQPUT in a unit of work": Row(Becomes.BACKED_OUT, _BACKED_OUT),
    "MQBACK": Row(Becomes.BACKED_OUT, _BACKED_OUT),
    "back out, then get": Row(Becomes.BACKED_OUT, _BACKED_OUT, gets_it_again=True),
    "MQPUT outside": Row(Becomes.IN_DOUBT, _DOUBT, puts=True), "MQPUT1 outside": Row(Becomes.IN_DOUBT, _DOUBT, puts=True),
    "MQCMIT": Row(Becomes.IN_DOUBT, _DOUBT, ends_unit=True), "commit, then get": Row(Becomes.IN_DOUBT, _DOUBT, ends_unit=True),
    "MQDISC": Row(Becomes.IN_DOUBT, _DISC, ends_unit=True),
}  # fmt: skip

ACTS: Final = (Act.CUT, Act.BLACKHOLE, Act.KILL, Act.STOP)
MOMENTS: Final = tuple(product((True, False), Where))
"""The frame of the request or of the reply: before it, inside it, after it."""


class Outcome(Struct, frozen=True):
    """The outcome of one call."""

    reason: int
    took_s: float
    #: Whether the message of the unit of work is on the queue, and its backouts since.
    held_is_there: bool
    backed_out: int
    #: The number of other messages.
    more: int
    left: int


class _Silent:
    """Ignores the disk."""

    def written(self, changes: object) -> None: ...

    def visible(self, changes: object) -> None: ...

    def delivered(self, serial: int, backout_count: int) -> None: ...

    def given_back(self, serial: int) -> None: ...


class _Strike:
    """Applies the fault to one frame of one process."""

    def __init__(self, process: Process, nth: int, fate: Fate, *, of_request: bool) -> None:
        self._process = process
        self._left = nth
        self._fate = fate
        self._of_request = of_request

    def __call__(self, passing: Passing) -> Fate | None:
        stream = passing.stream if passing.is_request else passing.stream.peer
        if stream.process is not self._process or passing.is_request is not self._of_request:
            return None
        self._left -= 1
        return self._fate if not self._left else None


def _look(stage: Stage, queue: str = QUEUE) -> dict[bytes, int]:
    """Return the messages on the queue, by identifier, and the backouts of each."""
    active = stage.active
    assert active is not None
    assert active.queue_manager is not None
    return {got.descriptor.message_id: got.descriptor.backout_count for got in browsed(active.queue_manager, queue)}


def _put(stage: Stage, queue: str, count: int) -> None:
    active = stage.active
    assert active is not None
    assert active.queue_manager is not None
    manager = active.queue_manager
    process = active.process

    process.start(partial(put, manager, queue, *[b"an order"] * count, descriptor=PERSISTENT), "putter").join()


def _call(stage: Stage, verb: str, act: Act, where: Where, *, of_request: bool) -> Outcome:
    """Make the call, apply the fault to its frame, repair everything, and return the outcome."""
    active = stage.active
    assert active is not None
    process = Process(stage.world, f"{verb} {act.name} {where.name}")
    stage.world.note(process.name)
    manager = ServedQueueManager(
        active.address, name=QUEUE_MANAGER, user="sim", world=process.outside, dial=stage.network.dial_from(process)
    )
    if verb == WAIT and not of_request:  # there is an answer only if a message comes
        _put(stage, EMPTY, 1)
    before = _look(stage)
    answers: list[tuple[int, float]] = []
    held: list[Got] = []

    def strike() -> None:
        fate = Fate(act, where)
        stage.network.judge = _Strike(process, 2 if verb == WAIT else 1, fate, of_request=of_request)

    def ask() -> None:
        call = _connects(manager, strike) if verb == CONNECT else _holding(manager, verb, held, strike)
        began = stage.world.now
        reason = 0
        try:
            call()
        except MQIError as error:
            reason = int(error.reason)
        answers.append((reason, stage.world.now - began))

    process.start(ask, "the call").join()
    manager.close()
    stage.network.judge = lambda _: None
    stage.world.sleep(0.1)
    stage.repair()
    stage.world.turn(stage.world.now + 10.0, lambda: stage.active is not None and not stage.active.process.stopped)
    stage.world.sleep(6.0)
    [(reason, took_s)] = answers
    after = _look(stage)
    identifier = held[0].descriptor.message_id if held else b""
    return Outcome(
        reason=reason,
        took_s=took_s,
        held_is_there=identifier in after,
        backed_out=after.get(identifier, 0) - before.get(identifier, 0),
        more=len(after.keys() - {identifier}) - len(before.keys() - {identifier}),
        left=_left(stage),
    )


def _connects(manager: ServedQueueManager, strike: Callable[[], None]) -> Callable[[], object]:
    strike()
    return manager.connect


def _holding(manager: ServedQueueManager, verb: str, held: list[Got], strike: Callable[[], None]) -> Callable[[], object]:
    """Return a function that makes the call on a connection with a message in its unit of work."""
    connection: ServedConnection = manager.connect()
    handle = connection.open(QUEUE, USE)
    got = connection.get(handle, UNIT)
    assert got is not None
    held.append(got)
    act: Callable[[ServedConnection, Any], object] = VERBS[verb][0]
    strike()
    return lambda: act(connection, handle)


def _left(stage: Stage) -> int:
    """Return the number of connections that no program uses any more."""
    active = stage.active
    assert active is not None
    assert active.server is not None
    assert active.queue_manager is not None
    return active.server.connection_count + len(active.queue_manager._state.connections)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with memory_folder() as root:
        made = Stage(Seeded(7), Path(root), DEFINITIONS, _Silent())
        _put(made, QUEUE, 40)
        yield made
        made.close()


def _wrong(row: Row, outcome: Outcome, act: Act, where: Where, *, of_request: bool) -> list[str]:
    """Return the differences from the table."""
    races = of_request and where is Where.AFTER and act in {Act.KILL, Act.STOP}  # the server may answer before it dies
    answered = outcome.reason == 0 if races else not of_request and where is Where.AFTER
    never = of_request and where is not Where.AFTER
    certain = never or answered or not of_request
    wrong = []
    if outcome.reason != (0 if answered else int(row.reason)):
        wrong.append(f"its reason is {outcome.reason}, not {0 if answered else int(row.reason)}")
    if outcome.took_s > NOTICED_S:
        wrong.append(f"it took {outcome.took_s:.1f} s")
    if outcome.left:
        wrong.append(f"{outcome.left} connections are left")
    took_effect = (row.ends_unit and not outcome.held_is_there) or (row.puts and outcome.more == 1)
    if certain and (row.ends_unit or row.puts) and took_effect is never:
        wrong.append(f"it {'took' if took_effect else 'did not take'} effect")
    if outcome.more != (1 if row.puts and took_effect else 0):
        wrong.append(f"{outcome.more} more messages are there")
    if not row.ends_unit and not outcome.held_is_there:
        wrong.append("what its unit of work held is gone")
    backed_out = {1, 2} if row.gets_it_again and not never else {1}
    if outcome.held_is_there and outcome.backed_out not in backed_out:
        wrong.append(f"what its unit of work held was backed out {outcome.backed_out} times")
    return wrong


@pytest.mark.timeout(300)
@pytest.mark.parametrize("act", ACTS, ids=[each.name.lower() for each in ACTS])
def test_every_call_at_every_moment_gets_a_true_answer(stage: Stage, act: Act) -> None:
    wrong = []
    for (verb, row), (of_request, where) in product(ROWS.items(), MOMENTS):
        outcome = _call(stage, verb, act, where, of_request=of_request)
        if verb == CONNECT:
            outcome = replace(outcome, held_is_there=True, backed_out=1)  # the unit holds no message
        found = _wrong(row, outcome, act, where, of_request=of_request)
        wrong += [f"{verb}, {act.name}, {where.value} ({'request' if of_request else 'reply'}): {each}" for each in found]

    assert wrong == []


def test_the_table_has_every_call() -> None:
    assert set(ROWS) == {CONNECT, *VERBS}


@pytest.mark.parametrize("verb", ROWS)
def test_the_runtime_reacts_to_each_error_as_the_table_says(verb: str) -> None:
    """Each of these errors ends the session and begins an outage; the error of a commit is reported as in doubt."""
    row = ROWS[verb]
    error = error_for(row.reason, "MQCMIT" if row.ends_unit else verb)

    assert classify(int(error.reason)) is Class.RECONNECT
    assert leaves_in_doubt(error) is (row.becomes is Becomes.IN_DOUBT and row.ends_unit)


def test_the_table_finds_a_doubt_that_is_called_a_refusal(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    DEFECTS["a_doubt_is_called_a_refusal"](monkeypatch)
    outcome = _call(stage, "MQCMIT", Act.CUT, Where.BEFORE, of_request=False)

    assert _wrong(ROWS["MQCMIT"], outcome, Act.CUT, Where.BEFORE, of_request=False) == ["its reason is 2009, not 2549"]


def test_the_table_finds_a_silence_that_is_too_long(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    patient = dict(ServedQueueManager.__init__.__kwdefaults__ or {}, silence_s=60.0)
    monkeypatch.setattr(ServedQueueManager.__init__, "__kwdefaults__", patient)
    outcome = _call(stage, "MQINQ", Act.BLACKHOLE, Where.BEFORE, of_request=True)

    assert "it took" in _wrong(ROWS["MQINQ"], outcome, Act.BLACKHOLE, Where.BEFORE, of_request=True)[0]
