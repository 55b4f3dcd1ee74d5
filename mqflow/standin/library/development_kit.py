"""Writes C headers and client libraries for programs in any language: `mqflow standin library FOLDER`.

The libraries start Python in the process of the program. The layouts of the headers come from `mqi.c_structures`, the names and
numbers of the constants from `constants`. No text of IBM is copied.
"""

import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from ctypes.util import find_library
from pathlib import Path
from string import Template
from typing import Final

from mqflow.mqi.c_structures import MQCHARV, STRUCTURES, Layout
from mqflow.standin.calls.table import BAGS, CALLS, SIGNATURES, SYMBOLS
from mqflow.standin.library.constants import read_constants
from mqflow.standin.library.install import StandInError

__all__ = ("EMBEDDED", "HEADERS", "LIBRARIES", "write_development_kit", "write_headers", "write_libraries")

EMBEDDED: Final = "MQFLOW_STANDIN_EMBEDDED"
"""The variable that is set while the library starts Python in a program."""

LIBRARIES: Final = ("libmqm_r.so", "libmqm.so", "libmqic_r.so", "libmqic.so")
HEADERS: Final = ("cmqc.h", "cmqxc.h", "cmqcfc.h", "cmqstrc.h")

_C_TYPES: Final = {"i": "MQLONG", "q": "MQHMSG", "P": "MQPTR"}
_ARGUMENTS: Final = {"i": "MQLONG", "q": "MQHMSG"}
_POINTERS: Final[Mapping[str, str]] = {
    "MQCONN": "PMQCHAR PMQHCONN",
    "MQCONNX": "PMQCHAR PMQCNO PMQHCONN",
    "MQDISC": "PMQHCONN",
    "MQOPEN": "PMQVOID PMQHOBJ",
    "MQCLOSE": "PMQHOBJ",
    "MQGET": "PMQVOID PMQVOID PMQVOID PMQLONG",
    "MQINQ": "PMQLONG PMQLONG PMQCHAR",
    "MQSET": "PMQLONG PMQLONG PMQCHAR",
    "MQSUB": "PMQVOID PMQHOBJ PMQHOBJ",
    "MQBUFMH": "PMQVOID PMQVOID PMQVOID PMQLONG",
    "MQCRTMH": "PMQVOID PMQHMSG",
    "MQMHBUF": "PMQVOID PMQVOID PMQVOID PMQVOID PMQLONG",
    "MQXCNVC": "PMQCHAR PMQCHAR PMQLONG",
    "MQDLTMH": "PMQHMSG PMQVOID",
    "MQINQMP": "PMQVOID PMQVOID PMQVOID PMQLONG PMQVOID PMQLONG",
}
"""The types of the pointers of each call in order, if they are not all PMQVOID. Go compares them exactly.

Source: IBM, "C invocation" and its declarations, on the page of each call.
"""
_MEMBERS: Final[Mapping[str, str]] = {
    "BalanceParmsPtr": "PMQBNO BalanceParmsPtr",
    "EncryptionPolicySuiteB": "MQLONG EncryptionPolicySuiteB[4]",
    "HdrCompList": "MQLONG HdrCompList[2]",
    "MsgCompList": "MQLONG MsgCompList[16]",
    "SSLConfigPtr": "PMQSCO SSLConfigPtr",
    "SecurityParmsPtr": "PMQCSP SecurityParmsPtr",
}
"""The members whose type does not follow from their kind."""
_BYTES: Final = re.compile(r"(Id|MsgToken|ConnTag|AccountingToken|Flags1)$")
_TEXT_IDS: Final = frozenset({"AlternateUserId", "StrucId"})

