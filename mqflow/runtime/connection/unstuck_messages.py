"""Gets messages from a queue on which other messages are stuck: no destination accepts a stuck message.

The messages are browsed in order. Each message that is not stuck is got under the browse cursor. This module settles nothing.
"""

import math
from collections.abc import Container
from typing import Final

from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.runtime.connection.open_objects import INPUT
from mqflow.runtime.connection.session import Session
from mqflow.runtime.message_notes import message_key
from mqflow.verbs import GetOptions, Got, ObjectDescriptor, ObjectHandle

__all__ = ("UnstuckMessages",)

_AS_IT_IS: Final = GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2
_UNDER_CURSOR: Final = GetOptions(options=GetOption.MSG_UNDER_CURSOR | GetOption.SYNCPOINT | _AS_IT_IS)


class UnstuckMessages:
    """The messages of one queue that are not stuck, for one session."""

    def __init__(self, session: Session, queue: str, selection: str, stuck: Container[bytes]) -> None:
        self._session: Final = session
        self._queue: Final = queue
        self._selection: Final = selection
        self._stuck: Final = stuck
        self._browses = GetOption.BROWSE_FIRST
        #: The handle for these gets; None until the first get.
        self.handle: ObjectHandle | None = None

    async def get(self, wait_s: float) -> Got | None:
        """Get the next message under syncpoint. Return None if no message comes within the wait, or if the listener stops.

        After None, the next call begins at the head of the queue again. Raises `MQIError`, for example 2035 if this user may
        not browse, or 2042 if another handle has the queue open exclusively.
        """
        session = self._session
        options = INPUT | OpenOption.BROWSE
        if self.handle is None:
            target = ObjectDescriptor(self._queue, selection=self._selection)
            self.handle = await session.call(session.connection.open, target, options)
        handle = self.handle
        wait_ms = max(0, math.ceil(wait_s * 1_000))  # rounded up: a wait of 0 ms makes a busy loop
        while True:
            browse = GetOptions(options=self._browses | GetOption.WAIT | _AS_IT_IS, wait_ms=wait_ms)
            exchange = await session.exchange(None, handle, browse, most=1)
            if exchange.get_error is not None:
                raise exchange.get_error
            self._browses = GetOption.BROWSE_NEXT if exchange.unit else GetOption.BROWSE_FIRST
            if not exchange.unit:
                return None
            if message_key(exchange.unit[0]) not in self._stuck:
                break
        try:
            return await session.call(session.connection.get, handle, _UNDER_CURSOR)
        except MQIError as error:
            if error.reason != Reason.NO_MSG_UNDER_CURSOR:
                raise
        return None  # another worker has got the message since the browse
