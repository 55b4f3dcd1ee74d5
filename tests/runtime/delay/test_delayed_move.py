"""One move of a staged message, as a whole: its result, its record, and what is on each queue after the settlement."""

import re
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import pytest
from msgspec.structs import replace

from mqflow.embedded import mqsc
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import DelayedDelivered, DelayedRefused, ReportSent
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.headers import dead_letter
from mqflow.mqi.headers import delay as delay_header
from mqflow.mqi.options import Feedback, GetOption, MatchOption, MessageType, Persistence, PutOption, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.delivery_delay import due_in_ms
from mqflow.policy.poison import disposition_record
from mqflow.policy.poison.disposition import DeadLetter, Discard, Disposition, Return, Settlement
from mqflow.policy.poison.disposition_record import RecordOutcome
from mqflow.runtime.connection.open_objects import INPUT
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.runtime.delay.delayed_move import DelayedMove, DelayedResult, check_alternate_user
from mqflow.runtime.delay.stage import Stager, moment
from mqflow.testing.faults import Fault, Faults
from mqflow.testing.virtual_clock import EPOCH_S, SeededRandom, VirtualClock
from mqflow.verbs import GetOptions
from mqflow.world import World
from tests.queue_contents import browsed

QUEUES = "\n".join(f"DEFINE QLOCAL({queue})" for queue in ("LATER", "STAGED", "REPLIES", "DLQ", "RECORDS"))
SENT = MessageDescriptor(message_type=MessageType.REQUEST, reply_to_queue="REPLIES", persistence=Persistence.PERSISTENT)
TRIED_LATER = Return("Neither its queue nor the dead-letter queue took it: it is tried again later")


