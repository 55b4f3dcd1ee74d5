"""The structures of the MQI that the adapter hands to the client packages, as bytes in the machine's own layout.

Each `pack` makes a new object, because the packages let the MQI write into the bytes that they receive: a shared object would
change for its other users too. This file knows layouts and their initial values. It does not know packages and verbs.
Source: the fields and initial values that IBM publishes for `CMQC` and `CMQXC`; 64-bit, natural alignment.
"""

import ctypes
import struct
from typing import Final

from mqflow.mqi.attributes.objects import PROCESS_ATTRIBUTES
from mqflow.mqi.attributes.queue import QUEUE_ATTRIBUTES
from mqflow.mqi.attributes.queue_manager import QUEUE_MANAGER_ATTRIBUTES
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
    2120: 8,  # MQCA_VERSION
}
"""The length of each character attribute, which the caller of a package must know."""

Value = int | bytes | tuple[int, ...]


class Structure:
    """One structure in one version: its fields in order, each with its format (for the module `struct`) and initial value."""

    def __init__(self, length: int, *fields: tuple[str, str, Value]) -> None:
        self.length = length
        self._defaults = {name: value for name, _, value in fields}
        kinds = [kind for _, kind, _ in fields]
        self._packer = struct.Struct("@" + "".join(kinds))
        self._fields: dict[str, struct.Struct] = {}
        self._offsets: dict[str, int] = {}
        for index, (name, kind, _) in enumerate(fields):
            # The suffix, such as "0P", pads the earlier fields up to the boundary at which this field begins.
            self._offsets[name] = struct.calcsize("@" + "".join(kinds[:index]) + f"0{kind[-1]}")
            self._fields[name] = struct.Struct(f"@{kind}")

    @property
    def offsets(self) -> dict[str, int]:
        """The offset of each field."""
        return dict(self._offsets)

    def pack(self, **values: Value) -> bytes:
        """Return the structure; other fields have their initial values. Pads characters with NULs, or truncates them."""
        flat: list[int | bytes] = []
        for name, default in self._defaults.items():
            value = values.pop(name, default)
            flat += value if isinstance(value, tuple) else (value,)
        if values:
            raise TypeError(f"no such field: {', '.join(values)}")
        return self._packer.pack(*flat).ljust(self.length, b"\0")

    def number(self, data: bytes, name: str) -> int:
        """Return the number of a field."""
        value: int = self._fields[name].unpack_from(data, self._offsets[name])[0]
        return value

    def raw(self, data: bytes, name: str) -> bytes:
        """Return the bytes of a field."""
        value: bytes = self._fields[name].unpack_from(data, self._offsets[name])[0]
        return value

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
        return self.exchanged(name, text, 0) if text else {}

    def exchanged(self, name: str, text: str, room: int) -> dict[str, int]:
        """Return the MQCHARV fields for a string of the caller, in a buffer of `room` bytes that the MQI can fill in."""
        data = text.encode()
        buffer = self._buffers[name] = ctypes.create_string_buffer(data, max(room, len(data)) + 1)
        return {
            f"{name}Ptr": ctypes.addressof(buffer),
            f"{name}BufSize": max(room, len(data)),
            f"{name}Length": len(data),
            f"{name}CCSID": _UTF_8,
        }

    def answered(self, name: str, length: int) -> str:
        """Return the string of `length` bytes that the MQI wrote into the buffer of this name."""
        buffer = self._buffers[name]
        return buffer.raw[: max(0, min(length, len(buffer) - 1))].decode("utf-8", "replace")


def split(selectors: list[int], characters: bytes) -> dict[int, bytes]:
    """Return the characters of each attribute: MQINQ returns all of them as one string, in the order of the selectors."""
    found: dict[int, bytes] = {}
    start = 0
    for selector in selectors:
        found[selector] = characters[start : start + CHARS[selector]]
        start += CHARS[selector]
    return found


