"""The structures of the MQI that the adapter hands to the client packages, as bytes in the machine's own layout.

Each `pack` makes a new object, because the packages let the MQI write into the bytes that they receive. A shared object would
change for its other users too. `mqi.c_structures` has the layouts, and this file has the initial values. This file knows no
package and no verb. Source: the initial values that IBM publishes for `CMQC` and `CMQXC`.
"""

import ctypes
import struct
from typing import Final

from mqflow.mqi import c_structures
from mqflow.mqi.attributes.objects import PROCESS_ATTRIBUTES
from mqflow.mqi.attributes.queue import QUEUE_ATTRIBUTES
from mqflow.mqi.attributes.queue_manager import QUEUE_MANAGER_ATTRIBUTES
from mqflow.mqi.c_structures import FieldLayout, Layout
from mqflow.mqi.names import stripped

__all__ = (
    "CHARS",
    "FIRST_CHARACTER_SELECTOR",
    "MQCD",
    "MQCNO",
    "MQCSP",
    "MQGMO",
    "MQOD",
    "MQPMO",
    "MQSCO",
    "MQSD",
    "MQSRO",
    "Strings",
    "Structure",
    "fresh",
    "split",
)

_UTF_8: Final = 1208

FIRST_CHARACTER_SELECTOR: Final = 2001
"""MQCA_FIRST: the attributes of smaller selectors are numbers."""

CHARS: Final = {
    spec.selector: spec.chars for spec in (*QUEUE_ATTRIBUTES, *QUEUE_MANAGER_ATTRIBUTES, *PROCESS_ATTRIBUTES) if spec.chars
} | {
    2120: 8  # MQCA_VERSION
}
"""The length of each character attribute, which the caller of a package must know."""

Value = int | bytes
_HEAD: Final = {"StrucId": FieldLayout("StrucId", 0, "4s", 1), "Version": FieldLayout("Version", 4, "i", 1)}


class Structure:
    """One structure in one version, with the initial value of each field. All other fields begin as zeros.

    The fields of later versions follow as zeros, up to `length` bytes.
    """

    def __init__(self, layout: Layout, version: int, *, length: int = 0, **initial: Value) -> None:
        self._fields = (_HEAD if layout.identifier else {}) | dict(layout.fields)
        self._length = length
        self._initial = {name: _zero(field) for name, field in self._fields.items()}
        self._initial |= {"StrucId": layout.identifier} if layout.identifier else {}
        self._initial |= {"Version": version, **initial}
        self._packer = struct.Struct("@" + "".join(field.kind for field in self._fields.values()))

    def pack(self, **values: Value) -> bytes:
        """Return the structure; other fields have their initial values. Pads characters with NULs, or truncates them."""
        if values.keys() - self._fields.keys():
            raise TypeError(f"no such field: {', '.join(name for name in values if name not in self._fields)}")
        return self._packer.pack(*(self._initial | values).values()).ljust(self._length, b"\0")

    def number(self, data: bytes, name: str) -> int:
        """Return the number of a field."""
        value: int = struct.unpack_from(self._fields[name].kind, data, self._fields[name].offset)[0]
        return value

    def raw(self, data: bytes, name: str) -> bytes:
        """Return the bytes of a field."""
        field = self._fields[name]
        return data[field.offset : field.offset + field.length]

    def text(self, data: bytes, name: str) -> str:
        """Return the text of a character field, without its padding of blanks or NULs."""
        return stripped(self.raw(data, name))


def fresh(template: bytes) -> bytes:
    """Return a copy of the bytes for one call: the MQI writes into it."""
    return template[:8] + template[8:]


