"""The DLQ handler on a queue: each step of IBM's pages, and the invariants that always hold.

`seed` is "Processing the rules table"; `control` IBM q005670; `actions` q005590.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from msgspec import Struct
from msgspec.structs import replace

from mqflow.events import DeadLetterActed, Warned
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import Encoding, GetOption, MessageFlag, MessageType, OpenOption, Persistence, PutOption, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letters.actions import Ignore, Redirect, matcher, matchers
from mqflow.policy.dead_letters.rules import Control, RulesTable, parse
from mqflow.policy.dead_letters.scan import HISTORY_MAX, Look
from mqflow.runtime.dead_letters.dead_letter_handler import DeadLetterHandler, Rules, run_to_end
from mqflow.runtime.hooks import Broadcast
from mqflow.testing.dead_letters import drive, put_dead_letter, run_rules
from mqflow.testing.faults import CONNECT, Fault, Faults, Moment
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import Connection, ObjectDescriptor, object_descriptor
from tests.queue_contents import browsed, taken

DLQ = "DEAD.LETTERS"
QUEUES = (DLQ, "ORDERS.IN", "OTHER", "REALLY.DEAD", "REPLIES")


@pytest.fixture
def mq() -> Iterator[QueueManagerKit]:
    kit = QueueManagerKit()
    define(kit)
    yield kit
    kit.close()


def define(kit: QueueManagerKit) -> None:
    for queue in QUEUES:
        kit.define(queue)
    kit.define("SHUT", put="DISABLED")
    kit.define("DLQ.ALIAS", "QALIAS", target=DLQ)


def put(mq: QueueManagerKit, body: bytes = b"an order", queue: str = "ORDERS.IN", **wishes: object) -> bytes:
    connection = mq.queue_manager.connect()
    descriptor = wishes.pop("descriptor", MessageDescriptor(format="MQSTR", ccsid=1208, message_type=8))
    made = put_dead_letter(connection, DLQ, body, queue=queue, descriptor=descriptor, **wishes)  # type: ignore[arg-type]  # the options of put_dead_letter
    connection.disconnect()
    return made.descriptor.message_id


def bodies(mq: QueueManagerKit, queue: str) -> list[bytes]:
    return [got.body for got in taken(mq.queue_manager, queue)]


def attempts(acted: list[DeadLetterActed]) -> list[tuple[str, int, int]]:
    return [(each.rule, each.attempt, each.reason) for each in acted if not isinstance(each.intent, Ignore)]


def handler_for(text: str, mq: QueueManagerKit, history_max: int = HISTORY_MAX) -> tuple[DeadLetterHandler, Connection]:
    table = parse(text)
    assert isinstance(table, RulesTable), table
    rules = Rules(table.control, matchers(table.rules))
    broadcast = Broadcast((lambda event: mq.events.append(event),))  # noqa: PLW0108 - `append` has another parameter's name
    handler = DeadLetterHandler(rules, DLQ, clock=mq.clock, broadcast=broadcast, history_max=history_max)
    connection = mq.queue_manager.connect()
    handler.open(connection)
    return handler, connection


# -- actions


def test_retry_puts_the_message_where_it_was_for_without_the_mqdlh(mq: QueueManagerKit) -> None:
    put(mq)

    run_rules(mq, "ACTION(RETRY)", queue=DLQ)

    [got] = taken(mq.queue_manager, "ORDERS.IN")
    assert (b"an order", "MQSTR", 1208) == (got.body, got.descriptor.format, got.descriptor.ccsid)
    assert [] == taken(mq.queue_manager, DLQ)


def test_forward_keeps_the_mqdlh_by_default(mq: QueueManagerKit) -> None:
    put(mq)
    [before] = browsed(mq.queue_manager, DLQ)

    run_rules(mq, "ACTION(FWD) FWDQ(REALLY.DEAD)", queue=DLQ)

    [got] = taken(mq.queue_manager, "REALLY.DEAD")
    assert (before.descriptor, before.body) == (got.descriptor, got.body)


def test_forward_without_header(mq: QueueManagerKit) -> None:
    put(mq)

    run_rules(mq, "ACTION(FWD) FWDQ(OTHER) HEADER(NO)", queue=DLQ)

    assert [b"an order"] == bodies(mq, "OTHER")


@pytest.mark.parametrize("rule", ["ACTION(RETRY)", "ACTION(FWD) FWDQ(SYSTEM.DEFAULT.MODEL.QUEUE)"])
def test_a_message_is_not_lost_on_a_queue_that_a_model_makes_for_it(mq: QueueManagerKit, rule: str) -> None:
    """Otherwise the message is on a temporary queue of the handler, and is deleted with that queue's handle."""
    put(mq, queue="SYSTEM.DEFAULT.MODEL.QUEUE")

    acted = run_rules(mq, rule, queue=DLQ)

    assert [("line 1", 1, int(Reason.Q_TYPE_ERROR))] == attempts(acted)
    assert 1 == mq.depth(DLQ)
    assert [] == [each.name for each in mq.queue_manager.administration.queues() if each.name.startswith("AMQ.")]


