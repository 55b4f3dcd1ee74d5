"""Where `mqflow put` has its messages from: arguments, stdin, or a file of JSON lines. Reads; puts nothing."""

import gzip
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import click
import msgspec

__all__ = ("Bodies", "Body", "UnreadableLineError", "bodies")

_READ_ERRORS: Final = (OSError, EOFError, zlib.error)
"""What a file that cannot be read to its end raises."""

_STDIN: Final = "-"


class UnreadableLineError(Exception):
    """A line of the file that no message can be made of."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(number, why)
        self.number = number
        self.why = why

    def __str__(self) -> str:
        return f"Line {self.number:,}: {self.why}"


class Body(NamedTuple):
    """The body of one message."""

    payload: str | bytes
    #: Which line or argument it is, from 1.
    number: int
    #: How far into the input this is, as `Bodies.total` counts.
    reached: int


class Bodies(NamedTuple):
    """All of them, to be read once."""

    each: Iterator[Body]
    #: 0 where it is not known beforehand.
    total: int
    #: Whether they are lines of a file, so that one can go on from a line.
    lines: bool


@contextmanager
def bodies(arguments: Sequence[str], jsonl: str | None, from_line: int) -> Iterator[Bodies]:
    """Give what is to be put. Raises `click.UsageError` where it is said twice, or not at all."""
    if jsonl is not None and arguments:
        raise click.UsageError("Give either messages or --jsonl FILE, not both.")
    if jsonl is None:
        given: Sequence[str | bytes] = arguments or (_standard_input(),)
        yield Bodies((Body(payload, number, number) for number, payload in enumerate(given, 1)), len(given), lines=False)
        return
    with ExitStack() as stack:
        raw: BinaryIO = sys.stdin.buffer if jsonl == _STDIN else stack.enter_context(Path(jsonl).open("rb"))
        total = 0 if jsonl == _STDIN else Path(jsonl).stat().st_size
        lines: Iterator[bytes] = stack.enter_context(gzip.GzipFile(fileobj=raw)) if jsonl.endswith(".gz") else raw
        yield Bodies(_json_lines(lines, raw if total else None, from_line), total, lines=True)


def _json_lines(lines: Iterator[bytes], file: BinaryIO | None, from_line: int) -> Iterator[Body]:
    """Yield every line that holds something, from a number on. Raises `UnreadableLineError` at one that is no JSON."""
    number = 0
    try:
        for number, line in enumerate(lines, 1):
            text = line.strip()
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
        raise UnreadableLineError(number, f"It is no JSON: {error}.") from error
    return text


def _standard_input() -> str | bytes:
    """Return all of stdin as one body: text without the last line end, or bytes where it is no UTF-8."""
    if sys.stdin.isatty():
        raise click.UsageError("Nothing to put: give a BODY, --jsonl FILE, or something on stdin.")
    data = sys.stdin.buffer.read()
    try:
        return data.decode().removesuffix("\n")
    except UnicodeDecodeError:
        return data
