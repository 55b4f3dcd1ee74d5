"""Writes the C headers and libraries that pymqi compiles against, from the tables of structures and calls.

pymqi comes as source only, and its build needs IBM's headers and library. These headers declare only the names that pymqi's one
C file uses. The layouts come from `mqi.c_structures`, so headers and library agree. No text of IBM is copied.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from mqflow.mqi.c_structures import (
    MQCD,
    MQCHARV,
    MQCMHO,
    MQCNO,
    MQCSP,
    MQGMO,
    MQIMPO,
    MQOD,
    MQPD,
    MQPMO,
    MQSCO,
    MQSD,
    MQSMPO,
    MQSRO,
    Layout,
)
from mqflow.mqi.descriptor import MQMD2_BYTES
from mqflow.mqi.properties.types import PropertyType
from mqflow.standin.calls.table import BAGS, SIGNATURES
from mqflow.standin.library.shared_library import write_for_linker

__all__ = ("write_headers", "write_kit")

_STRUCTURES: Final = (
    MQCHARV, MQCD, MQSCO, MQCSP, MQCNO, MQOD, MQPMO, MQGMO, MQSD, MQSRO, MQCMHO, MQSMPO, MQIMPO, MQPD,
)  # fmt: skip
_C_TYPES: Final = {"i": "MQLONG", "q": "MQINT64", "P": "MQPTR"}
_ARGUMENTS: Final = {"i": "MQLONG", "q": "MQHMSG", "p": "void *"}
_LEVELS: Final = (500, 510, 520, 530, 600, 700, 710, 750, 800, 801)
"""The command levels that pymqi checks for features; pymqi knows no later level."""

_TYPES: Final = """\
typedef char MQCHAR;
typedef unsigned char MQBYTE;
typedef int MQLONG;
typedef void *MQPTR;
typedef MQLONG MQHCONN, MQHOBJ, MQHBAG, MQBOOL, MQINT32;
typedef signed char MQINT8;
typedef short MQINT16;
typedef long long MQINT64;
typedef MQINT64 MQHMSG;
typedef float MQFLOAT32;
typedef double MQFLOAT64;
typedef MQCHAR *PMQCHAR;
typedef MQBYTE *PMQBYTE;
typedef MQBOOL *PMQBOOL;
typedef MQINT8 *PMQINT8;
typedef MQINT16 *PMQINT16;
typedef MQINT32 *PMQINT32;
typedef MQINT64 *PMQINT64;
typedef MQFLOAT32 *PMQFLOAT32;
typedef MQFLOAT64 *PMQFLOAT64;
"""

_CONSTANTS: Final = {
    "MQCC_UNKNOWN": -1,
    "MQCC_OK": 0,
    "MQRC_NONE": 0,
    "MQRC_STRING_TRUNCATED": 2311,
    "MQHC_UNUSABLE_HCONN": -1,
    "MQHM_UNUSABLE_HMSG": -1,
    "MQHO_NONE": 0,
    "MQIA_FIRST": 1,
    "MQIA_LAST": 2000,
    "MQCNO_NONE": 0,
    "MQCNO_VERSION_2": 2,
    "MQCNO_VERSION_5": 5,
    "MQCSP_AUTH_USER_ID_AND_PWD": 1,
    "MQOD_CURRENT_LENGTH": max(MQOD.lengths.values()),
    "MQPMO_CURRENT_LENGTH": max(MQPMO.lengths.values()),
    "MQCD_CURRENT_LENGTH": max(MQCD.lengths.values()),
}

_BAG_CONSTANTS: Final = [
    "MQBL_NULL_TERMINATED",
    "MQCBO_ADMIN_BAG",
    "MQHA_BAG_HANDLE",
    "MQHB_NONE",
    "MQHB_UNUSABLE_HBAG",
    "MQIASY_COMP_CODE",
    "MQIASY_REASON",
    "MQIND_NONE",
    "MQITEM_BYTE_STRING",
    "MQIT_INTEGER",
    "MQIT_STRING",
    "MQSEL_ALL_USER_SELECTORS",
    "MQSEL_ANY_USER_SELECTOR",
]

_DEFAULTS: Final = {
    "MQCHARV": "0, 0, 0, 0, -3",
    "MQCNO": "{'C', 'N', 'O', ' '}, 1",
    "MQCSP": "{'C', 'S', 'P', ' '}, 1",
    "MQBO": "{'B', 'O', ' ', ' '}, 1, 0",
    "MQIMPO": "{'I', 'M', 'P', 'O'}, 1, 0, 546, -3, 546",
    "MQPD": "{'P', 'D', ' ', ' '}, 1, 0, 1, 0, 0x16",
}
"""The initial values of the structures that pymqi's C file makes itself."""


