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

__all__ = ("READ_ERRORS", "Bodies", "Body", "bodies")

READ_ERRORS: Final = (OSError, EOFError, zlib.error, msgspec.DecodeError)
"""What a file that cannot be read to its end raises."""

_STDIN: Final = "-"


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
    """Yield every line that holds something, from a number on. Raises `msgspec.DecodeError` at one that is no JSON."""
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and number >= from_line:
            msgspec.json.decode(text)
            yield Body(text.decode(), number, file.tell() if file else 0)


def _standard_input() -> str | bytes:
    """Return all of stdin as one body: text without the last line end, or bytes where it is no UTF-8."""
    if sys.stdin.isatty():
        raise click.UsageError("Nothing to put: give a BODY, --jsonl FILE, or something on stdin.")
    data = sys.stdin.buffer.read()
    try:
        return data.decode().removesuffix("\n")
    except UnicodeDecodeError:
        return data