@pytest.mark.parametrize("subscribed", [False, True])
def test_a_message_is_not_lost_on_a_topic_without_subscribers(mq: QueueManagerKit, *, subscribed: bool) -> None:
    mq.mqsc("DEFINE TOPIC(NEWS) TOPICSTR('news')", "DEFINE QALIAS(TO.NEWS) TARGET(NEWS) TARGTYPE(TOPIC)")
    if subscribed:
        mq.mqsc("DEFINE SUB(READER) TOPICSTR('news') DEST(OTHER)")
    put(mq)

    acted = run_rules(mq, "ACTION(FWD) FWDQ(TO.NEWS)", queue=DLQ)

    assert [("line 1", 1, 0 if subscribed else int(Reason.NO_SUBS_MATCHED))] == attempts(acted)
    assert (1, 0) == (mq.depth("OTHER" if subscribed else DLQ), mq.depth(DLQ if subscribed else "OTHER"))


def test_a_run_that_breaks_off_commits_nothing(mq: QueueManagerKit) -> None:
    """MQDISC commits the open unit of work (q101800). After a refused backout, this commit would remove the message."""
    put(mq, queue="SHUT")
    mq.faults.add(Fault(verb="MQBACK", reason=Reason.RESOURCE_PROBLEM))

    with pytest.raises(MQIError, match="MQBACK"):
        run_rules(mq, "ACTION(RETRY)", queue=DLQ)

    assert 1 == mq.depth(DLQ)


def test_discard_takes_the_message_off(mq: QueueManagerKit) -> None:
    put(mq)

    run_rules(mq, "ACTION(DISCARD)", queue=DLQ)

    assert [] == taken(mq.queue_manager, DLQ)


def test_an_ignored_message_is_not_touched(mq: QueueManagerKit) -> None:
    put(mq)
    before = browsed(mq.queue_manager, DLQ)

    run_rules(mq, "ACTION(IGNORE)", queue=DLQ, for_s=10_000)

    assert before == browsed(mq.queue_manager, DLQ)  # the message's BackoutCount is still 0


def test_everything_the_sender_said_stays_on_the_message(mq: QueueManagerKit) -> None:
    """seed: the handler does not alter content, MQDLH and descriptor; it puts with MQPMO_PASS_ALL_CONTEXT."""
    descriptor = MessageDescriptor(
        format="MQSTR", ccsid=819, encoding=Encoding.NORMAL, message_id=b"m" * 24, correlation_id=b"c" * 24, priority=7,
        persistence=Persistence.PERSISTENT, expiry_tenths=1_000, report=Report.PASS_MSG_ID, message_type=MessageType.REPLY,
        reply_to_queue="REPLIES", reply_to_queue_manager="QM1", user_identifier="amelie", accounting_token=b"a" * 32,
        application_identity_data="north", put_application_type=28, put_application_name="booking", put_date="20250131",
        put_time="12345678", application_origin_data="abcd", group_id=b"g" * 24, sequence_number=3, feedback=7,
        message_flags=int(MessageFlag.MSG_IN_GROUP),
    )  # fmt: skip
    put(mq, descriptor=descriptor)
    mq.clock.advance(1)

    run_rules(mq, "WAIT(NO)\nACTION(RETRY)", queue=DLQ)

    [got] = taken(mq.queue_manager, "ORDERS.IN")
    differs = {
        name: getattr(got.descriptor, name)
        for name in descriptor.__struct_fields__
        if getattr(got.descriptor, name) != getattr(descriptor, name)
    }
    assert {"expiry_tenths": 990} == differs