def _string(name: str) -> tuple[tuple[str, str, Value], ...]:
    """Return the fields of an empty variable-length string (MQCHARV); its CCSID is -3, the application's."""
    return (
        (f"{name}Ptr", "P", 0),
        (f"{name}Offset", "i", 0),
        (f"{name}BufSize", "i", 0),
        (f"{name}Length", "i", 0),
        (f"{name}CCSID", "i", -3),
    )


MQOD: Final = Structure(
    424,
    ("StrucId", "4s", b"OD  "),
    ("Version", "i", 4),
    ("ObjectType", "i", 1),
    ("ObjectName", "48s", b""),
    ("ObjectQMgrName", "48s", b""),
    ("DynamicQName", "48s", b"AMQ.*"),
    ("AlternateUserId", "12s", b""),
    ("RecsPresent", "i", 0),
    ("KnownDestCount", "i", 0),
    ("UnknownDestCount", "i", 0),
    ("InvalidDestCount", "i", 0),
    ("ObjectRecOffset", "i", 0),
    ("ResponseRecOffset", "i", 0),
    ("ObjectRecPtr", "P", 0),
    ("ResponseRecPtr", "P", 0),
    ("AlternateSecurityId", "40s", b""),
    ("ResolvedQName", "48s", b""),
    ("ResolvedQMgrName", "48s", b""),
    *_string("ObjectString"),
    *_string("SelectionString"),
    *_string("ResObjectString"),
    ("ResolvedType", "i", -3),
    ("Padding", "4s", b""),
)

MQGMO: Final = Structure(
    112,
    ("StrucId", "4s", b"GMO "),
    ("Version", "i", 4),
    ("Options", "i", 0),
    ("WaitInterval", "i", 0),
    ("Signal1", "i", 0),
    ("Signal2", "i", 0),
    ("ResolvedQName", "48s", b""),
    ("MatchOptions", "i", 3),
    ("GroupStatus", "1s", b" "),
    ("SegmentStatus", "1s", b" "),
    ("Segmentation", "1s", b" "),
    ("Reserved1", "1s", b" "),
    ("MsgToken", "16s", b""),
    ("ReturnedLength", "i", -1),
    ("Reserved2", "i", 0),
    ("MsgHandle", "q", 0),
)

MQPMO: Final = Structure(
    184,
    ("StrucId", "4s", b"PMO "),
    ("Version", "i", 3),
    ("Options", "i", 0),
    ("Timeout", "i", -1),
    ("Context", "i", 0),
    ("KnownDestCount", "i", 0),
    ("UnknownDestCount", "i", 0),
    ("InvalidDestCount", "i", 0),
    ("ResolvedQName", "48s", b""),
    ("ResolvedQMgrName", "48s", b""),
    ("RecsPresent", "i", 0),
    ("PutMsgRecFields", "i", 0),
    ("PutMsgRecOffset", "i", 0),
    ("ResponseRecOffset", "i", 0),
    ("PutMsgRecPtr", "P", 0),
    ("ResponseRecPtr", "P", 0),
    ("OriginalMsgHandle", "q", 0),
    ("NewMsgHandle", "q", 0),
    ("Action", "i", 0),
    ("PubLevel", "i", 9),
)

MQCNO: Final = Structure(
    272,
    ("StrucId", "4s", b"CNO "),
    ("Version", "i", 7),
    ("Options", "i", 0),
    ("ClientConnOffset", "i", 0),
    ("ClientConnPtr", "P", 0),
    ("ConnTag", "128s", b""),
    ("SSLConfigPtr", "P", 0),
    ("SSLConfigOffset", "i", 0),
    ("ConnectionId", "24s", b""),
    ("SecurityParmsOffset", "i", 0),
    ("SecurityParmsPtr", "P", 0),
    ("CCDTUrlPtr", "P", 0),
    ("CCDTUrlOffset", "i", 0),
    ("CCDTUrlLength", "i", 0),
    ("Reserved", "q", 0),
    ("ApplName", "28s", b""),
    ("Reserved2", "i", 0),
    ("BalanceParmsPtr", "P", 0),
    ("BalanceParmsOffset", "i", 0),
    ("Reserved3", "i", 0),
)

