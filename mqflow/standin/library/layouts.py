"""The structures of the C headers as data: their fields in order, and their initial values.

This file knows names, kinds and numbers. The headers are written elsewhere.
Source: IBM, the C declarations of the structures: q109150 (MQCXP), q109610 to q109630 (API exits), q104100 (MQDXP), q108140 to
q108160 (publish exit), q024700 (MQNXP), q082580 to q082690 (cluster workload exit), q110320 to q110590 (installable services).
MQXEPO, MQWQR.CapExpiry and the names of newer members: source libmqm-sys 0.10, a Rust package that publishes the layouts.
"""

from collections.abc import Mapping
from typing import Final

__all__ = ("EACH_VERSION", "INITIAL", "STRUCTURES", "Initial", "Value")

Value = int | str | tuple[int, ...]
"""The initial value of a member. A tuple is an array of numbers."""
Initial = Mapping[str, Value]

_MQMD1: Final = """StrucId:4s Version:i Report:i MsgType:i Expiry:i Feedback:i Encoding:i CodedCharSetId:i Format:8s Priority:i
    Persistence:i MsgId:24s CorrelId:24s BackoutCount:i ReplyToQ:48s ReplyToQMgr:48s UserIdentifier:12s AccountingToken:32s
    ApplIdentityData:32s PutApplType:i PutApplName:28s PutDate:8s PutTime:8s ApplOriginData:4s"""
