"""Delivery delay, sentence by sentence of IBM's page "JMS 2.0 delivery delay"; `ours` marks gaps of the page."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from mqflow.mqi.descriptor import EXPIRY_UNLIMITED, NO_ID, MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.headers.delay import DELAY_HEADER_BYTES, FORMAT, DelayHeader, parse
from mqflow.mqi.options import MessageFlag, MessageType, Persistence, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.delivery_delay import (
    DELAY_MS_MAX,
    ClockReading,
    Plan,
    TargetQueue,
    check_delay,
    check_target,
    delay_in_ms,
    due_in_ms,
    has_expired,
    on_refused,
    on_report_refused,
    owes_exception_report,
    postponed,
    restored,
    retry_in_ms,
    staged,
)
from mqflow.policy.poison.disposition import DeadLetter, Discard, Return

DLQ = "DEAD.LETTERS"
BOOT = b"one start of one"
SENT = ClockReading(wall_ms=1_800_000_000_000, monotonic_ms=50_000, epoch=BOOT)
ORDER = MessageDescriptor(
    report=Report.COD | Report.EXCEPTION_WITH_DATA, message_type=MessageType.REQUEST, expiry_tenths=200, ccsid=819,
    format="MQSTR", priority=7, persistence=Persistence.PERSISTENT, message_id=b"M" * 24, correlation_id=b"C" * 24,
    reply_to_queue="REPLIES", user_identifier="alice",
)  # fmt: skip
SUBSCRIPTION = b"S" * 24


def later(elapsed_ms: int, *, jumped_ms: int = 0, epoch: bytes = BOOT) -> ClockReading:
    monotonic_ms = SENT.monotonic_ms + elapsed_ms if epoch == BOOT else 7
    return ClockReading(wall_ms=SENT.wall_ms + elapsed_ms + jumped_ms, monotonic_ms=monotonic_ms, epoch=epoch)


def header_of(descriptor: MessageDescriptor = ORDER, delay_ms: int = 5_000) -> DelayHeader:
    _, body = staged(descriptor, b"a body", target="ORDERS", delay_ms=delay_ms, now=SENT)
    return parse(body)


# -- the messages that may be sent


class Refused(Struct, frozen=True, kw_only=True):
    """One restriction: a message, and the reason why it is refused, or 0 if it is accepted."""

    sentence: str
    reason: int
    delay_ms: int = 5_000
    expiry_tenths: int = EXPIRY_UNLIMITED
    flags: int = 0
    retained: bool = False
    delivery_all_available: bool = True


RESTRICTIONS = (
    Refused(sentence="a time to live less than the delay", expiry_tenths=49, reason=Reason.EXPIRY_ERROR),
    Refused(sentence="a time to live equal to the delay is not less", expiry_tenths=50, reason=Reason.NONE),
    Refused(sentence="a time to live of zero", expiry_tenths=0, reason=Reason.EXPIRY_ERROR),
    Refused(sentence="a time to live and a delay of zero", expiry_tenths=1, delay_ms=0, reason=Reason.NONE),
    Refused(sentence="no time to live", reason=Reason.NONE),
    Refused(sentence="retained publications", retained=True, reason=Reason.OPTIONS_ERROR),
    Refused(sentence="retained, and a delay of zero", retained=True, delay_ms=0, reason=Reason.NONE),
    Refused(sentence="message grouping", flags=MessageFlag.MSG_IN_GROUP, reason=Reason.OPTIONS_ERROR),
    Refused(sentence="message grouping, the last", flags=MessageFlag.LAST_MSG_IN_GROUP, reason=Reason.OPTIONS_ERROR),
    Refused(sentence="ours: segments", flags=MessageFlag.SEGMENT, reason=Reason.OPTIONS_ERROR),
    Refused(sentence="segmentation only allowed", flags=MessageFlag.SEGMENTATION_ALLOWED, reason=Reason.NONE),
    Refused(
        sentence="supported only if (N)PMSGDLV = ALLAVAIL", delivery_all_available=False, reason=Reason.PUBLICATION_FAILURE
    ),
)


def reason_of(send: object) -> int:
    """Return the reason with which the call was refused, or 0."""
    assert callable(send)
    try:
        send()
    except MQIError as error:
        return int(error.reason)
    return int(Reason.NONE)


@pytest.mark.parametrize("row", RESTRICTIONS, ids=lambda row: row.sentence)
def test_restriction(row: Refused) -> None:
    descriptor = replace(ORDER, expiry_tenths=row.expiry_tenths, message_flags=row.flags)

    def send() -> None:
        check_delay(row.delay_ms, descriptor, retained=row.retained, delivery_all_available=row.delivery_all_available)

    assert row.reason == reason_of(send)


TARGETS = (
    ("basic checks: the queue is put disabled", TargetQueue(put_inhibited=True), Reason.PUT_INHIBITED),
    ("basic checks: the message is bigger than the maximum", TargetQueue(max_message_bytes=9), Reason.MSG_TOO_BIG_FOR_Q),
    ("basic checks: as big as the maximum", TargetQueue(max_message_bytes=10), Reason.NONE),
    ("basic checks: the queue is full", TargetQueue(depth=5, max_depth=5), Reason.Q_FULL),
    ("basic checks: room for one more", TargetQueue(depth=4, max_depth=5), Reason.NONE),
    ("clustered destinations that are bound", TargetQueue(clustered_and_bound=True), Reason.OPTIONS_ERROR),
    ("ours: what cannot be inquired is not held against it", TargetQueue(), Reason.NONE),
)


@pytest.mark.parametrize(("sentence", "target", "reason"), TARGETS, ids=[row[0] for row in TARGETS])
def test_check_of_the_target_at_the_send(sentence: str, target: TargetQueue, reason: int) -> None:
    assert reason == reason_of(lambda: check_target(target, 10, name="ORDERS"))


@pytest.mark.parametrize(
    "delay", [-1, -0.001, float("nan"), float("inf"), 10**400, timedelta(days=-1), DELAY_MS_MAX / 1_000 + 1, "5", b"5", "5m"]
)
def test_the_error_for_an_invalid_delay_names_the_accepted_values(delay: timedelta | float) -> None:
    with pytest.raises(MQIError, match=r"ORDERS.*MQRC_OPTIONS_ERROR \(2046\).*0 to \d+ seconds") as refused:
        delay_in_ms(delay, "ORDERS")

    assert Reason.OPTIONS_ERROR == refused.value.reason


@pytest.mark.parametrize(
    ("delay", "expected"), [(0, 0), (5, 5_000), (0.1 + 0.2, 300), (0.0001, 1), (timedelta(minutes=1), 60_000)]
)
def test_a_delay_is_whole_milliseconds_rounded_up(delay: timedelta | float, expected: int) -> None:
    assert expected == delay_in_ms(delay)


# -- the staged message


def test_the_original_msgid_is_in_the_correlid_and_the_staged_message_has_a_new_one() -> None:
    descriptor, _ = staged(ORDER, b"a body", target="ORDERS", delay_ms=5_000, now=SENT)

    assert (NO_ID, ORDER.message_id) == (descriptor.message_id, descriptor.correlation_id)
    assert descriptor.format == FORMAT


def test_a_staged_message_neither_expires_nor_reports_by_itself() -> None:
    descriptor, _ = staged(ORDER, b"a body", target="ORDERS", delay_ms=5_000, now=SENT)

    assert (EXPIRY_UNLIMITED, Report.NONE) == (descriptor.expiry_tenths, descriptor.report)


def test_a_staged_message_keeps_the_fields_that_the_staging_queue_does_not_use() -> None:
    descriptor, _ = staged(ORDER, b"a body", target="ORDERS", delay_ms=5_000, now=SENT)
    kept = ("message_type", "priority", "persistence", "reply_to_queue", "user_identifier")

    assert [getattr(ORDER, field) for field in kept] == [getattr(descriptor, field) for field in kept]


bits = st.integers(0, 2**30)
identifiers = st.binary(min_size=24, max_size=24)


@given(
    st.builds(MessageDescriptor, report=bits, message_flags=bits, encoding=bits, ccsid=bits,
              format=st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ", max_size=8), priority=st.integers(0, 9),
              persistence=st.integers(0, 1), message_id=identifiers, correlation_id=identifiers,
              reply_to_queue=st.text("ABC", max_size=48)),
    st.binary(max_size=50),
)  # fmt: skip
def test_everything_is_restored_on_delivery(descriptor: MessageDescriptor, body: bytes) -> None:
    on_queue, data = staged(descriptor, body, target="ORDERS", delay_ms=5_000, now=SENT)
    got = replace(on_queue, message_id=b"N" * 24, backout_count=3)

    assert (descriptor, body) == restored(got, parse(data), data, later(5_000))


SET_BACK = later(-10, epoch=b"another start of")


@pytest.mark.parametrize(
    ("now", "left_tenths"),
    [(later(15_000), 50), (later(5_000), 150), (later(19_999), 1), (later(20_000), 1), (SET_BACK, 200)],
    ids=str,
)
def test_the_expiry_counts_from_the_send_and_not_from_the_delivery(now: ClockReading, left_tenths: int) -> None:
    descriptor, body = staged(ORDER, b"", target="ORDERS", delay_ms=5_000, now=SENT)

    sent, _ = restored(descriptor, parse(body), body, now)

    assert left_tenths == sent.expiry_tenths


@pytest.mark.parametrize(
    ("expiry_tenths", "elapsed_ms", "expected"), [(200, 19_999, False), (200, 20_000, True), (EXPIRY_UNLIMITED, 10**12, False)]
)
def test_a_message_expires_on_the_staging_queue_when_its_time_to_live_is_over(
    expiry_tenths: int, elapsed_ms: int, *, expected: bool
) -> None:
    assert expected is has_expired(header_of(replace(ORDER, expiry_tenths=expiry_tenths)), later(elapsed_ms))


def test_a_staged_body_is_the_header_and_the_body() -> None:
    _, body = staged(ORDER, b"a body", target="ORDERS", delay_ms=5_000, now=SENT)

    assert b"a body" == body[DELAY_HEADER_BYTES:]


# -- the due time


@given(st.integers(0, 10**13), st.integers(0, 10**10), st.integers(-(10**14), 10**14))
def test_no_jump_of_the_wall_clock_makes_a_message_early_or_late(delay_ms: int, elapsed_ms: int, jumped_ms: int) -> None:
    assert delay_ms - elapsed_ms == due_in_ms(header_of(delay_ms=delay_ms), later(elapsed_ms, jumped_ms=jumped_ms))


@given(st.integers(0, 10**13), st.integers(0, 10**10))
def test_after_a_restart_of_the_machine_the_wall_clock_counts(delay_ms: int, elapsed_ms: int) -> None:
    assert delay_ms - elapsed_ms == due_in_ms(header_of(delay_ms=delay_ms), later(elapsed_ms, epoch=b"another start of"))


@given(st.integers(0, 10**13), st.integers(0, 10**10), st.integers(0, 10**14))
def test_a_clock_set_back_over_a_restart_never_costs_more_than_the_delay_again(
    delay_ms: int, elapsed_ms: int, back_ms: int
) -> None:
    now = later(elapsed_ms, jumped_ms=-back_ms, epoch=b"another start of")

    assert due_in_ms(header_of(delay_ms=delay_ms), now) <= delay_ms


@given(st.integers(1, 10**13), st.integers(0, 10**10), st.integers(0, 10**14))
def test_a_clock_set_back_over_a_restart_makes_a_message_late_by_as_much(delay_ms: int, up_ms: int, back_ms: int) -> None:
    up_ms = min(up_ms, delay_ms)
    back_ms = min(back_ms, SENT.wall_ms)

    def after_the_restart(passed_ms: int) -> ClockReading:
        return later(up_ms + passed_ms, jumped_ms=-back_ms, epoch=b"another start of")

    header, due_ms = header_of(delay_ms=delay_ms), delay_ms - up_ms + back_ms
    assert due_in_ms(header, after_the_restart(due_ms)) <= 0
    assert due_ms == 0 or due_in_ms(header, after_the_restart(due_ms - 1)) > 0
    # After its correction, a clock gives the same result as if it had never been wrong.
    assert delay_ms - up_ms - 5 == due_in_ms(header, later(up_ms + 5, epoch=b"another start of"))


def test_a_moment_without_an_epoch_is_compared_by_the_wall_clock() -> None:
    _, body = staged(ORDER, b"", target="ORDERS", delay_ms=5_000, now=replace(SENT, epoch=bytes(16)))
    now = ClockReading(wall_ms=SENT.wall_ms + 1_000, monotonic_ms=10**9, epoch=bytes(16))

    assert 4_000 == due_in_ms(parse(body), now)


# -- failure to put to the target queue


class Failure(Struct, frozen=True, kw_only=True):
    """One sentence of "Failure to put to target queue": the refused puts, and the disposition of the message."""

    sentence: str
    expected: type[DeadLetter | Discard | Return]
    report: int = Report.NONE
    dead_letter_queue: str = DLQ
    dead_letter_queue_refuses: bool = False
    publication: bool = False
    subscriber_gone: bool = False
    reported: bool = True


FAILURES = (
    Failure(sentence="as its report options say: sent to the dead letter queue", expected=DeadLetter),
    Failure(sentence="as its report options say: discarded", report=Report.DISCARD_MSG, expected=Discard),
    Failure(sentence="if this action fails, an attempt is made to put the message later", dead_letter_queue_refuses=True,
            expected=Return, reported=False),
    Failure(sentence="ours: without a dead letter queue the action fails", dead_letter_queue="", expected=Return,
            reported=False),
    Failure(sentence="a delayed publication whose subscriber has unsubscribed is discarded silently", publication=True,
            subscriber_gone=True, expected=Discard),
    Failure(sentence="a publication that cannot be delivered is put to the dead letter queue", publication=True,
            expected=DeadLetter),
    Failure(sentence="a publication that the dead letter queue refuses is discarded", publication=True,
            dead_letter_queue_refuses=True, expected=Discard),
    Failure(sentence="ours: a publication without a dead letter queue is discarded", publication=True, dead_letter_queue="",
            expected=Discard),
)  # fmt: skip


def carried_out(plan: Plan, *, refuses: bool) -> DeadLetter | Discard | Return:
    return next(step for step in plan if not (refuses and isinstance(step, DeadLetter)))


@pytest.mark.parametrize("row", FAILURES, ids=lambda row: row.sentence)
def test_failure_to_put_to_the_target(row: Failure) -> None:
    _, body = staged(
        replace(ORDER, report=row.report),
        b"",
        target="ORDERS",
        delay_ms=1,
        now=SENT,
        subscription_id=SUBSCRIPTION if row.publication else NO_ID,
    )
    plan = on_refused(
        parse(body), reason=Reason.Q_FULL, dead_letter_queue=row.dead_letter_queue, subscriber_gone=row.subscriber_gone
    )

    done = carried_out(plan, refuses=row.dead_letter_queue_refuses)

    assert row.expected is type(done)
    assert row.reported is owes_exception_report(done)


@given(report=bits, dead_letter_queue=st.sampled_from(["", DLQ]), publication=st.booleans(), gone=st.booleans())
def test_a_plan_never_ends_with_a_put(report: int, dead_letter_queue: str, *, publication: bool, gone: bool) -> None:
    _, body = staged(
        replace(ORDER, report=report),
        b"",
        target="ORDERS",
        delay_ms=1,
        now=SENT,
        subscription_id=SUBSCRIPTION if publication else NO_ID,
    )

    plan = on_refused(parse(body), reason=Reason.Q_FULL, dead_letter_queue=dead_letter_queue, subscriber_gone=gone)

    assert not isinstance(plan[-1], DeadLetter)


@pytest.mark.parametrize(("persistence", "backs_out"), [(Persistence.PERSISTENT, True), (Persistence.NOT_PERSISTENT, False)])
def test_a_refused_report_backs_out_a_persistent_message_and_is_dropped_for_any_other(
    persistence: Persistence, *, backs_out: bool
) -> None:
    error = error_for(Reason.Q_FULL, "MQPUT1", DLQ)

    assert (error if backs_out else None) is on_report_refused(replace(ORDER, persistence=persistence), error)


@pytest.mark.parametrize("delay", ["1h", None, object()])
def test_a_delay_that_is_no_number_is_refused_with_what_a_delay_is(delay: Any) -> None:
    with pytest.raises(MQIError, match=r"2046.*a timedelta: timedelta\(hours=1\)"):
        delay_in_ms(delay)


def test_a_staged_message_cannot_be_delayed_again() -> None:
    with pytest.raises(MQIError, match="A staged message is delayed already") as refused:
        check_delay(1, replace(ORDER, format=FORMAT))

    assert Reason.OPTIONS_ERROR == refused.value.reason


@given(st.integers(0, 10_000_000), st.integers(0, 100_000))
def test_a_postponed_message_is_due_after_its_pause_from_now(elapsed_ms: int, retry_ms: int) -> None:
    _, body = staged(ORDER, b"a body", target="ORDERS", delay_ms=5_000, now=SENT)
    now = later(max(elapsed_ms, 5_000))

    again = postponed(parse(body), body, now, retry_ms=retry_ms)

    assert retry_ms == due_in_ms(parse(again), now)
    assert body[DELAY_HEADER_BYTES:] == again[DELAY_HEADER_BYTES:]


@pytest.mark.parametrize(
    ("postponed_ms", "expected_ms"), [(0, 1_000), (999, 1_000), (1_001, 1_001), (60_000, 60_000), (60_001, 60_000)]
)
def test_a_refused_message_waits_as_long_again_within_a_second_and_a_minute(postponed_ms: int, expected_ms: int) -> None:
    assert expected_ms == retry_in_ms(replace(header_of(), retry_ms=postponed_ms))
