"""The queues that dead letters are put to, open while there is work: an MQPUT1 for each message opens and closes one each.

Knows a connection and where a rule leads; decides nothing.
"""

from contextlib import suppress
from typing import Final

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letter_actions import Redirect
from mqflow.verbs import Connection, ObjectHandle

__all__ = ("Targets",)

_TARGET: Final = OpenOption.OUTPUT | OpenOption.PASS_ALL_CONTEXT | OpenOption.FAIL_IF_QUIESCING
_TARGETS_MAX: Final = 32


class Targets:
    """The queues that messages are put to, open while there is work: an MQPUT1 for each message opens and closes one each."""

    def __init__(self, connection: Connection, source: ObjectHandle) -> None:
        self._connection = connection
        self._source = source
        self._handles: dict[tuple[str, str, str | None], ObjectHandle] = {}

    def open(self, to: Redirect) -> ObjectHandle:
        """Return a handle on the target.

        Raises what MQOPEN raises, and 2522 (MQRC_INVALID_DESTINATION) where the name leads back to the queue that the messages
        come from: they would come round for ever.
        """
        key = _key(to)
        handle = self._handles.get(key)
        if handle is not None:
            return handle
        if len(self._handles) == _TARGETS_MAX:
            self.close()
        connection, options = self._connection, _TARGET
        if to.alternate_user is not None:
            options |= OpenOption.ALTERNATE_USER_AUTHORITY
        handle = connection.open(to.queue, options, queue_manager=to.queue_manager, alternate_user=to.alternate_user or "")
        if to.queue_manager in {"", connection.queue_manager_name} and handle.resolved_queue == self._source.resolved_queue:
            self._close(handle)
            said = "The rule leads back to the queue that the message is on"
            raise error_for(Reason.INVALID_DESTINATION, "MQPUT", to.queue, connection.queue_manager_name, said)
        self._handles[key] = handle
        return handle

    def forget(self, to: Redirect) -> None:
        """Close the handle on this target."""
        handle = self._handles.pop(_key(to), None)
        if handle is not None:
            self._close(handle)

    def close(self) -> None:
        """Close them all: an open queue cannot be altered or deleted by those who administer it."""
        handles, self._handles = list(self._handles.values()), {}
        for handle in handles:
            self._close(handle)

    def _close(self, handle: ObjectHandle) -> None:
        with suppress(MQIError):  # gone with its queue or its connection
            self._connection.close(handle)


def _key(to: Redirect) -> tuple[str, str, str | None]:
    return to.queue, to.queue_manager, to.alternate_user
