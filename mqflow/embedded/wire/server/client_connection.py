"""The server's end of one application's connection, from its first request (the hello) to its end.

The connection's own thread calls the verbs (`verb_calls`) and waits for messages. The thread blocks while the idle poller
answers (`commit_and_next`). If the stream ends or stays silent for too long, the application counts as dead, and the server
backs out its unit of work. A connection of an administrator carries out administration, but no verb. This module knows
`requests`, but no rule of MQ.
"""

import contextlib
import math
import socket
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.administration_calls import Administer, administered
from mqflow.embedded.wire.protocol.frames import (
    FRAME_BYTES_MAX,
    LENGTH_BYTES,
    Frame,
    FrameError,
    Frames,
    SilenceError,
    UndecodableError,
)
from mqflow.embedded.wire.protocol.heartbeat_sender import HeartbeatSender
from mqflow.embedded.wire.protocol.pulse import Pulses
from mqflow.embedded.wire.protocol.streams import Stream
from mqflow.embedded.wire.server.answer_parts import AnswerParts
from mqflow.embedded.wire.server.commit_and_next import CommitAndNext, LeftOver
from mqflow.embedded.wire.server.contract import Arrival, Host, Servable, ServableConnection
from mqflow.embedded.wire.server.idle_poller import IdlePoller
from mqflow.embedded.wire.server.login import Login, process_of_other
from mqflow.embedded.wire.server.settle_many import settled_many
from mqflow.embedded.wire.server.verb_calls import VerbCalls
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import GetOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import UNIT_BYTES_MAX, WAIT_UNLIMITED, GetOptions, Got, ObjectHandle
from mqflow.world import Runner

__all__ = ("ClientConnection",)

Taken = TypeVar("Taken", "Got | None", list[Got])

# A peer that has sent no hello yet must not take megabytes of memory.
_HELLO_BYTES_MAX: Final = 64 * 1024
# Up to this length, the buffer of a reply is kept for the next reply.
_ANSWER_BYTES_MAX: Final = 1024 * 1024
# Before any of these requests, the messages of units ahead return to their places.
_ENDS_UNITS_AHEAD: Final = (
    requests.Exchange,
    requests.Get,
    requests.GetMany,
    requests.Commit,
    requests.Backout,
    requests.Disconnect,
)
#: The result of a request to which another thread has already replied.
_SAID: Final = object()


