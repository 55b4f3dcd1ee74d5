"""A connection to the embedded queue manager. Each verb of `mqflow.verbs` is one step under the queue manager's lock.

`_call` runs every verb. It checks the connection and the handle, runs the step, and waits until the result is durable. A
refusal names the verb and the object. The code of the verbs is in `calls`; this file has no MQ rule. It writes
`ConnectionState.busy`, `committing`, `undone` and `pending_refusal`, and the options and the browse trail of a handle.
"""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar, TypeVarTuple, cast, overload

from mqflow.embedded.calls import get as getting
from mqflow.embedded.calls import open as opening
from mqflow.embedded.calls import settle, subscribe
from mqflow.embedded.calls.browse import next_lapse
from mqflow.embedded.calls.end import end_connection
from mqflow.embedded.calls.event_messages import REPORTED, refusal_event
from mqflow.embedded.calls.get_many import get_plain
from mqflow.embedded.calls.groups import warn_incomplete
from mqflow.embedded.calls.inquire import inquire_object, set_object
from mqflow.embedded.calls.pending_answer import Pending, begin, finish
from mqflow.embedded.calls.put import put_message, put_messages, put_one
from mqflow.embedded.calls.units_ahead import begin_next_unit, give_back, take_ahead
from mqflow.embedded.calls.wait import wait, wake_later, withdraw
from mqflow.embedded.rules.get_plan import Reach, at_once
from mqflow.embedded.rules.open_options import CONTEXT
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.backlog import BEFORE_FIRST
from mqflow.embedded.state.objects import ConnectionState, ObjectHandle, SubscriptionHandle
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.many_verbs import ends_unit, following
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import CloseOption, GetOption, OpenOption, PutOption, SubscriptionRequestOption
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

_Value = TypeVar("_Value")
_Arguments = TypeVarTuple("_Arguments")

_OUTPUT: Final = int(OpenOption.OUTPUT)
#: The options of MQPUT1 that also apply to its open. They have the same values as the open options.
_IMPLIED: Final = int(OpenOption.ALTERNATE_USER_AUTHORITY | OpenOption.FAIL_IF_QUIESCING) | CONTEXT
_CLOSES: Final = sum(CloseOption)
_UNDONE: Final = Refusal(Reason.BACKED_OUT, "The connection ended before it was committed, so the unit of work was backed out")


