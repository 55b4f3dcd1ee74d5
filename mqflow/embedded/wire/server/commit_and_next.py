"""A connection that asks for nothing but "commit, and the next": answered by the store's thread, its own asleep.

The one thread that listens to all such connections begins the commit; the store's thread, which has made it durable, gets what
comes next and answers. Everything else goes back to the connection's own thread, with what is left to do: another request, a
message of which something special is asked, a wait, an answer that does not go out at once, a peer that is gone. So nobody else
is ever kept waiting for this one. Knows the seam, frames and the records of `calls`; knows no rule of MQ.
"""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.frames import FrameError, Frames
from mqflow.embedded.wire.protocol.streams import Stream
from mqflow.embedded.wire.server.contract import ServableConnection
from mqflow.embedded.wire.server.idle_poller import Switchboard
from mqflow.mqi.errors import MQIError
from mqflow.verbs import UNIT_BYTES_MAX, GetOptions, Got, ObjectHandle
from mqflow.world import Runner

__all__ = ("CommitAndNext", "Left")


class Left(Struct, frozen=True):
    """What the connection's own thread has to do; nothing, where it only has to listen again."""

    #: What was settled for this, and not got.
    settled: requests.Exchange | None = None
    #: A request of another kind.
    frame: bytes | None = None
    #: What went wrong: the connection cannot go on.
    failure: Exception | None = None
    #: Whether an answer has gone out in part only.
    unsent: bool = False
    #: Whether the application has said that no get is to wait any more.
    interrupted: bool = False


class CommitAndNext:
    """A connection's line, while others answer. Its lock is held by whoever does anything with it."""

    def __init__(
        self,
        switchboard: Switchboard,
        connection: ServableConnection,
        frames: Frames,
        decoded: requests.Decoded,
        handle_of: Callable[[int], ObjectHandle],
        options_of: Callable[[requests.Exchange], GetOptions],
        runner: Runner,
    ) -> None:
        self._switchboard = switchboard
        self._connection = connection
        self._frames = frames
        self._decoded = decoded
        self._handle_of = handle_of
        self._options_of = options_of
        self._guard = runner.lock()
        self._over = runner.event()
        self._lent = False
        #: What is being committed for; nobody but the store's thread ends the loan meanwhile.
        self._owed: requests.Exchange | None = None
        #: What was heard meanwhile: the end.
        self._broken: Exception | None = None
        self._left = Left()
        self._quiet = False
        self._interrupted = False

    @property
    def stream(self) -> Stream:
        """What to wait for."""
        return self._frames.socket

    def lend(self, request: requests.Exchange) -> Left | None:
        """Have this done, and what is asked of the same kind afterwards; return what is left, when something is.

        None where nobody can listen: then nothing has happened.
        """
        self._over.clear()
        with self._guard:
            try:
                self._switchboard.connect(self)
            except (OSError, RuntimeError):  # no memory for it, or no thread
                return None
            self._lent, self._quiet, self._broken = True, False, None
            self._begin(request)
        self._over.wait()
        return self._left

    def heard(self) -> None:
        """Begin what is asked for, or give it back. On the switchboard's thread."""
        with self._guard:
            if not self._lent:  # given back between the two
                return
            try:
                self._hear()
            except Exception as error:  # noqa: BLE001 - whatever it is, the line's own thread ends by it, and no other
                if self._owed is None:
                    self._give_back(Left(failure=error))
                else:
                    self._broken = error
                    self._switchboard.disconnect(self)

    def tick(self) -> None:
        """Give it back where nothing was heard since the last one. On the switchboard's thread."""
        with self._guard:
            if self._lent and self._owed is None:
                if self._quiet:
                    self._give_back(Left())
                self._quiet = True

    def _hear(self) -> None:
        while self._lent and (frame := self._frames.heard()) is not None:
            self._quiet = False
            request = self._decoded(frame)
            if isinstance(request, requests.Interrupt):
                self._interrupted = True
            elif self._owed is not None:
                raise FrameError("the application spoke out of turn")
            elif isinstance(request, requests.Exchange) and request.commit is True and self._switchboard.crowd.is_large:
                self._begin(request)
            else:
                self._give_back(Left(frame=frame))
            if not self._frames.has_more:
                break

    def _begin(self, request: requests.Exchange) -> None:
        self._owed = request
        self._frames.beating = True  # the application listens while it waits for an answer, and only then
        try:
            if not self._connection.begin_commit(self._settled):
                return
        except MQIError as error:
            self._answer(error)
        except Exception as failure:  # noqa: BLE001 - as when it is heard: nothing will come of this, and its own thread says so
            self._owed = None
            self._give_back(Left(failure=failure))
        else:
            self._answer(None)

    def _settled(self, error: MQIError | None) -> None:
        """Answer. On the store's thread: nothing here may fail, or wait."""
        with self._guard:
            self._answer(error)

    def _answer(self, error: MQIError | None) -> None:
        request, self._owed = self._owed, None
        assert request is not None  # noqa: S101 - whoever begins sets it
        try:
            if error is None:
                unit = self._got(request)
                if not unit:
                    self._give_back(Left(settled=request, failure=self._broken))
                    return
                exchanged = requests.Exchanged(unit=tuple(unit))
            else:
                exchanged = requests.Exchanged(settle=requests.failure_of(error))
            self._frames.beating = False
            whole = self._frames.send_at_once(requests.encode(requests.Reply(None, exchanged)))
        except Exception as failure:  # noqa: BLE001 - the store goes on, whatever is wrong with this line
            self._give_back(Left(failure=failure))
            return
        if self._broken is not None or not whole:
            self._give_back(Left(failure=self._broken, unsent=not whole))

    def _got(self, request: requests.Exchange) -> list[Got]:
        if self._broken is not None:  # it would be backed out at once, and counted
            return []
        handle, options = self._handle_of(request.handle), self._options_of(request)
        return self._connection.get_at_once(handle, options, most=request.most, bytes_max=UNIT_BYTES_MAX)

    def _give_back(self, left: Left) -> None:
        self._lent = False
        self._switchboard.disconnect(self)
        self._left = replace(left, interrupted=self._interrupted)
        self._over.set()
