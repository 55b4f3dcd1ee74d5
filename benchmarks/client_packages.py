"""The client packages as transports: the real ibmmq and pymqi on the stand-in library, and a plain loop on each of them.

The queue manager behind the library is Python in the same process, so each call takes processor time and holds the GIL. The
figures compare the framework on the package with a loop on the package; they say nothing about IBM MQ.
"""

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from typing import Any, Final

from benchmarks.consumption import Course
from benchmarks.orders import decode
from benchmarks.samples import Sample
from benchmarks.transports import QUEUE, Transport, filled
from mqflow.bindings.connect_options import ConnectOptions
from mqflow.bindings.dialects import base
from mqflow.bindings.queue_manager import BoundQueueManager
from mqflow.standin import install
from mqflow.standin.library.shared_library import can_load
from mqflow.verbs import QueueManager

__all__ = ("PACKAGES", "loop", "through")

PACKAGES: Final = tuple(name for name in ("ibmmq", "pymqi") if find_spec(name) and not can_load())
"""The installed packages.

Empty if a stand-in library is impossible. ibmmq comes with the development tools; pymqi must be built.
"""

_CHANNEL, _HOST = "APP.SVRCONN", "localhost"


def through(package: str) -> Transport:
    """Return the transport of a package: the embedded queue manager in memory, behind the package's C code."""
    return partial(_through, package)


def loop(package: str) -> Callable[[Transport, int, int], Sample]:
    """Return the loop on a package. It uses the classes of the package as the package's own examples do."""
    return partial(_loop, package)


@contextmanager
def _through(package: str, messages: int) -> Iterator[QueueManager]:
    with filled(messages) as queue_manager, install(queue_manager), _without_spans():
        options = ConnectOptions(queue_manager=queue_manager.name, channel=_CHANNEL, hosts=((_HOST, 1414),))
        yield BoundQueueManager(base.load(package), options)


@contextmanager
def _without_spans() -> Iterator[None]:
    """Switch the spans of ibmmq off, if this process imports ibmmq now, because a plain loop has no spans."""
    before = os.environ.get("MQIPY_NOOTEL")
    os.environ["MQIPY_NOOTEL"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["MQIPY_NOOTEL"]


def _loop(package: str, transport: Transport, messages: int, unit_of_work: int) -> Sample:
    course = Course(messages)
    with transport(messages) as queue_manager:
        mq: Any = importlib.import_module(package)
        manager = mq.connect(queue_manager.name, _CHANNEL, f"{_HOST}(1414)")
        queue = mq.Queue(manager, QUEUE, mq.CMQC.MQOO_INPUT_SHARED)
        options = mq.GMO(Options=mq.CMQC.MQGMO_SYNCPOINT | mq.CMQC.MQGMO_FAIL_IF_QUIESCING)
        for number in range(1, messages + 1):
            body = queue.get(None, mq.MD(), options)  # a used MQMD would select the message that filled it
            with suppress(StopIteration):
                course.handle(decode(body)).send(None)
            if number % unit_of_work == 0:
                manager.commit()
        manager.commit()
        queue.close()
        manager.disconnect()
    return course.sample
