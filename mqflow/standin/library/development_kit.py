"""Writes C headers and client libraries: `mqflow standin library` for programs in any language, `mqflow standin kit` for pymqi.

The libraries start Python in the process of the program. The layouts of the headers come from `mqi.c_structures`, the names and
numbers of the constants from constants.txt. No text of IBM is copied.
"""

import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from ast import literal_eval
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from ctypes.util import find_library
from pathlib import Path
from string import Template
from typing import Final

from msgspec import Struct

from mqflow.mqi.c_structures import MQCD, MQCHARV, Layout
from mqflow.mqi.c_structures import STRUCTURES as MQI_STRUCTURES
from mqflow.standin.calls.table import BAGS, CALLS, SIGNATURES, SYMBOLS
from mqflow.standin.library.install import StandInError
from mqflow.standin.library.layouts import EACH_VERSION, INITIAL, STRUCTURES, Initial, Value
from mqflow.standin.library.shared_library import write_for_linker

__all__ = (
    "EMBEDDED",
    "HEADERS",
    "LIBRARIES",
    "read_constants",
    "write_development_kit",
    "write_headers",
    "write_kit",
    "write_libraries",
)

EMBEDDED: Final = "MQFLOW_STANDIN_EMBEDDED"
"""The variable that is set while the library starts Python in a program."""

LIBRARIES: Final = ("libmqm_r.so", "libmqm.so", "libmqic_r.so", "libmqic.so")
HEADERS: Final = ("cmqc.h", "cmqxc.h", "cmqcfc.h", "cmqzc.h", "cmqec.h", "cmqbc.h", "cmqstrc.h")
_INCLUDED: Final[Mapping[str, tuple[str, ...]]] = {
    "cmqec.h": ("cmqc.h", "cmqxc.h", "cmqzc.h"),
    "cmqstrc.h": ("cmqc.h", "cmqcfc.h"),
}
"""The headers that a header includes first, if they are not cmqc.h alone."""

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
_EXIT_CALLS: Final[Mapping[str, Mapping[str, str]]] = {
    "cmqxc.h": {
        "MQXEP": "MQHCONFIG MQLONG MQLONG PMQFUNC PMQXEPO PMQLONG PMQLONG",
        "MQXCLWLN": "PMQWXP MQPTR MQLONG PMQPTR PMQLONG PMQLONG",
        "MQXDX": "PMQDXP PMQMD MQLONG PMQVOID MQLONG PMQVOID",
    },
    "cmqzc.h": {"MQZEP": "MQHCONFIG MQLONG PMQFUNC PMQLONG PMQLONG"},
}
"""The calls that only exits make. The library does not have them, because it calls no exit.

Source: IBM, q109660 (MQXEP), q082570 (MQXCLWLN), q104120 (the data-conversion exit), q110350 (MQZEP).
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
_TEXT_IDS: Final = frozenset({"AlternateUserId", "StrucId", "UserId"})

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
typedef MQHBAG *PMQHBAG;
typedef MQPTR *PMQPTR;
typedef struct tagMQIEP MQIEP;
typedef MQIEP *PMQIEP;
typedef PMQIEP MQHCONFIG;
typedef void MQENTRY MQFUNC(void);
typedef MQFUNC *PMQFUNC;
"""

_ZEROS: Final = {"1s": "' '", "MQHCONFIG": "NULL", **{each: f"{{{each}_DEFAULT}}" for each in ("MQCHARV", "MQMD1", "MQCFH")}}
"""The initial values of members that do not follow from the form of their kind."""
_CHAR_LENGTHS: Final = (4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 128, 256, 264)


def write_development_kit(folder: Path) -> None:
    """Write `inc` and `lib64` into the folder: C programs compile, link and run with them.

    Raises `StandInError` if a C compiler or the shared library of Python is missing.
    """
    write_headers(folder / "inc")
    write_libraries(folder / "lib64")


def write_kit(folder: Path) -> None:
    """Write `inc` and `lib64` into the folder: with MQ_FILE_PATH=<folder>, ``pip install pymqi`` builds against them.

    pymqi comes as source only. This needs no C compiler.
    """
    write_headers(folder / "inc")
    (folder / "lib64").mkdir(parents=True, exist_ok=True)
    write_for_linker(folder / "lib64")


