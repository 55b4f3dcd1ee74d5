"""Helps tests of the adapter in the child process: connects through the package, and inspects the queue manager directly."""

from collections.abc import Callable
from typing import Any

import pytest

from mqflow.bindings.connect_options import ConnectOptions
from mqflow.bindings.connection import BoundConnection
from mqflow.bindings.dialects import base
from mqflow.bindings.queue_manager import BoundQueueManager
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import OpenOption
from mqflow.mqi.reason_codes import Reason
from tests.standin.harness import Program

__all__ = ("EVERYTHING", "bound", "connected", "options", "refused")

EVERYTHING = OpenOption.INPUT_SHARED | OpenOption.OUTPUT | OpenOption.BROWSE | OpenOption.INQUIRE


def options(**fields: Any) -> ConnectOptions:
    """Return the usual options with some of them changed."""
    usual: dict[str, Any] = {"queue_manager": "QM1", "channel": "APP.SVRCONN", "hosts": (("mq.example", 1414),)}
    return ConnectOptions(**(usual | fields))


def bound(program: Program, **fields: Any) -> BoundQueueManager:
    return BoundQueueManager(base.load(program.mq.__name__), options(**fields))


def connected(program: Program, application_name: str = "", **fields: Any) -> BoundConnection:
    return bound(program, **fields).connect(application_name=application_name)


def refused(reason: Reason, call: Callable[[], object]) -> MQIError:
    """Expect that the call is refused with this reason, and return the error."""
    with pytest.raises(MQIError) as raised:
        call()
    assert reason == raised.value.reason, str(raised.value)
    return raised.value
