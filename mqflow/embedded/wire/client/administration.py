"""Offers the `Administration` of a served queue manager: each order and each question is one round trip.

This module knows `requests_admin`, and a line to send the requests on, but no rule of MQ.
"""

from collections.abc import Mapping

from mqflow.embedded.administration.interface import QueueStatus
from mqflow.embedded.wire.client.line import Line
from mqflow.embedded.wire.protocol import requests, requests_admin
from mqflow.embedded.wire.protocol.admin_authorities import ServedAuthorities
from mqflow.embedded.wire.protocol.admin_objects import ServedObjects
from mqflow.embedded.wire.protocol.admin_topics import ServedTopics
from mqflow.mqi.attributes.queue import QueueAttributes, QueueManagerAttributes

__all__ = ("ServedAdministration",)


class ServedAdministration:
    """Offers the `Administration` of a queue manager in another process."""

    def __init__(self, line: Line) -> None:
        self._line = line

    @property
    def publishing(self) -> ServedTopics:
        """Topics and subscriptions."""
        return ServedTopics(self._line.call)

    @property
    def authorities(self) -> ServedAuthorities:
        """The authorities of users and groups."""
        return ServedAuthorities(self._line.call)

    @property
    def queue_manager(self) -> QueueManagerAttributes:
        """The queue manager's attributes."""
        answer: QueueManagerAttributes = self._line.call(requests_admin.ReadQueueManager(), "DISPLAY")
        return answer

    def queues(self) -> tuple[QueueAttributes, ...]:
        """All queues of every kind, in order of name."""
        answer: tuple[QueueAttributes, ...] = self._line.call(requests_admin.ReadQueues(), "DISPLAY")
        return answer

    def queue(self, name: str) -> QueueAttributes | None:
        """The queue of that name, or None."""
        answer: QueueAttributes | None = self._line.call(requests_admin.ReadQueue(name), "DISPLAY", name)
        return answer

    @property
    def objects(self) -> ServedObjects:
        """The objects other than queues, and connections."""
        return ServedObjects(self._line.call)

    def define(self, attributes: QueueAttributes, *, replace: bool = False) -> None:
        """Define a queue."""
        self._line.call(requests_admin.Define(attributes, replace), "DEFINE", attributes.name, unknown=True)

    def alter(self, name: str, changes: Mapping[str, object], *, force: bool = False) -> None:
        """Change fields of a queue."""
        self._line.call(requests_admin.Alter(name, changes, force), "ALTER", name, unknown=True)

    def delete(self, name: str, *, purge: bool = False, keep_authorities: bool = False) -> None:
        """Delete a queue."""
        self._line.call(requests_admin.Delete(name, purge, keep_authorities), "DELETE", name, unknown=True)

    def clear(self, name: str) -> None:
        """Remove every message from a local queue."""
        self._line.call(requests_admin.Clear(name), "CLEAR", name, unknown=True)

    def alter_queue_manager(self, changes: Mapping[str, object]) -> None:
        """Change fields of the queue manager."""
        self._line.call(requests_admin.AlterQueueManager(changes), "ALTER QMGR", unknown=True)

    def queue_status(self, name: str) -> QueueStatus:
        """Return the status of a local queue."""
        answer: QueueStatus = self._line.call(requests_admin.ReadQueueStatus(name), "DISPLAY QSTATUS", name)
        return answer

    def order(self, request: requests.HostOrder) -> None:
        """Ask the serving process to end or to back up the queue manager.

        Raises 2298 if the queue manager belongs to a running application.
        """
        self._line.call(request, type(request).__name__, unknown=True)

    def close(self) -> None:
        """End the connection."""
        self._line.close()
