"""Decides whether a queue triggers, so that the queue manager puts a trigger message on the initiation queue.

This module is pure. Source: IBM q026930 (conditions for a trigger event), q026940 (TRIGTYPE), TriggerInterval.
"""

from typing import Final

from mqflow.mqi.attributes.queue import QueueAttributes

__all__ = ("TRIGGER_DEPTH", "triggers")

_FIRST, _EVERY, TRIGGER_DEPTH = 1, 2, 3
_XMITQ: Final = 1


def triggers(
    queue: QueueAttributes, *, qualifying: int, arrived: bool, input_count: int, since_last_ms: float | None, interval_ms: int
) -> bool:
    """Return whether the queue triggers.

    `qualifying` is the number of messages with priority TRIGMPRI or higher. `arrived` is true if such a message was just put,
    and false if an attribute changed or a handle was opened or closed. `since_last_ms` is the time since the queue's last
    trigger message; None before the first.
    """
    if not queue.trigger or queue.get_inhibited or not queue.initiation_queue or not qualifying:
        return False
    if not queue.process and queue.usage != _XMITQ:
        return False
    if queue.trigger_type == _EVERY:
        return arrived
    if input_count:
        return False
    if queue.trigger_type == _FIRST:
        return not arrived or qualifying == 1 or (since_last_ms is not None and since_last_ms >= interval_ms)
    return queue.trigger_type == TRIGGER_DEPTH and qualifying >= queue.trigger_depth