class EmbeddedConnection:
    """The Hconn: implements `verbs.InlineConnection`. Any thread can use it, but a second call at the same time raises 2219.

    Handles have the type `object` in the signatures, because callers only pass them back. `_call` checks each handle.
    """

    def __init__(self, queue_manager: QueueManagerState, *, application_name: str, user: str, number: int) -> None:
        end = partial(end_connection, queue_manager)
        self.state: Final = ConnectionState(application_name, user, f"{number:016X}", end)
        self.state.process = os.getpid()
        self._queue_manager: Final = queue_manager

    @property
    def queue_manager_name(self) -> str:
        """The name of the queue manager."""
        return self._queue_manager.name

    @property
    def application_name(self) -> str:
        """The name that the application gave when it connected."""
        return self.state.application_name

    @property
    def user(self) -> str:
        """The user whose authority the queue manager checks for the calls."""
        return self.state.user

    @property
    def identifier(self) -> str:
        """The name of the connection in `DISPLAY CONN`."""
        return self.state.identifier

    def open(self, target: ObjectDescriptor | str, options: OpenOption) -> ObjectHandle:
        """Return a handle on the object (MQOPEN)."""
        wanted = opening.Wanted(object_descriptor(target), OpenOption(options))
        return self._call("MQOPEN", wanted.descriptor.name, _open, self.state, wanted)

    def close(self, handle: object, options: CloseOption = CloseOption.NONE) -> None:
        """Close the handle (MQCLOSE). Closing the handle that created a temporary dynamic queue deletes the queue."""
        name = _name_of(handle)
        self._call("MQCLOSE", name, _close, self.state, handle, CloseOption(options))
        if isinstance(handle, ObjectHandle):
            try:
                warn_incomplete(handle)
            except Refusal as warning:
                raise warning.on("MQCLOSE", name, self.queue_manager_name) from None

    def put(
        self, handle: object, descriptor: MessageDescriptor, body: bytes, options: PutOption, *, context: object = None
    ) -> Put:
        """Put a message (MQPUT). Outside a unit of work, a persistent message is durable when this call returns."""
        return self._call("MQPUT", handle, put_message, handle, descriptor, body, int(options), context)

    def put_many(
        self, handle: object, messages: Sequence[tuple[MessageDescriptor, bytes]], options: PutOption, *, context: object = None
    ) -> ManyPut:
        """Put the messages in order. Under syncpoint this is one step, because such puts never wait for the disk."""
        puts: list[Put] = []
        try:
            if int(options) & PutOption.SYNCPOINT:
                self._call("MQPUT", handle, put_messages, handle, messages, int(options), context, puts)
            else:
                for descriptor, body in messages:
                    puts.append(self.put(handle, descriptor, body, options, context=context))
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
        context: object = None,
    ) -> Put:
        """Open the object, put one message, close the object (MQPUT1). Context options need no matching open options."""
        implied = _OUTPUT | int(options) & _IMPLIED
        wanted = opening.Wanted(object_descriptor(target), OpenOption(implied), for_one_put=True)
        name = wanted.descriptor.name
        return self._call("MQPUT1", name, put_one, self.state, wanted, descriptor, body, int(options), context)

    def get(self, handle: object, options: GetOptions) -> Got | None:
        """Return the next matching message (MQGET), or None if no message arrives within the wait (2033).

        A get that releases the browse lock also returns None, or raises the warning 2209 if the handle has no lock.
        """
        try:
            got = self._call("", handle, getting.get_message, handle, options)
            if got is None and (plan := _checked(handle).get_plan) is not None and plan.wait_ms:
                got = self._get_waiting(_checked(handle), options, plan.wait_ms)
        except Refusal as refusal:
            raise self._get_refused(handle, refusal) from None
        return got

    def get_many(self, handle: object, options: GetOptions, most: int, *, bytes_max: int = UNIT_BYTES_MAX) -> list[Got]:
        """Return up to `most` messages, in few steps. Only the get of the first message waits or raises an error.

        If a later get outside a unit of work fails, and nobody knows whether it removed a message, the next get raises 2549.
        """
        unit = self._get_plain(handle, options, most, bytes_max)
        if len(unit) >= most:
            return unit
        checked = _checked(handle)
        trail = [BEFORE_FIRST if options.options & GetOption.BROWSE_FIRST else checked.cursor]
        if not unit:
            first = self.get(handle, options)
            if first is None:
                return []
            unit.append(first)
            trail.append(checked.cursor)
        self._get_following(checked, options, unit, most, bytes_max, trail)
        return unit

    def exchange_at_once(
        self, handle: object, options: GetOptions, *, commit: bool, most: int, bytes_max: int
    ) -> list[Got] | None:
        """Commit if `commit` is true. Then return messages like `get_many` if the first message is plain, else an empty list.

        Returns None, and does nothing, if the commit is refused or needs the disk. If the get is refused, the list is empty,
        and the caller then calls `get_many`. `calls/get_many.py` says which messages are plain.
        """
        queue_manager, connection = self._queue_manager, self.state
        with queue_manager.lock:
            if connection.ended or connection.busy or connection.committing:
                return None
            if commit and not settle.commit_in_memory(queue_manager, connection.unit_of_work):
                return None
            if _refusal_of(connection, handle) is not None:
                return []
            checked = _checked(handle)
            try:
                unit = get_plain(queue_manager, checked, options, most, bytes_max).value
            except (Refusal, MQIError):  # the answer of the commit must not depend on the get
                return []
        if unit and len(unit) < most:
            self._get_following(checked, options, unit, most, bytes_max, [checked.cursor])
        return unit

    def get_at_once(self, handle: object, options: GetOptions, *, most: int, bytes_max: int) -> list[Got]:
        """Return available plain messages; an empty list if the first is special or the get is refused."""
        with contextlib.suppress(MQIError, Refusal):  # the next get raises and reports the error
            return self._call("", handle, get_plain, handle, options, most, bytes_max)
        return []

    def take_ahead(self, handle: object, options: GetOptions, *, most: int, units: int, bytes_max: int) -> list[list[Got]]:
        """Get plain messages as further units of work (`calls.units_ahead`); no units if the get is special or refused."""
        try:
            return self._call("", handle, take_ahead, handle, options, most, units, bytes_max)
        except (Refusal, MQIError):  # as in `exchange_at_once`
            return []

    def give_back(self, count: int | None = None) -> None:
        """Return the messages of the last `count` units of work to their places; None means all units except the open one."""
        if count != 0 and (count or self.state.ahead):
            number = len(self.state.ahead) if count is None else count
            self._call("MQBACK", "", give_back, self.state, number)

    def browse_back(self, handle: object, count: int) -> None:
        """Move the cursor back over `count` messages of the last browse with `get_many`. Raises 2034 after another get."""
        self._call("MQGET", _name_of(handle), _go_back, self.state, handle, count)

    def on_arrival(self, handle: object, options: GetOptions, wake: Callable[[], None]) -> Callable[[], None] | None:
        """Call `wake` when a get with these options may find a message. Return a function that withdraws this request.

        Returns None if the caller must get now: a message may be available already, or the get would be refused.
        """
        queue_manager = self._queue_manager
        with queue_manager.lock:
            if _refusal_of(self.state, handle) is not None:
                return None  # the get raises the error
            checked = _checked(handle)
            try:
                plan = getting.planned(checked, options)
                queue = getting.check_get(queue_manager, checked, plan)
                if plan.reach is Reach.UNLOCK or getting.find(queue_manager, checked, queue, plan) is not None:
                    return None
            except Refusal:
                return None  # as above
            lapses_at = next_lapse(queue, checked, queue_manager.clock.monotonic()) if plan.unmarked_only else None
            end_lapse = None if lapses_at is None else wake_later(queue_manager, wake, lapses_at)
            waiter = wait(checked, queue, plan, wake)

        def withdraw_waiter() -> None:
            with queue_manager.lock:
                withdraw(waiter)
                if end_lapse is not None:
                    end_lapse()

        return withdraw_waiter

    def inquire(self, handle: object, selectors: Sequence[int]) -> Inquired:
        """Return attributes of the object that the handle names (MQINQ). For an alias, return the attributes of the alias."""
        return self._call("MQINQ", handle, inquire_object, handle, selectors)

    def put_defaults(self, handle: object) -> tuple[int, int] | None:
        """Return DEFPSIST and DEFPRESP of the name that was opened, or None if it is no queue. This needs no INQ authority."""
        target = handle.manager_alias or handle.alias or handle.queue if isinstance(handle, ObjectHandle) else None
        return None if target is None else (target.attributes.default_persistence, target.attributes.default_put_response)

    def set(self, handle: object, values: Mapping[int, int | str]) -> None:
        """Change attributes (MQSET): put and get inhibition, trigger control."""
        target = handle.alias or handle.queue if isinstance(handle, ObjectHandle) else None
        with self._queue_manager.in_turn("" if target is None else target.attributes.name):
            self._call("MQSET", handle, set_object, handle, values)

    def subscribe(self, descriptor: SubscriptionDescriptor, queue: object = None) -> Subscribed:
        """Create, resume or alter a subscription (MQSUB). A durable subscription is in the store when this call returns."""
        name = descriptor.name or descriptor.object_name or descriptor.object_string
        with self._queue_manager.in_turn(descriptor.name) if descriptor.name else contextlib.nullcontext():
            return self._call("MQSUB", name, subscribe.subscribe, self.state, descriptor, queue)

    def request_publications(self, handle: object, options: SubscriptionRequestOption = SubscriptionRequestOption.NONE) -> int:
        """Send the retained publications of the subscription's topics again (MQSUBRQ). Return their number."""
        return self._call("MQSUBRQ", _name_of(handle), _request, self.state, handle, options)

    def unwaiting(self, options: GetOptions) -> GetOptions:
        """Return the options without a wait; unchanged if the get with them is refused."""
        return at_once(options)

    @property
    def only_removes(self) -> bool:
        """True if the open unit of work only removes messages: it has no puts, reports or groups."""
        unit = self.state.unit_of_work
        return not (unit.puts or unit.retained or unit.undo or unit.discarded)

    def begin_commit(self, done: Callable[[MQIError | None], None], *, behind: bool = False) -> bool:
        """Begin MQCMIT. Return True if the commit is complete; otherwise the store's thread calls `done` exactly once.

        With `behind`, the connection begins its next unit of work immediately, and the commit of the earlier unit continues
        without the connection.
        """
        connection = self.state
        with self._queue_manager.lock:
            if connection.ended or connection.busy or connection.committing:
                raise self._not_begun()
            unit = connection.unit_of_work
            if settle.commit_in_memory(self._queue_manager, unit):
                if behind:
                    begin_next_unit(connection)
                return True

            def finished(error: MQIError | None) -> None:
                if not behind:
                    connection.committing = False
                done(None if error is None else self._not_committed(error))

            if behind:
                begin_next_unit(connection)
            connection.committing = not behind
            try:
                over = settle.begin_commit(self._queue_manager, unit, finished)
            except MQIError as error:
                connection.committing = False
                raise self._not_committed(error) from error
            if over:
                connection.committing = False
            return over

    def commit(self) -> None:
        """Commit the unit of work (MQCMIT). When this call returns, the unit of work is durable."""
        if self._commit_in_memory():
            return
        answer = settle.Answer(self._queue_manager.runner)
        if not self.begin_commit(answer):
            failure = answer.wait()
            if failure is not None:
                raise failure

    def backout(self) -> None:
        """Back out the unit of work (MQBACK)."""
        self._call("MQBACK", "", _back_out, self.state)

    def disconnect(self) -> None:
        """End the connection (MQDISC). **Commits an open unit of work**; if the commit is refused, backs out and raises 2003.

        Does nothing if the connection is already broken and had no open unit of work.
        """
        connection = self.state
        with self._queue_manager.lock:
            if connection.ended not in {0, Reason.HCONN_ERROR}:
                connection.ended = Reason.HCONN_ERROR
                if connection.undone:  # an application that commits by MQDISC must get an error
                    raise _UNDONE.on("MQDISC", "", self.queue_manager_name)
                return
            refusal = _unusable(connection)
            if refusal is not None:
                raise refusal.on("MQDISC", "", self.queue_manager_name)
        try:
            self.commit()
        finally:
            connection.end(Reason.HCONN_ERROR)

    def abandon(self) -> None:
        """End the connection as if its application had died: back out the unit of work."""
        self.state.end(Reason.CONNECTION_BROKEN)

    def lose(self, reason: int = Reason.Q_MGR_STOPPING) -> None:
        """End the connection because the queue manager stops. A commit that has begun continues."""
        self.state.end(reason)

    @overload
    def _call(
        self, verb: str, target: str, step: Callable[[QueueManagerState, *_Arguments], Pending[_Value]], *arguments: *_Arguments
    ) -> _Value: ...

    @overload
    def _call(
        self,
        verb: str,
        target: object,
        step: Callable[[QueueManagerState, ObjectHandle, *_Arguments], Pending[_Value]],
        handle: object,
        /,
        *arguments: *_Arguments,
    ) -> _Value: ...

    def _call(
        self,
        verb: str,
        target: object,
        step: Callable[..., Pending[_Value]],
        *arguments: *_Arguments,  # pyright: ignore[reportInvalidTypeVarUse] - a tuple of objects does not match the overloads
    ) -> _Value:
        """Run the step under the lock, wait without the lock until the result is durable, and return the value of the step.

        `target` is the handle of the call, which this function checks, or the name of the object. A refused call raises an
        `MQIError`; if `verb` is empty, it raises the `Refusal` instead.
        """
        queue_manager, connection = self._queue_manager, self.state
        try:
            with queue_manager.lock:
                refusal = _refusal_of(connection, target)
                if refusal is not None:
                    raise refusal
                pending = step(queue_manager, *arguments)
                if pending.own_unit is None and pending.changes is None:
                    return pending.value
                answer = begin(queue_manager, pending)
                connection.busy = True
            try:
                finish(queue_manager, pending, answer)
            finally:
                connection.busy = False
        except Refusal as refusal:
            if not verb:
                raise
            raise self._refused(refusal, verb, target if isinstance(target, str) else _name_of(target)) from None
        return pending.value

    def _get_plain(self, handle: object, options: GetOptions, most: int, bytes_max: int) -> list[Got]:
        """Return the plain messages (see `calls/get_many.py`) that are available now, possibly none."""
        try:
            return self._call("", handle, get_plain, handle, options, most, bytes_max)
        except Refusal as refusal:
            raise self._get_refused(handle, refusal) from None

    def _get_following(
        self, handle: ObjectHandle, options: GetOptions, unit: list[Got], most: int, bytes_max: int, trail: list[int]
    ) -> None:
        """Add further messages that are available now to `unit`."""
        left_bytes = bytes_max - sum(len(got.body) for got in unit)
        next_options = following(options)
        try:
            while len(unit) < most and not ends_unit(unit[-1], options):
                more = self._call("", handle, _get_more, handle, next_options, most - len(unit), left_bytes)
                if not more:
                    break
                unit += more
                trail.append(handle.cursor)
                left_bytes -= sum(len(got.body) for got in more)
        except MQIError:
            pass  # the caller gets the messages in `unit`, and its next call gets this error
        except Refusal as refusal:  # the next get is refused again, except with 2549: `pending_refusal` keeps it
            self.state.pending_refusal = refusal if refusal.reason == Reason.CALL_INTERRUPTED else None
        handle.trail = trail

    def _get_waiting(self, handle: ObjectHandle, options: GetOptions, wait_ms: int) -> Got | None:
        """Repeat the get when a message may be available. Return None at the end of the wait."""
        clock = self._queue_manager.clock
        ends_at = None if wait_ms < 0 else clock.monotonic() + wait_ms / 1000
        while True:
            left_s = None if ends_at is None else max(0.0, ends_at - clock.monotonic())
            over, withdraw_waiter = self._wait(handle, options, left_s)
            try:
                got = self._call("", handle, _get_woken, handle, options, withdraw_waiter)
            finally:
                if withdraw_waiter is not None:  # needed also if the connection ended before the step
                    withdraw_waiter()
            if got is not None or over:
                return got

    def _wait(
        self, handle: ObjectHandle, options: GetOptions, timeout_s: float | None
    ) -> tuple[bool, Callable[[], None] | None]:
        """Wait until a get may find a message. Return whether the time is over, and a function that ends the wait, or None."""
        woken = self._queue_manager.runner.event()
        with self._queue_manager.lock:
            withdraw_waiter = self.on_arrival(handle, options, woken.set)
            self.state.busy = withdraw_waiter is not None
        if withdraw_waiter is None:
            return False, None
        try:
            return not woken.wait(timeout_s), withdraw_waiter
        except BaseException:  # for example Ctrl-C
            withdraw_waiter()
            raise
        finally:
            self.state.busy = False

    def _get_refused(self, handle: object, refusal: Refusal) -> MQIError:
        """Return the error of a refused get. A refusal that an earlier `get_many` could not raise comes first."""
        earlier, self.state.pending_refusal = self.state.pending_refusal, None
        return self._refused(earlier or refusal, "MQGET", _name_of(handle))

    def _refused(self, refusal: Refusal, verb: str, name: str) -> MQIError:
        """Return the error for the application. Put the queue manager event of the refusal if the event is enabled."""
        state = self._queue_manager
        if refusal.reason in REPORTED:
            with state.lock:
                refusal_event(state, self.state, verb, name, refusal.reason)
        return refusal.on(verb, name, self.queue_manager_name)

    def _commit_in_memory(self) -> bool:
        connection = self.state
        with self._queue_manager.lock:
            if connection.ended or connection.busy or connection.committing:
                raise self._not_begun()
            return settle.commit_in_memory(self._queue_manager, connection.unit_of_work)

    def _not_begun(self) -> MQIError:
        connection = self.state
        if connection.undone and connection.ended != Reason.HCONN_ERROR:
            connection.undone = False
            return _UNDONE.on("MQCMIT", "", self.queue_manager_name)
        refusal = _unusable(connection) or Refusal(Reason.CALL_IN_PROGRESS)
        return refusal.on("MQCMIT", "", self.queue_manager_name)

    def _not_committed(self, error: MQIError) -> MQIError:
        if error.reason == Reason.STORAGE_MEDIUM_FULL:
            detail = f"The unit of work is backed out, because the store refused it: {error.detail or error}"
            return error_for(Reason.BACKED_OUT, "MQCMIT", "", self.queue_manager_name, detail)
        return error_for(error.reason, "MQCMIT", "", self.queue_manager_name, error.detail)


