"""Keeps the target queues of moved messages open, because MQPUT1 would open and close the target queue for each message.

The DLQ handler and the redriver use this module. It makes no decision.
"""

from contextlib import suppress
from typing import Final

from mqflow.many_verbs import leads_back, open_to_put, put_somewhere
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letters.intents import Redirect
from mqflow.policy.reconnect.reason_classes import Class, classify
from mqflow.verbs import Connection, ObjectDescriptor, ObjectHandle

__all__ = ("OutputHandles",)

_TARGET: Final = OpenOption.OUTPUT | OpenOption.PASS_ALL_CONTEXT | OpenOption.FAIL_IF_QUIESCING
_PUT: Final = PutOption.SYNCPOINT | PutOption.PASS_ALL_CONTEXT | PutOption.FAIL_IF_QUIESCING
_TARGETS_MAX: Final = 32


class OutputHandles:
    """The open target queues for the messages of one source queue, on one connection."""

    def __init__(self, connection: Connection, source: ObjectHandle) -> None:
        self._connection = connection
        self._source = source
        self._handles: dict[tuple[str, str, str | None], ObjectHandle] = {}

    def put(self, to: Redirect, descriptor: MessageDescriptor, data: bytes) -> None:
        """Put the message on the target, in the open unit of work, with all the context of the message that was got last.

        If the handle cannot be used (2041, 2052), the put had no effect: the target is opened again, and the put is repeated
        once. Raises the errors of `open_to_put` and `put_somewhere`. Raises 2522 (MQRC_INVALID_DESTINATION) if the target is
        the source queue, because the message would then come back again and again.
        """
        try:
            put_somewhere(self._connection, self._open(to), descriptor, data, _PUT, context=self._source)
        except MQIError as error:
            if classify(int(error.reason)) is not Class.REOPEN:
                raise
            self._forget(to)
            put_somewhere(self._connection, self._open(to), descriptor, data, _PUT, context=self._source)

    def _open(self, to: Redirect) -> ObjectHandle:
        key = _key(to)
        handle = self._handles.get(key)
        if handle is not None:
            return handle
        if len(self._handles) == _TARGETS_MAX:
            self.close()
        connection, options = self._connection, _TARGET
        if to.alternate_user is not None:
            options |= OpenOption.ALTERNATE_USER_AUTHORITY
        user = to.alternate_user or ""
        target = ObjectDescriptor(to.queue, queue_manager=to.queue_manager, alternate_user=user)
        handle = open_to_put(connection, target, options)
        if leads_back(handle, self._source):
            self._close(handle)
            detail = "The name leads back to the queue that the message is on"
            raise error_for(Reason.INVALID_DESTINATION, "MQPUT", to.queue, connection.queue_manager_name, detail)
        self._handles[key] = handle
        return handle

    def _forget(self, to: Redirect) -> None:
        handle = self._handles.pop(_key(to), None)
        if handle is not None:
            self._close(handle)

    def close(self) -> None:
        """Close all handles, because an administrator cannot alter or delete a queue that is open."""
        handles, self._handles = list(self._handles.values()), {}
        for handle in handles:
            self._close(handle)

    def _close(self, handle: ObjectHandle) -> None:
        with suppress(MQIError):  # the queue or the connection no longer exists
            self._connection.close(handle)


def _key(to: Redirect) -> tuple[str, str, str | None]:
    return to.queue, to.queue_manager, to.alternate_user
