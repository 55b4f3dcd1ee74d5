"""What a test of a program that uses ibmmq or pymqi has in its hands: the queue manager the program reaches.

Knows the stand-in library's public names; knows neither package.
"""

from collections.abc import Mapping
from typing import Final

from mqflow.embedded import mqsc
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.standin import ConnectRequest, install
from mqflow.testing.kit import carry_out, definition

__all__ = ("StandInKit",)


class StandInKit:
    """A queue manager in memory that this process's ibmmq and pymqi connect to, whatever channel they ask for. In real time."""

    def __init__(self, name: str = "QM1", *, users: Mapping[str, str] | None = None) -> None:
        self.queue_manager: Final = EmbeddedQueueManager(name)
        #: What was asked for, once for each connection.
        self.requests: list[ConnectRequest] = []
        self._installed: Final = install(self.queue_manager, on_connect=self.requests.append, users=users)

    def mqsc(self, *commands: str) -> mqsc.Results:
        """Carry out MQSC commands, one or a script to a string. Raises `MQSCError` with every line that was refused."""
        return carry_out(self.queue_manager.administration, commands)

    def define(self, queue: str, kind: str = "QLOCAL", **attributes: str | int) -> None:
        """Define a queue by MQSC keywords in lower case: ``define("ORDERS.IN", bothresh=3, boqname="ORDERS.BOQ")``."""
        self.mqsc(definition(queue, kind, attributes))

    def close(self) -> None:
        """End every connection, backed out, and the queue manager."""
        self._installed.withdraw()
        self.queue_manager.close()