def test_putaut_ctx_puts_with_the_authority_of_the_messages_user(mq: QueueManagerKit) -> None:
    put(mq, descriptor=MessageDescriptor(user_identifier="amelie"))
    handler, _ = handler_for("WAIT(NO)\nACTION(RETRY) PUTAUT(CTX)", mq)
    asked = _Asked(mq.queue_manager.connect())
    connection: Connection = asked  # type: ignore[assignment]  # it passes every verb on
    handler.open(connection)

    drive(handler, connection, mq.clock)

    [(name, options, user)] = [opened for opened in asked.opened if opened[0] != DLQ]
    assert ("ORDERS.IN", "amelie") == (name, user)
    assert options & OpenOption.ALTERNATE_USER_AUTHORITY


@pytest.mark.parametrize("user", ["amelie", ""], ids=["of a user who may not", "of nobody in particular"])
def test_putaut_ctx_never_puts_with_the_authority_of_the_handlers_user(mq: QueueManagerKit, user: str) -> None:
    """A message put with no context has a blank user. MQOD, AlternateUserId: an open with a blank user needs no authority."""
    mq.mqsc("SET AUTHREC PROFILE('ORDERS.IN') OBJTYPE(QUEUE) PRINCIPAL('clerk') AUTHADD(PUT,PASSALL)")
    put(mq, descriptor=MessageDescriptor(user_identifier=user))

    acted = run_rules(mq, "ACTION(RETRY) PUTAUT(CTX)", queue=DLQ)

    assert [("line 1", 1, int(Reason.NOT_AUTHORIZED))] == attempts(acted)
    assert (1, 0) == (mq.depth(DLQ), mq.depth("ORDERS.IN"))


def test_the_dead_letter_queue_is_opened_as_documented(mq: QueueManagerKit) -> None:
    handler, _ = handler_for("ACTION(RETRY)", mq)
    asked = _Asked(mq.queue_manager.connect())

    handler.open(asked)  # type: ignore[arg-type]  # it passes every verb on

    documented = OpenOption.BROWSE | OpenOption.INPUT_AS_Q_DEF | OpenOption.SAVE_ALL_CONTEXT | OpenOption.FAIL_IF_QUIESCING
    assert [(DLQ, documented, "")] == asked.opened


class _Asked:
    """A connection that records each MQOPEN call."""

    def __init__(self, inner: Connection) -> None:
        self._inner = inner
        self.opened: list[tuple[str, OpenOption, str]] = []

    def open(self, target: ObjectDescriptor | str, options: OpenOption) -> object:
        described = object_descriptor(target)
        self.opened.append((described.name, options, described.alternate_user))
        return self._inner.open(target, options)

    def __getattr__(self, name: str) -> Callable[..., object]:
        found: Callable[..., object] = getattr(self._inner, name)
        return found


# -- attempts, and the clock


def test_attempts_are_a_retry_interval_apart_and_go_on_with_the_next_rule(mq: QueueManagerKit) -> None:
    put(mq, queue="SHUT")
    times: list[float] = []
    mq.events = _Timed(mq, times)

    acted = run_rules(mq, "RETRYINT(30)\nACTION(RETRY) RETRY(3)\nACTION(FWD) FWDQ(REALLY.DEAD) RETRY(2)", queue=DLQ)

    inhibited = int(Reason.PUT_INHIBITED)
    assert [("line 2", 1, inhibited), ("line 2", 2, inhibited), ("line 2", 3, inhibited), ("line 3", 4, 0)] == attempts(acted)
    assert [0, 30, 60, 90] == times
    assert 1 == len(taken(mq.queue_manager, "REALLY.DEAD"))


class _Timed(list):  # type: ignore[type-arg]  # a list of events that notes when each came
    def __init__(self, mq: QueueManagerKit, times: list[float]) -> None:
        super().__init__()
        self._mq, self._times = mq, times

    def append(self, event: object) -> None:
        super().append(event)
        self._times.append(self._mq.clock.monotonic())


def test_a_message_whose_rules_are_used_up_stays_and_is_reported_once(mq: QueueManagerKit) -> None:
    put(mq, queue="SHUT")

    acted = run_rules(mq, "RETRYINT(1)\nACTION(RETRY) RETRY(2)", queue=DLQ, for_s=100)

    assert [("line 2", Ignore), ("line 2", Ignore), ("", Ignore)] == [
        (each.rule, Ignore if isinstance(each.intent, Redirect | Ignore) else None) for each in acted
    ]
    assert [1, 2, 2] == [each.attempt for each in acted]
    [left] = browsed(mq.queue_manager, DLQ)
    assert 2 == left.descriptor.backout_count  # each attempt was backed out once


