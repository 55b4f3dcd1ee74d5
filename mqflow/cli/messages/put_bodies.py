"""The message bodies for `mqflow put`: from arguments, stdin, or a file of JSON lines. This file knows no queue."""

import gzip
import sys
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Generic, NamedTuple, TypeVar

import click
import msgspec

__all__ = ("Bodies", "Body", "UnreadableLineError", "bodies")

_READ_ERRORS: Final = (OSError, EOFError, zlib.error)
"""The errors that are raised when a file cannot be read to its end."""

_STDIN: Final = "-"

P = TypeVar("P")


class UnreadableLineError(Exception):
    """A line of the file cannot be read, or is not JSON."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(number, why)
        self.number = number
        self.why = why

    def __str__(self) -> str:
        return f"Line {self.number:,}: {self.why}"


class Body(NamedTuple, Generic[P]):
    """The body of one message."""

    payload: P
    #: The number of the line or argument, from 1.
    number: int
    #: The position in the input, in the same unit as `Bodies.total`.
    reached: int


class Bodies(NamedTuple, Generic[P]):
    """All bodies to put. They can be read only once."""

    each: Iterator[Body[P]]
    #: The number of arguments, or the size of the file in bytes; 0 if it is unknown.
    total: int
    #: True if the bodies are lines of a file. Only then `--from-line` is possible.
    lines: bool
    #: The number of the first line or argument to put.
    first: int = 1


@contextmanager
def bodies(arguments: Sequence[str], jsonl: str | None, from_line: int) -> Iterator[Bodies[str | bytes]]:
    """Yield the bodies to put.

    Raises `click.UsageError` if there is no input, or more than one, or a first line without a file of lines.
    """
    if jsonl is not None and arguments:
        raise click.UsageError("Give either BODY or --jsonl FILE, not both.")
    if jsonl is None and from_line > 1:
        raise click.UsageError("--from-line needs --jsonl FILE. A BODY has no lines.")
    if jsonl is None:
        given: Sequence[str | bytes] = arguments or (_standard_input(),)
        yield Bodies((Body(payload, number, number) for number, payload in enumerate(given, 1)), len(given), lines=False)
        return
    with ExitStack() as stack:
        raw: BinaryIO = sys.stdin.buffer if jsonl == _STDIN else stack.enter_context(Path(jsonl).open("rb"))
        total = 0 if jsonl == _STDIN else Path(jsonl).stat().st_size
        lines: Iterator[bytes] = stack.enter_context(gzip.GzipFile(fileobj=raw)) if jsonl.endswith(".gz") else raw
        yield Bodies(_json_lines(lines, raw if total else None, from_line), total, lines=True, first=from_line)


def _json_lines(lines: Iterator[bytes], file: BinaryIO | None, from_line: int) -> Iterator[Body[str | bytes]]:
    """Yield every line that is not blank, beginning with `from_line`. Raises `UnreadableLineError` if a line is not JSON."""
    number = 0
    try:
        for number, line in enumerate(lines, 1):
            text = (line.removeprefix(BOM_UTF8) if number == 1 else line).strip()
            if text and number >= from_line:
                yield Body(_json(text, number), number, file.tell() if file else 0)
    except _READ_ERRORS as error:
        raise UnreadableLineError(number + 1, f"The file cannot be read: {error}.") from error


def _json(line: bytes, number: int) -> str:
    try:
        text = line.decode()
        msgspec.json.decode(text)
    except UnicodeDecodeError as error:
        raise UnreadableLineError(number, f"It is not UTF-8 at byte {error.start} (0x{line[error.start]:02x}).") from error
    except msgspec.DecodeError as error:
        raise UnreadableLineError(number, f"It is not JSON: {error}.") from error
    except RecursionError as error:  # msgspec checks the depth of nested lists and objects
        raise UnreadableLineError(number, "Its JSON is nested too deeply to be read.") from error
    return text


def _standard_input() -> str | bytes:
    """Return the whole stdin as one body: as text without the last line end, or as bytes if it is not UTF-8."""
    if sys.stdin.isatty():
        raise click.UsageError("There is nothing to put: give a BODY, --jsonl FILE, or text on stdin.")
    data = sys.stdin.buffer.read()
    try:
        return data.decode().removesuffix("\n")
    except UnicodeDecodeError:
        return data
