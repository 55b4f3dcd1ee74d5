"""An embedded queue manager whose commits wait for the test: the test answers each commit, in the way that it chooses."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, Literal

import anyio
from anyio.lowlevel import checkpoint

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.testing.kit import carry_out
from mqflow.verbs import Connection, Got, ManyPut, Put
from tests.queue_contents import taken

__all__ = ("Answer", "HeldCommits")

_TURNS: Final = 10


class Answer(Enum):
    """The fate of a commit."""

    COMMITTED = "committed"
    BACKED_OUT = "backed out, 2003"
    LOST_BEFORE = "no answer, and it took no effect"
    LOST_AFTER = "no answer, and it took effect"
    ENDED = "2003, and the connection is gone"


class HeldCommits:
    """The queue manager. Its verbs are direct calls, as those of the embedded queue manager."""

    inline: Literal[True] = True
    stopped = False

    def __init__(self, *mqsc: str) -> None:
        self.name = "QM1"
        self.behind = EmbeddedQueueManager("QM1")
        carry_out(self.behind.administration, mqsc or ("DEFINE QLOCAL(OUT)",))
        #: The bodies in each commit that was sent, in order.
        self.commits: list[list[bytes]] = []
        #: Called with each body before its put; it can raise.
        self.before_put: Callable[[bytes], object] = lambda _body: None
        self._held: list[_Connection] = []
        self._arrived: anyio.Event | None = None

    def connect(self, *, application_name: str = "", user: str = "") -> Any:
        return _Connection(self.behind.connect(application_name=application_name, user=user), self)

    def held(self) -> bool:
        """Return whether a commit waits for its answer."""
        return bool(self._held)

    def answer(self, how: Answer = Answer.COMMITTED) -> None:
        """Answer the commit that waits longest."""
        self._held.pop(0).answer(how)

    async def next_commit(self) -> list[bytes]:
        """Wait until a commit waits for its answer. Return the bodies in the commit."""
        while not self._held:
            self._arrived = anyio.Event()
            await self._arrived.wait()
        for _ in range(_TURNS):  # the other tasks go as far as they can
            await checkpoint()
        return self.commits[-1]

    async def answer_all(self, *how: Answer) -> None:
        """Answer the next commits in these ways, and each later commit with success, until the caller is cancelled."""
        answers = list(how)
        while True:
            await self.next_commit()
            self.answer(answers.pop(0) if answers else Answer.COMMITTED)

    def messages(self) -> Sequence[Got]:
        """Get all messages of OUT."""
        return taken(self.behind, "OUT")

    def hold(self, connection: "_Connection", bodies: list[bytes]) -> None:
        self.commits.append(bodies)
        self._held.append(connection)
        if self._arrived is not None:
            self._arrived.set()


class _Connection:
    def __init__(self, behind: Connection, manager: HeldCommits) -> None:
        self._behind: Any = behind
        self._manager = manager
        self._unit: list[bytes] = []
        self._done: Callable[[MQIError | None], None] | None = None
        self._abandoned = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    def put(self, handle: Any, descriptor: MessageDescriptor, body: bytes, options: PutOption, *, context: Any = None) -> Put:
        assert self._done is None
        self._manager.before_put(body)
        put: Put = self._behind.put(handle, descriptor, body, options, context=context)
        self._unit.append(body)
        return put

    def put_many(
        self, handle: Any, messages: Sequence[tuple[MessageDescriptor, bytes]], options: PutOption, *, context: Any = None
    ) -> ManyPut:
        puts: list[Put] = []
        for descriptor, body in messages:
            try:
                puts.append(self.put(handle, descriptor, body, options, context=context))
            except MQIError as error:
                return ManyPut(puts, error)
        return ManyPut(puts)

    def begin_commit(self, done: Callable[[MQIError | None], None]) -> bool:
        assert self._done is None
        if not self._unit:
            self._behind.commit()
            return True
        self._done, unit, self._unit = done, self._unit, []
        self._manager.hold(self, unit)
        return False

    def backout(self) -> None:
        if self._done is not None:
            raise error_for(Reason.CALL_IN_PROGRESS, "MQBACK", "", "QM1")
        self._unit = []
        self._behind.backout()

    def abandon(self) -> None:
        self._abandoned = True
        if self._done is None:
            self._behind.abandon()

    def answer(self, how: Answer) -> None:
        done, self._done = self._done, None
        assert done is not None
        if how in {Answer.COMMITTED, Answer.LOST_AFTER}:
            self._behind.commit()
        if how is Answer.BACKED_OUT:
            self._behind.backout()
        if self._abandoned or how in {Answer.LOST_BEFORE, Answer.LOST_AFTER, Answer.ENDED}:
            self._behind.abandon()
        done(error_for(_ERRORS[how], "MQCMIT", "", "QM1") if how in _ERRORS else None)


_ERRORS: Final = {
    Answer.BACKED_OUT: Reason.BACKED_OUT,
    Answer.ENDED: Reason.BACKED_OUT,
    Answer.LOST_BEFORE: Reason.CONNECTION_BROKEN,
    Answer.LOST_AFTER: Reason.CONNECTION_BROKEN,
}
