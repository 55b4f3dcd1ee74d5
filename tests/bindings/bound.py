"""Helps tests of the adapter in the child process: connects through the package, and inspects the queue manager directly."""

from typing import Any

from mqflow.bindings.connect_options import ConnectOptions
from mqflow.bindings.connection import BoundConnection
from mqflow.bindings.dialects import base
from mqflow.bindings.queue_manager import BoundQueueManager
from mqflow.mqi.options import OpenOption
from tests.standin.harness import Program

__all__ = ("EVERYTHING", "bound", "connected", "options")

EVERYTHING = OpenOption.INPUT_SHARED | OpenOption.OUTPUT | OpenOption.BROWSE | OpenOption.INQUIRE


def options(**fields: Any) -> ConnectOptions:
    """Return the usual options with some of them changed."""
    usual: dict[str, Any] = {"queue_manager": "QM1", "channel": "APP.SVRCONN", "hosts": (("mq.example", 1414),)}
    return ConnectOptions(**(usual | fields))


def bound(program: Program, **fields: Any) -> BoundQueueManager:
    return BoundQueueManager(base.load(program.mq.__name__), options(**fields))


def connected(program: Program, application_name: str = "", **fields: Any) -> BoundConnection:
    return bound(program, **fields).connect(application_name=application_name)
