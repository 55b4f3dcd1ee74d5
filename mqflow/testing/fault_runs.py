"""Runs one test many times: once without faults, then twice for each call of the MQI, with a broken connection there."""

from collections.abc import Callable, Coroutine
from typing import Any

from mqflow.testing.faults import CONNECT, Fault, Moment
from mqflow.testing.kit import QueueManagerKit
from mqflow.testing.virtual_time import Backend, run

__all__ = ("run_once", "run_with_every_call_broken")

Test = Callable[[], Coroutine[Any, Any, None]]  # Any: an event loop decides what a coroutine yields and receives


def run_once(kit: QueueManagerKit, test: Test, backend: Backend, seed: int = 0) -> None:
    """Run the test in virtual time, on the kit's clock."""
    run(test, backend=backend, clock=kit.clock, seed=seed)


def run_with_every_call_broken(kit: QueueManagerKit, test: Test, backend: Backend, seed: int = 0) -> None:
    """Run the test without a fault, then twice for each call: the connection breaks before, or after, the effect of the call.

    This includes the calls when the application starts and stops, but not MQCONNX. Every run has its own queue manager, clock
    and random generator. The test itself must clear other state (a list in its module, a fixture). An error of a run names
    the broken call.
    """
    run_once(kit, test, backend, seed)
    for number, call in enumerate([call for call in kit.faults.calls if call.verb != CONNECT], start=1):
        for moment in Moment:
            kit.close()
            kit.renew()
            kit.faults.add(Fault(nth=number, moment=moment))
            try:
                run_once(kit, test, backend, seed)
            except BaseException as error:
                error.add_note(f"with the connection broken {moment.value}, at {call} of a run without faults")
                raise
