"""Keeps the objects of one connection open, and opens them again on the next connection.

`policy.reconnect.ledger` decides which objects are opened again, in which order and with which options. This module calls the
verbs, on the thread of the connection. Two requests with the same parameters get the same handle. After an outage, the same
request gets the handle on the new connection. This module knows no event loop and no outage.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from mqflow.many_verbs import model_refused
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, NotAuthorizedError
from mqflow.mqi.options import CloseOption, ObjectType, OpenOption, Persistence, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.policy.reconnect.ledger import (
    Ledger,
    NotReopened,
    Object,
    Opened,
    Reopen,
    StartOver,
    Step,
    Subscribe,
    Subscription,
    TryAgain,
    after_refusal,
    closed,
    opened,
    replay,
)
from mqflow.policy.reconnect.reason_classes import Class, classify
from mqflow.verbs import Connection, ObjectDescriptor, ObjectHandle, Put, Subscribed, object_descriptor

__all__ = ("INPUT", "OpenObjects", "TakenOver", "name_of", "not_persistent")

INPUT: Final = OpenOption.INPUT_SHARED | OpenOption.SAVE_ALL_CONTEXT | OpenOption.FAIL_IF_QUIESCING
"""The options to open a queue whose messages may be moved to another queue with all their context."""
_DEFINITION_TYPE: Final = 7
_TEMPORARY: Final = 3
"""The value of MQIA_DEFINITION_TYPE that means a temporary dynamic queue (MQQDT_TEMPORARY_DYNAMIC)."""
_DYNAMIC_NAME: Final = "AMQ.*"
_OUTPUTS_MAX: Final = 64
"""The largest number of objects that stay open for output: each reply can need another queue, and MAXHANDS limits handles."""


class TakenOver(Struct, frozen=True):
    """The result of opening all objects again."""

    #: The objects that are open again, in the order in which they were first opened.
    objects: tuple[Opened, ...] = ()
    #: The objects that could not be opened, with the reason. The next request for such an object opens it, if that is possible.
    refused: tuple[NotReopened, ...] = ()


class OpenObjects:
    """The objects and subscriptions that one connection keeps open for its user. Only one thread may use it at a time."""

    def __init__(self, connection: Connection, owner: str = "", numbers: Iterator[int] | None = None) -> None:
        """Take a connection and the name of its owner. Connections that share `numbers` have a common order of their opens."""
        self._connection: Final = connection
        self.owner: Final = owner
        self._numbers: Final = count() if numbers is None else numbers
        self._ledger = Ledger()
        #: The number of an entry, by the parameters of its request.
        self._known: dict[object, int] = {}
        self._handles: dict[int, ObjectHandle] = {}
        self._subscribed: dict[int, Subscribed] = {}
        #: The handles for puts, by target and options; the oldest is first.
        self._outputs: dict[ObjectDescriptor | str, ObjectHandle] = {}

    @property
    def ledger(self) -> Ledger:
        """The objects that are open now, or that must be opened again after an outage."""
        return self._ledger

    def open_output(self, target: ObjectDescriptor | str) -> ObjectHandle | None:
        """Return the handle of a queue or topic if it is open for output already, otherwise None. Any thread may call this."""
        return self._outputs.get(target)

    def output(self, target: ObjectDescriptor | str) -> ObjectHandle:
        """Return the handle of a queue or topic, open for output; a text is the name of a queue.

        The 64 handles that were opened last stay open. Raises the errors of MQOPEN, and 2057 for a model queue.
        """
        handle = self._outputs.get(target)
        if handle is None:
            wanted = object_descriptor(target)
            handle = self.hold(
                wanted.name,
                OpenOption.OUTPUT | OpenOption.FAIL_IF_QUIESCING,
                object_type=wanted.object_type,
                queue_manager=wanted.queue_manager,
                object_string=wanted.object_string,
            )
            if wanted.name and handle.name != wanted.name:
                self._drop(handle, CloseOption.DELETE)
                raise model_refused(wanted.name, self._connection.queue_manager_name)
            if len(self._outputs) >= _OUTPUTS_MAX:
                self._drop(self._outputs.pop(next(iter(self._outputs))))
            self._outputs[target] = handle
        return handle

    def output_again(self, target: ObjectDescriptor | str) -> ObjectHandle:
        """Return a new handle of the queue or topic, in place of a handle that cannot be used any more (2041, 2052)."""
        stale = self._outputs.pop(target, None)
        if stale is not None:
            self._drop(stale)  # this handle cannot be used any more
        return self.output(target)

    def put(self, target: ObjectDescriptor | str, descriptor: MessageDescriptor, body: bytes, options: PutOption) -> Put:
        """Put the message on a queue or topic that stays open for output.

        If the handle cannot be used (2041, 2052), the put had no effect: the object is opened again, and the put is repeated
        once. Raises `MQIError`, for example 2085 if the queue does not exist any more.
        """
        put, handle = self._connection.put, self.output(target)
        try:
            return put(handle, descriptor, body, options)
        except MQIError as error:
            if classify(int(error.reason)) is not Class.REOPEN:
                raise
        return put(self.output_again(target), descriptor, body, options)

    def put_if_accepted(
        self, target: ObjectDescriptor | str, descriptor: MessageDescriptor, put: Callable[[MessageDescriptor], Put]
    ) -> Put:
        """Call `put` and return its result. To a temporary dynamic queue, put a persistent message as non-persistent.

        Such a queue refuses persistent messages (2048): its messages do not outlive the queue. A refused put does not change
        the unit of work. Raises the errors of `put` and of the inquiry; also 2048 if the target is another kind of queue.
        Source: IBM q041190 (2048): on z/OS also a shared queue that cannot be recovered refuses a persistent message.
        """
        try:
            return put(descriptor)
        except MQIError as error:
            if not self.takes_less(target, error):
                raise
        return put(not_persistent(descriptor))

    def takes_less(self, target: ObjectDescriptor | str, error: MQIError) -> bool:
        """Return whether a put with this error can succeed as non-persistent. Raises the errors of the inquiry."""
        return error.reason == Reason.PERSISTENT_NOT_ALLOWED and self._is_temporary_target(target)

    def _is_temporary_target(self, target: ObjectDescriptor | str) -> bool:
        """Return whether a queue that refuses persistent messages is temporary; true if this user may not inquire it."""
        try:
            handle = self._connection.open(target, OpenOption.INQUIRE | OpenOption.FAIL_IF_QUIESCING)
        except NotAuthorizedError:
            return True  # only temporary queues, and some shared queues on z/OS, refuse persistent messages
        try:
            return self._connection.inquire(handle, (_DEFINITION_TYPE,)).values.get(_DEFINITION_TYPE) == _TEMPORARY
        finally:
            self._connection.close(handle)

    def _drop(self, handle: ObjectHandle, options: CloseOption = CloseOption.NONE) -> None:
        """Close a handle and forget it. If this connection does not hold the handle, it is closed already: do nothing."""
        number = self._number_of(handle)
        if number is None:
            return
        self._forget(number)
        del self._handles[number]
        with suppress(MQIError):
            self._connection.close(handle, options)

    def _forget(self, number: int) -> None:
        self._ledger = closed(self._ledger, number)
        self._known = {words: known for words, known in self._known.items() if known != number}

    def hold(
        self,
        name: str,
        options: OpenOption,
        *,
        object_type: ObjectType = ObjectType.Q,
        queue_manager: str = "",
        object_string: str = "",
        alternate_user: str = "",
        selection: str = "",
    ) -> ObjectHandle:
        """Return the handle of an object that stays open. Open the object if it is not open. Raises the errors of MQOPEN."""
        entry = Object(
            session=self.owner,
            owner=self.owner,
            name=name,
            options=options,
            object_type=object_type,
            queue_manager=queue_manager,
            object_string=object_string,
            alternate_user=alternate_user,
            selection=selection,
        )
        number = self._known.get(entry)
        handle = None if number is None else self._handles.get(number)
        if handle is not None:
            return handle
        if number is not None:
            return self._open_again(number)
        handle = self._open(entry, name, _DYNAMIC_NAME)
        held = replace(entry, opened_name=handle.name, temporary=self._is_temporary(handle, name))
        self._known[entry] = number = self._note(held)
        self._handles[number] = handle
        return handle

    def subscribe(self, descriptor: SubscriptionDescriptor, queue: ObjectHandle | None = None) -> Subscribed:
        """Return the subscription with this descriptor. Subscribe if it does not exist yet. Raises the errors of MQSUB.

        If the subscription is not managed, `queue` must be a handle that `hold` has returned.
        """
        known = (descriptor, None if queue is None else self._number_of(queue))
        number = self._known.get(known)
        there = None if number is None else self._subscribed.get(number)
        if there is not None:
            return there
        subscribed = self._connection.subscribe(descriptor, queue)
        if number is None:
            entry = Subscription(session=self.owner, owner=self.owner, descriptor=subscribed.descriptor, queue=known[1])
            self._known[known] = number = self._note(entry)
        self._subscribed[number] = subscribed
        return subscribed

    def take_over(self, before: "OpenObjects") -> TakenOver:
        """Open the objects of `before`, an earlier connection of this owner. Raises `MQIError` if this connection is lost too.

        An object that cannot be opened is left out; the next request for it tries again. All other objects are opened.
        """
        self._ledger, self._known = before.ledger, dict(before._known)  # noqa: SLF001 - another object of this class
        objects: list[Opened] = []
        refused: list[NotReopened] = []
        for step in replay(self._ledger, self.owner):
            failed = self._take(step)
            if failed is None:
                objects.append(step.entry)
            else:
                refused.append(failed)
        for wanted, handle in before._outputs.items():  # noqa: SLF001 - as above
            number = before._number_of(handle)  # noqa: SLF001 - as above
            if number in self._handles:
                self._outputs[wanted] = self._handles[number]
            elif number is not None:  # perhaps a queue for replies that no longer exists; a put opens it if it does
                self._forget(number)
        return TakenOver(tuple(objects), tuple(refused))

    def _take(self, step: Step) -> NotReopened | None:
        try:
            match step:
                case NotReopened():
                    return step
                case Reopen():
                    self._handles[step.entry.number] = self._open_step(step)
                case Subscribe():
                    self._subscribe_step(step)
                case _:
                    assert_never(step)
        except MQIError as error:
            match after_refusal(step.entry, error):
                case StartOver():
                    raise
                case TryAgain():
                    return NotReopened(step.entry, error)
                case NotReopened() as refused:
                    return refused
        return None

    def _open_step(self, step: Reopen) -> ObjectHandle:
        return self._open(step.entry, step.name, step.dynamic_name or _DYNAMIC_NAME)

    def _subscribe_step(self, step: Subscribe) -> None:
        queue = step.entry.queue
        handle = None if queue is None else self._handles.get(queue) or self._open_again(queue)
        self._subscribed[step.entry.number] = self._connection.subscribe(step.descriptor, handle)

    def _open_again(self, number: int) -> ObjectHandle:
        """Open an object that `take_over` could not open. The cause may be gone now."""
        [step] = [each for each in replay(self._ledger, self.owner) if each.entry.number == number]
        match step:
            case NotReopened():
                raise step.error
            case Reopen():
                self._handles[number] = handle = self._open_step(step)
                return handle
            case Subscribe():
                raise AssertionError("a subscription is not an object")
            case _:
                assert_never(step)

    def _open(self, entry: Object, name: str, dynamic_name: str) -> ObjectHandle:
        target = ObjectDescriptor(
            name,
            entry.object_type,
            queue_manager=entry.queue_manager,
            dynamic_name=dynamic_name,
            alternate_user=entry.alternate_user,
            selection=entry.selection,
            object_string=entry.object_string,
        )
        return self._connection.open(target, entry.options)

    def _is_temporary(self, handle: ObjectHandle, asked: str) -> bool:
        """Return whether MQOPEN made a temporary queue. A dynamic queue that this user may not inquire counts as temporary."""
        if handle.name == asked or not asked:
            return False
        if not handle.options & OpenOption.INQUIRE:
            return self._is_temporary_target(handle.name)
        return self._connection.inquire(handle, (_DEFINITION_TYPE,)).values.get(_DEFINITION_TYPE) == _TEMPORARY

    def _note(self, entry: Opened) -> int:
        self._ledger, number = opened(replace(self._ledger, next_number=next(self._numbers)), entry)
        return number

    def _number_of(self, handle: ObjectHandle) -> int | None:
        return next((number for number, held in self._handles.items() if held is handle), None)


def not_persistent(descriptor: MessageDescriptor) -> MessageDescriptor:
    """Return the same descriptor for a non-persistent message."""
    return replace(descriptor, persistence=Persistence.NOT_PERSISTENT)


def name_of(entry: Opened) -> str:
    """Return the name of an entry for people: the queue, the topic or the subscription."""
    match entry:
        case Object():
            return entry.opened_name or entry.name or entry.object_string
        case Subscription(descriptor=descriptor):
            return descriptor.name or descriptor.topic_string or descriptor.object_string
        case _:
            assert_never(entry)
