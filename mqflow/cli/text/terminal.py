"""What reaches the terminal: text made safe, messages laid out, a progress bar. With rich where it is installed, plain without.

Results go to stdout, everything about getting them to stderr. Knows how things look; knows no queue.
"""

import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final, Protocol

import click

from mqflow.cli.text.message_view import MessageView

__all__ = ("Progress", "counted", "note", "progress", "safe", "show_message", "show_table")

_UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Control, format (bidirectional overrides among them), lone surrogates, line and paragraph separators."""


def safe(text: str) -> str:
    """Return the text as one line that no terminal acts upon: what would be is written by its number, as Python does."""
    if text.isprintable():
        return text
    return "".join(_escaped(letter) if unicodedata.category(letter) in _UNSAFE else letter for letter in text)


def counted(number: int, things: str) -> str:
    """Return how many of these things there are, in words: ``1 message``, ``2,000 messages``."""
    return f"{number:,} {things.removesuffix('s') if number == 1 else things}"


def note(text: str) -> None:
    """Tell the person something that is not the result."""
    click.echo(text, err=True)


def show_message(shown: MessageView, number: int) -> None:
    """Print a message whole: why it is here, descriptor, headers, body."""
    _heading(f"Message {number} on {shown.queue}")
    for sentence in shown.why:
        click.echo(f"  {safe(sentence)}")
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
    """Print rows below their columns' names; the columns in `numbers` stand to the right."""
    lines = [tuple(safe(cell) for cell in row) for row in rows]
    widths = [max(len(row[at]) for row in (columns, *lines)) for at in range(len(columns))]
    rule = "  ".join("-" * width for width in widths)
    click.secho(_line(columns, widths, numbers), bold=True)
    click.echo(rule)
    for line in lines:
        click.echo(_line(line, widths, numbers))


class Progress(Protocol):
    """How far something is."""

    def reached(self, done: float, words: str) -> None:
        """Say that this much of the total is done, and in words what that is."""
        ...


@contextmanager
def progress(title: str, total: float) -> Iterator[Progress]:
    """Show progress while the block runs: a bar on a terminal, a line for each tenth in a log."""
    if sys.stderr.isatty() and find_spec("rich") is not None:
        with _rich_bar(title, total) as bar:
            yield bar
    else:
        yield _Lines(title, total)


class _Lines:
    """A line for each tenth of the way: what a log can show."""

    def __init__(self, title: str, total: float) -> None:
        self._title = title
        self._total = total
        self._tenth = 0

    def reached(self, done: float, words: str) -> None:
        tenth = int(10 * done / self._total) if self._total else 0  # of something without a known end there are no tenths
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


def _heading(text: str) -> None:
    click.secho(f"== {safe(text)}", bold=True)


def _title(text: str) -> None:
    click.echo()
    click.secho(safe(text), bold=True)


def _line(cells: Sequence[str], widths: Sequence[int], numbers: frozenset[int]) -> str:
    aligned = (
        cell.rjust(width) if at in numbers else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(aligned).rstrip()
