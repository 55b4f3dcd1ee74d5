"""Puts a failed message on the staging queue until its next delivery, if its handler asked for a longer pause.

A message is staged in the unit of work of its delivery. This module settles nothing. `policy.poison.backout_count_header` says
which messages may wait on the staging queue.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.mqi.options import OpenOption, PutOption
from mqflow.policy.delivery_delay import staged
from mqflow.policy.poison.backout_count_header import counted, may_wait
from mqflow.runtime.delay.stage import moment
from mqflow.verbs import Connection, Got, ObjectHandle
from mqflow.world import Clock

__all__ = ("Retries", "with_all_backouts")

_STAGE: Final = PutOption.SYNCPOINT | PutOption.NEW_MSG_ID | PutOption.FAIL_IF_QUIESCING | PutOption.PASS_ALL_CONTEXT


def with_all_backouts(got: Got) -> Got:
    """Return the message with all its backouts in BackoutCount, including the backouts before it was staged."""
    descriptor, body = counted(got.descriptor, got.body)
    if descriptor is got.descriptor:
        return got
    return replace(got, descriptor=descriptor, body=body, data_bytes=got.data_bytes - len(got.body) + len(body))


class Retries(Struct, frozen=True):
    """Stages failed messages, in an application with a delay processor."""

    staging_queue: str
    clock: Clock
    #: The longest pause, in seconds, for which the worker itself waits. After a longer pause, the message is staged.
    in_worker_s: float
    #: Whether the processor has the same authorities as this application; if so, they are checked before the staging.
    checks_target: bool

    def takes(self, got: Got, pause_s: float) -> bool:
        """Return whether a message with this pause waits on the staging queue."""
        return pause_s > self.in_worker_s and may_wait(got.descriptor)

    def stage(self, connection: Connection, handle: ObjectHandle, got: Got, queue: str, count: int, after_s: float) -> None:
        """Stage the message that was got on this handle. It is delivered to `queue` after `after_s`, with `count` backouts.

        Raises `MQIError` if the staging queue refuses the message, or if this application may not put to `queue`.
        """
        if self.checks_target:
            connection.close(connection.open(queue, OpenOption.OUTPUT | OpenOption.FAIL_IF_QUIESCING))
        now, delay_ms = moment(self.clock), max(1, round(after_s * 1_000))
        descriptor, body = staged(got.descriptor, got.body, target=queue, delay_ms=delay_ms, now=now, backout_count=count)
        connection.put1(self.staging_queue, descriptor, body, _STAGE, context=handle)
