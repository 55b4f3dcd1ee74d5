"""Gets that wait. Source: IBM q096780, MQGMO_WAIT."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

import pytest

from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import WAIT_UNLIMITED, Got
from tests.conformance.programs import Program
from tests.conformance.under_test import UnderTest

WAIT = GetOption.WAIT | GetOption.NO_SYNCPOINT
LONG_MS = 30_000


class Beside:
    """Runs a get in another thread. When the test continues, the get may or may not wait already; no test depends on that."""

    def __init__(self, get: Callable[[], Got | None]) -> None:
        self._answers: SimpleQueue[Got | MQIError | None] = SimpleQueue()
        self._thread = Thread(target=self._run, args=(get,), daemon=True)
        self._thread.start()

    def _run(self, get: Callable[[], Got | None]) -> None:
        try:
            self._answers.put(get())
        except MQIError as error:
            self._answers.put(error)

    def answer(self) -> Got | MQIError | None:
        return self._answers.get(timeout=LONG_MS / 1000)


def reason_of(answer: Got | MQIError | None) -> int:
    assert isinstance(answer, MQIError)
    return answer.reason


@pytest.mark.parametrize("wait_ms", [0, 1])
def test_a_wait_that_runs_out_returns_none(queue: str, program: Program, wait_ms: int) -> None:
    """2033."""
    assert program.get(queue, WAIT, wait_ms=wait_ms) is None


def test_a_message_that_is_there_needs_no_wait(queue: str, program: Program) -> None:
    program.put(queue, b"1")

    assert b"1" == program.got(queue, WAIT, wait_ms=WAIT_UNLIMITED).body


@pytest.mark.parametrize("wait_ms", [LONG_MS, WAIT_UNLIMITED])
def test_a_message_that_arrives_ends_the_wait(queue: str, program: Program, other: Program, wait_ms: int) -> None:
    waiting = Beside(lambda: program.get(queue, WAIT, wait_ms=wait_ms))
    other.put(queue, b"1")

    answer = waiting.answer()
    assert isinstance(answer, Got)
    assert b"1" == answer.body


def test_a_commit_ends_the_wait(queue: str, program: Program, other: Program) -> None:
    waiting = Beside(lambda: program.get(queue, WAIT, wait_ms=LONG_MS))
    other.put_in_unit(queue, b"1")
    other.commit()

    assert isinstance(waiting.answer(), Got)


def test_a_backout_ends_the_wait(queue: str, program: Program, other: Program) -> None:
    other.put(queue, b"1")
    other.get_in_unit(queue)
    waiting = Beside(lambda: program.get(queue, WAIT, wait_ms=LONG_MS))
    other.backout()

    answer = waiting.answer()
    assert isinstance(answer, Got)
    assert 1 == answer.descriptor.backout_count


def test_only_a_message_that_matches_ends_the_wait(queue: str, program: Program, other: Program) -> None:
    wanted = b"w" * 24
    waiting = Beside(lambda: program.get(queue, WAIT, wait_ms=LONG_MS, correlation_id=wanted))
    other.put(queue, b"not this")
    other.put(queue, b"this", correlation_id=wanted)

    answer = waiting.answer()
    assert isinstance(answer, Got)
    assert b"this" == answer.body


def test_a_browse_can_wait(queue: str, program: Program, other: Program) -> None:
    handle = program.open(queue, OpenOption.BROWSE)
    waiting = Beside(lambda: program.get(handle, GetOption.WAIT | GetOption.BROWSE_NEXT, wait_ms=LONG_MS))
    other.put(queue, b"1")

    assert isinstance(waiting.answer(), Got)
    assert [b"1"] == other.seen(queue)


def test_inhibiting_gets_ends_the_wait(queue_manager: UnderTest, queue: str, program: Program) -> None:
    handle = program.open(queue)
    waiting = Beside(lambda: program.get(handle, WAIT, wait_ms=LONG_MS))
    queue_manager.administration.alter(queue, {"get_inhibited": True})

    assert Reason.GET_INHIBITED == reason_of(waiting.answer())


def test_inhibiting_gets_on_the_alias_ends_the_wait(queue_manager: UnderTest, queue: str, program: Program) -> None:
    queue_manager.define_alias("ALIAS", queue)
    handle = program.open("ALIAS")
    waiting = Beside(lambda: program.get(handle, WAIT, wait_ms=LONG_MS))
    queue_manager.administration.alter("ALIAS", {"get_inhibited": True})

    assert Reason.GET_INHIBITED == reason_of(waiting.answer())


def test_a_quiescing_queue_manager_ends_the_wait_of_a_get_that_wants_that(
    queue_manager: UnderTest, queue: str, program: Program
) -> None:
    handle = program.open(queue)
    waiting = Beside(lambda: program.get(handle, WAIT | GetOption.FAIL_IF_QUIESCING, wait_ms=LONG_MS))
    queue_manager.quiesce()

    assert Reason.Q_MGR_QUIESCING == reason_of(waiting.answer())


def test_a_stop_ends_every_wait(queue_manager: UnderTest, queue: str, program: Program) -> None:
    handle = program.open(queue)
    waiting = Beside(lambda: program.get(handle, WAIT, wait_ms=LONG_MS))
    queue_manager.stop()

    assert reason_of(waiting.answer()) in {Reason.Q_MGR_STOPPING, Reason.CONNECTION_BROKEN}


def test_every_message_goes_to_one_waiting_get(queue_manager: UnderTest, queue: str, other: Program) -> None:
    programs = [Program(queue_manager) for _ in range(4)]
    waiting = [Beside(lambda each=each: each.get(queue, WAIT, wait_ms=LONG_MS)) for each in programs]  # type: ignore[misc]  # the default binds it
    for number in range(4):
        other.put(queue, b"%d" % number)

    answers = [beside.answer() for beside in waiting]
    assert [b"0", b"1", b"2", b"3"] == sorted(answer.body for answer in answers if isinstance(answer, Got))
    assert 0 == queue_manager.depth(queue)
