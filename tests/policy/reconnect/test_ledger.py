"""Open objects are opened again in their order; only the owner of an object gets the error if that fails."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import ObjectType, OpenOption, SubscribeOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.policy.reconnect.ledger import (
    Ledger,
    NotReopened,
    Object,
    Opened,
    Reached,
    Reopen,
    StartOver,
    Subscribe,
    Subscription,
    TryAgain,
    admit,
    after_refusal,
    closed,
    gone,
    opened,
    replay,
    unreplayable,
)
from mqflow.policy.reconnect.mode import ReconnectMode
from mqflow.policy.reconnect.reason_classes import Class, classify

ANY, Q_MGR, NO = ReconnectMode.ANY, ReconnectMode.Q_MGR, ReconnectMode.NO
INPUT = OpenOption.INPUT_SHARED | OpenOption.FAIL_IF_QUIESCING
MINE, OTHER = "worker 1", "worker 2"


def queue(name: str, options: OpenOption = INPUT, *, session: str = MINE, owner: str = "listener ORDERS.IN") -> Object:
    return Object(session=session, owner=owner, name=name, options=options, opened_name=name)


def temporary(name: str = "AMQ.1", *, session: str = MINE) -> Object:
    return Object(session=session, owner="requester", name="REPLY.MODEL", options=INPUT, opened_name=name, temporary=True)


def by_name(name: str = "AMQ.1", *, session: str = MINE) -> Object:
    return replace(queue(name, session=session), temporary=True)


def subscription(options: SubscribeOption, *, to: int | None = None, name: str = "desk-1") -> Subscription:
    descriptor = SubscriptionDescriptor(options=options, name=name, topic_string="Prices/IBM", correlation_id=b"c" * 24)
    return Subscription(session=MINE, owner="listener Prices", descriptor=descriptor, queue=to)


def ledger(*entries: Opened) -> Ledger:
    made = Ledger()
    for entry in entries:
        made, _ = opened(made, entry)
    return made


def test_entries_are_numbered_in_the_order_of_opening_and_no_number_is_used_twice() -> None:
    two, number = opened(ledger(queue("A")), queue("B"))

    three, next_number = opened(closed(two, number), queue("C"))

    assert (2, 3) == (number, next_number)
    assert [("A", 1), ("C", 3)] == [(entry.name, entry.number) for entry in three.entries if isinstance(entry, Object)]


def test_closing_an_unknown_entry_changes_nothing() -> None:
    assert closed(ledger(queue("A")), 7) == ledger(queue("A"))


def test_a_queue_is_opened_again_with_everything_the_first_open_said() -> None:
    entry = Object(
        session=MINE, owner="publisher", name="REMOTE", options=OpenOption.OUTPUT | OpenOption.ALTERNATE_USER_AUTHORITY,
        object_type=ObjectType.Q, queue_manager="QM2", alternate_user="clerk", opened_name="REMOTE",
    )  # fmt: skip

    [step] = replay(ledger(entry), MINE)

    assert Reopen(replace(entry, number=1), "REMOTE") == step


def test_handles_of_requeuer_browser_publisher_and_listener_come_back_in_the_order_of_first_opening() -> None:
    entries = (
        queue("ORDERS.IN"),
        queue("ORDERS.BOQ", OpenOption.OUTPUT, owner="requeuer"),
        queue("ORDERS.IN", OpenOption.BROWSE, owner="browser"),
        Object(session=MINE, owner="publisher", name="T", options=OpenOption.OUTPUT, object_type=ObjectType.TOPIC),
    )

    steps = replay(ledger(*entries), MINE)

    assert ["ORDERS.IN", "ORDERS.BOQ", "ORDERS.IN", "T"] == [step.name for step in steps if isinstance(step, Reopen)]


def test_the_handles_of_other_sessions_are_theirs() -> None:
    both = ledger(queue("A"), queue("B", session=OTHER))

    assert ([1], [2]) == tuple([step.entry.number for step in replay(both, session)] for session in (MINE, OTHER))


# -- dynamic queues: B-paice-reconnect, "with the same name, but empty; only if this connection created it"


def test_a_temporary_queue_is_made_again_from_its_model_under_its_name() -> None:
    [step] = replay(ledger(temporary()), MINE)

    assert isinstance(step, Reopen)
    assert ("REPLY.MODEL", "AMQ.1") == (step.name, step.dynamic_name)
    assert "the messages on the temporary queue" in gone(step.entry)


def test_a_temporary_queue_opened_by_name_too_comes_back_behind_the_one_that_makes_it() -> None:
    steps = replay(ledger(temporary(), by_name()), MINE)

    assert [("REPLY.MODEL", "AMQ.1"), ("AMQ.1", "")] == [
        (step.name, step.dynamic_name) for step in steps if isinstance(step, Reopen)
    ]


@pytest.mark.parametrize(
    "entries",
    [(by_name(),), (temporary(session=OTHER), by_name()), (temporary("AMQ.2"), by_name())],
    ids=["nobody known made it", "another connection made it", "this connection made another one"],
)
def test_a_temporary_queue_that_this_connection_did_not_make_is_gone(entries: tuple[Opened, ...]) -> None:
    step = replay(ledger(*entries), MINE)[-1]

    assert isinstance(step, NotReopened)
    assert Reason.RECONNECT_FAILED == step.error.reason
    assert "AMQ.1" in str(step.error)
    assert "temporary queue of another connection" in str(step.error)


def test_a_temporary_queue_whose_maker_closed_it_is_gone() -> None:
    assert isinstance(replay(closed(ledger(temporary(), by_name()), 1), MINE)[0], NotReopened)


def test_a_permanent_dynamic_queue_is_still_there_and_is_opened_by_its_own_name() -> None:
    [step] = replay(ledger(replace(temporary(), temporary=False)), MINE)

    assert isinstance(step, Reopen)
    assert ("AMQ.1", "") == (step.name, step.dynamic_name)


# -- subscriptions

MANAGED = SubscribeOption.MANAGED | SubscribeOption.FAIL_IF_QUIESCING


@pytest.mark.parametrize(
    "options", [SubscribeOption.CREATE, SubscribeOption.CREATE | SubscribeOption.RESUME, SubscribeOption.ALTER]
)
def test_a_durable_subscription_is_resumed_and_never_made_again_without_a_word(options: SubscribeOption) -> None:
    [step] = replay(ledger(subscription(options | SubscribeOption.DURABLE | MANAGED)), MINE)

    assert isinstance(step, Subscribe)
    assert SubscribeOption.RESUME | SubscribeOption.DURABLE | MANAGED == step.descriptor.options
    assert () == gone(step.entry)


def test_a_non_durable_subscription_is_made_again_as_it_was_and_has_missed_something() -> None:
    [step] = replay(ledger(subscription(SubscribeOption.CREATE | MANAGED, name="")), MINE)

    assert isinstance(step, Subscribe)
    assert step.entry.descriptor == step.descriptor
    assert ("publications since the connection was lost",) == gone(step.entry)


def test_a_subscription_comes_back_behind_the_queue_it_delivers_to() -> None:
    steps = replay(ledger(queue("PRICES"), subscription(SubscribeOption.CREATE, to=1)), MINE)

    assert [Reopen, Subscribe] == [type(step) for step in steps]


def test_a_subscription_whose_queue_is_gone_is_refused_and_the_others_are_not() -> None:
    steps = replay(ledger(by_name(), subscription(SubscribeOption.CREATE, to=1), queue("ORDERS.IN")), MINE)

    assert [NotReopened, NotReopened, Reopen] == [type(step) for step in steps]
    assert "desk-1" in str(steps[1].error) if isinstance(steps[1], NotReopened) else False


# -- the state that a handle loses, q017800 and from memory


@pytest.mark.parametrize(
    ("options", "lost"),
    [
        (INPUT, ()),
        (OpenOption.OUTPUT, ()),
        (OpenOption.BROWSE, ("the position of the browse cursor, with its lock and its marks",)),
        (INPUT | OpenOption.SAVE_ALL_CONTEXT, ()),  # the context was lost with the unit of work
        (INPUT | OpenOption.READ_AHEAD, ("messages that were read ahead",)),
    ],
)
def test_the_state_of_the_connection_is_named_as_gone(options: OpenOption, lost: tuple[str, ...]) -> None:
    assert lost == gone(queue("A", options))


# -- the reaction to a refused step


@pytest.mark.parametrize(
    ("reason", "follows"),
    [
        (Reason.CONNECTION_BROKEN, StartOver),
        (Reason.Q_MGR_QUIESCING, StartOver),
        (Reason.CALL_INTERRUPTED, StartOver),
        (Reason.OBJECT_IN_USE, TryAgain),
        (Reason.SUBSCRIPTION_IN_USE, TryAgain),
        (Reason.HANDLE_NOT_AVAILABLE, TryAgain),
        (Reason.UNKNOWN_OBJECT_NAME, NotReopened),
        (Reason.NOT_AUTHORIZED, NotReopened),
        (Reason.Q_DELETED, NotReopened),
        (Reason.DYNAMIC_Q_NAME_ERROR, NotReopened),
        (Reason.OPTIONS_ERROR, NotReopened),
    ],
)
def test_a_refused_open_starts_over_is_tried_again_or_is_reported(reason: Reason, follows: type[object]) -> None:
    assert follows is type(after_refusal(queue("ORDERS.IN"), error_for(reason, "MQOPEN", "ORDERS.IN")))


def test_the_report_names_the_object_the_reason_and_the_owner() -> None:
    refused = after_refusal(queue("ORDERS.IN"), error_for(Reason.UNKNOWN_OBJECT_NAME, "MQOPEN", "ORDERS.IN"))

    assert isinstance(refused, NotReopened)
    assert Reason.RECONNECT_FAILED == refused.error.reason
    for said in ("MQOPEN on ORDERS.IN", "MQRC_UNKNOWN_OBJECT_NAME (2085)", "listener ORDERS.IN is without it"):
        assert said in str(refused.error)


def test_the_report_names_a_dynamic_queue_and_not_its_model() -> None:
    refused = after_refusal(temporary("AMQ.2"), error_for(Reason.UNKNOWN_OBJECT_NAME, "MQOPEN", "REPLY.MODEL"))

    assert isinstance(refused, NotReopened)
    assert "MQOPEN on AMQ.2" in str(refused.error)


@given(st.sampled_from(Reason))
def test_no_reason_loses_an_entry(reason: Reason) -> None:
    entry = queue("A")

    follows = after_refusal(entry, MQIError(reason, "MQOPEN"))

    expected = (classify(reason) is Class.RECONNECT, entry)
    assert expected == (isinstance(follows, StartOver), entry if isinstance(follows, StartOver) else follows.entry)


# -- the accepted queue managers: CROPT (q111980), MQRC 2546

BEFORE = Reached("QM1", "QM1_2024-01-01")


@pytest.mark.parametrize(
    ("mode", "now", "reason"),
    [
        (Q_MGR, Reached("QM1", "QM1_2024-01-01"), None),
        (Q_MGR, Reached("QM1", "QM1_2025-05-05"), Reason.RECONNECT_QMID_MISMATCH),  # deleted and created again
        (Q_MGR, Reached("QM2", "QM2_2024-01-01"), Reason.RECONNECT_QMID_MISMATCH),
        (Q_MGR, Reached("QM1   ", ""), None),  # the QMID is unknown, so the names are compared
        (Q_MGR, Reached("QM2", ""), Reason.RECONNECT_QMID_MISMATCH),
        (ANY, Reached("QM2", "QM2_2024-01-01"), None),
    ],
)
def test_only_the_same_queue_manager_will_do_where_that_was_asked_for(
    mode: ReconnectMode, now: Reached, reason: Reason | None
) -> None:
    error = admit(mode, BEFORE, now)

    assert reason == (error.reason if error else None)
    assert error is None or now.name.rstrip() in str(error)


@pytest.mark.parametrize(
    ("mode", "options", "reason"),
    [
        (ANY, SubscribeOption.DURABLE, Reason.RECONNECT_Q_MGR_REQD),
        (ANY, SubscribeOption.MANAGED, Reason.RECONNECT_Q_MGR_REQD),  # ours: workers get from its queue on other connections
        (ANY, SubscribeOption.CREATE, Reason.NONE),
        (Q_MGR, SubscribeOption.DURABLE | SubscribeOption.MANAGED, Reason.NONE),
        (NO, SubscribeOption.DURABLE | SubscribeOption.MANAGED, Reason.NONE),
    ],
    ids=lambda value: f"q045540: {value!r}",
)
def test_a_subscription_that_could_not_be_replayed_is_refused_beforehand(
    mode: ReconnectMode, options: SubscribeOption, reason: Reason
) -> None:
    assert reason == unreplayable(mode, options)


# -- for all

entries = st.lists(
    st.one_of(
        st.builds(queue, st.sampled_from("AB"), session=st.sampled_from([MINE, OTHER])),
        st.builds(temporary, st.sampled_from(["AMQ.1", "AMQ.2"]), session=st.sampled_from([MINE, OTHER])),
        st.builds(by_name, st.sampled_from(["AMQ.1", "AMQ.2"]), session=st.sampled_from([MINE, OTHER])),
        st.builds(
            subscription,
            st.sampled_from([SubscribeOption.CREATE, SubscribeOption.CREATE | SubscribeOption.DURABLE]),
            to=st.none() | st.integers(1, 9),
        ),
    ),
    max_size=9,
)


@given(entries, st.sets(st.integers(1, 9)))
def test_every_open_handle_of_a_session_is_in_one_step_in_the_order_of_first_opening(
    made: list[Opened], closed_numbers: set[int]
) -> None:
    one = ledger(*made)
    for number in closed_numbers:
        one = closed(one, number)

    steps = replay(one, MINE)

    assert [entry for entry in one.entries if entry.session == MINE] == [step.entry for step in steps]


@given(entries)
def test_nothing_is_opened_by_a_name_that_nothing_made_before(made: list[Opened]) -> None:
    there: set[str] = set()
    for step in replay(ledger(*made), MINE):
        if isinstance(step, Reopen) and step.entry.temporary:
            assert step.dynamic_name or step.name in there
            there.add(step.entry.opened_name)
