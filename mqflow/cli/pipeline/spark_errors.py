"""Turns the text of a Spark error into a sentence with the remedy, or into a pause before another attempt.

This file is pure, and imports no Spark.
"""

import re
from typing import Final

from mqflow.policy.stream.failures import classify, words_of

__all__ = ("ATTEMPTS_MAX", "pause_s", "sentence_of")

ATTEMPTS_MAX: Final = 4
"""The largest number of attempts of a command if Spark's Python processes do not start, or end too early."""
_FIRST_PAUSE_S: Final = 1.0
# Spark gives a process that plans a query or reads a stream ten seconds to start, and no setting changes that. It does not try
# to start such a process twice. A busy machine needs more time, most of all when Python and Spark are not in its file cache
# yet.
_NO_WORKER: Final = ("worker_did_not_connect", "worker_ended")
_TOO_LARGE: Final = "File too large"
_LAST_ERROR: Final = re.compile(r"^(?:[\w.]+\.)?\w*Error: (.+)$", re.MULTILINE)
_FILE: Final = re.compile(r"while reading file (?:file://)?(\S+?)\.(?:\s|$)")
_TYPES: Final = re.compile(r"Parquet column \[(\w+)\]\. Expected Spark type (\w+), actual Parquet type (\w+)")
_JAVA: Final = re.compile(r"An error occurred while calling \S+\s*:\s*(?:[\w.$]+:\s*)?(.+?)(?:\n\s+at |\Z)", re.DOTALL)


def pause_s(text: str, attempt: int) -> float | None:
    """Return the seconds to wait before the next attempt; None if another attempt cannot help.

    `attempt` is the number of the failed attempt, from 1. Only an error at the start or the end of Spark's Python processes can
    come from the load of the machine. Any other error would come again.
    """
    if attempt >= ATTEMPTS_MAX or classify(text).name not in _NO_WORKER:
        return None
    pause: float = _FIRST_PAUSE_S * 2 ** (attempt - 1)
    return pause


def sentence_of(text: str) -> str:
    """Return a sentence with the cause and the remedy; empty if the error is unknown.

    `text` is the text of the error, with its Java traceback if there is one.
    """
    java = _JAVA.search(text)
    disk_full = words_of(text, "disk_full") or (_TOO_LARGE if _TOO_LARGE in text else "")
    if worker := words_of(text, *_NO_WORKER):
        return (
            f"Spark's Python did not start in time, or ended early: {worker}. The machine is overloaded, or has too little "
            "memory. The tables are complete and nothing is lost. Run the command again with less beside it, "
            "or on fewer cores: --master local[2]."
        )
    if found := _LAST_ERROR.findall(text):
        return str(found[-1])  # the error of a Python process
    if disk_full:
        return (
            f"Spark has no room to write: {disk_full}. The tables are complete and nothing is lost. Free space on the "
            "disk of the tables, or of spark.local.dir, and run the command again."
        )
    file = _FILE.search(text)
    if file is not None and "FILE_NOT_EXIST" in text:
        return (
            f"The file {file[1]} of a table is missing. Nothing was changed. Another program deleted it: "
            "restore it, or rebuild the table from the journal in another folder, without trimmed segments."
        )
    if file is not None and (types := _TYPES.search(text)):
        return (
            f"The file {file[1]} of a table does not fit: {types[1]} is {types[3]} there, but must be {types[2]}. Nothing was "
            "changed. Another program wrote the file: restore it, or rebuild the table from the journal in another folder, "
            "without trimmed segments."
        )
    return "" if java is None else f"Spark failed: {' '.join(java[1].split())}"