def write_headers(folder: Path) -> None:
    """Write the headers. Make the folder if it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    constants = read_constants()
    for header in HEADERS:
        guard = f"MQFLOW_{header[:-2].upper()}_H"
        text = "".join(f'#include "{each}"\n' for each in _INCLUDED.get(header, ("cmqc.h",)) if each != header)
        if header == "cmqstrc.h":
            text += _names_of_values(constants.names)
        else:
            text += _TYPES + _arrays() if header == "cmqc.h" else ""
            text += "".join(_structures(header)) + "".join(map(_define, constants.of_header[header].items()))
            text += "".join(_prototypes(header)) + ('#include "cmqxc.h"\n' if header == "cmqc.h" else "")
        head = f"/* Made by mqflow for its stand-in library. This is not IBM's {header}. */\n"
        cpp = ('#ifdef __cplusplus\nextern "C" {\n#endif\n', "#ifdef __cplusplus\n}\n#endif\n")
        text = f"{head}#ifndef {guard}\n#define {guard}\n{cpp[0]}{text}{cpp[1]}#endif\n"
        (folder / header).write_text(text, encoding="ascii")


def write_libraries(folder: Path) -> None:
    """Compile the client libraries. Raises `StandInError` if there is no C compiler or no shared library of Python."""
    folder.mkdir(parents=True, exist_ok=True)
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
    signatures = {**SIGNATURES, **{name: "p" * len(types.split()) for name, types in BAGS.items()}}
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
    layouts = [
        layout
        for layout in ((MQCHARV, *MQI_STRUCTURES) if header in {"cmqc.h", "cmqxc.h"} else ())
        if (layout is MQCD) == (header == "cmqxc.h")
    ]
    others = dict(_others(header))
    yield from map(_declared, [*(layout.name for layout in layouts), *others])
    for layout in layouts:
        yield _struct(layout.name, _fields_of(layout))
        of_layout: Initial = {"StrucId": layout.identifier.decode(), "Version": 1, **INITIAL.get(layout.name, {})}
        yield _initialiser(layout.name, _fields_of(layout), of_layout)
    for name, (fields, initial) in others.items():
        yield _struct(name, fields) + _initialiser(name, fields, initial)
    if header == "cmqxc.h":
        yield _initialiser("MQCD_CLIENT_CONN", _fields_of(MQCD), INITIAL["MQCD_CLIENT_CONN"])
    if header == "cmqec.h":
        yield from _entry_points()


def _others(header: str) -> Iterator[tuple[str, tuple[list[tuple[str, str]], Initial]]]:
    """Yield the fields and initial values of each structure of the table, also for each version that IBM declares."""
    for name, text in STRUCTURES.get(header, {}).items():
        fields: list[tuple[str, str]] = []
        versions: list[list[tuple[str, str]]] = []
        for item in text.split():
            if item.startswith("/"):
                versions.append(list(fields))
            else:
                field, kind = item.split(":")
                fields.append((field, kind))
        yield name, (fields, INITIAL[name])
        for number, known in enumerate([*versions, fields] if name in EACH_VERSION else (), start=1):
            own: dict[str, Value] = {"Version": number}
            if "StrucLength" in INITIAL[name]:
                own["StrucLength"] = f"{name}{number}_CURRENT_LENGTH"
            yield f"{name}{number}", (known, {**INITIAL[name], **own})


def _entry_points() -> Iterator[str]:
    """Yield MQIEP: the addresses of the calls, in the order of their names."""
    calls = {**_calls(), **_EXIT_CALLS["cmqxc.h"], **_EXIT_CALLS["cmqzc.h"]}
    for name, types in calls.items():
        yield f"typedef void MQENTRY MQ_{name[2:]}_CALL({types.replace(' ', ', ')});\n"
        yield f"typedef MQ_{name[2:]}_CALL *PMQ_{name[2:]}_CALL;\n"
    fields = [("StrucId", "4s"), ("Version", "i"), ("StrucLength", "i"), ("Flags", "i"), ("Reserved", "P")]
    fields += [(f"{name}_Call", f"PMQ_{name[2:]}_CALL") for name in sorted(calls)]
    yield _struct("MQIEP", fields) + _initialiser("MQIEP", fields, INITIAL["MQIEP"])


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
    if kind == "V" or "MQ" in kind:
        return f"{_embedded(kind).removesuffix('[1]')} {field}{'[1]' if kind.endswith(']') else ''}"
    if kind.endswith("b"):
        return f"MQBYTE {field}[{kind[:-1]}]"
    if kind == "1s":
        return f"MQCHAR {field}"
    if kind.endswith("s"):
        letters = "MQBYTE" if _BYTES.search(field) and field not in _TEXT_IDS else "MQCHAR"
        return f"{letters} {field}[{kind[:-1]}]"
    return f"{_C_TYPES[kind]} {field}"


def _initialiser(name: str, fields: Iterable[tuple[str, str]], initial: Initial) -> str:
    return f"#define {name}_DEFAULT {', '.join(_value(kind, initial.get(field)) for field, kind in fields)}\n"


def _value(kind: str, value: Value | None) -> str:
    """Return the initial value of a member as C; None is zero, a null pointer or an empty text."""
    if isinstance(value, tuple):
        return f"{{{', '.join(map(str, value))}}}"
    if value is None:
        return _ZEROS.get(_embedded(kind)) or (
            "NULL" if kind.startswith("P") else "{0}" if kind.endswith(("s", "b", "]")) else "0"
        )
    if kind.endswith("s"):
        letters = str(value) * int(kind[:-1]) if value == " " else str(value)
        quoted = ",".join(f"'{letter}'" for letter in letters)
        return quoted if kind == "1s" else f"{{{quoted}}}"
    return str(value)


def _calls() -> Mapping[str, str]:
    """Return the C types of the arguments of each call of the MQI."""

    def types(name: str, signature: str) -> Iterator[str]:
        pointers = iter(_POINTERS.get(name, "").split())
        for kind in signature:
            yield next(pointers, "PMQVOID") if kind == "p" else _ARGUMENTS[kind]
        yield from ("PMQLONG", "PMQLONG")

    return {name: " ".join(types(name, each)) for name, each in SIGNATURES.items()}


def _prototypes(header: str) -> Iterator[str]:
    calls = _EXIT_CALLS.get(header, {})
    if header == "cmqc.h":
        calls = _calls()
    elif header == "cmqbc.h":
        calls = {name: f"{types} PMQLONG PMQLONG" for name, types in BAGS.items()}
    for name, types in calls.items():
        yield f"void MQENTRY {name}({types.replace(' ', ', ')});\n"


def _names_of_values(groups: Mapping[str, Mapping[int, str]]) -> str:
    """Return a function for each group of constants: it returns the name of a value, or an empty text."""
    parts = []
    for group, names in groups.items():
        cases = "".join(f'case {value}: return (char *)"{name}";\n' for value, name in names.items())
        parts.append(
            f'static inline char *{group}_STR(MQLONG v) {{\nswitch (v) {{\n{cases}default: return (char *)"";\n}}\n}}\n'
        )
    return "".join(parts)


class Constants(Struct, frozen=True):
    """The constants, and the names of numbers."""

    #: For each header its constants.
    of_header: Mapping[str, Mapping[str, int | bytes]]
    #: For each group, for example MQRC, its numbers with their names.
    names: Mapping[str, Mapping[int, str]]


def read_constants() -> Constants:
    """Return the constants of the table. Its first lines describe its form."""
    of_header: defaultdict[str, dict[str, int | bytes]] = defaultdict(dict)
    names: defaultdict[str, dict[int, str]] = defaultdict(dict)
    header = group = ""
    for line in Path(__file__).with_name("constants.txt").read_text(encoding="ascii").splitlines():
        if line.startswith("["):
            header, group = line.strip("[]").split()
        elif not line.startswith("#"):
            for item in line.split():
                short, text = item.lstrip("~").split("=", 1)
                name = short[1:] if short.startswith("/") else f"{group}_{short}"
                value: int | bytes = literal_eval(f"b{text}") if text.startswith('"') else int(text)
                of_header[header][name] = value
                if isinstance(value, int) and not item.startswith("~"):
                    names[group][_as_mqlong(value)] = name
    return Constants(of_header, names)


def _as_mqlong(value: int) -> int:
    """Return the number that a C program has in an MQLONG: a mask of 32 bits is negative there."""
    return (value + 2**31) % 2**32 - 2**31
