"""Turns the text of a Spark error into a sentence with the remedy. It is pure, and imports no Spark."""

import re
from typing import Final

__all__ = ("sentence_of",)

_DISK_FULL: Final = re.compile("No space left on device|Disk quota exceeded|File too large")
_LAST_ERROR: Final = re.compile(r"^(?:[\w.]+\.)?\w*Error: (.+)$", re.MULTILINE)
_FILE: Final = re.compile(r"while reading file (?:file://)?(\S+?)\.(?:\s|$)")
_TYPES: Final = re.compile(r"Parquet column \[(\w+)\]\. Expected Spark type (\w+), actual Parquet type (\w+)")
_JAVA: Final = re.compile(r"An error occurred while calling \S+\s*:\s*(?:[\w.$]+:\s*)?(.+?)(?:\n\s+at |\Z)", re.DOTALL)


def sentence_of(text: str) -> str:
    """Return the cause and the remedy for the user; empty if the error is unknown.

    `text` is the text of the error and, if there is one, its Java traceback.
    """
    java = _JAVA.search(text)
    disk_full = _DISK_FULL.search(text)
    if found := _LAST_ERROR.findall(text):
        return str(found[-1])  # the error of a Python worker
    if disk_full is not None:
        return (
            f"Spark has no room to write: {disk_full[0]}. The tables are complete and nothing is lost. Free space on the "
            "disk of the tables, or of spark.local.dir, and run the command again."
        )
    file = _FILE.search(text)
    if file is not None and "FILE_NOT_EXIST" in text:
        return (
            f"The file {file[1]} of a table is missing. Nothing was changed. Another program deleted it: "
            "restore it, or rebuild the table from the journal in another folder."
        )
    if file is not None and (types := _TYPES.search(text)):
        return (
            f"The file {file[1]} of a table does not fit: {types[1]} is {types[3]} there, but must be {types[2]}. Nothing was "
            "changed. Another program wrote the file: restore it, or rebuild the table from the journal in another folder."
        )
    return "" if java is None else f"Spark failed: {' '.join(java[1].split())}"
