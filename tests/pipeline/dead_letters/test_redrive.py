"""A redrive puts each row of a table back once and unchanged, with any fault at any call."""

from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from mqflow.journal.rows import Position, columns
from mqflow.journal.schemas import Kind
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import OpenOption, Persistence
from mqflow.pipeline.dead_letters.redrive import STATE_QUEUE, TableRedriver
from mqflow.pipeline.errors import PipelineError
from mqflow.policy.poison import moved_message
from mqflow.policy.poison.disposition_record import DISPOSITION_QUEUE, RecordOutcome, from_bytes, put_time_us
from mqflow.testing.faults import CONNECT, Fault, Moment
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import Connection, GetOptions, Got

WHOLE = MessageDescriptor(
    format="MQSTR", ccsid=819, correlation_id=b"c" * 24, priority=7, persistence=Persistence.PERSISTENT,
    user_identifier="amelie", put_application_name="booking", put_application_type=28, put_date="20250131",
    put_time="12345678", application_identity_data="north",
)  # fmt: skip
ROWS = 7
AT = datetime(2026, 1, 2, tzinfo=UTC)

Row = dict[str, Any]


def letter(number: int) -> Got:
    described = replace(WHOLE, message_id=number.to_bytes(24))
    descriptor, data = moved_message.to_dead_letter_queue(
        described, b"%d" % number, reason=2053, queue="ORDERS.IN", queue_manager="", application_name="amqrmppa", now=AT
    )
    return Got(descriptor=descriptor, body=data, data_bytes=len(data))


def rows(count: int = ROWS, lane: str = "DLQ") -> list[Row]:
    unit = [letter(number) for number in range(1, count + 1)]
    position = Position(lane=lane, segment=1, landed_us=0, queue="DLQ", queue_manager="QM1")
    made = columns(Kind.DEAD_LETTER, unit, position)
    return [{name: values[at] for name, values in made.items()} for at in range(count)]


def kit_with() -> QueueManagerKit:
    kit = QueueManagerKit()
    kit.define("ORDERS.IN")
    kit.define(STATE_QUEUE)
    return kit


def redriver(kit: QueueManagerKit, connection: Connection, **more: Any) -> TableRedriver:
    made = TableRedriver(connection=connection, redrive_id="R1", unit=3, clock=kit.clock, pause=kit.clock.advance)
    return replace(made, **more)


def redrive(kit: QueueManagerKit, given: list[Row], *, through: bool = False, **more: Any) -> int:
    """Run a redrive on its own connection, with faults if given."""
    connection = (kit.faults.wrap(kit.queue_manager) if through else kit.queue_manager).connect()
    try:
        return sum(unit.put for unit in redriver(kit, connection, **more).run(given))
    finally:
        with suppress(MQIError):
            connection.disconnect()


def taken(kit: QueueManagerKit, queue: str = "ORDERS.IN") -> list[Got]:
    connection = kit.queue_manager.connect()
    handle = connection.open(queue, OpenOption.INPUT_SHARED)
    return list(iter(lambda: connection.get(handle, GetOptions()), None))


def test_a_message_goes_back_with_its_identifiers_and_all_its_context() -> None:
    kit = kit_with()

    redrive(kit, rows(1))

    [got] = taken(kit)
    names = ("format", "ccsid", "correlation_id", "user_identifier", "put_application_name", "put_date", "put_time", "priority")
    assert b"1" == got.body
    assert (1).to_bytes(24) == got.descriptor.message_id
    assert {name: getattr(WHOLE, name) for name in names} == {name: getattr(got.descriptor, name) for name in names}
    assert "north" == got.descriptor.application_identity_data


def test_the_same_redrive_again_puts_nothing_and_another_puts_all() -> None:
    kit = kit_with()

    assert [ROWS, 0, ROWS] == [redrive(kit, rows()), redrive(kit, rows()), redrive(kit, rows(), redrive_id="R2")]
    assert 2 * ROWS == len(taken(kit))


def test_rows_that_land_later_are_put_whichever_lane_they_are_in() -> None:
    kit = kit_with()

    redrive(kit, rows(2, "B"))

    assert 5 == redrive(kit, rows(3, "A") + rows(4, "B"))


