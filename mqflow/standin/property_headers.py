"""How properties travel: as folders of an MQRFH2 in front of the message data, and from there back into a message handle.

Source: IBM, "Message properties", MQRFH2; MQPMO.Action and MQPD.CopyOptions; MQGMO_PROPERTIES_IN_HANDLE, MQGMO_NO_PROPERTIES.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final

from msgspec.structs import replace

from mqflow.mqi import rfh2
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.headers import join, resolved
from mqflow.mqi.options import Format
from mqflow.mqi.rfh2 import RFH2, Folder, Property
from mqflow.standin.properties import FOLDERS, Held
from mqflow.standin.property_values import packed, type_of_word, unpacked

__all__ = ("Action", "carried", "properties_bytes", "taken", "with_properties")


class Action(IntEnum):
    """MQACTP_*: what a put message is to the one whose handle is given as the original."""

    NEW = 0
    FORWARD = 1
    REPLY = 2
    REPORT = 3


_COPIED: Final = {Action.NEW: 0xFFFFFFFF, Action.FORWARD: 0x3, Action.REPLY: 0x9, Action.REPORT: 0x11}
"""Which MQCOPY_* bits let a property go along; MQCOPY_ALL (1) always does."""


def carried(original: Iterable[Held], new: Iterable[Held], action: Action) -> list[Held]:
    """Return the properties that a put message has: of the original what is to be copied, and over it the new ones."""
    found = {held.name: held for held in original if held.copy_options & _COPIED[action]}
    found |= {held.name: held for held in new}
    return list(found.values())


def with_properties(descriptor: MessageDescriptor, body: bytes, properties: Sequence[Held]) -> tuple[MessageDescriptor, bytes]:
    """Return descriptor and data with an MQRFH2 in front that holds the properties; as they are where there are none."""
    if not properties:
        return descriptor, body
    folders: dict[str, list[Property]] = {}
    for held in properties:
        folder, _, name = held.name.partition(".")
        folders.setdefault(folder, []).append(Property(name, unpacked(held.type, held.value), held.type.word))
    header = RFH2(folders=tuple(Folder(name, tuple(items)) for name, items in folders.items()))
    return join(descriptor, (header,), body)


def taken(descriptor: MessageDescriptor, body: bytes) -> tuple[MessageDescriptor, bytes, list[Held]]:
    """Return descriptor and data without their properties, and the properties.

    Only a first header that is an MQRFH2 is looked at; folders of it that hold no properties stay where they are. Raises
    `HeaderError` (2334, 2335) where it does not hold together.
    """
    if descriptor.format != Format.RF_HEADER_2:
        return descriptor, body, []
    header, length = rfh2.parse(body, encoding=descriptor.encoding)
    others = tuple(folder for folder in header.folders if folder.name and not _holds_properties(folder))
    found = [_held(folder.name, item) for folder in header.folders if _holds_properties(folder) for item in folder.properties]
    if others:
        kept = rfh2.to_bytes(replace(header, folders=others), encoding=descriptor.encoding)
        return descriptor, kept + body[length:], found
    ccsid = resolved(header.ccsid, before=descriptor.ccsid, queue_manager_ccsid=descriptor.ccsid)
    return replace(descriptor, format=header.format, encoding=header.encoding, ccsid=ccsid), body[length:], found


def properties_bytes(descriptor: MessageDescriptor, body: bytes) -> int:
    """Return by how many bytes the data shrinks when its properties are taken out; 0 where that cannot be told."""
    try:
        return len(body) - len(taken(descriptor, body)[1])
    except MQIError:
        return 0


def _holds_properties(folder: Folder) -> bool:
    return folder.name in FOLDERS or ("content", "properties") in folder.attributes


def _held(folder: str, item: Property) -> Held:
    kind = type_of_word(item.type, item.value)
    return Held(name=f"{folder}.{item.name}", type=kind, value=packed(kind, item.value))