_MQMD2: Final = "GroupId:24s MsgSeqNumber:i Offset:i MsgFlags:i OriginalLength:i"
_HEADER: Final = "StrucId:4s Version:i StrucLength:i Encoding:i CodedCharSetId:i Format:8s Flags:i"
_EXIT: Final = "StrucId:4s Version:i ExitId:i ExitReason:i ExitResponse:i ExitResponse2:i Feedback:i"
_AREAS: Final = "ExitUserArea:16b ExitData:32s"
_TRIGGER: Final = "QName:48s ProcessName:48s TriggerData:64s"
STRUCTURES: Final[Mapping[str, Mapping[str, str]]] = {
    "cmqc.h": {
        "MQMD1": _MQMD1,
        "MQMD": f"{_MQMD1} {_MQMD2}",
        "MQMD2": f"{_MQMD1} {_MQMD2}",
        "MQBO": "StrucId:4s Version:i Options:i",
        "MQBNO": "StrucId:4s Version:i ApplType:i Timeout:i Options:i",
        "MQDLH": """StrucId:4s Version:i Reason:i DestQName:48s DestQMgrName:48s Encoding:i CodedCharSetId:i Format:8s
            PutApplType:i PutApplName:28s PutDate:8s PutTime:8s""",
        "MQRFH2": f"{_HEADER} NameValueCCSID:i",
        "MQTM": f"StrucId:4s Version:i {_TRIGGER} ApplType:i ApplId:256s EnvData:128s UserData:128s",
        "MQTMC": f"StrucId:4s Version:4s {_TRIGGER} ApplType:4s ApplId:256s EnvData:128s UserData:128s",
        "MQTMC2": f"StrucId:4s Version:4s {_TRIGGER} ApplType:4s ApplId:256s EnvData:128s UserData:128s QMgrName:48s",
        "MQAIR": """StrucId:4s Version:i AuthInfoType:i AuthInfoConnName:264s LDAPUserNamePtr:P LDAPUserNameOffset:i
            LDAPUserNameLength:i LDAPPassword:32s OCSPResponderURL:256s""",
        "MQMDE": f"{_HEADER} {_MQMD2}",
        "MQRFH": _HEADER,
        "MQDH": f"{_HEADER} PutMsgRecFields:i RecsPresent:i ObjectRecOffset:i PutMsgRecOffset:i",
        "MQOR": "ObjectName:48s ObjectQMgrName:48s",
        "MQRR": "CompCode:i Reason:i",
        "MQWIH": f"{_HEADER} ServiceName:32s ServiceStep:8s MsgToken:16s Reserved:32s",
        "MQRMH": f"""{_HEADER} ObjectType:8s ObjectInstanceId:24s SrcEnvLength:i SrcEnvOffset:i SrcNameLength:i SrcNameOffset:i
            DestEnvLength:i DestEnvOffset:i DestNameLength:i DestNameOffset:i DataLogicalLength:i DataLogicalOffset:i
            DataLogicalOffset2:i""",
        "MQIIH": f"""{_HEADER} LTermOverride:8s MFSMapName:8s ReplyToFormat:8s Authenticator:8s TranInstanceId:16b TranState:1s
            CommitMode:1s SecurityScope:1s Reserved:1s""",
        "MQCIH": f"""{_HEADER} ReturnCode:i CompCode:i Reason:i UOWControl:i GetWaitInterval:i LinkType:i OutputDataLength:i
            FacilityKeepTime:i ADSDescriptor:i ConversationalTask:i TaskEndStatus:i Facility:8b Function:4s AbendCode:4s
            Authenticator:8s Reserved1:8s ReplyToFormat:8s RemoteSysId:4s RemoteTransId:4s TransactionId:4s FacilityLike:4s
            AttentionId:4s StartCode:4s CancelCode:4s NextTransactionId:4s Reserved2:8s Reserved3:8s CursorPosition:i
            ErrorOffset:i InputItem:i Reserved4:i""",
        "MQXQH": "StrucId:4s Version:i RemoteQName:48s RemoteQMgrName:48s MsgDesc:MQMD1",
    },
    "cmqxc.h": {
        "MQACH": "StrucId:4s Version:i StrucLength:i ChainAreaLength:i ExitInfoName:48s NextChainAreaPtr:PMQACH",
        "MQAXC": """StrucId:4s Version:i Environment:i UserId:12s SecurityId:40b ConnectionName:264s LongMCAUserIdLength:i
            LongRemoteUserIdLength:i LongMCAUserIdPtr:P LongRemoteUserIdPtr:P ApplName:28s ApplType:i ProcessId:MQPID
            ThreadId:MQTID /2 ChannelName:20s Reserved1:4b pChannelDefinition:PMQCD""",
        "MQAXP": f"""{_EXIT} APICallerType:i {_AREAS} ExitInfoName:48s ExitPDArea:48b QMgrName:48s ExitChainAreaPtr:PMQACH
            Hconfig:MQHCONFIG Function:i ExitMsgHandle:q""",
        "MQCXP": f"""{_EXIT} MaxSegmentLength:i {_AREAS} MsgRetryCount:i MsgRetryInterval:i MsgRetryReason:i HeaderLength:i
            PartnerName:48s FAPLevel:i CapabilityFlags:i ExitNumber:i /5 ExitSpace:i /6 SSLCertUserid:12s
            SSLRemCertIssNameLength:i SSLRemCertIssNamePtr:P SecurityParms:PMQCSP CurHdrCompression:i CurMsgCompression:i
            /7 Hconn:MQHCONN SharingConversations:MQBOOL /8 MCAUserSource:i pEntryPoints:PMQIEP
            /9 RemoteProduct:4s RemoteVersion:8s""",
        "MQDXP": """StrucId:4s Version:i ExitOptions:i AppOptions:i Encoding:i CodedCharSetId:i DataLength:i CompCode:i Reason:i
            ExitResponse:i Hconn:MQHCONN /2 pEntryPoints:PMQIEP""",
        "MQNXP": f"""{_EXIT} ExitDataLength:i pExitDataPtr:PMQCHAR pExitUserAreaPtr:P ppMQCDArrayPtr:PPMQCD MQCDArrayCount:i
            MaxMQCDVersion:i /2 pEntryPoints:PMQIEP""",
        "MQPBC": "StrucId:4s Version:i PubTopicString:MQCHARV /2 MsgDescPtr:PMQMD",
        "MQPSXP": f"""{_EXIT} Hconn:MQHCONN {_AREAS} QMgrName:48s MsgHandle:q MsgDescPtr:PMQMD MsgInPtr:PMQVOID MsgInLength:i
            MsgOutPtr:PMQVOID MsgOutLength:i /2 pEntryPoints:PMQIEP""",
        "MQSBC": """StrucId:4s Version:i DestinationQMgrName:48s DestinationQName:48s SubType:i SubOptions:i ObjectName:48s
            ObjectString:MQCHARV SubTopicString:MQCHARV SubName:MQCHARV SubId:24b SelectionString:MQCHARV SubLevel:i
            PSProperties:i""",
        "MQWCR": "ClusterName:48s ClusterRecOffset:i ClusterFlags:i",
        "MQWDR": """StrucId:4s Version:i StrucLength:i QMgrFlags:i QMgrIdentifier:48s QMgrName:48s ClusterRecOffset:i
            ChannelState:i ChannelDefOffset:i /2 DestSeqNumber:i DestSeqFactor:MQINT64""",
        "MQWQR": """StrucId:4s Version:i StrucLength:i QFlags:i QName:48s QMgrIdentifier:48s ClusterRecOffset:i QType:i
            QDesc:64s DefBind:i DefPersistence:i DefPriority:i InhibitPut:i /2 CLWLQueuePriority:i CLWLQueueRank:i /3
            DefPutResponse:i /4 CapExpiry:i""",
        "MQWXP": f"""{_EXIT} Flags:i {_AREAS} MsgDescPtr:PMQMD MsgBufferPtr:PMQVOID MsgBufferLength:i MsgLength:i QName:48s
            QMgrName:48s DestinationCount:i DestinationChosen:i DestinationArrayPtr:PPMQWDR QArrayPtr:PPMQWQR
            /2 CacheContext:P CacheType:i /3 CLWLMRUChannels:i /4 pEntryPoints:PMQIEP""",
        "MQXEPO": "StrucId:4s Version:i Options:i ExitProperties:MQCHARV",
    },
    "cmqzc.h": {
        "MQZED": """StrucId:4s Version:i EntityNamePtr:PMQCHAR EntityDomainPtr:PMQCHAR SecurityId:40b
            /2 CorrelationPtr:P""",
        "MQZAC": """StrucId:4s Version:i ProcessId:MQPID ThreadId:MQTID ApplName:28s UserID:12s EffectiveUserID:12s
            Environment:i CallerType:i AuthenticationType:i BindType:i""",
        "MQZAD": """StrucId:4s Version:i ProfileName:48s ObjectType:i Authority:i EntityDataPtr:PMQZED EntityType:i
            /2 Options:i""",
        "MQZFP": "StrucId:4s Version:i Reserved:8b CorrelationPtr:P",
        "MQZIC": "StrucId:4s Version:i UserIdentifier:12s AccountingToken:32b ApplIdentityData:32s",
    },
    "cmqcfc.h": {
        "MQCFH": "Type:i StrucLength:i Version:i Command:i MsgSeqNumber:i Control:i CompCode:i Reason:i ParameterCount:i",
        "MQCFIN": "Type:i StrucLength:i Parameter:i Value:i",
        "MQCFIL": "Type:i StrucLength:i Parameter:i Count:i Values:MQLONG[1]",
        "MQCFST": "Type:i StrucLength:i Parameter:i CodedCharSetId:i StringLength:i String:MQCHAR[1]",
        "MQCFSL": "Type:i StrucLength:i Parameter:i CodedCharSetId:i Count:i StringLength:i Strings:MQCHAR[1]",
        "MQCFBS": "Type:i StrucLength:i Parameter:i StringLength:i String:MQBYTE[1]",
        "MQCFGR": "Type:i StrucLength:i Parameter:i ParameterCount:i",
        "MQCFIN64": "Type:i StrucLength:i Parameter:i Reserved:i Value:MQINT64",
        "MQCFIL64": "Type:i StrucLength:i Parameter:i Count:i Values:MQINT64[1]",
        "MQCFIF": "Type:i StrucLength:i Parameter:i Operator:i FilterValue:i",
        "MQCFSF": "Type:i StrucLength:i Parameter:i Operator:i CodedCharSetId:i FilterValueLength:i FilterValue:MQCHAR[1]",
        "MQCFBF": "Type:i StrucLength:i Parameter:i Operator:i FilterValueLength:i FilterValue:MQBYTE[1]",
        "MQEPH": f"{_HEADER} PCFHeader:MQCFH",
    },
}
"""For each header, the structures that `mqi.c_structures` does not have: their fields in order.

A kind is one of `mqi.c_structures`, or `16b` for bytes, or a C type. Version 5 has the fields after `/5`, version 4
does not.
"""
EACH_VERSION: Final = ("MQWDR", "MQWQR", "MQWXP")
"""The structures of which IBM's headers also declare each version, for example as MQWDR1."""

