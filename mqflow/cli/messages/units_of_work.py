"""Puts many messages, at most 500 in a unit of work, and says after an early end what is committed and how to continue.

`mqflow put` and `mqflow replay` use it. This file does not know what the messages are.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, TypeVar

from msgspec import Struct, field

from mqflow.app.errors import PayloadError
from mqflow.cli.messages.put_bodies import Bodies, UnreadableLineError
from mqflow.cli.text.terminal import Progress, counted, progress
from mqflow.many_verbs import open_to_put
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import OpenOption
from mqflow.policy.reconnect.reason_classes import leaves_in_doubt
from mqflow.verbs import Connection, ObjectHandle, Put

__all__ = ("Result", "put_in_units", "uninterrupted")

_UNIT_OF_WORK: Final = 500

P = TypeVar("P")


class Result(Struct):
    """The result of a put command."""

    #: The number of committed messages.
    committed: int = 0
    #: The MsgIds of the committed messages. Empty for lines of a file, because there can be millions of lines.
    message_ids: list[bytes] = field(default_factory=list[bytes])
    #: The number of messages that are in doubt, because their commit got no answer.
    in_doubt: int = 0
    #: Sentences: the reason of an early end, and how to continue; empty if all messages were put.
    stopped: str = ""
    #: True if Ctrl-C was the reason of the early end.
    interrupted: bool = False


def put_in_units(
    connection: Connection, queue: str, source: Bodies[P], options: OpenOption, put: Callable[[ObjectHandle, P], Put]
) -> Result:
    """Put all messages with `put`, at most 500 in a unit of work. Stop when a put is refused, or a body cannot be read.

    `options` open the queue. After an early end, the caller must back out the open unit of work.
    """
    units = _UnitsOfWork(connection, source)
    result = units.result
    number = 0
    try:
        handle = open_to_put(connection, queue, options)
        with _progress(queue, source) as bar:
            for payload, number, reached in source.each:
                units.message_ids.append(put(handle, payload).descriptor.message_id)
                if len(units.message_ids) == _UNIT_OF_WORK:
                    units.commit(number)
                    bar.reached(reached, counted(result.committed, "messages"))
            units.commit(number)
            bar.reached(source.total, counted(result.committed, "messages"))
    except MQIError as error:
        result.in_doubt = len(units.message_ids) if leaves_in_doubt(error) else 0
        result.stopped = f"{_place(source, number)}{error}{units.progress_text(number)}"
    except KeyboardInterrupt:
        result.stopped = f"Interrupted.{units.progress_text()}"
        result.interrupted = True
    except UnreadableLineError as error:
        result.stopped = f"{error}{units.progress_text()}"
    except PayloadError as error:  # its own text says "Nothing was put", but earlier units of work can be committed
        result.stopped = f"{_place(source, number)}It cannot be encoded: {error.problem}.{units.progress_text()}"
    return result


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block, so that the counts agree with the commits."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if received:
        raise KeyboardInterrupt


class _UnitsOfWork:
    """The units of work of one command: the open unit of work, and the result of the committed units."""

    def __init__(self, connection: Connection, source: Bodies[Any]) -> None:
        self._connection = connection
        self._source = source
        self.result = Result()
        #: The MsgIds in the open unit of work.
        self.message_ids: list[bytes] = []
        #: The number of the first line or argument that is not committed.
        self._next_number = source.first

    def commit(self, last: int) -> None:
        """Commit the messages up to the line or argument `last`, and count them."""
        with uninterrupted():
            self._connection.commit()
            self.result.committed += len(self.message_ids)
            self._next_number = last + 1
            if not self._source.lines:
                self.result.message_ids.extend(self.message_ids)
            self.message_ids.clear()

    def progress_text(self, last: int = 0) -> str:
        """Return sentences about the messages so far and how to continue, with a blank in front.

        If a unit of work is in doubt, `last` is the number of its last line or argument.
        """
        result, resume = self.result, f" Continue with --from-line {self._next_number}"
        if not result.committed and not result.in_doubt:
            return " Nothing was put."
        said = f" Committed: {counted(result.committed, 'messages')}." if result.committed else ""
        if result.in_doubt:
            doubtful = counted(result.in_doubt, "messages")
            said += f" The commit got no answer, so {doubtful} up to this one may be put: look at the queue."
            resume += f" if they are not there, else with --from-line {last + 1}"
        return f"{said}{resume}." if self._source.lines else said


def _place(source: Bodies[Any], number: int) -> str:
    return f"{'Line' if source.lines else 'Message'} {number:,}: " if number else ""


class _NoBar:
    """A progress bar that shows nothing."""

    def reached(self, done: float, words: str) -> None:
        """Show nothing: the progress of a few messages need not be shown."""


def _progress(queue: str, source: Bodies[Any]) -> AbstractContextManager[Progress]:
    return progress(f"Putting on {queue}", source.total) if source.lines else nullcontext(_NoBar())