_TYPES: Final = """\
#include <stddef.h>
#define MQENTRY
#define MQPOINTER *
typedef void MQVOID;
typedef char MQCHAR;
typedef unsigned char MQBYTE, MQUINT8;
typedef int MQLONG, MQINT32;
typedef unsigned int MQULONG, MQUINT32;
typedef void *MQPTR, *PMQVOID;
typedef PMQVOID *PPMQVOID;
typedef MQLONG MQHCONN, MQHOBJ, MQHBAG, MQHSUB, MQBOOL, MQPID, MQTID;
typedef signed char MQINT8;
typedef short MQINT16;
typedef unsigned short MQUINT16;
typedef long long MQINT64;
typedef unsigned long long MQUINT64;
typedef MQINT64 MQHMSG;
typedef float MQFLOAT32;
typedef double MQFLOAT64;
typedef MQCHAR *PMQCHAR;
typedef PMQCHAR *PPMQCHAR;
typedef MQBYTE *PMQBYTE;
typedef MQLONG *PMQLONG;
typedef PMQLONG *PPMQLONG;
typedef MQHCONN *PMQHCONN;
typedef MQHOBJ *PMQHOBJ;
typedef MQHMSG *PMQHMSG;
typedef MQBOOL *PMQBOOL;
typedef MQINT8 *PMQINT8;
typedef MQINT16 *PMQINT16;
typedef MQINT32 *PMQINT32;
typedef MQINT64 *PMQINT64;
typedef MQFLOAT32 *PMQFLOAT32;
typedef MQFLOAT64 *PMQFLOAT64;
"""

_CHAR_LENGTHS: Final = (4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 128, 256, 264)

_MQMD1: Final = """StrucId:4s Version:i Report:i MsgType:i Expiry:i Feedback:i Encoding:i CodedCharSetId:i Format:8s Priority:i
    Persistence:i MsgId:24s CorrelId:24s BackoutCount:i ReplyToQ:48s ReplyToQMgr:48s UserIdentifier:12s AccountingToken:32s
    ApplIdentityData:32s PutApplType:i PutApplName:28s PutDate:8s PutTime:8s ApplOriginData:4s"""
_MQMD2: Final = "GroupId:24s MsgSeqNumber:i Offset:i MsgFlags:i OriginalLength:i"
_HEADER: Final = "StrucId:4s Version:i StrucLength:i Encoding:i CodedCharSetId:i Format:8s Flags:i"
_TRIGGER: Final = "QName:48s ProcessName:48s TriggerData:64s"
_OTHER: Final = {
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
        "MQIIH": f"""{_HEADER} LTermOverride:8s MFSMapName:8s ReplyToFormat:8s Authenticator:8s TranInstanceId:16s TranState:1s
            CommitMode:1s SecurityScope:1s Reserved:1s""",
        "MQCIH": f"""{_HEADER} ReturnCode:i CompCode:i Reason:i UOWControl:i GetWaitInterval:i LinkType:i OutputDataLength:i
            FacilityKeepTime:i ADSDescriptor:i ConversationalTask:i TaskEndStatus:i Facility:8s Function:4s AbendCode:4s
            Authenticator:8s Reserved1:8s ReplyToFormat:8s RemoteSysId:4s RemoteTransId:4s TransactionId:4s FacilityLike:4s
            AttentionId:4s StartCode:4s CancelCode:4s NextTransactionId:4s Reserved2:8s Reserved3:8s CursorPosition:i
            ErrorOffset:i InputItem:i Reserved4:i""",
        "MQXQH": "StrucId:4s Version:i RemoteQName:48s RemoteQMgrName:48s MsgDesc:MQMD1",
    },
    "cmqxc.h": {},
    "cmqcfc.h": {
        "MQCFH": "Type:i StrucLength:i Version:i Command:i MsgSeqNumber:i Control:i CompCode:i Reason:i ParameterCount:i",
        "MQCFIN": "Type:i StrucLength:i Parameter:i Value:i",
        "MQCFIL": "Type:i StrucLength:i Parameter:i Count:i",
        "MQCFST": "Type:i StrucLength:i Parameter:i CodedCharSetId:i StringLength:i",
        "MQCFSL": "Type:i StrucLength:i Parameter:i CodedCharSetId:i Count:i StringLength:i",
        "MQCFBS": "Type:i StrucLength:i Parameter:i StringLength:i",
        "MQCFGR": "Type:i StrucLength:i Parameter:i ParameterCount:i",
        "MQCFIN64": "Type:i StrucLength:i Parameter:i Reserved:i Value:q",
        "MQCFIL64": "Type:i StrucLength:i Parameter:i Count:i",
        "MQCFIF": "Type:i StrucLength:i Parameter:i Operator:i FilterValue:i",
        "MQCFSF": "Type:i StrucLength:i Parameter:i Operator:i CodedCharSetId:i FilterValueLength:i",
        "MQCFBF": "Type:i StrucLength:i Parameter:i Operator:i FilterValueLength:i",
        "MQEPH": f"{_HEADER} PCFHeader:MQCFH",
    },
}
"""The other structures: their fields in order, with the kinds of `mqi.c_structures`, or the name of a structure."""