def test_a_target_that_opens_in_the_meantime_gets_the_message_on_the_next_attempt(mq: QueueManagerKit) -> None:
    put(mq, queue="SHUT")
    handler, connection = handler_for("RETRYINT(10) WAIT(30)\nACTION(RETRY) RETRY(5)", mq)
    step(handler, connection)
    mq.mqsc("ALTER QLOCAL(SHUT) PUT(ENABLED)")

    drive(handler, connection, mq.clock)

    assert 1 == len(taken(mq.queue_manager, "SHUT"))


def step(handler: DeadLetterHandler, connection: Connection) -> None:
    """Look for one message without a wait, act on it, and settle."""
    look = handler.look()
    assert look is not None
    settlement = handler.act(look, connection.get(handler.handle, handler.options(replace(look, wait_s=0.0))))
    if settlement is not None:
        getattr(connection, settlement.value)()
        handler.settled()


def test_a_message_that_was_moved_and_comes_back_has_all_its_attempts_again(mq: QueueManagerKit) -> None:
    wanted = MessageDescriptor(message_id=b"m" * 24, correlation_id=b"c" * 24)
    handler, connection = handler_for("RETRYINT(10)\nACTION(RETRY) RETRY(2)", mq)
    put(mq, queue="SHUT", descriptor=wanted)
    step(handler, connection)
    mq.mqsc("ALTER QLOCAL(SHUT) PUT(ENABLED)")
    mq.clock.advance(10)
    step(handler, connection)
    mq.mqsc("ALTER QLOCAL(SHUT) PUT(DISABLED)")
    put(mq, queue="SHUT", descriptor=wanted)
    step(handler, connection)

    acted = [event for event in mq.events if isinstance(event, DeadLetterActed)]
    refused = int(Reason.PUT_INHIBITED)
    assert [("line 2", 1, refused), ("line 2", 2, 0), ("line 2", 1, refused)] == attempts(acted)


def test_a_target_that_is_missing_is_a_failed_attempt(mq: QueueManagerKit) -> None:
    put(mq, queue="NOBODY")

    [tried, ignored] = run_rules(mq, "ACTION(RETRY)", queue=DLQ)

    assert Reason.UNKNOWN_OBJECT_NAME == tried.reason
    assert isinstance(ignored.intent, Ignore)
    assert 1 == len(taken(mq.queue_manager, DLQ))


@pytest.mark.parametrize("name", [DLQ, "DLQ.ALIAS"])
def test_a_rule_that_leads_back_to_the_dead_letter_queue_fails(mq: QueueManagerKit, name: str) -> None:
    put(mq)

    [tried, _] = run_rules(mq, f"ACTION(FWD) FWDQ({name})", queue=DLQ)

    assert Reason.INVALID_DESTINATION == tried.reason
    assert 1 == len(taken(mq.queue_manager, DLQ))


def test_a_refusal_the_mqdlh_speaks_of_already_is_nothing_new(mq: QueueManagerKit) -> None:
    put(mq, queue="SHUT", reason=Reason.PUT_INHIBITED)
    put(mq, queue="SHUT", reason=Reason.Q_FULL)

    acted = run_rules(mq, "ACTION(RETRY)", queue=DLQ)

    assert [True, False] == [each.repeated for each in acted if each.reason]


def test_wait_no_ends_when_nothing_can_be_done(mq: QueueManagerKit) -> None:
    put(mq, b"1")
    put(mq, b"2", queue="SHUT")

    acted = run_rules(mq, "WAIT(NO)\nACTION(RETRY) RETRY(5)", queue=DLQ)

    assert 0 == mq.clock.monotonic()
    assert [("line 2", 1, 0), ("line 2", 1, Reason.PUT_INHIBITED)] == attempts(acted)


def test_wait_counts_from_the_last_new_work(mq: QueueManagerKit) -> None:
    put(mq, queue="SHUT")

    run_rules(mq, "RETRYINT(30) WAIT(40)\nACTION(RETRY) RETRY(4)", queue=DLQ)

    assert 90 + 40 == mq.clock.monotonic()