def _unusable(connection: ConnectionState) -> Refusal | None:
    """Return the reason why the connection refuses every call now; None if it accepts calls."""
    if connection.ended:
        return Refusal(connection.ended)
    if connection.busy or connection.committing:
        return Refusal(Reason.CALL_IN_PROGRESS, "Another call of this connection is not over yet")
    return None


def _refusal_of(connection: ConnectionState, handle: object) -> Refusal | None:
    """Return why a call with this handle is refused now (2018, 2219, 2019, 2052 or 2041), or None if it is allowed.

    A name instead of a handle is not checked, because the call opens the object or needs no object.
    """
    if connection.ended or connection.busy or connection.committing:
        return _unusable(connection)
    if not isinstance(handle, ObjectHandle) or handle.connection is not connection or not handle.open:
        return None if isinstance(handle, str) else Refusal(Reason.HOBJ_ERROR)
    queue, alias = handle.queue, handle.alias
    if queue is not None and queue.deleted:
        return Refusal(Reason.Q_DELETED)
    changes = 0 if queue is None else queue.changes
    if alias is not None:
        changes += alias.changes + (0 if handle.through is None else handle.through.changes)
    if handle.seen_changes != changes:
        return Refusal(Reason.OBJECT_CHANGED, "It was altered with FORCE since it was opened: close it and open it again")
    return None


