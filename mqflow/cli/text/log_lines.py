"""The log of `mqflow run`: lines for a terminal, lines for a file, or JSON for a program that collects logs.

No line contains a message body or a secret, because mqflow puts neither into a log record. But the text of an exception comes
from the application.
"""

import json
import logging
import re
import traceback
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import mqflow
from mqflow.app.handlers.middleware import Call, Incoming
from mqflow.cli.text.terminal import safe
from mqflow.policy.poison.disposition import Outcome
from mqflow.runtime.hooks import LOG_FIELDS

__all__ = ("JSONLines", "LogFormat", "NameTheMessage", "PlainLines", "TerminalLines", "log_handler")

LogFormat = Literal["console", "json"]

_PLAIN: Final = "%(asctime)s %(levelname)-7s %(process)d %(name)s: %(message)s"
_MESSAGE_ID: Final = re.compile(r"message [0-9a-f]{36}([0-9a-f]{12})\b")
_OF_EVERY_RECORD: Final = frozenset({*logging.makeLogRecord({}).__dict__, "asctime", "message", "taskName"})
_LEVELS: Final = {logging.WARNING: "!", logging.ERROR: "!!", logging.CRITICAL: "!!"}
_TRACEBACKS_MAX: Final = 1_000
_COLUMNS: Final = 80
"""The columns of a terminal whose width is 0, such as a serial line: nobody has told the system the width."""
_MQFLOW: Final = str(Path(mqflow.__file__).parent)


class Stream(Protocol):
    """The part of a stream that a log handler needs."""

    def write(self, text: str, /) -> object:
        """Write the text."""
        ...

    def flush(self) -> None:
        """Flush the stream."""


def log_handler(
    log_format: LogFormat, stream: Stream, *, columns: Callable[[], int] | None, worker: str = ""
) -> logging.Handler:
    """Return a handler that writes to the stream. `columns` returns the width of the terminal; None if there is no terminal.

    `worker` is the number of a worker process, because several of them can write to one terminal.
    """
    handler = logging.StreamHandler(stream)
    if log_format == "json":
        handler.setFormatter(JSONLines())
        handler.addFilter(_with_message)
    else:
        handler.setFormatter(PlainLines() if columns is None else TerminalLines(columns, worker))
    return handler


class JSONLines(logging.Formatter):
    """One JSON object on each line: time (UTC), level, logger, process, text, and the attributes of the record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "text": record.getMessage(),
        }
        own = record.__dict__
        fields |= {name: own[name] for name in LOG_FIELDS if name in own}
        fields |= {name: value for name, value in own.items() if name not in _OF_EVERY_RECORD and name not in fields}
        if record.exc_info and record.exc_info[1] is not None:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


class PlainLines(logging.Formatter):
    """A line for a file: time, level, process, logger and text. Only a traceback or a stack adds further lines."""

    def __init__(self) -> None:
        super().__init__(_PLAIN)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. Control characters become escapes."""
        return "\n".join(map(safe, super().format(record).split("\n")))


class TerminalLines(logging.Formatter):
    """A line for a person at a terminal: time and text, cut at the terminal's width. `!` marks a warning, `!!` an error.

    A line from a worker process begins with the number of the process. A MsgId is shortened to its last 12 digits, which
    `mqflow why` accepts. A traceback is written only once for the same line of code, and without the frames of mqflow. If the
    traceback of a record that is cut is not written, the exception has a line of its own.
    """

    def __init__(self, columns: Callable[[], int], worker: str = "") -> None:
        super().__init__()
        self._columns: Final = columns
        self._worker: Final = f"{worker} " if worker else ""
        self._traced: set[tuple[type[BaseException], int | None]] = set()

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of the record. No line is wider than the terminal."""
        columns = self._columns() or _COLUMNS
        first, *more = record.getMessage().split("\n")
        first = _MESSAGE_ID.sub(r"..\1", first)
        time = datetime.fromtimestamp(record.created).astimezone()
        mark = _LEVELS.get(record.levelno, " ")
        first = f"{time:%H:%M:%S} {self._worker}{mark:<2} {first}"
        lines = [first, *more, *self._traceback(record, is_cut=len(safe(first)) > columns)]
        return "\n".join(_cut(safe(line), columns) for line in lines)

    def _traceback(self, record: logging.LogRecord, *, is_cut: bool) -> Iterator[str]:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return
        own = _own_frames(error)
        if not own and error.__cause__ is not None:  # an exception of mqflow stands for the exception of a codec
            error = error.__cause__
            own = _own_frames(error)
        key = (type(error), hash((own[-1].filename, own[-1].lineno)) if own else None)
        is_known = key in self._traced
        if len(self._traced) < _TRACEBACKS_MAX:
            self._traced.add(key)
        frames = [] if is_known else traceback.format_list(own)
        exception = [] if is_known and not is_cut else traceback.format_exception_only(error)
        for entry in (*frames, *exception):
            yield from entry.rstrip("\n").split("\n")


def _own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    return [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_MQFLOW)]


def _cut(line: str, columns: int) -> str:
    return line if len(line) <= columns else f"{line[: columns - 1]}…"


# -- the message of a handler, for the log lines that the handler itself writes

_handling: Final[ContextVar[Incoming | None]] = ContextVar("mqflow_handling", default=None)


class NameTheMessage:
    """A middleware that adds the fields of the message to the log lines of its handler. mqflow's own lines have the fields."""

    async def consume(self, delivery: Incoming, call_next: Call) -> Outcome:
        """Return the result of `call_next`. Meanwhile, log lines get the fields of the message."""
        token = _handling.set(delivery)
        try:
            return await call_next(delivery)
        finally:
            _handling.reset(token)


def _with_message(record: logging.LogRecord) -> bool:
    """Add the fields of the message that this code handles, if the record does not have the fields of an event."""
    delivery = _handling.get()
    # hasattr: a log record has the attributes in its caller's `extra`.
    if delivery is not None and not hasattr(record, "event"):
        fields = {
            "queue": delivery.queue,
            "message_id": delivery.message.message_id.hex(),
            "listener": delivery.listener,
            "trace_id": next((each.trace_id for each in delivery.deliveries if each.trace_id), ""),
        }
        for name, value in fields.items():
            # hasattr: as above.
            if value and not hasattr(record, name):
                setattr(record, name, value)
    return True
