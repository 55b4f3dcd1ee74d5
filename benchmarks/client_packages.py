"""The client packages as transports: the real ibmmq and pymqi on the stand-in library.

The queue manager behind the library is Python in the same process, so each call takes processor time and holds the GIL. The
loop calls the C code of the package as mqflow does, because a loop over the classes of the package is slower. The figures say
nothing about IBM MQ.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Final

from benchmarks.transports import Transport, in_memory
from mqflow.bindings.connect_options import ConnectOptions
from mqflow.bindings.dialects import base
from mqflow.bindings.queue_manager import BoundQueueManager
from mqflow.standin import install
from mqflow.standin.library.shared_library import can_load
from mqflow.verbs import QueueManager

__all__ = ("PACKAGES", "through")

PACKAGES: Final = tuple(name for name in ("ibmmq", "pymqi") if find_spec(name) and not can_load())
"""The installed packages.

Empty if this machine cannot have a stand-in library. ibmmq comes with the development tools; pymqi must be built.
"""

_CHANNEL, _HOST = "APP.SVRCONN", "localhost"


def through(package: str) -> Transport:
    """Return the transport of a package: the embedded queue manager in memory, behind the package's C code."""
    return partial(_through, package)


@contextmanager
def _through(package: str, messages: int) -> Iterator[QueueManager]:
    with in_memory(messages) as queue_manager, install(queue_manager), _without_spans():
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
