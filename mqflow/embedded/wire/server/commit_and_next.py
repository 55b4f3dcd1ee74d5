"""Answers a connection that only repeats "commit, then get the next", while the connection's own thread blocks.

The idle poller's thread receives the requests of all such connections and begins the commits. The store's thread, which makes a
commit durable, gets the next messages and replies. All other work is left over for the connection's own thread: any other
request, a message with special options, or a wait. The same holds if the socket does not accept a reply immediately, or if the
peer is gone. So no connection of the poller waits for another connection. This module knows frames and `requests`, but no rule
of MQ.
"""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.frames import FrameError, Frames
from mqflow.embedded.wire.protocol.streams import Stream
from mqflow.embedded.wire.server.contract import ServableConnection
from mqflow.embedded.wire.server.idle_poller import IdlePoller
from mqflow.mqi.errors import MQIError
from mqflow.verbs import UNIT_BYTES_MAX, GetOptions, Got, ObjectHandle
from mqflow.world import Runner

__all__ = ("CommitAndNext", "LeftOver")


class LeftOver(Struct, frozen=True):
    """The work left over for the connection's own thread. In an empty record, that thread only has to receive again."""

    #: The exchange that is settled, but has no messages yet.
    settled: requests.Exchange | None = None
    #: A request that the idle poller cannot answer.
    frame: bytes | None = None
    #: The error that ends the connection.
    failure: Exception | None = None
    #: True if only a part of a reply is sent.
    unsent: bool = False
    #: True if the application has ended the waits of its gets.
    interrupted: bool = False


class CommitAndNext:
    """A connection while the idle poller and the store answer its requests. Each thread takes a lock to use this object."""

    def __init__(
        self,
        idle_poller: IdlePoller,
        connection: ServableConnection,
        frames: Frames,
        decoded: requests.Decoded,
        handle_of: Callable[[int], ObjectHandle],
        options_of: Callable[[requests.Exchange], GetOptions],
        runner: Runner,
    ) -> None:
        self._idle_poller = idle_poller
        self._connection = connection
        self._frames = frames
        self._decoded = decoded
        self._handle_of = handle_of
        self._options_of = options_of
        self._guard = runner.lock()
        self._over = runner.event()
        self._handed_over = False
        #: The exchange whose commit has begun. Until the commit is complete, only the store's thread can hand back the
        #: connection.
        self._owed: requests.Exchange | None = None
        #: The error of a stream that ended during a commit.
        self._broken: Exception | None = None
        self._left = LeftOver()
        self._quiet = False
        self._interrupted = False

    @property
    def stream(self) -> Stream:
        """The stream to wait for."""
        return self._frames.socket

    def hand_over(self, request: requests.Exchange) -> LeftOver | None:
        """Let the idle poller answer this request and later ones of its kind. Block until work is left over, and return it.

        Returns None if the idle poller cannot take the connection. The caller must then carry out the request itself.
        """
        self._over.clear()
        with self._guard:
            try:
                self._idle_poller.connect(self)
            except (OSError, RuntimeError):  # the system has no memory or no threads left
                return None
            self._handed_over, self._quiet, self._broken = True, False, None
            self._begin(request)
        self._over.wait()
        return self._left

    def heard(self) -> None:
        """Begin the requested commit, or hand the connection back. Runs on the idle poller's thread."""
        with self._guard:
            if not self._handed_over:  # the connection was handed back before this call
                return
            try:
                self._hear()
            except Exception as error:  # noqa: BLE001 - any error ends only this connection, on its own thread
                if self._owed is None:
                    self._hand_back(LeftOver(failure=error))
                else:
                    self._broken = error
                    self._idle_poller.disconnect(self)

    def tick(self) -> None:
        """Hand the connection back if no request has arrived since the last tick. Runs on the idle poller's thread."""
        with self._guard:
            if self._handed_over and self._owed is None:
                if self._quiet:
                    self._hand_back(LeftOver())
                self._quiet = True

    def _hear(self) -> None:
        while self._handed_over and (frame := self._frames.heard()) is not None:
            self._quiet = False
            request = self._decoded(frame)
            if isinstance(request, requests.Interrupt):
                self._interrupted = True
            elif self._owed is not None:
                raise FrameError("the application sent a request before its answer came")
            elif isinstance(request, requests.Exchange) and request.commit is True and self._idle_poller.committers.are_many:
                self._begin(request)
            else:
                self._hand_back(LeftOver(frame=frame))
            if not self._frames.has_more:
                break

    def _begin(self, request: requests.Exchange) -> None:
        self._owed = request
        self._frames.beating = True  # the application only receives while it waits for a reply
        try:
            if not self._connection.begin_commit(self._settled):
                return
        except MQIError as error:
            self._answer(error)
        except Exception as failure:  # noqa: BLE001 - as in `heard`: its own thread raises the error
            self._owed = None
            self._hand_back(LeftOver(failure=failure))
        else:
            self._answer(None)

    def _settled(self, error: MQIError | None) -> None:
        """Reply to the exchange. Runs on the store's thread, so this method must not raise or wait."""
        with self._guard:
            self._answer(error)

    def _answer(self, error: MQIError | None) -> None:
        request, self._owed = self._owed, None
        assert request is not None  # noqa: S101 - `_begin` sets it
        try:
            if error is None:
                unit = self._got(request)
                if not unit:
                    self._hand_back(LeftOver(settled=request, failure=self._broken))
                    return
                exchanged = requests.Exchanged(unit=tuple(unit))
            else:
                exchanged = requests.Exchanged(settle=requests.failure_of(error))
            self._frames.beating = False
            whole = self._frames.send_at_once(requests.encode(requests.Reply(None, exchanged)))
        except Exception as failure:  # noqa: BLE001 - an error of this connection must not stop the store
            self._hand_back(LeftOver(failure=failure))
            return
        if self._broken is not None or not whole:
            self._hand_back(LeftOver(failure=self._broken, unsent=not whole))

    def _got(self, request: requests.Exchange) -> list[Got]:
        if self._broken is not None:  # a message would be backed out immediately, and the backout counted
            return []
        handle, options = self._handle_of(request.handle), self._options_of(request)
        return self._connection.get_at_once(handle, options, most=request.most, bytes_max=UNIT_BYTES_MAX)

    def _hand_back(self, left: LeftOver) -> None:
        self._handed_over = False
        self._idle_poller.disconnect(self)
        self._left = replace(left, interrupted=self._interrupted)
        self._over.set()
