"""Defects, planted one at a time in the real code. A seed must find each defect; otherwise the simulation proves nothing."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import pytest
from msgspec.structs import replace

from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.storage import owner_lock, sqlite_store
from mqflow.embedded.storage.fence import Fence
from mqflow.embedded.storage.in_flight_marks import InFlightMarks
from mqflow.embedded.wire.client import connection
from mqflow.embedded.wire.client.line import Line
from mqflow.embedded.wire.protocol.requests import Request
from mqflow.embedded.wire.server.client_connection import ClientConnection
from mqflow.events import Settled
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison import backout
from mqflow.policy.poison.disposition import Settlement
from mqflow.runtime.connection.open_objects import OpenObjects, TakenOver
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.listener.backout_settings import SettingsCache
from mqflow.runtime.listener.worker_events import WorkerEvents
from mqflow.verbs import SettledMany

__all__ = ("DEFECTS", "Plant")

Plant = Callable[[pytest.MonkeyPatch], None]


def two_sessions_reconnect_at_once(patch: pytest.MonkeyPatch) -> None:
    class _NoGate:
        async def __aenter__(self) -> None: ...
        async def __aexit__(self, *_: object) -> None: ...

    real = Supervisor.__init__

    def init(self: Supervisor, *args: Any, **options: Any) -> None:
        real(self, *args, **options)
        self._gate = _NoGate()  # type: ignore[assignment]  # the defect

    patch.setattr(Supervisor, "__init__", init)


def a_commit_is_repeated_after_reconnecting(patch: pytest.MonkeyPatch) -> None:
    """The messages of a commit in doubt are put again, on the next connection."""
    real = connection.ServedConnection.put1
    exchange = connection.ServedConnection.exchange
    asked: dict[Any, list[tuple[Any, ...]]] = {}
    doubtful: list[tuple[Any, ...]] = []

    def put(self: Any, handle: Any, descriptor: Any, body: bytes, options: Any, *, context: Any = None) -> Any:
        asked.setdefault(self, []).append((handle.name, descriptor, body))
        return whole_put(self, handle, descriptor, body, options, context=context)

    whole_put = connection.ServedConnection.put

    def exchanges(self: Any, handle: Any, options: Any, *, commit: bool | None, most: int) -> Any:
        mine = asked.pop(self, []) if commit is not None else []
        answer = exchange(self, handle, options, commit=commit, most=most)
        if commit and answer.settle_error is not None and answer.settle_error.reason == Reason.CALL_INTERRUPTED:
            doubtful.extend(mine)
        elif commit and doubtful:
            for each in doubtful:
                name, descriptor, body = each
                real(self, name, descriptor, body, PutOption.NO_SYNCPOINT)
            doubtful.clear()
        return answer

    patch.setattr(connection.ServedConnection, "put", put)
    patch.setattr(connection.ServedConnection, "exchange", exchanges)


def an_object_is_not_opened_again(patch: pytest.MonkeyPatch) -> None:
    def take_over(self: OpenObjects, before: OpenObjects) -> TakenOver:
        self._ledger, self._known = before.ledger, dict(before._known)
        self._handles = dict(before._handles)  # the handles of the lost connection
        return TakenOver()

    patch.setattr(OpenObjects, "take_over", take_over)


def what_was_inquired_is_kept_for_ever(patch: pytest.MonkeyPatch) -> None:
    real = SettingsCache.get

    async def get(self: SettingsCache, session: Any, handle: Any, generation: int) -> Any:
        return replace(await real(self, session, handle, 0), generation=generation)

    patch.setattr(SettingsCache, "get", get)


def a_standby_does_not_wait_for_the_lock(patch: pytest.MonkeyPatch) -> None:
    """A file system grants the lock twice, and the owner does not check its epoch."""
    patch.setattr("mqflow.embedded.storage.owner_lock.fcntl.flock", lambda *_: None)
    patch.setattr(owner_lock, "_keeps_out", lambda _: True)
    patch.setattr(Fence, "broken", lambda _: "")


def an_unknown_commit_is_called_a_backout(patch: pytest.MonkeyPatch) -> None:
    def in_doubt(self: WorkerEvents, error: MQIError, ids: tuple[bytes, ...], puts: tuple[bytes, ...]) -> None:
        del error, puts
        self._state.broadcast(
            Settled(
                queue=self._spec.queue, listener=self._spec.name, settlement=Settlement.BACKOUT, message_ids=ids, outcome=None
            )
        )

    patch.setattr(WorkerEvents, "in_doubt", in_doubt)


def a_doubt_is_called_a_refusal(patch: pytest.MonkeyPatch) -> None:
    real = Line.reply

    def reply(
        self: Line, request: Request, frame: bytes | None, verb: str, object_name: str = "", *, unknown: bool = False
    ) -> Any:
        del unknown
        return real(self, request, frame, verb, object_name, unknown=False)

    patch.setattr(Line, "reply", reply)


def backouts_are_forgotten_at_a_takeover(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InFlightMarks, "recorded", lambda _: {})


def a_dead_application_is_committed(patch: pytest.MonkeyPatch) -> None:
    real = EmbeddedConnection.abandon

    def abandon(self: EmbeddedConnection) -> None:
        with suppress(MQIError):
            self.disconnect()
        real(self)

    patch.setattr(EmbeddedConnection, "abandon", abandon)


def a_commit_is_answered_before_it_is_written(patch: pytest.MonkeyPatch) -> None:
    real = sqlite_store.SqliteStore.write

    def write(self: Any, changes: Sequence[Any], done: Any) -> None:
        if done is not None:
            done(None)
        real(self, changes, None)

    patch.setattr(sqlite_store.SqliteStore, "write", write)


def who_did_not_hear_the_welcome_stays_connected(patch: pytest.MonkeyPatch) -> None:
    real = ClientConnection._welcome

    def welcome(self: ClientConnection) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(EmbeddedConnection, "abandon", lambda _: None)
            return real(self)

    patch.setattr(ClientConnection, "_welcome", welcome)


def idle_sessions_are_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Supervisor, "let_go_when_quiescing", lambda *_: None)


def poison_is_found_one_delivery_late(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(backout, "is_poison", lambda backout_count, threshold: 0 < threshold < backout_count)


def messages_ahead_are_kept_at_a_backout(patch: pytest.MonkeyPatch) -> None:
    real = EmbeddedConnection.give_back

    def give_back(self: EmbeddedConnection, count: int | None = None) -> None:
        if count is not None:
            real(self, count)

    patch.setattr(EmbeddedConnection, "give_back", give_back)


def a_request_without_an_answer_counts_as_committed(patch: pytest.MonkeyPatch) -> None:
    real = connection.ServedConnection.settle_many

    def settle_many(self: Any, *arguments: Any, commits: int, **options: Any) -> SettledMany:
        return SettledMany([None] * commits, real(self, *arguments, commits=commits, **options).units)

    patch.setattr(connection.ServedConnection, "settle_many", settle_many)


DEFECTS: Final[dict[str, Plant]] = {
    each.__name__: each
    for each in (
        two_sessions_reconnect_at_once,
        a_commit_is_repeated_after_reconnecting,
        an_object_is_not_opened_again,
        what_was_inquired_is_kept_for_ever,
        a_standby_does_not_wait_for_the_lock,
        an_unknown_commit_is_called_a_backout,
        a_doubt_is_called_a_refusal,
        backouts_are_forgotten_at_a_takeover,
        a_dead_application_is_committed,
        a_commit_is_answered_before_it_is_written,
        who_did_not_hear_the_welcome_stays_connected,
        poison_is_found_one_delivery_late,
        messages_ahead_are_kept_at_a_backout,
        a_request_without_an_answer_counts_as_committed,
    )
}
"""The defects by name, for the command line."""
