"""The library itself: its exports, and the cases in which it refuses to install."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from mqflow.standin.calls.table import SYMBOLS
from mqflow.standin.library.elf import TABLE, shared_library
from mqflow.standin.library.shared_library import can_load, write_for_linker

pytestmark = pytest.mark.skipif(bool(can_load()), reason=can_load())

IMPORTED_BY_IBMMQ = [
    "MQBACK", "MQBEGIN", "MQCB", "MQCLOSE", "MQCMIT", "MQCONN", "MQCONNX", "MQCRTMH", "MQCTL", "MQDISC", "MQDLTMH", "MQDLTMP",
    "MQGET", "MQINQ", "MQINQMP", "MQOPEN", "MQPUT", "MQPUT1", "MQSET", "MQSETMP", "MQSTAT", "MQSUB", "MQSUBRQ",
]  # fmt: skip


def _run(program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run Python in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3]
    )


def test_every_function_that_the_packages_import_is_exported(tmp_path: Path) -> None:
    file = tmp_path / "library.so"
    file.write_bytes(shared_library("libtest.so", SYMBOLS))

    library = ctypes.CDLL(str(file))

    assert [] == [name for name in (*IMPORTED_BY_IBMMQ, *SYMBOLS) if not hasattr(library, name)]


@pytest.mark.parametrize("count", [1, 2, 38, 700])
def test_a_call_goes_to_the_function_in_its_slot(count: int, tmp_path: Path) -> None:
    names = [f"function_{index}" for index in range(count)]
    file = tmp_path / "library.so"
    file.write_bytes(shared_library(f"libtest{count}.so", names))
    library = ctypes.CDLL(str(file))
    table = (ctypes.c_void_p * count).in_dll(library, TABLE)
    adding = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
    functions = [adding(lambda number, index=index: number + index) for index in range(count)]

    for index, function in enumerate(functions):
        table[index] = ctypes.cast(function, ctypes.c_void_p).value

    assert [1_000 + index for index in range(count)] == [library[name](1_000) for name in names]


def test_it_is_not_put_beside_a_real_client_library(tmp_path: Path) -> None:
    write_for_linker(tmp_path)  # to the loader, any library of that name is the client
    program = """
import ctypes, sys
ctypes.CDLL(sys.argv[1])
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.standin import StandInError, install
try:
    install(EmbeddedQueueManager("QM1"))
except StandInError as error:
    print(error)
"""

    ended = _run(program, str(tmp_path / "libmqm_r.so"))

    assert f"A real IBM MQ client library is loaded already: {tmp_path}/libmqm_r.so." in ended.stdout, ended.stderr


def test_importing_mqflow_loads_no_library() -> None:
    ended = _run("import mqflow, mqflow.standin, sys; print(open('/proc/self/maps').read().count('libmq'))")

    assert "0\n" == ended.stdout, ended.stderr