def test_a_row_that_was_not_chosen_the_first_time_is_not_taken_for_put() -> None:
    """A condition on the current time: "older than a day" chooses more rows tomorrow, some before today's last position."""
    kit, every = kit_with(), rows()
    assert 4 == redrive(kit, [row for row in every[:5] if row["ordinal"] != 2])

    with pytest.raises(PipelineError, match=r"has put 4 rows of lane DLQ .* now at least 5 are chosen up to there"):
        redrive(kit, every)

    assert 4 == len(taken(kit))
    assert 2 == redrive(kit, [row for row in every if row["ordinal"] not in {0, 2}])  # fewer: some were put already
    assert 0 == redrive(kit, [row for row in every if row["ordinal"] != 2])


def test_what_the_table_does_not_hold_whole_is_refused_and_said() -> None:
    kit = kit_with()
    cut = rows(3)
    cut[1]["body_truncated"] = True

    connection = kit.queue_manager.connect()
    [unit] = redriver(kit, connection).run(cut)

    assert (2, ("DLQ 1/1: the table does not hold all of its data.",)) == (unit.put, unit.refused)


def test_rows_out_of_order_are_refused() -> None:
    with pytest.raises(PipelineError, match="A redrive takes rows in order, each once"):
        redrive(kit_with(), list(reversed(rows())))


@pytest.mark.parametrize("moment", Moment)
def test_each_message_that_is_put_back_has_one_record(moment: Moment) -> None:
    kit = kit_with()
    kit.define(DISPOSITION_QUEUE)
    kit.faults.add(Fault(verb="MQCMIT", nth=2, moment=moment))
    with pytest.raises(MQIError):
        redrive(kit, rows(), through=True, records=DISPOSITION_QUEUE)
    redrive(kit, rows(), records=DISPOSITION_QUEUE)

    put = {got.descriptor.message_id: put_time_us(got.descriptor.put_date, got.descriptor.put_time) for got in taken(kit)}
    records = [from_bytes(got.body) for got in taken(kit, DISPOSITION_QUEUE)]

    assert ROWS == len(put) == len(records)
    assert put == {record.redrive_of: record.put_ts for record in records if record is not None}
    told = {(record.outcome, record.redrive_id, record.queue, record.qmgr) for record in records if record is not None}
    assert {(RecordOutcome.REDRIVEN, "R1", "ORDERS.IN", "QM1")} == told
    assert ROWS == len({record.disp_id for record in records if record is not None})


def test_a_queue_that_refuses_records_delays_no_message_and_is_named_once() -> None:
    kit, said = kit_with(), list[str]()

    redrive(kit, rows(), records=DISPOSITION_QUEUE, tell=said.append)  # not defined

    assert ROWS == len(taken(kit))
    [told] = said
    assert "MQRC_UNKNOWN_OBJECT_NAME (2085)" in told


def test_a_rate_is_kept() -> None:
    kit = kit_with()
    began = kit.clock.monotonic()

    redrive(kit, rows(7), rate=3.0)

    assert 2.0 <= kit.clock.monotonic() - began < 2.5  # two units of three before the last


def test_a_full_queue_stops_the_redrive_and_it_goes_on_later() -> None:
    kit = QueueManagerKit()
    kit.define("ORDERS.IN", maxdepth=4)
    kit.define(STATE_QUEUE)

    with pytest.raises(MQIError, match="MQRC_Q_FULL"):
        redrive(kit, rows())
    assert [b"1", b"2", b"3"] == [got.body for got in taken(kit)]
    redrive(kit, rows())

    assert [b"4", b"5", b"6", b"7"] == [got.body for got in taken(kit)]


def test_whichever_call_breaks_no_message_is_lost_or_there_twice() -> None:
    """A fault before and after the effect of each call, including the answer of a commit."""
    kit = kit_with()
    redrive(kit, rows(), through=True)
    calls = [call for call in kit.faults.calls if call.verb != CONNECT]

    for number in range(1, len(calls) + 1):
        for moment in Moment:
            broken = kit_with()
            broken.faults.add(Fault(nth=number, moment=moment))
            with suppress(MQIError):
                redrive(broken, rows(), through=True)
            redrive(broken, rows())
            found = Counter(got.body for got in taken(broken))
            assert Counter(b"%d" % at for at in range(1, ROWS + 1)) == found, (calls[number - 1], moment)


def test_without_the_marker_a_lost_answer_puts_messages_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a redrive without the marker's check."""
    monkeypatch.setattr("mqflow.pipeline.dead_letters.redrive._is_done", lambda _marker, _row: False)
    broken = kit_with()
    broken.faults.add(Fault(verb="MQCMIT", nth=2, moment=Moment.AFTER))
    with suppress(MQIError):
        redrive(broken, rows(), through=True)
    redrive(broken, rows())

    assert ROWS < len(taken(broken))
