"""Message handles: what MQCRTMH makes and MQDLTMH takes away, and the cursor that MQINQMP leaves in one.

Knows connections, whose they are, and sets of properties; what is asked of them by address is `properties`' business.
Source: IBM, MQCRTMH, MQDLTMH, MQIMPO and MQSMPO options; rc2460, rc2471.
"""

from enum import IntEnum, IntFlag
from typing import Final

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.properties.names import whole_name
from mqflow.mqi.properties.of_descriptor import descriptor_property
from mqflow.mqi.properties.set import MessageProperty, Properties, find, with_property, without_property
from mqflow.mqi.reason_codes import Reason
from mqflow.standin.calls.connect import Host
from mqflow.standin.memory.layouts import MQCMHO, MQDMHO
from mqflow.standin.memory.structures import read, structure_at, write

__all__ = ("MessageHandle", "SetWhere", "create_handle", "delete_handle", "handle_of")

UNASSOCIATED: Final = -3
"""MQHC_UNASSOCIATED_HCONN: a message handle that belongs to no connection."""

_UNUSABLE: Final = -1


class Validation(IntFlag):
    """MQCMHO_* that are looked at."""

    NO_VALIDATION = 0x1
    VALIDATE = 0x2


class SetWhere(IntEnum):
    """MQSMPO_*: where a property is set."""

    FIRST = 0
    UNDER_CURSOR = 0x1
    AFTER_CURSOR = 0x2
    APPEND = 0x4
    BEFORE_CURSOR = 0x8


class MessageHandle:
    """Hmsg: properties in order, the cursor, and the descriptor of the message got with it."""

    def __init__(self, *, validate: bool = True) -> None:
        self.validate = validate
        self.properties: Properties = ()
        self.descriptor: MessageDescriptor | None = None
        #: Index of the property last inquired, and the name it was asked by.
        self._cursor: int | None = None
        self._asked = ""

    def hold(self, properties: Properties, descriptor: MessageDescriptor) -> None:
        """Hold what an MQGET found, and nothing else."""
        self.properties, self.descriptor = properties, descriptor
        self._cursor = None

    def used(self) -> Properties:
        """Return the properties for an MQPUT, which leaves the cursor at none of them."""
        self._cursor = None
        return self.properties

    def inquire(self, name: str, *, following: bool) -> MessageProperty:
        """Return the first property of the name, or the one after the last found by it, and move the cursor there.

        Raises 2471 where there is none.
        """
        if self.descriptor is not None and (field := descriptor_property(self.descriptor, whole_name(name))):
            return field
        after = self._cursor if following and self._cursor is not None and name == self._asked else -1
        index = find(self.properties, name, after=after)
        if index is None:
            raise _not_there(name)
        self._cursor, self._asked = index, name
        return self.properties[index]

    def under_cursor(self, verb: str) -> MessageProperty:
        """Return the property that was inquired last. Raises 2471 where there is none, or no more."""
        return self.properties[self._at_cursor(verb)]

    def delete(self, name: str) -> None:
        """Hold the first property of this name no more. Raises 2471 where there is none."""
        index = find(self.properties, name)
        if index is None:
            raise _not_there(name, "MQDLTMP")
        self._delete_at(index)

    def delete_under_cursor(self) -> None:
        """Hold the property that was inquired last no more. Raises 2471 where there is none, or no more."""
        self._delete_at(self._at_cursor("MQDLTMP"))

    def set(self, wanted: MessageProperty, where: SetWhere) -> None:
        """Hold the property as well, there. Raises 2471 where that is at the cursor, and the cursor is at no property."""
        present = self.properties
        match where:
            case SetWhere.FIRST:
                self.properties = with_property(present, wanted)
            case SetWhere.APPEND:
                self.properties = (*present, wanted)
            case SetWhere.UNDER_CURSOR:
                index = self._at_cursor("MQSETMP")
                self.properties = (*present[:index], wanted, *present[index + 1 :])
            case SetWhere.AFTER_CURSOR:
                index = self._at_cursor("MQSETMP") + 1
                self.properties = (*present[:index], wanted, *present[index:])
            case SetWhere.BEFORE_CURSOR:
                index = self._at_cursor("MQSETMP")
                self.properties = (*present[:index], wanted, *present[index:])
                self._cursor = index + 1

    def _at_cursor(self, verb: str) -> int:
        if self._cursor is None:
            raise _not_there("", verb, "The cursor is at no property")
        return self._cursor

    def _delete_at(self, index: int) -> None:
        self.properties = without_property(self.properties, index)
        self._cursor = None


def create_handle(host: Host, number: int, options_at: int, handle_at: int) -> int:
    """MQCRTMH: write a message handle that has no properties yet."""
    options = structure_at(MQCMHO, options_at, "MQCRTMH").number("Options")
    if options not in {0, Validation.NO_VALIDATION, Validation.VALIDATE}:
        raise error_for(Reason.OPTIONS_ERROR, "MQCRTMH", detail=f"MQCMHO.Options 0x{options:x}")
    handles = _handles(host, number, "MQCRTMH")
    hmsg = host.next_number()
    handles[hmsg] = MessageHandle(validate=options != Validation.NO_VALIDATION)
    write(handle_at, hmsg.to_bytes(8, "little", signed=True))
    return Reason.NONE


def delete_handle(host: Host, number: int, handle_at: int, options_at: int) -> int:
    """MQDLTMH: the handle and its properties are gone."""
    structure_at(MQDMHO, options_at, "MQDLTMH")
    hmsg = int.from_bytes(read(handle_at, 8), "little", signed=True)
    handle_of(host, number, hmsg, "MQDLTMH")
    del _handles(host, number, "MQDLTMH")[hmsg]
    write(handle_at, _UNUSABLE.to_bytes(8, "little", signed=True))
    return Reason.NONE


def handle_of(host: Host, number: int, hmsg: int, verb: str) -> MessageHandle:
    """Return the message handle. Raises 2460."""
    found = _handles(host, number, verb).get(hmsg)
    if found is None:
        raise error_for(Reason.HMSG_ERROR, verb, detail=f"There is no message handle {hmsg}")
    return found


def _handles(host: Host, number: int, verb: str) -> dict[int, MessageHandle]:
    return host.message_handles if number == UNASSOCIATED else host.hconn(number, verb).message_handles


def _not_there(name: str, verb: str = "MQINQMP", detail: str = "") -> MQIError:
    return error_for(Reason.PROPERTY_NOT_AVAILABLE, verb, name, detail=detail)