_OF_DESCRIPTOR: Final[Initial] = {
    "StrucId": "MD  ", "Version": 1, "MsgType": 8, "Expiry": -1, "Encoding": 546, "Format": " ", "Priority": -1,
    "Persistence": 2,
}  # fmt: skip
_CHANNEL: Final[Initial] = {
    "Version": 6, "ChannelType": 1, "TransportType": 1, "BatchSize": 50, "DiscInterval": 6_000, "ShortRetryCount": 10,
    "ShortRetryInterval": 60, "LongRetryCount": 999_999_999, "LongRetryInterval": 1_200, "SeqNumberWrap": 999_999_999,
    "MaxMsgLength": 4_194_304, "PutAuthority": 1, "MCAType": 1, "MsgRetryCount": 10, "MsgRetryInterval": 1_000,
    "HeartbeatInterval": 300, "NonPersistentMsgSpeed": 2, "StrucLength": "MQCD_CURRENT_LENGTH", "ExitNameLength": 128,
    "ExitDataLength": 32, "KeepAliveInterval": -1, "HdrCompList": (0, -1), "MsgCompList": (0,) + (-1,) * 15,
    "CLWLChannelWeight": 50, "SharingConversations": 10, "MaxInstances": 999_999_999, "MaxInstancesPerClient": 999_999_999,
    "ConnectionAffinity": 1, "BatchDataLimit": 5_000, "UseDLQ": 2,
}  # fmt: skip
_OF_CICS: Final = """Function AbendCode Authenticator Reserved1 ReplyToFormat RemoteSysId RemoteTransId TransactionId
    FacilityLike AttentionId StartCode CancelCode NextTransactionId Reserved2 Reserved3"""