MQSCO: Final = Structure(
    672,
    ("StrucId", "4s", b"SCO "),
    ("Version", "i", 5),
    ("KeyRepository", "256s", b""),
    ("CryptoHardware", "256s", b""),
    ("AuthInfoRecCount", "i", 0),
    ("AuthInfoRecOffset", "i", 0),
    ("AuthInfoRecPtr", "P", 0),
    ("KeyResetCount", "i", 0),
    ("FipsRequired", "i", 0),
    ("EncryptionPolicySuiteB", "4i", (1, 0, 0, 0)),
    ("CertificateValPolicy", "i", 0),
    ("CertificateLabel", "64s", b""),
    ("KeyRepoPasswordPtr", "P", 0),
    ("KeyRepoPasswordOffset", "i", 0),
    ("KeyRepoPasswordLength", "i", 0),
    ("HTTPSCertValidation", "i", 0),
    ("HTTPSCertRevocation", "i", 0),
    ("HTTPSKeyStorePtr", "P", 0),
    ("HTTPSKeyStoreOffset", "i", 0),
    ("HTTPSKeyStoreLength", "i", 0),
)

MQCSP: Final = Structure(
    104,
    ("StrucId", "4s", b"CSP "),
    ("Version", "i", 1),
    ("AuthenticationType", "i", 0),
    ("Reserved1", "4s", b""),
    ("CSPUserIdPtr", "P", 0),
    ("CSPUserIdOffset", "i", 0),
    ("CSPUserIdLength", "i", 0),
    ("Reserved2", "8s", b""),
    ("CSPPasswordPtr", "P", 0),
    ("CSPPasswordOffset", "i", 0),
    ("CSPPasswordLength", "i", 0),
    ("Reserved3", "8s", b""),
    ("InitialKeyPtr", "P", 0),
    ("InitialKeyOffset", "i", 0),
    ("InitialKeyLength", "i", 0),
    ("Reserved4", "8s", b""),
    ("TokenPtr", "P", 0),
    ("TokenOffset", "i", 0),
    ("TokenLength", "i", 0),
)

