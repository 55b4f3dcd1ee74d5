"""Builds the answers of DISPLAY: selects objects and attributes, and formats them as text, as JSON or as a script.

This module is pure. A row maps the fields of a queue, a status or the queue manager to their values. The table of attributes
says how each value is shown.
"""

from collections.abc import Iterable, Iterator, Mapping
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, assert_never

from msgspec import Struct
from msgspec.structs import asdict

from mqflow.embedded.administration.interface import QueueStatus
from mqflow.embedded.mqsc.commands import DisplayCommand, DisplayStatus, Operator, Selection, Value, Where
from mqflow.embedded.mqsc.values import printable, quoted, word_of
from mqflow.embedded.mqsc.vocabulary import HANDLE_STATUS, KINDS, QUEUE_STATUS, QUEUES, Attributes
from mqflow.mqi.attributes.queue import QUEUE_ATTRIBUTES, AttributeSpec, QueueAttributes

__all__ = (
    "Cell",
    "Record",
    "as_json",
    "as_text",
    "laid_out",
    "matches",
    "show_queues",
    "show_status",
    "to_mqsc",
)

_INDENT: Final = "   "
_COLUMN: Final = 40

_COMPARE: Final = {Operator.LT: lt, Operator.GT: gt, Operator.EQ: eq, Operator.NE: ne, Operator.LE: le, Operator.GE: ge}


class Cell(Struct, frozen=True):
    """One attribute of one object."""

    keyword: str
    #: The value as in MQSC, without quotes. For an attribute such as SHARE or NOSHARE, the word that applies.
    word: str
    #: The value for a program: a number or a word. For an attribute such as SHARE or NOSHARE, True if the first word applies.
    value: Value
    #: True if the word is shown without keyword and brackets.
    alone: bool = False


class Record(Struct, frozen=True):
    """One object in the answer of a DISPLAY."""

    #: The first line, which names the kind of the object.
    heading: str
    cells: tuple[Cell, ...]


_Row = Mapping[str, Any]  # Any: the table of attributes gives each value its type


def show_queues(queues: Iterable[QueueAttributes], command: DisplayCommand) -> tuple[Record, ...]:
    """Return a record with the attributes to show, for each queue with the requested name and kind."""
    records: list[Record] = []
    for queue in queues:
        if not matches(command.pattern, queue.name) or command.kind not in {0, queue.kind}:
            continue
        records += laid_out(
            "AMQ8409: Queue details.", [asdict(queue)], QUEUES[queue.kind], ("QUEUE", "TYPE"), command.selection
        )
    return tuple(records)


def show_status(statuses: Iterable[QueueStatus], command: DisplayStatus) -> tuple[Record, ...]:
    """Return the status of each queue, or a record for each of its open handles."""
    attributes = HANDLE_STATUS if command.handles else QUEUE_STATUS
    rows = _handle_rows(statuses) if command.handles else (asdict(status) | {"type": "QUEUE"} for status in statuses)
    return tuple(laid_out("AMQ8450: Queue status details.", rows, attributes, ("QUEUE", "TYPE"), command.selection))


def matches(pattern: str, text: str) -> bool:
    """Return whether the pattern matches the text. An asterisk at its end matches any rest of the text."""
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


def as_text(record: Record) -> str:
    """Return the record as text: the heading, then two attributes on each line, or one attribute if the first is wide."""
    lines = [record.heading]
    waiting = ""
    for cell in record.cells:
        shown = printable(cell.word) if cell.alone else f"{cell.keyword}({printable(cell.word) or ' '})"
        if waiting and len(waiting) < _COLUMN:
            lines.append(f"{_INDENT}{waiting:<{_COLUMN}}{shown}")
            waiting = ""
        else:
            if waiting:
                lines.append(_INDENT + waiting)
            waiting = shown
    if waiting:
        lines.append(_INDENT + waiting)
    return "\n".join(lines)


def as_json(record: Record) -> dict[str, Value]:
    """Return the values by keyword: True or False for an attribute such as SHARE or NOSHARE, otherwise a number or a word."""
    return {cell.keyword: cell.value for cell in record.cells}


def to_mqsc(attributes: QueueAttributes) -> str:
    """Return the DEFINE command of this queue, with every attribute and REPLACE.

    The command defines the same queue on any queue manager, whatever its default attributes are. A line end in a description
    becomes a blank, because an MQSC string cannot contain line ends. `parse` can read the command.
    """
    noun = next(noun for noun, kind in KINDS.items() if kind == attributes.kind)
    settings = [
        _setting(spec, asdict(attributes)[spec.field])
        for spec in sorted(QUEUE_ATTRIBUTES, key=lambda spec: spec.keyword)
        if attributes.kind in spec.kinds and not spec.read_only
    ]
    return " +\n   ".join([f"DEFINE {noun}({quoted(attributes.name)})", *settings, "REPLACE"]) + "\n"


def laid_out(
    heading: str, rows: Iterable[_Row], attributes: Attributes, always: tuple[str, ...], selection: Selection
) -> Iterator[Record]:
    """Yield a record for each selected row. The keywords of `always` come first, then the other keywords, sorted."""
    wanted = set(selection.keywords)
    if selection.where is not None:
        wanted.add(selection.where.keyword)
    if selection.everything:
        wanted = {spec.keyword for spec in attributes.values()}
    first = [keyword for keyword in always if keyword in attributes]
    keywords = [*first, *sorted(wanted.intersection(attributes).difference(always))]
    conditions = [condition for condition in (selection.where, selection.type) if condition is not None]
    for row in rows:
        if all(_holds(condition, row, attributes) for condition in conditions):
            yield Record(heading, tuple(_cell(keyword, row, attributes) for keyword in keywords))


def _setting(spec: AttributeSpec, value: Value) -> str:
    if spec.flag:
        return word_of(spec, value)
    return f"{spec.keyword}({quoted(str(value)) if spec.chars else word_of(spec, value)})"


def _cell(keyword: str, row: _Row, attributes: Attributes) -> Cell:
    spec = attributes[keyword]
    value: Value | None = row[spec.field]
    word = word_of(spec, value)
    if spec.flag:
        return Cell(keyword, word, bool(value), alone=True)
    return Cell(keyword, word, value if isinstance(value, int) and word.removeprefix("-").isdecimal() else word)


def _holds(where: Where, row: _Row, attributes: Attributes) -> bool:
    spec = attributes.get(where.keyword)
    value = row[spec.field] if spec else None
    if value is None:  # the object lacks the attribute, or the attribute has no value yet
        return False
    match where.operator:
        case Operator.LK:
            return matches(str(where.operand), value)
        case Operator.NL:
            return not matches(str(where.operand), value)
        case Operator.LT | Operator.GT | Operator.EQ | Operator.NE | Operator.LE | Operator.GE:
            return bool(_COMPARE[where.operator](value, where.operand))
        case unknown:
            assert_never(unknown)


def _handle_rows(statuses: Iterable[QueueStatus]) -> Iterator[_Row]:
    for status in statuses:
        for handle in status.handles:
            yield asdict(handle) | {"name": status.name, "type": "HANDLE"}