class ClientConnection:
    """The connection of one application. It has its own thread."""

    def __init__(
        self,
        queue_manager: Servable,
        arrival: Arrival,
        login: Login,
        host: Host,
        heartbeats: HeartbeatSender,
        pulses: Pulses,
        runner: Runner,
        idle_poller: IdlePoller | None,
    ) -> None:
        self._arrival: Final = arrival
        self._pulses = pulses
        self._runner = runner
        self._idle_poller = idle_poller
        self._line: CommitAndNext | None = None
        # A request that the idle poller has received, to be carried out next.
        self._frame: bytes | None = None
        # The number of the pulse that replaces this connection's heartbeats; 0 without a pulse.
        self._pulse = 0
        #: True if this connection itself is a pulse.
        self.is_pulse: bool = False
        self.is_checked: bool = False
        self._queue_manager = queue_manager
        self._raw = arrival.raw
        self._secured: Stream = arrival.raw
        self._login = login
        self._host = host
        self._frames = Frames(arrival.raw, silence_s=heartbeats.silence_s, clock=arrival.clock)
        #: The time by which the hello must arrive; None after the hello.
        self.unknown_until: float | None = arrival.clock.monotonic() + arrival.hello_s
        self._clock = arrival.clock
        self._heartbeats = heartbeats
        self._arrived = arrival.arrived
        self._decoded = requests.Decoded()
        self._parts = AnswerParts()
        #: The buffer for replies.
        self._answer = bytearray(LENGTH_BYTES)
        self._last_exchange: tuple[requests.Exchange | None, GetOptions] = None, GetOptions()
        #: True if the application has ended the waits of its gets.
        self._interrupted = False
        self._ending = False

    def run(self) -> None:
        """Reply to requests until the application disconnects, dies, or sends bytes that are not a request."""
        connection: ServableConnection | None = None
        try:
            self._secured = self._login.secured(self._raw)
            if self._secured is not self._raw:
                self._frames = Frames(self._secured, silence_s=self._heartbeats.silence_s, clock=self._clock)
            self._frames.beating = False
            self._heartbeats.add(self._frames)
            connection = self._welcome()
            self.unknown_until = None
            verbs = None if connection is None else VerbCalls(connection)
            while verbs is not None and not self._ending and (frame := self._next()) is not None:
                request = self._decoded(frame)
                if isinstance(request, requests.Interrupt):
                    self._interrupted = True
                    continue
                self._frames.beating = True  # the application only receives while it waits for a reply
                reply = self._answered(verbs, request)
                if reply is not None:
                    self._say(reply)
                self._frames.beating = False
        except UndecodableError as error:
            self._arrival.complain(f"A peer at {self._address()} sent bytes that are no request, and is disconnected: {error}.")
        except (OSError, FrameError):
            pass  # the application is gone and cannot receive an error
        finally:
            self._heartbeats.remove(self._frames)
            self._pulses.leave(self._pulse, self)
            if connection is not None:
                connection.abandon()
            self.let_go()
            self._arrival.over(self)

    def _address(self) -> str:
        try:
            address = self._raw.getpeername()
        except OSError:  # the peer has already gone
            return "an unknown address"
        return str(address[0]) if isinstance(address, tuple) else "the Unix socket"

    def let_go(self) -> None:
        """Close the socket and the signal. `run` calls this method; if `run` never runs, the caller must call it."""
        self._raw.close()
        self._arrived.close()

    def end(self) -> None:
        """Make `run` return. The server still replies to the present call, because its effect must not be in doubt."""
        self._ending = True
        with contextlib.suppress(OSError):  # the stream has already ended
            self._raw.shutdown(socket.SHUT_RD)

    def end_slow_send(self, began_before: float) -> None:
        """Break the stream off if a send that began before this time still runs. The application loses the reply."""
        since = self._frames.slow_since
        if since is not None and since < began_before:
            with contextlib.suppress(OSError):  # the stream has already ended
                self._raw.shutdown(socket.SHUT_RDWR)

    def _welcome(self) -> ServableConnection | None:
        self._frames.bytes_max = _HELLO_BYTES_MAX
        frame = self._frames.receive()
        self._frames.bytes_max = FRAME_BYTES_MAX
        hello = None if frame is None else requests.decode_request(frame)
        if isinstance(hello, requests.Hello) and hello.administers:
            self._administer(hello)
            return None
        if self._arrival.full is not None:
            if isinstance(hello, requests.Hello | requests.Pulse):  # a peer without a hello expects no reply
                self._say_no(self._arrival.full)
            return None
        if isinstance(hello, requests.Pulse) and hello.version == requests.PROTOCOL_VERSION and self._login.same_machine:
            self._beat()
        if not isinstance(hello, requests.Hello):
            return None
        try:
            connection = self._connected(hello)
        except MQIError as error:
            self._say_no(error)
            return None
        try:
            self._frames.send(requests.encode(requests.Reply(None, connection.queue_manager_name)))
        except BaseException:  # the application did not wait for the reply
            connection.abandon()
            raise
        return connection

    def _say(self, reply: requests.Reply[object]) -> None:
        """Send the reply. A unit of work with many messages is sent in several parts."""
        value = reply.value
        if isinstance(value, requests.Exchanged) and len(value.unit) > 1:
            reply = requests.Reply(
                None, self._parts.send_all_but_last(value.unit, lambda part: self._send(requests.Reply(None, part)))
            )
        self._send(reply)

    def _send(self, reply: requests.Reply[object]) -> int:
        requests.encode_into(reply, self._answer, LENGTH_BYTES)
        self._frames.beating = False
        self._frames.send_filled(self._answer)
        sent_bytes = len(self._answer)
        if sent_bytes > _ANSWER_BYTES_MAX:
            self._answer = bytearray(LENGTH_BYTES)
        return sent_bytes

    def _beat(self) -> None:
        """Serve this connection as a pulse: receive heartbeats for other connections until they stop."""
        number = self._pulses.begin()
        self.is_pulse = True
        self.unknown_until = None
        try:
            self._frames.send(requests.encode(requests.Reply(None, number)))
            self._frames.beating = True
            self._frames.receive()  # only heartbeats arrive
        finally:
            self._pulses.end(number)

    def _administer(self, hello: requests.Hello) -> None:
        """Carry out the questions and orders of an administrator until the connection ends.

        An administrator is not an application and has no unit of work. There are places for administrators beyond the limit for
        applications. An administrator can connect while the queue manager quiesces.
        """
        try:
            user = self._known(hello)
            self._queue_manager.administration_of(user)  # refuses a user without authority
            self._arrival.admit(self, administers=True)
            self._live_by(hello.pulse)
        except MQIError as error:
            self._say_no(error)
            return
        self._frames.send(requests.encode(requests.Reply(None, self._queue_manager.name)))
        self.unknown_until = None
        while not self._ending and (frame := self._frames.receive()) is not None:
            request = requests.decode_request(frame)
            self._frames.beating = True
            answer = requests.encode(self._administered(user, request))
            self._frames.beating = False
            self._frames.send(answer)

    def _administered(self, user: str, request: requests.Request) -> requests.Reply[object]:
        try:
            administration = self._queue_manager.administration_of(user)  # the user can have lost the authority since the hello
            if isinstance(request, requests.HostOrder):
                self._host(request)
                return requests.Reply(None)
            if isinstance(request, Administer):
                return requests.Reply(None, administered(administration, request))
        except MQIError as error:
            return requests.Reply(requests.failure_of(error))
        raise FrameError("an administrator's connection is for administration only")

    def _say_no(self, error: MQIError) -> None:
        self._frames.send(requests.encode(requests.Reply[None](requests.failure_of(error))))

    def _live_by(self, pulse: int) -> None:
        """If the hello names a pulse, wait for the application without a time limit. Raises 2009 if the pulse has stopped."""
        if not pulse:
            return
        if not self._pulses.join(pulse, self):
            raise error_for(Reason.CONNECTION_BROKEN, "MQCONNX", queue_manager=self._queue_manager.name, detail="No such pulse")
        self._pulse = pulse
        self._heartbeats.remove(self._frames)
        self._frames.have_patience()

    def _connected(self, hello: requests.Hello) -> ServableConnection:
        user = self._known(hello)
        self._arrival.admit(self, administers=False)
        connection = self._queue_manager.connect(
            application_name=hello.application_name, user=user, process=process_of_other(self._raw)
        )
        try:
            self._live_by(hello.pulse)
        except MQIError:
            connection.abandon()
            raise
        return connection

    def _known(self, hello: requests.Hello) -> str:
        """Return the user of the hello. Raises `MQIError` if the log-in refuses the hello."""
        name = self._queue_manager.name
        if hello.version != requests.PROTOCOL_VERSION:
            detail = f"The owner speaks version {requests.PROTOCOL_VERSION} of the protocol, the application {hello.version}"
            raise error_for(Reason.Q_MGR_NOT_AVAILABLE, "MQCONNX", queue_manager=name, detail=detail)
        if hello.queue_manager not in {"", name}:
            detail = f"The queue manager served here is {name}"
            raise error_for(Reason.Q_MGR_NAME_ERROR, "MQCONNX", queue_manager=hello.queue_manager, detail=detail)
        self.is_checked = self._frames.beating = True  # after failures, the check can exceed the longest silence
        try:
            return self._login.user_of(hello, self._queue_manager.owner, self._address(), self._secured)
        finally:
            self.is_checked = self._frames.beating = False

    def _next(self) -> Frame | None:
        """Return the request that the idle poller has received, or wait for the next request."""
        frame, self._frame = self._frame, None
        return self._frames.receive() if frame is None else frame

    def _answered(self, verbs: VerbCalls, request: requests.Request) -> requests.Reply[object] | None:
        """Return the reply to send; None if the reply is already sent."""
        try:
            result = self._perform(verbs, request)
            return None if result is _SAID else requests.Reply(None, result)
        except MQIError as error:
            return requests.Reply(requests.failure_of(error))

    def _perform(self, verbs: VerbCalls, request: requests.Request) -> object:
        if isinstance(request, requests.SettleMany):
            return settled_many(verbs.connection, verbs.handle(request.handle), request, self._runner)
        if isinstance(request, _ENDS_UNITS_AHEAD):
            verbs.connection.give_back()
        if isinstance(request, requests.Exchange):  # checked first, because a consumer sends it for each unit of work
            return self._exchange(verbs, request)
        if isinstance(request, requests.VerbGet):
            return self._any_get(verbs, request)
        if isinstance(request, requests.VerbQuestion | requests.VerbOrder):
            return verbs.perform(request)
        raise FrameError("a connection says hello once, and an application's connection administers nothing")

    def _any_get(self, verbs: VerbCalls, request: requests.VerbGet) -> object:
        connection, handle = verbs.connection, verbs.handle(request.handle)
        if isinstance(request, requests.GetMany):
            return self._get_many(connection, handle, request)
        return self._get(connection, handle, request.options, partial(connection.get, handle))

    def _get(
        self, connection: ServableConnection, handle: ObjectHandle, options: GetOptions, get: Callable[[GetOptions], Taken]
    ) -> Taken:
        """Call `get`, and wait here if necessary. If the application dies during the wait, only the socket shows this."""
        waits = options.options & GetOption.WAIT and (options.wait_ms > 0 or options.wait_ms == WAIT_UNLIMITED)
        if not waits:
            return get(options)
        unwaiting = connection.unwaiting(options)
        if self._interrupted:
            return get(unwaiting)
        ends_at = None if options.wait_ms == WAIT_UNLIMITED else self._clock.monotonic() + options.wait_ms / 1000
        while not (got := get(unwaiting)):
            withdraw = connection.on_arrival(handle, unwaiting, self._arrived.set)
            if withdraw is None:
                continue
            try:
                arrived = self._arrives_within(ends_at)
                got = get(unwaiting)  # before `withdraw`: a waiter without its message wakes another waiter
            finally:
                withdraw()
                self._arrived.clear()
            if got or not arrived:
                break
        return got

    def _exchange(self, verbs: VerbCalls, request: requests.Exchange) -> object:
        """Commit or back out, then get messages. If possible, do both in one step."""
        connection, handle = verbs.connection, verbs.handle(request.handle)
        options, commit = self._without_wait(connection, request), request.commit
        unit: list[Got] | None = None
        if commit is not False:
            most, bytes_max = request.most, UNIT_BYTES_MAX
            unit = connection.exchange_at_once(handle, options, commit=commit is True, most=most, bytes_max=bytes_max)
            if unit:
                return requests.Exchanged(unit=tuple(unit))
        left: LeftOver | None = None
        if unit is None and commit is not None:
            try:
                if commit:
                    left = self._commit(verbs, request)
                else:
                    connection.backout()
            except MQIError as error:
                return requests.Exchanged(settle=requests.failure_of(error))
        return self._get_settled(connection, request, handle, options) if left is None else self._done_with(verbs, left)

    def _commit(self, verbs: VerbCalls, request: requests.Exchange) -> LeftOver | None:
        """Commit. With many committing connections, let the idle poller commit and answer; return the left-over work."""
        left: LeftOver | None = None
        if self._idle_poller is None or self._frames.socket is not self._raw:
            verbs.connection.commit()
        else:
            with self._idle_poller.committers:
                if self._idle_poller.committers.are_many:
                    left = self._handed_over(verbs, self._idle_poller, request)
                if left is None:
                    verbs.connection.commit()
        return left

    def _handed_over(self, verbs: VerbCalls, idle_poller: IdlePoller, request: requests.Exchange) -> LeftOver | None:
        """Block while the idle poller answers this and later requests. Return the left-over work, or None if it refuses."""
        if self._line is None:
            options_of, runner = partial(self._without_wait, verbs.connection), self._runner
            self._line = CommitAndNext(
                idle_poller, verbs.connection, self._frames, self._decoded, verbs.handle, options_of, runner
            )
        return self._line.hand_over(request)

    def _done_with(self, verbs: VerbCalls, left: LeftOver) -> object:
        """Finish a request that the idle poller could not finish, and return the value for the reply."""
        if left.unsent:
            self._frames.send_made(b"")
        if left.failure is not None:
            if left.settled is not None:  # reply first, so that the effect of the commit is not in doubt
                ended = error_for(Reason.CONNECTION_BROKEN, "MQGET", queue_manager=self._queue_manager.name)
                self._frames.send(requests.encode(requests.Reply(None, requests.Exchanged(get=requests.failure_of(ended)))))
            raise left.failure
        self._interrupted = self._interrupted or left.interrupted
        self._frame = left.frame
        if left.settled is None:
            return _SAID
        handle, options = verbs.handle(left.settled.handle), self._without_wait(verbs.connection, left.settled)
        return self._get_settled(verbs.connection, left.settled, handle, options)

    def _get_settled(
        self, connection: ServableConnection, request: requests.Exchange, handle: ObjectHandle, options: GetOptions
    ) -> requests.Exchanged:
        """Get messages. If the get must wait, first reply that the commit or backout has succeeded."""
        try:
            unit = connection.get_many(handle, options, request.most, bytes_max=UNIT_BYTES_MAX)
            if not unit and request.options.options & GetOption.WAIT and not self._interrupted:
                self._frames.send(requests.encode(requests.Reply(None, requests.Exchanged(waits=True))))
                unit = self._get_many(connection, handle, request)
        except MQIError as error:
            return requests.Exchanged(get=requests.failure_of(error))
        return requests.Exchanged(unit=tuple(unit))

    def _without_wait(self, connection: ServableConnection, request: requests.Exchange) -> GetOptions:
        """Return the request's options without the wait. The same request always gets the same record."""
        if request is not self._last_exchange[0]:
            self._last_exchange = request, connection.unwaiting(request.options)
        return self._last_exchange[1]

    def _get_many(
        self, connection: ServableConnection, handle: ObjectHandle, request: requests.GetMany | requests.Exchange
    ) -> list[Got]:
        bytes_max = request.bytes_max if isinstance(request, requests.GetMany) else UNIT_BYTES_MAX

        def get(options: GetOptions) -> list[Got]:
            return connection.get_many(handle, options, request.most, bytes_max=bytes_max)

        return self._get(connection, handle, request.options, get)

    def _arrives_within(self, ends_at: float | None) -> bool:
        """Wait for a message. Return False if the time is over. Raises `FrameError` if the application dies meanwhile."""
        interrupted = self._interrupted
        self._frames.let_go()
        self._answer = bytearray(LENGTH_BYTES)
        if self._frames.has_more:  # the socket cannot show these bytes
            interrupted = self._hears_interrupt()
        while not interrupted:
            left_s = None if ends_at is None else max(0.0, ends_at - self._clock.monotonic())
            silence_s = math.inf if self._frames.patient else self._frames.silence_s
            wait_s = silence_s if left_s is None else min(left_s, silence_s)
            waited = self._arrived.heard_beside(self._frames.socket, None if wait_s == math.inf else wait_s)
            stopped = self._ending and waited.signalled  # a stop sets the signal first; the get raises its reason
            if waited.readable and not stopped:
                interrupted = self._hears_interrupt()
            if waited.signalled:
                return True
            if not waited.readable:
                if left_s is not None and left_s <= silence_s:
                    break
                raise SilenceError(silence_s)
        return False

    def _hears_interrupt(self) -> bool:
        """Receive a heartbeat or an interrupt while a get waits. The end of the stream raises `FrameError`."""
        frame = self._frames.heard()
        if frame is not None:
            if not isinstance(self._decoded(frame), requests.Interrupt):
                raise FrameError("the application sent a request before its answer came")
            self._interrupted = True
        return self._interrupted
