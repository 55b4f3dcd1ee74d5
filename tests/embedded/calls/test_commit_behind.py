"""A connection begins its next unit of work while the store writes the last one. The two units end apart."""

from collections.abc import Iterator

import pytest

from mqflow.embedded.storage.store import BackoutCounted, MessageRemoved
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from tests.embedded.calls.test_settle import OTHER, Rig
from tests.embedded.storage.scripted_store import FULL, UNKNOWN


@pytest.fixture
def rig() -> Iterator[Rig]:
    """Two persistent messages are on the queue, and the store holds its answers back."""
    made = Rig()
    made.put_committed(b"1")
    made.put_committed(b"2")
    made.store.holds = True
    yield made
    made.store.holds = False
    while made.store.unanswered:
        made.store.answer()
    made.queue_manager.close()


def begin_behind(rig: Rig) -> bool:
    return rig.connection.begin_commit(rig.answers.append, behind=True)


def body_got(rig: Rig) -> bytes | None:
    got = rig.get()
    return None if got is None else got.body


def test_the_next_message_is_got_while_the_store_writes(rig: Rig) -> None:
    assert b"1" == body_got(rig)
    assert not begin_behind(rig)

    assert b"2" == body_got(rig)
    assert [] == rig.answers
    assert 2 == rig.depth()


def test_units_are_written_in_order_and_answered_apart(rig: Rig) -> None:
    for _ in range(2):
        rig.get()
        begin_behind(rig)

    assert [["MessageRemoved"], ["MessageRemoved"]] == rig.store.calls[-2:]
    serials = [change.serial for change in rig.store.written if isinstance(change, MessageRemoved)]
    assert sorted(serials) == serials
    rig.store.answer()
    assert [0] == rig.reasons()
    assert 1 == rig.depth()
    rig.store.answer()
    assert [0, 0] == rig.reasons()
    assert 0 == rig.depth()


def test_a_backout_of_the_open_unit_leaves_the_unit_that_the_store_writes(rig: Rig) -> None:
    rig.get()
    begin_behind(rig)
    rig.get()

    rig.connection.backout()
    rig.store.answer()

    assert [0] == rig.reasons()
    assert b"2" == body_got(rig)
    assert None is body_got(rig)


def test_a_refused_unit_comes_back_and_the_open_unit_stays(rig: Rig) -> None:
    rig.get()
    begin_behind(rig)
    assert b"2" == body_got(rig)

    rig.store.answer(FULL)

    assert [Reason.BACKED_OUT] == rig.reasons()
    assert [1] == [change.backout_count for change in rig.store.written if isinstance(change, BackoutCounted)]
    assert b"1" == body_got(rig)
    assert 2 == rig.depth()


def test_the_end_of_the_connection_backs_out_the_open_unit_alone(rig: Rig) -> None:
    rig.get()
    begin_behind(rig)
    rig.get()

    rig.connection.abandon()
    rig.store.answer()

    assert [0] == rig.reasons()
    assert 1 == rig.depth()
    seen = rig.seen_by_other()
    assert seen is not None
    assert (b"2", 1) == (seen.body, seen.descriptor.backout_count)


def test_after_an_unknown_outcome_no_later_unit_is_committed(rig: Rig) -> None:
    rig.get()
    begin_behind(rig)
    rig.get()

    rig.store.answer(UNKNOWN)

    assert [Reason.CALL_INTERRUPTED] == rig.reasons()
    with pytest.raises(MQIError):
        begin_behind(rig)


def test_a_unit_with_a_put_does_more_than_remove(rig: Rig) -> None:
    rig.get()
    assert rig.connection.only_removes

    rig.put(descriptor=OTHER)

    assert not rig.connection.only_removes
