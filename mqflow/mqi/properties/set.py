"""A message property, and an ordered set of properties: set, find, delete, carry to another message.

A set is a tuple; functions return a new tuple. `rfh2_properties` writes a set to a message. `property_names` and `types` have
the rules for names and types. This module neither reads nor writes messages.
Source: IBM, MQSETMP, MQINQMP, MQDLTMP, MQPD, MQSMPO and MQPMO.Action; rc2471, rc2473, rc2482.
"""

from collections.abc import Iterable
from enum import IntEnum, IntFlag
from typing import Final, TypeAlias

from msgspec import Struct

from mqflow.mqi.errors import error_for
from mqflow.mqi.headers.rfh2_folder import PropertyValue
from mqflow.mqi.properties.property_names import matcher, shown_name
from mqflow.mqi.properties.types import PropertyType
from mqflow.mqi.reason_codes import Reason

__all__ = (
    "Copy",
    "MessageProperty",
    "Properties",
    "PropertyContext",
    "PropertyType",
    "PropertyValue",
    "PutAction",
    "Support",
    "carried",
    "find",
    "matcher",
    "property_type",
    "with_property",
    "without_property",
)


class Copy(IntFlag):
    """MQCOPY_*: the kinds of message that a property is copied to."""

    NONE = 0
    ALL = 0x1
    FORWARD = 0x2
    PUBLISH = 0x4
    REPLY = 0x8
    REPORT = 0x10
    DEFAULT = 0x16


class Support(IntEnum):
    """MQPD_SUPPORT_*: the duty of a queue manager that does not know the property; only for properties of the `mq` folder."""

    OPTIONAL = 1
    REQUIRED = 0x100000
    REQUIRED_IF_LOCAL = 0x400


class PropertyContext(IntEnum):
    """MQPD_*_CONTEXT."""

    NONE = 0
    USER = 1


class PutAction(IntEnum):
    """MQACTP_*: the kind of message that is put (new, forward, reply, report), as seen from the original message."""

    NEW = 0
    FORWARD = 1
    REPLY = 2
    REPORT = 3


class MessageProperty(Struct, frozen=True, kw_only=True):
    """A property of a message."""

    #: The full name, with its folder: `usr.colour`.
    name: str
    type: PropertyType
    #: The value, which must fit `type`: None for a null, otherwise bool, int, float, str or bytes.
    value: PropertyValue
    #: MQPD: MQPD_SUPPORT_*, MQPD_*_CONTEXT, MQCOPY_*.
    support: int = Support.OPTIONAL
    context: int = PropertyContext.NONE
    copy_options: int = Copy.DEFAULT

    @property
    def shown_name(self) -> str:
        """The name as MQINQMP gives it: a synonym, or the name without `usr.`."""
        return shown_name(self.name)


Properties: TypeAlias = tuple[MessageProperty, ...]

_COPIED: Final = {
    PutAction.FORWARD: Copy.ALL | Copy.FORWARD,
    PutAction.REPLY: Copy.ALL | Copy.REPLY,
    PutAction.REPORT: Copy.ALL | Copy.REPORT,
}


def property_type(number: int, name: str) -> PropertyType:
    """Return the MQTYPE_* of a number. Raises 2473 (MQRC_PROPERTY_TYPE_ERROR) for an unknown number."""
    try:
        return PropertyType(number)
    except ValueError:
        known = ", ".join(f"{kind.name} 0x{kind:x}" for kind in PropertyType)
        raise error_for(Reason.PROPERTY_TYPE_ERROR, "MQSETMP", name, detail=f"Type 0x{number:x}; it takes {known}") from None


def with_property(properties: Properties, wanted: MessageProperty) -> Properties:
    """Return the set with this property in the place of the first property of its name, or at the end (MQSMPO_SET_FIRST)."""
    for index, present in enumerate(properties):
        if present.name == wanted.name:
            return (*properties[:index], wanted, *properties[index + 1 :])
    return (*properties, wanted)


def without_property(properties: Properties, index: int) -> Properties:
    """Return the set without the property at this place."""
    return properties[:index] + properties[index + 1 :]


def find(properties: Properties, name: str, *, after: int = -1) -> int | None:
    """Return the place of the first property of this name behind `after`, or None; a name may be a prefix that ends in `%`.

    Raises 2513 for a name that is empty or too long.
    """
    matches = matcher(name)
    for index in range(after + 1, len(properties)):
        if matches(properties[index].name):
            return index
    return None


def carried(original: Iterable[MessageProperty], new: Iterable[MessageProperty], action: PutAction) -> Properties:
    """Return the properties of a message that is put: the copied properties of the original, and the new properties.

    A new property replaces a copied property of the same name. A new message (`PutAction.NEW`) gets all properties of the
    original, with any copy options.
    """
    found = tuple(original)
    if action is not PutAction.NEW:
        found = tuple(present for present in found if present.copy_options & _COPIED[action])
    for present in new:
        found = with_property(found, present)
    return found
