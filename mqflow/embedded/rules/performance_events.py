"""Decides which performance event a put or a get causes, and which events this event enables or disables.

This module is pure. An event changes attributes of its queue, and MQINQ and DISPLAY show the change: "the value of this
attribute can change dynamically" (QDepthHighEvent). The changes are in memory only: a restart brings the defined values back
(mqflow's own choice).
Source: IBM q036430 (enabling queue depth events), q036370 (enabling queue service interval events), "Rules for queue service
interval events".
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.reason_codes import Reason

__all__ = ("PerformanceEvent", "after_get", "after_put", "service", "when_full")

_HIGH, _OK = 1, 2


class PerformanceEvent(Struct, frozen=True):
    """A performance event, and its changes to the attributes of the queue."""

    reason: int
    changes: Mapping[str, bool | int]


_DEPTH_HIGH: Final = PerformanceEvent(
    Reason.Q_DEPTH_HIGH, {"depth_high_event": False, "depth_low_event": True, "depth_max_event": True}
)
_DEPTH_LOW: Final = PerformanceEvent(
    Reason.Q_DEPTH_LOW, {"depth_high_event": True, "depth_low_event": False, "depth_max_event": True}
)
_FULL: Final = PerformanceEvent(Reason.Q_FULL, {"depth_low_event": True, "depth_max_event": False})
_SERVICE_HIGH: Final = PerformanceEvent(Reason.Q_SERVICE_INTERVAL_HIGH, {"service_interval_event": _OK})
_SERVICE_OK: Final = PerformanceEvent(Reason.Q_SERVICE_INTERVAL_OK, {"service_interval_event": _HIGH})


def after_put(queue: QueueAttributes, depth: int) -> PerformanceEvent | None:
    """Return the event of a put that leaves `depth` messages on the queue; None if the put causes no event."""
    return _DEPTH_HIGH if queue.depth_high_event and 100 * depth >= queue.depth_high_percent * queue.max_depth else None


def after_get(queue: QueueAttributes, depth: int) -> PerformanceEvent | None:
    """Return the event of a get that leaves `depth` messages on the queue; None if the get causes no event."""
    return _DEPTH_LOW if queue.depth_low_event and 100 * depth <= queue.depth_low_percent * queue.max_depth else None


def when_full(queue: QueueAttributes) -> PerformanceEvent | None:
    """Return the event of a put that was refused because the queue is full; None if QDPMAXEV is DISABLED."""
    return _FULL if queue.depth_max_event else None


def service(queue: QueueAttributes, elapsed_s: float | None, *, is_get: bool) -> PerformanceEvent | None:
    """Return the service interval event of a put or a get; None if it causes no event.

    `elapsed_s` is the time since the timer started; None if the timer is off. Only a get causes an OK event. Both a put and a
    get can cause a High event.
    """
    if elapsed_s is None:
        return None
    late = elapsed_s * 1000 > queue.service_interval_ms
    if late and queue.service_interval_event == _HIGH:
        return _SERVICE_HIGH
    return _SERVICE_OK if not late and is_get and queue.service_interval_event == _OK else None
