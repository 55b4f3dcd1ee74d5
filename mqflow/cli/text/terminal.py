"""The texts that a command reads and prints: safe lines, messages, tables, a progress bar. Uses rich if it is installed.

Results go to stdout, and all notes go to stderr.
"""

import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol, TextIO

import click

from mqflow.cli.text.message_view import MessageView

__all__ = (
    "NOTES",
    "Progress",
    "counted",
    "in_foreground",
    "note",
    "progress",
    "read_text",
    "safe",
    "show_message",
    "show_table",
    "sparkline",
    "wrapped",
)

NOTES: Final = "mqflow.notes"
"""The key in `click.Context.meta` for the function that prints notes."""

_BARS: Final = "▁▂▃▄▅▆▇█"
_UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""The unsafe categories of characters: control, format (for example bidirectional overrides), surrogate, and separators."""


def safe(text: str) -> str:
    """Return the text as one line. Each unsafe character becomes Python's escape with its number."""
    if text.isprintable():
        return text
    return "".join(_escaped(letter) if unicodedata.category(letter) in _UNSAFE else letter for letter in text)


def counted(number: int, things: str) -> str:
    """Return the number with its noun: ``1 message``, ``2,000 messages``."""
    return f"{number:,} {things.removesuffix('s') if number == 1 else things}"


def sparkline(numbers: Sequence[float]) -> str:
    """Return a text with a bar for each number, from 0 to the greatest number."""
    most = max(numbers, default=0.0)
    return "".join(_BARS[round(number / most * (len(_BARS) - 1))] if most else _BARS[0] for number in numbers)


def wrapped(line: str, indent: int) -> str:
    """Return the line for stdout. On a terminal, break a long line between words, and indent each further line by `indent`.

    A longer word and a command in backticks stay whole, so that they can be copied.
    """
    if not sys.stdout.isatty():
        return line
    width, spaces = shutil.get_terminal_size().columns, " " * indent
    words = re.sub("`[^`]*`", lambda command: command[0].replace(" ", "\0"), line)
    filled = textwrap.fill(words, width, subsequent_indent=spaces, break_long_words=False, break_on_hyphens=False)
    return filled.replace("\0", " ")


def note(text: str) -> None:
    """Print a line on stderr that is not part of the result. With `NOTES`, a command can write its notes to its log instead.

    If stderr cannot be written (a log on a full disk, a closed terminal), the line is lost, and the command continues.
    """
    context = click.get_current_context(silent=True)
    log: Callable[[str], object] | None = None if context is None else context.meta.get(NOTES)
    if log is None:
        with suppress(OSError):
            click.echo(text, err=True)
    else:
        log(text)


def in_foreground(terminal: TextIO) -> bool:
    """Return whether this process is in the terminal's foreground group, and the terminal can erase a line.

    Worker processes of `mqflow run` are not in this group.
    """
    try:
        can_erase = terminal.isatty() and os.environ.get("TERM") != "dumb"
        return can_erase and os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False


def read_text(file: Path | None) -> str:
    """Return the text of the file, or of stdin. If the text is not UTF-8, raise `ClickException` with the place."""
    data = file.read_bytes() if file else sys.stdin.buffer.read()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise click.ClickException(
            f"{file or 'stdin'} is not UTF-8 in line {line}, column {column} (byte 0x{data[error.start]:02x}). "
            "The command did nothing. Save the text as UTF-8."
        ) from error


def show_message(shown: MessageView, number: int) -> None:
    """Print a whole message: why it is on the queue, its descriptor, headers and body."""
    click.secho(safe(f"== Message {number} on {shown.queue}"), bold=True)
    for sentence in shown.why:
        click.echo(wrapped(f"  {safe(sentence)}", 2))
    for section in shown.sections:
        _title(section.title)
        width = max(len(name) for name, _ in section.rows) if section.rows else 0
        for name, value in section.rows:
            click.echo(f"  {safe(name):<{width}}  {safe(value)}")
    _title(f"Body ({shown.body_title})")
    for line in shown.body:
        click.echo(f"  {safe(line)}")
    click.echo()


def show_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: frozenset[int] = frozenset()) -> None:
    """Print rows below the names of their columns. The columns whose numbers are in `numbers` are aligned to the right."""
    lines = [tuple(safe(cell) for cell in row) for row in rows]
    widths = [max(len(row[at]) for row in (columns, *lines)) for at in range(len(columns))]
    rule = "  ".join("-" * width for width in widths)
    click.secho(_line(columns, widths, numbers), bold=True)
    click.echo(rule)
    for line in lines:
        click.echo(_line(line, widths, numbers))


class Progress(Protocol):
    """The progress of one operation."""

    def reached(self, done: float, words: str) -> None:
        """Show how much of the total is done, with `words` that say the same."""


@contextmanager
def progress(title: str, total: float) -> Iterator[Progress]:
    """Show the progress while the block runs: as a bar on a terminal, or as a line for each tenth in a log."""
    if sys.stderr.isatty() and find_spec("rich") is not None:
        with _rich_bar(title, total) as bar:
            yield bar
    else:
        yield _Lines(title, total)


class _Lines:
    """Shows the progress as lines in a log, one line for each tenth."""

    def __init__(self, title: str, total: float) -> None:
        self._title = title
        self._total = total
        self._tenth = 0

    def reached(self, done: float, words: str) -> None:
        tenth = int(10 * done / self._total) if self._total else 0  # if the total is unknown, no tenth is shown
        if tenth > self._tenth:
            self._tenth = tenth
            note(f"{self._title}: {10 * tenth} %, {words}")


@contextmanager
def _rich_bar(title: str, total: float) -> Iterator[Progress]:
    from rich.console import Console  # noqa: PLC0415 - optional, and slow to import
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - as above
    from rich.progress import Progress as Bars  # noqa: PLC0415 - as above

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[words]}"),
    )
    with Bars(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task(title, total=total or None, words="")

        class Bar:
            def reached(self, done: float, words: str) -> None:
                bars.update(task, completed=done, words=words)

        yield Bar()


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def _title(text: str) -> None:
    click.echo()
    click.secho(safe(text), bold=True)


def _line(cells: Sequence[str], widths: Sequence[int], numbers: frozenset[int]) -> str:
    aligned = (
        cell.rjust(width) if at in numbers else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(aligned).rstrip()