@pytest.mark.parametrize(("wait_s", "wait_ms"), [(0.0, 0), (0.0001, 1), (0.0016, 2), (60.0, 60_000)])
def test_a_wait_ends_when_its_time_is_over_and_not_before(mq: QueueManagerKit, wait_s: float, wait_ms: int) -> None:
    handler, _ = handler_for("ACTION(RETRY)", mq)

    assert wait_ms == handler.options(Look(wait_s=wait_s)).wait_ms


def test_an_old_ignored_message_does_not_put_the_end_off(mq: QueueManagerKit) -> None:
    put(mq)

    run_rules(mq, "RETRYINT(1) WAIT(15)\nACTION(IGNORE)", queue=DLQ)

    assert 15 == mq.clock.monotonic()


def test_a_rescan_finds_a_message_that_was_put_before_the_cursor(mq: QueueManagerKit) -> None:
    put(mq, b"stays", queue="SHUT", descriptor=MessageDescriptor(priority=0))
    handler, connection = handler_for("RETRYINT(5) WAIT(60)\nDESTQ(SHUT) ACTION(IGNORE)\nACTION(RETRY)", mq)
    step(handler, connection)
    put(mq, b"urgent", descriptor=MessageDescriptor(priority=9))
    step(handler, connection)
    assert [] == browsed(mq.queue_manager, "ORDERS.IN")

    drive(handler, connection, mq.clock)

    assert [b"urgent"] == bodies(mq, "ORDERS.IN")


# -- got without a browse


def test_while_everything_goes_well_nothing_is_looked_at_first(mq: QueueManagerKit) -> None:
    for number in range(5):
        put(mq, b"%d" % number)
    handler, connection = handler_for("WAIT(NO)\nACTION(RETRY)", mq)
    gets: list[GetOption] = []
    while (look := handler.look()) is not None:
        options = handler.options(look)
        gets.append(options.options)
        settlement = handler.act(look, connection.get(handler.handle, options))
        if settlement is not None:
            connection.commit()
            handler.settled()

    assert [b"0", b"1", b"2", b"3", b"4"] == bodies(mq, "ORDERS.IN")
    assert [True, False, False, False, False] == [bool(each & GetOption.LOCK) for each in gets[:5]]


def test_a_table_that_ignores_something_looks_at_every_message_first(mq: QueueManagerKit) -> None:
    for body in (b"one", b"two"):
        put(mq, body)
    put(mq, b"stays", descriptor=MessageDescriptor(put_application_name="keep"))
    run_rules(mq, "WAIT(NO)\nDESTQ(NOBODY) ACTION(IGNORE)\nACTION(RETRY)", queue=DLQ)

    assert [0, 0, 0] == [got.descriptor.backout_count for got in taken(mq.queue_manager, "ORDERS.IN")]
    assert [] == taken(mq.queue_manager, DLQ)


def test_a_message_that_stays_among_others_is_not_attempted_again_before_its_time(mq: QueueManagerKit) -> None:
    for queue in ("ORDERS.IN", "ORDERS.IN", "SHUT", "ORDERS.IN"):
        put(mq, queue=queue)

    run_rules(mq, "RETRYINT(10) WAIT(15)\nACTION(RETRY) RETRY(5)", queue=DLQ)

    failed = [event.attempt for event in mq.told(DeadLetterActed) if event.reason]
    assert 3 == len(taken(mq.queue_manager, "ORDERS.IN"))
    assert [1, 2, 3, 4, 5] == failed
    assert 40 <= mq.clock.monotonic()  # ten seconds between two attempts


def test_a_message_without_an_mqdlh_among_others_stays_and_they_are_handled(mq: QueueManagerKit) -> None:
    put(mq)
    connection = mq.queue_manager.connect()
    connection.put1(DLQ, MessageDescriptor(), b"no dead letter", PutOption.NO_SYNCPOINT)
    put(mq)

    run_rules(mq, "WAIT(NO)\nACTION(RETRY)", queue=DLQ)

    assert 2 == len(taken(mq.queue_manager, "ORDERS.IN"))
    [left] = taken(mq.queue_manager, DLQ)
    assert (b"no dead letter", 1) == (left.body, left.descriptor.backout_count)  # it was got once, and put back


# -- what is no dead letter


