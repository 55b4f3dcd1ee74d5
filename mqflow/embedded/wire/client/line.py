"""The application's end of a served connection: requests and replies over one stream, one call at a time.

If the stream is lost, the present call raises 2009 or 2549. This module knows frames and `requests`, but no verb.
"""

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any, Final

from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.frames import FRAME_BYTES_MAX, FrameError, Frames, made
from mqflow.embedded.wire.protocol.heartbeat_sender import HeartbeatSender
from mqflow.embedded.wire.protocol.streams import Stream
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason

__all__ = ("Line",)


class Line:
    """Sends requests, and returns the values in their replies, one call at a time."""

    def __init__(
        self, stream: Stream, queue_manager_name: str, heartbeats: HeartbeatSender, over: "Callable[[Line], None]"
    ) -> None:
        self.queue_manager_name = queue_manager_name
        self._over = over
        self._frames: Final = Frames(stream, silence_s=heartbeats.silence_s)
        self._heartbeats = heartbeats
        heartbeats.add(self._frames)
        self._free = threading.Lock()
        #: The reason why no call is possible any more: 2018 after `close`, 2009 after the loss of the socket; otherwise 0.
        self._ended = 0

    def call(self, request: requests.Request, verb: str, object_name: str = "", *, unknown: bool = False) -> Any:
        """Send the request. Return the value in the reply, or raise the error in the reply.

        The request decides the type of the value. Raises 2009 if the socket is lost. With `unknown`, raises 2549
        instead, because the call may have had an effect that no backout undoes. Raises 2219 if another thread is in a call.
        """
        frame = requests.encode(request)
        if len(frame) > FRAME_BYTES_MAX:
            detail = f"{len(frame)} bytes do not fit into a frame of {FRAME_BYTES_MAX}"
            raise error_for(Reason.MSG_TOO_BIG_FOR_Q_MGR, verb, object_name, self.queue_manager_name, detail)
        self.take(verb, object_name)
        try:
            return self.reply(request, made(frame), verb, object_name, unknown=unknown)
        finally:
            self.give_back()

    def take(self, verb: str, object_name: str) -> None:
        """Reserve the line for one call, up to its last reply. Raises 2219 if another thread is in a call."""
        if not self._free.acquire(blocking=False):
            raise error_for(Reason.CALL_IN_PROGRESS, verb, object_name, self.queue_manager_name)

    def give_back(self) -> None:
        """Free the line for the next call."""
        self._free.release()

    def reply(
        self, request: requests.Request, frame: bytes | None, verb: str, object_name: str = "", *, unknown: bool = False
    ) -> Any:
        """Send a frame from `frames.made`. Return the value in the reply. If `frame` is None, only wait for a further reply.

        Raises the errors of `call`. Allowed only between `take` and `give_back`.
        """
        if self._ended:
            raise error_for(self._ended, verb, object_name, self.queue_manager_name)
        try:
            answer = self._frames.answer() if frame is None else self._frames.exchange_made(frame)
            reply = requests.decode_reply(request, answer)
        except (OSError, FrameError) as error:
            self._end(Reason.CONNECTION_BROKEN)
            reason = Reason.CALL_INTERRUPTED if unknown else Reason.CONNECTION_BROKEN
            raise error_for(reason, verb, object_name, self.queue_manager_name, f"The owner is gone: {error}") from error
        except BaseException:
            self.break_off()
            raise
        if reply.failure is not None:
            raise requests.error_of(reply.failure)
        return reply.value

    def let_go(self) -> None:
        """Free the memory of a long reply, because the next reply is not expected soon."""
        self._frames.let_go()

    def break_off(self) -> None:
        """End the connection, because a call ended before its reply (Ctrl-C): the next call would receive that reply."""
        self._end(Reason.CONNECTION_BROKEN)

    def interrupt(self) -> None:
        """End the waits of all gets, including the present get. Any thread can call this. Never raises."""
        self._frames.say(requests.encode(requests.Interrupt()))

    def rely_on_pulse(self) -> None:
        """Send no more heartbeats. From now on a pulse sends them, and ends this line when the pulse stops."""
        self._heartbeats.remove(self._frames)
        self._frames.have_patience()

    def end(self) -> None:
        """End the stream. A reply that has already arrived can still be read."""
        with contextlib.suppress(OSError):  # the stream has already ended
            self._frames.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the connection. The owner of the queue manager notices the end."""
        self._end(Reason.HCONN_ERROR)

    def _end(self, reason: Reason) -> None:
        self._ended = self._ended or reason
        self._heartbeats.remove(self._frames)
        self.end()  # closing alone would not end a call in another thread
        self._frames.socket.close()
        self._over(self)