class Bench:
    """A message for LATER on the staging queue, due in a minute, and a processor's move on a connection."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.world = World(self.clock, SeededRandom(1))
        self.queue_manager = EmbeddedQueueManager("QM1", world=World(self.clock))
        self.mqsc(QUEUES)
        self.faults = Faults()
        self.connection = self.faults.wrap(self.queue_manager).connect()
        self.records = ConnectionRecorder("RECORDS", consumer="processor", world=self.world)
        handle = self.connection.open("STAGED", INPUT)
        self.move = DelayedMove(self.connection, handle, "STAGED", self.clock, "shop", self.records)

    def mqsc(self, script: str) -> None:
        assert 0 == mqsc.run(script, self.queue_manager.administration).exit_code()

    def stage(self, **changes: Any) -> bytes:
        """Stage the message; return its MsgId on the staging queue."""
        stager = Stager("STAGED", self.world)
        put = stager.put_on(self.connection, "LATER", replace(SENT, **changes), b"order", 60_000)
        self.connection.commit()
        self.sent_id = put.descriptor.message_id
        [staged] = self.on("STAGED")
        message_id: bytes = staged.descriptor.message_id
        return message_id

    def forge(self, message_id: bytes, by: Any = None, **fields: Any) -> bytes:
        """Put the staged message again, with other fields of its header, as this connection; return its new MsgId."""
        asked = GetOptions(options=GetOption.NO_SYNCPOINT, match=MatchOption.MSG_ID, message_id=message_id)
        got = self.connection.get(self.move.handle, asked)
        assert got is not None
        header = replace(delay_header.parse(got.body), **fields)
        body = delay_header.to_bytes(header) + got.body[delay_header.DELAY_HEADER_BYTES :]
        put = (by or self.connection).put1("STAGED", got.descriptor, body, PutOption.NO_SYNCPOINT | PutOption.NEW_MSG_ID)
        made: bytes = put.descriptor.message_id
        return made

    def on(self, queue: str) -> list[Any]:
        """Return the messages of a queue, without removing them."""
        return browsed(self.queue_manager, queue)

    def depths(self) -> Mapping[str, int]:
        return {queue: depth for queue in ("STAGED", "LATER", "REPLIES", "DLQ") if (depth := len(self.on(queue)))}

    def refused(self, disposition: Disposition, reason: int, detail: str) -> DelayedRefused:
        return DelayedRefused(queue="LATER", message_id=self.sent_id, disposition=disposition, reason=reason, detail=detail)

    def report(self, feedback: int, reason: int = 0) -> ReportSent:
        return ReportSent(queue="LATER", message_id=self.sent_id, reply_to_queue="REPLIES", feedback=feedback, reason=reason)


@pytest.fixture
def bench() -> Bench:
    return Bench()


INHIBITED = "MQPUT1 on LATER (QM1) failed: MQRC_PUT_INHIBITED (2051)."


def without_record(result: DelayedResult | None) -> DelayedResult:
    assert result is not None
    events = [
        replace(event, detail=event.detail.partition(").")[0] + ").") if isinstance(event, DelayedRefused) else event
        for event in result.events
    ]
    return replace(result, record=None, events=tuple(events))


def recorded(result: DelayedResult | None) -> dict[str, Any]:
    """Return the fields of the record that the move decides."""
    assert result is not None
    assert result.record is not None
    names = ("outcome", "queue", "qmgr", "msg_len", "delay_req_ms", "event_ts", "due_ts", "mqrc", "target_queue")
    return {name: value for name in names if (value := getattr(result.record, name)) is not None}


def record(outcome: RecordOutcome, at_s: float, **more: Any) -> dict[str, Any]:
    at_us = round((EPOCH_S + at_s) * 1e6)
    of_message = {"queue": "LATER", "qmgr": "QM1", "msg_len": 5, "delay_req_ms": 60_000}
    return {"outcome": outcome, "event_ts": at_us, **of_message, **more}


@pytest.mark.parametrize(("own_unit", "at_s", "late_ms"), [(True, 61.5, 1_500), (False, 61.5, 1_500), (True, 59.5, 0)])
def test_a_due_message_is_put_on_its_target_with_its_own_identity(
    bench: Bench, at_s: float, late_ms: int, *, own_unit: bool
) -> None:
    message_id = bench.stage()
    bench.clock.advance(at_s)

    moved = bench.move.deliver(message_id, own_unit=own_unit)
    bench.connection.commit()

    delivered = DelayedDelivered(queue="LATER", message_id=bench.sent_id, delay_ms=60_000, late_ms=late_ms)
    assert DelayedResult(Settlement.COMMIT, (delivered,), 5) == without_record(moved)
    due_us = round((EPOCH_S + 60) * 1e6)
    assert record(RecordOutcome.RELEASED, at_s, due_ts=due_us) == recorded(moved)
    [there] = bench.on("LATER")
    assert (b"order", bench.sent_id, "REPLIES") == (there.body, there.descriptor.message_id, there.descriptor.reply_to_queue)
    assert {"LATER": 1} == bench.depths()


def test_the_answer_to_the_sender_has_the_reply_to_queue_of_the_message_on_its_queue(bench: Bench) -> None:
    """q023100: a reply-to queue alias is resolved when the message is put."""
    bench.mqsc("DEFINE QREMOTE(REPLIES.ALIAS) RNAME(REPLIES) RQMNAME(FAR)")
    asked = replace(SENT, reply_to_queue="REPLIES.ALIAS")
    put = Stager("STAGED", bench.world).put_on(bench.connection, "LATER", asked, b"order", 60_000)
    bench.connection.commit()
    [staged] = bench.on("STAGED")
    bench.clock.advance(61)
    bench.move.deliver(staged.descriptor.message_id, own_unit=True)
    bench.connection.commit()

    [there] = bench.on("LATER")
    for each in (put.descriptor, there.descriptor):
        assert ("REPLIES", "FAR") == (each.reply_to_queue, each.reply_to_queue_manager)


def test_a_message_that_another_processor_has_moved_is_gone(bench: Bench) -> None:
    bench.stage()

    assert (None, False) == (bench.move.deliver(b"\x07" * 24), bench.move.postpone(b"\x07" * 24))
    assert {"STAGED": 1} == bench.depths()
    assert [] == bench.on("RECORDS")


@pytest.mark.parametrize(
    ("late_s", "asked", "depths"),
    [
        pytest.param(69.9, Report.EXPIRATION, {"LATER": 1}, id="it is not over"),
        pytest.param(70.0, Report.EXPIRATION, {"REPLIES": 1}, id="it is over, and the sender wants to know"),
        pytest.param(70.0, Report.NONE, {}, id="it is over"),
    ],
)
def test_a_message_whose_expiry_is_over_is_removed_with_the_report_that_its_sender_asked_for(
    bench: Bench, late_s: float, asked: Report, depths: dict[str, int]
) -> None:
    message_id = bench.stage(expiry_tenths=700, report=asked)
    bench.clock.advance(late_s)

    moved = bench.move.deliver(message_id)
    bench.connection.commit()

    assert depths == bench.depths()
    if "LATER" not in depths:
        sent = (bench.report(Feedback.EXPIRATION),) if depths else ()
        assert DelayedResult(Settlement.COMMIT, sent) == without_record(moved)
        assert record(RecordOutcome.EXPIRED, late_s) == recorded(moved)


@pytest.mark.parametrize(
    ("script", "asked", "disposition", "outcome", "depths"),
    [pytest.param("", Report.NONE, TRIED_LATER, None, {"STAGED": 1}, id="no dead-letter queue"),
     pytest.param("ALTER QMGR DEADQ(DLQ)\nALTER QLOCAL(DLQ) PUT(DISABLED)", Report.EXCEPTION, TRIED_LATER, None, {"STAGED": 1},
         id="the dead-letter queue refuses it too"),
     pytest.param("ALTER QMGR DEADQ(DLQ)", Report.NONE, DeadLetter("DLQ", 2051), RecordOutcome.DEAD_LETTERED, {"DLQ": 1},
         id="a dead-letter queue"),
     pytest.param("ALTER QMGR DEADQ(DLQ)", Report.EXCEPTION, DeadLetter("DLQ", 2051), RecordOutcome.DEAD_LETTERED,
         {"REPLIES": 1, "DLQ": 1}, id="a dead-letter queue and a report"),
     pytest.param("ALTER QMGR DEADQ(DLQ)", Report.EXCEPTION | Report.DISCARD_MSG,
         Discard("MQRO_DISCARD_MSG: its sender asked for it"), RecordOutcome.DISCARDED, {"REPLIES": 1},
         id="its sender wants no dead letter")],
)  # fmt: skip
def test_a_message_that_its_target_refuses_is_disposed_of_as_its_sender_asked(
    bench: Bench, script: str, asked: Report, disposition: Disposition, outcome: RecordOutcome | None, depths: dict[str, int]
) -> None:
    message_id = bench.stage(report=asked)
    bench.mqsc(f"ALTER QLOCAL(LATER) PUT(DISABLED)\n{script}")
    bench.clock.advance(60)

    together = bench.move.deliver(message_id, own_unit=False)
    bench.connection.backout()
    moved = bench.move.deliver(message_id)
    (bench.connection.backout if outcome is None else bench.connection.commit)()

    refused = bench.refused(disposition, 2051, INHIBITED)
    assert DelayedResult(Settlement.BACKOUT) == together
    assert depths == bench.depths()
    if outcome is None:
        assert DelayedResult(Settlement.BACKOUT, (refused,), reason=2051) == without_record(moved)
        return
    report = (bench.report(2051),) if "REPLIES" in depths else ()
    assert DelayedResult(Settlement.COMMIT, (refused, *report)) == without_record(moved)
    more = {"target_queue": "DLQ"} if "DLQ" in depths else {}
    assert record(outcome, 60, mqrc=2051, **more) == recorded(moved)
    for letter in bench.on("DLQ"):
        header = dead_letter.parse(letter.body, encoding=letter.descriptor.encoding)
        assert (2051, "LATER", "QM1", "shop") == (
            header.reason,
            header.destination_queue,
            header.destination_queue_manager,
            header.put_application_name,
        )


@pytest.mark.parametrize(
    ("persistence", "dead_letter_queue", "depths"),
    [
        pytest.param(Persistence.PERSISTENT, "DLQ", {"DLQ": 1}, id="the dead-letter queue takes the report"),
        pytest.param(Persistence.NOT_PERSISTENT, "", {}, id="the report on a non-persistent message is lost"),
        pytest.param(Persistence.PERSISTENT, "", {"STAGED": 1}, id="the persistent message stays with its report"),
    ],
)
def test_a_report_that_its_reply_queue_refuses(
    bench: Bench, persistence: Persistence, dead_letter_queue: str, depths: dict[str, int]
) -> None:
    message_id = bench.stage(expiry_tenths=700, report=Report.EXPIRATION, persistence=persistence)
    bench.mqsc(f"ALTER QLOCAL(REPLIES) PUT(DISABLED)\nALTER QMGR DEADQ('{dead_letter_queue or ' '}')")
    bench.clock.advance(80)

    together = bench.move.deliver(message_id, own_unit=False)
    bench.connection.backout()
    moved = bench.move.deliver(message_id)
    stays = "STAGED" in depths
    (bench.connection.backout if stays else bench.connection.commit)()

    assert DelayedResult(Settlement.BACKOUT) == without_record(together)
    assert depths == bench.depths()
    result = without_record(moved)
    if stays:
        [refused] = result.events
        assert isinstance(refused, DelayedRefused)
        assert isinstance(refused.disposition, Return)
        assert (Settlement.BACKOUT, 2051) == (result.settlement, refused.reason)
        assert refused.disposition.why.startswith("No queue took its report. MQ")
    else:
        assert DelayedResult(Settlement.COMMIT, (bench.report(Feedback.EXPIRATION, 2051),)) == result


@pytest.mark.parametrize(
    ("late_s", "pauses_s", "reason"),
    [
        pytest.param(0.0, (1, 1, 2, 4), 2051, id="from one second on"),
        pytest.param(50.0, (1, 51, 60, 60), 0, id="to a minute, if it was late before"),
    ],
)
def test_a_refused_message_is_tried_again_after_growing_pauses(
    bench: Bench, late_s: float, pauses_s: tuple[int, ...], reason: int
) -> None:
    bench.stage()
    bench.clock.advance(60 + late_s)

    for pause_s in pauses_s:
        before = bench.on("STAGED")[0]
        assert bench.move.postpone(before.descriptor.message_id, reason=reason)
        bench.connection.commit()
        [after] = bench.on("STAGED")
        header = delay_header.parse(after.body)
        assert pause_s * 1_000 == due_in_ms(header, moment(bench.clock))
        assert b"order" == after.body[delay_header.DELAY_HEADER_BYTES :]
        assert before.descriptor.message_id != after.descriptor.message_id
        bench.clock.advance(pause_s)

    records = [disposition_record.from_bytes(got.body) for got in bench.on("RECORDS")]
    assert [(RecordOutcome.LEFT, "LATER", "LATER", 5, 60_000, reason or None)] * len(pauses_s) == [
        (each.outcome, each.queue, each.target_queue, each.msg_len, each.delay_req_ms, each.mqrc) for each in records if each
    ]


@pytest.mark.parametrize(
    ("script", "asked", "nth", "queue"),
    [
        pytest.param("", Report.NONE, 1, "LATER", id="of its target"),
        pytest.param("ALTER QLOCAL(LATER) PUT(DISABLED)", Report.NONE, 2, "DLQ", id="of the dead-letter queue"),
        pytest.param("", Report.EXPIRATION, 1, "REPLIES", id="of its report"),
        pytest.param("ALTER QLOCAL(REPLIES) PUT(DISABLED)", Report.EXPIRATION, 2, "DLQ", id="of the dead letter of its report"),
    ],
)
def test_a_connection_that_is_lost_in_a_put_is_an_error_and_no_refusal(
    bench: Bench, script: str, asked: Report, nth: int, queue: str
) -> None:
    message_id = bench.stage(report=asked, **({"expiry_tenths": 700} if asked else {}))
    bench.mqsc(f"ALTER QMGR DEADQ(DLQ)\n{script}")
    bench.clock.advance(80)
    bench.faults.add(Fault(verb="MQPUT1", nth=nth, reason=Reason.CONNECTION_BROKEN))

    with pytest.raises(MQIError, match=rf"MQPUT1 on {queue} .*MQRC_CONNECTION_BROKEN"):
        bench.move.deliver(message_id)


def test_a_message_of_a_long_retry_has_its_backouts_as_a_property(bench: Bench) -> None:
    message_id = bench.forge(bench.stage(), backout_count=3)
    bench.clock.advance(60)

    moved = bench.move.deliver(message_id)
    bench.connection.commit()

    assert moved is not None
    [there] = bench.on("LATER")
    assert (b"order", b"3") == (there.body[-5:], re.findall(rb"<(\w+)[^>]*>(\d+)</\1>", there.body)[0][1])


def test_a_message_whose_target_is_deleted_is_tried_again_later(bench: Bench) -> None:
    message_id = bench.stage()
    bench.mqsc("DELETE QLOCAL(LATER)")
    bench.clock.advance(60)

    [refused] = without_record(bench.move.deliver(message_id)).events

    assert isinstance(refused, DelayedRefused)
    assert (TRIED_LATER, 2085) == (refused.disposition, refused.reason)


@pytest.mark.parametrize(("as_sender", "depths"), [(False, {"LATER": 1}), (True, {"STAGED": 1})])
def test_a_message_of_a_user_without_authority_is_delivered_only_with_the_authority_of_the_processor(
    bench: Bench, depths: dict[str, int], *, as_sender: bool
) -> None:
    bench.mqsc(
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD(CONNECT)\n"
        "SET AUTHREC PROFILE(STAGED) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(PUT)"
    )
    message_id = bench.forge(bench.stage(), by=bench.queue_manager.connect(user="alice"))
    bench.clock.advance(60)

    moved = replace(bench.move, as_sender=as_sender).deliver(message_id)
    assert moved is not None
    (bench.connection.commit if moved.settlement is Settlement.COMMIT else bench.connection.backout)()

    assert (2035 if as_sender else 0, depths) == (moved.reason, bench.depths())


@pytest.mark.parametrize(
    ("fault", "why"),
    [pytest.param(None, "", id="the authority is there"),
     pytest.param(Fault(verb="MQPUT1", reason=Reason.Q_FULL), "", id="the processor must run, to make room"),
     pytest.param(Fault(verb="MQPUT1", reason=Reason.PUT_INHIBITED), "^MQPUT1 on STAGED .*2051", id="another refusal"),
     pytest.param(Fault(verb="MQOPEN", reason=Reason.NOT_AUTHORIZED),
         r"^The delay processor on STAGED \(QM1\) failed: MQRC_NOT_AUTHORIZED \(2035\).*ALTUSR",
         id="the authority is missing")],
)  # fmt: skip
def test_the_alternate_user_authority_is_checked_without_a_message_left_behind(
    bench: Bench, fault: Fault | None, why: str
) -> None:
    bench.faults.add(*filter(None, [fault]))

    with pytest.raises(MQIError, match=why) if why else nullcontext():
        check_alternate_user(bench.connection, "STAGED")

    bench.connection.commit()
    assert {} == bench.depths()
