"""Writes a shared library (ELF, x86-64) whose functions jump through a table that the process fills in later.

No compiler is needed: each function is a jump of six bytes through its slot in the table. The library has section headers, so
that a linker accepts it. This file knows the format; it does not know the MQI.
Source: System V ABI, "Object Files" and "Dynamic Linking"; AMD64 supplement.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

__all__ = ("TABLE", "shared_library")

TABLE: Final = "mqflow_standin_table"
"""The symbol of the table: one address of eight bytes for each function, in order."""

_PAGE: Final = 0x1000
_EXECUTABLE, _WRITABLE, _READABLE = 1, 2, 4
_STUB_BYTES: Final = 8
_HEADER_BYTES: Final = 64
_SEGMENTS: Final = 4
_SEGMENT_BYTES: Final = 56
_SECTION_BYTES: Final = 64
_DYNAMIC_BYTES: Final = 7 * 16
_OTHER_SYMBOLS: Final = 2
"""The null symbol, and the table."""
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_GLOBAL_FUNCTION: Final = 0x12
_GLOBAL_OBJECT: Final = 0x11
_SECTIONS: Final = ("", ".hash", ".dynsym", ".dynstr", ".text", ".dynamic", ".data", ".shstrtab")
_TEXT: Final = _SECTIONS.index(".text")
_DATA: Final = _SECTIONS.index(".data")


class _Plan(NamedTuple):
    """The layout of the file. The offset of a byte in the file is also its address."""

    hash: int
    symbols: int
    strings: int
    text: int
    dynamic: int
    table: int
    end: int


def shared_library(soname: str, functions: Sequence[str]) -> bytes:
    """Return the bytes of a library with this SONAME that exports these functions and `TABLE`.

    A function whose slot is 0 would jump to 0: fill every slot before the first call.
    """
    names = _Strings()
    soname_at = names.add(soname)
    entries = [names.add(function) for function in functions]
    table_name = names.add(TABLE)
    plan = _plan(len(functions), len(names.data))
    section_names = _Strings()
    section_name_at = [section_names.add(name) if name else 0 for name in _SECTIONS]
    sections_at = _aligned(plan.end + len(section_names.data), 8)

    image = bytearray(sections_at)
    parts = (
        (0, _header(sections_at)),
        (_HEADER_BYTES, _segments(plan)),
        (plan.hash, _one_bucket(len(functions) + _OTHER_SYMBOLS)),
        (plan.symbols, _symbols(plan, entries, table_name)),
        (plan.strings, names.data),
        (plan.text, b"".join(_jump(plan, index) for index in range(len(functions)))),
        (plan.dynamic, _dynamic(plan, soname_at, len(names.data))),
        (plan.end, section_names.data),
    )
    for at, data in parts:
        image[at : at + len(data)] = data
    return bytes(image) + _sections(plan, section_name_at, len(names.data), len(section_names.data))


def _plan(functions: int, strings_bytes: int) -> _Plan:
    count = functions + _OTHER_SYMBOLS
    hash_at = _HEADER_BYTES + _SEGMENTS * _SEGMENT_BYTES
    symbols = _aligned(hash_at + 4 * (2 + 1 + count), 8)
    strings = symbols + _SYMBOL.size * count
    text = _aligned(strings + strings_bytes, 16)
    dynamic = _aligned(text + _STUB_BYTES * functions, _PAGE)
    table = dynamic + _DYNAMIC_BYTES
    return _Plan(hash_at, symbols, strings, text, dynamic, table, table + 8 * functions)


def _jump(plan: _Plan, index: int) -> bytes:
    """Return the code ``jmp *slot(%rip)``, six bytes, and two bytes that never run (ud2)."""
    following = plan.text + _STUB_BYTES * index + 6
    return b"\xff\x25" + struct.pack("<i", plan.table + 8 * index - following) + b"\x0f\x0b"


def _symbols(plan: _Plan, entries: Sequence[int], table_name: int) -> bytes:
    functions = (
        _SYMBOL.pack(entry, _GLOBAL_FUNCTION, 0, _TEXT, plan.text + _STUB_BYTES * index, _STUB_BYTES)
        for index, entry in enumerate(entries)
    )
    table = _SYMBOL.pack(table_name, _GLOBAL_OBJECT, 0, _DATA, plan.table, plan.end - plan.table)
    return b"".join((bytes(_SYMBOL.size), *functions, table))


class _Strings:
    """A string table."""

    def __init__(self) -> None:
        self.data = b"\0"

    def add(self, text: str) -> int:
        """Append the string, and return its offset."""
        at = len(self.data)
        self.data += text.encode() + b"\0"
        return at


def _aligned(position: int, to: int) -> int:
    return -(-position // to) * to


def _header(sections_at: int) -> bytes:
    identification = b"\x7fELF" + bytes((2, 1, 1, 0)) + bytes(8)  # 64-bit, little-endian, version 1, System V
    shared, x86_64 = 3, 62
    sizes = (_HEADER_BYTES, _SEGMENT_BYTES, _SEGMENTS, _SECTION_BYTES, len(_SECTIONS), len(_SECTIONS) - 1)
    return identification + struct.pack("<HHIQQQIHHHHHH", shared, x86_64, 1, 0, _HEADER_BYTES, sections_at, 0, *sizes)


def _segments(plan: _Plan) -> bytes:
    load, dynamic, stack = 1, 2, 0x6474E551
    rows = (
        (load, _READABLE | _EXECUTABLE, 0, plan.dynamic, _PAGE),
        (load, _READABLE | _WRITABLE, plan.dynamic, plan.end - plan.dynamic, _PAGE),
        (dynamic, _READABLE | _WRITABLE, plan.dynamic, _DYNAMIC_BYTES, 8),
        (stack, _READABLE | _WRITABLE, 0, 0, 16),  # without this entry, the stack becomes executable
    )
    return b"".join(
        struct.pack("<IIQQQQQQ", kind, flags, at, at, at, size, size, align) for kind, flags, at, size, align in rows
    )


def _dynamic(plan: _Plan, soname_at: int, strings_bytes: int) -> bytes:
    entries = (
        (14, soname_at),  # DT_SONAME
        (4, plan.hash),  # DT_HASH
        (6, plan.symbols),  # DT_SYMTAB
        (5, plan.strings),  # DT_STRTAB
        (10, strings_bytes),  # DT_STRSZ
        (11, _SYMBOL.size),  # DT_SYMENT
        (0, 0),
    )
    return b"".join(struct.pack("<QQ", tag, value) for tag, value in entries)


def _sections(plan: _Plan, names: Sequence[int], strings_bytes: int, names_bytes: int) -> bytes:
    rows = (
        # type, flags, address, offset, size, link, info, alignment, size of an entry
        (0, 0, 0, 0, 0, 0, 0, 0, 0),
        (5, 2, plan.hash, plan.hash, plan.symbols - plan.hash, 2, 0, 8, 4),
        (11, 2, plan.symbols, plan.symbols, plan.strings - plan.symbols, 3, 1, 8, _SYMBOL.size),
        (3, 2, plan.strings, plan.strings, strings_bytes, 0, 0, 1, 0),
        (1, 6, plan.text, plan.text, (plan.end - plan.table) // 8 * _STUB_BYTES, 0, 0, 16, 0),
        (6, 3, plan.dynamic, plan.dynamic, _DYNAMIC_BYTES, 3, 0, 8, 16),
        (1, 3, plan.table, plan.table, plan.end - plan.table, 0, 0, 8, 0),
        (3, 0, 0, plan.end, names_bytes, 0, 0, 1, 0),
    )
    return b"".join(struct.pack("<IIQQQQIIQQ", name, *row) for name, row in zip(names, rows, strict=True))


def _one_bucket(count: int) -> bytes:
    """Return a hash table of one bucket. Every look-up walks one chain, which is fast enough for forty symbols."""
    chain = [0, *range(2, count), 0]
    return struct.pack(f"<{3 + count}I", 1, count, 1, *chain)
