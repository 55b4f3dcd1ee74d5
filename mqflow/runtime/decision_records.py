"""Puts records of decisions with the verbs of a connection, for the parts of mqflow that have no worker.

These parts are the consumer, the DLQ handler, the delay processor and the redriver. A record consists of the fields of a
message descriptor and of further fields. The caller decides in which unit of work the record is put. This module runs on the
thread that uses the connection. If a record is refused, the hooks get a warning, and the work continues without the record.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from mqflow.events import Event, Warned
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import PutOption
from mqflow.policy.poison import disposition_record
from mqflow.policy.poison.disposition_record import RECORD_VERSION, DispositionRecord, RecordOutcome, put_time_us
from mqflow.verbs import Connection
from mqflow.world import World

__all__ = ("ConnectionRecorder",)


class ConnectionRecorder:
    """Puts the records of a consumer, a DLQ handler, a delay processor or a redriver.

    Its owner passes the current connection with each call.
    """

    def __init__(self, queue: str, *, consumer: str, world: World, notify: Callable[[Event], None] | None = None) -> None:
        self._queue: Final = queue
        self._consumer: Final = consumer
        self._clock: Final = world.clock
        #: Receives the warning that records are refused. The owner of this recorder sets this function once.
        self.notify = notify
        #: A part of every identifier that this recorder makes. No other recorder has the same source.
        self.source: Final = f"{int(world.random.random() * 2**48):012x}"
        self._number = 0
        self._refused = False

    def put(
        self,
        connection: Connection,
        outcome: RecordOutcome,
        about: MessageDescriptor | None,
        *,
        queue: str,
        queue_manager: str = "",
        at_us: int | None = None,
        in_unit_of_work: bool = True,
        **more: Any,
    ) -> MQIError | None:
        """Put a record of the outcome of a message. If the put is refused, return its error.

        With `in_unit_of_work`, the record is part of the open unit of work; otherwise it is put outside of that unit. `queue`
        is the queue that the message is on, or is put on; if it is a remote queue, `queue_manager` names its queue manager.
        `about` is the message's descriptor, or None for a heartbeat. `more` has further fields of the record, of any type.

        A refusal or a lost connection is reported once and not raised, because the message is more important than its record.
        The next settlement finds a lost connection anyway.
        """
        record = self.make(connection, outcome, about, queue=queue, queue_manager=queue_manager, at_us=at_us, **more)
        return self.put_all(connection, [record], in_unit_of_work=in_unit_of_work)

    def put_all(
        self, connection: Connection, records: Sequence[DispositionRecord], *, in_unit_of_work: bool = True
    ) -> MQIError | None:
        """Put these records like `put`. One message carries as many records as fit."""
        how = (PutOption.SYNCPOINT if in_unit_of_work else PutOption.NO_SYNCPOINT) | PutOption.FAIL_IF_QUIESCING
        try:
            for data in disposition_record.messages_of(records):
                connection.put1(self._queue, disposition_record.DESCRIPTOR, data, how)
        except MQIError as error:
            self.warn(error)
            return error
        self._refused = False
        return None

    def warn(self, error: MQIError) -> None:
        """Report that records are refused. The next report comes only after a record was accepted."""
        if not self._refused and self.notify is not None:
            self.notify(Warned(text=f"{self._consumer}: decisions are not recorded. {error}", queue=self._queue))
        self._refused = True

    def now_us(self) -> int:
        """Return the current time in microseconds since 1970, the unit of records."""
        return round(self._clock.wall() * 1_000_000)

    def make(
        self,
        connection: Connection,
        outcome: RecordOutcome,
        about: MessageDescriptor | None,
        *,
        queue: str,
        queue_manager: str = "",
        at_us: int | None = None,
        **more: Any,
    ) -> DispositionRecord:
        """Return a record for `put_all`, with the current time or `at_us`. The parameters have the same meaning as in `put`."""
        self._number += 1
        here = connection.queue_manager_name
        if outcome is RecordOutcome.RELEASED:
            more["schema_version"] = RECORD_VERSION
        return DispositionRecord(
            disp_id=f"{here}/{self.source}/{self._number}",
            event_ts=self.now_us() if at_us is None else at_us,
            qmgr=queue_manager or here,
            queue=queue,
            consumer=self._consumer,
            outcome=outcome,
            **({} if about is None else _described(about)),
            **more,
        )


def _described(md: MessageDescriptor) -> dict[str, Any]:  # Any: fields of several types
    """Return the descriptor's fields by the names of record fields, without BackoutCount: only deliveries record it."""
    return {
        "msg_id": md.message_id,
        "correl_id": md.correlation_id,
        "group_id": md.group_id,
        "msg_type": md.message_type,
        "format": md.format,
        "ccsid": md.ccsid,
        "encoding": md.encoding,
        "persistence": md.persistence,
        "priority": md.priority,
        "expiry_left_ms": None if md.expiry_tenths < 0 else md.expiry_tenths * 100,
        "put_ts": put_time_us(md.put_date, md.put_time),
        "put_appl_name": md.put_application_name,
        "put_appl_type": md.put_application_type,
        "user_id": md.user_identifier,
        "reply_q": md.reply_to_queue,
        "reply_qm": md.reply_to_queue_manager,
    }