_OF_DESCRIPTOR: Final[Mapping[str, int | str]] = {
    "StrucId": "MD  ", "Version": 1, "MsgType": 8, "Expiry": -1, "Encoding": 546, "Format": " " * 8, "Priority": -1,
    "Persistence": 2,
}  # fmt: skip
_INITIAL: Final[Mapping[str, Mapping[str, int | str]]] = {
    "MQMD1": _OF_DESCRIPTOR,
    "MQMD": {**_OF_DESCRIPTOR, "MsgSeqNumber": 1, "OriginalLength": -1},
    "MQMD2": {**_OF_DESCRIPTOR, "Version": 2, "MsgSeqNumber": 1, "OriginalLength": -1},
    "MQOR": {},
    "MQRR": {},
    "MQDH": {"StrucId": "DH  ", "Version": 1, "StrucLength": 48, "Format": " " * 8},
    "MQWIH": {"StrucId": "WIH ", "Version": 1, "StrucLength": 120, "Format": " " * 8},
    "MQRMH": {"StrucId": "RMH ", "Version": 1, "StrucLength": 108, "Encoding": 546, "Format": " " * 8},
    "MQIIH": {"StrucId": "IIH ", "Version": 1, "StrucLength": 84, "Format": " " * 8, "CommitMode": "0", "SecurityScope": "C"},
    "MQCIH": {
        "StrucId": "CIH ", "Version": 2, "StrucLength": 180, "Format": " " * 8, "UOWControl": 273, "GetWaitInterval": -2,
        "LinkType": 1, "OutputDataLength": -1,
    },
    "MQTMC": {"StrucId": "TMC ", "Version": "   1"},
    "MQBO": {"StrucId": "BO  ", "Version": 1},
    "MQBNO": {"StrucId": "BNO ", "Version": 1, "Timeout": -1},
    "MQDLH": {"StrucId": "DLH ", "Version": 1, "Encoding": 546},
    "MQRFH2": {
        "StrucId": "RFH ", "Version": 2, "StrucLength": 36, "Encoding": 546, "CodedCharSetId": -2, "NameValueCCSID": 1208,
    },
    "MQTM": {"StrucId": "TM  ", "Version": 1},
    "MQTMC2": {"StrucId": "TMC ", "Version": "   2"},
    "MQAIR": {"StrucId": "AIR ", "Version": 1, "AuthInfoType": 1},
    "MQMDE": {
        "StrucId": "MDE ", "Version": 2, "StrucLength": 72, "Encoding": 546, "Format": " " * 8, "MsgSeqNumber": 1,
        "OriginalLength": -1,
    },
    "MQRFH": {"StrucId": "RFH ", "Version": 1, "StrucLength": 32, "Encoding": 546, "Format": " " * 8},
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
    "MQEPH": {"StrucId": "EPH ", "Version": 1, "StrucLength": 68},
    "MQOD": {"ObjectType": 1, "DynamicQName": "AMQ.*"},
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
    "MQCD": {
        "Version": 11, "ChannelType": 6, "TransportType": 2, "MaxMsgLength": 4_194_304, "PutAuthority": 1,
        "HeartbeatInterval": 1, "NonPersistentMsgSpeed": 2, "StrucLength": 1_984, "ExitNameLength": 128, "ExitDataLength": 32,
        "KeepAliveInterval": -1, "SharingConversations": 10, "MaxInstances": 999_999_999, "MaxInstancesPerClient": 999_999_999,
        "ConnectionAffinity": 1, "UseDLQ": 2,
    },
}  # fmt: skip
"""The initial values that are not zero. Source: IBM, "Initial values and language declarations" of each structure."""


