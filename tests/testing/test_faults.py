"""Faults behind the seam: the failing call, the moment, and the reaction of the queue manager to a lost client."""

from collections.abc import Callable
from typing import Any

import pytest

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import CallInterruptedError, ConnectionBrokenError, MQIError, PutInhibitedError
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.testing.faults import FOREVER, Fault, Faults, Moment
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import Connection, GetOptions, InlineConnection, InlineQueueManager
from tests.doubles import Blocking

IN_OUT = OpenOption.INPUT_SHARED | OpenOption.OUTPUT
GET = GetOptions(options=GetOption.SYNCPOINT)
A_MESSAGE = MessageDescriptor()


def connect(mq: QueueManagerKit, *plan: Fault) -> Connection:
    mq.define("Q")
    mq.faults.add(*plan)
    return mq.faults.wrap(mq.queue_manager).connect()


def inline(connection: Connection) -> InlineConnection:
    assert isinstance(connection, InlineConnection)
    return connection


def test_without_faults_every_verb_works_as_usual(mq: QueueManagerKit) -> None:
    connection = connect(mq)

    handle = connection.open("Q", IN_OUT)
    connection.put(handle, A_MESSAGE, b"one", PutOption.SYNCPOINT)
    connection.put1("Q", A_MESSAGE, b"two", PutOption.SYNCPOINT)
    connection.commit()
    got = connection.get(handle, GET)
    connection.backout()
    connection.close(handle)
    connection.disconnect()

    assert got is not None
    assert got.body == b"one"
    assert mq.depth("Q") == 2


def test_every_call_is_on_record(mq: QueueManagerKit) -> None:
    connection = connect(mq)

    handle = connection.open("Q", OpenOption.OUTPUT | OpenOption.INQUIRE | OpenOption.SET)
    connection.inquire(handle, (3,))
    connection.set(handle, {10: 0})
    connection.disconnect()

    assert ["MQCONNX", "MQOPEN", "MQINQ", "MQSET", "MQDISC"] == [call.verb for call in mq.faults.calls]
    assert str(mq.faults.calls[1]) == "call 2: MQOPEN on Q, connection 1"


def test_the_nth_call_of_a_verb_fails_with_the_reason_planned(mq: QueueManagerKit) -> None:
    connection = connect(mq, Fault(verb="MQPUT", nth=2, reason=Reason.PUT_INHIBITED))
    handle = connection.open("Q", IN_OUT)

    connection.put(handle, A_MESSAGE, b"", PutOption.NO_SYNCPOINT)
    with pytest.raises(PutInhibitedError, match=r"MQPUT on Q \(QM1\) failed: MQRC_PUT_INHIBITED \(2051\)\. A planned fault"):
        connection.put(handle, A_MESSAGE, b"", PutOption.NO_SYNCPOINT)
    connection.put(handle, A_MESSAGE, b"", PutOption.NO_SYNCPOINT)

    assert mq.depth("Q") == 2


def test_a_fault_may_strike_several_times_and_one_object_only(mq: QueueManagerKit) -> None:
    connection = connect(mq, Fault(verb="MQPUT1", object_name="Q", times=2, reason=Reason.Q_FULL))
    mq.define("OTHER")

    for _ in range(2):
        connection.put1("OTHER", A_MESSAGE, b"", PutOption.NO_SYNCPOINT)
        with pytest.raises(MQIError, match="2053"):
            connection.put1("Q", A_MESSAGE, b"", PutOption.NO_SYNCPOINT)
    connection.put1("Q", A_MESSAGE, b"", PutOption.NO_SYNCPOINT)

    assert (2, 1) == (mq.depth("OTHER"), mq.depth("Q"))


@pytest.mark.parametrize(("moment", "depth"), [(Moment.BEFORE, 0), (Moment.AFTER, 1)])
def test_a_fault_before_the_effect_leaves_nothing_and_one_after_it_loses_the_reply_only(
    mq: QueueManagerKit, moment: Moment, depth: int
) -> None:
    connection = connect(mq, Fault(verb="MQPUT1", moment=moment))

    with pytest.raises(ConnectionBrokenError):
        connection.put1("Q", A_MESSAGE, b"", PutOption.NO_SYNCPOINT)

    assert mq.depth("Q") == depth