class Strings:
    """The buffers of one call for variable-length strings (MQCHARV). Keep them until the results of the call are read."""

    def __init__(self) -> None:
        self._buffers: dict[str, ctypes.Array[ctypes.c_char]] = {}

    def given(self, name: str, text: str) -> dict[str, int]:
        """Return the MQCHARV fields for a string of the caller; no fields for an empty string."""
        return self.exchanged(name, text) if text else {}

    def exchanged(self, name: str, text: str, room: int = 0) -> dict[str, int]:
        """Return the MQCHARV fields for a string of the caller, in a buffer of `room` bytes that the MQI can fill in."""
        data = text.encode()
        buffer = self._buffers[name] = ctypes.create_string_buffer(data, max(room, len(data)) + 1)
        return {
            f"{name}VSPtr": ctypes.addressof(buffer),
            f"{name}VSBufSize": max(room, len(data)),
            f"{name}VSLength": len(data),
            f"{name}VSCCSID": _UTF_8,
        }

    def answered(self, name: str, length: int) -> str:
        """Return the string of `length` bytes that the MQI wrote into the buffer of this name."""
        buffer = self._buffers[name]
        return buffer.raw[: max(0, min(length, len(buffer) - 1))].decode("utf-8", "replace")


def _zero(field: FieldLayout) -> Value:
    if field.name.endswith("VSCCSID"):
        return -3  # MQCCSI_APPL: the string is in the application's character set
    return b"" if field.kind.endswith("s") else 0


def split(selectors: list[int], characters: bytes) -> dict[int, bytes]:
    """Return the characters of each attribute: MQINQ returns all of them as one string, in the order of the selectors."""
    found: dict[int, bytes] = {}
    start = 0
    for selector in selectors:
        found[selector] = characters[start : start + CHARS[selector]]
        start += CHARS[selector]
    return found


# Every structure has all fields that its layout knows, and states a version that each release of the packages understands.
MQOD: Final = Structure(c_structures.MQOD, 4, ObjectType=1, DynamicQName=b"AMQ.*", ResolvedType=-3)
MQGMO: Final = Structure(
    c_structures.MQGMO,
    4,
    MatchOptions=3,
    GroupStatus=b" ",
    SegmentStatus=b" ",
    Segmentation=b" ",
    Reserved1=b" ",
    ReturnedLength=-1,
)
MQPMO: Final = Structure(c_structures.MQPMO, 3, Timeout=-1, PubLevel=9)
MQCNO: Final = Structure(c_structures.MQCNO, 7)
MQSCO: Final = Structure(c_structures.MQSCO, 5, EncryptionPolicySuiteB=struct.pack("4i", 1, 0, 0, 0))
MQCSP: Final = Structure(c_structures.MQCSP, 1)
# ibmmq reads fields of later versions before it reads the version, so zeros must follow version 11.
# ChannelType: MQCHT_CLNTCONN. TransportType: MQXPT_TCP.
MQCD: Final = Structure(
    c_structures.MQCD, 11, length=2048, ChannelType=6, TransportType=2, BatchSize=50, DiscInterval=6_000, ShortRetryCount=10,
    ShortRetryInterval=60, LongRetryCount=999_999_999, LongRetryInterval=1_200, SeqNumberWrap=999_999_999,
    MaxMsgLength=4_194_304, PutAuthority=1, MCAType=1, MsgRetryCount=10, MsgRetryInterval=1_000, HeartbeatInterval=300,
    NonPersistentMsgSpeed=2, StrucLength=1984, ExitNameLength=128, ExitDataLength=32, KeepAliveInterval=-1,
    HdrCompList=struct.pack("2i", 0, -1), MsgCompList=struct.pack("16i", 0, *(15 * [-1])), CLWLChannelWeight=50,
    SharingConversations=10, MaxInstances=999_999_999, MaxInstancesPerClient=999_999_999, ConnectionAffinity=1,
    BatchDataLimit=5_000, UseDLQ=2,
)  # fmt: skip
MQSD: Final = Structure(c_structures.MQSD, 1, SubExpiry=-1, PubPriority=-3, SubLevel=1)
MQSRO: Final = Structure(c_structures.MQSRO, 1)
