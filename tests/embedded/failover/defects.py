"""Defects to plant before failovers. A harness that has never found a defect proves nothing."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial

from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.state.backlog import Backlog
from mqflow.embedded.state.sorted_keys import SortedKeys
from mqflow.embedded.storage.durable_store import DurableStore
from mqflow.embedded.storage.in_flight_marks import InFlightMarks
from mqflow.embedded.storage.owner_lock import OwnerLock
from mqflow.embedded.storage.requests import Done
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import Change
from mqflow.mqi.errors import MQIError
from tests.embedded.failover import failover_life as failing_over

__all__ = ("DEFECTS",)


def _answer_before_writing() -> None:
    whole = SqliteStore.write

    def write(self: DurableStore, changes: Sequence[Change], done: Done | None) -> None:
        if done is not None:
            done(None)
        threading.Timer(0.02, whole, (self, changes, None)).start()

    SqliteStore.write = write  # type: ignore[method-assign]  # the defect


def _commit_for_the_dead() -> None:
    whole = EmbeddedConnection.abandon

    def abandon(self: EmbeddedConnection) -> None:
        with suppress(MQIError):
            self.disconnect()
        whole(self)

    EmbeddedConnection.abandon = abandon  # type: ignore[method-assign]  # the defect


def _repeat_commits() -> None:
    failing_over.mover = partial(failing_over.mover, repeats_commits=True)


def _keep(self: OwnerLock) -> None:
    del self


def _leave_the_lock_to_children() -> None:
    OwnerLock.disown = _keep  # type: ignore[method-assign]  # the defect
    whole = OwnerLock.claim

    def claim(self: OwnerLock, epoch: int) -> None:
        whole(self, epoch)
        if os.fork() == 0:
            time.sleep(8)
            os._exit(0)

    OwnerLock.claim = claim  # type: ignore[method-assign]  # the defect


def _forget_what_was_in_flight() -> None:
    InFlightMarks.recorded = lambda _: {}  # type: ignore[method-assign,assignment]  # the defect


def _count_a_delivery_twice() -> None:
    whole = InFlightMarks.recorded

    def recorded(self: InFlightMarks) -> dict[int, int]:
        return {serial: count + 1 for serial, count in whole(self).items()}

    InFlightMarks.recorded = recorded  # type: ignore[method-assign]  # the defect


class _TurnedRound(SortedKeys):
    """Keys that a get finds from the last to the first."""

    __slots__ = ()

    def first(self) -> int | None:
        return max(self, default=None)

    def first_ones(self, count: int) -> list[int]:  # noqa: ARG002 - the name belongs to the signature
        return []  # each get then uses `first`


def _turn_the_order_round() -> None:
    def load(self: Backlog, keys: Iterable[int]) -> None:
        self._order = _TurnedRound(keys)

    Backlog.load = load  # type: ignore[method-assign]  # the defect


DEFECTS: dict[str, Callable[[], None]] = {
    "none": lambda: None,
    "answers before writing": _answer_before_writing,
    "commits what a dead application held": _commit_for_the_dead,
    "an application repeats a commit in doubt": _repeat_commits,
    "the lock is inherited by a child": _leave_the_lock_to_children,
    "a takeover forgets what was in flight": _forget_what_was_in_flight,
    "a takeover counts each delivery twice": _count_a_delivery_twice,
    "a takeover turns the order round": _turn_the_order_round,
}
"""The defects by name. The harness must find each of them."""
