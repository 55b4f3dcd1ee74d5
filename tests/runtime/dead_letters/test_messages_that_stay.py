"""Messages that a DLQ handler leaves on its queue: which are reported, how often, and whether they put off its end."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from mqflow.events import DeadLetterActed, Event, Warned
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers.dead_letter import DLH_BYTES
from mqflow.mqi.options import GetOption, MatchOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letters.actions import DeadLetter, Ignore, matcher, matchers
from mqflow.policy.dead_letters.rules import RulesTable, parse
from mqflow.policy.dead_letters.scan import Look
from mqflow.runtime.dead_letters.dead_letter_handler import DeadLetterHandler, Rules, run_to_end
from mqflow.runtime.hooks import Broadcast
from mqflow.testing.dead_letters import drive, put_dead_letter
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import Connection, GetOptions, Got, ObjectHandle
from tests.conformance.under_test import refused

DLQ = "DEAD.LETTERS"


@pytest.fixture
def mq() -> Iterator[QueueManagerKit]:
    kit = QueueManagerKit()
    kit.define(DLQ)
    kit.define("ORDERS.IN")
    kit.define("SHUT", put="DISABLED")
    yield kit
    kit.close()


def put(mq: QueueManagerKit, queue: str = "ORDERS.IN", **fields: int) -> bytes:
    connection = mq.queue_manager.connect()
    made = put_dead_letter(connection, DLQ, b"an order", queue=queue, descriptor=MessageDescriptor(**fields))  # type: ignore[arg-type]  # fields of the descriptor
    connection.disconnect()
    return made.descriptor.message_id


def put_stray(mq: QueueManagerKit) -> bytes:
    connection = mq.queue_manager.connect()
    made = connection.put1(DLQ, MessageDescriptor(), b"no dead letter", PutOption.NO_SYNCPOINT)
    connection.disconnect()
    return made.descriptor.message_id


def handler_for(text: str, mq: QueueManagerKit, history_max: int = 100) -> tuple[DeadLetterHandler, Connection]:
    table = parse(text)
    assert isinstance(table, RulesTable), table
    broadcast = Broadcast((lambda event: mq.events.append(event),))  # noqa: PLW0108 - `append` has another parameter's name
    rules = Rules(table.control, matchers(table.rules))
    handler = DeadLetterHandler(rules, DLQ, clock=mq.clock, broadcast=broadcast, history_max=history_max)
    connection = mq.faults.wrap(mq.queue_manager).connect()
    handler.open(connection)
    return handler, connection


def step(handler: DeadLetterHandler, connection: Connection) -> None:
    """Look for one message without a wait, and leave it."""
    look = handler.look()
    assert look is not None
    assert handler.act(look, connection.get(handler.handle, handler.options(replace(look, wait_s=0.0)))) is None


def strays(count: int, first: bytes) -> Warned:
    text = (
        f"{count} messages on {DLQ} do not begin with an MQDLH and stay there"
        if count > 1
        else f"A message on {DLQ} does not begin with an MQDLH and stays there"
    )
    return Warned(text=f"{text}; the first is {first.hex()}.", queue=DLQ, details={"message_id": first.hex()})


@pytest.mark.parametrize(("history_max", "reported", "warned"), [(2, 2, True), (4, 4, True), (5, 5, False)])
def test_each_message_that_is_remembered_is_reported_once(
    mq: QueueManagerKit, history_max: int, reported: int, *, warned: bool
) -> None:
    ids = [put(mq) for _ in range(5)]
    handler, connection = handler_for("RETRYINT(1) WAIT(40)\nACTION(IGNORE)", mq, history_max)

    drive(handler, connection, mq.clock)

    left = [DeadLetterActed(queue=DLQ, message_id=each, rule="line 2", intent=Ignore(), attempt=0) for each in ids[:reported]]
    text = (
        f"More messages stay on {DLQ} than the {history_max} that the handler remembers. On the other messages it can attempt "
        "a rule more often than its RETRY says. A last rule that forwards every message ends that."
    )
    assert left == mq.told(DeadLetterActed)
    assert [Warned(text=text, queue=DLQ)] * warned == mq.told(Warned)


@pytest.mark.parametrize("new", [put, put_stray], ids=["a dead letter", "no dead letter"])
@pytest.mark.parametrize(("history_max", "ends_at_s"), [(100, 25), (1, 15)], ids=["remembered", "not remembered"])
def test_a_new_message_that_stays_puts_off_the_end_if_it_is_remembered(
    mq: QueueManagerKit, new: object, history_max: int, ends_at_s: int
) -> None:
    assert callable(new)
    new(mq)
    handler, connection = handler_for("RETRYINT(60) WAIT(15)\nACTION(IGNORE)", mq, history_max)
    step(handler, connection)
    mq.clock.advance(10)
    new(mq)
    step(handler, connection)

    drive(handler, connection, mq.clock)

    assert ends_at_s == mq.clock.monotonic()


def test_messages_without_an_mqdlh_are_counted_once_in_each_pass(mq: QueueManagerKit) -> None:
    first = put_stray(mq)
    put(mq, "SHUT")
    put_stray(mq)
    put_stray(mq)
    handler, connection = handler_for("RETRYINT(1) WAIT(12)\nACTION(RETRY) RETRY(4)", mq)

    drive(handler, connection, mq.clock)

    assert 3 + 12 == mq.clock.monotonic()  # the last attempt, and WAIT
    assert [strays(3, first)] * 2 == mq.told(Warned)  # in the first pass, and after ten retry intervals


def test_a_message_without_an_mqdlh_that_comes_later_is_reported_alone(mq: QueueManagerKit) -> None:
    first = put_stray(mq)
    handler, connection = handler_for("RETRYINT(60) WAIT(15)\nACTION(DISCARD)", mq)
    step(handler, connection)
    step(handler, connection)
    second = put_stray(mq)
    step(handler, connection)
    step(handler, connection)

    assert [strays(1, first), strays(1, second)] == mq.told(Warned)


def test_a_message_that_expires_between_the_browse_and_the_get_is_no_attempt(mq: QueueManagerKit) -> None:
    put(mq, expiry_tenths=10)
    handler, connection = handler_for("ACTION(RETRY)", mq)
    look = handler.look()
    assert look is not None
    browsed = connection.get(handler.handle, handler.options(look))
    assert browsed is not None
    mq.clock.advance(2)

    assert handler.act(look, browsed) is None
    assert [] == mq.events
    assert (0, 0) == (mq.depth(DLQ), mq.depth("ORDERS.IN"))


def test_a_refused_get_of_a_browsed_message_is_raised(mq: QueueManagerKit) -> None:
    put(mq)
    handler, connection = handler_for("ACTION(RETRY)", mq)
    look = handler.look()
    assert look is not None
    browsed = connection.get(handler.handle, handler.options(look))
    mq.mqsc(f"ALTER QLOCAL({DLQ}) GET(DISABLED)")

    with refused(Reason.GET_INHIBITED):
        handler.act(look, browsed)

    assert ([], 1) == (mq.events, mq.depth(DLQ))


def test_a_message_that_was_removed_puts_off_the_end(mq: QueueManagerKit) -> None:
    handler, connection = handler_for("RETRYINT(60) WAIT(15)\nACTION(DISCARD)", mq)
    step(handler, connection)
    mq.clock.advance(10)
    put(mq)

    drive(handler, connection, mq.clock)

    assert (10 + 15, 0) == (mq.clock.monotonic(), mq.depth(DLQ))


def test_a_handler_that_rests_closes_its_targets_and_unlocks_nothing_that_it_has_got(mq: QueueManagerKit) -> None:
    put(mq)
    put(mq, "SHUT")
    handler, connection = handler_for("ACTION(RETRY)", mq)
    for settlement in ("commit", "backout"):
        look = handler.look()
        assert look is not None
        handler.act(look, connection.get(handler.handle, handler.options(look)))
        getattr(connection, settlement)()
        handler.settled()
    before = len(mq.faults.calls)
    handler.rest()

    assert [("MQCLOSE", "ORDERS.IN"), ("MQCLOSE", "SHUT")] == [
        (call.verb, call.object_name) for call in mq.faults.calls[before:]
    ]


def test_a_failed_message_is_looked_for_by_its_identifiers_and_every_other_look_takes_any_message(mq: QueueManagerKit) -> None:
    handler, _ = handler_for("ACTION(RETRY)", mq)
    how = (
        GetOption.LOCK | GetOption.ACCEPT_TRUNCATED_MSG | GetOption.NO_SYNCPOINT | GetOption.FAIL_IF_QUIESCING
        | GetOption.PROPERTIES_FORCE_MQRFH2
    )  # fmt: skip
    both = MatchOption.MSG_ID | MatchOption.CORREL_ID
    assert GetOptions(
        options=how | GetOption.BROWSE_FIRST,
        match=both,
        message_id=b"m" * 24,
        correlation_id=b"c" * 24,
        buffer_bytes_max=DLH_BYTES,
    ) == handler.options(Look(from_head=True, identity=b"m" * 24 + b"c" * 24))
    assert GetOptions(
        options=how | GetOption.BROWSE_FIRST, match=MatchOption.NONE, buffer_bytes_max=DLH_BYTES
    ) == handler.options(Look(from_head=True))
    assert GetOptions(
        options=how | GetOption.BROWSE_NEXT | GetOption.WAIT, wait_ms=2_500, match=MatchOption.NONE, buffer_bytes_max=DLH_BYTES
    ) == handler.options(Look(wait_s=2.5))


def test_a_run_waits_a_second_at_most_and_ends_without_a_locked_message(mq: QueueManagerKit) -> None:
    """The stop is asked for after a look that found an ignored message, so that message is still locked."""
    put(mq)
    handler, connection = handler_for("ACTION(IGNORE)", mq)
    waits: list[int] = []

    class Recording:
        def get(self, handle: ObjectHandle, options: GetOptions) -> Got | None:
            waits.append(options.wait_ms)
            return connection.get(handle, options)

    looks = iter([False, True])
    run_to_end(handler, Recording(), stopping=lambda: next(looks))  # type: ignore[arg-type]  # it calls only `get`

    other, own = handler_for("WAIT(NO)\nACTION(DISCARD)", mq)
    drive(other, own, mq.clock)
    assert ([1_000], 0) == (waits, mq.depth(DLQ))


def test_a_message_that_stays_after_a_success_is_due_after_its_retry_interval_and_in_each_pass(mq: QueueManagerKit) -> None:
    times = list[tuple[float, int, int]]()

    def note(event: Event) -> None:
        mq.events.append(event)
        if isinstance(event, DeadLetterActed) and not isinstance(event.intent, Ignore):
            times.append((mq.clock.monotonic(), event.attempt, event.reason))

    for queue in ("ORDERS.IN", "SHUT", "ORDERS.IN"):  # the handler gets the second without a browse
        put(mq, queue)
    handler, connection = handler_for("RETRYINT(10) WAIT(30)\nACTION(RETRY) RETRY(15)", mq)
    handler._broadcast = Broadcast((note,))  # with the time

    drive(handler, connection, mq.clock)

    shut = int(Reason.PUT_INHIBITED)
    assert [(0, 1, 0), (0, 1, shut), (0, 1, 0), *((10.0 * n, n + 1, shut) for n in range(1, 15))] == times


def test_a_message_without_an_mqdlh_that_comes_after_a_success_is_counted_once_in_each_pass(mq: QueueManagerKit) -> None:
    put(mq)
    first = put_stray(mq)
    put(mq)
    handler, connection = handler_for("RETRYINT(10) WAIT(120)\nACTION(RETRY)", mq)

    drive(handler, connection, mq.clock)

    assert [strays(1, first)] * 2 == mq.told(Warned)


def test_a_rule_that_cannot_decide_is_asked_once_in_each_pass_about_a_message_that_comes_after_a_success(
    mq: QueueManagerKit,
) -> None:
    asked = list[float]()
    put(mq)
    put(mq, "SHUT")
    handler, connection = handler_for("RETRYINT(10) WAIT(120)\nACTION(RETRY)", mq)

    def choose(letter: DeadLetter) -> bool:
        if letter.header.destination_queue == "SHUT":
            asked.append(mq.clock.monotonic())
            raise LookupError("no such customer")
        return False

    [rule] = handler._rules.matchers
    handler.reload(Rules(handler._rules.control, (matcher(rule.rule, choose, "known customers"), rule)))

    drive(handler, connection, mq.clock)

    assert [0, 100] == asked
