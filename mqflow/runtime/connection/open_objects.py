"""What is open on one connection, and how the next connection comes to have it open too.

`policy.reconnect.ledger` decides what is opened again, in which order and with which options; here it is done, with the verbs
of the connection, on whatever thread they are for. Whoever asks for an object by the same words gets its handle, on this
connection or the next: the words are what stays valid. Knows no event loop and no outage.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from mqflow.many_verbs import model_refused
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import CloseOption, ObjectType, OpenOption
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.policy.reconnect.ledger import (
    Ledger,
    Object,
    Open,
    Opened,
    Refused,
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
from mqflow.verbs import Connection, ObjectDescriptor, ObjectHandle, Subscribed

__all__ = ("Openings", "TakenOver", "name_of")

_DEFINITION_TYPE: Final = 7
_TEMPORARY: Final = 3
"""MQIA_DEFINITION_TYPE, and MQQDT_TEMPORARY_DYNAMIC."""
_DYNAMIC_NAME: Final = "AMQ.*"


class TakenOver(Struct, frozen=True):
    """What came of opening everything again."""

    #: What is open again, in the order of first opening.
    objects: tuple[Opened, ...] = ()
    #: What is not, and why; who asks for it tries again.
    refused: tuple[Refused, ...] = ()


class Openings:
    """The objects and subscriptions that one connection keeps open for its user. One thread at a time."""

    def __init__(self, connection: Connection, owner: str = "", numbers: Iterator[int] | None = None) -> None:
        """Take a connection, and for whom it is; `numbers` count what is opened, over all connections whose order matters."""
        self._connection: Final = connection
        self.owner: Final = owner
        self._numbers: Final = count(1) if numbers is None else numbers
        self._ledger = Ledger()
        #: The entry's number, by the words it was asked for with.
        self._known: dict[object, int] = {}
        self._handles: dict[int, ObjectHandle] = {}
        self._subscribed: dict[int, Subscribed] = {}
        #: What is asked for with each put.
        self._outputs: dict[tuple[str, OpenOption], ObjectHandle] = {}

    @property
    def ledger(self) -> Ledger:
        """What is, or ought to be, open."""
        return self._ledger

    def output(self, name: str, options: OpenOption) -> ObjectHandle:
        """Return the handle of a queue that is open for output. Raises what MQOPEN raises, and as `open_to_put` 2057."""
        handle = self._outputs.get((name, options))
        if handle is None:
            handle = self.hold(name, options | OpenOption.FAIL_IF_QUIESCING)
            if handle.name != name:
                self._let_go(handle, CloseOption.DELETE)
                raise model_refused(name, self._connection.queue_manager_name)
            self._outputs[name, options] = handle
        return handle

    def output_again(self, name: str, options: OpenOption) -> ObjectHandle:
        """Return the handle of that queue, opened anew: the one there was is of no use any more (2041, 2052)."""
        stale = self._outputs.pop((name, options), None)
        if stale is not None:
            self._let_go(stale)  # there is nothing behind it to close
        return self.output(name, options)

    def _let_go(self, handle: ObjectHandle, options: CloseOption = CloseOption.NONE) -> None:
        """Close a handle that is no use, and forget it; one that the next connection has not got is closed already."""
        number = self._number_of(handle)
        if number is None:
            return
        self._ledger = closed(self._ledger, number)
        self._known = {words: known for words, known in self._known.items() if known != number}
        del self._handles[number]
        with suppress(MQIError):
            self._connection.close(handle, options)

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
        """Return the handle of an object that stays open: the one there is, or a new one. Raises what MQOPEN raises."""
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
        """Return a subscription that stays: the one made with this descriptor, or a new one. Raises what MQSUB raises.

        One that is not managed goes to a queue that is held here.
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

    def take_over(self, before: "Openings") -> TakenOver:
        """Open what another connection of the same user had open. Raises `MQIError` where this connection is lost as well.

        What cannot be opened is left out, and tried again when it is asked for: nobody else has to do without.
        """
        self._ledger, self._known = before.ledger, dict(before._known)  # noqa: SLF001 - another of this class
        objects: list[Opened] = []
        refused: list[Refused] = []
        for step in replay(self._ledger, self.owner):
            failed = self._take(step)
            if failed is None:
                objects.append(step.entry)
            else:
                refused.append(failed)
        return TakenOver(tuple(objects), tuple(refused))

    def _take(self, step: Step) -> Refused | None:
        try:
            match step:
                case Refused():
                    return step
                case Open():
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
                    return Refused(step.entry, error)
                case Refused() as refused:
                    return refused
        return None

    def _open_step(self, step: Open) -> ObjectHandle:
        return self._open(step.entry, step.name, step.dynamic_name or _DYNAMIC_NAME)

    def _subscribe_step(self, step: Subscribe) -> None:
        queue = step.entry.queue
        handle = None if queue is None else self._handles.get(queue) or self._open_again(queue)
        self._subscribed[step.entry.number] = self._connection.subscribe(step.descriptor, handle)

    def _open_again(self, number: int) -> ObjectHandle:
        """Open what could not be opened when this connection took over; it may work by now."""
        [step] = [each for each in replay(self._ledger, self.owner) if each.entry.number == number]
        match step:
            case Refused():
                raise step.error
            case Open():
                self._handles[number] = handle = self._open_step(step)
                return handle
            case Subscribe():
                raise AssertionError("a subscription is no object")
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
        """Whether the open made a temporary queue; where the handle cannot be asked, a dynamic one is taken for temporary."""
        if handle.name == asked or not asked:
            return False
        if not handle.options & OpenOption.INQUIRE:
            return True
        return self._connection.inquire(handle, (_DEFINITION_TYPE,)).values.get(_DEFINITION_TYPE) == _TEMPORARY

    def _note(self, entry: Opened) -> int:
        self._ledger, number = opened(replace(self._ledger, next_number=next(self._numbers)), entry)
        return number

    def _number_of(self, handle: ObjectHandle) -> int | None:
        return next((number for number, held in self._handles.items() if held is handle), None)


def name_of(entry: Opened) -> str:
    """Return what to call an entry towards a person: the queue, the topic, the subscription."""
    match entry:
        case Object():
            return entry.opened_name or entry.name or entry.object_string
        case Subscription(descriptor=descriptor):
            return descriptor.name or descriptor.topic_string or descriptor.object_string
        case _:
            assert_never(entry)