def write_kit(folder: Path) -> None:
    """Write `inc` and `lib64` into the folder: with MQ_FILE_PATH=<folder>, ``pip install pymqi`` builds against them."""
    for name in ("inc", "lib64"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    write_headers(folder / "inc")
    write_for_linker(folder / "lib64")


def write_headers(folder: Path) -> None:
    """Write the four headers that pymqi includes."""
    for name, text in (("cmqc", _calls_header()), ("cmqxc", ""), ("cmqcfc", _commands_header()), ("cmqbc", _bags_header())):
        guard = f"MQFLOW_STANDIN_{name.upper()}_H"
        head = f"/* Made by mqflow for its stand-in library. Not IBM's {name}.h: only what pymqi needs. */\n"
        (folder / f"{name}.h").write_text(f"{head}#ifndef {guard}\n#define {guard}\n{text}#endif\n", encoding="ascii")


def _calls_header() -> str:
    parts = [_TYPES, *(_struct(layout) for layout in _STRUCTURES)]
    # pymqi needs only the lengths of these structures.
    parts.append(f"typedef struct {{ MQLONG Words[{MQMD2_BYTES // 4}]; }} MQMD;\n")
    parts.append("typedef struct { MQCHAR StrucId[4]; MQLONG Version; MQLONG Options; } MQBO;\ntypedef MQCD *PMQCD;\n")
    parts += [f"#define {name}_DEFAULT {values}\n" for name, values in _DEFAULTS.items()]
    parts.append(_defines({f"MQCMDL_LEVEL_{level}": level for level in _LEVELS}))
    parts.append(_defines(_CONSTANTS | {f"MQTYPE_{kind.name}": int(kind) for kind in PropertyType}))
    for name, signature in SIGNATURES.items():
        arguments = ", ".join(_ARGUMENTS[kind] for kind in signature)
        parts.append(f"void {name}({arguments}, MQLONG *, MQLONG *);\n")
    return "".join(parts)


def _commands_header() -> str:
    return _defines({"MQRCCF_COMMAND_FAILED": 3008})


def _bags_header() -> str:
    """Return the constants of bags. Their values do not matter, because every call on bags answers 2298."""
    numbers = {name: -1 - index for index, name in enumerate(_BAG_CONSTANTS)}
    functions = (f"void {name}({'MQHBAG *' if name == 'mqDeleteBag' else 'MQLONG'}, ...);\n" for name in BAGS)
    return _defines(numbers) + "".join(functions)


def _struct(layout: Layout) -> str:
    head = "  MQCHAR StrucId[4];\n  MQLONG Version;\n" if layout.identifier else ""
    return f"typedef struct {{\n{head}{''.join(_members(layout))}}} {layout.name};\n"


def _members(layout: Layout) -> Iterable[str]:
    for field in layout.fields.values():
        if field.kind in _C_TYPES:
            yield f"  {_C_TYPES[field.kind]} {field.name};\n"
        else:
            yield f"  MQCHAR {field.name}[{field.length}];\n"


def _defines(values: dict[str, int]) -> str:
    return "".join(f"#define {name} ({value})\n" for name, value in values.items())
