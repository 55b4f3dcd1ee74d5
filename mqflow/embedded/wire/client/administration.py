"""The `Administration` of a served queue manager: each call of the interface is one round trip.

This module needs a line for the calls, and knows no rule of MQ. `administration_calls` derives the calls from the interface.
"""

from functools import partial
from typing import Any, Final, Protocol, cast

from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.catalogue.kinds import object_from
from mqflow.embedded.wire.client.line import Line
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.administration_calls import ANSWERS, PARTS, PROPERTIES, request_of

__all__ = ("ServedAdministration", "served_administration")

_COMMANDS: Final = {
    "authorities.records": "DISPLAY AUTHREC",
    "authorities.held": "DISPLAY ENTAUTH",
    "authorities.set": "SET AUTHREC",
    "authorities.delete": "DELETE AUTHREC",
    "authorities.refresh": "REFRESH SECURITY",
    "channels.rules": "DISPLAY CHLAUTH",
    "channels.deciding_rule": "DISPLAY CHLAUTH",
    "channels.set_rule": "SET CHLAUTH",
    "channels.remove_rule": "SET CHLAUTH",
    "channels.remove_rules": "SET CHLAUTH",
    "channels.statuses": "DISPLAY CHSTATUS",
    "channels.start": "START CHANNEL",
    "channels.stop": "STOP CHANNEL",
    "channels.listeners": "DISPLAY LSSTATUS",
    "channels.start_listener": "START LISTENER",
    "channels.stop_listener": "STOP LISTENER",
    "publishing.topics": "DISPLAY TOPIC",
    "publishing.define_topic": "DEFINE TOPIC",
    "publishing.alter_topic": "ALTER TOPIC",
    "publishing.delete_topic": "DELETE TOPIC",
    "publishing.topic_statuses": "DISPLAY TPSTATUS",
    "publishing.clear_retained": "CLEAR TOPICSTR",
    "publishing.subscriptions": "DISPLAY SUB",
    "publishing.define_subscription": "DEFINE SUB",
    "publishing.alter_subscription": "ALTER SUB",
    "publishing.delete_subscription": "DELETE SUB",
    "objects.all": "DISPLAY",
    "objects.define": "DEFINE",
    "objects.alter": "ALTER",
    "objects.delete": "DELETE",
    "objects.connections": "DISPLAY CONN",
    "objects.stop_connection": "STOP CONN",
    "queue_manager": "DISPLAY QMGR",
    "queues": "DISPLAY QUEUE",
    "queue": "DISPLAY QUEUE",
    "define": "DEFINE",
    "alter": "ALTER",
    "delete": "DELETE",
    "clear": "CLEAR",
    "alter_queue_manager": "ALTER QMGR",
    "queue_status": "DISPLAY QSTATUS",
    "reset_queue_statistics": "RESET QSTATS",
    "status": "DISPLAY QMSTATUS",
    "report_command": "MQSC",
}
"""The command in the error text of each call. For a call of `objects`, the noun is added."""
_NAMES: Final = ("name", "profile", "topic_string", "identifier", "channel")
"""The arguments that can name the object of a call. A call has at most one of them."""


class ServedAdministration(Administration, Protocol):
    """The `Administration` of a queue manager in another process."""

    def order(self, request: requests.HostOrder) -> None:
        """Tell the serving process to end the queue manager or to back it up.

        Raises 2298 if the queue manager belongs to a running application.
        """

    def close(self) -> None:
        """End the connection."""


def served_administration(line: Line) -> ServedAdministration:
    """Return the administration of the queue manager at the other end of the line."""
    # cast: `_Calls` finds the calls of the interface by name, which a type checker cannot follow.
    return cast("ServedAdministration", _Calls(line))


class _Calls:
    """Sends the calls of the interface, or of its part with the name `part`."""

    def __init__(self, line: Line, part: str = "") -> None:
        self._line = line
        self._part = part

    # Any, here and below: the interface gives the types of the arguments and of the result.
    def __getattr__(self, name: str) -> Any:
        call = self._part + name
        if f"{call}." in PARTS:
            return _Calls(self._line, f"{call}.")
        if call not in ANSWERS:
            raise AttributeError(f"The administration has no call {call!r}")
        return self._send(call) if call in PROPERTIES else partial(self._send, call)

    def order(self, request: requests.HostOrder) -> None:
        self._line.call(request, type(request).__name__, unknown=True)

    def close(self) -> None:
        self._line.close()

    def _send(self, call: str, *arguments: Any, **named: Any) -> Any:
        request = request_of(call, *arguments, **named)
        given = request.arguments
        target = given["attributes"].name if "attributes" in given else "".join(given.get(each, "") for each in _NAMES)
        command = f"{_COMMANDS[call]} {given.get('noun', '')}".rstrip()
        changes = ANSWERS[call] is type(None) or call == "reset_queue_statistics"
        answer = self._line.call(request, command, target, unknown=changes)
        return tuple(object_from(found.fields) for found in answer) if call == "objects.all" else answer
