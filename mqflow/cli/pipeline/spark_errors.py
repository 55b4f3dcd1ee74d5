"""What Spark says of an error, in a sentence that says what to do. Pure: text in, text out; knows no Spark."""

import re
from typing import Final

__all__ = ("sentence_of",)

_FULL: Final = re.compile("No space left on device|Disk quota exceeded|File too large")
_LAST_ERROR: Final = re.compile(r"^(?:[\w.]+\.)?\w*Error: (.+)$", re.MULTILINE)
_FILE: Final = re.compile(r"while reading file (?:file://)?(\S+?)\.(?:\s|$)")
_TYPES: Final = re.compile(r"Parquet column \[(\w+)\]\. Expected Spark type (\w+), actual Parquet type (\w+)")
_JAVA: Final = re.compile(r"An error occurred while calling \S+\s*:\s*(?:[\w.$]+:\s*)?(.+?)(?:\n\s+at |\Z)", re.DOTALL)


def sentence_of(said: str) -> str:
    """Return what it comes to for who typed a command; empty where nobody knows.

    `said` is an error's text and, where there is one, its traceback in Java.
    """
    java = _JAVA.search(said)
    full = _FULL.search(said)
    if found := _LAST_ERROR.findall(said):
        return str(found[-1])  # of a worker
    if full is not None:
        return (
            f"There is no room where Spark writes: {full[0]}. What is in the tables is whole, and nothing is lost. Free "
            "space where they are, or where spark.local.dir is, and type the command again."
        )
    file = _FILE.search(said)
    if file is not None and "FILE_NOT_EXIST" in said:
        return (
            f"The file {file[1]} of a table is not there. Nothing was changed. A bronze table knows its files by their whole "
            "paths: where its folder was moved, move it back, or make the table anew from the journal in another folder."
        )
    if file is not None and (types := _TYPES.search(said)):
        return (
            f"The file {file[1]} of a table does not fit: {types[1]} is {types[3]} there, and {types[2]} is wanted. Nothing "
            "was changed. Another program wrote it: restore it, or make the table anew from the journal in another folder."
        )
    return "" if java is None else f"Spark could not go on: {' '.join(java[1].split())}"
