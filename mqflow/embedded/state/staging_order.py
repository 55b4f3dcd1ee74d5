"""The order of the staging queue: messages by their due time, then messages without a delay header.

In this order, the delay processor finds the next due message without a search, at any depth. IBM's pages say only that the
messages wait on one queue; the order is mqflow's own choice.
"""

from typing import Final

from mqflow.embedded.state.steady_clock import SteadyClock
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import HeaderError
from mqflow.mqi.headers import delay as delay_header
from mqflow.policy.delivery_delay import ClockReading, due_in_ms
from mqflow.world import Clock

__all__ = ("order_priority",)

_PRIORITY_MAX: Final = 9
_LAST: Final = -(2**62)


def order_priority(descriptor: MessageDescriptor, body: bytes, clock: Clock, steady: SteadyClock) -> int:
    """Return the number that gives the message its position on the staging queue, like a priority.

    A message that is due sooner has a higher number. Messages with the same due time have the same number, and so keep their
    order of arrival.
    """
    if descriptor.format != delay_header.FORMAT:
        return _LAST
    try:
        header = delay_header.parse(body)
    except HeaderError:
        return _LAST
    now = ClockReading(
        wall_ms=int(clock.wall() * 1_000), monotonic_ms=int(clock.monotonic() * 1_000), epoch=clock.monotonic_epoch()
    )
    # Only one reading of the clock. A millisecond could end between two readings, and reorder messages with the same due time.
    return max(_LAST, _PRIORITY_MAX - max(0, steady.at_ms(now.monotonic_ms) + due_in_ms(header, now)))
