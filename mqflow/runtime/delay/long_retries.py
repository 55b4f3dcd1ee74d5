"""Puts a failed message on the staging queue until its next delivery, if its handler asked for a long pause.

A message is staged in the unit of work of its delivery. This module settles nothing. `policy.poison.backout_count_header` says
which messages may wait on the staging queue.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.mqi.options import Format, OpenOption, PutOption
from mqflow.policy.delivery_delay import staged
from mqflow.policy.poison.backout_count_header import counted, may_wait
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE, moment
from mqflow.verbs import Connection, Got, ObjectDescriptor, ObjectHandle
from mqflow.world import Clock

__all__ = ("Retries", "with_all_backouts")

_PUT: Final = PutOption.SYNCPOINT | PutOption.FAIL_IF_QUIESCING
_AS_DELIVERED: Final = OpenOption.OUTPUT | OpenOption.PASS_ALL_CONTEXT | OpenOption.FAIL_IF_QUIESCING


def with_all_backouts(got: Got) -> Got:
    """Return the message with all its backouts in BackoutCount, including the backouts before it was staged."""
    if got.descriptor.format != Format.RF_HEADER_2:  # `counted` checks this too, but every message passes here
        return got
    descriptor, body = counted(got.descriptor, got.body)
    if descriptor is got.descriptor:
        return got
    return replace(got, descriptor=descriptor, body=body, data_bytes=got.data_bytes - len(got.body) + len(body))


class Retries(Struct, frozen=True):
    """Puts failed messages on the staging queue, in an application that has a delay processor."""

    staging_queue: str
    clock: Clock
    #: The longest pause, in seconds, that the worker itself waits. For a longer pause, the message is staged.
    in_worker_s: float
    #: True if the processor puts with its own authority, which this application has too. Otherwise the processor puts with the
    #: authority of the user in the message, and this authority is checked before the message is staged.
    own_authority: bool = False

    def takes(self, got: Got, pause_s: float) -> bool:
        """Return whether this message waits on the staging queue if its pause is `pause_s`."""
        return pause_s > self.in_worker_s and may_wait(got.descriptor)

    def stage(
        self, connection: Connection, handle: ObjectHandle | None, got: Got, queue: str, count: int, after_s: float
    ) -> None:
        """Stage the message that was got on this handle. It is delivered to `queue` after `after_s`, with `count` backouts.

        With None for the handle, another message was got later, and the put sets the context from the descriptor.
        Raises `MQIError` if the staging queue refuses the message, or if the processor may not put to `queue`. On an embedded
        queue manager, the message is put to `queue`, and the queue manager stages it.
        """
        now, delay_ms = moment(self.clock), max(1, round(after_s * 1_000))
        put = _PUT | (PutOption.SET_ALL_CONTEXT if handle is None else PutOption.PASS_ALL_CONTEXT)
        if self.staging_queue == EMBEDDED_STAGING_QUEUE:
            asked, body = staged(got.descriptor, got.body, delay_ms=delay_ms, now=now, backout_count=count)
            connection.put1(queue, asked, body, put, context=handle)
            return
        target, options = ObjectDescriptor(queue), _AS_DELIVERED
        if not self.own_authority:
            target = ObjectDescriptor(queue, alternate_user=got.descriptor.user_identifier)
            options |= OpenOption.ALTERNATE_USER_AUTHORITY
        connection.close(connection.open(target, options))
        descriptor, body = staged(got.descriptor, got.body, target=queue, delay_ms=delay_ms, now=now, backout_count=count)
        connection.put1(self.staging_queue, descriptor, body, put | PutOption.NEW_MSG_ID, context=handle)