@pytest.mark.parametrize(
    ("bodies", "said"),
    [
        ([b"one"], f"A message on {DLQ} does not begin with an MQDLH and stays there"),
        ([b"one", b"two"], f"2 messages on {DLQ} do not begin with an MQDLH and stay there"),
    ],
    ids=["one message", "two messages"],
)
def test_messages_without_an_mqdlh_stay_and_are_reported_each_time_round(
    mq: QueueManagerKit, bodies: list[bytes], said: str
) -> None:
    connection = mq.queue_manager.connect()
    for body in bodies:
        connection.put1(DLQ, MessageDescriptor(), body, PutOption.NO_SYNCPOINT)

    run_rules(mq, "RETRYINT(1)\nACTION(DISCARD)", queue=DLQ, for_s=25)

    warned = [event.text for event in mq.events if isinstance(event, Warned)]
    assert 3 == len(warned)  # now, and after 10 and 20 seconds
    assert all(text.startswith(said) for text in warned)
    assert [0] * len(bodies) == [got.descriptor.backout_count for got in taken(mq.queue_manager, DLQ)]


@pytest.mark.parametrize("encoding", [Encoding.NORMAL, Encoding.NATIVE])
def test_the_mqdlh_is_read_in_the_encoding_it_is_in(mq: QueueManagerKit, encoding: int) -> None:
    put(mq, reason=Reason.Q_FULL, encoding=encoding)

    run_rules(mq, "REASON(MQRC_Q_FULL) ACTION(RETRY)", queue=DLQ)

    assert [b"an order"] == bodies(mq, "ORDERS.IN")


# -- several of them


def test_several_handlers_share_a_queue(mq: QueueManagerKit) -> None:
    for number in range(20):
        put(mq, b"%d" % number)
    both = [handler_for("WAIT(NO)\nACTION(RETRY)", mq) for _ in range(2)]

    for number in range(10):
        for handler, connection in both if number % 3 else reversed(both):
            step(handler, connection)
    for handler, connection in both:
        drive(handler, connection, mq.clock)

    assert sorted(b"%d" % number for number in range(20)) == sorted(bodies(mq, "ORDERS.IN"))
    told = [event.message_id for event in mq.events if isinstance(event, DeadLetterActed)]
    assert 20 == len(set(told)) == len(told)


def test_a_message_that_one_handler_holds_is_not_there_for_another(mq: QueueManagerKit) -> None:
    put(mq)
    first, connection = handler_for("ACTION(RETRY)", mq)
    look = first.look()
    assert look is not None
    held = connection.get(first.handle, first.options(look))
    second, other = handler_for("WAIT(NO)\nACTION(DISCARD)", mq)

    drive(second, other, mq.clock)

    assert held is not None
    first.act(look, held)
    connection.commit()
    assert [b"an order"] == bodies(mq, "ORDERS.IN")


def test_a_handler_that_waits_holds_no_message(mq: QueueManagerKit) -> None:
    put(mq)
    handler, connection = handler_for("ACTION(IGNORE)", mq)
    step(handler, connection)
    look = handler.look()
    assert look is not None
    handler.act(look, None)

    assert 1 == len(taken(mq.queue_manager, DLQ))


def test_a_history_that_is_full_says_so_once_and_still_comes_to_an_end(mq: QueueManagerKit) -> None:
    for _ in range(5):
        put(mq)
    handler, connection = handler_for("RETRYINT(1) WAIT(5)\nACTION(IGNORE)", mq, history_max=2)

    drive(handler, connection, mq.clock)

    assert 1 == sum(isinstance(event, Warned) and "2 that the handler remembers" in event.text for event in mq.events)
    assert 5 == mq.clock.monotonic()


# -- Python beside the table, and a table that changes


def test_a_python_rule_may_look_at_the_whole_body(mq: QueueManagerKit) -> None:
    put(mq, b"x" * 500)
    table = parse("ACTION(RETRY)")
    assert isinstance(table, RulesTable)
    long = matcher(table.rules[0], lambda letter: letter.data.endswith(b"x" * 500), "long ones")
    handler = DeadLetterHandler(Rules(Control(wait_s=0), [long], whole=True), DLQ, clock=mq.clock, broadcast=Broadcast(()))
    connection = mq.queue_manager.connect()
    handler.open(connection)

    drive(handler, connection, mq.clock)

    assert 1 == len(taken(mq.queue_manager, "ORDERS.IN"))


