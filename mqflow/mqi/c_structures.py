"""The structures of the MQI as data: their fields in order, their lengths by version, and the reason for a bad structure.

This file knows sizes and names; it knows no memory and no verb. Offsets follow from the fields by the natural alignment of
64-bit C.
Source: the lengths and fields of the `CMQC` constants, as IBM's Python package publishes them.
"""

import re
import struct
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from mqflow.mqi.reason_codes import Reason

__all__ = (
    "MQBMHO", "MQCBC", "MQCBD", "MQCD", "MQCHARV", "MQCMHO", "MQCNO", "MQCSP", "MQCTLO", "MQDMHO", "MQDMPO", "MQGMO",
    "MQIMPO", "MQMHBO", "MQOD", "MQPD", "MQPMO", "MQSCO", "MQSD", "MQSMPO", "MQSRO", "MQSTS", "STRUCTURES", "FieldLayout",
    "Layout",
)  # fmt: skip


class FieldLayout(Struct, frozen=True):
    """One field of a structure."""

    name: str
    offset: int
    #: The format of `struct`: i and q are numbers of 4 and 8 bytes, P a pointer, `48s` characters or bytes.
    kind: str
    #: The first version of the structure that has the field.
    since: int

    @property
    def length(self) -> int:
        """The length of the field in bytes."""
        return struct.calcsize(f"={self.kind.replace('P', 'Q')}")


class Layout(Struct, frozen=True):
    """One structure, in all its versions."""

    name: str
    #: The eye-catcher at the start of the structure; empty if the structure has none.
    identifier: bytes
    #: The offset of the version number.
    version_offset: int
    #: The length of each version in bytes.
    lengths: Mapping[int, int]
    fields: Mapping[str, FieldLayout]
    #: The reason if this structure is not at the address.
    reason: Reason
    #: The reason for an unknown version.
    version_reason: Reason


_CHARV: Final = "VSPtr:P VSOffset:i VSBufSize:i VSLength:i VSCCSID:i"
_NO_VERSION: Final = -1


