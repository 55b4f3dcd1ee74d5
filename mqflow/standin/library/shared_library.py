"""Makes and loads the shared libraries that the packages link to, in this process.

ibmmq links to `libmqm_r.so`, pymqi to `libmqic_r.so`. The dynamic linker compares the SONAME of the loaded libraries, not their
files. So this file loads both libraries from memory, and leaves no file behind.
"""

import ctypes
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from mqflow.standin.calls.table import SYMBOLS, callbacks
from mqflow.standin.host import Host
from mqflow.standin.library.elf import TABLE, shared_library

__all__ = ("SONAMES", "Library", "can_load", "filled", "load", "mapped_clients", "write_for_linker")

SONAMES: Final = ("libmqm_r.so", "libmqic_r.so")
_CLIENTS: Final = ("libmqm", "libmqic", "libmqe_")
_MEMORY_FILE: Final = "mqflow-standin-"


class Library(Struct, frozen=True):
    """A loaded library. Its functions must live as long as the process."""

    soname: str
    #: The C functions in its table.
    functions: tuple[Any, ...]  # Any: ctypes has no name for their type
    #: The library, if this process has loaded it from memory.
    loaded: ctypes.CDLL | None = None


def can_load() -> str:
    """Return a sentence that says why the library cannot run here; empty if it can run."""
    where = f"{sys.platform} on {platform.machine()}"
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"The stand-in library is written for Linux on x86_64, and this is {where}."
    if platform.libc_ver()[0] != "glibc":
        return "The stand-in library needs glibc, which finds a library that is loaded already by its SONAME."
    return ""


def mapped_clients() -> tuple[str, ...]:
    """Return the files of IBM MQ client libraries that this process has mapped already."""
    found: set[str] = set()
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        name = line.split(maxsplit=5)[-1]
        base = name.rpartition("/")[2]
        if base.startswith(_CLIENTS) and _MEMORY_FILE not in name:
            found.add(name)
    return tuple(sorted(found))


def load(soname: str, host: Callable[[], Host]) -> Library:
    """Load the library of this SONAME, fill every slot of its table, and return the library."""
    # The file descriptor is never closed: otherwise the next library can get the same number, and the linker confuses the two.
    descriptor = os.memfd_create(f"{_MEMORY_FILE}{soname}")
    os.write(descriptor, shared_library(soname, SYMBOLS))
    loaded = ctypes.CDLL(f"/proc/self/fd/{descriptor}")
    table = (ctypes.c_void_p * len(SYMBOLS)).in_dll(loaded, TABLE)
    return Library(soname, filled(ctypes.addressof(table), soname, host), loaded)


def filled(table_at: int, soname: str, host: Callable[[], Host]) -> tuple[Any, ...]:
    """Fill every slot of the table at this address, and return its C functions."""
    functions = tuple(callbacks(host, client="mqic" in soname))
    table = (ctypes.c_void_p * len(SYMBOLS)).from_address(table_at)
    for index, function in enumerate(functions):
        table[index] = ctypes.cast(function, ctypes.c_void_p).value
    return functions


def write_for_linker(folder: Path) -> None:
    """Write both libraries into the folder, for a linker only: the tables stay empty, so no call can run."""
    for soname in SONAMES:
        (folder / soname).write_bytes(shared_library(soname, SYMBOLS))
