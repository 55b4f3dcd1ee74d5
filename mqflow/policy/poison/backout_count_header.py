"""Adds the backout count to a message that waits on the staging queue, and removes the count after the wait.

A queue manager counts from 0 after each put, and no program can set BackoutCount. So an MQRFH2 in front of the message carries
the count during the wait. The listener adds this count to MQMD.BackoutCount.
"""

from typing import Final

from msgspec.structs import replace

from mqflow.mqi.descriptor import CCSID_INHERIT, CCSID_Q_MGR, MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.headers import rfh2
from mqflow.mqi.headers.rfh2 import RFH2, Folder, FolderProperty
from mqflow.mqi.options import Encoding, Format, MessageFlag, Report

__all__ = ("FOLDER", "counted", "may_wait", "with_count")

FOLDER: Final = "mqflow_delivery"
"""The folder of the MQRFH2. Its property `backouts` is the backout count from before the wait."""

_BACKOUTS: Final = "backouts"
# Any program can write this folder, and the count goes into fields of four bytes.
_BACKOUTS_MAX: Final = 999_999_999
_MARK: Final = b"<" + FOLDER.encode()
_UTF_8: Final = 1208
_LOOK_BYTES: Final = 4_096
_IN_ORDER: Final = MessageFlag.MSG_IN_GROUP | MessageFlag.LAST_MSG_IN_GROUP | MessageFlag.SEGMENT | MessageFlag.LAST_SEGMENT
_REPORTED: Final = Report.COA_MASK | Report.COD_MASK


def may_wait(descriptor: MessageDescriptor) -> bool:
    """Return whether a message may wait on another queue for its next delivery.

    A message of a group may not, because it would lose its place in the group. A message that asks for a report of arrival or
    delivery may not, because its sender would get a report for each wait.
    """
    return not descriptor.message_flags & _IN_ORDER and not descriptor.report & _REPORTED


def with_count(descriptor: MessageDescriptor, body: bytes, backout_count: int) -> tuple[MessageDescriptor, bytes]:
    """Return the message for the put to its queue, with a header that carries this backout count."""
    ccsid = CCSID_INHERIT if descriptor.ccsid == CCSID_Q_MGR else descriptor.ccsid
    folder = Folder(FOLDER, (FolderProperty(_BACKOUTS, backout_count),))
    header = RFH2(folders=(folder,), encoding=descriptor.encoding, ccsid=ccsid, format=descriptor.format)
    described = replace(descriptor, format=Format.RF_HEADER_2, ccsid=_UTF_8, encoding=Encoding.NORMAL)
    return described, rfh2.to_bytes(header, encoding=Encoding.NORMAL) + body


def counted(descriptor: MessageDescriptor, body: bytes) -> tuple[MessageDescriptor, bytes]:
    """Return the message without the header of `with_count`, and with the count in that header added to its BackoutCount.

    A message without this header, or with a malformed first header, is returned unchanged.
    """
    if descriptor.format != Format.RF_HEADER_2 or _MARK not in body[:_LOOK_BYTES]:
        return descriptor, body
    try:
        header, length = rfh2.parse(body, encoding=descriptor.encoding)
        count = rfh2.properties(header, FOLDER).get(_BACKOUTS)
        others = tuple(folder for folder in header.folders if folder.name != FOLDER)
        kept = rfh2.to_bytes(replace(header, folders=others), encoding=descriptor.encoding) if others else b""
    except MQIError:
        return descriptor, body
    if not isinstance(count, int) or not 0 <= count <= _BACKOUTS_MAX:
        return descriptor, body
    own = replace(descriptor, backout_count=descriptor.backout_count + count)
    if not others:
        own = replace(own, format=header.format, encoding=header.encoding, ccsid=header.ccsid)
    return own, kept + body[length:]
