"""`mqflow why` tells the story of a message in sentences, one event after the other."""

from typing import Any

import pytest
from msgspec.structs import replace

from mqflow.app.run.decision_ledger import Entry, MessageEvent
from mqflow.cli.text.story import entry_lines, last_disposal, sentences
from mqflow.events import (
    Attempt,
    DeadLetterActed,
    Decided,
    Delivered,
    Disposed,
    Edited,
    HandlerStuck,
    InDoubt,
    ListenerPaused,
    ReportSent,
    Settled,
    WaitsOnQueue,
)
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letters import actions
from mqflow.policy.dead_letters.actions import Ignore, Intent, Redirect
from mqflow.policy.poison.disposition import (
    Completed,
    DeadLetter,
    Deliver,
    Discard,
    Failed,
    Interrupted,
    Outcome,
    Requeue,
    Return,
    Settlement,
    Undecodable,
)
from mqflow.policy.poison.failure_origin import Raised

SENTENCES = [
    (Redirect("Q"), "line 3", 0, "The DLQ handler of DLQ put it to Q, by the rule of line 3, attempt 2."),
    (Redirect("Q"), "line 3", Reason.Q_FULL,
     "The DLQ handler of DLQ could not put it to Q (MQRC_Q_FULL (2053)), by the rule of line 3, attempt 2."),
    (actions.Discard(), "old", 0, "The DLQ handler of DLQ discarded it, by the rule of old, attempt 2."),
    (actions.Discard(), "old", Reason.BACKED_OUT,
     "The DLQ handler of DLQ could not discard it (MQRC_BACKED_OUT (2003)), by the rule of old, attempt 2."),
    (Ignore(), "line 3", 0, "The DLQ handler leaves it on DLQ: the action of line 3."),
    (Ignore(), "", 0, "The DLQ handler leaves it on DLQ: no further rule matches."),
]  # fmt: skip


@pytest.mark.parametrize(("intent", "rule", "reason", "expected"), SENTENCES)
def test_an_action_of_the_dlq_handler_is_a_sentence(intent: Intent, rule: str, reason: int, expected: str) -> None:
    event = DeadLetterActed(queue="DLQ", message_id=b"", rule=rule, intent=intent, attempt=2, reason=reason)

    assert [expected] == list(sentences(event))


BOOK: dict[str, Any] = {"queue": "IN", "message_id": b"1", "listener": "book"}
FAILED = Failed("ValueError", "no stock", raised=Raised("book.py:7 in book"))
PLAN = (Requeue("BOQ"), Return("neither the backout requeue queue nor the dead-letter queue took it"))
DECIDED = Decided(
    **BOOK, backout_count=3, threshold=3, threshold_source="BOTHRESH of IN", backout_requeue_queue="BOQ",
    queue_source="BOQNAME of IN", plan=PLAN, outcome=FAILED,
)  # fmt: skip
DELIVER = Decided(
    **BOOK, backout_count=1, threshold=0, threshold_source="", backout_requeue_queue="", queue_source="", plan=(Deliver(),)
)
DISPOSED = Disposed(
    **BOOK,
    backout_count=3,
    attempts=(Attempt(Requeue("BOQ"), Reason.Q_FULL, "BOQ has 5,000 messages"), Attempt(DeadLetter("DLQ", 2053))),
    outcome=FAILED,
)
STORY: list[tuple[MessageEvent, list[str]]] = [
    (Delivered(**BOOK, backout_count=2, body_bytes=1_247), ["Delivery 3: book got it from IN (1,247 bytes)."]),
    (
        DECIDED,
        [
            "Decided at count 3, threshold 3 (BOTHRESH of IN): move it to BOQ, else leave it on its queue.",
            "The backout requeue queue is BOQ (BOQNAME of IN).",
            "The outcome of its handling: failed with ValueError: no stock (book.py:7 in book).",
        ],
    ),
    (DELIVER, ["Decided at count 1, no threshold: deliver it."]),
    (
        DISPOSED,
        [
            ("Disposed of at count 3: move it to the dead-letter queue DLQ. The outcome of its handling: failed with "
            "ValueError: no stock (book.py:7 in book)."),
            "move it to BOQ: refused with MQRC_Q_FULL (2053) (BOQ has 5,000 messages).",
            "move it to the dead-letter queue DLQ: done.",
        ],
    ),
    (
        Disposed(**BOOK, backout_count=0, attempts=(Attempt(Return("no DEADQ")),)),
        ["Disposed of at count 0: leave it on its queue (no DEADQ).", "leave it on its queue (no DEADQ): done."],
    ),
    (
        WaitsOnQueue(**BOOK, backout_count=2, after_s=1.5, staging_queue="STAGE"),
        ["Waits on STAGE for 1.5 s; its BackoutCount is then 2."],
    ),
    (
        InDoubt(queue="IN", listener="book", reason=Reason.CONNECTION_BROKEN, message_ids=(b"1",)),
        [
            ("In doubt: the commit ended with MQRC_CONNECTION_BROKEN (2009), so it is committed or backed out. "
            "It is not repeated.")
        ],
    ),
    (
        ReportSent(queue="IN", message_id=b"1", reply_to_queue="ANSWERS", feedback=2053),
        ["Exception report put to ANSWERS (feedback 2053)."],
    ),
    (
        ReportSent(queue="IN", message_id=b"1", reply_to_queue="ANSWERS", feedback=2053, reason=Reason.PUT_INHIBITED),
        ["The exception report for ANSWERS could not be put: MQRC_PUT_INHIBITED (2051)."],
    ),
    (
        ListenerPaused(queue="IN", listener="book", why="the database is away", delay_s=2.5, message_id=b"1"),
        ["book pauses for 2.5 s, and the message stays on IN: the database is away."],
    ),
    (HandlerStuck(**BOOK, running_s=61.4, stack=""), ["The handler of book has been running for 61 s."]),
    (
        Edited(
            queue="BOQ", message_id=b"1", target="IN", by="amelie@host7",
            sha256_before="ab", sha256="cd", body_bytes_before=1_000, body_bytes=2_000,
        ),
        [
            "amelie@host7 edited it on BOQ and put it on IN.",
            "The body before: 1,000 bytes, SHA-256 ab.",
            "The body after: 2,000 bytes, SHA-256 cd.",
        ],
    ),
]  # fmt: skip


