"""A connection to the embedded queue manager: the verbs of the seam, each a few steps under the machine's lock.

Guards handles and state, names verb and object in what is refused, and waits: for a message, or for the disk. What a verb does
is in `opening`, `putting`, `getting`, `inquiring` and `settling`.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from mqflow.embedded.calls import get as getting
from mqflow.embedded.calls import open as opening
from mqflow.embedded.calls import settle
from mqflow.embedded.calls import subscribe as subscribing
from mqflow.embedded.calls.get_many import get_plain
from mqflow.embedded.calls.groups import planned_get, warn_incomplete
from mqflow.embedded.calls.inquire import inquire_object, set_object
from mqflow.embedded.calls.put import put_message
from mqflow.embedded.calls.putting_many import put_messages
from mqflow.embedded.calls.wait import interrupt, wait, withdraw
from mqflow.embedded.rules.get_plan import GetPlan, Reach, plan_get
from mqflow.embedded.rules.open_options import CONTEXT
from mqflow.embedded.rules.put_plan import PutPlan, plan_put
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.handle import EmbeddedHandle
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.state.subscription_index import EmbeddedSubscriptionHandle
from mqflow.embedded.state.unit_of_work import UnitOfWork
from mqflow.many_verbs import ends_unit, following
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import CloseOption, OpenOption, PutOption, SubscriptionRequestOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import (
    UNIT_BYTES_MAX,
    GetOptions,
    Got,
    Inquired,
    ManyPut,
    ObjectDescriptor,
    Put,
    Subscribed,
    object_descriptor,
)

__all__ = ("EmbeddedConnection",)


_UNDONE: Final = Refusal(Reason.BACKED_OUT, "The connection ended before it was committed, so the unit of work was backed out")


class EmbeddedConnection:
    """Hconn: offers `verbs.InlineConnection`. Any thread may use it, one call at a time; a second one meanwhile gets 2219."""

    def __init__(self, state: QueueManagerState, *, application_name: str, user: str, number: int) -> None:
        self.application_name = application_name
        self.user = user
        #: What `DISPLAY QSTATUS TYPE(HANDLE)` calls it.
        self.identifier = f"{number:016X}"
        self.handles: set[EmbeddedHandle] = set()
        self.subscriptions: set[EmbeddedSubscriptionHandle] = set()
        self.unit_of_work = UnitOfWork()
        self._state = state
        # Why no verb may be called any more: 2018 disconnected, 2009 abandoned, 2162 the queue manager stopped.
        self._ended = 0
        # A verb waits without the lock.
        self._busy = False
        self._committing = False
        # The end of the connection backed out a unit of work: a commit has to say so.
        self._undone = False
        # Why a `get_many` ended that returned messages, where the next get would not meet it again.
        self._untold: Refusal | None = None

    @property
    def queue_manager_name(self) -> str:
        """The name of the queue manager."""
        return self._state.name

    def open(self, target: ObjectDescriptor | str, options: OpenOption) -> EmbeddedHandle:
        """Return a handle on the object (MQOPEN)."""
        wanted = opening.Wanted(object_descriptor(target), OpenOption(options))
        try:
            with self._state.lock:
                self._check_usable()
                return opening.open_object(self._state, self, wanted)
        except Refusal as refusal:
            raise refusal.on("MQOPEN", wanted.descriptor.name, self.queue_manager_name) from None

    def close(self, handle: Any, options: CloseOption = CloseOption.NONE) -> None:
        """Close it (MQCLOSE); a temporary dynamic queue goes with the handle that made it."""
        try:
            with self._state.lock:
                self._check_usable()
                wait_until_durable = self._close(handle, CloseOption(options))
                self._busy = wait_until_durable is not None
            if wait_until_durable is not None:
                self._finish(wait_until_durable, None)
            if isinstance(handle, EmbeddedHandle):
                warn_incomplete(handle)
        except Refusal as refusal:
            raise refusal.on("MQCLOSE", _name_of(handle), self.queue_manager_name) from None

    def put(self, handle: Any, descriptor: MessageDescriptor, body: bytes, options: PutOption, *, context: Any = None) -> Put:
        """Put a message (MQPUT). Outside a unit of work, a persistent one is durable when this returns."""
        try:
            with self._state.lock:
                self._check_usable()
                self._check_handle(handle)
                plan = plan_put(int(options))
                put, alone = put_message(self._state, handle, descriptor, body, plan, context)
                self._busy = alone is not None
            if alone is not None:
                self._commit_alone(alone)
        except Refusal as refusal:
            raise refusal.on("MQPUT", _name_of(handle), self.queue_manager_name) from None
        return put

    def put_many(
        self, handle: Any, messages: Sequence[tuple[MessageDescriptor, bytes]], options: PutOption, *, context: Any = None
    ) -> ManyPut:
        """Put the messages in order; in one step under syncpoint, where none waits for the disk."""
        puts: list[Put] = []
        try:
            if not int(options) & PutOption.SYNCPOINT:
                for descriptor, body in messages:
                    puts.append(self.put(handle, descriptor, body, options, context=context))
                return ManyPut(tuple(puts))
            with self._state.lock:
                self._check_usable()
                self._check_handle(handle)
                plan = plan_put(int(options))
                put_messages(self._state, handle, messages, plan, context, puts)
        except Refusal as refusal:
            return ManyPut(tuple(puts), refusal.on("MQPUT", _name_of(handle), self.queue_manager_name))
        except MQIError as error:
            return ManyPut(tuple(puts), error)
        return ManyPut(tuple(puts))

    def put1(
        self,
        target: ObjectDescriptor | str,
        descriptor: MessageDescriptor,
        body: bytes,
        options: PutOption,
        *,
        context: Any = None,
    ) -> Put:
        """Open, put one message, close (MQPUT1). The context options need no open options."""
        implied = OpenOption.OUTPUT | OpenOption(int(options) & (CONTEXT | OpenOption.ALTERNATE_USER_AUTHORITY))
        if int(options) & PutOption.FAIL_IF_QUIESCING:
            implied |= OpenOption.FAIL_IF_QUIESCING
        wanted = opening.Wanted(replace(object_descriptor(target), selection=""), implied, for_one_put=True)
        try:
            with self._state.lock:
                self._check_usable()
                plan = _plan_put1(int(options))
                handle = opening.open_object(self._state, self, wanted)
                try:
                    put, alone = put_message(self._state, handle, descriptor, body, plan, context)
                finally:
                    opening.close_handle(self._state, handle, CloseOption.NONE)
                    self.handles.discard(handle)
                self._busy = alone is not None
            if alone is not None:
                self._commit_alone(alone)
        except Refusal as refusal:
            raise refusal.on("MQPUT1", wanted.descriptor.name, self.queue_manager_name) from None
        return put

    def get(self, handle: Any, options: GetOptions) -> Got | None:
        """Return the next message that matches (MQGET), or None where there is none within the wait (2033).

        Giving up a browse lock returns None too; without a lock it raises the warning 2209.
        """
        try:
            got, alone, plan = self._get_once(handle, options)
            if alone is not None:
                self._commit_alone(alone)
            elif got is None and plan.wait_ms:
                got = self._get_waiting(handle, options, plan.wait_ms)
        except Refusal as refusal:
            raise self._told(refusal).on("MQGET", _name_of(handle), self.queue_manager_name) from None
        return got

    def get_many(self, handle: Any, options: GetOptions, most: int, *, bytes_max: int = UNIT_BYTES_MAX) -> list[Got]:
        """Return up to `most` messages, in few steps; waits, and raises, for the first one only.

        Where it is not known what became of a later one (2549, outside a unit of work), the next get raises that.
        """
        unit = self._get_plain(handle, options, most, bytes_max)
        if len(unit) >= most:
            return unit
        trail = [handle.cursor]
        if not unit:
            first = self.get(handle, options)
            if first is None:
                return []
            unit.append(first)
            trail.append(handle.cursor)
        self._get_following(handle, options, unit, most, bytes_max, trail)
        return unit

    def _get_following(
        self, handle: Any, options: GetOptions, unit: list[Got], most: int, bytes_max: int, trail: list[int]
    ) -> None:
        """Have in the unit what else is there at once."""
        left_bytes = bytes_max - sum(len(got.body) for got in unit)
        again = following(options)
        try:
            while len(unit) < most and not ends_unit(unit[-1], options):
                more = self._get_more(handle, again, most - len(unit), left_bytes)
                if not more:
                    break
                unit += more
                trail.append(handle.cursor)
                left_bytes -= sum(len(got.body) for got in more)
        except MQIError:
            pass  # what was got is got: the next call meets it again
        except Refusal as refusal:  # that as well, but for a message of which nobody knows whether it is gone
            self._untold = refusal if refusal.reason == Reason.CALL_INTERRUPTED else None
        handle.trail = trail

    def exchange_at_once(
        self, handle: Any, options: GetOptions, *, commit: bool, most: int, bytes_max: int
    ) -> list[Got] | None:
        """Commit where `commit`, and return what `get_many` does if the first message is plain: otherwise nothing.

        None where the commit is not over in memory, or refused: then nothing has happened. What a get is refused for, and a
        message that is special, is left to `get_many`.
        """
        state = self._state
        with state.lock:
            if self._ended or self._busy or self._committing:
                return None
            if commit and not settle.commit_in_memory(state, self.unit_of_work):
                return None
            try:
                self._check_handle(handle)
                unit = get_plain(state, handle, _plan(handle, options), most, bytes_max)
            except Refusal:
                return []
        if unit and len(unit) < most:
            self._get_following(handle, options, unit, most, bytes_max, [handle.cursor])
        return unit

    def get_at_once(self, handle: Any, options: GetOptions, *, most: int, bytes_max: int) -> list[Got]:
        """Return plain messages that are there; none where the first is special, or a get would be refused: `get` says why."""
        with contextlib.suppress(MQIError):
            return self._get_plain(handle, options, most, bytes_max)
        return []

    def browse_back(self, handle: Any, count: int) -> None:
        """Put the cursor back by so many of the messages that the last `get_many` browsed. Refused with 2034 after others."""
        try:
            with self._state.lock:
                self._check_usable()
                self._check_own(handle)
                handle.go_back(count)
        except Refusal as refusal:
            raise refusal.on("MQGET", _name_of(handle), self.queue_manager_name) from None

    def on_arrival(self, handle: Any, options: GetOptions, wake: Callable[[], None]) -> Callable[[], None] | None:
        """Ask to be woken when a get with these options may find something; None where it may already."""
        state = self._state
        with state.lock:
            try:
                self._check_usable()
                self._check_handle(handle)
                plan = _plan(handle, options)
                queue = getting.check_get(state, handle, plan)
                if plan.reach is Reach.UNLOCK or getting.find(state, handle, queue, plan) is not None:
                    return None
            except Refusal:
                return None  # the get says what is wrong
            waiter = wait(handle, queue, plan, wake)

        def withdraw_it() -> None:
            with state.lock:
                withdraw(waiter)

        return withdraw_it

    def inquire(self, handle: Any, selectors: Sequence[int]) -> Inquired:
        """Return the attributes asked for (MQINQ), of the object the handle names: of an alias, the alias's."""
        try:
            with self._state.lock:
                self._check_usable()
                self._check_handle(handle)
                return inquire_object(self._state, handle, selectors)
        except Refusal as refusal:
            raise refusal.on("MQINQ", _name_of(handle), self.queue_manager_name) from None

    def set(self, handle: Any, values: Mapping[int, int | str]) -> None:
        """Change attributes (MQSET): put and get inhibition, trigger control."""
        try:
            with self._state.lock:
                self._check_usable()
                self._check_handle(handle)
                wait_until_durable = set_object(self._state, handle, values)
            wait_until_durable()
        except Refusal as refusal:
            raise refusal.on("MQSET", _name_of(handle), self.queue_manager_name) from None

    def subscribe(self, descriptor: SubscriptionDescriptor, queue: Any = None) -> Subscribed:
        """Make, resume or alter a subscription (MQSUB); a durable one is durable when this returns."""
        name = descriptor.name or descriptor.object_name or descriptor.object_string
        try:
            with self._state.lock:
                self._check_usable()
                subscribed, wait_until_durable, retained = subscribing.subscribe(self._state, self, descriptor, queue)
                self._busy = True
            try:
                self._finish(wait_until_durable, retained)
            except Refusal:
                self._unsubscribe(subscribed)
                raise
        except Refusal as refusal:
            raise refusal.on("MQSUB", name, self.queue_manager_name) from None
        return subscribed

    def request_publications(self, handle: Any, options: SubscriptionRequestOption = SubscriptionRequestOption.NONE) -> int:
        """Have what is retained on the subscription's topics sent again (MQSUBRQ); return how many."""
        try:
            with self._state.lock:
                self._check_usable()
                self._check_own_subscription(handle)
                count, retained = subscribing.request_retained(self._state, handle, options)
                self._busy = True
            self._finish(None, retained)
        except Refusal as refusal:
            raise refusal.on("MQSUBRQ", _name_of(handle), self.queue_manager_name) from None
        return count

    def begin_commit(self, done: Callable[[MQIError | None], None]) -> bool:
        """Start MQCMIT. True: it is over; False: `done` is called exactly once, from the store's thread."""

        def finished(error: MQIError | None) -> None:
            self._committing = False
            done(None if error is None else self._not_committed(error))

        with self._state.lock:
            if self._commit_in_memory():
                return True
            self._committing = True
            try:
                over = settle.begin_commit(self._state, self.unit_of_work, finished)
            except MQIError as error:
                self._committing = False
                raise self._not_committed(error) from error
            self._committing = not over
            return over

    def commit(self) -> None:
        """End the unit of work for good (MQCMIT): when this returns, it is durable."""
        if self._commit_in_memory():
            return
        answer = settle.Answer(self._state.runner)
        if not self.begin_commit(answer):
            failure = answer.wait()
            if failure is not None:
                raise failure

    def backout(self) -> None:
        """Undo the unit of work (MQBACK)."""
        with self._state.lock:
            try:
                self._check_usable()
            except Refusal as refusal:
                raise refusal.on("MQBACK", "", self.queue_manager_name) from None
            settle.back_out(self._state, self.unit_of_work)

    def disconnect(self) -> None:
        """End the connection (MQDISC). **Commits an open unit of work**; where it cannot, it is backed out, and 2003 raised.

        Quiet where the connection was gone already with nothing open.
        """
        with self._state.lock:
            lost = self._ended not in {0, Reason.HCONN_ERROR}
            if lost:
                undone = self._undone
                self._ended = Reason.HCONN_ERROR
                if undone:  # whoever disconnects to commit has to hear it
                    raise _UNDONE.on("MQDISC", "", self.queue_manager_name)
                return
            try:
                self._check_usable()
            except Refusal as refusal:
                raise refusal.on("MQDISC", "", self.queue_manager_name) from None
        try:
            self.commit()
        finally:
            self._end(Reason.HCONN_ERROR)

    def abandon(self) -> None:
        """End the connection as when its application dies: the unit of work is backed out."""
        self._end(Reason.CONNECTION_BROKEN)

    def lose(self, reason: int = Reason.Q_MGR_STOPPING) -> None:
        """End the connection because the queue manager stops. A unit of work that is being committed takes its course."""
        self._end(reason)

    def _end(self, reason: int) -> None:
        with self._state.lock:
            if self._ended:
                return
            self._ended = reason
            if not self._committing:
                self._undone = self.unit_of_work.operations > 0
                settle.back_out(self._state, self.unit_of_work)
            for subscription in self.subscriptions:
                subscribing.close_subscription(self._state, subscription, CloseOption.NONE)
            self.subscriptions.clear()
            for handle in self.handles:
                interrupt(handle)
                opening.close_handle(self._state, handle, CloseOption.NONE)
            self.handles.clear()
            self._state.connections.discard(self)
            if self._state.stops_when_empty and not self._state.connections:
                settle.stop(self._state, Reason.Q_MGR_STOPPING)

    def _check_usable(self) -> None:
        if self._ended:
            raise Refusal(self._ended)
        if self._busy or self._committing:
            raise Refusal(Reason.CALL_IN_PROGRESS, "Another call of this connection is not over yet")

    def _check_own(self, handle: Any) -> None:
        if not isinstance(handle, EmbeddedHandle) or handle.connection is not self or not handle.open:
            raise Refusal(Reason.HOBJ_ERROR)

    def _check_own_subscription(self, handle: Any) -> None:
        if not isinstance(handle, EmbeddedSubscriptionHandle) or handle.connection is not self or not handle.open:
            raise Refusal(Reason.HOBJ_ERROR)

    def _close(self, handle: Any, options: CloseOption) -> Callable[[], None] | None:
        """Close an object or a subscription; return what waits until the end of a durable one, or of its queue, is durable."""
        if isinstance(handle, EmbeddedSubscriptionHandle):
            self._check_own_subscription(handle)
            wait_until_durable = subscribing.close_subscription(self._state, handle, options)
            self.subscriptions.discard(handle)
            return wait_until_durable
        self._check_own(handle)
        wait_until_durable = opening.close_handle(self._state, handle, options)
        self.handles.discard(handle)
        return wait_until_durable

    def _finish(self, wait_until_durable: Callable[[], None] | None, retained: UnitOfWork | None) -> None:
        """Wait for the disk, then commit the retained publications: the connection is busy until both are over."""
        try:
            if wait_until_durable is not None:
                wait_until_durable()
            if retained is not None:
                self._commit_alone(retained)
        finally:
            self._busy = False

    def _unsubscribe(self, subscribed: Subscribed) -> None:
        """Leave nothing of a subscription that is there, where what is retained for it found no room."""
        handle = subscribed.handle
        if isinstance(handle, EmbeddedSubscriptionHandle) and handle.open:
            with contextlib.suppress(MQIError):
                self.close(handle, CloseOption.REMOVE_SUB)
            if handle.queue is not None:
                self.close(handle.queue)

    def _check_handle(self, handle: Any) -> None:
        self._check_own(handle)
        queue = handle.queue
        if queue is None:
            return
        if queue.deleted:
            raise Refusal(Reason.Q_DELETED)
        if handle.seen_changes != (queue.changes if handle.alias is None else queue.changes + handle.alias.changes):
            raise Refusal(Reason.OBJECT_CHANGED, "It was altered with FORCE since it was opened: close it and open it again")

    def _get_once(self, handle: Any, options: GetOptions) -> tuple[Got | None, UnitOfWork | None, GetPlan]:
        with self._state.lock:
            self._check_usable()
            self._check_handle(handle)
            plan = _plan(handle, options)
            got, alone = getting.get_message(self._state, handle, plan)
            self._busy = alone is not None
            return got, alone, plan

    def _commit_in_memory(self) -> bool:
        with self._state.lock:
            try:
                self._check_usable()
            except Refusal as refusal:
                raise self._not_begun(refusal) from None
            return settle.commit_in_memory(self._state, self.unit_of_work)

    def _get_plain(self, handle: Any, options: GetOptions, most: int, bytes_max: int) -> list[Got]:
        """Return the plain messages that are there at once; maybe none."""
        try:
            with self._state.lock:
                self._check_usable()
                self._check_handle(handle)
                return get_plain(self._state, handle, _plan(handle, options), most, bytes_max)
        except Refusal as refusal:
            raise self._told(refusal).on("MQGET", _name_of(handle), self.queue_manager_name) from None

    def _get_more(self, handle: Any, options: GetOptions, most: int, bytes_max: int) -> list[Got]:
        """Return what is there at once: several plain messages, or one; none that is longer than `bytes_max`."""
        state = self._state
        with state.lock:
            self._check_usable()
            self._check_handle(handle)
            plan = _plan(handle, options)
            if plain := get_plain(state, handle, plan, most, bytes_max):
                return plain
            message = getting.find(state, handle, getting.check_get(state, handle, plan), plan)
            if message is None or message.body_bytes > bytes_max:
                return []
            got, alone = getting.get_message(state, handle, plan)
            self._busy = alone is not None
        if alone is not None:
            self._commit_alone(alone)
        return [] if got is None else [got]

    def _get_waiting(self, handle: EmbeddedHandle, options: GetOptions, wait_ms: int) -> Got | None:
        """Get again whenever something may be there, until the wait is over."""
        clock = self._state.clock
        ends_at = None if wait_ms < 0 else clock.monotonic() + wait_ms / 1000
        while True:
            left_s = None if ends_at is None else max(0.0, ends_at - clock.monotonic())
            over, withdraw_it = self._wait(handle, options, left_s)
            try:
                # Before the wait is withdrawn: one that has not got its message wakes another for it.
                got, alone, _ = self._get_once(handle, options)
            finally:
                if withdraw_it is not None:
                    withdraw_it()
            if alone is not None:
                self._commit_alone(alone)
            if got is not None or over:
                return got

    def _wait(
        self, handle: EmbeddedHandle, options: GetOptions, timeout_s: float | None
    ) -> tuple[bool, Callable[[], None] | None]:
        """Wait until a get may find something; return whether the time is over, and what withdraws the wait, if any."""
        woken = self._state.runner.event()
        with self._state.lock:
            withdraw_it = self.on_arrival(handle, options, woken.set)
            self._busy = withdraw_it is not None
        if withdraw_it is None:
            return False, None
        try:
            return not woken.wait(timeout_s), withdraw_it
        except BaseException:  # an interrupt from the keyboard
            withdraw_it()
            raise
        finally:
            self._busy = False

    def _told(self, refusal: Refusal) -> Refusal:
        """Return why a get is refused: by what ended the one before, where that could not be said."""
        untold, self._untold = self._untold, None
        return untold or refusal

    def _commit_alone(self, unit: UnitOfWork) -> None:
        """Make durable what was put or got outside the connection's unit of work; undone where the store refuses."""
        try:
            settle.commit_alone(self._state, unit)
        except MQIError as error:
            raise Refusal(error.reason, error.detail) from error
        finally:
            self._busy = False

    def _not_committed(self, error: MQIError) -> MQIError:
        if error.reason == Reason.STORAGE_MEDIUM_FULL:
            detail = f"The unit of work is backed out, because the store refused it: {error.detail or error}"
            return error_for(Reason.BACKED_OUT, "MQCMIT", "", self.queue_manager_name, detail)
        return error_for(error.reason, "MQCMIT", "", self.queue_manager_name, error.detail)

    def _not_begun(self, refusal: Refusal) -> MQIError:
        if self._undone and self._ended != Reason.HCONN_ERROR:
            self._undone = False
            return _UNDONE.on("MQCMIT", "", self.queue_manager_name)
        return refusal.on("MQCMIT", "", self.queue_manager_name)


def _plan_put1(bits: int) -> PutPlan:
    plan = plan_put(bits)
    if plan.logical:
        raise Refusal(Reason.OPTIONS_ERROR, "MQPUT1 puts one message: LOGICAL_ORDER goes with MQPUT")
    return plan


def _plan(handle: EmbeddedHandle, options: GetOptions) -> GetPlan:
    if handle.get_options is not options or handle.get_plan is None:
        handle.get_plan = plan_get(options)
        handle.get_options = options
    plan = handle.get_plan
    return planned_get(handle, plan) if plan.logical or handle.logical.browses_logically else plan


def _name_of(handle: object) -> str:
    return handle.name if isinstance(handle, EmbeddedHandle | EmbeddedSubscriptionHandle) else ""