def _checked(handle: object) -> ObjectHandle:
    return cast("ObjectHandle", handle)  # `_refusal_of` has refused every other object


def _name_of(handle: object) -> str:
    return handle.name if isinstance(handle, ObjectHandle | SubscriptionHandle) else ""


def _open(state: QueueManagerState, connection: ConnectionState, wanted: opening.Wanted) -> Pending[ObjectHandle]:
    return Pending(opening.open_object(state, connection, wanted))


def _close(state: QueueManagerState, connection: ConnectionState, handle: object, options: CloseOption) -> Pending[None]:
    if unknown := int(options) & ~_CLOSES:  # as numbers, because ~ of a flag has only the known bits
        raise Refusal(Reason.OPTIONS_ERROR, f"0x{unknown:x} is not an MQCO option")
    options &= ~CloseOption.QUIESCE  # no message is read ahead, so there is nothing to wait for
    if isinstance(handle, SubscriptionHandle):
        _check_own(connection, handle)
        pending = subscribe.close_subscription(state, handle, options)
        connection.subscriptions.discard(handle)
    elif isinstance(handle, ObjectHandle):
        _check_own(connection, handle)
        pending = opening.close_handle(state, handle, options)
        connection.handles.discard(handle)
    else:
        raise Refusal(Reason.HOBJ_ERROR)
    return pending