def test_a_plan_does_not_give_the_reason_of_a_step_that_is_not_tried_yet() -> None:
    plan = (Requeue("BOQ"), Discard("the dead-letter queue did not take it"))

    first, *_ = sentences(replace(DECIDED, plan=plan))

    assert first.endswith("(BOTHRESH of IN): move it to BOQ, else discard it.")


@pytest.mark.parametrize(("event", "expected"), STORY, ids=[type(event).__name__ for event, _ in STORY])
def test_each_event_has_its_sentences(event: MessageEvent, expected: list[str]) -> None:
    assert expected == list(sentences(event))


@pytest.mark.parametrize(
    ("settlement", "outcome", "expected"),
    [(Settlement.COMMIT, Completed(), "Committed: completed."),
     (Settlement.COMMIT, None, "Committed: found poison before delivery."),
     (Settlement.COMMIT, Failed("OSError"), "Committed, without the work of the handler: failed with OSError."),
     (Settlement.COMMIT, Undecodable("DecodeError", "no JSON"),
      "Committed, without the work of the handler: undecodable, DecodeError: no JSON."),
     (Settlement.BACKOUT, Failed("OSError", "away"), "Backed out: failed with OSError: away."),
     (Settlement.BACKOUT, Interrupted("the drain has ended"), "Backed out: interrupted: the drain has ended.")],
)  # fmt: skip
def test_the_sentence_of_a_settlement_has_the_outcome(settlement: Settlement, outcome: Outcome | None, expected: str) -> None:
    event = Settled(queue="IN", listener="book", settlement=settlement, message_ids=(b"1",), outcome=outcome)

    assert [expected] == list(sentences(event))


def test_an_entry_has_its_time_to_the_millisecond() -> None:
    event = ReportSent(queue="IN", message_id=b"1", reply_to_queue="ANSWERS", feedback=1)

    at, told = entry_lines(Entry(1_795_000_000.0625, b"1", event))

    assert ("2026-11-18 11:06:40.062", ("Exception report put to ANSWERS (feedback 1).",)) == (at, told)


def test_the_last_disposal_is_the_reason_why_a_message_is_on_its_queue() -> None:
    first = Disposed(**BOOK, backout_count=1, attempts=(Attempt(Requeue("FIRST")),))
    events: tuple[MessageEvent, ...] = (first, DISPOSED, DECIDED)
    entries = [Entry(at, b"1", event) for at, event in enumerate(events)]

    assert tuple(sentences(DISPOSED)) == last_disposal(entries, "BOQ")
    assert () == last_disposal([Entry(1.0, b"1", DECIDED)], "BOQ")
