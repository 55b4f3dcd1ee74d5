"""The kit for tests of programs that use ibmmq or pymqi: the queue manager that such a program reaches.

This file knows the public names of the stand-in library; it imports neither package.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from mqflow.embedded import mqsc
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.rules.channel_instances import why_not_as_stated
from mqflow.standin import ConnectRequest, install
from mqflow.testing.kit import carry_out, definition

__all__ = ("StandInKit",)


class StandInKit:
    """A queue manager in memory for ibmmq and pymqi in this process, in real time. Every channel name leads to it."""

    def __init__(self, name: str = "QM1", *, users: Mapping[str, str] | None = None) -> None:
        self.queue_manager: Final = EmbeddedQueueManager(name)
        #: The requests of the applications that have connected, in order.
        self.requests: list[ConnectRequest] = []
        self._installed: Final = install(
            self.queue_manager, on_connect=self.requests.append, users=users, why_not=self._why_not
        )

    def _why_not(self, channel: str, labels: Sequence[str] | None) -> tuple[int, str] | None:
        objects = self.queue_manager.administration.objects
        return why_not_as_stated(channel, (each.values for each in objects.all("CHANNEL")), labels)

    def mqsc(self, *commands: str) -> mqsc.Results:
        """Run MQSC commands; each string is a command or a script. Raises `MQSCError` with every refused line."""
        return carry_out(self.queue_manager.administration, commands)

    def define(self, queue: str, kind: str = "QLOCAL", **attributes: str | int) -> None:
        """Define a queue by MQSC keywords in lower case: ``define("ORDERS.IN", bothresh=3, boqname="ORDERS.BOQ")``."""
        self.mqsc(definition(queue, kind, attributes))

    def close(self) -> None:
        """Back out and end every connection, and end the queue manager."""
        self._installed.withdraw()
        self.queue_manager.close()
