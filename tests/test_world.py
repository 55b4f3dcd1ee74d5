"""The wait for another thread: it ends when that thread can have returned from the call that it was in."""

import hashlib
import sys
import threading
import time

import pytest

from mqflow.world import own_thread, wait_until_on

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def test_a_thread_that_computes_is_on_after_20_ms_of_its_processor_time() -> None:
    computes = threading.Event()
    marks: list[tuple[int, int]] = []

    def compute() -> None:
        marks.append(own_thread())
        computes.set()
        hashlib.pbkdf2_hmac("sha256", b"", b"", 300_000)  # without Python's lock

    thread = threading.Thread(target=compute)
    thread.start()
    computes.wait(30)
    before_ns = time.process_time_ns()
    wait_until_on(*marks[0])
    used_ns = time.process_time_ns() - before_ns
    thread.join()

    assert used_ns > 15_000_000  # it has used a part before the wait


@pytest.mark.parametrize("ends", [pytest.param(True, id="it has ended"), pytest.param(False, id="it sleeps")])
def test_a_thread_that_does_nothing_more_is_on(*, ends: bool) -> None:
    begun, over = threading.Event(), threading.Event()
    marks: list[tuple[int, int]] = []

    def sleep() -> None:
        marks.append(own_thread())
        begun.set()
        if not ends:
            over.wait(30)

    thread = threading.Thread(target=sleep)
    thread.start()
    begun.wait(30)
    if ends:
        thread.join()

    wait_until_on(*marks[0])

    assert thread.is_alive() is not ends
    over.set()
    thread.join()