def write_development_kit(folder: Path) -> None:
    """Write `inc` and `lib64` into the folder: C programs compile, link and run with them.

    Raises `StandInError` if a C compiler or the shared library of Python is missing.
    """
    for name in ("inc", "lib64"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    write_headers(folder / "inc")
    write_libraries(folder / "lib64")


def write_headers(folder: Path) -> None:
    """Write the headers."""
    constants = read_constants()
    for header in HEADERS:
        guard = f"MQFLOW_{header[:-2].upper()}_H"
        if header == "cmqstrc.h":
            text = _names_of_values(constants.names)
        else:
            text = "".join((_TYPES + _arrays() if header == "cmqc.h" else '#include "cmqc.h"\n', *_structures(header)))
            text += "".join(map(_define, constants.of_header[header].items()))
            if header == "cmqc.h":
                text += _prototypes() + '#include "cmqxc.h"\n'
        head = f"/* Made by mqflow for its stand-in library. This is not IBM's {header}. */\n"
        cpp = ('#ifdef __cplusplus\nextern "C" {\n#endif\n', "#ifdef __cplusplus\n}\n#endif\n")
        text = f"{head}#ifndef {guard}\n#define {guard}\n{cpp[0]}{text}{cpp[1]}#endif\n"
        (folder / header).write_text(text, encoding="ascii")


def write_libraries(folder: Path) -> None:
    """Compile the client libraries. Raises `StandInError` if there is no C compiler or no shared library of Python."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise StandInError("The library for programs that are not Python needs a C compiler (cc): install gcc, and try again.")
    template = Template(Path(__file__).with_name("any_process.c").read_text(encoding="utf-8"))
    facts = {
        "count": len(SYMBOLS),
        "libpython": _escaped(_libpython()),
        "executable": _escaped(sys.executable),
        "embedded": EMBEDDED,
        "calls": CALLS,
        "functions": "".join(_functions()),
    }
    with tempfile.TemporaryDirectory() as work:
        for soname in LIBRARIES:
            source = Path(work) / "library.c"
            source.write_text(template.substitute(facts, soname=soname), encoding="utf-8")
            command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(folder / soname), f"-Wl,-soname,{soname}", str(source)]
            done = subprocess.run([*command, "-ldl", "-lpthread"], capture_output=True, text=True, check=False)  # noqa: S603 - ours
            if done.returncode:
                raise StandInError(f"{compiler} could not compile the library: {done.stderr.strip()}")


def _libpython() -> str:
    """Return the shared library of this Python. Raises `StandInError` if it has no such library."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    name = sysconfig.get_config_var("INSTSONAME") or ""
    path = Path(sysconfig.get_config_var("LIBDIR") or "") / name
    if name.endswith(".a") or not path.is_file():
        elsewhere = find_library(f"python{version}")
        if elsewhere is None:
            raise StandInError(
                f"Python {version} has no shared library here (libpython{version}.so), which other programs could load. "
                f"On Debian, install libpython{version}; a Python of your own needs --enable-shared."
            )
        return elsewhere
    return str(path)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _functions() -> Iterator[str]:
    """Yield the text of a C function for each call. Each C function jumps to the Python function of its call, in the table."""
    kinds = {"i": "int", "q": "long long", "p": "void *"}
    signatures = {**SIGNATURES, **{name: "p" * count for name, count in BAGS.items()}}
    for number, name in enumerate(SYMBOLS):
        types = [kinds[kind] for kind in signatures[name] + "pp"]
        declared = ", ".join(f"{kind} a{place}" for place, kind in enumerate(types))
        given = ", ".join(f"a{place}" for place in range(len(types)))
        yield f"void {name}({declared}) {{ ((void (*)({', '.join(types)}))call({number}))({given}); }}\n"


def _define(constant: tuple[str, int | bytes]) -> str:
    name, value = constant
    if isinstance(value, int):
        shown = str(value) if -(2**31) <= value < 2**31 else f"{value}LL"
        return f"#define {name} ({shown})\n"
    letters = [chr(byte) if 32 <= byte < 127 and chr(byte) not in "'\"\\" else f"\\{byte:03o}" for byte in value]  # noqa: PLR2004 - ASCII
    if len(letters) == 1:
        return f"#define {name} '{letters[0]}'\n"
    array = ",".join(f"'{letter}'" for letter in letters)
    return f'#define {name} "{"".join(letters)}"\n#define {name}_ARRAY {array}\n'


def _arrays() -> str:
    return "".join(
        f"typedef MQCHAR MQCHAR{length}[{length}];\ntypedef MQCHAR{length} *PMQCHAR{length};\n"
        f"typedef MQBYTE MQBYTE{length}[{length}];\ntypedef MQBYTE{length} *PMQBYTE{length};\n"
        for length in _CHAR_LENGTHS
    )


def _structures(header: str) -> Iterator[str]:
    in_cmqxc = {"MQCD"}
    layouts = [
        layout
        for layout in ((MQCHARV, *STRUCTURES) if header != "cmqcfc.h" else ())
        if (layout.name in in_cmqxc) == (header == "cmqxc.h") and (layout is not MQCHARV or header == "cmqc.h")
    ]
    yield from map(_declared, [*(layout.name for layout in layouts), *_OTHER[header]])
    for layout in layouts:
        yield _struct(layout.name, _fields_of(layout))
        initial = {"StrucId": layout.identifier.decode(), "Version": 1, **_INITIAL.get(layout.name, {})}
        yield _initialiser(layout.name, _fields_of(layout), initial)
    for name, text in _OTHER[header].items():
        fields = [(field, kind) for field, kind in (item.split(":") for item in text.split())]
        yield _struct(name, fields) + _initialiser(name, fields, _INITIAL[name])
    if header == "cmqxc.h":
        yield "#define MQCD_CLIENT_CONN_DEFAULT MQCD_DEFAULT\n"


def _fields_of(layout: Layout) -> list[tuple[str, str]]:
    """Return the members of the C structure: a string of variable length is one member of the type MQCHARV."""
    fields = [("StrucId", "4s"), ("Version", "i")] if layout.identifier else []
    for field in layout.fields.values():
        string, _, part = field.name.rpartition("VS")
        if layout.name == "MQCHARV" or not string or f"{string}VSPtr" not in layout.fields:
            fields.append((field.name, field.kind))
        elif part == "Ptr":
            fields.append((string, "V"))
    return fields


def _struct(name: str, fields: Iterable[tuple[str, str]]) -> str:
    members = "".join(f"    {_member(field, kind)};\n" for field, kind in fields)
    return f"struct tag{name} {{\n{members}}};\n"


def _embedded(kind: str) -> str:
    return "MQCHARV" if kind == "V" else kind


def _declared(name: str) -> str:
    return f"typedef struct tag{name} {name};\ntypedef {name} *P{name};\ntypedef P{name} *PP{name};\n"


def _member(field: str, kind: str) -> str:
    if field in _MEMBERS:
        return _MEMBERS[field]
    if kind == "V" or kind.startswith("MQ"):
        return f"{_embedded(kind)} {field}"
    if kind == "1s":
        return f"MQCHAR {field}"
    if kind.endswith("s"):
        letters = "MQBYTE" if _BYTES.search(field) and field not in _TEXT_IDS else "MQCHAR"
        return f"{letters} {field}[{kind[:-1]}]"
    return f"{_C_TYPES[kind]} {field}"


def _initialiser(name: str, fields: Iterable[tuple[str, str]], initial: Mapping[str, int | str]) -> str:
    values = []
    for field, kind in fields:
        value = initial.get(field, "" if kind.endswith("s") else 0)
        if kind == "V" or kind.startswith("MQ"):
            values.append(f"{{{_embedded(kind)}_DEFAULT}}")
        elif kind == "1s":
            values.append(f"'{value or ' '}'")
        elif kind.endswith("s"):
            letters = ",".join(f"'{letter}'" for letter in str(value)) or "0"
            values.append(f"{{{letters}}}")
        else:
            values.append("NULL" if kind == "P" else str(value))
    return f"#define {name}_DEFAULT {', '.join(values)}\n"


def _prototypes() -> str:
    def types(name: str, signature: str) -> Iterator[str]:
        pointers = iter(_POINTERS.get(name, "").split())
        for kind in signature:
            yield next(pointers, "PMQVOID") if kind == "p" else _ARGUMENTS[kind]
        yield from ("PMQLONG", "PMQLONG")

    return "".join(f"void MQENTRY {name}({', '.join(types(name, each))});\n" for name, each in SIGNATURES.items())


def _names_of_values(groups: Mapping[str, Mapping[int, str]]) -> str:
    """Return a function for each group of constants: it returns the name of a value, or an empty text."""
    parts = ['#include "cmqc.h"\n#include "cmqcfc.h"\n']
    for group, names in groups.items():
        cases = "".join(f'case {value}: return (char *)"{name}";\n' for value, name in names.items())
        parts.append(
            f'static inline char *{group}_STR(MQLONG v) {{\nswitch (v) {{\n{cases}default: return (char *)"";\n}}\n}}\n'
        )
    return "".join(parts)
