"""Runs a program of ours in Perl and one in C# on a served queue manager. Both load the shared library by themselves.

Perl loads it by FFI::Platypus, and C# by P/Invoke, as .NET loads native code. Both make the same calls.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.foreign.serving import MissingError, ran, served

__all__ = ("LANGUAGES", "SAID", "command", "language")

_PROGRAMS: Final = Path(__file__).with_name("programs")
LANGUAGES: Final = ("perl", "csharp")
SAID: Final = """\
MQCONN 0 0
MQOPEN 2 2085
MQOPEN 0 0
MQPUT 0 0
MQGET 0 0 first backed out 0
MQGET 2 2033
MQPUT 0 0
MQBACK 0 0
MQINQ 0 0 depth 0
MQPUT 0 0
MQCMIT 0 0
MQINQ 0 0 depth 1
MQGET 0 0 second backed out 0
MQBACK 0 0
MQGET 0 0 second backed out 1
MQCMIT 0 0
MQINQ 0 0 depth 0
MQCLOSE 0 0
MQDISC 0 0
MQCMIT 2 2018
""".splitlines()
"""The output of each program: for each call the completion code, the reason and the value."""


def language(name: str, cache: Path, queues: Path) -> Iterator[tuple[str, str]]:
    """Yield each call of the program, and the line that it printed instead; an empty text for the expected line.

    Raises `MissingError` if the language is not installed.
    """
    cache.mkdir(parents=True, exist_ok=True)
    program = command(name, cache)
    with served(cache, queues) as (_, settings):
        lines = ran(program, cache, settings)[1].splitlines()
    for number, expected in enumerate(SAID):
        line = lines[number] if number < len(lines) else "nothing"
        yield f"{number + 1}: {expected}", "" if line == expected else line


def command(name: str, folder: Path) -> list[str]:
    """Return the command that runs the program in this language; a compiled program goes into the folder.

    Raises `MissingError` if the language is not installed.
    """
    if name == "perl":
        perl = shutil.which("perl")
        if perl is None or subprocess.run([perl, "-MFFI::Platypus", "-e1"], capture_output=True, check=False).returncode:
            raise MissingError("It needs Perl with FFI::Platypus: install libffi-platypus-perl, and try again.")
        return [perl, str(_PROGRAMS / "queues.pl")]
    compiler, mono = shutil.which("mcs"), shutil.which("mono")
    if compiler is None or mono is None:
        raise MissingError("It needs Mono with its C# compiler: install mono-mcs and mono-runtime, and try again.")
    made = (folder / "queues.exe").resolve()
    subprocess.run([compiler, f"-out:{made}", str(_PROGRAMS / "queues.cs")], check=True)
    return [mono, str(made)]