def test_other_rules_apply_from_the_head_of_the_queue(mq: QueueManagerKit) -> None:
    put(mq)
    handler, connection = handler_for("ACTION(IGNORE)", mq)
    step(handler, connection)
    table = parse("WAIT(NO)\nACTION(RETRY)")
    assert isinstance(table, RulesTable)

    handler.reload(Rules(table.control, matchers(table.rules)))
    drive(handler, connection, mq.clock)

    assert [b"an order"] == bodies(mq, "ORDERS.IN")


# -- faults

RULES = "RETRYINT(5) WAIT(20)\nDESTQ(SHUT) ACTION(RETRY) RETRY(2)\nDESTQ(OTHER) ACTION(DISCARD)\nACTION(RETRY)"


class _Run(Struct):
    """A handler on a queue manager that fails, with a new connection after each outage."""

    kit: QueueManagerKit
    faults: Faults
    outages: int = 0

    def run(self) -> None:
        handler, _ = handler_for(RULES, self.kit)
        queue_manager = self.faults.wrap(self.kit.queue_manager)
        while True:
            connection = queue_manager.connect()
            try:
                handler.open(connection)
                drive(handler, connection, self.kit.clock)
            except MQIError:
                self.outages += 1
                assert self.outages < 5
                continue
            with suppress(MQIError):  # the connection can break at the last call, the disconnect
                connection.disconnect()
            return


def scenario(*plan: Fault) -> tuple[_Run, dict[str, list[bytes]]]:
    kit = QueueManagerKit()
    define(kit)
    persistent = MessageDescriptor(persistence=Persistence.PERSISTENT)
    for number, queue in enumerate(("ORDERS.IN", "SHUT", "OTHER", "REPLIES", "ORDERS.IN")):
        put(kit, b"%d" % number, queue=queue, descriptor=persistent)
    run = _Run(kit, Faults(*plan))
    run.run()
    left = {queue: bodies(kit, queue) for queue in QUEUES}
    left[DLQ] = [body[172:] for body in left[DLQ]]
    kit.close()
    return run, left


EXPECTED = {DLQ: [b"1"], "ORDERS.IN": [b"0", b"4"], "OTHER": [], "REALLY.DEAD": [], "REPLIES": [b"3"]}


def test_a_connection_that_breaks_at_any_call_loses_nothing_and_doubles_nothing() -> None:
    whole, left = scenario()
    assert EXPECTED == left
    calls = [call for call in whole.faults.calls if call.verb != CONNECT]
    assert len(calls) > 30

    noticed = 0
    for number, call in enumerate(calls, start=1):
        for moment in Moment:
            broken, left = scenario(Fault(nth=number, moment=moment))
            assert EXPECTED == left, f"broken {moment.value} at {call}"
            noticed += broken.outages
    assert noticed > len(calls), "too little was broken to prove anything"


@pytest.mark.parametrize("reason", [Reason.STORAGE_MEDIUM_FULL, Reason.Q_FULL, Reason.NOT_AUTHORIZED])
@pytest.mark.parametrize("verb", ["MQPUT", "MQOPEN"])
def test_a_target_that_refuses_for_a_while_gets_its_message_later(mq: QueueManagerKit, verb: str, reason: int) -> None:
    put(mq)
    mq.faults.add(Fault(verb=verb, object_name="ORDERS.IN", reason=reason, times=2))

    run_rules(mq, "ACTION(RETRY) RETRY(3)", queue=DLQ)

    assert [b"an order"] == bodies(mq, "ORDERS.IN")


def test_a_commit_that_was_backed_out_is_an_attempt_that_failed(mq: QueueManagerKit) -> None:
    put(mq)
    mq.faults.add(Fault(verb="MQCMIT", reason=Reason.BACKED_OUT))
    connection = mq.faults.wrap(mq.queue_manager).connect()
    handler, _ = handler_for("WAIT(NO)\nACTION(RETRY) RETRY(3)", mq)
    handler.open(connection)

    drive(handler, connection, mq.clock)

    acted = [event for event in mq.events if isinstance(event, DeadLetterActed)]
    assert [("line 2", 1, Reason.BACKED_OUT)] == attempts(acted)


# -- with real time


def test_a_stop_ends_a_handler_that_waits(mq: QueueManagerKit) -> None:
    put(mq)
    handler, connection = handler_for("WAIT(YES)\nACTION(RETRY)", mq)
    looks = iter([False, False, True])

    run_to_end(handler, connection, stopping=lambda: next(looks), wait_ms_max=1)

    assert [b"an order"] == bodies(mq, "ORDERS.IN")
