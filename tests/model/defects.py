"""Defects, planted one at a time: a state machine that never found a defect proves nothing.

A defect is planted at a call if possible; otherwise in the step of the embedded queue manager that would have the defect.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pytest
from msgspec.structs import replace

from mqflow.embedded.administration.queues import Definitions
from mqflow.embedded.calls import browse, enqueue, settle
from mqflow.embedded.calls import put as putting
from mqflow.embedded.calls import wait as waiting
from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.state.backlog import QueuedMessage, order_key
from mqflow.embedded.state.objects import LocalQueue, UnitOfWork
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import BackoutCounted, Change, MessageAdded, MessageRemoved, Store
from mqflow.mqi.options import GetOption, MatchOption, OpenOption, PutOption
from mqflow.testing.virtual_clock import VirtualClock
from mqflow.verbs import GetOptions, Got
from mqflow.world import World
from tests.model import machine

__all__ = ("DEFECTS", "DURABLE_DEFECTS", "Plant", "a_backout_is_not_counted")

Plant = Callable[[pytest.MonkeyPatch], None]

_UNIT: Final = GetOption.SYNCPOINT | GetOption.SYNCPOINT_IF_PERSISTENT


def _change_get(patch: pytest.MonkeyPatch, change: Callable[[GetOptions], GetOptions]) -> None:
    real = EmbeddedConnection.get

    def get(self: EmbeddedConnection, handle: Any, options: GetOptions) -> Got | None:
        return real(self, handle, change(options))

    patch.setattr(EmbeddedConnection, "get", get)


def a_get_in_the_unit_of_work_is_not_in_it(patch: pytest.MonkeyPatch) -> None:
    def outside(options: GetOptions) -> GetOptions:
        return replace(options, options=(options.options & ~_UNIT) | GetOption.NO_SYNCPOINT)

    _change_get(patch, outside)


def a_get_by_identifier_takes_any(patch: pytest.MonkeyPatch) -> None:
    _change_get(patch, lambda options: replace(options, match=MatchOption.NONE))


def browse_next_starts_again(patch: pytest.MonkeyPatch) -> None:
    def from_the_first(options: GetOptions) -> GetOptions:
        if not options.options & GetOption.BROWSE_NEXT or options.options & GetOption.LOCK:
            return options
        return replace(options, options=(options.options & ~GetOption.BROWSE_NEXT) | GetOption.BROWSE_FIRST)

    _change_get(patch, from_the_first)


def an_uncommitted_put_is_visible(patch: pytest.MonkeyPatch) -> None:
    real = EmbeddedConnection.put1

    def put1(self: EmbeddedConnection, target: Any, descriptor: Any, body: bytes, options: PutOption) -> Any:
        return real(self, target, descriptor, body, (options & ~PutOption.SYNCPOINT) | PutOption.NO_SYNCPOINT)

    patch.setattr(EmbeddedConnection, "put1", put1)


def exclusive_input_is_shared(patch: pytest.MonkeyPatch) -> None:
    real = EmbeddedConnection.open

    def shared(self: EmbeddedConnection, target: Any, options: OpenOption) -> Any:
        if options & OpenOption.INPUT_EXCLUSIVE:
            options = (options & ~OpenOption.INPUT_EXCLUSIVE) | OpenOption.INPUT_SHARED
        return real(self, target, options)

    patch.setattr(EmbeddedConnection, "open", shared)


def disconnecting_backs_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EmbeddedConnection, "disconnect", EmbeddedConnection.abandon)


def a_backout_is_not_counted(patch: pytest.MonkeyPatch) -> None:
    real = settle.back_out
    patch.setattr(settle, "back_out", lambda machine, unit: real(machine, unit, count=False))


def a_backed_out_message_goes_to_the_end(patch: pytest.MonkeyPatch) -> None:
    real = settle.release
    serials = itertools.count(1 << 40)

    def release(queue: LocalQueue, message: QueuedMessage) -> None:
        if message.descriptor.backout_count:
            message.key = (message.key >> 56 << 56) | next(serials)
        real(queue, message)

    patch.setattr(settle, "release", release)


def a_commit_shows_all_puts_but_one(patch: pytest.MonkeyPatch) -> None:
    real = settle._apply

    def apply(machine: QueueManagerState, unit: UnitOfWork) -> None:
        if len(unit.puts) > 1:
            _, (queue, _) = unit.puts.popitem()
            queue.uncommitted -= 1
        real(machine, unit)

    patch.setattr(settle, "_apply", apply)


def an_expired_message_is_returned(patch: pytest.MonkeyPatch) -> None:
    def with_a_stopped_clock(name: str, *, store: Store, world: World) -> EmbeddedQueueManager:
        return EmbeddedQueueManager(name, store=store, world=World(VirtualClock(world.clock.wall())))

    patch.setattr(machine, "EmbeddedQueueManager", with_a_stopped_clock)


def a_browse_lock_hides_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(browse, "locked_by_other", lambda _queue, _message, _handle: False)


def uncommitted_messages_do_not_count_for_the_depth(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LocalQueue, "depth", property(lambda queue: queue.available))


def a_full_queue_takes_more(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(putting, "check_room", lambda _machine, _queue, _bytes: None)


def a_unit_of_work_has_no_bound(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(UnitOfWork, "check_room", lambda _unit, _operations, _most: None)


def priority_does_not_matter(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(enqueue, "order_key", partial(_by_arrival, order_key))


def _by_arrival(place: Callable[[int, int], int], _priority: int, serial: int) -> int:
    return place(0, serial)


def an_inhibited_queue_gives_messages(patch: pytest.MonkeyPatch) -> None:
    real = Definitions.alter

    def alter(self: Definitions, name: str, changes: Mapping[str, object], *, force: bool = False) -> None:
        real(self, name, {**changes, **({"get_inhibited": False} if "get_inhibited" in changes else {})}, force=force)

    patch.setattr(Definitions, "alter", alter)


def an_arriving_message_wakes_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settle, "announce", lambda _queue, _message: None)


def who_gives_up_keeps_the_wake(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(waiting, "announce", lambda _queue, _message: None)


def _forget(patch: pytest.MonkeyPatch, kind: type[Change]) -> None:
    real = settle._changes

    def changes(unit: UnitOfWork) -> list[Change]:
        return [change for change in real(unit) if not isinstance(change, kind)]

    patch.setattr(settle, "_changes", changes)


def a_committed_put_is_not_on_disk(patch: pytest.MonkeyPatch) -> None:
    _forget(patch, MessageAdded)


def a_committed_get_is_not_on_disk(patch: pytest.MonkeyPatch) -> None:
    _forget(patch, MessageRemoved)


def a_backout_count_is_not_on_disk(patch: pytest.MonkeyPatch) -> None:
    real = SqliteStore.write

    def write(self: Any, changes: Sequence[Change], done: Any) -> None:
        real(self, [change for change in changes if not isinstance(change, BackoutCounted)], done)

    patch.setattr(SqliteStore, "write", write)


DEFECTS: Final[tuple[Plant, ...]] = (
    a_backed_out_message_goes_to_the_end,
    a_backout_is_not_counted,
    a_browse_lock_hides_nothing,
    a_commit_shows_all_puts_but_one,
    a_full_queue_takes_more,
    a_get_by_identifier_takes_any,
    a_get_in_the_unit_of_work_is_not_in_it,
    a_unit_of_work_has_no_bound,
    an_arriving_message_wakes_nobody,
    an_expired_message_is_returned,
    an_inhibited_queue_gives_messages,
    an_uncommitted_put_is_visible,
    browse_next_starts_again,
    disconnecting_backs_out,
    exclusive_input_is_shared,
    priority_does_not_matter,
    uncommitted_messages_do_not_count_for_the_depth,
    who_gives_up_keeps_the_wake,
)
DURABLE_DEFECTS: Final[tuple[Plant, ...]] = (
    a_backout_count_is_not_on_disk,
    a_committed_get_is_not_on_disk,
    a_committed_put_is_not_on_disk,
)