MQCD: Final = Structure(
    2048,  # ibmmq reads fields of later versions before it reads the version, so zeros must follow version 11
    ("ChannelName", "20s", b""),
    ("Version", "i", 11),
    ("ChannelType", "i", 6),  # MQCHT_CLNTCONN
    ("TransportType", "i", 2),  # MQXPT_TCP
    ("Desc", "64s", b""),
    ("QMgrName", "48s", b""),
    ("XmitQName", "48s", b""),
    ("ShortConnectionName", "20s", b""),
    ("MCAName", "20s", b""),
    ("ModeName", "8s", b""),
    ("TpName", "64s", b""),
    ("BatchSize", "i", 50),
    ("DiscInterval", "i", 6_000),
    ("ShortRetryCount", "i", 10),
    ("ShortRetryInterval", "i", 60),
    ("LongRetryCount", "i", 999_999_999),
    ("LongRetryInterval", "i", 1_200),
    ("SecurityExit", "128s", b""),
    ("MsgExit", "128s", b""),
    ("SendExit", "128s", b""),
    ("ReceiveExit", "128s", b""),
    ("SeqNumberWrap", "i", 999_999_999),
    ("MaxMsgLength", "i", 4_194_304),
    ("PutAuthority", "i", 1),
    ("DataConversion", "i", 0),
    ("SecurityUserData", "32s", b""),
    ("MsgUserData", "32s", b""),
    ("SendUserData", "32s", b""),
    ("ReceiveUserData", "32s", b""),
    ("UserIdentifier", "12s", b""),
    ("Password", "12s", b""),
    ("MCAUserIdentifier", "12s", b""),
    ("MCAType", "i", 1),
    ("ConnectionName", "264s", b""),
    ("RemoteUserIdentifier", "12s", b""),
    ("RemotePassword", "12s", b""),
    ("MsgRetryExit", "128s", b""),
    ("MsgRetryUserData", "32s", b""),
    ("MsgRetryCount", "i", 10),
    ("MsgRetryInterval", "i", 1_000),
    ("HeartbeatInterval", "i", 300),
    ("BatchInterval", "i", 0),
    ("NonPersistentMsgSpeed", "i", 2),
    ("StrucLength", "i", 1984),
    ("ExitNameLength", "i", 128),
    ("ExitDataLength", "i", 32),
    ("MsgExitsDefined", "i", 0),
    ("SendExitsDefined", "i", 0),
    ("ReceiveExitsDefined", "i", 0),
    ("MsgExitPtr", "P", 0),
    ("MsgUserDataPtr", "P", 0),
    ("SendExitPtr", "P", 0),
    ("SendUserDataPtr", "P", 0),
    ("ReceiveExitPtr", "P", 0),
    ("ReceiveUserDataPtr", "P", 0),
    ("ClusterPtr", "P", 0),
    ("ClustersDefined", "i", 0),
    ("NetworkPriority", "i", 0),
    ("LongMCAUserIdLength", "i", 0),
    ("LongRemoteUserIdLength", "i", 0),
    ("LongMCAUserIdPtr", "P", 0),
    ("LongRemoteUserIdPtr", "P", 0),
    ("MCASecurityId", "40s", b""),
    ("RemoteSecurityId", "40s", b""),
    ("SSLCipherSpec", "32s", b""),
    ("SSLPeerNamePtr", "P", 0),
    ("SSLPeerNameLength", "i", 0),
    ("SSLClientAuth", "i", 0),
    ("KeepAliveInterval", "i", -1),
    ("LocalAddress", "48s", b""),
    ("BatchHeartbeat", "i", 0),
    ("HdrCompList", "2i", (0, -1)),
    ("MsgCompList", "16i", (0, *(15 * [-1]))),
    ("CLWLChannelRank", "i", 0),
    ("CLWLChannelPriority", "i", 0),
    ("CLWLChannelWeight", "i", 50),
    ("ChannelMonitoring", "i", 0),
    ("ChannelStatistics", "i", 0),
    ("SharingConversations", "i", 10),
    ("PropertyControl", "i", 0),
    ("MaxInstances", "i", 999_999_999),
    ("MaxInstancesPerClient", "i", 999_999_999),
    ("ClientChannelWeight", "i", 0),
    ("ConnectionAffinity", "i", 1),
    ("BatchDataLimit", "i", 5_000),
    ("UseDLQ", "i", 2),
    ("DefReconnect", "i", 0),
    ("CertificateLabel", "64s", b""),
)

MQSD: Final = Structure(
    344,
    ("StrucId", "4s", b"SD  "),
    ("Version", "i", 1),
    ("Options", "i", 0),
    ("ObjectName", "48s", b""),
    ("AlternateUserId", "12s", b""),
    ("AlternateSecurityId", "40s", b""),
    ("SubExpiry", "i", -1),
    *_string("ObjectString"),
    *_string("SubName"),
    *_string("SubUserData"),
    ("SubCorrelId", "24s", b""),
    ("PubPriority", "i", -3),
    ("PubAccountingToken", "32s", b""),
    ("PubApplIdentityData", "32s", b""),
    *_string("SelectionString"),
    ("SubLevel", "i", 1),
    *_string("ResObjectString"),
)

MQSRO: Final = Structure(16, ("StrucId", "4s", b"SRO "), ("Version", "i", 1), ("Options", "i", 0), ("NumPubs", "i", 0))
