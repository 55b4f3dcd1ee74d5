"""Makes a message that waited on the staging queue tell how often it was backed out before, and takes that off it again.

A queue manager counts from 0 where a message is put, and lets nobody set BackoutCount. So the count travels in an MQRFH2 of its
own in front of the message, and whoever gets it for a handler adds it. Knows descriptors and headers; gets nothing.
"""

from typing import Final

from msgspec.structs import replace

from mqflow.mqi.descriptor import CCSID_INHERIT, CCSID_Q_MGR, MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.headers import rfh2
from mqflow.mqi.headers.rfh2 import RFH2, Folder, Property
from mqflow.mqi.options import Encoding, Format, MessageFlag, Report

__all__ = ("FOLDER", "counted", "may_wait", "with_count")

FOLDER: Final = "mqflow_delivery"
"""The folder that says how often a message was backed out before it waited: property `backouts`."""

_BACKOUTS: Final = "backouts"
# Anybody can write a folder, and the count goes into fields of four bytes.
_BACKOUTS_MAX: Final = 999_999_999
_MARK: Final = b"<" + FOLDER.encode()
_UTF_8: Final = 1208
_LOOK_BYTES: Final = 4_096
_IN_ORDER: Final = MessageFlag.MSG_IN_GROUP | MessageFlag.LAST_MSG_IN_GROUP | MessageFlag.SEGMENT | MessageFlag.LAST_SEGMENT
_REPORTED: Final = Report.COA_MASK | Report.COD_MASK


def may_wait(descriptor: MessageDescriptor) -> bool:
    """Return whether a message may wait elsewhere for its next delivery.

    Not one of a group, which would lose its place; nor one whose sender asked to be told of its arrival or its delivery, who
    would be told of each wait.
    """
    return not descriptor.message_flags & _IN_ORDER and not descriptor.report & _REPORTED


def with_count(descriptor: MessageDescriptor, body: bytes, backout_count: int) -> tuple[MessageDescriptor, bytes]:
    """Return the message as it is put back to its queue: it says that it was backed out so often."""
    ccsid = CCSID_INHERIT if descriptor.ccsid == CCSID_Q_MGR else descriptor.ccsid
    folder = Folder(FOLDER, (Property(_BACKOUTS, backout_count),))
    header = RFH2(folders=(folder,), encoding=descriptor.encoding, ccsid=ccsid, format=descriptor.format)
    described = replace(descriptor, format=Format.RF_HEADER_2, ccsid=_UTF_8, encoding=Encoding.NORMAL)
    return described, rfh2.to_bytes(header, encoding=Encoding.NORMAL) + body


def counted(descriptor: MessageDescriptor, body: bytes) -> tuple[MessageDescriptor, bytes]:
    """Return the message without what `with_count` put in front, and its BackoutCount with what that said.

    Any other message is returned as it is; so is one whose first header does not hold together.
    """
    if descriptor.format != Format.RF_HEADER_2 or _MARK not in body[:_LOOK_BYTES]:
        return descriptor, body
    try:
        header, length = rfh2.parse(body, encoding=descriptor.encoding)
        said = rfh2.properties(header, FOLDER).get(_BACKOUTS)
        others = tuple(folder for folder in header.folders if folder.name != FOLDER)
        kept = rfh2.to_bytes(replace(header, folders=others), encoding=descriptor.encoding) if others else b""
    except MQIError:
        return descriptor, body
    if not isinstance(said, int) or not 0 <= said <= _BACKOUTS_MAX:
        return descriptor, body
    own = replace(descriptor, backout_count=descriptor.backout_count + said)
    if not others:
        own = replace(own, format=header.format, encoding=header.encoding, ccsid=header.ccsid)
    return own, kept + body[length:]
