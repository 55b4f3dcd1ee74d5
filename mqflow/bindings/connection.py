"""A connection to IBM MQ through a client package. Each verb is one call of the MQI on bytes.

The connection keeps no object of the package: such an object disconnects, and thereby commits, when Python collects the object.
The receive buffers of the package do not allow two threads. So a second call during another call gets 2219, and does not reach
the package. This file knows no event loop, and decides nothing about messages.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NoReturn, TypeVar, TypeVarTuple

from msgspec.structs import replace

from mqflow.bindings import handles, limits
from mqflow.bindings.dialects.base import Dialect
from mqflow.bindings.structures import CHARS, FIRST_CHARACTER_SELECTOR, MQGMO, MQOD, MQPMO, MQSRO, Strings, fresh
from mqflow.bindings.subscriptions import BoundSubscription, answered, asked, signed
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.names import OBJECT_NAME_CHARS_MAX, padded
from mqflow.mqi.options import CloseOption, GetOption, ObjectType, OpenOption, PutOption, SubscriptionRequestOption
from mqflow.mqi.reason_codes import CompletionCode, Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.policy.reconnect.reason_classes import connection_gone
from mqflow.verbs import (
    WAIT_UNLIMITED,
    GetOptions,
    Got,
    Inquired,
    ObjectDescriptor,
    ObjectHandle,
    Put,
    Subscribed,
    SubscriptionHandle,
    object_descriptor,
)
from mqflow.world import Clock

__all__ = ("BoundConnection",)

OwnHandle = TypeVar("OwnHandle", bound=handles.Bound)
_Answer = TypeVar("_Answer")
_Arguments = TypeVarTuple("_Arguments")

_OK: Final = int(CompletionCode.OK)
_FAILED: Final = int(CompletionCode.FAILED)
_NO_MODEL: Final = ObjectDescriptor().dynamic_name  # MQPUT1 takes no model queue
_SEND_PUBLICATIONS: Final = 1  # MQSR_ACTION_PUBLICATION
_QUEUE_NAME: Final = 2016  # MQCA_Q_NAME


class BoundConnection:
    """Hconn: offers `verbs.Connection`. Any thread may use the connection, one call at a time."""

    def __init__(self, dialect: Dialect, hconn: int, name: str, clock: Clock) -> None:
        self.queue_manager_name = name
        self._mqi = dialect
        self._hconn = hconn
        self._clock = clock
        self._turn = threading.Lock()
        # True after MQDISC.
        self._ended = False
        # True if a verb has shown that the connection is gone.
        self._lost = False

    def open(self, target: ObjectDescriptor | str, options: OpenOption) -> handles.BoundHandle:
        """Return a handle on the object (MQOPEN)."""
        described = object_descriptor(target)
        name = described.name
        strings = Strings()  # its buffers must live until the call is over
        said = strings.given("ObjectString", described.object_string) | strings.given("SelectionString", described.selection)
        od = self._object("MQOPEN", described, said)
        bits = int(options)
        self._begin("MQOPEN", name)
        hobj, opened, completion, reason = self._run(self._mqi.open, od, bits)
        if completion == _FAILED:
            self._refuse(completion, reason, "MQOPEN", name)
        found = MQOD.text(opened, "ObjectName") if described.object_type == ObjectType.Q else name
        resolved, manager = MQOD.text(opened, "ResolvedQName"), MQOD.text(opened, "ResolvedQMgrName")
        return handles.BoundHandle(self, hobj, found or described.object_string, OpenOption(options), resolved, manager)

    def close(self, handle: ObjectHandle | SubscriptionHandle, options: CloseOption = CloseOption.NONE) -> None:
        """Close an object or a subscription (MQCLOSE)."""
        bits = int(options)
        bound = self._begin_on("MQCLOSE", handle, handles.Bound)
        completion, reason = self._run(self._mqi.close, bound.number, bits)
        bound.open = completion == _FAILED  # with a warning, such as 2241 of an incomplete group, the object is closed
        if completion != _OK:
            self._refuse(completion, reason, "MQCLOSE", handle.name)

    def put(
        self,
        handle: ObjectHandle,
        descriptor: MessageDescriptor,
        body: bytes,
        options: PutOption,
        *,
        context: ObjectHandle | None = None,
    ) -> Put:
        """Put a message (MQPUT)."""
        md, pmo = self._to_put(descriptor, options, context, "MQPUT", body)
        data = bytes(body)
        bound = self._begin_on("MQPUT", handle, handles.BoundHandle)
        answered = self._run(self._mqi.put, bound.number, md, pmo, data)
        return self._was_put(answered, "MQPUT", handle.name)

    def put1(
        self,
        target: ObjectDescriptor | str,
        descriptor: MessageDescriptor,
        body: bytes,
        options: PutOption,
        *,
        context: ObjectHandle | None = None,
    ) -> Put:
        """Open the object, put one message and close the object (MQPUT1)."""
        described = replace(object_descriptor(target), dynamic_name=_NO_MODEL)
        name = described.name
        strings = Strings()  # as in `open`
        said = strings.given("ObjectString", described.object_string) | strings.given("SelectionString", described.selection)
        od = self._object("MQPUT1", described, said)
        md, pmo = self._to_put(descriptor, options, context, "MQPUT1", body)
        data = bytes(body)
        self._begin("MQPUT1", name)
        answered = self._run(self._mqi.put1, od, md, pmo, data)
        return self._was_put(answered, "MQPUT1", name)

    def get(self, handle: ObjectHandle, options: GetOptions) -> Got | None:
        """Return the next message that matches (MQGET), or None if no message comes within the wait (2033).

        Without `buffer_bytes_max`, the message is whole, at any length. A call that only unlocks a browsed message returns
        None too.
        """
        bound = self._begin_on("MQGET", handle, handles.BoundHandle)
        try:
            plan = bound.plan
            if plan is None or plan.options is not options:
                plan = bound.plan = self._planned(bound, options)
            if not plan.sizes_itself:
                assert options.buffer_bytes_max is not None  # noqa: S101 - a plan without a size takes any body
                try:
                    return self._get_once(bound, plan, min(options.buffer_bytes_max, limits.MESSAGE_BYTES_MAX))
                except MQIError as error:
                    if error.reason != Reason.DATA_LENGTH_ERROR:
                        raise
                # The channel carries no buffer of this length, and so no message of this length: every message fits.
                plan = bound.plan = handles.plan_get(options, whole=True)
            ends_at = self._clock.monotonic() + options.wait_ms / 1_000
            got = self._get_with_less(bound, plan, bound.room, handles.LEAST_ROOM)
            if got is None or got.reason != Reason.TRUNCATED_MSG_FAILED:
                return got
            return self._get_with_room(bound, plan, got, ends_at)
        finally:
            self._turn.release()

    def inquire(self, handle: ObjectHandle, selectors: Sequence[int]) -> Inquired:
        """Return the attributes of the object that the handle names (MQINQ); for an alias, those of the alias itself."""
        self._check_lengths(selectors, "MQINQ", handle)
        bound = self._begin_on("MQINQ", handle, handles.BoundHandle)
        found, completion, reason = self._run(self._mqi.inquire, bound.number, selectors)
        if completion == _FAILED:
            self._refuse(completion, reason, "MQINQ", handle.name)
        return Inquired({selector: _value(selector, value) for selector, value in found.items()}, reason)

    def set(self, handle: ObjectHandle, values: Mapping[int, int | str]) -> None:
        """Change attributes (MQSET): put and get inhibition, trigger control. pymqi sets one attribute after the other."""
        self._check_lengths(values, "MQSET", handle)
        said: dict[int, int | bytes] = {}
        for selector, value in values.items():
            if selector < FIRST_CHARACTER_SELECTOR:
                said[selector] = int(value)
            else:
                self._check(limits.unfit_attribute(selector, str(value), CHARS[selector]), "MQSET", handle.name)
                said[selector] = str(value).encode().ljust(CHARS[selector])
        bound = self._begin_on("MQSET", handle, handles.BoundHandle)
        completion, reason = self._run(self._mqi.set, bound.number, said)
        if completion != _OK:
            self._refuse(completion, reason, "MQSET", handle.name)

    def subscribe(self, descriptor: SubscriptionDescriptor, queue: ObjectHandle | None = None) -> Subscribed:
        """Make, resume or alter a subscription (MQSUB)."""
        self._check(limits.unfit_subscription(descriptor), "MQSUB", descriptor.name)
        strings = Strings()
        with limits.numbers_fit(Reason.SD_ERROR, "MQSUB", self.queue_manager_name):
            sd = asked(descriptor, strings)
        given = 0
        if queue is None:
            self._begin("MQSUB", descriptor.name)
        else:
            given = self._begin_on("MQSUB", queue, handles.BoundHandle).number
        said, hobj, hsub, completion, reason = self._run(self._mqi.subscribe, sd, given)
        if completion == _FAILED:
            self._refuse(completion, reason, "MQSUB", descriptor.name or descriptor.object_string or descriptor.object_name)
        subscribed = answered(descriptor, said, strings)
        name = subscribed.name or subscribed.topic_string
        if queue is None or signed(hobj) != signed(given):  # MQSUB has opened a managed queue
            queue = managed = handles.BoundHandle(self, signed(hobj), name, OpenOption.INPUT_AS_Q_DEF, "")
            self._name_managed(managed)
        handle = BoundSubscription(self, signed(hsub), name)
        return Subscribed(handle=handle, queue=queue, descriptor=subscribed, reason=reason)

    def _name_managed(self, queue: handles.BoundHandle) -> None:
        """Inquire the name of the queue that MQSUB opened: other handles need the name to get from that queue."""
        with suppress(MQIError):  # this handle can get without the name
            queue.name = queue.resolved_queue = str(self.inquire(queue, (_QUEUE_NAME,)).values[_QUEUE_NAME]).rstrip()

    def request_publications(
        self, handle: SubscriptionHandle, options: SubscriptionRequestOption = SubscriptionRequestOption.NONE
    ) -> int:
        """Ask for the retained publications again (MQSUBRQ); return their number. pymqi lacks this call: raises 2298."""
        bound = self._begin_on("MQSUBRQ", handle, BoundSubscription)
        try:
            sro = MQSRO.pack(Options=int(options))
            said, completion, reason = self._mqi.request(self._hconn, bound.number, _SEND_PUBLICATIONS, sro)
        finally:
            self._turn.release()
        if completion == _FAILED:
            self._refuse(completion, reason, "MQSUBRQ", handle.name)
        return MQSRO.number(said, "NumPubs")

    def commit(self) -> None:
        """Commit the unit of work (MQCMIT): when this returns, the unit of work is durable."""
        self._begin("MQCMIT", "")
        completion, reason = self._run(self._mqi.commit)
        if completion != _OK:
            self._refuse(completion, reason, "MQCMIT", "")

    def backout(self) -> None:
        """Undo the unit of work (MQBACK)."""
        self._begin("MQBACK", "")
        completion, reason = self._run(self._mqi.backout)
        if completion != _OK:
            self._refuse(completion, reason, "MQBACK", "")

    def disconnect(self) -> None:
        """End the connection (MQDISC). **Commits an open unit of work**.

        Raises nothing if an earlier verb has shown that the connection is lost.
        """
        self._begin("MQDISC", "")
        try:
            self._ended = True
            completion, reason = self._mqi.disconnect(self._hconn)
        finally:
            self._turn.release()
        if completion != _OK and not self._lost:
            self._refuse(completion, reason, "MQDISC", "")

    def _run(self, call: Callable[[int, *_Arguments], _Answer], *arguments: *_Arguments) -> _Answer:
        """Make the call for which `_begin` has reserved the connection, and free the connection."""
        try:
            return call(self._hconn, *arguments)
        finally:
            self._turn.release()

    def _begin(self, verb: str, name: str) -> None:
        """Reserve the connection for this call. Raises 2219 during another call, 2018 after MQDISC."""
        if not self._turn.acquire(blocking=False):
            detail = "Another call of this connection is not over yet"
            raise error_for(Reason.CALL_IN_PROGRESS, verb, name, self.queue_manager_name, detail)
        if self._ended:
            self._turn.release()
            raise error_for(Reason.HCONN_ERROR, verb, name, self.queue_manager_name)

    def _begin_on(self, verb: str, handle: object, kind: type[OwnHandle]) -> OwnHandle:
        """Call `_begin`, and return the handle. Raises 2019 if the handle is closed, or of another kind or connection."""
        self._begin(verb, _name_of(handle))
        if isinstance(handle, kind) and handle.connection is self and handle.open:
            return handle
        self._turn.release()
        raise error_for(Reason.HOBJ_ERROR, verb, _name_of(handle), self.queue_manager_name)

    def _object(self, verb: str, described: ObjectDescriptor, strings: Mapping[str, int]) -> bytes:
        """Return the MQOD. Refuses a name that is too long for its field: a truncated name is the name of another object."""
        for text, reason in (
            (described.name, Reason.OBJECT_NAME_ERROR),
            (described.queue_manager, Reason.UNKNOWN_OBJECT_Q_MGR),
            (described.dynamic_name, Reason.DYNAMIC_Q_NAME_ERROR),
        ):
            if len(text) > OBJECT_NAME_CHARS_MAX:
                raise error_for(reason, verb, described.name, self.queue_manager_name)
        self._check(limits.unfit_user(described.alternate_user), verb, described.name)
        return MQOD.pack(
            ObjectType=int(described.object_type),
            ObjectName=padded(described.name, OBJECT_NAME_CHARS_MAX),
            ObjectQMgrName=padded(described.queue_manager, OBJECT_NAME_CHARS_MAX),
            DynamicQName=padded(described.dynamic_name, OBJECT_NAME_CHARS_MAX),
            AlternateUserId=padded(described.alternate_user, limits.USER_CHARS),
            **strings,
        )

    def _check(self, unfit: limits.Unfit | None, verb: str, name: str = "") -> None:
        if unfit is not None:
            raise error_for(unfit[0], verb, name, self.queue_manager_name, unfit[1])

    def _check_lengths(self, selectors: Iterable[int], verb: str, handle: ObjectHandle) -> None:
        for selector in selectors:
            if selector >= FIRST_CHARACTER_SELECTOR and selector not in CHARS:
                detail = f"mqflow does not know how long the attribute {selector} is"
                raise error_for(Reason.SELECTOR_ERROR, verb, handle.name, self.queue_manager_name, detail)

    def _refuse(self, completion: int, reason: int, verb: str, name: str) -> NoReturn:
        self._lost = self._lost or connection_gone(reason)
        error = error_for(reason, verb, name, self.queue_manager_name)
        error.completion = CompletionCode.WARNING if completion == CompletionCode.WARNING else CompletionCode.FAILED
        raise error

    def _planned(self, handle: handles.BoundHandle, options: GetOptions) -> handles.GetStructures:
        if handles.wants_handle(options):
            detail = "This adapter makes no message handles: PROPERTIES_FORCE_MQRFH2 gives the same properties in the data"
            raise error_for(Reason.FUNCTION_NOT_SUPPORTED, "MQGET", handle.name, self.queue_manager_name, detail)
        self._check(limits.unfit_get(options), "MQGET", handle.name)
        with limits.numbers_fit(Reason.MD_ERROR, "MQGET", self.queue_manager_name):
            return handles.plan_get(options)

    def _get_once(self, handle: handles.BoundHandle, plan: handles.GetStructures, room: int) -> Got | None:
        body, md, gmo, length, completion, reason = self._mqi.get(
            self._hconn, handle.number, fresh(plan.md), fresh(plan.gmo), room
        )
        if completion == _FAILED or reason == Reason.NO_MSG_LOCKED:
            if reason == Reason.NO_MSG_AVAILABLE:
                return None
            self._refuse(completion, reason, "MQGET", handle.name)
        if plan.options.options & GetOption.UNLOCK:
            return None
        # With most warnings, MQGET has removed the message from the queue. So `Got` has both the data and the reason.
        return Got(
            descriptor=MessageDescriptor.from_bytes(md, little_endian=handles.LITTLE_ENDIAN),
            body=body,
            reason=reason,
            data_bytes=length,
            resolved_queue=MQGMO.text(gmo, "ResolvedQName"),
            message_token=MQGMO.raw(gmo, "MsgToken"),
        )

    def _get_with_less(self, handle: handles.BoundHandle, plan: handles.GetStructures, room: int, least: int) -> Got | None:
        """Get into a buffer of `room` bytes, or into a smaller buffer if the channel carries less, down to `least` bytes.

        Source: IBM, rc2010: an MQI client gets 2010 if BufferLength exceeds the length negotiated for its channel.
        """
        while True:
            try:
                return self._get_once(handle, plan, room)
            except MQIError as error:
                if error.reason != Reason.DATA_LENGTH_ERROR or room <= least:
                    raise
            room = handle.make_less_room(room, least)

    def _get_with_room(self, handle: handles.BoundHandle, plan: handles.GetStructures, got: Got, ends_at: float) -> Got | None:
        """Get a message that was too long for the buffer. If another program has got it, wait for the next until `ends_at`."""
        wait_ms = plan.options.wait_ms
        while True:
            room = handle.make_room(got.data_bytes, converted=plan.converts)
            again = self._get_with_less(
                handle, handles.plan_get(handles.same_message(plan.options, got.descriptor)), room, got.data_bytes
            )
            if again is None:
                left_ms = wait_ms if wait_ms == WAIT_UNLIMITED else max(0, round((ends_at - self._clock.monotonic()) * 1_000))
                again = self._get_once(handle, handles.plan_get(handles.with_wait(plan.options, left_ms)), handle.room)
            if again is None or again.reason != Reason.TRUNCATED_MSG_FAILED:
                return again
            got = again

    def _to_put(
        self, descriptor: MessageDescriptor, options: PutOption, context: ObjectHandle | None, verb: str, body: object
    ) -> tuple[bytes, bytes]:
        if isinstance(body, str):
            detail = "A body is bytes: encode the text, and set the descriptor's ccsid to its character set"
            raise error_for(Reason.BUFFER_ERROR, verb, queue_manager=self.queue_manager_name, detail=detail)
        self._check(limits.unfit_put(descriptor, options), verb)
        if context is not None and not (isinstance(context, handles.BoundHandle) and context.connection is self):
            detail = "The input handle belongs to another connection"
            raise error_for(Reason.CONTEXT_HANDLE_ERROR, verb, _name_of(context), self.queue_manager_name, detail)
        pmo = MQPMO.pack(Options=int(options), Context=context.number if context is not None else 0)
        with limits.numbers_fit(Reason.MD_ERROR, verb, self.queue_manager_name):
            return descriptor.to_bytes(2, little_endian=handles.LITTLE_ENDIAN), pmo

    def _was_put(self, answered: tuple[bytes, bytes, int, int], verb: str, name: str) -> Put:
        md, pmo, completion, reason = answered
        if completion == _FAILED:
            self._refuse(completion, reason, verb, name)
        return Put(
            descriptor=MessageDescriptor.from_bytes(md, little_endian=handles.LITTLE_ENDIAN),
            resolved_queue=MQPMO.text(pmo, "ResolvedQName"),
            resolved_queue_manager=MQPMO.text(pmo, "ResolvedQMgrName"),
            reason=reason,
        )


def _value(selector: int, value: int | bytes) -> int | str:
    if isinstance(value, int):
        return value
    text = value.partition(b"\0")[0]
    try:
        return text.decode().ljust(CHARS[selector])
    except UnicodeDecodeError:
        return text.decode("latin-1").ljust(CHARS[selector])


def _name_of(handle: object) -> str:
    # A handle of another queue manager has a name too; the name of any other object is its `repr`.
    return str(getattr(handle, "name", handle))