def begin_commit(connection: Connection) -> None:
    assert inline(connection).begin_commit(lambda _: pytest.fail("nothing is under way"))


COMMITS = pytest.mark.parametrize("commit", [lambda connection: connection.commit(), begin_commit])


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"verb": "put"}, "Fault(verb='put') strikes no call. verb takes '' for any verb, or one of MQCONNX, MQBACK"),
        ({"nth": 0}, "Fault(nth=0) strikes no call. nth takes 1 or more"),
        ({"nth": "2"}, "Fault(nth='2') strikes no call. nth takes 1 or more"),
        ({"times": 0}, "Fault(times=0) strikes no call. times takes 1 or more"),
        ({"reason": "2009"}, "Fault(reason='2009') strikes no call. reason takes a reason code"),
        ({"delay_s": -1.0}, "delay_s takes 0 or more seconds"),
        ({"reason": 0}, "reason takes a reason code; 0 only with delay_s, for a slow call"),
        ({"moment": "after"}, "moment takes Moment.BEFORE or Moment.AFTER"),
    ],
)
def test_a_fault_that_strikes_no_call_is_refused_so_that_no_test_passes_without_it(fault: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the test compares the text
        Fault(**fault)

    assert said in str(refused.value)


def test_a_list_of_faults_is_refused_with_what_to_write(mq: QueueManagerKit) -> None:
    plan: Any = [Fault()]

    with pytest.raises(TypeError, match="it takes one or more Fault"):
        mq.faults.add(plan)


def test_a_refusal_cannot_come_after_the_effect() -> None:
    with pytest.raises(
        ValueError, match=r"MQRC_Q_FULL \(2053\) means that the call had no effect. A lost reply has one of these reasons: "
    ):
        Fault(verb="MQPUT", reason=Reason.Q_FULL, moment=Moment.AFTER)


@COMMITS
@pytest.mark.parametrize(("moment", "depth"), [(Moment.BEFORE, 0), (Moment.AFTER, 1)])
def test_a_commit_that_fails_before_is_undone_and_after_is_done(
    mq: QueueManagerKit, moment: Moment, depth: int, commit: Callable[[Connection], None]
) -> None:
    connection = connect(mq, Fault(verb="MQCMIT", moment=moment, reason=Reason.CALL_INTERRUPTED))
    connection.put1("Q", A_MESSAGE, b"", PutOption.SYNCPOINT)

    with pytest.raises(CallInterruptedError):
        commit(connection)

    assert mq.depth("Q") == depth


@pytest.mark.parametrize("verb", ["MQCMIT", "MQPUT"])
def test_a_call_that_fails_with_2003_has_backed_out_the_unit_of_work(mq: QueueManagerKit, verb: str) -> None:
    connection = connect(mq, Fault(verb=verb, nth=2, reason=Reason.BACKED_OUT))
    handle = connection.open("Q", IN_OUT)
    connection.put(handle, A_MESSAGE, b"one", PutOption.SYNCPOINT)
    connection.commit()
    got = connection.get(handle, GET)
    assert got is not None

    def put_and_commit() -> None:
        connection.put(handle, A_MESSAGE, b"two", PutOption.SYNCPOINT)
        connection.commit()

    with pytest.raises(MQIError, match="2003"):
        put_and_commit()
    connection.commit()

    [again] = mq.browse("Q")
    assert (again.body, again.descriptor.backout_count) == (b"one", 1)


def test_a_broken_connection_backs_out_and_counts(mq: QueueManagerKit) -> None:
    mq.define("Q2")
    connection = connect(mq, Fault(verb="MQINQ"))
    handle = connection.open("Q", IN_OUT | OpenOption.INQUIRE)
    connection.put(handle, A_MESSAGE, b"", PutOption.NO_SYNCPOINT)
    connection.get(handle, GET)

    with pytest.raises(ConnectionBrokenError):
        connection.inquire(handle, (3,))

    [found] = mq.browse("Q")
    assert found.backout_count == 1


def test_every_call_on_a_broken_connection_fails(mq: QueueManagerKit) -> None:
    connection = connect(mq)
    handle = connection.open("Q", IN_OUT)
    mq.faults.break_connections()

    calls = [
        lambda: connection.open("Q", IN_OUT),
        lambda: connection.put(handle, A_MESSAGE, b"", PutOption.NO_SYNCPOINT),
        lambda: connection.get(handle, GET),
        connection.commit,
        lambda: inline(connection).begin_commit(lambda _: None),
        lambda: inline(connection).on_arrival(handle, GET, lambda: None),
        connection.backout,
        connection.disconnect,
    ]

    for call in calls:
        with pytest.raises(ConnectionBrokenError, match="The connection broke before"):
            call()


def test_a_waiting_get_raises_if_the_connection_breaks(mq: QueueManagerKit) -> None:
    connection = inline(connect(mq))
    handle = connection.open("Q", IN_OUT)
    woken: list[str] = []
    connection.on_arrival(handle, GET, lambda: woken.append("woken"))

    mq.faults.break_connections()

    assert woken == ["woken"]


def test_a_withdrawn_wait_is_not_woken(mq: QueueManagerKit) -> None:
    connection = inline(connect(mq))
    handle = connection.open("Q", IN_OUT)
    withdraw = connection.on_arrival(handle, GET, lambda: pytest.fail("withdrawn"))
    assert withdraw is not None

    withdraw()
    mq.faults.break_connections()


def test_no_connect_succeeds_during_an_outage(mq: QueueManagerKit) -> None:
    before = connect(mq)
    queue_manager = mq.faults.wrap(mq.queue_manager)

    with mq.faults.outage():
        with pytest.raises(MQIError, match="2059"):
            queue_manager.connect()
        with pytest.raises(ConnectionBrokenError):
            before.open("Q", IN_OUT)

    assert queue_manager.connect().open("Q", IN_OUT).name == "Q"


def test_a_slow_call_takes_virtual_time_and_succeeds(mq: QueueManagerKit) -> None:
    connection = connect(mq, Fault(verb="MQOPEN", reason=0, delay_s=2.5))

    connection.open("Q", IN_OUT)

    assert mq.clock.monotonic() == 2.5


def test_a_cleared_plan_strikes_no_more(mq: QueueManagerKit) -> None:
    connection = connect(mq, Fault(verb="MQOPEN", reason=Reason.NOT_AUTHORIZED, times=FOREVER))
    with pytest.raises(MQIError, match="2035"):
        connection.open("Q", IN_OUT)

    mq.faults.clear()

    assert connection.open("Q", IN_OUT).name == "Q"


def test_an_outage_continues_without_the_planned_faults_until_its_block_ends(mq: QueueManagerKit) -> None:
    queue_manager = mq.faults.wrap(mq.queue_manager)

    with mq.faults.outage():
        mq.faults.clear()
        with pytest.raises(MQIError, match="2059"):
            queue_manager.connect()

    assert queue_manager.connect().queue_manager_name == "QM1"


def test_the_wrapped_queue_manager_is_inline_where_its_own_is(mq: QueueManagerKit) -> None:
    assert isinstance(mq.faults.wrap(mq.queue_manager), InlineQueueManager)
    assert not isinstance(Faults().wrap(Blocking(mq.queue_manager)), InlineQueueManager)


def test_a_blocking_queue_manager_gets_the_same_faults(mq: QueueManagerKit) -> None:
    mq.define("Q")
    faults = Faults(Fault(verb="MQOPEN", reason=Reason.NOT_AUTHORIZED))
    connection = faults.wrap(Blocking(mq.queue_manager)).connect()

    with pytest.raises(MQIError, match="2035"):
        connection.open("Q", IN_OUT)

    assert faults.wrap(Blocking(mq.queue_manager)).name == "QM1"
    assert connection.queue_manager_name == "QM1"