def _structure(
    name: str, identifier: str, reason: Reason, text: str, *, version_offset: int = 4, version_reason: Reason | None = None
) -> Layout:
    """Return the layout. A number in the text begins the next version, and is its length in bytes.

    After the number come the fields of the version, written ``Name:kind``. Kind `V`: a variable-length string (MQCHARV).
    """
    lengths: dict[int, int] = {}
    fields: dict[str, FieldLayout] = {}
    end = 0 if version_offset != 4 else 8  # noqa: PLR2004 - most structures begin with identifier and version
    for item in re.sub(r"(\w+):V\b", lambda string: _CHARV.replace("VS", f"{string[1]}VS"), text).split():
        if item.isdecimal():
            lengths[len(lengths) + 1] = int(item)
            continue
        field, kind = item.split(":")
        size = struct.calcsize(kind)
        alignment = 1 if kind.endswith("s") else size
        start = -(-end // alignment) * alignment
        fields[field] = FieldLayout(field, start, kind, len(lengths))
        end = start + size
    return Layout(name, identifier.encode(), version_offset, lengths, fields, reason, version_reason or reason)


MQCHARV: Final = _structure("MQCHARV", "", Reason.PROPERTY_NAME_ERROR, f"24 {_CHARV}", version_offset=_NO_VERSION)

MQOD: Final = _structure("MQOD", "OD  ", Reason.OD_ERROR, """
     168 ObjectType:i ObjectName:48s ObjectQMgrName:48s DynamicQName:48s AlternateUserId:12s
     208 RecsPresent:i KnownDestCount:i UnknownDestCount:i InvalidDestCount:i ObjectRecOffset:i ResponseRecOffset:i
         ObjectRecPtr:P ResponseRecPtr:P
     344 AlternateSecurityId:40s ResolvedQName:48s ResolvedQMgrName:48s
     424 ObjectString:V SelectionString:V ResObjectString:V ResolvedType:i Padding:4s
""")  # fmt: skip

MQGMO: Final = _structure("MQGMO", "GMO ", Reason.GMO_ERROR, """
      72 Options:i WaitInterval:i Signal1:i Signal2:i ResolvedQName:48s
      80 MatchOptions:i GroupStatus:1s SegmentStatus:1s Segmentation:1s Reserved1:1s
     100 MsgToken:16s ReturnedLength:i
     112 Reserved2:i MsgHandle:q
""", version_reason=Reason.WRONG_GMO_VERSION)  # fmt: skip

MQPMO: Final = _structure("MQPMO", "PMO ", Reason.PMO_ERROR, """
     128 Options:i Timeout:i Context:i KnownDestCount:i UnknownDestCount:i InvalidDestCount:i ResolvedQName:48s
         ResolvedQMgrName:48s
     160 RecsPresent:i PutMsgRecFields:i PutMsgRecOffset:i ResponseRecOffset:i PutMsgRecPtr:P ResponseRecPtr:P
     184 OriginalMsgHandle:q NewMsgHandle:q Action:i PubLevel:i
""")  # fmt: skip

MQCNO: Final = _structure("MQCNO", "CNO ", Reason.CNO_ERROR, """
      12 Options:i
      24 ClientConnOffset:i ClientConnPtr:P
     152 ConnTag:128s
     168 SSLConfigPtr:P SSLConfigOffset:i
     200 ConnectionId:24s SecurityParmsOffset:i SecurityParmsPtr:P
     224 CCDTUrlPtr:P CCDTUrlOffset:i CCDTUrlLength:i Reserved:q
     256 ApplName:28s Reserved2:i
     272 BalanceParmsPtr:P BalanceParmsOffset:i Reserved3:i
""")  # fmt: skip

MQCD: Final = _structure("MQCD", "", Reason.CD_ERROR, """
     984 ChannelName:20s Version:i ChannelType:i TransportType:i Desc:64s QMgrName:48s XmitQName:48s ShortConnectionName:20s
         MCAName:20s ModeName:8s TpName:64s BatchSize:i DiscInterval:i ShortRetryCount:i ShortRetryInterval:i
         LongRetryCount:i LongRetryInterval:i SecurityExit:128s MsgExit:128s SendExit:128s ReceiveExit:128s SeqNumberWrap:i
         MaxMsgLength:i PutAuthority:i DataConversion:i SecurityUserData:32s MsgUserData:32s SendUserData:32s
         ReceiveUserData:32s
    1312 UserIdentifier:12s Password:12s MCAUserIdentifier:12s MCAType:i ConnectionName:264s RemoteUserIdentifier:12s
         RemotePassword:12s
    1480 MsgRetryExit:128s MsgRetryUserData:32s MsgRetryCount:i MsgRetryInterval:i
    1568 HeartbeatInterval:i BatchInterval:i NonPersistentMsgSpeed:i StrucLength:i ExitNameLength:i ExitDataLength:i
         MsgExitsDefined:i SendExitsDefined:i ReceiveExitsDefined:i MsgExitPtr:P MsgUserDataPtr:P SendExitPtr:P
         SendUserDataPtr:P ReceiveExitPtr:P ReceiveUserDataPtr:P
    1584 ClusterPtr:P ClustersDefined:i NetworkPriority:i
    1688 LongMCAUserIdLength:i LongRemoteUserIdLength:i LongMCAUserIdPtr:P LongRemoteUserIdPtr:P MCASecurityId:40s
         RemoteSecurityId:40s
    1792 SSLCipherSpec:32s SSLPeerNamePtr:P SSLPeerNameLength:i SSLClientAuth:i KeepAliveInterval:i LocalAddress:48s
         BatchHeartbeat:i
    1888 HdrCompList:8s MsgCompList:64s CLWLChannelRank:i CLWLChannelPriority:i CLWLChannelWeight:i ChannelMonitoring:i
         ChannelStatistics:i
    1912 SharingConversations:i PropertyControl:i MaxInstances:i MaxInstancesPerClient:i ClientChannelWeight:i
         ConnectionAffinity:i
    1920 BatchDataLimit:i UseDLQ:i DefReconnect:i
    1984 CertificateLabel:64s
    1992 SPLProtection:i Padding:4s
    2000 QuantumSafeAlgorithm:i QuantumSafeRequired:i
""", version_offset=20)  # fmt: skip

MQSCO: Final = _structure("MQSCO", "SCO ", Reason.SCO_ERROR, """
     536 KeyRepository:256s CryptoHardware:256s AuthInfoRecCount:i AuthInfoRecOffset:i AuthInfoRecPtr:P
     544 KeyResetCount:i FipsRequired:i
     560 EncryptionPolicySuiteB:16s
     568 CertificateValPolicy:i
     632 CertificateLabel:64s
     648 KeyRepoPasswordPtr:P KeyRepoPasswordOffset:i KeyRepoPasswordLength:i
     672 HTTPSCertValidation:i HTTPSCertRevocation:i HTTPSKeyStorePtr:P HTTPSKeyStoreOffset:i HTTPSKeyStoreLength:i
""")  # fmt: skip

MQCSP: Final = _structure("MQCSP", "CSP ", Reason.CSP_ERROR, """
      56 AuthenticationType:i Reserved1:4s CSPUserIdPtr:P CSPUserIdOffset:i CSPUserIdLength:i Reserved2:8s CSPPasswordPtr:P
         CSPPasswordOffset:i CSPPasswordLength:i
      80 Reserved3:8s InitialKeyPtr:P InitialKeyOffset:i InitialKeyLength:i
     104 Reserved4:8s TokenPtr:P TokenOffset:i TokenLength:i
""")  # fmt: skip

MQCMHO: Final = _structure("MQCMHO", "CMHO", Reason.CMHO_ERROR, "12 Options:i")
MQDMHO: Final = _structure("MQDMHO", "DMHO", Reason.DMHO_ERROR, "12 Options:i")
MQBMHO: Final = _structure("MQBMHO", "BMHO", Reason.BMHO_ERROR, "12 Options:i")
MQMHBO: Final = _structure("MQMHBO", "MHBO", Reason.MHBO_ERROR, "12 Options:i")
MQSMPO: Final = _structure("MQSMPO", "SMPO", Reason.SMPO_ERROR, "20 Options:i ValueEncoding:i ValueCCSID:i")
MQDMPO: Final = _structure("MQDMPO", "DMPO", Reason.DMPO_ERROR, "12 Options:i")
MQPD: Final = _structure("MQPD", "PD  ", Reason.PD_ERROR, "24 Options:i Support:i Context:i CopyOptions:i")
MQIMPO: Final = _structure("MQIMPO", "IMPO", Reason.IMPO_ERROR, """
      64 Options:i RequestedEncoding:i RequestedCCSID:i ReturnedEncoding:i ReturnedCCSID:i Reserved1:i ReturnedName:V
         TypeString:8s
""")  # fmt: skip

MQCBD: Final = _structure("MQCBD", "CBD ", Reason.CBD_ERROR, """
     168 CallbackType:i Options:i CallbackArea:P CallbackFunction:P CallbackName:128s MaxMsgLength:i Padding:4s
""")  # fmt: skip
MQCBC: Final = _structure("MQCBC", "CBC ", Reason.CBD_ERROR, """
      56 CallType:i Hobj:i CallbackArea:P ConnectionArea:P CompCode:i Reason:i State:i DataLength:i BufferLength:i Flags:i
      64 ReconnectDelay:i Padding:4s
""")  # fmt: skip
MQCTLO: Final = _structure("MQCTLO", "CTLO", Reason.CTLO_ERROR, "24 Options:i Reserved:i ConnectionArea:P")

MQSTS: Final = _structure("MQSTS", "STAT", Reason.STS_ERROR, """
     224 CompCode:i Reason:i PutSuccessCount:i PutWarningCount:i PutFailureCount:i ObjectType:i ObjectName:48s
         ObjectQMgrName:48s ResolvedObjectName:48s ResolvedQMgrName:48s
     280 ObjectString:V SubName:V OpenOptions:i SubOptions:i
""")  # fmt: skip

MQSD: Final = _structure("MQSD", "SD  ", Reason.SD_ERROR, """
     344 Options:i ObjectName:48s AlternateUserId:12s AlternateSecurityId:40s SubExpiry:i ObjectString:V SubName:V
         SubUserData:V SubCorrelId:24s PubPriority:i PubAccountingToken:32s PubApplIdentityData:32s SelectionString:V
         SubLevel:i ResObjectString:V
""")  # fmt: skip
MQSRO: Final = _structure("MQSRO", "SRO ", Reason.SRO_ERROR, "16 Options:i NumPubs:i")

STRUCTURES: Final[tuple[Layout, ...]] = (
    MQOD, MQGMO, MQPMO, MQCNO, MQCD, MQSCO, MQCSP, MQCMHO, MQDMHO, MQSMPO, MQDMPO, MQPD, MQIMPO, MQCBD, MQCBC, MQCTLO, MQSTS,
    MQSD, MQSRO, MQBMHO, MQMHBO,
)  # fmt: skip
"""Every structure with an identifier or a version; `mqi.descriptor` has the MQMD."""
