"""Journals of invented messages, for tests and measurements of readers: the same seed gives the same rows.

The segments are real, because the lander's code writes them. This file knows no queue manager.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Final

from mqflow.folders import Folder
from mqflow.journal.consumers import Consumers
from mqflow.journal.journal import Journal, Lane
from mqflow.journal.rows import Position, columns
from mqflow.journal.schemas import Kind
from mqflow.journal.segments import write_pending
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.policy.poison import disposition_record, moved_message
from mqflow.policy.poison.disposition_record import DispositionRecord, RecordOutcome
from mqflow.verbs import Got

__all__ = ("START_US", "add_segment", "generate_journal", "invented")

START_US: Final = 1_760_000_000_000_000
"""The time of the first invented event: 2025-10-09 08:53:20 UTC."""
_STEP_US: Final = 10_000
_QUEUES: Final = ("ORDERS.IN", "PAYMENTS.IN", "STOCK.IN")
_ERRORS: Final = ("ValueError", "TimeoutError", "orders.errors.NoSuchCustomer")
_REASONS: Final = (2053, 2085, 2035, 2030, 2110, 2362)


def generate_journal(
    where: Folder | str | Path,
    kind: Kind,
    *,
    segments: int = 3,
    rows: int = 100,
    lane: str = "",
    seed: int = 1,
    body_bytes: int = 100,
) -> Lane:
    """Add segments with invented rows to a lane, and return the lane. Creates the journal and the lane if they are missing."""
    journal = Journal.create(where)
    there = Consumers(journal).add_lane(lane or kind.value, kind, queue=lane or "INVENTED.QUEUE", queue_manager="QM1")
    for _ in range(segments):
        number = there.last + 1
        add_segment(
            there, invented(kind, rows, seed=seed * 1_000_003 + number, first=(number - 1) * rows, body_bytes=body_bytes)
        )
    return there


def add_segment(lane: Lane, unit: Sequence[Got]) -> None:
    """Publish one more segment with these messages."""
    number = lane.last + 1
    position = Position(lane=lane.name, segment=number, landed_us=START_US, queue=lane.queue, queue_manager=lane.queue_manager)
    lane.publish(write_pending(lane.folder, lane.link_after(lane.tip), lane.kind, columns(lane.kind, unit, position)))


def invented(kind: Kind, rows: int, *, seed: int, first: int = 0, body_bytes: int = 100) -> list[Got]:
    """Return invented messages of a kind, numbered from `first`; each number is unique to its message."""
    random = Random(seed)  # noqa: S311 - invented data
    make = _MAKERS[kind]
    return [make(random, first + number, body_bytes) for number in range(rows)]


def _payload(random: Random, number: int, body_bytes: int) -> Got:
    return _got(_descriptor(random, number), random.randbytes(body_bytes))


def _dead_letter(random: Random, number: int, body_bytes: int) -> Got:
    if number % 50 == 49:  # noqa: PLR2004 - one message in fifty has no MQDLH, as if a person had put it
        return _payload(random, number, body_bytes)
    descriptor, body = moved_message.to_dead_letter_queue(
        _descriptor(random, number),
        random.randbytes(body_bytes),
        reason=random.choice(_REASONS),
        queue=random.choice(_QUEUES),
        queue_manager="QM1",
        application_name="orders",
        now=_at(number),
    )
    return _got(descriptor, body)


def _backout_message(random: Random, number: int, body_bytes: int) -> Got:
    why = moved_message.Why(queue=random.choice(_QUEUES), queue_manager="QM1", outcome="failed", error=random.choice(_ERRORS))
    descriptor, body = moved_message.to_backout_queue(
        _descriptor(random, number), random.randbytes(body_bytes), folders=(moved_message.folder(why),)
    )
    return _got(descriptor, body)


def _disposition(random: Random, number: int, _body_bytes: int) -> Got:
    outcome = random.choices(
        (RecordOutcome.COMMITTED, RecordOutcome.ROLLED_BACK, RecordOutcome.BACKED_OUT, RecordOutcome.DEAD_LETTERED),
        weights=(90, 7, 2, 1),
    )[0]
    failed = outcome is not RecordOutcome.COMMITTED
    descriptor = _descriptor(random, number)
    done_us = START_US + number * _STEP_US
    queue = _QUEUES[number % len(_QUEUES)]
    error = random.choice(_ERRORS)
    record = DispositionRecord(
        disp_id=f"QM1-1-{number}",
        event_ts=done_us,
        qmgr="QM1",
        queue=queue,
        handler=f"on_{queue.split('.')[0].lower()}",
        consumer="orders-1",
        uow_id=f"1-{number}",
        msg_id=descriptor.message_id,
        correl_id=descriptor.correlation_id,
        msg_type=descriptor.message_type,
        format=descriptor.format,
        persistence=1,
        priority=descriptor.priority,
        msg_len=100,
        put_ts=done_us - 500_000,
        put_appl_name=descriptor.put_application_name,
        get_ts=done_us - random.randrange(1_000, 50_000),
        done_ts=done_us,
        backout_count=random.randrange(3) if failed else 0,
        bothresh=3,
        boqname="ORDERS.BOQ",
        outcome=outcome,
        target_queue="ORDERS.BOQ" if outcome is RecordOutcome.BACKED_OUT else None,
        exc_class=error if failed else None,
        exc_fingerprint=f"{_ERRORS.index(error):064x}" if failed else None,
        exc_message=f"invented {error}" if failed else None,
    )
    return _got(MessageDescriptor(format=disposition_record.FORMAT), disposition_record.to_bytes(record))


def _descriptor(random: Random, number: int) -> MessageDescriptor:
    at = _at(number)
    return MessageDescriptor(
        message_id=number.to_bytes(24),
        correlation_id=random.randbytes(24),
        format="MQSTR",
        ccsid=1208,
        encoding=546,
        priority=random.randrange(10),
        persistence=1,
        user_identifier="app",
        put_application_type=6,
        put_application_name=random.choice(("web", "batch", "mainframe")),
        put_date=f"{at:%Y%m%d}",
        put_time=f"{at:%H%M%S%f}"[:8],
    )


def _at(number: int) -> datetime:
    return datetime.fromtimestamp((START_US + number * _STEP_US) / 1_000_000, UTC)


def _got(descriptor: MessageDescriptor, body: bytes) -> Got:
    return Got(descriptor=descriptor, body=body, data_bytes=len(body))


_MAKERS: Final[dict[Kind, Callable[[Random, int, int], Got]]] = {
    Kind.DISPOSITION: _disposition,
    Kind.DEAD_LETTER: _dead_letter,
    Kind.BACKOUT_MESSAGE: _backout_message,
    Kind.PAYLOAD: _payload,
}
