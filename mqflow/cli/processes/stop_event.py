"""An event that is set when a signal arrives, for commands that end after their current step."""

import signal
from _thread import start_new_thread
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType

__all__ = ("stop_event",)


@contextmanager
def stop_event(*numbers: signal.Signals) -> Iterator[Event]:
    """Yield an event. Each of these signals sets it while the block runs."""
    stopping = Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        # A thread, because the signal can interrupt a wait of this thread that holds the lock of the event.
        start_new_thread(stopping.set, ())

    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