def _check_own(connection: ConnectionState, handle: ObjectHandle | SubscriptionHandle) -> None:
    if handle.connection is not connection or not handle.open:
        raise Refusal(Reason.HOBJ_ERROR)


def _request(
    state: QueueManagerState, connection: ConnectionState, handle: object, options: SubscriptionRequestOption
) -> Pending[int]:
    if not isinstance(handle, SubscriptionHandle):
        raise Refusal(Reason.HOBJ_ERROR)
    _check_own(connection, handle)
    return subscribe.request_retained(state, handle, options)


def _go_back(_: QueueManagerState, connection: ConnectionState, handle: object, count: int) -> Pending[None]:
    if not isinstance(handle, ObjectHandle):
        raise Refusal(Reason.HOBJ_ERROR)
    _check_own(connection, handle)
    handle.go_back(count)
    return Pending(None)


def _back_out(state: QueueManagerState, connection: ConnectionState) -> Pending[None]:
    settle.back_out(state, connection.unit_of_work)
    return Pending(None)


def _get_woken(
    state: QueueManagerState, handle: ObjectHandle, options: GetOptions, withdraw_waiter: Callable[[], None] | None
) -> Pending[Got | None]:
    """Get first, then withdraw the wait. If this get does not take the message of the wait, another waiter wakes."""
    try:
        return getting.get_message(state, handle, options)
    finally:
        if withdraw_waiter is not None:
            withdraw_waiter()


def _get_more(
    state: QueueManagerState, handle: ObjectHandle, options: GetOptions, most: int, bytes_max: int
) -> Pending[list[Got]]:
    """Return available messages, together at most `bytes_max` bytes: several plain messages, or one special message."""
    plain = get_plain(state, handle, options, most, bytes_max)
    if plain.value:
        return plain
    plan = getting.planned(handle, options)
    message = getting.find(state, handle, getting.check_get(state, handle, plan), plan)
    if message is None or len(message.body) > bytes_max:
        return Pending([])
    pending = getting.get_message(state, handle, options)
    return pending.with_value([] if pending.value is None else [pending.value])