INITIAL: Final[Mapping[str, Initial]] = {
    "MQMD1": _OF_DESCRIPTOR,
    "MQMD": {**_OF_DESCRIPTOR, "MsgSeqNumber": 1, "OriginalLength": -1},
    "MQMD2": {**_OF_DESCRIPTOR, "Version": 2, "MsgSeqNumber": 1, "OriginalLength": -1},
    "MQOR": {},
    "MQRR": {},
    "MQDH": {"StrucId": "DH  ", "Version": 1, "Format": " "},
    "MQWIH": {
        "StrucId": "WIH ", "Version": 1, "StrucLength": 120, "Format": " ", "ServiceName": " ", "ServiceStep": " ",
        "Reserved": " ",
    },
    "MQRMH": {"StrucId": "RMH ", "Version": 1, "Encoding": 546, "Format": " ", "ObjectType": " "},
    "MQIIH": {"StrucId": "IIH ", "Version": 1, "StrucLength": 84, "Format": " ", "CommitMode": "0", "SecurityScope": "C",
        **dict.fromkeys(("LTermOverride", "MFSMapName", "ReplyToFormat", "Authenticator"), " ")},
    "MQCIH": {
        "StrucId": "CIH ", "Version": 2, "StrucLength": 180, "Format": " ", "UOWControl": 273, "GetWaitInterval": -2,
        "LinkType": 1, "OutputDataLength": -1,
        **dict.fromkeys(_OF_CICS.split(), " "),
    },
    "MQTMC": {"StrucId": "TMC ", "Version": "   1"},
    "MQBO": {"StrucId": "BO  ", "Version": 1},
    "MQBNO": {"StrucId": "BNO ", "Version": 1, "Timeout": -1},
    "MQDLH": {"StrucId": "DLH ", "Version": 1, "Format": " "},
    "MQRFH2": {
        "StrucId": "RFH ", "Version": 2, "StrucLength": 36, "Encoding": 546, "CodedCharSetId": -2, "Format": " ",
        "NameValueCCSID": 1208,
    },
    "MQTM": {"StrucId": "TM  ", "Version": 1},
    "MQTMC2": {"StrucId": "TMC ", "Version": "   2"},
    "MQAIR": {"StrucId": "AIR ", "Version": 1, "AuthInfoType": 1},
    "MQMDE": {
        "StrucId": "MDE ", "Version": 2, "StrucLength": 72, "Encoding": 546, "Format": " ", "MsgSeqNumber": 1,
        "OriginalLength": -1,
    },
    "MQRFH": {"StrucId": "RFH ", "Version": 1, "StrucLength": 32, "Encoding": 546, "Format": " "},
    "MQXQH": {"StrucId": "XQH ", "Version": 1},
    "MQCFH": {"Type": 1, "StrucLength": 36, "Version": 1, "MsgSeqNumber": 1, "Control": 1},
    "MQCFIN": {"Type": 3, "StrucLength": 16},
    "MQCFST": {"Type": 4, "StrucLength": 20},
    "MQCFIL": {"Type": 5, "StrucLength": 16},
    "MQCFSL": {"Type": 6, "StrucLength": 24},
    "MQCFBS": {"Type": 9, "StrucLength": 16},
    "MQCFGR": {"Type": 20, "StrucLength": 16},
    "MQCFIN64": {"Type": 23, "StrucLength": 24},
    "MQCFIL64": {"Type": 25, "StrucLength": 16},
    "MQCFIF": {"Type": 13, "StrucLength": 20},
    "MQCFSF": {"Type": 14, "StrucLength": 24},
    "MQCFBF": {"Type": 15, "StrucLength": 20},
    "MQEPH": {
        "StrucId": "EPH ", "Version": 1, "StrucLength": 68, "Format": " ", "PCFHeader": "{1, 36, 3, 0, 1, 1, 0, 0, 0}",
    },
    "MQACH": {"StrucId": "ACH ", "Version": 1, "StrucLength": 72},
    "MQAXC": {"StrucId": "AXC ", "Version": 1, "ApplType": 6},
    "MQAXP": {"StrucId": "AXP ", "Version": 1, "ExitId": 2, "APICallerType": 1},
    "MQCXP": {"StrucId": "CXP ", "Version": 5, "ExitNumber": 1, "Hconn": -1},
    "MQDXP": {"StrucId": "DXP ", "Version": 1, "ExitResponse": 1},
    "MQNXP": {"StrucId": "NXP ", "Version": 1, "ExitId": 23, "MaxMQCDVersion": 12},
    "MQPBC": {"StrucId": "PBC ", "Version": 1},
    "MQPSXP": {"StrucId": "PSXP", "Version": 1, "ExitId": 22, "Hconn": -1},
    "MQSBC": {"StrucId": "SBC ", "Version": 1, "SubLevel": 1},
    "MQWCR": {},
    "MQWDR": {"StrucId": "WDR ", "Version": 1, "StrucLength": "MQWDR_CURRENT_LENGTH"},
    "MQWQR": {
        "StrucId": "WQR ", "Version": 1, "StrucLength": "MQWQR_CURRENT_LENGTH", "DefPutResponse": 1, "CapExpiry": -1,
    },
    "MQWXP": {"StrucId": "WXP ", "Version": 2, "CacheType": 1},
    "MQXEPO": {"StrucId": "XEPO", "Version": 1},
    "MQZED": {"StrucId": "ZED ", "Version": 1},
    "MQZAC": {"StrucId": "ZAC ", "Version": 1},
    "MQZAD": {"StrucId": "ZAD ", "Version": 1, "ObjectType": 1001, "Options": 33},
    "MQZFP": {"StrucId": "ZFP ", "Version": 1},
    "MQZIC": {"StrucId": "ZIC ", "Version": 1},
    "MQIEP": {"StrucId": "IEP ", "Version": 1, "StrucLength": "MQIEP_CURRENT_LENGTH"},
    "MQOD": {"ObjectType": 1, "DynamicQName": "AMQ.*"},
    "MQCNO": {"ApplName": " "},
    "MQSCO": {"EncryptionPolicySuiteB": (1, 0, 0, 0)},
    "MQCTLO": {"Reserved": -1},
    "MQSTS": {"ObjectType": 1},
    "MQGMO": {"MatchOptions": 3, "ReturnedLength": -1},
    "MQPMO": {"Timeout": -1, "PubLevel": 9},
    "MQSD": {"SubExpiry": -1, "PubPriority": -3, "SubLevel": 1},
    "MQCBD": {"CallbackType": 1, "MaxMsgLength": -1},
    "MQIMPO": {"RequestedEncoding": 546, "RequestedCCSID": -3, "ReturnedEncoding": 546},
    "MQSMPO": {"ValueEncoding": 546, "ValueCCSID": -3},
    "MQBMHO": {"Options": 1},
    "MQMHBO": {"Options": 1},
    "MQPD": {"Support": 1, "CopyOptions": 0x16},
    "MQCHARV": {"VSCCSID": -3},
    "MQCD": _CHANNEL,
    "MQCD_CLIENT_CONN": {
        **_CHANNEL, "ChannelType": 6, "TransportType": 2, "HeartbeatInterval": 1, "HdrCompList": (-1,) * 2,
        "MsgCompList": (-1,) * 16,
    },
}  # fmt: skip
"""The initial values that are not zero. A text of one blank fills the field with blanks.

Source: IBM, "Initial values and language declarations" of each structure. The pages of most structures of exits give none:
source libmqm-default 0.7, a Rust package that publishes their bytes.
"""
