"""Requests and replies over one stream, one call at a time: what is lost, and what that means for the call under way.

The application's end of a served connection. Knows frames and the records of `calls`; knows no verb.
"""

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any, Final

import msgspec

from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.frames import FRAME_BYTES_MAX, FrameError, Frames, made
from mqflow.embedded.wire.protocol.heartbeat_sender import HeartbeatSender
from mqflow.embedded.wire.protocol.streams import Stream
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason

__all__ = ("Line",)


class Line:
    """Requests and replies over one socket: what is lost, and what that means for the call under way."""

    def __init__(
        self, stream: Stream, queue_manager_name: str, heartbeats: HeartbeatSender, over: "Callable[[Line], None]"
    ) -> None:
        self.queue_manager_name = queue_manager_name
        self._over = over
        self._frames: Final = Frames(stream, silence_s=heartbeats.silence_s)
        self._heartbeats = heartbeats
        heartbeats.add(self._frames)
        self._free = threading.Lock()
        #: Why no call is possible any more: 2018 after `close`, 2009 once the socket was lost.
        self._ended = 0

    def call(self, request: requests.Request, verb: str, object_name: str = "", *, unknown: bool = False) -> Any:
        """Return the value of the reply, or raise the error in it.

        Where the socket is lost: 2549 if `unknown` (it may have taken effect for good), otherwise 2009. 2219 where another
        thread is in a call.
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
        """Have the line for one call, up to its last reply. Raises 2219 where another thread is in a call."""
        if not self._free.acquire(blocking=False):
            raise error_for(Reason.CALL_IN_PROGRESS, verb, object_name, self.queue_manager_name)

    def give_back(self) -> None:
        """Let the next call have the line."""
        self._free.release()

    def reply(
        self, request: requests.Request, frame: bytes | None, verb: str, object_name: str = "", *, unknown: bool = False
    ) -> Any:
        """Return the value of the reply to the frame, as `made` returned it; without one, of a reply that follows.

        Raises what `call` does. Between `take` and `give_back` only.
        """
        if self._ended:
            raise error_for(self._ended, verb, object_name, self.queue_manager_name)
        try:
            answer = self._frames.answer() if frame is None else self._frames.exchange_made(frame)
            reply = requests.decode_reply(request, answer)
        except (OSError, FrameError, msgspec.MsgspecError) as error:
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
        """Keep no memory for a long reply: the next is not expected soon."""
        self._frames.let_go()

    def break_off(self) -> None:
        """End the connection because a call was left before its answer came (Ctrl-C): the next would take it for its own."""
        self._end(Reason.CONNECTION_BROKEN)

    def interrupt(self) -> None:
        """Have no get wait any more, not even the one under way. From any thread; never raises."""
        self._frames.say(requests.encode(requests.Interrupt()))

    def rely_on_pulse(self) -> None:
        """Beat no more: a pulse does, and ends this line when it stops."""
        self._heartbeats.remove(self._frames)
        self._frames.have_patience()

    def end(self) -> None:
        """End the stream; a reply that has come is still read."""
        with contextlib.suppress(OSError):  # it has ended already
            self._frames.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the connection; the owner notices."""
        self._end(Reason.HCONN_ERROR)

    def _end(self, reason: Reason) -> None:
        self._ended = self._ended or reason
        self._heartbeats.remove(self._frames)
        self.end()  # closing alone would not end a call under way in another thread
        self._frames.socket.close()
        self._over(self)
