"""The place of a message on the staging queue: by when it is due, and behind all of them what nobody staged.

So the delay processor finds what is due next first, at any depth. Source: ours; IBM says only that messages wait on one queue.
"""

from typing import Final

from mqflow.embedded.state.steady_clock import SteadyClock
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import HeaderError
from mqflow.mqi.headers import delay as delay_header
from mqflow.policy.delivery_delay import Moment, due_in_ms
from mqflow.world import Clock

__all__ = ("order_priority",)

_PRIORITY_MAX: Final = 9
_LAST: Final = -(2**62)


def order_priority(descriptor: MessageDescriptor, body: bytes, clock: Clock, steady: SteadyClock) -> int:
    """Return what stands for the priority in the message's place: the sooner it is due, the higher.

    Messages that are due together have the same, and so stay in the order of their arrival.
    """
    if descriptor.format != delay_header.FORMAT:
        return _LAST
    try:
        header = delay_header.parse(body)
    except HeaderError:
        return _LAST
    now = Moment(wall_ms=int(clock.wall() * 1_000), monotonic_ms=int(clock.monotonic() * 1_000), epoch=clock.monotonic_epoch())
    # By one look at the clock: between two a millisecond may end, and put what was sent later before what was sent sooner.
    return max(_LAST, _PRIORITY_MAX - max(0, steady.at_ms(now.monotonic_ms) + due_in_ms(header, now)))
