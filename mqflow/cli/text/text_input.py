"""Text that somebody wrote for a command, a script or a rules table: read as UTF-8, or refused with the place."""

import sys
from pathlib import Path

import click

__all__ = ("read_text",)


def read_text(file: Path | None) -> str:
    """Return the text of the file, or of stdin. Raises `ClickException`, with the place, for one that is not UTF-8."""
    data = file.read_bytes() if file else sys.stdin.buffer.read()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise click.ClickException(
            f"{file or 'stdin'} is not UTF-8 in line {line}, column {column} (byte 0x{data[error.start]:02x}). "
            "Nothing was done; save it as UTF-8."
        ) from error
